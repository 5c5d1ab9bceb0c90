"""The notation of the router's timelines: a line for each step, and the numbers that it names.

A line is a time, what happens, and behind the bar what is then known of each worker::

    100     A on 5558 x2    | A never-published 0 1
    100.25  A.1 #0 b        | A missing-rank 0
    100.5   A.0 #0 a        | A a+b

``A on 5558 x2`` advertises two ranks from port 5558, ``A off`` advertises no load; ``A removed``
and ``A restarts`` say what they do, and ``-`` is silence. ``A.1 #0 b`` is the reading b with
sequence 0 from the socket of rank 1; ``b:1`` is b in revision 1, and ``as 7`` makes the payload
say rank 7. ``bad frames/topic-suffix`` is a refused vector of another file. A view is a row of
`TOTALS`, or a reason with the ranks to blame.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pytest_loadwire.golden import spell
from pytest_loadwire.golden.frames import frame_vectors
from pytest_loadwire.golden.rejects import reject_vectors
from pytest_loadwire.rules import Unknown
from pytest_loadwire.vectors.readings import (
    Advertise,
    KnownLoad,
    ReadingStep,
    ReadingTimeline,
    Receive,
    Remove,
    Restart,
    Silence,
    UnknownLoad,
    Withdraw,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_loadwire.vectors.readings import Event, View

RULE = "made up; follows from the rule"
MEASURED = "made up; follows from the rule and from what was measured of PUB sockets"

WORKERS = {
    "A": "http://10.0.0.5:30000",
    "B": "http://10.0.0.5:30001",  # another worker on the host of A
    "C": "http://10.0.0.6:30000",
}

FIELDS = {
    1: ("num_running_reqs", "num_waiting_reqs", "num_tokens", "max_total_num_tokens"),
    2: (
        "num_running_reqs",
        "num_waiting_reqs",
        "num_tokens",
        "max_total_num_tokens",
        "num_waiting_uncached_tokens",
        "num_total_tokens",
        "max_running_requests",
        "total_prefill_uncached_tokens",
        "total_prefill_busy_us",
    ),
}
"""The counts of each revision in wire order, here without the rank."""

# A reading fills one decimal place each, so that a sum shows what went into it.
READINGS: Mapping[str, tuple[int, ...]] = {
    "a": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "b": (10, 20, 30, 40, 50, 60, 70, 80, 90),
    "c": (100, 200, 300, 400, 500, 600, 700, 800, 900),
    "d": (1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000),
    "idle": (0, 0, 0, 0, 0, 0, 0, 0, 0),
    "no-capacity": (1, 2, 3, 0, 5, 6, 7, 8, 9),
    # 2^53 and up: a double holds these, and none of their sums with a
    "double": tuple(range(9007199254740992, 9007199254741001)),
    # 2^63 - 1 and down: a signed count holds these, and three of them pass 2^64
    "signed": tuple(range(9223372036854775807, 9223372036854775798, -1)),
}

TOTALS: Mapping[str, tuple[int, ...]] = {
    "a": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "a:1": (1, 2, 3, 4),
    "b": (10, 20, 30, 40, 50, 60, 70, 80, 90),
    "b:1": (10, 20, 30, 40),
    "c": (100, 200, 300, 400, 500, 600, 700, 800, 900),
    "d": (1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000),
    "a+b": (11, 22, 33, 44, 55, 66, 77, 88, 99),
    "a+b:1": (11, 22, 33, 44),
    "a+c": (101, 202, 303, 404, 505, 606, 707, 808, 909),
    "b+c": (110, 220, 330, 440, 550, 660, 770, 880, 990),
    "c+d": (1100, 2200, 3300, 4400, 5500, 6600, 7700, 8800, 9900),
    "a+b+c": (111, 222, 333, 444, 555, 666, 777, 888, 999),
    "idle": (0, 0, 0, 0, 0, 0, 0, 0, 0),
    "no-capacity": (1, 2, 3, 0, 5, 6, 7, 8, 9),
    "no-capacity+b": (11, 22, 33, 40, 55, 66, 77, 88, 99),
    "double+a": (
        9007199254740993,
        9007199254740995,
        9007199254740997,
        9007199254740999,
        9007199254741001,
        9007199254741003,
        9007199254741005,
        9007199254741007,
        9007199254741009,
    ),
    "signed+signed+signed": (
        27670116110564327421,
        27670116110564327418,
        27670116110564327415,
        27670116110564327412,
        27670116110564327409,
        27670116110564327406,
        27670116110564327403,
        27670116110564327400,
        27670116110564327397,
    ),
}


def timeline(
    name: str, rule: str, why: str, text: str, *, window: str = "5", source: str = RULE
) -> ReadingTimeline:
    """The timeline that ``text`` spells."""
    steps = tuple(_step(line) for line in text.strip().splitlines())
    lasts = steps[-1].time - steps[0].time
    return ReadingTimeline(name, rule, 1, why, source, window, lasts >= float(window), steps)


def _step(line: str) -> ReadingStep:
    left, _, right = line.partition("|")
    at, *words = left.split()
    expect = {}
    for known in right.split(";"):
        worker, *view = known.split()
        expect[WORKERS[worker]] = _view(view)
    return ReadingStep(at, _event(words), expect)


def _view(words: list[str]) -> View:
    if words[0] in TOTALS:
        total = TOTALS[words[0]]
        names = FIELDS[2][: len(total)]
        return KnownLoad({name: str(n) for name, n in zip(names, total, strict=True)})
    return UnknownLoad(Unknown(words[0]), tuple(map(int, words[1:])))


def _event(words: list[str]) -> Event:
    who, *what = words
    if who == "-":
        return Silence()
    name, _, rank = who.partition(".")
    worker = WORKERS[name]
    if rank:
        return _message(worker, int(rank), what)
    if what[0] == "on":
        return Advertise(worker, int(what[1]), int(what[2].removeprefix("x")))
    if what[0] == "off":
        return Withdraw(worker)
    return Remove(worker) if what[0] == "removed" else Restart(worker)


def _message(worker: str, rank: int, what: list[str]) -> Receive:
    vector = what[-1] if "bad" in what else None
    if vector is not None and vector.startswith("frames/"):
        return Receive(worker, rank, _bad()[vector], vector)
    sequence = int(what[0].removeprefix("#")).to_bytes(8, "big").hex()
    payload = _payload(rank, what[1:]) if vector is None else _bad()[vector][0]
    return Receive(worker, rank, (b"load".hex(), sequence, payload), vector)


def _payload(rank: int, what: list[str]) -> str:
    name, _, revision = what[0].partition(":")
    counts = READINGS[name][: len(FIELDS[int(revision or 2)])]
    said = rank if len(what) == 1 else None if what[2] == "nil" else int(what[2])
    elements = (*counts[:4], said, *counts[4:])
    parts = [spell.array_header(len(elements) + 1), spell.text(b"LoadStat")]
    return b"".join([*parts, *map(spell.shortest, elements)]).hex()


@cache
def _bad() -> Mapping[str, tuple[str, ...]]:
    """The frames of every refused frame vector, and the one payload of every refused payload."""
    payloads = {f"payloads/{vector.id}": (vector.hex,) for vector in reject_vectors()}
    return {**payloads, **{f"frames/{vector.id}": vector.frames for vector in frame_vectors()}}
