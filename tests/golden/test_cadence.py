"""The timelines of `cadence.json` against the rules, spelled once more in the plainest way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import pytest

from pytest_loadwire.golden import cadence, timeline_steps
from pytest_loadwire.golden.build import build
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import (
    LoopOwes,
    NamedReading,
    Owes,
    PublisherTimeline,
    SchedulerTimeline,
    publisher_timelines,
    readings,
    scheduler_timelines,
)

VECTORS = tuple(cadence.cadence_vectors())
READINGS = readings(VECTORS)
PUBLISHER = publisher_timelines(VECTORS)
SCHEDULER = scheduler_timelines(VECTORS)
TIMELINES = [*PUBLISHER, *SCHEDULER]

# Only here the times themselves are no binary fractions; their differences are what counts.
DIFFERENCES = {"stall-exactly-50-ms": [0.05, 0.05]}

# Each row that SGLang's behaviour after the merge was measured in.
ROWS = ["T1", "T2", "T2'", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T11", "T12", "T13", "T14"]


class Publisher:
    """Rules P1 to P4, S1 and W5 as a table of what is owed; no byte and no socket."""

    def __init__(self, interval: int) -> None:
        self.interval = max(1, interval)
        self.calls = self.number = 0
        self.sent: tuple[object, ...] | None = None
        self.sent_at = Fraction(0)
        self.failing = False

    def call(
        self,
        at: Fraction,
        *,
        forced: bool,
        reading: str | None,
        send_raises: bool = False,
    ) -> tuple[str | None, bool]:
        """The number of the message that goes out, and whether there is a warning."""
        self.calls = 0 if forced else self.calls + 1
        if not forced and self.calls < self.interval:
            raise NotDueError
        self.calls = 0
        counts = None if reading is None else tuple(READINGS[reading].values.values())
        fails = counts is None or any(c is None or not 0 <= c < 2**64 for c in counts)
        if not fails and counts == self.sent and at - self.sent_at < 1:
            return None, False
        if not fails:
            self.number += 1
        if fails or send_raises:
            warns, self.failing = not self.failing, True
            return None, warns
        self.sent, self.sent_at, self.failing = counts, at, False
        return str(self.number - 1), False


class NotDueError(Exception):
    """The throttle holds."""


def owed_by_publisher(timeline: PublisherTimeline) -> Iterator[Owes]:
    publisher = Publisher(timeline.interval)
    for step in timeline.steps:
        call = step.call
        asks = not call.handed_in
        reading = None if asks and call.provider == "raises" else call.reading
        try:
            sent, warned = publisher.call(
                Fraction(step.at),
                forced=call.forced,
                reading=reading,
                send_raises=call.send == "raises",
            )
        except NotDueError:
            yield Owes(None, asked=False, warned=False)
        else:
            yield Owes(sent, asked=asks, warned=warned)


def owed_by_scheduler(timeline: SchedulerTimeline) -> Iterator[LoopOwes]:
    publisher = Publisher(timeline.interval)
    calls, stalled_at = 0, Fraction(-1000)
    for step in timeline.steps:
        at = Fraction(step.at)
        kind = step.loop_pass
        if kind == "stall":
            if at - stalled_at < Fraction("0.05"):
                yield LoopOwes(written=False, sent=None, walks=0)
                continue
            stalled_at = at
        forced = kind != "decode"
        calls = 0 if forced else calls + 1
        due = forced or calls == timeline.interval
        calls = 0 if due else calls
        walks = int(due and timeline.sink)
        written = due and timeline.sink and step.reading is not None and step.write == "ok"
        shared = written and timeline.hook == "returns-snapshot"
        try:
            sent, _ = publisher.call(at, forced=forced, reading=step.reading)
        except NotDueError:
            sent = None
        else:
            walks += not shared
        yield LoopOwes(written=written, sent=sent, walks=walks)


@pytest.mark.parametrize("timeline", PUBLISHER, ids=[t.id for t in PUBLISHER])
def test_publisher(timeline: PublisherTimeline) -> None:
    """What is spelled by hand is what the rules say, in exact arithmetic."""
    assert list(owed_by_publisher(timeline)) == [step.expect for step in timeline.steps]


@pytest.mark.parametrize("timeline", SCHEDULER, ids=[t.id for t in SCHEDULER])
def test_scheduler(timeline: SchedulerTimeline) -> None:
    """What is spelled by hand is what the rules say, in exact arithmetic."""
    assert list(owed_by_scheduler(timeline)) == [step.expect for step in timeline.steps]


@pytest.mark.parametrize("timeline", TIMELINES, ids=[t.id for t in TIMELINES])
def test_times(timeline: PublisherTimeline | SchedulerTimeline) -> None:
    """Time does not go back, and every time is exact as a double, or its differences are."""
    times = [float(step.at) for step in timeline.steps]
    assert times == sorted(times)
    if timeline.id in DIFFERENCES:
        assert [later - at for at, later in pairwise(times)] == DIFFERENCES[timeline.id]
    else:
        assert [Fraction(step.at) for step in timeline.steps] == list(map(Fraction, times))


@pytest.mark.parametrize("timeline", TIMELINES, ids=[t.id for t in TIMELINES])
def test_readings_of_a_timeline(timeline: PublisherTimeline | SchedulerTimeline) -> None:
    """A timeline names readings of the file, and none that is newer than itself."""
    if isinstance(timeline, PublisherTimeline):
        names = {step.call.reading for step in timeline.steps}
    else:
        names = {step.reading for step in timeline.steps}
    assert names - {None} <= READINGS.keys()
    assert all(READINGS[name].since <= timeline.since for name in names if name is not None)


def test_every_reading_is_used() -> None:
    """No reading stands in the file for nothing."""
    used = {step.call.reading for timeline in PUBLISHER for step in timeline.steps}
    used |= {step.reading for timeline in SCHEDULER for step in timeline.steps}
    assert used - {None} == READINGS.keys()


def test_reading_a_is_sensitive() -> None:
    """No two counts of the reading that most timelines use are alike, and none is 0."""
    values = list(READINGS["reading-a"].values.values())
    assert len({*values, 0}) == len(values) + 1


def test_readings_differ_as_they_say() -> None:
    """Of `reading-a` and its variants, exactly one thing differs."""
    base = READINGS["reading-a"]
    for name, reading in READINGS.items():
        differing = [field for field, n in reading.values.items() if n != base.values[field]]
        if name.startswith("reading-a-but-"):
            assert differing == [name.removeprefix("reading-a-but-").replace("-", "_")]
        elif name == "reading-a-at-rank-1":
            assert (differing, reading.rank, base.rank) == ([], "1", "0")


def test_every_measured_row_is_there() -> None:
    """Each timeline that was measured on SGLang is in the set, with its mark and row."""
    sources = [timeline.source for timeline in TIMELINES]
    named = {row for source in sources for row in re.findall(r"\((T\d+'?)", source)}
    assert named == set(ROWS)
    assert all(re.match(r"\[[TCD]\] ", source) for source in sources)


def test_ids() -> None:
    """No id stands twice in any file of golden/."""
    ids = [vector.id for vector in build().vectors]
    assert len(ids) == len(set(ids))


def test_loaded() -> None:
    """The file is read back as what it was made from."""
    assert load().cadence == VECTORS
    assert {type(v) for v in VECTORS} == {NamedReading, PublisherTimeline, SchedulerTimeline}


# A line, and what is wrong with it.
MISSPELLED = [
    ("100 F a -> ask", "no words of a timeline: ask"),
    ("100 F a nosend -> asks", "no words of a timeline: nosend"),
    ("100 F a -> asks send 0", "no words of a timeline: send"),
]


@pytest.mark.parametrize(("line", "says"), MISSPELLED)
def test_misspelled(line: str, says: str) -> None:
    """A word that is none is an error when the file is made, and no step that owes nothing."""
    with pytest.raises(ValueError, match=says):
        timeline_steps.publisher("P1", "x", "x", "x", line)


def test_unknown_kind() -> None:
    """A call is forced or it is not."""
    with pytest.raises(KeyError):
        timeline_steps.publisher("P1", "x", "x", "x", "100 G a")
