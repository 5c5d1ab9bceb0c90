"""A toy engine for the seams to be tried on."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = '''
import time
import zmq

from pytest_loadwire.wire import build_frames

LOG = []


def open_socket(endpoint):
    socket = zmq.Context.instance().socket(zmq.PUB)  # opened here
    try:
        socket.set_hwm(8)
        socket.setsockopt(zmq.LINGER, 0)
        if "[" in endpoint:
            socket.setsockopt(zmq.IPV6, 1)
        socket.bind(endpoint)
    except Exception:
        socket.close()
        raise
    return socket


async def open_async(endpoint):
    return open_socket(endpoint)


def open_on_asyncio(endpoint):
    import zmq.asyncio

    with zmq.asyncio.Context() as context:
        return context.socket(zmq.PUB)


def open_push(endpoint):
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.close()
    context.term()
    return socket


def open_with_context_defaults(endpoint):
    context = zmq.Context()
    context.linger = 0
    context.setsockopt(zmq.SUBSCRIBE, b"")
    socket = context.socket(zmq.PUB)
    context.term()
    socket.bind(endpoint)
    return socket


def open_conflating(endpoint):
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.CONFLATE, 1)
    socket.bind(endpoint)
    return socket


def open_connecting(endpoint):
    socket = zmq.Context.instance().socket(zmq.PUB)
    try:
        socket.connect("tcp://127.0.0.1:9")
    except Exception:
        pass
    return socket


def open_unbound(endpoint):
    return zmq.Context.instance().socket(zmq.PUB)


class Publisher:
    """Swallows everything, as an engine does."""

    opener = staticmethod(lambda endpoint: open_socket(endpoint))

    def __init__(self, endpoint="tcp://*:5558", opener=None):
        self.sequence = 0
        self.errors = []
        self.socket = None
        try:
            self.socket = self.open(endpoint) if opener is None else opener(endpoint)
        except Exception as error:
            self.errors.append(error)

    def open(self, endpoint):
        return open_socket(endpoint)

    @staticmethod
    def open_static(endpoint):
        return open_socket(endpoint)

    @classmethod
    def open_class(cls, endpoint):
        return open_socket(endpoint)

    def publish(self, stat):
        if self.socket is None:
            return
        try:
            frames = build_frames(self.sequence, stat)
            self.sequence += 1
            self.socket.send_multipart(frames)
        except Exception as error:
            self.errors.append(error)

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Child(Publisher):
    pass


def now():
    return time.monotonic()
'''


@pytest.fixture
def load_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Writes a module to a file, so that it has line numbers, and imports it."""

    def load(source: str, name: str = "toy_engine") -> ModuleType:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        module = importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return load


@pytest.fixture
def engine(load_module: Callable[..., ModuleType]) -> Iterator[ModuleType]:
    """The toy engine, freshly imported as `toy_engine`."""
    yield load_module(SOURCE)
    sys.modules.pop("toy_engine", None)


@pytest.fixture(params=["stub", "live"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both modes of a capture."""
    return str(request.param)
