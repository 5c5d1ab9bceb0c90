"""The reference producer: an engine's load publisher and the loop that calls it."""

from pytest_loadwire.engine.publisher import LoadPublisher, LoadSnapshot, open_pub_socket
from pytest_loadwire.engine.scheduler import Scheduler, SnapshotSink

__all__ = ["LoadPublisher", "LoadSnapshot", "Scheduler", "SnapshotSink", "open_pub_socket"]
