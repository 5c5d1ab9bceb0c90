"""The timelines of a router: what it knows of each worker, spelled by hand, a line for each step.

How a line reads, and the numbers behind the names: `pytest_loadwire.golden.reading_lines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden.reading_events import event_timelines
from pytest_loadwire.golden.reading_lines import timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.readings import ReadingTimeline


def reading_timelines() -> Iterator[ReadingTimeline]:
    """Every timeline of ``readings.json``."""
    yield from _sums()
    yield from _ranks()
    yield from _freshness()
    yield from _unknown()
    yield from event_timelines()


def _sums() -> Iterator[ReadingTimeline]:
    yield timeline(
        "one-rank",
        "C1",
        "a worker with one rank has that rank's load, as soon as it comes and as it changes",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 a        | A a
        100.5   A.0 #1 c        | A c
        100.75  A.0 #2 a        | A a
        """,
    )
    yield timeline(
        "sum-of-three-ranks",
        "C3",
        "the load is the sum, not the least, the greatest, the mean or the newest of the ranks",
        """
        100     A on 5558 x3    | A never-published 0 1 2
        100.25  A.0 #0 a        | A missing-rank 1 2
        100.5   A.1 #0 b        | A missing-rank 2
        100.75  A.2 #0 c        | A a+b+c
        """,
    )
    yield timeline(
        "sum-past-2-53",
        "C3",
        "sums are exact where a double is not",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 double   | A double+a
        """,
    )
    yield timeline(
        "sum-past-2-64",
        "C3",
        "a sum that passes 2^64 does not wrap around and read as a small one",
        """
        100     A on 5558 x3    | A never-published 0 1 2
        100.25  A.0 #0 signed   | A missing-rank 1 2
        100.5   A.1 #0 signed   | A missing-rank 2
        100.75  A.2 #0 signed   | A signed+signed+signed
        """,
    )
    yield timeline(
        "capacity-0",
        "C3",
        "a rank that does not know its capacity sends 0, and its other counts stand",
        """
        100     A on 5558 x2       | A never-published 0 1
        100.25  A.0 #0 no-capacity | A missing-rank 1
        100.5   A.1 #0 b           | A no-capacity+b
        """,
    )
    yield timeline(
        "capacity-0-alone",
        "C3",
        "a worker that does not know its capacity has a load all the same, and nobody divides by 0",
        """
        100     A on 5558 x1       | A never-published 0
        100.25  A.0 #0 no-capacity | A no-capacity
        """,
    )
    yield timeline(
        "two-workers-on-one-host",
        "R3",
        "workers that share a host, and ranks of one number, have a load each",
        """
        100     A on 5558 x1    | A never-published 0
        100     B on 5568 x1    | A never-published 0; B never-published 0
        100     C on 5558 x1    | A never-published 0; B never-published 0; C never-published 0
        100.25  A.0 #0 a        | A a; B never-published 0; C never-published 0
        100.5   B.0 #0 b        | A a; B b; C never-published 0
        100.75  C.0 #0 c        | A a; B b; C c
        101     A.0 #1 d        | A d; B b; C c
        """,
    )


def _ranks() -> Iterator[ReadingTimeline]:
    yield timeline(
        "missing-rank",
        "C3",
        "while a rank has not published, the worker is unknown, not smaller by that rank",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.1 #0 b        | A missing-rank 0
        100.5   A.1 #1 c        | A missing-rank 0
        100.75  A.0 #0 a        | A a+c
        """,
    )
    yield timeline(
        "payload-swaps-the-ranks",
        "R3",
        "ranks whose payloads name each other, at first, are told apart by their sockets",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a as 1   | A missing-rank 1
        100.5   A.1 #0 b as 0   | A a+b
        100.75  A.0 #1 c as 0   | A b+c
        """,
    )
    yield timeline(
        "payloads-all-say-rank-0",
        "R3",
        "ranks that all claim to be rank 0 are different ranks all the same",
        """
        100     A on 5558 x3    | A never-published 0 1 2
        100.25  A.0 #0 a as 0   | A missing-rank 1 2
        100.5   A.1 #0 b as 0   | A missing-rank 2
        100.75  A.2 #0 c as 0   | A a+b+c
        """,
    )
    yield timeline(
        "payload-rank-beyond-dp-size",
        "R3",
        "a payload may name a rank that the worker does not have, or none",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a as 7   | A missing-rank 1
        100.5   A.1 #0 b as nil | A a+b
        """,
    )


def _freshness() -> Iterator[ReadingTimeline]:
    yield timeline(
        "age-at-the-window",
        "C2",
        "a reading is fresh when it is exactly as old as the window, and stale right behind",
        """
        100            A on 5558 x1    | A never-published 0
        100.25         A.0 #0 a        | A a
        105            -               | A a
        105.25         -               | A a
        105.2509765625 -               | A stale-rank 0
        200            -               | A stale-rank 0
        """,
    )
    yield timeline(
        "age-at-a-shorter-window",
        "C2",
        "the window is what the router was configured to",
        """
        100            A on 5558 x1    | A never-published 0
        100.25         A.0 #0 a        | A a
        102.75         -               | A a
        102.7509765625 -               | A stale-rank 0
        """,
        window="2.5",
    )
    yield timeline(
        "age-at-a-longer-window",
        "C2",
        "the window is what the router was configured to, also where it is long",
        """
        100            A on 5558 x1    | A never-published 0
        100.25         A.0 #0 a        | A a
        130.25         -               | A a
        130.2509765625 -               | A stale-rank 0
        """,
        window="30",
    )
    yield timeline(
        "stale-rank",
        "C3",
        "one stale rank makes the worker unknown, however fresh the others are",
        """
        100     A on 5558 x2    | A never-published 0 1
        100     A.0 #0 a        | A missing-rank 1
        100     A.1 #0 b        | A a+b
        102     A.0 #1 a        | A a+b
        104     A.0 #2 a        | A a+b
        105     -               | A a+b
        105.5   -               | A stale-rank 1
        106     A.0 #3 a        | A stale-rank 1
        106.5   A.1 #1 c        | A a+c
        """,
    )
    yield timeline(
        "all-ranks-stale",
        "C3",
        "an engine that falls silent is unknown, and known again when every rank has published",
        """
        100     A on 5558 x2    | A never-published 0 1
        100     A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        106     -               | A stale-rank 0 1
        107     A.1 #1 b        | A stale-rank 0
        107.5   A.0 #1 a        | A a+b
        """,
    )
    yield timeline(
        "heartbeat-of-an-unchanged-reading",
        "C2",
        "the same reading again is a new reading: it is as fresh as any",
        """
        100     A on 5558 x1    | A never-published 0
        100     A.0 #0 a        | A a
        101     A.0 #1 a        | A a
        102     A.0 #2 a        | A a
        107     -               | A a
        107.5   -               | A stale-rank 0
        108     A.0 #3 a        | A a
        113     -               | A a
        """,
    )
    yield timeline(
        "one-worker-stale",
        "C3",
        "a stale worker takes nothing from the others",
        """
        100     A on 5558 x1    | A never-published 0
        100     B on 5568 x1    | A never-published 0; B never-published 0
        100     A.0 #0 a        | A a; B never-published 0
        103     B.0 #0 b        | A a; B b
        105.5   -               | A stale-rank 0; B b
        """,
    )


def _unknown() -> Iterator[ReadingTimeline]:
    yield timeline(
        "never-published",
        "C4",
        "a worker that never published is unknown, not idle, however long that lasts",
        """
        100     A on 5558 x2    | A never-published 0 1
        104     -               | A never-published 0 1
        200     -               | A never-published 0 1
        """,
    )
    yield timeline(
        "never-published-beside-a-busy-one",
        "C4",
        "a worker that never published is not idle beside one that has",
        """
        100     A on 5558 x1    | A never-published 0
        100     C on 5558 x1    | A never-published 0; C never-published 0
        100.25  C.0 #0 c        | A never-published 0; C c
        """,
    )
    yield timeline(
        "idle-is-a-reading",
        "C4",
        "a worker that reads zero is known: it is idle",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 idle     | A idle
        100.5   A.0 #1 a        | A a
        100.75  A.0 #2 idle     | A idle
        """,
    )
    yield timeline(
        "no-load-advertised",
        "C4",
        "a worker that advertises no load is unknown",
        """
        100     A off           | A not-advertised
        200     -               | A not-advertised
        """,
    )
