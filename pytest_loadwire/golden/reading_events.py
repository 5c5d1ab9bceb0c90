"""The timelines of what happens to engines: restarts, upgrades, nonsense, removals, new addresses.

How a line reads, and the numbers behind the names: `pytest_loadwire.golden.reading_lines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden.reading_lines import MEASURED, timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.readings import ReadingTimeline


def event_timelines() -> Iterator[ReadingTimeline]:
    """The timelines by what happens."""
    yield from _sequences()
    yield from _revisions()
    yield from _undecodable()
    yield from _removals()
    yield from _advertisements()


def _sequences() -> Iterator[ReadingTimeline]:
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
        "late-advertisement",
        "C1",
        "a worker that advertises load only later is read from then on",
        """
        100     A off           | A not-advertised
        100.25  A on 5558 x1    | A never-published 0
        100.5   A.0 #0 a        | A a
        """,
    )
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
    yield timeline(
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
