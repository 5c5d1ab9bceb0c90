"""Endpoints as libzmq sees them: what it splits, and what it has bound."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zmq

if TYPE_CHECKING:
    from typing_extensions import Self

_TCP = re.compile(r"tcp://(?P<host>\[[^\]]*\]|[^:\[\]]+):(?P<port>\d+|\*)")

_LOOPBACK = {
    "*": "127.0.0.1",
    "0.0.0.0": "127.0.0.1",  # noqa: S104 - recognised, never bound
    "127.0.0.1": "127.0.0.1",
    "localhost": "127.0.0.1",
    "[::]": "[::1]",
    "[::1]": "[::1]",
}


@dataclass(frozen=True)
class ZmqAddress:
    """A ``tcp://`` endpoint as libzmq splits it; the host is verbatim, a port of 0 is any."""

    host: str
    port: int

    @classmethod
    def parse(cls, endpoint: str) -> Self | None:
        """The address, or None for what libzmq would not take or is no tcp."""
        match = _TCP.fullmatch(endpoint)
        if match is None:
            return None
        port = match["port"]
        return cls(match["host"], 0 if port == "*" else int(port))

    @property
    def is_ipv6(self) -> bool:
        """Whether the host is a bracketed literal."""
        return self.host.startswith("[")

    @property
    def loopback(self) -> str | None:
        """An ephemeral endpoint that stands for this one within the machine, or None."""
        host = _LOOPBACK.get(self.host)
        return None if host is None else f"tcp://{host}:*"


def last_endpoint(socket: zmq.Socket[Any]) -> str:
    """What ``socket`` bound or connected to last, with the real port; empty if nothing yet."""
    value = socket.getsockopt(zmq.LAST_ENDPOINT)
    # Some versions of libzmq count the terminator in.
    return value.decode().rstrip("\0") if isinstance(value, bytes) else ""
