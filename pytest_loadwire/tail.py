"""Watches workers as a router does, and hands on every message: what is behind a live view.

The reference subscriber reads, so that what is shown is what a router would decide by.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.discovery import NoPlan, Plan, RankEndpoint, plan
from pytest_loadwire.endpoints import EndpointError, TcpAddress, is_ipv6_literal
from pytest_loadwire.errors import LoadwireError, WireError
from pytest_loadwire.router.server_info import DiscoveryError, fetch_kv_events
from pytest_loadwire.router.subscriber import REDISCOVER_S, LoadSubscriber
from pytest_loadwire.router.table import WINDOW_S
from pytest_loadwire.tail_state import Board, Snapshot
from pytest_loadwire.wire import Message, revision_of, to_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

CLOSE_S = 2.0
"""Seconds that `Tail.close` waits for a question to a worker that is under way."""

REACH_S = 2.0
"""Seconds in which the peer of a ``tcp://`` target has to take a connection."""

MOST_HEX = 16_384
"""Bytes of one frame that `Arrival.to_json` spells; a hostile frame may have 16 MiB."""


class TargetError(LoadwireError, ValueError):
    """Text that names no worker and no load socket. The message says what to write instead."""


class Target(NamedTuple):
    """What is watched.

    Attributes:
        name: The worker's URL, or ``tcp://host:port`` of one load socket.
        address: That socket, or None for a worker, whose ``/server_info`` says where its are.
    """

    name: str
    address: TcpAddress | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target.

        Raises:
            TargetError: It is neither; an IPv6 address needs brackets (rule E8), and a wildcard
                is a place to bind and not one to dial.
        """
        scheme, found, rest = text.partition("://")
        if not found:
            raise TargetError(
                f"{text!r} has no scheme: write http://{text} for a worker, which says by "
                f"/server_info where its load is, or tcp://{text} for a load socket itself"
            )
        if scheme == "tcp":
            try:
                address = TcpAddress.parse(text)
            except EndpointError as error:
                raise TargetError(f"{error}; a load socket looks like {_EXAMPLE}") from error
            if address.is_bindable:
                raise TargetError(
                    f"{text!r} is a wildcard, which an engine binds and nobody can dial: "
                    f"name the host, such as {_EXAMPLE}"
                )
            return cls(str(address), address)
        if scheme not in ("http", "https"):
            raise TargetError(f"{text!r} is no http://, https:// or tcp:// target")
        place, slash, path = rest.partition("/")
        host, _, port = place.rpartition(":")
        for bare, end in ((host, f":{port}"), (place, "")):
            if is_ipv6_literal(bare):
                raise TargetError(
                    f"{text!r} is a bare IPv6 address: write {scheme}://[{bare}]{end}{slash}{path}"
                )
        url = text.rstrip("/").removesuffix("/server_info")
        found_plan = plan(url, _ANY_BLOCK)
        if isinstance(found_plan, NoPlan):
            raise TargetError(found_plan.text)
        return cls(url)


_EXAMPLE = "tcp://10.0.0.5:5558 or tcp://[2001:db8::5]:5558"
_ANY_BLOCK = {"load_endpoint_port_base": 1, "load_topic": "load", "dp_size": 1}


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
        self._targets: Mapping[str, Target] = {target.name: target for target in targets}
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
        for name in self._targets:
            self._subscriber.add_worker(name)

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
                name, views[name], subscriber.ranks(name), status=subscriber.status(name)
            )
            for name in self._targets
        ]
        return Snapshot(tuple(rows), time.monotonic() - self._began)

    def close(self) -> None:
        """Stop watching, within `CLOSE_S` even where a worker is being asked. Idempotent."""
        with contextlib.suppress(DeadlineError):  # a daemon, which ends with its question
            self._subscriber.close(CLOSE_S)

    def _note(
        self, worker: str, rank: int, frames: list[bytes], outcome: Message | WireError
    ) -> None:
        lost, restart = self._board.note(worker, rank, outcome)
        if self._on_arrival is not None:
            arrival = Arrival(worker, rank, time.time(), frames, outcome, lost, restart)
            self._on_arrival(arrival)

    def _fetch(self, name: str) -> object:
        address = self._targets[name].address
        if address is None:
            return self._fetch_block(name)
        # libzmq says nothing of a name that there is not, nor of a port where nobody listens.
        if self._subscriber.load(name) is None:
            try:
                socket.create_connection((address.host, address.port), REACH_S).close()
            except OSError as error:
                said = error.strerror or error
                raise DiscoveryError(f"nobody takes a connection there: {said}") from error
        return None

    def _plan(self, name: str, block: object) -> Plan | NoPlan:
        address = self._targets[name].address
        if address is None:
            return plan(name, block)
        return Plan(address.url_host, 1, (RankEndpoint(0, str(address)),), range(0))
