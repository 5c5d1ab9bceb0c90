"""The timelines of readings handed in, of what fails, and of the numbers that it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden.timeline_steps import BESIDE, DERIVED, TESTED, publisher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.timelines import PublisherTimeline


def failure_timelines() -> Iterator[PublisherTimeline]:
    """Every timeline of rules P3, P4 and S1 for a publisher, and of W5."""
    yield from _handed_in()
    yield from _failures()
    yield from _sequence()


def _handed_in() -> Iterator[PublisherTimeline]:
    yield publisher(
        "P3", "handed-in-spares-the-provider", f"{TESTED} in parts, {DERIVED} (T12)",
        "a reading that the caller has already goes through the same throttle, and nobody is asked",
        """
        100 U a given
        100 U a given
        100 U a given
        100 U a given
        100 U a given -> sends 0
        100 F b given -> sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P3", "handed-in-beside-a-broken-provider", f"{BESIDE}, beside T12",
        "a provider that would raise does no harm where it is not asked",
        "100 F a given no-provider -> sends 0",
    )  # fmt: skip
    yield publisher(
        "P3", "handed-in-repeats", f"{BESIDE}, beside T2 and T12",
        "a reading handed in keeps to the heartbeat like one asked for",
        """
        100   F a given -> sends 0
        100.5 F a given
        101   F a given -> sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P3", "handed-in-by-turns", f"{BESIDE}, beside T12",
        "where a reading comes from makes no difference to what is sent",
        """
        100    F a       -> asks sends 0
        100.25 F a given
        100.5  F b given -> sends 1
        100.75 F b       -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P3", "handed-in-zeros", f"{BESIDE}, beside T12",
        "a reading of zeros that is handed in is one, and not a missing one",
        "100 F zero given -> sends 0",
    )  # fmt: skip


def _failures() -> Iterator[PublisherTimeline]:
    yield publisher(
        "P4", "failure-once-an-episode", f"{DERIVED} (T6)",
        "one warning for an episode, which ends with a successful send",
        """
        100     F - -> asks warns
        100.125 F - -> asks
        100.25  F a -> asks sends 0
        100.375 F - -> asks warns
        100.5   F - -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P4", "failure-goes-on-and-on", f"{BESIDE}, beside T6; the periods of T16 and T17 are gone",
        "an episode that lasts says nothing more, after minutes either",
        """
        100  F - -> asks warns
        101  F - -> asks
        110  F - -> asks
        160  F - -> asks
        220  F - -> asks
        1000 F - -> asks
        """,
    )  # fmt: skip
    yield publisher(
        "P4", "failure-outlives-an-unsent-repeat", f"{BESIDE}, beside T7",
        "a repeat that stays at home proves nothing and ends no episode; a heartbeat does",
        """
        100    F a -> asks sends 0
        100.25 F - -> asks warns
        100.5  F a -> asks
        100.75 F - -> asks
        101    F a -> asks sends 1
        101.25 F - -> asks warns
        """,
    )  # fmt: skip
    yield publisher(
        "P4", "failure-of-two-kinds", f"{BESIDE}, beside T7",
        "whatever fails next belongs to the same episode",
        """
        100     F -         -> asks warns
        100.125 F a no-send -> asks
        100.25  F b         -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "P4", "failure-to-send-is-tried-again", f"{BESIDE}, beside T7",
        "a reading that was not sent is not remembered as sent",
        """
        100 F a no-send -> asks warns
        100 F a         -> asks sends 1
        """,
    )  # fmt: skip
    for name, why in (
        ("negative", "a negative count"),
        ("nil", "a nil count"),
        ("above-u64", "a count above u64"),
    ):
        yield publisher(
            "W5", f"failure-of-{why.replace(' ', '-')}", f"{BESIDE} and from rule P4",
            f"{why} is a failure like any other: no message, one warning, no number spent",
            f"""
            100    F a      -> asks sends 0
            100.25 F {name} -> asks warns
            100.5  F {name} -> asks
            100.75 F b      -> asks sends 1
            """,
        )  # fmt: skip
    yield publisher(
        "P4", "failure-of-a-reading-handed-in", f"{BESIDE} and from rule W5",
        "a bad reading that is handed in is no reason to ask for another",
        """
        100    F above-u64 given -> warns
        100.25 F a               -> asks sends 0
        """,
    )  # fmt: skip


def _sequence() -> Iterator[PublisherTimeline]:
    yield publisher(
        "S1", "sequence-gap-after-a-failed-send", f"{DERIVED} (T7)",
        "a send that fails takes a number; the repeat and the failed reading behind it take none",
        """
        100     F a         -> asks sends 0
        100.125 F b no-send -> asks warns
        100.25  F a         -> asks
        100.375 F -         -> asks
        100.5   F b         -> asks sends 2
        """,
    )  # fmt: skip
    yield publisher(
        "S1", "sequence-starts-with-failed-sends", f"{BESIDE}, beside T7",
        "each failed send takes one, the first ones too",
        """
        100 F a no-send -> asks warns
        100 F a no-send -> asks
        100 F a         -> asks sends 2
        """,
    )  # fmt: skip
    yield publisher(
        "S1", "sequence-counts-what-is-sent", f"{BESIDE}, beside T1 and T2",
        "what is throttled or unchanged takes no number",
        """
        100    F a -> asks sends 0
        100    U b
        100    U b
        100    U b
        100.25 F a -> asks
        100.25 F a -> asks
        100.5  F b -> asks sends 1
        """,
    )  # fmt: skip
    yield publisher(
        "S1", "sequence-ignores-failed-readings", f"{BESIDE}, beside T6",
        "a reading that never came takes no number",
        """
        100    F - -> asks warns
        100.25 F - -> asks
        100.5  F a -> asks sends 0
        """,
    )  # fmt: skip
