"""Reports, as small as they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_loadwire.report.record import Report, report_of
from pytest_loadwire.vectors import load

MakeCase = Callable[..., Any]
MakeReport = Callable[..., Report]


def make_case(
    rule: str = "W9",
    case: str = "too-short",
    outcome: str = "failed",
    *,
    hazard: str | None = "attracts-all",
    **more: Any,
) -> dict[str, Any]:
    found = {
        "rule": rule,
        "deed": "accepted",
        "expected": "a refusal",
        "got": "an idle worker",
        "hazard": hazard,
    }
    return {
        "rule": rule,
        "case": case,
        "outcome": outcome,
        "why": "an idle worker draws all traffic",
        "text": "",
        "finding": found if hazard else None,
        "bytes": {"frames": ["91a84c6f616453746174"], "message": False, "against": None},
        "notes": [],
        "test": f"test_router.py::TestRouter::test_reads[{rule}-{case}]",
    } | more


def make_report(
    *cases: dict[str, Any],
    name: str = "router",
    side: str = "router",
    vectors: str | None = None,
    passed: dict[str, list[str]] | None = None,
    deviations: list[Any] | None = None,
    **more: Any,
) -> Report:
    run: Any = {
        "name": name,
        "kind": "pytest",
        "command": "pytest --loadwire-report=router.json",
        "started": "2026-11-30T12:00:00+00:00",
        "seconds": 1.5,
        "vectors": vectors or load().content_hash,
        "versions": {"python": "3.11.7", "pytest-loadwire": "0.1.0"},
        "problems": [],
        "not_run": [],
        "implementations": [
            {
                "name": name,
                "version": "1.2",
                "side": side,
                "parts": [
                    {
                        "name": "test_router.py::TestRouter",
                        "contract": "DecoderContract",
                        "revision": 2,
                        "policies": {"NilTail": "reject"},
                        "deviations": deviations or [],
                    }
                ],
                "passed": {"W1": ["tag-prefix", "tag-suffix"]} if passed is None else passed,
                "cases": list(cases),
            }
        ],
    }
    return report_of([run | more])


@pytest.fixture(name="make_case", scope="session")
def _make_case() -> MakeCase:
    """Makes one case of a report: `(rule, case, outcome, *, hazard, ...)`."""
    return make_case


@pytest.fixture(name="make_report", scope="session")
def _make_report() -> MakeReport:
    """Makes a report of one run with these cases: `(*cases, name, side, vectors, ...)`."""
    return make_report
