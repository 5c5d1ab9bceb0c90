"""One fake engine: a real ``/server_info``, and a real load socket for each rank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import zmq

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.discovery import kv_events_block
from pytest_loadwire.errors import LoadwireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from pytest_loadwire.engine.info_server import InfoServer
    from pytest_loadwire.engine.load_ports import LoadPorts
    from pytest_loadwire.engine.rank_socket import RankSocket
    from pytest_loadwire.wire import LoadStatRev1

_PAGE_SIZE = 64


class FakeEngine:
    """One engine: its URL, its ranks, and what ``/server_info`` says of them.

    Args:
        ports: Where its load sockets come from.
        http: Who answers for it.
        ranks: How many ranks it has.
        room: For how many ranks there are ports in a row, should it be resized.
        kv_host: The host in the KV endpoint of the advertisement.

    Attributes:
        url: What a router adds, such as ``http://127.0.0.1:41327``.
        base: The port of rank 0; rank r is at ``base + r`` (rule R3).
        advertised: Whether ``/server_info`` has the load keys.
        up: Whether the engine runs. While it does not, its ports are closed and HTTP says 503.
        silent: Ranks that a scenario lets publish nothing.
        asked: How often ``/server_info`` was asked.
    """

    def __init__(
        self, ports: LoadPorts, http: InfoServer, ranks: int, *, room: int, kv_host: str
    ) -> None:
        self._ports = ports
        self._kv_host = kv_host
        self._room = max(ranks, room)
        self._last: list[LoadStatRev1 | None] = [None] * ranks
        self.advertised = True
        self.up = True
        self.silent: set[int] = set()
        self.asked = 0
        self.base, self._sockets = ports.bind_range(self._room)
        self._close(ranks)
        self.url = f"http://{ports.host}:{http.open(self._answer)}"

    def __repr__(self) -> str:
        state = "" if self.up else ", down"
        return f"<FakeEngine {self.url}, {self.dp_size} rank(s) from port {self.base}{state}>"

    @property
    def dp_size(self) -> int:
        """How many ranks there are."""
        return len(self._last)

    @property
    def ports(self) -> range:
        """The ports of the ranks."""
        return range(self.base, self.base + self.dp_size)

    @property
    def load(self) -> dict[str, int] | None:
        """The sum of what every rank sent last, or None while one has sent nothing.

        What a router knows that read everything, freshness aside.
        """
        stats = [stat for stat in self._last if stat is not None]
        if len(stats) < len(self._last) or not self.advertised:
            return None
        shortest = min((stat.__struct_fields__ for stat in stats), key=len)
        return {
            name: sum(getattr(stat, name) for stat in stats)
            for name in shortest
            if name != "attn_dp_rank"
        }

    def send(self, rank: int, stat: LoadStatRev1) -> int:
        """Publish one reading on the socket of a rank, and return its sequence (rule S1).

        Raises:
            WireError: The reading holds what no engine may send.
            DeadlineError: A subscriber reads so little that there was no room in time.
            LoadwireError: The engine is down, or has no such rank.
        """
        sequence = self._socket(rank).publish(stat)
        self._last[rank] = stat
        return sequence

    def send_frames(self, rank: int, frames: Sequence[Buffer]) -> None:
        """Send exactly these frames on the socket of a rank. Takes no sequence number.

        Raises:
            DeadlineError: As for `send`.
            LoadwireError: As for `send`, or there is no frame.
        """
        self._socket(rank).send(frames)

    def wait_for_subscribers(
        self, count: int = 1, *, rank: int | None = None, timeout: float | None = None
    ) -> None:
        """Return when each rank, or the one named, has that many subscriptions that cover load.

        Raises:
            DeadlineError: A rank has fewer. The text says which, and what there is instead.
            LoadwireError: The engine is down, or has no such rank.
        """
        deadline = Deadline(self._ports.timeout if timeout is None else timeout)
        for number in range(self.dp_size) if rank is None else (rank,):
            self._socket(number).wait_for_subscribers(count, deadline)

    def subscribers(self, rank: int) -> int:
        """How many subscriptions that cover ``load`` a rank has right now."""
        return self._socket(rank).subscribers

    def lost_subscribers(self, rank: int) -> int:
        """How many such subscriptions have ended since the socket of the rank was opened."""
        return self._socket(rank).lost

    def stop(self) -> None:
        """End the engine: its ports are closed when this returns. Idempotent."""
        self.up = False
        self._close(0)

    def start(self) -> None:
        """Be a new process on the same ports, sequences from 0. Nothing if it is up.

        Raises:
            LoadwireError: Somebody took a port meanwhile.
        """
        if not self.up:
            self._open()
            self.up = True

    def restart(self) -> None:
        """`stop`, then `start` (rule C7). Routers are not told."""
        self.stop()
        self.start()

    def resize(self, ranks: int) -> None:
        """Restart with another number of ranks: on the same base, where there is room for them."""
        if ranks < 1:
            raise ValueError(f"an engine has 1 rank or more, not {ranks}")
        if ranks > self._room:
            self._room = ranks
            self._last = (self._last + [None] * ranks)[:ranks]
            self.move()
            return
        self.stop()
        self._last = (self._last + [None] * ranks)[:ranks]
        self.start()

    def move(self) -> None:
        """Restart on other ports, which only ``/server_info`` tells."""
        ranks = self.dp_size
        self.stop()
        self._last = [None] * ranks
        before = self.base
        while self.base == before:
            self._close(0)
            self.base, self._sockets = self._ports.bind_range(self._room)
        self._close(ranks)
        self.up = True

    def _socket(self, rank: int) -> RankSocket:
        if not self.up:
            raise LoadwireError(f"{self!r} publishes nothing")
        if not 0 <= rank < self.dp_size:
            raise LoadwireError(f"{self!r} has no rank {rank}")
        return self._sockets[rank]

    def _open(self) -> None:
        try:
            for port in self.ports:
                self._sockets.append(self._ports.bind(port))
        except zmq.ZMQError as error:
            self._close(0)
            raise LoadwireError(f"{self!r} cannot be back on its ports: {error}") from error

    def _close(self, keep: int) -> None:
        """Close the sockets behind the first ``keep``, and wait until their ports are free."""
        closing = self._sockets[keep:]
        del self._sockets[keep:]
        deadline = Deadline(self._ports.timeout)
        for socket in closing:
            socket.unbind()
        for socket in closing:
            socket.close(deadline)

    def _answer(self, path: str) -> tuple[int, bytes]:
        """What this engine says over HTTP; called in the server's thread."""
        if path not in ("/server_info", "/health"):
            return 404, b"{}"
        self.asked += path == "/server_info"
        if not self.up:
            return 503, b"{}"
        if path == "/health":
            return 200, b"{}"
        ranks, base = self.dp_size, self.base
        # A host that is not this one, and a port from which the load ports cannot be guessed: a
        # router that derives what it has to read finds nothing.
        kv = {"publisher": "zmq", "endpoint": f"tcp://{self._kv_host}:{base - 2 * ranks - 1}"}
        block = kv_events_block(
            json.dumps({**kv, "topic": "kv-events"}),
            page_size=_PAGE_SIZE,
            dp_size=ranks,
            load_publish_endpoint=f"tcp://*:{base}" if self.advertised else None,
        )
        info = {"version": "0.0.0+loadwire", "dp_size": ranks, "kv_events": block}
        return 200, json.dumps(info).encode()
