"""A clock for watches: on no machine does a short watch end before it has heard anything."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.observe.seen import Seen

LONG = 30.0  # what no test waits for


class StandingClock:
    """Stands at 0 until a watch has seen enough, or for too long, and runs from then on.

    Args:
        enough: Whether what was seen is enough.
    """

    def __init__(self, enough: Callable[[Seen], object]) -> None:
        self._enough = enough
        self._deadline = Deadline(LONG)
        self._seen: Seen | None = None
        self._began: float | None = None

    def look(self, seen: Seen) -> None:
        """Take what the watch fills; its `progress` has to call this."""
        self._seen = seen

    def __call__(self) -> float:
        """The seconds since then."""
        if self._began is None:
            enough = self._seen is not None and self._enough(self._seen)
            if not enough and self._deadline.remaining:
                return 0.0
            self._began = time.monotonic()
        return time.monotonic() - self._began


def everyone(messages: int = 3) -> Callable[[Seen], bool]:
    """Whether every rank was heard so often."""
    return lambda seen: bool(seen.ranks) and all(r.stream.good >= messages for r in seen.ranks)
