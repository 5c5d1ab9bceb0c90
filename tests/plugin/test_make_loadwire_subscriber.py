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
