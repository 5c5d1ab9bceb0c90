"""What the reference consumer costs, by message and by rank, and how that grows.

The shape of each curve is asserted only when benchmarks are enabled, with room for a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.router.subscriber import LoadSubscriber
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.wire import LoadStatRev2, build_frames

pytest.importorskip("pytest_benchmark")

RANKS = [8, 64, 512]
PER_WORKER = 8


def table_of(ranks: int, reading: LoadStatRev2) -> ReadingTable:
    """A table of workers with eight ranks each, all of them fresh."""
    table = ReadingTable()
    frames = build_frames(0, reading)
    for worker in range(ranks // PER_WORKER):
        table.advertise(f"http://worker-{worker}", range(5558, 5558 + PER_WORKER))
        for rank in range(PER_WORKER):
            table.receive(f"http://worker-{worker}", rank, frames)
    return table


@pytest.mark.benchmark(group="table: one message")
@pytest.mark.parametrize("ranks", RANKS)
def test_receive(benchmark: Any, reading: LoadStatRev2, ranks: int) -> None:
    """Taking a message, decoding included, costs the same in a table of any size."""
    table = table_of(ranks, reading)
    benchmark(table.receive, "http://worker-0", 3, build_frames(1, reading))


@pytest.mark.benchmark(group="table: one bad message")
def test_receive_bad(benchmark: Any, reading: LoadStatRev2) -> None:
    """Refusing a message with all that is said of it."""
    table = table_of(8, reading)
    topic, sequence, payload = build_frames(1, reading)
    benchmark(table.receive, "http://worker-0", 3, (topic, sequence, payload[:-1]))


@pytest.mark.benchmark(group="table: view of all workers")
@pytest.mark.parametrize("ranks", RANKS)
def test_views(benchmark: Any, reading: LoadStatRev2, ranks: int) -> None:
    """Viewing every worker costs the same for each rank, however many there are."""
    table = table_of(ranks, reading)
    benchmark(table.views)
    assert all(view.load for view in table.views().values())


def quickest(calls: dict[int, Callable[[], object]], rounds: int) -> dict[int, float]:
    """The quickest run of each; they take turns, so that whatever else goes on hits all of them."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for ranks, call in calls.items():
            begin = time.perf_counter()
            call()
            best[ranks] = min(best[ranks], time.perf_counter() - begin)
    return best


def test_growth_of_the_table(benchmark: Any, reading: LoadStatRev2) -> None:
    """From 8 to 512 ranks a message costs the same, and a view grows no faster than the ranks."""
    frames = build_frames(1, reading)
    tables = {ranks: table_of(ranks, reading) for ranks in RANKS}
    benchmark.pedantic(tables[8].views, rounds=1)
    if benchmark.disabled:
        return
    receive = {n: partial(t.receive, "http://worker-0", 3, frames) for n, t in tables.items()}
    message = quickest(receive, 2000)
    view = quickest({ranks: table.views for ranks, table in tables.items()}, 200)
    benchmark.extra_info.update(message=message, view=view)
    assert message[512] < 2 * message[8]
    assert view[512] < 2 * 64 * view[8]


@pytest.mark.parametrize("ranks", RANKS)
def test_through_sockets(benchmark: Any, ranks: int) -> None:
    """Every rank of a fleet publishes, and the subscriber knows all of it."""
    workers = ranks // PER_WORKER
    with Fleet("ramp", workers=workers, ranks=PER_WORKER) as fleet, LoadSubscriber() as subscriber:
        for url in fleet.urls:
            subscriber.add_worker(url)
        fleet.wait_for_subscribers(timeout=20)

        last = fleet.engines[-1]

        def step() -> None:
            fleet.step()
            # The last one sent is looked for first, as a look at all of them costs the reader time.
            expected = last.load
            subscriber.wait_until(lambda s: s.load(last.url) == expected)
            everything = {engine.url: engine.load for engine in fleet.engines}
            subscriber.wait_until(lambda s: s.view() == everything)

        benchmark.pedantic(step, rounds=1 if benchmark.disabled else 20, warmup_rounds=1)
        stats = [stats for url in fleet.urls for stats in subscriber.stats(url)]
        assert {(fleet.steps, 0)} == {(s.messages, s.lost) for s in stats}
        assert ranks == len(stats)
        if not benchmark.disabled:
            clock = time.pthread_getcpuclockid(subscriber._thread.ident or 0)
            messages = fleet.steps * ranks
            benchmark.extra_info["us_per_message"] = benchmark.stats.stats.median / ranks * 1e6
            benchmark.extra_info["reader_us"] = time.clock_gettime(clock) / messages * 1e6
