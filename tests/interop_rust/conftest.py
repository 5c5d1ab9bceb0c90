"""The Rust program with sockets, built when it is asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.harness.program import Program

CRATE = Path(__file__).resolve().parents[2] / "rust-check"

BUILD_SECONDS = 600.0
"""How long cargo may take; a first build downloads the crates."""

SECONDS = 20.0
"""How long anything else may take."""


class Lines:
    """A running program that prints JSON lines."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def next(self) -> dict[str, object]:
        """The next line, in time."""
        line = self.program.line(Deadline(SECONDS))
        assert line is not None, f"no line came: {self.program.stderr()}"
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def end(self) -> tuple[int | None, str]:
        """That nothing more is printed: the exit status, and what was said on stderr."""
        assert self.program.line(Deadline(SECONDS)) is None
        assert self.program.how_it_ended().startswith("exit status")
        return self.program.status, self.program.stderr()


@pytest.fixture(scope="session")
def rust_program() -> Path:
    """The program with the feature ``live``; without cargo a skip, and under CI a failure.

    It has a target folder of its own, since other tests build the program without that feature.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("cargo is not on PATH: NOT RUN")
    command = [cargo, "build", "--locked", "--features=cli,live", "--bin=loadwire-check"]
    place = ["--manifest-path", str(CRATE / "Cargo.toml"), "--target-dir", CRATE / "target/live"]
    done = subprocess.run(
        [*command, *place, "--message-format=json-render-diagnostics"],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        env={**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0"},  # builds faster
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    built = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return Path(next(path for path in built if path is not None))


@pytest.fixture
def run_rust(rust_program: Path) -> Iterator[Callable[..., Lines]]:
    """Runs the program with these arguments; whatever still runs at the end is killed."""
    running: list[Program] = []

    def run(*arguments: object) -> Lines:
        running.append(Program([rust_program, *map(str, arguments)]))
        return Lines(running[-1])

    yield run
    for program in running:
        program.kill()
