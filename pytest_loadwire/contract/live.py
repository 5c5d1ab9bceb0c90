"""What only a real socket can show of a publisher: late, stalled and lasting subscribers.

The engine binds a port of this machine by its own code, with nothing in between. Heartbeats are
driven by the virtual clock, and every wait has a deadline.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import zmq

from pytest_loadwire.contract.engine import ReservedPort, crashed, kv_events_config
from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError
from pytest_loadwire.endpoints import Topology
from pytest_loadwire.harness.hygiene import SocketWatch
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.contract.publisher import PublisherContract
    from pytest_loadwire.harness.clock import VirtualClock
    from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber

HEARTBEAT = 1.0
_LOOK_MS = 10
_QUIET_MS = 50
# Some hundreds fill the buffers under a queue of 8, or some thousands where the engine is slow.
_BURSTS = (4_000, 30_000)


class Stage:
    """An engine's publisher under a contract, with what a live case needs around it.

    Args:
        contract: The contract with the engine's hooks.
        clock: The clock that the engine reads.
        make_publisher: Makes live publishers of ours.
        make_subscriber: Makes live subscribers of ours.
    """

    def __init__(
        self,
        contract: PublisherContract,
        clock: VirtualClock,
        make_publisher: Callable[..., LivePublisher],
        make_subscriber: Callable[..., LiveSubscriber],
    ) -> None:
        self.contract = contract
        self.clock = clock
        self.make_publisher = make_publisher
        self.make_subscriber = make_subscriber

    @contextmanager
    def engine(self, port: int, host: str = "*") -> Iterator[Engine]:
        """The engine's publisher on a port, closed behind the block."""
        publisher = self.contract.make_publisher(
            kv_events_config=kv_events_config(),
            load_publish_endpoint=f"tcp://{host}:{port}",
            publish_interval=1,
            topology=Topology(),
        )
        try:
            yield Engine(self, publisher)
        finally:
            self.contract.close(publisher)

    def subscriber(self, port: int, host: str = "127.0.0.1") -> LiveSubscriber:
        """A subscriber of ours, connected to the engine's port."""
        return self.make_subscriber(f"tcp://{host}:{port}", revision=self.contract.revision)


class Engine:
    """One publisher of the engine under test, and how many messages it should have sent."""

    def __init__(self, stage: Stage, publisher: Any) -> None:
        self.stage = stage
        self.publisher = publisher
        self.sent = 0

    def publish(self, reading: str) -> None:
        """Publish a reading that is changed, or due again."""
        contract = self.stage.contract
        snapshot = contract.snapshot_of(reading)
        contract.publish(self.publisher, lambda: snapshot, force=True, snapshot=None)
        self.sent += 1

    def beat(self, reading: str = "reading-a") -> None:
        """Let a second pass, and publish the same reading again."""
        self.stage.clock.advance(HEARTBEAT)
        self.publish(reading)

    def join(self, subscriber: LiveSubscriber) -> Finding | None:
        """Send heartbeats until the subscriber hears one, then hear exactly the next."""
        deadline = Deadline(DEFAULT_TIMEOUT)
        heard: tuple[bytes, ...] | None = None
        while heard is None:
            if not deadline.remaining:
                expected = f"a heartbeat to reach {subscriber.endpoint}"
                got = f"none of {self.sent} in {deadline.timeout:g} s"
                return Finding("not-sent", "P2", expected, got, Hazard.STALE)
            self.beat()
            heard = _look(subscriber)
        self.beat()
        newest = (self.sent - 1).to_bytes(8, "big")
        while heard[1:2] != (newest,):
            further = _look(subscriber, deadline.remaining)
            if further is None:
                expected, got = f"message {self.sent - 1}", f"{_number(heard)} as the last"
                return Finding("wrong-sequence", "S1", expected, got, Hazard.STALE)
            heard = further
        return self.stage.contract.judge_message(
            heard, sequence=self.sent - 1, reading="reading-a", rank=0, rule="P2"
        )


class LiveCase(NamedTuple):
    """One check on a real socket.

    Attributes:
        rule: The rule that it is about.
        case: Its id.
        play: Plays it, and says what is wrong.
        why: What it is for, in one sentence.
    """

    rule: str
    case: str
    play: Callable[[Stage], Finding | None]
    why: str


def _ipv6(stage: Stage) -> Finding | None:
    """An engine on `[::]` is heard over IPv6, and over IPv4 as well."""
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with ReservedPort() as port, stage.engine(port, "[::]") as engine:
        finding = engine.join(stage.subscriber(port, "[::1]"))
        finding = finding or engine.join(stage.subscriber(port))
    return finding and finding._replace(rule="K1")


def _occupied(stage: Stage) -> Finding | None:
    """An engine whose port is taken goes on without its socket."""
    contract = stage.contract
    taken = stage.make_publisher("0.0.0.0")  # noqa: S104 - as an engine on that port would
    asked: list[object] = []
    with SocketWatch() as watch:
        with contract.listening() as warnings:
            try:
                with stage.engine(taken.port) as engine:
                    contract.publish(
                        engine.publisher, lambda: asked.append(1), force=True, snapshot=None
                    )
            except Exception as error:
                return crashed(error, "the engine to start")._replace(rule="K3")
        leaks = watch.finish()
    if asked:
        return Finding("asked", "P3", "nobody to be asked", "the provider was")
    if leaks:
        return Finding("left-open", "K3", "the socket to be closed", "; ".join(leaks))
    return warnings.judge(1, "K3")


def _late(stage: Stage) -> Finding | None:
    """A subscriber that comes when all has been said hears the next heartbeat."""
    with ReservedPort() as port, stage.engine(port) as engine:
        for reading in ("reading-b", "reading-c", "reading-a"):
            engine.publish(reading)
        return engine.join(stage.subscriber(port))


def _stalled(stage: Stage) -> Finding | None:
    """A subscriber that stops reading loses messages in silence, and is back with a heartbeat."""
    contract = stage.contract
    with ReservedPort() as port, stage.engine(port) as engine, _small_ear(port) as ear:
        deadline = Deadline(DEFAULT_TIMEOUT)
        while not ear.poll(_LOOK_MS):
            if not deadline.remaining:
                return Finding("not-sent", "P2", "a heartbeat", "none came", Hazard.STALE)
            engine.beat()
        with contract.listening() as warnings:
            numbers = _overrun(engine, ear)
        if not _has_gap(numbers):
            got = f"{len(numbers)} messages kept for a subscriber that does not read"
            return Finding("wrong-socket", "K1", "at most 8 messages to wait", got, Hazard.STALE)
        if finding := warnings.judge(0, "S2"):
            return finding
        newest = _catch_up(engine, ear)
        if newest is None:
            return Finding("not-sent", "S2", "the next heartbeat", "none came", Hazard.STALE)
        return contract.judge_message(
            newest, sequence=engine.sent - 1, reading="reading-a", rank=0, rule="S2"
        )


def _overrun(engine: Engine, ear: zmq.Socket[bytes]) -> list[int]:
    """Publish more than anybody keeps, then read what was kept: the numbers of the messages."""
    numbers: list[int] = []
    for burst in _BURSTS:
        for n in range(burst):
            engine.publish(("reading-b", "reading-a")[n % 2])
        while ear.poll(_QUIET_MS):
            numbers.append(int.from_bytes(ear.recv_multipart()[1], "big"))
        # The end of the burst may be what was lost.
        if _has_gap([*numbers, engine.sent]):
            return [*numbers, engine.sent]
    return numbers


def _catch_up(engine: Engine, ear: zmq.Socket[bytes]) -> Sequence[bytes] | None:
    """Send heartbeats until the newest one is what the subscriber has last, and return it."""
    deadline = Deadline(DEFAULT_TIMEOUT)
    patience = _LOOK_MS
    while deadline.remaining:
        engine.beat()
        # Longer each time: a slow machine would for ever be one heartbeat behind.
        patience *= 2
        newest = (engine.sent - 1).to_bytes(8, "big")
        while ear.poll(min(patience, deadline.remaining_ms)):
            frames = ear.recv_multipart()
            if frames[1:2] == [newest]:
                return frames
    return None


def _has_gap(numbers: Sequence[int]) -> bool:
    return any(later != n + 1 for n, later in pairwise(numbers))


def _restart(stage: Stage) -> Finding | None:
    """A second engine on the same port is heard by the same subscriber, numbered from 0 again."""
    with ReservedPort() as port:
        subscriber = stage.subscriber(port)
        with stage.engine(port) as engine:
            finding = engine.join(subscriber)
        if finding is None:
            _wait_until_free(port, subscriber)
            with stage.engine(port) as engine:
                finding = engine.join(subscriber)
    return finding


def _wait_until_free(port: int, subscriber: LiveSubscriber) -> None:
    """Return when libzmq has closed the listener, which it does behind the engine's back.

    Raises:
        DeadlineError: The engine holds the port for longer than any process would.
    """
    deadline = Deadline(DEFAULT_TIMEOUT)
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                if not deadline.remaining:
                    raise DeadlineError(
                        f"the engine still holds port {port}, {deadline.timeout:g} s after it was "
                        "closed"
                    ) from None
            else:
                return
        _look(subscriber)


CASES = (
    LiveCase(
        "K1",
        "live-ipv6",
        _ipv6,
        "an engine on [::] has to be heard over both protocols: routers may use either",
    ),
    LiveCase(
        "K3",
        "live-occupied-port",
        _occupied,
        "a taken port costs the load of one scheduler, not its requests, and is told once",
    ),
    LiveCase(
        "P2",
        "live-late-subscriber",
        _late,
        "a router that starts behind the engine learns a load that does not change any more",
    ),
    LiveCase(
        "S2",
        "live-stalled-subscriber",
        _stalled,
        "a router that hangs must neither hold up the scheduler nor get old loads when it is back",
    ),
    LiveCase(
        "S1",
        "live-restart-on-the-same-port",
        _restart,
        "a router knows a restarted engine by its sequence from 0, on the connection that it has",
    ),
)


@contextmanager
def _small_ear(port: int) -> Iterator[zmq.Socket[bytes]]:
    """A subscriber that keeps next to nothing while it does not read."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        ear = context.socket(zmq.SUB)
        ear.setsockopt(zmq.LINGER, 0)
        ear.setsockopt(zmq.RCVHWM, 1)
        ear.setsockopt(zmq.RCVBUF, 4096)
        ear.setsockopt(zmq.SUBSCRIBE, b"load")
        ear.connect(f"tcp://127.0.0.1:{port}")
        yield ear
    finally:
        context.destroy(linger=0)


def _look(subscriber: LiveSubscriber, timeout: float = _LOOK_MS / 1000) -> tuple[bytes, ...] | None:
    """The next message if there is one in time."""
    try:
        return subscriber.receive_frames(timeout)
    except DeadlineError:
        return None


def _number(frames: Sequence[bytes]) -> str:
    return str(int.from_bytes(frames[1], "big")) if len(frames) > 1 else "no number"


def has_ipv6() -> bool:
    """Whether this machine has an IPv6 loopback."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
