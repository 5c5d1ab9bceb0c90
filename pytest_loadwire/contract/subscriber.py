"""`SubscriberContract`: a router's subscriber among fake engines, on real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from pytest_loadwire.contract.base import Contract, lacking, missing_hook, unknown_revision
from pytest_loadwire.contract.subscriber_play import Play
from pytest_loadwire.contract.subscriber_watch import Broken
from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.engine.scenario import Scenario
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.harness.router_program import RouterProgram
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.readings import Advertise, Remove, Withdraw
from pytest_loadwire.wire import LATEST, field_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.contract.subscriber_watch import Known, RouterSubscriber
    from pytest_loadwire.engine.fake_engine import FakeEngine
    from pytest_loadwire.vectors.readings import ReadingTimeline

MANUAL = Scenario("by hand", "nothing happens by itself")

_START = "there is no subscriber; or set `command`"

# Behind the timelines, by rule and id: what takes a scenario, or real time.
_SCENES = {
    "hostile-engine": "C5",
    "unreachable-worker": "C4",
    "silent-rank-in-real-time": "C3",
}


class SubscriberContract(Contract):
    """Hold a router's subscriber to rules C1 to C7, and with them to R3, S2, S3, F2 and W9.

    It gets the URLs of fake engines that have a real ``/server_info`` and real load sockets on
    loopback, and is asked for its view while they behave, restart, stall and lie as the timelines
    of ``readings.json`` say.

    Example:
        A subscriber in Python whose clock can be handed in::

            class TestSubscriber(SubscriberContract):
                virtual_time = True

                def start(self, window, clock):
                    return my_router.LoadMonitor(freshness=window, clock=clock)

        One that is a program, in any language (`pytest_loadwire.harness.router_program`)::

            class TestSubscriber(SubscriberContract):
                command = ["./load-monitor", "--json"]

    Attributes:
        command: The program, where the subscriber is one.
        revision: The newest revision that the subscriber reads.
        fields: The counts that it reports, where those are not all of the revision.
        sums: ``exact``, or ``saturate`` where they stop at 2^64-1.
        window: The freshness window in seconds that it has where `virtual_time` is off. One test
            waits for that long; without it, with None, staleness is not checked in real time.
        virtual_time: Whether `start` puts the window and the clock that it is handed in place, so
            that timelines play in which readings turn stale.
        rediscovers: Seconds in which it asks a worker again what it advertises; None where it asks
            once, and timelines in which an advertisement changes are skipped.
        patience: Seconds in which it has to notice a message, or a restarted engine.
        deviations: The known deviations of the subscriber.
    """

    command: ClassVar[Sequence[str] | None] = None
    revision: ClassVar[int] = LATEST
    fields: ClassVar[Sequence[str] | None] = None
    sums: ClassVar[Literal["exact", "saturate"]] = "exact"
    window: ClassVar[float | None] = 5.0
    virtual_time: ClassVar[bool] = False
    rediscovers: ClassVar[float | None] = None
    patience: ClassVar[float] = 5.0

    def start(self, window: float, clock: Callable[[], float]) -> RouterSubscriber:
        """Start a fresh subscriber without workers.

        Args:
            window: The freshness window in seconds, inclusive.
            clock: A monotonic clock in seconds: `time.monotonic`, unless `virtual_time` is on.

        Returns:
            An object with ``add_worker(url)``, ``remove_worker(url)``, ``view()`` and ``close()``.
            A view maps the URL of each worker to its load, None while that is unknown.
        """
        del window, clock
        if self.command is None:
            missing_hook(self, "start(window, clock)", _START)
        return RouterProgram(self.command)

    def load(self, seen: Any) -> Mapping[str, int]:
        """What a view has for a worker whose load is known, as field name to sum.

        The default takes a mapping, or an object with the contract's field names as attributes. A
        count that not every rank sent has to be missing or None.
        """
        if not isinstance(seen, Mapping):
            names = [name for name in field_names() if hasattr(seen, name)]
            if not names:
                kind = type(seen).__name__
                missing_hook(self, "load(seen)", f"a {kind} has none of the contract's field names")
            seen = {name: getattr(seen, name) for name in names}
        return {name: value for name, value in seen.items() if value is not None}

    # What follows is the contract's own.

    @classmethod
    def unready(cls) -> str | None:
        """There is a subscriber to start, of a revision that is known."""
        if cls.command is None and cls.start is SubscriberContract.start:
            return lacking(cls, "start(window, clock)", _START)
        return unknown_revision(cls, cls.revision)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every timeline and scene as rule and id."""
        yield from ((timeline.rule, timeline.id) for timeline in load().readings)
        yield from ((rule, scene) for scene, rule in _SCENES.items())

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each timeline a test of its own; those that need more than there is are skipped."""
        if self.withholds(metafunc, "reading_timeline", "subscriber_scene"):
            return
        if "reading_timeline" in metafunc.fixturenames:
            cases = []
            for timeline in load().readings:
                why = self._needs(timeline)
                marks = [pytest.mark.skip(reason=why)] if why else []
                name = f"{timeline.rule}-{timeline.id}"
                cases.append(pytest.param(timeline, id=name, marks=marks))
            metafunc.parametrize("reading_timeline", cases)
        if "subscriber_scene" in metafunc.fixturenames:
            scenes = [
                pytest.param(name, id=f"{rule}-{name}")
                for name, rule in _SCENES.items()
                if name != "silent-rank-in-real-time" or self.window is not None
            ]
            metafunc.parametrize("subscriber_scene", scenes)

    def test_follows_timeline(self, reading_timeline: ReadingTimeline) -> None:
        """Behind every event the subscriber knows of each worker what the timeline says."""
        timeline = reading_timeline
        clock = VirtualClock(timeline.steps[0].time) if self.virtual_time else None
        window = float(timeline.window) if clock else self.window or 5.0

        def play(play: Play, _: Fleet) -> None:
            play.timeline(timeline)

        self._run(timeline.rule, timeline.id, timeline.why, MANUAL, play, window, clock)

    def test_lives_through_scene(self, subscriber_scene: str) -> None:
        """The subscriber keeps the contract through a scene that takes more than a timeline."""
        rule = _SCENES[subscriber_scene]
        scenes: Mapping[str, tuple[str, Scenario, Callable[[Play, Fleet], None]]] = {
            "hostile-engine": (
                "every refused vector and broken frame goes by without a trace",
                Scenario("hostile", shape="ramp", hostile=8, revision=self.revision),
                self._hostile_engine,
            ),
            "unreachable-worker": (
                "a worker that does not answer is unknown and takes nothing from the others",
                MANUAL,
                self._unreachable_worker,
            ),
            "silent-rank-in-real-time": (
                "a rank that falls silent makes its worker unknown, on a real clock",
                MANUAL,
                self._silent_rank,
            ),
        }
        why, scenario, scene = scenes[subscriber_scene]
        self._run(rule, subscriber_scene, why, scenario, scene, self.window or 5.0, None)

    def _needs(self, timeline: ReadingTimeline) -> str:
        """What a timeline needs that this class does not offer; empty where it can play."""
        if timeline.ages and not self.virtual_time:
            return "readings turn stale in it: set virtual_time, and hand the clock on in start"
        if self.rediscovers is None and _changes_an_advertisement(timeline):
            return "an advertisement changes in it: say in `rediscovers` how soon that is noticed"
        return ""

    def _run(
        self,
        rule: str,
        case: str,
        why: str,
        scenario: Scenario,
        scene: Callable[[Play, Fleet], None],
        window: float,
        clock: VirtualClock | None,
    ) -> None:
        """One subscriber among one fleet, and what came of it."""
        __tracebackhide__ = True
        finding: Finding | None = None
        frames: Sequence[bytes] = ()
        with Fleet(scenario, workers=0, timeout=self.patience) as fleet:
            subscriber = self.start(window, clock or time.monotonic)
            try:
                play = Play(
                    subscriber,
                    fleet,
                    read=self._read,
                    revision=self.revision,
                    fields=self.fields,
                    saturates=self.sums == "saturate",
                    patience=self.patience,
                    rediscovers=self.rediscovers,
                    clock=clock,
                )
                scene(play, fleet)
            except Broken as broken:
                finding, frames = broken.finding, broken.frames
            finally:
                subscriber.close()
        self.hold(finding, rule=rule, case=case, why=why, frames=frames)

    def _read(self, seen: Any) -> Known:
        return self.load(seen)

    def _hostile_engine(self, play: Play, fleet: Fleet) -> None:
        play.watch_sentinel()
        play.rule = "C5"
        sentinel = fleet.engines.pop()  # it takes no part in the scenario
        engine = fleet.add_engine(2)
        play.add(engine)
        allowed: list[Known] = [None]
        steps = -(-len(fleet.bad) // (2 * fleet.scenario.hostile)) + 1
        for _ in range(steps):
            try:
                fleet.step()
            except DeadlineError as error:
                raise Broken(_finding("C5", "every message to be read", str(error))) from error
            self._seen_among(play, engine, allowed)
        play.sentinel_passes()
        play.expect({engine.url: play.restrict(engine.load)})
        lost = sum(engine.lost_subscribers(rank) for rank in range(engine.dp_size))
        if lost:
            got = f"{lost} subscription(s) of {engine.dp_size} closed"
            raise Broken(_finding("C5", "the subscriptions to stay up", got))
        fleet.engines.append(sentinel)

    def _seen_among(self, play: Play, engine: FakeEngine, allowed: list[Known]) -> None:
        """Between two steps, the sum may be of the readings before, behind or of both."""
        step = engine.load
        assert step is not None  # every rank has published in the step
        allowed.append(play.restrict(step))
        before, behind = allowed[-2:]

        def arrived() -> bool:
            seen = play.look().get(engine.url)
            if play.judge(behind, seen) is None:
                return True
            if seen is not None and not _between(seen, before, behind):
                play.expect({engine.url: behind})
            return False

        if not play.until(arrived):
            play.expect({engine.url: behind})

    def _unreachable_worker(self, play: Play, fleet: Fleet) -> None:
        down = fleet.add_engine(1)
        down.stop()
        nobody = "http://127.0.0.1:9"  # the port of the discard service, where nobody listens
        play.rule = "C4"
        play.call("add_worker", nobody)
        play.call("add_worker", down.url)
        play.watch_sentinel()
        play.rule = "C4"
        play.sentinel_passes()
        play.expect({nobody: None, down.url: None})

    def _silent_rank(self, play: Play, fleet: Fleet) -> None:
        window = self.window or 5.0
        play.watch_sentinel()
        play.rule = "C3"
        engine = fleet.add_engine(2)
        play.add(engine)
        for rank in (0, 1):
            engine.send(rank, fleet.scenario.reading(rank, 0))
        known = play.restrict(engine.load)
        play.sentinel_passes()
        play.wait_for({engine.url: known})
        started = time.monotonic()

        def beat() -> None:
            # The other rank goes on, and so does the nonsense of the silent one.
            engine.send(0, fleet.scenario.reading(0, 0))
            engine.send_frames(1, [b"load", bytes(8), b"\xc0"])

        def silence_shows() -> bool:
            seen = play.look().get(engine.url)
            if seen is not None:
                return False
            finding = play.judge(known, seen)
            if finding is not None and time.monotonic() - started < window / 2:
                raise Broken(finding)  # a reading this young is fresh
            return True

        beat()
        if not play.until(silence_shows, beat, window + self.patience, every=window / 8):
            play.expect({engine.url: None})
        engine.send(1, fleet.scenario.reading(1, 0))
        play.wait_for({engine.url: known})


def _changes_an_advertisement(timeline: ReadingTimeline) -> bool:
    """Whether a worker that is there advertises something else, or has to be asked again."""
    there: set[str] = set()
    for step in timeline.steps:
        event = step.happens
        if isinstance(event, Advertise | Withdraw):
            if event.worker in there:
                return True
            there.add(event.worker)
        elif isinstance(event, Remove):
            there.discard(event.worker)
    return False


def _between(seen: Mapping[str, int], before: Known, behind: Known) -> bool:
    """Whether a sum can be one of old and new readings, given that counts only grow."""
    return behind is not None and all(
        name in behind and (before or behind).get(name, 0) <= value <= behind[name]
        for name, value in seen.items()
        if name in behind
    )


def _finding(rule: str, expected: str, got: str) -> Finding:
    return Finding("refused", rule, expected, got, Hazard.STALE)
