"""The loop around the publisher: when it publishes, and how often the queues are walked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pytest_loadwire.engine import LoadPublisher, LoadSnapshot, Scheduler
from pytest_loadwire.engine.scheduler import LOAD_STALL_REFRESH_S
from pytest_loadwire.wire import parse_frames

if TYPE_CHECKING:
    from pytest_loadwire.harness.clock import VirtualClock
    from tests.engine.conftest import RecordingSocket


@dataclass
class Sink:
    """The in-engine sink."""

    written: list[object] = field(default_factory=list)
    fails: bool = False

    def write(self, snapshot: object) -> None:
        if self.fails:
            raise OSError("no write")
        self.written.append(snapshot)


class OldScheduler(Scheduler):
    """Overrides the hook as it was before there was a load socket: it returns nothing."""

    def publish_load_snapshot(self, force: bool = False) -> None:
        super().publish_load_snapshot(force=force)


class Engine:
    """A scheduler with its state, its sinks and a count of the walks of its queues."""

    def __init__(
        self,
        socket: RecordingSocket,
        *,
        interval: int = 1,
        kind: type[Scheduler] = Scheduler,
        has_sink: bool = True,
    ) -> None:
        self.socket = socket
        self.sink = Sink()
        self.running = 0
        self.walks = 0
        self.scheduler = kind(
            get_loads=self.get_loads,
            load_publisher=LoadPublisher(socket, publish_interval=interval),
            snapshot_sink=self.sink if has_sink else None,
            publish_interval=interval,
        )

    def get_loads(self) -> LoadSnapshot:
        self.walks += 1
        return LoadSnapshot(num_running_reqs=self.running)

    def batch(self, *, is_extend: bool = False) -> None:
        self.scheduler.process_batch_result(is_extend=is_extend, process_results=lambda: None)

    @property
    def sent(self) -> list[int]:
        """The running requests of every message."""
        return [parse_frames(f).stat.num_running_reqs for _, f in self.socket.messages]


def test_a_batch_is_published_before_its_results_are_processed(socket: RecordingSocket) -> None:
    """P5: the reading still counts what this batch finishes; the next pass corrects it."""
    engine = Engine(socket)
    engine.running = 7
    at_processing: list[list[int]] = []

    def process_results() -> None:
        at_processing.append(engine.sent)
        engine.running = 0

    engine.scheduler.process_batch_result(is_extend=True, process_results=process_results)
    engine.scheduler.on_idle(is_fully_idle=True)
    assert at_processing == [[7]]
    assert engine.sent == [7, 0]


@pytest.mark.parametrize(("is_extend", "sent"), [(True, [1, 2, 3]), (False, [3])])
def test_a_prefill_is_forced_and_a_decode_is_not(
    is_extend: bool, sent: list[int], socket: RecordingSocket
) -> None:
    """P5, P1: each prefill passes; of decodes, one in the interval does, in both sinks alike."""
    engine = Engine(socket, interval=3)
    for running in (1, 2, 3):
        engine.running = running
        engine.batch(is_extend=is_extend)
    assert engine.sent == sent
    assert [snapshot.num_running_reqs for snapshot in engine.sink.written] == sent  # type: ignore[attr-defined]


def test_both_sinks_share_one_walk_of_the_queues(socket: RecordingSocket) -> None:
    """P7: one collection per cycle, whatever publishes."""
    engine = Engine(socket, interval=2)
    for running in range(6):
        engine.running = running
        engine.batch(is_extend=running == 3)
    engine.scheduler.on_idle(is_fully_idle=True)
    assert engine.walks == len(engine.sink.written) == 4
    assert engine.sent == [1, 3, 5]  # the idle reading is unchanged, so it stays at home


@pytest.mark.parametrize(
    ("kind", "has_sink", "sink_fails", "walks"),
    [
        (Scheduler, True, False, 1),
        (OldScheduler, True, False, 2),
        (Scheduler, False, False, 1),
        (Scheduler, True, True, 2),
    ],
    ids=["shared", "hook-returns-none", "no-sink", "sink-fails"],
)
def test_routers_are_told_even_without_a_shared_snapshot(
    kind: type[Scheduler],
    has_sink: bool,
    sink_fails: bool,
    walks: int,
    socket: RecordingSocket,
) -> None:
    """P7: a hook that returns nothing costs a second walk, and loses no message."""
    engine = Engine(socket, kind=kind, has_sink=has_sink)
    engine.sink.fails = sink_fails
    engine.running = 5
    engine.batch(is_extend=True)
    assert (engine.sent, engine.walks) == ([5], walks)


def test_a_stall_publishes_at_most_once_in_50_ms(
    clock: VirtualClock, socket: RecordingSocket
) -> None:
    """P6: the floor holds for both sinks together, and exactly 50 ms later the next one goes."""
    engine = Engine(socket)
    published: list[float] = []
    # 0.05 itself is exact from 0.0 only: 100.05 - 100.0 is a little less.
    for at in (0.125, 0.125, 0.15625, 0.1640625, 0.1875, 0.21875, 0.25, 0.25):
        clock.set(at)
        engine.running += 1
        before = len(engine.sink.written)
        engine.scheduler.on_idle(is_fully_idle=False)
        published += [at] * (len(engine.sink.written) - before)
    assert published == [0.125, 0.1875, 0.25]
    assert [at for at, _ in socket.sent] == published
    assert engine.walks == len(published)


def test_the_floor_of_a_stall_is_inclusive(
    clock: VirtualClock, socket: RecordingSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a pass exactly at the floor publishes (with a floor that is exact in binary)."""
    monkeypatch.setattr("pytest_loadwire.engine.scheduler.LOAD_STALL_REFRESH_S", 0.0625)
    engine = Engine(socket)
    for at in (1.0, 1.03125, 1.0625, 1.09375, 1.125):
        clock.set(at)
        engine.scheduler.on_idle(is_fully_idle=False)
    assert len(engine.sink.written) == 3


def test_the_very_first_stall_publishes(clock: VirtualClock, socket: RecordingSocket) -> None:
    """P6: a machine that has just been started, with its clock near 0, waits for nothing."""
    assert clock.monotonic() < LOAD_STALL_REFRESH_S
    engine = Engine(socket)
    engine.scheduler.on_idle(is_fully_idle=False)
    assert engine.sent == [0]


def test_a_stall_floor_is_not_moved_by_other_passes(
    clock: VirtualClock, socket: RecordingSocket
) -> None:
    """P6: batches and idle passes publish on their own account."""
    engine = Engine(socket)
    for at, step in ((1.0, "stall"), (1.03125, "idle"), (1.046875, "batch"), (1.0625, "stall")):
        clock.set(at)
        engine.running += 1
        if step == "batch":
            engine.batch(is_extend=True)
        else:
            engine.scheduler.on_idle(is_fully_idle=step == "idle")
    assert engine.sent == [1, 2, 3, 4]


def test_idle_is_forced_on_every_pass(clock: VirtualClock, socket: RecordingSocket) -> None:
    """P6, P2: each pass reaches both sinks, and the load socket keeps to its heartbeat."""
    engine = Engine(socket, interval=15)
    for at in (1.0, 1.25, 1.5, 1.75, 2.0, 2.25):
        clock.set(at)
        engine.scheduler.on_idle(is_fully_idle=True)
    assert len(engine.sink.written) == 6
    assert socket.sent == [(1.0, 0), (2.0, 1)]


def test_a_failing_collection_stays_inside_and_is_said_once(
    socket: RecordingSocket, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: batches go on; each sink warns once until it works again."""
    engine = Engine(socket)
    engine.sink.fails = True
    for _ in range(3):
        engine.batch(is_extend=True)
    engine.sink.fails = False
    engine.batch(is_extend=True)
    engine.sink.fails = True
    engine.batch(is_extend=True)
    assert [record.getMessage() for record in caplog.records] == [
        "writing a load snapshot failed"
    ] * 2
