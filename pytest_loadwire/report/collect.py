"""Fills a report from a pytest run: a plugin that only a run with ``--loadwire-report`` has.

Each process notes what its tests found, on the reports that pytest makes; under xdist they travel
to the controller, which alone writes. The contract classes are recognised only where their module
was imported, so that nothing is imported here that the tests did not need.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire.report import record
from pytest_loadwire.report.record import NO_RULE, ReportError, plain, rules_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pytest_loadwire.report.record import Case, Implementation, NotRun, Part

_ENGINE = ("WireContract", "PublisherContract", "EndpointContract", "SchedulerContract")
_PHASES = ("setup", "call", "teardown")


class Recorder:
    """Notes what the tests of contract classes find, and writes the report.

    Args:
        config: The run's.
        path: Where the report goes.
        name: What the run is called, or "".
    """

    def __init__(self, config: pytest.Config, path: Path, name: str) -> None:
        self.config = config
        self.path = path
        self.name = name
        self.error = ""
        self._began = time.time()
        self._sent: dict[str, dict[str, Any]] = {}
        self._classes: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, dict[str, Any]] = {}
        self._collected: dict[str, str] = {}
        self._finished: set[str] = set()
        self._lost: dict[str, str] = {}
        self._problems: list[str] = []
        self._undeclared = 0

    # In the process that runs the tests.

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Put what a test found on its report."""
        outcome = yield
        report = outcome.get_result()
        kind = _contract(item)
        if kind is not None and (report.when == "call" or not report.passed):
            report.loadwire = self._note(item, kind, report)

    def _note(
        self, item: pytest.Item, kind: type[Any], report: pytest.TestReport
    ) -> dict[str, Any]:
        name = _class_id(item)
        about = _describe(kind, name)
        note: dict[str, Any] = {"class": name, "outcome": _outcome(report), "held": None}
        if self._sent.get(name) != about:
            self._sent[name] = note["about"] = about
        instance = getattr(item, "instance", None)
        held = getattr(instance, "held", None) if report.when == "call" else None
        note["rules"], note["case"] = _named(item.name)
        note["text"] = _text(report)
        if held is not None:
            instance.held = None  # type: ignore[union-attr]  # a test may be run again
            note["rules"], note["case"] = [held.rule], held.case
            note["held"] = _held(held)
            _grade(note, held)
        return note

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember which tests of contract classes there are."""
        self._collected.update(
            (item.nodeid, _class_id(item)) for item in session.items if _contract(item)
        )

    # In the process that writes.

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Remember what a worker has collected; which of it is ours is not known yet."""
        self._collected.update((test, self._split(test)[0]) for test in ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what could not be collected, and so was not judged."""
        if report.failed:
            where = report.nodeid or "the session"
            problem = f"{where} could not be collected: {plain(report.longreprtext)}"
            if problem not in self._problems:  # each worker of xdist says it
                self._problems.append(problem)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what came of a test: of the last time, if it was run again."""
        test = report.nodeid
        if report.when == "teardown":
            self._finished.add(test)
        note = getattr(report, "loadwire", None)
        if note is None:
            if report.failed and report.when not in _PHASES:  # xdist's, for a worker that crashed
                self._lost[test] = plain(report.longreprtext)
            return
        if "about" in note:
            self._classes[note["class"]] = note["about"]
        earlier = self._notes.get(test)
        if report.when == "teardown" and earlier is not None:
            note = {**earlier, "outcome": note["outcome"]} | (
                {"text": "\n".join(filter(None, (earlier["text"], note["text"])))}
            )
        self._notes[test] = note

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, whatever ended the session."""
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        stopped = session.shouldfail or session.shouldstop
        dsession: Any = self.config.pluginmanager.getplugin("dsession")
        stopped = stopped or getattr(dsession, "shouldstop", False)
        why = stopped if isinstance(stopped, str) else "the session ended before"
        try:
            report = record.report_of([self._run(why)])
            record.write(self.path, report)
        except ReportError as error:
            self.error = str(error)
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the report is, or why there is none."""
        if self.config.option.collectonly:
            return
        if self.error:
            terminalreporter.write_line(f"loadwire: NO REPORT: {self.error}", red=True)
            return
        judged = len(self._notes)
        terminalreporter.write_line(
            f"loadwire: report of {judged} contract test{'s' * (judged != 1)} in {self.path}"
        )

    def _run(self, why: str) -> record.Run:
        from pytest_loadwire.vectors import load  # noqa: PLC0415 - when all else is done

        problems = list(self._problems)
        for test, text in self._lost.items():
            kind, name = self._split(test)
            if kind in self._classes:
                rules, case = _named(name)
                self._notes[test] = {
                    "class": kind,
                    "outcome": "failed",
                    "held": None,
                    "rules": rules,
                    "case": case,
                    "text": text,
                }
            else:
                problems.append(f"{test}: {text}")
        versions = record.versions()
        for about in self._classes.values():
            versions.update(about["versions"])
        return {
            "name": self.name or self.config.rootpath.name,
            "kind": "pytest",
            "command": _command(self.config),
            "started": record.utc(self._began),
            "seconds": round(time.time() - self._began, 3),
            "vectors": load().content_hash,
            "versions": dict(sorted(versions.items())),
            "problems": problems,
            "not_run": list(self._not_run(why)),
            "implementations": self._implementations(),
        }

    def _split(self, test: str) -> tuple[str, str]:
        """A test's id as class and name, where there is no test at hand to ask."""
        for kind in self._classes:
            if test.startswith(f"{kind}::"):
                return kind, test[len(kind) + 2 :]
        path, bracket, parameters = test.partition("[")
        kind, _, name = path.rpartition("::")
        return kind, name + bracket + parameters

    def _not_run(self, why: str) -> Iterator[NotRun]:
        ended = self._finished | self._notes.keys() | self._lost.keys()
        left: Counter[str] = Counter()
        for test, kind in self._collected.items():
            if test not in ended:
                left[kind] += 1
        for name, count in left.items():
            yield {"what": f"{name}: {count} test{'s' * (count > 1)}", "why": why}

    def _implementations(self) -> list[Implementation]:
        """The classes, those of one name and side together."""
        alone = Counter(about["contract"] for about in self._classes.values())
        made: dict[tuple[str, str], Implementation] = {}
        of_class: dict[str, Implementation] = {}
        for name, about in self._classes.items():
            own = about["implementation"]
            if not own:
                own = self.name if self.name and alone[about["contract"]] == 1 else name
            one = made.setdefault(
                (own, about["side"]),
                {
                    "name": own,
                    "version": "",
                    "side": about["side"],
                    "parts": [],
                    "passed": {},
                    "cases": [],
                },
            )
            part: Part = {
                "name": name,
                "contract": about["contract"],
                "revision": about["revision"],
                "policies": about["policies"],
                "deviations": about["deviations"],
            }
            one["parts"].append(part)
            of_class[name] = one
        for test, note in self._notes.items():
            _enter(of_class[note["class"]], test, note)
        return list(made.values())


def _enter(one: Implementation, test: str, note: dict[str, Any]) -> None:
    """Put the outcome of a test into its implementation."""
    held = note["held"] or {"why": "", "finding": None, "bytes": None, "notes": []}
    for rule in note["rules"]:
        if note["outcome"] == "passed":
            one["passed"].setdefault(rule, []).append(note["case"])
            continue
        case: Case = {
            "rule": rule,
            "case": note["case"],
            "outcome": note["outcome"],
            "why": held["why"],
            "text": note["text"],
            "finding": held["finding"],
            "bytes": held["bytes"],
            "notes": held["notes"],
            "test": test,
        }
        one["cases"].append(case)


def _contract(item: pytest.Item) -> type[Any] | None:
    """The contract class of a test, if it has one."""
    base = sys.modules.get("pytest_loadwire.contract.base")
    kind = getattr(item, "cls", None)
    if base is None or not isinstance(kind, type) or not issubclass(kind, base.Contract):
        return None
    return kind


def _class_id(item: pytest.Item) -> str:
    """The id of a test's class."""
    parent = item.getparent(pytest.Class)
    return item.nodeid if parent is None else parent.nodeid


def _named(name: str) -> tuple[list[str], str]:
    """Rules and case that a test's name has, behind those of its function."""
    _, bracket, parameters = name.partition("[")
    if not bracket:
        return [NO_RULE], name
    rules, case = rules_of(parameters.removesuffix("]"))
    return (rules, case) if rules != [NO_RULE] else (rules, name)


def _describe(kind: type[Any], name: str) -> dict[str, Any]:
    """What a class says of itself, in what xdist can send."""
    home = "pytest_loadwire.contract."
    contract = next(c for c in kind.__mro__ if c.__module__.startswith(home))
    revision = getattr(kind, "revision", None)
    reader = getattr(kind, "_reader", None)
    if revision is None:
        revision = getattr(reader, "revision", None)
    # What a class declares wrongly is for its own test to say, and must not end the run here.
    declared = [getattr(one, "policies", None) for one in (reader, kind)]
    policies = {k: v for one in declared if isinstance(one, Mapping) for k, v in one.items()}
    return {
        "implementation": plain(kind.implementation or ""),
        "name": name,
        "contract": contract.__name__,
        "side": _side(kind, contract.__name__),
        "revision": revision if isinstance(revision, int) else None,
        "policies": {plain(policy): plain(answer) for policy, answer in policies.items()},
        "deviations": [_declared(deviation) for deviation in kind.deviations],
        "versions": record.versions(),
    }


def _declared(deviation: Any) -> dict[str, Any]:
    return {
        **{key: plain(getattr(deviation, key, "")) for key in ("rule", "deed", "reason")},
        "cases": [plain(pattern) for pattern in getattr(deviation, "cases", [repr(deviation)])],
    }


def _side(kind: type[Any], contract: str) -> str:
    if contract in _ENGINE:
        return "engine"
    if contract != "DiscoveryContract":
        return "router"
    plans = kind.offers("plan")
    serves = any(kind.offers(hook) for hook in ("describe", "server_info", "check_args"))
    return "both" if plans and serves else "router" if plans else "engine"


def _outcome(report: pytest.TestReport) -> str:
    if report.passed:
        return "passed"
    if report.failed:
        return "failed"
    return "declared" if hasattr(report, "wasxfail") else "skipped"


def _text(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if report.skipped:
        declared = getattr(report, "wasxfail", None)
        if declared is not None:
            return plain(declared)
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        return plain(reason).removeprefix("Skipped: ")
    what = "" if report.when == "call" else f"in the {report.when} of the test:\n"
    return what + plain(report.longreprtext)


def _grade(note: dict[str, Any], held: Any) -> None:
    """The outcome in the words of a declaration, and no text that says the finding again."""
    if note["outcome"] == "declared" and held.deviation is not None:
        note["text"] = plain(held.deviation.reason)
    if note["outcome"] != "failed":
        return
    if held.finding is None:
        if held.deviation is not None:
            note["outcome"] = "stale"
        return
    note["text"] = ""
    if held.deviation is not None:
        note["text"] = plain(
            f"declared to deviate as {held.deviation.deed!r}: {held.deviation.reason}"
        )


def _held(held: Any) -> dict[str, Any]:
    """What `Contract.hold` was told, in what xdist can send."""
    found = held.finding
    return {
        "why": plain(held.why),
        "finding": found
        and {
            "rule": str(found.rule),
            "deed": str(found.deed),
            "expected": plain(found.expected),
            "got": plain(found.got),
            "hazard": str(found.hazard),
        },
        # What passed needs no bytes: its id is enough.
        "bytes": found
        and record.bytes_of(held.frames, message=held.is_message, against=held.against),
        "notes": [plain(line) for line in held.notes[: record.MOST_NOTES]] if found else [],
    }


def _command(config: pytest.Config) -> str:
    """The command line that did this, and what the environment added to it."""
    words = ["pytest", *map(str, config.invocation_params.args)]
    added = os.environ.get("PYTEST_ADDOPTS")
    prefix = f"PYTEST_ADDOPTS={shlex.quote(added)} " if added else ""
    return prefix + shlex.join(words)
