"""What an engine did with its sockets, written down the same way by the stub and the live one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import zmq

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.endpoint import ZmqAddress


@dataclass
class SocketRecord:
    """One socket that the engine opened, as the engine used it.

    Attributes:
        kind: The socket type, ``PUB`` or ``XPUB``.
        opened_at: ``file:line`` of the engine.
        options: Every option as ``(name, value)``, in the order in which they were set. ``set_hwm``
            is two of them, SNDHWM and RCVHWM, as in pyzmq. Defaults of the engine's context count.
        bind_calls: Every endpoint that was asked for, in order, refused ones included.
        options_at_bind: How many of `options` were set before the first bind (rule K1).
        messages: The frames of every message that was sent, in order. In live mode, what a
            subscriber received.
        bound: Whether a bind has worked.
        closed: Whether the engine has closed the socket.
        endpoint: Where a subscriber can connect. None in stub mode, and before the bind.
    """

    kind: str
    opened_at: str
    options: list[tuple[str, object]] = field(default_factory=list)
    bind_calls: list[str] = field(default_factory=list)
    options_at_bind: int | None = None
    messages: list[tuple[bytes, ...]] = field(default_factory=list)
    bound: bool = False
    closed: bool = False
    endpoint: str | None = None

    @property
    def option(self) -> dict[str, object]:
        """The last value of each option that was set."""
        return dict(self.options)


class Journal:
    """Shared by the sockets of one capture: records, injected failures, and errors to report.

    An engine swallows whatever goes wrong in its publisher (rule P4). What goes wrong in the
    harness is therefore kept here, and raised where the test looks.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.sockets: list[SocketRecord] = []
        self.messages: list[tuple[bytes, ...]] = []
        self._arrived = threading.Condition()
        self._ports: dict[int, SocketRecord] = {}
        self._bind_failures: list[BaseException] = []
        self._send_failures: list[BaseException] = []
        self._kept: list[LoadwireError] = []

    def open(self, kind: int, opened_at: str) -> SocketRecord:
        """A record for a new socket."""
        record = SocketRecord(zmq.SocketType(kind).name, opened_at)
        self.sockets.append(record)
        return record

    def fail_binds(self, error: BaseException, times: int) -> None:
        """Let the next ``times`` binds raise ``error``."""
        self._bind_failures += [error] * times

    def fail_sends(self, error: BaseException, times: int) -> None:
        """Let the next ``times`` messages raise ``error`` at their first frame."""
        self._send_failures += [error] * times

    def binding(self, record: SocketRecord, endpoint: str) -> ZmqAddress | None:
        """Write a bind down, and refuse it where the network would.

        Every socket of a capture gets a port of its own, so that parallel runs never meet. Two
        sockets that the engine wants on one port are still refused, as every pair of hosts is.

        Raises:
            zmq.ZMQError: EADDRINUSE.
            BaseException: The injected one.
        """
        record.bind_calls.append(endpoint)
        if record.options_at_bind is None:
            record.options_at_bind = len(record.options)
        if self._bind_failures:
            raise self._bind_failures.pop(0)
        address = ZmqAddress.parse(endpoint)
        if address is not None and address.port in self._ports:
            raise zmq_error(zmq.EADDRINUSE, endpoint)
        return address

    def bound(self, record: SocketRecord, address: ZmqAddress | None) -> None:
        """A bind has worked."""
        record.bound = True
        if address is not None and address.port:
            self._ports[address.port] = record

    def sending(self, record: SocketRecord) -> None:
        """A message begins.

        Raises:
            BaseException: The injected one.
        """
        if self._send_failures:
            raise self._send_failures.pop(0)
        if not record.bound:
            self.keep(
                LoadwireError(
                    f"the {record.kind} socket opened at {record.opened_at} sent a message though "
                    "no bind has worked, so nobody can have received it (rules K1, K3)"
                )
            )

    def sent(self, record: SocketRecord, frames: tuple[bytes, ...]) -> None:
        """A whole message went out, and can have been received."""
        if not record.bound:
            return
        with self._arrived:
            record.messages.append(frames)
            self.messages.append(frames)
            self._arrived.notify_all()

    def closed(self, record: SocketRecord) -> None:
        """The engine has closed a socket. Idempotent."""
        record.closed = True
        for port in [port for port, owner in self._ports.items() if owner is record]:
            del self._ports[port]

    def wait_for(self, count: int, deadline: Deadline) -> bool:
        """Whether ``count`` messages or more are there before the deadline."""
        with self._arrived:
            return self._arrived.wait_for(
                lambda: len(self.messages) >= count or bool(self._kept), deadline.remaining
            )

    def keep(self, error: LoadwireError) -> LoadwireError:
        """Note an error for the test to see, whatever the engine does with it."""
        with self._arrived:
            self._kept.append(error)
            self._arrived.notify_all()
        return error

    def raise_kept(self) -> None:
        """Raise the first error that was kept and not raised yet; the others are its fruit."""
        __tracebackhide__ = True
        for error in self.take_kept():
            raise error

    def take_kept(self) -> list[LoadwireError]:
        """The errors that were kept and not raised yet."""
        with self._arrived:
            kept, self._kept = self._kept, []
        return kept


def option_name(option: int) -> str:
    """The name of a socket option, for example ``SNDHWM``."""
    try:
        return zmq.SocketOption(option).name
    except ValueError:
        return str(option)


def refuse_connect(journal: Journal, record: SocketRecord, endpoint: str) -> LoadwireError:
    """The error of a load socket that connects."""
    return journal.keep(
        LoadwireError(
            f"the {record.kind} socket opened at {record.opened_at} connects to {endpoint!r}; "
            "a load socket binds (rule K1)"
        )
    )


def zmq_error(number: int, endpoint: str) -> zmq.ZMQError:
    """The error of a bind, in the words of pyzmq."""
    error = zmq.ZMQError(number)
    error.strerror = f"{error.strerror} (addr={endpoint!r})"
    return error


def bytes_of(frame: Any) -> bytes:
    """The bytes of whatever pyzmq takes as a frame."""
    return bytes(memoryview(frame))
