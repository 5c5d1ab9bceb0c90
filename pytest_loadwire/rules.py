"""The contract's vocabulary: rule ids, reason codes, policies and hazards.

One set for every language. A rule's id never changes and is never reused; ``golden/README.md`` is
the long form of :data:`RULES`, with the vectors that prove each rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Code(str, Enum):
    """A string constant that prints as its value on every supported Python."""

    def __str__(self) -> str:
        return str(self.value)


class Reason(Code):
    """Why bytes were refused. The first twelve are any reader's, the last two grade an engine."""

    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    NOT_ARRAY = "not-array"
    BAD_TAG = "bad-tag"
    TOO_SHORT = "too-short"
    BAD_TYPE = "bad-type"
    OUT_OF_RANGE = "out-of-range"
    TRAILING_BYTES = "trailing-bytes"
    FRAME_COUNT = "frame-count"
    BAD_TOPIC = "bad-topic"
    BAD_SEQ_LENGTH = "bad-seq-length"
    NEGATIVE_SEQ = "negative-seq"
    EXTRA_ELEMENTS = "extra-elements"
    NOT_CANONICAL = "not-canonical"


READER_REASONS: tuple[Reason, ...] = tuple(Reason)[:12]
"""The reasons that a router's decoder may give, in the order of the C ABI's numbers (from 1)."""

REASON_RULE: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.MALFORMED: "W10",
        Reason.TRUNCATED: "W10",
        Reason.NOT_ARRAY: "W10",
        Reason.BAD_TAG: "W1",
        Reason.TOO_SHORT: "W9",
        Reason.BAD_TYPE: "W5",
        Reason.OUT_OF_RANGE: "W5",
        Reason.TRAILING_BYTES: "W6",
        Reason.FRAME_COUNT: "F1",
        Reason.BAD_TOPIC: "F2",
        Reason.BAD_SEQ_LENGTH: "F3",
        Reason.NEGATIVE_SEQ: "F3",
        Reason.EXTRA_ELEMENTS: "W4",
        Reason.NOT_CANONICAL: "W6",
    }
)
"""The rule that each reason code enforces."""


class Policy(Code):
    """A point where real routers differ and neither answer is wrong: a router declares its own."""

    TRAILING_BYTES = "TrailingBytes"
    OMITTED_RANK = "OmittedRank"
    TAG_AS_BIN = "TagAsBin"
    COUNT_ABOVE_I64 = "CountAboveI64"
    PARTIAL_TAIL = "PartialTail"
    NIL_TAIL = "NilTail"


POLICY_ANSWERS: Mapping[Policy, tuple[str, str]] = MappingProxyType(
    {
        policy: ("older", "partial") if policy is Policy.PARTIAL_TAIL else ("accept", "reject")
        for policy in Policy
    }
)
"""The answers that a router may declare for each policy."""


class AddressPolicy(Code):
    """A point where engines, or routers, differ about addresses: each side declares its own."""

    LOOSE_ENDPOINT = "LooseEndpoint"
    URL_CREDENTIALS = "UrlCredentials"


ADDRESS_ANSWERS: Mapping[AddressPolicy, tuple[str, str]] = MappingProxyType(
    {
        AddressPolicy.LOOSE_ENDPOINT: ("strict", "sglang"),
        AddressPolicy.URL_CREDENTIALS: ("refuse", "dial"),
    }
)
"""The answers for each of them: an engine's for ``LooseEndpoint``, a router's for the other."""


class Unknown(Code):
    """Why a router knows no load of a worker, and counts for itself (rules C3, C4)."""

    REMOVED = "removed"
    NOT_ADVERTISED = "not-advertised"
    NEVER_PUBLISHED = "never-published"
    MISSING_RANK = "missing-rank"
    STALE_RANK = "stale-rank"


class Hazard(Code):
    """What a least-loaded router would do if it believed the wrong decoding."""

    ATTRACTS_ALL = "attracts-all"
    STARVES = "starves"
    DIVIDES_BY_ZERO = "divides-by-zero"
    STALE = "stale"
    CRASH = "crash"
    NONE = "none"


HAZARD_TEXT: Mapping[Hazard, str] = MappingProxyType(
    {
        Hazard.ATTRACTS_ALL: "the worker reads as idle and draws all traffic",
        Hazard.STARVES: "the worker reads as full and is never chosen",
        Hazard.DIVIDES_BY_ZERO: "the worker's capacity reads as 0 and a ratio divides by it",
        Hazard.STALE: "the worker keeps an old or partly wrong reading that looks fresh",
        Hazard.CRASH: "the router's decoder stops working",
        Hazard.NONE: "no wrong traffic, but the contract is broken",
    }
)
"""Each hazard as half a sentence, for reports."""

RULES: Mapping[str, str] = MappingProxyType(
    {
        "W1": "the payload is one msgpack array whose element 0 is the string LoadStat",
        "W2": "revision 1 has 6 elements",
        "W3": "revision 2 has 11 elements: the 6 of revision 1, then 5 more",
        "W4": "an engine sends exactly the elements of its revision, an unset rank as nil",
        "W5": "a count is an unsigned integer, 0 to 2^64-1",
        "W6": "an engine sends the shortest encoding of every value and nothing after the array",
        "W7": "a router accepts every legal spelling of the same value",
        "W8": "a router ignores elements beyond those it knows, whatever their type",
        "W9": "a router rejects a payload that lacks an element it reads; it never fills in a zero",
        "W10": "a router rejects what is not a whole LoadStat array",
        "W11": "the contract only grows at the end",
        "W12": "a length between two revisions is the older revision with unknown elements behind",
        "F1": "one message is exactly three frames: topic, sequence, payload",
        "F2": "frame 0 is exactly load; a router compares it, since subscriptions match by prefix",
        "F3": "frame 1 is 8 bytes, a big-endian signed 64-bit integer, 0 or more",
        "F4": "frame 2 is a payload",
        "F5": "a message of the KV-event stream on the load port is refused by name",
        "S1": "the sequence starts at 0 and grows by one per message handed to the socket",
        "S2": "gaps in the sequence are legal: a full pipe drops silently",
        "S3": "a router never filters by sequence: a lower number is a restarted engine",
        "K1": "a PUB socket binds, with HWM 8, LINGER 0 and IPV6 for an IPv6 host set before",
        "K2": "CONFLATE is never set: it destroys multipart messages",
        "K3": "a failed bind closes the socket, disables publishing, warns once, stops nothing",
        "K4": "close is idempotent; after it publishing asks for no reading",
        "R1": "one publisher per independent KV cache: pp, attention-TP and attention-CP rank 0",
        "R2": "the slot is attn_dp_rank when attn_dp_size > 1, else dp_rank, 0 when unset",
        "R3": "slot r binds base + r; a router keys readings by socket, not by the payload's rank",
        "E1": "off unless asked for: unset, blank and off reserve nothing and say nothing",
        "E2": "auto packs the range behind the KV range and steps behind an overlapping replay",
        "E3": "an explicit address sets the base and declines an overlapping range",
        "E4": "only a wildcard host can be bound, judged on the parsed host",
        "E5": "every decline but off has a reason; the resolver never logs",
        "E6": "the range never runs past port 65535",
        "E7": "bind and advertisement ask one resolver",
        "E8": "a bare, unbracketed IPv6 address is refused everywhere",
        "V1": "an engine that was asked to publish load and cannot refuses to start",
        "A1": "/server_info always has the key kv_events, null or a block of six keys",
        "A2": "the two load keys stand together or not at all",
        "A3": "IPv6 hosts are bracketed in the advertisement",
        "A4": "an unusable configuration makes the whole block null, and the route still answers",
        "P1": "one in interval unforced calls passes; a forced call always does",
        "P2": "a changed reading goes out at once, an unchanged one at most once a second",
        "P3": "a reading handed in is used as it is; a disabled publisher never asks",
        "P4": "no failure reaches the scheduler loop; one warning per failure episode",
        "P5": "every batch result publishes, before the results are processed",
        "P6": "idle publishes on every pass, a stall at most once in 50 ms",
        "P7": "the load socket and the in-engine sink share one snapshot per cycle",
        "C1": "the port comes from the advertisement, the host from the worker's own URL",
        "C2": "a reading is fresh for a window longer than the heartbeat",
        "C3": "a worker's load exists only while every advertised rank is fresh",
        "C4": "unknown load falls back to the router's own counter",
        "C5": "a message that does not decode changes nothing",
        "C6": "a removed worker takes its readings along",
        "C7": "a restarted engine on the same port is read again without help",
    }
)
"""Every rule of the contract by id, in one line."""

RULE_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "W1": "one tagged array",
        "W2": "6 elements",
        "W3": "11 elements",
        "W4": "all elements sent",
        "W5": "counts are unsigned",
        "W6": "canonical bytes",
        "W7": "every legal spelling",
        "W8": "unknown tail ignored",
        "W9": "no zero invented",
        "W10": "other bytes refused",
        "W11": "grows at the end",
        "W12": "partial tail",
        "F1": "three frames",
        "F2": "the topic is load",
        "F3": "8-byte sequence",
        "F4": "frame 2 is a payload",
        "F5": "no KV events here",
        "S1": "from 0, one by one",
        "S2": "gaps are legal",
        "S3": "no sequence filter",
        "K1": "options, then bind",
        "K2": "never CONFLATE",
        "K3": "a failed bind",
        "K4": "close is idempotent",
        "R1": "who publishes",
        "R2": "which slot",
        "R3": "port = base + rank",
        "E1": "off unless asked for",
        "E2": "auto, behind KV",
        "E3": "explicit address",
        "E4": "wildcard hosts only",
        "E5": "declines say why",
        "E6": "up to port 65535",
        "E7": "one resolver",
        "E8": "IPv6 in brackets",
        "V1": "refuse to start",
        "A1": "kv_events is there",
        "A2": "both load keys",
        "A3": "IPv6 host bracketed",
        "A4": "null when unusable",
        "P1": "throttle",
        "P2": "dedup and heartbeat",
        "P3": "snapshot reuse",
        "P4": "failures stay inside",
        "P5": "each batch publishes",
        "P6": "idle and stall",
        "P7": "one snapshot a cycle",
        "C1": "where to subscribe",
        "C2": "fresh for a window",
        "C3": "all ranks or unknown",
        "C4": "unknown: own counter",
        "C5": "bad bytes, no change",
        "C6": "removed means gone",
        "C7": "restart, read again",
    }
)
"""Each rule in at most 20 characters, for tables; :data:`RULES` says what it asks for."""
