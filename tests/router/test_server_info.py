"""Asking a worker over HTTP: what is taken, and what is refused."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.router import server_info
from pytest_loadwire.router.server_info import DiscoveryError, fetch_kv_events

Answers = Callable[[int, bytes], str]

# Status and body of an answer, and what is said of it.
BAD_ANSWERS = [
    (404, b"{}", "status 404"),
    (302, b"{}", "status 302"),
    (503, b"{}", "status 503"),
    (200, b"", "JSONDecodeError"),
    (200, b"[]", "a JSON object is needed, not list"),
    (200, b"null", "not NoneType"),
    (200, b"\xff", "UnicodeDecodeError"),
    (200, b"[" * 100_000, "nested too deeply"),
]


@pytest.fixture
def answers() -> Iterator[Answers]:
    """Makes servers that give one answer, by URL."""
    server = InfoServer()
    yield lambda status, body: f"http://127.0.0.1:{server.open(lambda _: (status, body))}"
    server.close()


@pytest.mark.parametrize("path", ["", "/", "/prefix"])
def test_a_block(path: str) -> None:
    """The block is the answer's kv_events, asked for below the path of the URL."""
    server = InfoServer()
    asked = []

    def answer(where: str) -> tuple[int, bytes]:
        asked.append(where)
        return 200, json.dumps({"kv_events": {"dp_size": 2}, "version": "1"}).encode()

    try:
        url = f"http://127.0.0.1:{server.open(answer)}{path}"
        assert fetch_kv_events(url) == {"dp_size": 2}
    finally:
        server.close()
    assert [f"{path.rstrip('/')}/server_info"] == asked


def test_no_block(answers: Answers) -> None:
    """An answer without kv_events, or with null, is an answer: there is no block."""
    assert fetch_kv_events(answers(200, b"{}")) is None
    assert fetch_kv_events(answers(200, b'{"kv_events": null}')) is None


@pytest.mark.parametrize(("status", "body", "says"), BAD_ANSWERS)
def test_bad_answers(answers: Answers, status: int, body: bytes, says: str) -> None:
    """What is no answer is an error that says what came."""
    with pytest.raises(DiscoveryError, match=says):
        fetch_kv_events(answers(status, body))


def test_an_answer_without_end(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is read up to a limit."""
    monkeypatch.setattr(server_info, "LARGEST_BODY", 10)
    with pytest.raises(DiscoveryError, match="more than 10 bytes"):
        fetch_kv_events(answers(200, b" " * 100))


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "127.0.0.1:30000", "", "http://", "http://[::1", "http://h:99999"]
)
def test_bad_urls(url: str) -> None:
    """What is no URL of a worker is an error as well, before anything is dialled."""
    with pytest.raises(DiscoveryError):
        fetch_kv_events(url)


def test_nobody_there() -> None:
    """A refused connection is an error."""
    with pytest.raises(DiscoveryError, match="ConnectionRefusedError"):
        fetch_kv_events("http://127.0.0.1:1")


def test_a_worker_that_says_nothing() -> None:
    """A worker that takes the connection and never answers costs the time-out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DiscoveryError, match="TimeoutError"):
            fetch_kv_events(url, timeout=0.05)


def test_a_worker_that_drips() -> None:
    """A worker that sends its head byte by byte is left after the time-out as a whole."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                # each byte comes well within the time that one read may take
                while not stop.wait(0.02):
                    peer.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DiscoveryError, match=r"not finished after 0\.2 s"):
            fetch_kv_events(url, timeout=0.2)
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


def test_proxies_are_not_used(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is asked itself, whatever the environment says of proxies."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert fetch_kv_events(answers(200, b'{"kv_events": 7}')) == 7
