"""The load ports of fake engines: sockets on ports in a row, from one zmq context."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Final

import zmq

from pytest_loadwire.engine.rank_socket import RankSocket
from pytest_loadwire.errors import LoadwireError

LOWEST_PORT: Final = 10_240
ATTEMPTS: Final = 64


class LoadPorts:
    """Binds load sockets, as many as the system allows.

    Args:
        host: The loopback address to bind.
        sheds: Whether the sockets drop messages at the high-water mark, or else wait for room.
        timeout: Seconds that a wait for room or for a port may take.
    """

    def __init__(self, host: str, *, sheds: bool, timeout: float) -> None:
        self.host = host
        self.timeout = timeout
        self._sheds = sheds
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # libzmq allows 1023 sockets unless told otherwise, before the first.
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.closed

    def close(self) -> None:
        """Close every socket, and free every port. Idempotent."""
        self._context.destroy(linger=0)

    def bind(self, port: int) -> RankSocket:
        """The load socket of one port.

        Raises:
            zmq.ZMQError: The port cannot be bound.
        """
        endpoint = f"tcp://{self.host}:{port}"
        return RankSocket(self._context, endpoint, sheds=self._sheds, timeout=self.timeout)

    def bind_range(self, count: int) -> tuple[int, list[RankSocket]]:
        """Ports in a row that nobody else has, bound, and the first of them.

        Below the range from which the system picks ports for connections: there a subscriber that
        reconnects to a stopped engine may be given the engine's own port, and keep it.

        Raises:
            LoadwireError: There are none.
        """
        highest = min(_first_ephemeral_port(), 65_536) - count
        if highest < LOWEST_PORT:
            raise LoadwireError(f"no range of {count} ports fits below port {highest + count}")
        for _ in range(ATTEMPTS):
            base = random.randint(LOWEST_PORT, highest)  # noqa: S311 - a port, no secret
            sockets: list[RankSocket] = []
            try:
                for port in range(base, base + count):
                    sockets.append(self.bind(port))  # noqa: PERF401 - those before are closed
            except zmq.ZMQError as error:
                for socket in sockets:
                    socket.drop()
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise LoadwireError(f"cannot open a load socket: {error}") from error
                continue
            return base, sockets
        raise LoadwireError(f"no {count} free ports in a row after {ATTEMPTS} attempts")


def _first_ephemeral_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
        first = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    # Some machines hand out almost every port; then there is no good range to choose.
    return first if first > LOWEST_PORT + 4096 else 60_000


def allow_open_files(ranks: int) -> None:
    """Let this process open what so many ranks need, a subscriber in the same process included."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return
    need = 6 * ranks + 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < need:
        allowed = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
