"""The readings that the timelines name: what an engine's snapshots say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.vectors.timelines import NamedReading
from pytest_loadwire.wire import REVISIONS, field_names

if TYPE_CHECKING:
    from collections.abc import Iterator

# No two counts are alike, so that none can stand for another.
COUNTS = {
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


def since_of(field: str) -> int:
    """The revision that brought a field."""
    return min(number for number in REVISIONS if field in field_names(number))


def named_readings() -> Iterator[NamedReading]:
    """Every reading of ``cadence.json``."""

    def reading(
        name: str, rule: str, why: str, since: int = 1, rank: int = 0, **counts: int | None
    ) -> NamedReading:
        values: dict[str, int | None] = {**COUNTS, **counts}
        shown = {field: None if v is None else str(v) for field, v in values.items()}
        source = "made up for these timelines"
        return NamedReading(f"reading-{name}", rule, since, why, source, str(rank), shown)

    yield reading("a", "P2", "a busy engine; no two counts are alike")
    yield reading("b", "P2", "the same engine when its batch is done", num_running_reqs=0)
    yield reading("c", "P2", "the same engine with one more request in the queue",
                  num_waiting_reqs=4)  # fmt: skip
    yield reading("zero", "P2", "an engine that has just started", **dict.fromkeys(COUNTS, 0))
    yield reading("a-at-rank-1", "P2", "the counts of `reading-a` from another rank", rank=1)
    for field, count in COUNTS.items():
        yield reading(
            f"a-but-{field.replace('_', '-')}",
            "P2",
            f"differs from `reading-a` in {field} alone",
            since=since_of(field),
            **{field: count + 1},
        )
    yield reading("negative", "W5", "a count that went below zero", num_waiting_reqs=-1)
    yield reading("nil", "W5", "a count that nobody has filled in", num_tokens=None)
    yield reading("above-u64", "W5", "a count that has no encoding", max_total_num_tokens=2**64)
