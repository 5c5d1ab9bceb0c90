"""The engine repository in `repo` is run by the tests here, in a copy, and never collected."""

from __future__ import annotations

collect_ignore = ["repo"]
