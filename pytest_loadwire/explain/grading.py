"""The verdicts: which engine may send some bytes, and what a router of each revision makes of them.

`wire` is asked, which gives the answers of one router. Where real routers differ (`rules.Policy`)
its strict answer is half of the truth; the other half is what it makes of the same bytes once the
one point in question is out of the way. The verdicts are records of `vectors`, so that they can be
held against the golden ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import array_length
from pytest_loadwire.explain.hazards import hazard_in
from pytest_loadwire.rules import Policy, Reason
from pytest_loadwire.tokens import Kind, TokenError, item_end, read_token
from pytest_loadwire.vectors import Accept, Declare, Reject, Verdict
from pytest_loadwire.wire import REVISIONS

MAX_I64 = 2**63 - 1
_OLDEST, _LATEST = min(REVISIONS), max(REVISIONS)


class Grade(NamedTuple):
    """What one side makes of some bytes.

    Attributes:
        verdict: A router's verdict.
        error: Why it refuses, or would refuse if that is its policy.
        further: What else depends on a policy where it goes on by the one that ``verdict`` names.
    """

    verdict: Verdict
    error: WireError | None = None
    further: tuple[Declare, ...] = ()


def router(payload: bytes, revision: int) -> Grade:
    """What a router of ``revision`` makes of a payload.

    Raises:
        ValueError: There is no such revision.
    """
    try:
        stat = wire.decode(payload, revision=revision)
    except WireError as error:
        return _refused(payload, revision, error)
    return _taken(payload, revision, stat)


def router_of_message(frames: Sequence[bytes], revision: int) -> Grade:
    """What a router of ``revision`` makes of a message.

    Raises:
        ValueError: There is no such revision.
    """
    try:
        sequence = wire.parse_frames(frames, revision=revision).sequence
    except WireError as error:
        if error.frame != 2:
            payload = frames[-1] if frames else b""
            return Grade(_reject(error, payload), error)
        sequence = int.from_bytes(frames[1], "big", signed=True)
    verdict, refusal, further = router(frames[2], revision)
    if refusal is not None:
        refusal.frame = 2
    if isinstance(verdict, Declare):
        declared = tuple(_declared(each, sequence) for each in (verdict, *further))
        return Grade(declared[0], refusal, declared[1:])
    return Grade(_framed(verdict, sequence), refusal)


def engine(frames: Sequence[bytes], *, message: bool) -> tuple[int | None, WireError | None]:
    """The revision whose engines may send this, or None and why not.

    Args:
        frames: The frames of a message, or one payload.
        message: Which of the two.
    """
    payload = frames[-1] if frames else b""
    length = array_length(payload)
    # The revision that was probably meant: of this length, or else the next longer one.
    likely = next(
        (r for r, kind in REVISIONS.items() if len(kind.__struct_fields__) >= length - 1), _LATEST
    )
    errors = []
    for revision in (likely, *(r for r in REVISIONS if r != likely)):
        error = _graded(frames, revision, message=message)
        if error is None:
            return revision, None
        errors.append(error)
    return None, errors[0]


def _graded(frames: Sequence[bytes], revision: int, *, message: bool) -> WireError | None:
    try:
        if message:
            wire.verify_frames(frames, revision=revision)
        else:
            wire.verify(frames[0], revision=revision)
    except WireError as error:
        return error
    return None


def readings(verdict: Verdict) -> list[Accept]:
    """What may be read: nothing, one reading, or one for each policy."""
    if isinstance(verdict, Declare):
        return [each for each in verdict.outcomes.values() if isinstance(each, Accept)]
    return [verdict] if isinstance(verdict, Accept) else []


def _taken(payload: bytes, revision: int, stat: wire.LoadStatRev1) -> Grade:
    taken = _accept(stat)
    values = wire.to_dict(stat)
    length = array_length(payload)
    grade = Grade(taken)
    if len(values) + 1 < length <= len(REVISIONS[revision].__struct_fields__):
        partial, partly = _partial(payload, revision, length)
        grade = Grade(Declare(Policy.PARTIAL_TAIL, {"older": taken, "partial": partial}), partly)
    for element, (name, value) in enumerate(values.items(), 1):
        if value is not None and value > MAX_I64:
            error = WireError(
                Reason.OUT_OF_RANGE,
                offset=_starts(payload, element)[-1],
                element=element,
                field=name,
                expected="0 to 2^63-1, for a router that counts in signed integers",
                got=str(value),
            )
            refused = _reject(error, payload)
            outcomes: dict[str, Accept | Reject] = {"accept": taken, "reject": refused}
            return Grade(Declare(Policy.COUNT_ABOVE_I64, outcomes), error, _declares(grade))
    return grade


def _declares(grade: Grade) -> tuple[Declare, ...]:
    """The policies on which a verdict depends."""
    return (grade.verdict, *grade.further) if isinstance(grade.verdict, Declare) else ()


def _partial(
    payload: bytes, revision: int, length: int
) -> tuple[Accept | Reject, WireError | None]:
    """What a router makes of a partial tail that reads the counts which are there."""
    names = REVISIONS[revision].__struct_fields__
    filled = _with_length(payload + b"\0" * (len(names) + 1 - length), len(names) + 1)
    try:
        read = _accept(wire.decode(filled, revision=revision))
    except WireError as error:
        return _reject(error, payload), error
    kept = {name: read.value[name] for name in names[: length - 1]}
    return Accept(revision, kept), None


def _refused(payload: bytes, revision: int, error: WireError) -> Grade:
    refused = _reject(error, payload, revision)
    policy, mended = _mended(payload, revision, error)
    if policy is None:
        return Grade(refused, error)
    behind = router(mended, revision)
    taken = next(iter(readings(behind.verdict)), None)
    if taken is None:
        return Grade(refused, error)
    if policy is Policy.NIL_TAIL:
        nil = set(_nil_elements(payload, revision))
        kept = {
            name: None if element in nil else value
            for element, (name, value) in enumerate(taken.value.items(), 1)
        }
        taken = Accept(taken.revision, kept)
    outcomes: dict[str, Accept | Reject] = {"accept": taken, "reject": refused}
    return Grade(Declare(policy, outcomes), error, _declares(behind))


def _mended(payload: bytes, revision: int, error: WireError) -> tuple[Policy | None, bytes]:
    """The policy that lets a router take what the strict one refuses, and the bytes it takes.

    Offsets stay as they are: what is put in a place is as long as what was there.
    """
    if error.reason is Reason.TRAILING_BYTES and error.offset is not None:
        return Policy.TRAILING_BYTES, payload[: error.offset]
    if error.reason is Reason.BAD_TAG and error.offset is not None:
        token = read_token(payload, error.offset)
        if token.kind is Kind.BIN:
            as_str = bytes([payload[token.start] - 0xC4 + 0xD9])
            return Policy.TAG_AS_BIN, payload[: token.start] + as_str + payload[token.start + 1 :]
    if error.reason is Reason.TOO_SHORT and error.element == len(
        REVISIONS[_OLDEST].__struct_fields__
    ):
        end = _end(payload)
        if end is not None:
            longer = _with_length(payload[:end] + b"\xc0" + payload[end:], error.element + 1)
            return Policy.OMITTED_RANK, longer
    if error.reason is Reason.BAD_TYPE and (nil := _nil_elements(payload, revision)):
        data = bytearray(payload)
        for element in nil:
            data[_starts(payload, element)[-1]] = 0
        return Policy.NIL_TAIL, bytes(data)
    return None, payload


def _nil_elements(payload: bytes, revision: int) -> list[int]:
    """Which counts that a later revision appended are nil."""
    names = REVISIONS[revision].__struct_fields__
    oldest = len(REVISIONS[_OLDEST].__struct_fields__)
    starts = _starts(payload, len(names))
    return [
        element
        for element, start in enumerate(starts)
        if element > oldest and payload[start : start + 1] == b"\xc0"
    ]


def _starts(payload: bytes, last: int) -> list[int]:
    """The offsets of elements 0 to ``last``, or up to where the array ends or breaks off."""
    starts: list[int] = []
    try:
        header = read_token(payload, 0)
        position = header.end
        for _ in range(min(last + 1, header.children)):
            starts.append(position)
            position = item_end(payload, position)
    except TokenError:
        pass
    return starts


def _end(payload: bytes) -> int | None:
    try:
        return item_end(payload, 0)
    except TokenError:
        return None


def _with_length(payload: bytes, length: int) -> bytes:
    """The same bytes under a header of the same width that announces another length."""
    if payload[0] == 0xDC:
        return payload[:1] + length.to_bytes(2, "big") + payload[3:]
    if payload[0] == 0xDD:
        return payload[:1] + length.to_bytes(4, "big") + payload[5:]
    return bytes([0x90 | length]) + payload[1:]


def _accept(stat: wire.LoadStatRev1) -> Accept:
    value = {k: None if v is None else str(v) for k, v in wire.to_dict(stat).items()}
    return Accept(wire.revision_of(stat), value)


def _reject(error: WireError, payload: bytes, revision: int = _LATEST) -> Reject:
    return Reject(
        error.rule,
        error.reason,
        error.offset,
        error.element,
        hazard_in(error, payload, revision),
        error.frame,
    )


def _declared(verdict: Declare, sequence: int) -> Declare:
    outcomes = {answer: _framed(each, sequence) for answer, each in verdict.outcomes.items()}
    return Declare(verdict.policy, outcomes)


def _framed(verdict: Accept | Reject, sequence: int) -> Accept | Reject:
    if isinstance(verdict, Accept):
        return msgspec.structs.replace(verdict, sequence=str(sequence))
    return msgspec.structs.replace(verdict, frame=2)
