"""A seam in an engine. Every test that takes `mode` runs on a stub and on a live socket."""

# ruff: noqa: PT012, SIM117
# The blocks under test are context managers.

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from types import ModuleType

import pytest
import zmq

from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.errors import LoadwireError, WireError
from pytest_loadwire.harness.capture import Capture
from pytest_loadwire.harness.hygiene import LeakError
from pytest_loadwire.harness.live import _Ear
from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber
from pytest_loadwire.harness.target import TargetError
from pytest_loadwire.rules import Reason
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, build_frames

SHORT = 0.05
OPENER = "toy_engine.open_socket"

# What an engine binds, and the options of rule K1 for it.
BINDS = [
    ("tcp://*:5558", [("SNDHWM", 8), ("RCVHWM", 8), ("LINGER", 0)]),
    ("tcp://0.0.0.0:5558", [("SNDHWM", 8), ("RCVHWM", 8), ("LINGER", 0)]),
    ("tcp://127.0.0.1:5558", [("SNDHWM", 8), ("RCVHWM", 8), ("LINGER", 0)]),
    ("tcp://[::]:5558", [("SNDHWM", 8), ("RCVHWM", 8), ("LINGER", 0), ("IPV6", 1)]),
]

# Where the function that opens the socket may live, and how an engine then opens it.
PLACES: list[tuple[str, Callable[[ModuleType], object]]] = [
    (OPENER, lambda engine: engine.Publisher()),
    ("toy_engine.Publisher.open", lambda engine: engine.Publisher()),
    ("toy_engine.Publisher.__init__", lambda engine: engine.Publisher()),
    ("toy_engine.Child.open", lambda engine: engine.Child()),
    (
        "toy_engine.Publisher.open_static",
        lambda engine: engine.Publisher(opener=engine.Publisher.open_static),
    ),
    (
        "toy_engine.Publisher.open_class",
        lambda engine: engine.Publisher(opener=engine.Publisher.open_class),
    ),
]

# A path that cannot be captured, and what the error says.
NOT_CAPTURABLE = [
    ("open_socket", "is no dotted path"),
    ("toy_engine.", "is no dotted path"),
    ("no_such_engine.open", "there is no module 'no_such_engine'"),
    ("toy_engine.no_such", "'toy_engine' has no 'no_such'"),
    ("toy_engine.Publisher.no_such", r"'toy_engine\.Publisher' has no 'no_such'"),
    ("toy_engine.no_such.open", "'toy_engine' has no 'no_such'"),
    ("toy_engine.Publisher", r"is a class; .* 'toy_engine\.Publisher\.__init__'"),
    ("toy_engine.LOG", "is no function"),
    ("toy_engine.open_async", "is async"),
]


@pytest.mark.parametrize(("endpoint", "options"), BINDS)
def test_options_binds_messages_and_close_are_recorded(
    engine: ModuleType,
    mode: str,
    reading: LoadStatRev2,
    endpoint: str,
    options: list[tuple[str, object]],
    request: pytest.FixtureRequest,
) -> None:
    """What an engine does with its socket is written down the same in both modes."""
    if mode == "live" and "[" in endpoint:
        request.getfixturevalue("ipv6_loopback")
    with Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher(endpoint)
        publisher.publish(reading)
        (record,) = capture.sockets
        assert record.kind == "PUB"
        assert record.options == options
        assert record.options_at_bind == len(options)
        assert record.option == dict(options)
        assert record.bind_calls == [endpoint]
        assert record.messages == [build_frames(0, reading)] == capture.frames
        assert not record.closed
        publisher.close()
        assert record.closed
        assert not publisher.errors


def test_messages_are_received_in_order_and_once(
    engine: ModuleType, mode: str, make_reading: Callable[..., LoadStatRev2]
) -> None:
    """Receiving hands each message out once, in order, and never loses one to the mark of 8."""
    with Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher()
        for running in range(200):
            publisher.publish(make_reading(running))
        received = capture.receive(199) + capture.receive()
        assert [(n, make_reading(n)) for n in range(200)] == received
        assert len(capture.frames) == 200
        publisher.close()


def test_frame_by_frame_sending_is_one_message(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """Three sends with SNDMORE, of any kind of buffer, are one message."""
    with Capture(OPENER, mode=mode) as capture:
        socket = engine.open_socket("tcp://*:5558")
        topic, number, payload = build_frames(7, reading)
        socket.send_string(topic.decode(), zmq.SNDMORE)
        socket.send(memoryview(number), flags=zmq.SNDMORE, copy=False)
        assert capture.frames == []
        socket.send(zmq.Frame(payload))
        assert capture.receive() == [(7, reading)]
        socket.close()


@pytest.mark.parametrize(("target", "build"), PLACES, ids=[target for target, _ in PLACES])
def test_any_function_or_method_can_be_the_opener(
    engine: ModuleType,
    mode: str,
    reading: LoadStatRev2,
    target: str,
    build: Callable[[ModuleType], object],
) -> None:
    """Functions, methods, static and class methods, inherited or not, are captured and restored."""
    classes = (engine, engine.Publisher, engine.Child)
    before = [dict(vars(owner)) for owner in classes]
    with Capture(target, mode=mode) as capture:
        publisher = build(engine)
        publisher.publish(reading)  # type: ignore[attr-defined]
        assert capture.receive() == [(0, reading)]
        publisher.close()  # type: ignore[attr-defined]
        assert publisher.errors == []  # type: ignore[attr-defined]
    assert before == [dict(vars(owner)) for owner in classes]


@pytest.mark.parametrize(("target", "message"), NOT_CAPTURABLE)
def test_a_path_that_cannot_be_captured(engine: ModuleType, target: str, message: str) -> None:
    """A path that leads nowhere, or to no ordinary function, is refused with the reason."""
    with pytest.raises(TargetError, match=message):
        Capture(target)


def test_a_function_is_captured_once(engine: ModuleType) -> None:
    """A second capture of the same function is refused, and the first one goes on."""
    with Capture(OPENER) as capture:
        with pytest.raises(TargetError, match="is captured already"):
            Capture(OPENER)
        engine.Publisher().close()
        assert len(capture.sockets) == 1


def test_an_import_that_fails_for_its_own_reason_says_so(
    load_module: Callable[..., ModuleType],
) -> None:
    """A module that misses an import of its own is not reported as missing."""
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        load_module("import no_such_dependency", "broken_engine")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        Capture("broken_engine.open_socket")


def test_an_unknown_mode_is_refused() -> None:
    """A mode that does not exist is an error that lists those that do."""
    with pytest.raises(ValueError, match="one of stub, live, not 'dead'"):
        Capture(OPENER, mode="dead")


def test_a_bind_can_be_made_to_fail(engine: ModuleType, mode: str) -> None:
    """An injected bind failure reaches the engine, which closes its socket (rule K3)."""
    with Capture(OPENER, mode=mode) as capture:
        capture.fail_bind()
        refused = engine.Publisher()
        assert refused.errors[0].errno == errno.EADDRINUSE
        accepted = engine.Publisher()
        assert [(r.closed, r.bind_calls) for r in capture.sockets] == [
            (True, ["tcp://*:5558"]),
            (False, ["tcp://*:5558"]),
        ]
        accepted.close()


def test_sends_can_be_made_to_fail(engine: ModuleType, mode: str, reading: LoadStatRev2) -> None:
    """Injected send failures reach the engine, and only whole messages are let through."""
    with Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        error = RuntimeError("the wire is cut")
        capture.fail_send(error, times=2)
        for _ in range(3):
            publisher.publish(reading)
        assert publisher.errors == [error, error]
        assert [0, 3] == [message.sequence for message in capture.receive(2)]
        capture.fail_send()
        publisher.publish(reading)
        assert isinstance(publisher.errors[-1], zmq.ZMQError)
        publisher.close()


def test_two_sockets_on_one_port_are_refused(engine: ModuleType, mode: str) -> None:
    """A second bind of a port is EADDRINUSE whatever the hosts, until the first is closed."""
    with Capture(OPENER, mode=mode) as capture:
        first = engine.Publisher("tcp://*:5558")
        second = engine.Publisher("tcp://[::]:5558")
        assert [error.errno for error in second.errors] == [errno.EADDRINUSE]
        other = engine.Publisher("tcp://*:5559")
        first.close()
        third = engine.Publisher("tcp://0.0.0.0:5558")
        assert not other.errors + third.errors
        assert [True, True, False, False] == [record.closed for record in capture.sockets]
        other.close()
        third.close()


def test_the_port_of_an_engine_is_never_bound_for_real(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """A port that somebody else holds, as a parallel test run might, does not matter."""
    with LivePublisher() as neighbour, Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher(f"tcp://*:{neighbour.port}")
        publisher.publish(reading)
        assert capture.sockets[0].endpoint != neighbour.endpoint
        assert capture.receive() == [(0, reading)]
        publisher.close()


def test_a_router_can_be_attached_to_a_live_capture(
    engine: ModuleType, reading: LoadStatRev2
) -> None:
    """The endpoint of a live capture is one that any subscriber can connect to."""
    with Capture(OPENER, mode="live") as capture:
        publisher = engine.Publisher()
        endpoint = capture.sockets[0].endpoint
        assert endpoint is not None
        with LiveSubscriber(endpoint, timeout=SHORT) as router:
            for _ in range(100):
                publisher.publish(reading)
                try:
                    assert router.receive().stat == reading
                    break
                except DeadlineError:
                    continue
            else:
                pytest.fail("no message reached the router")
        publisher.close()


def test_a_stub_has_no_endpoint(engine: ModuleType) -> None:
    """A stub opens no zmq socket, and there is nothing to connect to."""
    with Capture(OPENER) as capture:
        publisher = engine.Publisher()
        assert not isinstance(publisher.socket, zmq.Socket)
        assert capture.sockets[0].endpoint is None
        publisher.close()


def test_an_engine_that_leaves_its_socket_open_is_named(engine: ModuleType, mode: str) -> None:
    """An open socket at the end is an error with its endpoint and its line, and is closed (K4)."""
    with pytest.raises(LeakError) as caught, Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher()
        (record,) = capture.sockets
    assert str(caught.value) == (
        f"a PUB socket, bound to tcp://*:5558, opened at {record.opened_at}, was left open"
    )
    filename, _, line = record.opened_at.rpartition(":")
    assert filename.endswith("toy_engine.py")
    with open(filename, encoding="utf-8") as source:
        assert "# opened here" in source.readlines()[int(line) - 1]
    assert publisher.socket.closed


def test_a_failing_test_is_not_buried_under_its_leak(engine: ModuleType, mode: str) -> None:
    """An error that leaves the block comes out as it is, with the function restored."""
    before = engine.open_socket
    with pytest.raises(ZeroDivisionError), Capture(OPENER, mode=mode):
        engine.Publisher()
        _ = 1 / 0
    assert engine.open_socket is before


def test_a_target_that_somebody_else_replaced_stays_theirs(
    engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finishing does not undo what another patch has put over ours since."""
    with Capture(OPENER):
        monkeypatch.setattr(engine, "open_socket", print)
    assert engine.open_socket is print


def test_an_opener_that_opens_something_else_is_an_error(engine: ModuleType, mode: str) -> None:
    """A function that returns what is no PUB socket of ours is named, also if the error is lost."""
    with pytest.raises(LoadwireError, match=r"toy_engine\.open_push returned .* PUB"):
        with Capture("toy_engine.open_push", mode=mode):
            publisher = engine.Publisher(opener=engine.open_push)
            assert publisher.errors


def test_a_socket_under_a_running_thread_is_left_alone(engine: ModuleType) -> None:
    """A live socket that a thread of the engine may still use is named and not closed."""
    stop = threading.Event()
    capture = Capture(OPENER, mode="live")
    publisher = engine.Publisher()
    thread = threading.Thread(target=stop.wait, args=(10,), name="engine-publish")
    thread.start()
    try:
        (leak,) = capture.finish()
        assert not publisher.socket.closed
    finally:
        stop.set()
        thread.join(5)
    assert leak.endswith("was left open; it stays so, as engine-publish still runs and may use it")
    assert len(capture.finish()) == 1
    assert publisher.socket.closed


def test_an_asyncio_socket_is_an_error(engine: ModuleType, mode: str) -> None:
    """An opener on a zmq.asyncio.Context is named, also if the engine swallows the error."""
    with pytest.raises(LoadwireError, match="asyncio"):
        with Capture("toy_engine.open_on_asyncio", mode=mode) as capture:
            engine.Publisher(opener=engine.open_on_asyncio)
            with pytest.raises(LoadwireError, match="asyncio"):
                _ = capture.sockets
            engine.Publisher(opener=engine.open_on_asyncio)


def test_an_opener_that_returns_an_awaitable_is_an_error(engine: ModuleType) -> None:
    """A plain function that hands out a coroutine is named as async."""

    def open_lazily(endpoint: str) -> object:
        return engine.open_async(endpoint)

    engine.open_lazily = open_lazily
    with pytest.raises(TargetError, match="is async"), Capture("toy_engine.open_lazily"):
        engine.Publisher(opener=engine.open_lazily)


def test_a_message_that_does_not_come_says_why(engine: ModuleType, mode: str) -> None:
    """A time-out says whether the function was never called, or called and opened nothing."""
    with Capture(OPENER, mode=mode) as capture:
        with pytest.raises(DeadlineError, match=r"open_socket was never called\. Is that the name"):
            capture.receive(timeout=SHORT)
        publisher = engine.Publisher()
        with pytest.raises(DeadlineError, match=r"waited 0\.05 s for 1 message\(s\), and 0 came$"):
            capture.receive(timeout=SHORT)
        publisher.close()
    engine.open_nothing = lambda endpoint: None
    with Capture("toy_engine.open_nothing", mode=mode) as capture:
        engine.Publisher(opener=engine.open_nothing)
        assert capture.sockets == []
        with pytest.raises(
            DeadlineError, match=r"was called 1 time\(s\) and asked no zmq\.Context"
        ):
            capture.receive(timeout=SHORT)


def test_too_few_messages_are_shown(engine: ModuleType, mode: str, reading: LoadStatRev2) -> None:
    """A time-out shows the messages that did come, and they can still be received."""
    with Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        with pytest.raises(
            DeadlineError, match=r"for 2 .* 1 came\n  3 frame\(s\) \[b'load', 0{16}"
        ):
            capture.receive(2, timeout=SHORT)
        assert capture.receive() == [(0, reading)]
        publisher.close()


def test_a_bad_message_is_refused_by_rule(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """Receiving what breaks the contract raises its reason, once; its frames can be looked at."""
    with Capture(OPENER, mode=mode) as capture:
        socket = engine.open_socket("tcp://*:5558")
        socket.send_multipart([b"load", b"\0" * 8])
        with pytest.raises(WireError) as caught:
            capture.receive()
        assert caught.value.reason == Reason.FRAME_COUNT
        assert capture.frames == [(b"load", b"\0" * 8)]
        socket.send_multipart(build_frames(1, reading))
        assert capture.receive() == [(1, reading)]
        socket.close()


def test_a_revision_can_be_chosen(engine: ModuleType, mode: str, reading: LoadStatRev2) -> None:
    """A capture reads with the revision that it was told."""
    with Capture(OPENER, mode=mode, revision=1) as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        (message,) = capture.receive()
        assert type(message.stat) is LoadStatRev1
        publisher.close()


def test_an_engine_that_publishes_in_a_thread_is_waited_for(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """Receiving waits for messages that another thread sends."""
    with Capture(OPENER, mode=mode) as capture:
        publisher = engine.Publisher()
        go = threading.Event()

        def run() -> None:
            go.wait(5)
            publisher.publish(reading)

        thread = threading.Thread(target=run)
        thread.start()
        go.set()
        assert capture.receive() == [(0, reading)]
        thread.join(5)
        publisher.close()


def test_only_the_openers_own_sockets_are_diverted(engine: ModuleType, mode: str) -> None:
    """Sockets that are opened elsewhere, or meanwhile in another thread, are pyzmq's own."""
    seen: list[type] = []

    def open_elsewhere() -> None:
        with zmq.Context() as context, context.socket(zmq.PUB) as socket:
            seen.append(type(socket))

    def open_beside(endpoint: str) -> object:
        thread = threading.Thread(target=open_elsewhere)
        thread.start()
        thread.join(5)
        return engine.open_socket(endpoint)

    engine.open_beside = open_beside
    real = zmq.Context.socket
    with Capture("toy_engine.open_beside", mode=mode) as capture:
        publisher = engine.Publisher(opener=engine.open_beside)
        open_elsewhere()
        assert seen == [zmq.Socket, zmq.Socket]
        assert len(capture.sockets) == 1
        publisher.close()
    assert zmq.Context.socket is real


def test_options_of_the_context_count(engine: ModuleType, mode: str) -> None:
    """What a context sets on its sockets is recorded; what does not apply to a PUB is skipped."""
    with Capture("toy_engine.open_with_context_defaults", mode=mode) as capture:
        socket = engine.open_with_context_defaults("tcp://*:5558")
        assert capture.sockets[0].options == [("LINGER", 0)]
        socket.close()


def test_a_message_before_the_bind_is_an_error(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """A message that nobody can have received is not passed over in silence (rule K1)."""
    with pytest.raises(LoadwireError, match=r"sent a message though no bind has worked.*K1"):
        with Capture("toy_engine.open_unbound", mode=mode):
            publisher = engine.Publisher(opener=engine.open_unbound)
            publisher.publish(reading)
            publisher.close()


def test_a_message_after_a_refused_bind_is_an_error(
    engine: ModuleType, mode: str, reading: LoadStatRev2
) -> None:
    """An engine that goes on with a socket whose bind failed is caught (rule K3)."""
    with pytest.raises(LoadwireError, match=r"sent a message though no bind has worked.*K3"):
        with Capture("toy_engine.open_unbound", mode=mode) as capture:
            publisher = engine.Publisher(opener=engine.open_unbound)
            capture.fail_bind()
            with pytest.raises(zmq.ZMQError):
                publisher.socket.bind("tcp://*:5558")
            publisher.publish(reading)
            publisher.close()
    assert capture.frames == []


def test_a_load_socket_that_connects_is_an_error(engine: ModuleType, mode: str) -> None:
    """A connect is refused and reported, though the engine swallows the error (rule K1)."""
    with pytest.raises(LoadwireError, match=r"connects to 'tcp://127\.0\.0\.1:9'.*K1"):
        with Capture("toy_engine.open_connecting", mode=mode):
            engine.Publisher(opener=engine.open_connecting).close()


def test_conflate_is_caught_on_the_wire(engine: ModuleType, reading: LoadStatRev2) -> None:
    """A live socket that conflates loses frames, and the error says so (rule K2)."""
    with pytest.raises(LoadwireError, match=r"sets CONFLATE.*K2"):
        with Capture("toy_engine.open_conflating", mode="live", timeout=1) as capture:
            publisher = engine.Publisher(opener=engine.open_conflating)
            assert ("CONFLATE", 1) in capture.sockets[0].options
            publisher.publish(reading)
            publisher.close()


def test_a_barrier_that_fails_is_reported_at_the_end(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber that cannot be attached is an error that the engine's own except cannot hide."""
    monkeypatch.setattr(
        "pytest_loadwire.harness.live._Ear.hears_probe", lambda self, wait_ms: False
    )
    with pytest.raises(DeadlineError, match=r"no subscriber could be attached .* in 0\.05 s"):
        with Capture(OPENER, mode="live", timeout=SHORT):
            publisher = engine.Publisher()
            publisher.publish(reading)
            publisher.close()
    assert isinstance(publisher.errors[0], DeadlineError)


def test_a_probe_that_comes_late_is_no_message(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More probes than one may arrive on a slow machine, and none is taken for a message."""
    hears = _Ear.hears_probe
    seen: list[bool] = []

    def hears_the_second(ear: _Ear, wait_ms: int) -> bool:
        seen.append(bool(ear._socket.poll(1000)))
        return hears(ear, wait_ms) if any(seen[:-1]) else False

    monkeypatch.setattr(_Ear, "hears_probe", hears_the_second)
    with Capture(OPENER, mode="live") as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        assert capture.frames == [build_frames(0, reading)]
        publisher.close()


def test_probes_end_with_the_first_message(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the subscriber hears, no further probe goes out to disturb other subscribers."""
    with Capture(OPENER, mode="live") as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        monkeypatch.setattr(_Ear, "hears_probe", lambda ear, wait_ms: pytest.fail("probed again"))
        publisher.publish(reading)
        assert len(capture.frames) == 2
        publisher.close()


def test_a_message_that_is_lost_is_reported(
    engine: ModuleType, reading: LoadStatRev2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that does not arrive is an error with its frames, raised where the test looks."""
    with Capture(OPENER, mode="live", timeout=SHORT) as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        monkeypatch.setattr("pytest_loadwire.harness.live._Ear.take", lambda self, deadline: None)
        publisher.publish(reading)
        with pytest.raises(DeadlineError, match=r"sent 3 frame\(s\) .* nothing arrived in 0\.05 s"):
            _ = capture.frames
        publisher.close()


def test_what_the_stub_does_not_know_is_reported(engine: ModuleType) -> None:
    """A call that the stub cannot honour is an error that the engine's own except cannot hide."""
    with pytest.raises(
        LoadwireError, match=r"has no send_json\(\); run this test with mode 'live'"
    ):
        with Capture(OPENER):
            publisher = engine.Publisher()
            with pytest.raises(AttributeError):
                publisher.socket.send_json({})
            publisher.close()


@pytest.mark.parametrize("run", range(20))
def test_the_first_message_of_a_live_engine_arrives(
    engine: ModuleType, reading: LoadStatRev2, run: int
) -> None:
    """The first message that an engine sends, right after its bind, is never lost."""
    with Capture(OPENER, mode="live") as capture:
        publisher = engine.Publisher()
        publisher.publish(reading)
        assert capture.receive() == [(0, reading)]
        publisher.close()
