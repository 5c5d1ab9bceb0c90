"""The stub against a real PUB socket: the same calls, the same answers, the same errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.journal import Journal
from pytest_loadwire.harness.stub import StubSocket

# What an engine may do with a fresh socket. Each is tried on both.
CALLS: dict[str, Callable[[Any], object]] = {
    "setsockopt": lambda s: s.setsockopt(zmq.LINGER, 5),
    "set": lambda s: s.set(zmq.LINGER, 5),
    "set, then get": lambda s: (s.set(zmq.SNDHWM, 5), s.get(zmq.SNDHWM)),
    "attribute": lambda s: (setattr(s, "linger", 5), s.linger),
    "upper-case attribute": lambda s: (setattr(s, "LINGER", 5), s.LINGER),
    "hwm": lambda s: (setattr(s, "hwm", 5), s.hwm, s.rcvhwm),
    "set_hwm": lambda s: (s.set_hwm(5), s.get_hwm(), s.getsockopt(zmq.RCVHWM)),
    "string option": lambda s: (s.set_string(zmq.ROUTING_ID, "a"), s.get(zmq.ROUTING_ID)),
    "string option as text": lambda s: (s.setsockopt_string(zmq.ROUTING_ID, "a"),),
    "bool option": lambda s: (s.setsockopt(zmq.IPV6, True), s.ipv6),
    "float option": lambda s: s.setsockopt(zmq.SNDHWM, 8.0),
    "text option": lambda s: s.setsockopt(zmq.LINGER, "5"),
    "unknown option": lambda s: s.setsockopt(99_999, 5),
    "option of libzmq 2": lambda s: s.setsockopt(zmq.HWM, 5),
    "option of a SUB": lambda s: s.setsockopt(zmq.SUBSCRIBE, b"load"),
    "read-only option": lambda s: s.setsockopt(zmq.TYPE, 5),
    "unknown attribute": lambda s: setattr(s, "lingering", 5),
    "unknown attribute read": lambda s: s.lingering,
    "type": lambda s: (s.getsockopt(zmq.TYPE), s.type, s.socket_type if False else 0),
    "no endpoint yet": lambda s: s.getsockopt(zmq.LAST_ENDPOINT),
    "unsubscribed send": lambda s: s.send(b"x"),
    "send of text": lambda s: s.send("x"),
    "send of an int": lambda s: s.send(5),
    "send of a bytearray": lambda s: s.send(bytearray(b"x")),
    "send_string": lambda s: s.send_string("x"),
    "send_multipart": lambda s: s.send_multipart((b"x", b"y")),
    "send_multipart with flags": lambda s: s.send_multipart([b"x", b"y"], zmq.NOBLOCK),
    "send_multipart of nothing": lambda s: s.send_multipart([]),
    "send_multipart of text": lambda s: s.send_multipart([b"x", "y"]),
    "send_multipart of an int": lambda s: s.send_multipart([b"x", 5]),
    "close twice": lambda s: (s.close(), s.close(linger=0), s.closed),
    "close with linger": lambda s: (s.close(0), s.closed),
    "block": lambda s: (s.__enter__() is s, s.__exit__(None, None, None), s.closed),
    "send after close": lambda s: (s.close(), s.send(b"x")),
    "send_multipart after close": lambda s: (s.close(), s.send_multipart([b"x"])),
    "send_multipart of text after close": lambda s: (s.close(), s.send_multipart(["x"])),
    "option after close": lambda s: (s.close(), s.setsockopt(zmq.LINGER, 0)),
    "option read after close": lambda s: (s.close(), s.getsockopt(zmq.LINGER)),
    "bind after close": lambda s: (s.close(), s.bind("tcp://127.0.0.1:0")),
    "bind without a port": lambda s: s.bind("tcp://127.0.0.1"),
    "bind to a port that is none": lambda s: s.bind("tcp://127.0.0.1:abc"),
    "bind without a scheme": lambda s: s.bind("127.0.0.1:0"),
    "bind to an unknown scheme": lambda s: s.bind("http://127.0.0.1:0"),
    "bind to IPv6 without IPV6": lambda s: s.bind("tcp://[::]:0"),
}


def _outcome(call: Callable[[Any], object], socket: Any) -> object:
    try:
        return call(socket)
    except (zmq.ZMQError, AttributeError, TypeError, ValueError, IndexError) as error:
        return type(error).__name__, getattr(error, "errno", None)


@pytest.fixture
def stub() -> StubSocket:
    """A stub as a capture makes it."""
    journal = Journal(timeout=1)
    return StubSocket(None, zmq.PUB, journal, journal.open(zmq.PUB, "engine.py:1"))


@pytest.fixture
def real() -> Iterator[zmq.Socket[bytes]]:
    """A real PUB socket."""
    context = zmq.Context()
    yield context.socket(zmq.PUB)
    context.destroy(linger=0)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_stub_answers_as_a_real_socket(
    call: Callable[[Any], object], stub: StubSocket, real: zmq.Socket[bytes]
) -> None:
    """Whatever an engine does with its socket, the stub answers or raises what pyzmq does."""
    assert _outcome(call, real) == _outcome(call, stub)


def test_the_endpoint_has_a_port(stub: StubSocket) -> None:
    """A bound stub has the endpoint that libzmq would report, a made-up port included."""
    stub.bind("tcp://*:5558")
    assert stub.getsockopt(zmq.LAST_ENDPOINT) == b"tcp://0.0.0.0:5558"
    assert stub.last_endpoint == b"tcp://0.0.0.0:5558"
    assert stub.get_string(zmq.LAST_ENDPOINT) == "tcp://0.0.0.0:5558"
    stub.bind("tcp://127.0.0.1:*")
    assert stub.last_endpoint == b"tcp://127.0.0.1:49152"
    stub.bind("ipc:///tmp/load")
    assert stub.last_endpoint == b"ipc:///tmp/load"


# What a stub cannot honour, and what its error says.
BEYOND: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.send_pyobj({}), r"has no send_pyobj\(\)"),
    (lambda s: s.recv(), r"has no recv\(\)"),
    (lambda s: s.unbind("tcp://*:5558"), r"has no unbind\(\)"),
    (lambda s: s.linger, "knows no value of the option LINGER"),
    (lambda s: s.send(b"x", track=True), "tracks no message"),
]


@pytest.mark.parametrize(("call", "message"), BEYOND, ids=[message for _, message in BEYOND])
def test_the_stub_says_what_it_does_not_know(
    stub: StubSocket, call: Callable[[Any], object], message: str
) -> None:
    """A call that the stub cannot honour is an AttributeError that is kept for the test as well."""
    with pytest.raises(AttributeError, match=message):
        call(stub)
    with pytest.raises(LoadwireError, match=message):
        stub._journal.raise_kept()


def test_a_stub_shows_where_it_was_opened(stub: StubSocket) -> None:
    """The representation names the line of the engine and whether it is closed."""
    assert repr(stub) == "<StubSocket(PUB) opened at engine.py:1>"
    stub.close()
    assert repr(stub) == "<StubSocket(PUB) opened at engine.py:1 closed>"
