"""Bytes for people."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
import zmq

from pytest_loadwire import annotate as module
from pytest_loadwire.annotate import (
    MOST_LINES,
    annotate,
    annotate_frames,
    compare_frames,
    compare_payloads,
    lines,
)
from pytest_loadwire.vectors import FrameVector, PayloadVector, load
from pytest_loadwire.wire import LoadStatRev2, build_frames, encode

GOLDEN = load()
TAG = "a84c6f616453746174"

# payload, offset, bytes, label and words of the last line
LAST_LINES = [
    ("", 0, "", "(truncated)", "at byte 0, 1 more needed"),
    ("c1", 0, "c1", "(malformed)", "at byte 0"),
    ("c0", 0, "c0", "nil", "nil"),
    ("c0c1", 1, "c1", "(trailing bytes)", "1 of them"),
    ("92" + TAG, 10, "", "(truncated)", "at byte 10, 1 more needed"),
    ("92" + TAG + "cd07", 10, "cd07", "(truncated)", "at byte 12, 1 more needed"),
    ("92" + TAG + "c107", 10, "c107", "(malformed)", "at byte 10"),
    ("92" + TAG + "07", 10, "07", "1 num_running_reqs", "integer 7"),
    ("92" + TAG + "07ffff", 11, "ffff", "(trailing bytes)", "2 of them"),
    ("92" + TAG + "9107", 11, "07", "positive fixint", "integer 7"),
    ("9b" + TAG + "00" * 10, 19, "00", "10 total_prefill_busy_us", "integer 0"),
    ("9c" + TAG + "00" * 11, 20, "00", "11", "integer 0"),
    ("dd7fffffff" + "00" * 3, 8, "", "(truncated)", "at byte 8, 1 more needed"),
]

# value, whether it looks like a message


def test_examples() -> None:
    """The examples of the docstrings are true."""
    failed, attempted = doctest.testmod(module)
    assert (failed, attempted > 0) == (0, True)


@pytest.mark.parametrize("vector", GOLDEN.payloads, ids=lambda vector: vector.id)
def test_no_byte_is_lost(vector: PayloadVector) -> None:
    """The lines of a payload, good or bad, are all of its bytes in order, each with its offset."""
    position = 0
    for line in lines(vector.payload):
        assert position == line.offset
        position += len(line.raw)
    assert len(vector.payload) == position
    assert b"".join(line.raw for line in lines(vector.payload)) == vector.payload


@pytest.mark.parametrize("vector", GOLDEN.frames, ids=lambda vector: vector.id)
def test_any_message(vector: FrameVector) -> None:
    """A message of any form is shown, each frame by its role, and compares as equal to itself."""
    text = annotate_frames(vector.parts)
    roles = [line.split(":")[0] for line in text.splitlines() if line.startswith("frame ")]
    expected = ["frame 0 (topic)", "frame 1 (sequence)", "frame 2 (payload)"]
    expected += ["frame 3 (unexpected)"] * 2
    assert expected[: len(vector.parts)] == roles
    marked = [line for line in compare_frames(vector.parts, vector.parts) if line[0] == ">"]
    assert [] == marked


@pytest.mark.parametrize(("payload", "offset", "raw", "label", "says"), LAST_LINES)
def test_last_line(payload: str, offset: int, raw: str, label: str, says: str) -> None:
    """What stands at the end is named: an element, a fault, or bytes that belong to nothing."""
    last = lines(bytes.fromhex(payload))[-1]
    assert (offset, bytes.fromhex(raw), label, says) == (
        last.offset,
        last.raw,
        last.label,
        last.says,
    )


def test_long_payload() -> None:
    """A payload of many tokens is cut, and the rest is counted."""
    payload = b"\xdc\x03\xe8" + bytes(1000)
    shown = lines(payload)
    assert MOST_LINES + 1 == len(shown)
    assert f"({len(payload) - 2 - MOST_LINES} more bytes)" == shown[-1].label
    payload = b"\xdc" + MOST_LINES.to_bytes(2, "big") + bytes(MOST_LINES)
    assert "(1 more byte)" == lines(payload)[-1].label


@pytest.mark.parametrize("count", [MOST_LINES - 1, MOST_LINES])
def test_just_short_enough(count: int) -> None:
    """A payload of exactly so many tokens is not cut."""
    shown = lines(b"\xdc" + (count - 1).to_bytes(2, "big") + bytes(count - 1))
    assert count == len(shown)
    assert shown[-1].says == "integer 0"


def test_long_value() -> None:
    """A value of many bytes is shortened in its line, and lines stay of one width."""
    line = str(lines(b"\xd9\x40" + b"x" * 64)[0])
    assert ".." in line
    assert "x" * 33 not in line
    assert len(line) < 110


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, zmq.Frame])
def test_buffers(kind: Callable[[bytes], bytes]) -> None:
    """Any buffer is shown."""
    assert annotate(bytes.fromhex("92" + TAG + "07")) == annotate(
        kind(bytes.fromhex("92" + TAG + "07"))
    )


def test_annotated_message(reading: LoadStatRev2) -> None:
    """A message is shown frame by frame, its payload by element."""
    shown = annotate_frames(build_frames(7, reading)).splitlines()
    assert shown[0] == "frame 0 (topic): b'load'"
    assert shown[1] == "frame 1 (sequence): 0000000000000007 = 7"
    assert shown[2].startswith("frame 2 (payload): 9ba84c6f61645374617407")
    assert shown[4].split() == ["1", TAG, "0", "tag", "str", "'LoadStat'"]
    assert shown[5].split() == ["10", "07", "1", "num_running_reqs", "integer", "7"]
    assert len(shown) == 3 + 12


def test_compare_element(make_reading: Callable[..., LoadStatRev2]) -> None:
    """Of two messages exactly the element that differs is marked, with a line for each side."""
    left, right = build_frames(7, make_reading(7)), build_frames(7, make_reading(8))
    text = compare_frames(left, right, ("expected", "received"))
    assert text[0] == "load messages differ (expected | received)"
    marked = [line for line in text if line.startswith("> ")]
    assert marked[0].startswith("> frame 2 (payload): 9b")
    one, other = marked[1:]
    assert [">", "expected", "10", "07"] == one.split()[:4]
    assert [">", "received", "10", "08"] == other.split()[:4]
    assert one.split()[5] == other.split()[5] == "num_running_reqs"
    assert len([line for line in text if "total_prefill_busy_us" in line]) == 1


@pytest.mark.parametrize(
    ("frame", "bad", "line"),
    [
        (0, b"loadx", "> frame 0 (topic): b'load' | b'loadx'"),
        (
            1,
            bytes(7) + b"\x08",
            "> frame 1 (sequence): 0000000000000007 = 7 | 0000000000000008 = 8",
        ),
        (1, b"\x07", "> frame 1 (sequence): 0000000000000007 = 7 | 07, 1 bytes"),
    ],
)
def test_compare_frame(reading: LoadStatRev2, frame: int, bad: bytes, line: str) -> None:
    """A frame that differs is marked and says what it holds on each side."""
    good = build_frames(7, reading)
    other = list(good)
    other[frame] = bad
    text = compare_frames(good, other)
    assert line in text
    assert len([marked for marked in text if marked.startswith(">")]) == 1


def test_compare_lengths(reading: LoadStatRev2) -> None:
    """A frame that is missing or too many is said first."""
    good = build_frames(7, reading)
    text = compare_frames(good, good[:2])
    assert text[1] == "> 3 frames | 2 frames"
    assert text[-1].endswith("| missing")
    text = compare_frames(good, (*good, b""))
    assert text[1] == "> 3 frames | 4 frames"
    assert text[-1] == "> frame 3 (unexpected): missing | , 0 bytes"


def test_compare_shifted(reading: LoadStatRev2) -> None:
    """An element that is as it should be is not marked for standing at another byte."""
    wide = bytearray(encode(reading))
    wide[10:11] = b"\xcc\x07"
    text = compare_payloads(encode(reading), bytes(wide))
    marked = [line for line in text if line.startswith("> ")]
    assert ["num_running_reqs"] * 2 == [line.split()[5] for line in marked]


def test_compare_shorter(reading: LoadStatRev2) -> None:
    """Elements that one side lacks are marked on the other."""
    text = compare_payloads(encode(reading), b"\x9b" + encode(reading)[1:-5])
    assert [line.split()[1] for line in text if line.startswith("> ")] == ["left", "right"]
