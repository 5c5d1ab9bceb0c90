"""Reading, joining and counting reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loadwire.report import merge, record
from pytest_loadwire.report.merge import Cell
from pytest_loadwire.report.record import ReportError

Make = Callable[..., Any]


def test_every_name_is_its_own(make_report: Make):
    """The same name from several runs is told apart; an engine's and a router's are anyway."""
    reports = [
        make_report(name="mine"),
        make_report(name="mine"),
        make_report(name="mine", side="engine"),
        make_report(name="mine (2)"),
    ]

    merged = merge.merge([("x", report) for report in reports])

    assert [
        ("mine", "engine"),
        ("mine", "router"),
        ("mine (2)", "router"),
        ("mine (2) (2)", "router"),
    ] == [(one["name"], one["side"]) for _, one in merge.implementations(merged)]
    assert "mine (2)" == reports[3]["runs"][0]["implementations"][0]["name"]


def test_merging_again_changes_nothing(make_report: Make):
    """A merged report is a report: merged again it is the same."""
    merged = merge.merge([("a", make_report()), ("b", make_report())])

    assert merged == merge.merge([("c", merged)])


def test_other_vectors_are_refused(make_case: Make, make_report: Make):
    """Runs with different vectors are merged only when that is asked for, and then marked."""
    reports = [("a.json", make_report()), ("b.json", make_report(vectors="0" * 64))]

    with pytest.raises(ReportError, match=r"b\.json has 000000000000.* or give --mixed"):
        merge.merge(reports)

    assert merge.merge(reports, mixed=True)["mixed"]
    assert not merge.merge(reports[:1], mixed=True)["mixed"]


@pytest.mark.parametrize(
    ("cell", "word", "rest"),
    [
        (Cell(), "not run", ""),
        (Cell(skipped=2), "not run", "2 not judged"),
        (Cell(passed=3), "ok 3", ""),
        (Cell(passed=3, skipped=1), "ok 3", "1 not judged"),
        (Cell(passed=3, declared=2), "declared 2", "3 ok"),
        (Cell(3, 1, 2, 4), "FAILED 1", "3 ok, 2 declared, 4 not judged"),
    ],
)
def test_a_cell_in_words(cell: Cell, word: str, rest: str):
    """The worst of a cell is its word, and the other counts stand behind it."""
    assert (word, rest) == (cell.word, cell.rest)


def test_cells_and_rows(make_case: Make, make_report: Make):
    """The counts are those of the cases, and the rows stand in the order of the contract."""
    report = make_report(
        make_case("C1"),
        make_case("W9"),
        make_case("W9", outcome="stale"),
        make_case("W9", outcome="declared"),
        make_case("-", outcome="skipped", hazard=None),
        passed={"W10": ["a"], "W9": ["b"]},
    )
    ((_, one),) = merge.implementations(report)

    assert ["W9", "W10", "C1", "-"] == merge.rows(report)
    assert {
        "W9": Cell(1, 2, 1, 0),
        "W10": Cell(1),
        "C1": Cell(failed=1),
        "-": Cell(skipped=1),
    } == merge.cells(one)


def test_hazards_in_order(make_case: Make, make_report: Make):
    """What failed is counted by hazard, the worst first, and what has none behind."""
    report = make_report(
        make_case(hazard="none"),
        make_case(hazard=None),
        make_case(outcome="stale"),
        make_case(hazard="starves"),
        make_case(),
        make_case(),
        make_case(outcome="declared"),
    )

    assert [
        ("attracts-all", 2),
        ("starves", 1),
        ("none", 1),
        (merge.NO_VERDICT, 1),
        (merge.OUT_OF_DATE, 1),
    ] == list(merge.hazards(report).items())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no JSON: "),
        ("[" * 100_000, "is no JSON: "),
        ("[]", "is no report: "),
        ('{"format": 1}', "is no report: \"format\" at $ is not 'loadwire-report'"),
        ('{"format": "loadwire-report"}', ": $: 'version' is a required property"),
    ],
)
def test_what_is_no_report(tmp_path: Path, text: str, says: str):
    """A file that is no report is refused by what it is not."""
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")

    with pytest.raises(ReportError) as caught:
        merge.read(path)

    assert says in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda run: run.update(seconds="1"), "$.runs[0].seconds"),
        (lambda run: run.update(more=1), "$.runs[0]"),
        (
            lambda run: run["implementations"][0]["cases"][0].update(outcome="fine"),
            "$.runs[0].implementations[0].cases[0].outcome",
        ),
        (
            lambda run: run["implementations"][0]["passed"].update(W1=["a", 2]),
            "$.runs[0].implementations[0].passed.W1[1]",
        ),
    ],
)
def test_where_a_report_breaks_the_schema(
    tmp_path: Path,
    make_case: Make,
    make_report: Make,
    change: Callable[[Any], None],
    place: str,
):
    """A damaged report is refused with the place where it breaks the schema."""
    report = make_report(make_case())
    change(report["runs"][0])
    path = tmp_path / "x.json"
    path.write_text(json.dumps(report), "utf-8")

    with pytest.raises(ReportError) as caught:
        merge.read(path)

    assert str(caught.value).startswith(f"{path}: {place}: ")


def test_a_report_reads_back(tmp_path: Path, make_case: Make, make_report: Make):
    """What was written is what is read."""
    report = make_report(make_case())
    record.write(tmp_path / "x.json", report)

    assert report == merge.read(tmp_path / "x.json")


def test_nothing_judged(make_case: Make, make_report: Make):
    """A report in which nothing was judged and nothing went wrong is empty."""
    skipped = make_case(outcome="skipped")

    assert merge.is_empty(make_report(skipped, passed={}))
    assert not merge.is_empty(make_report(skipped))
    assert not merge.is_empty(make_report(skipped, passed={}, problems=["a crash"]))
    assert not merge.is_empty(make_report(make_case(outcome="declared"), passed={}))
