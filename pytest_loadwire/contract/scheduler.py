"""`SchedulerContract`: when the loop publishes, and how often it walks its queues for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire.contract.base import lacking, method_of, missing_hook
from pytest_loadwire.contract.engine import (
    EngineContract,
    ReadingFailedError,
    crashed,
    history,
    kv_events_config,
    sent,
)
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import SchedulerTimeline, scheduler_timelines

if TYPE_CHECKING:
    from pytest_loadwire.harness.capture import Capture
    from pytest_loadwire.judge import Deed
    from pytest_loadwire.vectors.timelines import SchedulerStep

_BATCHES = ("prefill", "decode")
_MAKE_SCHEDULER = "build your scheduler around these callables"


class SchedulerContract(EngineContract):
    """Hold an engine's scheduler loop to rules P4 to P7.

    The loop is driven pass by pass through its own hooks: a batch came back, or nothing runs. What
    a walk of the queues finds is the contract's, and so is the in-engine sink.

    Example:
        ::

            class TestScheduler(SchedulerContract):
                open_socket = "engine.load._open_pub_socket"
                clock = ("engine.load", "engine.scheduler")
                snapshot = LoadSnapshot
                fields = {"num_tokens": "num_used_tokens"}

                def make_scheduler(self, **config):
                    return Scheduler(**config)

    The attributes to set are explained in `EngineContract`: ``open_socket``, ``clock``,
    ``snapshot`` and ``fields``, and where they are needed ``socket_mode``, ``logger``,
    ``revision`` and ``deviations``.
    """

    def make_scheduler(
        self,
        *,
        get_loads: Callable[[], Any],
        write_snapshot: Callable[[Any], None] | None,
        kv_events_config: str,
        load_publish_endpoint: str,
        publish_interval: int,
    ) -> Any:
        """A scheduler with a load publisher, at rank 0 of an engine of one.

        Args:
            get_loads: Stands for the walk of the queues; answers a snapshot.
            write_snapshot: Stands for the in-engine sink; None for an engine without one.
            kv_events_config: As of ``--kv-events-config``.
            load_publish_endpoint: As of ``--load-publish-endpoint``.
            publish_interval: One in this many unforced passes is published, for both sinks.
        """
        raise NotImplementedError

    def make_scheduler_with_old_hook(
        self,
        *,
        get_loads: Callable[[], Any],
        write_snapshot: Callable[[Any], None] | None,
        kv_events_config: str,
        load_publish_endpoint: str,
        publish_interval: int,
    ) -> Any:
        """As `make_scheduler`, with a publishing hook that writes the snapshot and returns nothing.

        Engines had such a hook before there was a load socket, and somebody may have overridden it.
        Without this, that is not checked, and one skipped test says so.
        """
        raise NotImplementedError

    def run_batch(
        self, scheduler: Any, *, is_prefill: bool, process_results: Callable[[], None]
    ) -> None:
        """A batch came back: let the scheduler publish and process its results.

        The default calls ``scheduler.process_batch_result(is_extend=is_prefill,
        process_results=process_results)``; override it where your method is called otherwise.
        """
        run = method_of(self, scheduler, "process_batch_result", hook="run_batch")
        run(is_extend=is_prefill, process_results=process_results)

    def run_without_batch(self, scheduler: Any, *, is_fully_idle: bool) -> None:
        """A pass without a batch; unless it is fully idle, requests wait that cannot run.

        The default calls ``scheduler.on_idle(is_fully_idle=is_fully_idle)``; override it where your
        method is called otherwise.
        """
        run = method_of(self, scheduler, "on_idle", hook="run_without_batch")
        run(is_fully_idle=is_fully_idle)

    def close(self, scheduler: Any) -> None:
        """Close the scheduler's load publisher; override it where that has another name.

        The default calls ``scheduler.load_publisher.close()``.
        """
        publisher = method_of(self, scheduler, "load_publisher", hook="close")
        method_of(self, publisher, "close", hook="close")()

    # What follows is the contract's own.

    @classmethod
    def _lacks(cls) -> Iterator[str]:
        yield from super()._lacks()
        if cls.make_scheduler is SchedulerContract.make_scheduler:
            yield lacking(cls, "make_scheduler", _MAKE_SCHEDULER)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every case as rule and id."""
        for timeline in cls._timelines():
            yield timeline.rule, timeline.id

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each timeline a test of its own."""
        if self.withholds(metafunc, "scheduler_timeline"):
            return
        if "scheduler_timeline" in metafunc.fixturenames:
            metafunc.parametrize("scheduler_timeline", list(self._timeline_parameters()))

    def test_keeps_the_timeline(
        self, scheduler_timeline: SchedulerTimeline, loadwire_capture: Any
    ) -> None:
        """The loop writes, sends and walks in each pass as the timeline says."""
        timeline = scheduler_timeline
        finding, notes = self.judge_timeline(timeline, self._captured(loadwire_capture))
        self.hold(finding, rule=timeline.rule, case=timeline.id, why=timeline.why, notes=notes)

    def judge_timeline(
        self, timeline: SchedulerTimeline, capture: Capture
    ) -> tuple[Finding | None, list[str]]:
        """What is wrong with a timeline, on a capture of `open_socket`, and the passes up to it."""
        loop = _Loop(self, timeline, capture)
        notes: list[str] = []
        with self._clock_at(timeline.steps[0].at) as clock:
            loop.start()
            try:
                finding = self.judge_open(capture)
                for step in timeline.steps if finding is None else ():
                    clock.set(float(step.at))
                    finding = loop.take(step)
                    notes.append(loop.note(step))
                    if finding is not None:
                        break
            finally:
                self.close(loop.scheduler)
        return finding, history("passes", notes)

    @classmethod
    def _timelines(cls) -> list[SchedulerTimeline]:
        return [t for t in scheduler_timelines(load().cadence) if t.since <= cls.revision]

    @classmethod
    def _timeline_parameters(cls) -> Iterator[Any]:
        old = cls.make_scheduler_with_old_hook
        has_old = old is not SchedulerContract.make_scheduler_with_old_hook
        for timeline in cls._timelines():
            marks: Sequence[pytest.MarkDecorator] = ()
            if timeline.hook == "returns-nothing" and not has_old:
                why = "a hook that returns nothing is not checked: override {}"
                why = why.format("make_scheduler_with_old_hook")
                marks = [pytest.mark.skip(reason=why)]
            yield pytest.param(timeline, id=f"{timeline.rule}-{timeline.id}", marks=marks)


class _Loop:
    """One scheduler, and what it did in the pass under way."""

    def __init__(
        self, contract: SchedulerContract, timeline: SchedulerTimeline, capture: Capture
    ) -> None:
        self.contract = contract
        self.timeline = timeline
        self.capture = capture
        self.scheduler: Any = None
        self.step: SchedulerStep = timeline.steps[0]
        self.seen = 0
        self._begin(self.step)

    def _begin(self, step: SchedulerStep) -> None:
        self.step = step
        self.snapshot = None
        if step.reading is not None:
            self.snapshot = self.contract.snapshot_of(step.reading)
        self.walks = 0
        self.written: list[Any] = []
        self.processed: list[tuple[int, int, int]] = []
        self.messages: list[tuple[bytes, ...]] = []

    def start(self) -> None:
        """Build the engine's scheduler around this loop's callables."""
        contract = self.contract
        if type(contract).make_scheduler is SchedulerContract.make_scheduler:
            missing_hook(contract, "make_scheduler", _MAKE_SCHEDULER)
        shared = self.timeline.hook == "returns-snapshot"
        make = contract.make_scheduler if shared else contract.make_scheduler_with_old_hook
        self.scheduler = make(
            get_loads=self.get_loads,
            write_snapshot=self.write_snapshot if self.timeline.sink else None,
            kv_events_config=kv_events_config(),
            load_publish_endpoint="auto",
            publish_interval=self.timeline.interval,
        )

    def get_loads(self) -> Any:
        """The walk of the queues."""
        self.walks += 1
        if self.snapshot is None:
            raise ReadingFailedError("the walk of this timeline raises")
        return self.snapshot

    def write_snapshot(self, snapshot: Any) -> None:
        """The in-engine sink."""
        if self.step.write == "raises":
            raise OSError("the sink of this timeline raises")
        self.written.append(snapshot)

    def process_results(self) -> None:
        """Notes how much was published by the time the results are processed."""
        self.processed.append((self._sent(), len(self.written), self.walks))

    def _sent(self) -> int:
        return len(self.capture.frames) - self.seen

    def take(self, step: SchedulerStep) -> Finding | None:
        """One pass of the loop: what is wrong with it."""
        self._begin(step)
        contract, kind = self.contract, step.loop_pass
        try:
            if kind in _BATCHES:
                contract.run_batch(
                    self.scheduler,
                    is_prefill=kind == "prefill",
                    process_results=self.process_results,
                )
            else:
                contract.run_without_batch(self.scheduler, is_fully_idle=kind == "idle")
        except Exception as error:
            return crashed(error, "the loop to go on")
        finally:
            self.messages = self.capture.frames[self.seen :]
            self.seen += len(self.messages)
        return (
            contract.judge_sent(
                self.messages,
                sequence=step.expect.sent,
                at=step.at,
                reading=step.reading,
                rule=self.timeline.rule,
            )
            or self._judge_written()
            or self._judge_walks()
            or self._judge_order()
        )

    def _judge_written(self) -> Finding | None:
        owed, got = int(self.step.expect.written), len(self.written)
        if owed == got:
            return None
        expected = f"{owed} snapshot(s) for the in-engine sink at {self.step.at}"
        deed: Deed = "sent" if got > owed else "not-sent"
        return Finding(deed, self.timeline.rule, expected, str(got), Hazard.STALE)

    def _judge_walks(self) -> Finding | None:
        owed = self.step.expect.walks
        if self.walks <= owed:
            return None
        rule = "P7" if owed else self.timeline.rule
        expected = f"at most {owed} walk(s) of the queues at {self.step.at}"
        return Finding("asked", rule, expected, str(self.walks))

    def _judge_order(self) -> Finding | None:
        """A batch publishes, and then its results are processed, once (rule P5)."""
        if self.step.loop_pass not in _BATCHES:
            return None
        owed = [(len(self.messages), len(self.written), self.walks)]
        if self.processed == owed:
            return None
        if len(self.processed) != 1:
            got = f"{len(self.processed)} times"
            return Finding("wrong-order", "P5", "the results to be processed once", got)
        sent, written, _ = self.processed[0]
        return Finding(
            "wrong-order",
            "P5",
            "what a batch publishes to be out before its results are processed",
            f"{sent} of {len(self.messages)} message(s) and {written} of {len(self.written)} "
            "snapshot(s) were",
        )

    def note(self, step: SchedulerStep) -> str:
        """The pass in one line."""
        did = [*sent(self.messages), *["written"] * len(self.written), f"{self.walks} walk(s)"]
        reading = step.reading or "(walk raises)"
        return f"{step.at:>8} {step.loop_pass:<7} {reading} -> {', '.join(did)}"
