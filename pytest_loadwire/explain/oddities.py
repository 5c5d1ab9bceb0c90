"""What is legal and still worth a look: values that cannot be, and causes that are likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_loadwire.explain.hazards import announced
from pytest_loadwire.rules import Reason
from pytest_loadwire.siblings import is_load_stat, recognise_payload
from pytest_loadwire.tokens import Kind, Token, TokenError, item_end, read_token
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from pytest_loadwire.errors import WireError

_I64 = 1 << 63


def warnings(reading: Mapping[str, int | None], sequence: int | None = None) -> Iterator[str]:
    """What is odd about a reading that is legal, a sentence each without a full stop."""
    for name, value in reading.items():
        if value is not None and value >= _I64:
            yield (
                f"{name} is {value}, which is {value - (1 << 64)} in signed 64 bits: was it below "
                "zero? Routers that count in signed integers refuse it"
            )
    appended = list(reading.values())[len(REVISIONS[min(REVISIONS)].__struct_fields__) :]
    if appended and not any(appended):
        reading = dict(list(reading.items())[: -len(appended)])
        yield (
            f"the {len(appended)} counts that a later revision appended are all 0: an engine that "
            "never worked, or something read an older message, filled it up and sent it on"
        )
    used, capacity = reading.get("num_tokens"), reading.get("max_total_num_tokens")
    total = reading.get("num_total_tokens")
    if capacity == 0:
        yield (
            "max_total_num_tokens is 0, which means that the capacity is unknown: never divide by "
            "it"
        )
    if used is not None and capacity and used > capacity:
        fits = used < _I64 and (total is None or capacity <= total)
        why = ": are elements 3 and 4 swapped?" if fits else " (max_total_num_tokens)"
        yield f"num_tokens {used} is above the capacity {capacity}{why}"
    if used is not None and total is not None and total < used:
        yield f"num_total_tokens {total} is below num_tokens {used}, which it includes"
    running, limit = reading.get("num_running_reqs"), reading.get("max_running_requests")
    if running is not None and limit is not None and running > limit:
        yield f"num_running_reqs {running} is above the limit max_running_requests {limit}"
    uncached, waiting = reading.get("num_waiting_uncached_tokens"), total
    if uncached and waiting is not None and uncached > waiting:
        yield (
            f"num_waiting_uncached_tokens {uncached} is above num_total_tokens {waiting}, which "
            "includes the queued requests"
        )
    if "attn_dp_rank" in reading:
        rank = reading["attn_dp_rank"]
        if rank is None:
            yield (
                "attn_dp_rank is nil: legal, but a publisher knows its slot. Routers key a reading "
                "by the socket it came from (rule R3)"
            )
        elif 65535 < rank < _I64:
            yield f"attn_dp_rank {rank} cannot be: base port + rank runs past port 65535"
    if sequence is not None and sequence >= 1 << 32:
        swapped = int.from_bytes(sequence.to_bytes(8, "big"), "little")
        if swapped < 1 << 32:
            yield (
                f"the sequence {sequence} would be {swapped} in little-endian: does the engine "
                "write the wrong byte order (rule F3)?"
            )


def cause(error: WireError, frames: tuple[bytes, ...]) -> str | None:
    """The likely cause of a fault, in a sentence without a full stop, or None."""
    payload = frames[-1] if frames else b""
    at = frames[error.frame] if error.frame is not None and error.frame < len(frames) else payload
    reason = error.reason
    if reason in (Reason.TOO_SHORT, Reason.EXTRA_ELEMENTS):
        return _length(payload)
    if reason is Reason.BAD_TYPE:
        return _type(_token(payload, error.offset))
    if reason is Reason.OUT_OF_RANGE:
        return _below_zero(error.got)
    if reason is Reason.BAD_TAG:
        return _tag(_token(payload, error.offset))
    if reason is Reason.NOT_ARRAY:
        return None if payload[:1] == b"\x80" else _not_array(payload)
    if reason is Reason.TRUNCATED:
        if not payload:
            return "an empty frame or string"
        if error.element is None or error.offset is None:
            return "only the start of the bytes was copied or logged"
        return _cut(payload, error.element)
    if reason is Reason.TRAILING_BYTES and error.offset is not None:
        return _trailing(payload[error.offset :])
    if reason is Reason.NOT_CANONICAL:
        return "an encoder with integers or headers of one fixed width"
    if reason is Reason.BAD_SEQ_LENGTH:
        return _sequence(at)
    if reason is Reason.NEGATIVE_SEQ and at == b"\xff" * 8:
        return (
            "a counter that starts at -1; on the KV-event stream -1 marks the end of a replay, and "
            "that has no reading behind it"
        )
    if reason is Reason.BAD_TOPIC and frames[:1] == (b"",):
        return "an engine that sends an empty topic; a router that subscribes to load gets nothing"
    return None


def _below_zero(got: str) -> str | None:
    if not got.startswith("-"):
        return None
    return "a subtraction that went below zero" + ", or -1 for unknown" * (got == "-1")


def _cut(payload: bytes, element: int) -> str:
    header = _token(payload, 0)
    cut = "the bytes were cut where they were copied, logged or sent"
    if header is None or announced(payload, element) is not None:
        return "a length that nobody meant: bytes that are out of step, or made to do harm"
    if element and _ends_between(payload, element):
        return f"{cut}; or the header announces {header.children} elements and {element} were sent"
    return cut


def _ends_between(payload: bytes, element: int) -> bool:
    try:
        position = read_token(payload, 0).end
        for _ in range(element):
            position = item_end(payload, position)
    except TokenError:
        return False
    return position == len(payload)


def _token(data: bytes, offset: int | None) -> Token | None:
    try:
        return read_token(data, offset or 0)
    except TokenError:
        return None


def _length(payload: bytes) -> str:
    header = _token(payload, 0)
    length = header.children if header is not None else 0
    if length < 5:
        return "an encoder that leaves out what is at its default, or another struct"
    if length == 5:
        return (
            "an encoder that leaves out an unset rank (it must be sent as nil), or a trimmed array"
        )
    if length == 7:
        return "an array trimmed at its end, or a fork of SGLang that appends one element"
    if length < 11:
        return "an array trimmed at its end: an engine sends all elements of its revision"
    return "an engine newer than revision 2, the newest that this package knows"


def _type(token: Token | None) -> str | None:
    if token is None:
        return None
    return {
        Kind.NIL: "a count that the engine never set (None)",
        Kind.BOOL: "a flag in place of a count: are the elements in order?",
        Kind.FLOAT: "a number that went through a division or through JSON",
        Kind.STR: "a number that was formatted as text; or are the elements in order?",
        Kind.BIN: "raw bytes in place of a number, as a numpy scalar may be packed",
        Kind.ARRAY: "a list in place of a number, for example one count for each rank",
        Kind.MAP: "a nested struct in place of a number",
        Kind.EXT: "an extension type in place of a number, for example a timestamp",
    }.get(token.kind)


def _tag(token: Token | None) -> str | None:
    if token is None:
        return None
    if token.kind is Kind.BIN and token.value == b"LoadStat":
        return "an encoder that was given bytes in place of text for the tag"
    if token.kind is Kind.INT:
        return "an array without a tag: the engine's struct lacks tag='LoadStat'"
    if token.kind is Kind.STR and isinstance(token.value, bytes):
        if token.value.strip(b" \0").lower() == b"loadstat":
            return "the tag is spelled otherwise; it is LoadStat to the letter"
        return "another struct, or a renamed class: the tag is the class name LoadStat"
    return None


def _not_array(payload: bytes) -> str | None:
    if recognise_payload(payload) is not None:
        return None
    for skipped in range(1, min(len(payload), 64)):
        if is_load_stat(payload[skipped:]):
            return (
                f"a LoadStat starts at byte {skipped}: {skipped} byte{'s' * (skipped != 1)} in "
                "front of it are too many"
            )
    if payload[:9] == b"\xa8LoadStat":
        return "the first byte, the array's header, is missing"
    return None


def _trailing(behind: bytes) -> str:
    if not behind.strip(b"\r\n"):
        return "a line end behind the payload, as print and echo add it"
    if is_load_stat(behind):
        return "two payloads in one frame"
    if not behind.strip(b"\0"):
        return "a buffer of a fixed size that was sent whole"
    return "a buffer that was sent beyond its end, or an array header that announces too few"


def _sequence(raw: bytes) -> str:
    if raw.isdigit():
        return "the number was sent as text"
    if len(raw) == 9 and raw[0] in (0xCF, 0xD3):
        return "the number was sent as msgpack, with a marker in front"
    if is_load_stat(raw):
        return "the payload stands in its place: the frames are out of order"
    if len(raw) in (1, 2, 4):
        return f"an integer of {8 * len(raw)} bits"
    return "the frames may be out of order"
