"""The reference subscriber on real sockets, beyond what `SubscriberContract` asks."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.discovery import NoPlan, NoPlanReason, Plan, RankEndpoint
from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.router import subscriber as module
from pytest_loadwire.router.server_info import HANG_UP
from pytest_loadwire.router.subscriber import LoadSubscriber
from pytest_loadwire.rules import Reason, Unknown
from pytest_loadwire.wire import LoadStatRev2

MakeFleet = Callable[..., Fleet]
MakeSubscriber = Callable[..., LoadSubscriber]


@pytest.fixture
def make_subscriber() -> Iterator[MakeSubscriber]:
    """Makes subscribers that ask their workers often, and closes them."""
    made: list[LoadSubscriber] = []

    def make(*urls: str, **options: Any) -> LoadSubscriber:
        subscriber = LoadSubscriber(**{"rediscover": 0.05, **options})
        made.append(subscriber)
        for url in urls:
            subscriber.add_worker(url)
        return subscriber

    yield make
    for subscriber in made:
        subscriber.close()


def knows(fleet: Fleet) -> Callable[[LoadSubscriber], bool]:
    """Whether a subscriber knows what every engine of a fleet sent last."""
    expected = {engine.url: engine.load for engine in fleet.engines}
    return lambda subscriber: subscriber.view() == expected


def threads() -> int:
    """How many threads there are, but for those that end an open question in time."""
    return sum(thread.name != HANG_UP for thread in threading.enumerate())


def test_every_reading_of_a_fleet_arrives(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber
) -> None:
    """Eight workers of eight ranks are read by one thread, message by message."""
    fleet = loadwire_fleet("ramp", workers=8, ranks=8)
    before = threads()
    subscriber = make_subscriber(*fleet.urls)
    fleet.wait_for_subscribers()
    assert threads() - before == 1 + 4  # the reader, and four that ask
    for _ in range(20):
        fleet.step()
        subscriber.wait_until(knows(fleet))
    stats = [stats for url in fleet.urls for stats in subscriber.stats(url)]
    assert [(20, 0, 0)] * 64 == [(s.messages, s.lost, s.restarts) for s in stats]


def test_statistics_of_a_hostile_rank(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber
) -> None:
    """Refused messages are counted by reason, and restarts are seen in the sequence."""
    fleet = loadwire_fleet("hostile", workers=1, ranks=1)
    (engine,) = fleet.engines
    subscriber = make_subscriber(engine.url)
    fleet.wait_for_subscribers()
    for _ in range(len(fleet.bad) // fleet.scenario.hostile + 1):
        fleet.step()
    subscriber.wait_until(knows(fleet))
    engine.restart()
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))
    (stats,) = subscriber.stats(engine.url)
    # Messages whose topic does not begin with load do not pass the subscription.
    policy, engine_only = {Reason.TRAILING_BYTES}, {Reason.EXTRA_ELEMENTS, Reason.NOT_CANONICAL}
    assert {*Reason} - policy - engine_only == {*stats.undecodable}
    assert (fleet.steps, 1) == (stats.messages, stats.restarts)
    assert stats.last_error is not None


def test_a_worker_that_comes_up_late(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber
) -> None:
    """A worker that does not answer is asked again until it does, and the status says why."""
    fleet = loadwire_fleet("steady")
    (engine,) = fleet.engines
    engine.stop()
    subscriber = make_subscriber(engine.url)
    subscriber.wait_until(lambda s: s.status(engine.url).asked >= 2)
    status = subscriber.status(engine.url)
    assert status.plan is None
    assert "status 503" in status.error
    assert subscriber.views()[engine.url].reason is Unknown.NOT_ADVERTISED
    engine.start()
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))
    status = subscriber.status(engine.url)
    assert status.error == ""
    assert status.endpoints == {0: f"tcp://127.0.0.1:{engine.base}"}


def test_an_unreachable_worker_keeps_nobody_waiting(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber
) -> None:
    """Questions that hang are asked beside the reading, and beside those to other workers."""
    fleet = loadwire_fleet("ramp", workers=2)
    hang = threading.Event()

    def fetch(url: str) -> object:
        if url.startswith("http://hang"):
            hang.wait(30)
            raise OSError("hung up")
        return module.fetch_kv_events(url)

    hanging = [f"http://hang-{n}" for n in range(3)]
    subscriber = make_subscriber(*hanging, *fleet.urls, fetch=fetch)
    fleet.wait_for_subscribers()
    for _ in range(5):
        fleet.step()
        expected = {engine.url: engine.load for engine in fleet.engines}
        subscriber.wait_until(
            lambda s, now=expected: {url: s.load(url) for url in fleet.urls} == now  # type: ignore[misc]
        )
    assert [None] * 3 == [subscriber.load(url) for url in hanging]
    with pytest.raises(DeadlineError, match="threads did not end"):
        subscriber.close(0.01)
    hang.set()


def test_removal_is_at_once(loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber) -> None:
    """A removed worker is out of the view when the call returns, and its sockets close."""
    fleet = loadwire_fleet("steady", workers=2)
    subscriber = make_subscriber(*fleet.urls)
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))
    gone, stays = fleet.engines
    subscriber.remove_worker(gone.url)
    subscriber.remove_worker(gone.url)
    assert {stays.url: stays.load} == subscriber.view()
    assert subscriber.stats(gone.url) == ()
    with pytest.raises(KeyError):
        subscriber.status(gone.url)
    with zmq.Context() as context, context.socket(zmq.PAIR) as pause:
        while gone.subscribers(0):
            pause.poll(1)


def test_removal_amid_a_flood(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is removed while more of its messages wait than are read in a row."""
    monkeypatch.setattr(module, "_BATCH", 1)
    fleet = loadwire_fleet("ramp", workers=2)
    gone, stays = fleet.engines
    subscriber = make_subscriber(*fleet.urls)
    fleet.wait_for_subscribers()
    with subscriber._changed:  # nothing is read meanwhile
        for step in range(500):
            gone.send(0, fleet.scenario.reading(0, step))
        subscriber.remove_worker(gone.url)
    fleet.step()
    subscriber.wait_until(lambda s: s.view() == {stays.url: stays.load})


def test_a_worker_removed_while_it_is_asked(make_subscriber: MakeSubscriber) -> None:
    """An answer that comes after the removal opens nothing, and one for a new addition does."""
    asked, answer = threading.Event(), threading.Event()

    def fetch(_: str) -> object:
        asked.set()
        assert answer.wait(5)
        return block(9)

    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=fetch, discoverers=1)
    assert asked.wait(5)
    subscriber.remove_worker(url)
    subscriber.add_worker(url)
    asked.clear()
    answer.set()
    subscriber.wait_until(lambda s: s.status(url).endpoints == {0: "tcp://127.0.0.1:9"})


def test_ranks_past_the_last_port(make_subscriber: MakeSubscriber) -> None:
    """A worker with a rank past port 65535 is unknown, however many ranks it claims to have."""
    found = block(65_535, 10**15)
    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=lambda _: found)
    subscriber.wait_until(lambda s: s.status(url).endpoints)
    view = subscriber.views()[url]
    assert (Unknown.NEVER_PUBLISHED, (0, 1)) == (view.reason, view.ranks)


def test_a_worker_that_claims_too_many_ranks(make_subscriber: MakeSubscriber) -> None:
    """A worker with more ranks than are allowed is not read, and the status says so."""
    found = block(5558, 9)
    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=lambda _: found, most_ranks=8)
    subscriber.wait_until(lambda s: s.status(url).plan)
    status = subscriber.status(url)
    assert ({}, "9 ranks, and 8 are the most") == (status.endpoints, status.error)


def test_no_plan_is_kept_with_its_reason(make_subscriber: MakeSubscriber) -> None:
    """A worker that advertises no load has no subscription, and the reason why."""
    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=lambda _: None)
    subscriber.wait_until(lambda s: s.status(url).plan)
    found = subscriber.status(url).plan
    assert isinstance(found, NoPlan)
    assert found.reason is NoPlanReason.NO_BLOCK


@pytest.mark.parametrize("error", [OSError("down"), KeyError("kv_events"), RecursionError("deep")])
def test_whatever_a_fetch_raises(make_subscriber: MakeSubscriber, error: Exception) -> None:
    """A question that fails in any way is asked again."""

    def fetch(_: str) -> object:
        raise error

    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=fetch)
    subscriber.wait_until(lambda s: s.status(url).asked >= 3)
    assert type(error).__name__ in subscriber.status(url).error


def test_an_endpoint_that_cannot_be_dialled(make_subscriber: MakeSubscriber) -> None:
    """A rank that cannot be dialled is told in the status, and the others are read."""

    def planner(*_: object) -> Plan:
        endpoints = (RankEndpoint(0, "tcp://127.0.0.1:9"), RankEndpoint(1, "tcp://no port:9x"))
        return Plan("127.0.0.1", 2, endpoints, range(2, 2))

    url = "http://127.0.0.1:1"
    subscriber = make_subscriber(url, fetch=lambda _: None, planner=planner)
    subscriber.wait_until(lambda s: s.status(url).error)
    assert "rank 1, tcp://no port:9x: Invalid argument" in subscriber.status(url).error
    assert subscriber.status(url).endpoints == {0: "tcp://127.0.0.1:9"}


@pytest.mark.parametrize("insult", ["large frame", "no ZMTP"])
def test_a_peer_that_libzmq_gives_up_on(
    make_loadwire_publisher: Callable[..., LivePublisher],
    make_subscriber: MakeSubscriber,
    reading: LoadStatRev2,
    insult: str,
) -> None:
    """Behind a protocol error libzmq does not reconnect; a silent rank is dialled anew."""
    url = "http://127.0.0.1:1"
    options = {"window": 0.2, "heartbeat": 0.1}
    if insult == "large frame":
        publisher = make_loadwire_publisher()
        subscriber = make_subscriber(url, fetch=lambda _: block(publisher.port), **options)
        publisher.wait_for_subscribers()
        publisher.send_raw([b"load", bytes(8), bytes(module.LARGEST_FRAME + 1)])
        wait_for_none(publisher)
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            server.settimeout(5)
            subscriber = make_subscriber(url, fetch=lambda _: block(port), **options)
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
                connection.settimeout(5)
                while connection.recv(4096):
                    pass
        publisher = make_loadwire_publisher(port=port)
    publisher.wait_for_subscribers()
    publisher.publish(reading)
    subscriber.wait_until(lambda s: s.load(url))
    (stats,) = subscriber.stats(url)
    assert (1, 0) == (stats.messages, sum(stats.undecodable.values()))


def block(port: int, ranks: int = 1) -> dict[str, object]:
    """What a worker advertises."""
    return {"load_endpoint_port_base": port, "load_topic": "load", "dp_size": ranks}


def wait_for_none(publisher: Any) -> None:
    """Wait until nobody is subscribed."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as pause:
        while publisher.subscribers:
            pause.poll(1)


def test_ipv6(
    make_loadwire_publisher: Callable[..., LivePublisher],
    make_subscriber: MakeSubscriber,
    reading: LoadStatRev2,
) -> None:
    """A worker at an IPv6 address is dialled there."""
    try:
        publisher = make_loadwire_publisher("[::1]")
    except LoadwireError:
        pytest.skip("this machine has no IPv6 loopback")
    found = block(publisher.port, 1)
    subscriber = make_subscriber("http://[::1]:30000", fetch=lambda _: found)
    publisher.wait_for_subscribers()
    publisher.publish(reading)
    subscriber.wait_until(lambda s: s.load("http://[::1]:30000"))


def test_readings_turn_stale_while_somebody_waits(
    loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber
) -> None:
    """`wait_until` notices that a reading turns stale, though nothing arrives."""
    fleet = loadwire_fleet("steady")
    subscriber = make_subscriber(*fleet.urls, window=0.2, heartbeat=0.1, rediscover=60.0)
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))
    began = time.monotonic()
    subscriber.wait_until(lambda s: s.views()[fleet.urls[0]].reason is Unknown.STALE_RANK)
    assert time.monotonic() - began < 60


def test_a_clock_of_its_own(loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber) -> None:
    """Age is told by the clock that was handed in, up to the window and on it."""
    clock = VirtualClock(1000)
    fleet = loadwire_fleet("steady")
    subscriber = make_subscriber(*fleet.urls, clock=clock)
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))
    clock.advance(5)
    assert subscriber.load(fleet.urls[0]) is not None
    clock.advance(2**-10)
    assert subscriber.load(fleet.urls[0]) is None


def test_a_wait_that_is_not_met_says_what_is_known(make_subscriber: MakeSubscriber) -> None:
    """A deadline that passes is an error with the view in its text."""
    subscriber = make_subscriber("http://127.0.0.1:1", fetch=lambda _: None)
    with pytest.raises(DeadlineError, match=r"not so after 0.01 s; .*127.0.0.1:1: unknown"):
        subscriber.wait_until(lambda _: False, timeout=0.01)


def test_rediscovery_on_demand(loadwire_fleet: MakeFleet, make_subscriber: MakeSubscriber) -> None:
    """`rediscover` asks every worker at once, whatever the interval."""
    fleet = loadwire_fleet("steady", workers=3)
    subscriber = make_subscriber(*fleet.urls, rediscover=3600.0)
    fleet.wait_for_subscribers()
    for engine in fleet.engines:
        engine.resize(2)
    subscriber.rediscover()
    fleet.wait_for_subscribers()
    fleet.step()
    subscriber.wait_until(knows(fleet))


def test_close_is_idempotent_and_final(make_subscriber: MakeSubscriber) -> None:
    """Closing twice is closing once; a closed subscriber takes no worker, and has no thread."""
    before = threads()
    subscriber = make_subscriber()
    subscriber.add_worker("http://127.0.0.1:1")
    subscriber.close()
    subscriber.close()
    assert before == threads()
    assert repr(subscriber) == "<LoadSubscriber closed>"
    with pytest.raises(LoadwireError, match="closed"):
        subscriber.add_worker("http://127.0.0.1:2")


def test_socket_options(make_subscriber: MakeSubscriber, monkeypatch: pytest.MonkeyPatch) -> None:
    """High-water mark 8, no linger, the topic load, never CONFLATE, and a quick reconnect."""
    options: dict[int, Any] = {}

    class Recording(zmq.Socket):  # type: ignore[type-arg]
        def setsockopt(self, option: int, value: Any) -> None:
            options[option] = value
            super().setsockopt(option, value)

    monkeypatch.setattr(zmq.Context, "_socket_class", Recording)
    url = "http://127.0.0.1:1"
    found = block(9, 1)
    subscriber = make_subscriber(url, fetch=lambda _: found)
    subscriber.wait_until(lambda s: s.status(url).endpoints)
    worker = subscriber._workers[url]
    assert worker.sources[0].socket.get_hwm() == 8
    assert (0, b"load", 20, 1000) == (
        options[zmq.LINGER],
        options[zmq.SUBSCRIBE],
        options[zmq.RECONNECT_IVL],
        options[zmq.RECONNECT_IVL_MAX],
    )
    assert zmq.CONFLATE not in options
    assert zmq.IPV6 not in options
