"""Three decoders, one meaning: msgspec, msgpack and Rust agree on any bytes there are.

Hypothesis gives scripts, short byte strings; each script is spelled out into a payload or a
message. An empty script gives the plainest payload, so that a disagreement is cut down to few
bytes. Bytes on which decoders once disagreed become vectors.

`LOADWIRE_EXAMPLES` is how many payloads and messages are compared in all (100,000 unless set),
`LOADWIRE_SEED` replaces the fixed choice of examples by another.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from pytest_loadwire import wire
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.rules import READER_REASONS
from pytest_loadwire.vectors import load
from pytest_loadwire.witness import MsgpackWitness, MsgspecWitness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_loadwire.harness.native import NativeDecoder
    from pytest_loadwire.witness import Witness

EXAMPLES = int(os.environ.get("LOADWIRE_EXAMPLES", "100000"))
SEED = os.environ.get("LOADWIRE_SEED")
BATCH = 50  # scripts in one hypothesis example, whose bookkeeping costs more than a comparison
REVISIONS = tuple(wire.REVISIONS)

ENOUGH = 5_000  # examples of one kind; fewer need not reach every outcome

# What share of the examples each kind gets, and the outcomes that it has to reach.
SHARES = {"arbitrary": 0.2, "structured": 0.4, "mutated": 0.3, "messages": 0.1}
REASONS = [str(reason) for reason in READER_REASONS]
READ = {"revision 1", "revision 2"}
REACHES: dict[str, set[str]] = {
    "arbitrary": {"truncated", "not-array", "bad-tag", "bad-type", "out-of-range"},
    "structured": {*READ, *REASONS[:8]},
    "mutated": {*READ, *REASONS[:8]},
    "messages": {*READ, *REASONS[:12]},
}

# The msgpack library follows nesting so far; beyond, its witness abstains and two decoders remain.
MSGPACK_DEPTH = 1024
ABSTAINS = Crashed("nested deeper than the msgpack library goes")


class Script:
    """Choices out of bytes; when they run out, every choice is the first, the plainest one."""

    def __init__(self, raw: bytes) -> None:
        self.bytes = iter(raw)

    def below(self, limit: int) -> int:
        return next(self.bytes, 0) % limit

    def wide(self) -> int:
        return self.below(256) << 8 | self.below(256)

    def raw(self, size: int) -> bytes:
        return bytes(islice(self.bytes, size))


# msgpack items, by what they are made of.

INTEGERS = (">B", ">b", ">H", ">h", ">I", ">i", ">Q", ">q")
MARKERS = (0xCC, 0xD0, 0xCD, 0xD1, 0xCE, 0xD2, 0xCF, 0xD3)
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
SIZED = (
    (0xC4, 1), (0xC5, 2), (0xC6, 4),  # bin
    (0xC7, 1), (0xC8, 2), (0xC9, 4),  # ext
    (0xD9, 1), (0xDA, 2), (0xDB, 4),  # str
    (0xDC, 2), (0xDD, 4),  # array
    (0xDE, 2), (0xDF, 4),  # map
)  # fmt: skip
TAGS = (
    b"\xa8LoadStat",
    b"\xd9\x08LoadStat",
    b"\xda\0\x08LoadStat",
    b"\xdb\0\0\0\x08LoadStat",
    b"\xc4\x08LoadStat",
    b"\xa8loadstat",
    b"\xa9LoadStat2",
    b"\xa7LoadSta",
    b"\xa8LoadSta\xff",
    b"\xc0",
    b"\x91\xa8LoadStat",
    b"\xdb\x80\0\0\0LoadStat",
    b"\xc1",
)


def integer(script: Script) -> bytes:
    form = script.below(10)
    if form < 2:
        return bytes([script.below(128)])
    layout, marker = INTEGERS[form - 2], MARKERS[form - 2]
    size = struct.calcsize(layout)
    fill = EDGES[script.below(len(EDGES))]
    return bytes([marker]) + (bytes([script.below(256)]) + bytes([fill]) * size)[:size]


def item(script: Script, depth: int = 0) -> bytes:
    """Any item, whole unless its length lies."""
    choice = script.below(16)
    if choice < 3:
        return integer(script)
    if choice == 3:
        return bytes([0xE0 | script.below(32)])
    if choice == 4:
        return (b"\xc0", b"\xc2", b"\xc3", b"\xc1")[script.below(4)]
    if choice == 5:
        marker, size = ((0xCA, 4), (0xCB, 8))[script.below(2)]
        return bytes([marker]) + script.raw(size).ljust(size, b"\0")
    if choice == 6:
        body = script.raw(script.below(9))
        return bytes([0xA0 | len(body)]) + body
    if choice == 7:
        code = script.below(5)
        return bytes([0xD4 + code]) + script.raw(1 + 2**code).ljust(1 + 2**code, b"\xff")
    if choice in (8, 9):
        count = script.below(4)
        marker = (0x90 if choice == 8 else 0x80) | count
        return bytes([marker]) + items(script, count * (choice - 7), depth)
    marker, width = SIZED[script.below(len(SIZED))]
    count = script.below(5)
    announced = count
    if script.below(8) == 7:  # it lies
        announced = (2**31, 2**32 - 1, 2**31 + count, count + 1)[script.below(4)]
    header = bytes([marker]) + announced.to_bytes(4, "big")[-width:]
    if marker >= 0xDC:
        return header + items(script, count * (1 + (marker >= 0xDE)), depth)
    return header + script.raw(count + (0xC7 <= marker <= 0xC9)).ljust(count, b"\xff")


def items(script: Script, count: int, depth: int) -> bytes:
    if depth > 4:
        return b"\x07" * count
    return b"".join(item(script, depth + 1) for _ in range(count))


def structured(script: Script) -> bytes:
    """A payload near the contract: header, tag, counts and more, each perhaps a little wrong."""
    length = (11, 6, 12, 11, 6, 5, 7, 10, 16, 4, 1, 0, 2, 3, 8, 9)[script.below(16)]
    announced = length
    form = script.below(16)
    if form == 15:
        announced = (2**31, 2**32 - 1, length + 1, max(length - 1, 0))[script.below(4)]
    if form in (0, 1, 2, 3, 4, 5, 6, 7) and announced < 16:
        header = bytes([0x90 | announced])
    elif form < 12 and announced < 2**16:
        header = b"\xdc" + announced.to_bytes(2, "big")
    elif form == 12:
        header = (b"\x80", b"\xde\0\0", b"\xc0", b"\x07", b"", b"\xc1", b"\xdc\0")[script.below(7)]
    else:
        header = b"\xdd" + announced.to_bytes(4, "big")
    tag = script.below(32)
    parts = [header, TAGS[max(tag - 19, 0)]]
    wrong = script.below(4) == 3  # else every count is one, so that payloads are taken as well
    for index in range(1, length):
        if index > 10 or (wrong and script.below(4) == 3):
            parts.append(item(script))
        elif index == 5 and script.below(3) == 2:
            parts.append(b"\xc0")
        else:
            parts.append(count(script))
    if script.below(16) == 15:
        parts.append(script.raw(1 + script.below(3)) or b"\0")
    return b"".join(parts)


def count(script: Script) -> bytes:
    """An integer that is not negative, in any format."""
    raw = integer(script)
    signed = raw[0] in (0xD0, 0xD1, 0xD2, 0xD3)
    return raw[:1] + bytes([raw[1] & 0x7F]) + raw[2:] if signed else raw


FORMS = tuple({raw: None for vector in load().payloads for _, raw in vector.forms()})
MESSAGES = tuple({vector.parts: None for vector in load().frames})


def mutated(script: Script) -> bytes:
    """A golden form with a few bytes flipped, deleted, inserted, spliced or cut off."""
    data = bytearray(FORMS[script.wide() % len(FORMS)])
    for _ in range(1 + script.below(3)):
        at = script.wide() % (len(data) + 1)
        if at < 10 and script.below(4):  # header and tag are most of some payloads
            at = min(at + 10, len(data))
        change = script.below(6)
        if change == 0:
            data[at : at + 1] = bytes([script.below(256)])
        elif change == 1:
            data[at : at + 1] = bytes(b ^ 1 << script.below(8) for b in data[at : at + 1])
        elif change == 2:
            del data[at : at + 1 + script.below(4)]
        elif change == 3:
            data[at:at] = script.raw(1 + script.below(4))
        elif change == 4:
            other = FORMS[script.wide() % len(FORMS)]
            data[at:] = other[script.wide() % (len(other) + 1) :]
        else:
            del data[at:]
    return bytes(data)


def arbitrary(script: Script) -> bytes:
    """The script itself, mostly behind a header and a tag, which chance never spells."""
    head = (b"", b"\x9b\xa8LoadStat", b"\x96\xa8LoadStat")[script.below(3)]
    return head + script.raw(script.below(64))


def message(script: Script) -> tuple[bytes, ...]:
    """A list of frames: a golden one or one put together, with a frame or two changed."""
    if script.below(2):
        frames = list(MESSAGES[script.wide() % len(MESSAGES)])
    else:
        number = (b"\0" * 7 + bytes([script.below(256)]), script.raw(8))[script.below(2)]
        frames = [b"load", number, structured(script)]
    for _ in range(script.below(3)):
        at = script.below(len(frames) + 1)
        change = script.below(5)
        if change == 0:
            frames[at : at + 1] = [script.raw(script.below(10))]
        elif change == 1:
            frames.insert(at, script.raw(script.below(6)))
        elif change == 2:
            del frames[at : at + 1]
        elif change == 3 and at < len(frames):
            frames[at] = (frames[at] + script.raw(1), frames[at][:-1])[script.below(2)]
        elif frames:
            frames.insert(0, frames.pop(script.below(len(frames))))
    return tuple(frames)


def told(outcome: Outcome) -> Outcome:
    """An outcome without the words, which are each decoder's own."""
    return outcome._replace(text="") if isinstance(outcome, Refused) else outcome


def kind(outcome: Outcome) -> str:
    if isinstance(outcome, Taken):
        return f"revision {outcome.revision}"
    assert isinstance(outcome, Refused), outcome
    return str(outcome.reason)


def compare_payload(payload: bytes, others: Sequence[Witness], seen: Counter[str]) -> None:
    """Hold all decoders against the reference, for every revision of the reader."""
    for revision in REVISIONS:
        said = told(MsgspecWitness().decode(payload, revision))
        seen[kind(said)] += 1
        for other in others:
            heard = told(other.decode(payload, revision))
            if heard == ABSTAINS:
                seen["abstained"] += 1
                continue
            agreed = heard == said
            assert agreed, f"{payload.hex()} for revision {revision}: {other.name} {heard}, {said}"
        if isinstance(said, Taken):
            exactly = wire._read_exactly(payload, wire.REVISIONS[revision])
            assert (wire.to_dict(exactly), wire.revision_of(exactly)) == said[:2], payload.hex()


def compare_message(
    frames: tuple[bytes, ...], others: Sequence[Witness], seen: Counter[str]
) -> None:
    """The same for a message."""
    for revision in REVISIONS:
        said = told(MsgspecWitness().parse_frames(frames, revision))
        seen[kind(said)] += 1
        for other in others:
            heard = told(other.parse_frames(frames, revision))
            agreed, shown = heard == said, [frame.hex() for frame in frames]
            assert agreed, f"{shown} for revision {revision}: {other.name} {heard}, {said}"


def disagrees(script: bytes, compare: Callable[[bytes], None]) -> bool:
    try:
        compare(script)
    except AssertionError:
        return True
    return False


def simplest(script: bytes, compare: Callable[[bytes], None]) -> bytes:
    """A disagreement in as few choices as will do; to shrink a whole batch would take minutes."""
    script = next(s for n in range(len(script) + 1) if disagrees(s := script[:n], compare))
    for at in range(len(script)):
        plainer = script[:at] + b"\0" + script[at + 1 :]
        if disagrees(plainer, compare):
            script = plainer
    return script


def run(share: str, compare: Callable[[bytes], None]) -> int:
    """Compare on this share of all examples; how many there were."""
    batches = max(1, round(EXAMPLES * SHARES[share] / BATCH))
    script = st.binary(min_size=32, max_size=64)
    done = 0
    disagreeing: list[bytes] = []

    @settings(
        max_examples=batches,
        derandomize=SEED is None,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(script, min_size=BATCH, max_size=BATCH))
    def every(scripts: list[bytes]) -> None:
        nonlocal done
        disagreeing.extend(one for one in scripts if disagrees(one, compare))
        done += len(scripts)

    (every if SEED is None else seed(int(SEED))(every))()
    # Outside of hypothesis, which would print all of the batch.
    for one in disagreeing[:1]:
        compare(simplest(one, compare))
    assert done >= batches * BATCH
    return done


@pytest.fixture
def others(loadwire_native: NativeDecoder) -> tuple[Witness, ...]:
    """The decoders that are held against the reference."""
    return MsgpackWitness(), loadwire_native


@pytest.mark.parametrize(
    "spell", [arbitrary, structured, mutated], ids=lambda spell: spell.__name__
)
def test_payloads(spell: Callable[[Script], bytes], others: tuple[Witness, ...]) -> None:
    """All decoders say the same of a payload: value and revision, or reason, offset and element."""
    seen: Counter[str] = Counter()
    done = run(spell.__name__, lambda script: compare_payload(spell(Script(script)), others, seen))
    print(f"{done} payloads, {dict(seen.most_common())}")  # noqa: T201 - how far it got
    if done >= ENOUGH:
        assert sorted(REACHES[spell.__name__] - set(seen)) == []
    assert seen["abstained"] == 0


def test_messages(others: tuple[Witness, ...]) -> None:
    """All decoders say the same of a message: sequence and value, or reason, frame and place."""
    seen: Counter[str] = Counter()
    done = run("messages", lambda script: compare_message(message(Script(script)), others, seen))
    print(f"{done} messages, {dict(seen.most_common())}")  # noqa: T201 - how far it got
    if done >= ENOUGH:
        assert sorted(REACHES["messages"] - set(seen)) == []


def test_every_vector_form(others: tuple[Witness, ...]) -> None:
    """The decoders agree on every vector, in every form and with every place."""
    seen: Counter[str] = Counter()
    for payload in FORMS:
        compare_payload(payload, others, seen)
    for frames in MESSAGES:
        compare_message(frames, others, seen)
    assert set(seen) == REACHES["messages"]


@pytest.mark.parametrize("depth", [100, 1022, 1023, 1024, 1025, 100_000])
@pytest.mark.parametrize("end", [b"\xc0", b"", b"\xc1"], ids=["whole", "cut", "malformed"])
def test_deep_nesting(depth: int, end: bytes, others: tuple[Witness, ...]) -> None:
    """Any depth is read; beyond the msgpack library's own stack its witness abstains by name."""
    seen: Counter[str] = Counter()
    golden = load().payload("rev2-golden-a").payload
    for nested in (b"\x91" * depth + end, b"\x81\x07" * depth + end):
        compare_payload(b"\x9c" + golden[1:] + nested, others, seen)
        compare_payload(golden[:10] + nested, others, seen)
    abstains = 8 if depth > MSGPACK_DEPTH else 0
    assert seen["abstained"] == abstains
