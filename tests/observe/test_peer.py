"""Who listens on a port, told from the first bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq

from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.observe.peer import Peer, identify

PATIENT = 5.0  # for peers that speak: they are read as soon as they do
SHORT = 0.05  # for those that do not


@contextmanager
def zeromq(kind: int, host: str = "127.0.0.1", **options: object) -> Iterator[int]:
    """The port of a ZeroMQ socket."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        server = context.socket(kind)
        server.setsockopt(zmq.IPV6, int(":" in host))
        for name, value in options.items():
            server.setsockopt(getattr(zmq, name), value)  # type: ignore[arg-type]
        server.bind(f"tcp://{host}:0")
        yield int(server.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
    finally:
        context.destroy(linger=0)


@contextmanager
def raw(says: Callable[[bytes], bytes], *, rounds: int = 2) -> Iterator[int]:
    """The port of a server that answers the first bytes of each connection, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(rounds):
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(says(peer.recv(4096)))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize("kind", ["PUB", "XPUB", "ROUTER", "PULL", "PUSH", "REP"])
def test_zeromq_sockets(kind: str) -> None:
    """A ZeroMQ socket says its type."""
    with zeromq(getattr(zmq, kind)) as port:
        peer = identify("127.0.0.1", port, PATIENT)
    assert Peer("zmtp", kind) == peer
    assert (kind in ("PUB", "XPUB")) == peer.publishes
    assert f"zmtp {kind}" == str(peer)


def test_ipv6() -> None:
    """IPv6 is dialled as well."""
    with zeromq(zmq.PUB, "[::1]") as port:
        assert Peer("zmtp", "PUB") == identify("::1", port, PATIENT)


def test_security() -> None:
    """A socket that asks for a password is told by its mechanism."""
    with zeromq(zmq.PUB, PLAIN_SERVER=1) as port:
        assert Peer("security", "PLAIN") == identify("127.0.0.1", port, PATIENT)


def test_http() -> None:
    """An HTTP server that waits for a whole request is asked one."""
    server = InfoServer()
    try:
        port = server.open(lambda _: (404, b"{}"))
        # the first words are those that it does not understand, and does not answer
        peer = identify("127.0.0.1", port, 1.0)
    finally:
        server.close()
    assert Peer("http", "HTTP/1.1 404 Not Found") == peer


def test_http_that_complains() -> None:
    """An HTTP server that answers a greeting with 400 is one as well."""
    with raw(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert Peer("http", "HTTP/1.1 400 Bad Request") == identify("127.0.0.1", port, PATIENT)


def test_tls() -> None:
    """A TLS alert."""
    with raw(lambda _: b"\x15\x03\x01\x00\x02\x02\x32") as port:
        assert Peer("tls") == identify("127.0.0.1", port, PATIENT)


def test_another_protocol() -> None:
    """Other bytes are quoted."""
    with raw(lambda _: b"SSH-2.0-OpenSSH\r\n") as port:
        assert Peer("other", repr(b"SSH-2.0-OpenSSH\r\n")) == identify("127.0.0.1", port, PATIENT)


def test_one_that_hangs_up() -> None:
    """A server that closes without a word, twice."""
    with raw(lambda _: b"") as port:
        assert Peer("closed") == identify("127.0.0.1", port, PATIENT)


def test_a_listener_that_never_accepts() -> None:
    """A port that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert Peer("mute") == identify("127.0.0.1", server.getsockname()[1], SHORT)


def test_refused() -> None:
    """A port on which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert "refused" == identify("127.0.0.1", bound.getsockname()[1], SHORT).kind


def test_unreachable() -> None:
    """An address that no connection can go to."""
    assert "unreachable" == identify("255.255.255.255", 9, SHORT).kind


@pytest.mark.parametrize(
    ("greeting", "peer"),
    [
        (b"\xff", Peer("zmtp")),
        (b"\xff" + bytes(8) + b"\x7f\x03", Peer("zmtp")),
        (b"\xff" * 200, Peer("security", "\xff" * 20)),
        (b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(200), Peer("zmtp")),
        (
            b"\xff"
            + bytes(8)
            + b"\x7f\x03\x00NULL"
            + bytes(50)
            + b"\x0bSocket-Type\xff\xff\xff\xff",
            Peer("zmtp"),
        ),
    ],
)
def test_greetings_that_break_off(greeting: bytes, peer: Peer) -> None:
    """A greeting that is cut short or broken is still one, and breaks nothing."""
    with raw(lambda _: greeting) as port:
        assert peer == identify("127.0.0.1", port, PATIENT)
