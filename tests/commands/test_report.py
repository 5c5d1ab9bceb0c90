"""`loadwire report`, and `loadwire testee --report` that makes what it merges."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pytest_loadwire.report import merge, record
from pytest_loadwire.vectors import load

Invoke = Callable[..., Result]
Make = Callable[..., Path]

TESTEE = """
import json, sys
from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.witness import STRICT

def say(message):
    print(json.dumps(message), flush=True)

say({"loadwire": 1, "implementation": "toy", "version": "1.2", "revision": 2, "policies": STRICT,
     "kinds": ["payload"]})
for line in sys.stdin:
    case = json.loads(line)
    answer = {"id": case["id"]}
    try:
        stat = wire.decode(bytes.fromhex(case["hex"]))
    except WireError as error:
        answer["reject"] = {"reason": str(error.reason), "text": str(error)}
    else:
        value = {k: None if v is None else str(v) for k, v in wire.to_dict(stat).items()}
        answer["accept"] = {"value": value}
    say(answer)
"""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes the file of a report: `(name, *(rule, outcome), side="router", ...)`."""

    def write(
        name: str, *outcomes: tuple[str, str], side: str = "router", vectors: str = "", **more: Any
    ) -> Path:
        finding = {
            "rule": "W9",
            "deed": "accepted",
            "expected": "a refusal",
            "got": "0",
            "hazard": "attracts-all",
        }
        cases: Any = [
            {
                "rule": rule,
                "case": f"case-{number}",
                "outcome": outcome,
                "why": "",
                "text": "",
                "finding": finding if outcome == "failed" else None,
                "bytes": None,
                "notes": [],
                "test": "",
            }
            for number, (rule, outcome) in enumerate(outcomes)
            if outcome != "passed"
        ]
        passed: dict[str, list[str]] = {}
        for number, (rule, outcome) in enumerate(outcomes):
            if outcome == "passed":
                passed.setdefault(rule, []).append(f"case-{number}")
        one: Any = {"name": name, "version": "", "side": side, "parts": []}
        run: Any = {
            "name": name,
            "kind": "testee",
            "command": f"loadwire testee -- ./{name}",
            "started": "2026-11-30T12:00:00+00:00",
            "seconds": 0,
            "vectors": vectors or load().content_hash,
            "versions": {},
            "problems": [],
            "not_run": [],
            "implementations": [{**one, "passed": passed, "cases": cases}],
        }
        path = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}.json"
        record.write(path, record.report_of([run | more]))
        return path

    return write


def rows(shown: str) -> dict[str, list[str]]:
    """The cells of the printed matrix by rule."""
    lines = [line.split("│") for line in shown.splitlines() if line.startswith("│")]
    return {line[1].strip(): [cell.strip() for cell in line[2:-1]] for line in lines}


def test_the_matrix_is_printed(invoke: Invoke, make: Make):
    """Without -o: a key of the columns, engines first, a row for each rule, and a verdict."""
    router = make("go-router", ("W9", "failed"), ("W9", "passed"), ("W8", "declared"))
    engine = make("engine", ("W3", "passed"), ("W9", "skipped"), side="engine")

    done = invoke("report", router, engine)

    assert 1 == done.exit_code
    assert ["1  engine  engine", "2  router  go-router"] == done.stdout.splitlines()[:2]
    assert {
        "W3": ["ok 1", "not run"],
        "W8": ["not run", "declared 1 of 1"],
        "W9": ["not run", "FAILED 1 of 2"],
    } == rows(done.stdout)
    assert "1 of hazard attracts-all: the worker reads as idle" in done.stdout
    assert "1 undeclared failure" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("outcomes", "more", "code", "says"),
    [
        ([("W1", "passed"), ("W8", "declared")], {}, 0, "nothing failed that is not declared"),
        ([("W1", "passed"), ("W8", "stale")], {}, 1, "1 undeclared failure"),
        ([("W1", "passed"), ("-", "failed"), ("W9", "failed")], {}, 1, "2 undeclared failures"),
        ([("W1", "passed")], {"problems": ["it crashed"]}, 1, "not all of it went well"),
        ([("W1", "skipped")], {}, 2, "nothing was judged"),
        ([], {}, 2, "nothing was judged"),
    ],
)
def test_the_exit_status(
    invoke: Invoke,
    make: Make,
    outcomes: list[tuple[str, str]],
    more: dict[str, Any],
    code: int,
    says: str,
):
    """0 where nothing failed that is not declared, 1 where something did, 2 for nothing at all."""
    done = invoke("report", make("one", *outcomes, **more))

    assert (code, says) == (done.exit_code, done.stdout.splitlines()[-1])


def test_what_was_not_run_is_printed(invoke: Invoke, make: Make):
    """Problems and what was not run stand under the matrix."""
    left = [{"what": "frames", "why": "payloads only"}]

    shown = invoke("report", make("a", ("W1", "passed"), problems=["it crashed"], not_run=left))

    assert "a: it crashed\n" in shown.stdout
    assert "NOT RUN  a: frames: payloads only\n" in shown.stdout


@pytest.mark.parametrize("name", ["out.json", "out.html"])
def test_a_file_is_written(invoke: Invoke, make: Make, tmp_path: Path, name: str):
    """-o writes a page, or a report that merges again."""
    done = invoke(
        "report", make("a", ("W1", "passed")), make("a", ("W1", "passed")), "-o", tmp_path / name
    )

    assert 0 == done.exit_code
    assert f"written to {tmp_path / name}" == done.stdout.splitlines()[-1]
    assert {} == rows(done.stdout)
    text = (tmp_path / name).read_text("utf-8")
    if name == "out.html":
        assert text.startswith("<!doctype html>")
        assert "a (2)" in text
    else:
        again = invoke("report", tmp_path / name)
        assert ["1  router  a", "2  router  a (2)"] == again.stdout.splitlines()[:2]


def test_json(invoke: Invoke, make: Make):
    """--json prints the merged report."""
    done = invoke("report", "--json", make("a", ("W9", "failed")), make("b", ("W9", "passed")))

    printed = json.loads(done.stdout)
    assert (1, False, 2) == (done.exit_code, printed["ok"], len(printed["runs"]))


def test_different_vectors(invoke: Invoke, make: Make):
    """Runs with different vectors are refused, and with --mixed marked."""
    files = make("a", ("W1", "passed")), make("b", ("W1", "passed"), vectors="0" * 64)

    refused, mixed = invoke("report", *files), invoke("report", "--mixed", *files)

    assert (2, 0) == (refused.exit_code, mixed.exit_code)
    assert "the runs had different vectors" in refused.stderr
    assert "the runs had different vectors: their counts do not compare" in mixed.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("{}", "is no report"),
        ('{"format": "loadwire-report", "version": 2}', "$.version: 1 was expected"),
    ],
)
def test_what_is_no_report(invoke: Invoke, tmp_path: Path, text: str, says: str):
    """Exit status 2, the file, and the place where it breaks the schema."""
    path = tmp_path / "wrong.json"
    whole = {"ok": True, "mixed": False, "runs": []}
    if "version" in text:
        text = json.dumps({**json.loads(text), **whole})
    path.write_text(text, "utf-8")

    done = invoke("report", path)

    assert 2 == done.exit_code
    flat = "".join(done.stderr.replace("│", "").split())
    assert "".join(says.split()) in flat
    assert "wrong.json" in flat


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report"], "Missing argument 'FILES...'"),
        (["report", "no.json"], "File 'no.json' does not exist"),
        (["report", "wrong.py", "-o", "x.txt"], "must end in .json or .html"),
        (["testee", "--report", "x.txt", "--", "cat"], "--report must end in .json or .html"),
    ],
)
def test_a_wrong_call(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
):
    """Exit status 2, and what is wrong with the call."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").touch()

    done = invoke(*arguments)

    assert 2 == done.exit_code
    assert says in done.stderr


def test_help_has_an_example(invoke: Invoke):
    """The help shows how to call it."""
    assert "\n    loadwire report engine.json " in invoke("report", "--help").stdout


def test_a_testee_makes_a_report(invoke: Invoke, tmp_path: Path):
    """What `loadwire testee --report` writes has every form of every vector, and merges."""
    program, path = tmp_path / "testee.py", tmp_path / "toy.json"
    program.write_text(TESTEE, "utf-8")

    done = invoke("testee", "--report", path, "--", sys.executable, program)

    assert 0 == done.exit_code
    report = merge.read(path)
    ((run, one),) = merge.implementations(report)
    forms = {form for vector in load().payloads for form, _ in vector.forms()}
    assert forms == {case for ids in one["passed"].values() for case in ids}
    assert ("toy", "1.2", "router", load().content_hash) == (
        one["name"],
        one["version"],
        one["side"],
        run["vectors"],
    )
    assert run["command"].startswith("loadwire testee -- ")
    assert 0 == invoke("report", path, path).exit_code


def test_a_testee_that_breaks_rules(invoke: Invoke, tmp_path: Path):
    """Its failures are in the report with rule, hazard and bytes, and the page shows them."""
    program, path = tmp_path / "testee.py", tmp_path / "toy.html"
    program.write_text(TESTEE.replace("str(error.reason)", "'bad-tag'"), "utf-8")

    done = invoke("testee", "--report", path, "--", sys.executable, program)

    assert 1 == done.exit_code
    text = path.read_text("utf-8")
    assert "wrong-reason" in text
    assert "bytes given" in text


def test_an_adapter_that_was_never_asked(invoke: Invoke, tmp_path: Path):
    """Where nothing was asked there is no report, and a line on stderr that says so."""
    path = tmp_path / "toy.json"

    done = invoke("testee", "--report", path, "--", sys.executable, "-c", "pass")

    assert (2, "no report: nothing was asked\n") == (done.exit_code, done.stderr)
    assert not path.exists()


def test_an_adapter_that_does_not_work(invoke: Invoke, tmp_path: Path):
    """The report of a broken adapter has that as its problem, and is not ok."""
    program, path = tmp_path / "testee.py", tmp_path / "toy.json"
    program.write_text(TESTEE.replace("wire.decode(bytes", "wire.decode(b'!' + bytes"), "utf-8")

    done = invoke("testee", "--report", path, "--", sys.executable, program)

    report = merge.read(path)
    assert (2, False) == (done.exit_code, report["ok"])
    (problem,) = report["runs"][0]["problems"]
    assert problem.startswith("the adapter does not work: ")
    assert 1 == invoke("report", path).exit_code
