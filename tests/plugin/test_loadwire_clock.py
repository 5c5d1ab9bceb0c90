"""The fixture loadwire_clock."""

from __future__ import annotations

import pytest


def test_the_clock_of_a_module_is_moved_and_put_back(repo: pytest.Pytester) -> None:
    """An engine reads the clock of the test while it lasts, and its own one after that."""
    repo.makepyfile(
        """
        import time
        import engine

        def test_heartbeat(loadwire_clock):
            loadwire_clock.install("engine")
            before = engine.time.monotonic()
            loadwire_clock.advance(1.0)
            assert engine.time.monotonic() - before == 1.0

        def test_afterwards():
            assert engine.time is time
        """
    )
    repo.runpytest().assert_outcomes(passed=2)
