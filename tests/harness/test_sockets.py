"""Both ends of a live load socket."""

# ruff: noqa: PT012, SIM117
# The blocks under test are context managers.

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.errors import LoadwireError, WireError
from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber
from pytest_loadwire.rules import Reason
from pytest_loadwire.wire import LoadStatRev2, build_frames

SHORT = 0.05

# What a subscriber subscribes to, and whether `load` is among what it gets.
SUBSCRIPTIONS = [
    (b"load", True),
    (b"lo", True),
    (b"", True),
    (b"loadx", False),
    (b"Load", False),
    (b"kv", False),
]

# The frames of a message that a router refuses, and the reason.
REFUSED = [
    ([b"load", b"\0" * 8], Reason.FRAME_COUNT),
    ([b"loadx", b"\0" * 8, b"\x80"], Reason.BAD_TOPIC),
    ([b"load", b"\0" * 7, b"\x80"], Reason.BAD_SEQ_LENGTH),
    ([b"load", b"\xff" * 8, b"\x80"], Reason.NEGATIVE_SEQ),
    ([b"load", b"\0" * 8, b""], Reason.TRUNCATED),
]

PUBLISHES = int(os.environ.get("LOADWIRE_TEST_PUBLISHES", "100"))
"""How often the first message of a publisher is received."""

PUBLISHERS = int(os.environ.get("LOADWIRE_TEST_PUBLISHERS", "2000"))


@pytest.mark.parametrize("run", range(PUBLISHES))
def test_the_first_message_arrives(run: int, reading: LoadStatRev2) -> None:
    """A message published right after the barrier is received, every time."""
    with LivePublisher() as publisher, LiveSubscriber(publisher.endpoint) as subscriber:
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        assert (0, reading) == subscriber.receive()


def test_a_subscriber_of_a_publisher_needs_no_barrier(reading: LoadStatRev2) -> None:
    """A subscriber that is made for a publisher object misses nothing from then on."""
    with LivePublisher() as publisher:
        publisher.publish(reading)
        with LiveSubscriber(publisher) as subscriber:
            assert publisher.publish(reading) == 1
            assert subscriber.receive().sequence == 1


def test_the_bytes_are_those_of_an_engine(reading: LoadStatRev2) -> None:
    """What arrives is topic, sequence and payload, canonical and byte for byte."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        publisher.publish(reading)
        assert build_frames(0, reading) == subscriber.receive_frames()


def test_a_publisher_has_a_port_of_its_own() -> None:
    """Publishers never share a port, and say which one they have."""
    with LivePublisher() as one, LivePublisher() as other:
        assert one.port != other.port
        assert one.endpoint == f"tcp://127.0.0.1:{one.port}"
        assert f"tcp://127.0.0.1:{one.port}, next sequence 0" in repr(one)


def test_a_port_can_be_chosen(reading: LoadStatRev2) -> None:
    """A fixed port is bound as given, and one that is taken is an error that names it."""
    with LivePublisher() as first:
        port = first.port
        with pytest.raises(LoadwireError, match=rf"tcp://127.0.0.1:{port}: Address already in use"):
            LivePublisher(port=port)
    with LivePublisher(port=port) as second:
        assert second.port == port


def test_ipv6(ipv6_loopback: None, reading: LoadStatRev2) -> None:
    """A bracketed IPv6 host is bound and connected to like any other."""
    with LivePublisher("[::1]") as publisher, LiveSubscriber(publisher) as subscriber:
        assert publisher.endpoint == f"tcp://[::1]:{publisher.port}"
        publisher.publish(reading)
        assert subscriber.receive().stat == reading


@pytest.mark.parametrize(("topic", "counts"), SUBSCRIPTIONS)
def test_a_subscription_counts_if_it_covers_load(topic: bytes, counts: bool) -> None:
    """A subscription is counted when its prefix covers the topic, and no other is."""
    with LivePublisher() as publisher, LiveSubscriber(publisher, topic=topic):
        assert publisher.subscribers == int(counts)


def test_every_subscriber_of_one_topic_is_counted() -> None:
    """The second subscriber to the same topic is seen, and so is that one leaves."""
    with LivePublisher() as publisher:
        with LiveSubscriber(publisher), LiveSubscriber(publisher.endpoint):
            publisher.wait_for_subscribers(2)
        deadline_of_a_leave = [publisher.subscribers]
        while deadline_of_a_leave[-1] and publisher._socket._socket.poll(5000):
            deadline_of_a_leave.append(publisher.subscribers)
        assert deadline_of_a_leave[-1] == 0


def test_what_a_peer_sends_upstream_is_no_subscription() -> None:
    """A message that a subscriber sends to the publisher is not counted."""
    with LivePublisher() as publisher, zmq.Context() as context:
        with context.socket(zmq.XSUB) as peer:
            peer.linger = 0
            peer.connect(publisher.endpoint)
            peer.send(b"\x02load")
            peer.send_multipart([b"\x01load", b"more"])
            publisher.wait_for_subscribers(1)
            assert publisher.subscribers == 1


def test_a_barrier_says_what_came() -> None:
    """Waiting for more subscribers than come fails in time and says how many and what else came."""
    with LivePublisher() as publisher:
        with LiveSubscriber(publisher), LiveSubscriber(publisher, topic=b"kv"):
            with pytest.raises(TimeoutError) as caught:
                publisher.wait_for_subscribers(2, timeout=SHORT)
        assert str(caught.value) == (
            f"{publisher.endpoint}: waited 0.05 s for 2 subscription(s) that cover b'load', "
            "and 1 came; subscribed to something else: [b'kv']"
        )
        assert isinstance(caught.value, DeadlineError)


def test_a_burst_beyond_the_high_water_mark_arrives(
    make_reading: Callable[..., LoadStatRev2],
) -> None:
    """Far more messages than the high-water mark, sent at once, all arrive and in order."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        for running in range(300):
            publisher.publish(make_reading(running))
        assert [(n, n) for n in range(300)] == [
            (message.sequence, message.stat.num_running_reqs)
            for message in (subscriber.receive() for _ in range(300))
        ]


def test_a_publisher_that_sheds_drops_what_does_not_fit(reading: LoadStatRev2) -> None:
    """With `sheds`, a burst to a subscriber that does not read loses messages without a word."""
    with LivePublisher(sheds=True) as publisher, zmq.Context() as context:
        with context.socket(zmq.SUB) as deaf:
            deaf.set_hwm(1)
            deaf.rcvbuf = 4096
            deaf.subscribe(b"load")
            deaf.connect(publisher.endpoint)
            publisher.wait_for_subscribers()
            for _ in range(50_000):
                publisher.publish(reading)
            assert publisher.sequence == 50_000
            received = 0
            while deaf.poll(100):
                deaf.recv_multipart()
                received += 1
            assert 0 < received < 50_000


def test_a_subscriber_that_does_not_read_is_named(reading: LoadStatRev2) -> None:
    """Without `sheds`, a subscriber that never reads is an error; the message takes a number."""
    with LivePublisher(timeout=SHORT) as publisher, zmq.Context() as context:
        with context.socket(zmq.SUB) as deaf:
            deaf.set_hwm(1)
            deaf.rcvbuf = 4096
            deaf.subscribe(b"load")
            deaf.connect(publisher.endpoint)
            publisher.wait_for_subscribers(timeout=5)
            with pytest.raises(DeadlineError, match=r"no room for another in 0\.05 s"):
                for _ in range(1_000_000):
                    before = publisher.sequence
                    publisher.publish(reading)
            assert publisher.sequence == before + 1
            with pytest.raises(DeadlineError):
                publisher.send_raw([b"load" * 1_000_000] * 9)


def test_a_refused_reading_takes_no_number() -> None:
    """A reading that no engine may send is refused before it is numbered (rules S1, W5)."""
    with LivePublisher() as publisher:
        with pytest.raises(WireError):
            publisher.publish(LoadStatRev2(**dict.fromkeys(LoadStatRev2.__struct_fields__, -1)))
        assert publisher.sequence == 0


@pytest.mark.parametrize(("frames", "reason"), REFUSED, ids=[str(r.value) for _, r in REFUSED])
def test_a_bad_message_is_refused_with_its_bytes(frames: list[bytes], reason: Reason) -> None:
    """A message that breaks the contract raises its reason, and the traceback shows the frames."""
    with LivePublisher() as publisher, LiveSubscriber(publisher, topic=b"") as subscriber:
        publisher.send_raw(frames)
        with pytest.raises(WireError) as caught:
            subscriber.receive()
        assert caught.value.reason == reason
        (note,) = vars(caught.value)["__notes__"]
        assert note.startswith("frame 0 (topic)")
        assert publisher.sequence == 0


def test_raw_frames_arrive_as_they_are() -> None:
    """Whatever is sent raw is received raw, an empty frame included; no frame is an error."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        publisher.send_raw([b"load", b"", bytearray(b"x"), memoryview(b"y")])
        assert subscriber.receive_frames() == (b"load", b"", b"x", b"y")
        with pytest.raises(LoadwireError, match="at least one frame"):
            publisher.send_raw([])


def test_a_message_that_does_not_come_is_a_timeout(reading: LoadStatRev2) -> None:
    """Receiving gives up in time and says how many messages came before."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        publisher.publish(reading)
        subscriber.receive()
        with pytest.raises(TimeoutError, match=r"no message in 0\.05 s, after 1 earlier"):
            subscriber.receive(timeout=SHORT)


def test_silence_is_proven_without_waiting(reading: LoadStatRev2) -> None:
    """Silence holds when nothing is unread, fails when something is, and consumes that."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        subscriber.assert_silent(publisher)
        publisher.publish(reading)
        publisher.publish(reading)
        with pytest.raises(
            AssertionError,
            match=r"not silent: 2 message\(s\)\n  3 frame\(s\) \[b'load', 0{16}, 9ba8",
        ):
            subscriber.assert_silent(publisher)
        subscriber.assert_silent(publisher)
        publisher.publish(reading)
        assert subscriber.receive().sequence == 2
        with pytest.raises(DeadlineError, match="after 1 earlier"):
            subscriber.receive(timeout=SHORT)


def test_a_subscriber_of_a_publisher_knows_it(reading: LoadStatRev2) -> None:
    """Made for a publisher, a subscriber proves silence and joins without being told which."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        subscriber.assert_silent()
        publisher.restart()
        subscriber.join()
        publisher.publish(reading)
        with pytest.raises(AssertionError, match=r"not silent: 1 message\(s\)"):
            subscriber.assert_silent()


def test_a_subscriber_of_an_endpoint_has_to_be_told() -> None:
    """Made for a bare endpoint, a subscriber says that the publisher is to be named."""
    with LivePublisher() as publisher, LiveSubscriber(publisher.endpoint) as subscriber:
        for use in (subscriber.assert_silent, subscriber.join):
            with pytest.raises(LoadwireError, match="made from an endpoint: name the publisher"):
                use()
        subscriber.join(publisher)
        subscriber.assert_silent(publisher)


def test_a_barrier_behind_a_restart_says_who_has_to_join() -> None:
    """What a barrier says after a restart names the cure, and before one it does not."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        with pytest.raises(DeadlineError) as before:
            publisher.wait_for_subscribers(2, timeout=SHORT)
        publisher.restart()
        with pytest.raises(DeadlineError) as behind:
            publisher.wait_for_subscribers(2, timeout=SHORT)
        assert "restarted" not in str(before.value)
        assert str(behind.value).endswith(
            "; it was restarted: a LiveSubscriber has to join(publisher)"
        )
        subscriber.join()
        publisher.wait_for_subscribers()


def test_a_restart_is_a_new_engine_on_the_same_port(reading: LoadStatRev2) -> None:
    """After a restart the endpoint is the same, the sequence begins again, readers go on (C7)."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        endpoint = publisher.endpoint
        for _ in range(3):
            publisher.publish(reading)
            publisher.publish(reading)
            publisher.restart()
            assert (publisher.endpoint, publisher.sequence) == (endpoint, 0)
            subscriber.join(publisher)
        publisher.publish(reading)
        assert [0, 1] * 3 + [0] == [subscriber.receive().sequence for _ in range(7)]


def test_a_reader_in_a_thread_survives_a_restart(reading: LoadStatRev2) -> None:
    """A subscriber that reads all the time is subscribed again by itself after a restart."""
    with LivePublisher() as publisher, LiveSubscriber(publisher) as subscriber:
        received: list[int] = []

        def read() -> None:
            received.extend(subscriber.receive().sequence for _ in range(2))

        thread = threading.Thread(target=read)
        thread.start()
        publisher.publish(reading)
        publisher.restart()
        publisher.wait_for_subscribers()
        publisher.publish(reading)
        thread.join(5)
        assert not thread.is_alive()
        assert received == [0, 0]


def test_joining_has_a_deadline() -> None:
    """Joining a publisher that the subscriber is not connected to fails in time."""
    with LivePublisher() as one, LivePublisher() as other, LiveSubscriber(one) as subscriber:
        with pytest.raises(DeadlineError, match=r"did not arrive in 0\.05 s"):
            subscriber.join(other, timeout=SHORT)


def test_close_is_idempotent_and_final(reading: LoadStatRev2) -> None:
    """Both ends close as often as they like, and what is asked of them later is an error (K4)."""
    publisher = LivePublisher()
    subscriber = LiveSubscriber(publisher)
    for end in (subscriber, publisher):
        end.close()
        end.close()
        assert end.closed
        assert "closed" in repr(end)
    for use in (
        lambda: publisher.publish(reading),
        lambda: publisher.send_raw([b"x"]),
        publisher.wait_for_subscribers,
        publisher.restart,
        subscriber.receive,
        lambda: subscriber.join(publisher),
        lambda: subscriber.assert_silent(publisher),
    ):
        with pytest.raises(LoadwireError, match="is closed"):
            use()


def test_a_bad_endpoint_is_an_error() -> None:
    """A subscriber says what it cannot connect to, and leaves nothing open."""
    with pytest.raises(LoadwireError, match=r"cannot subscribe to 'tcp://\*:5558'"):
        LiveSubscriber("tcp://*:5558")


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout: float) -> None:
    """A wait without an end is refused."""
    with LivePublisher() as publisher, pytest.raises(ValueError, match="0 or more seconds"):
        publisher.wait_for_subscribers(timeout=timeout)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc to count descriptors in")
def test_no_descriptor_is_left_behind(reading: LoadStatRev2) -> None:
    """2,000 publishers, one in ten of them heard, leave no descriptor and no thread behind."""
    with LivePublisher() as publisher:
        publisher.publish(reading)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    threads = threading.active_count()
    for number in range(PUBLISHERS):
        with LivePublisher() as publisher:
            if number % 10 == 0:
                with LiveSubscriber(publisher) as subscriber:
                    publisher.publish(reading)
                    subscriber.receive()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert threading.active_count() == threads
