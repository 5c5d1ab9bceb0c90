"""What the tests of the watch share: a stream that is played on a virtual clock, and a watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_loadwire.discovery import plan
from pytest_loadwire.observe.asking import Advertised
from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.target import parse_target
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, build_frames

BASE = 5558
BLOCK = {
    "publisher": "zmq",
    "endpoint_host": "*",
    "endpoint_port_base": 5000,
    "topic": "",
    "block_size": 64,
    "load_endpoint_port_base": BASE,
    "load_topic": "load",
}


def _stat(rank: int | None = 0, step: int = 0, **changes: Any) -> LoadStatRev2:
    values: dict[str, Any] = {
        "num_running_reqs": 7,
        "num_waiting_reqs": 3,
        "num_tokens": 1024,
        "max_total_num_tokens": 8192,
        "attn_dp_rank": rank,
        "num_waiting_uncached_tokens": 512,
        "num_total_tokens": 4096,
        "max_running_requests": 64,
        "total_prefill_uncached_tokens": 20_000 + step,
        "total_prefill_busy_us": 2_000_000 + step,
    }
    return LoadStatRev2(**{**values, **changes})


def _old(stat: LoadStatRev2) -> LoadStatRev1:
    return LoadStatRev1(**{name: getattr(stat, name) for name in LoadStatRev1.__struct_fields__})


@pytest.fixture
def stat() -> Callable[..., LoadStatRev2]:
    """Makes readings of revision 2: `rank`, a `step` that the counters grow by, and changes."""
    return _stat


@pytest.fixture
def old() -> Callable[[LoadStatRev2], LoadStatRev1]:
    """The same reading in revision 1."""
    return _old


def _speak(
    stream: Stream, *, count: int = 8, start: int = 0, first: int = 0, **changes: Any
) -> Stream:
    rank = changes.pop("rank", stream.rank or 0)
    stream.connected(start - 0.1)
    for n in range(count):
        stream.receive(start + n * 0.5, build_frames(first + n, _stat(rank, n, **changes)))
    stream.ended(start + count * 0.5)
    return stream


@pytest.fixture
def speak() -> Callable[..., Stream]:
    """Lets a stream hear a conforming engine: `count` messages, two a second."""
    return _speak


@pytest.fixture
def worker() -> Callable[..., TargetSeen]:
    """A worker as it was seen: its ranks speak well; a `block` and streams may be handed in."""

    def make(
        ranks: int = 2,
        *,
        url: str = "http://10.0.0.5:30000",
        block: dict[str, Any] | None = None,
        streams: Sequence[Stream | None] = (),
    ) -> TargetSeen:
        full = {**BLOCK, "dp_size": ranks, **(block or {})}
        found = plan(url, full)
        one = TargetSeen(parse_target(url), Advertised(full, found), address="10.0.0.5")
        base = full["load_endpoint_port_base"]
        for rank in range(ranks):
            given = streams[rank] if rank < len(streams) else None
            stream = _speak(Stream(rank=rank)) if given is None else given
            one.ranks.append(RankSeen(f"tcp://10.0.0.5:{base + rank}", rank, stream=stream))
            if stream.count:
                for event in ("connected", "ready"):
                    one.ranks[-1].link.happened(0.0, event)  # type: ignore[arg-type]
        return one

    return make


@pytest.fixture
def watched() -> Callable[..., Seen]:
    """A watch of six seconds that saw these targets."""
    return lambda *targets: Seen(list(targets), 6.0, 6.0, began="2026-01-01T00:00:00+00:00")
