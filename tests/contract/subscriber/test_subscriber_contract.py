"""`SubscriberContract` on the reference subscriber, right and with one mistake at a time."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zmq
from wrong import tables

from pytest_loadwire.contract.base import Deviation
from pytest_loadwire.contract.subscriber import SubscriberContract
from pytest_loadwire.discovery import NoPlan, Plan, RankEndpoint, plan
from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.router_program import RouterProgram, RouterProgramError
from pytest_loadwire.router.subscriber import LoadSubscriber, _Source
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.vectors import load

PATIENCE = 2.0
SHORT_PATIENCE = 0.4
WINDOW = 0.5
REDISCOVERS = 0.05

_SAYS = re.compile(r"(?P<rule>[A-Z]\d+) (?P<deed>[a-z-]+): ")


class TestReferenceSubscriber(SubscriberContract):
    """The reference subscriber keeps the contract, on a virtual clock and on a real one."""

    virtual_time = True
    window = WINDOW
    rediscovers = REDISCOVERS
    patience = PATIENCE

    def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
        return reference(LoadSubscriber, window, clock)


class TestSubscriberOfRevision1(TestReferenceSubscriber):
    """A subscriber that reads revision 1 alone keeps it as well, and one that reports less."""

    revision = 1
    fields = ("num_running_reqs", "num_waiting_reqs")

    def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
        return reference(LoadSubscriber, window, clock, revision=1)


class TestSaturatingSubscriber(SubscriberContract):
    """Sums may stop at 2^64-1 where that is declared."""

    virtual_time = True
    sums = "saturate"
    window = WINDOW
    rediscovers = REDISCOVERS
    patience = PATIENCE

    def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
        def stop(load: dict[str, int]) -> dict[str, int]:
            return {name: min(value, 2**64 - 1) for name, value in load.items()}

        heartbeat = min(1.0, window / 2)
        table = tables.changed("Saturating", stop)(window=window, heartbeat=heartbeat, clock=clock)
        return LoadSubscriber(table=table, rediscover=REDISCOVERS)


class TestDeclaredDeviation(SubscriberContract):
    """A known deviation is declared, and its tests are expected to fail by it."""

    virtual_time = True
    window = WINDOW
    rediscovers = REDISCOVERS
    deviations = (
        Deviation("S3", "wrong-value", "we filter, for now", ["lower-sequence", "restart-with-*"]),
        Deviation("S3", "refused", "we filter, for now", ["lower-sequence-is-a-heartbeat"]),
        Deviation("C7", "wrong-value", "we filter, for now", ["restart-back-*", "restart-of-*"]),
        Deviation("C7", "refused", "we filter, for now", ["restart-after-silence"]),
    )
    patience = SHORT_PATIENCE

    def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
        heartbeat = min(1.0, window / 2)
        table = tables.SequenceFilter(window=window, heartbeat=heartbeat, clock=clock)
        return LoadSubscriber(table=table, rediscover=REDISCOVERS)


def reference(
    kind: type[LoadSubscriber], window: float, clock: Callable[[], float], **options: Any
) -> LoadSubscriber:
    heartbeat = min(1.0, window / 2)
    return kind(window=window, heartbeat=heartbeat, clock=clock, rediscover=REDISCOVERS, **options)


# Subscribers with a mistake.


def dial_kv_host(url: str, block: Any) -> Plan | NoPlan:
    """Pairs the load port with the host of the KV endpoint."""
    found = plan(url, block)
    return plan(f"http://{block['endpoint_host']}:1", block) if isinstance(found, Plan) else found


def derive_port(url: str, block: Any) -> Plan | NoPlan:
    """Packs the load range behind the KV range, as the engine's `auto` would."""
    if "load_endpoint_port_base" in block:
        base = block["endpoint_port_base"] + block["dp_size"]
        block = {**block, "load_endpoint_port_base": base}
    return plan(url, block)


def one_port_for_all(url: str, block: Any) -> Plan | NoPlan:
    """Opens a subscription per rank, all of them at the base."""
    found = plan(url, block)
    if isinstance(found, NoPlan):
        return found
    base = found.endpoints[0].endpoint
    endpoints = tuple(RankEndpoint(e.rank, base) for e in found.endpoints)
    return Plan(found.host, found.dp_size, endpoints, found.skipped)


class ForgetsEarly(LoadSubscriber):
    """Takes a reading for stale at a quarter of the window."""

    def __init__(self, *, window: float, heartbeat: float, **options: Any) -> None:
        super().__init__(window=window / 4, heartbeat=heartbeat / 4, **options)


class TearsDown(LoadSubscriber):
    """Closes the socket of a rank that sent nonsense."""

    def _read(self, source: _Source) -> None:
        refused = self._refused(source)
        super()._read(source)
        if self._refused(source) > refused:
            source.socket.disconnect(source.endpoint)

    def _refused(self, source: _Source) -> int:
        stats = self._table.stats(source.worker.url)
        if source.rank >= len(stats):
            return 0
        return sum(stats[source.rank].undecodable.values())


class TearsDownAndDialsAgain(TearsDown):
    """Dials again at once, and has lost what came meanwhile."""

    def _read(self, source: _Source) -> None:
        refused = self._refused(source)
        super()._read(source)
        if self._refused(source) > refused:
            source.socket.connect(source.endpoint)


class DiesOfNonsense(LoadSubscriber):
    """Lets an exception of the decoder end its thread."""

    def _read(self, source: _Source) -> None:
        super()._read(source)
        if any(stats.undecodable for stats in self._table.stats(source.worker.url)):
            self._closing = True


class NeverDialsAgain(LoadSubscriber):
    """Has reconnecting switched off, for fear of storms."""

    def _dial(self, endpoint: str) -> zmq.Socket[bytes]:
        sub = super()._dial(endpoint)
        sub.disconnect(endpoint)
        sub.setsockopt(zmq.RECONNECT_IVL, -1)
        sub.connect(endpoint)
        return sub


class Conflates(LoadSubscriber):
    """Sets CONFLATE, as only the newest reading matters."""

    def _dial(self, endpoint: str) -> zmq.Socket[bytes]:
        sub = super()._dial(endpoint)
        sub.disconnect(endpoint)
        sub.setsockopt(zmq.CONFLATE, 1)
        sub.connect(endpoint)
        return sub


class AsksFirst(LoadSubscriber):
    """Refuses a worker that does not answer at once."""

    def add_worker(self, url: str) -> None:
        self._fetch(url)
        super().add_worker(url)


class ShowsNoUnknown(LoadSubscriber):
    """Leaves out what it does not know, and fills in zeros."""

    def view(self) -> dict[str, Mapping[str, int] | None]:
        return {
            url: dict.fromkeys(tables.LOAD_FIELDS, 0) if load is None else load
            for url, load in super().view().items()
        }


class Flickers(LoadSubscriber):
    """Clears a worker before it fills in what is new, and may be looked at in between."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._shown: dict[str, Mapping[str, int] | None] = {}

    def view(self) -> dict[str, Mapping[str, int] | None]:
        shown, self._shown = self._shown, dict(super().view())
        zeros = dict.fromkeys(tables.LOAD_FIELDS, 0)
        return {url: load if load == shown.get(url) else zeros for url, load in self._shown.items()}


@dataclass(frozen=True)
class Wrong:
    """A subscriber with a mistake: a case that it fails, the rule that is named, and the deed."""

    name: str
    case: str
    rule: str
    deed: str
    kind: type[LoadSubscriber] = LoadSubscriber
    table: type[ReadingTable] | None = None
    planner: Callable[[str, object], Plan | NoPlan] = plan

    def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
        heartbeat = min(1.0, window / 2)
        table = self.table and self.table(window=window, heartbeat=heartbeat, clock=clock)
        return reference(self.kind, window, clock, table=table, planner=self.planner)


WRONG = [
    Wrong("flickers", "one-rank", "C1", "wrong-value", Flickers),
    Wrong("dials the KV host", "one-rank", "C1", "refused", planner=dial_kv_host),
    Wrong("derives the port", "one-rank", "C1", "refused", planner=derive_port),
    Wrong("one port for all ranks", "sum-of-three-ranks", "C1", "refused",
          planner=one_port_for_all),
    Wrong("conflates", "one-rank", "C1", "refused", Conflates),
    Wrong("tears down", "bad-payloads-in-between", "C5", "refused", TearsDown),
    # Whether it read anything before it fell is a matter of when the first bad message comes.
    Wrong("tears down, hostile", "hostile-engine", "C5", "refused or wrong-value", TearsDown),
    Wrong("tears down and dials again", "bad-frames-in-between", "C5", "refused",
          TearsDownAndDialsAgain),
    Wrong("dies of nonsense", "bad-frames-in-between", "C5", "refused", DiesOfNonsense),
    Wrong("never dials again", "restart-back-at-0", "C7", "refused", NeverDialsAgain),
    Wrong("asks first", "unreachable-worker", "C4", "crashed", AsksFirst),
    Wrong("shows no unknown", "never-published", "C4", "accepted", ShowsNoUnknown),
    Wrong("sequence filter", "restart-back-at-0", "C7", "wrong-value", table=tables.SequenceFilter),
    Wrong("lower sequence filter", "lower-sequence", "S3", "wrong-value",
          table=tables.LowerSequenceFilter),
    Wrong("missing rank as zero", "missing-rank", "C3", "accepted",
          table=tables.MissingRankAsZero),
    Wrong("stale kept", "stale-rank", "C3", "accepted", table=tables.StaleKept),
    Wrong("stale kept, real time", "silent-rank-in-real-time", "C3", "accepted",
          table=tables.StaleKept),
    Wrong("forgets early, real time", "silent-rank-in-real-time", "C3", "refused", ForgetsEarly),
    Wrong("bad message refreshes, real time", "silent-rank-in-real-time", "C3", "accepted",
          table=tables.BadMessageRefreshes),
    Wrong("window exclusive", "age-at-the-window", "C2", "refused",
          table=tables.WindowExclusive),
    Wrong("kept after removal", "removed-and-added-again", "C6", "accepted",
          table=tables.KeptAfterRemoval),
    Wrong("remembers the removed", "removed-and-added-again", "C6", "accepted",
          table=tables.RemembersTheRemoved),
    Wrong("topic by prefix", "topic-with-the-prefix", "F2", "accepted",
          table=tables.TopicByPrefix),
    Wrong("keyed by payload rank", "payload-swaps-the-ranks", "R3", "wrong-value",
          table=tables.KeyedByPayloadRank),
    Wrong("bad message clears", "bad-payloads-in-between", "C5", "refused",
          table=tables.BadMessageClears),
    Wrong("bad message is idle", "hostile-engine", "C5", "wrong-value",
          table=tables.BadMessageIsIdle),
    Wrong("fills in zeros", "upgrade-mid-stream", "W9", "wrong-value", table=tables.FillsInZeros),
    Wrong("wrapping sums", "sum-past-2-64", "C3", "wrong-value",
          table=tables.changed("Wraps", lambda load: {k: v % 2**64 for k, v in load.items()})),
    Wrong("advertised once", "dp-size-grows", "C3", "accepted", table=tables.AdvertisedOnce),
    Wrong("advertised anew", "advertised-again-unchanged", "C1", "refused",
          table=tables.AdvertisedAnew),
]  # fmt: skip


def contract_of(wrong: Wrong) -> SubscriberContract:
    class Case(SubscriberContract):
        virtual_time = True
        window = WINDOW
        rediscovers = REDISCOVERS
        patience = SHORT_PATIENCE

        def start(self, window: float, clock: Callable[[], float]) -> LoadSubscriber:
            return wrong.start(window, clock)

    return Case()


def run(contract: SubscriberContract, case: str) -> str:
    """What the contract says of a case; empty where it is kept."""
    timelines = {timeline.id: timeline for timeline in load().readings}
    try:
        if case in timelines:
            contract.test_follows_timeline(timelines[case])
        else:
            contract.test_lives_through_scene(case)
    except pytest.fail.Exception as failure:
        return str(failure.msg)
    return ""


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name.replace(" ", "-") for wrong in WRONG])
def test_a_wrong_subscriber_is_caught(wrong: Wrong) -> None:
    """Each mistake fails its case, by the rule that it breaks, with what was expected and got."""
    text = run(contract_of(wrong), wrong.case)
    says = _SAYS.match(text)
    assert says is not None, f"not caught: {text!r}"
    assert wrong.rule == says["rule"], text
    assert says["deed"] in wrong.deed.split(" or "), text
    assert f"-{wrong.case} (" in text
    assert "  expected  " in text
    assert "  got       " in text


def test_a_missing_start_is_named() -> None:
    """Without a subscriber the class says what to override."""
    with pytest.raises(pytest.fail.Exception, match=r"has to override start\(window, clock\)"):
        SubscriberContract().test_lives_through_scene("unreachable-worker")


def test_a_missing_start_is_one_failure(pytester: pytest.Pytester) -> None:
    """A class without a subscriber fails once, and so does one of an unknown revision."""
    pytester.makepyfile(
        "from pytest_loadwire import SubscriberContract\n"
        "class TestNothing(SubscriberContract): pass\n"
        "class TestLater(SubscriberContract):\n"
        "    command, revision = ['./monitor'], 3\n"
    )
    result = pytester.runpytest_inprocess("-rs")
    result.assert_outcomes(failed=2, skipped=4)
    result.stdout.fnmatch_lines(
        [
            "TestNothing has to override start(window, clock): there is no subscriber; or set *",
            "TestLater: revision = 3 is none of [[]1, 2[]]",
            "*nothing is judged: see test_declarations",
        ]
    )


def test_what_needs_more_is_skipped_with_the_reason() -> None:
    """A class without clock and without rediscovery skips those timelines, and says why."""
    contract = SubscriberContract()
    reasons = {timeline.id: contract._needs(timeline) for timeline in load().readings}
    assert "virtual_time" in reasons["age-at-the-window"]
    assert "rediscovers" in reasons["dp-size-grows"]
    assert reasons["restart-back-at-0"] == ""
    assert sum(1 for why in reasons.values() if not why) >= 25


# The same, as a program.

PROGRAM = textwrap.dedent(
    """
    import json
    import sys

    from pytest_loadwire.router.subscriber import LoadSubscriber

    with LoadSubscriber(rediscover=0.05) as subscriber:
        for line in sys.stdin:
            request = json.loads(line)
            answer = {"id": request["id"]}
            if "add" in request:
                subscriber.add_worker(request["add"])
            elif "remove" in request:
                subscriber.remove_worker(request["remove"])
            else:
                answer["view"] = {
                    url: load and {name: str(value) for name, value in load.items()}
                    for url, load in subscriber.view().items()
                }
            print(json.dumps(answer), flush=True)
    """
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "monitor.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    "case", ["one-rank", "sum-past-2-64", "restart-of-one-of-two", "dp-size-grows"]
)
def test_a_program_that_keeps_the_contract(program: Path, case: str) -> None:
    """A subscriber may be a program that reads requests and prints its view as JSON lines."""

    class Case(SubscriberContract):
        command = (sys.executable, str(program))
        rediscovers = REDISCOVERS

    assert run(Case(), case) == ""


@pytest.fixture
def make_program(tmp_path: Path) -> Iterator[Callable[[str], RouterProgram]]:
    made = []

    def make(code: str) -> RouterProgram:
        path = tmp_path / "program.py"
        path.write_text(code)
        made.append(RouterProgram([sys.executable, str(path)], timeout=1, start_timeout=2))
        return made[-1]

    yield make
    for one in made:
        one.close()


ANSWER = "import sys, json\nfor line in sys.stdin:\n    print({!r}, flush=True)\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise SystemExit('no config')", "exit status 1.*no config"),
        (ANSWER.format("hello"), "b'hello' is no JSON"),
        (ANSWER.format("[]"), "does not answer"),
        (ANSWER.format('{"id": 7}'), "does not answer"),
        (ANSWER.format('{"id": 1}'), "a view is an object"),
        (ANSWER.format('{"id": 1, "view": {"u": 7}}'), "the load of u is 7"),
        (ANSWER.format('{"id": 1, "view": {"u": {"num_tokens": 0.5}}}'), "no whole number"),
        (ANSWER.format('{"id": 1, "view": {"u": {"num_tokens": "-1"}}}'), "no whole number"),
        ("import sys\nsys.stdin.readline()\nprint('{', end='', flush=True)\nsys.stdin.read()",
         "without its end"),
    ],
)  # fmt: skip
def test_a_program_that_breaks_the_protocol(
    make_program: Callable[[str], RouterProgram], code: str, says: str
) -> None:
    """Whatever else a program does is said in its own words, and is no view."""
    with pytest.raises(RouterProgramError, match=f"(?s){says}"):
        make_program(code).view()


def test_a_program_that_hangs(make_program: Callable[[str], RouterProgram]) -> None:
    """A program that stops answering costs its time-out, once."""
    code = ANSWER.format(json.dumps({"id": 1, "view": {}})) + "    sys.stdin.read()\n"
    program = make_program(code)
    assert program.view() == {}
    began = time.monotonic()
    with pytest.raises(RouterProgramError, match="no answer"):
        program.view()
    assert time.monotonic() - began < 60


def test_wire_errors_carry_no_traceback() -> None:
    """The table keeps the newest error of a rank, and not the frames of the call that met it."""
    table = ReadingTable()
    table.advertise("w", [1])
    error = table.receive("w", 0, [b"load", bytes(8), b"\xc0"])
    assert isinstance(error, WireError)
    assert error.__traceback__ is None
