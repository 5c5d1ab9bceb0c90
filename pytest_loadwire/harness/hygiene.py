"""Nothing stays open: a socket or a context that outlives its test is named, then closed."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import zmq

from pytest_loadwire.deadline import DEFAULT_TIMEOUT
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.endpoint import last_endpoint
from pytest_loadwire.harness.seam import Site, caller_site, observe

if TYPE_CHECKING:
    from typing_extensions import Self


class LeakError(LoadwireError):
    """Something was left open. The text names each, and where it was opened."""


class _Opened(NamedTuple):
    what: Any
    site: Site


class SocketWatch:
    """Notes every socket and context that is opened through pyzmq, until it is finished.

    What a module opens while it is imported is not counted, since it lives as long as the process;
    nor is the process-wide `zmq.Context.instance`.

    Args:
        timeout: Seconds that terminating leaked contexts may take.
    """

    def __init__(self, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = timeout
        self._sockets: list[_Opened] = []
        self._contexts: list[_Opened] = []
        self._threads: set[threading.Thread] = set()
        self._observing = ExitStack()
        self._started = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        leaks = self.finish()
        # An error that is on its way is the cause; what it left open is the consequence.
        if leaks and kind is None:
            raise LeakError("\n".join(leaks))

    def start(self) -> None:
        """Begin to look. Idempotent."""
        if not self._started:
            self._started = True
            self._threads = set(threading.enumerate())
            self._observing.enter_context(observe(self))

    def socket_opened(self, socket: zmq.Socket[Any]) -> None:
        """Part of `seam.Observer`."""
        self._note(self._sockets, socket)

    def context_opened(self, context: zmq.Context[Any]) -> None:
        """Part of `seam.Observer`."""
        self._note(self._contexts, context)

    @staticmethod
    def _note(opened: list[_Opened], what: Any) -> None:
        site = caller_site()
        if not site.at_import:
            # A strong reference: what is dropped unclosed is to be named, not collected.
            opened.append(_Opened(what, site))

    def forget(self) -> None:
        """Let everything that was opened so far live on."""
        self._sockets, self._contexts = [], []

    def finish(self) -> list[str]:
        """Stop looking, close what is still open, and say what that was, one line each. Idempotent.

        A socket may be in use by a thread that began meanwhile and still runs. Closing it under
        that thread could crash the process, so then everything is named and nothing is closed.
        """
        self._observing.close()
        sockets = [opened for opened in self._sockets if not opened.what.closed]
        contexts = [opened for opened in self._contexts if not opened.what.closed]
        self._sockets, self._contexts, self._started = [], [], False
        if not sockets and not contexts:
            return []
        stray = stray_threads(self._threads)
        if stray:
            end = f"was left open; {left_alone(stray)}"
            return [f"{_name(what)}, opened at {site}, {end}" for what, site in sockets + contexts]
        leaks = []
        for what, site in sockets:
            leaks.append(f"{_name(what)}, {_endpoint(what)}, opened at {site}, was left open")
            what.close(linger=0)
        for what, site in contexts:
            end = "" if terminate(what, self._timeout) else ", and it does not terminate"
            leaks.append(f"{_name(what)}, opened at {site}, was left open{end}")
        return leaks


def stray_threads(before: set[threading.Thread]) -> list[str]:
    """The names of the threads that began since ``before`` and still run."""
    return sorted(thread.name for thread in set(threading.enumerate()) - before)


def left_alone(stray: list[str]) -> str:
    """Why a leaked socket is not closed: under a thread that uses it, that may crash."""
    return f"it stays so, as {', '.join(stray)} still runs and may use it"


def terminate(context: zmq.Context[Any], timeout: float) -> bool:
    """Close the sockets of ``context`` with linger 0 and terminate it, within ``timeout`` seconds.

    Terminating waits for every socket of a context, without an end if one is open that we cannot
    see, so it happens in a thread that is left behind when time is up.

    Returns:
        Whether it is terminated.
    """
    thread = threading.Thread(
        target=context.destroy, kwargs={"linger": 0}, name="loadwire-terminate", daemon=True
    )
    thread.start()
    thread.join(timeout)
    return not thread.is_alive()


def _name(what: Any) -> str:
    if isinstance(what, zmq.Context):
        return "a zmq.Context"
    return f"a {zmq.SocketType(what.type).name} socket"


def _endpoint(socket: Any) -> str:
    return last_endpoint(socket) or "neither bound nor connected"
