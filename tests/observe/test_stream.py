"""One socket's messages, judged as they arrive, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.golden.frames import KV_BATCH
from pytest_loadwire.observe.stream import MOST_BYTES, MOST_ODDITIES, MOST_SHAPES, Stream
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, build_frames, encode

Speak = Callable[..., Stream]
Stat = Callable[..., LoadStatRev2]


def found(stream: Stream) -> dict[str, tuple[str, str]]:
    """Level and rule of everything odd, by code."""
    return {code: (odd.level, odd.rule) for code, odd in stream.oddities.items()}


def test_a_conforming_engine(speak: Speak) -> None:
    """Nothing is odd about an engine that conforms, and it is counted."""
    stream = speak(Stream(rank=3), count=9, first=40)
    assert {} == found(stream)
    assert (9, 9, 40, 48, 0) == (
        stream.count,
        stream.good,
        stream.first,
        stream.last,
        stream.missing,
    )
    assert ({2: 9}, {3: 9}) == (stream.revisions, stream.ranks)
    assert (2.0, 0.5, 0, 0) == (stream.rate, stream.longest, stream.late, stream.early)


@pytest.mark.parametrize("vector", load().frames, ids=lambda vector: vector.id)
def test_every_frame_vector(vector: object) -> None:
    """A message that no engine may send is odd, by the vector's rule where routers refuse it."""
    stream = Stream()
    parts = vector.parts  # type: ignore[attr-defined]
    stream.receive(0.0, parts)
    graded = vector.engine  # type: ignore[attr-defined]
    errors = {odd.rule for odd in stream.oddities.values() if odd.level == "error"}
    # Sequences that only a lost engine counts to, and readings that no engine has.
    errors -= {"W2", "W3"} | ({"F3"} if graded else set())
    assert (graded is None) == bool(errors), errors


BROKEN: list[tuple[str, Callable[[bytes], list[bytes]], str, str]] = [
    ("frame-count", lambda p: [b"load", bytes(8)], "frame-count", "F1"),
    ("conflated", lambda p: [p], "conflated", "F1"),
    ("near miss", lambda p: [b"load0", bytes(8), p], "bad-topic", "F2"),
    ("sequence", lambda p: [b"load", bytes(4), p], "bad-seq-length", "F3"),
    ("sentinel", lambda _: [b"", b"\xff" * 8, b""], "replay-sentinel", "F5"),
    ("below zero", lambda p: [b"load", b"\xff" * 8, p], "negative-seq", "F3"),
    ("kv", lambda _: [b"kv", bytes(8), KV_BATCH], "kv-events", "F5"),
    ("trimmed", lambda p: [b"load", bytes(8), b"\x94" + p[1:15]], "too-short-4", "W4"),
    ("tail", lambda p: [b"load", bytes(8), b"\x97" + p[1:22]], "too-short", "W4"),
    (
        "float",
        lambda p: [b"load", bytes(8), p[:10] + b"\xca" + bytes(4) + p[11:]],
        "bad-type-1",
        "W5",
    ),
    ("negative", lambda p: [b"load", bytes(8), p[:10] + b"\xff" + p[11:]], "out-of-range-1", "W5"),
    ("wide", lambda p: [b"load", bytes(8), p[:10] + b"\xcc\x07" + p[11:]], "not-canonical", "W6"),
    ("trailing", lambda p: [b"load", bytes(8), p + b"\xc0"], "trailing-bytes", "W6"),
    ("tag", lambda p: [b"load", bytes(8), p.replace(b"Stat", b"Stut")], "bad-tag-0", "W1"),
    ("map", lambda _: [b"load", bytes(8), b"\x80"], "load-snapshot", "W10"),
    ("cut", lambda p: [b"load", bytes(8), p[:-1]], "truncated-10", "W10"),
]


@pytest.mark.parametrize(("name", "broken", "code", "rule"), BROKEN, ids=[row[0] for row in BROKEN])
def test_broken_messages(
    stat: Stat, name: str, broken: Callable[[bytes], list[bytes]], code: str, rule: str
) -> None:
    """Each way to break a message is an error of its rule, with the bytes of the first one."""
    stream = Stream()
    frames = broken(encode(stat()))
    for at in (1.0, 2.0):
        stream.receive(at, frames)
    odd = stream.oddities[code]
    assert ("error", rule, 2, 1.0) == (odd.level, odd.rule, odd.count, odd.at)
    assert tuple(frames) == odd.frames
    assert not odd.text.startswith(rule)


def test_extra_elements(stat: Stat) -> None:
    """More elements than the newest revision has may be a newer one, and only warn."""
    payload = encode(stat())
    longer = b"\x9c" + payload[1:] + b"\x07"
    stream = Stream()
    stream.receive(0.0, [b"load", bytes(8), longer])
    assert {"extra-elements": ("warning", "W4")} == found(stream)
    assert 1 == stream.good
    held = Stream(revision=2)
    held.receive(0.0, [b"load", bytes(8), longer])
    assert {"extra-elements": ("error", "W4")} == found(held)


@pytest.mark.parametrize(("revision", "code"), [(1, "extra-elements"), (2, None)])
def test_asked_revision(speak: Speak, revision: int, code: str | None) -> None:
    """An engine that is held to a revision may send no other."""
    stream = speak(Stream(revision=revision))
    assert ({code: ("error", "W4")} if code else {}) == found(stream)


def test_a_revision_that_changes(stat: Stat, old: Callable[..., LoadStatRev1]) -> None:
    """One process has one revision; a new process may have another."""
    stream = Stream()
    stream.connected(0.0)
    stream.receive(0.0, build_frames(5, old(stat())))
    stream.receive(1.0, build_frames(6, stat()))
    assert {"revision-changed": ("error", "W4")} == found(stream)
    rolled = Stream()
    rolled.connected(0.0)
    rolled.receive(0.0, build_frames(5, old(stat())))
    rolled.connected(1.0)
    rolled.receive(2.0, build_frames(0, stat()))
    assert {} == found(rolled)


def test_gaps(stat: Stat) -> None:
    """Missing numbers are counted and are nothing odd (S2)."""
    stream = Stream()
    for at, number in enumerate((3, 4, 9, 10, 12)):
        stream.receive(at, build_frames(number, stat(step=at)))
    assert (2, 5, {}) == (stream.gaps, stream.missing, found(stream))


def test_a_restart(stat: Stat) -> None:
    """A lower number behind a new connection is a restart, whose counters begin anew (S3)."""
    stream = Stream()
    stream.connected(0.0)
    stream.receive(0.0, build_frames(70, stat(step=5)))
    stream.connected(1.0)
    # what waited from the old process is still read behind the news of the new connection
    stream.receive(1.0, build_frames(71, stat(step=6)))
    stream.receive(1.1, build_frames(0, stat(step=-20_000)))
    stream.receive(1.6, build_frames(1, stat(step=-19_999)))
    assert (1, 0, {}) == (stream.restarts, stream.backwards, found(stream))


@pytest.mark.parametrize("older", [False, True])
def test_a_restart_behind_the_old_number(
    stat: Stat, old: Callable[..., LoadStatRev1], older: bool
) -> None:
    """A new process that is heard late is known by counters that fall, or by its revision (S3)."""
    stream = Stream()
    stream.connected(0.0)
    stream.receive(0.0, build_frames(2, stat(step=5)))
    stream.connected(1.0)
    new = stat(step=-20_000)
    stream.receive(1.1, build_frames(7, old(new) if older else new))
    stream.receive(1.6, build_frames(8, old(new) if older else stat(step=-19_999)))
    assert (1, {}) == (stream.restarts, found(stream))


def test_backwards_without_a_restart(stat: Stat) -> None:
    """A lower number while the connection stays up is no restart (S1)."""
    stream = Stream()
    stream.connected(0.0)
    for at, number in enumerate((70, 3, 71, 4)):
        stream.receive(at, build_frames(number, stat(step=at)))
    assert {"sequence-backwards": ("error", "S1")} == found(stream)
    assert 2 == stream.backwards


def test_a_number_twice(stat: Stat) -> None:
    """The same number twice in a row breaks S1."""
    stream = Stream()
    for at in range(3):
        stream.receive(at, build_frames(4, stat(step=at)))
    assert {"sequence-repeated": ("error", "S1")} == found(stream)


def test_a_little_endian_sequence(stat: Stat) -> None:
    """A number that nobody has counted to is told, and what it is the other way round."""
    stream = Stream()
    stream.receive(0.0, [b"load", (7).to_bytes(8, "little"), encode(stat())])
    assert {"implausible-sequence": ("error", "F3")} == found(stream)
    assert "it is 7: sent little-endian?" in stream.oddities["implausible-sequence"].text


@pytest.mark.parametrize(("rank", "level"), [(None, "warning"), (0, "error"), (2, None)])
def test_rank(speak: Speak, rank: int | None, level: str | None) -> None:
    """The payload's rank is that of the socket (R3); nil only warns."""
    stream = speak(Stream(rank=2), rank=rank)
    assert ([(level, "R3")] if level else []) == list(found(stream).values())


def test_rank_of_an_unknown_socket(speak: Speak) -> None:
    """A socket that was given by itself may have any rank."""
    assert {} == found(speak(Stream(), rank=7))


VALUES = [
    ({"num_tokens": 8193, "num_total_tokens": 9000}, "tokens-above-capacity", "W2"),
    ({"num_running_reqs": 65}, "running-above-limit", "W3"),
    ({"num_total_tokens": 1023}, "total-below-tokens", "W3"),
]


@pytest.mark.parametrize(("changes", "code", "rule"), VALUES)
def test_impossible_values(speak: Speak, changes: dict[str, int], code: str, rule: str) -> None:
    """Values that cannot be are errors, and come with a hazard."""
    stream = speak(Stream(), **changes)
    assert {code: ("error", rule)} == found(stream)
    assert stream.oddities[code].hazard is not Hazard.NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"num_tokens": 8192, "num_total_tokens": 8192, "num_running_reqs": 64},
        {"max_total_num_tokens": 0, "max_running_requests": 0},
    ],
)
def test_values_at_the_limit(speak: Speak, changes: dict[str, int]) -> None:
    """A limit may be reached, and one of 0 is unknown."""
    assert {} == found(speak(Stream(), **changes))


def test_counters_backwards(stat: Stat) -> None:
    """Counters that fall while the process lives, and limits that change."""
    stream = Stream()
    stream.receive(0.0, build_frames(0, stat(step=5)))
    stream.receive(0.5, build_frames(1, stat(step=4, max_total_num_tokens=8193)))
    assert {
        "counter-backwards-total-prefill-uncached-tokens": ("error", "W3"),
        "counter-backwards-total-prefill-busy-us": ("error", "W3"),
        "limit-changed-max-total-num-tokens": ("warning", "W2"),
    } == found(stream)


def test_unchanged_readings(stat: Stat) -> None:
    """Only an unchanged reading with the next number counts as too early (P2)."""
    stream = Stream()
    for at, number in ((0.0, 0), (0.5, 1), (1.5, 2), (1.6, 4)):
        stream.receive(at, build_frames(number, stat()))
    stream.receive(1.7, build_frames(5, stat(rank=1)))  # the rank is no part of a reading
    stream.receive(1.8, build_frames(6, stat(step=1)))
    assert (3, 2) == (stream.repeats, stream.early)


def test_silences(stat: Stat) -> None:
    """The longest silence counts both ends of the watch as well."""
    stream = Stream()
    stream.connected(10.0)
    stream.receive(13.0, build_frames(0, stat()))
    assert (3.0, 13.0, 1) == (stream.longest, stream.longest_at, stream.late)
    stream.receive(14.0, build_frames(1, stat()))
    stream.ended(18.0)
    assert (4.0, 18.0, 2) == (stream.longest, stream.longest_at, stream.late)


def test_silence_of_nobody() -> None:
    """A socket that never connected was not silent: nobody was there."""
    stream = Stream()
    stream.ended(9.0)
    assert 0.0 == stream.longest


def test_a_flood_is_counted_and_not_kept() -> None:
    """However much comes, what is kept has a bound, and so has each message of it."""
    stream = Stream()
    for at, frames in enumerate(bad_messages() * 3):
        stream.receive(at, frames)
    for size in range(64):
        stream.receive(0.0, [b"x" * (MOST_BYTES + 1)] * (size + 1))
    assert len(bad_messages()) * 3 + 64 == stream.count
    assert 0 == stream.good
    assert len(stream.oddities) <= MOST_ODDITIES
    assert len(stream.shapes) <= MOST_SHAPES
    longest = max(len(frame) for odd in stream.oddities.values() for frame in odd.frames)
    assert longest <= MOST_BYTES


@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=5))
def test_anything(messages: list[list[bytes]]) -> None:
    """No message breaks the judge."""
    stream = Stream(rank=1)
    for at, frames in enumerate(messages):
        stream.receive(at, frames)
    assert len(messages) == stream.count
