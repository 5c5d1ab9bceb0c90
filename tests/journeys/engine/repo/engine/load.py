"""Tells routers how busy a scheduler is, over a ZeroMQ PUB socket."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import msgspec
import zmq

from engine.args import EngineArgs, Ranks, parse_kv_events
from engine.ports import LoadPorts, NoPorts, is_ipv6, plan_load_ports

log = logging.getLogger(__name__)

TOPIC = b"load"
REPEAT_AFTER = 1.0
QUEUE = 8


@dataclass
class Load:
    """A scheduler's reading of itself."""

    running: int = 0
    queued: int = 0
    used_tokens: int = 0
    capacity: int = 0
    uncached_tokens: int = 0
    all_tokens: int = 0
    max_running: int = 0
    prefilled_tokens: int = 0
    prefill_us: int = 0
    rank: int = 0


class LoadStat(msgspec.Struct, array_like=True, tag="LoadStat"):
    """What goes on the wire. Routers read it by position: append, never reorder."""

    running: int
    queued: int
    used_tokens: int
    capacity: int
    rank: int | None
    uncached_tokens: int
    all_tokens: int
    max_running: int
    prefilled_tokens: int
    prefill_us: int


def encode(stat: LoadStat) -> bytes:
    """The payload; ValueError for what is no count, which msgspec would send as it is."""
    for name in stat.__struct_fields__:
        value = getattr(stat, name)
        if (name, value) != ("rank", None) and (type(value) is not int or value < 0):
            raise ValueError(f"{name} is {value!r}")
    return msgspec.msgpack.encode(stat)


def open_socket(endpoint: str) -> zmq.Socket[bytes]:
    """Bind a socket for routers. Who reads too slowly loses messages."""
    socket = zmq.Context.instance().socket(zmq.PUB)
    try:
        socket.set_hwm(QUEUE)
        socket.setsockopt(zmq.LINGER, 0)
        if is_ipv6(endpoint):
            socket.setsockopt(zmq.IPV6, 1)
        socket.bind(endpoint)
    except BaseException:
        socket.close()
        raise
    return socket


class LoadPublisher:
    """Publishes the load of one scheduler, if it is one that does."""

    def __init__(self, args: EngineArgs, ranks: Ranks) -> None:
        self.slot = ranks.slot
        self.every = args.load_every
        self.skipped = 0
        self.number = 0
        self.last: dict[str, int] | None = None
        self.last_at = 0.0
        self.failing = False
        self.socket: zmq.Socket[bytes] | None = None
        if args.kv_events_config and ranks.leads:
            self.socket = self._open(args)

    def _open(self, args: EngineArgs) -> zmq.Socket[bytes] | None:
        try:
            events = parse_kv_events(args.kv_events_config or "")
        except ValueError:
            return None
        if events.publisher == "null" or not events.endpoint:
            return None
        ports = plan_load_ports(
            events.endpoint, events.replay, args.replicas, args.load_publish_endpoint
        )
        if isinstance(ports, NoPorts):
            log.warning("no load is published: %s", ports.why)
        if not isinstance(ports, LoadPorts):
            return None
        try:
            return open_socket(ports.endpoint(self.slot))
        except Exception as error:
            log.warning("no load is published: %s", error)
            return None

    def tell(self, read: Callable[[], Load], must: bool = False, load: Load | None = None) -> None:
        """Publish a reading if one is due. It never raises: this is the scheduler's loop."""
        if self.socket is None:
            return
        self.skipped += 1
        if not must and self.skipped < self.every:
            return
        self.skipped = 0
        try:
            if self._send_if_news(self.socket, read() if load is None else load):
                self.failing = False
        except Exception as error:
            if not self.failing:
                log.warning("load is not published: %s", error)
            self.failing = True

    def _send_if_news(self, socket: zmq.Socket[bytes], load: Load) -> bool:
        now = time.monotonic()
        # The slot of this scheduler, whatever the reading says.
        values = {**asdict(load), "rank": self.slot}
        if values == self.last and now - self.last_at < REPEAT_AFTER:
            return False
        payload = encode(LoadStat(**values))
        number = self.number
        self.number += 1
        socket.send_multipart([TOPIC, number.to_bytes(8, "big"), payload])
        self.last, self.last_at = values, now
        return True

    def shut(self) -> None:
        """Stop publishing."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
