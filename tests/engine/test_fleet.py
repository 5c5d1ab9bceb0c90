"""Fake engines: what they say over HTTP, what they send, and what happens to them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.discovery import Plan, plan
from pytest_loadwire.engine import load_ports
from pytest_loadwire.engine.fake_engine import FakeEngine
from pytest_loadwire.engine.fleet import Fleet, fleet_status
from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.engine.scenario import SCENARIOS, Act, Scenario, load_scenario
from pytest_loadwire.errors import LoadwireError, WireError
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.harness.sockets import LiveSubscriber
from pytest_loadwire.wire import (
    LoadStatRev1,
    LoadStatRev2,
    field_names,
    parse_frames,
    verify_frames,
)

MakeFleet = Callable[..., Fleet]
MakeSubscriber = Callable[..., LiveSubscriber]

# A scenario, and the running requests of rank 0 and rank 1 over its first steps; None is silence.
SHAPES: list[tuple[str, list[tuple[int | None, int | None]]]] = [
    ("steady", [(8, 8)] * 3),
    ("ramp", [(0, 0), (1, 1), (2, 2)]),
    ("burst", [(2, 2)] * 3 + [(64, 64)] * 2 + [(2, 2)]),
    ("idle", [(0, 0)] * 3),
    ("stall", [(8, 8)] * 4 + [(None, None)] * 20 + [(8, 8)]),
    ("silent-rank", [(None, 8)] * 3),
    ("skewed", [(8, 32)] * 3),
]

BAD_ACTS = [
    {"do": "resize"},
    {"do": "resize", "dp_size": 0},
    {"do": "restart", "dp_size": 2},
]


def ask(engine: FakeEngine, path: str = "/server_info", method: str = "GET") -> tuple[int, Any]:
    host, _, port = engine.url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def planned(engine: FakeEngine) -> list[str]:
    found = plan(engine.url, ask(engine)[1]["kv_events"])
    return [e.endpoint for e in found.endpoints] if isinstance(found, Plan) else []


def listen(engine: FakeEngine, make: MakeSubscriber, rank: int = 0) -> LiveSubscriber:
    subscriber = make(f"tcp://127.0.0.1:{engine.base + rank}")
    engine.wait_for_subscribers(rank=rank)
    return subscriber


def test_what_is_advertised_is_bound(
    loadwire_fleet: MakeFleet, make_loadwire_subscriber: MakeSubscriber
) -> None:
    """Every planned endpoint of every engine has the socket of its rank behind it."""
    fleet = loadwire_fleet(workers=3, ranks=4)
    for engine in fleet.engines:
        endpoints = planned(engine)
        assert [f"tcp://127.0.0.1:{port}" for port in engine.ports] == endpoints
        for rank, endpoint in enumerate(endpoints):
            subscriber = make_loadwire_subscriber(endpoint)
            engine.wait_for_subscribers(rank=rank)
            engine.send(rank, fleet.scenario.reading(rank, 7))
            assert subscriber.receive().stat.attn_dp_rank == rank
    ports = [port for engine in fleet.engines for port in engine.ports]
    assert len(set(ports)) == 12


def test_the_load_ports_cannot_be_guessed(loadwire_fleet: MakeFleet) -> None:
    """The KV endpoint is on another host, and load is not packed behind it."""
    (engine,) = loadwire_fleet(ranks=2).engines
    block = ask(engine)[1]["kv_events"]
    assert block["endpoint_host"] not in engine.url
    kv = block["endpoint_port_base"]
    assert not {kv, kv + 1, kv + block["dp_size"]} & set(engine.ports)


def test_http(loadwire_fleet: MakeFleet) -> None:
    """/health and /server_info answer, anything else does not exist, and only GET is known."""
    (engine,) = loadwire_fleet().engines
    assert ask(engine, "/health") == (200, {})
    assert ask(engine, "/health?full=1") == (200, {})
    assert ask(engine, "/") == (404, {})
    assert ask(engine, "/server_info", "POST") == (405, {})
    assert engine.asked == 0
    assert ask(engine)[0] == 200
    assert engine.asked == 1


def test_http_survives_its_clients(loadwire_fleet: MakeFleet) -> None:
    """A client that sends nonsense, too much, or nothing at all harms nobody else."""
    (engine,) = loadwire_fleet().engines
    port = int(engine.url.rpartition(":")[2])
    idle = socket.create_connection(("127.0.0.1", port))
    for nonsense in (b"\r\n\r\n", b"\xff\x00\r\n\r\n", b"GET", b"x" * 100_000):
        client = socket.create_connection(("127.0.0.1", port), timeout=5)
        with client, contextlib.suppress(OSError):  # hung up on before all was sent
            client.sendall(nonsense)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
    assert ask(engine, "/health") == (200, {})
    idle.close()


@pytest.mark.parametrize(("name", "steps"), SHAPES, ids=[name for name, _ in SHAPES])
def test_shapes(
    loadwire_fleet: MakeFleet,
    make_loadwire_subscriber: MakeSubscriber,
    name: str,
    steps: list[tuple[int | None, int | None]],
) -> None:
    """Each rank publishes what the scenario says, once a step, as an engine spells it."""
    fleet = loadwire_fleet(name, ranks=2)
    (engine,) = fleet.engines
    readers = [listen(engine, make_loadwire_subscriber, rank) for rank in (0, 1)]
    sent = [0, 0]
    for step, expected in enumerate(steps):
        assert fleet.step() == sum(level is not None for level in expected)
        for rank, level in enumerate(expected):
            if level is not None:
                message = verify_frames(readers[rank].receive_frames())
                got = message.sequence, message.stat.num_running_reqs, message.stat.attn_dp_rank
                assert (step, got) == (step, (sent[rank], level, rank))
                sent[rank] += 1


def test_a_revision(loadwire_fleet: MakeFleet, make_loadwire_subscriber: MakeSubscriber) -> None:
    """A scenario says which revision the engines send."""
    fleet = loadwire_fleet(Scenario("old", revision=1))
    reader = listen(fleet.engines[0], make_loadwire_subscriber)
    fleet.step()
    assert type(verify_frames(reader.receive_frames(), revision=1).stat) is LoadStatRev1


def test_restart(loadwire_fleet: MakeFleet, make_loadwire_subscriber: MakeSubscriber) -> None:
    """A restarted engine is back on its ports, 50 times over, and counts from 0."""
    (engine,) = loadwire_fleet(ranks=2).engines
    ports = engine.ports
    for count in range(50):
        reader = listen(engine, make_loadwire_subscriber, 1)
        assert [0, 1] == [engine.send(1, reading(count)) for _ in range(2)]
        message = reader.receive()
        assert (0, count) == (message.sequence, message.stat.num_running_reqs)
        reader.close()
        engine.restart()
        assert ports == engine.ports


def test_stop_and_start(loadwire_fleet: MakeFleet) -> None:
    """A stopped engine has closed its ports and answers 503; a started one is back on them."""
    (engine,) = loadwire_fleet(ranks=2).engines
    engine.stop()
    engine.stop()
    assert ask(engine) == (503, {})
    assert ask(engine, "/health") == (503, {})
    with zmq.Context() as context:
        for port in engine.ports:
            with context.socket(zmq.PUB) as socket:
                socket.bind(f"tcp://127.0.0.1:{port}")
                socket.unbind(socket.getsockopt(zmq.LAST_ENDPOINT))
    for call in (
        lambda: engine.send(0, reading()),
        lambda: engine.send_frames(0, [b""]),
        lambda: engine.subscribers(0),
        engine.wait_for_subscribers,
    ):
        with pytest.raises(LoadwireError, match="publishes nothing"):
            call()
    engine.start()
    engine.start()
    assert planned(engine) == [f"tcp://127.0.0.1:{port}" for port in engine.ports]


def test_a_port_that_was_taken(loadwire_fleet: MakeFleet) -> None:
    """An engine whose port somebody took meanwhile cannot come back, and says which."""
    (engine,) = loadwire_fleet(ranks=2).engines
    engine.stop()
    with zmq.Context() as context, context.socket(zmq.PUB) as thief:
        thief.bind(f"tcp://127.0.0.1:{engine.base + 1}")
        with pytest.raises(LoadwireError, match="cannot be back on its ports: Address already"):
            engine.start()
    assert not engine.up


def test_resize(loadwire_fleet: MakeFleet) -> None:
    """An engine with room grows and shrinks on its base; one without moves."""
    fleet = loadwire_fleet("dp-size", ranks=2)
    (engine,) = fleet.engines
    base = engine.base
    for ranks in (3, 1, 2):
        engine.resize(ranks)
        assert (base, ranks) == (engine.base, len(planned(engine)))
    engine.resize(4)
    assert (4, True) == (len(planned(engine)), engine.base != base)
    with pytest.raises(ValueError, match="1 rank or more, not 0"):
        engine.resize(0)
    with pytest.raises(LoadwireError, match="has no rank 4"):
        engine.subscribers(4)


def test_acts_of_a_scenario(loadwire_fleet: MakeFleet) -> None:
    """Acts happen before the readings of their step, to the engines they name, and again."""
    acts = (
        Act(1, "stop", workers=(0,)),
        Act(2, "start", workers=(0,)),
        Act(2, "withdraw"),
        Act(3, "advertise"),
        Act(3, "silence", ranks=(1,)),
        Act(4, "speak"),
        Act(5, "resize", dp_size=3),
        Act(6, "resize", dp_size=2),
    )
    fleet = loadwire_fleet(Scenario("acts", acts=acts, every=7), workers=2, ranks=2)
    for _ in range(2):
        assert [4, 2, 4, 2, 4, 6, 4] == [fleet.step() for _ in range(7)]
    fleet.step()
    fleet.step()
    fleet.step()
    assert [[], []] == [planned(engine) for engine in fleet.engines]


def test_a_silent_rank_does_not_speak(loadwire_fleet: MakeFleet) -> None:
    """A rank that never publishes stays silent when the others speak again."""
    acts = (Act(1, "silence"), Act(2, "speak"))
    fleet = loadwire_fleet(Scenario("silent", silent=(0,), acts=acts), ranks=2)
    assert [1, 0, 1] == [fleet.step() for _ in range(3)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_runs(loadwire_fleet: MakeFleet, name: str) -> None:
    """Each scenario of the kit runs through its acts twice, with two engines of two ranks."""
    fleet = loadwire_fleet(name, workers=2, ranks=2)
    assert fleet.scenario.why
    for _ in range(2 * fleet.scenario.every + 1):
        fleet.step()


def test_hostile(loadwire_fleet: MakeFleet, make_loadwire_subscriber: MakeSubscriber) -> None:
    """Between good messages a hostile engine goes through every one that has to be refused."""
    fleet = loadwire_fleet("hostile")
    (engine,) = fleet.engines
    reader = make_loadwire_subscriber(f"tcp://127.0.0.1:{engine.base}", topic=b"")
    engine.wait_for_subscribers()
    seen, good = [], 0
    while len(seen) < len(fleet.bad):
        for _ in range(fleet.step()):
            frames = reader.receive_frames()
            try:
                parse_frames(frames)
                good += 1
            except WireError:
                seen.append(frames)
    assert list(fleet.bad) == seen[: len(fleet.bad)]
    assert fleet.steps == good


@pytest.mark.parametrize("revision", [1, 2])
def test_bad_messages_are_refused(revision: int) -> None:
    """Every bad message is refused by a reader of the revision, and there are over 250."""
    messages = bad_messages(revision)
    assert len(messages) > 250
    for message in messages:
        with pytest.raises(WireError):
            parse_frames(message, revision=revision)


def test_the_load_that_is_to_be_known(loadwire_fleet: MakeFleet) -> None:
    """An engine tells the sum of what its ranks sent last, over the fields that all sent."""
    (engine,) = loadwire_fleet(ranks=2).engines
    assert engine.load is None
    engine.send(0, reading(1))
    assert engine.load is None
    engine.send(1, reading(2))
    assert engine.load == dict.fromkeys((n for n in field_names() if n != "attn_dp_rank"), 3)
    engine.send(1, LoadStatRev1(**dict.fromkeys(field_names(1), 4)))
    assert engine.load == dict.fromkeys((n for n in field_names(1) if n != "attn_dp_rank"), 5)
    engine.advertised = False
    assert engine.load is None


def test_subscriptions_are_counted(
    loadwire_fleet: MakeFleet, make_loadwire_subscriber: MakeSubscriber
) -> None:
    """An engine knows its subscriptions to load, and how many have ended."""
    (engine,) = loadwire_fleet().engines
    endpoint = f"tcp://127.0.0.1:{engine.base}"
    other = make_loadwire_subscriber(endpoint, topic=b"loadx")
    one, two = (make_loadwire_subscriber(endpoint) for _ in range(2))
    engine.wait_for_subscribers(2)
    assert (2, 0) == (engine.subscribers(0), engine.lost_subscribers(0))
    with pytest.raises(DeadlineError, match=r"3 subscription.*, and 2 came"):
        engine.wait_for_subscribers(3, timeout=0.01)
    one.close()
    two.close()
    with zmq.Context() as context, context.socket(zmq.PAIR) as pause:
        while engine.subscribers(0):
            pause.poll(1)
    with pytest.raises(DeadlineError, match=r", and 0 came; .*something else: \[b'loadx'\]"):
        engine.wait_for_subscribers(timeout=0.01)
    assert (0, 2) == (engine.subscribers(0), engine.lost_subscribers(0))
    other.close()


def test_a_virtual_clock(loadwire_fleet: MakeFleet) -> None:
    """On a clock that a test moves, `catch_up` does every step that has come due."""
    clock = VirtualClock(1000)
    fleet = loadwire_fleet(Scenario("quarters", period=0.25), clock=clock)
    assert (1, 0) == (fleet.catch_up(), fleet.catch_up())
    clock.advance(0.125)
    assert fleet.catch_up() == 0
    clock.advance(0.125)
    assert fleet.catch_up() == 1
    clock.advance(1)
    assert (4, 6) == (fleet.catch_up(), fleet.steps)


def test_real_time(loadwire_fleet: MakeFleet) -> None:
    """`run` steps once a period until its time is over, or it is told to stop."""
    fleet = loadwire_fleet(Scenario("quick", period=0.01))
    fleet.run(0.1)
    assert 1 <= fleet.steps <= 11
    stop = threading.Event()
    stop.set()
    steps = fleet.steps
    fleet.run(stop=stop)
    assert steps == fleet.steps


@pytest.mark.parametrize("sheds", [True, False])
def test_a_subscriber_that_does_not_read(loadwire_fleet: MakeFleet, sheds: bool) -> None:
    """A fleet waits for room, and says so in time; one that sheds drops, as engines do."""
    (engine,) = loadwire_fleet(sheds=sheds, timeout=0.2).engines

    def send_a_lot() -> None:
        for _ in range(50):
            engine.send_frames(0, [b"load", bytes(8), bytes(2**20)])

    with zmq.Context() as context, context.socket(zmq.SUB) as reader:
        reader.set_hwm(8)
        reader.subscribe(b"load")
        reader.connect(f"tcp://127.0.0.1:{engine.base}")
        engine.wait_for_subscribers()
        if sheds:
            send_a_lot()
        else:
            with pytest.raises(DeadlineError, match="no room for another"):
                send_a_lot()


def test_no_frame_at_all(loadwire_fleet: MakeFleet) -> None:
    """ZeroMQ has no message without a frame."""
    (engine,) = loadwire_fleet().engines
    with pytest.raises(LoadwireError, match="at least one frame"):
        engine.send_frames(0, [])


def test_close() -> None:
    """A closed fleet has freed every descriptor and thread, and closes twice as once."""
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    threads = threading.active_count()
    with Fleet("steady", workers=4, ranks=4) as fleet:
        fleet.step()
    fleet.close()
    assert fleet.closed
    assert threads == threading.active_count()
    if before:
        assert before == len(os.listdir("/proc/self/fd"))


def test_no_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no range is free the fleet says so, and leaves nothing open."""
    threads = threading.active_count()
    with zmq.Context() as context, context.socket(zmq.PUB) as thief:
        port = thief.bind_to_random_port("tcp://127.0.0.1")
        monkeypatch.setattr(load_ports.random, "randint", lambda *_: port - 1)
        with pytest.raises(LoadwireError, match="no 2 free ports in a row after 64 attempts"):
            Fleet(ranks=2)
    assert threads == threading.active_count()


@pytest.mark.parametrize(("workers", "ranks"), [(-1, 1), (1, 0)])
def test_impossible_sizes(workers: int, ranks: int) -> None:
    """A fleet of less than nothing is refused."""
    with pytest.raises(ValueError, match="1 rank or more"):
        Fleet(workers=workers, ranks=ranks)


def test_status_lines(loadwire_fleet: MakeFleet) -> None:
    """A line for each engine says where it is and what is the matter with it."""
    fleet = loadwire_fleet("late-advertisement", ranks=2)
    (engine,) = fleet.engines
    engine.stop()
    url, base = engine.url, engine.base
    assert fleet_status(fleet.engines) == [
        f"{url}  2 rank(s), ports {base} to {base + 1}, down, not advertised"
    ]
    assert repr(engine) == f"<FakeEngine {url}, 2 rank(s) from port {base}, down>"
    assert repr(fleet) == "<Fleet 'late-advertisement', 1 engine(s), step 0>"


def test_a_scenario_from_a_file(tmp_path: Path) -> None:
    """A scenario is a JSON file with the names of its attributes."""
    file = tmp_path / "mine.json"
    file.write_text('{"name": "mine", "shape": "burst", "acts": [{"step": 3, "do": "restart"}]}')
    assert load_scenario(file) == Scenario("mine", shape="burst", acts=(Act(3, "restart"),))


def test_a_scenario_from_toml(tmp_path: Path) -> None:
    """Or a TOML file."""
    pytest.importorskip("tomllib")
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nperiod = 0.25\n[[acts]]\nstep = 3\ndo = "restart"\n')
    assert load_scenario(file) == Scenario("mine", period=0.25, acts=(Act(3, "restart"),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "malformed|truncated"),
        ("{}", "missing required field `name`"),
        ('{"name": "x", "shape": "round"}', "round"),
        ('{"name": "x", "speed": 2}', "speed"),
        ('{"name": "x", "period": 0}', "more than 0 seconds"),
        ('{"name": "x", "revision": 9}', "no revision 9"),
        *((json.dumps({"name": "x", "acts": [{"step": 0, **a}]}), "dp_size") for a in BAD_ACTS),
    ],
)
def test_a_file_that_is_no_scenario(tmp_path: Path, text: str, says: str) -> None:
    """What is wrong with a file is said with its name."""
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(LoadwireError, match=f"bad.json: .*({says})"):
        load_scenario(file)


def test_no_such_scenario() -> None:
    """A name that is none is told those that are."""
    with pytest.raises(LoadwireError, match=r"rush: no scenario .*steady, ramp, .*no file"):
        Fleet("rush")


def reading(count: int = 1) -> LoadStatRev2:
    return LoadStatRev2(**dict.fromkeys(field_names(), count))
