"""Keeps what was seen as vectors, in the form of ``golden/frames.json``.

Few, and of different shapes; each says where it was seen. The verdicts are those of the contract:
built from the parts of the payload where that is whole, else the reference reader's refusal.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import msgspec

from pytest_loadwire.errors import WireError
from pytest_loadwire.golden.shape import Element, Shape, count, reject, wrong
from pytest_loadwire.rules import Reason
from pytest_loadwire.tokens import Kind, TokenError, item_end, read_token
from pytest_loadwire.vectors import Accept, Declare, FrameVector, Reject
from pytest_loadwire.wire import LATEST, REVISIONS, TAG, parse_frames, verify_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
    from pytest_loadwire.vectors import Kind as Family
    from pytest_loadwire.vectors import Verdict

MOST_VECTORS = 64
"""So many vectors are kept of a watch."""


def vectors(seen: Seen) -> list[FrameVector]:
    """One vector for each shape of message that was seen, at most `MOST_VECTORS`."""
    made: dict[str, FrameVector] = {}
    for one in seen.targets:
        for rank in one.ranks:
            for frames in rank.stream.shapes.values():
                vector = _vector(frames, _source(seen, one, rank))
                made.setdefault(vector.id, vector)
    return list(made.values())[:MOST_VECTORS]


def save(path: Path, seen: Seen) -> int:
    """Write what was seen to a file, and return how many vectors it has.

    Raises:
        OSError: The file cannot be written.
    """
    kept = vectors(seen)
    document = {"format": 1, "subject": "frames", "vectors": msgspec.to_builtins(kept)}
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return len(kept)


def _source(seen: Seen, one: TargetSeen, rank: RankSeen) -> str:
    which = "" if rank.rank is None else f", rank {rank.rank} at {rank.endpoint}"
    return f"seen by loadwire check on {one.target.text}{which}, {seen.began}"


def _vector(frames: tuple[bytes, ...], source: str) -> FrameVector:
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(len(frame).to_bytes(8, "big") + frame)
    readers: dict[str, Verdict] = {str(r): _verdict(frames, r) for r in REVISIONS}
    newest = readers[str(LATEST)]
    rule, kind, why = _what(newest)
    return FrameVector(
        id=f"seen-{digest.hexdigest()[:16]}",
        rule=rule,
        kind=kind,
        since=_since(frames),
        why=why,
        source=source,
        frames=tuple(frame.hex() for frame in frames),
        engine=_engine(frames),
        readers=readers,
    )


def _what(verdict: Verdict) -> tuple[str, Family, str]:
    if isinstance(verdict, Reject):
        return verdict.rule, "reject", f"a message that a router refuses: {verdict.reason}"
    if isinstance(verdict, Declare):
        return "F4", "policy", f"a message on which routers differ: {verdict.policy}"
    return "F4", "boundary", f"a message of revision {verdict.revision} as it was sent"


def _engine(frames: Sequence[bytes]) -> int | None:
    for revision in REVISIONS:
        try:
            verify_frames(frames, revision=revision)
        except WireError:
            continue
        return revision
    return None


def _since(frames: Sequence[bytes]) -> int:
    """The revision that brought a message of this length."""
    shape = _shape(frames[2]) if len(frames) == 3 else None
    if shape is None:
        return 1
    fitting = (r for r, kind in REVISIONS.items() if len(shape) <= len(kind.__struct_fields__) + 1)
    return next(fitting, LATEST)


def _verdict(frames: tuple[bytes, ...], revision: int) -> Verdict:
    try:
        message = parse_frames(frames, revision=revision)
    except WireError as error:
        framed = error.frame == 2
        refusal = reject(
            error.reason,
            offset=error.offset,
            element=error.element,
            name=error.field if framed else "attn_dp_rank",
        )
        found: Verdict = msgspec.structs.replace(refusal, rule=error.rule, frame=error.frame)
        sequence = ""
        if framed:
            sequence = str(int.from_bytes(frames[1], "big"))
    else:
        value = {
            name: None if number is None else str(number)
            for name, number in msgspec.structs.asdict(message.stat).items()
        }
        sequence = str(message.sequence)
        found = Accept(_revision(len(value)), value, sequence)
    shape = _shape(frames[2]) if sequence else None
    # Where routers may differ, the parts of the payload say so; no reader's answer does.
    declared = shape.verdict(revision) if shape is not None else None
    return _framed(declared, sequence) if isinstance(declared, Declare) else found


def _revision(fields: int) -> int:
    return next(r for r, kind in REVISIONS.items() if len(kind.__struct_fields__) == fields)


def _framed(declared: Declare, sequence: str) -> Declare:
    outcomes = {
        answer: msgspec.structs.replace(verdict, sequence=sequence)
        if isinstance(verdict, Accept)
        else msgspec.structs.replace(verdict, frame=2)
        for answer, verdict in declared.outcomes.items()
    }
    return Declare(declared.policy, outcomes)


def _shape(payload: bytes) -> Shape | None:
    """The parts of a payload, or None where it is no whole array with the tag as a str."""
    try:
        header = read_token(payload, 0)
        if header.kind is not Kind.ARRAY or not header.children:
            return None
        tag = read_token(payload, header.end)
        if tag.kind is not Kind.STR or tag.value != TAG.encode():
            return None
        position, elements = tag.end, []
        for _ in range(header.children - 1):
            end = item_end(payload, position)
            elements.append(_element(payload, position, end))
            position = end
    except TokenError:
        return None
    return Shape(
        elements,
        tag=payload[tag.start : tag.end],
        header=payload[: header.end],
        behind=payload[position:],
    )


def _element(payload: bytes, start: int, end: int) -> Element:
    token = read_token(payload, start)
    raw = payload[start:end]
    if token.kind is Kind.NIL:
        return count(None, raw)
    if token.kind is Kind.INT and isinstance(token.value, int):
        return count(token.value, raw)
    return wrong(raw, Reason.BAD_TYPE)
