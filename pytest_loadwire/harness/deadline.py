"""The deadlines of the package, as the harness has always called them."""

from __future__ import annotations

from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError

__all__ = ["DEFAULT_TIMEOUT", "Deadline", "DeadlineError"]
