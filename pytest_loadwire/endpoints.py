"""The addresses: tcp endpoints, the range that load is published on, and who publishes.

One resolver answers for both sides: an engine binds what :func:`resolve_load_pub_range` says and
``/server_info`` advertises the same (rule E7). Nothing here opens a socket or writes a log line
(rule E5): a decline carries its reason and a text from which an operator can fix the flag.

Functions that SGLang has too go by its names. They refuse some text that SGLang reads, because
libzmq reads it differently or not at all: see :meth:`TcpAddress.parse`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import Code

LOAD_TOPIC = "load"
"""The topic of every load message, as ``/server_info`` advertises it (rules F2, A2)."""

MAX_PORT = 65535

BINDABLE_HOSTS = frozenset({"*", "0.0.0.0", "::"})  # noqa: S104  # text to compare with
"""The hosts that a PUB socket can bind: wildcards, compared as text (rule E4)."""

_SCHEME = "tcp://"
_PLAIN_HOST = re.compile(r"\*|[A-Za-z0-9_.-]+")
_DIGITS = re.compile(r"[0-9]+")


class EndpointError(LoadwireError, ValueError):
    """Text that is no usable tcp endpoint. The message says what is wrong with it."""


class DeclineReason(Code):
    """Why an engine reserves no load ports (rule E5)."""

    OFF = "off"
    NO_KV_EVENTS = "no-kv-events"
    KV_NOT_ADVERTISABLE = "kv-not-advertisable"
    NOT_BINDABLE = "not-bindable"
    OVERLAPS_KV = "overlaps-kv"
    OVERLAPS_REPLAY = "overlaps-replay"
    PAST_PORT_65535 = "past-port-65535"


@dataclass(frozen=True)
class TcpAddress:
    """One ``tcp://host:port``, the host without brackets, the port 1 to 65535."""

    host: str
    port: int

    @classmethod
    def parse(cls, endpoint: str) -> TcpAddress:
        """Read a tcp endpoint strictly.

        A host is ``*``, a name or IPv4 address of ASCII letters, digits and ``_.-``, or an IPv6
        address in brackets. A port is ASCII digits without leading zeros. So these are refused,
        though SGLang reads them: IPv6 without brackets and without a port
        (``tcp://2001:db8::5`` would be port 5), ``5_557`` (libzmq binds port 5), a sign, a blank,
        leading zeros, digits of other scripts, and hosts with ``:``, ``/``, ``@`` or ``;``.

        Raises:
            EndpointError: The text is no such endpoint (rules E4, E8).
        """
        if not endpoint.startswith(_SCHEME):
            raise EndpointError(f"{endpoint!r} does not start with tcp://")
        address = endpoint[len(_SCHEME) :]
        if address.startswith("["):
            host, closed, rest = address[1:].partition("]")
            if not closed:
                raise EndpointError(f"{endpoint!r} has no closing bracket")
            if not is_ipv6_literal(host):
                raise EndpointError(f"{endpoint!r} has brackets around what is no IPv6 address")
            colon, port = rest[:1], rest[1:]
        else:
            host, colon, port = address.rpartition(":")
            if is_ipv6_literal(host):
                raise EndpointError(
                    f"{endpoint!r} is a bare IPv6 address: write tcp://[{host}]:{port}"
                )
            # 2001:db8::5 would otherwise be the host 2001:db8: and port 5.
            if is_ipv6_literal(address):
                raise EndpointError(
                    f"{endpoint!r} is a bare IPv6 address without a port: "
                    f"write tcp://[{address}]:PORT"
                )
            if colon and not _PLAIN_HOST.fullmatch(host):
                raise EndpointError(f"{endpoint!r} has no usable host: {host!r}")
        if colon != ":" or not port:
            raise EndpointError(f"{endpoint!r} has no port")
        return cls(host, _parse_port(endpoint, port))

    @property
    def is_ipv6(self) -> bool:
        """Whether the host is an IPv6 literal, which a socket must be told (rule K1)."""
        return is_ipv6_literal(self.host)

    @property
    def is_bindable(self) -> bool:
        """Whether a PUB socket can bind this host, that is a wildcard (rule E4)."""
        return self.host in BINDABLE_HOSTS

    @property
    def url_host(self) -> str:
        """The host as it is spliced in front of ``:port``: IPv6 in brackets (rule A3)."""
        return f"[{self.host}]" if self.is_ipv6 else self.host

    def __str__(self) -> str:
        return f"{_SCHEME}{self.url_host}:{self.port}"


def _parse_port(endpoint: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise EndpointError(f"{endpoint!r} has no decimal port: {text!r}")
    # The length first: int() refuses thousands of digits with an error of its own.
    if text.startswith("0") or len(text) > 5 or int(text) > MAX_PORT:
        raise EndpointError(
            f"{endpoint!r} has a port that is no number from 1 to {MAX_PORT} without leading zeros"
        )
    return int(text)


def is_ipv6_literal(host: str) -> bool:
    """Whether ``host`` is an IPv6 address without brackets, with or without a zone (``%eth0``)."""
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    # ipaddress takes any text for a zone; one with blanks or brackets is no address.
    return "%" not in host or bool(_PLAIN_HOST.fullmatch(host.partition("%")[2]))


def _parse(endpoint: str | None) -> TcpAddress | None:
    if endpoint is None:
        return None
    try:
        return TcpAddress.parse(endpoint)
    except EndpointError:
        return None


def parse_tcp_port(endpoint: str | None) -> int | None:
    """The port of a tcp endpoint with any host, or None where there is no legal one.

    Answers which ports something else occupies, so the host does not matter.
    """
    address = _parse(endpoint)
    return None if address is None else address.port


def parse_advertisable_tcp(endpoint: str | None) -> tuple[str, int] | None:
    """Host and port of a tcp endpoint as ``/server_info`` advertises them, or None.

    Any host will do, wildcards too; an IPv6 host is in brackets (rules A3, A4).
    """
    address = _parse(endpoint)
    return None if address is None else (address.url_host, address.port)


def parse_bindable_tcp(endpoint: str | None) -> tuple[str, int] | None:
    """Host (without brackets) and port of a tcp endpoint with a wildcard host, or None (E4)."""
    address = _parse(endpoint)
    return (address.host, address.port) if address and address.is_bindable else None


def is_zmq_endpoint_ipv6(endpoint: str) -> bool:
    """Whether a tcp endpoint has an IPv6 literal in brackets; a port need not follow (rule K1).

    Exactly then a socket sets IPV6 before it binds or connects.
    """
    prefix = f"{_SCHEME}["
    if not endpoint.startswith(prefix):
        return False
    host, closed, _ = endpoint[len(prefix) :].partition("]")
    return bool(closed) and is_ipv6_literal(host)


def is_kv_publisher_rank(
    kv_events_config: str | None,
    *,
    pp_rank: int = 0,
    attn_tp_rank: int = 0,
    attn_cp_rank: int = 0,
) -> bool:
    """Whether a scheduler owns an independent KV cache, and so publishes (rule R1).

    The configuration counts as given when it is any text at all, valid or not; the data-parallel
    rank is no part of the gate.
    """
    return bool(kv_events_config) and pp_rank == 0 and attn_tp_rank == 0 and attn_cp_rank == 0


def select_kv_publisher_dp_rank(attn_dp_size: int, attn_dp_rank: int, dp_rank: int | None) -> int:
    """The slot of a publishing scheduler, 0 to ``dp_size - 1`` (rule R2).

    Under DP attention the replicas differ in ``attn_dp_rank``. In pure data parallelism that one
    is 0 everywhere and ``dp_rank`` tells them apart.
    """
    return attn_dp_rank if attn_dp_size > 1 else dp_rank or 0


@dataclass(frozen=True)
class Topology:
    """Where one scheduler stands in its engine. The defaults are an engine of one scheduler.

    Attributes:
        dp_size: How many schedulers publish; SGLang's ``num_dp_ranks``.
        dp_rank: Replica in pure data parallelism, None when unset.
        attn_dp_size: Above 1 under DP attention.
        attn_dp_rank: Replica under DP attention.
        attn_tp_rank: Rank in the attention's tensor parallelism; only 0 publishes (rule R1).
        attn_cp_rank: Rank in the attention's context parallelism; only 0 publishes (rule R1).
        pp_rank: Rank in the pipeline; only 0 publishes (rule R1).
    """

    dp_size: int = 1
    dp_rank: int | None = None
    attn_dp_size: int = 1
    attn_dp_rank: int = 0
    attn_tp_rank: int = 0
    attn_cp_rank: int = 0
    pp_rank: int = 0

    @property
    def slot(self) -> int:
        """The slot of this scheduler, if it publishes (rule R2)."""
        return select_kv_publisher_dp_rank(self.attn_dp_size, self.attn_dp_rank, self.dp_rank)

    def publishes(self, kv_events_config: str | None) -> bool:
        """Whether this scheduler publishes under that configuration (rule R1)."""
        return is_kv_publisher_rank(
            kv_events_config,
            pp_rank=self.pp_rank,
            attn_tp_rank=self.attn_tp_rank,
            attn_cp_rank=self.attn_cp_rank,
        )


@dataclass(frozen=True)
class LoadRange:
    """The ports that an engine publishes load on: rank r binds ``base + r`` (rule R3)."""

    host: str
    """A wildcard host, without brackets."""
    base: int
    size: int
    """How many ranks there are."""

    def port(self, rank: int) -> int:
        """The port of one rank.

        Raises:
            IndexError: There is no such rank in this range.
        """
        if not 0 <= rank < self.size:
            raise IndexError(f"rank {rank} is outside of 0 to {self.size - 1}")
        return self.base + rank

    def endpoint(self, rank: int) -> str:
        """What the socket of one rank binds, such as ``tcp://[::]:5558``.

        Raises:
            IndexError: There is no such rank in this range.
        """
        return str(TcpAddress(self.host, self.port(rank)))


@dataclass(frozen=True)
class Decline:
    """Why no load ports are reserved. Only ``off`` has no text: nobody asked (rules E1, E5)."""

    reason: DeclineReason
    text: str = ""

    @property
    def is_quiet(self) -> bool:
        """Whether this decline is worth no word to an operator."""
        return self.reason is DeclineReason.OFF


def is_load_publish_asked(load_publish_endpoint: str | None) -> bool:
    """Whether an operator asked for load publishing: not by unset, blank or ``off`` (rule E1)."""
    return (load_publish_endpoint or "").strip().lower() not in {"", "off"}


def resolve_load_pub_range(
    *,
    kv_endpoint: str | None,
    replay_endpoint: str | None,
    dp_size: int,
    load_publish_endpoint: str | None = None,
) -> LoadRange | Decline:
    """Where an engine publishes its load, or why nowhere (rules E1 to E8).

    Args:
        kv_endpoint: Endpoint of the KV-event publisher, None where KV events are not configured.
        replay_endpoint: Endpoint of its replay socket. One that is no tcp endpoint occupies no
            port that this function knows of, and is passed over.
        dp_size: How many schedulers publish; each range is that long. Below 1 counts as off.
        load_publish_endpoint: ``auto``, a ``tcp://`` address with a wildcard host, or ``off``,
            which unset and blank mean too. Upper and lower case and blanks around do not matter.
    """
    if dp_size < 1 or not is_load_publish_asked(load_publish_endpoint):
        return Decline(DeclineReason.OFF)
    mode = (load_publish_endpoint or "").strip()
    is_auto = mode.lower() == "auto"
    flag = "--load-publish-endpoint=" + ("auto" if is_auto else repr(mode))
    if not kv_endpoint:
        return Decline(
            DeclineReason.NO_KV_EVENTS,
            f"{flag} needs --kv-events-config with an endpoint: routers find the load ports in "
            "the kv_events block of /server_info, and without one there is no such block",
        )
    try:
        kv = TcpAddress.parse(kv_endpoint)
    except EndpointError as error:
        return Decline(
            DeclineReason.KV_NOT_ADVERTISABLE,
            f"{flag} needs a {'bindable ' if is_auto else ''}tcp:// endpoint in "
            f"--kv-events-config: {error}, so /server_info has no kv_events block for routers "
            "to find the load ports in",
        )
    replay_port = parse_tcp_port(replay_endpoint)
    if is_auto:
        outcome = _pack_behind(flag, kv, replay_port, dp_size)
    else:
        outcome = _place_at(flag, mode, kv, replay_port, dp_size)
    if isinstance(outcome, LoadRange) and outcome.base + dp_size - 1 > MAX_PORT:
        return Decline(
            DeclineReason.PAST_PORT_65535,
            f"{flag} puts the load ports at {_span(outcome.base, dp_size)}, past port {MAX_PORT}: "
            f"{'move the KV endpoint to a lower port' if is_auto else 'choose a lower base'}",
        )
    return outcome


def _pack_behind(
    flag: str, kv: TcpAddress, replay_port: int | None, size: int
) -> LoadRange | Decline:
    if not kv.is_bindable:
        return Decline(
            DeclineReason.NOT_BINDABLE,
            f"{flag} needs a bindable endpoint in --kv-events-config to pack behind, and {kv} "
            "names a concrete host: give that a wildcard host (*, 0.0.0.0 or [::]), or give the "
            "load ports an address of their own, such as tcp://*:6000",
        )
    base = kv.port + size
    if replay_port is not None and _overlap(base, replay_port, size):
        # An overlapping replay range starts above the KV base, so behind it is behind KV as well.
        base = replay_port + size
    return LoadRange(kv.host, base, size)


def _place_at(
    flag: str, mode: str, kv: TcpAddress, replay_port: int | None, size: int
) -> LoadRange | Decline:
    try:
        load = TcpAddress.parse(mode)
    except EndpointError as error:
        return Decline(
            DeclineReason.NOT_BINDABLE,
            f"{flag} is not bindable: {error}. Use off, auto, or an address with a wildcard "
            "host, such as tcp://*:6000",
        )
    if not load.is_bindable:
        return Decline(
            DeclineReason.NOT_BINDABLE,
            f"{flag} is not bindable: {load.host} is a concrete host, and only a wildcard host "
            f"(*, 0.0.0.0 or [::]) is bound, such as tcp://*:{load.port}",
        )
    others = (
        (kv.port, DeclineReason.OVERLAPS_KV, "KV-event"),
        (replay_port, DeclineReason.OVERLAPS_REPLAY, "replay"),
    )
    for port, reason, name in others:
        if port is not None and _overlap(load.port, port, size):
            return Decline(
                reason,
                f"{flag} takes ports {_span(load.port, size)} and overlaps the {name} ports "
                f"{_span(port, size)}: choose a base that is {size} or more away from {port}",
            )
    return LoadRange(load.host, load.port, size)


def _overlap(base: int, other: int, size: int) -> bool:
    """Whether two ranges of one size share a port. Touching ranges do not."""
    return abs(base - other) < size


def _span(base: int, size: int) -> str:
    return str(base) if size == 1 else f"{base} to {base + size - 1}"
