"""The command line, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_loadwire.commands import loadwire

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs `loadwire` with these arguments, 80 columns wide; `input` is its standard input."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("LOADWIRE_NATIVE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str | Path, input: str | bytes | None = None) -> Result:  # noqa: A002
        return CliRunner().invoke(
            loadwire, list(map(str, arguments)), input=input, prog_name="loadwire"
        )

    return run
