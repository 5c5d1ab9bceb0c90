"""The advertisement: what ``/server_info`` says about load, and what a router makes of it.

Three users ask the one resolver in :mod:`pytest_loadwire.endpoints`: the engine at start
(:func:`check_load_publish_args`), its ``/server_info`` route (:func:`kv_events_block`) and its
publisher. So what is refused, advertised and bound cannot differ (rule E7). A router's half is
:func:`plan`: a worker's URL and block in, one endpoint per rank out.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from pytest_loadwire.endpoints import (
    LOAD_TOPIC,
    MAX_PORT,
    Decline,
    DeclineReason,
    EndpointError,
    LoadRange,
    TcpAddress,
    is_ipv6_literal,
    is_load_publish_asked,
    parse_advertisable_tcp,
    resolve_load_pub_range,
)
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import Code

if TYPE_CHECKING:
    from typing import TypeGuard


class KVEventsConfigError(LoadwireError, ValueError):
    """A ``--kv-events-config`` text that cannot be used. The message says what is wrong."""


class LoadPublishArgsError(LoadwireError, ValueError):
    """An engine was asked to publish load and cannot, so it refuses to start (rule V1).

    Attributes:
        reason: The reason code. A configuration that cannot be parsed, or whose publisher is
            ``null``, is no KV-event configuration: ``no-kv-events``.
    """

    def __init__(self, reason: DeclineReason, text: str) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class KVEventsConfig:
    """The part of an engine's ``--kv-events-config`` that load publishing depends on."""

    publisher: str = "null"
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    topic: str = ""

    @classmethod
    def from_cli(cls, text: str) -> KVEventsConfig:
        """Read the JSON text of the flag. Missing keys have defaults, unknown ones are ignored.

        Raises:
            KVEventsConfigError: It is no JSON object, or a value has the wrong type.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise KVEventsConfigError(f"no JSON: {error}") from error
        if not isinstance(document, dict):
            raise KVEventsConfigError(f"a JSON object is needed, not {text.strip()}")
        return cls(
            publisher=_text(document, "publisher", cls.publisher),
            endpoint=_text(document, "endpoint", cls.endpoint),
            replay_endpoint=(
                None
                if document.get("replay_endpoint") is None
                else _text(document, "replay_endpoint", "")
            ),
            topic=_text(document, "topic", cls.topic),
        )

    @property
    def is_active(self) -> bool:
        """Whether KV events are published at all: not with publisher ``null`` or no endpoint."""
        return self.publisher != "null" and bool(self.endpoint)

    def load_range(self, *, dp_size: int, load_publish_endpoint: str | None) -> LoadRange | Decline:
        """What the resolver says of this configuration (rule E7)."""
        return resolve_load_pub_range(
            kv_endpoint=self.endpoint if self.is_active else None,
            replay_endpoint=self.replay_endpoint,
            dp_size=dp_size,
            load_publish_endpoint=load_publish_endpoint,
        )


def _text(document: dict[str, object], key: str, default: str) -> str:
    value = document.get(key, default)
    if not isinstance(value, str):
        raise KVEventsConfigError(f"{key} must be a string, not {json.dumps(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise KVEventsConfigError(f"{key} has a lone surrogate: {value!r}") from error
    return value


class _KVEventsKeys(TypedDict):
    publisher: str
    endpoint_host: str
    endpoint_port_base: int
    topic: str
    block_size: int
    dp_size: int


class KVEventsBlock(_KVEventsKeys, total=False):
    """The ``kv_events`` block of ``/server_info``: six keys, and both load keys or neither."""

    load_endpoint_port_base: int
    load_topic: str


def kv_events_block(
    kv_events_config: str | None,
    *,
    page_size: int | None,
    dp_size: int = 1,
    load_publish_endpoint: str | None = None,
    dcp_size: int = 1,
) -> KVEventsBlock | None:
    """The ``kv_events`` value of ``/server_info`` (rules A1 to A4). It never raises.

    Args:
        kv_events_config: The text of ``--kv-events-config``, or None.
        page_size: KV page size in tokens. Without a positive one there is no block, since a
            router would hash prompts into blocks of the wrong size.
        dp_size: How many schedulers publish, each on a port of its own.
        load_publish_endpoint: The text of ``--load-publish-endpoint``, or None.
        dcp_size: Decode context parallelism, which widens a block of tokens but adds no rank.

    Returns:
        The block, or None where there is nothing that a router could use.
    """
    if not kv_events_config or page_size is None or page_size <= 0:
        return None
    try:
        config = KVEventsConfig.from_cli(kv_events_config)
    except KVEventsConfigError:
        return None
    address = parse_advertisable_tcp(config.endpoint)
    if not config.is_active or address is None:
        return None
    host, port = address
    block = KVEventsBlock(
        publisher=config.publisher,
        endpoint_host=host,
        endpoint_port_base=port,
        topic=config.topic,
        block_size=page_size * dcp_size,
        dp_size=dp_size,
    )
    outcome = config.load_range(dp_size=dp_size, load_publish_endpoint=load_publish_endpoint)
    if isinstance(outcome, LoadRange):
        block["load_endpoint_port_base"] = outcome.base
        block["load_topic"] = LOAD_TOPIC
    return block


def check_load_publish_args(
    *,
    kv_events_config: str | None,
    dp_size: int = 1,
    load_publish_endpoint: str | None = None,
) -> None:
    """Refuse to start an engine that was asked to publish load and cannot (rule V1).

    Off, unset and blank are never refused, and then the KV configuration is not looked at.

    Raises:
        LoadPublishArgsError: With the reason code, and a text that says which flag to change.
    """
    if not is_load_publish_asked(load_publish_endpoint):
        return
    if not kv_events_config:
        raise LoadPublishArgsError(
            DeclineReason.NO_KV_EVENTS,
            "--load-publish-endpoint needs --kv-events-config: routers find the load ports in the "
            "kv_events block of /server_info, and without a KV-event publisher there is none",
        )
    try:
        config = KVEventsConfig.from_cli(kv_events_config)
    except KVEventsConfigError as error:
        raise LoadPublishArgsError(
            DeclineReason.NO_KV_EVENTS, f"--kv-events-config is not parseable: {error}"
        ) from error
    if not config.is_active:
        what = "an empty endpoint" if not config.endpoint else "the publisher null"
        raise LoadPublishArgsError(
            DeclineReason.NO_KV_EVENTS,
            f"--load-publish-endpoint needs an active publisher in --kv-events-config, which has "
            f'{what}: set "publisher" to "zmq" and "endpoint" to an address such as tcp://*:5557',
        )
    outcome = config.load_range(dp_size=dp_size, load_publish_endpoint=load_publish_endpoint)
    if isinstance(outcome, Decline) and not outcome.is_quiet:
        raise LoadPublishArgsError(outcome.reason, outcome.text)


class NoPlanReason(Code):
    """Why a router subscribes to nothing for a worker."""

    NO_BLOCK = "no-block"
    NO_LOAD_KEYS = "no-load-keys"
    ONE_LOAD_KEY = "one-load-key"
    BAD_PORT = "bad-port"
    BAD_TOPIC = "bad-topic"
    BAD_DP_SIZE = "bad-dp-size"
    BAD_URL = "bad-url"


@dataclass(frozen=True)
class RankEndpoint:
    """What a router dials for one rank, IPv6 in brackets. The rank keys its readings (rule R3)."""

    rank: int
    endpoint: str


@dataclass(frozen=True)
class Plan:
    """The subscriptions that a router opens for one worker (rule C1)."""

    host: str
    """The host of the worker's own URL, IPv6 in brackets."""
    dp_size: int
    """How many ranks the worker advertises, the skipped ones too."""
    endpoints: tuple[RankEndpoint, ...]
    skipped: range
    """Ranks whose port would be past 65535."""
    topic: str = LOAD_TOPIC

    @property
    def warning(self) -> str:
        """What an operator should know of the skipped ranks; empty where there are none."""
        if not self.skipped:
            return ""
        first, last = self.skipped[0], self.skipped[-1]
        ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
        return (
            f"{self.host} advertises {self.dp_size} ranks, and {ranks} would be past port "
            f"{MAX_PORT}: skipped, so the load of this worker stays unknown"
        )


@dataclass(frozen=True)
class NoPlan:
    """Why there is nothing to subscribe to; the worker's load is unknown (rule C4)."""

    reason: NoPlanReason
    text: str


def plan(worker_url: str, block: object) -> Plan | NoPlan:
    """What a router subscribes to for a worker: one endpoint per advertised rank (rule C1).

    The load ports come from the block alone and the host from the worker's URL alone. The
    block's ``endpoint_host`` is where KV events are, often a wildcard, and is never dialled.

    Args:
        worker_url: The URL that the router sends requests to, such as ``http://10.0.0.5:30000``.
        block: The ``kv_events`` value of the worker's ``/server_info``, as JSON gave it. Keys
            that the contract does not know are ignored.
    """
    if not isinstance(block, dict):
        got = "null or missing" if block is None else f"{block!r}, not an object"
        return NoPlan(NoPlanReason.NO_BLOCK, f"kv_events is {got}: no KV events, so no load")
    keys = [key for key in ("load_endpoint_port_base", "load_topic") if key in block]
    if not keys:
        return NoPlan(
            NoPlanReason.NO_LOAD_KEYS,
            "kv_events has no load keys: the engine publishes no load "
            "(its flag is --load-publish-endpoint)",
        )
    if len(keys) == 1:
        return NoPlan(
            NoPlanReason.ONE_LOAD_KEY,
            f"kv_events has {keys[0]} alone: load_endpoint_port_base and load_topic stand "
            "together or not at all",
        )
    base = block["load_endpoint_port_base"]
    if not _is_int(base) or not 0 < base <= MAX_PORT:
        return NoPlan(
            NoPlanReason.BAD_PORT,
            f"load_endpoint_port_base is {base!r}, not a whole number from 1 to {MAX_PORT}",
        )
    if block["load_topic"] != LOAD_TOPIC:
        return NoPlan(
            NoPlanReason.BAD_TOPIC,
            f"load_topic is {block['load_topic']!r}, not {LOAD_TOPIC!r}: not this contract",
        )
    dp_size = block.get("dp_size")
    if not _is_int(dp_size) or dp_size < 1:
        return NoPlan(
            NoPlanReason.BAD_DP_SIZE, f"dp_size is {dp_size!r}, not a whole number of 1 or more"
        )
    try:
        host = _worker_host(worker_url)
    except EndpointError as error:
        return NoPlan(NoPlanReason.BAD_URL, str(error))
    reachable = min(dp_size, MAX_PORT + 1 - base)
    endpoints = tuple(
        RankEndpoint(rank, str(TcpAddress(host, base + rank))) for rank in range(reachable)
    )
    return Plan(TcpAddress(host, base).url_host, dp_size, endpoints, range(reachable, dp_size))


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _worker_host(url: str) -> str:
    """The host that a worker's URL names, without brackets.

    Raises:
        EndpointError: The URL names no host that can be dialled.
    """
    example = "a worker URL looks like http://10.0.0.5:30000"
    # urlsplit drops control characters without a word.
    if not url.isprintable() or " " in url:
        raise EndpointError(f"{url!r} has blanks or control characters: {example}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # port raises for what is no port
    except ValueError as error:
        raise EndpointError(f"{url!r} is no URL ({error}): {example}") from error
    if "://" not in url or not host:
        raise EndpointError(f"{url!r} has no scheme or no host: {example}")
    if "@" in parts.netloc:
        # A rank suffix (http://10.0.0.5:30000@1) would read as user 10.0.0.5 on host 1.
        raise EndpointError(f"{url!r} has an @ before its path: {example}")
    host = host.replace("%25", "%", 1)  # a URL escapes the sign in front of an IPv6 zone
    # urlsplit takes [::1]]:1 for ::1 as well.
    whole = re.fullmatch(r"\[[^\[\]]+\](:\d*)?", parts.netloc)
    if ("[" in parts.netloc or "]" in parts.netloc) and not (whole and is_ipv6_literal(host)):
        raise EndpointError(f"{url!r} has brackets around what is no IPv6 address: {example}")
    if _is_wildcard(host):
        raise EndpointError(f"{url!r} has a wildcard host, which nobody can dial: {example}")
    # The strict parser judges the host, so that whatever is planned also parses.
    return TcpAddress.parse(str(TcpAddress(host, 1))).host


def _is_wildcard(host: str) -> bool:
    """Whether a host means every address: ``*``, and zero as C libraries also spell it."""
    if host == "*" or re.fullmatch(r"(0x)?0+(\.(0x)?0+){0,3}", host):
        return True
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return (address.ipv4_mapped or address).is_unspecified
