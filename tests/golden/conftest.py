"""A golden folder to break."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_loadwire.golden.__main__ import main
from pytest_loadwire.vectors import folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the golden folder, released or not as the original is."""
    return Path(shutil.copytree(folder(), tmp_path / "golden"))


@pytest.fixture
def released_root(root: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of the golden folder that was released as it stands."""
    assert main(["--release", "0.1.0", "--root", str(root)]) == 0
    capsys.readouterr()
    return root
