"""The fixture loadwire_capture."""

from __future__ import annotations

import pytest

TEST = """
import engine
import pytest

def test_publish(loadwire_capture):
    capture = loadwire_capture("engine.open_socket")
    publisher = engine.Publisher()
    publisher.publish(engine.reading())
    assert capture.receive() == [(0, engine.reading())]
    assert capture.sockets[0].bind_calls == ["tcp://*:5558"]
    assert capture.sockets[0].options == [("SNDHWM", 8), ("RCVHWM", 8), ("LINGER", 0)]
    publisher.close()
    assert capture.sockets[0].closed

def test_afterwards():
    assert engine.open_socket.__module__ == "engine"
    assert not hasattr(engine.open_socket, "__wrapped__")
"""


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_the_same_test_runs_in_both_modes(repo: pytest.Pytester, mode: str) -> None:
    """A test of an engine passes on a stub and on a live socket, and the engine is put back."""
    repo.makepyfile(TEST)
    repo.runpytest("-W", "error", f"--loadwire-socket={mode}").assert_outcomes(passed=2)


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_an_error_that_the_engine_swallows_fails_the_test(repo: pytest.Pytester, mode: str) -> None:
    """What goes wrong in the harness comes out at the end though nobody looked."""
    repo.makepyfile(
        """
        import engine

        def test_connect(loadwire_capture):
            loadwire_capture("engine.open_socket")
            publisher = engine.Publisher()
            try:
                publisher.socket.connect("tcp://127.0.0.1:9")
            except Exception:
                pass
            publisher.close()
        """
    )
    result = repo.runpytest(f"--loadwire-socket={mode}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["loadwire: LoadwireError: *connects to*(rule K1)"])
