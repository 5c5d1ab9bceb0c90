"""Who listens on a port: the first bytes that a peer says, without libzmq.

libzmq tells that a handshake failed and not with whom. A ZeroMQ socket says its type in its READY
command, unasked; an HTTP server answers a request. One or two short connections per silent port.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_loadwire.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PeerKind = Literal[
    "zmtp",
    "security",
    "http",
    "tls",
    "mute",
    "closed",
    "other",
    "refused",
    "unreachable",
    "timeout",
]
"""What was found: ``zmtp`` a ZeroMQ socket, ``security`` one that asks for a password or keys,
``mute`` a port that takes connections and says nothing, ``closed`` one that hangs up, ``other``
another protocol, and three ways in which there was no connection."""

PATIENCE_S = 0.5
"""Seconds that a peer has for its first words."""

CONNECT_S = 1.5
"""Seconds that connecting may take; half of a lost SYN's first repetition is not enough."""


class Peer(NamedTuple):
    """What listens on a port.

    Attributes:
        kind: What it is.
        detail: The type of the ZeroMQ socket, or the first bytes, or the error.
    """

    kind: PeerKind
    detail: str = ""

    @property
    def publishes(self) -> bool:
        """Whether it is a socket that a SUB socket can read."""
        return self.kind == "zmtp" and self.detail in ("PUB", "XPUB")

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}".rstrip()


_Step = tuple[bytes, "Callable[[bytes], bool]"]
"""What to say, and whether what came back by now is enough to go on."""


def _is_ready(said: bytes) -> bool:
    return len(said) > 66 and len(said) >= 66 + said[65]


# The mechanism comes behind a wait: a peer of another one hangs up when it reads ours, and then
# what it said before is lost.
_GREETING: tuple[_Step, ...] = (
    (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00", lambda said: len(said) >= 64),
    (b"NULL".ljust(20, b"\0") + bytes(32), _is_ready),
)
_REQUEST: tuple[_Step, ...] = ((b"GET / HTTP/1.0\r\nHost: loadwire\r\n\r\n", bool),)
_MOST_BYTES = 4096


def identify(address: str, port: int, patience: float = PATIENCE_S) -> Peer:
    """Say who listens at a numeric address.

    Args:
        address: IPv4 or IPv6, without brackets.
        port: The port.
        patience: Seconds that the peer has for its first words, twice at most.
    """
    first = _converse(address, port, _GREETING, patience)
    if isinstance(first, Peer):
        return first
    said, hung_up = first
    if not said:
        second = _converse(address, port, _REQUEST, patience)
        if isinstance(second, Peer):
            return second
        said = second[0]
    if said[:1] == b"\xff":
        return _zmtp(said)
    if said.startswith(b"HTTP/"):
        return Peer("http", said.split(b"\r\n", 1)[0].decode("latin-1"))
    if said[:2] == b"\x15\x03":
        return Peer("tls")
    if said:
        return Peer("other", repr(said[:40]))
    return Peer("closed" if hung_up else "mute")


def _converse(
    address: str, port: int, steps: Iterable[_Step], patience: float
) -> Peer | tuple[bytes, bool]:
    try:
        peer = socket.create_connection((address, port), timeout=max(CONNECT_S, patience))
    except TimeoutError:
        return Peer("timeout")
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED
        return Peer("refused" if refused else "unreachable", error.strerror or str(error))
    deadline = Deadline(patience)
    said, hung_up = b"", False
    with peer, contextlib.suppress(TimeoutError):
        try:
            for words, is_enough in steps:
                peer.sendall(words)
                while not is_enough(said) and len(said) < _MOST_BYTES:
                    # A timeout of 0 would make the socket non-blocking.
                    peer.settimeout(max(deadline.remaining, 0.001))
                    chunk = peer.recv(_MOST_BYTES)
                    if not chunk:
                        return said, True
                    said += chunk
                if said[:1] != b"\xff":
                    break
        except ConnectionError:
            hung_up = True
    return said, hung_up


def _zmtp(said: bytes) -> Peer:
    mechanism = said[12:32].rstrip(b"\0").decode("latin-1")
    if len(said) >= 32 and mechanism != "NULL":
        return Peer("security", mechanism)
    name = b"\x0bSocket-Type"
    at = said.find(name, 64)
    if at < 0:
        return Peer("zmtp")
    start = at + len(name) + 4
    length = int.from_bytes(said[start - 4 : start], "big")
    return Peer("zmtp", said[start : start + min(length, 16)].decode("latin-1"))
