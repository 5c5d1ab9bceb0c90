"""The fixture make_loadwire_subscriber."""

from __future__ import annotations

import pytest


def test_a_bad_message_shows_its_bytes(repo: pytest.Pytester) -> None:
    """A message that breaks the contract fails the test by rule, with every byte annotated."""
    repo.makepyfile(
        """
        def test_bad(loadwire_publisher, make_loadwire_subscriber):
            router = make_loadwire_subscriber(loadwire_publisher)
            payload = b"\\x96\\xa8LoadStat\\x07\\xff\\x00\\x00\\xc0"
            loadwire_publisher.send_raw([b"load", bytes(8), payload])
            router.receive()
        """
    )
    result = repo.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*WireError: W5 out-of-range at frame 2, byte 11, element 2 (num_waiting_reqs)*",
            "E*frame 0 (topic)*",
            "E*10  07 * 1 num_running_reqs*",
            "E*11  ff * 2 num_waiting_reqs*",
        ]
    )


def test_an_engine_of_an_older_revision_is_read(repo: pytest.Pytester) -> None:
    """Options reach the subscriber, and it may be made for a bare endpoint."""
    repo.makepyfile(
        """
        import engine
        from pytest_loadwire.wire import LoadStatRev1

        def test_old(loadwire_publisher, make_loadwire_subscriber):
            router = make_loadwire_subscriber(loadwire_publisher.endpoint, revision=1, topic=b"l")
            loadwire_publisher.wait_for_subscribers()
            loadwire_publisher.publish(engine.reading())
            assert type(router.receive().stat) is LoadStatRev1
        """
    )
    repo.runpytest().assert_outcomes(passed=1)


def test_a_subscriber_of_a_publisher_needs_no_argument(repo: pytest.Pytester) -> None:
    """Made for a publisher, it proves silence and joins without being told which."""
    repo.makepyfile(
        """
        def test_silent(loadwire_publisher, make_loadwire_subscriber):
            router = make_loadwire_subscriber(loadwire_publisher)
            router.assert_silent()
            loadwire_publisher.restart()
            router.join()
        """
    )
    repo.runpytest().assert_outcomes(passed=1)


# What a test does last, and what it fails with. Before that a message of one frame is sent.
KIT_FAILS = [
    ("router.receive()", "WireError: F1 frame-count*"),
    ("make_loadwire_subscriber(loadwire_publisher).receive(timeout=0)", "DeadlineError: *"),
    ("router.receive_frames() and router.receive_frames(timeout=0)", "DeadlineError: *"),
    ("router.assert_silent()", "AssertionError: * is not silent*"),
    ("make_loadwire_subscriber('tcp://127.0.0.1:9').join()", "LoadwireError: *name the publisher"),
    ("make_loadwire_subscriber('tcp://*:1')", "LoadwireError: cannot subscribe to *"),
    ("loadwire_publisher.wait_for_subscribers(2, timeout=0)", "DeadlineError: *waited 0 s*"),
    ("loadwire_publisher.publish(engine.reading(-1))", "WireError: W5 out-of-range*"),
    ("loadwire_capture('engine.no_such')", "TargetError: *has no 'no_such'"),
    ("loadwire_capture('nobody.home')", "TargetError: *no module 'nobody'"),
    ("loadwire_capture(engine.open_socket)", "TargetError: a capture takes *, not a function"),
    ("loadwire_capture('engine.Publisher')", "TargetError: *is a class*"),
    ("loadwire_capture('engine.open_socket').receive(timeout=0)", "DeadlineError: waited 0 s *"),
    ("loadwire_clock.install('nobody')", "TargetError: there is no module 'nobody'"),
]


@pytest.mark.parametrize(("does", "says"), KIT_FAILS, ids=[does for does, _ in KIT_FAILS])
def test_the_traceback_ends_in_the_test(repo: pytest.Pytester, does: str, says: str) -> None:
    """A failure shows the line of the test that failed, and none of the kit's own."""
    repo.makepyfile(
        f"""
        import engine

        def test_fails(
            loadwire_publisher, make_loadwire_subscriber, loadwire_capture, loadwire_clock
        ):
            router = make_loadwire_subscriber(loadwire_publisher)
            loadwire_publisher.send_raw([b"load"])
            {does}
        """
    )
    result = repo.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">*{does}", f"E *{says}"])
    shown = result.stdout.str().partition("= FAILURES =")[2]
    assert "pytest_loadwire/" not in shown
    assert "During handling" not in shown
    assert "direct cause" not in shown
