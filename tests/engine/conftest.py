from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from pytest_loadwire.engine import publisher, scheduler
from pytest_loadwire.harness.clock import VirtualClock


class RecordingSocket:
    """Stands in for the load socket: keeps whole messages with the time of their last frame."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.messages: list[tuple[float, tuple[bytes, ...]]] = []
        self.closes = 0
        self.fail_next = False
        self._frames: list[bytes] = []

    def send(self, data: bytes, flags: int = 0) -> None:
        if self.fail_next:
            self.fail_next = False
            raise OSError("no send")
        self._frames.append(data)
        if not flags & zmq.SNDMORE:
            self.messages.append((self.clock.monotonic(), tuple(self._frames)))
            self._frames = []

    def close(self) -> None:
        self.closes += 1

    @property
    def sent(self) -> list[tuple[float, int]]:
        """Time and sequence of every message."""
        return [(at, int.from_bytes(frames[1], "big")) for at, frames in self.messages]


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """A clock that the publisher and the scheduler read, on a machine that has just started."""
    with VirtualClock(start=0.03125) as clock:
        clock.install(publisher)
        clock.install(scheduler)
        yield clock


@pytest.fixture
def socket(clock: VirtualClock) -> RecordingSocket:
    return RecordingSocket(clock)
