"""The scheduler's loop, as far as it publishes load: to routers and to the engine's own board."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from engine.load import Load, LoadPublisher

log = logging.getLogger(__name__)

STALL_PAUSE = 0.05


class Scheduler:
    """Walks its queues for a reading at most once a pass, and gives it to both."""

    def __init__(
        self,
        walk_queues: Callable[[], Load],
        publisher: LoadPublisher,
        board: Callable[[Load], None] | None = None,
        every: int = 15,
    ) -> None:
        self.walk_queues = walk_queues
        self.publisher = publisher
        self.board = board
        self.every = every
        self.skipped = 0
        self.last_stall = float("-inf")

    def post(self, must: bool) -> Load | None:
        """Put a reading on the board, and return it."""
        if self.board is None:
            return None
        self.skipped += 1
        if not must and self.skipped < self.every:
            return None
        self.skipped = 0
        try:
            load = self.walk_queues()
            self.board(load)
        except Exception as error:
            log.debug("nothing is posted: %s", error)
            return None
        return load

    def _tell_all(self, must: bool) -> None:
        load = self.post(must)
        self.publisher.tell(self.walk_queues, must=must, load=load)

    def batch_is_back(self, prefill: bool, process: Callable[[], None]) -> None:
        """One batch has run."""
        self._tell_all(must=prefill)
        process()

    def nothing_ran(self, idle: bool) -> None:
        """A pass without a batch: nothing is there, or what is there cannot run."""
        if not idle:
            now = time.monotonic()
            if now - self.last_stall < STALL_PAUSE:
                return
            self.last_stall = now
        self._tell_all(must=True)
