"""A real PUB socket that is listened to: each message is received before the engine goes on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any
from uuid import uuid4

import zmq

from pytest_loadwire.deadline import Deadline, DeadlineError
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.endpoint import last_endpoint
from pytest_loadwire.harness.frames import show_frames
from pytest_loadwire.harness.journal import (
    Journal,
    SocketRecord,
    bytes_of,
    option_name,
    refuse_connect,
)
from pytest_loadwire.harness.seam import privately


def _probe_waits_ms() -> Iterator[int]:
    """How long to wait for each probe in turn.

    Growing, so that a machine too busy to deliver one within the first waits delivers it in a later
    one: only the newest probe counts, and a fixed wait may always be too short.
    """
    yield from (2, 4, 8, 16, 32)
    yield from repeat(64)


class LiveSocket(zmq.Socket):  # type: ignore[type-arg]
    """The engine's own socket, on a loopback port that nobody else has.

    A subscriber to everything is attached before the first message goes out, and takes each message
    within the engine's own send. So nothing is lost to a slow joiner or to the high-water mark, and
    what a test sees is what was on the wire.
    """

    # Declared, as pyzmq takes any other attribute for a socket option.
    _journal: Journal | None = None
    _record: SocketRecord | None = None
    _ear: _Ear | None = None
    _parts: list[bytes]

    def adopt(self, journal: Journal, record: SocketRecord) -> None:
        """Begin to write down what happens."""
        self._journal = journal
        self._record = record
        self._parts = []

    def set(self, option: int, optval: Any) -> None:
        """Set an option, and write it down if libzmq took it."""
        super().set(option, optval)
        if self._record is not None:
            self._record.options.append((option_name(option), optval))

    setsockopt = set  # noqa: A003 - this class's own

    def bind(self, addr: str) -> Any:
        """Bind to an ephemeral loopback port in place of a wildcard or loopback address."""
        journal, record = self._adopted()
        if self.closed:
            return super().bind(addr)
        address = journal.binding(record, addr)
        bound = super().bind((address and address.loopback) or addr)
        journal.bound(record, address)
        record.endpoint = last_endpoint(self)
        if self._ear is None:
            self._ear = _Ear(self.context, record.endpoint)
        return bound

    def connect(self, addr: str) -> Any:
        """Refused: a load socket binds (rule K1)."""
        journal, record = self._adopted()
        raise refuse_connect(journal, record, addr)

    def send(  # type: ignore[override]
        self, data: Any, flags: int = 0, copy: bool = True, track: bool = False, **kwargs: Any
    ) -> Any:
        """Send a frame; the last one of a message returns when the message has arrived."""
        journal, record = self._adopted()
        if self.closed:
            return super().send(data, flags, copy, track, **kwargs)
        if not self._parts:
            journal.sending(record)
            # Reading EVENTS makes libzmq take notice of what has been consumed. By itself it looks
            # once in a millisecond, and until then a quick burst counts as a full pipe.
            self.get(zmq.EVENTS)
            self._attach(journal)
        sent = super().send(data, flags, copy, track, **kwargs)
        self._parts.append(bytes_of(data))
        if not flags & zmq.SNDMORE:
            message, self._parts = tuple(self._parts), []
            self._deliver(journal, record, message)
        return sent

    def close(self, linger: int | None = None) -> None:
        """Close, and with it the subscriber. Idempotent."""
        super().close(linger)
        if self._ear is not None:
            self._ear.close()
        if self._journal is not None and self._record is not None:
            self._journal.closed(self._record)

    def _adopted(self) -> tuple[Journal, SocketRecord]:
        if self._journal is None or self._record is None:
            raise LoadwireError("a LiveSocket is only of use within a capture")
        return self._journal, self._record

    def _attach(self, journal: Journal) -> None:
        """Make sure, once, that the subscriber hears."""
        if self._ear is None or self._ear.attached:
            return
        deadline = Deadline(journal.timeout)
        for wait_ms in _probe_waits_ms():
            super().send(self._ear.next_probe(), zmq.NOBLOCK)
            heard = self._ear.hears_probe(min(wait_ms, deadline.remaining_ms))
            # Of probes that are consumed libzmq takes notice here: the pipe has room again.
            self.get(zmq.EVENTS)
            if heard:
                return
            if not deadline.remaining:
                break
        raise journal.keep(
            DeadlineError(
                f"no subscriber could be attached to the engine's socket at {self._ear.endpoint} "
                f"in {deadline.timeout:g} s, so its first message was held back"
            )
        )

    def _deliver(self, journal: Journal, record: SocketRecord, message: tuple[bytes, ...]) -> None:
        """Take the message from the wire, and compare."""
        if self._ear is None:
            return
        arrived = self._ear.take(Deadline(journal.timeout))
        if arrived is not None:
            journal.sent(record, arrived)
        if arrived == message:
            return
        sent = f"the engine's socket opened at {record.opened_at} sent {show_frames(message)}, and "
        conflates = record.option.get("CONFLATE")
        why = "; it sets CONFLATE, which keeps only the last frame (rule K2)" if conflates else ""
        if arrived is None:
            raise journal.keep(
                DeadlineError(f"{sent}nothing arrived in {journal.timeout:g} s{why}")
            )
        raise journal.keep(LoadwireError(f"{sent}what arrived is {show_frames(arrived)}{why}"))


class _Ear:
    """A subscriber to everything, on the engine's heels."""

    def __init__(self, context: Any, endpoint: str) -> None:
        # Its own topic is what tells a probe from a message.
        self._topic = b"~loadwire-probe-" + uuid4().hex.encode()
        self._probes = 0
        self.endpoint = endpoint
        self.attached = False
        with privately():
            self._socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.setsockopt(zmq.LINGER, 0)
        if "[" in endpoint:
            self._socket.setsockopt(zmq.IPV6, 1)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(endpoint)

    def next_probe(self) -> bytes:
        """A probe that was not sent yet."""
        self._probes += 1
        return b"%s-%d" % (self._topic, self._probes)

    def hears_probe(self, wait_ms: int) -> bool:
        """Whether the newest probe arrives, at most so many milliseconds after the one before it.

        An earlier one proves less: those between still stand in a pipe that holds 8 messages, and
        the first message would be dropped behind them.
        """
        newest = b"%s-%d" % (self._topic, self._probes)
        while not self.attached and self._socket.poll(wait_ms):
            self.attached = self._socket.recv_multipart() == [newest]
        return self.attached

    def take(self, deadline: Deadline) -> tuple[bytes, ...] | None:
        """The next message that is no probe, or None when time is up."""
        while self._socket.poll(deadline.remaining_ms):
            frames = self._socket.recv_multipart()
            if not frames[0].startswith(self._topic):
                return tuple(frames)
        return None

    def close(self) -> None:
        self._socket.close(linger=0)
