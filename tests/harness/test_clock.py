"""The clock that a test moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType

import pytest

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.clock import ClockError, VirtualClock
from pytest_loadwire.harness.target import TargetError

# How a module gets at the monotonic clock, and how it then reads it.
SPELLINGS = [
    ("import time", "time.monotonic()", "time.monotonic_ns()"),
    ("import time as t", "t.monotonic()", "t.monotonic_ns()"),
    ("from time import monotonic, monotonic_ns", "monotonic()", "monotonic_ns()"),
    ("from time import monotonic as now, monotonic_ns as ns", "now()", "ns()"),
]


@pytest.mark.parametrize(("imports", "seconds", "nanoseconds"), SPELLINGS)
def test_a_module_sees_the_clock(
    load_module: Callable[..., ModuleType], imports: str, seconds: str, nanoseconds: str
) -> None:
    """However a module imports the clock, it reads the virtual one until that is uninstalled."""
    module = load_module(f"{imports}\ndef read():\n    return {seconds}, {nanoseconds}\n", "timed")
    with VirtualClock(5.0) as clock:
        clock.install("timed")
        assert module.read() == (5.0, 5_000_000_000)
        clock.advance(0.25)
        assert module.read() == (5.25, 5_250_000_000)
    assert abs(module.read()[0] - time.monotonic()) < 60


def test_nobody_else_notices(engine: ModuleType) -> None:
    """The time module itself is untouched, and the rest of it works through the replacement."""
    real = time.monotonic
    with VirtualClock() as clock:
        clock.install(engine)
        assert time.monotonic is real
        assert engine.now() == 1000.0
        assert engine.time.sleep is time.sleep
        assert engine.time.time() > 0
    assert engine.time is time


def test_the_clock_only_moves_on() -> None:
    """A monotonic clock advances, jumps ahead or stands still, and refuses to go back."""
    clock = VirtualClock()
    assert clock() == clock.monotonic() == 1000.0
    assert clock.advance(0) == 1000.0
    assert clock.advance(0.5) == 1000.5
    assert clock.set(2000) == 2000.0
    assert repr(clock) == "<VirtualClock at 2000 s>"
    for back in (
        lambda: clock.advance(-0.5),
        lambda: clock.set(1999.5),
        lambda: clock.set(float("nan")),
    ):
        with pytest.raises(ClockError, match="cannot go to"):
            back()
    assert clock() == 2000.0
    assert issubclass(ClockError, LoadwireError)


def test_a_module_without_a_clock_is_an_error(load_module: Callable[..., ModuleType]) -> None:
    """A module that has neither the time module nor its function is named."""
    load_module("from datetime import datetime as time\n", "timeless")
    with pytest.raises(TargetError, match=r"^timeless has neither"):
        VirtualClock().install("timeless")
    with pytest.raises(TargetError, match=r"^there is no module 'no_such\.module'"):
        VirtualClock().install("no_such.module")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        load_module("import no_such_dependency\n", "broken")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        VirtualClock().install("broken")


def test_several_modules_share_a_clock(load_module: Callable[..., ModuleType]) -> None:
    """One clock can be installed into several modules, and leaves all of them."""
    source = "import time\ndef now():\n    return time.monotonic()\n"
    modules = [load_module(source, name) for name in ("first", "second")]
    clock = VirtualClock(1.0)
    for module in modules:
        clock.install(module)
    assert [module.now() for module in modules] == [1.0, 1.0]
    clock.uninstall()
    clock.uninstall()
    assert all(module.time is time for module in modules)
