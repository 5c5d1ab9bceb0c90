"""Reads reports, joins them, and counts their cases: the matrix of rules and implementations."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_loadwire.report.record import (
    FORMAT,
    NO_RULE,
    SCHEMA,
    UNDECLARED,
    ReportError,
    report_of,
)
from pytest_loadwire.rules import RULES, Hazard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_loadwire.report.record import Case, Implementation, Report, Run

NO_VERDICT = "failed without a verdict"
"""What failures are counted as whose test failed by itself."""

OUT_OF_DATE = "out-of-date declarations"
"""What cases are counted as that conform although a deviation is declared."""


class Cell(NamedTuple):
    """What one implementation made of one rule.

    Attributes:
        passed: How many cases passed.
        failed: How many failed without a declaration, or have one that is out of date.
        declared: How many deviate as declared.
        skipped: How many were not judged.
    """

    passed: int = 0
    failed: int = 0
    declared: int = 0
    skipped: int = 0

    @property
    def state(self) -> str:
        """``failed``, ``declared``, ``ok`` or ``not-run``, the worst that is there."""
        if self.failed:
            return "failed"
        if self.declared:
            return "declared"
        return "ok" if self.passed else "not-run"

    @property
    def word(self) -> str:
        """The state in a word and a count, so that nothing hangs on a colour."""
        return {
            "failed": f"FAILED {self.failed}",
            "declared": f"declared {self.declared}",
            "ok": f"ok {self.passed}",
            "not-run": "not run",
        }[self.state]

    @property
    def rest(self) -> str:
        """The counts that the word does not say."""
        counts = {"ok": self.passed, "declared": self.declared, "not judged": self.skipped}
        return ", ".join(
            f"{count} {name}" for name, count in counts.items() if count and name != self.state
        )


def read(path: Path) -> Report:
    """One report.

    Raises:
        ReportError: It cannot be read or is no report; the message says where it breaks the schema.
    """
    import jsonschema  # noqa: PLC0415 - of the cli extra

    try:
        report: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is no JSON: {error}") from None
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise ReportError(
            f'{path} is no report: "format" at $ is not {FORMAT!r};'
            " `pytest --loadwire-report=FILE.json` and `loadwire testee --report FILE.json`"
            " write one"
        )
    schema = json.loads(SCHEMA.read_text("utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(report)
    worst = jsonschema.exceptions.best_match(errors)
    if worst is not None:
        raise ReportError(f"{path}: {worst.json_path}: {worst.message[:300]}")
    return cast("Report", report)


def merge(reports: Iterable[tuple[str, Report]], *, mixed: bool = False) -> Report:
    """All runs of some reports as one, every implementation with a name of its own.

    Args:
        reports: Each report behind what to call it in an error.
        mixed: Whether runs with different vectors may stand side by side.

    Raises:
        ReportError: The vectors differ.
    """
    runs: list[Run] = []
    hashes: dict[str, str] = {}
    for source, report in reports:
        for run in report["runs"]:
            hashes.setdefault(run["vectors"], source)
            runs.append(run)
    if len(hashes) > 1 and not mixed:
        told = "; ".join(f"{source} has {digest[:12]}" for digest, source in hashes.items())
        raise ReportError(
            f"the runs had different vectors: {told}. Run them again with one version of the kit,"
            " or give --mixed to put them side by side all the same"
        )
    return report_of(_told_apart(runs))


def _told_apart(runs: Sequence[Run]) -> Iterator[Run]:
    taken: set[tuple[str, str]] = set()
    for run in runs:
        named: list[Implementation] = []
        for one in run["implementations"]:
            name, number = one["name"], 1
            while (name, one["side"]) in taken:
                number += 1
                name = f"{one['name']} ({number})"
            taken.add((name, one["side"]))
            named.append({**one, "name": name})
        yield {**run, "implementations": named}


def implementations(report: Report) -> list[tuple[Run, Implementation]]:
    """Every implementation with its run, engines first."""
    found = [(run, one) for run in report["runs"] for one in run["implementations"]]
    order = ("engine", "both", "router")
    return sorted(found, key=lambda pair: order.index(pair[1]["side"]))


def cells(one: Implementation) -> dict[str, Cell]:
    """The cells of one implementation by rule."""
    counted: Counter[tuple[str, str]] = Counter()
    for rule, ids in one["passed"].items():
        counted[rule, "passed"] += len(ids)
    for case in one["cases"]:
        what = "failed" if case["outcome"] in UNDECLARED else case["outcome"]
        counted[case["rule"], what] += 1
    return {
        rule: Cell(**{field: counted[rule, field] for field in Cell._fields})
        for rule in {rule for rule, _ in counted}
    }


def rows(report: Report) -> list[str]:
    """The rules that any implementation was asked about, in the order of the contract."""
    asked = {rule for _, one in implementations(report) for rule in cells(one)}
    known = [*RULES, NO_RULE]
    return [*(rule for rule in known if rule in asked), *sorted(asked - set(known))]


def undeclared(report: Report) -> Iterator[tuple[Implementation, Case]]:
    """Every failure that no declaration covers, and every declaration that is out of date."""
    for _, one in implementations(report):
        for case in one["cases"]:
            if case["outcome"] in UNDECLARED:
                yield one, case


def hazards(report: Report) -> dict[str, int]:
    """How many failures have which hazard, the worst first.

    Behind the hazards are ``failed without a verdict``, for tests that failed by themselves, and
    ``out-of-date declarations``.
    """
    counted: Counter[str] = Counter()
    for _, case in undeclared(report):
        if case["outcome"] == "stale":
            counted[OUT_OF_DATE] += 1
        elif case["finding"] is None:
            counted[NO_VERDICT] += 1
        else:
            counted[case["finding"]["hazard"]] += 1
    order = [*(hazard.value for hazard in Hazard), NO_VERDICT, OUT_OF_DATE]
    return {name: counted[name] for name in order if counted[name]}


def is_empty(report: Report) -> bool:
    """Whether nothing was judged and nothing went wrong: there is nothing to say."""
    judged = any(
        one["passed"] or any(case["outcome"] != "skipped" for case in one["cases"])
        for _, one in implementations(report)
    )
    return not judged and report["ok"]
