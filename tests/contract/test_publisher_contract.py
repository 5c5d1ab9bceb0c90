"""`PublisherContract` on a small engine of its own, right and with one bug at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zmq

from pytest_loadwire.contract import live
from pytest_loadwire.contract.base import Deviation
from pytest_loadwire.contract.publisher import PublisherContract
from pytest_loadwire.contract.publisher_cases import (
    BINDS,
    CLOSINGS,
    FAILED_BINDS,
    RANK_PLANS,
    STARTS,
)
from pytest_loadwire.discovery import KVEventsConfig, KVEventsConfigError
from pytest_loadwire.endpoints import (
    Decline,
    Topology,
    is_load_publish_asked,
    is_zmq_endpoint_ipv6,
    parse_tcp_port,
)
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import publisher_timelines
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, encode, field_names

if TYPE_CHECKING:
    from tests.contract.conftest import Failure

logger = logging.getLogger(__name__)

RESTARTS = count()

COUNTS = [name for name in field_names() if name != "attn_dp_rank"]

# A bug, and the rule under which it has to be reported.
BUGS = [
    ("binds one port for all replicas", "R2"),
    ("binds on every TP rank", "R1"),
    ("binds on every PP rank", "R1"),
    ("binds on every CP rank", "R1"),
    ("counts attention ranks by dp_rank", "R2"),
    ("binds without KV events", "R1"),
    ("dies of an unparseable configuration", "R1"),
    ("publishes beside a null publisher", "R1"),
    ("publishes when off", "E1"),
    ("packs over the replay range", "E2"),
    ("overlaps the KV range", "E3"),
    ("takes a concrete IPv6 host for a wildcard", "E4"),
    ("binds past 65535", "E6"),
    ("declines without a word", "E5"),
    ("says rank 0 on each rank", "R3"),
    ("says the snapshot's rank", "R3"),
    ("sends from an XPUB", "K1"),
    ("leaves the high-water mark", "K1"),
    ("has no high-water mark", "K1"),
    ("lingers", "K1"),
    ("sets its options behind the bind", "K1"),
    ("never sets IPV6", "K1"),
    ("always sets IPV6", "K1"),
    ("conflates", "K2"),
    ("leaks the socket of a failed bind", "K3"),
    ("dies of a failed bind", "K3"),
    ("hides a failed bind", "K3"),
    ("catches only what zmq raises", "K3"),
    ("closes its socket twice", "K4"),
    ("leaves its socket open", "K4"),
    ("asks when closed", "K4"),
    ("asks when disabled", "P3"),
    ("asks in spite of a reading", "P3"),
    ("asks again for a bad reading", "P3"),
    ("takes zeros for no reading", "P3"),
    ("sends all that is handed in", "P3"),
    ("remembers what was handed in apart", "P3"),
    ("counts calls until a send", "P1"),
    ("counts on when the provider fails", "P1"),
    ("counts on when a send fails", "P1"),
    ("counts on when forced", "P1"),
    ("opens the throttle with time", "P1"),
    ("divides by its interval", "P1"),
    ("knows no interval", "P1"),
    ("asks before the throttle", "P1"),
    ("has a floor of 50 ms", "P2"),
    ("beats every 1.5 s", "P2"),
    ("beats every 0.9 s", "P2"),
    ("beats after more than a second", "P2"),
    ("beats at full seconds", "P2"),
    ("beats when it was quiet", "P2"),
    ("beats from the first send on", "P2"),
    ("beats only when forced", "P2"),
    ("never repeats", "P2"),
    ("remembers all it ever sent", "P2"),
    ("takes zeros for nothing new", "P2"),
    ("takes a young clock for a fresh send", "P2"),
    ("compares the rank", "P2"),
    *[(f"does not compare {name}", "P2") for name in COUNTS],
    ("takes reserved tokens for used ones", "P2"),
    ("warns of each failure", "P4"),
    ("warns of each kind of failure", "P4"),
    ("warns every minute", "P4"),
    ("never warns", "P4"),
    ("forgets a failure at a repeat", "P4"),
    ("remembers what it could not send", "P4"),
    ("lets a failure out", "P4"),
    ("numbers from 1", "S1"),
    ("numbers sent messages only", "S1"),
    ("numbers nothing before a first success", "S1"),
    ("numbers repeats", "S1"),
    ("numbers failed readings", "S1"),
    ("numbers little-endian", "F3"),
    ("sends negative counts", "W5"),
    ("sends nil for a count", "W5"),
    ("clips a count", "W5"),
    ("drops its rank", "W4"),
    ("sends the older revision", "W4"),
    ("spells its tag long", "W6"),
    ("sends no topic", "F1"),
    ("sends its topic with a rank", "F2"),
    ("sends a sequence of 4 bytes", "F3"),
]

# A bug that fails more cases than this says nothing about any one of them.
SPECIFIC = 20

# A case that only such bugs fail, and what it is kept for.
KEPT = {
    "R2-rank-unset": "SGLang's own tests assert it, and it is how most engines start",
    "R2-ranks-of-pure-dp-1": "the smallest engine with a dp_rank, which SGLang's own tests assert",
}

# On a real socket: a bug, and the case that shows it.
LIVE_BUGS = [
    ("never sets IPV6", "K1-live-ipv6", "K1 not-sent"),
    ("leaks the socket of a failed bind", "K3-live-occupied-port", "K3 left-open"),
    ("dies of a failed bind", "K3-live-occupied-port", "K3 crashed"),
    ("hides a failed bind", "K3-live-occupied-port", "K3 not-warned"),
    ("asks when disabled", "K3-live-occupied-port", "P3 asked"),
    ("never repeats", "P2-live-late-subscriber", "P2 not-sent"),
    ("has no high-water mark", "S2-live-stalled-subscriber", "K1 wrong-socket"),
    ("numbers on after a restart", "S1-live-restart-on-the-same-port", "S1 wrong-sequence"),
]


@dataclass
class Snapshot(LoadSnapshot):
    """A snapshot that says its own rank, as SGLang's does."""

    dp_rank: int = 0


def open_socket(endpoint: str, bug: str = "") -> zmq.Socket[bytes]:
    """The seam."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    socket = context.socket(zmq.XPUB if bug == "sends from an XPUB" else zmq.PUB)

    def set_options() -> None:
        if bug == "has no high-water mark":
            socket.set_hwm(0)
        elif bug != "leaves the high-water mark":
            socket.set_hwm(8)
        if bug != "lingers":
            socket.setsockopt(zmq.LINGER, 0)
        if (
            is_zmq_endpoint_ipv6(endpoint) and bug != "never sets IPV6"
        ) or bug == "always sets IPV6":
            socket.setsockopt(zmq.IPV6, 1)
        if bug == "conflates":
            socket.setsockopt(zmq.CONFLATE, 1)

    try:
        if bug == "connects":
            socket.connect("tcp://127.0.0.1:9")
        elif bug == "sets its options behind the bind":
            socket.bind(endpoint)
            set_options()
        else:
            set_options()
            socket.bind(endpoint)
    except BaseException:
        if bug != "leaks the socket of a failed bind":
            socket.close()
        raise
    return socket


class ToyPublisher:
    """An engine's publisher, written for this test; right unless it has a bug."""

    def __init__(
        self,
        bug: str,
        *,
        kv_events_config: str | None,
        load_publish_endpoint: str | None,
        publish_interval: int,
        topology: Topology,
    ) -> None:
        self.bug = bug
        self.interval = max(1, publish_interval)
        if bug == "divides by its interval":
            self.interval = publish_interval
        elif bug == "knows no interval":
            self.interval = 5
        self.calls = 0
        self.sequence = 1 if bug == "numbers from 1" else 0
        if bug == "numbers on after a restart":
            self.sequence = next(RESTARTS) * 1_000_000
        self.last: Any = None
        self.seen: set[Any] = set()
        self.last_time = self.last_call = 0.0
        self.failing: Any = None
        self.failed_at = 0.0
        self.socket: zmq.Socket[bytes] | None = None
        self.rank = topology.slot
        if bug == "binds one port for all replicas":
            self.rank = topology.attn_dp_rank
        elif bug == "counts attention ranks by dp_rank":
            self.rank = topology.dp_rank or 0
        if bug == "takes zeros for nothing new":
            self.last, self.last_time = (0,) * 9, time.monotonic()
        self.socket = self.open(kv_events_config, load_publish_endpoint, topology)

    def open(
        self, config_text: str | None, endpoint: str | None, topology: Topology
    ) -> zmq.Socket[bytes] | None:
        bug = self.bug
        if bug == "binds without KV events":
            config_text = config_text or '{"publisher":"zmq"}'
        gate = {"binds on every TP rank": 0, "binds on every PP rank": 1}
        ranks = [topology.attn_tp_rank, topology.pp_rank, topology.attn_cp_rank]
        ranks[gate.get(bug, 2)] *= bug not in (*gate, "binds on every CP rank")
        if not config_text or any(ranks):
            return None
        try:
            config = KVEventsConfig.from_cli(config_text)
        except KVEventsConfigError:
            if bug == "dies of an unparseable configuration":
                raise
            return None
        if not config.is_active and bug != "publishes beside a null publisher":
            return None
        if bug == "publishes when off" and not is_load_publish_asked(endpoint):
            endpoint = "auto"
        outcome = config.load_range(dp_size=topology.dp_size, load_publish_endpoint=endpoint)
        kv = parse_tcp_port(config.endpoint) or 0
        target = None
        if isinstance(outcome, Decline):
            if is_load_publish_asked(endpoint):
                port = parse_tcp_port(endpoint) or kv + topology.dp_size
                reason = outcome.reason.value
                if bug == "overlaps the KV range" and reason == "overlaps-kv":
                    target = f"tcp://*:{port + self.rank}"
                elif bug == "binds past 65535" and reason == "past-port-65535":
                    target = "tcp://*:65535"
                elif bug == "takes a concrete IPv6 host for a wildcard" and "::" in str(endpoint):
                    target = endpoint
            if target is None:
                if not outcome.is_quiet and bug != "declines without a word":
                    logger.warning("no load publishing: %s", outcome.text)
                return None
        else:
            target = f"{outcome.endpoint(0).rpartition(':')[0]}:{outcome.base + self.rank}"
            if bug == "packs over the replay range" and config.replay_endpoint:
                target = f"tcp://*:{kv + topology.dp_size + self.rank}"
        try:
            return open_socket(target, bug)
        except zmq.ZMQError:
            if bug == "dies of a failed bind":
                raise
        except Exception:
            if bug in ("dies of a failed bind", "catches only what zmq raises"):
                raise
        if bug != "hides a failed bind":
            logger.warning("no load publishing: cannot bind %s", target)
        return None

    def publish_load_stat(
        self, provider: Callable[[], Any], force: bool = False, snapshot: Any = None
    ) -> None:
        bug = self.bug
        if self.socket is None:
            if bug == "asks when disabled":
                provider()
            return
        if self.socket.closed:
            if bug == "asks when closed":
                provider()
            return
        early = None
        if bug == "asks before the throttle":
            try:
                early = provider()
            except Exception as error:
                early = error
        now = time.monotonic()
        self.calls += 1
        late = bug == "opens the throttle with time" and now - self.last_call >= 5.0
        due = force or late or self.calls >= self.interval
        if bug == "divides by its interval" and not force:
            due = self.calls % self.interval == 0
        if not due:
            return
        before = self.calls
        self.last_call = now
        if bug not in ("counts calls until a send", "counts on when forced") or (
            bug == "counts on when forced" and not force
        ):
            self.calls = 0
        try:
            handed_in = snapshot is not None
            if bug == "takes zeros for no reading" and handed_in and not snapshot.num_used_tokens:
                handed_in = False
            if isinstance(early, Exception) and not handed_in:
                raise early
            if bug == "asks in spite of a reading" and handed_in:
                provider()
            try:
                reading = snapshot if handed_in else early or provider()
                if bug == "asks again for a bad reading" and reading.max_total_num_tokens >= 2**64:
                    reading = provider()
            except Exception:
                if bug == "counts on when the provider fails":
                    self.calls = before
                if bug == "numbers failed readings":
                    self.sequence += 1
                raise
            self.publish(reading, now, force=force, handed_in=handed_in)
        except Exception as error:
            self.fail(error, now)

    def publish(self, reading: Any, now: float, *, force: bool, handed_in: bool) -> None:
        bug = self.bug
        names = {"num_tokens": "num_used_tokens"}
        values = {name: getattr(reading, names.get(name, name)) for name in COUNTS}
        if bug == "takes reserved tokens for used ones":
            values["num_tokens"] = values["num_total_tokens"]
        compared: Any = {n: v for n, v in values.items() if bug != f"does not compare {n}"}
        compared = tuple(compared.values())
        if bug == "compares the rank":
            compared = (*compared, reading.dp_rank)
        if bug == "remembers what was handed in apart":
            compared = (*compared, handed_in)
        if self.unchanged(compared, now, force=force, handed_in=handed_in):
            return
        if bug == "remembers what it could not send":
            self.last, self.last_time = compared, now
        self.send(self.payload(values, reading), before=self.calls)
        if self.last is None or bug != "beats from the first send on":
            self.last_time = now
        if bug == "beats at full seconds":
            self.last_time = float(int(now))
        self.last = compared
        self.seen.add(compared)
        self.calls = 0 if bug == "counts calls until a send" else self.calls
        self.failing = None

    def unchanged(self, compared: Any, now: float, *, force: bool, handed_in: bool) -> bool:
        """Whether a reading stays at home."""
        bug = self.bug
        if bug == "has a floor of 50 ms" and self.last and now - self.last_time < 0.05:
            return True
        if bug == "sends all that is handed in" and handed_in:
            return False
        same = compared == self.last
        if bug == "remembers all it ever sent":
            same = compared in self.seen
        if bug == "takes a young clock for a fresh send":
            same = same or self.last is None
        if not same:
            return False
        period = {"beats every 1.5 s": 1.5, "beats every 0.9 s": 0.9}.get(bug, 1.0)
        elapsed = now - self.last_time
        waits = elapsed <= period if bug == "beats after more than a second" else elapsed < period
        if bug == "never repeats" or (bug == "beats only when forced" and not force):
            waits = True
        if waits:
            if bug == "beats when it was quiet":
                self.last_time = now
            if bug == "numbers repeats":
                self.sequence += 1
            if bug == "forgets a failure at a repeat":
                self.failing = None
        return waits

    def payload(self, values: dict[str, Any], reading: Any) -> bytes:
        bug = self.bug
        rank = {"says rank 0 on each rank": 0, "says the snapshot's rank": reading.dp_rank}.get(
            bug, self.rank
        )
        if bug == "sends the older revision":
            older = field_names(1)
            return encode(
                LoadStatRev1(attn_dp_rank=rank, **{n: v for n, v in values.items() if n in older})
            )
        if bug == "clips a count":
            values = {n: v if v is None else min(v, 2**64 - 1) for n, v in values.items()}
        if bug == "drops its rank":
            return msgspec.msgpack.encode(["LoadStat", *list(values.values())[:4]])
        stat = LoadStatRev2(attn_dp_rank=rank, **values)
        if bug == "sends negative counts" and -1 in values.values():
            return msgspec.msgpack.encode(stat)
        if bug == "sends nil for a count" and None in values.values():
            return msgspec.msgpack.encode(stat)
        payload = encode(stat)
        return payload.replace(b"\xa8", b"\xd9\x08", 1) if bug == "spells its tag long" else payload

    def send(self, payload: bytes, *, before: int) -> None:
        bug = self.bug
        assert self.socket is not None
        number = self.sequence
        unsent = bug == "numbers sent messages only" or (
            bug == "numbers nothing before a first success" and self.last is None
        )
        if not unsent:
            self.sequence += 1
        frames = [b"load", number.to_bytes(8, "big"), payload]
        if bug == "numbers little-endian":
            frames[1] = number.to_bytes(8, "little")
        elif bug == "sends no topic":
            del frames[0]
        elif bug == "sends its topic with a rank":
            frames[0] = b"load0"
        elif bug == "sends a sequence of 4 bytes":
            frames[1] = number.to_bytes(4, "big")
        try:
            self.socket.send_multipart(frames)
        except Exception:
            if bug == "counts on when a send fails":
                self.calls = self.interval
            raise
        if unsent:
            self.sequence += 1

    def fail(self, error: Exception, now: float) -> None:
        bug = self.bug
        if bug == "lets a failure out":
            raise error
        kind = type(error) if bug == "warns of each kind of failure" else True
        again = bug == "warns every minute" and now - self.failed_at >= 60.0
        if self.failing != kind or again or bug == "warns of each failure":
            self.failed_at = now
            if bug != "never warns":
                logger.warning("load publishing failed", exc_info=error)
        self.failing = kind

    def close(self) -> None:
        if self.socket is None or self.bug == "leaves its socket open":
            return
        if self.socket.closed and self.bug == "closes its socket twice":
            raise RuntimeError("closed already")
        self.socket.close()


class ToyContract(PublisherContract):
    open_socket = f"{__name__}.open_socket"
    clock = __name__
    snapshot = Snapshot
    fields = {"num_tokens": "num_used_tokens", "attn_dp_rank": "dp_rank"}
    logger = __name__
    bug = ""

    def make_publisher(self, **config: Any) -> ToyPublisher:
        return ToyPublisher(self.bug, **config)


def with_bug(bug: str) -> type[ToyContract]:
    """The contract of the toy engine with one bug; the same class each time."""
    return KINDS.setdefault(bug, type("BuggyContract", (ToyContract,), {"bug": bug}))


KINDS: dict[str, type[ToyContract]] = {}


class ReferenceContract(PublisherContract):
    open_socket = "pytest_loadwire.engine.publisher.open_pub_socket"
    clock = "pytest_loadwire.engine.publisher"
    snapshot = Snapshot
    fields = ToyContract.fields
    logger = "pytest_loadwire.engine.publisher"

    def make_publisher(self, **config: Any) -> LoadPublisher:
        return LoadPublisher.from_config(**config)


class ReferenceRev1Contract(ReferenceContract):
    revision = 1

    def make_publisher(self, **config: Any) -> LoadPublisher:
        return LoadPublisher.from_config(revision=1, **config)


@pytest.mark.parametrize("mode", ["stub", "live"])
@pytest.mark.parametrize("kind", [ReferenceContract, ReferenceRev1Contract, ToyContract])
def test_a_right_engine_passes(
    kind: type[PublisherContract], mode: str, failures_of: Callable[..., tuple[Failure, ...]]
) -> None:
    """The reference in both revisions, and an engine that shares nothing with it, keep it all."""
    assert failures_of(kind, mode) == ()


@pytest.mark.parametrize(("bug", "rule"), BUGS, ids=[bug.replace(" ", "-") for bug, _ in BUGS])
def test_a_bug_is_caught_by_the_rule_it_breaks(
    bug: str, rule: str, failures_of: Callable[..., tuple[Failure, ...]]
) -> None:
    """Some failure names the rule, and each is one of a case that the class declares."""
    failures = failures_of(with_bug(bug))
    assert rule in {failure.rule for failure in failures}, "\n".join(f.text for f in failures)
    cases = {f"{rule}-{case}" for rule, case in ToyContract.contract_cases()}
    assert {failure.case for failure in failures} <= cases


def test_every_case_is_needed(failures_of: Callable[..., tuple[Failure, ...]]) -> None:
    """Each case that runs on a stub catches a bug that few others do, or says why it is kept."""
    by_bug = [{failure.case for failure in failures_of(with_bug(bug))} for bug, _ in BUGS]
    caught = {case for cases in by_bug if len(cases) <= SPECIFIC for case in cases}
    cases = {f"{rule}-{case}" for rule, case in ToyContract.contract_cases() if "live" not in case}
    assert cases - caught == set(KEPT)


@pytest.mark.parametrize(
    ("bug", "case", "says"), LIVE_BUGS, ids=[bug.replace(" ", "-") for bug, *_ in LIVE_BUGS]
)
def test_a_real_socket_shows_what_a_stub_cannot(
    bug: str,
    case: str,
    says: str,
    loadwire_capture: Any,
    loadwire_clock: Any,
    make_loadwire_publisher: Any,
    make_loadwire_subscriber: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each case that needs a real socket fails for the engine that it is there for."""
    monkeypatch.setattr(live, "DEFAULT_TIMEOUT", 0.5)
    monkeypatch.setattr(live, "_BURSTS", (2_000,))
    (live_case,) = (c for c in live.CASES if f"{c.rule}-{c.case}" == case)
    if "ipv6" in case and not live.has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with pytest.raises(pytest.fail.Exception, match=rf"^{says}: ") as failure:
        with_bug(bug)().test_on_a_real_socket(
            live_case,
            lambda path, **kwargs: loadwire_capture(path, **{**kwargs, "mode": "live"}),
            make_loadwire_publisher,
            make_loadwire_subscriber,
            loadwire_clock,
        )
    assert f"  case      {case} ({live_case.why})\n" in str(failure.value)


ADOPTION = """
from pytest_loadwire.contract.publisher import PublisherContract
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot

class TestPublisher(PublisherContract):
    open_socket = "pytest_loadwire.engine.publisher.open_pub_socket"
    clock = "pytest_loadwire.engine.publisher"
    snapshot = LoadSnapshot
    fields = {"num_tokens": "num_used_tokens"}

    def make_publisher(self, **config):
        return LoadPublisher.from_config(**config)
"""

# One for each case, and one for the declarations.
TESTS = len(list(PublisherContract.contract_cases())) + 1


def test_adoption(pytester: pytest.Pytester) -> None:
    """Two steps adopt the class; what is not checked is one skipped test each, with its reason."""
    pytester.makepyfile(ADOPTION)
    result = pytester.runpytest("-rs", "-W", "error")
    result.assert_outcomes(passed=TESTS - 1 - len(live.CASES), skipped=1 + len(live.CASES))
    reasons = result.stdout.str()
    assert "a snapshot's own rank is not checked: name it as 'attn_dp_rank' in fields" in reasons
    for case in live.CASES:
        assert f"{case.rule}-{case.case} needs --loadwire-socket=live" in reasons


def test_adoption_live(pytester: pytest.Pytester) -> None:
    """With real sockets, nothing but what the engine does not have is skipped."""
    pytester.makepyfile(ADOPTION)
    result = pytester.runpytest("-rs", "-W", "error", "--loadwire-socket=live")
    without_ipv6 = 0 if live.has_ipv6() else 3
    result.assert_outcomes(passed=TESTS - 1 - without_ipv6, skipped=1 + without_ipv6)


def test_unjudged_warnings(pytester: pytest.Pytester) -> None:
    """An engine that warns elsewhere than in `logging` says so, and one skipped test tells."""
    pytester.makepyfile(ADOPTION.replace("    clock", "    logger = None\n    clock"))
    result = pytester.runpytest("-rs")
    result.assert_outcomes(passed=TESTS - 1 - len(live.CASES), skipped=2 + len(live.CASES))
    result.stdout.fnmatch_lines(["*warnings are not checked: name the logger of your engine"])


# A line of ADOPTION that is forgotten, and what the failures say.
FORGOTTEN = [
    ("    open_socket", "TestPublisher has to override open_socket: name the function that opens"),
    ("    clock", "TestPublisher has to override clock: name the module in which"),
    ("    snapshot", "TestPublisher has to override snapshot: name the class of your"),
    ("    def make_publisher", "TestPublisher has to override make_publisher: start your engine's"),
]


@pytest.mark.parametrize(("line", "says"), FORGOTTEN, ids=[line.strip() for line, _ in FORGOTTEN])
def test_forgotten_hook(line: str, says: str, pytester: pytest.Pytester) -> None:
    """A hook that is not overridden is named once, with what it is to be."""
    lines = ADOPTION.replace("\n        return", " return").splitlines()
    pytester.makepyfile("\n".join(kept for kept in lines if not kept.startswith(line)))
    result = pytester.runpytest("-rs")
    result.assert_outcomes(failed=1, skipped=7)
    assert 1 == result.stdout.str().count(f"\n{says}")
    result.stdout.fnmatch_lines(["*[[]7[]]*nothing is judged: see test_declarations"])


def test_everything_forgotten_is_one_failure(pytester: pytest.Pytester) -> None:
    """A class that overrides nothing fails once, with a line for each hook that it lacks."""
    pytester.makepyfile(
        "from pytest_loadwire.contract.publisher import PublisherContract\n"
        "class TestPublisher(PublisherContract): pass"
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, skipped=7)
    result.stdout.fnmatch_lines([f"{says}*" for _, says in FORGOTTEN], consecutive=True)


# A line of ADOPTION, what stands there instead, and what the one failure says.
MISDECLARED = [
    (
        '    fields = {"num_tokens": "num_used_tokens"}\n',
        "",
        "LoadSnapshot takes no 'num_tokens': say in `fields` what it is called",
    ),
    (
        '"num_used_tokens"}',
        '"used"}',
        "LoadSnapshot takes no 'used': say in `fields` what num_tokens is called",
    ),
    (
        "= LoadSnapshot\n",
        "= type('Reading', (), {'__init__': lambda self, role, **counts: None})\n",
        (
            "TestPublisher has to override make_snapshot: Reading is not built by the counts alone:"
            " TestPublisher.<lambda>() missing 1 required positional argument: 'role'"
        ),
    ),
    (
        "    snapshot",
        "    revision = 3\n    snapshot",
        "TestPublisher: revision = 3 is none of [1, 2]",
    ),
]


@pytest.mark.parametrize(("line", "instead", "says"), MISDECLARED)
def test_misdeclared(line: str, instead: str, says: str, pytester: pytest.Pytester) -> None:
    """A snapshot that refuses its keywords, or an unknown revision, is one failure."""
    pytester.makepyfile(ADOPTION.replace(line, instead))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, skipped=7)
    assert says in result.outlines


def test_a_key_of_fields_is_a_field_of_the_contract() -> None:
    """A name that the contract does not know fails with those that it knows."""
    fields = {**ToyContract.fields, "num_used_tokens": "num_tokens"}
    kind = type("Swapped", (ToyContract,), {"fields": fields})
    says = "^fields: 'num_used_tokens' is no field of the contract; those are num_running_reqs, "
    with pytest.raises(pytest.fail.Exception, match=says):
        kind().test_declarations()


@pytest.mark.parametrize(("hook", "method"), [("publish", "publish_load_stat"), ("close", "close")])
def test_a_default_that_finds_no_method(hook: str, method: str) -> None:
    """A publisher without the method that a default calls is told the hook to override."""
    given: dict[str, Any] = {"provider": Snapshot, "force": True, "snapshot": None}
    says = f"ToyContract has to override {hook}: object has no {method}$"
    with pytest.raises(pytest.fail.Exception, match=says):
        getattr(ToyContract(), hook)(object(), **(given if hook == "publish" else {}))


def test_every_case_says_why() -> None:
    """Each case beyond the timelines is shown with what it is for."""
    cases = [
        case for table in (BINDS, FAILED_BINDS, STARTS, RANK_PLANS, CLOSINGS) for case in table
    ]
    assert [] == [case for case in cases if not case.why]


def test_a_missing_warning_says_who_owes_it(
    failures_of: Callable[..., tuple[Failure, ...]],
) -> None:
    """The resolver never logs, so the failure says that whoever binds does."""
    failures = failures_of(with_bug("declines without a word"))
    (text,) = (f.text for f in failures if f.case == "E6-declined-past-65535")
    assert text.splitlines()[:4] == [
        "E5 not-warned: every decline but off has a reason; the resolver never logs",
        "  case      E6-declined-past-65535 (there is no port behind the last one)",
        (
            "  expected  1 warning(s): whoever binds warns once when its range is declined,"
            " since the resolver does not log"
        ),
        "  got       none",
    ]


def test_a_socket_too_many_moves_no_traffic(
    failures_of: Callable[..., tuple[Failure, ...]],
) -> None:
    """A scheduler that should not publish and does is no stale reading."""
    failures = failures_of(with_bug("binds on every PP rank"))
    (text,) = (f.text for f in failures if f.case == "R1-closed-on-pp-rank-1")
    assert "  hazard    none: " in text
    assert (
        "(only pp, attention-TP and attention-CP rank 0 of a KV cache publishes its load)" in text
    )


def test_a_message_that_is_missing_is_shown_with_the_warning(loadwire_capture: Any) -> None:
    """Where an engine warned in place of sending, its own words are in the story."""

    class Nameless(ToyContract):
        def make_snapshot(self, counts: Any) -> Any:
            del counts
            return object()

    (timeline,) = (
        t for t in publisher_timelines(load().cadence) if t.id == "repeat-just-below-a-second"
    )
    finding, notes = Nameless().judge_timeline(timeline, Nameless()._captured(loadwire_capture))
    assert finding is not None
    assert finding.deed == "not-sent"
    assert "warned: " in notes[-1]
    assert "(AttributeError: 'object' object has no attribute" in notes[-1]


def test_a_failure_tells_the_story(failures_of: Callable[..., tuple[Failure, ...]]) -> None:
    """A timeline that is not kept is shown call by call, up to the one that went wrong."""
    failures = failures_of(with_bug("beats every 0.9 s"))
    (text,) = (f.text for f in failures if f.case == "P2-repeat-just-below-a-second")
    lines = text.splitlines()
    assert lines[0].startswith("P2 sent: a changed reading goes out at once, an unchanged one at m")
    assert lines[1].startswith(
        "  case      P2-repeat-just-below-a-second (a microsecond before the"
    )
    assert lines[2] == "  expected  no message at 100.99999904632568359375"
    assert lines[3].startswith("  got       6c6f6164 0000000000000001 9ba84c6f61645374617407")
    assert lines[4:] == [
        "  hazard    none: no wrong traffic, but the contract is broken",
        "  the calls so far:",
        "       100 forced   reading-a -> sent 0, asked",
        "  100.99999904632568359375 forced   reading-a -> sent 1, asked   <- here",
        (
            '  to live with it, declare  Deviation("P2", "sent", "why",'
            ' ["repeat-just-below-a-second"])'
        ),
    ]


def test_options_are_told_in_their_order(failures_of: Callable[..., tuple[Failure, ...]]) -> None:
    """What a socket was told is shown in the engine's order, beside the order it owes."""
    failures = failures_of(with_bug("sets its options behind the bind"))
    (text,) = (f.text for f in failures if f.case == "K1-bind-auto")
    assert text.splitlines()[2:4] == [
        "  expected  PUB: SNDHWM=8, RCVHWM=8, LINGER=0, bind('tcp://*:5558') and nothing behind it",
        "  got       PUB: bind('tcp://*:5558'), SNDHWM=8, RCVHWM=8, LINGER=0",
    ]


def test_a_known_deviation_is_an_xfail(loadwire_capture: Any) -> None:
    """A declared deviation is an expected failure."""
    (timeline,) = (
        t for t in publisher_timelines(load().cadence) if t.id == "failure-of-a-negative-count"
    )
    declared = Deviation("W5", "sent", "as SGLang does", [timeline.id])
    kind = type("Declared", (with_bug("sends negative counts"),), {"deviations": [declared]})
    kind().test_declarations()
    with pytest.raises(pytest.xfail.Exception, match="W5 sent: as SGLang does"):
        kind().test_keeps_the_timeline(timeline, loadwire_capture)


def test_a_deviation_that_is_gone_fails(loadwire_capture: Any) -> None:
    """A declared deviation is no excuse for an engine that keeps the timeline."""
    (timeline,) = (
        t for t in publisher_timelines(load().cadence) if t.id == "failure-of-a-negative-count"
    )
    declared = Deviation("W5", "sent", "as SGLang does", [timeline.id])
    gone = type("Gone", (ToyContract,), {"deviations": [declared]})
    with pytest.raises(pytest.fail.Exception, match="the declared deviation is gone"):
        gone().test_keeps_the_timeline(timeline, loadwire_capture)


def test_an_error_of_the_harness_is_not_blamed_on_the_engine(loadwire_capture: Any) -> None:
    """What the stub does not know is an error of the test, whatever the engine makes of it."""
    kind = with_bug("connects")
    with pytest.raises(LoadwireError, match="a load socket binds"):
        kind().test_binds_its_socket(BINDS[0], loadwire_capture)
