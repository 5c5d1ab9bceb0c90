"""What the tests of several areas share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pytest_loadwire.judge import Outcome
from pytest_loadwire.reader import Reader
from pytest_loadwire.wire import LoadStatRev2
from pytest_loadwire.witness import STRICT

pytest_plugins = ["pytester"]


def _reading(running: int = 7) -> LoadStatRev2:
    # Every slot differs from each other one, so that a swap cannot pass.
    return LoadStatRev2(
        num_running_reqs=running,
        num_waiting_reqs=3,
        num_tokens=1024,
        max_total_num_tokens=8192,
        attn_dp_rank=2,
        num_waiting_uncached_tokens=512,
        num_total_tokens=4096,
        max_running_requests=64,
        total_prefill_uncached_tokens=20_000,
        total_prefill_busy_us=2_000_000,
    )


@pytest.fixture
def reading() -> LoadStatRev2:
    """A reading in which no two slots are alike."""
    return _reading()


@pytest.fixture
def make_reading() -> Callable[..., LoadStatRev2]:
    """Makes such readings, told apart by their first count."""
    return _reading


class _Reader:
    """A reader of payloads as the router of revision 2, which is one function."""

    name, revision, policies, reads_frames = "toy", 2, STRICT, False

    def __init__(self, decode: Callable[[bytes], Outcome]) -> None:
        self._decode = decode

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:
        return self._decode(payload)

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        raise NotImplementedError


@pytest.fixture
def make_reader() -> Callable[[Callable[[bytes], Outcome]], Reader]:
    """Makes readers of payloads out of functions."""
    return _Reader
