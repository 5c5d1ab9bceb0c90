"""A load socket that is none: takes what an engine does with a PUB socket and writes it down."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import zmq

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.endpoint import ZmqAddress
from pytest_loadwire.harness.journal import (
    Journal,
    SocketRecord,
    bytes_of,
    option_name,
    refuse_connect,
    zmq_error,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer, Self

_EPHEMERAL = 49152
# What a PUB socket cannot be told.
_NOT_SETTABLE = frozenset({zmq.SUBSCRIBE, zmq.UNSUBSCRIBE, zmq.HWM, zmq.TYPE, zmq.LAST_ENDPOINT})


class StubSocket:
    """Stands in for a `zmq.Socket` of type PUB, and is as strict as one.

    It knows what a load publisher needs. Any other method of a socket is an error that the test
    sees even if the engine swallows it, so that no call is taken and forgotten.
    """

    def __init__(self, context: Any, kind: int, journal: Journal, record: SocketRecord) -> None:
        # Through the dictionary, as assignment sets socket options.
        vars(self).update(
            context=context,
            type=zmq.SocketType(kind),
            _journal=journal,
            _record=record,
            _parts=[],
            _endpoint="",
            _values={},
        )

    if TYPE_CHECKING:
        context: Any
        type: zmq.SocketType
        _journal: Journal
        _record: SocketRecord
        _parts: list[bytes]
        _endpoint: str
        _values: dict[int, Any]

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<StubSocket({self._record.kind}) opened at {self._record.opened_at}{state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether the engine has closed it."""
        return self._record.closed

    def close(self, linger: int | None = None) -> None:
        """Close. Idempotent, as in pyzmq."""
        if linger is not None and not self.closed:
            self.set(zmq.LINGER, linger)
        self._journal.closed(self._record)

    def set(self, option: int, value: Any) -> None:
        """Write an option down, refusing what pyzmq refuses."""
        self._open()
        name = option_name(option)
        if isinstance(value, str):
            raise TypeError("unicode not allowed, use setsockopt_string")
        if option in _NOT_SETTABLE or name.isdigit():
            raise zmq.ZMQError(zmq.EINVAL)
        if not isinstance(value, int | bytes):
            raise TypeError(f"expected int, got: {value!r}")
        self._values[option] = value
        self._record.options.append((name, value))

    def get(self, option: int) -> Any:
        """The value of an option that was set, or the bound endpoint, or the type."""
        self._open()
        if option == zmq.LAST_ENDPOINT:
            return self._endpoint.encode()
        if option == zmq.TYPE:
            return int(self.type)
        if option not in self._values:
            raise self._beyond(f"knows no value of the option {option_name(option)}")
        return self._values[option]

    setsockopt = set  # noqa: A003 - this class's own
    getsockopt = get

    def set_string(self, option: int, optval: str, encoding: str = "utf-8") -> None:
        """As `set`, for text."""
        self.set(option, optval.encode(encoding))

    setsockopt_string = set_string

    def get_string(self, option: int, encoding: str = "utf-8") -> str:
        """As `get`, for text."""
        return str(self.get(option), encoding)

    getsockopt_string = get_string

    def set_hwm(self, value: int) -> None:
        """Set SNDHWM and RCVHWM, as pyzmq does."""
        self.set(zmq.SNDHWM, value)
        self.set(zmq.RCVHWM, value)

    def get_hwm(self) -> int:
        """The SNDHWM."""
        return int(self.get(zmq.SNDHWM))

    hwm = property(get_hwm, set_hwm)

    def bind(self, addr: str) -> None:
        """Write a bind down, refusing what libzmq refuses.

        Raises:
            zmq.ZMQError: EINVAL, EPROTONOSUPPORT, ENODEV (an IPv6 host without the IPV6 option) or
                EADDRINUSE (another socket of this capture has the port).
        """
        self._open()
        address = self._journal.binding(self._record, addr)
        scheme, found, _ = addr.partition("://")
        if not found or (scheme == "tcp" and address is None):
            raise zmq_error(zmq.EINVAL, addr)
        if scheme not in ("tcp", "ipc", "inproc"):
            raise zmq_error(zmq.EPROTONOSUPPORT, addr)
        if address is not None and address.is_ipv6 and not self._values.get(zmq.IPV6):
            raise zmq_error(errno.ENODEV, addr)
        self._journal.bound(self._record, address)
        vars(self)["_endpoint"] = addr if address is None else _last_endpoint(address)

    def connect(self, addr: str) -> None:
        """Refused: a load socket binds (rule K1)."""
        raise refuse_connect(self._journal, self._record, addr)

    def send(self, data: Buffer, flags: int = 0, copy: bool = True, track: bool = False) -> None:
        """Write a frame down; without SNDMORE it ends the message."""
        del copy
        self._open()
        if isinstance(data, str):
            raise TypeError("unicode not allowed, use send_string")
        frame = bytes_of(data)
        if track:
            raise self._beyond("tracks no message")
        if not self._parts:
            self._journal.sending(self._record)
        self._parts.append(frame)
        if not flags & zmq.SNDMORE:
            message = tuple(self._parts)
            self._parts.clear()
            self._journal.sent(self._record, message)

    def send_string(
        self, u: str, flags: int = 0, copy: bool = True, encoding: str = "utf-8"
    ) -> None:
        """As `send`, for text."""
        self.send(u.encode(encoding), flags, copy)

    def send_multipart(
        self, msg_parts: Sequence[Buffer], flags: int = 0, copy: bool = True, track: bool = False
    ) -> None:
        """Write a message down. As in pyzmq, nothing is sent if one part is no buffer."""
        for index, part in enumerate(msg_parts):
            if isinstance(part, str):
                raise TypeError(f"Frame {index} ({part!r}) does not support the buffer interface.")
            memoryview(part)
        for part in msg_parts[:-1]:
            self.send(part, flags | zmq.SNDMORE, copy, track)
        self.send(msg_parts[-1], flags, copy, track)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "hwm":
            self.set_hwm(value)
        elif (option := _option(name)) is not None:
            self.set(option, value)
        else:
            raise AttributeError(f"StubSocket has no such option: {name.upper()}")

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is defined nowhere above.
        if (option := _option(name)) is not None:
            return self.get(option)
        if callable(getattr(zmq.Socket, name, None)) and not name.startswith("_"):
            raise self._beyond(f"has no {name}()")
        raise AttributeError(f"StubSocket has no such option: {name.upper()}")

    def _open(self) -> None:
        if self.closed:
            raise zmq.ZMQError(zmq.ENOTSOCK)

    def _beyond(self, what: str) -> LoadwireError:
        return self._journal.keep(
            StubError(f"the stub of a load socket {what}; run this test with mode 'live'")
        )


class StubError(LoadwireError, AttributeError):
    """The engine does with its socket what the stub does not know."""


def _option(name: str) -> int | None:
    member = zmq.SocketOption.__members__.get(name.upper())
    return None if member is None else int(member)


def _last_endpoint(address: ZmqAddress) -> str:
    host = "0.0.0.0" if address.host == "*" else address.host  # noqa: S104 - nothing is bound
    return f"tcp://{host}:{address.port or _EPHEMERAL}"
