"""The bytes: both revisions of ``LoadStat``, a strict codec, and the three frames around it.

:func:`encode` is the model engine and :func:`decode` the model router. They owe different things:
an engine sends one spelling (rules W4 to W6), a router takes every legal one and refuses what it
does not understand (W7 to W10), since a gauge that wrongly reads 0 says "idle, send everything
here". :func:`verify` grades the bytes of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec

from pytest_loadwire import exact
from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import (
    RANK_FIELD,
    Names,
    array_length,
    element_name,
    not_canonical,
    read_exactly,
)
from pytest_loadwire.rules import Reason
from pytest_loadwire.siblings import lookalike

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Read = TypeVar("_Read")

TOPIC = b"load"
"""Frame 0 of every message (rule F2)."""

TAG = exact.TAG
"""Element 0 of every payload (rule W1)."""

MAX_COUNT = 2**64 - 1
"""The largest count (rule W5)."""

MAX_SEQUENCE = 2**63 - 1
"""The largest sequence: frame 1 is a signed integer (rule F3)."""

Requests = Annotated[int, msgspec.Meta(ge=0, extra={"unit": "requests"})]
Tokens = Annotated[int, msgspec.Meta(ge=0, extra={"unit": "tokens"})]
Microseconds = Annotated[int, msgspec.Meta(ge=0, extra={"unit": "microseconds"})]
Rank = Annotated[int, msgspec.Meta(ge=0, extra={"unit": "rank"})]


class LoadStatRev1(msgspec.Struct, array_like=True, tag=TAG, frozen=True, kw_only=True, gc=False):
    """Revision 1 of the gauge: 6 elements, the tag and these five (rule W2).

    Attributes:
        num_running_reqs: Requests in the running batch.
        num_waiting_reqs: Requests that wait to be scheduled.
        num_tokens: KV-cache tokens in use.
        max_total_num_tokens: KV-cache capacity in tokens; 0 when unknown, so never divide by it
            unchecked.
        attn_dp_rank: The publisher's slot (rule R3), or None, which is sent as nil. A router keys a
            reading by the socket it came from, never by this.
    """

    num_running_reqs: Requests
    num_waiting_reqs: Requests
    num_tokens: Tokens
    max_total_num_tokens: Tokens
    attn_dp_rank: Rank | None = None


class LoadStatRev2(LoadStatRev1, array_like=True, tag=TAG, frozen=True, kw_only=True, gc=False):
    """Revision 2 of the gauge: the 6 elements of revision 1 and these five (rule W3).

    Attributes:
        num_waiting_uncached_tokens: Prompt tokens that wait for prefill and missed the cache.
        num_total_tokens: KV-cache tokens in use plus those of queued requests.
        max_running_requests: The scheduler's limit of running requests.
        total_prefill_uncached_tokens: Uncached tokens prefilled since the engine process started;
            only grows while that process lives.
        total_prefill_busy_us: Microseconds of prefill step time since the engine process started;
            only grows while that process lives.
    """

    num_waiting_uncached_tokens: Tokens
    num_total_tokens: Tokens
    max_running_requests: Requests
    total_prefill_uncached_tokens: Tokens
    total_prefill_busy_us: Microseconds


LoadStat = LoadStatRev2
"""The newest revision."""

LATEST = 2
"""The number of the newest revision."""

# A new revision is a subclass of the one before, so that appending is all that the code can express
# (rule W11).
REVISIONS: dict[int, type[LoadStatRev1]] = {1: LoadStatRev1, 2: LoadStatRev2}
"""Every revision by number."""


class Message(NamedTuple):
    """One parsed message.

    Attributes:
        sequence: Frame 1. Starts at 0 in each engine process; gaps are legal, and a lower number
            than before is a restarted engine (rules S1 to S3).
        stat: Frame 2.
    """

    sequence: int
    stat: LoadStatRev1


def field_names(revision: int = LATEST) -> tuple[str, ...]:
    """The names of elements 1, 2, ... of a revision, in wire order.

    Raises:
        ValueError: There is no such revision.
    """
    return _reader(revision).__struct_fields__


def revision_of(stat: LoadStatRev1) -> int:
    """The number of the revision that ``stat`` is a value of.

    Raises:
        ValueError: Its class is none of `REVISIONS`.
    """
    for number, kind in REVISIONS.items():
        if type(stat) is kind:
            return number
    raise ValueError(f"{type(stat).__name__} is no revision of LoadStat")


def to_dict(stat: LoadStatRev1) -> dict[str, int | None]:
    """The fields of a reading by name, in wire order."""
    return {name: getattr(stat, name) for name in stat.__struct_fields__}


def from_dict(values: Mapping[str, Any], *, revision: int = LATEST) -> LoadStatRev1:
    """The reading of a revision with these fields; `to_dict` the other way round.

    Raises:
        TypeError: A field is missing, or the revision has no such field.
        ValueError: There is no such revision.
    """
    return _reader(revision)(**values)


_encoder = msgspec.msgpack.Encoder()


def encode(stat: LoadStatRev1) -> bytes:
    """The canonical bytes of a reading, as an engine must send them (rules W4 to W6).

    Raises:
        WireError: ``bad-type`` or ``out-of-range`` for a value that is no unsigned 64-bit integer.
            msgspec does not check the values of a struct, so a float, a bool, a negative or a numpy
            scalar gets this far.
    """
    # Reading the bytes back costs less than looking at each value, and what a strict reader takes
    # is what rule W5 asks for.
    try:
        payload = _encoder.encode(stat)
        _typed_decoder(type(stat)).decode(payload)
    except (msgspec.MsgspecError, OverflowError, TypeError, ValueError, RecursionError):
        _refuse_values(stat)
        raise
    return payload


def decode(payload: Buffer, *, revision: int = LATEST) -> LoadStatRev1:
    """Read a payload as a router of ``revision`` must (rules W1 to W3, W7 to W10, W12).

    The array's length picks the revision before anything is read, so that an old, short message is
    never read as a new one with zeros: the result is the newest revision, up to ``revision``, whose
    elements are all there. Further elements are ignored, whatever their type.

    Policies of this reader: it refuses bytes behind the array, a payload without a rank, a tag sent
    as bin and nil in an appended count; it takes counts up to 2^64-1; and it reads 7 to 10 elements
    as revision 1.

    Raises:
        WireError: With reason code, rule, byte offset and element.
        ValueError: There is no such revision.
    """
    reader = _reader(revision)
    data = payload if type(payload) is bytes else bytes(memoryview(payload))
    by_first_byte, by_length, _ = _reading(reader)
    decode_typed = by_first_byte.get(data[:1])
    if decode_typed is None:
        length = array_length(data)
        decode_typed = next((typed for most, typed in by_length if length > most), None)
    if decode_typed is not None:
        try:
            return decode_typed(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The exact reader says where and why (msgspec 0.18 lets a UnicodeDecodeError out); or,
            # for an unknown tail that is nested deeper than msgspec goes, reads it after all
            # (rule W8).
            pass
    return _read_exactly(data, reader)


def build_frames(sequence: int, stat: LoadStatRev1) -> tuple[bytes, bytes, bytes]:
    """One message as the three frames to send (rules F1 to F4).

    Raises:
        WireError: ``negative-seq`` for a sequence that is no int or outside of 0 to 2^63-1, else as
            :func:`encode`.
    """
    # True is an int to Python, and no sequence.
    if type(sequence) is not int or not 0 <= sequence <= MAX_SEQUENCE:
        raise WireError(
            Reason.NEGATIVE_SEQ, frame=1, expected="an integer, 0 to 2^63-1", got=repr(sequence)
        )
    return TOPIC, sequence.to_bytes(8, "big"), encode(stat)


def parse_frames(frames: Sequence[Buffer], *, revision: int = LATEST) -> Message:
    """Read one message as a router of ``revision`` must (rules F1 to F5).

    Raises:
        WireError: ``frame-count``, ``bad-topic``, ``bad-seq-length``, ``negative-seq`` or what
            :func:`decode` refuses, with the frame's index. A message of the KV-event stream is
            recognised, and the error's hint says so (rule F5).
        ValueError: There is no such revision.
    """
    parts = [x if type(x) is bytes else bytes(memoryview(x)) for x in frames]
    if len(parts) != 3:
        alone = len(parts) == 1 and _is_load_stat(parts[0])
        raise WireError(
            Reason.FRAME_COUNT,
            expected="3 frames (topic, sequence, payload)",
            got=f"{len(parts)}",
            hint="a payload alone: CONFLATE keeps only the last frame (rule K2)" if alone else None,
        )
    topic, sequence, payload = parts
    if topic != TOPIC:
        hint = lookalike(payload)
        if hint is None and topic.startswith(TOPIC):
            hint = "ZeroMQ subscriptions match by prefix, so the topic has to be compared"
        raise WireError(Reason.BAD_TOPIC, frame=0, expected=repr(TOPIC), got=repr(topic), hint=hint)
    if len(sequence) != 8:
        raise WireError(
            Reason.BAD_SEQ_LENGTH,
            frame=1,
            expected="8 bytes, a big-endian signed integer",
            got=f"{len(sequence)} byte{'s' * (len(sequence) != 1)} {sequence.hex()!r}",
        )
    number = int.from_bytes(sequence, "big", signed=True)
    if number < 0:
        raise WireError(
            Reason.NEGATIVE_SEQ,
            frame=1,
            expected="0 or more",
            got=str(number),
            hint="-1 is the replay sentinel of the KV-event stream" if number == -1 else None,
        )
    try:
        return Message(number, decode(payload, revision=revision))
    except WireError as error:
        error.frame = 2
        raise


def verify(payload: Buffer, *, revision: int = LATEST) -> LoadStatRev1:
    """Grade what an engine of ``revision`` sends: readable, exact in length and canonical.

    Returns:
        The reading, of exactly that revision.

    Raises:
        WireError: As :func:`decode`, or ``too-short`` and ``extra-elements`` (rule W4) when the
            array does not have the elements of the revision, or ``not-canonical`` (rule W6) with
            the first element that has a shorter spelling.
        ValueError: There is no such revision.
    """
    kind = _reader(revision)
    data = bytes(memoryview(payload))
    stat = _graded(decode, data, revision)
    length = array_length(data)
    elements = len(kind.__struct_fields__) + 1
    if length != elements:
        short = length < elements
        element = min(length, elements)
        raise WireError(
            Reason.TOO_SHORT if short else Reason.EXTRA_ELEMENTS,
            rule="W4",
            offset=0,
            element=element,
            field=element_name(kind.__struct_fields__, element),
            expected=f"exactly the {elements} elements of revision {revision}",
            got=f"{length}",
        )
    canonical = encode(stat)
    if data != canonical:
        raise not_canonical(data, canonical, kind.__struct_fields__)
    return stat


def verify_frames(frames: Sequence[Buffer], *, revision: int = LATEST) -> Message:
    """Grade one message of an engine of ``revision``: the frames, and the payload by `verify`.

    Raises:
        WireError: As :func:`parse_frames` and :func:`verify`.
        ValueError: There is no such revision.
    """
    message = _graded(parse_frames, frames, revision)
    try:
        return message._replace(stat=verify(frames[2], revision=revision))
    except WireError as error:
        error.frame = 2
        raise


def _graded(read: Callable[..., _Read], data: Any, revision: int) -> _Read:
    """What a router makes of an engine's bytes; what it misses, the engine left out (rule W4)."""
    try:
        return read(data, revision=revision)
    except WireError as error:
        if error.reason is Reason.TOO_SHORT:
            error.rule = "W4"
        raise


def _reader(revision: int) -> type[LoadStatRev1]:
    try:
        return REVISIONS[revision]
    except KeyError:
        known = ", ".join(map(str, REVISIONS))
        raise ValueError(f"no revision {revision!r} of LoadStat; there are {known}") from None


@cache
def _typed_decoder(kind: type[LoadStatRev1]) -> msgspec.msgpack.Decoder[LoadStatRev1]:
    return msgspec.msgpack.Decoder(kind)


_Decode = Callable[["Buffer"], LoadStatRev1]


class _Reading(NamedTuple):
    """How a reader of one revision reads: decoders, and the revisions that it knows."""

    by_first_byte: dict[bytes, _Decode]  # of the arrays whose length is in it, up to 15
    by_length: list[tuple[int, _Decode]]  # for arrays of more than so many elements, newest first
    revisions: dict[Names, type[LoadStatRev1]]  # newest first


@cache
def _reading(reader: type[LoadStatRev1]) -> _Reading:
    kinds = [kind for kind in reader.__mro__ if issubclass(kind, LoadStatRev1)]
    by_length = [(len(kind.__struct_fields__), _typed_decoder(kind).decode) for kind in kinds]
    by_first_byte = {
        bytes([0x90 | length]): decode_typed
        for most, decode_typed in reversed(by_length)
        for length in range(most + 1, 16)
    }
    return _Reading(by_first_byte, by_length, {kind.__struct_fields__: kind for kind in kinds})


def _read_exactly(data: bytes, reader: type[LoadStatRev1]) -> LoadStatRev1:
    revisions = _reading(reader).revisions
    try:
        values: dict[str, Any] = dict(read_exactly(data, tuple(revisions)))
    except WireError as error:
        if error.reason in (Reason.NOT_ARRAY, Reason.BAD_TAG):
            error.hint = lookalike(data)
        raise
    return revisions[tuple(values)](**values)


def _refuse_values(stat: LoadStatRev1) -> None:
    """Name the first value of ``stat`` that rule W5 forbids."""
    for element, name in enumerate(stat.__struct_fields__, 1):
        value = getattr(stat, name)
        if value is None and name == RANK_FIELD:
            continue
        exact = type(value) is int
        if not exact or not 0 <= value <= MAX_COUNT:
            raise WireError(
                Reason.OUT_OF_RANGE if exact else Reason.BAD_TYPE,
                element=element,
                field=name,
                expected="an int, 0 to 2^64-1",
                got=str(value) if exact else f"{type(value).__name__} {value!r}",
            ) from None


def _is_load_stat(payload: bytes) -> bool:
    try:
        decode(payload)
    except WireError:
        return False
    return True
