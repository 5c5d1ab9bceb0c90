"""Wrong decoders as they are written on top of a msgpack library, in a dozen lines or fewer."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec

from wrong.catalogue import wrong_decoder
from wrong.router import FIELDS, REV1

Reading = dict[str, Any]


def _named(values: Any) -> Reading:
    return dict(zip(FIELDS, values, strict=False))


@wrong_decoder("unpacks into a tuple of exactly six", "W3", "W7", "W8", "W12", revision=1)
def fixed_six_tuple(payload: bytes) -> Reading:
    tag, running, waiting, tokens, capacity, rank = msgpack.unpackb(payload)
    if tag != "LoadStat":
        raise ValueError(tag)
    return _named((running, waiting, tokens, capacity, rank))


@wrong_decoder("unpacks into a tuple of exactly eleven: no older engine is heard", "W2", "W8")
def fixed_eleven_tuple(payload: bytes) -> Reading:
    tag, *values = msgpack.unpackb(payload)
    if tag != "LoadStat" or len(values) != 10:
        raise ValueError(values)
    return _named(values)


@wrong_decoder("types the array as a msgspec tuple: exact length, strict types", "W8", "W12")
def typed_tuple(payload: bytes) -> Reading:
    kind = tuple[str, int, int, int, int, int | None, int, int, int, int, int]
    tag, *values = msgspec.msgpack.decode(payload, type=kind)
    if tag != "LoadStat":
        raise ValueError(tag)
    return _named(values)


class _Defaults(msgspec.Struct, array_like=True, tag="LoadStat"):
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_tokens: int = 0
    max_total_num_tokens: int = 0
    attn_dp_rank: int | None = None
    num_waiting_uncached_tokens: int = 0
    num_total_tokens: int = 0
    max_running_requests: int = 0
    total_prefill_uncached_tokens: int = 0
    total_prefill_busy_us: int = 0


@wrong_decoder("decodes into the engine's struct, whose defaults fill an old message", "W2", "W9")
def struct_with_defaults(payload: bytes) -> object:
    return msgspec.msgpack.decode(payload, type=_Defaults)


@wrong_decoder("decodes into a struct of plain int fields, which takes negatives", "W5")
def struct_without_bounds(payload: bytes) -> object:
    return msgspec.msgpack.decode(payload, type=_Defaults)


@wrong_decoder("decodes in lax mode, which reads text and whole floats as integers", "W5")
def struct_in_lax_mode(payload: bytes) -> object:
    return msgspec.msgpack.decode(payload, type=_Defaults, strict=False)


@wrong_decoder("fills what is missing with zeros", "W9", "W2", "W12")
def missing_read_as_zero(payload: bytes) -> Reading:
    tag, *values = msgpack.unpackb(payload)
    if tag != "LoadStat":
        raise ValueError(tag)
    return _named(values + [0] * (10 - len(values)))


@wrong_decoder("reads a map of field names as well", "W10")
def map_accepted(payload: bytes) -> Reading:
    fields = msgpack.unpackb(payload)
    if isinstance(fields, dict):
        return {name: fields.get(name, 0) for name in REV1}
    return _strict(fields)


@wrong_decoder("takes whatever is no array for an engine without work", "W10")
def not_an_array_is_idle(payload: bytes) -> Reading:
    fields = msgpack.unpackb(payload)
    return _strict(fields) if isinstance(fields, list) else dict.fromkeys(REV1, 0)


@wrong_decoder("reads an empty payload as an engine without work", "W10")
def empty_payload_is_idle(payload: bytes) -> Reading:
    return _strict(msgpack.unpackb(payload)) if payload else dict.fromkeys(REV1, 0)


@wrong_decoder("reads an empty array as an engine without work", "W10")
def empty_array_is_idle(payload: bytes) -> Reading:
    fields = msgpack.unpackb(payload)
    return dict.fromkeys(REV1, 0) if fields == [] else _strict(fields)


@wrong_decoder("answers every failure with an engine without work", "W1", "W5", "W9", "W10")
def any_failure_is_idle(payload: bytes) -> Reading:
    try:
        return _strict(msgpack.unpackb(payload))
    except Exception:
        return dict.fromkeys(REV1, 0)


@wrong_decoder("skips element 0 without a look", "W1")
def no_tag_check(payload: bytes) -> Reading:
    _, *values = msgpack.unpackb(payload)
    return _strict(["LoadStat", *values])


@wrong_decoder("unpacks with raw=True, where str and bin are the same", "W1")
def raw_strings(payload: bytes) -> Reading:
    tag, *values = msgpack.unpackb(payload, raw=True)
    return _strict([tag.decode(), *values])


@wrong_decoder("unpacks the whole array with the library's defaults before it looks", "W8")
def library_defaults(payload: bytes) -> Reading:
    return _strict(msgpack.unpackb(payload))


@wrong_decoder("takes the next object of a stream and leaves what is behind it", "W6")
def stream_of_objects(payload: bytes) -> Reading:
    unpacker = msgpack.Unpacker()
    unpacker.feed(payload)
    return _strict(unpacker.unpack())


@wrong_decoder("sends every number through a double, as JavaScript does", "W5")
def through_a_double(payload: bytes) -> Reading:
    fields = _strict(msgpack.unpackb(payload))
    return {name: None if n is None else int(float(n)) for name, n in fields.items()}


@wrong_decoder("hands out floats, since it divides by them anyway", "W2", "W3", "W5", "W7")
def hands_out_floats(payload: bytes) -> Reading:
    fields = _strict(msgpack.unpackb(payload))
    return {name: None if n is None else float(n) for name, n in fields.items()}


@wrong_decoder("makes every count an int, text and floats included", "W5")
def int_of_anything(payload: bytes) -> Reading:
    tag, *values = msgpack.unpackb(payload)
    if tag != "LoadStat" or len(values) < 5:
        raise ValueError("no LoadStat")
    return _named(None if v is None else int(v) for v in values[: 10 if len(values) > 9 else 5])


@wrong_decoder("lets the library's StopIteration and TypeError out", "W8", "W10")
def crashes_on_strangers(payload: bytes) -> Reading:
    fields = msgpack.unpackb(payload, strict_map_key=False, ext_hook=_no_ext)
    if fields[0] != "LoadStat":
        raise ValueError(fields[0])
    return _strict(fields)


def _no_ext(code: int, _: bytes) -> object:
    raise NotImplementedError(code)


@wrong_decoder("checks isinstance(value, int), which a bool is", "W5")
def bool_as_int(payload: bytes) -> Reading:
    tag, *values = msgpack.unpackb(payload, strict_map_key=False, unicode_errors="replace")
    known = values[: 10 if len(values) > 9 else 5]
    if tag != "LoadStat" or len(known) < 5:
        raise ValueError(tag)
    if not all(isinstance(v, int) and v >= 0 for i, v in enumerate(known) if (i, v) != (4, None)):
        raise ValueError(known)
    return _named(known)


def _strict(fields: Any) -> Reading:
    """A LoadStat out of what the library made; right as far as a library lets it be."""
    if not isinstance(fields, list) or len(fields) < 6 or fields[0] != "LoadStat":
        raise ValueError("no LoadStat")
    values = fields[1 : 11 if len(fields) > 10 else 6]
    for index, value in enumerate(values):
        if (type(value) is not int or value < 0) and (index, value) != (4, None):
            raise ValueError(f"{value!r} is no count")
    return _named(values)
