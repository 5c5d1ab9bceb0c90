"""The fixture make_loadwire_publisher."""

from __future__ import annotations

import pytest


def test_several_ranks_publish_at_once(repo: pytest.Pytester) -> None:
    """Each publisher has its own endpoint and sequence, takes options, and is closed at the end."""
    repo.makepyfile(
        """
        import engine

        MADE = []

        def test_ranks(make_loadwire_publisher, make_loadwire_subscriber):
            MADE[:] = make_loadwire_publisher(), make_loadwire_publisher(sheds=True, timeout=1)
            one, other = MADE
            readers = [make_loadwire_subscriber(publisher) for publisher in MADE]
            one.publish(engine.reading(1))
            one.publish(engine.reading(2))
            other.publish(engine.reading(3))
            assert [reader.receive().stat.num_running_reqs for reader in readers] == [1, 3]
            assert (one.sequence, other.sequence) == (2, 1)

        def test_closed():
            assert [publisher.closed for publisher in MADE] == [True, True]
        """
    )
    repo.runpytest("-W", "error").assert_outcomes(passed=2)
