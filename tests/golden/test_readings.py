"""readings.json: exact times, whole views, good and bad messages, sums, and the reference."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from pytest_loadwire.errors import WireError
from pytest_loadwire.router.replay import replay
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.rules import Reason, Unknown
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.readings import (
    Advertise,
    KnownLoad,
    ReadingTimeline,
    Receive,
    Silence,
    UnknownLoad,
)
from pytest_loadwire.wire import field_names, parse_frames, verify_frames

TIMELINES = load().readings
NAMES = [timeline.id for timeline in TIMELINES]

# What the file has to hold: rule to at least so many timelines.
RULES = {"C1": 3, "C2": 4, "C3": 10, "C4": 5, "C5": 5, "C6": 4, "C7": 3, "S2": 1, "S3": 3}
RULES |= {"R3": 5, "W9": 3, "F2": 1}

# A message that any table may refuse by its own policy would prove nothing here.
REASONS_MET = set(Reason) - {Reason.TRAILING_BYTES, Reason.EXTRA_ELEMENTS, Reason.NOT_CANONICAL}


LOAD_FIELDS = tuple(name for name in field_names() if name != "attn_dp_rank")


@pytest.mark.parametrize("revision", [1, 2])
@pytest.mark.parametrize("timeline", TIMELINES, ids=NAMES)
def test_the_reference_table(timeline: ReadingTimeline, revision: int) -> None:
    """The reference table knows what every timeline expects, as a reader of either revision."""

    def make(window: float, clock: Callable[[], float]) -> ReadingTable:
        return ReadingTable(window=window, clock=clock, revision=revision)

    assert [] == list(map(str, replay(timeline, make, revision=revision)))


@pytest.mark.parametrize("timeline", TIMELINES, ids=NAMES)
def test_times_are_exact(timeline: ReadingTimeline) -> None:
    """Times are exact as doubles and never go back; `ages` says if the window plays a part."""
    times = [step.time for step in timeline.steps]
    assert times == sorted(times)
    assert all((time * 1024).is_integer() for time in times)
    assert (times[-1] - times[0] >= float(timeline.window)) == timeline.ages
    stale = [
        view
        for step in timeline.steps
        for view in step.expect.values()
        if isinstance(view, UnknownLoad) and view.reason is Unknown.STALE_RANK
    ]
    assert timeline.ages or not stale


@pytest.mark.parametrize("timeline", TIMELINES, ids=NAMES)
def test_every_named_worker_is_expected(timeline: ReadingTimeline) -> None:
    """From the first event that names a worker on, each step says what is known of it."""
    named: set[str] = set()
    for step in timeline.steps:
        if not isinstance(step.happens, Silence):
            named.add(step.happens.worker)
        assert named == step.expect.keys()


@pytest.mark.parametrize("revision", [1, 2])
def test_messages_are_good_or_bad_for_every_reader(revision: int) -> None:
    """A message without a vector is what an engine sends; one with a vector is refused by all."""
    met = set()
    for message in messages():
        if message.vector is None:
            elements = msgpack.unpackb(message.parts[2])
            sender = {6: 1, 11: 2}[len(elements)]
            assert (
                elements[1] == verify_frames(message.parts, revision=sender).stat.num_running_reqs
            )
            continue
        with pytest.raises(WireError) as refusal:
            parse_frames(message.parts, revision=revision)
        met.add(refusal.value.reason)
    assert REASONS_MET == met


def test_bad_messages_are_vectors() -> None:
    """A bad message is byte for byte the vector that it names."""
    golden = load()
    for message in messages():
        subject, _, name = (message.vector or "").partition("/")
        if subject == "frames":
            assert golden.frame(name).parts == message.parts
        elif subject:
            assert golden.payload(name).payload == message.parts[2]


def test_sums_are_the_sums_of_what_was_sent() -> None:
    """What was spelled by hand for a worker is the sum of the newest messages of its ranks."""
    for timeline in TIMELINES:
        newest: dict[tuple[str, int], list[int]] = {}
        sizes: dict[str, int] = {}
        for step in timeline.steps:
            event = step.happens
            if isinstance(event, Advertise):
                sizes[event.worker] = event.dp_size
            if isinstance(event, Receive) and event.vector is None:
                _, *counts = msgpack.unpackb(event.parts[2])
                newest[event.worker, event.rank] = counts[:4] + counts[5:]
            for worker, view in step.expect.items():
                if isinstance(view, KnownLoad):
                    rows = [newest[worker, rank] for rank in range(sizes[worker])]
                    sums = list(map(sum, zip(*rows, strict=False)))
                    assert (timeline.id, sums) == (timeline.id, list(view.values.values()))
                    assert list(LOAD_FIELDS[: len(sums)]) == list(view.load)


def test_rules() -> None:
    """Every rule about readings has its timelines."""
    counts = {rule: sum(timeline.rule == rule for timeline in TIMELINES) for rule in RULES}
    assert {} == {rule: counts[rule] for rule, least in RULES.items() if counts[rule] < least}


def messages() -> list[Receive]:
    events = [step.happens for timeline in TIMELINES for step in timeline.steps]
    return [event for event in events if isinstance(event, Receive)]
