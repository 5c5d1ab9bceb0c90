"""Ends a command that runs until it is interrupted.

A KeyboardInterrupt can be lost: it is raised wherever the main thread is, and a library that checks
for signals there may drop it. A handler that writes to a pipe loses nothing, and may run at any
moment, which `threading.Event.set` may not.
"""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Interrupt:
    """While it is entered, SIGINT and SIGTERM set it instead of raising; main thread only."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._set)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._read)
        os.close(self._write)

    def is_set(self) -> bool:
        """Whether there was a signal."""
        return self.wait(0)

    def wait(self, timeout: float) -> bool:
        """Wait for a signal for so many seconds, and say whether there was one."""
        return bool(select.select([self._read], [], [], timeout)[0])

    def _set(self, *_: object) -> None:
        os.write(self._write, b"\0")
