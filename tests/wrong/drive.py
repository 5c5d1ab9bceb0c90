"""Runs the contract classes' own tests on one implementation, without a nested pytest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_loadwire.contract.decoder import DecoderContract
from pytest_loadwire.contract.wire import WireContract
from pytest_loadwire.witness import STRICT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_loadwire.contract.base import Contract

POLICIES = {policy.value: answer for policy, answer in STRICT.items()}

_SAYS = re.compile(r"(?P<rule>[A-Z]\d+) (?P<deed>[a-z-]+): ")


class Catch(NamedTuple):
    """One failed contract test.

    Attributes:
        case: The id of the case, without its rule: that of a vector, with a spelling behind `/`.
        rules: The rule in the test's id, and the one that the failure names.
        deed: In what way the implementation failed.
    """

    case: str
    rules: frozenset[str]
    deed: str

    @property
    def vector(self) -> str:
        """The vector's id."""
        return self.case.partition("/")[0]


class _Metafunc:
    """What `pytest_generate_tests` of a contract class asks of pytest."""

    def __init__(self, fixture: str) -> None:
        self.fixturenames = [fixture]
        self.cases: list[Any] = []

    def parametrize(self, _: str, cases: Iterable[Any]) -> None:
        self.cases = [case for case in cases if not case.marks]


def catches(contract: Contract) -> tuple[Catch, ...]:
    """Every failure of the contract's own tests, in their order.

    A test that ends in any other way than a failure of the contract ends this run as well, except
    for an engine that raises: pytest would show its traceback, under the rule of the test's id.
    """
    contract.test_declarations()
    return tuple(_failures(contract))


def _failures(contract: Contract) -> Iterator[Catch]:
    assert isinstance(contract, DecoderContract | WireContract)
    if isinstance(contract, DecoderContract):
        tests: dict[str, Callable[[Any], None]] = {
            "payload_form": contract.test_reads_payload,
            "frame_vector": contract.test_reads_frames,
        }
        raises: tuple[type[Exception], ...] = ()
    else:
        tests = {
            "payload_vector": contract.test_sends_canonical_bytes,
            "forbidden": contract.test_never_sends_what_is_no_count,
            "burst": contract.test_sends_three_frames_in_sequence,
        }
        raises = (Exception,)
    for fixture, test in tests.items():
        metafunc: Any = _Metafunc(fixture)
        contract.pytest_generate_tests(metafunc)
        for case in metafunc.cases:
            rule, _, name = case.id.partition("-")
            try:
                test(case.values[0])
            except pytest.fail.Exception as failure:
                says = _SAYS.match(str(failure.msg))
                if says is None:
                    raise
                yield Catch(name, frozenset({rule, says["rule"]}), says["deed"])
            except raises as error:
                yield Catch(name, frozenset({rule}), type(error).__name__)
