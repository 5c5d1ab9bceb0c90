"""The load socket of one rank, as the kit binds it: for fake engines and for live publishers."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import zmq

from pytest_loadwire.deadline import Deadline, DeadlineError
from pytest_loadwire.endpoints import is_zmq_endpoint_ipv6
from pytest_loadwire.engine.publisher import LOAD_PUB_HWM
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.wire import TOPIC, build_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from pytest_loadwire.wire import LoadStatRev1

_SNDMORE = int(zmq.SNDMORE)


class RankSocket:
    """A bound XPUB with the options of rule K1, that numbers messages and counts subscriptions.

    Args:
        context: The context, which outlives the socket.
        endpoint: What to bind.
        sheds: Whether to drop messages at the high-water mark, or else wait for room.
        timeout: Seconds to wait for it.

    Attributes:
        endpoint: What is bound, with the real port.
        sequence: The number that the next message gets (rule S1).

    Raises:
        zmq.ZMQError: The address cannot be bound.
    """

    __slots__ = ("_closed", "_lost", "_socket", "_timeout", "_topics", "endpoint", "sequence")

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, *, sheds: bool, timeout: float
    ) -> None:
        self.sequence = 0
        self._timeout = timeout
        self._topics: Counter[bytes] = Counter()
        self._closed: zmq.Socket[bytes] | None = None
        self._lost = 0
        self._socket = context.socket(zmq.XPUB)
        try:
            self._socket.set_hwm(LOAD_PUB_HWM)
            self._socket.setsockopt(zmq.LINGER, 0)
            # Not just the first and the last subscription of a topic, but every one.
            self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
            if not sheds:
                self._socket.setsockopt(zmq.XPUB_NODROP, 1)
                self._socket.setsockopt(zmq.SNDTIMEO, math.ceil(timeout * 1000))
            if is_zmq_endpoint_ipv6(endpoint):
                self._socket.setsockopt(zmq.IPV6, 1)
            self._socket.bind(endpoint)
            # Some versions of libzmq count the terminator in.
            self.endpoint = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        except BaseException:
            self._socket.close()
            raise

    @property
    def subscribers(self) -> int:
        """How many subscriptions that cover ``load`` are in place right now."""
        self._note_subscriptions()
        return sum(n for topic, n in self._topics.items() if TOPIC.startswith(topic))

    @property
    def lost(self) -> int:
        """How many such subscriptions have ended."""
        self._note_subscriptions()
        return self._lost

    def publish(self, stat: LoadStatRev1) -> int:
        """Send one reading, and return its sequence; a send that fails takes one too (rule S1)."""
        sequence = self.sequence
        frames = build_frames(sequence, stat)
        self.sequence = sequence + 1
        self.send(frames)
        return sequence

    def send(self, frames: Sequence[Buffer]) -> None:
        """Send exactly these frames.

        Raises:
            DeadlineError: There was no room in time.
            LoadwireError: There is no frame, or the socket is closed.
        """
        if not frames:
            raise LoadwireError("a ZeroMQ message has at least one frame, and none was given")
        # Plain sends take a quarter of the time of one send_multipart.
        send = self._socket.send
        try:
            for frame in frames[:-1]:
                send(frame, _SNDMORE)
            send(frames[-1])
        except zmq.Again as error:
            raise DeadlineError(
                f"{self.endpoint}: a subscriber left {LOAD_PUB_HWM} messages and the network's "
                f"buffers unread, and there was no room for another in {self._timeout:g} s"
            ) from error
        except zmq.ZMQError as error:
            raise LoadwireError(f"{self.endpoint}: {error}") from error

    def wait_for_subscribers(self, count: int, deadline: Deadline) -> None:
        """Return when there are ``count`` subscriptions that cover ``load``.

        Raises:
            DeadlineError: Fewer came in time. The text says how many, and to what else.
        """
        while (have := self.subscribers) < count:
            if not self._socket.poll(deadline.remaining_ms):
                elsewhere = sorted(
                    topic for topic, n in self._topics.items() if n and not TOPIC.startswith(topic)
                )
                raise DeadlineError(
                    f"{self.endpoint}: waited {deadline.timeout:g} s for {count} subscription(s) "
                    f"that cover {TOPIC!r}, and {have} came"
                    + (f"; subscribed to something else: {elsewhere}" if elsewhere else "")
                )

    def wait_for_topic(
        self, topic: bytes, subscriber: zmq.Socket[bytes], deadline: Deadline
    ) -> None:
        """Return when there is a subscription to exactly ``topic``, which ``subscriber`` has.

        Raises:
            DeadlineError: It did not come in time.
        """
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        # Wakes up for nothing, and yet is needed: after a reconnect a SUB socket says again what
        # it subscribes to, but only while its own thread looks after it.
        poller.register(subscriber, zmq.POLLERR)
        self._note_subscriptions()
        while self._topics[topic] < 1:
            if not poller.poll(deadline.remaining_ms):
                raise DeadlineError(
                    f"{self.endpoint}: the subscriber's subscription did not arrive in "
                    f"{deadline.timeout:g} s"
                )
            self._note_subscriptions()

    def unbind(self) -> None:
        """Begin to free the port."""
        # A monitor tells when the listener is closed; unbinding alone only asks for it.
        self._closed = self._socket.get_monitor_socket(zmq.EVENT_CLOSED)
        self._socket.unbind(self.endpoint)

    def close(self, deadline: Deadline) -> None:
        """Close the socket behind `unbind`, when its port is free.

        Raises:
            DeadlineError: It is not free in time. The socket is closed all the same.
        """
        free = self._closed is None or bool(self._closed.poll(deadline.remaining_ms))
        self.drop()
        if not free:
            raise DeadlineError(f"{self.endpoint} is not free after {deadline.timeout:g} s")

    def drop(self) -> None:
        """Close the socket; its port is free some time later."""
        if self._closed is not None:
            self._socket.disable_monitor()
            self._closed.close(linger=0)
        self._socket.close(linger=0)

    def _note_subscriptions(self) -> None:
        while True:
            try:
                event = self._socket.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                return
            topic = event[1:]
            # 1 subscribes and 0 unsubscribes; a subscriber may send other things, none for us.
            if event[:1] == b"\x01":
                self._topics[topic] += 1
            elif event[:1] == b"\x00":
                self._topics[topic] -= 1
                self._lost += TOPIC.startswith(topic)
