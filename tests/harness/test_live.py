"""The live socket of a capture, where the machine is slow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from types import ModuleType

import pytest
import zmq

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.harness import live
from pytest_loadwire.harness.capture import Capture
from pytest_loadwire.harness.endpoint import last_endpoint
from pytest_loadwire.wire import LoadStatRev2


def test_probes_never_take_the_room_of_the_first_message(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many probes it takes to attach the subscriber, the first message finds room.

    A pipe holds 8 messages and drops the next. Probes that nobody waits for fill it at once, as
    those of a machine under load do.
    """
    patient = live._probe_waits_ms

    def hasty_at_first() -> Iterator[int]:
        yield from repeat(0, 5_000)
        yield from patient()

    monkeypatch.setattr(live, "_probe_waits_ms", hasty_at_first)
    for _ in range(50):
        with Capture("toy_engine.open_socket", mode="live", timeout=10.0) as capture:
            publisher = engine.Publisher()
            publisher.publish(reading)
            assert [(0, reading)] == capture.receive()
            publisher.close()


def test_only_the_newest_probe_shows_that_the_pipe_is_empty() -> None:
    """An older one may be heard while those after it still fill the pipe."""
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
        publisher.bind("tcp://127.0.0.1:*")
        ear = live._Ear(context, last_endpoint(publisher))
        older, newest = ear.next_probe(), ear.next_probe()
        deadline = Deadline(10.0)
        while deadline.remaining and not ear._socket.poll(10):
            publisher.send(older)
        assert not ear.hears_probe(0)
        publisher.send(newest)
        assert ear.hears_probe(deadline.remaining_ms)
        ear.close()
