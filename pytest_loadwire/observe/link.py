"""How a connection went: what a socket monitor tells, in counts and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LinkEvent = Literal[
    "connecting", "connected", "closed", "retried", "ready", "handshake-failed", "disconnected"
]
"""What happens to a connection. ``ready`` is a finished handshake; ``closed`` without ``connected``
is a connection that was refused."""

REFUSED_S = 1.0
"""Seconds of nothing but refusals after which a port counts as closed: who listens again later was
not there for a router either."""


@dataclass
class Link:
    """The connection of one rank. Times are seconds of the watch's clock.

    Attributes:
        refused: How many attempts were refused.
        connected: How many succeeded.
        ready: How many handshakes succeeded.
        failed: How many failed.
        dropped: How many connections ended.
        up: Whether the handshake of the present connection is done.
        refused_at: When an attempt was refused first, since it last worked.
        mismatched: Whether the last connection ended before any word about its handshake, as
            libzmq ends those to a socket of a type that does not fit.
    """

    refused: int = 0
    connected: int = 0
    ready: int = 0
    failed: int = 0
    dropped: int = 0
    up: bool = False
    refused_at: float | None = None
    mismatched: bool = False
    _greeting: bool = False

    def happened(self, at: float, event: LinkEvent) -> None:
        """Take one event of the monitor."""
        if event == "connected":
            self.connected += 1
            self.refused_at, self.mismatched, self._greeting = None, False, True
        elif event == "ready":
            self.ready += 1
            self.up, self._greeting = True, False
        elif event == "handshake-failed":
            self.failed += 1
            self._greeting = False
        elif event == "disconnected":
            self.dropped += 1
            self.mismatched, self.up, self._greeting = self._greeting, False, False
        elif event == "closed":
            self.refused += 1
            self.refused_at = at if self.refused_at is None else self.refused_at

    def is_hopeless(self, at: float) -> bool:
        """Whether nothing can come any more: refused for long enough, or no socket to read."""
        if self.connected == 0 and self.refused_at is not None:
            return at - self.refused_at >= REFUSED_S
        return self.mismatched

    @property
    def state(self) -> str:
        """In a word or two, for a table."""
        if self.up:
            return "connected"
        if self.ready:
            return "lost"
        if self.connected:
            return "no handshake"
        return "refused" if self.refused else "no connection"
