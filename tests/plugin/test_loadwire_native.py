"""The fixture loadwire_native where there is no decoder; tests/harness tries it with one."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from pytest_loadwire.harness import native

TEST = """
def test_one(loadwire_native):
    pass

def test_other(loadwire_native):
    pass
"""


@pytest.fixture(autouse=True)
def no_decoder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a native decoder."""

    def load(path: str | None = None) -> NoReturn:
        raise native.NativeUnavailable("no cargo and no library")

    monkeypatch.setattr(native, "load", load)
    monkeypatch.delenv("LOADWIRE_NATIVE", raising=False)
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(TEST)


def test_what_is_not_run_is_said_loudly(pytester: pytest.Pytester) -> None:
    """Without a decoder the tests are skipped, and the summary says how many and why."""
    result = pytester.runpytest()
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(
        ["loadwire: 2 test(s) of the native decoder NOT RUN: no cargo and no library"]
    )


def test_it_is_a_failure_under_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under CI a missing decoder is an error, as a skip would go unseen."""
    monkeypatch.setenv("CI", "true")
    result = pytester.runpytest()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["loadwire_native: no cargo and no library"])
    result.stdout.no_fnmatch_line("*NOT RUN*")


def test_it_is_a_failure_for_a_library_that_was_named(pytester: pytest.Pytester) -> None:
    """A library that was asked for and does not load is an error."""
    Path("broken.so").touch()
    result = pytester.runpytest("--loadwire-native=broken.so")
    result.assert_outcomes(errors=2)


def test_a_run_without_skips_says_nothing(pytester: pytest.Pytester) -> None:
    """Tests that are skipped for reasons of their own are not counted."""
    pytester.makepyfile("import pytest\ndef test_x():\n    pytest.skip('elsewhere')\n")
    result = pytester.runpytest()
    result.assert_outcomes(skipped=1)
    result.stdout.no_fnmatch_line("*loadwire: *NOT RUN*")
