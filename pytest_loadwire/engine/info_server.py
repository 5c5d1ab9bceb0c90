"""A small HTTP server for fake engines: any number of loopback ports, one thread.

It answers ``GET`` with what the owner of the port says and closes the connection. That is all that
a router's discovery needs, and one thread for 64 workers is what the fleet can afford.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

from pytest_loadwire.deadline import DEFAULT_TIMEOUT, DeadlineError

Answer = Callable[[str], tuple[int, bytes]]
"""From a path to a status and a JSON body. It is called in the server's thread."""

LONGEST_REQUEST = 16_384
"""Bytes of a request's head; a longer one is hung up on."""

PATIENCE_S = 5.0
"""Seconds in which a client has to send its request."""


class InfoServer:
    """Answers on every port that `open` has handed out, until `close`.

    Args:
        host: The loopback address to listen on.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._selector = selectors.DefaultSelector()
        self._opened: deque[tuple[socket.socket, Answer]] = deque()
        self._clients: dict[socket.socket, _Client] = {}
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="loadwire-info", daemon=True)
        self._thread.start()

    def open(self, answer: Answer) -> int:
        """Listen on a port of the system's choice, and return it; clients may connect at once."""
        listener = socket.create_server((self._host, 0), backlog=64)
        listener.setblocking(False)
        self._opened.append((listener, answer))
        self._wake.send(b"\0")
        return int(listener.getsockname()[1])

    def close(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Stop, and close every port. Idempotent.

        Raises:
            DeadlineError: The thread did not end in time, as one of the answers hangs.
        """
        if not self._closing:
            self._closing = True
            with contextlib.suppress(OSError):  # the thread has seen it already
                self._wake.send(b"\0")
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise DeadlineError(f"the info server did not stop in {timeout:g} s: an answer hangs")
        self._wake.close()

    def _serve(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(timeout=1.0):
                if key.fileobj is self._woken:
                    self._look_up()
                elif isinstance(key.data, _Client):
                    self._read(key.data)
                else:
                    self._accept(key)
            self._hang_up_on_the_slow()
        self._look_up()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)  # noqa: S101 - for the type checker
            key.fileobj.close()
        self._selector.close()

    def _look_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._opened:
            listener, answer = self._opened.popleft()
            self._selector.register(listener, selectors.EVENT_READ, answer)

    def _accept(self, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)  # noqa: S101 - for the type checker
        try:
            connection, _ = key.fileobj.accept()
        except OSError:
            return  # the client is gone already, or there are no descriptors left
        client = _Client(connection, key.data)
        connection.setblocking(False)
        self._clients[connection] = client
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _read(self, client: _Client) -> None:
        try:
            data = client.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.request += data
        if data and b"\r\n\r\n" not in client.request and len(client.request) < LONGEST_REQUEST:
            return
        if b"\r\n\r\n" in client.request:
            client.reply()
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._selector.unregister(client.connection)
        del self._clients[client.connection]
        client.connection.close()

    def _hang_up_on_the_slow(self) -> None:
        now = time.monotonic()
        for client in [c for c in self._clients.values() if now - c.since > PATIENCE_S]:
            self._drop(client)


class _Client:
    """One connection, and what it has sent so far."""

    def __init__(self, connection: socket.socket, answer: Answer) -> None:
        self.connection = connection
        self.answer = answer
        self.request = b""
        self.since = time.monotonic()

    def reply(self) -> None:
        """Answer the one request of this connection."""
        method, path, *_ = [*self.request.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        if method == b"GET":
            status, body = self.answer(path.decode("latin-1").partition("?")[0])
        else:
            status, body = 405, b"{}"
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        try:
            self.connection.settimeout(PATIENCE_S)
            self.connection.sendall(head.encode() + body)
        except OSError:
            pass  # the client did not wait for it
