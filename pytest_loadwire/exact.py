"""The exact reader: what is wrong with a payload, and where.

The msgspec decoders behind :mod:`~pytest_loadwire.wire` are fast and name no offset. This one reads
a payload token by token, says which byte of which element is to blame and why, and decides what no
library decides, such as a tail that is nested deeper than msgspec goes. Stdlib only.
"""

from __future__ import annotations

from collections.abc import Sequence

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

TAG = "LoadStat"
"""Element 0 of every payload (rule W1)."""

RANK_FIELD = "attn_dp_rank"
"""The one field that may be nil."""

Names = tuple[str, ...]
"""The fields of a revision, in wire order."""


def array_length(data: bytes) -> int:
    """How many elements the array announces, or -1 where there is no array header."""
    try:
        token = read_token(data, 0)
    except TokenError:
        return -1
    return token.children if token.kind is Kind.ARRAY else -1


def element_name(names: Names, element: int | None) -> str | None:
    """What element ``element`` is called, as far as a revision with these fields knows it."""
    if element is None or element > len(names):
        return None
    return names[element - 1] if element else "tag"


def read_exactly(data: bytes, revisions: Sequence[Names]) -> dict[str, int | None]:
    """The exact meaning of a payload, element by element from the front; the first fault wins.

    Args:
        data: The payload.
        revisions: The fields of every revision that the reader knows, newest first.

    Returns:
        The fields of the newest revision that is all there.

    Raises:
        WireError: With reason code, rule, byte offset and element.
    """
    fault = _Faults(data, revisions[0])
    if data and data[0] != NEVER_USED and not is_array_marker(data[0]):
        raise fault.at(Reason.NOT_ARRAY, 0, None, "an array", _describe(data))
    try:
        header = read_token(data, 0)
    except TokenError as error:
        raise fault.broken(error, None) from None
    length = header.children
    fewest = len(revisions[-1]) + 1
    if not length:
        raise fault.at(Reason.TOO_SHORT, 0, 0, f"the tag {TAG!r}", "an empty array")
    # An element is read whole before it is judged: cut short comes before wrong.
    position = fault.item_end(header.end, 0)
    tag = read_token(data, header.end)
    if tag.kind is not Kind.STR or tag.value != TAG.encode():
        raise fault.at(Reason.BAD_TAG, tag.start, 0, f"the str {TAG!r}", tag.describe())
    if length < fewest:
        raise fault.at(Reason.TOO_SHORT, 0, length, f"an array of at least {fewest}", f"{length}")
    names = next(names for names in revisions if length > len(names))
    values: dict[str, int | None] = {}
    for element, name in enumerate(names, 1):
        end = fault.item_end(position, element)
        token = read_token(data, position)
        nullable = name == RANK_FIELD
        if token.kind is not Kind.INT and not (nullable and token.kind is Kind.NIL):
            wanted = "an unsigned integer or nil" if nullable else "an unsigned integer"
            raise fault.at(Reason.BAD_TYPE, position, element, wanted, token.describe())
        value = token.value if isinstance(token.value, int) else None
        if value is not None and value < 0:
            raise fault.at(Reason.OUT_OF_RANGE, position, element, "0 to 2^64-1", str(value))
        values[name] = value
        position = end
    for element in range(len(names) + 1, length):
        position = fault.item_end(position, element)
    if position != len(data):
        surplus = len(data) - position
        got = f"{surplus} more byte" + "s" * (surplus > 1)
        raise fault.at(Reason.TRAILING_BYTES, position, None, "the end of the payload", got)
    return values


def not_canonical(data: bytes, canonical: bytes, names: Names) -> WireError:
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
        field=element_name(names, element),
        expected=f"the shortest spelling {wanted.hex()}",
        got=f"{spelled.hex()} ({read_token(data, offset).format})",
    )


class _Faults:
    """Turns what goes wrong in one payload into a `WireError` with its place."""

    def __init__(self, data: bytes, names: Names) -> None:
        self.data = data
        self.names = names

    def at(
        self,
        reason: Reason,
        offset: int,
        element: int | None,
        expected: str,
        got: str,
    ) -> WireError:
        return WireError(
            reason,
            offset=offset,
            element=element,
            field=element_name(self.names, element),
            expected=expected,
            got=got,
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


def _describe(data: bytes) -> str:
    """The item at the front of ``data`` in words, also where it is cut short."""
    try:
        token = read_token(data, 0)
    except TokenError:
        return f"an item that starts with 0x{data[0]:02x}"
    # Each item within takes a byte at least.
    if token.children > len(data) - token.end:
        return f"the start of a {token.describe()}"
    return token.describe()
