"""The timelines of readings.json catch every wrong table, and none is there for nothing."""

from __future__ import annotations

from functools import cache

import pytest
from wrong.tables import WRONG

from pytest_loadwire.router.replay import replay
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.vectors import load

TIMELINES = load().readings


@cache
def failures(kind: type[ReadingTable]) -> dict[str, set[str]]:
    """Rule to the timelines that a table fails."""
    found: dict[str, set[str]] = {}
    for timeline in TIMELINES:
        if any(True for _ in replay(timeline, lambda w, c: kind(window=w, clock=c))):
            found.setdefault(timeline.rule, set()).add(timeline.id)
    return found


@pytest.mark.parametrize(("kind", "rules"), WRONG, ids=[kind.__name__ for kind, _ in WRONG])
def test_a_wrong_table_is_caught(kind: type[ReadingTable], rules: set[str]) -> None:
    """Each of these mistakes fails timelines of the rules that it breaks."""
    assert set() == rules - failures(kind).keys()


def test_every_timeline_catches_a_wrong_table() -> None:
    """No timeline is there for nothing."""
    names = [timeline.id for timeline in TIMELINES]
    caught = {name for kind, _ in WRONG for found in failures(kind).values() for name in found}
    assert [] == [name for name in names if name not in caught]
