"""The reference publisher: one scheduler's load, on a PUB socket of its own.

It sits in the scheduler's loop, so it costs next to nothing when there is nothing to say, and
nothing that fails in it gets out (rule P4). There is no thread: a heartbeat goes out when the loop
calls. Time is read through this module's ``time``, so that a test can install its own clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import zmq

from pytest_loadwire.closing import Closing
from pytest_loadwire.discovery import KVEventsConfig, KVEventsConfigError
from pytest_loadwire.endpoints import Decline, Topology, is_zmq_endpoint_ipv6
from pytest_loadwire.exact import RANK_FIELD
from pytest_loadwire.wire import (
    LATEST,
    REVISIONS,
    TAG,
    TOPIC,
    LoadStatRev1,
    encode,
    field_names,
)

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

LOAD_PUBLISH_INTERVAL = 5
"""One in this many unforced calls passes, unless the engine says otherwise (rule P1)."""

LOAD_PUBLISH_HEARTBEAT_S = 1.0
"""Seconds after which an unchanged reading goes out again (rule P2)."""

LOAD_PUB_HWM = 8
"""Messages that a slow subscriber's pipe holds; further ones are dropped silently (K1, S2)."""

SGLANG_FIELDS: Mapping[str, str] = MappingProxyType({"num_tokens": "num_used_tokens"})
"""What SGLang's snapshot calls the fields of the contract, where the names differ."""

# As a plain int: on every send, pyzmq would have to combine the enum member again.
_SNDMORE = int(zmq.SNDMORE)

_SGLANG_COUNTS = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_used_tokens",
    "max_total_num_tokens",
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "max_running_requests",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
)

_encoder = msgspec.msgpack.Encoder()


class PubSocket(Protocol):
    """What the publisher needs of a socket, so that a test can hand it a stub."""

    def send(self, data: bytes, flags: int = 0) -> object:
        """Hand over one frame; with ``SNDMORE`` in the flags, more frames follow."""

    def close(self) -> object:
        """Close the socket."""


@dataclass
class LoadSnapshot:
    """The scheduler's reading of itself, in SGLang's names, as far as the gauge needs it."""

    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_used_tokens: int = 0
    max_total_num_tokens: int = 0
    num_waiting_uncached_tokens: int = 0
    num_total_tokens: int = 0
    max_running_requests: int = 0
    total_prefill_uncached_tokens: int = 0
    total_prefill_busy_us: int = 0


def open_pub_socket(endpoint: str) -> zmq.Socket[bytes]:
    """Bind a load socket with the options of rule K1. The one place that opens a socket.

    Raises:
        zmq.ZMQError: The address cannot be bound. The socket is closed by then (rule K3).
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    socket = context.socket(zmq.PUB)
    try:
        socket.set_hwm(LOAD_PUB_HWM)
        socket.setsockopt(zmq.LINGER, 0)
        if is_zmq_endpoint_ipv6(endpoint):
            socket.setsockopt(zmq.IPV6, 1)
        socket.bind(endpoint)
    except BaseException:
        socket.close()
        raise
    return socket


class LoadPublisher(Closing):
    """Publishes one scheduler's load (rules K4, P1 to P4, S1).

    Args:
        socket: A bound socket, which the publisher owns from here on; None disables publishing.
        rank: The slot of this scheduler, sent as ``attn_dp_rank`` (rule R3).
        publish_interval: One in this many unforced calls passes; less than 1 counts as 1.
        revision: Which revision of the payload to send.
        fields: What the snapshot calls the contract's fields, where the names differ.

    Raises:
        ValueError: An unknown revision, a renamed field that the contract does not have, or a
            negative rank.
    """

    # Slots are a tenth of the time of an unchanged reading.
    __slots__ = (
        "_calls",
        "_decoder",
        "_failing",
        "_interval",
        "_last_counts",
        "_last_time",
        "_rank",
        "_rank_at",
        "_read",
        "_revision",
        "_sequence",
        "_socket",
    )

    def __init__(
        self,
        socket: PubSocket | None,
        *,
        rank: int = 0,
        publish_interval: int = LOAD_PUBLISH_INTERVAL,
        revision: int = LATEST,
        fields: Mapping[str, str] = SGLANG_FIELDS,
    ) -> None:
        names = field_names(revision)
        unknown = set(fields) - set(field_names()) | set(fields) & {RANK_FIELD}
        if unknown:
            raise ValueError(f"not counts of the contract: {', '.join(sorted(unknown))}")
        if rank < 0:
            raise ValueError(f"a rank is 0 or more, not {rank}")
        self._socket = socket
        self._rank = rank
        self._revision = revision
        self._interval = max(1, publish_interval)
        counts = tuple(fields.get(name, name) for name in names if name != RANK_FIELD)
        # None is the usual case, which reads in line: that takes half the time.
        self._read: Callable[[Any], tuple[Any, ...]] | None = (
            None if counts == _SGLANG_COUNTS else attrgetter(*counts)
        )
        self._rank_at = names.index(RANK_FIELD)
        self._decoder: msgspec.msgpack.Decoder[LoadStatRev1] = msgspec.msgpack.Decoder(
            REVISIONS[revision]
        )
        self._calls = 0
        self._sequence = 0
        self._last_counts: tuple[Any, ...] | None = None
        self._last_time = 0.0
        self._failing = False

    @classmethod
    def from_config(
        cls,
        *,
        kv_events_config: str | None,
        load_publish_endpoint: str | None = None,
        topology: Topology = Topology(),  # noqa: B008  # immutable
        publish_interval: int = LOAD_PUBLISH_INTERVAL,
        revision: int = LATEST,
        fields: Mapping[str, str] = SGLANG_FIELDS,
    ) -> Self:
        """The publisher of one scheduler as an engine starts it, disabled where it cannot publish.

        A decline that an operator would want to know about, and a failed bind, are one warning
        each; neither stops the engine (rules E5, K3). Nothing is said when load publishing is
        off, this scheduler is not one that publishes, or KV events are not published: an engine
        that was asked to has by then refused to start (rule V1).
        """
        publisher = cls(
            None,
            rank=topology.slot,
            publish_interval=publish_interval,
            revision=revision,
            fields=fields,
        )
        # Last, so that an argument that is refused leaves no socket behind.
        if topology.publishes(kv_events_config):
            publisher._socket = _open_range(kv_events_config or "", load_publish_endpoint, topology)
        return publisher

    @property
    def enabled(self) -> bool:
        """Whether there is a socket to publish on."""
        return self._socket is not None

    @property
    def rank(self) -> int:
        """The slot of this scheduler."""
        return self._rank

    def publish_load_stat(
        self,
        load_provider: Callable[[], object],
        force: bool = False,
        snapshot: object | None = None,
    ) -> None:
        """Publish a reading if one is due. Never raises an `Exception` (rule P4).

        Args:
            load_provider: Reads the scheduler's state, which may walk its queues. Asked only when
                a call passes the throttle and no snapshot is given (rule P3).
            force: Pass the throttle (rule P1). A reading that is unchanged within the heartbeat
                is not sent all the same (rule P2).
            snapshot: A reading that the caller has already, used as it is.
        """
        if self._socket is None:
            return
        if not force:
            calls = self._calls = self._calls + 1
            if calls < self._interval:
                return
        # Here and not after the send: a reading that is not sent, or fails, would leave the
        # throttle open, and each further step of the loop would walk the queues.
        self._calls = 0
        try:
            now = time.monotonic()
            load: Any = load_provider() if snapshot is None else snapshot
            if self._read is None:
                counts: tuple[Any, ...] = (  # _SGLANG_COUNTS
                    load.num_running_reqs,
                    load.num_waiting_reqs,
                    load.num_used_tokens,
                    load.max_total_num_tokens,
                    load.num_waiting_uncached_tokens,
                    load.num_total_tokens,
                    load.max_running_requests,
                    load.total_prefill_uncached_tokens,
                    load.total_prefill_busy_us,
                )
            else:
                counts = self._read(load)
            if counts == self._last_counts and now - self._last_time < LOAD_PUBLISH_HEARTBEAT_S:
                return
            self._send(self._socket, counts)
            self._last_counts = counts
            self._last_time = now
            self._failing = False
        except Exception:
            if not self._failing:
                self._failing = True
                logger.warning(
                    "load publishing failed and says so once until it works again; "
                    "routers fall back to their own counters",
                    exc_info=True,
                )

    def close(self) -> None:
        """Close the socket and disable publishing; a second call does nothing (rule K4)."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _send(self, socket: PubSocket, counts: tuple[Any, ...]) -> None:
        payload = self._encode(counts)
        sequence = self._sequence
        self._sequence = sequence + 1  # a send that fails has used up its number (rule S1)
        # Three sends cost a third of one send_multipart. PUB never blocks, and a send fails only
        # on a socket that is closed for good, so no message is left half sent.
        socket.send(TOPIC, _SNDMORE)
        socket.send(sequence.to_bytes(8, "big"), _SNDMORE)
        socket.send(payload)

    def _encode(self, counts: tuple[Any, ...]) -> bytes:
        """The bytes of :func:`pytest_loadwire.wire.encode` for these counts, sooner.

        Raises:
            WireError: A count is none (rule W5).
        """
        at = self._rank_at
        try:
            payload = _encoder.encode((TAG, *counts[:at], self._rank, *counts[at:]))
            # A strict reader takes exactly what W5 allows, and costs less than a look at each.
            self._decoder.decode(payload)
        except (msgspec.MsgspecError, OverflowError, TypeError):
            values = (*counts[:at], self._rank, *counts[at:])
            named = zip(field_names(self._revision), values, strict=True)
            return encode(REVISIONS[self._revision](**dict(named)))  # says which and why
        return payload


def _open_range(
    kv_events_config: str, load_publish_endpoint: str | None, topology: Topology
) -> PubSocket | None:
    """The socket of one scheduler's slot, or None where its engine does not or cannot publish."""
    try:
        config = KVEventsConfig.from_cli(kv_events_config)
    except KVEventsConfigError:
        return None
    if not config.is_active:
        return None
    outcome = config.load_range(
        dp_size=topology.dp_size, load_publish_endpoint=load_publish_endpoint
    )
    if isinstance(outcome, Decline):
        if not outcome.is_quiet:
            logger.warning("load publishing is disabled: %s", outcome.text)
        return None
    try:
        return open_pub_socket(outcome.endpoint(topology.slot))
    except Exception:
        logger.warning(
            "load publishing is disabled: rank %d cannot bind its port in the range from %s, "
            "which /server_info advertises all the same",
            topology.slot,
            outcome.endpoint(0),
            exc_info=True,
        )
        return None
