"""The pytest face of the harness: options, fixtures, and what a failure shows.

Nothing but pytest is imported until a fixture needs it, so that a run which asks for nothing of
ours pays for nothing of ours.
"""

# ruff: noqa: PLC0415 - see above: imports wait for the fixture that needs them

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_loadwire.engine.fleet import Fleet
    from pytest_loadwire.harness.capture import Capture
    from pytest_loadwire.harness.clock import VirtualClock
    from pytest_loadwire.harness.native import NativeDecoder
    from pytest_loadwire.harness.session import HarnessSession
    from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber
    from pytest_loadwire.vectors import Golden

pytest.register_assert_rewrite("pytest_loadwire.contract", "pytest_loadwire.harness")

DEFAULT_SOCKET = "stub"
NATIVE_VARIABLE = "LOADWIRE_NATIVE"

_NO_NATIVE = "loadwire_native: "


class Settings(NamedTuple):
    """What the options and the ini file ask for.

    Attributes:
        socket: ``stub`` or ``live``.
        timeout: Seconds that each wait may take.
        native: The shared library to check, or None for the one that belongs to the kit.
    """

    socket: str
    timeout: float
    native: Path | None


_settings = pytest.StashKey[Settings]()
_session = pytest.StashKey["HarnessSession"]()
_failed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each over an ini key of the same name."""
    group = parser.getgroup("loadwire", "load sockets of engines and routers")
    group.addoption(
        "--loadwire-socket",
        metavar="stub|live",
        help="what loadwire_capture puts behind an engine's socket: a stub (default), or a real "
        "socket on a loopback port",
    )
    group.addoption(
        "--loadwire-timeout",
        metavar="SECONDS",
        help="how long any wait of a loadwire fixture may take (default 5)",
    )
    group.addoption(
        "--loadwire-native",
        metavar="PATH",
        help="shared library with the C ABI of loadwire.h for loadwire_native, in place of the "
        f"kit's own; the environment variable {NATIVE_VARIABLE} does the same",
    )
    group.addoption(
        "--loadwire-report",
        metavar="FILE",
        help="write what the contract classes found to FILE: .json, or .html for one page",
    )
    group.addoption(
        "--loadwire-name",
        metavar="NAME",
        help="what the report calls this run, and the code that it tests where a class does not "
        "set `implementation`",
    )
    parser.addini("loadwire_socket", "as --loadwire-socket", default=DEFAULT_SOCKET)
    parser.addini("loadwire_timeout", "as --loadwire-timeout", default="5")
    parser.addini("loadwire_native", "as --loadwire-native, relative to the ini file", default="")
    parser.addini("loadwire_report", "as --loadwire-report, relative to the ini file", default="")
    parser.addini("loadwire_name", "as --loadwire-name", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, refuse bad ones, and register the marker."""
    config.addinivalue_line(
        "markers",
        "loadwire_leaves_open(reason): sockets and contexts that this test leaves open are no "
        "failure; for those that a wider fixture owns",
    )
    config.stash[_settings] = Settings(
        socket=_socket_mode(config), timeout=_timeout(config), native=_native(config)
    )
    _start_report(config)


def pytest_report_header(config: pytest.Config) -> str:
    """Say in one line how the fixtures of this run work."""
    settings = config.stash[_settings]
    native = f", native={settings.native}" if settings.native else ""
    return f"loadwire: socket={settings.socket}, timeout={settings.timeout:g} s{native}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that left something open, once all of its fixtures are torn down.

    In a teardown of our own fixtures it would be too early: a fixture that was set up before ours
    closes its sockets behind ours.
    """
    session = item.config.stash.get(_session, None)
    if session is None:
        return
    del item.config.stash[_session]
    keep_open = item.get_closest_marker("loadwire_leaves_open") is not None
    errors, leaks = session.finish(keep_open=keep_open)
    problems = [f"{type(error).__name__}: {error}" for error in errors]
    # What a failed test left open is the consequence, and would bury the cause.
    if not item.stash.get(_failed, False):
        problems += leaks
    if problems:
        pytest.fail("loadwire: " + "\n".join(problems), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note a failure. If it was in the teardown, ours was not reached: clean up all the same."""
    # A test may be run again, and starts afresh then.
    earlier = call.when != "setup" and item.stash.get(_failed, False)
    item.stash[_failed] = earlier or call.excinfo is not None
    session = item.config.stash.get(_session, None)
    if call.when == "teardown" and session is not None:
        del item.config.stash[_session]
        session.finish()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show two load messages element by element instead of as byte strings."""
    if op != "==":
        return None
    if _is_message(left) and _is_message(right):
        return _compare_messages([left], [right])
    if _are_messages(left) and _are_messages(right):
        return _compare_messages(list(left), list(right))
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not run because there is no native decoder."""
    reasons = [
        report.longrepr[2].partition(_NO_NATIVE)[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and _NO_NATIVE in report.longrepr[2]
    ]
    if reasons:
        terminalreporter.write_line(
            f"loadwire: {len(reasons)} test(s) of the native decoder NOT RUN: {reasons[0]}",
            yellow=True,
        )


@pytest.fixture
def loadwire_publisher(request: pytest.FixtureRequest) -> LivePublisher:
    """A live engine end of a load socket, on an ephemeral loopback port."""
    return _harness(request.config).publisher()


@pytest.fixture
def make_loadwire_publisher(request: pytest.FixtureRequest) -> Callable[..., LivePublisher]:
    """Makes live publishers: `(host="127.0.0.1", port=0, *, sheds=False, timeout=...)`."""
    return _harness(request.config).publisher


@pytest.fixture
def make_loadwire_subscriber(request: pytest.FixtureRequest) -> Callable[..., LiveSubscriber]:
    """Makes live subscribers: `(endpoint or publisher, *, topic=b"load", revision=..., ...)`."""
    return _harness(request.config).subscriber


@pytest.fixture
def loadwire_fleet(request: pytest.FixtureRequest) -> Callable[..., Fleet]:
    """Makes fake engines on loopback: `(scenario="steady", *, workers=1, ranks=1, ...)`."""
    return _harness(request.config).fleet


@pytest.fixture
def loadwire_capture(request: pytest.FixtureRequest) -> Callable[..., Capture]:
    """Replaces the function that opens an engine's socket: `("engine.module.open_socket")`."""
    return _harness(request.config).capture


@pytest.fixture
def loadwire_clock() -> Iterator[VirtualClock]:
    """A monotonic clock that the test moves, and installs into a module."""
    from pytest_loadwire.harness.clock import VirtualClock

    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def loadwire_golden() -> Golden:
    """Every golden vector, as typed records."""
    from pytest_loadwire import vectors

    return vectors.load()


@pytest.fixture
def loadwire_native(request: pytest.FixtureRequest) -> NativeDecoder:
    """A decoder behind the C ABI. Without one the test is not run, and fails under CI."""
    from pytest_loadwire.harness import native

    path = request.config.stash[_settings].native
    try:
        return native.load(None if path is None else str(path))
    except native.NativeUnavailable as error:
        # Who names a library, or lets a machine judge, wants it checked and not passed over.
        if path is not None or os.environ.get("CI"):
            pytest.fail(f"{_NO_NATIVE}{error}", pytrace=False)
        pytest.skip(f"{_NO_NATIVE}{error}")


def _harness(config: pytest.Config) -> HarnessSession:
    """The harness of the test that runs now, from its first use on."""
    session = config.stash.get(_session, None)
    if session is None:
        from pytest_loadwire.harness.session import HarnessSession

        settings = config.stash[_settings]
        session = HarnessSession(mode=settings.socket, timeout=settings.timeout)
        config.stash[_session] = session
    return session


def _option(config: pytest.Config, name: str) -> tuple[str, str]:
    """The value of an option, and what to call it in an error."""
    value = config.getoption(f"--loadwire-{name}")
    if value is not None:
        return str(value), f"--loadwire-{name}"
    return str(config.getini(f"loadwire_{name}")), f"loadwire_{name} in the ini file"


def _socket_mode(config: pytest.Config) -> str:
    value, source = _option(config, "socket")
    if value == DEFAULT_SOCKET:  # nothing of ours was asked for, so nothing of it is imported
        return value
    from pytest_loadwire.socket_mode import SOCKET_MODES

    if value not in SOCKET_MODES:
        raise pytest.UsageError(f"{source} must be one of {', '.join(SOCKET_MODES)}, not {value!r}")
    return value


def _timeout(config: pytest.Config) -> float:
    value, source = _option(config, "timeout")
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise pytest.UsageError(f"{source} must be a number of seconds above 0, not {value!r}")
    return seconds


def _native(config: pytest.Config) -> Path | None:
    """The library that was named: on the command line, in the environment, or in the ini file."""
    value, source = _option(config, "native")
    base = Path(config.inipath).parent if config.inipath else config.rootpath
    if config.getoption("--loadwire-native") is not None:
        base = config.invocation_params.dir
    elif NATIVE_VARIABLE in os.environ:
        value, source, base = os.environ[NATIVE_VARIABLE], NATIVE_VARIABLE, Path.cwd()
    if not value:
        return None
    path = base / value
    if not path.is_file():
        raise pytest.UsageError(f"{source} must be the path of a shared library, not {value!r}")
    return path


def _start_report(config: pytest.Config) -> None:
    """Record the run, if a report is asked for and could be written."""
    value, source = _option(config, "report")
    if not value:
        return
    from pytest_loadwire.report.collect import Recorder
    from pytest_loadwire.report.record import ReportError, check_target

    base = Path(config.inipath).parent if config.inipath else config.rootpath
    if config.getoption("--loadwire-report") is not None:
        base = config.invocation_params.dir
    path = base / value
    if not hasattr(config, "workerinput"):  # a worker of xdist only sends what it found
        try:
            check_target(path)
        except ReportError as error:
            raise pytest.UsageError(f"{source} {error}") from None
    name, _ = _option(config, "name")
    config.pluginmanager.register(Recorder(config, path, name), "loadwire-report")


def _compare_messages(left: list[Any], right: list[Any]) -> list[str] | None:
    """The first message that differs; None where that is no load message, or their number is."""
    for number, (ours, theirs) in enumerate(zip(left, right, strict=False)):
        if ours == theirs:
            continue
        if not (_is_load(ours) or _is_load(theirs)):
            return None
        from pytest_loadwire.annotate import compare_frames
        from pytest_loadwire.errors import WireError

        try:
            lines = compare_frames(_as_frames(ours), _as_frames(theirs))
        except WireError:
            # A message with a value that no frames can hold; pytest shows it as any other tuple.
            return None
        return lines if len(left) == len(right) == 1 else [f"message {number}:", *lines]
    return None


def _are_messages(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether this is a list of messages."""
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    """Whether this is a sequence of frames, or a parsed message."""
    if _is_parsed(value):
        return True
    return isinstance(value, list | tuple) and all(isinstance(frame, bytes) for frame in value)


def _is_parsed(value: object) -> bool:
    # A message can only exist where its module was imported already.
    wire: Any = sys.modules.get("pytest_loadwire.wire")
    return wire is not None and isinstance(value, wire.Message)


def _is_load(value: Any) -> bool:
    """Whether this is a load message by its looks, so that others' bytes are left alone."""
    return _is_parsed(value) or (len(value) == 3 and value[0] == b"load")


def _as_frames(value: Any) -> tuple[bytes, ...]:
    if not _is_parsed(value):
        return tuple(value)
    from pytest_loadwire.wire import build_frames

    return build_frames(*value)
