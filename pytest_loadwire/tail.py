"""Watches workers as a router does, and hands on every message: what is behind a live view.

The reference subscriber reads, so that what is shown is what a router would decide by.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import Deadline, DeadlineError
from pytest_loadwire.discovery import NoPlan, Plan, RankEndpoint, plan
from pytest_loadwire.endpoints import EndpointError, TcpAddress
from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import array_length
from pytest_loadwire.router.server_info import DiscoveryError, fetch_kv_events
from pytest_loadwire.router.subscriber import REDISCOVER_S, LoadSubscriber
from pytest_loadwire.router.table import WINDOW_S
from pytest_loadwire.tail_state import Board, Snapshot, rank_note
from pytest_loadwire.wire import Message, revision_of, to_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_loadwire.target import Target

CLOSE_S = 2.0
"""Seconds that `Tail.close` waits for a question to a worker that is under way."""

REACH_S = 2.0
"""Seconds in which a load socket has to take a connection, where it is tried by itself."""

KNOCK_S = 1.0
"""Seconds between two tries of the silent ranks of workers."""

MOST_KNOCKED = 4
"""So many silent ranks of one worker are tried by a connection; the others are like them."""

MOST_HEX = 16_384
"""Bytes of one frame that `Arrival.to_json` spells; a hostile frame may have 16 MiB."""


class Arrival(NamedTuple):
    """One message as it came.

    Attributes:
        worker: The name of the worker.
        rank: The rank whose socket it came from.
        time: Seconds since the epoch.
        frames: The frames.
        outcome: What was read, or why it was refused.
        lost: How many messages the gap in front of it stands for (rule S2).
        restart: Whether its sequence is not above the one before (rule S3).
    """

    worker: str
    rank: int
    time: float
    frames: Sequence[bytes]
    outcome: Message | WireError
    lost: int = 0
    restart: bool = False

    @property
    def elements(self) -> int | None:
        """The length of the payload's array, tag included; None where there is no array."""
        length = array_length(self.frames[-1]) if self.frames else -1
        return None if length < 0 else length

    def to_json(self) -> dict[str, Any]:
        """The message for machines: every field by name, or what is wrong and the bytes."""
        when = datetime.fromtimestamp(self.time, timezone.utc).isoformat(timespec="microseconds")
        shared = {
            "ok": isinstance(self.outcome, Message),
            "time": when.replace("+00:00", "Z"),
            "worker": self.worker,
            "rank": self.rank,
        }
        if isinstance(self.outcome, Message):
            return {
                **shared,
                "sequence": self.outcome.sequence,
                "lost": self.lost,
                "restart": self.restart,
                "revision": revision_of(self.outcome.stat),
                "elements": self.elements,
                "note": rank_note(self.worker, self.rank, self.outcome.stat) or None,
                "load": to_dict(self.outcome.stat),
            }
        error = self.outcome
        return {
            **shared,
            "reason": str(error.reason),
            "rule": error.rule,
            "frame": error.frame,
            "offset": error.offset,
            "element": error.element,
            "field": error.field,
            "text": str(error),
            "bytes": [len(frame) for frame in self.frames],
            "hex": [frame[:MOST_HEX].hex() for frame in self.frames],
        }


class Tail(Closing):
    """Watches workers and load sockets. Close it.

    Args:
        targets: What to watch; one that is given twice is watched once.
        window: Seconds for which a reading is fresh (rule C2), and over which a rate is taken.
        on_arrival: Called with every message on the thread that reads: it must not wait.
        rediscover: Seconds between two looks at what a worker advertises.
        fetch: Asks a worker's URL for its ``kv_events`` block.

    Raises:
        ValueError: The window is not longer than the heartbeat of an engine.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        *,
        window: float = WINDOW_S,
        on_arrival: Callable[[Arrival], object] | None = None,
        rediscover: float = REDISCOVER_S,
        fetch: Callable[[str], object] = fetch_kv_events,
    ) -> None:
        self._targets: Mapping[str, Target] = {target.text: target for target in targets}
        self._on_arrival = on_arrival
        self._fetch_block = fetch
        self._began = time.monotonic()
        self._board = Board(window)
        self._subscriber = LoadSubscriber(
            window=window,
            rediscover=rediscover,
            fetch=self._fetch,
            planner=self._plan,
            listener=self._note,
        )
        self._closed: dict[str, dict[int, str]] = {}
        self._ending = threading.Event()
        self._knocking = threading.Thread(target=self._knock, name="loadwire-knocking", daemon=True)
        for name in self._targets:
            self._subscriber.add_worker(name)
        if any(target.url is not None for target in self._targets.values()):
            self._knocking.start()

    @property
    def readings(self) -> int:
        """How many messages were read."""
        return self._board.readings

    @property
    def refused(self) -> Counter[str]:
        """How many messages were refused, by rule and reason."""
        return Counter(self._board.refused)

    def snapshot(self) -> Snapshot:
        """Everything as it stands now."""
        subscriber = self._subscriber
        views = subscriber.views()
        rows = [
            self._board.row(
                name,
                views[name],
                subscriber.ranks(name),
                status=subscriber.status(name),
                closed=self._closed.get(name),
            )
            for name in self._targets
        ]
        return Snapshot(tuple(rows), time.monotonic() - self._began)

    def close(self) -> None:
        """Stop watching, within `CLOSE_S` even where a worker is being asked. Idempotent."""
        deadline = Deadline(CLOSE_S)
        self._ending.set()
        with contextlib.suppress(DeadlineError):  # a daemon, which ends with its question
            self._subscriber.close(CLOSE_S)
        if self._knocking.ident is not None:
            self._knocking.join(deadline.remaining)  # a daemon, too

    def _note(
        self, worker: str, rank: int, frames: list[bytes], outcome: Message | WireError
    ) -> None:
        arrival = Arrival(worker, rank, time.time(), frames, outcome)
        elements = arrival.elements if isinstance(outcome, Message) else None
        lost, restart = self._board.note(worker, rank, outcome, elements)
        if self._on_arrival is not None:
            self._on_arrival(arrival._replace(lost=lost, restart=restart))

    def _fetch(self, name: str) -> object:
        target = self._targets[name]
        if target.url is not None:
            return self._fetch_block(target.url)
        # libzmq says nothing of a name that there is not, nor of a port where nobody listens.
        if self._subscriber.load(name) is None and (said := _refusal(target.address)):
            raise DiscoveryError(f"nobody takes a connection there: {said}")
        return None

    def _knock(self) -> None:
        """Try the silent ranks of workers again and again, on a thread of its own."""
        workers = [name for name, target in self._targets.items() if target.url is not None]
        while not self._ending.wait(KNOCK_S):
            for name in workers:
                self._closed[name] = self._closed_ranks(name)

    def _closed_ranks(self, name: str) -> dict[int, str]:
        """The first silent ranks of a worker whose sockets take no connection, and why not."""
        closed: dict[int, str] = {}
        if self._subscriber.load(name) is not None:
            return closed
        ranks = enumerate(self._subscriber.ranks(name))
        silent = [(rank, seen.place) for rank, seen in ranks if not seen.fresh]
        for rank, place in silent[:MOST_KNOCKED]:
            if self._ending.is_set():
                break
            with contextlib.suppress(EndpointError):  # past the last port there is no place
                if said := _refusal(TcpAddress.parse(str(place))):
                    closed[rank] = said
        return closed

    def _plan(self, name: str, block: object) -> Plan | NoPlan:
        target = self._targets[name]
        if target.url is not None:
            return plan(target.url, block)
        return Plan(target.address.url_host, 1, (RankEndpoint(0, target.endpoint),), range(0))


def _refusal(address: TcpAddress) -> str:
    """Why nobody takes a connection at an address; empty where somebody does."""
    try:
        socket.create_connection((address.host, address.port), REACH_S).close()
    except (OSError, UnicodeError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""
