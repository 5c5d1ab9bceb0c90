"""The decoders themselves: each makes one for the fields that its author knew.

The first line of a docstring says how it reads. A decoder raises to refuse, as its program returns
an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pytest_loadwire.evolution.idioms.meeting import (
    Contract,
    Cursor,
    DeadError,
    NoError,
    Slot,
    by_length,
    elements_of,
    is_count,
    is_timestamp,
    newest,
    raw,
    strict,
    wrong,
    zero,
)
from pytest_loadwire.exact import TAG
from pytest_loadwire.tokens import Kind, Token

Decode = Callable[[bytes], Mapping[str, object]]
"""Reads one payload; raises whatever it likes to refuse it."""


def reference(contract: Contract) -> Decode:
    """The array's length picks the revision, each element has to be right, the tail is ignored."""

    def decode(data: bytes) -> Mapping[str, object]:
        cursor = Cursor(data)
        length = cursor.array()
        cursor.tag(Kind.STR)
        slots = by_length(contract, length)
        if length <= len(slots):
            raise NoError(f"{length} elements")
        values = {slot.name: strict(cursor.item(), slot) for slot in slots}
        for _ in range(length - len(slots) - 1):
            cursor.item()
        cursor.end()
        return values

    return decode


def rust_tuple(contract: Contract) -> Decode:
    """Takes exactly the elements of the newest revision that its author knew."""

    def decode(data: bytes) -> Mapping[str, object]:
        cursor, slots = Cursor(data), newest(contract)
        length = cursor.array()
        if length != len(slots) + 1:
            raise NoError(f"invalid length {length}")
        cursor.tag(Kind.STR, Kind.BIN)
        return {slot.name: strict(cursor.item(), slot) for slot in slots}

    return decode


def rust_defaults(contract: Contract) -> Decode:
    """Leaves what is missing at 0, and refuses one element more than it has fields."""

    def decode(data: bytes) -> Mapping[str, object]:
        cursor, slots = Cursor(data), newest(contract)
        length = cursor.array()
        if length > len(slots) + 1:
            raise NoError(f"invalid length {length}")
        cursor.tag(Kind.STR, Kind.BIN)
        read = {slot.name: strict(cursor.item(), slot) for slot in slots[: length - 1]}
        return {slot.name: zero(slot) for slot in slots} | read

    return decode


def rust_visitor(contract: Contract) -> Decode:
    """Requires each element that it reads, picks the revision by length and drains the rest."""

    def decode(data: bytes) -> Mapping[str, object]:
        cursor = Cursor(data)
        length = cursor.array()
        cursor.tag(Kind.STR, Kind.BIN)
        slots = by_length(contract, length)
        if length <= len(slots):
            raise NoError(f"invalid length {length}")
        values = {slot.name: strict(cursor.item(), slot) for slot in slots}
        for _ in range(length - len(slots) - 1):
            cursor.item()
        return values

    return decode


def rust_value(contract: Contract) -> Decode:
    """Builds any value, then picks elements; an optional one of any other type is none."""

    def decode(data: bytes) -> Mapping[str, object]:
        elements = elements_of(data, reserved_is_nil=True)[0]
        if elements[0].kind is not Kind.STR or elements[0].value != TAG.encode():
            raise NoError("not a LoadStat")
        values: dict[str, object] = {}
        for index, slot in enumerate(by_length(contract, len(elements)), 1):
            missing = index >= len(elements)
            if slot.nullable and (missing or not is_count(elements[index])):
                values[slot.name] = None
            elif missing:
                raise NoError(f"element {index} is missing")
            else:
                values[slot.name] = strict(elements[index], slot)
        return values

    return decode


def go_as_array(contract: Contract) -> Decode:
    """Takes exactly as many elements as the struct has fields; nil is 0 and negatives wrap."""

    def value(token: Token, slot: Slot) -> object:
        if token.kind is Kind.NIL:
            return zero(slot)
        if slot.type in ("count", "count-or-nil") and token.kind is Kind.INT:
            return int(token.value or 0) % 2**64
        return strict(token, slot)

    def decode(data: bytes) -> Mapping[str, object]:
        cursor, slots = Cursor(data), newest(contract)
        length = cursor.array()
        if length != len(slots) + 1:
            raise NoError(f"{length} elements for a struct of {len(slots) + 1}")
        cursor.tag(Kind.STR, Kind.BIN)
        return {slot.name: value(cursor.item(), slot) for slot in slots}

    return decode


def go_interfaces(contract: Contract) -> Decode:
    """Builds a slice of anything, picks the revision by length, and cuts each number to an int64.

    The library makes room for whatever a header announces and knows no ext type but the timestamp
    and no map key but text, also in elements that nobody reads.
    """
    most = 2**26  # interfaces that a process of 1 GiB has room for

    def objects(token: Token, is_key: bool) -> None:
        if token.kind in (Kind.ARRAY, Kind.MAP) and int(token.value or 0) >= most:
            raise DeadError("out of memory")
        if token.kind is Kind.EXT and not is_timestamp(token):
            raise wrong(token)
        if is_key and token.kind not in (Kind.STR, Kind.BIN, Kind.NIL):
            raise NoError(f"{token.describe()} as a key")

    def value(token: Token, slot: Slot) -> object:
        if slot.nullable and token.kind is Kind.NIL:
            return None
        if slot.type not in ("count", "count-or-nil"):
            return strict(token, slot)
        number = token.value
        if token.kind not in (Kind.INT, Kind.FLOAT) or not isinstance(number, int | float):
            raise NoError(f"{token.describe()} is not a number")
        if isinstance(number, float) and not -(2.0**63) <= number < 2.0**63:  # nor is nan
            return -(2**63)
        return (math.trunc(number) + 2**63) % 2**64 - 2**63

    def decode(data: bytes) -> Mapping[str, object]:
        elements = elements_of(data, objects)[0]
        slots = by_length(contract, len(elements))
        if len(elements) <= len(slots):
            raise NoError(f"{len(elements)} elements")
        if elements[0].kind not in (Kind.STR, Kind.BIN) or elements[0].value != TAG.encode():
            raise NoError("unexpected tag")
        return {
            slot.name: value(token, slot) for slot, token in zip(slots, elements[1:], strict=False)
        }

    return decode


def go_toarray(contract: Contract) -> Decode:
    """Leaves what is missing or nil at 0, takes a whole float for a count, drops what is more."""

    def value(token: Token, slot: Slot) -> object:
        if token.kind is Kind.NIL:
            return zero(slot)
        number = token.value
        if slot.type in ("count", "count-or-nil") and isinstance(number, float):
            if number.is_integer() and number >= 0:
                return int(number)
            raise wrong(token)
        return strict(token, slot)

    def decode(data: bytes) -> Mapping[str, object]:
        cursor, slots = Cursor(data), newest(contract)
        length = cursor.array()
        cursor.tag(Kind.STR, Kind.BIN)
        read = {slot.name: value(cursor.item(), slot) for slot in slots[: length - 1]}
        for _ in range(length - len(slots) - 1):
            cursor.item()
        return {slot.name: zero(slot) for slot in slots} | read

    return decode


def typescript_cast(contract: Contract) -> Decode:
    """Takes what stands there for the type it was cast to; numbers have 53 bits."""

    def objects(token: Token, is_key: bool) -> None:
        if is_key and token.kind not in (Kind.STR, Kind.INT, Kind.FLOAT):
            raise NoError(f"{token.describe()} as a key")
        claims = isinstance(token.value, bytes) and token.value[:1] == b"\xff"
        if token.kind is Kind.EXT and claims and not is_timestamp(token):
            raise wrong(token)

    def value(token: Token) -> object:
        number = token.value
        if token.kind is Kind.INT:
            return int(float(number or 0))
        if isinstance(number, float) and number.is_integer():
            return int(number)
        return raw(token)

    def decode(data: bytes) -> Mapping[str, object]:
        elements, end = elements_of(data, objects)
        if end < len(data):
            raise NoError(f"{len(data) - end} of {len(data)} bytes left over")
        if elements[0].kind is not Kind.STR or elements[0].value != TAG.encode():
            raise NoError("unexpected tag")
        slots = newest(contract)
        return {slot.name: value(t) for slot, t in zip(slots, elements[1:], strict=False)}

    return decode


def java_unpacker(contract: Contract) -> Decode:
    """Unpacks one element after another as a long, and leaves what follows unread."""

    def value(token: Token, slot: Slot) -> object:
        if slot.type in ("count", "count-or-nil") and token.kind is Kind.INT:
            number = int(token.value or 0)
            if number >= 2**63:
                raise NoError(f"{number} overflows a long")
            return number
        if slot.type == "float" and token.kind is not Kind.FLOAT:
            raise wrong(token)
        return strict(token, slot)

    def decode(data: bytes) -> Mapping[str, object]:
        cursor = Cursor(data)
        length = cursor.array()
        if length >= 2**31:
            raise NoError(f"{length} elements overflow an int")
        cursor.tag(Kind.STR, Kind.BIN)
        slots = by_length(contract, length)
        if length <= len(slots):
            raise NoError(f"{length} elements")
        return {slot.name: value(cursor.item(), slot) for slot in slots}

    return decode


def python_msgspec(contract: Contract) -> Decode:
    """Leaves what is missing at the engine's own defaults, and ignores what is more."""
    slots = newest(contract)
    types: dict[str, Any] = {"count": int, "count-or-nil": int | None, "float": float}
    fields = [(f"at_{n}", types.get(s.type, Any), zero(s)) for n, s in enumerate(slots)]
    kind = msgspec.defstruct("LoadStat", fields, array_like=True, tag=TAG)
    decoder = msgspec.msgpack.Decoder(kind)

    def decode(data: bytes) -> Mapping[str, object]:
        values = msgspec.structs.astuple(decoder.decode(data))
        return {slot.name: value for slot, value in zip(slots, values, strict=True)}

    return decode


def python_unpackb(contract: Contract) -> Decode:
    """Unpacks the whole payload into a list, and gives its items names as far as they go."""

    def decode(data: bytes) -> Mapping[str, object]:
        import msgpack  # noqa: PLC0415 - for those who ask about this idiom

        tag, *values = msgpack.unpackb(data)
        if tag != TAG:
            raise NoError(f"unexpected tag {tag!r}")
        return {s.name: value for s, value in zip(newest(contract), values, strict=False)}

    return decode
