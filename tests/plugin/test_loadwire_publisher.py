"""The fixture loadwire_publisher."""

from __future__ import annotations

import pytest


def test_a_router_is_tested_against_a_live_publisher(repo: pytest.Pytester) -> None:
    """A subscriber of the team's own receives what is published once the barrier has passed."""
    repo.makepyfile(
        """
        import engine
        import zmq
        from pytest_loadwire.wire import build_frames

        def test_receive(loadwire_publisher):
            with zmq.Context() as context, context.socket(zmq.SUB) as router:
                router.linger = 0
                router.subscribe(b"load")
                router.connect(loadwire_publisher.endpoint)
                loadwire_publisher.wait_for_subscribers()
                assert loadwire_publisher.publish(engine.reading()) == 0
                assert router.poll(5000)
                assert router.recv_multipart() == list(build_frames(0, engine.reading()))
        """
    )
    repo.runpytest("-W", "error").assert_outcomes(passed=1)


def test_each_test_has_its_own(repo: pytest.Pytester) -> None:
    """Two tests never share a publisher, and one that was closed by its test is no problem."""
    repo.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("run", range(2))
        def test_fresh(loadwire_publisher, run):
            assert loadwire_publisher.sequence == 0
            loadwire_publisher.send_raw([b"load"])
            loadwire_publisher.close()
        """
    )
    repo.runpytest().assert_outcomes(passed=2)
