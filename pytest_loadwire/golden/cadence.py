"""The timelines: when an engine publishes, spelled by hand, a line for each step.

A publisher's line is a time, F or U (forced or not), a reading, and what the call owes::

    100.25 F a given -> sends 0
    100.5  F -       -> asks warns

``-`` stands for a provider that raises; ``given`` hands the reading in, ``no-provider`` lets asking
raise all the same, ``no-send`` lets the socket raise. A call owes any of ``asks``, ``sends N`` and
``warns``. A scheduler's line is a time, the kind of pass, a reading, and any of ``writes``,
``sends N`` and ``walks N``; ``no-write`` lets the in-engine sink raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from pytest_loadwire.vectors.timelines import (
    Call,
    LoopOwes,
    NamedReading,
    Owes,
    PublisherStep,
    PublisherTimeline,
    SchedulerStep,
    SchedulerTimeline,
)
from pytest_loadwire.wire import REVISIONS, field_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.timelines import CadenceVector, LoopPass

TESTED = "[T] SGLang's own tests assert it"
DERIVED = "[D] follows from the rules of SGLang's code, and held when it was run on 0.5.23"
READ = "[C] read from SGLang's code"
BESIDE = "[D] follows from the rule"

# No two counts are alike, so that none can stand for another.
_A = {
    "num_running_reqs": 7,
    "num_waiting_reqs": 3,
    "num_tokens": 1024,
    "max_total_num_tokens": 8192,
    "num_waiting_uncached_tokens": 512,
    "num_total_tokens": 4096,
    "max_running_requests": 64,
    "total_prefill_uncached_tokens": 20000,
    "total_prefill_busy_us": 2000000,
}


def cadence_vectors() -> Iterator[CadenceVector]:
    """Every record of ``cadence.json``: the timelines by rule, then the readings they name."""
    yield from _throttle()
    yield from _repeats()
    yield from _changes()
    yield from _handed_in()
    yield from _failures()
    yield from _sequence()
    yield from _batches()
    yield from _idle_and_stall()
    yield from _shared_snapshot()
    yield from _readings()


def _since(field: str) -> int:
    return min(number for number in REVISIONS if field in field_names(number))


def _readings() -> Iterator[NamedReading]:
    def reading(
        name: str, rule: str, why: str, since: int = 1, rank: int = 0, **counts: int | None
    ) -> NamedReading:
        values: dict[str, int | None] = {**_A, **counts}
        shown = {field: None if v is None else str(v) for field, v in values.items()}
        source = "made up for these timelines"
        return NamedReading(f"reading-{name}", rule, since, why, source, str(rank), shown)

    yield reading("a", "P2", "a busy engine; no two counts are alike")
    yield reading("b", "P2", "the same engine when its batch is done", num_running_reqs=0)
    yield reading("c", "P2", "the same engine with one more request in the queue",
                  num_waiting_reqs=4)  # fmt: skip
    yield reading("zero", "P2", "an engine that has just started", **dict.fromkeys(_A, 0))
    yield reading("a-at-rank-1", "P2", "the counts of `reading-a` from another rank", rank=1)
    for field, count in _A.items():
        yield reading(
            f"a-but-{field.replace('_', '-')}",
            "P2",
            f"differs from `reading-a` in {field} alone",
            since=_since(field),
            **{field: count + 1},
        )
    yield reading("negative", "W5", "a count that went below zero", num_waiting_reqs=-1)
    yield reading("nil", "W5", "a count that nobody has filled in", num_tokens=None)
    yield reading("above-u64", "W5", "a count that has no encoding", max_total_num_tokens=2**64)


def _throttle() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "P1", "throttle-one-in-five", f"{TESTED} (T1)",
        "one in five unforced calls passes; the others ask nobody",
        """
        100 U a
        100 U a
        100 U a
        100 U a
        100 U a -> asks sends 0
        100 U a
        100 U a
        100 U a
        100 U a
        100 U a -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-counts-calls-not-time", f"{BESIDE}, beside T1",
        "time that passes opens no throttle",
        """
        100 U a
        101 U b
        102 U a
        110 U b
        120 U a -> asks sends 0
        130 U b
        """,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-after-a-forced-call", f"{DERIVED} (T4)",
        "the five calls are counted from the forced one",
        """
        100 F a -> asks sends 0
        101 U a
        102 U a
        103 U a
        104 U a
        105 U a -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-forced-resets-the-counter", f"{DERIVED} (T5)",
        "a forced call in between starts the count anew",
        """
        100 U a
        100 U a
        100 U a
        100 F a -> asks sends 0
        102 U a
        102 U a
        102 U a
        102 U a
        102 U a -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-resets-without-a-send", f"{BESIDE}, beside T1",
        "a reading that passes and stays at home still resets the counter, or every further step "
        "would walk the queues",
        """
        100 F a -> asks sends 0
        100 U a
        100 U a -> asks
        100 U a
        100 U a -> asks
        100 U a
        100 U a -> asks
        """,
        interval=2,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-resets-when-the-provider-fails", f"{BESIDE}, beside T6",
        "a provider that fails is not asked more often for it",
        """
        100 U -
        100 U - -> asks warns
        100 U -
        100 U - -> asks
        100 U -
        100 U - -> asks
        """,
        interval=2,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-resets-when-a-forced-provider-fails", f"{TESTED} (provider failure)",
        "a forced call that fails has passed, and resets the counter",
        """
        100 U a
        100 F - -> asks warns
        100 U a
        100 U a -> asks sends 0
        """,
        interval=2,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-resets-when-a-send-fails", f"{BESIDE}, beside T7",
        "a send that fails resets the counter as well",
        """
        100 U a
        100 U a no-send -> asks warns
        100 U a
        100 U a         -> asks sends 1
        """,
        interval=2,
    )  # fmt: skip
    yield _publisher(
        "P1", "throttle-interval-1", f"{DERIVED} (T8)",
        "an interval of 1 lets every call pass",
        """
        100 U a -> asks sends 0
        100 U b -> asks sends 1
        100 U c -> asks sends 2
        """,
        interval=1,
    )  # fmt: skip
    for name, interval in (("0", 0), ("negative", -7)):
        yield _publisher(
            "P1", f"throttle-interval-{name}", f"{DERIVED} (T9)",
            f"an interval of {interval} counts as 1",
            """
            100 U a -> asks sends 0
            100 U b -> asks sends 1
            100 U b -> asks
            """,
            interval=interval,
        )  # fmt: skip
    passing = {14: "-> asks sends 0", 29: "-> asks sends 1"}
    yield _publisher(
        "P1", "throttle-interval-15", f"{DERIVED} (T11, with steps of 0.40625 s for 0.4 s)",
        "with SGLang's default of 15, decode steps of 0.4 s publish every 6 s: longer than a router"
        " believes a reading",
        "\n".join(
            f"{100 + n * 0.40625} U {'ab'[n % 2]} {passing.get(n, '')}" for n in range(30)
        ),
        interval=15,
    )  # fmt: skip


def _repeats() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "P2", "repeat-heartbeat", f"{TESTED} in parts, {DERIVED} (T2)",
        "an unchanged reading is repeated once a second, and at exactly 1.0 s it goes",
        """
        100            F a -> asks sends 0
        100            F a -> asks
        100.5          F a -> asks
        100.9990234375 F a -> asks
        101            F a -> asks sends 1
        101.5          F a -> asks
        101.990234375  F a -> asks
        102            F a -> asks sends 2
        102.125        F a -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "repeat-after-silence", f"{TESTED} (T2')",
        "a repeat that comes late goes at once",
        """
        100   F a -> asks sends 0
        100   F a -> asks
        101.5 F a -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "repeat-just-below-a-second", f"{BESIDE}, beside T2",
        "a microsecond before the second is over, nothing goes yet",
        """
        100                        F a -> asks sends 0
        100.99999904632568359375   F a -> asks
        101                        F a -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "repeat-counts-from-the-last-send", f"{BESIDE}, beside T2",
        "the second begins with what was sent, not with the last look nor at a full second",
        """
        100    F a -> asks sends 0
        100.75 F a -> asks
        101.25 F a -> asks sends 1
        102    F a -> asks
        102.25 F a -> asks sends 2
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "repeat-after-a-change", f"{BESIDE}, beside T3",
        "a change that was sent starts the second anew",
        """
        100   F a -> asks sends 0
        100.5 F b -> asks sends 1
        101   F b -> asks
        101.5 F b -> asks sends 2
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "repeat-of-unforced-calls", f"{BESIDE}, beside T4",
        "calls that pass the throttle keep the heartbeat like forced ones",
        """
        100   U a
        100   U a -> asks sends 0
        100.5 U a
        100.5 U a -> asks
        101   U a
        101   U a -> asks sends 1
        """,
        interval=2,
    )  # fmt: skip


def _changes() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "P2", "change-goes-at-once", f"{TESTED} (T3)",
        "a changed reading goes at the same instant, so that no router takes an idle engine for a "
        "busy one",
        """
        100 F a -> asks sends 0
        100 F b -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "change-within-50-ms", f"{BESIDE}, beside T3; the floor of T15 is gone",
        "there is no floor in time between two changed readings",
        """
        100       F a -> asks sends 0
        100.03125 F b -> asks sends 1
        100.0625  F a -> asks sends 2
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "change-and-back", f"{DERIVED} (T13)",
        "a reading is compared with the last one sent, not with any earlier one",
        """
        100    F a -> asks sends 0
        100.125 F b -> asks sends 1
        100.25 F a -> asks sends 2
        100.375 F a -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P2", "change-from-nothing-on-a-young-clock", f"{DERIVED} (T14)",
        "the first reading goes, on a machine whose clock stands below a second as well",
        "0.125 F a -> asks sends 0",
    )  # fmt: skip
    yield _publisher(
        "P2", "change-from-nothing-to-zeros", f"{BESIDE}, beside T14",
        "a first reading of zeros is news: routers do not know this engine yet",
        """
        0.125 F zero -> asks sends 0
        0.25  F zero -> asks
        """,
    )  # fmt: skip
    for field in _A:
        slug = field.replace("_", "-")
        yield _publisher(
            "P2", f"change-in-{slug}", f"{READ}: every published count takes part",
            f"a change in {field} alone is a change",
            f"""
            100 F a           -> asks sends 0
            100 F a-but-{slug} -> asks sends 1
            """,
            since=_since(field),
        )  # fmt: skip
    yield _publisher(
        "P2", "change-of-rank-is-none", f"{READ}: the rank takes no part",
        "the snapshot's own rank is no part of the comparison, nor of the message",
        """
        100   F a           -> asks sends 0
        100.5 F a-at-rank-1 -> asks
        101   F a-at-rank-1 -> asks sends 1
        """,
    )  # fmt: skip


def _handed_in() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "P3", "handed-in-spares-the-provider", f"{TESTED} in parts, {DERIVED} (T12)",
        "a reading that the caller has already goes through the same throttle, and nobody is asked",
        """
        100 U a given
        100 U a given
        100 U a given
        100 U a given
        100 U a given -> sends 0
        100 F b given -> sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P3", "handed-in-beside-a-broken-provider", f"{BESIDE}, beside T12",
        "a provider that would raise does no harm where it is not asked",
        "100 F a given no-provider -> sends 0",
    )  # fmt: skip
    yield _publisher(
        "P3", "handed-in-repeats", f"{BESIDE}, beside T2 and T12",
        "a reading handed in keeps to the heartbeat like one asked for",
        """
        100   F a given -> sends 0
        100.5 F a given
        101   F a given -> sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P3", "handed-in-by-turns", f"{BESIDE}, beside T12",
        "where a reading comes from makes no difference to what is sent",
        """
        100    F a       -> asks sends 0
        100.25 F a given
        100.5  F b given -> sends 1
        100.75 F b       -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P3", "handed-in-zeros", f"{BESIDE}, beside T12",
        "a reading of zeros that is handed in is one, and not a missing one",
        "100 F zero given -> sends 0",
    )  # fmt: skip


def _failures() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "P4", "failure-once-an-episode", f"{DERIVED} (T6)",
        "one warning for an episode, which ends with a successful send",
        """
        100     F - -> asks warns
        100.125 F - -> asks
        100.25  F a -> asks sends 0
        100.375 F - -> asks warns
        100.5   F - -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P4", "failure-goes-on-and-on", f"{BESIDE}, beside T6; the periods of T16 and T17 are gone",
        "an episode that lasts says nothing more, after minutes either",
        """
        100  F - -> asks warns
        101  F - -> asks
        110  F - -> asks
        160  F - -> asks
        220  F - -> asks
        1000 F - -> asks
        """,
    )  # fmt: skip
    yield _publisher(
        "P4", "failure-outlives-an-unsent-repeat", f"{BESIDE}, beside T7",
        "a repeat that stays at home proves nothing and ends no episode; a heartbeat does",
        """
        100    F a -> asks sends 0
        100.25 F - -> asks warns
        100.5  F a -> asks
        100.75 F - -> asks
        101    F a -> asks sends 1
        101.25 F - -> asks warns
        """,
    )  # fmt: skip
    yield _publisher(
        "P4", "failure-of-two-kinds", f"{BESIDE}, beside T7",
        "whatever fails next belongs to the same episode",
        """
        100     F -         -> asks warns
        100.125 F a no-send -> asks
        100.25  F b         -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "P4", "failure-to-send-is-tried-again", f"{BESIDE}, beside T7",
        "a reading that was not sent is not remembered as sent",
        """
        100 F a no-send -> asks warns
        100 F a         -> asks sends 1
        """,
    )  # fmt: skip
    for name, why in (
        ("negative", "a negative count"),
        ("nil", "a nil count"),
        ("above-u64", "a count above u64"),
    ):
        yield _publisher(
            "W5", f"failure-of-{why.replace(' ', '-')}", f"{BESIDE} and from rule P4",
            f"{why} is a failure like any other: no message, one warning, no number spent",
            f"""
            100    F a      -> asks sends 0
            100.25 F {name} -> asks warns
            100.5  F {name} -> asks
            100.75 F b      -> asks sends 1
            """,
        )  # fmt: skip
    yield _publisher(
        "P4", "failure-of-a-reading-handed-in", f"{BESIDE} and from rule W5",
        "a bad reading that is handed in is no reason to ask for another",
        """
        100    F above-u64 given -> warns
        100.25 F a               -> asks sends 0
        """,
    )  # fmt: skip


def _sequence() -> Iterator[PublisherTimeline]:
    yield _publisher(
        "S1", "sequence-gap-after-a-failed-send", f"{DERIVED} (T7)",
        "a send that fails takes a number; the repeat and the failed reading behind it take none",
        """
        100     F a         -> asks sends 0
        100.125 F b no-send -> asks warns
        100.25  F a         -> asks
        100.375 F -         -> asks
        100.5   F b         -> asks sends 2
        """,
    )  # fmt: skip
    yield _publisher(
        "S1", "sequence-starts-with-failed-sends", f"{BESIDE}, beside T7",
        "each failed send takes one, the first ones too",
        """
        100 F a no-send -> asks warns
        100 F a no-send -> asks
        100 F a         -> asks sends 2
        """,
    )  # fmt: skip
    yield _publisher(
        "S1", "sequence-counts-what-is-sent", f"{BESIDE}, beside T1 and T2",
        "what is throttled or unchanged takes no number",
        """
        100    F a -> asks sends 0
        100    U b
        100    U b
        100    U b
        100.25 F a -> asks
        100.25 F a -> asks
        100.5  F b -> asks sends 1
        """,
    )  # fmt: skip
    yield _publisher(
        "S1", "sequence-ignores-failed-readings", f"{BESIDE}, beside T6",
        "a reading that never came takes no number",
        """
        100    F - -> asks warns
        100.25 F - -> asks
        100.5  F a -> asks sends 0
        """,
    )  # fmt: skip


def _batches() -> Iterator[SchedulerTimeline]:
    yield _scheduler(
        "P5", "batch-prefill-is-forced", READ,
        "every prefill is published to both sinks",
        """
        100    prefill a -> writes sends 0 walks 1
        100.25 prefill b -> writes sends 1 walks 1
        100.5  prefill a -> writes sends 2 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
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
    yield _scheduler(
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
    yield _scheduler(
        "P5", "batch-unchanged", BESIDE,
        "the in-engine sink gets every prefill, the load socket only what is news",
        """
        100   prefill a -> writes sends 0 walks 1
        100.5 prefill a -> writes walks 1
        101   prefill a -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
        "P5", "batch-then-idle", READ,
        "the reading of the last batch still counts what it finishes; the idle pass right behind "
        "corrects it",
        """
        100 prefill a -> writes sends 0 walks 1
        100 idle    b -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
        "P4", "batch-whose-reading-fails", READ,
        "a walk that raises costs a reading and no batch: the results are processed all the same",
        """
        100    prefill - -> walks 2
        100.25 idle    - -> walks 2
        100.5  prefill a -> writes sends 0 walks 1
        """,
    )  # fmt: skip


def _idle_and_stall() -> Iterator[SchedulerTimeline]:
    yield _scheduler(
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
    yield _scheduler(
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
    yield _scheduler(
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
    yield _scheduler(
        "P6", "stall-exactly-50-ms", "[D] follows from the rules of SGLang's code; from 0.0 on, "
        "the differences of these doubles are exactly 0.05",
        "exactly 50 ms later, the next pass publishes",
        """
        0    stall a -> writes sends 0 walks 1
        0.05 stall b -> writes sends 1 walks 1
        0.1  stall c -> writes sends 2 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
        "P6", "stall-on-a-young-clock", READ,
        "the first stall publishes, on a machine whose clock stands below 50 ms as well",
        "0.03125 stall a -> writes sends 0 walks 1",
    )  # fmt: skip
    yield _scheduler(
        "P6", "stall-unchanged", BESIDE,
        "a stall in which nothing moves keeps the heartbeat",
        """
        100   stall a -> writes sends 0 walks 1
        100.5 stall a -> writes walks 1
        101   stall a -> writes sends 1 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
        "P6", "stall-floor-is-its-own", READ,
        "batches and idle passes neither wait for the floor nor move it",
        """
        1        stall   a -> writes sends 0 walks 1
        1.03125  idle    b -> writes sends 1 walks 1
        1.046875 prefill a -> writes sends 2 walks 1
        1.0625   stall   b -> writes sends 3 walks 1
        """,
    )  # fmt: skip
    yield _scheduler(
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
    yield _scheduler(
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
    yield _scheduler(
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
    yield _scheduler(
        "P7", "snapshot-is-shared", READ,
        "whatever publishes, the queues are walked once for both sinks",
        each_kind.format(writes="writes ", walks=1),
        interval=2,
    )  # fmt: skip
    yield _scheduler(
        "P7", "snapshot-without-a-sink", READ,
        "where there is no in-engine sink, the load socket collects for itself",
        each_kind.format(writes="", walks=1),
        interval=2,
        sink=False,
    )  # fmt: skip
    yield _scheduler(
        "P7", "snapshot-of-a-hook-that-returns-nothing", READ,
        "a publishing hook from before the load socket costs a second walk and no message",
        each_kind.format(writes="writes ", walks=2),
        interval=2,
        hook="returns-nothing",
    )  # fmt: skip
    yield _scheduler(
        "P7", "snapshot-that-is-not-written", READ,
        "an in-engine sink that fails costs the load socket a second walk and no message",
        """
        100    prefill a no-write -> sends 0 walks 2
        100.25 prefill b          -> writes sends 1 walks 1
        """,
    )  # fmt: skip


def _publisher(
    rule: str, vector_id: str, source: str, why: str, lines: str, interval: int = 5, since: int = 1
) -> PublisherTimeline:
    steps = []
    for at, words, owes in _steps(lines):
        kind, reading, *further = words
        _only(further, "given", "no-provider", "no-send")
        _only(owes, "asks", "sends", "warns")
        broken = reading == "-" or "no-provider" in further
        call = Call(
            forced={"F": True, "U": False}[kind],
            reading=_reading(reading),
            handed_in="given" in further,
            provider="raises" if broken else "ok",
            send="raises" if "no-send" in further else "ok",
        )
        expect = Owes(owes.get("sends"), asked="asks" in owes, warned="warns" in owes)
        steps.append(PublisherStep(at, call, expect))
    return PublisherTimeline(vector_id, rule, since, why, source, interval, tuple(steps))


def _scheduler(
    rule: str,
    vector_id: str,
    source: str,
    why: str,
    lines: str,
    interval: int = 15,
    sink: bool = True,
    hook: Literal["returns-snapshot", "returns-nothing"] = "returns-snapshot",
) -> SchedulerTimeline:
    steps = []
    for at, words, owes in _steps(lines):
        kind, reading, *further = words
        _only(further, "no-write")
        _only(owes, "writes", "sends", "walks")
        expect = LoopOwes("writes" in owes, owes.get("sends"), int(owes.get("walks", "0")))
        steps.append(
            SchedulerStep(
                at,
                cast("LoopPass", kind),
                _reading(reading),
                "raises" if "no-write" in further else "ok",
                expect,
            )
        )
    return SchedulerTimeline(vector_id, rule, 1, why, source, interval, sink, hook, tuple(steps))


def _steps(lines: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Each line as its time, the words of the call, and what is owed with its number."""
    for line in filter(str.strip, lines.splitlines()):
        call, _, owed = line.partition("->")
        at, *words = call.split()
        owes: dict[str, str] = {}
        for word in owed.split():
            if word.isdigit():
                owes[next(reversed(owes))] = word
            else:
                owes[word] = ""
        yield at, words, owes


def _only(words: list[str] | dict[str, str], *known: str) -> None:
    """A misspelled word is an error, and not a step that owes nothing."""
    if unknown := set(words) - set(known):
        raise ValueError(f"no words of a timeline: {', '.join(sorted(unknown))}")


def _reading(name: str) -> str | None:
    return None if name == "-" else f"reading-{name}"
