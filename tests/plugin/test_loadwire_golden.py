"""The fixture loadwire_golden."""

from __future__ import annotations

import pytest


def test_the_vectors_are_at_hand(pytester: pytest.Pytester) -> None:
    """A test of any repository gets the golden vectors as records."""
    pytester.makepyfile(
        """
        from pytest_loadwire.vectors import Golden, load

        def test_vectors(loadwire_golden):
            assert isinstance(loadwire_golden, Golden)
            assert loadwire_golden is load()
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
