"""The timelines of ``cadence.json``: when a publisher sends, and what makes it wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden.failures import failure_timelines
from pytest_loadwire.golden.loop import loop_timelines
from pytest_loadwire.golden.timeline_readings import COUNTS, named_readings, since_of
from pytest_loadwire.golden.timeline_steps import BESIDE, DERIVED, READ, TESTED, publisher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.timelines import CadenceVector, PublisherTimeline


def cadence_vectors() -> Iterator[CadenceVector]:
    """Every record of ``cadence.json``: the timelines by rule, then the readings they name."""
    yield from _throttle()
    yield from _repeats()
    yield from _changes()
    yield from failure_timelines()
    yield from loop_timelines()
    yield from named_readings()


def _throttle() -> Iterator[PublisherTimeline]:
    yield publisher(
        "P1", "throttle-one-in-five", f"{TESTED} (T1)",
        "one in five unforced calls passes; the others ask nobody",
        """
        100 U a
        100 U a
        100 U a
        100 U a
        100 U a -> asks sends 0
        100 U a
        100 U a
        100 U a
        100 U a
        100 U a -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-counts-calls-not-time", f"{BESIDE}, beside T1",
        "time that passes opens no throttle",
        """
        100 U a
        101 U b
        102 U a
        110 U b
        120 U a -> asks sends 0
        130 U b
        """,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-after-a-forced-call", f"{DERIVED} (T4)",
        "the five calls are counted from the forced one",
        """
        100 F a -> asks sends 0
        101 U a
        102 U a
        103 U a
        104 U a
        105 U a -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-forced-resets-the-counter", f"{DERIVED} (T5)",
        "a forced call in between starts the count anew",
        """
        100 U a
        100 U a
        100 U a
        100 F a -> asks sends 0
        102 U a
        102 U a
        102 U a
        102 U a
        102 U a -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-resets-without-a-send", f"{BESIDE}, beside T1",
        "a reading that passes and stays at home still resets the counter, or every further step "
        "would walk the queues",
        """
        100 F a -> asks sends 0
        100 U a
        100 U a -> asks
        100 U a
        100 U a -> asks
        100 U a
        100 U a -> asks
        """,
        interval=2,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-resets-when-the-provider-fails", f"{BESIDE}, beside T6",
        "a provider that fails is not asked more often for it",
        """
        100 U -
        100 U - -> asks warns
        100 U -
        100 U - -> asks
        100 U -
        100 U - -> asks
        """,
        interval=2,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-resets-when-a-forced-provider-fails", f"{TESTED} (provider failure)",
        "a forced call that fails has passed, and resets the counter",
        """
        100 U a
        100 F - -> asks warns
        100 U a
        100 U a -> asks sends 0
        """,
        interval=2,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-resets-when-a-send-fails", f"{BESIDE}, beside T7",
        "a send that fails resets the counter as well",
        """
        100 U a
        100 U a no-send -> asks warns
        100 U a
        100 U a         -> asks sends 1
        """,
        interval=2,
    )  # fmt: skip
    yield publisher(
        "P1", "throttle-interval-1", f"{DERIVED} (T8)",
        "an interval of 1 lets every call pass",
        """
        100 U a -> asks sends 0
        100 U b -> asks sends 1
        100 U c -> asks sends 2
        """,
        interval=1,
    )  # fmt: skip
    for name, interval in (("0", 0), ("negative", -7)):
        yield publisher(
            "P1", f"throttle-interval-{name}", f"{DERIVED} (T9)",
            f"an interval of {interval} counts as 1",
            """
            100 U a -> asks sends 0
            100 U b -> asks sends 1
            100 U b -> asks
            """,
            interval=interval,
        )  # fmt: skip
    passing = {14: "-> asks sends 0", 29: "-> asks sends 1"}
    yield publisher(
        "P1", "throttle-interval-15", f"{DERIVED} (T11, with steps of 0.40625 s for 0.4 s)",
        "with SGLang's default of 15, decode steps of 0.4 s publish every 6 s: longer than a router"
        " believes a reading",
        "\n".join(
            f"{100 + n * 0.40625} U {'ab'[n % 2]} {passing.get(n, '')}" for n in range(30)
        ),
        interval=15,
    )  # fmt: skip


def _repeats() -> Iterator[PublisherTimeline]:
    yield publisher(
        "P2", "repeat-heartbeat", f"{TESTED} in parts, {DERIVED} (T2)",
        "an unchanged reading is repeated once a second, and at exactly 1.0 s it goes",
        """
        100            F a -> asks sends 0
        100            F a -> asks
        100.5          F a -> asks
        100.9990234375 F a -> asks
        101            F a -> asks sends 1
        101.5          F a -> asks
        101.990234375  F a -> asks
        102            F a -> asks sends 2
        102.125        F a -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "repeat-after-silence", f"{TESTED} (T2')",
        "a repeat that comes late goes at once",
        """
        100   F a -> asks sends 0
        100   F a -> asks
        101.5 F a -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "repeat-just-below-a-second", f"{BESIDE}, beside T2",
        "a microsecond before the second is over, nothing goes yet",
        """
        100                        F a -> asks sends 0
        100.99999904632568359375   F a -> asks
        101                        F a -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "repeat-counts-from-the-last-send", f"{BESIDE}, beside T2",
        "the second begins with what was sent, not with the last look nor at a full second",
        """
        100    F a -> asks sends 0
        100.75 F a -> asks
        101.25 F a -> asks sends 1
        102    F a -> asks
        102.25 F a -> asks sends 2
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "repeat-after-a-change", f"{BESIDE}, beside T3",
        "a change that was sent starts the second anew",
        """
        100   F a -> asks sends 0
        100.5 F b -> asks sends 1
        101   F b -> asks
        101.5 F b -> asks sends 2
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "repeat-of-unforced-calls", f"{BESIDE}, beside T4",
        "calls that pass the throttle keep the heartbeat like forced ones",
        """
        100   U a
        100   U a -> asks sends 0
        100.5 U a
        100.5 U a -> asks
        101   U a
        101   U a -> asks sends 1
        """,
        interval=2,
    )  # fmt: skip


def _changes() -> Iterator[PublisherTimeline]:
    yield publisher(
        "P2", "change-goes-at-once", f"{TESTED} (T3)",
        "a changed reading goes at the same instant, so that no router takes an idle engine for a "
        "busy one",
        """
        100 F a -> asks sends 0
        100 F b -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "change-within-50-ms", f"{BESIDE}, beside T3; the floor of T15 is gone",
        "there is no floor in time between two changed readings",
        """
        100       F a -> asks sends 0
        100.03125 F b -> asks sends 1
        100.0625  F a -> asks sends 2
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "change-and-back", f"{DERIVED} (T13)",
        "a reading is compared with the last one sent, not with any earlier one",
        """
        100    F a -> asks sends 0
        100.125 F b -> asks sends 1
        100.25 F a -> asks sends 2
        100.375 F a -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P2", "change-from-nothing-on-a-young-clock", f"{DERIVED} (T14)",
        "the first reading goes, on a machine whose clock stands below a second as well",
        "0.125 F a -> asks sends 0",
    )  # fmt: skip
    yield publisher(
        "P2", "change-from-nothing-to-zeros", f"{BESIDE}, beside T14",
        "a first reading of zeros is news: routers do not know this engine yet",
        """
        0.125 F zero -> asks sends 0
        0.25  F zero -> asks
        """,
    )  # fmt: skip
    for field in COUNTS:
        slug = field.replace("_", "-")
        yield publisher(
            "P2", f"change-in-{slug}", f"{READ}: every published count takes part",
            f"a change in {field} alone is a change",
            f"""
            100 F a           -> asks sends 0
            100 F a-but-{slug} -> asks sends 1
            """,
            since=since_of(field),
        )  # fmt: skip
    yield publisher(
        "P2", "change-of-rank-is-none", f"{READ}: the rank takes no part",
        "the snapshot's own rank is no part of the comparison, nor of the message",
        """
        100   F a           -> asks sends 0
        100.5 F a-at-rank-1 -> asks
        101   F a-at-rank-1 -> asks sends 1
        """,
    )  # fmt: skip
