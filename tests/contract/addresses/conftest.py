"""Runs the tests of an address class on one implementation, without a nested pytest."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pytest_loadwire.contract.addressing import AddressContract

_SAYS = re.compile(r"(?P<rule>[A-Z]\d+) (?P<deed>[a-z-]+): ")


class Outcome(NamedTuple):
    """How one contract test ended.

    Attributes:
        case: The id of its case, without the rule.
        how: `passed`, `failed`, `xfailed` or `skipped`.
        rule: The rule that a failure names, else that of the id.
        deed: In what way the implementation failed.
        text: What the report says.
    """

    case: str
    how: str
    rule: str = ""
    deed: str = ""
    text: str = ""


class _Metafunc:
    """What `pytest_generate_tests` of a contract class asks of pytest."""

    def __init__(self, fixturenames: list[str]) -> None:
        self.fixturenames = fixturenames
        self.fixture = ""
        self.cases: list[Any] = []

    def parametrize(self, fixture: str, cases: list[Any]) -> None:
        self.fixture, self.cases = fixture, list(cases)


def _run(contract: AddressContract, caplog: pytest.LogCaptureFixture) -> Iterator[Outcome]:
    for name, test in inspect.getmembers(contract, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        wanted = list(inspect.signature(test).parameters)
        metafunc: Any = _Metafunc(wanted)
        contract.pytest_generate_tests(metafunc)  # type: ignore[attr-defined]
        if not metafunc.fixture:
            yield _ended(name, test)
        for case in metafunc.cases:
            if case.marks:
                yield Outcome(case.id, "skipped", text=case.marks[0].kwargs["reason"])
                continue
            fixtures = {metafunc.fixture: case.values[0], "caplog": caplog}
            given = {fixture: fixtures[fixture] for fixture in wanted}
            yield _ended(case.id, lambda test=test, given=given: test(**given))


def _ended(case: str, call: Callable[[], None]) -> Outcome:
    rule, _, name = case.partition("-") if "-" in case else ("", "", case)
    try:
        call()
    except pytest.xfail.Exception as failure:  # a kind of failure, so it comes first
        return Outcome(name, "xfailed", rule, text=str(failure.msg))
    except pytest.skip.Exception as skip:
        return Outcome(name, "skipped", rule, text=str(skip.msg))
    except pytest.fail.Exception as failure:
        text = str(failure.msg)
        says = _SAYS.match(text)
        if says is None:
            return Outcome(name, "failed", rule, "", text)
        return Outcome(name, "failed", says["rule"], says["deed"], text)
    return Outcome(name, "passed", rule)


_DONE: dict[type[AddressContract], list[Outcome]] = {}


@pytest.fixture
def outcomes(caplog: pytest.LogCaptureFixture) -> Callable[[type[AddressContract]], list[Outcome]]:
    """How each test of a contract class ends; each class is run once."""

    def run(kind: type[AddressContract]) -> list[Outcome]:
        if kind not in _DONE:
            _DONE[kind] = list(_run(kind(), caplog))
        return _DONE[kind]

    return run
