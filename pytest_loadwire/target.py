"""What is to be watched: one load socket, or a worker that says where its load sockets are."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from pytest_loadwire.discovery import NoPlan, plan
from pytest_loadwire.endpoints import EndpointError, TcpAddress, is_ipv6_literal
from pytest_loadwire.errors import LoadwireError

_HOW = "write tcp://10.0.0.5:5558 for one load socket, or http://10.0.0.5:30000 for a worker"
# Any block will do: what is asked of the planner is whether the host can be dialled.
_ANY_BLOCK = {"load_endpoint_port_base": 1, "load_topic": "load", "dp_size": 1}


class TargetError(LoadwireError, ValueError):
    """Text that names nothing to watch. The message says how to write it."""


@dataclass(frozen=True)
class Target:
    """One thing to watch.

    Attributes:
        text: Its name: the worker's URL, without a slash or ``/server_info`` at its end, or
            ``tcp://host:port`` of one load socket.
        host: The host to dial, without brackets.
        port: The port of the load socket, or of the worker's HTTP server.
        url: The worker's URL; None for a load socket.
    """

    text: str
    host: str
    port: int
    url: str | None = None

    @property
    def address(self) -> TcpAddress:
        """The socket, or the HTTP server."""
        return TcpAddress(self.host, self.port)

    @property
    def endpoint(self) -> str:
        """``tcp://host:port`` of the socket or of the HTTP server, IPv6 in brackets."""
        return str(self.address)

    def __str__(self) -> str:
        return self.text


def parse_target(text: str) -> Target:
    """Read ``tcp://host:port`` or a worker's URL, strictly.

    A wildcard host is refused in every spelling: it is bound and never dialled.

    Raises:
        TargetError: It is neither, or it names a host that nobody can dial (rules E4, E8).
    """
    if not text or not text.isprintable() or " " in text:
        raise TargetError(f"{text!r} has blanks or control characters, or is empty: {_HOW}")
    scheme, found, rest = text.partition("://")
    if not found:
        raise TargetError(f"{text!r} has no scheme: {_without_scheme(text)}")
    if scheme == "tcp":
        return _socket(text)
    if scheme in ("http", "https"):
        return _worker(scheme, rest)
    raise TargetError(f"{text!r} has the scheme {scheme}: {_HOW}")


def _socket(text: str) -> Target:
    try:
        address = TcpAddress.parse(text)
    except EndpointError as error:
        says = str(error)
        raise TargetError(says if "write " in says else f"{says}: {_HOW}") from None
    _refuse_wildcard(text, "tcp", address)
    return Target(text, address.host, address.port)


def _worker(scheme: str, rest: str) -> Target:
    # What the route is appended to is meant by whoever has it, or a slash, at the end.
    text = f"{scheme}://{rest}".rstrip("/").removesuffix("/server_info").rstrip("/")
    authority = rest.partition("/")[0]
    bare = _bare_ipv6(authority)
    if bare:
        raise TargetError(f"{text!r} is a bare IPv6 address: write {scheme}://{bare}")
    with contextlib.suppress(EndpointError):  # the planner says more of what a URL may be
        _refuse_wildcard(text, scheme, TcpAddress.parse(f"tcp://{authority}"))
    found = plan(text, _ANY_BLOCK)
    if isinstance(found, NoPlan):
        raise TargetError(found.text)
    parts = urlsplit(text)
    if not parts.port:
        raise TargetError(
            f"{text!r} has no port: write {scheme}://{found.host}:30000, with the port of the "
            "worker's HTTP server"
        )
    if parts.query or parts.fragment:
        raise TargetError(f"{text!r} has a ? or a #: write the worker's URL without it")
    host = found.host.removeprefix("[").removesuffix("]")
    return Target(text, host, parts.port, text)


def _refuse_wildcard(text: str, scheme: str, address: TcpAddress) -> None:
    # A zero is a wildcard in more spellings than one; the planner knows them.
    if isinstance(plan(f"http://{address.url_host}:1", _ANY_BLOCK), NoPlan):
        raise TargetError(
            f"{text!r} has a wildcard host, which is bound and never dialled: write the address "
            f"of the machine, or {scheme}://127.0.0.1:{address.port} on this one"
        )


def _without_scheme(text: str) -> str:
    bare = _bare_ipv6(text) or text
    try:
        address = TcpAddress.parse(f"tcp://{bare}")
    except EndpointError:
        return _HOW
    where = f"{address.url_host}:{address.port}"
    return f"write tcp://{where} for one load socket, or http://{where} for a worker"


def _bare_ipv6(authority: str) -> str:
    """Host and port as they should be written, where the host is IPv6 without brackets."""
    host, _, port = authority.rpartition(":")
    if "[" in authority:
        return ""
    if is_ipv6_literal(host) and port.isdigit():
        return f"[{host}]:{port}"
    return f"[{authority}]:PORT" if is_ipv6_literal(authority) else ""
