"""Where pyzmq is patched: for whom, and by how many at once."""

from __future__ import annotations

import threading
from typing import Any

import zmq

from pytest_loadwire.harness.seam import divert_sockets, observe, privately


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.sockets: list[Any] = []
        self.contexts: list[Any] = []

    def socket_opened(self, socket: zmq.Socket[Any]) -> None:
        self.sockets.append(socket)

    def context_opened(self, context: zmq.Context[Any]) -> None:
        self.contexts.append(context)


def test_a_diversion_is_for_one_thread_only() -> None:
    """Two threads divert at the same time, neither sees the other's, and both end in any order."""
    real = zmq.Context.socket
    made: dict[str, object] = {}
    inside, leave = threading.Barrier(3, timeout=5), threading.Barrier(3, timeout=5)
    context = zmq.Context()

    def divert(name: str) -> None:
        with divert_sockets(lambda context, kind: name):
            inside.wait()
            made[name] = context.socket(zmq.PUB)
            leave.wait()

    threads = [threading.Thread(target=divert, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    inside.wait()
    with context.socket(zmq.PUB) as own:
        assert isinstance(own, zmq.Socket)
    leave.wait()
    for thread in threads:
        thread.join(5)
    context.term()
    assert made == {"one": "one", "other": "other"}
    assert zmq.Context.socket is real


def test_diversions_nest() -> None:
    """An inner diversion wins, a private block reaches pyzmq, and the outer one comes back."""
    with zmq.Context() as context, divert_sockets(lambda context, kind: "outer"):
        with divert_sockets(lambda context, kind: "inner"):
            assert context.socket(zmq.PUB) == "inner"
            with privately(), context.socket(zmq.PUB) as real:
                assert isinstance(real, zmq.Socket)
        assert context.socket(zmq.PUB) == "outer"


def test_observers_see_what_pyzmq_makes() -> None:
    """Every observer is told of real sockets and contexts, not of what a diversion hands out."""
    one, other = Notes(), Notes()
    with observe(one):
        context = zmq.Context()
        with observe(other), divert_sockets(lambda context, kind: None):
            socket = context.socket(zmq.PUB)
        with divert_sockets(lambda context, kind: "ours"):
            context.socket(zmq.PUB)
        with privately(), zmq.Context() as own, own.socket(zmq.PUB):
            pass
    assert (one.sockets, one.contexts) == ([socket], [context])
    assert (other.sockets, other.contexts) == ([socket], [])
    context.destroy(linger=0)
