"""msgpack, one header at a time, with offsets.

The libraries decode fast but say little about where they stopped. This reader is slow and exact: it
knows the offset of every byte, follows nesting without recursion, and allocates nothing by a length
that the bytes merely announce, so that no input makes it fail in any other way than
:class:`TokenError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Literal, NamedTuple

NEVER_USED = 0xC1
"""The one marker that the msgpack specification gives no meaning."""


def is_array_marker(marker: int) -> bool:
    """Whether an item that starts with this byte is an array: fixarray, array 16 or array 32."""
    return marker & 0xF0 == 0x90 or marker in (0xDC, 0xDD)


class Kind(Enum):
    """The type families of msgpack; the value is how messages name them."""

    NIL = "nil"
    BOOL = "bool"
    INT = "integer"
    FLOAT = "float"
    STR = "str"
    BIN = "bin"
    ARRAY = "array"
    MAP = "map"
    EXT = "ext"


class Token(NamedTuple):
    """One header with its body; the items of a container are the tokens that follow.

    Attributes:
        kind: The type family.
        format: The name of the encoding in the msgpack specification, for example ``uint 16``.
        start: Offset of the marker byte.
        body: Offset of the first byte behind the header.
        end: Offset behind the token; a container's items begin there.
        value: The number, the bool or None; the body's bytes of str, bin and ext; a container's
            announced length.
        children: How many items follow that belong to this container, twice the length for a map.
    """

    kind: Kind
    format: str
    start: int
    body: int
    end: int
    value: int | float | bool | bytes | None
    children: int

    def describe(self) -> str:
        """The token in words for a message, for example ``float 7.0`` or ``array of 3``."""
        if self.kind is Kind.NIL:
            return "nil"
        if self.kind is Kind.BOOL:
            return "true" if self.value else "false"
        if self.kind in (Kind.INT, Kind.FLOAT):
            return f"{self.kind.value} {self.value!r}"
        if self.kind in (Kind.ARRAY, Kind.MAP):
            return f"{self.kind.value} of {self.value!r}"
        assert isinstance(self.value, bytes)  # noqa: S101 - str, bin and ext are what is left
        if self.kind is Kind.STR:
            said = self.value.decode("utf-8", "backslashreplace")
            return f"str {_shorten(said)!r}"
        return f"{self.kind.value} {_shorten(self.value.hex())}"


def _shorten(text: str) -> str:
    return text if len(text) <= 32 else f"{text[:32]}..."


class TokenError(Exception):
    """The bytes are no msgpack from ``offset`` on: ``truncated`` or ``malformed``.

    Attributes:
        reason: ``truncated`` when the bytes end too early, ``malformed`` on the marker 0xc1.
        offset: For ``truncated`` the length of the data, else the offset of the marker.
        needed: How many more bytes the token under way asks for, at least.
    """

    def __init__(self, reason: Literal["truncated", "malformed"], offset: int, needed: int) -> None:
        self.reason: Literal["truncated", "malformed"] = reason
        self.offset = offset
        self.needed = needed
        super().__init__(f"{reason} at byte {offset}")


# marker -> (kind, format name, struct format of a number that stands in the header)
_NUMBERS = {
    0xCA: (Kind.FLOAT, "float 32", ">f"),
    0xCB: (Kind.FLOAT, "float 64", ">d"),
    0xCC: (Kind.INT, "uint 8", ">B"),
    0xCD: (Kind.INT, "uint 16", ">H"),
    0xCE: (Kind.INT, "uint 32", ">I"),
    0xCF: (Kind.INT, "uint 64", ">Q"),
    0xD0: (Kind.INT, "int 8", ">b"),
    0xD1: (Kind.INT, "int 16", ">h"),
    0xD2: (Kind.INT, "int 32", ">i"),
    0xD3: (Kind.INT, "int 64", ">q"),
}
# marker -> (kind, format name, bytes of the length field)
_SIZED = {
    0xC4: (Kind.BIN, "bin 8", 1),
    0xC5: (Kind.BIN, "bin 16", 2),
    0xC6: (Kind.BIN, "bin 32", 4),
    0xC7: (Kind.EXT, "ext 8", 1),
    0xC8: (Kind.EXT, "ext 16", 2),
    0xC9: (Kind.EXT, "ext 32", 4),
    0xD9: (Kind.STR, "str 8", 1),
    0xDA: (Kind.STR, "str 16", 2),
    0xDB: (Kind.STR, "str 32", 4),
    0xDC: (Kind.ARRAY, "array 16", 2),
    0xDD: (Kind.ARRAY, "array 32", 4),
    0xDE: (Kind.MAP, "map 16", 2),
    0xDF: (Kind.MAP, "map 32", 4),
}


def read_token(data: bytes, start: int) -> Token:
    """The token whose marker is at ``start``.

    Raises:
        TokenError: The bytes end before the token does, or the marker is 0xc1, which the msgpack
            specification never uses.
    """
    if start >= len(data):
        raise TokenError("truncated", len(data), 1)
    marker = data[start]
    body = start + 1
    if marker <= 0x7F:
        return Token(Kind.INT, "positive fixint", start, body, body, marker, 0)
    if marker >= 0xE0:
        return Token(Kind.INT, "negative fixint", start, body, body, marker - 0x100, 0)
    if marker <= 0x8F:
        return _container(Kind.MAP, "fixmap", start, body, marker & 0x0F)
    if marker <= 0x9F:
        return _container(Kind.ARRAY, "fixarray", start, body, marker & 0x0F)
    if marker <= 0xBF:
        return _sized(data, Kind.STR, "fixstr", start, body, marker & 0x1F)
    if marker == 0xC0:
        return Token(Kind.NIL, "nil", start, body, body, None, 0)
    if marker in (0xC2, 0xC3):
        return Token(Kind.BOOL, "bool", start, body, body, marker == 0xC3, 0)
    if marker in _NUMBERS:
        kind, name, layout = _NUMBERS[marker]
        end = _reach(data, body, struct.calcsize(layout))
        return Token(kind, name, start, end, end, struct.unpack_from(layout, data, body)[0], 0)
    if 0xD4 <= marker <= 0xD8:
        size = 1 << (marker - 0xD4)
        return _sized(data, Kind.EXT, f"fixext {size}", start, body, size + 1)
    if marker in _SIZED:
        kind, name, width = _SIZED[marker]
        body = _reach(data, body, width)
        length = int.from_bytes(data[start + 1 : body], "big")
        if kind in (Kind.ARRAY, Kind.MAP):
            return _container(kind, name, start, body, length)
        # an ext's type byte stands before its body and counts as part of it here
        return _sized(data, kind, name, start, body, length + (kind is Kind.EXT))
    raise TokenError("malformed", start, 0)  # NEVER_USED is all that is left


def item_end(data: bytes, start: int) -> int:
    """The offset behind the whole item at ``start``, its nested items included.

    Raises:
        TokenError: As :func:`read_token`, for any token inside.
    """
    pending, position = 1, start
    while pending:
        token = read_token(data, position)
        position = token.end
        pending += token.children - 1
    return position


def walk(data: bytes, start: int = 0) -> Iterator[tuple[int, Token]]:
    """Every token of the item at ``start`` with its depth, containers before their items.

    Raises:
        TokenError: As :func:`read_token`, once the tokens before it were given out.
    """
    open_items = [1]
    position = start
    while open_items:
        token = read_token(data, position)
        yield len(open_items) - 1, token
        position = token.end
        open_items[-1] -= 1
        if token.children:
            open_items.append(token.children)
        while open_items and not open_items[-1]:
            open_items.pop()


def _reach(data: bytes, start: int, size: int) -> int:
    end = start + size
    if end > len(data):
        raise TokenError("truncated", len(data), end - len(data))
    return end


def _sized(data: bytes, kind: Kind, name: str, start: int, body: int, length: int) -> Token:
    end = _reach(data, body, length)
    return Token(kind, name, start, body, end, data[body:end], 0)


def _container(kind: Kind, name: str, start: int, body: int, length: int) -> Token:
    children = length * 2 if kind is Kind.MAP else length
    return Token(kind, name, start, body, body, length, children)
