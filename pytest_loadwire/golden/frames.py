"""The frame vectors: a message of three frames, and all that is not one (rules F1 to F5)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from pytest_loadwire.golden.payloads import GOLDENS, golden_shape
from pytest_loadwire.golden.shape import Shape
from pytest_loadwire.rules import REASON_RULE, Hazard, Reason
from pytest_loadwire.vectors import Accept, Declare, FrameVector, Reject, Verdict
from pytest_loadwire.wire import REVISIONS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.vectors import Kind

# What frame 1 may say: the ends of the range and values that read otherwise with the bytes turned.
SEQUENCES = (0, 1, 7, 127, 128, 255, 256, 2**31, 2**32, 72_623_859_790_382_856, 2**63 - 1)

# What frame 0 is instead of `load`: id, topic, why.
BAD_TOPICS: tuple[tuple[str, bytes, str], ...] = (
    ("empty", b"", "no topic, as the KV-event stream sends it by default"),
    ("prefix", b"loa", "a prefix of the topic"),
    ("suffix", b"loadx", "a longer topic, which a subscription to load lets through"),
    ("suffix-rank", b"load0", "the topic and a rank, which a subscription to load lets through"),
    ("blank-behind", b"load ", "the topic and a blank"),
    ("nul-behind", b"load\x00", "the topic and a NUL"),
    ("capital", b"Load", "the topic in another case"),
    ("kv-events", b"kv-events", "a topic of the KV-event stream"),
    ("msgpack", b"\xa4load", "the topic as a msgpack str"),
    ("sequence", struct.pack(">q", 7), "the sequence where the topic belongs"),
)

# What frame 1 is instead of 8 bytes: id, bytes, why.
BAD_SEQUENCES: tuple[tuple[str, bytes, str], ...] = (
    ("empty", b"", "no byte"),
    ("1-byte", b"\x07", "one byte"),
    ("4-bytes", struct.pack(">i", 7), "a 32-bit integer"),
    ("7-bytes", bytes(6) + b"\x07", "one byte too few"),
    ("9-bytes", bytes(8) + b"\x07", "one byte too many"),
    ("16-bytes", struct.pack(">qq", 0, 7), "a 128-bit integer"),
    ("text", b"7", "the digit as text"),
    ("msgpack", b"\xcf" + struct.pack(">q", 7), "a msgpack integer with its marker"),
)

NEGATIVE = (-1, -2, -(2**63))

KV_BATCH = bytes.fromhex("93cb41d954fa8e8000009197ab426c6f636b53746f7265649101c0910110c0c000")
"""A batch of the KV-event stream: timestamp, one BlockStored event, rank."""


def frame_vectors() -> Iterator[FrameVector]:
    """Every frame vector."""
    yield from _good()
    yield from _counts()
    yield from _topics()
    yield from _sequences()
    yield from _payloads()


def _message(payload: bytes, sequence: int = 7) -> tuple[bytes, bytes, bytes]:
    return TOPIC, struct.pack(">q", sequence), payload


def _golden(revision: int = 2) -> bytes:
    return golden_shape(revision).raw


def _vector(
    vector_id: str,
    frames: Sequence[bytes],
    readers: dict[str, Verdict],
    *,
    rule: str,
    kind: Kind,
    why: str,
    since: int = 1,
    engine: int | None = None,
    source: str = "spelled by hand",
) -> FrameVector:
    return FrameVector(
        id=vector_id,
        rule=rule,
        kind=kind,
        since=since,
        why=why,
        source=source,
        frames=tuple(frame.hex() for frame in frames),
        engine=engine,
        readers=readers,
    )


def _refused(
    reason: Reason, frame: int | None, hazard: Hazard = Hazard.ATTRACTS_ALL
) -> dict[str, Verdict]:
    refusal = Reject(REASON_RULE[reason], reason, None, None, hazard, frame)
    return {str(revision): refusal for revision in REVISIONS}


def _framed(shape: Shape, sequence: int) -> dict[str, Verdict]:
    """The verdicts of a payload, as those of a message around it."""

    def framed(verdict: Accept | Reject) -> Accept | Reject:
        if isinstance(verdict, Accept):
            return msgspec.structs.replace(verdict, sequence=str(sequence))
        return msgspec.structs.replace(verdict, frame=2)

    return {
        reader: Declare(verdict.policy, {k: framed(v) for k, v in verdict.outcomes.items()})
        if isinstance(verdict, Declare)
        else framed(verdict)
        for reader, verdict in shape.readers().items()
    }


def _good() -> Iterator[FrameVector]:
    for revision in GOLDENS:
        for name in GOLDENS[revision]:
            shape = golden_shape(revision, name)
            yield _vector(
                f"frames-rev{revision}-golden-{name}",
                _message(shape.raw),
                _framed(shape, 7),
                rule="F4",
                kind="golden",
                since=revision,
                engine=revision,
                why=f"a whole message around rev{revision}-golden-{name}",
                source=f"rev{revision}-golden-{name} behind topic and sequence",
            )
    for sequence in SEQUENCES:
        yield _vector(
            f"frames-sequence-{sequence}",
            _message(_golden(), sequence),
            _framed(golden_shape(2), sequence),
            rule="S1" if sequence == 0 else "F3",
            kind="boundary",
            since=2,
            engine=2,
            why=f"sequence {sequence}, big-endian",
            source="rev2-golden-a behind topic and sequence",
        )


def _counts() -> Iterator[FrameVector]:
    topic, sequence, payload = _message(_golden())
    for name, frames, why in (
        ("none", (), "no frame at all"),
        ("payload-alone", (payload,), "the last frame alone, which is what CONFLATE leaves"),
        ("topic-alone", (topic,), "the topic alone"),
        ("joined", (topic + sequence + payload,), "all three in one frame"),
        ("no-topic", (sequence, payload), "sequence and payload"),
        ("no-sequence", (topic, payload), "topic and payload, as many PUB sockets send it"),
        ("no-payload", (topic, sequence), "topic and sequence"),
        ("empty-behind", (topic, sequence, payload, b""), "an empty fourth frame"),
        ("payload-twice", (topic, sequence, payload, payload), "a second payload"),
        ("identity", (b"\x00k\x8bEg", topic, sequence, payload), "a router's identity in front"),
        ("delimiter", (topic, b"", sequence, payload), "an empty delimiter behind the topic"),
    ):
        yield _vector(
            f"frame-count-{name}",
            frames,
            _refused(Reason.FRAME_COUNT, None),
            rule="F1",
            kind="reject",
            why=f"{len(frames)} frames: {why}",
        )


def _topics() -> Iterator[FrameVector]:
    _, sequence, payload = _message(_golden())
    for name, topic, why in BAD_TOPICS:
        yield _vector(
            f"topic-{name}",
            (topic, sequence, payload),
            _refused(Reason.BAD_TOPIC, 0, Hazard.STALE),
            rule="F2",
            kind="reject",
            why=why,
        )
    yield _vector(
        "topic-last",
        (payload, sequence, TOPIC),
        _refused(Reason.BAD_TOPIC, 0, Hazard.STALE),
        rule="F2",
        kind="reject",
        why="the frames in reverse order",
    )
    for name, topic in (("no-topic", b""), ("kv-events", b"kv-events")):
        yield _vector(
            f"kv-stream-{name}",
            (topic, sequence, KV_BATCH),
            _refused(Reason.BAD_TOPIC, 0),
            rule="F5",
            kind="reject",
            why="a message of the KV-event stream, whose port a router dialled by mistake",
            source="spelled by hand after the form of SGLang's KV-event batches",
        )


def _sequences() -> Iterator[FrameVector]:
    payload = _golden()
    for name, sequence, why in BAD_SEQUENCES:
        yield _vector(
            f"sequence-{name}",
            (TOPIC, sequence, payload),
            _refused(Reason.BAD_SEQ_LENGTH, 1, Hazard.STALE),
            rule="F3",
            kind="reject",
            why=f"frame 1 is {why}",
        )
    for number in NEGATIVE:
        yield _vector(
            f"sequence-minus-{-number}",
            _message(payload, number),
            _refused(Reason.NEGATIVE_SEQ, 1, Hazard.STALE),
            rule="F3",
            kind="reject",
            why="-1, the replay sentinel of the KV-event stream"
            if number == -1
            else f"{number}, which no engine counts to",
        )
    yield _vector(
        "topic-and-sequence",
        (b"loadx", b"\x07", payload),
        _refused(Reason.BAD_TOPIC, 0, Hazard.STALE),
        rule="F2",
        kind="reject",
        why="topic and sequence both wrong: the topic is judged first",
    )


def _payloads() -> Iterator[FrameVector]:
    broken: tuple[tuple[str, bytes, Reason, int, int | None, str, str], ...] = (
        ("empty", b"", Reason.TRUNCATED, 0, None, "F4", "an empty payload"),
        ("cut", _golden()[:20], Reason.TRUNCATED, 20, 4, "F4", "a payload cut inside its capacity"),
        ("map", b"\x80", Reason.NOT_ARRAY, 0, None, "F4", "an idle LoadSnapshot as the payload"),
        ("kv-batch", KV_BATCH, Reason.BAD_TAG, 1, 0, "F5", "a KV-event batch under the load topic"),
    )
    for name, raw, reason, offset, element, rule, why in broken:
        refusal = Reject(REASON_RULE[reason], reason, offset, element, Hazard.ATTRACTS_ALL, 2)
        yield _vector(
            f"payload-{name}",
            _message(raw),
            {str(revision): refusal for revision in REVISIONS},
            rule=rule,
            kind="reject",
            why=why,
        )
    more: tuple[tuple[str, Shape, Kind, str], ...] = (
        ("too-short", Shape(golden_shape(1).elements[:3]), "reject", "four elements"),
        ("trailing", Shape(golden_shape(2).elements, behind=b"\xc0"), "policy", "a byte behind it"),
        ("partial-tail", Shape(golden_shape(2).elements[:7]), "policy", "eight elements"),
    )
    for name, shape, kind, why in more:
        yield _vector(
            f"payload-{name}",
            _message(shape.raw),
            _framed(shape, 7),
            rule="F4",
            kind=kind,
            since=2,
            why=f"a payload of its own verdict inside good frames: {why}",
        )
