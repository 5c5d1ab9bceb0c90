"""Both ends of a live load socket, for tests of the other end. Works without pytest.

The publisher is an XPUB: the same bytes on the wire as a PUB, but it is told of each subscription
as it arrives. That is the only barrier against the slow joiner that holds; a finished handshake
says nothing about the subscription, and a message sent in between is lost without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import zmq

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline, DeadlineError
from pytest_loadwire.engine.rank_socket import RankSocket
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.frames import parse, show_frames
from pytest_loadwire.wire import LATEST, TOPIC, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from pytest_loadwire.wire import LoadStatRev1

_RECONNECT_MS = 10


class LivePublisher(Closing):
    """An engine's load socket on an ephemeral loopback port, in a context of its own.

    It has the high-water mark, the LINGER and the IPV6 of rule K1. An engine at its high-water mark
    drops the newest message without a word; with a mark of 8 that happens to any burst of nine. So
    that a test sees the same each time, this one waits for room instead, unless it is to shed.

    Args:
        host: What to bind: an IPv4 address, a name, or a bracketed IPv6 literal.
        port: A fixed port, or 0 for one that the system picks and nobody else has.
        sheds: Whether to drop messages at the high-water mark as an engine does (rule S2).
        timeout: Seconds that each wait may take unless the call says otherwise.

    Raises:
        LoadwireError: The address cannot be bound.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        sheds: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        __tracebackhide__ = True
        self._host = host
        self._sheds = sheds
        self._timeout = timeout
        self._restarted = False
        self._open(port)

    def _open(self, port: int) -> None:
        __tracebackhide__ = True
        endpoint = f"tcp://{self._host}:{port}"
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._socket = RankSocket(
                self._context, endpoint, sheds=self._sheds, timeout=self._timeout
            )
        except zmq.ZMQError as error:
            self.close()
            raise LoadwireError(f"cannot bind a publisher to {endpoint}: {error}") from None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.endpoint}, next sequence {self.sequence}"
        return f"<LivePublisher {state}>"

    @property
    def endpoint(self) -> str:
        """Where to connect, for example ``tcp://127.0.0.1:41327``."""
        return self._socket.endpoint

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self.endpoint.rpartition(":")[2])

    @property
    def sequence(self) -> int:
        """The number that the next message gets (rule S1)."""
        return self._socket.sequence

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.closed

    @property
    def subscribers(self) -> int:
        """How many subscriptions that cover the topic ``load`` are in place right now."""
        self._alive()
        return self._socket.subscribers

    def publish(self, stat: LoadStatRev1) -> int:
        """Send one reading as an engine does: three frames, canonical, numbered (rules F1, S1).

        Returns:
            The sequence number of the message.

        Raises:
            WireError: ``stat`` holds what no engine may send. It takes no number.
            DeadlineError: A subscriber reads so little that there was no room in time.
            LoadwireError: The publisher is closed.
        """
        __tracebackhide__ = True
        self._alive()
        try:
            return self._socket.publish(stat)
        except LoadwireError as error:
            # The kit's own frames below this call say nothing that the text does not.
            raise error.with_traceback(None) from None

    def send_raw(self, frames: Sequence[Buffer]) -> None:
        """Send exactly these frames, legal or not. Takes no sequence number.

        Raises:
            DeadlineError: As for `publish`.
            LoadwireError: There is no frame (ZeroMQ cannot send nothing), or the publisher is
                closed.
        """
        self._alive()
        self._socket.send(frames)

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> None:
        """Return when at least ``count`` subscriptions that cover ``load`` are in place.

        A subscription matches by prefix, so one to ``lo`` or to everything counts, and one to
        ``loadx`` does not. What is published after this reaches those subscribers.

        Raises:
            DeadlineError: Fewer came in time. The text says how many, and to what else.
            LoadwireError: The publisher is closed.
        """
        __tracebackhide__ = True
        self._alive()
        deadline = Deadline(self._timeout if timeout is None else timeout)
        try:
            self._socket.wait_for_subscribers(count, deadline)
        except DeadlineError as error:
            why = "; it was restarted: a LiveSubscriber has to join(publisher)"
            raise DeadlineError(f"{error}{why if self._restarted else ''}") from None

    def restart(self) -> None:
        """Be a new engine process on the same port: same endpoint, sequence from 0 (rule C7).

        Subscribers are not told; their sockets reconnect by themselves. A SUB socket subscribes
        again only while its thread uses it, so a `LiveSubscriber` has to `LiveSubscriber.join`
        before anything that it must not miss.

        Raises:
            LoadwireError: The publisher is closed, or another process took the port in between.
        """
        self._alive()
        port = self.port
        # Returns when the port is free: terminating a context waits for its sockets.
        self.close()
        self._open(port)
        self._restarted = True

    def close(self) -> None:
        """Close the socket, dropping what is not sent yet, and its context. Idempotent (K4)."""
        self._context.destroy(linger=0)

    def _alive(self) -> None:
        __tracebackhide__ = True
        if self.closed:
            raise LoadwireError("the publisher is closed")

    def _wait_for_topic(
        self, topic: bytes, subscriber: zmq.Socket[bytes], deadline: Deadline
    ) -> None:
        """Return when there is a subscription to exactly ``topic``, which ``subscriber`` has."""
        __tracebackhide__ = True
        self._alive()
        try:
            self._socket.wait_for_topic(topic, subscriber, deadline)
        except DeadlineError as error:
            raise error.with_traceback(None) from None


class LiveSubscriber(Closing):
    """A router's end of a load socket: receives, and checks what it receives.

    Args:
        source: An endpoint to connect to, or a `LivePublisher`. Given a publisher, the subscription
            is in place when the constructor returns, nothing published after that is missed, and
            `join` and `assert_silent` need not be told the publisher.
        topic: What to subscribe to; matches by prefix.
        revision: The revision of ``LoadStat`` that this router knows.
        timeout: Seconds that each wait may take unless the call says otherwise.

    Raises:
        LoadwireError: ``source`` is no endpoint that can be connected to.
        DeadlineError: The publisher did not see the subscription in time.
    """

    def __init__(
        self,
        source: str | LivePublisher,
        *,
        topic: bytes = TOPIC,
        revision: int = LATEST,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        __tracebackhide__ = True
        self._publisher = None if isinstance(source, str) else source
        self._endpoint = source if isinstance(source, str) else source.endpoint
        self._revision = revision
        self._timeout = timeout
        self._received = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        try:
            # What arrived is kept, so that a loss is never this side's.
            self._socket.setsockopt(zmq.RCVHWM, 0)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
            if "[" in self._endpoint:
                self._socket.setsockopt(zmq.IPV6, 1)
            self._socket.setsockopt(zmq.SUBSCRIBE, topic)
            self._socket.connect(self._endpoint)
            if self._publisher is not None:
                self.join()
        except zmq.ZMQError as error:
            self.close()
            raise LoadwireError(f"cannot subscribe to {self._endpoint!r}: {error}") from None
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<LiveSubscriber {'closed' if self.closed else self._endpoint}>"

    @property
    def endpoint(self) -> str:
        """What it is connected to."""
        return self._endpoint

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._socket.closed

    def receive(self, timeout: float | None = None) -> Message:
        """The next message, parsed and checked as a router must (rules F1 to F5, W).

        Raises:
            WireError: The message breaks the contract. The traceback shows its bytes.
            DeadlineError: None came in time.
            LoadwireError: The subscriber is closed.
        """
        __tracebackhide__ = True
        return parse(self.receive_frames(timeout), revision=self._revision)

    def receive_frames(self, timeout: float | None = None) -> tuple[bytes, ...]:
        """The frames of the next message, legal or not.

        Raises:
            DeadlineError: None came in time.
            LoadwireError: The subscriber is closed.
        """
        __tracebackhide__ = True
        self._alive()
        frames = self._next(Deadline(self._timeout if timeout is None else timeout))
        self._received += 1
        return frames

    def join(self, publisher: LivePublisher | None = None, timeout: float | None = None) -> None:
        """Return when ``publisher`` has the subscription of exactly this socket.

        A subscriber that was made for a publisher has joined already. One that only knew the
        endpoint, and one whose publisher was restarted, joins with this.

        Args:
            publisher: By default the one that this subscriber was made for.
            timeout: Seconds that it may take, by default those of this subscriber.

        Raises:
            DeadlineError: The subscription did not arrive in time.
            LoadwireError: Either end is closed, or there is no publisher to default to.
        """
        __tracebackhide__ = True
        self._alive()
        publisher = self._joined(publisher)
        deadline = Deadline(self._timeout if timeout is None else timeout)
        # Subscriptions of one socket arrive in order, so the private one proves those before it.
        with _PrivateTopic(self._socket) as topic:
            publisher._wait_for_topic(topic, self._socket, deadline)  # noqa: SLF001 - one harness

    def assert_silent(
        self, publisher: LivePublisher | None = None, timeout: float | None = None
    ) -> None:
        """Fail if anything that ``publisher`` has sent so far is waiting here unread.

        Waits for no time to pass: the publisher sends one message on a private topic behind all
        others, and what arrives before it was sent before it. A subscriber to everything sees that
        message as well.

        Args:
            publisher: By default the one that this subscriber was made for.
            timeout: Seconds that the private message may take, by default those of this subscriber.

        Raises:
            AssertionError: Messages are there. They are consumed, and the text shows their frames.
            DeadlineError: The private message did not arrive in time.
            LoadwireError: Either end is closed, or there is no publisher to default to.
        """
        __tracebackhide__ = True
        self._alive()
        publisher = self._joined(publisher)
        deadline = Deadline(self._timeout if timeout is None else timeout)
        with _PrivateTopic(self._socket) as topic:
            publisher._wait_for_topic(topic, self._socket, deadline)  # noqa: SLF001 - one harness
            publisher.send_raw([topic])
            noise = []
            while (frames := self._next(deadline)) != (topic,):
                noise.append(frames)
        if noise:
            shown = "".join(f"\n  {show_frames(frames)}" for frames in noise)
            raise AssertionError(f"{self._endpoint} is not silent: {len(noise)} message(s){shown}")

    def close(self) -> None:
        """Close the socket and its context. Idempotent."""
        self._context.destroy(linger=0)

    def _alive(self) -> None:
        __tracebackhide__ = True
        if self.closed:
            raise LoadwireError("the subscriber is closed")

    def _joined(self, publisher: LivePublisher | None) -> LivePublisher:
        __tracebackhide__ = True
        publisher = publisher or self._publisher
        if publisher is None:
            raise LoadwireError(
                f"the subscriber of {self._endpoint} was made from an endpoint: name the publisher"
            )
        return publisher

    def _next(self, deadline: Deadline) -> tuple[bytes, ...]:
        __tracebackhide__ = True
        if not self._socket.poll(deadline.remaining_ms):
            raise DeadlineError(
                f"{self._endpoint}: no message in {deadline.timeout:g} s, "
                f"after {self._received} earlier one(s)"
            )
        return tuple(self._socket.recv_multipart())


class _PrivateTopic:
    """A subscription that nobody else has, for as long as the block lasts."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        # Behind `load` in the order of bytes as well: a socket that connects late sends its
        # subscriptions sorted.
        self._topic = b"~loadwire-" + uuid4().hex.encode()

    def __enter__(self) -> bytes:
        self._socket.setsockopt(zmq.SUBSCRIBE, self._topic)
        return self._topic

    def __exit__(self, *_: object) -> None:
        if not self._socket.closed:
            self._socket.setsockopt(zmq.UNSUBSCRIBE, self._topic)
