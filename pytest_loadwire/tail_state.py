"""What a live view shows of workers and ranks: the model, without any socket.

A table of readings says what a router knows; a `Board` adds what a view wants beside that, such as
the rate; and a `Snapshot` is all of it at one time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_loadwire.discovery import NoPlan, Plan
from pytest_loadwire.errors import WireError
from pytest_loadwire.router.table import WINDOW_S
from pytest_loadwire.rules import Code, Unknown
from pytest_loadwire.wire import revision_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from pytest_loadwire.router.subscriber import WorkerStatus
    from pytest_loadwire.router.table import RankStats, RankView, WorkerView
    from pytest_loadwire.wire import LoadStatRev1, Message


class State(Code):
    """How one rank stands. What is worse stands in front, and the first that is true counts."""

    REFUSED = "refused"
    """A message was refused within the window, whatever else came (rule C5)."""
    SILENT = "silent"
    """Nothing came that can be read, for longer than the window."""
    STALE = "stale"
    """The newest reading is older than the window (rule C2)."""
    WAITING = "waiting"
    """Nothing came yet, and the first message may still be on its way."""
    FRESH = "fresh"
    """The newest reading counts."""


TROUBLE = (State.REFUSED, State.SILENT, State.STALE)
"""The states that somebody should look at."""


def is_bare(worker: str) -> bool:
    """Whether a target is a load socket by itself, of which nobody said which rank it has."""
    return worker.startswith("tcp://")


def rank_note(worker: str, rank: int, stat: LoadStatRev1) -> str:
    """What is to be said of a payload with another rank than its socket's (rule R3); else empty."""
    says = stat.attn_dp_rank
    if says is None or says == rank or is_bare(worker):
        return ""
    return f"R3: its messages say attn_dp_rank {says}"


@dataclass(frozen=True)
class RankRow:
    """One rank at one time.

    Attributes:
        worker: The name of its worker.
        rank: Its number by the socket (rule R3); 0 for a ``tcp://`` target.
        place: The endpoint that is dialled.
        state: How it stands.
        stat: Its newest reading, or None.
        age: Seconds since that, or None.
        rate: Messages per second that could be read, over the window; None before one second.
        stats: What came in since it is watched.
        error_age: Seconds since the newest refused message, or None.
        elements: The length of the array of the newest reading, tag included, where it is known.
    """

    worker: str
    rank: int
    place: Hashable
    state: State
    stat: LoadStatRev1 | None
    age: float | None
    rate: float | None
    stats: RankStats
    error_age: float | None
    elements: int | None = None

    @property
    def name(self) -> str:
        """The rank as text; a socket that was given by itself has none."""
        return "-" if is_bare(self.worker) else str(self.rank)

    @property
    def who(self) -> str:
        """The worker, with the rank where it has one."""
        return self.worker if is_bare(self.worker) else f"{self.worker} rank {self.rank}"

    @property
    def note(self) -> str:
        """What the newest reading says of another rank than its socket's; else empty."""
        return "" if self.stat is None else rank_note(self.worker, self.rank, self.stat)

    @property
    def kv_use(self) -> float | None:
        """KV tokens in use by capacity; None without a reading or where the capacity is unknown.

        Above 1 where an engine says that more are in use than there are.
        """
        if self.stat is None or not self.stat.max_total_num_tokens:
            return None
        return self.stat.num_tokens / self.stat.max_total_num_tokens

    @property
    def revision(self) -> int | None:
        """The revision of the newest reading, or None."""
        return None if self.stat is None else revision_of(self.stat)

    @property
    def refused(self) -> int:
        """How many messages were refused."""
        return self.stats.undecodable.total()

    @property
    def error(self) -> WireError | None:
        """What was wrong with the newest refused message."""
        return self.stats.last_error


@dataclass(frozen=True)
class WorkerRow:
    """One worker at one time.

    Attributes:
        worker: Its name.
        view: Its load as a router knows it, or that it knows none (rules C3, C4).
        why: Why its load is unknown, in words; empty where it is known.
        trouble: What went wrong in discovery though its load is known; else empty.
        waiting: Whether nothing is wrong yet: it is being asked, or its first messages may come.
        ranks: Its ranks; none while it advertises none.
    """

    worker: str
    view: WorkerView
    why: str
    trouble: str
    waiting: bool
    ranks: tuple[RankRow, ...]


@dataclass(frozen=True)
class Snapshot:
    """Everything at one time.

    Attributes:
        workers: Every target, in the order in which they were given.
        elapsed: Seconds since the first look.
    """

    workers: tuple[WorkerRow, ...]
    elapsed: float

    @property
    def known(self) -> int:
        """How many workers have a load that a router knows."""
        return sum(row.view.load is not None for row in self.workers)

    @property
    def ranks(self) -> list[RankRow]:
        """Every rank of every worker."""
        return [rank for row in self.workers for rank in row.ranks]

    def total(self, name: str) -> int:
        """The sum of a field over the workers whose load is known."""
        return sum(row.view.load.get(name, 0) for row in self.workers if row.view.load is not None)

    @property
    def kv_use(self) -> float | None:
        """KV use of the known workers together; None unless all of them know their capacity."""
        known = [row.view for row in self.workers if row.view.load is not None]
        if not known or not all(view.capacity_known for view in known):
            return None
        return self.total("num_tokens") / self.total("max_total_num_tokens")

    @property
    def readings(self) -> int:
        """How many messages were read."""
        return sum(rank.stats.messages for rank in self.ranks)


class Rate:
    """Events per second over a sliding window, in as much memory as twenty numbers take.

    Args:
        window: Its length in seconds.
    """

    __slots__ = ("_began", "_counts", "_firsts", "_last", "_newest", "_width", "_window")

    def __init__(self, window: float) -> None:
        self._window = window
        self._width = window / _BUCKETS
        self._counts = [0] * (_BUCKETS + 1)
        self._firsts = [0.0] * (_BUCKETS + 1)
        self._newest = 0
        self._began: float | None = None
        self._last = 0.0

    def note(self, now: float) -> None:
        """One event."""
        if self._began is None:
            self._began = now
        self._turn(now)
        bucket = self._newest % len(self._counts)
        if not self._counts[bucket]:
            self._firsts[bucket] = now
        self._counts[bucket] += 1
        self._last = max(self._last, now)

    def per_second(self, now: float) -> float | None:
        """The rate, or None before one second has passed since the first event."""
        if self._began is None or now - self._began < 1:
            return None
        self._turn(now)
        count = sum(self._counts)
        if count < 2:
            return count / self._window
        first = min(first for first, n in zip(self._firsts, self._counts, strict=True) if n)
        # Between the first and the last, so that a steady pace reads the same at any moment; and
        # less, once the next one is overdue. A burst is not what comes in every second.
        pace = (count - 1) / max(1.0, self._last - first)
        return min(pace, count / max(1.0, now - first))

    def _turn(self, now: float) -> None:
        newest, size = int(now / self._width), len(self._counts)
        for bucket in range(max(self._newest, newest - size) + 1, newest + 1):
            self._counts[bucket % size] = 0
        self._newest = max(self._newest, newest)


_BUCKETS = 10


class Board:
    """What a view wants to know beside the table of readings. Thread-safe, and opens nothing.

    Args:
        window: Seconds for which a reading is fresh, and over which a rate is taken.
        clock: The table's clock.
    """

    def __init__(self, window: float = WINDOW_S, clock: Callable[[], float] = time.monotonic):
        self._window = window
        self._clock = clock
        self._lock = threading.Lock()
        self._rates: dict[tuple[str, int], Rate] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._elements: dict[tuple[str, int], int] = {}
        self._since: dict[tuple[str, int, Hashable], float] = {}
        self.readings = 0
        """How many messages were read, those of workers that have gone as well."""
        self.refused: Counter[str] = Counter()
        """How many messages were refused, by rule and reason."""

    def note(
        self,
        worker: str,
        rank: int,
        outcome: Message | WireError,
        elements: int | None = None,
    ) -> tuple[int, bool]:
        """Count one message, and say how many were lost in front of it and if it restarts.

        Args:
            worker: The name of its worker.
            rank: Its number by the socket.
            outcome: What was read, or why it was refused.
            elements: The length of its array, where the caller knows it.
        """
        key = worker, rank
        with self._lock:
            if isinstance(outcome, WireError):
                self.refused[f"{outcome.rule} {outcome.reason}"] += 1
                return 0, False
            self.readings += 1
            rate = self._rates.get(key)
            if rate is None:
                rate = self._rates[key] = Rate(self._window)
            rate.note(self._clock())
            before = self._sequences.get(key)
            self._sequences[key] = outcome.sequence
            if elements is not None:
                self._elements[key] = elements
        if before is None:
            return 0, False
        return max(0, outcome.sequence - before - 1), outcome.sequence <= before

    def row(
        self,
        worker: str,
        view: WorkerView,
        ranks: Iterable[RankView] = (),
        *,
        status: WorkerStatus | None = None,
        closed: Mapping[int, str] | None = None,
    ) -> WorkerRow:
        """A worker as the table and the subscriber have it, with what this board knows.

        Args:
            worker: Its name.
            view: Its load, as the table has it.
            ranks: Its ranks, as the table has them.
            status: How the subscriber stands with it.
            closed: Ranks whose socket takes no connection, and what the system said.
        """
        with self._lock:
            rows = tuple(self._rank(worker, rank, seen) for rank, seen in enumerate(ranks))
        error = "" if status is None else status.error.removeprefix("DiscoveryError: ")
        error = error.removeprefix(worker)  # of the worker's own URL the path is enough
        if view.load is not None:
            return WorkerRow(worker, view, "", error, waiting=False, ranks=rows)
        closed = {rank: said for rank, said in (closed or {}).items() if rank in view.ranks}
        waiting = not error and not closed and not any(row.state in TROUBLE for row in rows)
        if not rows:
            waiting = waiting and (status is None or status.plan is None)
        why = _why(view, status, error, rows, self._window, _behind(worker, error, closed))
        return WorkerRow(worker, view, why, "", waiting, rows)

    def _rank(self, worker: str, rank: int, seen: RankView) -> RankRow:
        now = self._clock()
        rate = self._rates.get((worker, rank))
        since = self._since.setdefault((worker, rank, seen.place), now)
        if seen.error_age is not None and seen.error_age <= self._window:
            state = State.REFUSED
        elif seen.stat is None:
            state = State.WAITING if now - since <= self._window else State.SILENT
        else:
            state = State.FRESH if seen.fresh else State.STALE
        return RankRow(
            worker,
            rank,
            seen.place,
            state,
            seen.stat,
            seen.age,
            None if rate is None else rate.per_second(now),
            seen.stats,
            seen.error_age,
            self._elements.get((worker, rank)),
        )


def _why(
    view: WorkerView,
    status: WorkerStatus | None,
    error: str,
    rows: Sequence[RankRow],
    window: float,
    behind: str,
) -> str:
    """Why a load is unknown, in words."""
    plan = None if status is None else status.plan
    if isinstance(plan, Plan) and plan.warning:
        return plan.warning
    if view.reason is Unknown.NOT_ADVERTISED:
        said = plan.text if isinstance(plan, NoPlan) else ""
        return error or said or "it is being asked where its load is"
    ranks = _blamed(view.ranks, rows)
    if view.reason is Unknown.STALE_RANK:
        return f"nothing that can be read from {ranks} for more than {window:g} s; {behind}"
    if view.reason is Unknown.REMOVED:
        return f"it was removed; {error}" if error else "it was removed"
    return f"nothing that can be read from {ranks} so far; {behind}"


def _behind(worker: str, error: str, closed: Mapping[int, str]) -> str:
    """What is behind a silence as far as it is known, and else who looks for it."""
    if error:
        return error
    if not closed:
        return f"loadwire check {worker} looks for the cause"
    said = ", ".join(dict.fromkeys(closed.values()))
    where = _blamed(sorted(closed), ())
    return f"nobody takes a connection at {where}: {said}"


def _blamed(ranks: Sequence[int], rows: Sequence[RankRow]) -> str:
    """Ranks by number; a single one also by the socket to look at."""
    if len(ranks) == 1:
        (rank,) = ranks
        place = rows[rank].place if rank < len(rows) else None
        if rank < len(rows) and is_bare(rows[rank].worker):
            return "the socket"
        return f"rank {rank}" if place is None else f"rank {rank} ({place})"
    more = len(ranks) - _MOST_BLAMED
    shown = ", ".join(map(str, ranks[:_MOST_BLAMED]))
    return f"ranks {shown} and {more} more" if more > 0 else f"ranks {shown}"


_MOST_BLAMED = 8
