"""The payload vectors that a router takes, or may take by policy.

The refusals are spelled in `rejects`. Values are chosen so that a golden sees any two slots swapped
or dropped: they differ from each other and from every default, and spread over the integer widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_loadwire.golden import spell
from pytest_loadwire.golden.shape import Element, Shape, count, vector, wrong
from pytest_loadwire.rules import Policy, Reason
from pytest_loadwire.vectors import Declare
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.vectors import PayloadVector

Values = tuple["int | None", ...]

# Revision 1: running, waiting, tokens, capacity, rank. Revision 2 adds: waiting uncached tokens,
# total tokens, running limit, prefilled tokens, prefill microseconds.
GOLDENS: dict[int, dict[str, Values]] = {
    1: {
        "a": (17, 130, 40_000, 1_000_000, 5),
        "b": (70_000, 9, 5_000_000_000, 300, 200),
        "c": (300, 66_000, 21, 180, 40_001),
        "nil-rank": (19, 131, 40_002, 1_000_001, None),
    },
    2: {
        "a": (17, 130, 40_000, 1_000_000, 5, 300, 70_000, 2_048, 5_000_000_000, 9_876_543_210_123),
        "b": (70_000, 9, 5_000_000_001, 301, 200, 11, 13, 40_003, 140, 66_001),
        "c": (302, 66_002, 21, 180, 40_001, 8_000_000_000, 150, 23, 70_001, 33),
        "nil-rank": (19, 131, 40_002, 1_000_001, None, 303, 70_002, 2_049, 5_000_000_002, 160),
    },
}

# The rule that gives each revision its elements; a new revision comes with a rule of its own.
RULE_OF_REVISION = {1: "W2", 2: "W3"}

# The last value of each integer width and the first of the next, up to 2^64-1.
BOUNDARIES = (
    0,
    1,
    2**7 - 1,
    2**7,
    2**8 - 1,
    2**8,
    2**16 - 1,
    2**16,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)

# Published by SGLang or by a router that decodes it; kept as given, never regenerated.
SGLANG_R1 = "SGLang, golden of its revision 1 test; llm-d-router pins the same bytes in Go"
SGLANG_R2 = "SGLang 0.5.23, golden of its revision 2 test"
SHAPE = "SGLang's unit tests assert this shape; bytes by msgspec 0.23 and msgpack 1.1"
ANCHORS: tuple[tuple[str, int, str, Values, str, str], ...] = (
    (
        "rev1-anchor-sglang",
        1,
        "96a84c6f6164537461740703cd0400cd200002",
        (7, 3, 1024, 8192, 2),
        SGLANG_R1,
        "the bytes that engine and router repositories already pin for revision 1",
    ),
    (
        "rev1-anchor-idle-nil-rank",
        1,
        "96a84c6f61645374617400000000c0",
        (0, 0, 0, 0, None),
        SHAPE,
        "an idle engine without a rank: defaults are sent, not trimmed",
    ),
    (
        "rev1-anchor-small",
        1,
        "96a84c6f6164537461740102030400",
        (1, 2, 3, 4, 0),
        SHAPE,
        "small distinct counts with rank 0",
    ),
    (
        "rev1-anchor-integration",
        1,
        "96a84c6f6164537461740703cd0400cd200000",
        (7, 3, 1024, 8192, 0),
        "SGLang's integration test over a real socket, revision 1",
        "what a rank 0 engine publishes in SGLang's own live test",
    ),
    (
        "rev2-anchor-sglang",
        2,
        "9ba84c6f6164537461740703cd0400cd2000020000000000",
        (7, 3, 1024, 8192, 2, 0, 0, 0, 0, 0),
        SGLANG_R2,
        "the bytes that SGLang pins for revision 2; five zeros, so it cannot see a swapped slot",
    ),
    (
        "rev2-anchor-idle-nil-rank",
        2,
        "9ba84c6f61645374617400000000c00000000000",
        (0, 0, 0, 0, None, 0, 0, 0, 0, 0),
        SHAPE,
        "an idle engine without a rank sends all 11 elements",
    ),
    (
        "rev2-anchor-small",
        2,
        "9ba84c6f61645374617401020304000506070809",
        (1, 2, 3, 4, 0, 5, 6, 7, 8, 9),
        SHAPE,
        "small distinct counts with rank 0",
    ),
    (
        "rev2-anchor-integration",
        2,
        "9ba84c6f6164537461740703cd0400cd200000cd0200cd100040cd4e20ce001e8480",
        (7, 3, 1024, 8192, 0, 512, 4096, 64, 20_000, 2_000_000),
        "SGLang's integration test over a real socket, revision 2",
        "what a rank 0 engine publishes in SGLang's own live test",
    ),
)

# One further element of every msgpack type and format. Integers and nil stand apart: a reader of a
# later revision may take them.
INTEGER_TAILS: dict[str, tuple[int | None, bytes]] = {
    "nil": (None, b"\xc0"),
    "zero": (0, b"\x00"),
    "positive-fixint": (42, b"\x2a"),
    "negative-fixint": (-1, b"\xff"),
    **{f: (most, spell.integer(most, f)) for f, (_, _, _, most) in spell.INT_FORMATS.items()},
    "int-64-smallest": (-(2**63), spell.integer(-(2**63), "int-64")),
}
OTHER_TAILS: dict[str, bytes] = {
    "false": b"\xc2",
    "true": b"\xc3",
    "float-32": bytes.fromhex("ca40e00000"),
    "float-64": bytes.fromhex("cb401c000000000000"),
    "float-64-nan": bytes.fromhex("cb7ff8000000000000"),
    "fixstr": spell.text(b"tail"),
    "fixstr-empty": spell.text(b""),
    "str-8": spell.text(b"t" * 32, "str-8"),
    "str-16": spell.text(b"t" * 256, "str-16"),
    "str-32": spell.text(b"tail", "str-32"),
    "str-not-utf-8": spell.text(b"\xff\xfe"),
    "bin-8": bytes.fromhex("c4021234"),
    "bin-16": bytes.fromhex("c500021234"),
    "bin-32": bytes.fromhex("c6000000021234"),
    "fixarray-empty": b"\x90",
    "fixarray": bytes.fromhex("93010203"),
    "array-16": spell.array_header(16) + b"\x01" * 16,
    "array-32": spell.array_header(2, "array-32") + b"\x01\x02",
    "fixmap-empty": b"\x80",
    "fixmap": bytes.fromhex("82a16101a16202"),
    "map-16": bytes.fromhex("de0001a16101"),
    "map-32": bytes.fromhex("df00000001a16101"),
    "map-int-keys": bytes.fromhex("8201020304"),
    "map-array-key": bytes.fromhex("81910102"),
    "fixext-1": bytes.fromhex("d40500"),
    "fixext-2": bytes.fromhex("d5050001"),
    "fixext-4": bytes.fromhex("d60500010203"),
    "fixext-8": bytes.fromhex("d7050001020304050607"),
    "fixext-16": bytes.fromhex("d805") + bytes(range(16)),
    "ext-8": bytes.fromhex("c70305010203"),
    "ext-16": bytes.fromhex("c8000305010203"),
    "ext-32": bytes.fromhex("c90000000305010203"),
    "timestamp": bytes.fromhex("d6ff65500000"),
    "timestamp-bad-length": bytes.fromhex("c703ff010203"),
    "nested": bytes.fromhex("9382a161930102c0a1629081c0c29191c3"),
    "nested-100-deep": b"\x91" * 100 + b"\xc0",
    "looks-like-load-stat": bytes.fromhex("96a84c6f6164537461740703cd0400cd200002"),
}

TAILS: dict[str, Element] = {
    **{name: wrong(raw) for name, raw in OTHER_TAILS.items()},
    **{name: count(value, raw) for name, (value, raw) in INTEGER_TAILS.items()},
}

# So many elements in all. From 16 on the header cannot be a fixarray any more.
LONG_ARRAYS = (15, 16, 17, 300)


def payload_vectors() -> Iterator[PayloadVector]:
    """Every payload vector that at least one router may take."""
    yield from _goldens()
    yield from _anchors()
    yield from _boundaries()
    yield from _spellings()
    yield from _tails()
    yield from _policies()


def shape_of(values: Sequence[int | None]) -> Shape:
    """The canonical payload with these values behind the tag."""
    return Shape([count(value) for value in values])


def golden_shape(revision: int, name: str = "a") -> Shape:
    """The canonical payload of one golden."""
    return shape_of(GOLDENS[revision][name])


def _names(revision: int) -> tuple[str, ...]:
    return REVISIONS[revision].__struct_fields__


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _goldens() -> Iterator[PayloadVector]:
    for revision, sets in GOLDENS.items():
        for name, values in sets.items():
            yield vector(
                shape_of(values),
                id=f"rev{revision}-golden-{name}",
                rule="W4" if values[4] is None else RULE_OF_REVISION[revision],
                kind="golden",
                since=revision,
                why="an unset rank is sent as nil, every other slot differs"
                if values[4] is None
                else "every slot differs, so a swapped or dropped slot changes the bytes",
                source="values chosen here; canonical msgpack",
                engine=revision,
            )


def _anchors() -> Iterator[PayloadVector]:
    for vector_id, revision, given, values, source, why in ANCHORS:
        shape = shape_of(values)
        assert shape.raw.hex() == given, vector_id  # noqa: S101 - an anchor is never regenerated
        yield vector(
            shape,
            id=vector_id,
            rule="W4" if values[4] is None else RULE_OF_REVISION[revision],
            kind="anchor",
            since=revision,
            why=why,
            source=source,
            engine=revision,
        )


def _boundaries() -> Iterator[PayloadVector]:
    for revision in GOLDENS:
        for index, name in enumerate(_names(revision), 1):
            for value in BOUNDARIES:
                yield vector(
                    golden_shape(revision).with_element(index, count(value)),
                    id=f"rev{revision}-{_dashed(name)}-{value}",
                    rule="W5",
                    kind="boundary",
                    since=revision,
                    why=f"{name} at {value}, where the msgpack integer width changes",
                    source=f"rev{revision}-golden-a with element {index} replaced",
                    engine=revision,
                )


def _spellings() -> Iterator[PayloadVector]:
    for revision, sets in GOLDENS.items():
        values = sets["a"]
        shape = shape_of(values)
        body = b"".join(element.raw for element in shape.elements)
        forms = {
            form: spell.array_header(len(shape), form) + shape.tag + body
            for form in spell.ARRAY_FORMATS[1:]
        }
        forms |= {
            f"tag-{form}": spell.array_header(len(shape)) + spell.text(b"LoadStat", form) + body
            for form in spell.STR_FORMATS[1:]
        }
        forms["array-32-tag-str-32"] = (
            spell.array_header(len(shape), "array-32") + spell.text(b"LoadStat", "str-32") + body
        )
        yield vector(
            shape,
            id=f"rev{revision}-spelled-headers",
            rule="W7",
            kind="spelling",
            since=revision,
            why="array and str headers wider than they need to be",
            source="msgpack specification, array and str format families",
            spellings=forms,
            engine=revision,
        )
        forms = {
            f"{_dashed(name)}-{form}": shape.with_element(index, count(value, raw)).raw
            for index, (name, value) in enumerate(zip(_names(revision), values, strict=True), 1)
            if value is not None
            for form, raw in spell.wider(value).items()
        }
        yield vector(
            shape,
            id=f"rev{revision}-spelled-integers",
            rule="W7",
            kind="spelling",
            since=revision,
            why="one count at a time in every wider integer format, signed and unsigned",
            source="msgpack specification, int format family",
            spellings=forms,
            engine=revision,
        )
        small = [2 * index + 1 for index in range(1, len(_names(revision)) + 1)]
        yield vector(
            shape_of(small),
            id=f"rev{revision}-spelled-uniformly",
            rule="W7",
            kind="spelling",
            since=revision,
            why="every count in the same wider format, as an encoder with fixed widths sends it",
            source="msgpack specification, int format family",
            spellings={
                f"all-{form}": Shape([count(v, spell.integer(v, form)) for v in small]).raw
                for form in spell.INT_FORMATS
            },
            engine=revision,
        )


def _tails() -> Iterator[PayloadVector]:
    shape = golden_shape(2)
    for name, element in TAILS.items():
        yield vector(
            Shape([*shape.elements, element]),
            id=f"tail-{name}",
            rule="W8",
            kind="tail",
            since=2,
            why=f"one unknown element behind revision 2: {name.replace('-', ' ')}",
            source="rev2-golden-a and one element by the msgpack specification",
        )
    for length in LONG_ARRAYS:
        more = [count(1_000 + n) for n in range(length - len(shape))]
        yield vector(
            Shape([*shape.elements, *more]),
            id=f"tail-{length}-elements",
            rule="W8",
            kind="tail",
            since=2,
            why=f"{length} elements in all"
            + (", which no fixarray header can say" if length > 15 else ", the last fixarray"),
            source="rev2-golden-a and further counts, as later revisions would append them",
        )
    yield vector(
        Shape([*golden_shape(1).elements, *TAILS.values()]),
        id="tail-every-type-for-revision-1",
        rule="W8",
        kind="tail",
        since=1,
        why="a reader of revision 1 skips every type; one of revision 2 finds false at a count",
        source="rev1-golden-a and one element of every msgpack format",
    )


def _policies() -> Iterator[PayloadVector]:
    for revision in GOLDENS:
        shape = golden_shape(revision)
        for name, behind, why in (
            ("nil", b"\xc0", "a whole item"),
            ("zero", b"\x00", "a padding byte"),
            ("newline", b"\n", "a line end"),
            ("reserved", b"\xc1", "a byte that is no msgpack"),
            ("second-payload", shape.raw, "a second payload"),
        ):
            yield vector(
                Shape(shape.elements, behind=behind),
                id=f"rev{revision}-trailing-{name}",
                rule="W6",
                kind="policy",
                since=revision,
                why=f"{why} behind the array: no engine sends it, routers differ",
                source=f"rev{revision}-golden-a, followed by {behind.hex()}",
            )
    yield vector(
        Shape(golden_shape(1).elements[:-1]),
        id="rev1-omitted-rank",
        rule="W9",
        kind="policy",
        since=1,
        why="no rank at all: no router reads it for routing, so some do without",
        source="rev1-golden-a without its last element",
    )
    for revision in GOLDENS:
        for form, marker in (("bin-8", "c408"), ("bin-16", "c50008"), ("bin-32", "c600000008")):
            yield _tag_as_bin(revision, form, marker)
    for length in (7, 8, 9, 10):
        yield vector(
            Shape(golden_shape(2).elements[: length - 1]),
            id=f"partial-tail-{length}-elements",
            rule="W12",
            kind="policy",
            since=2,
            why=f"{length} elements, between the revisions: revision 1 and {length - 6} unknown",
            source="rev2-golden-a cut to whole elements",
        )
    yield vector(
        Shape([*golden_shape(1).elements, wrong(b"\xcb\x40\x1c" + bytes(6))]),
        id="partial-tail-float",
        rule="W12",
        kind="tail",
        since=1,
        why="seven elements, the last a float: nothing to refuse, unless the partial tail is read",
        source="rev1-golden-a and float 64 7.0",
    )
    for index in range(6, 11):
        name = _names(2)[index - 1]
        yield vector(
            golden_shape(2).with_element(index, count(None)),
            id=f"rev2-nil-{_dashed(name)}",
            rule="W5",
            kind="policy",
            since=2,
            why=f"nil where {name} belongs: no engine sends it, and it is not 0",
            source=f"rev2-golden-a with element {index} replaced by c0",
        )


def _tag_as_bin(revision: int, form: str, marker: str) -> PayloadVector:
    taken = golden_shape(revision)
    tagged = Shape(
        taken.elements, tag=bytes.fromhex(marker) + b"LoadStat", tag_reason=Reason.BAD_TAG
    )
    made = vector(
        tagged,
        id=f"rev{revision}-tag-{form}",
        rule="W1",
        kind="policy",
        since=revision,
        why="the tag as bin: writers that predate the str type send it, and W1 asks for a string",
        source=f"rev{revision}-golden-a with the tag's header replaced",
    )
    readers = {}
    for reader, refused in made.readers.items():
        read = taken.verdict(int(reader))
        assert not isinstance(refused, Declare)  # noqa: S101 - one policy at a time
        assert not isinstance(read, Declare)  # noqa: S101
        readers[reader] = Declare(Policy.TAG_AS_BIN, {"accept": read, "reject": refused})
    return msgspec.structs.replace(made, readers=readers)
