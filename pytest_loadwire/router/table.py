"""The table of readings: what a router knows of its workers' load, and when it knows nothing.

No socket and no thread: advertisements and messages go in, views come out, and time is a monotonic
clock that is handed in. A view is either the sum over all ranks or unknown with a reason; there is
nothing in between, since a sum that lacks a rank reads as a worker with room (rule C3).

The table is not locked. `pytest_loadwire.router.subscriber` locks it for those who read it from
another thread.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import RANK_FIELD
from pytest_loadwire.rules import Reason, Unknown
from pytest_loadwire.wire import LATEST, REVISIONS, LoadStatRev1, Message, field_names, parse_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

HEARTBEAT_S = 1.0
"""Seconds after which an engine repeats an unchanged reading (rule P2)."""

WINDOW_S = 5.0
"""Seconds for which a reading is fresh, inclusive, unless configured (rule C2)."""

Load = Mapping[str, int]
"""A worker's load: the sum over its ranks of every count that all of them sent, by field name.

Python's integers do not overflow, and sums may pass 2^64: who hands one on to 64 bits saturates.
``max_total_num_tokens`` is a sum like the others, and a rank that does not know its capacity adds 0
to it: see `capacity_known` before dividing.
"""


@dataclass(frozen=True)
class WorkerView:
    """What is known of one worker at one time.

    Attributes:
        load: The sums by field, or None where the load is unknown (rules C3, C4).
        reason: Why it is unknown, else None.
        ranks: The ranks to blame for that: those without a reading, or those whose is stale.
        capacity_known: Whether every rank said its capacity, so that a ratio to the sum means
            something. False where the load is unknown.
    """

    load: Load | None
    reason: Unknown | None = None
    ranks: tuple[int, ...] = ()
    capacity_known: bool = False

    def __str__(self) -> str:
        if self.load is not None:
            return ", ".join(f"{name}={value}" for name, value in self.load.items())
        blamed = f" ({', '.join(map(str, self.ranks))})" if self.ranks else ""
        return f"unknown: {self.reason}{blamed}"


REMOVED = WorkerView(None, Unknown.REMOVED)
NOT_ADVERTISED = WorkerView(None, Unknown.NOT_ADVERTISED)


@dataclass
class RankStats:
    """What came in on the socket of one rank. Counts only; nothing here decides anything.

    Attributes:
        messages: Messages that were read.
        undecodable: Messages that were refused, by reason code (rule C5).
        restarts: How often a sequence was not above the one before it: a new engine process, or
            a message out of order. The reading counts all the same (rule S3).
        lost: Messages that gaps in the sequence stand for (rule S2).
        last_sequence: The newest message's sequence, or None.
        last_error: What was wrong with the newest refused message, or None.
        last_error_at: When it came, on the table's clock, or None.
    """

    messages: int = 0
    undecodable: Counter[Reason] = field(default_factory=Counter)
    restarts: int = 0
    lost: int = 0
    last_sequence: int | None = None
    last_error: WireError | None = None
    last_error_at: float | None = None

    def note(self, sequence: int) -> None:
        """Count one message that was read."""
        last, self.last_sequence = self.last_sequence, sequence
        self.messages += 1
        if last is not None:
            if sequence <= last:
                self.restarts += 1
            else:
                self.lost += sequence - last - 1

    def note_error(self, error: WireError, at: float | None = None) -> None:
        """Count one message that was refused, at that time of the table's clock."""
        self.undecodable[error.reason] += 1
        self.last_error, self.last_error_at = error, at

    def copy(self) -> RankStats:
        """These counts as they stand now."""
        return dataclasses.replace(self, undecodable=self.undecodable.copy())


class RankView(NamedTuple):
    """What is known of one rank at one time.

    Attributes:
        place: Where it is dialled, as it was advertised.
        stat: Its newest reading, fresh or not, or None.
        age: Seconds since that reading, or None.
        fresh: Whether it counts for the worker's load (rule C2).
        stats: What came in, as it stood then.
        error_age: Seconds since the newest refused message, or None.
    """

    place: Hashable
    stat: LoadStatRev1 | None
    age: float | None
    fresh: bool
    stats: RankStats
    error_age: float | None


class _Rank:
    """One rank's socket: where it is dialled, its newest reading, and its statistics."""

    __slots__ = ("at", "place", "stat", "stats")

    def __init__(self, place: Hashable) -> None:
        self.place = place
        self.stat: LoadStatRev1 | None = None
        self.at = -math.inf
        self.stats = RankStats()


class ReadingTable:
    """The newest reading of every rank of every worker (rules C2 to C6, R3, S3).

    A worker is known by any text that is its own, such as its URL; a rank by the socket that its
    messages come from, never by what its payload says.

    Args:
        window: Seconds for which a reading is fresh, inclusive. Longer than the heartbeat: an
            engine in which nothing changes says so only that often.
        heartbeat: Seconds between two messages of such an engine.
        revision: The newest revision that this router reads.
        clock: A monotonic clock in seconds.

    Raises:
        ValueError: The window is not longer than the heartbeat, or not finite; or there is no such
            revision.
    """

    def __init__(
        self,
        *,
        window: float = WINDOW_S,
        heartbeat: float = HEARTBEAT_S,
        revision: int = LATEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (math.isfinite(window) and 0 < heartbeat < window):
            raise ValueError(
                f"a freshness window of {window!r} s is no finite time longer than the heartbeat "
                f"of {heartbeat!r} s: readings would expire between two messages (rule C2)"
            )
        field_names(revision)
        self.window = window
        self._revision = revision
        self._clock = clock
        self._workers: dict[str, list[_Rank]] = {}

    @property
    def workers(self) -> tuple[str, ...]:
        """Every worker that was added and not removed."""
        return tuple(self._workers)

    def add(self, worker: str) -> None:
        """A worker joins; until it advertises load its load is unknown (rule C4). Idempotent."""
        self._workers.setdefault(worker, [])

    def advertise(self, worker: str, places: Sequence[Hashable]) -> None:
        """A worker advertises one load socket per rank; it is added if need be.

        A rank at the place where it was keeps its reading. Elsewhere it is another socket, and
        starts without one (rule R3). Ranks that are no longer advertised are forgotten.

        Args:
            worker: The worker.
            places: Where rank 0, 1, and so on are dialled: a port, or an endpoint. Also for a rank
                that cannot be dialled, since a worker is known only when all of its ranks are (C3).
        """
        before = self._workers.get(worker, ())
        self._workers[worker] = [
            before[rank] if rank < len(before) and before[rank].place == place else _Rank(place)
            for rank, place in enumerate(places)
        ]

    def withdraw(self, worker: str) -> None:
        """A worker advertises no load any more, and its readings go. It stays a worker.

        Nothing happens for one that was not added.
        """
        if worker in self._workers:
            self._workers[worker] = []

    def remove(self, worker: str) -> None:
        """A worker is gone, and its readings with it (rule C6). Idempotent."""
        self._workers.pop(worker, None)

    def receive(
        self, worker: str, rank: int, frames: Sequence[Buffer]
    ) -> Message | WireError | None:
        """One message from the socket of a rank. Never raises for what is in it.

        Returns:
            The message; or what is wrong with it, in which case it changed nothing but the
            statistics (rule C5); or None where no such rank is advertised, as after a removal
            (rule C6).
        """
        source = self._rank(worker, rank)
        if source is None:
            return None
        try:
            message = parse_frames(frames, revision=self._revision)
        except WireError as error:
            # Without the traceback, which would keep this call's locals alive for as long.
            source.stats.note_error(error.with_traceback(None), self._clock())
            return error
        self._store(source, message)
        return message

    def update(self, worker: str, rank: int, message: Message) -> bool:
        """One message that was read already; whether its rank is advertised (rule C6)."""
        source = self._rank(worker, rank)
        if source is not None:
            self._store(source, message)
        return source is not None

    def view(self, worker: str) -> WorkerView:
        """The load of one worker right now, or why it is unknown.

        Of several reasons the first counts: removed (or never added), not advertised, no rank has
        published, a rank has not, a rank is stale.
        """
        return self._view(worker, self._clock())

    def views(self) -> dict[str, WorkerView]:
        """The load of every worker, all at one time."""
        now = self._clock()
        return {worker: self._view(worker, now) for worker in self._workers}

    def stats(self, worker: str) -> tuple[RankStats, ...]:
        """The statistics of each advertised rank; empty for an unknown worker."""
        return tuple(rank.stats for rank in self._workers.get(worker, ()))

    def ranks(self, worker: str) -> tuple[RankView, ...]:
        """What is known of each advertised rank; empty for an unknown worker."""
        now = self._clock()
        return tuple(_rank_view(rank, now, self.window) for rank in self._workers.get(worker, ()))

    def age(self, worker: str, rank: int) -> float | None:
        """Seconds since the newest reading of a rank, or None where it has none."""
        source = self._rank(worker, rank)
        return None if source is None or source.stat is None else self._clock() - source.at

    def reading(self, worker: str, rank: int) -> LoadStatRev1 | None:
        """The newest reading of a rank, fresh or not, or None where it has none."""
        source = self._rank(worker, rank)
        return None if source is None else source.stat

    def seconds_to_expiry(self) -> float | None:
        """Seconds until the next reading that is fresh now turns stale, or None without one."""
        now = self._clock()
        left = (
            rank.at + self.window - now
            for ranks in self._workers.values()
            for rank in ranks
            if rank.stat is not None and now - rank.at <= self.window
        )
        return min(left, default=None)

    def _rank(self, worker: str, rank: int) -> _Rank | None:
        ranks = self._workers.get(worker, ())
        return ranks[rank] if 0 <= rank < len(ranks) else None

    def _store(self, source: _Rank, message: Message) -> None:
        source.stats.note(message.sequence)
        source.stat = message.stat
        source.at = self._clock()

    def _view(self, worker: str, now: float) -> WorkerView:
        ranks = self._workers.get(worker)
        if ranks is None:
            return REMOVED
        if not ranks:
            return NOT_ADVERTISED
        stats = [rank.stat for rank in ranks if rank.stat is not None]
        if len(stats) < len(ranks):
            missing = tuple(number for number, rank in enumerate(ranks) if rank.stat is None)
            reason = Unknown.MISSING_RANK if stats else Unknown.NEVER_PUBLISHED
            return WorkerView(None, reason, missing)
        window = self.window
        stale = tuple(number for number, rank in enumerate(ranks) if now - rank.at > window)
        if stale:
            return WorkerView(None, Unknown.STALE_RANK, stale)
        # A count that one rank did not send has no sum: with a zero in its place (rule W9) the
        # worker would read as having room.
        names = min((_COUNTS[type(stat)] for stat in stats), key=len)
        columns = zip(*map(_GETTERS[names], stats), strict=True)
        return WorkerView(
            dict(zip(names, map(sum, columns), strict=True)),
            capacity_known=all(stat.max_total_num_tokens for stat in stats),
        )


def _rank_view(rank: _Rank, now: float, window: float) -> RankView:
    stats, age = rank.stats, None if rank.stat is None else now - rank.at
    error_age = None if stats.last_error_at is None else now - stats.last_error_at
    fresh = age is not None and age <= window
    return RankView(rank.place, rank.stat, age, fresh, stats.copy(), error_age)


_COUNTS: dict[type[LoadStatRev1], tuple[str, ...]] = {
    kind: tuple(name for name in field_names(revision) if name != RANK_FIELD)
    for revision, kind in REVISIONS.items()
}
_GETTERS = {names: attrgetter(*names) for names in _COUNTS.values()}
