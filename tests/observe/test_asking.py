"""Asking a worker, and in which way it did not answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable

import pytest
import zmq

from pytest_loadwire.discovery import Plan
from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.observe.asking import Advertised, NoAnswer, Question, ask, resolve
from pytest_loadwire.target import parse_target

BLOCK = {"load_endpoint_port_base": 7000, "load_topic": "load", "dp_size": 2}

STATUSES = [
    (200, b"<html>", "not-json", None),
    (200, b"[]", "not-json", None),
    (200, b"\xff", "not-json", None),
    (404, b"{}", "status", 404),
    (503, b"{}", "status", 503),
]


def asked(url: str, timeout: float = 5.0) -> Advertised | NoAnswer:
    """What a worker says."""
    return ask(parse_target(url), timeout)


def test_an_answer() -> None:
    """An answer is the block and what a router makes of it."""
    server = InfoServer()
    try:
        body = json.dumps({"kv_events": BLOCK}).encode()
        answer = asked(f"http://127.0.0.1:{server.open(lambda _: (200, body))}")
    finally:
        server.close()
    assert isinstance(answer, Advertised)
    assert isinstance(answer.plan, Plan)
    assert (BLOCK, 2) == (answer.block, len(answer.plan.endpoints))


@pytest.mark.parametrize(("status", "body", "kind", "code"), STATUSES)
def test_bad_answers(status: int, body: bytes, kind: str, code: int | None) -> None:
    """An answer that is none is told by its kind."""
    server = InfoServer()
    try:
        answer = asked(f"http://127.0.0.1:{server.open(lambda _: (status, body))}")
    finally:
        server.close()
    assert isinstance(answer, NoAnswer)
    assert (kind, code) == (answer.kind, answer.status)


def test_nobody_there() -> None:
    """A refused connection."""
    with socket.socket() as bound:  # bound and not listening: nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        answer = asked(f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert isinstance(answer, NoAnswer)
    assert answer.kind == "refused"


def test_silence() -> None:
    """A server that never answers costs the time-out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = asked(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.05)
    assert isinstance(answer, NoAnswer)
    assert answer.kind == "timeout"


SAYINGS = [(b"", "closed"), (b"SSH-2.0-x\r\n", "not-http")]


@pytest.mark.parametrize(("says", "kind"), SAYINGS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_other_protocols(says: bytes, kind: str, scheme: str) -> None:
    """A server of another protocol is told from one that hangs up, and TLS from none."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1024)
                peer.sendall(says)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        answer = asked(f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
        thread.join(10)
    assert isinstance(answer, NoAnswer)
    assert answer.kind in ({kind} if scheme == "http" else {"tls", "closed"})


def test_a_zeromq_port() -> None:
    """A ZeroMQ socket is no HTTP server, and does not hold the question up."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        publisher = context.socket(zmq.PUB)
        publisher.bind("tcp://127.0.0.1:0")
        port = publisher.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        answer = asked(f"http://127.0.0.1:{port}", timeout=0.2)
    finally:
        context.destroy(linger=0)
    assert isinstance(answer, NoAnswer)
    assert answer.kind in ("timeout", "closed", "not-http")


@pytest.mark.parametrize(
    ("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", "127.0.0.1")]
)
def test_names(host: str, address: str) -> None:
    """A name becomes an address, IPv4 first as libzmq has it."""
    assert address == resolve(host)


def test_ipv4_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with both kinds of address is dialled at its first IPv4 address."""
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::5", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.5", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.6", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert resolve("worker") == "10.0.0.5"
    del found[1:]
    assert resolve("worker") == "fd00::5"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "x..y"])
def test_unknown_names(host: str) -> None:
    """What has no address is told, and raises nothing."""
    found = resolve(host)
    assert isinstance(found, NoAnswer)
    assert found.kind == "name"


def _broken() -> object:
    raise RuntimeError("out of order")


QUESTIONS: list[tuple[Callable[[], object], object]] = [
    (lambda: "10.0.0.5", "10.0.0.5"),
    (_broken, NoAnswer("other", "RuntimeError: out of order")),
]


@pytest.mark.parametrize(("asks", "expected"), QUESTIONS)
def test_questions(asks: Callable[[], object], expected: object) -> None:
    """A question answers with whatever came, an exception too."""
    assert expected == Question(asks).answer(10)


def test_a_question_without_end() -> None:
    """A question that is not answered holds nobody up."""
    gate = threading.Event()
    assert Question(gate.wait).answer(0.01) is None
    gate.set()
