"""Deadlines: how long a wait may take."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from pytest_loadwire.errors import LoadwireError

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_TIMEOUT = 5.0
"""Seconds that a wait may take unless said otherwise."""

POLL_INTERVAL = 0.001
"""Seconds between two looks of `poll` unless said otherwise."""


class DeadlineError(LoadwireError, TimeoutError):
    """Something that was waited for did not come in time. The text says what came instead."""


class Deadline:
    """A point in time after which a wait gives up.

    Args:
        timeout: Seconds from now. 0 looks once and does not wait.

    Raises:
        ValueError: ``timeout`` is negative or no finite number.
    """

    def __init__(self, timeout: float) -> None:
        if not (math.isfinite(timeout) and timeout >= 0):
            raise ValueError(f"a timeout is 0 or more seconds, not {timeout!r}")
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def remaining_ms(self) -> int:
        """Milliseconds left, rounded up, as `zmq.Socket.poll` wants them."""
        return math.ceil(self.remaining * 1000)


def poll(
    holds: Callable[[], object], deadline: Deadline, *, interval: float = POLL_INTERVAL
) -> bool:
    """Whether something comes to hold in time; it is looked at every ``interval`` seconds.

    For what can only be asked, such as code in another process: where something tells of a change,
    wait for that instead. Returns with the first look that holds, and looks once more at the end.

    Args:
        holds: Looks. What it raises ends the wait.
        deadline: When to give up.
        interval: Seconds between two looks.
    """
    while not holds():
        if not deadline.remaining:
            return False
        # No wait for a fixed time: the pause between two looks, and never past the deadline.
        time.sleep(min(interval, deadline.remaining))
    return True
