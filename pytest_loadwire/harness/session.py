"""Everything live that one test uses: handed out here, closed and checked here at its end."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pytest_loadwire.harness.capture import Capture
from pytest_loadwire.harness.hygiene import SocketWatch
from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber

if TYPE_CHECKING:
    from pytest_loadwire.engine.fleet import Fleet
    from pytest_loadwire.errors import LoadwireError


class HarnessSession:
    """Watches for leaks from its start to `finish`, and closes what it handed out.

    Args:
        mode: How captures work unless told otherwise, ``stub`` or ``live``.
        timeout: Seconds that each wait may take unless told otherwise.
    """

    def __init__(self, *, mode: str, timeout: float) -> None:
        self._mode = mode
        self._timeout = timeout
        self._captures: list[Capture] = []
        self._handed_out = ExitStack()
        self._watch = SocketWatch(timeout=timeout)
        self._watch.start()

    def publisher(self, *args: Any, **kwargs: Any) -> LivePublisher:
        """A `LivePublisher`."""
        __tracebackhide__ = True
        kwargs.setdefault("timeout", self._timeout)
        return self._handed_out.enter_context(LivePublisher(*args, **kwargs))

    def subscriber(self, *args: Any, **kwargs: Any) -> LiveSubscriber:
        """A `LiveSubscriber`."""
        __tracebackhide__ = True
        kwargs.setdefault("timeout", self._timeout)
        return self._handed_out.enter_context(LiveSubscriber(*args, **kwargs))

    def fleet(self, *args: Any, **kwargs: Any) -> Fleet:
        """A `Fleet`."""
        __tracebackhide__ = True
        from pytest_loadwire.engine.fleet import Fleet  # noqa: PLC0415 - few tests need it

        kwargs.setdefault("timeout", self._timeout)
        return self._handed_out.enter_context(Fleet(*args, **kwargs))

    def capture(self, target: str, mode: str | None = None, **kwargs: Any) -> Capture:
        """A `Capture`, in place at once."""
        __tracebackhide__ = True
        kwargs.setdefault("timeout", self._timeout)
        capture = Capture(target, mode=self._mode if mode is None else mode, **kwargs)
        self._captures.append(capture)
        return capture

    def finish(self, *, keep_open: bool = False) -> tuple[list[LoadwireError], list[str]]:
        """Close what was handed out, and say what went wrong unseen and what was left open.

        Args:
            keep_open: What somebody else opened stays open and is no leak.

        Returns:
            Errors that an engine may have swallowed, and one line for each leak.
        """
        leaks = [leak for capture in self._captures for leak in capture.finish()]
        errors = [error for capture in self._captures for error in capture.unseen()]
        self._captures.clear()
        self._handed_out.close()
        if keep_open:
            self._watch.forget()
            leaks = []
        return errors, leaks + self._watch.finish()
