"""JUnit XML of what a command checked."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from pytest_loadwire.commands.junit import Case, write_junit


def test_a_suite(tmp_path: Path) -> None:
    """Each case is there, with what is wrong or why it was not run, and the suite counts them."""
    file = tmp_path / "junit.xml"
    cases = [
        Case("W1", "fine"),
        Case("W9", "wrong", problem="expected 6\ngot 5"),
        Case("F1", "absent", not_run="nothing arrived"),
    ]
    write_junit(file, "loadwire check", cases)

    (suite,) = ElementTree.parse(file).getroot().iter("testsuite")  # noqa: S314 - just written
    fine, wrong, absent = suite.iter("testcase")
    assert ("loadwire check", "3", "1", "1") == tuple(
        suite.get(key) for key in ("name", "tests", "failures", "skipped")
    )
    assert ("W1", "fine", []) == (fine.get("classname"), fine.get("name"), list(fine))
    (failure,) = wrong
    assert ("failure", "expected 6", "expected 6\ngot 5") == (
        failure.tag,
        failure.get("message"),
        failure.text,
    )
    (skipped,) = absent
    assert ("skipped", "nothing arrived") == (skipped.tag, skipped.get("message"))


def test_what_xml_cannot_hold(tmp_path: Path) -> None:
    """A text that quotes control characters or half a surrogate pair is escaped, not refused."""
    file = tmp_path / "junit.xml"
    write_junit(file, "s", [Case("F2", "topic \x00", problem="got '\x1b\ud800' <b>&")])

    (case,) = ElementTree.parse(file).getroot().iter("testcase")  # noqa: S314 - just written
    assert "topic \\x00" == case.get("name")
    assert "got '\\x1b\\xd800' <b>&" == case[0].text
