"""Endpoints as libzmq splits them."""

from __future__ import annotations

import pytest

from pytest_loadwire.harness.endpoint import ZmqAddress

# endpoint; host, port, and the loopback endpoint that stands for it
SPLIT = [
    ("tcp://*:5558", "*", 5558, "tcp://127.0.0.1:*"),
    ("tcp://*:*", "*", 0, "tcp://127.0.0.1:*"),
    ("tcp://0.0.0.0:5558", "0.0.0.0", 5558, "tcp://127.0.0.1:*"),  # noqa: S104
    ("tcp://localhost:5558", "localhost", 5558, "tcp://127.0.0.1:*"),
    ("tcp://[::]:5558", "[::]", 5558, "tcp://[::1]:*"),
    ("tcp://[::1]:5558", "[::1]", 5558, "tcp://[::1]:*"),
    ("tcp://10.0.0.5:5558", "10.0.0.5", 5558, None),
    ("tcp://[2001:db8::5]:5558", "[2001:db8::5]", 5558, None),
    ("tcp://eth0:5558", "eth0", 5558, None),
]

NO_ADDRESS = ["tcp://*", "tcp://:5558", "tcp://*:x", "tcp://::1:5558", "ipc:///x", "*:5558", ""]


@pytest.mark.parametrize(("endpoint", "host", "port", "loopback"), SPLIT)
def test_an_address_is_split(endpoint: str, host: str, port: int, loopback: str | None) -> None:
    """Host and port come apart, and only a wildcard or loopback host has a stand-in."""
    address = ZmqAddress.parse(endpoint)
    assert address == ZmqAddress(host, port)
    assert address.loopback == loopback
    assert address.is_ipv6 == host.startswith("[")


@pytest.mark.parametrize("endpoint", NO_ADDRESS)
def test_what_is_no_address(endpoint: str) -> None:
    """What libzmq would not take as tcp is no address."""
    assert ZmqAddress.parse(endpoint) is None
