"""--loadwire-report and --loadwire-name, and their ini keys."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_loadwire.report.record import SCHEMA
from pytest_loadwire.vectors import load

DECODER = """
import os

import pytest

from pytest_loadwire import wire
from pytest_loadwire.contract.base import Deviation
from pytest_loadwire.contract.decoder import DecoderContract

class TestDecoder(DecoderContract):
    policies = {
        "TrailingBytes": "reject",
        "OmittedRank": "reject",
        "TagAsBin": "reject",
        "CountAboveI64": "accept",
        "PartialTail": "older",
        "NilTail": "reject",
    }
    deviations = [
        Deviation("W8", "refused", "nobody sends these yet", cases=["tail-fix*"]),
        Deviation("W1", "accepted", "gone since", cases=["tag-lower-case"]),
    ]

    def decode(self, payload):
        stat = wire.decode(payload)
        if payload[0] != 0x9B and payload[0] != 0x96:
            raise ValueError("<b>only 6 or 11\\x00\\x1b[31m</b>")
        return stat
"""
"""Refuses every array that has not exactly 6 or 11 elements, and any other header of one."""

SMALL = """
import os
import pytest
from pytest_loadwire.contract.base import Contract
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard

@pytest.fixture(scope="module", autouse=True)
def noted(): ...

class TestSmall(Contract):
    @pytest.mark.parametrize("case", ["a", "b", "c", "d", "e"], ids=lambda case: f"W9-{case}")
    def test_case(self, case):
        __HERE__
        finding = Finding("accepted", "W9", "a refusal", "0", Hazard.ATTRACTS_ALL)
        self.hold(finding if case == "b" else None, rule="W9", case=case, payload=b"\\x91\\xa1a")

class TestOther(TestSmall):
    implementation = "<script>alert(1)</script>"
"""


def small(here: str = "pass") -> str:
    return SMALL.replace("__HERE__", here)


def run(pytester: pytest.Pytester, *arguments: str, code: int = 1) -> dict[str, Any]:
    """The one run of the report that a pytest run writes."""
    apart = "xdist" in arguments or code in (2, 3)  # what would end the outer run as well
    start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
    done = start("--loadwire-report=out.json", *arguments)
    assert code == done.ret
    return read(pytester.path / "out.json")


def read(path: Path) -> dict[str, Any]:
    report = json.loads(path.read_text("utf-8"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(report)
    (one,) = report["runs"]
    return one


def named(run: dict[str, Any], name: str = "TestSmall") -> dict[str, Any]:
    (one,) = [i for i in run["implementations"] if i["name"].endswith(name)]
    return one


def outcomes(one: dict[str, Any]) -> dict[str, str]:
    """The outcome by case."""
    passed = {case: "passed" for cases in one["passed"].values() for case in cases}
    return passed | {case["case"]: case["outcome"] for case in one["cases"]}


ALL_FIVE = {
    "test_declarations": "passed",
    "a": "passed",
    "b": "failed",
    "c": "passed",
    "d": "passed",
    "e": "passed",
}


def test_every_outcome_is_recorded(pytester: pytest.Pytester) -> None:
    """Each test of a contract class is there once, with its finding, bytes and declarations."""
    pytester.makepyfile(DECODER)

    done = run(pytester, "-k", "W8 or W1- or declarations or F1", "--loadwire-name=my-router")

    (one,) = done["implementations"]
    counted = Counter(case["outcome"] for case in one["cases"])
    assert {"failed", "declared", "stale", "skipped"} == set(counted)
    assert ("my-router", "router", load().content_hash) == (
        one["name"],
        one["side"],
        done["vectors"],
    )
    failed = next(case for case in one["cases"] if case["outcome"] == "failed")
    vector = load().payload(failed["case"].partition("/")[0])
    assert ("W8", "refused", vector.why) == (
        failed["finding"]["rule"],
        failed["finding"]["deed"],
        failed["why"],
    )
    assert [dict(vector.forms())[failed["case"]].hex()] == failed["bytes"]["frames"]
    declared = next(case for case in one["cases"] if case["outcome"] == "declared")
    assert "nobody sends these yet" == declared["text"]
    stale = [case for case in one["cases"] if case["outcome"] == "stale"]
    assert ["tag-lower-case"] == [case["case"] for case in stale]
    assert "the declared deviation is gone" in stale[0]["text"]
    unframed = {case["rule"] for case in one["cases"] if case["outcome"] == "skipped"}
    assert {"F1", "F2", "F3", "F4", "F5"} == unframed
    (part,) = one["parts"]
    assert ("DecoderContract", "reject") == (part["contract"], part["policies"]["NilTail"])
    assert ["W8", "W1"] == [deviation["rule"] for deviation in part["deviations"]]
    assert {"msgspec", "pytest", "python", "pytest-loadwire"} <= set(done["versions"])
    assert " pytest --loadwire-report=out.json -k" in done["command"]
    assert done["command"].endswith("'W8 or W1- or declarations or F1' --loadwire-name=my-router")


def test_a_page(pytester: pytest.Pytester) -> None:
    """A name that ends in .html makes a page, with everything that a hook said escaped."""
    pytester.makepyfile(small() + DECODER)

    done = pytester.runpytest_inprocess("--loadwire-report=deep/er/out.html", "-k", "W9 or W8")

    page = (pytester.path / "deep" / "er" / "out.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("<wbr>", "")
    assert "&lt;b&gt;only 6 or 11\\u0000" in page
    assert "<script" not in page
    assert "\x00" not in page
    done.stdout.fnmatch_lines(["loadwire: report of * contract tests in *out.html"])
    assert ["out.html"] == [path.name for path in (pytester.path / "deep" / "er").iterdir()]


@pytest.mark.parametrize(
    ("here", "outcome", "says"),
    [
        ("assert case != 'c'", "failed", "assert 'c' != 'c'"),
        ("if case == 'c': raise OSError('the hook broke')", "failed", "OSError: the hook broke"),
        ("if case == 'c': pytest.xfail('known')", "declared", "known"),
        ("if case == 'c': pytest.skip('no hook')", "skipped", "no hook"),
        ("if case == 'c': pytest.xfail('\\ud800')", "declared", "\\ud800"),
    ],
)
def test_without_a_verdict(pytester: pytest.Pytester, here: str, outcome: str, says: str) -> None:
    """A test that ends before anything is judged is there, with what it says."""
    pytester.makepyfile(small(here))

    one = named(run(pytester))

    assert ALL_FIVE | {"c": outcome} == outcomes(one)
    (case,) = [case for case in one["cases"] if case["case"] == "c"]
    assert ("W9", None) == (case["rule"], case["finding"])
    assert says in case["text"]


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_an_error_around_the_test(pytester: pytest.Pytester, phase: str) -> None:
    """An error in setup or teardown is a failure of the case, whatever the test itself said."""
    pytester.makepyfile(small())
    pytester.makeconftest(
        f"""
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_{phase}(item):
            assert not item.nodeid.endswith("W9-c]"), "around"
        """
    )

    one = named(run(pytester))

    assert ALL_FIVE | {"c": "failed"} == outcomes(one)
    (case,) = [case for case in one["cases"] if case["case"] == "c"]
    assert case["text"].startswith(f"in the {phase} of the test:")


@pytest.mark.parametrize("ended", ["--maxfail=1", "interrupt", "exit"])
def test_what_was_not_run_is_said(pytester: pytest.Pytester, ended: str) -> None:
    """A session that ends early says how many tests of which class it did not run, and why."""
    here = {
        "interrupt": "if case == 'c': raise KeyboardInterrupt",
        "exit": "if case == 'c': pytest.exit('enough', 3)",
    }.get(ended, "pass")
    pytester.makepyfile(small(here))
    maxfail = [ended] if ended.startswith("--") else []

    done = run(pytester, *maxfail, code={"interrupt": 2, "exit": 3}.get(ended, 1))

    seen = outcomes(named(done))
    left = 6 - len(seen)
    assert {"a": "passed", "b": "failed"}.items() <= seen.items()
    assert left >= 3
    told = {note["what"].rpartition("::")[2]: note["why"] for note in done["not_run"]}
    assert [f"TestSmall: {left} tests", "TestOther: 6 tests"] == list(told)
    expected = {"--maxfail=1": "stopping after 1 failures"}.get(ended, "the session ended before")
    assert {expected} == set(told.values())


def test_what_could_not_be_collected_is_a_problem(pytester: pytest.Pytester) -> None:
    """A module that does not import is in the report, which is then not ok."""
    pytester.makepyfile(test_fine=small(), test_wrong="import nothing_of_that_name")

    done = run(pytester, code=2)

    (problem,) = done["problems"]
    assert problem.startswith("test_wrong.py could not be collected: ")
    assert "nothing_of_that_name" in problem
    assert {"test_fine.py::TestSmall: 6 tests", "test_fine.py::TestOther: 6 tests"} == {
        note["what"] for note in done["not_run"]
    }
    assert not json.loads((pytester.path / "out.json").read_text("utf-8"))["ok"]


@pytest.mark.parametrize("early", [1, 2])
def test_a_test_that_is_run_again_counts_once(pytester: pytest.Pytester, early: int) -> None:
    """Of a test that is run again the last time counts, and nothing of an earlier one."""
    pytester.makepyfile(small())
    pytester.makeconftest(
        f"""
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            for item._tries in (1, 2):
                for report in runtestprotocol(item, nextitem=nextitem, log=False):
                    if item._tries == 1 and report.failed:
                        report.outcome = "rerun"
                    item.ihook.pytest_runtest_logreport(report=report)
            return True

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(item):
            if item._tries == {early}:
                pytest.fail("too early")
        """
    )

    one = named(run(pytester))

    expected = ALL_FIVE if early == 1 else dict.fromkeys(ALL_FIVE, "failed")
    assert expected == outcomes(one)
    assert 6 == len(one["cases"]) + sum(map(len, one["passed"].values()))
    assert {early == 1} == {case["finding"] is not None for case in one["cases"]}


def test_a_message_is_recorded_frame_by_frame(pytester: pytest.Pytester) -> None:
    """A finding about a message keeps all its frames."""
    pytester.makepyfile(small().replace('payload=b"\\x91\\xa1a"', 'frames=[b"load", b"x"]'))

    (case,) = named(run(pytester))["cases"]

    assert {"frames": ["6c6f6164", "78"], "message": True, "against": None} == case["bytes"]


def test_xdist_writes_the_same(pytester: pytest.Pytester) -> None:
    """Under xdist the controller alone writes, and has what all workers found."""
    pytest.importorskip("xdist")
    pytester.makepyfile(small() + DECODER)
    pytester.makeconftest(
        """
        import pathlib

        def pytest_unconfigure(config):
            if hasattr(config, "workerinput") and pathlib.Path("out.json").exists():
                pathlib.Path("a-worker-wrote").touch()
        """
    )
    chosen = ("-k", "W9 or W8 or declarations")

    alone = run(pytester, *chosen, "-p", "no:xdist")
    (pytester.path / "out.json").unlink()
    both = run(pytester, *chosen, "-p", "xdist", "-n", "2")

    def by_name(done: dict[str, Any]) -> dict[str, Any]:
        return {
            one["name"]: (
                one["parts"],
                {rule: sorted(ids) for rule, ids in one["passed"].items()},
                sorted(one["cases"], key=lambda case: (case["rule"], case["case"])),
            )
            for one in done["implementations"]
        }

    assert by_name(alone) == by_name(both)
    assert ([], []) == (both["problems"], both["not_run"])
    assert not (pytester.path / "a-worker-wrote").exists()


def test_a_worker_that_crashes(pytester: pytest.Pytester) -> None:
    """The test that brought a worker of xdist down has failed, and all others are there."""
    pytest.importorskip("xdist")
    pytester.makepyfile(small("if case == 'd' and type(self) is TestSmall: os._exit(7)"))

    done = run(pytester, "-p", "xdist", "-n", "1")

    one = named(done)
    assert ALL_FIVE | {"d": "failed"} == outcomes(one)
    (case,) = [case for case in one["cases"] if case["case"] == "d"]
    assert "crashed" in case["text"]
    assert ALL_FIVE == outcomes(named(done, "</script>"))


def test_not_run_under_xdist(pytester: pytest.Pytester) -> None:
    """What the workers did not come to is said as well."""
    pytest.importorskip("xdist")
    pytester.makepyfile(small())

    done = run(pytester, "-p", "xdist", "-n", "1", "--maxfail=1", code=2)

    left = 12 - sum(len(outcomes(one)) for one in done["implementations"])
    said = [int(note["what"].split()[-2]) for note in done["not_run"]]
    assert left == sum(said) > 0


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("out.xml", "--loadwire-report must end in .json or .html, not '*out.xml'"),
        ("file/out.json", "--loadwire-report *out.json cannot be written: *"),
        ("folder.json", "--loadwire-report *folder.json is a folder"),
    ],
)
def test_a_path_that_cannot_be_written(pytester: pytest.Pytester, value: str, says: str) -> None:
    """It is refused before any test is run."""
    pytester.makepyfile(small())
    (pytester.path / "file").touch()
    (pytester.path / "folder.json").mkdir()

    done = pytester.runpytest_inprocess(f"--loadwire-report={value}")

    assert pytest.ExitCode.USAGE_ERROR == done.ret
    done.stderr.fnmatch_lines([f"ERROR: {says}"])


@pytest.mark.parametrize(("name", "code"), [("out.html", 4), ("out.json", 1)])
def test_without_jinja2(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """A page needs jinja2, and a run without it says at the start what to install."""
    pytester.makepyfile(small())
    blocked = pytester.mkdir("blocked")
    (blocked / "sitecustomize.py").write_text("import sys; sys.modules['jinja2'] = None", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(blocked))

    done = pytester.runpytest_subprocess(f"--loadwire-report={name}")

    assert code == done.ret
    if code == 4:
        done.stderr.fnmatch_lines(["ERROR: *jinja2: pip install 'pytest-loadwire*cli*', or*"])


def test_a_report_that_is_lost_is_an_error(pytester: pytest.Pytester) -> None:
    """Where the folder is gone in the end, the run says so and does not pass."""
    pytester.makepyfile(
        """
        import pathlib, shutil

        def test_it():
            shutil.rmtree("there")
            pathlib.Path("there").touch()
        """
    )

    done = pytester.runpytest_inprocess("--loadwire-report=there/out.json")

    assert pytest.ExitCode.INTERNAL_ERROR == done.ret
    done.stdout.fnmatch_lines(["loadwire: NO REPORT: *out.json cannot be written: *"])


def test_the_ini_key(pytester: pytest.Pytester) -> None:
    """The ini key is relative to its file, and the option wins over it."""
    pytester.makeini("[pytest]\nloadwire_report = ini.json\nloadwire_name = from-ini\n")
    pytester.mkdir("below").joinpath("test_small.py").write_text(small(), "utf-8")

    pytester.runpytest_inprocess("below")
    assert "from-ini" == read(pytester.path / "ini.json")["name"]

    (pytester.path / "ini.json").unlink()
    pytester.runpytest_inprocess("below", "--loadwire-report=", "--loadwire-name=x")
    assert [] == list(pytester.path.glob("*.json"))
    assert "x" == run(pytester, "below", "--loadwire-name=x")["name"]


def test_a_report_costs_only_who_asks(pytester: pytest.Pytester) -> None:
    """Without the option no module of the report is loaded; with JSON no jinja2."""
    pytester.makepyfile("def test_x(): pass")
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("loaded:", *sorted(name for name in sys.modules if name in (
                "jinja2", "jsonschema", "zmq", "pytest_loadwire.report")))
        """
    )

    pytester.runpytest_subprocess().stdout.fnmatch_lines(["loaded:"])
    done = pytester.runpytest_subprocess("--loadwire-report=out.json")
    done.stdout.fnmatch_lines(["loaded: pytest_loadwire.report"])
    assert [] == read(pytester.path / "out.json")["implementations"]


def test_the_classes_keep_their_names(pytester: pytest.Pytester) -> None:
    """The name of the run is that of the code where one class holds it to each contract."""
    pytester.makepyfile(test_two=small())

    done = run(pytester, "--loadwire-name=mine")

    assert ["test_two.py::TestSmall", "<script>alert(1)</script>"] == [
        one["name"] for one in done["implementations"]
    ]
    assert sys.version.split()[0] == done["versions"]["python"]


def test_nothing_is_written_where_nothing_is_run(pytester: pytest.Pytester) -> None:
    """--collect-only writes no report."""
    pytester.makepyfile(small())

    pytester.runpytest_inprocess("--loadwire-report=out.json", "--collect-only")

    assert not (pytester.path / "out.json").exists()


def test_without_the_plugin_the_classes_work(pytester: pytest.Pytester) -> None:
    """With `-p no:loadwire` the classes judge as before."""
    pytester.makepyfile(small())

    pytester.runpytest_inprocess("-p", "no:loadwire").assert_outcomes(failed=2, passed=10)


@pytest.mark.parametrize(
    "wrong",
    [
        "policies = None",
        "policies = {1: 2}",
        "deviations = ['W9']",
        "deviations = [None]",
        "implementation = None",
        "implementation = 7",
        "implementation = '\\ud800'",
        "policies = {'\\ud800': '\\ud800'}",
        "def hold(self, finding, **more): super().hold(finding, **{**more, 'payload': 'text'})",
    ],
)
def test_what_a_class_says_wrongly(pytester: pytest.Pytester, wrong: str) -> None:
    """A wrong declaration is a failed test and no end of the run."""
    pytester.makepyfile(small() + f"\nclass TestWrong(TestSmall):\n    {wrong}\n")

    done = run(pytester)

    assert 3 == len(done["implementations"])
    assert 18 == sum(len(one["parts"]) * 6 for one in done["implementations"])
    # What UTF-8 does not have would end a worker of xdist.
    json.dumps(done, ensure_ascii=False).encode()


def test_tests_of_a_team_keep_their_names(pytester: pytest.Pytester) -> None:
    """A test that a team adds to its class is there by its whole name, under no rule."""
    added = """
    @pytest.mark.parametrize("more", ["x::y", "z]"])
    def test_added(self, more): assert more == "z]"
    """
    pytester.makepyfile(small() + added)

    one = named(run(pytester), "</script>")

    assert "test_added[z]]" in one["passed"]["-"]
    assert ["test_added[x::y]"] == [case["case"] for case in one["cases"] if case["rule"] == "-"]
