"""Why a socket is silent: the symptom that the evidence shows, and its likeliest cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_loadwire.discovery import NoPlanReason, plan
from pytest_loadwire.golden.frames import KV_BATCH
from pytest_loadwire.observe import causes
from pytest_loadwire.observe.asking import Advertised, NoAnswer
from pytest_loadwire.observe.causes import Cause
from pytest_loadwire.observe.diagnosis import Diagnosis, diagnose
from pytest_loadwire.observe.peer import Peer
from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.target import parse_target

Worker = Callable[..., TargetSeen]
Watched = Callable[..., Seen]


def causes_of(diagnosis: Diagnosis) -> tuple[str, str]:
    """The symptom and the likeliest cause."""
    return diagnosis.code, diagnosis.causes[0].code


def socket(*events: str, peer: Peer | None = None, frames: Any = None) -> TargetSeen:
    """A socket that was given by itself, with what happened to it."""
    rank = RankSeen("tcp://10.0.0.5:5558", peer=peer)
    for event in events:
        rank.link.happened(0.0, event)  # type: ignore[arg-type]
    if frames:
        rank.stream.receive(1.0, frames)
    return TargetSeen(parse_target("tcp://10.0.0.5:5558"), address="10.0.0.5", ranks=[rank])


def test_nothing_to_explain(worker: Worker, watched: Watched) -> None:
    """A worker whose ranks are all heard has no symptom."""
    assert [] == diagnose(watched(worker(2)))


UP = ("connected", "ready")
SOCKETS: list[tuple[str, TargetSeen, tuple[str, str]]] = [
    ("silent", socket(*UP, peer=Peer("zmtp", "PUB")), ("silent", "kv-port")),
    ("gone", socket(*UP, "disconnected", peer=Peer("refused")), ("silent-lost", "died")),
    ("kv", socket(*UP, frames=[b"", bytes(8), KV_BATCH]), ("stream-kv-events", "kv-port")),
    (
        "snapshot",
        socket(*UP, frames=[b"load", bytes(8), b"\x80"]),
        ("stream-load-snapshot", "internal-stream"),
    ),
    (
        "garbage",
        socket(*UP, frames=[b"load", bytes(8), b"\x93"]),
        ("undecodable", "broken-encoder"),
    ),
    ("refused", socket("closed", peer=Peer("refused")), ("peer-refused", "wrong-port")),
    (
        "unreachable",
        socket(peer=Peer("unreachable", "No route")),
        ("peer-unreachable", "wrong-host"),
    ),
    ("timeout", socket("connecting", peer=Peer("timeout")), ("peer-timeout", "firewall")),
    ("http", socket("connected", peer=Peer("http", "HTTP/1.1 400")), ("peer-http", "http-port")),
    ("tls", socket("connected", peer=Peer("tls")), ("peer-tls", "wrong-port")),
    (
        "router",
        socket("connected", "disconnected", peer=Peer("zmtp", "ROUTER")),
        ("peer-zmtp-ROUTER", "replay-port"),
    ),
    (
        "pull",
        socket("connected", "disconnected", peer=Peer("zmtp", "PULL")),
        ("peer-zmtp-PULL", "internal-socket"),
    ),
    (
        "security",
        socket("connected", "handshake-failed", peer=Peer("security", "CURVE")),
        ("peer-security", "security"),
    ),
    ("mute", socket("connected", peer=Peer("mute")), ("peer-mute", "proxy")),
    ("closed", socket("connected", peer=Peer("closed")), ("peer-closed", "proxy")),
    ("other", socket("connected", peer=Peer("other", "SSH-2.0")), ("peer-other", "wrong-port")),
    ("nobody asked", socket(), ("peer-unknown", "wrong-port")),
    ("came late", socket("closed", peer=Peer("zmtp", "XPUB")), ("silent", "kv-port")),
]


@pytest.mark.parametrize(("name", "one", "expected"), SOCKETS, ids=[row[0] for row in SOCKETS])
def test_sockets(name: str, one: TargetSeen, expected: tuple[str, str], watched: Watched) -> None:
    """Each way to be silent has a symptom of its own, with the likeliest cause first."""
    (diagnosis,) = diagnose(watched(one))
    assert expected == causes_of(diagnosis)
    assert "tcp://10.0.0.5:5558" == diagnosis.endpoint
    assert diagnosis.symptom
    assert expected[0] == diagnosis.to_json()["code"]


WORKERS: list[tuple[str, tuple[str, ...], Peer | None, tuple[str, str]]] = [
    ("refused", ("closed",), Peer("refused"), ("peer-refused", "dead-publisher")),
    ("stuck", UP, Peer("zmtp", "PUB"), ("silent", "stuck")),
    ("router", ("connected",), Peer("zmtp", "ROUTER"), ("peer-zmtp-ROUTER", "replay-port")),
]


@pytest.mark.parametrize(("name", "events", "peer", "expected"), WORKERS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_workers(
    worker: Worker,
    watched: Watched,
    name: str,
    events: tuple[str, ...],
    peer: Peer | None,
    expected: tuple[str, str],
    ranks: int,
) -> None:
    """Silent ranks of a worker share a diagnosis, though only the first of them was looked up."""
    one = worker(ranks, streams=[Stream(rank=rank) for rank in range(ranks)])
    for rank in one.ranks:
        for event in events:
            rank.link.happened(0.0, event)  # type: ignore[arg-type]
    one.ranks[0].peer = peer
    (diagnosis,) = diagnose(watched(one))
    assert (expected, tuple(range(ranks))) == (causes_of(diagnosis), diagnosis.ranks)


def test_one_silent_rank_among_others(worker: Worker, watched: Watched) -> None:
    """A rank that is silent beside others that speak is told so."""
    one = worker(3, streams=[None, Stream(rank=1)])
    for event in UP:
        one.ranks[1].link.happened(0.0, event)  # type: ignore[arg-type]
    (diagnosis,) = diagnose(watched(one))
    assert ((1,), "silent") == (diagnosis.ranks, diagnosis.code)
    assert "while other ranks of the worker speak" in diagnosis.symptom
    assert ["stuck", "not-the-publisher"] == [cause.code for cause in diagnosis.causes[:2]]


SHORT = [
    (0.0, socket(*UP, peer=Peer("zmtp", "PUB")), "short-watch", "kv-port"),
    (2.4, socket(*UP, peer=Peer("zmtp", "PUB")), "short-watch", "kv-port"),
    (2.5, socket(*UP, peer=Peer("zmtp", "PUB")), "kv-port", "stuck"),
    (0.0, socket("connecting", peer=Peer("zmtp", "PUB")), "short-watch", "kv-port"),
    (0.0, socket(), "short-watch", "wrong-port"),
    (0.0, socket("closed", peer=Peer("refused")), "wrong-port", "off"),
]


@pytest.mark.parametrize(("seconds", "one", "first", "second"), SHORT)
def test_a_short_watch(
    watched: Watched, seconds: float, one: TargetSeen, first: str, second: str
) -> None:
    """Before all else, a publisher is silent in a watch that was too short for a heartbeat."""
    seen = watched(one)
    seen.seconds = seconds
    (diagnosis,) = diagnose(seen)
    assert [first, second] == [cause.code for cause in diagnosis.causes[:2]]


def test_closed_ports_behind_those_that_speak(worker: Worker, watched: Watched) -> None:
    """Where the last ranks are refused, there may be fewer of them than advertised."""
    one = worker(3, streams=[None, None, Stream(rank=2)])
    one.ranks[2].link.happened(0.0, "closed")
    one.ranks[2].peer = Peer("refused")
    (diagnosis,) = diagnose(watched(one))
    assert ["dead-publisher", "too-many-ranks"] == [cause.code for cause in diagnosis.causes[:2]]


def test_kv_events_on_an_advertised_port(worker: Worker, watched: Watched) -> None:
    """KV events on the port that is advertised for load are the engine's fault."""
    stream = Stream(rank=0)
    stream.receive(0.0, [b"", bytes(8), KV_BATCH])
    (diagnosis,) = diagnose(watched(worker(1, streams=[stream])))
    assert ("stream-kv-events", "kv-on-load-port") == causes_of(diagnosis)


ANSWERS: list[tuple[NoAnswer, Peer | None, tuple[str, str]]] = [
    (NoAnswer("refused", ""), None, ("server-info-refused", "not-started")),
    (NoAnswer("unreachable", ""), None, ("server-info-unreachable", "wrong-host")),
    (NoAnswer("timeout", ""), Peer("timeout"), ("server-info-timeout", "firewall")),
    (NoAnswer("timeout", ""), Peer("mute"), ("server-info-mute", "server-stuck")),
    (NoAnswer("timeout", ""), Peer("zmtp", "PUB"), ("server-info-zmtp", "zmq-port")),
    (NoAnswer("closed", ""), Peer("tls"), ("server-info-tls", "certificate")),
    (NoAnswer("closed", ""), Peer("closed"), ("server-info-closed", "https")),
    (NoAnswer("not-http", ""), Peer("other", "x"), ("server-info-not-http", "not-a-worker")),
    (NoAnswer("tls", ""), None, ("server-info-tls", "certificate")),
    (NoAnswer("name", ""), None, ("server-info-name", "typo")),
    (NoAnswer("status", "", 404), None, ("server-info-404", "not-a-worker")),
    (NoAnswer("status", "", 500), None, ("server-info-500", "server-error")),
    (NoAnswer("status", "", 503), None, ("server-info-503", "not-started")),
    (NoAnswer("status", "", 401), None, ("server-info-401", "api-key")),
    (NoAnswer("not-json", ""), None, ("server-info-not-json", "not-a-worker")),
    (NoAnswer("other", ""), None, ("server-info-other", "not-a-worker")),
]


@pytest.mark.parametrize(("answer", "peer", "expected"), ANSWERS)
def test_no_answer(
    watched: Watched, answer: NoAnswer, peer: Peer | None, expected: tuple[str, str]
) -> None:
    """A worker that does not answer is told by how it does not, and by who listens there."""
    one = TargetSeen(parse_target("http://h:30000"), answer, address="10.0.0.5", peer=peer)
    (diagnosis,) = diagnose(watched(one))
    assert expected == causes_of(diagnosis)


def test_an_unknown_name(watched: Watched) -> None:
    """A name without an address comes before everything else."""
    one = TargetSeen(parse_target("tcp://h:1"), unresolved=NoAnswer("name", "unknown"))
    (diagnosis,) = diagnose(watched(one))
    assert ("name", "typo") == causes_of(diagnosis)


@pytest.mark.parametrize(
    ("reason", "likeliest"),
    [
        (NoPlanReason.NO_BLOCK, "no-kv-events"),
        (NoPlanReason.NO_LOAD_KEYS, "off"),
        (NoPlanReason.ONE_LOAD_KEY, "half-advertised"),
        (NoPlanReason.BAD_PORT, "bad-block"),
        (NoPlanReason.BAD_TOPIC, "bad-block"),
        (NoPlanReason.BAD_DP_SIZE, "bad-block"),
        (NoPlanReason.BAD_URL, "wrong-host"),
    ],
)
def test_nothing_advertised(reason: NoPlanReason, likeliest: str) -> None:
    """Every reason to subscribe to nothing has causes."""
    assert likeliest == causes.NO_PLANS[reason][0].code
    assert set(NoPlanReason) == causes.NO_PLANS.keys()


@pytest.mark.parametrize("drop", ["load_topic", "load_endpoint_port_base", "both", "block"])
def test_an_advertisement_without_load(worker: Worker, watched: Watched, drop: str) -> None:
    """A worker that advertises no load is diagnosed from its block."""
    one = worker(1)
    block = dict(one.advertised.block)  # type: ignore[union-attr, call-overload]
    for key in ("load_topic", "load_endpoint_port_base"):
        if drop in (key, "both"):
            del block[key]
    given = None if drop == "block" else block
    one.advertised, one.ranks = Advertised(given, plan("http://10.0.0.5:30000", given)), []
    (diagnosis,) = diagnose(watched(one))
    expected = {"both": ("no-load-keys", "off"), "block": ("no-block", "no-kv-events")}
    assert expected.get(drop, ("one-load-key", "half-advertised")) == causes_of(diagnosis)


def every_cause() -> list[Cause]:
    """Every cause that there is, each once."""
    tables = (causes.ANSWERS, causes.NO_PLANS, causes.PEERS, causes.SILENT, causes.STREAMS)
    lists = [causes.UNRESOLVED, causes.UNDECODABLE, (causes.SHORT_WATCH,)]
    lists += [several for table in tables for several in table.values()]  # type: ignore[attr-defined]
    return list(dict.fromkeys(cause for several in lists for cause in several))


@pytest.mark.parametrize("cause", every_cause(), ids=lambda cause: cause.code)
def test_causes_are_whole(cause: Cause) -> None:
    """Each cause says what it is, how to make sure and what to do."""
    assert all(len(text) > 8 and not text.endswith(".") for text in cause[1:])
