"""The terminal face: what is printed, and the exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pytest_loadwire import __version__, rules
from pytest_loadwire.commands import loadwire
from pytest_loadwire.commands.console import MOST_FAILURES
from pytest_loadwire.harness import native
from pytest_loadwire.vectors import folder, load

GOLDEN = load()
RULES = sorted(
    {
        *(vector.rule for vector in (*GOLDEN.payloads, *GOLDEN.frames)),
        *(vector.rule for vector in (*GOLDEN.endpoints, *GOLDEN.discovery)),
        *(vector.rule for vector in (*GOLDEN.cadence, *GOLDEN.readings)),
    }
)

Invoke = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder(), tmp_path / "golden"))


@pytest.fixture
def without_rust(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(path: str | None = None) -> native.NativeDecoder:
        raise native.NativeUnavailable("cargo is not on PATH; [install] Rust")

    monkeypatch.setattr(native, "load", unavailable)


NIL = '"reason": "not-array", "offset": 0,'


def tamper(root: Path, old: str = NIL, new: str = NIL.replace("0", "1")) -> None:
    file = root / "payloads.json"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def columns(table: str) -> list[str]:
    """The heads of a printed table."""
    (head,) = [line for line in table.splitlines() if "about" in line]
    return [cell.strip() for cell in re.split(r"[┃|]", head) if cell.strip()]


class TestCheck:
    def test_agreement(self, invoke: Invoke, loadwire_native: native.NativeDecoder) -> None:
        """All agree: a row for every rule, a column for every witness, and the totals."""
        done = invoke("check")
        assert done.exit_code == 0
        witnesses = ["msgspec", "msgpack", "rust", "socket", "reference"]
        assert ["rule", "about", *witnesses] == columns(done.stdout)
        rows = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ")}
        assert {*RULES, "│"} == rows
        flat = " ".join(done.stdout.split())
        assert f"{len(GOLDEN.payloads)} payload vectors, " in flat
        assert f", {len(GOLDEN.cadence)} cadence vectors, {len(GOLDEN.readings)} reading" in flat
        assert f"content hash {GOLDEN.content_hash}\n" in done.stdout
        assert done.stdout.splitlines()[-1] == "all agree"

    @pytest.mark.parametrize("width", [80, 100, 200])
    def test_width(
        self,
        invoke: Invoke,
        loadwire_native: native.NativeDecoder,
        monkeypatch: pytest.MonkeyPatch,
        width: int,
    ) -> None:
        """The table fits the terminal, and neither a number nor a rule's title is cut."""
        monkeypatch.setenv("COLUMNS", str(width))
        lines = invoke("check").stdout.splitlines()
        assert max(len(line) for line in lines) <= width
        (totals,) = [line for line in lines if "agreed" in line]
        expected = len(GOLDEN.payloads) + len(GOLDEN.frames)
        assert all(int(n) >= expected for n in re.findall(r"\d+", totals)[:3])
        assert [] == [rule for rule in RULES if rules.RULE_TITLES[rule] not in "".join(lines)]

    def test_without_rust(self, invoke: Invoke, without_rust: None) -> None:
        """What was not run is said with its reason, as it was given, and passes at home."""
        done = invoke("check")
        assert done.exit_code == 0
        assert ["msgspec", "msgpack", "socket", "reference"] == columns(done.stdout)[2:]
        assert "\nNOT RUN  rust: cargo is not on PATH; [install] Rust\n" in done.stdout
        assert done.stdout.splitlines()[-1] == "what ran agrees"

    def test_without_rust_under_ci(
        self, invoke: Invoke, without_rust: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a machine, what was not run fails."""
        monkeypatch.setenv("CI", "1")
        done = invoke("check")
        assert done.exit_code == 1
        assert "under CI what was not run fails" in done.stdout

    def test_disagreement(self, invoke: Invoke, root: Path, without_rust: None) -> None:
        """A disagreement is named by rule and vector, counted in its cell, and exits with 1."""
        tamper(root)
        done = invoke("check", "--golden", str(root))
        assert done.exit_code == 1
        flat = " ".join(done.stdout.split())
        assert "top-nil: msgspec: W10 wrong-place: expected not-array at" in flat
        assert "FAILED" in done.stdout
        assert done.stdout.splitlines()[-1].endswith(" disagreements")

    def test_many_disagreements(self, invoke: Invoke, root: Path, without_rust: None) -> None:
        """Many disagreements are cut, and it is said where the rest is."""
        file = root / "payloads.json"
        text = file.read_text("utf-8").replace('"reason": "truncated"', '"reason": "malformed"')
        file.write_text(text, "utf-8")
        done = invoke("check", "--golden", str(root))
        flat = " ".join(done.stdout.split())
        (total,) = re.findall(r"(\d+) disagreements", flat)
        assert f"... and {int(total) - MOST_FAILURES} more (see --json)" in flat
        assert len(
            json.loads(invoke("check", "--golden", str(root), "--json").stdout)["failures"]
        ) == int(total)

    def test_unknown_rule(self, invoke: Invoke, root: Path, without_rust: None) -> None:
        """A rule that is none does not stop the table."""
        tamper(root, '"rule": "W2"', '"rule": "W99"')
        done = invoke("check", "--golden", str(root))
        assert (1, True) == (done.exit_code, "not in the contract" in done.stdout)

    def test_json(self, invoke: Invoke, without_rust: None) -> None:
        """--json prints one JSON document and nothing else."""
        done = invoke("check", "--json")
        told = json.loads(done.stdout)
        assert (0, True, False) == (done.exit_code, told["ok"], told["strict"])
        assert {"rust": "cargo is not on PATH; [install] Rust"} == told["not_run"]
        assert {"msgspec", "msgpack", "socket", "reference"} == set(told["witnesses"])
        assert len(GOLDEN.payloads) == told["totals"]["payload vectors"]
        assert len(GOLDEN.cadence) == told["totals"]["cadence vectors"]
        assert set(RULES) == set(told["rules"])

    def test_json_under_ci(
        self, invoke: Invoke, without_rust: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The document says that what was not run counts."""
        monkeypatch.setenv("CI", "1")
        done = invoke("check", "--json")
        told = json.loads(done.stdout)
        assert (1, True, True) == (done.exit_code, told["ok"], told["strict"])

    def test_json_disagreement(self, invoke: Invoke, root: Path, without_rust: None) -> None:
        """The document has every disagreement."""
        tamper(root)
        done = invoke("check", "--json", "--golden", str(root))
        told = json.loads(done.stdout)
        assert (1, False) == (done.exit_code, told["ok"])
        assert any("top-nil: msgpack: W10 wrong-place" in failure for failure in told["failures"])

    @pytest.mark.parametrize(
        ("damage", "says"),
        [
            (lambda root: (root / "manifest.json").unlink(), "manifest.json: No such file"),
            (lambda root: (root / "manifest.json").write_text("{}"), "missing required field"),
            (lambda root: (root / "frames.json").write_text("["), "frames.json is no JSON: "),
            (lambda root: (root / "frames.json").unlink(), "`loadwire golden --write --root "),
        ],
    )
    def test_nothing_to_check(
        self, invoke: Invoke, root: Path, damage: Callable[[Path], object], says: str
    ) -> None:
        """A folder that is no golden folder is a wrong call."""
        damage(root)
        done = invoke("check", "--golden", str(root))
        assert done.exit_code == 2
        assert says in " ".join(done.output.split())
        assert "agreed" not in done.output

    @pytest.mark.parametrize(
        "arguments",
        [
            ["check", "--no-such-option"],
            ["check", "extra"],
            ["check", "--golden", "/nowhere"],
            ["check", "--native", "/nowhere/lib.so"],
            ["no-such-command"],
        ],
    )
    def test_wrong_call(self, invoke: Invoke, arguments: list[str]) -> None:
        """A wrong call exits with 2, and the message names what is wrong."""
        done = invoke(*arguments)
        assert done.exit_code == 2
        assert arguments[-1] in done.output

    def test_library_from_the_environment(
        self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """LOADWIRE_NATIVE names the library as --native does."""
        monkeypatch.setenv("LOADWIRE_NATIVE", "/nowhere/lib.so")
        done = invoke("check")
        assert (2, True) == (done.exit_code, "/nowhere/lib.so" in done.output)


class TestGolden:
    def test_check(self, invoke: Invoke, root: Path) -> None:
        """`golden --check` has the exit status of the module: 0, 1 and 2."""
        assert invoke("golden", "--check", "--root", str(root)).exit_code == 0
        tamper(root)
        done = invoke("golden", "--check", "--root", str(root))
        assert (1, True) == (done.exit_code, "top-nil differs" in done.stdout)
        assert invoke("golden", "--check", "--root", "/nowhere").exit_code == 2

    def test_write(self, invoke: Invoke, root: Path) -> None:
        """`golden --write` writes."""
        before = (root / "payloads.json").read_bytes()
        tamper(root)
        assert invoke("golden", "--write", "--root", str(root)).exit_code == 0
        assert before == (root / "payloads.json").read_bytes()

    @pytest.mark.parametrize("arguments", [[], ["--no-such-option"], ["--check", "--write"]])
    def test_wrong_call(self, invoke: Invoke, arguments: list[str]) -> None:
        """A wrong call exits with 2, and the usage has the name that was called."""
        done = invoke("golden", *arguments)
        assert (2, True) == (done.exit_code, "usage: loadwire golden [" in done.stderr)

    def test_help(self, invoke: Invoke) -> None:
        """Its help is that of the module."""
        done = invoke("golden", "--help")
        assert (0, True) == (done.exit_code, "--release VERSION" in done.stdout)
        assert "\nExit status 0: the files agree" in done.stdout
        assert "\nExample:\n  loadwire golden --check\n" in done.stdout


class TestHelp:
    @pytest.mark.parametrize("option", ["--help", "-h"])
    def test_commands(self, invoke: Invoke, option: str) -> None:
        """The help has every command with what it is for."""
        done = invoke(option)
        assert done.exit_code == 0
        assert re.search(r"^  check +Prove the vectors, or judge", done.stdout, re.MULTILINE)
        assert "..." not in done.stdout.partition("Commands:")[2]
        assert "Exit status of every command that checks something: 0" in done.stdout
        assert "\n    loadwire check http" in done.stdout
        assert all(len(one.short_help) <= 55 for one in loadwire.commands.values())
        assert re.search(r"^  golden +Regenerate, compare or release", done.stdout, re.MULTILINE)

    def test_check(self, invoke: Invoke) -> None:
        """The help of a command has its options and an example."""
        done = invoke("check", "--help")
        assert done.exit_code == 0
        for part in ("  Example:\n    loadwire check\n", "--golden", "--native", "--json"):
            assert part in done.stdout

    def test_version(self, invoke: Invoke) -> None:
        """It says its version."""
        assert f"pytest-loadwire, version {__version__}\n" == invoke("--version").stdout


def program(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra(missing: str) -> None:
    """Without the libraries of the extra the program says what to install, and exits with 2."""
    code = f"import sys; sys.modules[{missing!r}] = None; import pytest_loadwire.cli as c; c.main()"
    done = program(code)
    assert (2, "") == (done.returncode, done.stdout)
    said = done.stderr.strip()
    assert re.fullmatch(
        rf"loadwire: {missing}[.\w]* is not installed; pip install 'pytest-loadwire\[cli\]'", said
    )


def test_program() -> None:
    """The installed program runs, and prints no colours into a pipe."""
    code = "from pytest_loadwire.cli import main; main()"
    done = program(f"import sys; sys.argv[1:] = ['golden', '--check']; {code}")
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("golden: ")
    module = subprocess.run(
        [sys.executable, "-m", "pytest_loadwire.cli", "check", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, True) == (module.returncode, module.stdout.startswith("Usage: loadwire check"))
    assert "\x1b" not in module.stdout
