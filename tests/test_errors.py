"""The error that says what is wrong with bytes."""

from __future__ import annotations

import copy
import pickle

import pytest

from pytest_loadwire.errors import LoadwireError, WireError
from pytest_loadwire.rules import Reason

FULL = {
    "expected": "an unsigned integer",
    "got": "float 7.0",
    "rule": "W4",
    "offset": 10,
    "element": 1,
    "field": "num_running_reqs",
    "frame": 2,
    "hint": "a guess",
}

# attributes, where
PLACES = [
    ({}, ""),
    ({"frame": 0}, "frame 0"),
    ({"offset": 0}, "byte 0"),
    ({"element": 0}, "element 0"),
    ({"element": 0, "field": "tag"}, "element 0 (tag)"),
    ({"field": "tag"}, ""),
    (
        {"frame": 2, "offset": 10, "element": 1, "field": "num_running_reqs"},
        "frame 2, byte 10, element 1 (num_running_reqs)",
    ),
]


@pytest.mark.parametrize(("attributes", "where"), PLACES)
def test_where(attributes: dict[str, int], where: str) -> None:
    """The place is said in words, as far as it is known."""
    assert where == WireError(Reason.BAD_TYPE, expected="x", got="y", **attributes).where  # type: ignore[arg-type]


def test_text() -> None:
    """The text says rule, reason, place, expected, got and hint."""
    expected = (
        "W4 bad-type at frame 2, byte 10, element 1 (num_running_reqs): "
        "expected an unsigned integer, got float 7.0 (a guess)"
    )
    assert expected == str(WireError(Reason.BAD_TYPE, **FULL))  # type: ignore[arg-type]


def test_short_text() -> None:
    """What is not known is left out, and the rule is that of the reason."""
    error = WireError(Reason.FRAME_COUNT, expected="3 frames", got="2")
    assert "F1 frame-count: expected 3 frames, got 2" == str(error)


def test_is_a_value_error() -> None:
    """Code that knows nothing of this package catches a ValueError."""
    error = WireError(Reason.BAD_TYPE, expected="x", got="y")
    assert isinstance(error, LoadwireError)
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    """The error comes home whole from another process."""
    error = WireError(Reason.BAD_TYPE, **FULL)  # type: ignore[arg-type]
    home = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
    assert type(error) is type(home)
    assert vars(error) == vars(home)
    assert (str(error), error.args) == (str(home), home.args)


def test_pickle_later_frame() -> None:
    """An attribute that was set after the error was made comes home as well."""
    error = WireError(Reason.BAD_TYPE, expected="x", got="y")
    error.frame = 2
    assert pickle.loads(pickle.dumps(error)).frame == 2  # noqa: S301 - our own bytes


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copy(duplicate: object) -> None:
    """A copy says the same and is another error."""
    error = WireError(Reason.BAD_TYPE, **FULL)  # type: ignore[arg-type]
    other = duplicate(error)  # type: ignore[operator]
    assert (str(error), vars(error)) == (str(other), vars(other))
    assert error is not other
