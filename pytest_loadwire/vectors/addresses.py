"""The vectors of the addresses: what an engine binds and advertises, what a router dials.

The outcomes below are what a vector expects, tagged by ``verdict``. Where real implementations
differ on purpose, a vector expects a `Choice` and each side declares its answer.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from pytest_loadwire.discovery import NoPlanReason
from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.rules import AddressPolicy

T = TypeVar("T")


class Choice(msgspec.Struct, Generic[T], frozen=True, tag="declare", tag_field="verdict"):
    """Real implementations differ here, so each declares which answer it gives.

    Attributes:
        policy: What is to be declared.
        outcomes: What is owed under each answer (`rules.ADDRESS_ANSWERS`).
    """

    policy: AddressPolicy
    outcomes: dict[str, T]


class Address(msgspec.Struct, frozen=True):
    """Host and port, the host as it is written at that place."""

    host: str
    port: int


class Parsed(msgspec.Struct, frozen=True, tag="parsed", tag_field="verdict"):
    """What one endpoint is good for.

    Attributes:
        port: The port that it occupies whatever its host, or None.
        advertisable: Host (IPv6 in brackets) and port for ``/server_info``, or None.
        bindable: Host (without brackets) and port for a PUB socket to bind, or None.
        ipv6: Whether a socket sets IPV6 before it binds or connects this.
    """

    port: int | None
    advertisable: Address | None
    bindable: Address | None
    ipv6: bool


class Range(msgspec.Struct, frozen=True, tag="range", tag_field="verdict"):
    """Load is published: rank r binds ``base + r``. The host is a wildcard, without brackets."""

    host: str
    base: int


class Declined(msgspec.Struct, frozen=True, tag="decline", tag_field="verdict", omit_defaults=True):
    """No load is published. The code ``off`` is quiet, every other one owes a text.

    Attributes:
        reason: Why.
        mentions: What the text has in it, in upper or lower case.
        omits: What the text must not have in it, as it is written.
    """

    reason: DeclineReason
    mentions: tuple[str, ...] = ()
    omits: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether an operator is owed no word (rules E1, E5)."""
        return self.reason is DeclineReason.OFF


class Advertised(msgspec.Struct, frozen=True, tag="block", tag_field="verdict"):
    """``kv_events`` is a block with exactly these keys of the contract; others may be there."""

    block: dict[str, Any]


class Unadvertised(msgspec.Struct, frozen=True, tag="null", tag_field="verdict"):
    """``kv_events`` is null, and the route answers."""


class Passes(msgspec.Struct, frozen=True, tag="pass", tag_field="verdict"):
    """The engine starts."""


class Refuses(msgspec.Struct, frozen=True, tag="refuse", tag_field="verdict", omit_defaults=True):
    """The engine refuses to start. The attributes are those of `Declined`."""

    reason: DeclineReason
    mentions: tuple[str, ...] = ()
    omits: tuple[str, ...] = ()


class Planned(msgspec.Struct, frozen=True, tag="plan", tag_field="verdict"):
    """A router subscribes.

    Attributes:
        endpoints: What it dials, by rank from 0.
        skipped: The ranks that it leaves out, since their port would be past 65535.
    """

    endpoints: tuple[str, ...]
    skipped: tuple[int, ...]


class Unplanned(msgspec.Struct, frozen=True, tag="no-plan", tag_field="verdict"):
    """A router subscribes to nothing, and the worker's load is unknown."""

    reason: NoPlanReason


class ParseVector(msgspec.Struct, frozen=True, tag="parse", tag_field="kind"):
    """One endpoint and what it is good for.

    Attributes:
        id: A slug that never changes and is never reused.
        rule: The contract rule that this vector proves.
        why: What it is for, in one sentence.
        source: Where the expectation comes from, with its mark, and how to get it again.
        endpoint: The text, or None where nothing was given.
        expect: What is owed.
    """

    id: str
    rule: str
    why: str
    source: str
    endpoint: str | None
    expect: Parsed | Choice[Parsed]


class ResolveVector(msgspec.Struct, frozen=True, tag="resolve", tag_field="kind"):
    """One question to the resolver. The first attributes are those of `ParseVector`.

    Attributes:
        kv_endpoint: Endpoint of the KV-event publisher, or None where there is none.
        replay_endpoint: Endpoint of its replay socket, or None.
        dp_size: How many schedulers publish.
        load_publish_endpoint: ``auto``, ``off``, an address, or None.
        expect: What is owed.
    """

    id: str
    rule: str
    why: str
    source: str
    kv_endpoint: str | None
    replay_endpoint: str | None
    dp_size: int
    load_publish_endpoint: str | None
    expect: Range | Declined | Choice[Range | Declined]


class SlotVector(msgspec.Struct, frozen=True, tag="slot", tag_field="kind"):
    """Ranks of one publishing scheduler, and the slot that it takes."""

    id: str
    rule: str
    why: str
    source: str
    attn_dp_size: int
    attn_dp_rank: int
    dp_rank: int | None
    expect: int


class GateVector(msgspec.Struct, frozen=True, tag="gate", tag_field="kind"):
    """Configuration and ranks of one scheduler, and whether it publishes."""

    id: str
    rule: str
    why: str
    source: str
    config: str | None
    pp_rank: int
    attn_tp_rank: int
    attn_cp_rank: int
    expect: bool


class BlockVector(msgspec.Struct, frozen=True, tag="block", tag_field="kind"):
    """One engine's configuration and its ``kv_events`` block.

    Attributes:
        config: The text of ``--kv-events-config``, or None.
        page_size: KV page size in tokens, or None where it is not known.
        dp_size: How many schedulers publish.
        load_publish_endpoint: The text of ``--load-publish-endpoint``, or None.
        expect: What is owed.
    """

    id: str
    rule: str
    why: str
    source: str
    config: str | None
    page_size: int | None
    dp_size: int
    load_publish_endpoint: str | None
    expect: Advertised | Unadvertised | Choice[Advertised | Unadvertised]


class ValidateVector(msgspec.Struct, frozen=True, tag="validate", tag_field="kind"):
    """One engine's arguments, and whether it starts. The attributes are those of `BlockVector`."""

    id: str
    rule: str
    why: str
    source: str
    config: str | None
    dp_size: int
    load_publish_endpoint: str | None
    expect: Passes | Refuses | Choice[Passes | Refuses]


class PlanVector(msgspec.Struct, frozen=True, tag="plan", tag_field="kind"):
    """A worker's URL and its ``kv_events`` value, and what a router dials."""

    id: str
    rule: str
    why: str
    source: str
    worker_url: str
    block: Any
    expect: Planned | Unplanned | Choice[Planned | Unplanned]


EndpointVector = ParseVector | ResolveVector | SlotVector | GateVector
"""Any vector of ``endpoints.json``."""

DiscoveryVector = BlockVector | ValidateVector | PlanVector
"""Any vector of ``discovery.json``."""

AddressVector = EndpointVector | DiscoveryVector
"""Any vector of this module."""
