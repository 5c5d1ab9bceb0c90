"""Python and Rust on one load socket, in both directions: two implementations of ZeroMQ as well."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber
from pytest_loadwire.wire import (
    LATEST,
    REVISIONS,
    TOPIC,
    LoadStatRev1,
    LoadStatRev2,
    build_frames,
    parse_frames,
    revision_of,
)

Run = Callable[..., Any]

RESTARTS = int(os.environ.get("LOADWIRE_TEST_RUST_RESTARTS", "3"))
"""How often an engine restarts."""


def accepted(sequence: int, stat: LoadStatRev1) -> dict[str, object]:
    """The line of a good message."""
    values = {name: getattr(stat, name) for name in stat.__struct_fields__}
    return {
        "accept": {
            "revision": revision_of(stat),
            "sequence": str(sequence),
            "value": {name: None if v is None else str(v) for name, v in values.items()},
        }
    }


def refused(frames: Sequence[bytes]) -> dict[str, object]:
    """What this package finds wrong with a message, as the line of it has it."""
    with pytest.raises(WireError) as caught:
        parse_frames(frames)
    error = caught.value
    return {
        "reason": error.reason.value,
        "rule": error.rule,
        "element": error.element,
        "frame": error.frame,
    }


def published(sequence: int, revision: int = LATEST, rank: int = 0) -> LoadStatRev1:
    """What the Rust publisher says in its message of that number."""
    values = {
        "num_running_reqs": sequence,
        "num_waiting_reqs": 130,
        "num_tokens": 40_000,
        "max_total_num_tokens": 1_000_000,
        "attn_dp_rank": rank,
        "num_waiting_uncached_tokens": 300,
        "num_total_tokens": 70_000,
        "max_running_requests": 2048,
        "total_prefill_uncached_tokens": 5_000_000_000,
        "total_prefill_busy_us": 9_876_543_210_123,
    }
    kind = REVISIONS[revision]
    return kind(**{name: values[name] for name in kind.__struct_fields__})


def test_a_python_publisher_is_heard(run_rust: Run, make_reading: Run) -> None:
    """Every message of a Python publisher is read by the Rust listener, which ends as asked."""
    with LivePublisher() as publisher:
        listener = run_rust("listen", publisher.endpoint, "--count", 20)
        publisher.wait_for_subscribers()
        readings = [make_reading(running) for running in range(20)]
        for reading in readings:
            publisher.publish(reading)
        for sequence, reading in enumerate(readings):
            assert accepted(sequence, reading) == listener.next()
        assert (0, "") == listener.end()


def test_an_older_reader(run_rust: Run, reading: LoadStatRev2) -> None:
    """A listener of revision 1 reads what it knows of a newer engine."""
    with LivePublisher() as publisher:
        listener = run_rust("listen", publisher.endpoint, "--revision", 1)
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        known = {name: getattr(reading, name) for name in LoadStatRev1.__struct_fields__}
        assert accepted(0, LoadStatRev1(**known)) == listener.next()


def test_hostile_messages_are_survived(run_rust: Run, make_reading: Run) -> None:
    """Between good messages, every bad one is refused as Python refuses it, and all are heard."""
    hostile = [frames for frames in bad_messages() if frames[0].startswith(TOPIC)]
    with LivePublisher() as publisher:
        listener = run_rust("listen", publisher.endpoint)
        publisher.wait_for_subscribers()
        for number, frames in enumerate(hostile):
            publisher.send_raw(frames)
            publisher.publish(make_reading(number))
            line = listener.next()
            expected = refused(frames)
            assert expected == {key: line["reject"][key] for key in expected}
            assert f"(rule {expected['rule']})" in line["why"]
            assert [frame.hex() for frame in frames] == line["frames"]
            assert accepted(number, make_reading(number)) == listener.next()
    assert len(hostile) > 400


def test_a_restarted_python_publisher_is_heard_again(run_rust: Run, make_reading: Run) -> None:
    """An engine that comes back on the same port is heard without help, from sequence 0 (C7)."""
    with LivePublisher() as publisher:
        listener = run_rust("listen", publisher.endpoint, "--count", RESTARTS + 1)
        for run in range(RESTARTS + 1):
            if run:
                publisher.restart()
            publisher.wait_for_subscribers()
            publisher.publish(make_reading(run))
            assert accepted(0, make_reading(run)) == listener.next()
        assert (0, "") == listener.end()


def test_a_listener_may_come_first(run_rust: Run, reading: LoadStatRev2) -> None:
    """A listener waits for an engine that is not there yet, and reads it when it is."""
    with LivePublisher() as publisher:
        port, endpoint = publisher.port, publisher.endpoint
    listener = run_rust("listen", endpoint)
    with LivePublisher(port=port) as publisher:
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        assert accepted(0, reading) == listener.next()


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3, b"", b"\xff" * 64])
def test_a_peer_that_is_no_publisher(run_rust: Run, reading: LoadStatRev2, greeting: bytes) -> None:
    """A listener on a port of something else tries again, and reads the engine that follows."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        port = server.getsockname()[1]
        listener = run_rust("listen", f"tcp://127.0.0.1:{port}")
        for _ in range(2):
            peer, _ = server.accept()
            with peer:
                peer.sendall(greeting)
    with LivePublisher(port=port) as publisher:
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        assert accepted(0, reading) == listener.next()


def test_nothing_heard_is_told(run_rust: Run) -> None:
    """A listener that hears nothing says whether anybody was there, and fails."""
    with LivePublisher() as publisher:
        endpoint = publisher.endpoint
        listener = run_rust("listen", endpoint, "--seconds", 0.5)
        publisher.wait_for_subscribers()
        connected = f"loadwire-check: connected to {endpoint}, and no message came"
        assert (1, connected) == listener.end()
    nobody = f"loadwire-check: nobody publishes at {endpoint}"
    assert (1, nobody) == run_rust("listen", endpoint, "--seconds", 0.1).end()


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_rust_publisher_is_heard(run_rust: Run, revision: int) -> None:
    """What the Rust publisher sends are an engine's bytes: framed, numbered and canonical."""
    options = ["--count", 20, "--interval", 0, "--subscribers", 1]
    options += ["--revision", revision, "--rank", 3]
    publisher = run_rust("publish", "tcp://127.0.0.1:0", *options)
    with LiveSubscriber(str(publisher.next()["endpoint"])) as subscriber:
        for sequence in range(20):
            expected = build_frames(sequence, published(sequence, revision, 3))
            assert expected == subscriber.receive_frames()
            assert {"sent": str(sequence)} == publisher.next()
        assert (0, "") == publisher.end()


def test_a_restarted_rust_publisher_is_heard_again(run_rust: Run) -> None:
    """A Rust engine that comes back on the same port is heard without help, from sequence 0."""
    endpoint = "tcp://127.0.0.1:0"
    publisher = run_rust("publish", endpoint, "--subscribers", 1)
    endpoint = str(publisher.next()["endpoint"])
    with LiveSubscriber(endpoint) as subscriber:
        for run in range(RESTARTS + 1):
            if run:
                publisher.program.kill()
                publisher = run_rust("publish", endpoint, "--subscribers", 1)
                assert {"endpoint": endpoint} == publisher.next()
            # The second one may be a message of the killed engine that was under way.
            assert (0, published(0)) == subscriber.receive(20)


def test_rust_hears_rust(run_rust: Run) -> None:
    """Both ends in Rust, with a subscriber in Python beside the other."""
    publisher = run_rust(
        "publish", "tcp://127.0.0.1:0", "--subscribers", 2, "--count", 5, "--interval", 0
    )
    endpoint = str(publisher.next()["endpoint"])
    listener = run_rust("listen", endpoint, "--count", 5)
    with LiveSubscriber(endpoint) as subscriber:
        for sequence in range(5):
            assert (sequence, published(sequence)) == subscriber.receive(20)
            assert accepted(sequence, published(sequence)) == listener.next()


def test_ipv6(ipv6_loopback: None, run_rust: Run, reading: LoadStatRev2) -> None:
    """A bracketed IPv6 host works in both directions."""
    with LivePublisher("[::1]") as publisher:
        listener = run_rust("listen", publisher.endpoint)
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        assert accepted(0, reading) == listener.next()
    rust = run_rust("publish", "tcp://[::1]:0", "--subscribers", 1)
    with LiveSubscriber(str(rust.next()["endpoint"])) as subscriber:
        assert (0, published(0)) == subscriber.receive(20)


def test_too_few_subscribers_are_told(run_rust: Run) -> None:
    """A publisher that waits for subscribers in vain says so, and fails; other topics are none."""
    publisher = run_rust("publish", "tcp://127.0.0.1:0", "--subscribers", 1, "--seconds", 0.5)
    endpoint = str(publisher.next()["endpoint"])
    with LiveSubscriber(endpoint, topic=b"kv"):
        told = f"loadwire-check: fewer than 1 subscriber(s) came to {endpoint}"
        assert (1, told) == publisher.end()


def test_a_port_that_is_taken_is_told(run_rust: Run) -> None:
    """A publisher that cannot bind says which address, and fails."""
    with LivePublisher() as publisher:
        status, said = run_rust("publish", publisher.endpoint).end()
        assert status == 2
        assert publisher.endpoint in said
