"""The live socket of a capture, where the machine is slow."""

from __future__ import annotations

from types import ModuleType

import pytest

from pytest_loadwire.harness import live
from pytest_loadwire.harness.capture import Capture
from pytest_loadwire.wire import LoadStatRev2


def test_probes_never_take_the_room_of_the_first_message(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many probes it takes to attach the subscriber, the first message finds room.

    A pipe holds 8 messages and drops the next. Probes that nobody waits for fill it at once, as
    those of a machine under load do.
    """
    monkeypatch.setattr(live, "_PROBE_MS", 0)
    for _ in range(50):
        with Capture("toy_engine.open_socket", mode="live", timeout=10.0) as capture:
            publisher = engine.Publisher()
            publisher.publish(reading)
            assert [(0, reading)] == capture.receive()
            publisher.close()
