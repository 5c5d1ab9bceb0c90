"""Results as JUnit XML, which every CI shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


# What XML 1.0 cannot hold, not even escaped. Error texts quote what came, whatever it was.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(NamedTuple):
    """One thing that was checked.

    Attributes:
        group: What it belongs to, such as a rule; JUnit's ``classname``.
        name: What was checked.
        problem: What is wrong, or None.
        not_run: Why it was not checked, or None.
    """

    group: str
    name: str
    problem: str | None = None
    not_run: str | None = None


def write_junit(path: Path, suite: str, cases: Iterable[Case]) -> None:
    """Write cases as one suite.

    Args:
        path: The file to write; its folder has to exist.
        suite: The name of the suite.
        cases: In the order to show them.

    Raises:
        OSError: The file cannot be written.
    """
    made = TestSuite(suite)
    for case in cases:
        entry = TestCase(_legal(case.name), classname=_legal(case.group))
        if case.problem is not None:
            text = _legal(case.problem)
            failure = Failure(text.partition("\n")[0])
            failure.text = text
            entry.result = [failure]
        elif case.not_run is not None:
            entry.result = [Skipped(_legal(case.not_run))]
        made.add_testcase(entry)
    document = JUnitXml()
    document.add_testsuite(made)
    document.update_statistics()  # type: ignore[no-untyped-call]
    document.write(str(path), pretty=True)


def _legal(text: str) -> str:
    return _ILLEGAL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
