"""Programs that some tests look through: a browser, a terminal."""

from __future__ import annotations

import os
import shutil

import pytest


def need(*names: str, packages: str) -> list[str]:
    """The paths of programs. Where one is missing the test skips.

    It fails for those that `LOADWIRE_REQUIRES` names: `.ci/run` does so once it has installed them.

    Args:
        names: The programs.
        packages: What to install for them.
    """
    found = {name: shutil.which(name) for name in names}
    missing = {name for name, path in found.items() if path is None}
    if missing:
        reason = f"not on PATH: {', '.join(sorted(missing))}; apt-get install {packages}"
        if missing & set(os.environ.get("LOADWIRE_REQUIRES", "").split()):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return [path for path in found.values() if path is not None]
