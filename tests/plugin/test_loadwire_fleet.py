"""The fixture loadwire_fleet."""

from __future__ import annotations

import pytest


def test_fake_engines_are_made_and_closed(repo: pytest.Pytester) -> None:
    """The fixture makes fleets, with the timeout of the run, and closes them at the end."""
    repo.makepyfile(
        """
        from urllib.request import urlopen

        MADE = []

        def test_fleet(loadwire_fleet, make_loadwire_subscriber):
            MADE[:] = loadwire_fleet("ramp", workers=2, ranks=2), loadwire_fleet()
            fleet, other = MADE
            assert (len(fleet.urls), len(other.urls)) == (2, 1)
            assert fleet.timeout == 3
            assert urlopen(fleet.urls[1] + "/health").status == 200
            subscriber = make_loadwire_subscriber(f"tcp://127.0.0.1:{fleet.engines[1].base + 1}")
            fleet.engines[1].wait_for_subscribers(rank=1)
            fleet.step()
            fleet.step()
            assert [subscriber.receive().stat.num_running_reqs for _ in range(2)] == [0, 1]

        def test_closed():
            assert [fleet.closed for fleet in MADE] == [True, True]
        """
    )
    result = repo.runpytest("-W", "error", "--loadwire-timeout=3")
    result.assert_outcomes(passed=2)


def test_a_subscriber_left_open_is_a_leak(repo: pytest.Pytester) -> None:
    """A router that a test does not close is named, as any socket is."""
    repo.makepyfile(
        """
        import zmq

        def test_leak(loadwire_fleet):
            fleet = loadwire_fleet()
            router = zmq.Context.instance().socket(zmq.SUB)
            router.connect(f"tcp://127.0.0.1:{fleet.engines[0].base}")
        """
    )
    result = repo.runpytest("-W", "error")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*a SUB socket, *, opened at *:5, was left open*"])
