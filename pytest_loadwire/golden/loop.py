"""The timelines of a scheduler's loop: batches, idle passes and stalls, one snapshot for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.golden.timeline_steps import BESIDE, READ, TESTED, scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.timelines import SchedulerTimeline


def loop_timelines() -> Iterator[SchedulerTimeline]:
    """Every timeline of a scheduler."""
    yield from _batches()
    yield from _idle_and_stall()
    yield from _shared_snapshot()


def _batches() -> Iterator[SchedulerTimeline]:
    yield scheduler(
        "P5", "batch-prefill-is-forced", READ,
        "every prefill is published to both sinks",
        """
        100    prefill a -> writes sends 0 walks 1
        100.25 prefill b -> writes sends 1 walks 1
        100.5  prefill a -> writes sends 2 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P5", "batch-decode-one-in-three", READ,
        "decodes are throttled, and both sinks pass on the same one",
        """
        100 decode a
        100 decode b
        100 decode c -> writes sends 0 walks 1
        100 decode a
        100 decode b
        100 decode a -> writes sends 1 walks 1
        """,
        interval=3,
    )  # fmt: skip
    yield scheduler(
        "P5", "batch-prefill-restarts-the-decodes", READ,
        "a prefill in between starts the count anew, for both sinks",
        """
        100 decode  a
        100 decode  a
        100 prefill b -> writes sends 0 walks 1
        100 decode  c
        100 decode  c
        100 decode  c -> writes sends 1 walks 1
        """,
        interval=3,
    )  # fmt: skip
    yield scheduler(
        "P5", "batch-unchanged", BESIDE,
        "the in-engine sink gets every prefill, the load socket only what is news",
        """
        100   prefill a -> writes sends 0 walks 1
        100.5 prefill a -> writes walks 1
        101   prefill a -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P5", "batch-then-idle", READ,
        "the reading of the last batch still counts what it finishes; the idle pass right behind "
        "corrects it",
        """
        100 prefill a -> writes sends 0 walks 1
        100 idle    b -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P4", "batch-whose-reading-fails", READ,
        "a walk that raises costs a reading and no batch: the results are processed all the same",
        """
        100    prefill - -> walks 2
        100.25 idle    - -> walks 2
        100.5  prefill a -> writes sends 0 walks 1
        """,
    )  # fmt: skip


def _idle_and_stall() -> Iterator[SchedulerTimeline]:
    yield scheduler(
        "P6", "idle-every-pass", READ,
        "every idle pass reaches both sinks, and the load socket keeps to its heartbeat",
        """
        100    idle b -> writes sends 0 walks 1
        100.25 idle b -> writes walks 1
        100.5  idle b -> writes walks 1
        100.75 idle b -> writes walks 1
        101    idle b -> writes sends 1 walks 1
        101.25 idle b -> writes walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-many-passes", f"{TESTED}, with 100 passes, and 0.125 s for 0.1 s",
        "of many passes at one time, one publishes, to both sinks",
        """
        100     stall a -> writes sends 0 walks 1
        100     stall b
        100     stall a
        100     stall b
        100     stall a
        100     stall b
        100     stall a
        100     stall b
        100.125 stall c -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-within-50-ms", f"{BESIDE}, in binary-exact steps",
        "the floor is counted from the last pass that published",
        """
        100        stall a -> writes sends 0 walks 1
        100.03125  stall b
        100.046875 stall b
        100.0625   stall b -> writes sends 1 walks 1
        100.109375 stall c
        100.125    stall c -> writes sends 2 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-exactly-50-ms", "[D] follows from the rules of SGLang's code; from 0.0 on, "
        "the differences of these doubles are exactly 0.05",
        "exactly 50 ms later, the next pass publishes",
        """
        0    stall a -> writes sends 0 walks 1
        0.05 stall b -> writes sends 1 walks 1
        0.1  stall c -> writes sends 2 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-on-a-young-clock", READ,
        "the first stall publishes, on a machine whose clock stands below 50 ms as well",
        "0.03125 stall a -> writes sends 0 walks 1",
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-unchanged", BESIDE,
        "a stall in which nothing moves keeps the heartbeat",
        """
        100   stall a -> writes sends 0 walks 1
        100.5 stall a -> writes walks 1
        101   stall a -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-floor-is-its-own", READ,
        "batches and idle passes neither wait for the floor nor move it",
        """
        1        stall   a -> writes sends 0 walks 1
        1.03125  idle    b -> writes sends 1 walks 1
        1.046875 prefill a -> writes sends 2 walks 1
        1.0625   stall   b -> writes sends 3 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-floor-stays-closed", BESIDE,
        "a batch or an idle pass in between does not open the floor",
        """
        100        stall   a -> writes sends 0 walks 1
        100.015625 idle    b -> writes sends 1 walks 1
        100.03125  stall   a
        100.03125  prefill a -> writes sends 2 walks 1
        100.046875 stall   b
        100.0625   stall   b -> writes sends 3 walks 1
        """,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-restarts-the-decodes", READ,
        "a stall is forced, so it starts the count of the decodes anew",
        """
        100 decode a
        100 decode a
        100 stall  b -> writes sends 0 walks 1
        100 decode c
        100 decode c
        100 decode c -> writes sends 1 walks 1
        """,
        interval=3,
    )  # fmt: skip
    yield scheduler(
        "P6", "stall-without-a-sink", BESIDE,
        "the floor holds where the load socket is the only sink",
        """
        100       stall a -> sends 0 walks 1
        100.03125 stall b
        100.0625  stall b -> sends 1 walks 1
        """,
        sink=False,
    )  # fmt: skip


def _shared_snapshot() -> Iterator[SchedulerTimeline]:
    each_kind = """
        100    decode  a
        100    decode  b -> {writes}sends 0 walks {walks}
        100    prefill a -> {writes}sends 1 walks {walks}
        100.25 idle    b -> {writes}sends 2 walks {walks}
        100.5  stall   a -> {writes}sends 3 walks {walks}
        """
    yield scheduler(
        "P7", "snapshot-is-shared", READ,
        "whatever publishes, the queues are walked once for both sinks",
        each_kind.format(writes="writes ", walks=1),
        interval=2,
    )  # fmt: skip
    yield scheduler(
        "P7", "snapshot-without-a-sink", READ,
        "where there is no in-engine sink, the load socket collects for itself",
        each_kind.format(writes="", walks=1),
        interval=2,
        sink=False,
    )  # fmt: skip
    yield scheduler(
        "P7", "snapshot-of-a-hook-that-returns-nothing", READ,
        "a publishing hook from before the load socket costs a second walk and no message",
        each_kind.format(writes="writes ", walks=2),
        interval=2,
        hook="returns-nothing",
    )  # fmt: skip
    yield scheduler(
        "P7", "snapshot-that-is-not-written", READ,
        "an in-engine sink that fails costs the load socket a second walk and no message",
        """
        100    prefill a no-write -> sends 0 walks 2
        100.25 prefill b          -> writes sends 1 walks 1
        """,
    )  # fmt: skip
