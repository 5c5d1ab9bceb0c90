"""Cadence, failures and bytes of the reference publisher, on a clock and a socket of our own."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire.engine import LoadPublisher, LoadSnapshot
from pytest_loadwire.wire import (
    LoadStat,
    LoadStatRev1,
    build_frames,
    decode,
    parse_frames,
    verify_frames,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_loadwire.engine.publisher import PubSocket
    from pytest_loadwire.harness.clock import VirtualClock
    from tests.engine.conftest import RecordingSocket

LOGGER = "pytest_loadwire.engine.publisher"

A = LoadSnapshot(7, 3, 1024, 8192, 512, 4096, 64, 20000, 2000000)
B = replace(A, num_running_reqs=0)
BOOM = "the provider raises"
NO_SEND = "the socket raises"

Call = tuple[float, str, Any]
"""Time, F (forced) or U, and the reading or what goes wrong (with B as the reading)."""


def changing(n: int) -> LoadSnapshot:
    """A reading that differs from that of every other ``n``."""
    return replace(A, num_waiting_reqs=n)


# id: interval, calls, sends (time, sequence), provider calls, times of warnings
TIMELINES: dict[str, tuple[int, list[Call], list[tuple[float, int]], int, list[float]]] = {
    "P1-one-in-five": (5, [(100.0, "U", A)] * 10, [(100.0, 0)], 2, []),
    "P1-fifth-call-sends": (5, [(100.0 + n, "U", A) for n in range(6)], [(104.0, 0)], 1, []),
    "P1-forced-resets-the-counter": (
        5,
        [(100.0, "U", A)] * 3 + [(100.0, "F", A)] + [(102.0 + n, "U", A) for n in range(5)],
        [(100.0, 0), (106.0, 1)],
        2,
        [],
    ),
    "P1-after-a-forced-call": (
        5,
        [(100.0, "F", A)] + [(100.0 + n, "U", A) for n in range(1, 6)],
        [(100.0, 0), (105.0, 1)],
        2,
        [],
    ),
    "P1-counter-resets-without-a-send": (
        2,
        [(100.0, "F", A)] + [(100.0, "U", A)] * 6,
        [(100.0, 0)],
        4,
        [],
    ),
    "P1-counter-resets-on-failure": (2, [(100.0, "U", BOOM)] * 6, [], 3, [100.0]),
    "P1-interval-1": (
        1,
        [(100.0, "U", changing(n)) for n in range(3)],
        [(100.0, 0), (100.0, 1), (100.0, 2)],
        3,
        [],
    ),
    "P1-interval-0-counts-as-1": (
        0,
        [(100.0, "U", changing(n)) for n in range(2)],
        [(100.0, 0), (100.0, 1)],
        2,
        [],
    ),
    "P1-negative-interval-counts-as-1": (
        -7,
        [(100.0, "U", changing(n)) for n in range(2)],
        [(100.0, 0), (100.0, 1)],
        2,
        [],
    ),
    "P1-interval-15-is-slower-than-a-router-looks-away": (
        15,
        [(100.0 + n * 0.5, "U", changing(n)) for n in range(30)],
        [(107.0, 0), (114.5, 1)],
        2,
        [],
    ),
    "P2-heartbeat": (
        5,
        [
            (at, "F", A)
            for at in (100.0, 100.0, 100.5, 100.999, 101.0, 101.5, 101.99, 102.0, 102.125)
        ],
        [(100.0, 0), (101.0, 1), (102.0, 2)],
        9,
        [],
    ),
    "P2-heartbeat-after-silence": (
        5,
        [(100.0, "F", A), (100.0, "F", A), (101.5, "F", A)],
        [(100.0, 0), (101.5, 1)],
        3,
        [],
    ),
    "P2-change-goes-at-once": (
        5,
        [(100.0, "F", A), (100.0, "F", B)],
        [(100.0, 0), (100.0, 1)],
        2,
        [],
    ),
    "P2-change-and-back": (
        5,
        [(100.0, "F", A), (100.125, "F", B), (100.25, "F", A), (100.375, "F", A)],
        [(100.0, 0), (100.125, 1), (100.25, 2)],
        4,
        [],
    ),
    "P2-first-reading-of-a-young-clock": (5, [(0.125, "F", A)], [(0.125, 0)], 1, []),
    "P2-first-reading-all-zero": (5, [(0.125, "F", LoadSnapshot())], [(0.125, 0)], 1, []),
    "P4-a-warning-per-episode": (
        5,
        [
            (100.0, "F", BOOM),
            (100.125, "F", BOOM),
            (100.25, "F", A),
            (100.375, "F", BOOM),
            (100.5, "F", BOOM),
        ],
        [(100.25, 0)],
        5,
        [100.0, 100.375],
    ),
    "S1-a-failed-send-takes-a-number": (
        5,
        [
            (100.0, "F", A),
            (100.125, "F", NO_SEND),
            (100.25, "F", A),  # unchanged since the last that was sent
            (100.375, "F", BOOM),  # the same episode
            (100.5, "F", B),
        ],
        [(100.0, 0), (100.5, 2)],
        5,
        [100.125],
    ),
    "S1-a-failed-reading-takes-none": (
        5,
        [(100.0, "F", A), (100.0, "F", replace(A, num_used_tokens=-1)), (100.0, "F", B)],
        [(100.0, 0), (100.0, 1)],
        3,
        [100.0],
    ),
    "P4-failed-send-is-tried-again-at-once": (
        5,
        [(100.0, "F", NO_SEND), (100.0, "F", B)],
        [(100.0, 1)],
        2,
        [100.0],
    ),
}


@pytest.mark.parametrize("timeline", TIMELINES)
def test_a_timeline_of_calls_gives_its_sends(
    timeline: str, clock: VirtualClock, socket: RecordingSocket, caplog: pytest.LogCaptureFixture
) -> None:
    """P1, P2, P4, S1: what goes out when, how often the provider is asked, when it warns."""
    interval, calls, sends, asked, warned = TIMELINES[timeline]
    publisher = LoadPublisher(socket, publish_interval=interval)
    times_asked = 0
    warnings: list[float] = []
    for at, kind, reading in calls:

        def provider(reading: object = reading) -> object:
            nonlocal times_asked
            times_asked += 1
            if reading is BOOM:
                raise RuntimeError("no reading")
            return B if reading is NO_SEND else reading

        clock.set(at)
        socket.fail_next = reading is NO_SEND
        caplog.clear()
        publisher.publish_load_stat(provider, force=kind == "F")
        warnings += [at] * len(caplog.records)
    assert socket.sent == sends
    assert times_asked == asked
    assert warnings == warned


def test_every_message_keeps_the_contract(clock: VirtualClock, socket: RecordingSocket) -> None:
    """F1 to F4, W4, W6, R3: three canonical frames, the sequence from 0, the slot as the rank."""
    publisher = LoadPublisher(socket, rank=2)
    for n in range(3):
        publisher.publish_load_stat(lambda n=n: changing(n), force=True)  # type: ignore[misc]
    messages = [verify_frames(frames) for _, frames in socket.messages]
    assert [message.sequence for message in messages] == [0, 1, 2]
    assert messages[1].stat == LoadStat(
        num_running_reqs=7,
        num_waiting_reqs=1,
        num_tokens=1024,
        max_total_num_tokens=8192,
        attn_dp_rank=2,
        num_waiting_uncached_tokens=512,
        num_total_tokens=4096,
        max_running_requests=64,
        total_prefill_uncached_tokens=20000,
        total_prefill_busy_us=2000000,
    )
    assert socket.messages[1][1] == build_frames(1, messages[1].stat)


def test_revision_1_sends_its_six_elements(socket: RecordingSocket) -> None:
    """W2, W4: revision 1 sends the tag, four counts and the rank, and compares nothing else."""
    publisher = LoadPublisher(socket, rank=1, revision=1)
    publisher.publish_load_stat(lambda: A, force=True)
    publisher.publish_load_stat(lambda: replace(A, num_total_tokens=9), force=True)
    ((_, frames),) = socket.messages
    expected = LoadStatRev1(
        num_running_reqs=7,
        num_waiting_reqs=3,
        num_tokens=1024,
        max_total_num_tokens=8192,
        attn_dp_rank=1,
    )
    assert verify_frames(frames, revision=1) == (0, expected)


FIELDS = LoadStat.__struct_fields__
COUNTS = [name for name in FIELDS if name != "attn_dp_rank"]


@pytest.mark.parametrize("revision", [1, 2])
def test_an_engine_may_call_its_fields_as_it_likes(revision: int, socket: RecordingSocket) -> None:
    """A renamed field is read from the snapshot under its name there, the others under theirs."""
    load = SimpleNamespace(**{name: number for number, name in enumerate(COUNTS, 1)})
    load.running = 300
    publisher = LoadPublisher(
        socket, rank=9, revision=revision, fields={"num_running_reqs": "running"}
    )
    publisher.publish_load_stat(lambda: load, force=True)
    ((_, frames),) = socket.messages
    stat = verify_frames(frames, revision=revision).stat
    values = [getattr(stat, name) for name in stat.__struct_fields__]
    assert values == [300, 2, 3, 4, 9, 5, 6, 7, 8, 9][: len(values)]


@pytest.mark.parametrize("name", COUNTS)
def test_a_change_in_any_count_is_a_change(name: str, socket: RecordingSocket) -> None:
    """P2: each count of the payload takes part in the comparison."""
    publisher = LoadPublisher(socket)
    snapshot_name = {"num_tokens": "num_used_tokens"}.get(name, name)
    publisher.publish_load_stat(lambda: A, force=True)
    publisher.publish_load_stat(lambda: replace(A, **{snapshot_name: 5}), force=True)
    assert [sequence for _, sequence in socket.sent] == [0, 1]
    assert getattr(decode(socket.messages[1][1][2]), name) == 5


@pytest.mark.parametrize("name", ["dp_rank", "token_usage"])
def test_a_change_in_anything_else_is_none(name: str, socket: RecordingSocket) -> None:
    """P2: the rank and what is not in the payload are no part of the comparison."""
    publisher = LoadPublisher(socket)
    for value in (0, 1):
        load = SimpleNamespace(**vars(A), **{name: value})
        publisher.publish_load_stat(lambda load=load: load, force=True)  # type: ignore[misc]
    assert len(socket.messages) == 1


class Numpyish:
    """An integer scalar of another library, as far as Python can tell."""

    def __index__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "numpyish(5)"


@pytest.mark.parametrize("name", ["num_running_reqs", "total_prefill_busy_us"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "out-of-range"),
        (2**64, "out-of-range"),
        (1.0, "bad-type"),
        (float("nan"), "bad-type"),
        (True, "bad-type"),
        (None, "bad-type"),
        ("7", "bad-type"),
        (Numpyish(), "bad-type"),
    ],
    ids=repr,
)
def test_what_is_no_count_is_not_sent(
    name: str,
    value: object,
    reason: str,
    socket: RecordingSocket,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """W5, P4: a reading with a bad count is a failure that names the field, and no message."""
    publisher = LoadPublisher(socket)
    bad = SimpleNamespace(**{**vars(A), name: value})
    publisher.publish_load_stat(lambda: bad, force=True)
    publisher.publish_load_stat(lambda: bad, force=True)
    assert socket.messages == []
    (record,) = caplog.records
    assert (record.name, record.levelno) == (LOGGER, logging.WARNING)
    assert record.exc_info is not None
    text = str(record.exc_info[1])
    assert (f"W5 {reason}" in text, name in text) == (True, True), text


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_every_count_is_sent(value: int, socket: RecordingSocket) -> None:
    """W5, W6: 0 to 2^64-1, each in its shortest encoding."""
    LoadPublisher(socket).publish_load_stat(
        lambda: replace(A, total_prefill_uncached_tokens=value), force=True
    )
    ((_, frames),) = socket.messages
    stat = verify_frames(frames).stat
    assert isinstance(stat, LoadStat)
    assert stat.total_prefill_uncached_tokens == value


def test_a_snapshot_that_is_given_spares_the_provider(socket: RecordingSocket) -> None:
    """P3: a reading handed in is published as it is, through the same throttle."""

    def provider() -> object:
        raise AssertionError("asked although a snapshot was given")

    publisher = LoadPublisher(socket)
    for n in range(5):
        publisher.publish_load_stat(provider, snapshot=changing(n))
    publisher.publish_load_stat(provider, force=True, snapshot=B)
    stats = [parse_frames(frames).stat for _, frames in socket.messages]
    assert [(s.num_running_reqs, s.num_waiting_reqs) for s in stats] == [(7, 4), (0, 3)]


def test_a_throttled_call_does_not_ask(socket: RecordingSocket) -> None:
    """P1: the provider walks queues, so a call that does not pass must not reach it."""
    publisher = LoadPublisher(socket, publish_interval=3)
    asked: list[int] = []
    for n in range(7):

        def provider(n: int = n) -> LoadSnapshot:
            asked.append(n)
            return A

        publisher.publish_load_stat(provider)
    assert asked == [2, 5]


def never_asked() -> object:
    """A provider that must not be reached."""
    raise AssertionError("a disabled publisher asked for a reading")


def closed(socket: PubSocket) -> LoadPublisher:
    """A publisher that was open once."""
    publisher = LoadPublisher(socket)
    publisher.close()
    return publisher


@pytest.mark.parametrize("make", [lambda _: LoadPublisher(None), closed])
def test_a_disabled_publisher_does_nothing(
    make: Callable[[PubSocket], LoadPublisher],
    socket: RecordingSocket,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K4, P3: without a socket, publishing asks nobody, counts nothing and says nothing."""
    publisher = make(socket)
    assert publisher.enabled is False
    for force in (False, True):
        publisher.publish_load_stat(never_asked, force=force)
    assert (socket.messages, caplog.records, publisher._calls) == ([], [], 0)


def test_close_is_idempotent(socket: RecordingSocket) -> None:
    """K4: the socket is closed once, by close() or by leaving the with block."""
    with LoadPublisher(socket) as publisher:
        assert publisher.enabled
        publisher.close()
        publisher.close()
    assert socket.closes == 1


def test_an_interrupt_is_not_swallowed(socket: RecordingSocket) -> None:
    """P4: failures stay inside, but ctrl-C gets out."""

    def interrupted() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LoadPublisher(socket).publish_load_stat(interrupted, force=True)


def test_a_clock_that_fails_stays_inside(
    socket: RecordingSocket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: nothing that fails in the publisher reaches the loop, whichever step it is."""
    monkeypatch.setattr("pytest_loadwire.engine.publisher.time", None)
    LoadPublisher(socket).publish_load_stat(lambda: A, force=True)
    assert (socket.messages, len(caplog.records)) == ([], 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"revision": 3}, "no revision 3"),
        ({"fields": {"num_requests": "x"}}, "num_requests"),
        ({"fields": {"attn_dp_rank": "dp_rank"}}, "attn_dp_rank"),
        ({"rank": -1}, "-1"),
    ],
)
def test_a_publisher_that_makes_no_sense_is_refused(arguments: dict[str, Any], text: str) -> None:
    """A mistake of the developer is an error at construction, not a warning per reading."""
    with pytest.raises(ValueError, match=text):
        LoadPublisher(None, **arguments)
