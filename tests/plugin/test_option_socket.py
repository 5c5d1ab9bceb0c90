"""--loadwire-socket and its ini key."""

from __future__ import annotations

import pytest

TEST = """
def test_mode(loadwire_capture):
    print("mode:", loadwire_capture("engine.open_socket").mode)

def test_chosen(loadwire_capture):
    print("chosen:", loadwire_capture("engine.open_socket", mode="live").mode)
"""


@pytest.mark.parametrize(
    ("ini", "arguments", "mode"),
    [
        ("", [], "stub"),
        ("", ["--loadwire-socket=stub"], "stub"),
        ("", ["--loadwire-socket=live"], "live"),
        ("loadwire_socket = live", [], "live"),
        ("loadwire_socket = live", ["--loadwire-socket=stub"], "stub"),
    ],
)
def test_the_mode_of_captures(
    repo: pytest.Pytester, ini: str, arguments: list[str], mode: str
) -> None:
    """The option wins over the ini file, the ini file over `stub`, and the header says which."""
    repo.makeini(f"[pytest]\n{ini}\n")
    repo.makepyfile(TEST)
    result = repo.runpytest("-s", *arguments)
    result.stdout.fnmatch_lines(
        [f"loadwire: socket={mode}, timeout=5 s", f"*mode: {mode}*", "*chosen: live*"]
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("ini", "arguments", "source"),
    [
        ("", ["--loadwire-socket=dead"], "--loadwire-socket"),
        ("loadwire_socket = dead", [], "loadwire_socket in the ini file"),
    ],
)
def test_a_bad_mode_is_a_usage_error(
    pytester: pytest.Pytester, ini: str, arguments: list[str], source: str
) -> None:
    """A mode that does not exist stops the run and lists those that do."""
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {source} must be one of stub, live, not 'dead'"])
