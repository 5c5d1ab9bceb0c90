"""The one place that patches pyzmq: who opens a socket or a context, and who makes the socket.

Only public names are replaced (`zmq.Context.socket`, `zmq.Context.__init__`), only while somebody
looks, and for every thread but with per-thread diversions, so that two threads never undo each
other's patch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, Protocol

import zmq

from pytest_loadwire.harness.target import Replacement

SocketFactory = Callable[["zmq.Context[Any]", int], "Any | None"]
"""Makes the socket for a context and a type, or answers None to let pyzmq make it."""

_IN_BETWEEN = (
    "zmq.",
    "pytest_loadwire.harness.",
    "pytest_loadwire.plugin.",
    "pytest_loadwire.engine.rank_socket.",  # what a live publisher is made of
)


class Site(NamedTuple):
    """Where in somebody's code something was opened.

    Attributes:
        filename: The file.
        line: The line.
        at_import: Whether a module's own top level ran, so that what it opened lives as long as
            the process.
    """

    filename: str
    line: int
    at_import: bool

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"


class Observer(Protocol):
    """Is told of every socket and every context that is opened through pyzmq."""

    def socket_opened(self, socket: zmq.Socket[Any]) -> None:
        """A context has made ``socket``."""

    def context_opened(self, context: zmq.Context[Any]) -> None:
        """``context`` was made, and is not the process-wide instance."""


class _Thread(threading.local):
    """What holds for one thread only."""

    factory: SocketFactory | None = None
    private: bool = False


_lock = threading.Lock()
_observers: list[Observer] = []
_patches: list[Replacement] = []
_users = 0
_thread = _Thread()


def caller_site() -> Site:
    """The innermost frame that is neither pyzmq's nor ours."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at the stack cheaply
    while frame.f_back is not None:
        module = f"{frame.f_globals.get('__name__', '')}."
        if not module.startswith(_IN_BETWEEN):
            break
        frame = frame.f_back
    at_import = False
    outer: FrameType | None = frame
    while outer is not None and not at_import:
        at_import = outer.f_code.co_name == "<module>" and _is_importing(outer.f_globals)
        outer = outer.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno, at_import)


def _is_importing(module_globals: dict[str, Any]) -> bool:
    spec = module_globals.get("__spec__")
    return bool(getattr(spec, "_initializing", False))


@contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Tell ``observer`` of everything that any thread opens in the block."""
    with _patched():
        _observers.append(observer)
        try:
            yield
        finally:
            _observers.remove(observer)


@contextmanager
def divert_sockets(factory: SocketFactory) -> Iterator[None]:
    """Let ``factory`` make the sockets that this thread asks a context for in the block."""
    with _patched():
        outer = _thread.factory
        _thread.factory = factory
        try:
            yield
        finally:
            _thread.factory = outer


@contextmanager
def privately() -> Iterator[None]:
    """Let this thread have real sockets and contexts of which no observer is told.

    For what a factory opens behind the scenes, and answers for itself.
    """
    outer = _thread.factory, _thread.private
    _thread.factory, _thread.private = None, True
    try:
        yield
    finally:
        _thread.factory, _thread.private = outer


@contextmanager
def _patched() -> Iterator[None]:
    global _users  # noqa: PLW0603 - counts the users of a process-wide patch
    with _lock:
        _users += 1
        if _users == 1:
            _patch()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                while _patches:
                    _patches.pop().undo()


def _told() -> tuple[Observer, ...]:
    return () if _thread.private else tuple(_observers)


def _patch() -> None:
    # Each patch closes over what it wraps, and only the newest one acts: if somebody wrapped an
    # older one in turn and kept it, that one just passes the call on.
    real_socket = zmq.Context.socket
    real_init = zmq.Context.__init__
    instance_code = zmq.Context.instance.__func__.__code__  # type: ignore[attr-defined]
    patches: list[Replacement] = []

    def acting() -> bool:
        return patches == _patches

    def socket(self: Any, socket_type: int, *args: Any, **kwargs: Any) -> Any:
        if not acting():
            return real_socket(self, socket_type, *args, **kwargs)
        factory = _thread.factory
        made = factory(self, socket_type) if factory is not None and not self.closed else None
        if made is None:
            made = real_socket(self, socket_type, *args, **kwargs)
            for observer in _told():
                observer.socket_opened(made)
        return made

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real_init(self, *args, **kwargs)
        caller = sys._getframe(1)  # noqa: SLF001 - see caller_site
        while caller.f_code.co_name == "__init__" and caller.f_back is not None:
            caller = caller.f_back
        shadow = kwargs.get("shadow") or any(isinstance(arg, zmq.Context) for arg in args)
        if acting() and not shadow and caller.f_code is not instance_code:
            for observer in _told():
                observer.context_opened(self)

    patches += [
        Replacement(zmq.Context, "socket", socket),
        Replacement(zmq.Context, "__init__", init),
    ]
    _patches[:] = patches
