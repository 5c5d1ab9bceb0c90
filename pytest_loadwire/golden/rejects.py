"""The payload vectors that no router may take, spelled by hand.

The hex and the verdict of each stand side by side; nothing here asks a decoder what it thinks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden import spell
from pytest_loadwire.golden.payloads import GOLDENS, golden_shape
from pytest_loadwire.golden.shape import Shape, reject, vector, wrong
from pytest_loadwire.rules import Hazard, Reason
from pytest_loadwire.vectors import PayloadVector, Reject
from pytest_loadwire.wire import REVISIONS, TAG

if TYPE_CHECKING:
    from collections.abc import Iterator

# What stands where the array belongs: id, hex, reason, why.
TOP_LEVEL: tuple[tuple[str, str, Reason, str], ...] = (
    ("empty", "", Reason.TRUNCATED, "no byte at all"),
    ("nil", "c0", Reason.NOT_ARRAY, "nil"),
    ("true", "c3", Reason.NOT_ARRAY, "a bool"),
    ("zero", "00", Reason.NOT_ARRAY, "the integer 0"),
    ("negative", "ff", Reason.NOT_ARRAY, "the integer -1"),
    ("uint-64", "cf0000000000000007", Reason.NOT_ARRAY, "a bare 64-bit integer, like frame 1"),
    ("float", "cb401c000000000000", Reason.NOT_ARRAY, "a float"),
    ("str", "a84c6f616453746174", Reason.NOT_ARRAY, "the tag alone, without an array"),
    ("str-cut", "d9", Reason.NOT_ARRAY, "a str header cut short: its first byte says enough"),
    ("bin", "c4026869", Reason.NOT_ARRAY, "a bin"),
    ("ext", "d40500", Reason.NOT_ARRAY, "an ext"),
    ("timestamp", "d6ff65500000", Reason.NOT_ARRAY, "a timestamp"),
    ("text", "7b7d", Reason.NOT_ARRAY, "JSON text: its first byte is a small integer"),
    ("map-empty", "80", Reason.NOT_ARRAY, "an idle LoadSnapshot, which leaves out every default"),
    (
        "map-load-snapshot",
        (
            "84b06e756d5f72756e6e696e675f7265717305b06e756d5f77616974696e675f7265717302"
            "af6e756d5f757365645f746f6b656e7364b46d61785f746f74616c5f6e756d5f746f6b656e73cd03e8"
        ),
        Reason.NOT_ARRAY,
        "a LoadSnapshot map, the alternative that was not chosen for the load socket",
    ),
    (
        "map-named-fields",
        (
            "85b06e756d5f72756e6e696e675f7265717307b06e756d5f77616974696e675f7265717303"
            "aa6e756d5f746f6b656e73cd0400b46d61785f746f74616c5f6e756d5f746f6b656e73cd2000"
            "ac6174746e5f64705f72616e6b02"
        ),
        Reason.NOT_ARRAY,
        "a LoadStat sent as a map of field names, without array_like",
    ),
    (
        "map-flat",
        "83a84c6f61645374617411cc82cd9c40ce000f424005",
        Reason.NOT_ARRAY,
        "the elements of rev1-golden-a under a map header: three pairs that look like six elements",
    ),
    ("map-16", "de0000", Reason.NOT_ARRAY, "an empty map with a wide header"),
    ("map-lying", "df80000000", Reason.NOT_ARRAY, "a map header that announces 2^31 pairs"),
    ("reserved-marker", "c1", Reason.MALFORMED, "the one marker that msgpack never uses"),
    ("array-16-cut", "dc00", Reason.TRUNCATED, "an array header cut short"),
    ("array-32-cut", "dd000000", Reason.TRUNCATED, "an array header cut short"),
    ("array-empty", "90", Reason.TOO_SHORT, "an empty array, header fixarray"),
    ("array-16-empty", "dc0000", Reason.TOO_SHORT, "an empty array, header array 16"),
    ("array-32-empty", "dd00000000", Reason.TOO_SHORT, "an empty array, header array 32"),
)

# What stands where the tag belongs: id, hex, why. Each is whole; the elements behind it are good.
BAD_TAGS: tuple[tuple[str, str, str], ...] = (
    ("prefix", "a74c6f6164537461", "LoadSta, a prefix of the tag"),
    ("suffix", "a94c6f61645374617432", "LoadStat2, the tag and more"),
    ("lower-case", "a86c6f616473746174", "loadstat"),
    ("upper-case", "a84c4f414453544154", "LOADSTAT"),
    ("blank-behind", "a94c6f61645374617420", "LoadStat with a blank behind it"),
    ("nul-behind", "a94c6f61645374617400", "LoadStat with a NUL behind it"),
    ("empty", "a0", "the empty str"),
    ("not-utf-8", "a84c6f6164537461ff", "LoadSta and a byte that is no UTF-8"),
    ("load-snapshot", "ac4c6f6164536e617073686f74", "LoadSnapshot, another struct of the engine"),
    ("kv-event", "ab426c6f636b53746f726564", "BlockStored, an event of the KV stream"),
    ("int", "07", "the first count: an array without a tag"),
    ("nil", "c0", "nil"),
    ("true", "c3", "a bool"),
    ("float", "cb41d954fa8e800000", "a timestamp, like the head of a KV-event batch"),
    ("array", "91a84c6f616453746174", "the tag inside an array of its own"),
    ("map", "81a84c6f616453746174c0", "the tag as a map key"),
    ("ext", "c708054c6f616453746174", "the tag as an ext body"),
)

# What stands where a count belongs: id, hex, reason, why.
BAD_COUNTS: tuple[tuple[str, str, Reason, str], ...] = (
    ("nil", "c0", Reason.BAD_TYPE, "nil"),
    ("false", "c2", Reason.BAD_TYPE, "false, which some languages count as 0"),
    ("true", "c3", Reason.BAD_TYPE, "true, which some languages count as 1"),
    ("float-32", "ca40e00000", Reason.BAD_TYPE, "the float 7.0 in 32 bits"),
    ("float-64", "cb401c000000000000", Reason.BAD_TYPE, "the float 7.0"),
    ("float-64-fraction", "cb401e000000000000", Reason.BAD_TYPE, "the float 7.5"),
    ("float-64-nan", "cb7ff8000000000000", Reason.BAD_TYPE, "not a number"),
    ("str", "a137", Reason.BAD_TYPE, "the digit 7 as text"),
    ("str-not-utf-8", "a2fffe", Reason.BAD_TYPE, "text that is no UTF-8"),
    ("bin", "c40107", Reason.BAD_TYPE, "the byte 7 as bin"),
    ("array-empty", "90", Reason.BAD_TYPE, "an empty array"),
    ("array-of-one", "9107", Reason.BAD_TYPE, "a count inside an array of its own"),
    ("map-empty", "80", Reason.BAD_TYPE, "an empty map"),
    ("map-int-key", "810107", Reason.BAD_TYPE, "a map"),
    ("fixext", "d40507", Reason.BAD_TYPE, "an ext"),
    ("timestamp", "d6ff65500000", Reason.BAD_TYPE, "a timestamp"),
    ("ext-bad-timestamp", "c703ff010203", Reason.BAD_TYPE, "a timestamp of an illegal length"),
    ("minus-1", "ff", Reason.OUT_OF_RANGE, "-1, which wraps to 2^64-1"),
    ("minus-32", "e0", Reason.OUT_OF_RANGE, "-32, the smallest negative fixint"),
    ("minus-33", "d0df", Reason.OUT_OF_RANGE, "-33 as int 8"),
    ("minus-129", "d1ff7f", Reason.OUT_OF_RANGE, "-129 as int 16"),
    ("minus-32769", "d2ffff7fff", Reason.OUT_OF_RANGE, "-32769 as int 32"),
    ("minus-2-63", "d38000000000000000", Reason.OUT_OF_RANGE, "-2^63 as int 64"),
)

# Every slot: those of revision 1, and the first as well as all appended ones of revision 2.
SLOTS = {1: (1, 2, 3, 4, 5), 2: (1, 6, 7, 8, 9, 10)}

# An announced length that the bytes do not keep. Each stands behind the elements of a golden, or
# in their place; a decoder that allocates by it dies.
LYING_TAILS: tuple[tuple[str, str, str], ...] = (
    ("str-32", "db80000000", "a str of 2^31 bytes"),
    ("bin-32", "c680000000", "a bin of 2^31 bytes"),
    ("ext-32", "c98000000005", "an ext of 2^31 bytes"),
    ("ext-32-most", "c9ffffffff05", "an ext of 2^32-1 bytes, and one more for its type"),
    ("array-32", "dd80000000", "an array of 2^31 elements"),
    ("map-32", "df80000000", "a map of 2^31 pairs"),
    ("array-32-most", "ddffffffff", "an array of 2^32-1 elements"),
)


def reject_vectors() -> Iterator[PayloadVector]:
    """Every payload vector that a router of some revision must refuse."""
    yield from _top_level()
    yield from _bad_tags()
    yield from _too_short()
    yield from _bad_counts()
    yield from _malformed()
    yield from _cuts()
    yield from _lies()


def _spelled(
    vector_id: str, raw: bytes, refusal: Reject, *, since: int, why: str, source: str
) -> PayloadVector:
    return PayloadVector(
        id=vector_id,
        rule="W10" if refusal.reason is Reason.TOO_SHORT and not refusal.element else refusal.rule,
        kind="reject",
        since=since,
        why=why,
        source=source,
        hex=raw.hex(),
        spellings={},
        engine=None,
        readers={str(revision): refusal for revision in REVISIONS},
    )


def _top_level() -> Iterator[PayloadVector]:
    for name, given, reason, why in TOP_LEVEL:
        raw = bytes.fromhex(given)
        refusal = reject(
            reason,
            offset=len(raw) if reason is Reason.TRUNCATED else 0,
            element=0 if reason is Reason.TOO_SHORT else None,
            hazard=Hazard.ATTRACTS_ALL,
        )
        yield _spelled(f"top-{name}", raw, refusal, since=1, why=why, source="spelled by hand")


def _bad_tags() -> Iterator[PayloadVector]:
    for name, given, why in BAD_TAGS:
        yield vector(
            Shape(golden_shape(2).elements, tag=bytes.fromhex(given), tag_reason=Reason.BAD_TAG),
            id=f"tag-{name}",
            rule="W1",
            kind="reject",
            since=1,
            why=f"in place of the tag: {why}",
            source="rev2-golden-a with element 0 spelled by hand",
        )
    batch = "93cb41d954fa8e8000009197ab426c6f636b53746f7265649101c0910110c0c000"
    yield _spelled(
        "tag-kv-event-batch",
        bytes.fromhex(batch),
        reject(Reason.BAD_TAG, offset=1, element=0, hazard=Hazard.ATTRACTS_ALL),
        since=1,
        why="a whole batch of the KV-event stream: timestamp, events, rank",
        source="spelled by hand after the form of SGLang's KV-event batches",
    )
    yield _spelled(
        "tag-unknown-and-short",
        bytes.fromhex("92a14c07"),
        reject(Reason.BAD_TAG, offset=1, element=0, hazard=Hazard.ATTRACTS_ALL),
        since=1,
        why="another tag in a short array: it is no LoadStat at all, so its length is no matter",
        source="spelled by hand",
    )


def _too_short() -> Iterator[PayloadVector]:
    for length in range(1, 5):
        yield vector(
            Shape(golden_shape(1).elements[: length - 1]),
            id=f"too-short-{length}-elements",
            rule="W9",
            kind="reject",
            since=1,
            why=f"{length} of 6 elements: what is missing is unknown, not 0",
            source="rev1-golden-a cut to whole elements",
        )
    yield vector(
        Shape([wrong(bytes.fromhex("cb401c000000000000"))]),
        id="too-short-and-float",
        rule="W9",
        kind="reject",
        since=1,
        why="2 elements, the second a float: the length is judged first",
        source="spelled by hand",
    )


def _bad_counts() -> Iterator[PayloadVector]:
    for revision, slots in SLOTS.items():
        for index in slots:
            field = REVISIONS[revision].__struct_fields__[index - 1]
            for name, given, reason, why in BAD_COUNTS:
                # nil is a legal rank, and in an appended count it is a policy of its own
                if name == "nil" and index >= 5:
                    continue
                yield vector(
                    golden_shape(revision).with_element(index, wrong(bytes.fromhex(given), reason)),
                    id=f"rev{revision}-{field.replace('_', '-')}-{name}",
                    rule="W5",
                    kind="reject",
                    since=revision,
                    why=f"in place of {field}: {why}",
                    source=f"rev{revision}-golden-a with element {index} spelled by hand",
                )


def _malformed() -> Iterator[PayloadVector]:
    never = bytes([0xC1])
    places: tuple[tuple[str, Shape, str], ...] = (
        ("first-count", _replaced(1, never), "in place of the first count"),
        ("middle-count", _replaced(5, never), "in place of the rank"),
        ("last-count", _replaced(10, never), "in place of the last count"),
        (
            "inside-count",
            _replaced(3, b"\x92\x01" + never, 2),
            "inside an array at a count's place",
        ),
        ("tail", _appended(never), "as an unknown element"),
        ("inside-tail", _appended(b"\x92\x91\x01" + never, 3), "deep inside an unknown element"),
    )
    for name, shape, why in places:
        yield vector(
            shape,
            id=f"malformed-{name}",
            rule="W10",
            kind="reject",
            since=2,
            why=f"the marker that msgpack never uses, {why}",
            source="rev2-golden-a and c1, spelled by hand",
        )
    shape = golden_shape(2)
    yield _spelled(
        "malformed-tag",
        spell.array_header(11) + never + b"".join(e.raw for e in shape.elements),
        reject(Reason.MALFORMED, offset=1, element=0),
        since=1,
        why="the marker that msgpack never uses, in place of the tag",
        source="rev2-golden-a and c1, spelled by hand",
    )


def _replaced(index: int, raw: bytes, at: int = 0) -> Shape:
    return golden_shape(2).with_element(index, wrong(raw, Reason.MALFORMED, at))


def _appended(raw: bytes, at: int = 0) -> Shape:
    return Shape([*golden_shape(2).elements, wrong(raw, Reason.MALFORMED, at)])


def _cuts() -> Iterator[PayloadVector]:
    for revision in GOLDENS:
        shape = golden_shape(revision)
        starts = [shape.offset(index) for index in range(len(shape))]
        names = ("tag", *REVISIONS[revision].__struct_fields__)
        for length in range(1, len(shape.raw)):
            element = sum(start <= length for start in starts) - 1
            yield _spelled(
                f"rev{revision}-cut-to-{length:02d}-bytes",
                shape.raw[:length],
                reject(Reason.TRUNCATED, offset=length, element=element, name=names[element]),
                since=revision,
                why=f"the payload ends after {length} of {len(shape.raw)} bytes,"
                f" where {names[element]} is read",
                source=f"rev{revision}-golden-a, cut",
            )


def _lies() -> Iterator[PayloadVector]:
    body = spell.text(TAG.encode()) + b"".join(e.raw for e in golden_shape(2).elements)
    for name, header, why in (
        ("2-31", "dd80000000", "2^31 elements"),
        ("2-31-and-11", "dd8000000b", "2^31 + 11 elements"),
        ("2-32-less-1", "ddffffffff", "2^32-1 elements"),
        ("12", "9c", "one more element than there is"),
    ):
        raw = bytes.fromhex(header) + body
        yield _spelled(
            f"lying-array-{name}",
            raw,
            reject(Reason.TRUNCATED, offset=len(raw), element=11, hazard=Hazard.CRASH),
            since=2,
            why=f"the array announces {why}; a decoder that allocates by it dies",
            source="rev2-golden-a with the header spelled by hand",
        )
    lying_tag = bytes.fromhex("9bdb80000000") + TAG.encode()
    yield _spelled(
        "lying-tag",
        lying_tag,
        reject(Reason.TRUNCATED, offset=len(lying_tag), element=0, hazard=Hazard.CRASH),
        since=1,
        why="the tag announces 2^31 bytes",
        source="spelled by hand",
    )
    for name, given, why in LYING_TAILS:
        raw = bytes.fromhex("9c") + body + bytes.fromhex(given)
        yield _spelled(
            f"lying-tail-{name}",
            raw,
            reject(Reason.TRUNCATED, offset=len(raw), element=11, hazard=Hazard.CRASH),
            since=2,
            why=f"an unknown element announces {why}",
            source="rev2-golden-a and one element spelled by hand",
        )
    for name, given, why in (
        ("lying-count", "dd80000000", "an array that announces 2^31 elements and ends"),
        ("lying-count-ext", "c9ffffffff05", "an ext that announces 2^32-1 bytes and ends"),
    ):
        raw = spell.array_header(11) + spell.text(TAG.encode()) + bytes.fromhex(given)
        yield _spelled(
            name,
            raw,
            reject(Reason.TRUNCATED, offset=len(raw), element=1, hazard=Hazard.CRASH),
            since=1,
            why=f"in place of the first count, {why}",
            source="spelled by hand",
        )
