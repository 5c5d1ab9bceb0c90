"""What the terminal's tools cost for each message, beside what a router pays to read it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from pytest_loadwire.explain import explain_message
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.tail_state import Board
from pytest_loadwire.wire import LoadStatRev2, build_frames, parse_frames

pytest.importorskip("pytest_benchmark")


@pytest.mark.benchmark(group="one message")
def test_parse(benchmark: Any, reading: LoadStatRev2) -> None:
    """The reference: the frames, parsed as a router does."""
    benchmark(parse_frames, build_frames(1, reading))


@pytest.mark.benchmark(group="one message")
def test_note(benchmark: Any, reading: LoadStatRev2) -> None:
    """What `loadwire tail` adds to that."""
    board = Board()
    benchmark(board.note, "http://worker", 0, parse_frames(build_frames(1, reading)))


@pytest.mark.benchmark(group="one message")
def test_judge(benchmark: Any, reading: LoadStatRev2) -> None:
    """What `loadwire check TARGET` does with it, engine's form and sequence included."""
    stream, number = Stream(rank=reading.attn_dp_rank), count()

    def receive() -> None:
        sequence = next(number)
        stream.receive(float(sequence), build_frames(sequence, reading))

    benchmark(receive)


@pytest.mark.benchmark(group="one message")
def test_explain(benchmark: Any, reading: LoadStatRev2) -> None:
    """What `loadwire explain` does with it, every byte and every reader."""
    benchmark(explain_message, build_frames(1, reading))
