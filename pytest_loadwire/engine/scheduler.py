"""The loop around the publisher: when a scheduler publishes, and from which snapshot.

A scheduler's loop runs either a batch or an idle pass. This model has the three places where load
goes out and nothing else of a scheduler: what a batch does and what the state is are callables.
Time is read through this module's ``time``, so that a test can install its own clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from pytest_loadwire.engine.publisher import LoadPublisher

logger = logging.getLogger(__name__)

LOAD_STALL_REFRESH_S = 0.05
"""Seconds between two publishes in a stall, for both sinks together (rule P6)."""

LOAD_SNAPSHOT_PUBLISH_INTERVAL = 15
"""One in this many unforced snapshots goes to the in-engine sink, unless the engine says so."""


class SnapshotSink(Protocol):
    """Where the engine's own balancer takes snapshots from, such as shared memory."""

    def write(self, snapshot: object) -> object:
        """Take one snapshot."""


class Scheduler:
    """Publishes to the in-engine sink and to routers, from one snapshot per cycle (P5 to P7).

    Args:
        get_loads: Reads the scheduler's state into a snapshot; it walks the queues.
        load_publisher: Publishes to routers. Give it the same interval, so that both sinks pass
            their throttle on the same call and share the snapshot.
        snapshot_sink: The in-engine sink, or None where the engine has none.
        publish_interval: One in this many unforced snapshots is taken; less than 1 counts as 1.
    """

    def __init__(
        self,
        *,
        get_loads: Callable[[], object],
        load_publisher: LoadPublisher,
        snapshot_sink: SnapshotSink | None = None,
        publish_interval: int = LOAD_SNAPSHOT_PUBLISH_INTERVAL,
    ) -> None:
        self.get_loads = get_loads
        self.load_publisher = load_publisher
        self.snapshot_sink = snapshot_sink
        self._interval = max(1, publish_interval)
        self._calls = 0
        self._sink_failing = False
        self._last_stall = float("-inf")

    def publish_load_snapshot(self, force: bool = False) -> object | None:
        """Write a snapshot to the in-engine sink if one is due, and return it (rule P7).

        A subclass may override this hook. One that returns nothing, as engines did before the
        load socket, still works: the publisher then collects a snapshot of its own.

        Returns:
            The snapshot that was written, or None when there is no sink, the call is throttled,
            or collecting or writing failed.
        """
        sink = self.snapshot_sink
        if sink is None:
            return None
        self._calls += 1
        if not force and self._calls < self._interval:
            return None
        self._calls = 0
        try:
            snapshot = self.get_loads()
            sink.write(snapshot)
        except Exception:
            if not self._sink_failing:
                self._sink_failing = True
                logger.warning("writing a load snapshot failed", exc_info=True)
            return None
        self._sink_failing = False
        return snapshot

    def process_batch_result(
        self, *, is_extend: bool, process_results: Callable[[], object]
    ) -> None:
        """One batch came back: publish, then process its results (rule P5).

        Publishing first keeps router news out of the way of the results. The reading therefore
        still counts the requests that this batch finishes; the next pass corrects it.

        Args:
            is_extend: The batch was a prefill, or mixed, which is published by force.
            process_results: Hands out tokens and frees what is finished.
        """
        self._publish(force=is_extend)
        process_results()

    def on_idle(self, *, is_fully_idle: bool) -> None:
        """A pass of the loop without a batch (rule P6).

        Args:
            is_fully_idle: Nothing waits anywhere. Otherwise this is a stall: requests are there,
                and cannot run for want of KV space or a transfer. Its passes come thousands a
                second with growing queues, so a floor in time bounds the walks for both sinks.
        """
        if not is_fully_idle:
            now = time.monotonic()
            if now - self._last_stall < LOAD_STALL_REFRESH_S:
                return
            self._last_stall = now
        self._publish(force=True)

    def _publish(self, *, force: bool) -> None:
        snapshot = self.publish_load_snapshot(force=force)
        self.load_publisher.publish_load_stat(self.get_loads, force=force, snapshot=snapshot)
