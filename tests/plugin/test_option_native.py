"""--loadwire-native, its ini key and its environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

TEST = """
def test_path(loadwire_native):
    print("path:", loadwire_native)
"""


@pytest.fixture
def library(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of a library, and a native.load that answers with its argument."""
    monkeypatch.delenv("LOADWIRE_NATIVE", raising=False)
    monkeypatch.setattr("pytest_loadwire.harness.native.load", lambda path=None: path)
    pytester.makepyfile(TEST)
    names = ("option.so", "variable.so", "ini.so")
    for name in names:
        (pytester.mkdir(name.partition(".")[0]) / name).touch()
    return pytester.path


@pytest.mark.parametrize(
    ("ini", "variable", "arguments", "found"),
    [
        ("", None, [], None),
        ("ini/ini.so", None, [], "ini/ini.so"),
        ("ini/ini.so", "variable/variable.so", [], "variable/variable.so"),
        ("ini/ini.so", "", [], None),
        ("", None, ["--loadwire-native=option/option.so"], "option/option.so"),
        (
            "ini/ini.so",
            "variable/variable.so",
            ["--loadwire-native=option/option.so"],
            "option/option.so",
        ),
    ],
)
def test_the_library_that_is_named(
    library: Path,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    ini: str,
    variable: str | None,
    arguments: list[str],
    found: str | None,
) -> None:
    """The option wins over the environment, that over the ini file; else it is None."""
    pytester.makeini(f"[pytest]\nloadwire_native = {ini}\n")
    if variable is not None:
        monkeypatch.setenv("LOADWIRE_NATIVE", variable)
    result = pytester.runpytest("-s", *arguments)
    expected = None if found is None else library / found
    result.stdout.fnmatch_lines([f"*path: {expected}*"])
    header = [line for line in result.outlines if line.startswith("loadwire: ")]
    assert header == [
        "loadwire: socket=stub, timeout=5 s" + (f", native={expected}" if expected else "")
    ]


@pytest.mark.parametrize(
    ("ini", "variable", "arguments", "source"),
    [
        ("gone.so", None, [], "loadwire_native in the ini file"),
        ("", "gone.so", [], "LOADWIRE_NATIVE"),
        ("", None, ["--loadwire-native=gone.so"], "--loadwire-native"),
    ],
)
def test_a_path_that_is_no_file_is_a_usage_error(
    library: Path,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    ini: str,
    variable: str | None,
    arguments: list[str],
    source: str,
) -> None:
    """A library that is named and is not there stops the run instead of being passed over."""
    pytester.makeini(f"[pytest]\nloadwire_native = {ini}\n")
    if variable is not None:
        monkeypatch.setenv("LOADWIRE_NATIVE", variable)
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: {source} must be the path of a shared library, not 'gone.so'"]
    )
