"""Listening to real sockets on loopback, hostile ones too; never longer than asked for."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zmq
from standing import StandingClock, everyone

from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.engine.scenario import Scenario
from pytest_loadwire.golden.frames import KV_BATCH
from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.observe import link
from pytest_loadwire.observe.outcome import Outcome
from pytest_loadwire.observe.seen import Seen
from pytest_loadwire.observe.tap import LARGEST_FRAME, watch
from pytest_loadwire.target import parse_target
from pytest_loadwire.wire import LoadStatRev2, encode

LONG = 20.0  # what no test waits for
SHORT = 0.3  # for peers that never speak
PATIENCE = 0.1  # the same
PATIENT = 1.0  # for an HTTP server: silent until it is asked, it has so long for its answer

BLOCK = {
    "publisher": "zmq",
    "endpoint_host": "*",
    "endpoint_port_base": 1,
    "topic": "",
    "block_size": 64,
    "load_topic": "load",
}

Stat = Callable[..., LoadStatRev2]


def watch_until(
    enough: Callable[[Seen], object],
    *targets: str,
    seconds: float = LONG,
    patience: float = PATIENCE,
    **options: Any,
) -> Seen:
    """Watch until what was seen is enough, or for so many seconds."""
    so_far: list[Seen] = []

    def stop() -> bool:
        return bool(so_far and enough(so_far[-1]))

    return watch(
        [parse_target(text) for text in targets],
        seconds=seconds,
        patience=patience,
        stop=stop,
        progress=so_far.append,
        **options,
    )


def watch_from(enough: Callable[[Seen], object], *targets: str) -> Seen:
    """Watch for a short time, from when what was seen was enough."""
    clock = StandingClock(enough)
    return watch(
        [parse_target(text) for text in targets],
        seconds=SHORT,
        patience=PATIENCE,
        progress=clock.look,
        clock=clock,
    )


def codes(seen: Seen) -> list[tuple[str, str]]:
    """Rule and code of every finding that is no note, and the symptoms."""
    outcome = Outcome.of(seen)
    found = [(one.rule, one.code) for one in outcome.findings if one.level != "note"]
    return found + [("diagnosis", one.code) for one in outcome.diagnoses]


@contextmanager
def speaking(speak: Callable[[], object], period: float = 0.02) -> Iterator[None]:
    """Calls a function over and over, on a thread, while the block lasts."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(period):
            speak()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(10)


Bind = Callable[[int], tuple["zmq.Socket[bytes]", str]]


@pytest.fixture
def bind() -> Iterator[Bind]:
    """Binds peers of a socket type; gives the socket and its endpoint."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peers = []

    def make(kind: int) -> tuple[zmq.Socket[bytes], str]:
        peers.append(context.socket(kind))
        peers[-1].bind("tcp://127.0.0.1:0")
        return peers[-1], peers[-1].getsockopt_string(zmq.LAST_ENDPOINT)

    yield make
    context.destroy(linger=0)


@pytest.fixture
def advertise() -> Iterator[Callable[..., str]]:
    """Makes workers by what they advertise: a base port, ranks and more keys."""
    server = InfoServer()

    def make(base: int, ranks: int = 1, **more: object) -> str:
        block = {**BLOCK, "dp_size": ranks, "load_endpoint_port_base": base, **more}
        body = json.dumps({"kv_events": block}).encode()
        return f"http://127.0.0.1:{server.open(lambda _: (200, body))}"

    yield make
    server.close()


class TestConforming:
    def test_a_fleet(self) -> None:
        """Every rank of every worker is heard, and conforms."""
        with Fleet(Scenario("fast", period=0.02), workers=2, ranks=2) as fleet:
            with speaking(fleet.catch_up):
                seen = watch_until(everyone(), *fleet.urls)
            assert [] == codes(seen)
            assert ("interrupted", [2, 2]) == (seen.ended, [one.heard for one in seen.targets])
            ranks = [rank.rank for rank in seen.targets[1].ranks]
            assert ([0, 1], [{0}, {1}]) == (
                ranks,
                [set(rank.stream.ranks) for rank in seen.targets[1].ranks],
            )
        assert all(rank.peer is None for rank in seen.ranks)

    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
    def test_one_socket(self, host: str, stat: Stat) -> None:
        """A socket that is given by itself is heard, over IPv6 as well."""
        with LivePublisher(host) as publisher:
            steps = iter(range(10_000))
            with speaking(lambda: publisher.publish(stat(step=next(steps)))):
                seen = watch_until(everyone(), publisher.endpoint)
        assert [] == codes(seen)
        assert seen.targets[0].heard == 1

    def test_a_name(self, stat: Stat) -> None:
        """A name is looked up, and its address dialled."""
        with LivePublisher() as publisher:
            steps = iter(range(10_000))
            with speaking(lambda: publisher.publish(stat(step=next(steps)))):
                seen = watch_until(everyone(), f"tcp://localhost:{publisher.port}")
        assert ([], "127.0.0.1") == (codes(seen), seen.targets[0].address)

    def test_many_ranks(self) -> None:
        """All of 512 ranks are heard at once."""
        with Fleet(Scenario("fast", period=0.05), ranks=512) as fleet:
            url = fleet.urls[0]
            with speaking(fleet.step, period=0.05):
                seen = watch_until(everyone(1), url, timeout=LONG)
        assert 512 == seen.targets[0].heard

    def test_a_restart_is_no_error(self, stat: Stat) -> None:
        """An engine that restarts while it is watched is noted as that and nothing else (S3)."""
        with LivePublisher() as publisher:
            restarts: Iterator[Callable[[], object]] = iter([publisher.restart])

            def speak() -> None:
                # Only what was heard can be seen to begin anew, and that is not to be missed.
                if publisher.subscribers:
                    publisher.publish(stat(step=publisher.sequence))
                if publisher.sequence == 20:
                    next(restarts, int)()

            with speaking(speak, period=0.005):
                seen = watch_until(
                    lambda seen: any(rank.stream.restarts for rank in seen.ranks),
                    publisher.endpoint,
                )
        (rank,) = seen.ranks
        assert (1, 0) == (rank.stream.restarts, rank.stream.backwards)
        found = {one.code for one in Outcome.of(seen).findings}
        assert {"restarted", "reconnected"} == found - {"gaps"}

    def test_the_time_is_kept(self, stat: Stat) -> None:
        """A watch ends when its time is over."""
        with LivePublisher() as publisher, speaking(lambda: publisher.publish(stat())):
            began = time.monotonic()
            seen = watch_until(lambda _: False, publisher.endpoint, seconds=SHORT)
        assert ("time", True) == (seen.ended, SHORT <= time.monotonic() - began < LONG)
        assert SHORT <= seen.seconds


class TestBroken:
    def test_kv_events(self, bind: Bind) -> None:
        """KV events are seen, whatever their topic, and named."""
        peer, endpoint = bind(zmq.PUB)
        with speaking(lambda: peer.send_multipart([b"kv", bytes(8), KV_BATCH])):
            seen = watch_until(lambda seen: seen.messages, endpoint)
        assert [
            *[("F5", "kv-events"), ("C3", "silent-rank")],
            ("diagnosis", "stream-kv-events"),
        ] == codes(seen)

    def test_a_wrong_rank(self, advertise: Callable[..., str], stat: Stat) -> None:
        """A payload's rank is held against that of its port."""
        with LivePublisher() as publisher:
            url = advertise(publisher.port)
            with speaking(lambda: publisher.publish(stat(rank=3))):
                seen = watch_until(everyone(1), url)
        assert [("R3", "wrong-rank")] == codes(seen)[:1]

    def test_a_trimmed_array(self, advertise: Callable[..., str], stat: Stat) -> None:
        """A trimmed array is refused with the element that is missing."""
        with LivePublisher() as publisher:
            url = advertise(publisher.port)
            trimmed = [b"load", bytes(8), b"\x94" + encode(stat())[1:15]]
            with speaking(lambda: publisher.send_raw(trimmed)):
                seen = watch_until(lambda seen: seen.messages, url)
        assert ("W4", "too-short-4") == codes(seen)[0]

    def test_a_dead_publisher(
        self, advertise: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Closed ports behind a live advertisement end the watch early, with the cause."""
        monkeypatch.setattr(link, "REFUSED_S", 0.05)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            seen = watch_until(lambda _: False, advertise(closed.getsockname()[1]))
        assert [("C3", "silent-rank"), ("diagnosis", "peer-refused")] == codes(seen)
        assert "nothing-can-come" == seen.ended

    def test_a_frozen_publisher(self, advertise: Callable[..., str], bind: Bind) -> None:
        """A publisher that says nothing is one that is there."""
        _, endpoint = bind(zmq.PUB)
        url = advertise(int(endpoint.rpartition(":")[2]))
        seen = watch_until(lambda seen: any(rank.link.up for rank in seen.ranks), url)
        assert ("diagnosis", "silent") == codes(seen)[-1]
        # Its silence counts up to the end of the watch.
        assert seen.ranks[0].stream.longest > 0

    def test_a_router_socket(self, bind: Bind) -> None:
        """The replay port is told by its type, at once."""
        _, endpoint = bind(zmq.ROUTER)
        seen = watch_until(lambda _: False, endpoint, patience=LONG)
        assert ("diagnosis", "peer-zmtp-ROUTER") == codes(seen)[-1]
        assert "nothing-can-come" == seen.ended

    def test_an_http_server(self) -> None:
        """An HTTP server on the port is told as that."""
        server = InfoServer()
        try:
            endpoint = f"tcp://127.0.0.1:{server.open(lambda _: (404, b'{}'))}"
            seen = watch_until(lambda _: False, endpoint, seconds=SHORT, patience=PATIENT)
        finally:
            server.close()
        assert ("diagnosis", "peer-http") == codes(seen)[-1]

    def test_a_black_hole(self) -> None:
        """A port that takes connections and never says a word costs the time of the watch."""
        with socket.create_server(("127.0.0.1", 0)) as hole:
            endpoint = f"tcp://127.0.0.1:{hole.getsockname()[1]}"
            seen = watch_until(lambda _: False, endpoint, seconds=SHORT)
        assert [("C3", "silent-rank"), ("diagnosis", "peer-mute")] == codes(seen)

    def test_an_unknown_name(self) -> None:
        """A name without an address is told at once."""
        seen = watch_until(lambda _: False, "tcp://no-such-host.invalid:5558")
        assert [("C1", "unresolved"), ("diagnosis", "name")] == codes(seen)
        assert "nothing-can-come" == seen.ended

    def test_a_worker_that_is_silent(self) -> None:
        """A worker that does not answer HTTP costs its time-out, and is told."""
        with socket.create_server(("127.0.0.1", 0)) as hole:
            url = f"http://127.0.0.1:{hole.getsockname()[1]}"
            seen = watch_until(lambda _: False, url, timeout=1.0)
        assert [("A1", "no-answer-timeout"), ("diagnosis", "server-info-mute")] == codes(seen)

    def test_one_socket_among_closed_ones(
        self, stat: Stat, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A socket that speaks keeps the watch going, whatever the others do."""
        monkeypatch.setattr(link, "REFUSED_S", 0.0)
        with LivePublisher() as publisher, socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            steps = iter(range(10_000))
            with speaking(lambda: publisher.publish(stat(step=next(steps)))):
                seen = watch_from(
                    lambda seen: seen.messages > 20 and seen.ranks[1].link.refused,
                    publisher.endpoint,
                    f"tcp://127.0.0.1:{port}",
                )
        assert ([1, 0], "time") == ([one.heard for one in seen.targets], seen.ended)
        assert ("diagnosis", "peer-refused") == codes(seen)[-1]


class TestHostile:
    def test_every_bad_message(self, stat: Stat) -> None:
        """Every message that a router refuses is counted, and the good ones among them heard."""
        with LivePublisher() as publisher:

            def speak() -> None:
                for frames in bad_messages():
                    publisher.send_raw(frames)
                publisher.publish(stat())

            with speaking(speak):
                seen = watch_until(everyone(2), publisher.endpoint)
        assert seen.messages > len(bad_messages())
        assert not Outcome.of(seen).ok

    def test_a_flood(self, bind: Bind, stat: Stat) -> None:
        """A flood without end is counted for as long as asked, and no longer."""
        peer, endpoint = bind(zmq.PUB)
        payload = encode(stat())

        def flood() -> None:
            for number in range(2000):
                peer.send_multipart([b"load", number.to_bytes(8, "big"), payload])

        with speaking(flood, period=0.0001):
            seen = watch_from(lambda seen: seen.messages > 100, endpoint)
        assert seen.messages > 100
        assert seen.seconds < LONG

    def test_messages_that_take_long(self, bind: Bind) -> None:
        """A flood of messages that take long to judge does not draw out the watch."""
        peer, endpoint = bind(zmq.PUB)
        deep = b"\x9c\xa8LoadStat" + b"\x01" * 10 + b"\x91" * (LARGEST_FRAME - 100)
        peer.setsockopt(zmq.SNDHWM, 8)  # or they would wait here by the hundred
        with speaking(lambda: peer.send_multipart([b"load", bytes(8), deep]), period=0.001):
            seen = watch_from(lambda seen: seen.messages, endpoint)
        assert seen.messages
        assert seen.seconds < LONG / 2

    def test_a_huge_frame(self, bind: Bind) -> None:
        """A frame that no load message has ends the connection, and takes no memory."""
        peer, endpoint = bind(zmq.PUB)
        with speaking(lambda: peer.send_multipart([b"load", bytes(LARGEST_FRAME + 1)])):
            seen = watch_until(lambda seen: any(rank.link.dropped for rank in seen.ranks), endpoint)
        assert (0, "silent-lost") == (seen.messages, codes(seen)[-1][1])

    def test_nothing_is_left_behind(self) -> None:
        """Sockets and threads are gone when a watch is over."""
        before = threading.active_count()
        with Fleet(ranks=3) as fleet:
            watch_until(lambda seen: seen.ranks and seen.ranks[-1].link.up, *fleet.urls)
            fleet.close()
        # A thread ends a moment behind its answer.
        for thread in threading.enumerate():
            if thread.name == "loadwire-asking":
                thread.join(10)
        assert threading.active_count() <= before


def test_stopped_before_it_began() -> None:
    """A watch that is to stop before it began opens nothing."""
    seen = watch([parse_target("tcp://127.0.0.1:1")], stop=lambda: True, patience=PATIENCE)
    assert ("interrupted", 0.0) == (seen.ended, seen.seconds)
    assert not Outcome.of(seen).ok
