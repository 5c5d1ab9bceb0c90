"""The form of a report, and how it is written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_loadwire import conform
from pytest_loadwire.judge import Outcome, Refused, Taken
from pytest_loadwire.reader import Reader, ReferenceReader
from pytest_loadwire.report import reader_run, record
from pytest_loadwire.report.record import ReportError
from pytest_loadwire.rules import Hazard
from pytest_loadwire.wire import field_names

Make = Callable[..., Any]
CHECK = jsonschema.Draft202012Validator(json.loads(record.SCHEMA.read_text("utf-8")))


def test_the_schema_is_one():
    """The schema that ships is a JSON Schema, and knows every hazard."""
    jsonschema.Draft202012Validator.check_schema(CHECK.schema)
    finding = CHECK.schema["$defs"]["finding"]
    assert [hazard.value for hazard in Hazard] == finding["properties"]["hazard"]["enum"]


@pytest.mark.parametrize(
    ("outcome", "ok"), [("failed", False), ("stale", False), ("declared", True), ("skipped", True)]
)
def test_what_is_ok(make_case: Make, make_report: Make, outcome: str, ok: bool):
    """A report is ok unless something failed that is not declared, or went wrong beside it."""
    report = make_report(make_case(outcome=outcome))

    CHECK.validate(report)
    assert ok == report["ok"]
    assert not make_report(make_case(outcome=outcome), problems=["a crash"])["ok"]


@pytest.mark.parametrize(
    ("test_id", "rules", "case"),
    [
        ("W3-rev2-golden-a", ["W3"], "rev2-golden-a"),
        ("W10-nil/wide", ["W10"], "nil/wide"),
        ("F1-F5", ["F1", "F2", "F3", "F4", "F5"], "all"),
        ("F1-F4-S1", ["F1", "F2", "F3", "F4", "S1"], "all"),
        ("no-binds", ["-"], "no-binds"),
        ("not-judged", ["-"], "not-judged"),
        ("W99-x", ["-"], "W99-x"),
        ("", ["-"], ""),
    ],
)
def test_rules_of_a_test_id(test_id: str, rules: list[str], case: str):
    """A test's id names its rule and case; a skip may stand for several rules."""
    assert (rules, case) == record.rules_of(test_id)


def test_a_reader_is_a_run(make_reader: Callable[[Callable[[bytes], Outcome]], Reader]):
    """What `loadwire testee` found is a run: every form is there once, passed ones by their id."""

    def sloppy(payload: bytes) -> Outcome:
        outcome = ReferenceReader(2).decode(payload)
        idle = Taken(dict.fromkeys(field_names(), 0))
        return idle if isinstance(outcome, Refused) and payload != b"\xc0" else outcome

    result = conform.run(make_reader(sloppy))
    run = reader_run.run_of(result, version="1", command="x", vectors="0" * 64, began=0.0)
    report = record.report_of([run])

    CHECK.validate(report)
    (one,) = run["implementations"]
    assert dict(result.passed) == {rule: len(ids) for rule, ids in one["passed"].items()}
    assert [f.case for f in result.failures] == [case["case"] for case in one["cases"]]
    assert "frames" == run["not_run"][0]["what"]
    assert not report["ok"]


@pytest.mark.parametrize(
    "text", ["\x00\x1b[31m\ud800<script>", "\u202egnp.exe", "x" * 100_000, "", "é" * 3000]
)
def test_any_text_is_written(tmp_path: Path, make_case: Make, make_report: Make, text: str):
    """Whatever a hook says, the file is UTF-8 and reads back; a long text is cut and says so."""
    kept = record.plain(text)
    record.write(tmp_path / "out.json", make_report(make_case(text=kept)))

    loaded = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert kept == loaded["runs"][0]["implementations"][0]["cases"][0]["text"]
    assert len(kept) < 2100
    assert (len(text) > 2000) == ("characters ...]" in kept)


def test_a_report_is_replaced_at_once(
    tmp_path: Path, make_report: Make, monkeypatch: pytest.MonkeyPatch
):
    """Where writing fails, the old file is whole and nothing else is left."""
    path = tmp_path / "out.json"
    path.write_text("old", "utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ReportError, match=r"out\.json cannot be written: No space left on device"):
        record.write(path, make_report())

    assert "old" == path.read_text("utf-8")
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_others_may_read_it(tmp_path: Path, make_report: Make):
    """The file has the permissions of any new file."""
    record.write(tmp_path / "out.json", make_report())
    (tmp_path / "any").touch()

    assert (tmp_path / "any").stat().st_mode == (tmp_path / "out.json").stat().st_mode
