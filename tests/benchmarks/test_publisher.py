"""The reference publisher beside SGLang's own: one snapshot, one real socket each, turn by turn.

SGLang is not installed for this: the light part of its wheel is loaded, as for `tests/interop`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pytest_loadwire.contract.engine import ReservedPort, kv_events_config
from pytest_loadwire.endpoints import Topology
from pytest_loadwire.engine import LoadPublisher, LoadSnapshot
from tests.interop import light_sglang

pytest.importorskip("pytest_benchmark")

ROUNDS = 15

Publish = Callable[..., None]
"""``publish_load_stat(provider, force, snapshot)`` of either publisher."""

# What is published: name, calls in a round, what a round does, and what of SGLang's time it may be.
CASES = [
    ("changed", 2_000, 0.6),
    ("unchanged", 10_000, 1.0),
    ("unchanged, asked for", 10_000, 1.0),
    ("throttled", 20_000, 1.0),
    ("disabled", 20_000, 1.0),
]


@pytest.fixture(scope="module")
def sglang() -> Iterator[Any]:
    """SGLang's module with the load publisher, at rank 0 of an engine of one."""
    try:
        modules = light_sglang.load()
    except (light_sglang.NotAvailableError, ImportError) as error:
        pytest.skip(f"NOT RUN: {error}")
    with light_sglang.topology(Topology()):
        yield modules.publisher


@pytest.fixture
def publishers(sglang: Any, request: pytest.FixtureRequest) -> Iterator[tuple[Publish, Publish]]:
    """Ours and SGLang's, each on a port of its own, or both disabled."""
    kinds: list[Callable[..., Any]] = [
        LoadPublisher.from_config,
        sglang.SchedulerLoadPublisher,
    ]
    case = request.node.callspec.params["case"]
    with ExitStack() as stack:
        made = []
        for kind in kinds:
            port = stack.enter_context(ReservedPort())
            publisher = kind(
                kv_events_config=kv_events_config(),
                load_publish_endpoint="off" if case == "disabled" else f"tcp://*:{port}",
                publish_interval=10**9 if case == "throttled" else 1,
            )
            stack.callback(publisher.close)
            made.append(publisher.publish_load_stat)
            with socket.socket() as probe:
                assert (probe.connect_ex(("127.0.0.1", port)) == 0) == (case != "disabled")
        yield made[0], made[1]


def one_round(publish: Publish, case: str, calls: int) -> None:
    """So many calls of one kind."""
    idle, busy = reading(0), reading(7)
    if case == "changed":
        for _ in range(calls // 2):
            publish(None, True, idle)
            publish(None, True, busy)
    elif case == "unchanged":
        for _ in range(calls):
            publish(None, True, busy)
    elif case == "unchanged, asked for":
        for _ in range(calls):
            publish(lambda: busy, True)
    else:
        for _ in range(calls):
            publish(None)


def reading(running: int) -> LoadSnapshot:
    return LoadSnapshot(running, 3, 1024, 8192, 512, 4096, 64, 20_000, 2_000_000)


@pytest.mark.benchmark(group="publish one reading, in rounds")
@pytest.mark.parametrize(("case", "calls", "limit"), CASES, ids=[name for name, *_ in CASES])
def test_publish(
    benchmark: Any, publishers: tuple[Publish, Publish], case: str, calls: int, limit: float
) -> None:
    """Ours is timed, and SGLang's in between: `extra_info` has the ratio and what it may be."""
    ours, theirs = publishers
    seconds = []

    def their_turn() -> None:
        start = time.perf_counter()
        one_round(theirs, case, calls)
        seconds.append(time.perf_counter() - start)

    benchmark.pedantic(one_round, (ours, case, calls), setup=their_turn, rounds=ROUNDS)
    if benchmark.stats is not None:
        our_best, their_best = benchmark.stats.stats.min, min(seconds)
        benchmark.extra_info.update(
            {
                "ns a call": round(our_best / calls * 1e9),
                "ns a call of SGLang": round(their_best / calls * 1e9),
                "ratio to SGLang": round(our_best / their_best, 3),
                "ratio at most": limit,
            }
        )
