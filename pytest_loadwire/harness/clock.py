"""A monotonic clock that stands still until a test moves it."""

from __future__ import annotations

import time
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.target import Replacement, TargetError

if TYPE_CHECKING:
    from typing_extensions import Self


class ClockError(LoadwireError, ValueError):
    """A monotonic clock was told to go back."""


class VirtualClock:
    """Stands in for `time.monotonic` in the modules that it is installed into.

    Times that a test compares should be exact in binary, such as 0.5 and 0.25: 100.05 - 100.0 is
    less than 0.05.

    Args:
        start: The first reading, in seconds. Not 0, which is what an engine may take for "never".
    """

    def __init__(self, start: float = 1000.0) -> None:
        self._now = float(start)
        self._replacements: list[Replacement] = []

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now:g} s>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def monotonic(self) -> float:
        """The reading, in seconds."""
        return self._now

    def monotonic_ns(self) -> int:
        """The reading, in nanoseconds."""
        return round(self._now * 1_000_000_000)

    __call__ = monotonic

    def advance(self, seconds: float) -> float:
        """Move on, and return the new reading.

        Raises:
            ClockError: ``seconds`` is negative.
        """
        return self.set(self._now + seconds)

    def set(self, seconds: float) -> float:
        """Move to a reading, and return it.

        Raises:
            ClockError: It lies in the past.
        """
        if not seconds >= self._now:
            raise ClockError(f"a monotonic clock at {self._now!r} s cannot go to {seconds!r} s")
        self._now = float(seconds)
        return self._now

    def install(self, module: ModuleType | str) -> None:
        """Become `time.monotonic` and `time.monotonic_ns` as ``module`` sees them.

        Finds ``import time`` and ``from time import monotonic``, under any name. The `time` module
        itself is left alone, so no other module notices. Out of reach is what was bound when a
        function was defined, as in ``def f(clock=time.monotonic)``.

        Raises:
            TargetError: There is no such module, or it has neither.
        """
        __tracebackhide__ = True
        if isinstance(module, str):
            name, module = module, _import(module)
        else:
            name = module.__name__
        stand_ins: dict[object, object] = {
            time: _TimeModule(self),
            time.monotonic: self.monotonic,
            time.monotonic_ns: self.monotonic_ns,
        }
        found = [
            (key, stand_in)
            for key, value in vars(module).items()
            for real, stand_in in stand_ins.items()
            if value is real
        ]
        if not found:
            raise TargetError(
                f"{name} has neither the time module nor time.monotonic among its names"
            )
        self._replacements += [Replacement(module, key, stand_in) for key, stand_in in found]

    def uninstall(self) -> None:
        """Give every module its own clock back. Idempotent."""
        while self._replacements:
            self._replacements.pop().undo()


class _TimeModule(ModuleType):
    """The `time` module with another monotonic clock in it."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("time", time.__doc__)
        self.monotonic = clock.monotonic
        self.monotonic_ns = clock.monotonic_ns

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


def _import(path: str) -> ModuleType:
    __tracebackhide__ = True
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not (path == error.name or path.startswith(error.name + ".")):
            raise
        raise TargetError(f"there is no module {path!r}") from None
