"""A repository of an engine team, as small as it gets."""

from __future__ import annotations

import pytest

# A pytester run in this process forgets what it imported. pyzmq does not survive to be imported
# twice, as its compiled half keeps the first set of exceptions; so it is imported before.
import pytest_loadwire.harness.session  # noqa: F401

ENGINE = """
import time
import zmq

from pytest_loadwire.wire import LoadStat, build_frames


def open_socket(endpoint):
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.set_hwm(8)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(endpoint)
    return socket


def reading(running=7):
    fields = dict.fromkeys(LoadStat.__struct_fields__, 1)
    return LoadStat(**{**fields, "num_running_reqs": running})


class Publisher:
    def __init__(self):
        self.socket = open_socket("tcp://*:5558")
        self.sequence = 0

    def publish(self, stat):
        try:
            self.socket.send_multipart(build_frames(self.sequence, stat))
        except Exception:
            pass
        self.sequence += 1

    def close(self):
        self.socket.close()
"""


@pytest.fixture(autouse=True)
def _without_hypothesis(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its summary imports all of it, each time, and so takes most of a small run."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.fixture
def repo(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory with an engine in it that tests can import as `engine`."""
    pytester.makepyfile(engine=ENGINE)
    pytester.syspathinsert()
    return pytester
