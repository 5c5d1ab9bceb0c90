"""`PublisherContract`: one scheduler's publisher, its socket, its slot and its cadence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire.contract import live
from pytest_loadwire.contract.base import lacking, method_of, missing_hook
from pytest_loadwire.contract.engine import (
    EngineContract,
    ReadingFailedError,
    Warnings,
    crashed,
    history,
    kv_events_config,
)
from pytest_loadwire.contract.message import RANK
from pytest_loadwire.contract.publisher_cases import (
    BINDS,
    CLOSINGS,
    FAILED_BINDS,
    RANK_PLANS,
    STARTS,
    Bind,
    Closing,
    FailedBind,
    RankPlan,
    Start,
)
from pytest_loadwire.contract.publisher_judge import (
    judge_asked,
    judge_socket,
    names_another_rank,
    note,
    raise_unseen,
)
from pytest_loadwire.endpoints import Topology
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import (
    PublisherStep,
    PublisherTimeline,
    publisher_timelines,
)

if TYPE_CHECKING:
    from pytest_loadwire.harness.capture import Capture

_KV_EVENTS = kv_events_config()
_ALONE = Topology()
_MAKE_PUBLISHER = "start your engine's publisher as it is told"
_BINDER_WARNS = (
    "whoever binds warns once when its range is declined, since the resolver does not log"
)


class PublisherContract(EngineContract):
    """Hold an engine's load publisher to rules K1 to K4, P1 to P4, R1 to R3, S1 and S2.

    Every check runs on a stub of the socket, or with ``--loadwire-socket=live`` on a real one; some
    need a real one, and are skipped without.

    Example:
        ::

            class TestPublisher(PublisherContract):
                open_socket = "engine.load.open_pub_socket"
                clock = "engine.load"
                snapshot = LoadSnapshot
                fields = {"num_tokens": "num_used_tokens"}

                def make_publisher(self, *, topology, **config):
                    return LoadPublisher(rank=topology.slot, size=topology.dp_size, **config)

    The attributes to set are explained in `EngineContract`: ``open_socket``, ``clock``,
    ``snapshot`` and ``fields``, and where they are needed ``socket_mode``, ``logger``,
    ``revision`` and ``deviations``.
    """

    def make_publisher(
        self,
        *,
        kv_events_config: str | None,
        load_publish_endpoint: str | None,
        publish_interval: int,
        topology: Topology,
    ) -> Any:
        """The publisher of one scheduler, as your engine starts it.

        Args:
            kv_events_config: As of ``--kv-events-config``: JSON with ``publisher``, ``endpoint``
                and maybe ``replay_endpoint``; None or text that does not parse in some checks.
            load_publish_endpoint: As of ``--load-publish-endpoint``.
            publish_interval: One in this many unforced calls passes.
            topology: The ranks of the scheduler. ``dp_size`` is how many schedulers publish,
                ``dp_rank`` the replica in pure data parallelism (None when unset),
                ``attn_dp_size`` (above 1 under DP attention) and ``attn_dp_rank`` those of
                attention. ``slot`` is what rules R2 and R3 make of them, and
                ``publishes(kv_events_config)`` says whether rule R1 lets the scheduler publish;
                an engine that selects both itself leaves these two alone.
        """
        raise NotImplementedError

    def publish(
        self, publisher: Any, provider: Callable[[], Any], *, force: bool, snapshot: Any
    ) -> None:
        """One call of the scheduler's loop; override it where your method is called otherwise.

        The default calls ``publisher.publish_load_stat(provider, force=force, snapshot=snapshot)``.

        Args:
            publisher: What `make_publisher` returned.
            provider: Without arguments; answers a snapshot, or raises.
            force: Whether the call passes the throttle (rule P1).
            snapshot: A reading that is at hand, which spares the provider (rule P3), or None.
        """
        publish = method_of(self, publisher, "publish_load_stat", hook="publish")
        publish(provider, force=force, snapshot=snapshot)

    def close(self, publisher: Any) -> None:
        """Close the publisher; override it where your method has another name.

        The default calls ``publisher.close()``.
        """
        method_of(self, publisher, "close", hook="close")()

    # What follows is the contract's own.

    @classmethod
    def _lacks(cls) -> Iterator[str]:
        yield from super()._lacks()
        if cls.make_publisher is PublisherContract.make_publisher:
            yield lacking(cls, "make_publisher", _MAKE_PUBLISHER)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every case as rule and id."""
        for timeline in cls._timelines():
            yield timeline.rule, timeline.id
        for cases in _TABLES.values():
            for case in cases:
                yield case.rule, case.case

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each timeline and each case a test of its own."""
        if self.withholds(metafunc, "publisher_timeline", *_TABLES):
            return
        if "publisher_timeline" in metafunc.fixturenames:
            metafunc.parametrize("publisher_timeline", list(self._timeline_parameters()))
        for fixture, cases in _TABLES.items():
            if fixture in metafunc.fixturenames:
                parameters = [pytest.param(c, id=f"{c.rule}-{c.case}") for c in cases]
                metafunc.parametrize(fixture, parameters)

    def test_keeps_the_timeline(
        self, publisher_timeline: PublisherTimeline, loadwire_capture: Any
    ) -> None:
        """The engine sends, asks and warns in each call as the timeline says."""
        timeline = publisher_timeline
        finding, notes = self.judge_timeline(timeline, self._captured(loadwire_capture))
        self.hold(finding, rule=timeline.rule, case=timeline.id, why=timeline.why, notes=notes)

    def judge_timeline(
        self, timeline: PublisherTimeline, capture: Capture
    ) -> tuple[Finding | None, list[str]]:
        """What is wrong with a timeline, on a capture of `open_socket`, and the calls up to it."""
        notes: list[str] = []
        with (
            self._clock_at(timeline.steps[0].at) as clock,
            self._running(publish_interval=timeline.interval) as publisher,
        ):
            finding = self.judge_open(capture)
            for step in timeline.steps if finding is None else ():
                clock.set(float(step.at))
                finding, told = self._take(step, publisher, capture, timeline.rule)
                notes.append(told)
                if finding is not None:
                    break
        return finding, history("calls", notes)

    def test_binds_its_socket(self, bind: Bind, loadwire_capture: Any) -> None:
        """The engine opens one PUB socket, sets what it has to, and then binds it."""
        capture = self._captured(loadwire_capture)
        self._needs_ipv6(bind.endpoint, capture)
        with self._running(bind.config, bind.load_publish_endpoint):
            finding = self.judge_open(capture)
            if finding is None:
                (record,) = capture.sockets
                finding = judge_socket(record, bind)
        self.hold(finding, rule=bind.rule, case=bind.case, why=bind.why)

    def test_lives_with_a_failed_bind(self, failed_bind: FailedBind, loadwire_capture: Any) -> None:
        """A bind that fails costs the publishing and one warning, and neither socket nor engine."""
        capture = self._captured(loadwire_capture)
        capture.fail_bind(failed_bind.error)
        with self.listening() as warnings:
            finding = self._judge_disabled(capture, warnings, failed_bind, Topology(), 1)
        if finding is None and not all(record.closed for record in capture.sockets):
            finding = Finding("left-open", "K3", "the socket to be closed", "it was left open")
        self.hold(finding, rule=failed_bind.rule, case=failed_bind.case, why=failed_bind.why)

    def test_opens_no_socket(self, start: Start, loadwire_capture: Any) -> None:
        """A scheduler that does not publish opens nothing, and asks nobody for a reading."""
        capture = self._captured(loadwire_capture)
        with self.listening() as warnings:
            finding = self._judge_disabled(capture, warnings, start, start.topology, start.warnings)
        self.hold(finding, rule=start.rule, case=start.case, why=start.why)

    def test_every_rank_has_a_slot(self, rank_plan: RankPlan, loadwire_capture: Any) -> None:
        """The schedulers of an engine bind base + r and say so in their payloads, all distinct."""
        capture = self._captured(loadwire_capture)
        publishers = []
        try:
            for topology in rank_plan.topologies:
                publisher = self._start(
                    load_publish_endpoint=rank_plan.load_publish_endpoint, topology=topology
                )
                publishers.append(publisher)
            finding = self._judge_ranks(rank_plan, capture, publishers)
        finally:
            for publisher in publishers:
                self.close(publisher)
        self.hold(finding, rule=rank_plan.rule, case=rank_plan.case, why=rank_plan.why)

    def test_closes(self, closing: Closing, loadwire_capture: Any) -> None:
        """Closing twice is closing once; afterwards, publishing asks for no reading."""
        capture = self._captured(loadwire_capture)
        with self._running() as publisher:
            self.publish(
                publisher, lambda: self.snapshot_of("reading-a"), force=True, snapshot=None
            )
        finding = self.judge_open(capture)
        if finding is None and not capture.sockets[0].closed:
            finding = Finding("left-open", "K4", "the socket to be closed", "it was left open")
        if finding is None and closing.case == "close-twice":
            try:
                self.close(publisher)
            except Exception as error:
                finding = crashed(error, "a second close")._replace(rule="K4")
        elif finding is None:
            finding = self._judge_never_asks(publisher, capture, "K4", sent=1)
        self.hold(finding, rule=closing.rule, case=closing.case, why=closing.why)

    def test_on_a_real_socket(
        self,
        live_case: live.LiveCase,
        loadwire_capture: Any,
        make_loadwire_publisher: Any,
        make_loadwire_subscriber: Any,
        loadwire_clock: Any,
    ) -> None:
        """The engine's own socket, on a port of this machine, with subscribers of ours."""
        capture = self._captured(loadwire_capture)
        mode = capture.mode
        # Nothing stands between the engine and libzmq here.
        capture.finish()
        if mode != "live":
            pytest.skip(f"{live_case.rule}-{live_case.case} needs --loadwire-socket=live")
        self._install(loadwire_clock)
        stage = live.Stage(self, loadwire_clock, make_loadwire_publisher, make_loadwire_subscriber)
        finding = live_case.play(stage)
        self.hold(finding, rule=live_case.rule, case=live_case.case, why=live_case.why)

    @classmethod
    def _timelines(cls) -> list[PublisherTimeline]:
        return [t for t in publisher_timelines(load().cadence) if t.since <= cls.revision]

    @classmethod
    def _timeline_parameters(cls) -> Iterator[Any]:
        for timeline in cls._timelines():
            marks: Sequence[pytest.MarkDecorator] = ()
            if RANK not in cls.fields and names_another_rank(timeline):
                why = f"a snapshot's own rank is not checked: name it as {RANK!r} in fields"
                marks = [pytest.mark.skip(reason=why)]
            yield pytest.param(timeline, id=f"{timeline.rule}-{timeline.id}", marks=marks)
        if cls.logger is None:
            why = "warnings are not checked: name the logger of your engine"
            yield pytest.param(None, id="P4-warnings", marks=pytest.mark.skip(reason=why))

    def _start(
        self,
        config: str | None = _KV_EVENTS,
        load_publish_endpoint: str | None = "auto",
        *,
        publish_interval: int = 5,
        topology: Topology = _ALONE,
    ) -> Any:
        if type(self).make_publisher is PublisherContract.make_publisher:
            missing_hook(self, "make_publisher", _MAKE_PUBLISHER)
        return self.make_publisher(
            kv_events_config=config,
            load_publish_endpoint=load_publish_endpoint,
            publish_interval=publish_interval,
            topology=topology,
        )

    @contextmanager
    def _running(self, *config: Any, **settings: Any) -> Iterator[Any]:
        """A publisher as `_start` makes it, closed behind the block."""
        publisher = self._start(*config, **settings)
        try:
            yield publisher
        finally:
            self.close(publisher)

    def _take(
        self, step: PublisherStep, publisher: Any, capture: Capture, rule: str
    ) -> tuple[Finding | None, str]:
        """One call of a timeline: what is wrong with it, and what happened in words."""
        call, owes = step.call, step.expect
        snapshot = None if call.reading is None else self.snapshot_of(call.reading)
        asked = 0

        def provider() -> Any:
            nonlocal asked
            asked += 1
            if call.provider == "raises":
                raise ReadingFailedError("the provider of this timeline raises")
            return snapshot

        before = len(capture.frames)
        if call.send == "raises":
            capture.fail_send()
        finding: Finding | None = None
        with self.listening() as warnings:
            try:
                self.publish(
                    publisher,
                    provider,
                    force=call.forced,
                    snapshot=snapshot if call.handed_in else None,
                )
            except Exception as error:
                finding = crashed(error, "the call to return")
        messages = capture.frames[before:]
        told = note(step, messages, asked, warnings)
        if finding is not None:
            return finding, told
        return (
            self.judge_sent(
                messages, sequence=owes.sent, at=step.at, reading=call.reading, rule=rule
            )
            or judge_asked(asked, step, rule)
            or warnings.judge(owes.warned, "P4")
        ), told

    def _judge_disabled(
        self,
        capture: Capture,
        warnings: Warnings,
        case: Start | FailedBind,
        topology: Topology,
        count: int,
    ) -> Finding | None:
        """Start a publisher that cannot publish: no exception, so many warnings, never asking."""
        config = case.config if isinstance(case, Start) else kv_events_config()
        endpoint = case.load_publish_endpoint if isinstance(case, Start) else "auto"
        try:
            publisher = self._start(config, endpoint, topology=topology)
        except Exception as error:
            raise_unseen(capture)
            return crashed(error, "the engine to start")._replace(rule=case.rule)
        try:
            if isinstance(case, Start) and capture.sockets:
                opened = ", ".join(capture.sockets[0].bind_calls) or "no address"
                got = f"one for {opened}"
                # Nobody subscribes to a socket that is not owed, so by itself it moves no traffic.
                return Finding("wrong-socket", case.rule, "no socket", got, Hazard.NONE)
            finding = self._judge_never_asks(publisher, capture, "P3", sent=0)
            why = _BINDER_WARNS if count and case.rule[0] == "E" else ""
            return finding or warnings.judge(count, "E5" if case.rule[0] == "E" else case.rule, why)
        finally:
            self.close(publisher)

    def _judge_never_asks(
        self, publisher: Any, capture: Capture, rule: str, *, sent: int
    ) -> Finding | None:
        """Publish in every way; nobody is asked, nothing is sent, nothing raises."""
        asked = 0

        def provider() -> Any:
            nonlocal asked
            asked += 1
            return self.snapshot_of("reading-b")

        calls = [(True, None), *[(False, None)] * 6, (True, self.snapshot_of("reading-b"))]
        try:
            for force, snapshot in calls:
                self.publish(publisher, provider, force=force, snapshot=snapshot)
        except Exception as error:
            raise_unseen(capture)
            return crashed(error, "publishing to do nothing")._replace(rule=rule)
        if asked:
            return Finding("asked", rule, "nobody to be asked", f"the provider was, {asked} times")
        more = len(capture.frames) - sent
        return Finding("sent", rule, "no message", f"{more} messages") if more else None

    def _judge_ranks(
        self, plan: RankPlan, capture: Capture, publishers: Sequence[Any]
    ) -> Finding | None:
        bound = [endpoint for record in capture.sockets for endpoint in record.bind_calls]
        owed = [f"tcp://*:{plan.base + rank}" for rank in range(len(publishers))]
        if bound != owed:
            distinct = len(set(bound)) == len(owed)
            expected, got = ", ".join(owed), ", ".join(bound) or "no bind"
            return Finding("wrong-socket", "R3" if distinct else "R2", expected, got, Hazard.STALE)
        for rank, (publisher, record) in enumerate(zip(publishers, capture.sockets, strict=True)):
            self.publish(
                publisher, lambda: self.snapshot_of("reading-a"), force=True, snapshot=None
            )
            if len(record.messages) != 1:
                expected, got = f"one message from rank {rank}", f"{len(record.messages)}"
                return Finding("not-sent", "R3", expected, got, Hazard.STALE)
            finding = self.judge_message(
                record.messages[0], sequence=0, reading="reading-a", rank=rank, rule="R3"
            )
            if finding is not None:
                return finding
        return None

    @staticmethod
    def _needs_ipv6(endpoint: str, capture: Capture) -> None:
        if "[" in endpoint and capture.mode == "live" and not live.has_ipv6():
            pytest.skip("this machine has no IPv6 loopback")


_TABLES: Mapping[str, Sequence[Any]] = {
    "bind": BINDS,
    "failed_bind": FAILED_BINDS,
    "start": STARTS,
    "rank_plan": RANK_PLANS,
    "closing": CLOSINGS,
    "live_case": live.CASES,
}
