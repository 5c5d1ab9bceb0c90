"""What the tests of several areas share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from pytest_loadwire.commands import loadwire
from pytest_loadwire.contract.live import has_ipv6
from pytest_loadwire.discovery import NoPlan, Plan
from pytest_loadwire.exact import array_length
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.judge import Outcome
from pytest_loadwire.reader import Reader
from pytest_loadwire.router.subscriber import WorkerStatus
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.tail_state import Board, Snapshot
from pytest_loadwire.wire import LoadStatRev2, build_frames
from pytest_loadwire.witness import STRICT

pytest_plugins = ["pytester"]


Invoke = Callable[..., Result]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs `loadwire` with these arguments, 80 columns wide; `input` is its standard input."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("LOADWIRE_NATIVE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str | Path, input: str | bytes | None = None) -> Result:  # noqa: A002
        return CliRunner().invoke(
            loadwire, list(map(str, arguments)), input=input, prog_name="loadwire"
        )

    return run


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


@pytest.fixture
def ipv6_loopback() -> None:
    """Skips where there is none to bind."""
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")


class TailWorld:
    """Workers as a router knows them, on a clock that is moved by hand and without any socket."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.table = ReadingTable(clock=self.clock.monotonic)
        self.board = Board(clock=self.clock.monotonic)
        self.statuses: dict[str, WorkerStatus] = {}
        self._began = self.clock.monotonic()

    def worker(
        self,
        name: str,
        ranks: int = 0,
        *,
        plan: Plan | NoPlan | None = None,
        error: str = "",
    ) -> str:
        """Add a worker with so many ranks; without any it advertises no load."""
        self.table.add(name)
        if ranks:
            places = [f"tcp://10.0.0.5:{5558 + rank}" for rank in range(ranks)]
            self.table.advertise(name, [name] if name.startswith("tcp") else places)
        self.statuses[name] = WorkerStatus(plan, error, 1, {})
        self.snapshot()
        return name

    def good(
        self, name: str, rank: int = 0, sequence: int = 0, **fields: int | None
    ) -> tuple[int, bool]:
        """One reading; of its counts as many as wished are given by name."""
        stat = structs.replace(_reading(), **{"attn_dp_rank": rank, **fields})
        return self.frames(name, rank, build_frames(sequence, stat))

    def frames(self, name: str, rank: int, frames: Sequence[bytes]) -> tuple[int, bool]:
        """One message as it is."""
        outcome = self.table.receive(name, rank, frames)
        assert outcome is not None
        return self.board.note(name, rank, outcome, array_length(frames[-1]))

    def snapshot(self) -> Snapshot:
        """What is known now."""
        rows = [
            self.board.row(
                name, self.table.view(name), self.table.ranks(name), status=self.statuses[name]
            )
            for name in self.table.workers
        ]
        return Snapshot(tuple(rows), self.clock.monotonic() - self._began)


@pytest.fixture
def tail_world() -> TailWorld:
    """Workers for a live view to show."""
    return TailWorld()
