"""Asks workers again and again what they advertise, on a few threads of its own.

Apart from the thread that reads load: a worker that does not answer costs its whole time-out, and
meanwhile sockets with a high-water mark of 8 would drop what the others say.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from typing import TYPE_CHECKING

from pytest_loadwire.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_S = 1.0
"""Seconds from a question that got no answer to the next one."""


class DiscoveryLoop:
    """Calls ``ask`` for every URL, at once and then at an interval.

    Args:
        ask: Asks one worker and says whether it answered. Called on any of the threads, never
            twice at a time for one URL; it must not raise.
        interval: Seconds between two questions to a worker that answered.
        threads: How many questions may be under way.
    """

    def __init__(self, ask: Callable[[str], bool], *, interval: float, threads: int) -> None:
        self._ask = ask
        self._interval = interval
        self._condition = threading.Condition()
        self._heap: list[tuple[float, int, str]] = []
        self._tickets = itertools.count()
        # The newest ticket of each URL; an older entry of the heap is void.
        self._current: dict[str, int] = {}
        self._asking: set[str] = set()
        self._closing = False
        self._most = threads
        self._threads: list[threading.Thread] = []

    def add(self, url: str) -> None:
        """Ask this worker now, and again from now on."""
        with self._condition:
            self._schedule(url, time.monotonic())
            if len(self._threads) < min(self._most, len(self._current)):
                name = f"loadwire-discovery-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def remove(self, url: str) -> None:
        """Ask this worker no more."""
        with self._condition:
            self._current.pop(url, None)

    def hurry(self) -> None:
        """Ask every worker now."""
        with self._condition:
            for url in self._current:
                self._schedule(url, time.monotonic())

    def close(self, deadline: Deadline) -> bool:
        """Stop; whether every thread ended in time."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join(deadline.remaining)
        return not any(thread.is_alive() for thread in self._threads)

    def _schedule(self, url: str, due: float) -> None:
        ticket = next(self._tickets)
        self._current[url] = ticket
        heapq.heappush(self._heap, (due, ticket, url))
        self._condition.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            url, ticket = due
            answered = self._ask(url)
            with self._condition:
                self._asking.discard(url)
                if self._current.get(url) == ticket:
                    wait = self._interval if answered else min(RETRY_S, self._interval)
                    self._schedule(url, time.monotonic() + wait)
                elif url in self._current:
                    self._schedule(url, time.monotonic())  # asked for anew meanwhile

    def _next(self) -> tuple[str, int] | None:
        """The next worker to ask and its ticket, when its time has come, or None at the end."""
        with self._condition:
            while not self._closing:
                due, ticket, url = self._heap[0] if self._heap else (math.inf, 0, "")
                now = time.monotonic()
                if due > now:
                    self._condition.wait(None if due == math.inf else due - now)
                    continue
                heapq.heappop(self._heap)
                # A void ticket, or a worker that is being asked: the thread that asks takes care.
                if self._current.get(url) == ticket and url not in self._asking:
                    self._asking.add(url)
                    return url, ticket
            return None
