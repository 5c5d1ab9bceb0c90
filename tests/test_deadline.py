"""What a wait ends at, and what it raises then."""

from __future__ import annotations

import pytest

from pytest_loadwire.deadline import Deadline, DeadlineError, poll
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


def test_a_poll_ends_with_the_first_look_that_holds() -> None:
    """What comes about is seen by the next look, long before the deadline."""
    looks = iter([False, False, True, False])
    deadline = Deadline(60)
    assert poll(lambda: next(looks), deadline) is True
    assert list(looks) == [False]
    assert deadline.remaining > 30


def test_a_poll_gives_up_at_its_deadline() -> None:
    """What never comes about ends with the deadline, however long the interval is."""
    soon = Deadline(5)
    assert poll(lambda: False, Deadline(0.01), interval=10) is False
    assert soon.remaining


@pytest.mark.parametrize("held", [True, False])
def test_a_poll_without_time_looks_once(held: bool) -> None:
    """A deadline that is over still gives one look, and no pause."""
    looks = []
    assert poll(lambda: looks.append(1) or held, Deadline(0), interval=3600) is held
    assert looks == [1]


def test_a_poll_hands_on_what_a_look_raises() -> None:
    """An error of the look ends the wait at once."""
    with pytest.raises(ZeroDivisionError):
        poll(lambda: 1 / 0, Deadline(60))
