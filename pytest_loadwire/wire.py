"""The bytes: both revisions of ``LoadStat``, a strict codec, and the three frames around it.

:func:`encode` is the model engine and :func:`decode` the model router. They owe different things:
an engine sends one spelling (rules W4 to W6), a router takes every legal one and refuses what it
does not understand (W7 to W10), since a gauge that wrongly reads 0 says "idle, send everything
here". :func:`verify` grades the bytes of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from pytest_loadwire.errors import WireError
from pytest_loadwire.rules import Reason
from pytest_loadwire.tokens import (
    NEVER_USED,
    Kind,
    TokenError,
    is_array_marker,
    item_end,
    read_token,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

TOPIC = b"load"
"""Frame 0 of every message (rule F2)."""

TAG = "LoadStat"
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
    """The number of the revision that ``stat`` is a value of."""
    return next(number for number, kind in REVISIONS.items() if type(stat) is kind)


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
    data = bytes(memoryview(payload))
    length = _array_length(data)
    for kind in _newest_first(reader):
        if length > len(kind.__struct_fields__):
            try:
                return _typed_decoder(kind).decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                # The exact reader says where and why (msgspec 0.18 lets a UnicodeDecodeError out);
                # or, for an unknown tail that is nested deeper than msgspec goes, reads it after
                # all (rule W8).
                break
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
    parts = [bytes(memoryview(frame)) for frame in frames]
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
        hint = _lookalike(payload)
        if hint is None and topic.startswith(TOPIC):
            hint = "ZeroMQ subscriptions match by prefix, so the topic has to be compared"
        raise WireError(Reason.BAD_TOPIC, frame=0, expected=repr(TOPIC), got=repr(topic), hint=hint)
    if len(sequence) != 8:
        raise WireError(
            Reason.BAD_SEQ_LENGTH,
            frame=1,
            expected="8 bytes, a big-endian signed integer",
            got=f"{len(sequence)} bytes {sequence.hex()!r}",
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
    stat = decode(data, revision=revision)
    length = _array_length(data)
    elements = len(kind.__struct_fields__) + 1
    if length != elements:
        short = length < elements
        element = min(length, elements)
        raise WireError(
            Reason.TOO_SHORT if short else Reason.EXTRA_ELEMENTS,
            rule="W4",
            offset=0,
            element=element,
            field=_element_name(kind, element),
            expected=f"exactly the {elements} elements of revision {revision}",
            got=f"{length}",
        )
    canonical = encode(stat)
    if data != canonical:
        raise _not_canonical(data, canonical, kind)
    return stat


def verify_frames(frames: Sequence[Buffer], *, revision: int = LATEST) -> Message:
    """Grade one message of an engine of ``revision``: the frames, and the payload by `verify`.

    Raises:
        WireError: As :func:`parse_frames` and :func:`verify`.
        ValueError: There is no such revision.
    """
    message = parse_frames(frames, revision=revision)
    try:
        return message._replace(stat=verify(frames[2], revision=revision))
    except WireError as error:
        error.frame = 2
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


@cache
def _newest_first(reader: type[LoadStatRev1]) -> tuple[type[LoadStatRev1], ...]:
    return tuple(kind for kind in reader.__mro__ if issubclass(kind, LoadStatRev1))


def _array_length(data: bytes) -> int:
    """How many elements the array announces, or -1 where there is no array header."""
    if data and data[0] & 0xF0 == 0x90:
        return data[0] & 0x0F
    try:
        token = read_token(data, 0)
    except TokenError:
        return -1
    return token.children if token.kind is Kind.ARRAY else -1


def _element_name(kind: type[LoadStatRev1], element: int | None) -> str | None:
    """What element ``element`` is called, as far as any revision up to ``kind`` knows it."""
    if element is None or element > len(kind.__struct_fields__):
        return None
    return kind.__struct_fields__[element - 1] if element else "tag"


def _read_exactly(data: bytes, reader: type[LoadStatRev1]) -> LoadStatRev1:
    """The exact meaning of a payload, element by element from the front; the first fault wins."""
    fault = _Faults(data, reader)
    if data and data[0] != NEVER_USED and not is_array_marker(data[0]):
        raise fault.at(Reason.NOT_ARRAY, 0, None, "an array", _describe(data))
    try:
        header = read_token(data, 0)
    except TokenError as error:
        raise fault.broken(error, None) from None
    length = header.children
    if not length:
        raise fault.at(Reason.TOO_SHORT, 0, 0, f"the tag {TAG!r}", "an empty array")
    # An element is read whole before it is judged: cut short comes before wrong.
    position = fault.item_end(header.end, 0)
    tag = read_token(data, header.end)
    if tag.kind is not Kind.STR or tag.value != TAG.encode():
        raise fault.at(Reason.BAD_TAG, tag.start, 0, f"the str {TAG!r}", tag.describe())
    if length <= len(LoadStatRev1.__struct_fields__):
        raise fault.at(
            Reason.TOO_SHORT,
            0,
            length,
            f"an array of at least {len(LoadStatRev1.__struct_fields__) + 1}",
            f"{length}",
        )
    kind = next(kind for kind in _newest_first(reader) if length > len(kind.__struct_fields__))
    values: dict[str, Any] = {}
    for element, name in enumerate(kind.__struct_fields__, 1):
        end = fault.item_end(position, element)
        token = read_token(data, position)
        nullable = name == "attn_dp_rank"
        if token.kind is not Kind.INT and not (nullable and token.kind is Kind.NIL):
            wanted = "an unsigned integer or nil" if nullable else "an unsigned integer"
            raise fault.at(Reason.BAD_TYPE, position, element, wanted, token.describe())
        if isinstance(token.value, int) and token.value < 0:
            raise fault.at(Reason.OUT_OF_RANGE, position, element, "0 to 2^64-1", str(token.value))
        values[name] = token.value
        position = end
    for element in range(len(kind.__struct_fields__) + 1, length):
        position = fault.item_end(position, element)
    if position != len(data):
        surplus = len(data) - position
        raise fault.at(
            Reason.TRAILING_BYTES, position, None, "the end of the payload", f"{surplus} more bytes"
        )
    return kind(**values)


class _Faults:
    """Turns what goes wrong in one payload into a `WireError` with its place."""

    def __init__(self, data: bytes, reader: type[LoadStatRev1]) -> None:
        self.data = data
        self.reader = reader

    def at(
        self,
        reason: Reason,
        offset: int,
        element: int | None,
        expected: str,
        got: str,
    ) -> WireError:
        hint = None
        if reason in (Reason.NOT_ARRAY, Reason.BAD_TAG):
            hint = _lookalike(self.data)
        return WireError(
            reason,
            offset=offset,
            element=element,
            field=_element_name(self.reader, element),
            expected=expected,
            got=got,
            hint=hint,
        )

    def item_end(self, start: int, element: int) -> int:
        try:
            return item_end(self.data, start)
        except TokenError as error:
            raise self.broken(error, element) from None

    def broken(self, error: TokenError, element: int | None) -> WireError:
        if error.reason == "malformed":
            wanted, got = "a msgpack marker", "0xc1, which msgpack never uses"
        else:
            wanted = f"at least {error.needed} more byte" + "s" * (error.needed > 1)
            got = "the end of the payload"
        return self.at(Reason(error.reason), error.offset, element, wanted, got)


def _refuse_values(stat: LoadStatRev1) -> None:
    """Name the first value of ``stat`` that rule W5 forbids."""
    for element, name in enumerate(stat.__struct_fields__, 1):
        value = getattr(stat, name)
        if value is None and name == "attn_dp_rank":
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


def _not_canonical(data: bytes, canonical: bytes, kind: type[LoadStatRev1]) -> WireError:
    """Where the first longer spelling stands. Both hold the same values in as many elements."""
    header, shortest = read_token(data, 0), read_token(canonical, 0)
    element, start, short = None, header.end, shortest.end
    spelled, wanted = data[: header.end], canonical[: shortest.end]
    offset = 0
    while spelled == wanted:
        element = 0 if element is None else element + 1
        offset = start
        end, short_end = item_end(data, start), item_end(canonical, short)
        spelled, wanted = data[start:end], canonical[short:short_end]
        start, short = end, short_end
    return WireError(
        Reason.NOT_CANONICAL,
        offset=offset,
        element=element,
        field=_element_name(kind, element),
        expected=f"the shortest spelling {wanted.hex()}",
        got=f"{spelled.hex()} ({read_token(data, offset).format})",
    )


def _is_load_stat(payload: bytes) -> bool:
    try:
        decode(payload)
    except WireError:
        return False
    return True


def _describe(data: bytes) -> str:
    """The item at the front of ``data`` in words, also where it is cut short."""
    try:
        return read_token(data, 0).describe()
    except TokenError:
        return f"an item that starts with 0x{data[0]:02x}"


def _lookalike(payload: bytes) -> str | None:
    """Which other stream a refused payload looks like (rule F5)."""
    try:
        header = read_token(payload, 0)
        if header.kind is Kind.MAP:
            return "a map: it looks like a LoadSnapshot, the engine's internal reading"
        if header.kind is Kind.ARRAY and header.children >= 2:
            first = read_token(payload, header.end)
            second = read_token(payload, first.end)
            if first.kind is Kind.FLOAT and second.kind is Kind.ARRAY:
                return "a timestamp and a list: it looks like a batch of the KV-event stream"
    except TokenError:
        pass
    return None
