"""Fake engines on loopback: a real ``/server_info`` and a real load socket per rank, any number.

All of them live in one process: one zmq context, one thread that answers HTTP, and none that
publishes, since a test steps the fleet, and `Fleet.run` steps it on a clock. The load sockets are
XPUB: the same bytes on the wire as PUB, but they tell which subscriptions are in place.
"""

from __future__ import annotations

import errno
import json
import math
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError
from pytest_loadwire.discovery import kv_events_block
from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.engine.rank_socket import RankSocket
from pytest_loadwire.engine.scenario import Act, Scenario, load_scenario
from pytest_loadwire.errors import LoadwireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Buffer, Self

    from pytest_loadwire.wire import LoadStatRev1

_LOWEST_PORT = 10_240
_ATTEMPTS = 64
_PAGE_SIZE = 64


class FakeEngine:
    """One engine of a `Fleet`: its URL, its ranks, and what ``/server_info`` says of them.

    Attributes:
        url: What a router adds, such as ``http://127.0.0.1:41327``.
        base: The port of rank 0; rank r is at ``base + r`` (rule R3).
        advertised: Whether ``/server_info`` has the load keys.
        up: Whether the engine runs. While it does not, its ports are closed and HTTP says 503.
        silent: Ranks that a scenario lets publish nothing.
    """

    def __init__(self, fleet: Fleet, ranks: int, *, room: int, kv_host: str) -> None:
        self._fleet = fleet
        self._kv_host = kv_host
        self._room = max(ranks, room)
        self._last: list[LoadStatRev1 | None] = [None] * ranks
        self.advertised = True
        self.up = True
        self.silent: set[int] = set()
        self.base, self._sockets = fleet._bind_range(self._room)
        self._close(ranks)
        self.url = f"http://{fleet.host}:{fleet._http.open(self._answer)}"

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
        deadline = Deadline(self._fleet.timeout if timeout is None else timeout)
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
            self.base, self._sockets = self._fleet._bind_range(self._room)
        self._close(ranks)
        self.up = True

    def _socket(self, rank: int) -> RankSocket:
        if not self.up:
            raise LoadwireError(f"{self!r} publishes nothing")
        if not 0 <= rank < self.dp_size:
            raise LoadwireError(f"{self!r} has no rank {rank}")
        return self._sockets[rank]

    def _open(self) -> None:
        for port in self.ports:
            try:
                self._sockets.append(self._fleet._bind(port))
            except zmq.ZMQError as error:
                self._close(0)
                raise LoadwireError(f"{self!r} cannot be back on port {port}: {error}") from error

    def _close(self, keep: int) -> None:
        """Close the sockets behind the first ``keep``, and wait until their ports are free."""
        closing = self._sockets[keep:]
        del self._sockets[keep:]
        deadline = Deadline(self._fleet.timeout)
        for socket in closing:
            socket.unbind()
        for socket in closing:
            socket.close(deadline)

    def _answer(self, path: str) -> tuple[int, bytes]:
        """What this engine says over HTTP; called in the server's thread."""
        if path not in ("/server_info", "/health"):
            return 404, b"{}"
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


class Fleet:
    """Fake engines, driven by a scenario.

    Args:
        scenario: A `Scenario`, the name of one that comes with the kit, or a file with one.
        workers: How many engines there are to begin with.
        ranks: How many ranks each of them has.
        clock: A monotonic clock in seconds, for `catch_up` and `run`.
        sheds: Whether a load socket drops messages at its high-water mark, as an engine's does
            (rule S2), instead of waiting for room so that a test sees the same each time.
        kv_host: The host in the KV endpoint of the advertisement. No load is published there.
        timeout: Seconds that each wait may take unless the call says otherwise.

    Raises:
        LoadwireError: There is no such scenario, or there are no ports for it.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        scenario: Scenario | str | Path = "steady",
        *,
        workers: int = 1,
        ranks: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sheds: bool = False,
        kv_host: str = "127.0.0.2",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if workers < 0 or ranks < 1:
            raise ValueError(f"a fleet has 0 workers or more of 1 rank or more, not {workers}x{ranks}")
        self.scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self.timeout = timeout
        self.steps = 0
        self.sent = 0
        self.engines: list[FakeEngine] = []
        self._ranks = ranks
        self._sheds = sheds
        self._kv_host = kv_host
        self._clock = clock
        self._began = clock()
        self._bad = bad_messages() if self.scenario.hostile else ()
        self._next_bad = 0
        _allow_open_files(workers * ranks)
        self._http = InfoServer(self.host)
        self._context = zmq.Context()
        try:
            self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))
            for _ in range(workers):
                self.add_engine()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Fleet {self.scenario.name!r}, {len(self.engines)} engine(s), step {self.steps}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def urls(self) -> list[str]:
        """The URL of every engine."""
        return [engine.url for engine in self.engines]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.closed

    def add_engine(self, ranks: int | None = None) -> FakeEngine:
        """One more engine, that takes part in the scenario from the next step on."""
        count = self._ranks if ranks is None else ranks
        room = self.scenario.most_ranks(count)
        engine = FakeEngine(self, count, room=room, kv_host=self._kv_host)
        engine.advertised = self.scenario.advertised
        engine.silent |= set(self.scenario.silent)
        self.engines.append(engine)
        return engine

    def step(self) -> int:
        """Do what the next step of the scenario asks for; every rank publishes once.

        Returns:
            How many messages went out.

        Raises:
            DeadlineError: A subscriber reads so little that there was no room in time.
            LoadwireError: An engine could not come back on its ports.
        """
        step, self.steps = self.steps, self.steps + 1
        for act in self.scenario.acts_at(step):
            self._do(act)
        before = self.sent
        for engine in self.engines:
            if engine.up:
                for rank in range(engine.dp_size):
                    if rank not in engine.silent:
                        self._publish(engine, rank, step)
        return self.sent - before

    def catch_up(self) -> int:
        """Do every step whose time has come on the clock, and return how many those were.

        Step n is due n periods after the fleet was made. On a virtual clock, move it and call this.
        """
        due = math.floor((self._clock() - self._began) / self.scenario.period) + 1
        done = max(0, due - self.steps)
        for _ in range(done):
            self.step()
        return done

    def run(self, seconds: float | None = None, stop: threading.Event | None = None) -> None:
        """Step in real time, for so many seconds or until ``stop`` is set.

        Args:
            seconds: None for no end.
            stop: Set it, from another thread or a signal handler, to end the run.
        """
        stop = threading.Event() if stop is None else stop
        end = math.inf if seconds is None else self._clock() + seconds
        self._began = self._clock() - self.steps * self.scenario.period
        while not stop.is_set() and (now := self._clock()) < end:
            self.catch_up()
            due = self._began + self.steps * self.scenario.period
            stop.wait(max(0.0, min(due, end) - now))

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> None:
        """Return when every rank of every engine that is up has so many subscriptions.

        Raises:
            DeadlineError: A rank has fewer. The text says which.
        """
        deadline = Deadline(self.timeout if timeout is None else timeout)
        for engine in self.engines:
            if engine.up:
                engine.wait_for_subscribers(count, timeout=deadline.remaining)

    def close(self) -> None:
        """End every engine and free every port. Idempotent."""
        self._http.close(self.timeout)
        for engine in self.engines:
            engine.up = False
        self._context.destroy(linger=0)

    def _do(self, act: Act) -> None:
        for index, engine in enumerate(self.engines):
            if act.workers is not None and index not in act.workers:
                continue
            if act.do == "resize":
                engine.resize(act.dp_size or 1)
            elif act.do in ("advertise", "withdraw"):
                engine.advertised = act.do == "advertise"
            elif act.do in ("silence", "speak"):
                ranks = set(range(engine.dp_size) if act.ranks is None else act.ranks)
                if act.do == "silence":
                    engine.silent |= ranks
                else:
                    engine.silent -= ranks - set(self.scenario.silent)
            elif act.do == "restart":
                engine.restart()
            elif act.do == "stop":
                engine.stop()
            else:
                engine.start()

    def _publish(self, engine: FakeEngine, rank: int, step: int) -> None:
        for _ in range(self.scenario.hostile):
            engine.send_frames(rank, self._bad[self._next_bad])
            self._next_bad = (self._next_bad + 1) % len(self._bad)
            self.sent += 1
        engine.send(rank, self.scenario.reading(rank, step))
        self.sent += 1

    def _bind(self, port: int) -> RankSocket:
        endpoint = f"tcp://{self.host}:{port}"
        return RankSocket(self._context, endpoint, sheds=self._sheds, timeout=self.timeout)

    def _bind_range(self, count: int) -> tuple[int, list[RankSocket]]:
        """Ports in a row that nobody else has, bound, and the first of them.

        Below the range from which the system picks ports for connections: there a subscriber that
        reconnects to a stopped engine may be given the engine's own port, and keep it.
        """
        highest = min(_first_ephemeral_port(), 65_536) - count
        for _ in range(_ATTEMPTS):
            base = random.randint(_LOWEST_PORT, highest)  # noqa: S311 - a port, no secret
            sockets: list[RankSocket] = []
            try:
                for port in range(base, base + count):
                    sockets.append(self._bind(port))  # noqa: PERF401 - those before are closed
            except zmq.ZMQError as error:
                for socket in sockets:
                    socket.drop()
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise LoadwireError(f"cannot open a load socket: {error}") from error
                continue
            return base, sockets
        raise LoadwireError(f"no {count} free ports in a row after {_ATTEMPTS} attempts")


def fleet_status(engines: Iterable[FakeEngine]) -> list[str]:
    """One line for each engine: URL, ports and state."""
    return [
        f"{engine.url}  {engine.dp_size} rank(s), ports {engine.base} to {engine.ports[-1]}"
        + ("" if engine.up else ", down")
        + ("" if engine.advertised else ", not advertised")
        for engine in engines
    ]


def _first_ephemeral_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii")
        first = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    # Some machines hand out almost every port; then there is no good range to choose.
    return first if first > _LOWEST_PORT + 4096 else 60_000


def _allow_open_files(ranks: int) -> None:
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


__all__ = ["DeadlineError", "FakeEngine", "Fleet", "fleet_status"]
