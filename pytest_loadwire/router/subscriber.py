"""The reference subscriber: discovers workers, reads every rank, and keeps the table of readings.

One thread reads all load sockets, however many there are. It waits on their file descriptors, so
that a message costs the same beside 8 sockets and beside 512; `zmq.Poller` looks at every socket
each time. Nothing that arrives ends it, and nothing else than `LoadSubscriber.remove_worker`, a new
advertisement or `LoadSubscriber.close` closes a subscription (rules C5, C7).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import zmq

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError
from pytest_loadwire.discovery import NoPlan, Plan, RankEndpoint, plan
from pytest_loadwire.endpoints import LOAD_TOPIC, is_zmq_endpoint_ipv6
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.router.discovery_loop import DiscoveryLoop
from pytest_loadwire.router.server_info import fetch_kv_events
from pytest_loadwire.router.table import HEARTBEAT_S, WINDOW_S, ReadingTable
from pytest_loadwire.wire import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from pytest_loadwire.errors import WireError
    from pytest_loadwire.router.table import Load, RankStats, RankView, WorkerView
    from pytest_loadwire.wire import Message

    Listener: TypeAlias = Callable[[str, int, list[bytes], Message | WireError], object]

HIGH_WATER_MARK = 8
"""How many messages of one rank wait to be read (rule K1)."""

RECONNECT_MS = 20
"""Milliseconds to the first attempt to reconnect; libzmq's default is 100. A restarted engine
publishes at once, and this is for how long nobody hears it."""

RECONNECT_MAX_MS = 1000
"""Each further attempt waits twice as long, up to this: an engine that loads its model for minutes
is not asked 50 times a second for each rank, and is found again within the freshness window."""

LARGEST_FRAME = 2**24
"""Bytes of one frame, since without a limit one frame could take all memory. On a peer that
announces more libzmq hangs up for good, as on one that does not speak ZMTP; see `_Source.heard`."""

REDISCOVER_S = 10.0
"""Seconds between two looks at what a worker advertises, since a restart may change it."""

MOST_RANKS = 1024
"""A worker that claims more ranks than this is not read: each takes a socket from the others."""

_BATCH = 64  # messages of one rank in a row, before the others have a turn


class _Source:
    """The subscription of one rank."""

    __slots__ = ("endpoint", "fd", "heard", "rank", "socket", "worker")

    def __init__(self, worker: _Worker, endpoint: RankEndpoint, sub: zmq.Socket[bytes]) -> None:
        self.worker = worker
        self.rank = endpoint.rank
        self.endpoint = endpoint.endpoint
        self.socket = sub
        # Readable whenever libzmq has something to do for the socket, a message for one.
        self.fd = int(sub.getsockopt(zmq.FD))
        # When something came last. libzmq reconnects by itself, but not behind a protocol error:
        # not if another program had the port for a moment while the engine restarted. So whoever
        # is silent for longer than the window is dialled anew, when the worker is looked at next.
        self.heard = time.monotonic()


@dataclass(eq=False)
class _Worker:
    """One addition of a worker; when it is removed and added again, that is another one."""

    url: str
    sources: dict[int, _Source] = field(default_factory=dict)
    plan: Plan | NoPlan | None = None
    error: str = ""
    asked: int = 0


@dataclass(frozen=True)
class WorkerStatus:
    """How a subscriber stands with one worker.

    Attributes:
        plan: What it subscribes to, or why to nothing; None while the worker never answered.
        error: What went wrong last, in discovery or in opening a socket; empty after a success.
        asked: How often the worker was asked what it advertises.
        endpoints: What is dialled, by rank.
    """

    plan: Plan | NoPlan | None
    error: str
    asked: int
    endpoints: dict[int, str]


class LoadSubscriber(Closing):
    """Reads the load of any number of workers (rules C1 to C7). Close it.

    Everything may be called from any thread.

    Args:
        window: Seconds for which a reading is fresh (rule C2).
        heartbeat: Seconds between two messages of an engine in which nothing changes.
        revision: The newest revision of the payload to read.
        clock: A monotonic clock in seconds, for the age of readings.
        rediscover: Seconds between two looks at what a worker advertises.
        fetch: Asks a worker's URL for its ``kv_events`` block; any exception means no answer.
        planner: From URL and block to endpoints; `discovery.plan`.
        table: Takes the readings; by default a new `ReadingTable` from the arguments above.
        discoverers: How many workers are asked at a time.
        most_ranks: A worker that claims to have more is not read; `status` says so.
        timeout: Seconds that each wait may take unless the call says otherwise.
        listener: Called for every message of an advertised rank, when the table has it: worker,
            rank, frames, and the message or what is wrong with it. It is called on the thread
            that reads, so what it waits for is lost to every rank. What it raises ends nothing
            and is kept in ``listener_error``.

    Attributes:
        listener_error: What ``listener`` raised last, or None.

    Raises:
        ValueError: The window is not longer than the heartbeat.
    """

    def __init__(
        self,
        *,
        window: float = WINDOW_S,
        heartbeat: float = HEARTBEAT_S,
        revision: int = LATEST,
        clock: Callable[[], float] = time.monotonic,
        rediscover: float = REDISCOVER_S,
        fetch: Callable[[str], object] = fetch_kv_events,
        planner: Callable[[str, object], Plan | NoPlan] = plan,
        table: ReadingTable | None = None,
        discoverers: int = 4,
        most_ranks: int = MOST_RANKS,
        timeout: float = DEFAULT_TIMEOUT,
        listener: Listener | None = None,
    ) -> None:
        self.listener_error: Exception | None = None
        self._listener = listener
        self._table = table or ReadingTable(
            window=window, heartbeat=heartbeat, revision=revision, clock=clock
        )
        self._fetch = fetch
        self._planner = planner
        self._most_ranks = most_ranks
        self._timeout = timeout
        self._changed = threading.Condition(threading.RLock())
        self._workers: dict[str, _Worker] = {}
        self._commands: deque[tuple[_Worker, Plan | NoPlan | None]] = deque()
        self._ready: set[_Source] = set()
        self._waiting = 0
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))
        self._discovery = DiscoveryLoop(self._ask, interval=rediscover, threads=discoverers)
        self._thread = threading.Thread(target=self._run, name="loadwire-subscriber", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        state = "closed" if self._closing else f"{len(self._workers)} worker(s)"
        return f"<LoadSubscriber {state}>"

    def add_worker(self, url: str) -> None:
        """Begin to read a worker. Idempotent, and returns at once: its load is unknown at first.

        A worker that cannot be reached is asked again and again; `status` says what is wrong.

        Raises:
            LoadwireError: The subscriber is closed.
        """
        with self._changed:
            if self._closing:
                raise LoadwireError("the subscriber is closed")
            if url in self._workers:
                return
            self._workers[url] = _Worker(url)
            self._table.add(url)
            self._discovery.add(url)

    def remove_worker(self, url: str) -> None:
        """Forget a worker and its readings, which have gone when this returns (rule C6)."""
        with self._changed:
            worker = self._workers.pop(url, None)
            if worker is None:
                return
            self._discovery.remove(url)
            self._table.remove(url)
            self._command(worker, None)
            self._changed.notify_all()

    def view(self) -> dict[str, Load | None]:
        """The load of every worker, None where it is unknown (rules C3, C4)."""
        return {url: view.load for url, view in self.views().items()}

    def views(self) -> dict[str, WorkerView]:
        """The load of every worker, with the reason where it is unknown."""
        with self._changed:
            return self._table.views()

    def load(self, url: str) -> Load | None:
        """The load of one worker, or None where it is unknown."""
        with self._changed:
            return self._table.view(url).load

    def stats(self, url: str) -> tuple[RankStats, ...]:
        """What came in for each advertised rank of a worker, as it stands now."""
        with self._changed:
            return tuple(stats.copy() for stats in self._table.stats(url))

    def ranks(self, url: str) -> tuple[RankView, ...]:
        """What is known of each advertised rank of a worker."""
        with self._changed:
            return self._table.ranks(url)

    def status(self, url: str) -> WorkerStatus:
        """How the subscriber stands with a worker.

        Raises:
            KeyError: It has no such worker.
        """
        with self._changed:
            worker = self._workers[url]
            endpoints = {rank: source.endpoint for rank, source in worker.sources.items()}
            return WorkerStatus(worker.plan, worker.error, worker.asked, endpoints)

    def rediscover(self) -> None:
        """Ask every worker now what it advertises."""
        self._discovery.hurry()

    def wait_until(
        self, predicate: Callable[[LoadSubscriber], object], timeout: float | None = None
    ) -> None:
        """Return when ``predicate`` holds of this subscriber, looked at whenever something changed.

        A reading that turns stale is a change, too. On a clock that is moved by hand, move it
        first.

        Raises:
            DeadlineError: It did not hold in time. The text says what is known instead.
        """
        deadline = Deadline(self._timeout if timeout is None else timeout)
        with self._changed:
            self._waiting += 1
            try:
                while not predicate(self):
                    if not deadline.remaining:
                        views = [f"{url}: {view}" for url, view in self.views().items()]
                        raise DeadlineError(
                            f"not so after {deadline.timeout:g} s; "
                            f"what is known: {'; '.join(views) or 'nothing'}"
                        )
                    expiry = self._table.seconds_to_expiry()
                    # Just behind the window, since a reading is fresh up to and on it.
                    soon = deadline.remaining if expiry is None else max(expiry, 0.0) + 0.001
                    self._changed.wait(min(deadline.remaining, soon))
            finally:
                self._waiting -= 1

    def close(self, timeout: float | None = None) -> None:
        """Close every subscription and end the threads. Idempotent.

        Raises:
            DeadlineError: A thread did not end in time, as a question to a worker is under way. It
                is a daemon, and ends with the question.
        """
        deadline = Deadline(self._timeout if timeout is None else timeout)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._nudge()
        self._thread.join(deadline.remaining)
        ended = self._discovery.close(deadline)
        if self._thread.is_alive() or not ended:
            raise DeadlineError(f"the subscriber's threads did not end in {deadline.timeout:g} s")

    # Discovery, on its own threads.

    def _ask(self, url: str) -> bool:
        with self._changed:
            worker = self._workers.get(url)
        if worker is None:
            return False
        try:
            found = self._planner(url, self._fetch(url))
        except Exception as error:  # whatever a fetch does, the next worker is asked
            with self._changed:
                worker.asked += 1
                worker.error = f"{type(error).__name__}: {error}"
                self._changed.notify_all()
            return False
        with self._changed:
            worker.asked += 1
            worker.error = ""
            self._command(worker, found)
        return True

    def _command(self, worker: _Worker, found: Plan | NoPlan | None) -> None:
        """Hand something to the thread that owns the sockets; None for a removed worker."""
        self._commands.append((worker, found))
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):  # full of nudges, or closed
            self._wake.send(b"\0")

    # What follows runs on the thread that owns the sockets.

    def _run(self) -> None:
        try:
            while not self._closing:
                events = self._selector.select(0 if self._ready else None)
                self._ready.update(key.data for key, _ in events if key.data is not None)
                # Only then the commands: what they close is not ready any more.
                if any(key.data is None for key, _ in events):
                    self._take_commands()
                for source in tuple(self._ready):
                    self._read(source)
                if self._waiting:
                    # Once for all of them: who waits looks at every worker.
                    with self._changed:
                        self._changed.notify_all()
        finally:
            self._selector.close()
            self._context.destroy(linger=0)
            self._woken.close()
            self._wake.close()

    def _read(self, source: _Source) -> None:
        receive, table = source.socket.recv_multipart, self._table
        url, rank = source.worker.url, source.rank
        with self._changed:
            count = 0
            try:
                while count < _BATCH:
                    frames = receive(zmq.NOBLOCK)
                    outcome = table.receive(url, rank, frames)
                    count += 1
                    if self._listener is not None and outcome is not None:
                        self._tell(url, rank, frames, outcome)
            except zmq.Again:
                # Only behind this is the descriptor quiet, and speaks up for the next message.
                self._ready.discard(source)
            if count:
                source.heard = time.monotonic()

    def _tell(self, url: str, rank: int, frames: list[bytes], outcome: Message | WireError) -> None:
        try:
            self._listener(url, rank, frames, outcome)  # type: ignore[misc]  # asked before
        except Exception as error:  # whatever a listener does, the next message is read
            self.listener_error = error

    def _take_commands(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._commands:
            worker, found = self._commands.popleft()
            with self._changed:
                if self._workers.get(worker.url) is not worker:
                    self._subscribe(worker, ())
                elif isinstance(found, Plan) and len(found.endpoints) <= self._most_ranks:
                    self._subscribe(worker, found.endpoints)
                    self._table.advertise(worker.url, _places(found))
                else:
                    if isinstance(found, Plan):
                        worker.error = f"{found.dp_size} ranks, and {self._most_ranks} are the most"
                    self._subscribe(worker, ())
                    self._table.withdraw(worker.url)
                worker.plan = found
                self._changed.notify_all()

    def _subscribe(self, worker: _Worker, endpoints: Sequence[RankEndpoint]) -> None:
        """Open what is new, close what is gone or silent, and leave alone what stays."""
        wanted = {endpoint.rank: endpoint for endpoint in endpoints}
        silent = time.monotonic() - self._table.window
        for rank, source in list(worker.sources.items()):
            stays = rank in wanted and wanted[rank].endpoint == source.endpoint
            if not stays or source.heard < silent:
                del worker.sources[rank]
                self._ready.discard(source)
                self._selector.unregister(source.fd)
                source.socket.close(linger=0)
        for rank, endpoint in wanted.items():
            if rank not in worker.sources:
                try:
                    source = _Source(worker, endpoint, self._dial(endpoint.endpoint))
                except (zmq.ZMQError, OSError) as error:
                    worker.error = f"rank {rank}, {endpoint.endpoint}: {error}"
                    continue  # tried again with the next answer of the worker
                worker.sources[rank] = source
                self._selector.register(source.fd, selectors.EVENT_READ, source)

    def _dial(self, endpoint: str) -> zmq.Socket[bytes]:
        sub = self._context.socket(zmq.SUB)
        try:
            sub.set_hwm(HIGH_WATER_MARK)
            sub.setsockopt(zmq.LINGER, 0)
            if is_zmq_endpoint_ipv6(endpoint):
                sub.setsockopt(zmq.IPV6, 1)
            sub.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
            sub.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
            sub.setsockopt(zmq.MAXMSGSIZE, LARGEST_FRAME)
            # A machine that lost its power never says so; without these, nobody would dial again.
            sub.setsockopt(zmq.TCP_KEEPALIVE, 1)
            sub.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 5)
            sub.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 5)
            sub.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
            sub.setsockopt(zmq.SUBSCRIBE, LOAD_TOPIC.encode())
            sub.connect(endpoint)
        except BaseException:
            sub.close(linger=0)
            raise
        return sub


def _places(found: Plan) -> list[str]:
    """Where every rank is dialled; one that cannot be makes the worker unknown (rule C3)."""
    dialled = [endpoint.endpoint for endpoint in found.endpoints]
    # One stands for all of them: nobody makes a list of what a worker may claim to have.
    return [*dialled, "past port 65535"] if found.skipped else dialled
