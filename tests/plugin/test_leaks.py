"""What a test leaves open fails it, by name, and never hangs."""

from __future__ import annotations

import time

import pytest

LEAK = """
import engine
import zmq

def test_leak(loadwire_publisher):
    socket = zmq.Context.instance().socket(zmq.SUB)
    socket.connect(loadwire_publisher.endpoint)
"""


def test_a_leaking_test_fails_and_names_the_socket(repo: pytest.Pytester) -> None:
    """A test that leaves a socket open ends, in time, in an error with its endpoint and line."""
    path = repo.makepyfile(LEAK)
    begin = time.monotonic()
    result = repo.runpytest("--loadwire-timeout=5")
    assert time.monotonic() - begin < 60
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [f"loadwire: a SUB socket, tcp://127.0.0.1:*, opened at {path}:5, was left open"]
    )


def test_each_leaking_test_fails(repo: pytest.Pytester) -> None:
    """A leak fails its own test and no other, and the next leak is found as well."""
    repo.makepyfile(
        """
        import pytest
        import zmq

        @pytest.mark.parametrize("leaks", [True, False, True])
        def test_leak(loadwire_publisher, leaks):
            socket = zmq.Context.instance().socket(zmq.SUB)
            if not leaks:
                socket.close()
        """
    )
    result = repo.runpytest("-v")
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["*[[]True0] ERROR*", "*[[]False] PASSED*", "*[[]True1] ERROR*"])


def test_a_leaked_context_is_named(repo: pytest.Pytester) -> None:
    """A context of a test's own that is not terminated ends in an error with its line."""
    path = repo.makepyfile(
        """
        import zmq

        def test_leak(loadwire_publisher):
            zmq.Context()
        """
    )
    result = repo.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"loadwire: a zmq.Context, opened at {path}:4, was left open"])


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_an_engine_that_is_not_closed_is_named(repo: pytest.Pytester, mode: str) -> None:
    """An engine's socket that stays open is a leak in both modes (rule K4)."""
    repo.makepyfile(
        """
        import engine

        def test_leak(loadwire_capture):
            loadwire_capture("engine.open_socket")
            engine.Publisher()
        """
    )
    result = repo.runpytest(f"--loadwire-socket={mode}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["loadwire: a PUB socket, bound to tcp://[*]:5558, opened at *engine.py:8, was left open"]
    )


def test_a_failed_test_is_not_buried(repo: pytest.Pytester) -> None:
    """A test that fails before it can clean up fails once, for its own reason."""
    repo.makepyfile(LEAK + "    assert socket is None\n")
    result = repo.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*was left open*")


def test_what_another_fixture_closes_is_no_leak(repo: pytest.Pytester) -> None:
    """A socket that a fixture closes in its own teardown is fine, in any order of fixtures."""
    repo.makepyfile(
        """
        import engine
        import pytest
        import zmq

        @pytest.fixture
        def router():
            opened = []
            def connect(endpoint):
                opened.append(zmq.Context.instance().socket(zmq.SUB))
                opened[-1].connect(endpoint)
            yield connect
            for socket in opened:
                socket.close(linger=0)

        @pytest.fixture
        def make_engine():
            made = []
            def make():
                made.append(engine.Publisher())
            yield make
            for publisher in made:
                publisher.close()

        def test_before(router, loadwire_publisher):
            router(loadwire_publisher.endpoint)

        def test_behind(loadwire_publisher, router):
            router(loadwire_publisher.endpoint)

        def test_engine(make_engine, loadwire_capture):
            loadwire_capture("engine.open_socket")
            make_engine()
        """
    )
    repo.runpytest("-W", "error").assert_outcomes(passed=3)


def test_what_a_wider_fixture_owns_is_no_leak(repo: pytest.Pytester) -> None:
    """A socket that a module's fixture opened before the test is none of the test's business."""
    repo.makepyfile(
        """
        import pytest
        import zmq

        @pytest.fixture(scope="module")
        def socket():
            with zmq.Context() as context, context.socket(zmq.SUB) as socket:
                yield socket

        @pytest.mark.parametrize("run", range(2))
        def test_socket(socket, loadwire_publisher, run):
            socket.connect(loadwire_publisher.endpoint)
        """
    )
    repo.runpytest("-W", "error").assert_outcomes(passed=2)


def test_a_teardown_that_fails_leaves_nothing_behind(repo: pytest.Pytester) -> None:
    """When another fixture's teardown fails, that is the error; all is put back all the same."""
    repo.makepyfile(
        """
        import engine
        import pytest
        import zmq

        REAL = zmq.Context.socket

        @pytest.fixture
        def broken():
            yield
            raise RuntimeError("broken teardown")

        def test_leak(broken, loadwire_capture):
            loadwire_capture("engine.open_socket")
            engine.Publisher()

        def test_afterwards(loadwire_publisher):
            assert not hasattr(engine.open_socket, "__wrapped__")

        def test_unwatched():
            assert zmq.Context.socket is REAL
        """
    )
    result = repo.runpytest()
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["E *RuntimeError: broken teardown"])
    result.stdout.no_fnmatch_line("*was left open*")


def test_a_mark_allows_what_must_stay_open(repo: pytest.Pytester) -> None:
    """With its mark, a test may leave to a wider owner what it opened, and that stays open."""
    repo.makepyfile(
        """
        import pytest
        import zmq

        @pytest.fixture(scope="module")
        def connections():
            opened = []
            yield opened
            for socket in opened:
                socket.close(linger=0)

        @pytest.mark.loadwire_leaves_open("the module's router connects on demand")
        def test_connect(loadwire_publisher, connections):
            connections.append(zmq.Context.instance().socket(zmq.SUB))

        def test_later(connections):
            assert not connections[0].closed
        """
    )
    repo.runpytest("-W", "error", "--strict-markers").assert_outcomes(passed=2)


def test_a_fixture_asked_for_at_run_time_watches_from_then_on(repo: pytest.Pytester) -> None:
    """A live fixture that is only asked for within the test still finds what leaks after it."""
    repo.makepyfile(
        """
        import zmq

        def test_leak(request):
            before = zmq.Context.instance().socket(zmq.SUB)
            request.getfixturevalue("loadwire_publisher")
            zmq.Context.instance().socket(zmq.PULL)
            before.close()
        """
    )
    result = repo.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["loadwire: a PULL socket, *, opened at *:6, was left open"])


def test_tests_that_use_no_live_fixture_are_not_watched(repo: pytest.Pytester) -> None:
    """What other tests open is their own affair."""
    repo.makepyfile(
        """
        import zmq

        SOCKETS = []

        def test_open(loadwire_clock):
            SOCKETS.append(zmq.Context.instance().socket(zmq.SUB))

        def test_close():
            SOCKETS.pop().close()
        """
    )
    repo.runpytest("-W", "error").assert_outcomes(passed=2)
