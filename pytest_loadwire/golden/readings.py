"""The timelines of a router: what it knows of each worker, spelled by hand, a line for each step.

How a line reads, and the numbers behind the names: `pytest_loadwire.golden.reading_lines`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_loadwire.golden.reading_lines import timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.readings import ReadingTimeline

MEASURED = "made up; follows from the rule and from what was measured of PUB sockets"

_timeline = partial(timeline, source="made up; follows from the rule")


def reading_timelines() -> Iterator[ReadingTimeline]:
    """Every timeline of ``readings.json``."""
    yield from _sums()
    yield from _ranks()
    yield from _freshness()
    yield from _unknown()
    yield from _sequences()
    yield from _revisions()
    yield from _undecodable()
    yield from _removals()
    yield from _advertisements()


def _sums() -> Iterator[ReadingTimeline]:
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
        "sum-past-2-53",
        "C3",
        "sums are exact where a double is not",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 double   | A double+a
        """,
    )
    yield _timeline(
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
    yield _timeline(
        "capacity-0",
        "C3",
        "a rank that does not know its capacity sends 0, and its other counts stand",
        """
        100     A on 5558 x2       | A never-published 0 1
        100.25  A.0 #0 no-capacity | A missing-rank 1
        100.5   A.1 #0 b           | A no-capacity+b
        """,
    )
    yield _timeline(
        "capacity-0-alone",
        "C3",
        "a worker that does not know its capacity has a load all the same, and nobody divides by 0",
        """
        100     A on 5558 x1       | A never-published 0
        100.25  A.0 #0 no-capacity | A no-capacity
        """,
    )
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
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
    yield _timeline(
        "never-published",
        "C4",
        "a worker that never published is unknown, not idle, however long that lasts",
        """
        100     A on 5558 x2    | A never-published 0 1
        104     -               | A never-published 0 1
        200     -               | A never-published 0 1
        """,
    )
    yield _timeline(
        "never-published-beside-a-busy-one",
        "C4",
        "a worker that never published is not idle beside one that has",
        """
        100     A on 5558 x1    | A never-published 0
        100     C on 5558 x1    | A never-published 0; C never-published 0
        100.25  C.0 #0 c        | A never-published 0; C c
        """,
    )
    yield _timeline(
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
    yield _timeline(
        "no-load-advertised",
        "C4",
        "a worker that advertises no load is unknown",
        """
        100     A off           | A not-advertised
        200     -               | A not-advertised
        """,
    )


def _sequences() -> Iterator[ReadingTimeline]:
    yield _timeline(
        "restart-back-at-0",
        "C7",
        "a restarted engine counts from 0 again and is read again at once",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #4711 c     | A c
        100.5   A restarts      | A c
        100.75  A.0 #0 a        | A a
        101     A.0 #1 b        | A b
        """,
    )
    yield _timeline(
        "restart-of-one-of-two",
        "C7",
        "an engine of two ranks restarts: each counts where its new reading is",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #99 a       | A missing-rank 1
        100.5   A.1 #98 b       | A a+b
        100.75  A restarts      | A a+b
        101     A.1 #0 c        | A a+c
        101.25  A.0 #0 d        | A c+d
        """,
    )
    yield _timeline(
        "restart-after-silence",
        "C7",
        "an engine that was away for longer than the window is known again by its first reading",
        """
        100     A on 5558 x1    | A never-published 0
        100     A.0 #50 c       | A c
        110     A restarts      | A stale-rank 0
        160     A.0 #0 a        | A a
        """,
    )
    yield _timeline(
        "restart-with-the-same-number",
        "S3",
        "an engine that restarted before its second message sends 0 again, and that counts",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 a        | A a
        100.5   A restarts      | A a
        100.75  A.0 #0 b        | A b
        """,
    )
    yield _timeline(
        "lower-sequence",
        "S3",
        "of two readings the one that came last counts, whatever their numbers",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #5 a        | A a
        100.5   A.0 #7 b        | A b
        100.75  A.0 #6 c        | A c
        101     A.0 #9223372036854775807 a | A a
        101.25  A.0 #1 d        | A d
        """,
    )
    yield _timeline(
        "lower-sequence-is-a-heartbeat",
        "S3",
        "a lower number refreshes the reading, too",
        """
        100     A on 5558 x1    | A never-published 0
        100     A.0 #5 a        | A a
        104     A.0 #2 a        | A a
        108     -               | A a
        109.5   -               | A stale-rank 0
        """,
    )
    yield _timeline(
        "gaps",
        "S2",
        "numbers that never come are messages that a full pipe dropped: nothing waits for them",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #3 a        | A a
        100.5   A.0 #4 b        | A b
        100.75  A.0 #400 c      | A c
        101     A.0 #9000000000 a | A a
        """,
        source=MEASURED,
    )


def _revisions() -> Iterator[ReadingTimeline]:
    yield _timeline(
        "upgrade-mid-stream",
        "W9",
        "what one rank does not send yet has no sum; it is missing, not zero",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a:1      | A missing-rank 1
        100.5   A.1 #0 b:1      | A a+b:1
        100.75  A.0 #1 a        | A a+b:1
        101     A.1 #1 b        | A a+b
        """,
    )
    yield _timeline(
        "downgrade-mid-stream",
        "W9",
        "what a rank no longer sends is gone, and does not stand from the reading before",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A.1 #1 b:1      | A a+b:1
        101     A.0 #1 a:1      | A a+b:1
        """,
    )
    yield _timeline(
        "revisions-of-one-rank",
        "W9",
        "a worker of one rank has the counts of its newest message, no others",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 a:1      | A a:1
        100.5   A.0 #1 b        | A b
        100.75  A.0 #2 b:1      | A b:1
        """,
    )


def _undecodable() -> Iterator[ReadingTimeline]:
    yield _timeline(
        "bad-payloads-in-between",
        "C5",
        "a payload that does not decode changes nothing, and the next good one counts",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 c        | A c
        100.25  A.0 #1 bad payloads/top-nil                                | A c
        100.25  A.0 #2 bad payloads/top-empty                              | A c
        100.25  A.0 #3 bad payloads/rev1-cut-to-13-bytes                   | A c
        100.25  A.0 #4 bad payloads/rev2-cut-to-45-bytes                   | A c
        100.25  A.0 #5 bad payloads/malformed-middle-count                 | A c
        100.25  A.0 #6 bad payloads/tag-upper-case                         | A c
        100.25  A.0 #7 bad payloads/too-short-1-elements                   | A c
        100.25  A.0 #8 bad payloads/rev1-num-running-reqs-float-64         | A c
        100.25  A.0 #9 bad payloads/rev1-max-total-num-tokens-minus-33     | A c
        100.5   A.0 #10 a       | A a
        """,
    )
    yield _timeline(
        "bad-frames-in-between",
        "C5",
        "frames that are no message change nothing, and the next good message counts",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 c        | A c
        100.25  A.0 bad frames/frame-count-topic-alone    | A c
        100.25  A.0 bad frames/frame-count-empty-behind   | A c
        100.25  A.0 bad frames/sequence-empty             | A c
        100.25  A.0 bad frames/sequence-9-bytes           | A c
        100.25  A.0 bad frames/sequence-minus-1           | A c
        100.5   A.0 #1 a        | A a
        """,
    )
    yield _timeline(
        "topic-with-the-prefix",
        "F2",
        "a topic that only starts with load passes the subscription, and is refused",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 bad frames/topic-suffix               | A never-published 0
        100.5   A.0 #0 a        | A a
        100.75  A.0 bad frames/topic-suffix-rank          | A a
        101     A.0 bad frames/topic-nul-behind           | A a
        101.25  A.0 #1 b        | A b
        """,
    )
    yield _timeline(
        "bad-messages-alone",
        "C5",
        "a rank that only sends what does not decode has never published",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 bad payloads/top-nil               | A never-published 0
        100.5   A.0 #1 bad payloads/too-short-1-elements  | A never-published 0
        100.75  A.0 #2 a        | A a
        """,
    )
    yield _timeline(
        "bad-messages-do-not-refresh",
        "C5",
        "the reading before a bad message ages on: the bad one is no sign of life",
        """
        100     A on 5558 x1    | A never-published 0
        100     A.0 #0 c        | A c
        103     A.0 #1 bad payloads/too-short-1-elements  | A c
        104.5   A.0 bad frames/sequence-9-bytes           | A c
        105     -               | A c
        105.5   -               | A stale-rank 0
        106     A.0 #2 bad payloads/top-nil               | A stale-rank 0
        106.5   A.0 #3 a        | A a
        """,
    )
    yield _timeline(
        "bad-messages-of-one-rank",
        "C5",
        "bad messages of one rank leave the reading of the other alone",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A.1 #1 bad payloads/rev1-cut-to-13-bytes  | A a+b
        101     A.0 #1 c        | A b+c
        101.25  A.1 #2 a        | A a+c
        """,
    )


def _removals() -> Iterator[ReadingTimeline]:
    yield _timeline(
        "late-message-after-removal",
        "C6",
        "a removed worker is gone, and a message that was under way does not bring it back",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 a        | A a
        100.5   A removed       | A removed
        100.75  A.0 #1 b        | A removed
        101     -               | A removed
        """,
    )
    yield _timeline(
        "removed-and-added-again",
        "C6",
        "a worker that comes back starts without a reading: what it had went with it",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #7 a        | A a
        100.5   A removed       | A removed
        100.75  A on 5558 x1    | A never-published 0
        101     A.0 #0 b        | A b
        """,
    )
    yield _timeline(
        "removed-and-one-rank-back",
        "C6",
        "behind a removal every rank has to publish anew",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A removed       | A removed
        101     A on 5558 x2    | A never-published 0 1
        101.25  A.0 #1 c        | A missing-rank 1
        101.5   A.1 #1 d        | A c+d
        """,
    )
    yield _timeline(
        "one-of-two-removed",
        "C6",
        "a removal takes the readings of that worker and of no other",
        """
        100     A on 5558 x1    | A never-published 0
        100     B on 5568 x1    | A never-published 0; B never-published 0
        100.25  A.0 #0 a        | A a; B never-published 0
        100.5   B.0 #0 b        | A a; B b
        100.75  A removed       | A removed; B b
        101     B.0 #1 c        | A removed; B c
        """,
    )


def _advertisements() -> Iterator[ReadingTimeline]:
    yield _timeline(
        "late-advertisement",
        "C1",
        "a worker that advertises load only later is read from then on",
        """
        100     A off           | A not-advertised
        100.25  A on 5558 x1    | A never-published 0
        100.5   A.0 #0 a        | A a
        """,
    )
    yield _timeline(
        "advertisement-withdrawn",
        "C4",
        "a worker that no longer advertises load is unknown, whatever still comes from it",
        """
        100     A on 5558 x1    | A never-published 0
        100.25  A.0 #0 a        | A a
        100.5   A off           | A not-advertised
        100.75  A.0 #1 b        | A not-advertised
        101     A on 5558 x1    | A never-published 0
        101.25  A.0 #2 c        | A c
        """,
    )
    yield _timeline(
        "advertised-again-unchanged",
        "C1",
        "an advertisement that says what it said before changes nothing",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A on 5558 x2    | A a+b
        101     A.0 #1 c        | A b+c
        """,
    )
    yield _timeline(
        "dp-size-grows",
        "C3",
        "a worker that grows by a rank is unknown until that one has published",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A on 5558 x3    | A missing-rank 2
        101     A.2 #0 c        | A a+b+c
        """,
    )
    yield _timeline(
        "dp-size-shrinks",
        "C3",
        "a rank that is no longer advertised is no part of the sum, and starts anew if it returns",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A on 5558 x1    | A a
        101     A.1 #1 c        | A a
        101.25  A on 5558 x2    | A missing-rank 1
        101.5   A.1 #2 c        | A a+c
        """,
    )
    yield _timeline(
        "shrunk-rank-is-not-missed",
        "C3",
        "a rank that is no longer advertised does not make the worker stale",
        """
        100     A on 5558 x2    | A never-published 0 1
        100     A.0 #0 a        | A missing-rank 1
        100     A.1 #0 b        | A a+b
        101     A on 5558 x1    | A a
        104     A.0 #1 a        | A a
        108     -               | A a
        """,
    )
    yield _timeline(
        "another-base",
        "R3",
        "on other ports a rank is another socket: the readings of the old ones are not its own",
        """
        100     A on 5558 x2    | A never-published 0 1
        100.25  A.0 #0 a        | A missing-rank 1
        100.5   A.1 #0 b        | A a+b
        100.75  A on 6000 x2    | A never-published 0 1
        101     A.1 #0 c        | A missing-rank 0
        101.25  A.0 #0 d        | A c+d
        """,
    )
