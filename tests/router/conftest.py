"""Makes the folder of wrong implementations importable as the package `wrong`."""

from __future__ import annotations

import sys
from pathlib import Path

# Under --import-mode=importlib pytest puts no folder on the path by itself.
_TESTS = str(Path(__file__).resolve().parents[1])
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
