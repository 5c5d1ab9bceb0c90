"""What is in the set: the anchors as given, every boundary, every cut, every reason."""

from __future__ import annotations

import re

import msgpack
import pytest

from pytest_loadwire.rules import (
    POLICY_ANSWERS,
    READER_REASONS,
    REASON_RULE,
    RULES,
    Hazard,
    Policy,
    Reason,
)
from pytest_loadwire.vectors import (
    Accept,
    Declare,
    FrameVector,
    PayloadVector,
    Reject,
    Verdict,
    load,
)
from pytest_loadwire.wire import LATEST

GOLDEN = load()
ALL: tuple[PayloadVector | FrameVector, ...] = (*GOLDEN.payloads, *GOLDEN.frames)

# Published by SGLang or by a router that decodes it, spelled here again: revision, values, hex.
ANCHORS = [
    (1, [7, 3, 1024, 8192, 2], "96a84c6f6164537461740703cd0400cd200002"),
    (1, [0, 0, 0, 0, None], "96a84c6f61645374617400000000c0"),
    (1, [1, 2, 3, 4, 0], "96a84c6f6164537461740102030400"),
    (1, [7, 3, 1024, 8192, 0], "96a84c6f6164537461740703cd0400cd200000"),
    (
        2,
        [7, 3, 1024, 8192, 2, 0, 0, 0, 0, 0],
        "9ba84c6f6164537461740703cd0400cd2000020000000000",
    ),
    (2, [0, 0, 0, 0, None, 0, 0, 0, 0, 0], "9ba84c6f61645374617400000000c00000000000"),
    (2, [1, 2, 3, 4, 0, 5, 6, 7, 8, 9], "9ba84c6f61645374617401020304000506070809"),
    (
        2,
        [7, 3, 1024, 8192, 0, 512, 4096, 64, 20_000, 2_000_000],
        "9ba84c6f6164537461740703cd0400cd200000cd0200cd100040cd4e20ce001e8480",
    ),
]
# Maps that SGLang considered or keeps inside, which no router may take.
MAPS = [
    "80",
    (
        "84b06e756d5f72756e6e696e675f7265717305b06e756d5f77616974696e675f7265717302"
        "af6e756d5f757365645f746f6b656e7364b46d61785f746f74616c5f6e756d5f746f6b656e73cd03e8"
    ),
]

WIDTHS = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
ELEMENTS = {1: 6, 2: 11}
SLOTS = [(r, e) for r, elements in ELEMENTS.items() for e in range(1, elements)]

# every legal spelling of W7 has to be there, for both revisions
HEADERS = {"array-16", "array-32", "tag-str-8", "tag-str-16", "tag-str-32"}
UNIFORM = {f"all-{sign}int-{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)}

# the markers that an unknown element behind revision 2 has to start with
TAIL_MARKERS = {
    *range(0xC2, 0xC4),
    *range(0xC4, 0xE0),
    0xC0,
    0x00,
    0x2A,
    0x80,
    0x82,
    0x90,
    0x93,
    0xA0,
    0xA4,
    0xFF,
}


def refusals(vector: PayloadVector | FrameVector) -> list[tuple[int, Reject]]:
    """Every refusal that a vector may ask for, with the reader's revision."""
    return [
        (int(revision), outcome)
        for revision, verdict in vector.readers.items()
        for outcome in outcomes(verdict)
        if isinstance(outcome, Reject)
    ]


def outcomes(verdict: Verdict) -> list[Accept | Reject]:
    return list(verdict.outcomes.values()) if isinstance(verdict, Declare) else [verdict]


def golden_a(revision: int) -> bytes:
    return GOLDEN.payload(f"rev{revision}-golden-a").payload


def test_size() -> None:
    """There are over 600 payload vectors and over 60 messages."""
    assert len(GOLDEN.payloads) > 600
    assert len(GOLDEN.frames) > 60


@pytest.mark.parametrize(("revision", "values", "given"), ANCHORS)
def test_anchor(revision: int, values: list[int | None], given: str) -> None:
    """Bytes that were published stand in the set as given, and an engine may send them."""
    found = [v for v in GOLDEN.payloads if v.kind == "anchor" and v.hex == given]
    assert [revision] == [vector.engine for vector in found]
    assert ["LoadStat", *values] == msgpack.unpackb(bytes.fromhex(given))
    verdict = found[0].readers[str(revision)]
    assert isinstance(verdict, Accept)
    assert values == list(verdict.reading.values())


def test_no_other_anchor() -> None:
    """Nothing passes for published that was not."""
    expected = sorted(given for _, _, given in ANCHORS)
    assert expected == sorted(v.hex for v in GOLDEN.payloads if v.kind == "anchor")


@pytest.mark.parametrize("given", MAPS)
def test_map(given: str) -> None:
    """A map is in the set, and no reader takes it."""
    (vector,) = [vector for vector in GOLDEN.payloads if vector.hex == given]
    assert [Reason.NOT_ARRAY] * len(vector.readers) == [r.reason for _, r in refusals(vector)]


@pytest.mark.parametrize(("revision", "element"), SLOTS)
def test_boundaries(revision: int, element: int) -> None:
    """Both ends of every integer width are in the set for every slot, the others as in golden a."""
    base = msgpack.unpackb(golden_a(revision))
    there = {vector.hex for vector in GOLDEN.payloads if vector.engine == revision}
    for value in WIDTHS:
        base[element] = value
        assert msgpack.packb(base).hex() in there, value


@pytest.mark.parametrize("revision", ELEMENTS)
def test_every_cut(revision: int) -> None:
    """Golden a is in the set cut to every length, and every reader refuses it as truncated."""
    whole = golden_a(revision)
    cut = {vector.hex: vector for vector in GOLDEN.payloads if vector.kind == "reject"}
    for length in range(len(whole)):
        found = refusals(cut[whole[:length].hex()])
        expected = [("truncated", length)] * LATEST
        assert expected == [(str(refusal.reason), refusal.offset) for _, refusal in found]


@pytest.mark.parametrize(
    ("reason", "elements"),
    [
        (Reason.BAD_TYPE, {1: {1, 3, 5}, 2: {1, 6, 8, 10}}),
        (Reason.OUT_OF_RANGE, {1: {1, 3, 5}, 2: {1, 6, 8, 10}}),
        (Reason.TRUNCATED, {1: set(range(6)), 2: set(range(11))}),
        (Reason.MALFORMED, {1: {0, 1, 5}, 2: {0, 1, 5, 10}}),
        (Reason.TOO_SHORT, {1: {0, 1, 2, 3, 4}, 2: {0, 1, 2, 3, 4}}),
        (Reason.BAD_TAG, {1: {0}, 2: {0}}),
    ],
)
def test_reason_at_slots(reason: Reason, elements: dict[int, set[int]]) -> None:
    """A reason stands at the first, a middle and the last slot of each revision."""
    for revision, expected in elements.items():
        found = {
            refusal.element
            for vector in GOLDEN.payloads
            for reader, refusal in refusals(vector)
            if refusal.reason is reason and reader == revision and vector.kind == "reject"
        }
        assert expected <= found


def test_every_reason() -> None:
    """Every reason of a reader is asked for, and names its own rule."""
    found = {refusal.reason for vector in ALL for _, refusal in refusals(vector)}
    assert set(READER_REASONS) == found
    for vector in ALL:
        for _, refusal in refusals(vector):
            assert REASON_RULE[refusal.reason] == refusal.rule, vector.id


@pytest.mark.parametrize("policy", Policy)
def test_policy(policy: Policy) -> None:
    """Every policy is asked for, by both readers or by the newest, with both answers."""
    asked = [
        verdict
        for vector in GOLDEN.payloads
        for verdict in vector.readers.values()
        if isinstance(verdict, Declare) and verdict.policy is policy
    ]
    assert asked
    assert all(set(POLICY_ANSWERS[policy]) == set(verdict.outcomes) for verdict in asked)


def test_partial_tail_is_judged() -> None:
    """A router that reads a partial tail owes a refusal where a count of it is none."""
    verdict = GOLDEN.payload("partial-tail-float").readers["2"]
    assert isinstance(verdict, Declare)
    older, partial = verdict.outcomes["older"], verdict.outcomes["partial"]
    assert isinstance(older, Accept)
    assert isinstance(partial, Reject)
    assert ("bad-type", 22, 6) == (str(partial.reason), partial.offset, partial.element)


def test_every_hazard() -> None:
    """Every hazard but none is one of a refusal, and none stands where the value is the same."""
    found = {refusal.hazard for vector in ALL for _, refusal in refusals(vector)}
    assert set(Hazard) == found


def test_every_rule_of_the_bytes() -> None:
    """Every rule of payload and frames that bytes can prove has vectors."""
    expected = {rule for rule in RULES if rule[0] in "WF"} - {"W11"} | {"S1"}
    assert expected == {vector.rule for vector in ALL}


@pytest.mark.parametrize("revision", ELEMENTS)
def test_spellings(revision: int) -> None:
    """Every wider form of header, tag and integer is there."""
    headers = GOLDEN.payload(f"rev{revision}-spelled-headers").spellings
    assert set(headers) >= HEADERS
    assert set(GOLDEN.payload(f"rev{revision}-spelled-uniformly").spellings) == UNIFORM
    one_at_a_time = set(GOLDEN.payload(f"rev{revision}-spelled-integers").spellings)
    verdict = GOLDEN.payload(f"rev{revision}-golden-a").readers[str(revision)]
    assert isinstance(verdict, Accept)
    for name in verdict.value:
        # the widest one; where uint 64 is the shortest form it is no other spelling
        assert f"{name.replace('_', '-')}-int-64" in one_at_a_time


def test_spellings_say_the_same() -> None:
    """A spelling is the same value to the msgpack library, in other bytes."""
    for vector in GOLDEN.payloads:
        for name, raw in vector.spellings.items():
            expected = msgpack.unpackb(vector.payload)
            assert expected == msgpack.unpackb(bytes.fromhex(raw)), name
            assert vector.hex != raw


def test_tails() -> None:
    """An unknown element of every msgpack format stands behind revision 2, and long tails too."""
    base = golden_a(2)
    tails = [v.payload[len(base) :] for v in GOLDEN.payloads if v.rule == "W8" and v.since == 2]
    assert {tail[0] for tail in tails if len(tail)} >= TAIL_MARKERS
    lengths = {GOLDEN.payload(f"tail-{n}-elements").payload[:3].hex() for n in (15, 16, 300)}
    assert {"9fa84c", "dc0010", "dc012c"} == lengths


@pytest.mark.parametrize("announced", ["dd80000000", "dd8000000b", "ddffffffff", "9c"])
def test_lying_header(announced: str) -> None:
    """A header that lies, by 2^31 too, stands before a good payload."""
    raw = announced + golden_a(2)[1:].hex()
    (vector,) = [vector for vector in GOLDEN.payloads if vector.hex == raw]
    expected = [("truncated", len(raw) // 2, 11)] * LATEST
    assert expected == [(str(r.reason), r.offset, r.element) for _, r in refusals(vector)]


def test_frames() -> None:
    """There are messages of 0 to 4 frames, sequences of every length, and prefixes of the topic."""
    assert {0, 1, 2, 3, 4} <= {len(vector.frames) for vector in GOLDEN.frames}
    lengths = {len(vector.parts[1]) for vector in GOLDEN.frames if len(vector.parts) == 3}
    assert {0, 1, 4, 7, 8, 9, 16} <= lengths
    topics = {vector.parts[0] for vector in GOLDEN.frames if len(vector.parts) == 3}
    assert {b"", b"loa", b"load", b"loadx", b"Load"} <= topics


def test_sequences() -> None:
    """Sequences go from 0 to 2^63-1, and the replay sentinel of the KV stream is refused."""
    taken = set()
    for vector in GOLDEN.frames:
        verdict = vector.readers["2"]
        if isinstance(verdict, Accept) and vector.engine is not None:
            taken.add(int(verdict.sequence or -1))
            assert int.from_bytes(vector.parts[1], "big") == int(verdict.sequence or -1)
    assert {0, 7, 127, 128, 255, 256, 2**32, 2**63 - 1} <= taken
    (sentinel,) = [v for v in GOLDEN.frames if len(v.parts) == 3 and v.parts[1] == b"\xff" * 8]
    assert {"negative-seq"} == {str(refusal.reason) for _, refusal in refusals(sentinel)}


def test_records() -> None:
    """Every id is a slug of its own, and every vector says since when, why and where from."""
    assert len(ALL) == len({vector.id for vector in ALL})
    for vector in ALL:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", vector.id)
        assert vector.since in range(1, LATEST + 1), vector.id
        assert vector.rule in RULES, vector.id
        assert vector.why.strip(), vector.id
        assert vector.source.strip(), vector.id
        assert set(vector.readers) == {str(n) for n in range(1, LATEST + 1)}, vector.id


def test_engine_sends_what_its_readers_take() -> None:
    """What an engine may send its own reader takes, or may take, as that revision."""
    for vector in ALL:
        if vector.engine is not None:
            first = outcomes(vector.readers[str(vector.engine)])[0]
            assert isinstance(first, Accept), vector.id
            assert vector.engine == first.revision, vector.id


def test_no_bytes_twice() -> None:
    """The same bytes stand twice only where they prove another rule."""
    seen: dict[tuple[str, str], str] = {}
    for vector in GOLDEN.payloads:
        if not vector.spellings:
            other = seen.setdefault((vector.hex, vector.rule), vector.id)
            assert other == vector.id
