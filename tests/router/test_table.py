"""The table of readings, beyond what the timelines of readings.json ask."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.router.replay import replay
from pytest_loadwire.router.table import (
    NOT_ADVERTISED,
    REMOVED,
    ReadingTable,
    WorkerView,
)
from pytest_loadwire.rules import Reason, Unknown
from pytest_loadwire.vectors import load
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, Message, build_frames, field_names

# Window and heartbeat that leave readings no time between two messages, or none at all.
BAD_WINDOWS = [
    (1.0, 1.0),
    (0.5, 1.0),
    (0.0, 1.0),
    (-5.0, 1.0),
    (math.inf, 1.0),
    (math.nan, 1.0),
    (5.0, 0.0),
    (5.0, -1.0),
    (5.0, math.nan),
    (5.0, 5.0),
]

# Sequences as they come, and what is counted: messages, restarts, lost.
SEQUENCES = [
    ([0], (1, 0, 0)),
    ([7], (1, 0, 0)),
    ([0, 1, 2], (3, 0, 0)),
    ([0, 2], (2, 0, 1)),
    ([5, 9, 10], (3, 0, 3)),
    ([5, 0], (2, 1, 0)),
    ([5, 3], (2, 1, 0)),
    ([0, 0], (2, 1, 0)),
    ([5, 0, 1, 4], (4, 1, 2)),
    ([2**63 - 1, 0, 2**63 - 1], (3, 1, 2**63 - 2)),
]


def stat(count: int = 1, *, capacity: int = 1) -> LoadStatRev2:
    values = dict.fromkeys(field_names(), count)
    return LoadStatRev2(**{**values, "max_total_num_tokens": capacity})


@pytest.mark.parametrize(("window", "heartbeat"), BAD_WINDOWS)
def test_a_window_within_the_heartbeat_is_refused(window: float, heartbeat: float) -> None:
    """A window that is not longer than the heartbeat, or not finite, is refused by rule C2."""
    with pytest.raises(ValueError, match="rule C2"):
        ReadingTable(window=window, heartbeat=heartbeat)


def test_an_unknown_revision_is_refused() -> None:
    """There is no table for a revision that does not exist."""
    with pytest.raises(ValueError, match="no revision 3"):
        ReadingTable(revision=3)


@pytest.mark.parametrize(("sequences", "counts"), SEQUENCES)
def test_restarts_and_gaps_are_counted(sequences: list[int], counts: tuple[int, int, int]) -> None:
    """Every message counts as a reading; the sequence is for statistics alone."""
    table = ReadingTable()
    table.advertise("w", [1])
    for number, sequence in enumerate(sequences):
        assert table.receive("w", 0, build_frames(sequence, stat(number))) is not None
        assert table.reading("w", 0) == stat(number)
    (stats,) = table.stats("w")
    assert counts == (stats.messages, stats.restarts, stats.lost)
    assert sequences[-1] == stats.last_sequence


def test_refusals_are_counted_by_reason() -> None:
    """A refused message is counted under its reason, and the newest error is kept."""
    table = ReadingTable()
    table.advertise("w", [1, 2])
    for payload in (b"", b"\xc0", b"\xc0"):
        table.receive("w", 1, [b"load", bytes(8), payload])
    error = table.receive("w", 1, [b"loadx", bytes(8), b""])
    untouched, stats = table.stats("w")
    assert {Reason.TRUNCATED: 1, Reason.NOT_ARRAY: 2, Reason.BAD_TOPIC: 1} == stats.undecodable
    assert isinstance(error, WireError)
    assert error is stats.last_error
    assert (0, 0, None) == (stats.messages, untouched.messages, untouched.last_error)


def test_a_message_from_nowhere_is_ignored() -> None:
    """What is not from an advertised rank is neither kept nor counted, good or bad."""
    table = ReadingTable()
    table.advertise("w", [1])
    for worker, rank in [("w", 1), ("w", -1), ("v", 0)]:
        assert table.receive(worker, rank, build_frames(0, stat())) is None
        assert table.receive(worker, rank, [b"nonsense"]) is None
        assert table.update(worker, rank, Message(0, stat())) is False
        assert table.reading(worker, rank) is None
        assert table.age(worker, rank) is None
    assert table.view("v") == REMOVED
    assert table.stats("v") == ()


def test_a_message_that_was_read_already_counts_the_same() -> None:
    """`update` takes what somebody else has decoded."""
    table = ReadingTable()
    table.advertise("w", [1])
    assert table.update("w", 0, Message(3, stat(2))) is True
    assert table.view("w").load == {**dict.fromkeys(counts(), 2), "max_total_num_tokens": 1}


def test_workers_come_and_go() -> None:
    """Adding twice, removing twice and withdrawing for nobody are all right."""
    table = ReadingTable()
    table.add("w")
    table.add("w")
    assert table.view("w") == NOT_ADVERTISED
    table.withdraw("v")
    assert table.workers == ("w",)
    table.remove("w")
    table.remove("w")
    assert table.workers == ()
    assert table.views() == {}


def test_capacity_is_known_when_every_rank_knows_it() -> None:
    """A ratio to the sum of capacities means something only when no rank said 0."""
    table = ReadingTable()
    table.advertise("w", [1, 2])
    table.update("w", 0, Message(0, stat(capacity=4096)))
    table.update("w", 1, Message(0, stat(capacity=0)))
    assert (table.view("w").capacity_known, table.view("w").load is None) == (False, False)
    table.update("w", 1, Message(1, stat(capacity=4096)))
    assert table.view("w").capacity_known is True


def test_the_rank_is_no_count() -> None:
    """A load has every count, and no sum of ranks."""
    table = ReadingTable()
    table.advertise("w", [1])
    table.update("w", 0, Message(0, stat()))
    assert list(table.view("w").load or ()) == counts()


def test_time_to_the_next_expiry() -> None:
    """The next reading to turn stale is the oldest fresh one, of any worker."""
    clock = VirtualClock(100)
    table = ReadingTable(clock=clock)
    assert table.seconds_to_expiry() is None
    table.advertise("w", [1, 2])
    table.advertise("v", [1])
    assert table.seconds_to_expiry() is None
    table.update("w", 0, Message(0, stat()))
    clock.advance(2)
    table.update("v", 0, Message(0, stat()))
    assert (3.0, 2.0) == (table.seconds_to_expiry(), table.age("w", 0))
    clock.advance(3)
    assert table.seconds_to_expiry() == 0.0
    clock.advance(0.5)
    assert table.seconds_to_expiry() == 1.5
    clock.advance(10)
    assert table.seconds_to_expiry() is None


def test_views_are_of_one_time() -> None:
    """`views` reads the clock once, so that no worker is older than another in it."""
    times = iter([100.0, 100.0, 104.0, 106.0])
    table = ReadingTable(clock=lambda: next(times))
    for worker in ("v", "w"):
        table.advertise(worker, [1])
        table.update(worker, 0, Message(0, stat()))
    assert all(view.load for view in table.views().values())
    assert next(times) == 106.0


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (WorkerView({"num_tokens": 7, "num_waiting_reqs": 0}), "num_tokens=7, num_waiting_reqs=0"),
        (WorkerView(None, Unknown.STALE_RANK, (0, 3)), "unknown: stale-rank (0, 3)"),
        (REMOVED, "unknown: removed"),
    ],
)
def test_a_view_in_words(view: WorkerView, says: str) -> None:
    """A view prints as its sums, or as the reason with the ranks to blame."""
    assert says == str(view)


def test_a_difference_in_words() -> None:
    """A table that is wrong is told at which step, for which worker, expected and got."""
    timeline = next(t for t in load().readings if t.id == "one-rank")

    class Blind(ReadingTable):
        def receive(self, *_: object) -> None:
            raise RuntimeError("no eyes")

    def blind(window: float, clock: object) -> ReadingTable:
        return Blind()

    assert ["step 1 at 100.25, http://10.0.0.5:30000: a view, got RuntimeError: no eyes"] == list(
        map(str, replay(timeline, blind))
    )


operations = st.lists(
    st.one_of(
        st.tuples(st.just("advertise"), st.sampled_from("vw"), st.integers(1, 3)),
        st.tuples(st.just("remove"), st.sampled_from("vw"), st.just(0)),
        st.tuples(st.just("good"), st.sampled_from("vw"), st.integers(0, 3)),
        st.tuples(st.just("old"), st.sampled_from("vw"), st.integers(0, 3)),
        st.tuples(st.just("bad"), st.sampled_from("vw"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.just("v"), st.integers(0, 6)),
    ),
    max_size=40,
)


@given(operations)
def test_against_a_naive_table(steps: list[tuple[str, str, int]]) -> None:
    """After any run of events the sums are those of a table that keeps the whole history."""
    clock = VirtualClock(1000)
    table = ReadingTable(clock=clock)
    sizes: dict[str, int] = {}
    newest: dict[tuple[str, int], tuple[float, LoadStatRev1]] = {}
    for number, (what, worker, n) in enumerate(steps):
        if what == "advertise":
            table.advertise(worker, range(5558, 5558 + n))
            sizes[worker] = n
        elif what == "remove":
            table.remove(worker)
            sizes.pop(worker, None)
        elif what == "wait":
            clock.advance(n)
        elif what == "bad":
            table.receive(worker, n, [b"load", bytes(8), b"\x80"])
        else:
            new: LoadStatRev1 = stat(number)
            if what == "old":
                old = dict.fromkeys(field_names(1), number)
                new = LoadStatRev1(**old)
            table.receive(worker, n, build_frames(0, new))
            if n < sizes.get(worker, 0):
                newest[worker, n] = (clock(), new)
        for gone in [key for key in newest if key[1] >= sizes.get(key[0], 0)]:
            del newest[gone]
        for name in "vw":
            assert naive(sizes.get(name), name, newest, clock()) == table.view(name).load


def naive(
    size: int | None,
    worker: str,
    newest: dict[tuple[str, int], tuple[float, LoadStatRev1]],
    now: float,
) -> dict[str, int] | None:
    if size is None:
        return None
    total: dict[str, int] = {}
    stats = []
    for rank in range(size):
        if (worker, rank) not in newest or newest[worker, rank][0] + 5.0 < now:
            return None
        stats.append(newest[worker, rank][1])
    for name in counts():
        if all(hasattr(reading, name) for reading in stats):
            total[name] = 0
            for reading in stats:
                total[name] += getattr(reading, name)
    return total


def counts() -> list[str]:
    return [name for name in field_names() if name != "attn_dp_rank"]
