"""Every command of the README prints what the README shows."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from states import only_revision_1, write_state

from pytest_loadwire import vectors
from pytest_loadwire.commands import loadwire
from pytest_loadwire.engine.fleet import Fleet

README = (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")
Invoke = Callable[..., Result]


def shown(command: str) -> list[tuple[list[str], list[str]]]:
    """The arguments and the lines of each console block that runs a command."""
    found = []
    for text in re.findall(r"^```console\n\$ (.*?)^```$", README, re.DOTALL | re.MULTILINE):
        call, _, lines = text.partition("\n")
        program, *arguments = shlex.split(call)
        if [program, arguments[0]] == ["loadwire", command]:
            found.append((arguments, lines.splitlines()))
    return found


def assert_printed(lines: list[str], printed: str) -> None:
    """Every shown line was printed, one right behind the other but where `...` stands."""
    rest = [line.rstrip() for line in printed.splitlines()]
    skips = False
    for line in lines:
        if line == "...":
            skips = True
            continue
        if skips:
            assert line in rest
            rest = rest[rest.index(line) :]
        assert line == rest.pop(0)
        skips = False
    assert skips or not rest


def shape(lines: list[str]) -> list[str]:
    """Lines without their numbers and what numbers make wider: ports, counts, rules of a table."""
    kept = [re.sub(r"\d[\d.]*", "0", line) for line in lines]
    return [" ".join(re.sub(r"[━─]+", "-", line).split()) for line in kept]


@pytest.mark.parametrize("command", ["explain", "plan"])
def test_what_is_shown_of_a_command_that_needs_nothing(invoke: Invoke, command: str) -> None:
    """The call of the README prints the lines of the README."""
    ((arguments, lines),) = shown(command)
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert_printed(lines, result.stdout)


def test_what_is_shown_of_breaking(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The growth from 6 elements to 11 comes out as the README shows it."""
    ((arguments, lines),) = shown("breaking")
    monkeypatch.chdir(tmp_path)
    write_state(tmp_path / "revision-1", only_revision_1)
    (tmp_path / "golden").symlink_to(vectors.folder())
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert_printed(lines, result.stdout)


def test_what_is_shown_of_a_worker_that_conforms(invoke: Invoke) -> None:
    """A fleet of two ranks comes out as the README shows it, but for the numbers."""
    (_, lines), _ = shown("check")
    with Fleet(ranks=2) as fleet:
        stop = threading.Event()
        engines = threading.Thread(target=lambda: fleet.run(None, stop))
        engines.start()
        try:
            result = invoke("check", *fleet.urls, "--seconds", "1.5")
        finally:
            stop.set()
            engines.join(10)
    assert result.exit_code == 0, result.stdout
    assert_printed(shape(lines), "\n".join(shape(result.stdout.splitlines())))


def test_what_is_shown_of_a_dead_publisher(invoke: Invoke) -> None:
    """A live advertisement of a dead publisher comes out as the README shows it."""
    _, (_, lines) = shown("check")
    with Fleet() as fleet:
        (engine,) = fleet.engines
        engine._close(0)
        result = invoke("check", *fleet.urls)
    assert result.exit_code == 1, result.stdout
    assert_printed(shape(lines), "\n".join(shape(result.stdout.splitlines())))


def test_every_command_has_its_place() -> None:
    """Each command of the program is in the README, and each that the README has is there."""
    named = set(re.findall(r"\bloadwire ([a-z]+)\b", README))
    assert set(loadwire.commands) <= named
    calls = re.findall(r"^(?:\$ )?loadwire ([a-z]+)", README, re.MULTILINE)
    assert set(calls) <= set(loadwire.commands)
