"""What is left open is named, and closed where that is safe."""

# ruff: noqa: PT012
# The blocks under test are context managers.

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType

import pytest
import zmq
import zmq.asyncio

from pytest_loadwire.harness.hygiene import LeakError, SocketWatch, terminate
from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber


def _here(offset: int) -> str:
    """`file:line` of the caller, some lines away."""
    return f"{__file__}:{sys._getframe(1).f_lineno + offset}"


def _join_terminating_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "loadwire-terminate":
            thread.join(5)


def test_an_open_socket_is_named_and_closed() -> None:
    """A leaked socket is reported with its type, its endpoint and its line, then closed."""
    with zmq.Context() as context:
        with pytest.raises(LeakError) as caught, SocketWatch():
            socket = context.socket(zmq.PULL)
            where = _here(-1)
            socket.bind("tcp://127.0.0.1:*")
            endpoint = socket.last_endpoint.decode()  # type: ignore[union-attr]
        assert str(caught.value) == f"a PULL socket, {endpoint}, opened at {where}, was left open"
        assert socket.closed


def test_an_open_context_is_named_and_terminated() -> None:
    """A leaked context is reported with its line, and terminated within the deadline."""
    watch = SocketWatch()
    watch.start()
    context = zmq.Context()
    where = _here(-1)
    assert watch.finish() == [f"a zmq.Context, opened at {where}, was left open"]
    assert context.closed


def test_a_dropped_socket_is_named_too() -> None:
    """A socket that is no longer referenced is reported instead of being collected."""
    watch = SocketWatch()
    watch.start()
    zmq.Context().socket(zmq.PUB)
    leaks = watch.finish()
    assert ["a PUB socket, neither bound nor connected", "a zmq.Context"] == [
        leak.partition(", opened")[0] for leak in leaks
    ]


def test_a_forgotten_harness_is_a_leak() -> None:
    """A publisher and a subscriber of our own are reported like anybody's."""
    watch = SocketWatch()
    watch.start()
    publisher = LivePublisher()
    LiveSubscriber(publisher.endpoint)
    leaks = watch.finish()
    assert ["XPUB", "SUB"] == [leak.split()[1] for leak in leaks if "socket" in leak]
    assert all(f"opened at {__file__}:" in leak for leak in leaks)
    assert len(leaks) == 4


def test_what_is_closed_is_no_leak() -> None:
    """Sockets and contexts that are closed, in whatever way, are not reported."""
    with SocketWatch():
        with zmq.Context() as context, context.socket(zmq.PUB):
            pass
        other = zmq.Context()
        other.socket(zmq.PUB)
        other.destroy(linger=0)
        shadow = zmq.Context.shadow(zmq.Context.instance())
        assert not shadow.closed


def test_the_process_wide_context_is_no_leak() -> None:
    """`Context.instance()` belongs to the process, of asyncio as well; its sockets do not."""
    with pytest.raises(LeakError) as caught, SocketWatch():
        zmq.Context.instance().socket(zmq.SUB)
        zmq.asyncio.Context.instance()
    assert str(caught.value).startswith("a SUB socket")
    assert "\n" not in str(caught.value)
    zmq.asyncio.Context.instance().term()


def test_an_asyncio_socket_is_closed() -> None:
    """A leaked asyncio socket is reported and closed without its loop."""
    watch = SocketWatch()
    watch.start()

    async def leave_open() -> None:
        zmq.asyncio.Context().socket(zmq.SUB)

    asyncio.run(leave_open())
    assert [leak.split()[1] for leak in watch.finish()] == ["SUB", "zmq.Context,"]


def test_what_an_import_opens_stays(load_module: Callable[..., ModuleType]) -> None:
    """What a module opens while it is imported lives as long as the process, and is no leak."""
    with SocketWatch():
        module = load_module(
            "import zmq\nCONTEXT = zmq.Context()\nS = CONTEXT.socket(zmq.PUB)\n", "owner"
        )
    assert not module.S.closed
    module.CONTEXT.destroy(linger=0)


def test_a_socket_under_a_running_thread_is_not_closed() -> None:
    """While a thread of the test still runs, leaks are named but left alone: closing may crash."""
    stop = threading.Event()
    watch = SocketWatch()
    watch.start()
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    thread = threading.Thread(target=stop.wait, args=(10,), name="router-receive")
    thread.start()
    try:
        leaks = watch.finish()
        assert not socket.closed
    finally:
        stop.set()
        thread.join(5)
        context.destroy(linger=0)
    assert [True, True] == ["as router-receive still runs and may use it" in leak for leak in leaks]


def test_an_error_on_its_way_is_not_buried() -> None:
    """An error that leaves the block comes out as it is, and everything is closed all the same."""
    with pytest.raises(ZeroDivisionError), SocketWatch():
        context = zmq.Context()
        socket = context.socket(zmq.PUB)
        _ = 1 / 0
    assert socket.closed
    assert context.closed


def test_pyzmq_is_as_before() -> None:
    """Watching leaves no trace in pyzmq, however often it is started and finished."""
    before = zmq.Context.socket, zmq.Context.__init__
    with SocketWatch() as outer, SocketWatch():
        outer.start()
        assert zmq.Context.socket is not before[0]
    assert (zmq.Context.socket, zmq.Context.__init__) == before
    assert outer.finish() == []


def test_a_patch_that_somebody_keeps_goes_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper around a watched pyzmq outlives the watch, and a second watch reports once."""
    real = zmq.Context.socket
    calls = []
    with SocketWatch():
        watched = zmq.Context.socket

        def wrapper(self: object, *args: object, **kwargs: object) -> object:
            calls.append(args)
            return watched(self, *args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(zmq.Context, "socket", wrapper)
    watch = SocketWatch()
    watch.start()
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    assert len(watch.finish()) == 2
    assert len(calls) == 1
    assert socket.closed
    zmq.Context.socket = real  # type: ignore[method-assign]


def test_terminating_has_a_deadline() -> None:
    """A context with a socket that nobody can see does not hang its termination."""
    context = zmq.Context()
    hidden = zmq.Socket(context, zmq.PUB)
    begin = time.monotonic()
    assert terminate(context, 0.05) is False
    assert time.monotonic() - begin < 60
    hidden.close(linger=0)
    _join_terminating_threads()
    assert context.closed
    assert terminate(zmq.Context(), 5) is True


def test_a_context_that_does_not_terminate_is_named() -> None:
    """A leaked context that hangs is reported as such, within the deadline."""
    watch = SocketWatch(timeout=0.05)
    watch.start()
    hidden = zmq.Socket(zmq.Context(), zmq.PUB)
    assert [leak.rpartition(", ")[2] for leak in watch.finish()] == ["and it does not terminate"]
    hidden.close(linger=0)
    _join_terminating_threads()
