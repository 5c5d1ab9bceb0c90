"""Runs the tests of an engine's contract class without a nested pytest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from pytest_loadwire.contract.engine import EngineContract
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.harness.session import HarnessSession

_SAYS = re.compile(r"(?P<rule>[A-Z]\d+) (?P<deed>[a-z-]+): ")


class Failure(NamedTuple):
    """One failed test of a contract class.

    Attributes:
        case: The rule and id of its case, as pytest shows them.
        rule: The rule that the failure names.
        deed: In what way the engine failed.
        text: All that is said.
    """

    case: str
    rule: str
    deed: str
    text: str


class _Metafunc:
    """What `pytest_generate_tests` of a contract class asks of pytest."""

    def __init__(self, fixturenames: list[str]) -> None:
        self.fixturenames = fixturenames
        self.fixture = ""
        self.cases: list[Any] = []

    def parametrize(self, fixture: str, cases: list[Any]) -> None:
        self.fixture = fixture
        self.cases = [case for case in cases if not case.marks]


def _failure(case: str, text: str) -> Failure:
    says = _SAYS.match(text)
    assert says is not None, text
    return Failure(case, says["rule"], says["deed"], text)


def _failures(kind: type[EngineContract], mode: str, timeout: float) -> Iterator[Failure]:
    kind().test_declarations()
    for name in dir(kind):
        if not name.startswith("test_") or name == "test_declarations":
            continue
        wanted = [*inspect.signature(getattr(kind, name)).parameters][1:]
        metafunc: Any = _Metafunc(wanted)
        kind().pytest_generate_tests(metafunc)  # type: ignore[attr-defined]
        for case in metafunc.cases:
            session = HarnessSession(mode=mode, timeout=timeout)
            with VirtualClock() as clock:
                fixtures: dict[str, object] = {
                    metafunc.fixture: case.values[0],
                    "loadwire_capture": session.capture,
                    "loadwire_clock": clock,
                    "make_loadwire_publisher": session.publisher,
                    "make_loadwire_subscriber": session.subscriber,
                }
                try:
                    # As pytest does: an instance for each test.
                    getattr(kind(), name)(**{fixture: fixtures[fixture] for fixture in wanted})
                except pytest.skip.Exception:
                    pass
                except pytest.fail.Exception as failure:
                    yield _failure(case.id, str(failure.msg))
                finally:
                    session.finish()


@cache
def _cached(kind: type[EngineContract], mode: str, timeout: float) -> tuple[Failure, ...]:
    return tuple(_failures(kind, mode, timeout))


@pytest.fixture
def failures_of() -> Callable[..., tuple[Failure, ...]]:
    """Every failure of a contract class's own tests: `(kind, mode="stub", timeout=5.0)`."""

    def failures(
        kind: type[EngineContract], mode: str = "stub", timeout: float = 5.0
    ) -> tuple[Failure, ...]:
        return _cached(kind, mode, timeout)

    return failures
