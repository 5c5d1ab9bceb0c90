"""`SchedulerContract` on the reference, and on loops with one bug at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire.contract.scheduler import SchedulerContract
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot, Scheduler

if TYPE_CHECKING:
    from tests.contract.conftest import Failure

# A bug, and the rule under which it has to be reported.
BUGS = [
    ("publishes behind the results", "P5"),
    ("writes behind the results", "P5"),
    ("processes twice", "P5"),
    ("processes nothing that failed", "P5"),
    ("does not publish batches", "P5"),
    ("does not force prefills", "P5"),
    ("forces decodes", "P5"),
    ("throttles its sinks apart", "P5"),
    ("lets a failed walk out", "P4"),
    ("throttles idle passes", "P6"),
    ("publishes idle once", "P6"),
    ("says nothing in a stall", "P6"),
    ("has no floor in a stall", "P6"),
    ("has a floor for one sink only", "P6"),
    ("has a floor of 60 ms", "P6"),
    ("has a floor of 1 s", "P6"),
    ("has a floor above 50 ms", "P6"),
    ("counts the floor from each pass", "P6"),
    ("waits for the floor at first", "P6"),
    ("waits for the floor when idle", "P6"),
    ("opens the floor when idle", "P6"),
    ("opens the floor with a batch", "P6"),
    ("does not force stalls", "P6"),
    ("has no floor without a sink", "P6"),
    ("walks twice", "P7"),
    ("walks before the throttle", "P7"),
    ("needs a sink", "P7"),
    ("needs the snapshot of its hook", "P7"),
    ("needs a sink that works", "P7"),
    ("writes an idle snapshot", "P7"),
    ("publishes an old snapshot", "P7"),
]

# A bug that fails more cases than this says nothing about any one of them.
SPECIFIC = 10


class Sink:
    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write


class BuggyScheduler(Scheduler):
    """The reference with one bug."""

    bug = ""

    def publish_load_snapshot(self, force: bool = False) -> object | None:
        bug = self.bug
        if bug == "throttles its sinks apart" and not force and self._calls == 1:
            force = True
        if bug == "walks before the throttle":
            self.get_loads()
        if bug == "writes an idle snapshot" and self.snapshot_sink is not None and force:
            self.snapshot_sink.write(LoadSnapshot())
        return super().publish_load_snapshot(force)

    def process_batch_result(
        self, *, is_extend: bool, process_results: Callable[[], object]
    ) -> None:
        bug = self.bug
        if bug == "opens the floor with a batch":
            self._last_stall = float("-inf")
        if bug in ("publishes behind the results", "processes twice"):
            process_results()
        if bug == "writes behind the results":
            self.load_publisher.publish_load_stat(self.get_loads, force=is_extend)
            process_results()
            self.publish_load_snapshot(force=is_extend)
            return
        if bug == "processes nothing that failed":
            try:
                self.get_loads()
            except Exception:
                return
        force = {"does not force prefills": False, "forces decodes": True}.get(bug, is_extend)
        if bug != "does not publish batches":
            self._publish(force=force)
        if bug != "publishes behind the results":
            process_results()

    def on_idle(self, *, is_fully_idle: bool) -> None:
        bug, now = self.bug, time.monotonic()
        if is_fully_idle:
            if bug == "publishes idle once" and self.__dict__.setdefault("said", 0):
                return
            self.said = 1
            if bug == "waits for the floor when idle" and now - self._last_stall < 0.05:
                return
            if bug == "opens the floor when idle":
                self._last_stall = float("-inf")
            self._publish(force=bug != "throttles idle passes")
            return
        if bug == "says nothing in a stall":
            return
        floors = {
            "has a floor of 60 ms": 0.06,
            "has a floor of 1 s": 1.0,
            "has no floor in a stall": 0.0,
        }
        floor = floors.get(bug, 0.05)
        if bug == "has no floor without a sink" and self.snapshot_sink is None:
            floor = 0.0
        if bug == "waits for the floor at first" and self._last_stall < 0:
            self._last_stall = 0.0
        elapsed = now - self._last_stall
        closed = elapsed <= floor if bug == "has a floor above 50 ms" else elapsed < floor
        if closed and bug == "has a floor for one sink only":
            self.publish_load_snapshot(force=True)
        if not closed or bug == "counts the floor from each pass":
            self._last_stall = now
        if not closed:
            self._publish(force=bug != "does not force stalls")

    def _publish(self, *, force: bool) -> None:
        bug = self.bug
        if bug == "lets a failed walk out" and force:
            loads = self.get_loads()
            if self.snapshot_sink is not None:
                self.snapshot_sink.write(loads)
            self.load_publisher.publish_load_stat(self.get_loads, force=force, snapshot=loads)
            return
        snapshot = self.publish_load_snapshot(force=force)
        if bug == "walks twice":
            snapshot = None
        elif bug == "publishes an old snapshot" and snapshot is not None:
            snapshot, self.old = self.__dict__.get("old", snapshot), snapshot
        has_own_hook = type(self).publish_load_snapshot is BuggyScheduler.publish_load_snapshot
        lacks = {
            "needs a sink": self.snapshot_sink is None,
            "needs the snapshot of its hook": snapshot is None and not has_own_hook,
            "needs a sink that works": self._sink_failing,
        }
        if lacks.get(bug):
            return
        self.load_publisher.publish_load_stat(self.get_loads, force=force, snapshot=snapshot)


class OldHook:
    """Overrides the publishing hook as it was before there was a load socket."""

    def publish_load_snapshot(self, force: bool = False) -> None:
        super().publish_load_snapshot(force)  # type: ignore[misc]


class ReferenceContract(SchedulerContract):
    open_socket = "pytest_loadwire.engine.publisher.open_pub_socket"
    clock: Any = ("pytest_loadwire.engine.publisher", "pytest_loadwire.engine.scheduler")
    snapshot = LoadSnapshot
    fields = {"num_tokens": "num_used_tokens"}
    kind: type[Scheduler] = Scheduler

    def make_scheduler(
        self,
        *,
        get_loads: Callable[[], Any],
        write_snapshot: Callable[[Any], None] | None,
        kv_events_config: str,
        load_publish_endpoint: str,
        publish_interval: int,
    ) -> Scheduler:
        return self.kind(
            get_loads=get_loads,
            load_publisher=LoadPublisher.from_config(
                kv_events_config=kv_events_config,
                load_publish_endpoint=load_publish_endpoint,
                publish_interval=publish_interval,
            ),
            snapshot_sink=None if write_snapshot is None else Sink(write_snapshot),
            publish_interval=publish_interval,
        )

    def make_scheduler_with_old_hook(self, **config: Any) -> Scheduler:
        self.kind = type("OldScheduler", (OldHook, self.kind), {})
        return self.make_scheduler(**config)


def with_bug(bug: str) -> type[ReferenceContract]:
    """The contract of the scheduler with one bug; the same class each time."""
    if bug not in KINDS:
        kind = type("Buggy", (BuggyScheduler,), {"bug": bug})
        clock = (*ReferenceContract.clock, __name__)
        KINDS[bug] = type("BuggyContract", (ReferenceContract,), {"kind": kind, "clock": clock})
    return KINDS[bug]


KINDS: dict[str, type[ReferenceContract]] = {}


@pytest.mark.parametrize("mode", ["stub", "live"])
@pytest.mark.parametrize("kind", [ReferenceContract, with_bug("")])
def test_a_right_loop_passes(
    kind: type[SchedulerContract], mode: str, failures_of: Callable[..., tuple[Failure, ...]]
) -> None:
    """The reference keeps every timeline, and so does its variant while it has no bug."""
    assert failures_of(kind, mode) == ()


@pytest.mark.parametrize(("bug", "rule"), BUGS, ids=[bug.replace(" ", "-") for bug, _ in BUGS])
def test_a_bug_is_caught_by_the_rule_it_breaks(
    bug: str, rule: str, failures_of: Callable[..., tuple[Failure, ...]]
) -> None:
    """Some failure names the rule, and each is one of a case that the class declares."""
    failures = failures_of(with_bug(bug))
    assert rule in {failure.rule for failure in failures}, "\n".join(f.text for f in failures)
    cases = {f"{rule}-{case}" for rule, case in ReferenceContract.contract_cases()}
    assert {failure.case for failure in failures} <= cases


def test_every_timeline_is_needed(failures_of: Callable[..., tuple[Failure, ...]]) -> None:
    """Each timeline catches a bug that few others do."""
    by_bug = [{failure.case for failure in failures_of(with_bug(bug))} for bug, _ in BUGS]
    caught = {case for cases in by_bug if len(cases) <= SPECIFIC for case in cases}
    cases = {f"{rule}-{case}" for rule, case in ReferenceContract.contract_cases()}
    assert cases - caught == set()


ADOPTION = """
from pytest_loadwire.contract.scheduler import SchedulerContract
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot, Scheduler

class Sink:
    def __init__(self, write):
        self.write = write

class TestScheduler(SchedulerContract):
    open_socket = "pytest_loadwire.engine.publisher.open_pub_socket"
    clock = ("pytest_loadwire.engine.publisher", "pytest_loadwire.engine.scheduler")
    snapshot = LoadSnapshot
    fields = {"num_tokens": "num_used_tokens"}

    def make_scheduler(self, *, get_loads, write_snapshot, publish_interval, **config):
        return Scheduler(
            get_loads=get_loads,
            load_publisher=LoadPublisher.from_config(publish_interval=publish_interval, **config),
            snapshot_sink=write_snapshot and Sink(write_snapshot),
            publish_interval=publish_interval,
        )
"""


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_adoption(mode: str, pytester: pytest.Pytester) -> None:
    """One factory adopts the class; the hook of old is one skipped test until there is one."""
    pytester.makepyfile(ADOPTION)
    result = pytester.runpytest("-rs", "-W", "error", f"--loadwire-socket={mode}")
    result.assert_outcomes(passed=20, skipped=1)
    result.stdout.fnmatch_lines(
        ["*a hook that returns nothing is not checked: override make_scheduler_with_old_hook"]
    )


def test_forgotten_hook(pytester: pytest.Pytester) -> None:
    """Without a scheduler, the failure says what to override."""
    pytester.makepyfile(ADOPTION.replace("def make_scheduler", "def _make_scheduler"))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["*TestScheduler has to override make_scheduler: build your scheduler around *"]
    )


# A hook whose default calls what a scheduler may lack, and what that is.
DEFAULTS = [
    ("run_batch", "process_batch_result", {"is_prefill": True, "process_results": print}),
    ("run_without_batch", "on_idle", {"is_fully_idle": True}),
    ("close", "load_publisher", {}),
]


@pytest.mark.parametrize(("hook", "method", "given"), DEFAULTS, ids=[case[0] for case in DEFAULTS])
def test_a_default_that_finds_no_method(hook: str, method: str, given: dict[str, Any]) -> None:
    """A scheduler without the method that a default calls is told the hook to override."""
    says = f"SchedulerContract has to override {hook}: object has no {method}$"
    with pytest.raises(pytest.fail.Exception, match=says):
        getattr(SchedulerContract(), hook)(object(), **given)


def test_a_failure_tells_the_story(failures_of: Callable[..., tuple[Failure, ...]]) -> None:
    """A timeline that is not kept is shown pass by pass, up to the one that went wrong."""
    failures = failures_of(with_bug("has a floor of 60 ms"))
    (text,) = (f.text for f in failures if f.case == "P6-stall-exactly-50-ms")
    assert text.splitlines() == [
        "P6 not-sent: idle publishes on every pass, a stall at most once in 50 ms",
        "  case      P6-stall-exactly-50-ms (exactly 50 ms later, the next pass publishes)",
        "  expected  message 1 at 0.05",
        "  got       none",
        "  hazard    stale: the worker keeps an old or partly wrong reading that looks fresh",
        "  the passes so far:",
        "         0 stall   reading-a -> sent 0, written, 1 walk(s)",
        "      0.05 stall   reading-b -> 0 walk(s)   <- here",
        '  to live with it, declare  Deviation("P6", "not-sent", "why", ["stall-exactly-50-ms"])',
    ]
