"""The msgpack reader: every marker against the msgpack library, and input that means harm."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import msgpack
import pytest

from pytest_loadwire.tokens import (
    NEVER_USED,
    Kind,
    TokenError,
    is_array_marker,
    item_end,
    read_token,
    walk,
)

# marker -> what follows it in a whole item, for the markers that are no fixints or fix containers
BEHIND = {
    0xC0: "",
    0xC2: "",
    0xC3: "",
    0xC4: "03 010203",
    0xC5: "0003 010203",
    0xC6: "00000003 010203",
    0xC7: "03 05 010203",
    0xC8: "0003 05 010203",
    0xC9: "00000003 05 010203",
    0xCA: "40e80000",
    0xCB: "c01d000000000000",
    0xCC: "ff",
    0xCD: "ff01",
    0xCE: "ff010203",
    0xCF: "ff01020304050607",
    0xD0: "80",
    0xD1: "8001",
    0xD2: "80010203",
    0xD3: "8001020304050607",
    0xD4: "05 01",
    0xD5: "05 0102",
    0xD6: "05 01020304",
    0xD7: "05 0102030405060708",
    0xD8: "05 0102030405060708090a0b0c0d0e0f10",
    0xD9: "03 616263",
    0xDA: "0003 616263",
    0xDB: "00000003 616263",
    0xDC: "0002 01c0",
    0xDD: "00000002 01c0",
    0xDE: "0001 01c0",
    0xDF: "00000001 01c0",
}

MARKERS = [marker for marker in range(0x100) if marker != NEVER_USED]

# an announced length that the bytes do not keep
LIES = [
    "d9ff",
    "daffff",
    "db80000000",
    "dbffffffff",
    "c6ffffffff",
    "c9ffffffff05",
    "dd80000000",
    "ddffffffff",
    "dfffffffff",
    "ddffffffff" * 3 + "c0",
    "dfffffffff" * 3 + "c0",
    "81" + "ddffffffff",
]

# hex, the words for its first token
DESCRIBED = [
    ("c0", "nil"),
    ("c2", "false"),
    ("c3", "true"),
    ("07", "integer 7"),
    ("ff", "integer -1"),
    ("cfffffffffffffffff", "integer 18446744073709551615"),
    ("cb401c000000000000", "float 7.0"),
    ("cb7ff8000000000000", "float nan"),
    ("a4746578 74", "str 'text'"),
    ("a2fffe", "str '\\\\xff\\\\xfe'"),
    ("d920" + "61" * 32, f"str '{'a' * 32}'"),
    ("d921" + "61" * 33, f"str '{'a' * 32}...'"),
    ("c4021234", "bin 1234"),
    ("d40507", "ext 0507"),
    ("9b", "array of 11"),
    ("dd80000000", "array of 2147483648"),
    ("82", "map of 2"),
]


def whole_item(marker: int) -> bytes:
    """An item that starts with ``marker`` and is whole."""
    if marker in BEHIND:
        return bytes([marker]) + bytes.fromhex(BEHIND[marker])
    if 0x80 <= marker <= 0x8F:
        return bytes([marker]) + b"".join(bytes([key, 0xC0]) for key in range(marker & 0x0F))
    if 0x90 <= marker <= 0x9F:
        return bytes([marker]) + b"\xc0" * (marker & 0x0F)
    if 0xA0 <= marker <= 0xBF:
        return bytes([marker]) + b"x" * (marker & 0x1F)
    return bytes([marker])


def by_msgpack(item: bytes) -> tuple[Kind, object]:
    """Kind and value as the msgpack library reads them; of a container, its length."""
    value = msgpack.unpackb(item, strict_map_key=False)
    if value is None or isinstance(value, bool):
        return (Kind.NIL if value is None else Kind.BOOL), value
    if isinstance(value, msgpack.ExtType):
        return Kind.EXT, bytes([value.code]) + value.data
    if isinstance(value, list | dict):
        return (Kind.ARRAY if isinstance(value, list) else Kind.MAP), len(value)
    if isinstance(value, str):
        return Kind.STR, value.encode()
    kinds = {int: Kind.INT, float: Kind.FLOAT, bytes: Kind.BIN}
    return kinds[type(value)], value


@pytest.mark.parametrize("marker", MARKERS, ids="{:#04x}".format)
def test_marker(marker: int) -> None:
    """Kind, value and end of every item are those that the msgpack library reads."""
    item = whole_item(marker)
    unpacker = msgpack.Unpacker()
    unpacker.feed(item + b"\xc0")
    unpacker.skip()
    token = read_token(b"\xc0" + item + b"\xc0", 1)
    expected_kind, expected_value = by_msgpack(item)
    assert (expected_kind, expected_value) == (token.kind, token.value)
    assert type(expected_value) is type(token.value)
    assert unpacker.tell() == item_end(item + b"\xc0", 0) == len(item)


@pytest.mark.parametrize("marker", MARKERS, ids="{:#04x}".format)
def test_token_bounds(marker: int) -> None:
    """A scalar ends with its body, a container with its header, and its children are its items."""
    item = whole_item(marker)
    token = read_token(item, 0)
    if token.kind in (Kind.ARRAY, Kind.MAP):
        assert token.body == token.end
        assert token.children == token.value * (2 if token.kind is Kind.MAP else 1)  # type: ignore[operator]
        position = token.end
        for _ in range(token.children):
            position = item_end(item, position)
        assert len(item) == position
    else:
        assert (0, 0, len(item)) == (token.start, token.children, token.end)
        if isinstance(token.value, bytes):
            assert item[token.body : token.end] == token.value


@pytest.mark.parametrize("marker", MARKERS, ids="{:#04x}".format)
def test_cut_at_every_byte(marker: int) -> None:
    """A cut item is truncated at the end of the data, and no more is asked for than was cut."""
    item = whole_item(marker)
    for length in range(len(item)):
        with pytest.raises(TokenError) as caught:
            item_end(item[:length], 0)
        assert ("truncated", length) == (caught.value.reason, caught.value.offset)
        assert 1 <= caught.value.needed <= len(item) - length


@pytest.mark.parametrize(
    ("data", "needed"), [("", 1), ("cd", 2), ("cd01", 1), ("da", 2), ("a301", 2), ("d805", 16)]
)
def test_needed(data: str, needed: int) -> None:
    """The error says how many more bytes the token under way asks for, at least."""
    with pytest.raises(TokenError) as caught:
        read_token(bytes.fromhex(data), 0)
    assert needed == caught.value.needed


@pytest.mark.parametrize(("data", "offset"), [("c1", 0), ("9101c1", 2), ("9201c1", 2)])
def test_never_used(data: str, offset: int) -> None:
    """The marker that msgpack never uses is malformed where it stands, and only there."""
    raw = bytes.fromhex(data)
    assert offset == raw.index(NEVER_USED)
    with pytest.raises(TokenError) as caught:
        read_token(raw, offset)
    assert ("malformed", offset) == (caught.value.reason, caught.value.offset)
    assert f"malformed at byte {offset}" == str(caught.value)


def test_array_markers() -> None:
    """The markers of arrays are those of the items that the library reads as lists."""
    expected = [marker for marker in MARKERS if by_msgpack(whole_item(marker))[0] is Kind.ARRAY]
    assert expected == [marker for marker in range(0x100) if is_array_marker(marker)]


@pytest.mark.parametrize("layer", ["91", "8101", "92c0", "dd00000001"])
def test_deep_nesting(layer: str) -> None:
    """An item that is nested 100,000 deep is followed without recursion."""
    data = bytes.fromhex(layer) * 100_000 + b"\xc0"
    assert len(data) == item_end(data, 0)
    deepest = max(depth for depth, _ in walk(data))
    assert deepest == 100_000


@pytest.mark.parametrize(
    "read", [lambda raw: read_token(raw, 0), lambda raw: item_end(raw, 0), lambda raw: [*walk(raw)]]
)
@pytest.mark.parametrize("data", LIES)
def test_lying_length(data: str, read: Callable[[bytes], object]) -> None:
    """No announced length allocates anything."""
    raw = bytes.fromhex(data)
    tracemalloc.start()
    try:
        with suppress(TokenError):
            read(raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16_384
    with pytest.raises(TokenError) as caught:
        item_end(raw, 0)
    assert ("truncated", len(raw)) == (caught.value.reason, caught.value.offset)


def test_walk() -> None:
    """A walk gives every token with its depth, containers before their items."""
    data = bytes.fromhex("c0 93 01 9202a163 8103 90 07")
    expected = [
        (0, "fixarray", 1),
        (1, "positive fixint", 2),
        (1, "fixarray", 3),
        (2, "positive fixint", 4),
        (2, "fixstr", 5),
        (1, "fixmap", 7),
        (2, "positive fixint", 8),
        (2, "fixarray", 9),
    ]
    assert expected == [(depth, token.format, token.start) for depth, token in walk(data, 1)]


def test_walk_until_fault() -> None:
    """A walk gives out the tokens before the fault."""
    seen: list[object] = []
    with pytest.raises(TokenError, match="malformed at byte 2"):
        seen.extend(token.value for _, token in walk(bytes.fromhex("9207c1")))
    tokens = walk(bytes.fromhex("9207c1"))
    assert [2, 7] == [next(tokens)[1].value, next(tokens)[1].value]


@pytest.mark.parametrize(("data", "words"), DESCRIBED)
def test_describe(data: str, words: str) -> None:
    """A token says in words what it is, cut where it is long."""
    assert words == read_token(bytes.fromhex(data), 0).describe()


@pytest.mark.parametrize(
    ("header", "items"), [("dcffff", 65_535), ("dd00010000", 65_536), ("df00008001", 65_538)]
)
def test_many_items(header: str, items: int) -> None:
    """A container of many items ends behind the last of them."""
    data = bytes.fromhex(header) + b"\xc0" * items
    assert len(data) == item_end(data + b"\xc0", 0)
    assert 1 + items == sum(1 for _ in walk(data + b"\xc0"))
