"""What the harness costs, as ratios within one run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import zmq

from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.wire import LoadStatRev2, build_frames

pytest.importorskip("pytest_benchmark")

STARTS = 15


@pytest.fixture
def publisher() -> Iterator[LivePublisher]:
    """A live publisher that nobody listens to, so that only the sending side is measured."""
    with LivePublisher() as publisher:
        yield publisher


@pytest.fixture
def bare() -> Iterator[zmq.Socket[bytes]]:
    """The yardstick: a socket of the same kind, by hand."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.linger = 0
        socket.set_hwm(8)
        socket.bind("tcp://127.0.0.1:*")
        yield socket


@pytest.mark.benchmark(group="send one message")
def test_publish(
    benchmark: Callable[..., object], publisher: LivePublisher, reading: LoadStatRev2
) -> None:
    """Sending through the harness, encoding included."""
    benchmark(publisher.publish, reading)


@pytest.mark.benchmark(group="send one message")
def test_send_multipart(
    benchmark: Callable[..., object], bare: zmq.Socket[bytes], reading: LoadStatRev2
) -> None:
    """The yardstick: pyzmq's own `send_multipart` of the same frames, encoding included."""
    send = bare.send_multipart
    benchmark(lambda: send(build_frames(0, reading)))


@pytest.mark.benchmark(group="send three frames")
def test_three_sends(
    benchmark: Callable[..., object], bare: zmq.Socket[bytes], reading: LoadStatRev2
) -> None:
    """Frames that are there already, by three plain sends."""
    send = bare.send
    topic, number, payload = build_frames(0, reading)

    def three() -> None:
        send(topic, zmq.SNDMORE)
        send(number, zmq.SNDMORE)
        send(payload)

    benchmark(three)


@pytest.mark.benchmark(group="send three frames")
def test_one_multipart(
    benchmark: Callable[..., object], bare: zmq.Socket[bytes], reading: LoadStatRev2
) -> None:
    """The same frames by `send_multipart`."""
    benchmark(bare.send_multipart, build_frames(0, reading))


@pytest.mark.benchmark(group="open and close a publisher")
def test_live_publisher(benchmark: Callable[..., object]) -> None:
    """A publisher of the harness, with its own context and port."""
    benchmark(lambda: LivePublisher().close())


@pytest.mark.benchmark(group="open and close a publisher")
def test_bare_socket(benchmark: Callable[..., object]) -> None:
    """The yardstick: the same by hand."""

    def open_and_close() -> None:
        context = zmq.Context()
        socket = context.socket(zmq.XPUB)
        socket.linger = 0
        socket.bind("tcp://127.0.0.1:*")
        socket.close()
        context.term()

    benchmark(open_and_close)


def _seconds_to_start(directory: Path, *arguments: str) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    begin = time.perf_counter()
    subprocess.run([*command, *arguments], cwd=directory, capture_output=True, check=False)
    return time.perf_counter() - begin


def test_start_of_pytest(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed plugin that is not used does not slow the start of pytest noticeably.

    The two kinds of start take turns, so that whatever else the machine does hits both.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    differences: list[float] = []

    def one_of_each() -> None:
        without = _seconds_to_start(tmp_path, "-p", "no:loadwire")
        differences.append(_seconds_to_start(tmp_path, "-p", "pytest_loadwire.plugin") - without)

    benchmark.pedantic(one_of_each, rounds=1 if benchmark.disabled else STARTS)
    benchmark.extra_info["plugin_ms"] = median(differences) * 1000
    # The aim is 5 ms; the bound leaves room for a busy machine.
    assert benchmark.disabled or median(differences) < 0.025
