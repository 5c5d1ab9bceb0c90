"""Every legal spelling of a value, against the msgpack library."""

from __future__ import annotations

import msgpack
import pytest

from pytest_loadwire.golden import spell

# value, how many spellings it has beside the shortest one
NUMBERS = [
    (0, 8),
    (7, 8),
    (127, 8),
    (128, 6),
    (255, 6),
    (256, 5),
    (32_767, 5),
    (32_768, 4),
    (65_535, 4),
    (65_536, 3),
    (2**31 - 1, 3),
    (2**31, 2),
    (2**32 - 1, 2),
    (2**32, 1),
    (2**63 - 1, 1),
    (2**63, 0),
    (2**64 - 1, 0),
]


@pytest.mark.parametrize(("value", "others"), NUMBERS)
def test_numbers(value: int, others: int) -> None:
    """The shortest form is the library's, and every other one reads as the same value."""
    assert msgpack.packb(value) == spell.shortest(value)
    forms = spell.wider(value)
    assert others == len(set(forms.values()))
    assert [value] * others == [msgpack.unpackb(raw) for raw in forms.values()]
    assert spell.shortest(value) not in forms.values()


def test_nil() -> None:
    """None is nil."""
    assert spell.shortest(None) == msgpack.packb(None)


@pytest.mark.parametrize("value", [-1, -32, -33, -128, -129, -(2**63)])
def test_negative(value: int) -> None:
    """A negative number stands in the signed formats that hold it."""
    raw = spell.integer(value, "int-64")
    assert value == msgpack.unpackb(raw)
    assert len(raw) == 9


@pytest.mark.parametrize(
    ("value", "form"), [(256, "uint-8"), (-1, "uint-64"), (128, "int-8"), (2**63, "int-64")]
)
def test_does_not_fit(value: int, form: str) -> None:
    """A number that its format does not hold is a slip in the families, and stops them."""
    with pytest.raises(AssertionError):
        spell.integer(value, form)


@pytest.mark.parametrize("form", spell.STR_FORMATS)
@pytest.mark.parametrize("content", [b"", b"LoadStat", b"t" * 31])
def test_text(form: str, content: bytes) -> None:
    """A str reads as its content in every format."""
    assert content.decode() == msgpack.unpackb(spell.text(content, form))


@pytest.mark.parametrize("form", spell.ARRAY_FORMATS)
@pytest.mark.parametrize("length", [0, 1, 15])
def test_array(form: str, length: int) -> None:
    """An array header reads as its length in every format."""
    assert length == len(msgpack.unpackb(spell.array_header(length, form) + b"\xc0" * length))


@pytest.mark.parametrize("length", [0, 15, 16, 65_535, 65_536])
def test_shortest_array(length: int) -> None:
    """Without a format the header is the library's."""
    packed = msgpack.packb([None] * length)
    assert packed[: len(packed) - length] == spell.array_header(length)
