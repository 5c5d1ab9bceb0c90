"""`loadwire breaking`, run in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from junitparser import JUnitXml
from states import append_revision_3, commit, git, only_revision_1, swap, write_state

from pytest_loadwire.vectors import folder

Invoke = Callable[..., Result]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The contract as it was with revision 1 alone."""
    return write_state(tmp_path / "revision-1", only_revision_1)


@pytest.fixture
def swapped(tmp_path: Path) -> Path:
    """A contract in which two fields changed places."""
    return write_state(tmp_path / "swapped", swap)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that released today's contract as v0.1.0; the current folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    top = tmp_path / "repository"
    top.mkdir()
    write_state(top / "golden")
    git(top, "init", "-q", "-b", "main")
    commit(top, "release")
    git(top, "tag", "v0.1.0")
    monkeypatch.chdir(top)
    return top


def test_no_change(invoke: Invoke):
    """The same state twice breaks nothing."""
    done = invoke("breaking", folder(), folder())

    assert 0 == done.exit_code
    assert [
        "no change of fields, vectors, rules or codes",
        "rollout: either: no element of any revision changed, so there is no order to keep",
        "nothing breaks",
    ] == done.output.splitlines()[-3:]


def test_growth(invoke: Invoke, old: Path):
    """Legal growth ends well, and names the idioms that do not stand it, with what they do."""
    done = invoke("breaking", old, folder())

    assert 0 == done.exit_code
    assert "W11 revision appended: revision 2: 11 elements" in done.output
    assert "│ rust: derived tuple struct   │ refuses       │ refuses       │ neither" in done.output
    assert "│ `#[serde(default)]`" in done.output
    assert "hazard attracts-all: the worker reads as idle and draws all traffic" in done.output
    assert "rollout: either side may go first" in done.output
    assert (
        "nothing breaks where routers keep the contract; 5 of 11 known idioms break, which"
        " --strict counts too"
    ) == done.output.splitlines()[-1]
    assert all(len(line) <= 80 for line in done.output.splitlines() if line[:1] in "│┃├┏└┡")


def test_strict(invoke: Invoke, old: Path):
    """With --strict an idiom that breaks counts."""
    done = invoke("breaking", "--strict", old, folder())

    assert 1 == done.exit_code
    assert "it breaks: 5 of 11 idioms break" == done.output.splitlines()[-1]


def test_idioms(invoke: Invoke):
    """With --idioms each says how it reads, and what became of it, also where nothing did."""
    done = invoke("breaking", "--idioms", folder(), folder())

    assert (
        "java: unpacker, element by element (msgpack-core)\n"
        "  how it reads: Unpacks one element after another as a long, and leaves what follows"
        " unread.\n"
        "  old router, new engines: reads\n"
    ) in done.output


def test_breaking_change(invoke: Invoke, swapped: Path):
    """A change that breaks the contract ends in status 1, with rule, field and who has to act."""
    done = invoke("breaking", folder(), swapped)

    assert 1 == done.exit_code
    assert (
        "FAILED  W11 field reordered: revision 2, element 1 (num_running_reqs): moves to element"
        " 2; every router that reads revision 2 by position takes num_waiting_reqs for it"
        " [routers, engines]"
    ) in done.output
    assert "rollout: neither: not without downtime" in done.output
    assert "it breaks: 2 breaking" == done.output.splitlines()[-1]


def test_names_of_others(invoke: Invoke, tmp_path: Path):
    """What a folder calls its rules and vectors is shown to the letter, whatever it is."""

    def rename(state: dict[str, Any]) -> None:
        vector = dict(
            state["payloads"]["vectors"][0], id="\x1b[2J", rule="[/x]", why="\x1b]0;x\x07"
        )
        state["payloads"]["vectors"].append(vector)

    theirs = write_state(tmp_path / "theirs", rename)
    for states in ((folder(), theirs), (theirs, folder())):
        done = invoke("breaking", *states)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        assert "[/x]" in done.output
        assert "\x1b" not in done.output


def test_json(invoke: Invoke, old: Path, swapped: Path):
    """For machines: all changes, the order, and ok as the exit status has it."""
    grown = invoke("breaking", "--json", old, folder())
    strict = invoke("breaking", "--json", "--strict", old, folder())
    broken = invoke("breaking", "--json", folder(), swapped)

    assert [(0, True), (1, False), (1, False)] == [
        (done.exit_code, json.loads(done.output)["ok"]) for done in (grown, strict, broken)
    ]
    assert "either" == json.loads(grown.output)["rollout"]["order"]
    assert 2 == json.loads(broken.output)["grades"]["breaking"]


def cases(path: Path) -> dict[str, str]:
    """What a JUnit file says of each case of interest."""
    (suite,) = JUnitXml.fromfile(str(path))
    return {
        f"{case.classname} {case.name}": (
            type(case.result[0]).__name__ if case.result else "passed"
        )
        for case in suite
    }


def test_junit(invoke: Invoke, tmp_path: Path, old: Path, swapped: Path):
    """A case for each change and each idiom, which agree with the exit status."""
    path = tmp_path / "breaking.xml"

    assert 0 == invoke("breaking", "--junit", path, old, folder()).exit_code
    grown = cases(path)
    assert 1 == invoke("breaking", "--strict", "--junit", path, old, folder()).exit_code
    strict = cases(path)
    assert 1 == invoke("breaking", "--junit", path, folder(), swapped).exit_code
    broken = cases(path)

    tuples = "idioms rust: derived tuple struct"
    assert ["Skipped", "Failure"] == [grown[tuples], strict[tuples]]
    assert "passed" == grown["W11 revision appended: revision 2"]
    assert "passed" == grown["rollout a router that keeps the contract"]
    assert "Failure" not in grown.values()
    assert "Failure" == broken["rollout a router that keeps the contract"]
    moved = "W11 field reordered: revision 2, element 1 (num_running_reqs)"
    assert "Failure" == broken[moved]
    assert invoke("breaking", "--junit", tmp_path / "no" / "x", old, folder()).exit_code == 2


class TestRevisions:
    """Revisions of the repository here."""

    def test_clean(self, invoke: Invoke, repository: Path) -> None:
        """Without NEW it is the working tree."""
        done = invoke("breaking", "v0.1.0")

        assert 0 == done.exit_code
        assert done.output.startswith("old: v0.1.0 (golden in ")
        assert "new: golden in the working tree, as committed" in done.output

    def test_dirty(self, invoke: Invoke, repository: Path, swapped: Path) -> None:
        """What is not committed yet is found before it is."""
        edited = (swapped / "manifest.json").read_bytes()
        (repository / "golden" / "manifest.json").write_bytes(edited)

        done = invoke("breaking", "HEAD")

        assert 1 == done.exit_code
        assert "new: golden in the working tree, 1 file not committed" in done.output
        assert "field reordered" in done.output

    def test_two_revisions(self, invoke: Invoke, repository: Path, tmp_path: Path) -> None:
        """Two revisions of the history, whatever the working tree has."""
        appended = write_state(tmp_path / "appended", append_revision_3)
        edited = (appended / "manifest.json").read_bytes()
        (repository / "golden" / "manifest.json").write_bytes(edited)
        commit(repository, "revision 3")
        git(repository, "rm", "-rq", "golden")

        done = invoke("breaking", "v0.1.0", "HEAD:golden")

        assert 0 == done.exit_code
        assert "W11 revision appended: revision 3: 12 elements" in done.output
        back = invoke("breaking", "HEAD", "v0.1.0")
        assert 0 == back.exit_code
        assert "W11 revision dropped: revision 3: it is not released yet" in back.output

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ([], "Missing argument 'OLD'"),
            (["nobody"], "Error: no revision 'nobody' in this repository: neither a folder nor"),
            (["--", "--help"], "Error: no revision '--help' in this repository"),
            (["--", "HEAD", "--output=x"], "Error: no revision '--output=x' in this repository"),
            (["golden/README.md"], "Error: golden/README.md is a file; a golden folder or a git"),
            (["."], "Error: . is no golden folder: it has no manifest.json"),
            (["HEAD", "HEAD~1"], "Error: no revision 'HEAD~1' in this repository"),
        ],
    )
    def test_wrong_call(
        self, invoke: Invoke, repository: Path, arguments: list[str], says: str
    ) -> None:
        """What is no state of a contract is a wrong call, in one line."""
        done = invoke("breaking", *arguments)

        assert (2, True) == (done.exit_code, says in done.output), done.output


def test_help(invoke: Invoke):
    """The help has examples."""
    done = invoke("breaking", "--help")

    assert 0 == done.exit_code
    assert "  loadwire breaking v0.1.0\n" in done.output
