"""What a wait ends at, and what it raises then."""

from __future__ import annotations

import pytest

from pytest_loadwire.deadline import Deadline, DeadlineError
from pytest_loadwire.errors import LoadwireError


def test_a_deadline_counts_down() -> None:
    """What remains never exceeds the timeout, never grows, and in milliseconds is rounded up."""
    deadline = Deadline(60)
    first, second = deadline.remaining, deadline.remaining
    assert 60 >= first >= second > 0
    assert deadline.timeout == 60
    assert 0 < deadline.remaining_ms <= 60_000


def test_a_deadline_that_is_over_has_nothing_left() -> None:
    """Past its end there are 0 seconds left, never fewer."""
    assert (Deadline(0).remaining, Deadline(0).remaining_ms) == (0.0, 0)


@pytest.mark.parametrize("timeout", [-0.1, float("nan"), float("inf")])
def test_a_deadline_has_an_end(timeout: float) -> None:
    """A wait without an end is refused."""
    with pytest.raises(ValueError, match="0 or more seconds"):
        Deadline(timeout)


def test_the_error_is_a_timeout_and_ours() -> None:
    """A missed deadline can be caught as a TimeoutError or by our base."""
    assert issubclass(DeadlineError, TimeoutError)
    assert issubclass(DeadlineError, LoadwireError)
