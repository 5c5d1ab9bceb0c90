"""One reader's conformance, as ``loadwire testee`` finds it, as a run in a report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_loadwire.report import record
from pytest_loadwire.report.record import NO_RULE, plain

if TYPE_CHECKING:
    from pytest_loadwire.conform import Conformance, Failure
    from pytest_loadwire.report.record import Case, Implementation, Run


def run_of(result: Conformance, *, version: str, command: str, vectors: str, began: float) -> Run:
    """A run with one implementation.

    Args:
        result: What the reader made of the vectors.
        version: The reader's version.
        command: The command that does it again.
        vectors: The content hash of the vectors.
        began: When it began, in seconds since the epoch.
    """
    one: Implementation = {
        "name": result.name,
        "version": version,
        "side": "router",
        "parts": [
            {
                "name": result.name,
                "contract": "testee",
                "revision": result.revision,
                "policies": {str(policy): answer for policy, answer in result.policies.items()},
                "deviations": [],
            }
        ],
        "passed": {rule: list(cases) for rule, cases in result.passed_cases.items()},
        "cases": [_case(failure) for failure in result.failures],
    }
    adapter = [] if result.adapter is None else [plain(result.adapter)]
    return {
        "name": result.name,
        "kind": "testee",
        "command": command,
        "started": record.utc(began),
        "seconds": round(time.time() - began, 3),
        "vectors": vectors,
        "versions": record.versions(),
        "problems": [f"the adapter does not work: {text}" for text in adapter],
        "not_run": [{"what": what, "why": why} for what, why in result.not_run.items()],
        "implementations": [one],
    }


def _case(failure: Failure) -> Case:
    found = failure.finding
    return {
        "rule": failure.rule or NO_RULE,
        "case": failure.case,
        "outcome": "failed",
        "why": plain(failure.why),
        "text": "",
        "finding": {
            "rule": str(found.rule),
            "deed": str(found.deed),
            "expected": plain(found.expected),
            "got": plain(found.got),
            "hazard": str(found.hazard),
        },
        "bytes": record.bytes_of(failure.frames, message=failure.is_message),
        "notes": [],
        "test": failure.case,
    }
