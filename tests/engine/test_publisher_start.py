"""How an engine starts its publisher: who publishes, where, on which socket, and what is logged."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from pytest_loadwire.discovery import Plan, kv_events_block, plan
from pytest_loadwire.endpoints import Topology
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot, open_pub_socket
from pytest_loadwire.engine import publisher as module
from pytest_loadwire.wire import Message, parse_frames

A = LoadSnapshot(num_running_reqs=7)
DEADLINE_S = 5.0


def zmq_config(endpoint: str = "tcp://*:5557", **more: object) -> str:
    return json.dumps({"publisher": "zmq", "endpoint": endpoint, **more})


class FakeSocket:
    """Records what is done to a socket, in order."""

    def __init__(self, log: list[tuple[Any, ...]], error: Exception | None = None) -> None:
        self.log = log
        self.error = error

    def set_hwm(self, value: int) -> None:
        self.log.append(("hwm", value))

    def setsockopt(self, option: int, value: int) -> None:
        self.log.append((zmq.SocketOption(option).name, value))

    def bind(self, endpoint: str) -> None:
        self.log.append(("bind", endpoint))
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.log.append(("close",))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoints that the seam was asked to open; no socket is."""
    endpoints: list[str] = []

    def stub(endpoint: str) -> FakeSocket:
        endpoints.append(endpoint)
        return FakeSocket([])

    monkeypatch.setattr(module, "open_pub_socket", stub)
    return endpoints


# topology, kv endpoint, replay, mode, what is bound
BOUND: list[tuple[Topology, str, str | None, str, str]] = [
    (Topology(), "tcp://*:5557", None, "auto", "tcp://*:5558"),
    (Topology(), "tcp://0.0.0.0:5557", None, "auto", "tcp://0.0.0.0:5558"),
    (Topology(), "tcp://[::]:5557", None, "auto", "tcp://[::]:5558"),
    (Topology(dp_size=4, dp_rank=2), "tcp://*:5557", None, "auto", "tcp://*:5563"),
    (Topology(dp_size=4, dp_rank=3), "tcp://*:5557", None, "auto", "tcp://*:5564"),
    (
        Topology(dp_size=4, attn_dp_size=4, attn_dp_rank=3, dp_rank=0),
        "tcp://*:5557",
        None,
        "auto",
        "tcp://*:5564",
    ),
    (Topology(dp_size=2), "tcp://*:5557", "tcp://*:5558", "auto", "tcp://*:5560"),
    (Topology(dp_size=4, dp_rank=2), "tcp://*:5557", None, "tcp://*:7000", "tcp://*:7002"),
    (Topology(), "tcp://10.0.0.5:5557", None, "tcp://[::]:7000", "tcp://[::]:7000"),
]


@pytest.mark.parametrize(("topology", "kv", "replay", "mode", "expected"), BOUND)
def test_a_rank_binds_its_own_port(
    topology: Topology,
    kv: str,
    replay: str | None,
    mode: str,
    expected: str,
    opened: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R2, R3, E7: base plus slot of the one resolver, and the slot is the payload's rank."""
    publisher = LoadPublisher.from_config(
        kv_events_config=zmq_config(kv, replay_endpoint=replay),
        load_publish_endpoint=mode,
        topology=topology,
    )
    assert (opened, publisher.enabled, publisher.rank) == ([expected], True, topology.slot)
    assert caplog.records == []


def test_the_ports_that_are_bound_are_those_that_a_router_dials(opened: list[str]) -> None:
    """E7, C1: the advertisement of an engine leads a router to each rank's own socket."""
    config = zmq_config(replay_endpoint="tcp://*:5558")
    for rank in range(4):
        LoadPublisher.from_config(
            kv_events_config=config,
            load_publish_endpoint="auto",
            topology=Topology(dp_size=4, dp_rank=rank),
        )
    block = kv_events_block(config, page_size=64, dp_size=4, load_publish_endpoint="auto")
    outcome = plan("http://10.0.0.5:30000", block)
    assert isinstance(outcome, Plan)
    assert [e.endpoint for e in outcome.endpoints] == [
        endpoint.replace("*", "10.0.0.5") for endpoint in opened
    ]


# config, mode, topology, part of the warning or None for silence
DISABLED: list[tuple[str | None, str | None, Topology, str | None]] = [
    (None, "auto", Topology(), None),
    ("", "auto", Topology(), None),
    (zmq_config(), "auto", Topology(pp_rank=1), None),
    (zmq_config(), "auto", Topology(attn_tp_rank=1), None),
    (zmq_config(), "auto", Topology(attn_cp_rank=1), None),
    ("{not json", "auto", Topology(), None),
    ("{}", "auto", Topology(), None),
    ('{"publisher":"null"}', "auto", Topology(), None),
    (zmq_config(""), "auto", Topology(), None),
    (zmq_config(), None, Topology(), None),
    (zmq_config(), "off", Topology(), None),
    ("{not json", None, Topology(), None),
    (zmq_config("tcp://10.0.0.5:5557"), "auto", Topology(), "bindable"),
    (zmq_config("ipc:///run/kv"), "auto", Topology(), "bindable"),
    (zmq_config("ipc:///run/kv"), "tcp://*:7000", Topology(), "kv_events"),
    (zmq_config(), "tcp://10.0.0.5:7000", Topology(), "not bindable"),
    (zmq_config(), "tcp://*:5558", Topology(dp_size=4), "overlaps"),
    (zmq_config("tcp://*:65535"), "auto", Topology(), "past port 65535"),
    (zmq_config(), "auto", Topology(dp_size=2, dp_rank=2), "cannot bind"),
]


@pytest.mark.parametrize(("config", "mode", "topology", "warned"), DISABLED)
def test_where_an_engine_cannot_publish_it_starts_without(
    config: str | None,
    mode: str | None,
    topology: Topology,
    warned: str | None,
    opened: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R1, E1, E5: nothing is opened; a decline that matters is one warning, the others none."""
    publisher = LoadPublisher.from_config(
        kv_events_config=config, load_publish_endpoint=mode, topology=topology
    )
    assert (publisher.enabled, opened) == (False, [])
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (warned is not None)
    assert [m for m in messages if warned is not None and warned not in m] == []


def test_arguments_are_refused_before_a_socket_is_opened(opened: list[str]) -> None:
    """K3: a mistake in the configuration of the payload leaves no bound port behind."""
    with pytest.raises(ValueError, match="no revision 3"):
        LoadPublisher.from_config(
            kv_events_config=zmq_config(), load_publish_endpoint="auto", revision=3
        )
    assert opened == []


@pytest.mark.parametrize("error", [zmq.ZMQError(98), OSError("x"), RuntimeError("x")])
def test_a_bind_that_fails_never_stops_the_engine(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: whatever the seam raises is one warning with its traceback, and publishing is off."""

    def fail(endpoint: str) -> FakeSocket:
        raise error

    monkeypatch.setattr(module, "open_pub_socket", fail)
    publisher = LoadPublisher.from_config(
        kv_events_config=zmq_config(), load_publish_endpoint="auto"
    )
    for _ in range(3):
        publisher.publish_load_stat(lambda: A, force=True)
    assert publisher.enabled is False
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.WARNING, True)
    assert "5558" in record.getMessage()


@pytest.mark.parametrize(
    ("endpoint", "options"),
    [
        ("tcp://*:5558", [("hwm", 8), ("LINGER", 0)]),
        ("tcp://0.0.0.0:5558", [("hwm", 8), ("LINGER", 0)]),
        ("tcp://[::]:5558", [("hwm", 8), ("LINGER", 0), ("IPV6", 1)]),
        ("tcp://[::1]:5558", [("hwm", 8), ("LINGER", 0), ("IPV6", 1)]),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_options_are_set_before_the_bind(
    endpoint: str, options: list[Any], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, K2, K3: HWM, LINGER, IPV6 for IPv6 literals, bind; closed again when that fails."""
    log: list[tuple[Any, ...]] = []
    kinds: list[int] = []
    error = RuntimeError("no bind") if fails else None

    def make(self: object, kind: int) -> FakeSocket:
        kinds.append(kind)
        return FakeSocket(log, error)

    monkeypatch.setattr(zmq.Context, "socket", make)
    if fails:
        with pytest.raises(RuntimeError, match="no bind"):
            open_pub_socket(endpoint)
    else:
        open_pub_socket(endpoint)
    assert kinds == [zmq.PUB]
    assert log == [*options, ("bind", endpoint), *([("close",)] if fails else [])]


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    """A private context, gone with all its sockets after the test."""
    context: zmq.Context[Any] = zmq.Context()
    yield context
    context.destroy(linger=0)


Subscribe = Callable[[str], "zmq.Socket[bytes]"]


@pytest.fixture
def subscribe(context: zmq.Context[Any]) -> Iterator[Subscribe]:
    """Opens a subscriber to an endpoint; all are closed after the test."""
    opened: list[zmq.Socket[bytes]] = []

    def subscribe(endpoint: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
        opened.append(socket)
        socket.setsockopt(zmq.IPV6, int("[" in endpoint))
        socket.setsockopt(zmq.SUBSCRIBE, b"load")
        socket.connect(endpoint)
        return socket

    yield subscribe
    for socket in opened:
        socket.close(linger=0)


def bound_to(socket: zmq.Socket[bytes]) -> str:
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


def receive(
    subscriber: zmq.Socket[bytes],
    publisher: LoadPublisher,
    is_wanted: Callable[[Message], bool] = lambda _: True,
) -> list[Message]:
    """The messages up to the first that is wanted; while none is, new readings are published."""
    end = time.monotonic() + DEADLINE_S
    messages: list[Message] = []
    while time.monotonic() < end:
        publisher.publish_load_stat(
            lambda: LoadSnapshot(num_running_reqs=7, num_used_tokens=time.monotonic_ns()),
            force=True,
        )
        while subscriber.poll(10):
            messages.append(parse_frames(subscriber.recv_multipart()))
            if is_wanted(messages[-1]):
                return messages
    raise AssertionError(f"not before the deadline; came: {messages}")


def test_a_real_subscriber_reads_what_is_published(subscribe: Subscribe) -> None:
    """F1 to F4, S1: over a real socket, a router that joins gets whole messages, in order."""
    socket = open_pub_socket("tcp://127.0.0.1:0")
    with LoadPublisher(socket, rank=3) as publisher:
        subscriber = subscribe(bound_to(socket))
        (first,) = receive(subscriber, publisher)
        later = receive(subscriber, publisher, lambda m: m.sequence >= first.sequence + 2)
    sequences = [message.sequence for message in (first, *later)]
    assert sequences == sorted(set(sequences))
    stats = [message.stat for message in (first, *later)]
    assert {(stat.num_running_reqs, stat.attn_dp_rank) for stat in stats} == {(7, 3)}


def test_the_options_are_those_of_the_real_socket() -> None:
    """K1, K2: a bound PUB socket with HWM 8 both ways, LINGER 0, and no IPV6 for IPv4."""
    socket = open_pub_socket("tcp://127.0.0.1:0")
    try:
        options = [zmq.TYPE, zmq.SNDHWM, zmq.RCVHWM, zmq.LINGER, zmq.IPV6]
        assert [socket.getsockopt(o) for o in options] == [zmq.PUB, 8, 8, 0, 0]
    finally:
        socket.close()


def test_an_ipv6_wildcard_serves_both_families(subscribe: Subscribe) -> None:
    """K1: without IPV6 the bind of [::] fails; with it, IPv4 and IPv6 subscribers are served."""
    try:
        socket = open_pub_socket("tcp://[::]:0")
    except zmq.ZMQError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    port = bound_to(socket).rpartition(":")[2]
    with LoadPublisher(socket) as publisher:
        assert socket.getsockopt(zmq.IPV6) == 1
        for host in ("127.0.0.1", "[::1]"):
            receive(subscribe(f"tcp://{host}:{port}"), publisher)


def test_a_port_in_use_leaks_no_socket(
    context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: the socket of a failed bind is closed by the time that the error is out."""
    made: list[zmq.Socket[bytes]] = []
    make = context.socket

    def keep(kind: int) -> zmq.Socket[bytes]:
        made.append(make(kind))
        return made[-1]

    monkeypatch.setattr(zmq.Context, "instance", lambda: SimpleNamespace(socket=keep))
    with open_pub_socket("tcp://127.0.0.1:0") as taken:
        with pytest.raises(zmq.ZMQError) as caught:
            open_pub_socket(bound_to(taken))
        assert caught.value.errno == zmq.EADDRINUSE
        assert [socket.closed for socket in made] == [False, True]


def test_a_restarted_engine_is_read_again(subscribe: Subscribe) -> None:
    """S1, C7: a new process on the same port starts at 0, and a subscriber needs no help."""
    socket = open_pub_socket("tcp://127.0.0.1:0")
    endpoint = bound_to(socket)
    subscriber = subscribe(endpoint)
    with LoadPublisher(socket, rank=0) as before:
        (old, *_) = receive(subscriber, before)
        while before._sequence < 1000:
            before.publish_load_stat(
                lambda: LoadSnapshot(num_used_tokens=time.monotonic_ns()), force=True
            )
    with LoadPublisher(reopen(endpoint), rank=1) as after:
        *_, new = receive(subscriber, after, lambda m: m.stat.attn_dp_rank == 1)
    assert old.stat.attn_dp_rank == 0
    assert new.sequence < 1000


def reopen(endpoint: str) -> zmq.Socket[bytes]:
    """Bind a port that was just given up; libzmq lets go of it in its own thread."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with suppress(zmq.ZMQError):
            return open_pub_socket(endpoint)
    raise AssertionError(f"{endpoint} is still taken")
