"""Tables of readings as a router's author may write them, each with one mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_loadwire.errors import WireError
from pytest_loadwire.router.table import ReadingTable, WorkerView, _Rank
from pytest_loadwire.rules import Unknown
from pytest_loadwire.wire import LoadStat, Message, field_names, parse_frames

LOAD_FIELDS = tuple(name for name in field_names() if name != "attn_dp_rank")


class MissingRankAsZero(ReadingTable):
    """Sums what is there."""

    def _view(self, worker: str, now: float) -> WorkerView:
        view = super()._view(worker, now)
        if view.reason is Unknown.MISSING_RANK:
            ranks = self._workers[worker]
            self._workers[worker] = [rank for rank in ranks if rank.stat is not None]
            view = super()._view(worker, now)
            self._workers[worker] = ranks
        return view


class NeverPublishedAsIdle(ReadingTable):
    """Takes no reading for a reading of zero."""

    def _view(self, worker: str, now: float) -> WorkerView:
        view = super()._view(worker, now)
        if view.reason in (Unknown.NEVER_PUBLISHED, Unknown.NOT_ADVERTISED):
            return WorkerView(dict.fromkeys(LOAD_FIELDS, 0))
        return view


class StaleKept(ReadingTable):
    """Has no freshness."""

    def _view(self, worker: str, now: float) -> WorkerView:
        return super()._view(worker, -math.inf)


class StaleRankLeftOut(ReadingTable):
    """Sums the ranks that are fresh."""

    def _view(self, worker: str, now: float) -> WorkerView:
        view = super()._view(worker, now)
        if view.reason is Unknown.STALE_RANK:
            ranks = self._workers[worker]
            fresh = [rank for rank in ranks if now - rank.at <= self.window]
            if fresh:
                self._workers[worker] = fresh
                view = super()._view(worker, now)
                self._workers[worker] = ranks
        return view


class OneFreshRankIsEnough(ReadingTable):
    """Takes the newest rank's age for the worker's."""

    def _view(self, worker: str, now: float) -> WorkerView:
        newest = max((rank.at for rank in self._workers.get(worker, ())), default=now)
        return super()._view(worker, now if now - newest > self.window else newest)


class WindowExclusive(ReadingTable):
    """Calls a reading stale that is exactly as old as the window."""

    def _view(self, worker: str, now: float) -> WorkerView:
        return super()._view(worker, math.nextafter(now, math.inf))


class WindowOfFive(ReadingTable):
    """Has the default window, whatever is configured."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "window": 5.0})


class SequenceFilter(ReadingTable):
    """Drops what is not newer by its number."""

    def _store(self, source: _Rank, message: Message) -> None:
        last = source.stats.last_sequence
        if last is None or message.sequence > last:
            super()._store(source, message)


class LowerSequenceFilter(ReadingTable):
    """Drops lower numbers, except 0, by which it knows a restart."""

    def _store(self, source: _Rank, message: Message) -> None:
        last = source.stats.last_sequence
        if last is None or message.sequence == 0 or message.sequence > last:
            super()._store(source, message)


class DropsDuplicates(ReadingTable):
    """Takes a number that it has seen for a duplicate."""

    def _store(self, source: _Rank, message: Message) -> None:
        if source.stats.last_sequence != message.sequence:
            super()._store(source, message)


class WaitsForGaps(ReadingTable):
    """Holds a message back until those before it have come."""

    def _store(self, source: _Rank, message: Message) -> None:
        last = source.stats.last_sequence
        if last is None or message.sequence <= last + 1:
            super()._store(source, message)


class KeyedByPayloadRank(ReadingTable):
    """Believes the rank in the payload, where there is one."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        try:
            said = parse_frames(frames).stat.attn_dp_rank
        except WireError:
            said = None
        return super().receive(worker, rank if said is None else said, frames)


class KeyedByHost(ReadingTable):
    """Takes workers on one host for one worker."""

    def _store(self, source: _Rank, message: Message) -> None:
        url, rank = next((w, r.index(source)) for w, r in self._workers.items() if source in r)
        for worker, ranks in self._workers.items():
            if worker.rpartition(":")[0] == url.rpartition(":")[0] and rank < len(ranks):
                super()._store(ranks[rank], message)


class KeyedByPort(ReadingTable):
    """Takes sockets of one port for one socket, whatever the host."""

    def _store(self, source: _Rank, message: Message) -> None:
        for ranks in self._workers.values():
            for rank in ranks:
                if rank.place == source.place:
                    super()._store(rank, message)


class KeptAfterRemoval(ReadingTable):
    """Forgets to remove the readings."""

    def remove(self, worker: str) -> None:
        pass


class RevivedByALateMessage(ReadingTable):
    """Enters whatever worker a message is from."""

    gone: dict[str, int] = {}

    def remove(self, worker: str) -> None:
        self.gone[worker] = len(self._workers[worker])
        super().remove(worker)

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        if worker not in self._workers:
            self.advertise(worker, [0] * self.gone[worker])
        return super().receive(worker, rank, frames)


class RemembersTheRemoved(ReadingTable):
    """Hides a removed worker, and shows its old readings when it is back."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden: dict[str, list[_Rank]] = {}

    def remove(self, worker: str) -> None:
        self.hidden[worker] = self._workers.pop(worker)

    def add(self, worker: str) -> None:
        self._workers.setdefault(worker, self.hidden.get(worker, []))


class RemovesByHost(ReadingTable):
    """Removes every worker on the host of the one that is gone."""

    def remove(self, worker: str) -> None:
        host = worker.rpartition(":")[0]
        for other in [url for url in self._workers if url.startswith(host)]:
            super().remove(other)


class BadMessageClears(ReadingTable):
    """Forgets the reading when a message is bad."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        result = super().receive(worker, rank, frames)
        if isinstance(result, WireError):
            self._workers[worker][rank].stat = None
        return result


class BadMessageRefreshes(ReadingTable):
    """Takes any message for a sign of life."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        result = super().receive(worker, rank, frames)
        if isinstance(result, WireError):
            self._workers[worker][rank].at = self._clock()
        return result


class BadMessageIsIdle(ReadingTable):
    """Decodes what it cannot read to zeros."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        result = super().receive(worker, rank, frames)
        if isinstance(result, WireError):
            self.update(worker, rank, Message(0, LoadStat(**dict.fromkeys(field_names(), 0))))
        return result


class BadMessageEndsTheSubscription(ReadingTable):
    """Stops to listen to a rank that sent nonsense."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.closed: set[tuple[str, int]] = set()

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        if (worker, rank) in self.closed:
            return None
        result = super().receive(worker, rank, frames)
        if isinstance(result, WireError):
            self.closed.add((worker, rank))
        return result


class RaisesForBadMessages(ReadingTable):
    """Lets the decoder's error through."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        result = super().receive(worker, rank, frames)
        if isinstance(result, WireError):
            raise result
        return result


class TopicByPrefix(ReadingTable):
    """Trusts the subscription, and does not compare the topic."""

    def receive(self, worker: str, rank: int, frames: Sequence[Any]) -> Any:
        if bytes(frames[0]).startswith(b"load"):
            frames = (b"load", *frames[1:])
        return super().receive(worker, rank, frames)


def changed(name: str, change: Callable[[dict[str, int]], dict[str, Any]]) -> type[ReadingTable]:
    """A table whose sums are made differently."""

    def _view(self: ReadingTable, worker: str, now: float) -> WorkerView:
        view = ReadingTable._view(self, worker, now)
        return view if view.load is None else replace(view, load=change(dict(view.load)))

    return type(name, (ReadingTable,), {"_view": _view})


def combined(name: str, combine: Callable[[list[int]], Any]) -> type[ReadingTable]:
    """A table that does something else than sum."""

    def _view(self: ReadingTable, worker: str, now: float) -> WorkerView:
        view = ReadingTable._view(self, worker, now)
        if view.load is None:
            return view
        stats = [rank.stat for rank in self._workers[worker]]
        return replace(
            view, load={name: combine([getattr(s, name) for s in stats]) for name in view.load}
        )

    return type(name, (ReadingTable,), {"_view": _view})


class FillsInZeros(ReadingTable):
    """Has a total of every count, with zeros for what was not sent."""

    def _view(self, worker: str, now: float) -> WorkerView:
        view = super()._view(worker, now)
        if view.load is None:
            return view
        stats = [rank.stat for rank in self._workers[worker]]
        return replace(
            view, load={n: sum(getattr(s, n, 0) for s in stats) for n in LOAD_FIELDS}
        )  # fmt: skip


class KeepsTheOldTail(ReadingTable):
    """Merges a reading into the one before."""

    def _store(self, source: _Rank, message: Message) -> None:
        if source.stat is not None:
            names = source.stat.__struct_fields__
            values = {name: getattr(source.stat, name) for name in names}
            values |= {n: getattr(message.stat, n) for n in message.stat.__struct_fields__}
            kind = max(
                type(source.stat), type(message.stat), key=lambda k: len(k.__struct_fields__)
            )
            message = Message(message.sequence, kind(**values))
        super()._store(source, message)


class CapacityZeroIsNoReading(ReadingTable):
    """Drops a reading without a capacity."""

    def _store(self, source: _Rank, message: Message) -> None:
        if message.stat.max_total_num_tokens:
            super()._store(source, message)


class ZeroIsUnknown(ReadingTable):
    """Tests a load for truth."""

    def _view(self, worker: str, now: float) -> WorkerView:
        view = super()._view(worker, now)
        if view.load is not None and not any(view.load.values()):
            return WorkerView(None, Unknown.NEVER_PUBLISHED)
        return view


class SameReadingIsNoNews(ReadingTable):
    """Does not enter a reading that equals the one before, and so lets it age."""

    def _store(self, source: _Rank, message: Message) -> None:
        if source.stat is None or source.stat != message.stat:
            super()._store(source, message)


class AdvertisedOnce(ReadingTable):
    """Looks at the first advertisement only."""

    def advertise(self, worker: str, places: Sequence[Any]) -> None:
        if not self._workers.get(worker):
            super().advertise(worker, places)

    def withdraw(self, worker: str) -> None:
        pass


class AdvertisedAnew(ReadingTable):
    """Starts over with every advertisement."""

    def advertise(self, worker: str, places: Sequence[Any]) -> None:
        super().withdraw(worker)
        super().advertise(worker, places)


class KeepsReadingsOfOtherPorts(ReadingTable):
    """Keys a reading by the rank's number alone."""

    def advertise(self, worker: str, places: Sequence[Any]) -> None:
        super().advertise(worker, range(len(places)))


class RanksNeverLeave(ReadingTable):
    """Adds ranks and never takes one away."""

    def advertise(self, worker: str, places: Sequence[Any]) -> None:
        known = [rank.place for rank in self._workers.get(worker, ())]
        super().advertise(worker, [*places, *known[len(places) :]])


# Who does it wrong, and the rules of the timelines by which it must be caught.
WRONG: list[tuple[type[ReadingTable], set[str]]] = [
    (MissingRankAsZero, {"C3"}),
    (NeverPublishedAsIdle, {"C4"}),
    (StaleKept, {"C2", "C3"}),
    (StaleRankLeftOut, {"C3"}),
    (OneFreshRankIsEnough, {"C3"}),
    (WindowExclusive, {"C2"}),
    (WindowOfFive, {"C2"}),
    (SequenceFilter, {"C7", "S3"}),
    (LowerSequenceFilter, {"S3"}),
    (DropsDuplicates, {"S3"}),
    (WaitsForGaps, {"S2"}),
    (KeyedByPayloadRank, {"R3"}),
    (KeyedByHost, {"R3"}),
    (KeyedByPort, {"R3", "C4"}),
    (KeptAfterRemoval, {"C6"}),
    (RevivedByALateMessage, {"C6"}),
    (RemembersTheRemoved, {"C6"}),
    (RemovesByHost, {"C6"}),
    (BadMessageClears, {"C5"}),
    (BadMessageRefreshes, {"C5"}),
    (BadMessageIsIdle, {"C5", "F2"}),
    (BadMessageEndsTheSubscription, {"C5", "F2"}),
    (RaisesForBadMessages, {"C5", "F2"}),
    (TopicByPrefix, {"F2"}),
    (FillsInZeros, {"W9"}),
    (KeepsTheOldTail, {"W9"}),
    (CapacityZeroIsNoReading, {"C3"}),
    (ZeroIsUnknown, {"C4"}),
    (SameReadingIsNoNews, {"C2"}),
    (AdvertisedOnce, {"C3", "C4", "R3"}),
    (AdvertisedAnew, {"C1"}),
    (KeepsReadingsOfOtherPorts, {"R3"}),
    (RanksNeverLeave, {"C3"}),
    (changed("FloatSums", lambda load: {k: float(v) for k, v in load.items()}), {"C3"}),
    (changed("SumsInDoubles", lambda load: {k: int(float(v)) for k, v in load.items()}), {"C3"}),
    (changed("WrappingSums", lambda load: {k: v % 2**64 for k, v in load.items()}), {"C3"}),
    (changed("DividesByCapacity", lambda load: {**load, "num_tokens": load["num_tokens"]
             * load["max_total_num_tokens"] // load["max_total_num_tokens"]}), {"C3"}),
    (combined("LeastRank", min), {"C3"}),
    (combined("GreatestRank", max), {"C3"}),
    (combined("MeanOfRanks", lambda counts: sum(counts) // len(counts)), {"C3"}),
    (combined("LastRank", lambda counts: counts[-1]), {"C3"}),
]  # fmt: skip
