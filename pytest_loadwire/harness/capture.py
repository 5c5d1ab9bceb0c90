"""A seam in an engine: the one function that opens its load socket, on a stub or a real one.

    with Capture("engine.load.open_socket", mode="live") as capture:
        publisher = engine.load.Publisher(config)
        publisher.publish(reading)
        message, = capture.receive()
        publisher.close()

The engine's own function still runs. While it does, and in its thread only, a context that is asked
for a PUB or XPUB socket hands out one that writes down what happens to it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import zmq

from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.frames import parse, show_frames
from pytest_loadwire.harness.hygiene import LeakError, left_alone, stray_threads, terminate
from pytest_loadwire.harness.journal import Journal, SocketRecord
from pytest_loadwire.harness.live import LiveSocket
from pytest_loadwire.harness.seam import caller_site, divert_sockets, privately
from pytest_loadwire.harness.stub import StubSocket
from pytest_loadwire.harness.target import Replacement, TargetError, own_attribute, resolve
from pytest_loadwire.socket_mode import SOCKET_MODES
from pytest_loadwire.wire import LATEST, Message

if TYPE_CHECKING:
    from typing_extensions import Self

_CAPTURED = "__loadwire_captured__"


class Capture:
    """What an engine does with its load socket, recorded alike in both modes.

    Args:
        target: Dotted path of the function or method that opens the socket, named where the engine
            looks it up: ``from x import open_socket`` makes a second name.
        mode: ``stub`` or ``live``.
        revision: The revision of ``LoadStat`` that `receive` reads.
        timeout: Seconds that each wait may take unless the call says otherwise.

    Raises:
        TargetError: The path leads nowhere, or to what is no ordinary function.
        ValueError: There is no such mode.
    """

    def __init__(
        self,
        target: str,
        *,
        mode: str = "stub",
        revision: int = LATEST,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        __tracebackhide__ = True
        if mode not in SOCKET_MODES:
            raise ValueError(f"mode must be one of {', '.join(SOCKET_MODES)}, not {mode!r}")
        self._target = target
        self._mode = mode
        self._revision = revision
        self._timeout = timeout
        self._journal = Journal(timeout)
        self._opened: list[tuple[StubSocket | LiveSocket, SocketRecord]] = []
        self._context: zmq.Context[Any] | None = None
        self._lock = threading.Lock()
        self._threads = set(threading.enumerate())
        self._calls = 0
        self._taken = 0
        owner, name = resolve(target)
        self._replacement: Replacement | None = Replacement(
            owner, name, self._wrap(own_attribute(owner, name))
        )

    def __repr__(self) -> str:
        return f"<Capture of {self._target}, {self._mode}, {len(self._opened)} socket(s)>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        leaks = self.finish()
        # An error that is on its way is the cause; what it left open is the consequence.
        if kind is None:
            self._journal.raise_kept()
            if leaks:
                raise LeakError("\n".join(leaks))

    @property
    def mode(self) -> str:
        """``stub`` or ``live``."""
        return self._mode

    @property
    def sockets(self) -> list[SocketRecord]:
        """Every socket that the engine opened, in order.

        Raises:
            LoadwireError: Something went wrong in the harness that the engine may have swallowed.
        """
        self._journal.raise_kept()
        return list(self._journal.sockets)

    @property
    def frames(self) -> list[tuple[bytes, ...]]:
        """The frames of every message so far, of all sockets, in order.

        Raises:
            LoadwireError: As for `sockets`.
        """
        self._journal.raise_kept()
        return list(self._journal.messages)

    def receive(self, n: int = 1, timeout: float | None = None) -> list[Message]:
        """The next ``n`` messages that were not received yet, parsed as a router must.

        Raises:
            WireError: A message breaks the contract. The traceback shows its bytes.
            DeadlineError: Fewer came in time. The text shows those that did.
            LoadwireError: As for `sockets`.
        """
        __tracebackhide__ = True
        deadline = Deadline(self._timeout if timeout is None else timeout)
        enough = self._journal.wait_for(self._taken + n, deadline)
        self._journal.raise_kept()
        waiting = self._journal.messages[self._taken : self._taken + n]
        if not enough:
            shown = "".join(f"\n  {show_frames(frames)}" for frames in waiting)
            raise DeadlineError(
                f"waited {deadline.timeout:g} s for {n} message(s), and {len(waiting)} came"
                f"{self._why_none()}{shown}"
            )
        messages = []
        for frames in waiting:
            # One that breaks the contract counts as received, and those behind it do not.
            self._taken += 1
            messages.append(parse(frames, revision=self._revision))
        return messages

    def fail_bind(self, error: BaseException | None = None, times: int = 1) -> None:
        """Let the next ``times`` binds raise ``error``; without one, EADDRINUSE (rule K3)."""
        self._journal.fail_binds(zmq.ZMQError(zmq.EADDRINUSE) if error is None else error, times)

    def fail_send(self, error: BaseException | None = None, times: int = 1) -> None:
        """Let the next ``times`` messages raise ``error``; without one, ENOTSUP (rule P4)."""
        self._journal.fail_sends(zmq.ZMQError(zmq.ENOTSUP) if error is None else error, times)

    def finish(self) -> list[str]:
        """Put the engine's function back, and close what the engine left open.

        A live socket under a thread that the engine has not stopped is named, and left alone.

        Returns:
            One line for each socket that the engine left open (rule K4).
        """
        if self._replacement is not None:
            self._replacement.undo()
            self._replacement = None
        leaks = [
            f"a {record.kind} socket, {_bound(record)}, opened at {record.opened_at}, was left open"
            for _, record in self._opened
            if not record.closed
        ]
        stray = stray_threads(self._threads)
        if leaks and stray and self._mode == "live":
            return [f"{leak}; {left_alone(stray)}" for leak in leaks]
        for socket, _ in self._opened:
            socket.close(linger=0)
        self._opened.clear()
        if self._context is not None and not terminate(self._context, self._timeout):
            leaks.append(f"the context of the capture of {self._target} does not terminate")
        self._context = None
        return leaks

    def unseen(self) -> list[LoadwireError]:
        """What went wrong in the harness, was not raised here yet, and the engine may have hidden.

        Asking once is enough: what is returned counts as seen.
        """
        return self._journal.take_kept()

    def _wrap(self, found: Any) -> Any:
        """The engine's function with our sockets inside, in the descriptor that it came in."""
        __tracebackhide__ = True
        if isinstance(found, staticmethod | classmethod):
            return type(found)(self._wrap(found.__func__))
        if inspect.isclass(found):
            raise TargetError(
                f"{self._target!r} is a class; name the method that opens the socket, "
                f"for example '{self._target}.__init__'"
            )
        if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
            raise TargetError(f"{self._target!r} is async; only plain functions can be captured")
        if not callable(found):
            raise TargetError(f"{self._target!r} is no function, but {found!r}")
        if hasattr(found, _CAPTURED):
            raise TargetError(f"{self._target!r} is captured already")

        @functools.wraps(found)
        def open_captured(*args: Any, **kwargs: Any) -> Any:
            before = len(self._opened)
            self._calls += 1
            with divert_sockets(self._make_socket):
                result = found(*args, **kwargs)
            self._check_result(result, opened=len(self._opened) > before)
            return result

        setattr(open_captured, _CAPTURED, True)
        return open_captured

    def _make_socket(self, context: Any, kind: int) -> Any:
        """Stands in for `zmq.Context.socket` while the engine opens its socket."""
        if kind not in (zmq.PUB, zmq.XPUB):
            return None
        asyncio = sys.modules.get("zmq.asyncio")
        if asyncio is not None and isinstance(context, asyncio.Context):
            raise self._journal.keep(
                LoadwireError(
                    f"{self._target} opens its socket on a zmq.asyncio.Context; only plain sockets "
                    "can be captured"
                )
            )
        with self._lock:
            record = self._journal.open(kind, str(caller_site()))
            socket: StubSocket | LiveSocket
            if self._mode == "stub":
                socket = StubSocket(context, kind, self._journal, record)
            else:
                socket = self._live_socket(kind, record)
            self._opened.append((socket, record))
        # What a context sets on each of its sockets is set on this one too.
        for option, value in context.sockopts.items():
            with suppress(zmq.ZMQError):
                socket.setsockopt(option, value)
        return socket

    def _live_socket(self, kind: int, record: SocketRecord) -> LiveSocket:
        with privately():
            if self._context is None:
                self._context = zmq.Context()
            socket = cast("LiveSocket", self._context.socket(kind, socket_class=LiveSocket))
        socket.adopt(self._journal, record)
        return socket

    def _check_result(self, result: object, *, opened: bool) -> None:
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise self._journal.keep(
                TargetError(f"{self._target!r} is async; only plain functions can be captured")
            )
        # A method that opens nothing may just be off; one that returns something claims a socket.
        if result is not None and not opened:
            raise self._journal.keep(
                LoadwireError(
                    f"{self._target} returned {result!r} without asking a zmq.Context for a PUB "
                    "socket, so nothing can be captured"
                )
            )

    def _why_none(self) -> str:
        if self._opened or self._journal.messages:
            return ""
        if not self._calls:
            return (
                f"; {self._target} was never called. Is that the name by which the engine calls "
                "it? A `from x import y` makes a second one"
            )
        return (
            f"; {self._target} was called {self._calls} time(s) and asked no zmq.Context for a PUB "
            "socket"
        )


def _bound(record: SocketRecord) -> str:
    return f"bound to {', '.join(record.bind_calls)}" if record.bind_calls else "never bound"
