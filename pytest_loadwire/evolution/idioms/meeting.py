"""What the idioms are made of: the fields that an author knew, and how a decoder meets elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pytest_loadwire.exact import TAG
from pytest_loadwire.tokens import NEVER_USED, Kind, Token, item_end, read_token


class Slot(NamedTuple):
    """One element behind the tag.

    Attributes:
        name: The field.
        type: ``count``, ``count-or-nil``, ``float``; anything else is read as it comes.
    """

    name: str
    type: str = "count"

    @property
    def nullable(self) -> bool:
        """Whether nil is a legal value."""
        return self.type == "count-or-nil"


Contract = Mapping[int, Sequence[Slot]]
"""The elements behind the tag by revision."""


class NoError(Exception):
    """The decoder returns an error."""


class DeadError(Exception):
    """The decoder takes its process along."""


class Cursor:
    """Where a decoder stands in a payload."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def array(self) -> int:
        """The length that the array's header announces."""
        token = self.token()
        if token.kind is not Kind.ARRAY:
            raise NoError(f"{token.describe()} is no array")
        return token.children

    def token(self) -> Token:
        """The next header with its body, passed."""
        token = read_token(self.data, self.at)
        self.at = token.end
        return token

    def item(self) -> Token:
        """The first token of the next item, which is passed as a whole."""
        token = read_token(self.data, self.at)
        self.at = item_end(self.data, self.at)
        return token

    def tag(self, *kinds: Kind) -> None:
        """Pass the tag, which these kinds may spell."""
        token = self.item()
        if token.kind not in kinds or token.value != TAG.encode():
            raise NoError(f"unexpected tag {token.describe()}")

    def end(self) -> None:
        """Object to bytes behind the array."""
        if self.at < len(self.data):
            raise NoError(f"{len(self.data) - self.at} bytes left over")


def newest(contract: Contract) -> Sequence[Slot]:
    """The elements of the newest revision, whatever the length is."""
    return contract[max(contract)]


def by_length(contract: Contract, length: int) -> Sequence[Slot]:
    """The newest revision that is all there, or the oldest."""
    whole = [slots for slots in contract.values() if len(slots) < length]
    return max(whole, key=len) if whole else min(contract.values(), key=len)


def wrong(token: Token) -> NoError:
    """The error for an element of a type or range that its field does not take."""
    return NoError(f"{token.describe()} is not what the field takes")


def is_count(token: Token) -> bool:
    """Whether an element is an unsigned integer (rule W5)."""
    return token.kind is Kind.INT and int(token.value or 0) >= 0


def as_number(token: Token) -> float:
    """A number of any type as a float.

    Raises:
        NoError: It is no number.
    """
    if token.kind not in (Kind.FLOAT, Kind.INT):
        raise wrong(token)
    return float(token.value or 0)


def raw(token: Token) -> object:
    """An element as it comes; a container as a description of it."""
    return token.value if token.kind not in (Kind.ARRAY, Kind.MAP) else token.describe()


def strict(token: Token, slot: Slot) -> object:
    """An unsigned integer, or nil where the field is optional; what serde derives."""
    if slot.nullable and token.kind is Kind.NIL:
        return None
    if slot.type == "float":
        return as_number(token)
    if slot.type not in ("count", "count-or-nil"):
        return raw(token)
    if not is_count(token):
        raise wrong(token)
    return token.value


def zero(slot: Slot) -> object:
    """What a field holds that was never set."""
    return {"count": 0, "float": 0.0}.get(slot.type)


def elements_of(
    data: bytes,
    objects: Callable[[Token, bool], None] = lambda token, is_key: None,  # noqa: ARG005
    *,
    reserved_is_nil: bool = False,
) -> tuple[list[Token], int]:
    """Build the array as a dynamic language does: every token of every element.

    Args:
        data: The payload.
        objects: Told of each token, and whether it is the key of a map; may raise.
        reserved_is_nil: Whether the marker that msgpack never uses is a nil.

    Returns:
        The first token of each element, and where the array ends.
    """
    elements: list[Token] = []
    open_items = [(1, False)]  # how many are left, whether they are keys and values in turn
    at = 0
    while open_items:
        left, in_map = open_items.pop()
        if not left:
            continue
        if reserved_is_nil and data[at : at + 1] == bytes([NEVER_USED]):
            token = Token(Kind.NIL, "nil", at, at + 1, at + 1, None, 0)
        else:
            token = read_token(data, at)
        if not at and (token.kind is not Kind.ARRAY or not token.children):
            raise NoError(f"{token.describe()} is no LoadStat")
        objects(token, in_map and left % 2 == 0)
        open_items.append((left - 1, in_map))
        if len(open_items) == 2:
            elements.append(token)
        if token.children:
            open_items.append((token.children, token.kind is Kind.MAP))
        at = token.end
    return elements, at


def is_timestamp(token: Token) -> bool:
    """Whether an ext is the timestamp of the specification, in one of its three lengths."""
    body = token.value if isinstance(token.value, bytes) else b""
    return body[:1] == b"\xff" and len(body) - 1 in (4, 8, 12)
