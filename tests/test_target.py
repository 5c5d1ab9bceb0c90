"""What names a target, and how one is told to write it."""

from __future__ import annotations

import pytest

from pytest_loadwire.target import Target, TargetError, parse_target

GOOD = [
    ("tcp://10.0.0.5:5558", "10.0.0.5", 5558, "tcp://10.0.0.5:5558"),
    ("tcp://[::1]:5558", "::1", 5558, "tcp://[::1]:5558"),
    ("tcp://worker-3.pod:1", "worker-3.pod", 1, "tcp://worker-3.pod:1"),
    ("http://10.0.0.5:30000", "10.0.0.5", 30000, "tcp://10.0.0.5:30000"),
    ("http://[fe80::1%25eth0]:30000", "fe80::1%eth0", 30000, "tcp://[fe80::1%eth0]:30000"),
    ("http://[2001:db8::5]:30000", "2001:db8::5", 30000, "tcp://[2001:db8::5]:30000"),
    ("https://h:443/prefix", "h", 443, "tcp://h:443"),
]

# What is typed, and what it is the same as.
ALIKE = [
    ("http://h:30000/", "http://h:30000"),
    ("http://h:30000//", "http://h:30000"),
    ("http://h:30000/server_info", "http://h:30000"),
    ("http://h:30000/server_info/", "http://h:30000"),
    ("http://h:30000/pool/7/server_info", "http://h:30000/pool/7"),
    ("https://[::1]:443/", "https://[::1]:443"),
]

# What is refused, and what the message says to write, or why.
BAD = [
    ("", "or is empty: write tcp://10.0.0.5:5558"),
    (" tcp://h:1", "blanks"),
    ("tcp://h:1\n", "blanks or control characters"),
    ("10.0.0.5:5558", "write tcp://10.0.0.5:5558 for one load socket, or http://10.0.0.5:5558"),
    ("::1:5558", r"write tcp://\[::1\]:5558"),
    ("localhost", "no scheme: write tcp://"),
    ("tcp://::1:5558", r"bare IPv6 address: write tcp://\[::1\]:5558"),
    ("tcp://2001:db8::5", r"without a port: write tcp://\[2001:db8::5\]:PORT"),
    ("http://::1:30000", r"bare IPv6 address: write http://\[::1\]:30000"),
    ("https://fe80::1", r"bare IPv6 address: write https://\[fe80::1\]:PORT"),
    ("tcp://host", "has no port: write tcp://"),
    ("tcp://host:0", "no number from 1 to 65535"),
    ("tcp://host:5_558", "no decimal port"),
    ("http://host", "has no port: write http://host:30000"),
    ("tcp://*:5558", r"wildcard host, .* write .* tcp://127\.0\.0\.1:5558"),
    ("tcp://0.0.0.0:5558", "bound and never dialled"),
    ("tcp://[::]:5558", "bound and never dialled"),
    ("tcp://[::0]:5558", "bound and never dialled"),
    ("tcp://[0:0:0:0:0:0:0:0]:5558", "bound and never dialled"),
    ("tcp://0:5558", "bound and never dialled"),
    ("tcp://0x0:5558", "bound and never dialled"),
    ("tcp://0.0:5558", "bound and never dialled"),
    ("http://0.0.0.0:30000", r"bound and never dialled: .* http://127\.0\.0\.1:30000"),
    ("http://[::0]:30000/server_info", "bound and never dialled"),
    ("http://0x0:30000", "bound and never dialled"),
    ("http://", "no scheme or no host"),
    ("http://10.0.0.5:30000@1", "an @ before its path"),
    ("http://h/server_info", "has no port: write http://h:30000"),
    ("tcp://h:65536", "no number from 1 to 65535"),
    ("http://h:30000/?a=b", "has a \\? or a #"),
    ("ipc:///tmp/load", "the scheme ipc"),
    ("inproc://load", "the scheme inproc"),
]


@pytest.mark.parametrize(("text", "host", "port", "endpoint"), GOOD)
def test_good(text: str, host: str, port: int, endpoint: str) -> None:
    """A socket and a worker are told apart by the scheme, and the host has no brackets."""
    url = None if text.startswith("tcp") else text
    target = parse_target(text)
    assert Target(text, host, port, url) == target
    assert (endpoint, text) == (target.endpoint, str(target))


@pytest.mark.parametrize(("text", "same"), ALIKE)
def test_alike(text: str, same: str) -> None:
    """A slash or the route at the end of a worker's URL is no other target."""
    assert parse_target(same) == parse_target(text)
    assert same == parse_target(text).url


@pytest.mark.parametrize(("text", "says"), BAD)
def test_bad(text: str, says: str) -> None:
    """What cannot be dialled is refused, and the message says how to write it."""
    with pytest.raises(TargetError, match=says):
        parse_target(text)
