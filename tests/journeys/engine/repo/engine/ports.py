"""Which ports the load sockets take. Start, socket and /server_info all ask `plan_load_ports`."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

LAST_PORT = 65535
WILDCARDS = ("*", "0.0.0.0", "::")  # noqa: S104 - text to compare with
ENDPOINT = re.compile(r"tcp://(?:\[([^\[\]]*)\]|(\*|[\w.-]+)):([1-9][0-9]{0,4})", re.ASCII)


class Address(NamedTuple):
    """A tcp endpoint; an IPv6 host stands without its brackets."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """The host as it stands in front of a port."""
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_tcp(endpoint: str | None) -> Address | None:
    """Host and port, or None for what is no tcp endpoint with a port."""
    match = ENDPOINT.fullmatch(endpoint or "")
    if match is None:
        return None
    literal, name, port = match.groups()
    if literal is not None and not _is_literal(literal):
        return None
    return Address(literal or name, int(port)) if int(port) <= LAST_PORT else None


def _is_literal(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return re.fullmatch(r"[\w.:-]+(%[\w.-]+)?", host, re.ASCII) is not None


def is_ipv6(endpoint: str) -> bool:
    """Whether the host is an IPv6 literal, which a socket has to be told."""
    match = re.match(r"tcp://\[([^\[\]]*)\]", endpoint)
    return match is not None and _is_literal(match.group(1))


def is_wildcard(address: Address) -> bool:
    """Whether a socket can be bound to it on any machine."""
    return address.host in WILDCARDS


class LoadPorts(NamedTuple):
    """Replica r publishes on `first + r`."""

    address: str
    first: int

    def endpoint(self, slot: int) -> str:
        """What the socket of one replica binds."""
        return f"tcp://{Address(self.address, 0).shown}:{self.first + slot}"


class NoPorts(NamedTuple):
    """Why load is published nowhere, for an operator."""

    why: str


def plan_load_ports(
    kv: str | None, replay: str | None, replicas: int, wanted: str | None
) -> LoadPorts | NoPorts | None:
    """The ports for the load sockets, or why there are none; None if nobody asked for them."""
    wanted = (wanted or "").strip()
    if wanted.lower() in ("", "off") or replicas < 1:
        return None
    base = parse_tcp(kv)
    if base is None:
        given = f"not {kv!r}" if kv else "and it has none"
        return NoPorts(f"a bindable tcp endpoint is needed in --kv-events-config, {given}")
    replayed = parse_tcp(replay)
    if wanted.lower() == "auto":
        if not is_wildcard(base):
            return NoPorts(f"auto: {base.host} in --kv-events-config is not bindable, unlike *")
        first = base.port + replicas
        if replayed and _overlap(first, replayed.port, replicas):
            first = replayed.port + replicas
        ports = LoadPorts(base.host, first)
    else:
        own = parse_tcp(wanted)
        if own is None or not is_wildcard(own):
            return NoPorts(f"{wanted!r} is not bindable: take an address such as tcp://*:6000")
        for name, other in (("KV", base), ("replay", replayed)):
            if other and _overlap(own.port, other.port, replicas):
                return NoPorts(f"{wanted} overlaps the {name} ports from {other.port}")
        ports = LoadPorts(own.host, own.port)
    if ports.first + replicas - 1 > LAST_PORT:
        return NoPorts(f"{replicas} load ports from {ports.first} go past {LAST_PORT}")
    return ports


def _overlap(one: int, other: int, size: int) -> bool:
    return abs(one - other) < size
