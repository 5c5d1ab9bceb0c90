"""An engine adopts the kit in two steps and passes; each bug from real history is caught in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.journeys.engine.bugs import BUGS, Bug

REPO = Path(__file__).with_name("repo")
TESTS = "tests/test_load_contract.py"
CLASSES = ["TestWire", "TestPublisher", "TestEndpoints", "TestDiscovery", "TestScheduler"]


class Failure(NamedTuple):
    """One failed test of the engine: its class, the case's rule and id, and what it says."""

    kind: str
    rule: str
    case: str
    text: str

    @property
    def broken(self) -> str:
        """The rule that the message names."""
        return self.text.split(" ", 1)[0]


class Run(NamedTuple):
    """What became of the engine's tests."""

    code: int
    text: str

    @property
    def passed(self) -> Counter[str]:
        """How many tests passed, by class."""
        return Counter(re.findall(r"^tests/\S+::(\w+)::\S+ PASSED", self.text, re.MULTILINE))

    @property
    def skipped(self) -> set[str]:
        """Why tests were skipped."""
        return set(re.findall(r"^SKIPPED \[\d+\] \S+ (.*)$", self.text, re.MULTILINE))

    @property
    def failures(self) -> list[Failure]:
        """The failed tests, with all that they say."""
        found = re.findall(
            r"^_+ (\w+)\.\w+\[(\w+?)-([^\n]*)\] _+\n(.*?)\n(?=_+ \w+\.|={5,})",
            self.text,
            re.MULTILINE | re.DOTALL,
        )
        return [Failure(*parts) for parts in found]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the engine's repository."""
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    return Path(shutil.copytree(REPO, tmp_path / "engine", ignore=ignore))


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, str]]:
    """What each bug was reported as; shown with -s."""
    rows: dict[str, str] = {}
    yield rows
    width = max(map(len, rows), default=0)
    print("", *(f"{name:<{width}}  {row}" for name, row in rows.items()), sep="\n")  # noqa: T201


def run(repo: Path, *arguments: str, classes: Sequence[str] = ()) -> Run:
    """The engine's developer runs pytest, with nothing of our own run in the environment."""
    own = ("PYTEST_", "LOADWIRE_")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider"),
            *arguments,
            *([f"{TESTS}::{kind}" for kind in classes] or [TESTS]),
        ],
        cwd=repo,
        env={k: v for k, v in os.environ.items() if not k.startswith(own)} | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr)


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_the_engine_keeps_the_contract(repo: Path, mode: str) -> None:
    """All five classes pass, and what is skipped needs a socket or a machine of another kind."""
    done = run(repo, f"--loadwire-socket={mode}")

    assert done.code == 0, done.text
    assert set(CLASSES) == set(done.passed)
    assert min(done.passed.values()) > 20
    owed = "this machine has no IPv6 loopback"
    if mode == "stub":
        owed = r"\S+-live-\S+ needs --loadwire-socket=live"
    assert [] == [reason for reason in done.skipped if not re.search(owed, reason)]


def test_it_is_adopted_in_two_steps() -> None:
    """A dependency of the tests and one file of them; the engine itself knows nothing of it."""
    naming = {
        str(path.relative_to(REPO))
        for path in REPO.rglob("*")
        if path.suffix in (".py", ".toml") and re.search("pytest.loadwire", path.read_text("utf-8"))
    }

    assert {"pyproject.toml", TESTS} == naming


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_bug_is_caught(bug: Bug, repo: Path, table: dict[str, str]) -> None:
    """It is reported by its rule in words to mend it by, and by others for a reason only."""
    bug.apply(repo)

    done = run(repo, classes=bug.classes)

    assert done.code == 1, done.text
    failures = done.failures
    assert len(failures) == int(re.findall(r"(\d+) failed", done.text)[-1])
    named = {rule for failure in failures for rule in (failure.rule, failure.broken)}
    assert {bug.rule, *bug.more} == named
    (told,) = (f for f in failures if f.case == bug.case and bug.rule in (f.rule, f.broken))
    assert told.broken == bug.rule
    for part in (f"{bug.rule} ", "\n  expected  ", "\n  got       ", *bug.says):
        assert part in told.text
    lines = told.text.splitlines()
    table[bug.name] = f"{bug.rule:<3} {told.rule}-{told.case}: {lines[0]}"


def test_every_bug_is_its_own() -> None:
    """The bugs change different things, and all of the history that was promised is there."""
    assert len(BUGS) == len({bug.name for bug in BUGS}) == len({bug.new + bug.old for bug in BUGS})
    assert len(BUGS) >= 11


def test_a_bug_that_no_longer_fits_is_noticed(repo: Path) -> None:
    """A change of the repository that a bug is not carried over to is an error, not a pass."""
    (repo / BUGS[0].file).write_text("", "utf-8")

    with pytest.raises(ValueError, match="has 0 of"):
        BUGS[0].apply(repo)
