"""The addresses. "SGLang reads" marks text that SGLang 0.5.23 accepts and this parser refuses."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import logging

import pytest

from pytest_loadwire.endpoints import (
    Decline,
    DeclineReason,
    EndpointError,
    LoadRange,
    TcpAddress,
    Topology,
    is_kv_publisher_rank,
    is_zmq_endpoint_ipv6,
    parse_advertisable_tcp,
    parse_bindable_tcp,
    parse_tcp_port,
    resolve_load_pub_range,
    select_kv_publisher_dp_rank,
)
from pytest_loadwire.errors import LoadwireError

OFF = DeclineReason.OFF
NO_KV = DeclineReason.NO_KV_EVENTS
KV_UNUSABLE = DeclineReason.KV_NOT_ADVERTISABLE
NOT_BINDABLE = DeclineReason.NOT_BINDABLE
OVERLAPS_KV = DeclineReason.OVERLAPS_KV
OVERLAPS_REPLAY = DeclineReason.OVERLAPS_REPLAY
PAST = DeclineReason.PAST_PORT_65535

# endpoint, port of any host, advertised host, bindable host
READABLE = [
    ("tcp://*:5557", 5557, "*", "*"),
    ("tcp://0.0.0.0:5557", 5557, "0.0.0.0", "0.0.0.0"),
    ("tcp://[::]:5557", 5557, "[::]", "::"),
    ("tcp://*:1", 1, "*", "*"),
    ("tcp://*:65535", 65535, "*", "*"),
    # Wildcards are compared as text, so other spellings of them cannot be bound.
    ("tcp://[::0]:5557", 5557, "[::0]", None),
    ("tcp://[0:0:0:0:0:0:0:0]:5557", 5557, "[0:0:0:0:0:0:0:0]", None),
    ("tcp://0:5557", 5557, "0", None),
    ("tcp://00.0.0.0:5557", 5557, "00.0.0.0", None),
    ("tcp://[::1]:5557", 5557, "[::1]", None),
    ("tcp://[2001:db8::5]:5557", 5557, "[2001:db8::5]", None),
    ("tcp://[fe80::1%eth0]:80", 80, "[fe80::1%eth0]", None),
    ("tcp://[::ffff:10.0.0.1]:5557", 5557, "[::ffff:10.0.0.1]", None),
    ("tcp://10.0.0.5:5557", 5557, "10.0.0.5", None),
    ("tcp://localhost:5557", 5557, "localhost", None),
    ("tcp://my-host.example_1:5557", 5557, "my-host.example_1", None),
    ("tcp://eth0:5557", 5557, "eth0", None),
]

# endpoint, part of what the error says
UNREADABLE = [
    ("", "does not start with tcp://"),
    ("*:5557", "does not start with tcp://"),
    ("5557", "does not start with tcp://"),
    ("TCP://*:5557", "does not start with tcp://"),
    (" tcp://*:5557", "does not start with tcp://"),
    ("ipc:///run/kv.sock", "does not start with tcp://"),
    ("inproc://kv", "does not start with tcp://"),
    ("udp://*:5557", "does not start with tcp://"),
    ("tcp://", "no port"),
    ("tcp://*", "no port"),
    ("tcp://0.0.0.0", "no port"),
    ("tcp://*:", "no port"),
    ("tcp://[::1]", "no port"),
    ("tcp://[::1]:", "no port"),
    ("tcp://[::1]8000", "no port"),
    ("tcp://[::1]]:80", "no port"),
    ("tcp://[::1:8000", "no closing bracket"),
    ("tcp://[localhost]:80", "no IPv6 address"),
    ("tcp://[127.0.0.1]:80", "no IPv6 address"),
    ("tcp://[]:80", "no IPv6 address"),
    ("tcp://[*]:5557", "no IPv6 address"),
    ("tcp://:8000", "no usable host"),
    ("tcp://*:*", "no decimal port"),
    ("tcp://*:abc", "no decimal port"),
    ("tcp://*:0x50", "no decimal port"),
    ("tcp://*:5557/", "no decimal port"),
    ("tcp://*:-100", "no decimal port"),
    ("tcp://[::1]::80", "no decimal port"),
    ("tcp://*:0", "1 to 65535"),
    ("tcp://*:65536", "1 to 65535"),
    ("tcp://*:1000000", "1 to 65535"),
    ("tcp://[::1]:65536", "1 to 65535"),
    ("tcp://*:" + "9" * 5000, "1 to 65535"),  # more digits than int() takes
    ("tcp://::1:5557", "write tcp://[::1]:5557"),
    ("tcp://:::5557", "write tcp://[::]:5557"),
    ("tcp://2001:db8::5:5557", "bare IPv6"),
    ("tcp://fe80::1%eth0:80", "bare IPv6"),
    ("tcp://::ffff:10.0.0.1:5557", "bare IPv6"),
    ("tcp://2001:db8::5", "write tcp://[2001:db8::5]:PORT"),  # SGLang reads port 5
    ("tcp://::1", "write tcp://[::1]:PORT"),  # SGLang reads port 1
    ("tcp://::", "bare IPv6"),
    ("tcp://*:5_557", "no decimal port"),  # SGLang reads 5557, libzmq binds 5
    ("tcp://*:+5557", "no decimal port"),  # SGLang reads
    ("tcp://*: 5557", "no decimal port"),  # SGLang reads
    ("tcp://*:5557 ", "no decimal port"),  # SGLang reads
    ("tcp://*:5557\n", "no decimal port"),  # SGLang reads
    ("tcp://*:\u0665\u0665\u0665\u0667", "no decimal port"),  # SGLang reads 5557
    ("tcp://*:05557", "leading zeros"),  # SGLang reads
    ("tcp://a:b:80", "no usable host"),  # SGLang reads
    ("tcp://tcp://*:5557", "no usable host"),  # SGLang reads
    ("tcp://user@host:80", "no usable host"),  # SGLang reads
    ("tcp://]:80", "no usable host"),  # SGLang reads
    ("tcp:// host:80", "no usable host"),  # SGLang reads
    ("tcp://eth0;10.0.0.1:5557", "no usable host"),  # SGLang reads
    ("tcp://h\u00e9:80", "no usable host"),  # SGLang reads
    ("tcp://[fe80::1% x]:80", "no IPv6 address"),  # SGLang reads
]


@pytest.mark.parametrize(("endpoint", "port", "advertised", "bindable"), READABLE)
def test_a_tcp_endpoint_is_read(
    endpoint: str, port: int, advertised: str, bindable: str | None
) -> None:
    """E4, A3: the three readings of one endpoint agree on the port and differ in the host."""
    assert parse_tcp_port(endpoint) == port
    assert parse_advertisable_tcp(endpoint) == (advertised, port)
    assert parse_bindable_tcp(endpoint) == (None if bindable is None else (bindable, port))
    assert str(TcpAddress.parse(endpoint)) == endpoint


@pytest.mark.parametrize(("endpoint", "text"), UNREADABLE, ids=[u[0][:40] for u in UNREADABLE])
def test_what_is_no_tcp_endpoint_is_refused_in_every_reading(endpoint: str, text: str) -> None:
    """E8: text that other parsers would read differently is refused, and the error says why."""
    assert parse_tcp_port(endpoint) is None
    assert parse_advertisable_tcp(endpoint) is None
    assert parse_bindable_tcp(endpoint) is None
    with pytest.raises(EndpointError) as caught:
        TcpAddress.parse(endpoint)
    assert text in str(caught.value)
    assert isinstance(caught.value, LoadwireError)
    assert isinstance(caught.value, ValueError)


def test_no_endpoint_has_no_port() -> None:
    """An endpoint that is not configured is read as none, not as an error."""
    readings = (parse_tcp_port(None), parse_advertisable_tcp(None), parse_bindable_tcp(None))
    assert readings == (None, None, None)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://[::]:5558", True),
        ("tcp://[::1]:1", True),
        ("tcp://[fe80::1%eth0]:1", True),
        ("tcp://[::1]", True),
        ("tcp://*:1", False),
        ("tcp://0.0.0.0:1", False),
        ("tcp://::1:1", False),
        ("tcp://[host]:1", False),
        ("tcp://[::1", False),
        ("ipc://[::1]", False),
        ("TCP://[::1]:1", False),
    ],
)
def test_ipv6_is_switched_on_for_bracketed_literals_only(endpoint: str, expected: bool) -> None:
    """K1: a socket sets IPV6 exactly when the host is an IPv6 literal in brackets."""
    assert is_zmq_endpoint_ipv6(endpoint) is expected


@pytest.mark.parametrize(
    ("attn_dp_size", "attn_dp_rank", "dp_rank", "slot"),
    [
        (1, 0, 0, 0),
        (1, 0, 1, 1),
        (1, 0, 3, 3),
        (1, 0, None, 0),
        (1, 5, 2, 2),
        (2, 0, None, 0),
        (2, 1, None, 1),
        (2, 1, 99, 1),
        (4, 3, 0, 3),
    ],
)
def test_the_slot_follows_the_parallelism_mode(
    attn_dp_size: int, attn_dp_rank: int, dp_rank: int | None, slot: int
) -> None:
    """R2: attn_dp_rank under DP attention, else dp_rank, and 0 when unset."""
    assert select_kv_publisher_dp_rank(attn_dp_size, attn_dp_rank, dp_rank) == slot
    topology = Topology(attn_dp_size=attn_dp_size, attn_dp_rank=attn_dp_rank, dp_rank=dp_rank)
    assert topology.slot == slot


@pytest.mark.parametrize("dp_size", [1, 2, 4])
@pytest.mark.parametrize("mode", ["pure-dp", "dp-attention"])
def test_slots_are_distinct_and_each_gets_a_port_of_its_own(mode: str, dp_size: int) -> None:
    """R2, R3: the slots of all replicas are 0 to dp_size - 1 in both modes."""
    attention = mode == "dp-attention"
    slots = [
        select_kv_publisher_dp_rank(dp_size, r, 0)
        if attention
        else select_kv_publisher_dp_rank(1, 0, r)
        for r in range(dp_size)
    ]
    assert slots == list(range(dp_size))
    load_range = LoadRange("*", 5558, dp_size)
    ports = [load_range.port(slot) for slot in slots]
    assert ports == [5558, 5559, 5560, 5561][:dp_size]


@pytest.mark.parametrize(
    ("config", "ranks", "expected"),
    [
        (None, {}, False),
        ("", {}, False),
        ("{not json", {}, True),
        ('{"publisher":"zmq"}', {}, True),
        ('{"publisher":"zmq"}', {"pp_rank": 1}, False),
        ('{"publisher":"zmq"}', {"attn_tp_rank": 1}, False),
        ('{"publisher":"zmq"}', {"attn_cp_rank": 1}, False),
    ],
)
def test_only_the_first_rank_of_a_kv_cache_publishes(
    config: str | None, ranks: dict[str, int], expected: bool
) -> None:
    """R1: KV events are configured, and the pp, attention-TP and attention-CP ranks are all 0."""
    assert is_kv_publisher_rank(config, **ranks) is expected
    # Every data-parallel replica publishes, so its rank is no part of the gate.
    assert Topology(dp_rank=3, dp_size=4, **ranks).publishes(config) is expected


KV = "tcp://*:5557"

# kv, replay, dp_size, mode, (host, base) or the reason
RESOLVED: list[tuple[str | None, str | None, int, str | None, object]] = [
    # Off: nobody asked
    (KV, None, 1, None, OFF),
    (KV, None, 1, "", OFF),
    (KV, None, 1, "   ", OFF),
    (KV, None, 1, "off", OFF),
    (KV, None, 1, "OFF", OFF),
    (KV, None, 1, " Off ", OFF),
    ("tcp://10.0.0.5:5557", None, 1, None, OFF),
    (None, None, 1, None, OFF),
    (KV, None, 0, "auto", OFF),
    (KV, None, -1, "auto", OFF),
    (KV, None, 0, "tcp://*:7000", OFF),
    # auto: behind the KV range
    (KV, None, 1, "auto", ("*", 5558)),
    (KV, None, 1, "AUTO", ("*", 5558)),
    (KV, None, 1, " Auto ", ("*", 5558)),
    (KV, None, 2, "auto", ("*", 5559)),
    (KV, None, 4, "auto", ("*", 5561)),
    (KV, None, 8, "auto", ("*", 5565)),
    ("tcp://0.0.0.0:5557", None, 1, "auto", ("0.0.0.0", 5558)),
    ("tcp://[::]:5557", None, 1, "auto", ("::", 5558)),
    # auto: behind an overlapping replay range
    (KV, "tcp://*:5558", 1, "auto", ("*", 5559)),
    (KV, "tcp://*:5558", 2, "auto", ("*", 5560)),
    (KV, "tcp://*:5558", 4, "auto", ("*", 5562)),
    (KV, "tcp://*:5558", 8, "auto", ("*", 5566)),
    (KV, "tcp://*:6000", 1, "auto", ("*", 5558)),
    (KV, "tcp://127.0.0.1:5558", 1, "auto", ("*", 5559)),
    (KV, "tcp://[::1]:5558", 1, "auto", ("*", 5559)),
    (KV, "ipc:///r", 1, "auto", ("*", 5558)),
    (KV, "tcp://*:abc", 1, "auto", ("*", 5558)),
    (KV, "tcp://::1:5558", 1, "auto", ("*", 5558)),
    (KV, "tcp://*:5556", 4, "auto", ("*", 5561)),
    (KV, "tcp://*:5557", 4, "auto", ("*", 5561)),
    (KV, "tcp://*:5558", 4, "auto", ("*", 5562)),
    (KV, "tcp://*:5560", 4, "auto", ("*", 5564)),
    (KV, "tcp://*:5561", 4, "auto", ("*", 5565)),
    (KV, "tcp://*:5564", 4, "auto", ("*", 5568)),  # the last that overlaps
    (KV, "tcp://*:5565", 4, "auto", ("*", 5561)),  # the first that does not
    # auto: nothing to pack behind
    (None, None, 1, "auto", NO_KV),
    ("", None, 1, "auto", NO_KV),
    ("tcp://10.0.0.5:5557", None, 1, "auto", NOT_BINDABLE),
    ("tcp://[2001:db8::5]:5557", None, 1, "auto", NOT_BINDABLE),
    ("tcp://::1:5557", None, 1, "auto", KV_UNUSABLE),
    ("tcp://somehost", None, 1, "auto", KV_UNUSABLE),
    ("ipc:///run/kv.sock", None, 1, "auto", KV_UNUSABLE),
    ("inproc://kv", None, 1, "auto", KV_UNUSABLE),
    ("tcp://*:*", None, 1, "auto", KV_UNUSABLE),
    ("tcp://somehost:-100", None, 1, "auto", KV_UNUSABLE),
    ("tcp://*:0", None, 1, "auto", KV_UNUSABLE),
    ("TCP://*:5557", None, 1, "auto", KV_UNUSABLE),
    (" tcp://*:5557", None, 1, "auto", KV_UNUSABLE),
    # auto: the last port
    ("tcp://*:65535", None, 1, "auto", PAST),
    ("tcp://*:65534", None, 1, "auto", ("*", 65535)),
    ("tcp://*:65531", None, 2, "auto", ("*", 65533)),
    ("tcp://*:65532", None, 2, "auto", ("*", 65534)),
    ("tcp://*:65533", None, 2, "auto", PAST),
    ("tcp://*:65533", "tcp://*:65534", 1, "auto", ("*", 65535)),
    ("tcp://*:65534", "tcp://*:65535", 1, "auto", PAST),  # after stepping behind replay
    # An explicit address
    (KV, None, 1, "tcp://*:7000", ("*", 7000)),
    (KV, None, 4, "tcp://*:7000", ("*", 7000)),
    (KV, None, 1, " tcp://*:7000 ", ("*", 7000)),
    (KV, None, 1, "tcp://0.0.0.0:7000", ("0.0.0.0", 7000)),
    (KV, None, 1, "tcp://[::]:7000", ("::", 7000)),
    ("tcp://10.0.0.5:5557", None, 1, "tcp://*:7000", ("*", 7000)),
    # An explicit address that cannot be bound
    (KV, None, 1, "tcp://10.0.0.5:7000", NOT_BINDABLE),
    (KV, None, 1, "tcp://127.0.0.1:7000", NOT_BINDABLE),
    (KV, None, 1, "tcp://localhost:7000", NOT_BINDABLE),
    (KV, None, 1, "tcp://[2001:db8::5]:7000", NOT_BINDABLE),
    (KV, None, 1, "tcp://*:0", NOT_BINDABLE),
    (KV, None, 1, "tcp://*:65536", NOT_BINDABLE),
    (KV, None, 1, "tcp://*", NOT_BINDABLE),
    (KV, None, 1, "ipc:///x", NOT_BINDABLE),
    (KV, None, 1, "*:7000", NOT_BINDABLE),
    (KV, None, 1, "7000", NOT_BINDABLE),
    (KV, None, 1, "on", NOT_BINDABLE),
    (KV, None, 1, "true", NOT_BINDABLE),
    (KV, None, 1, "none", NOT_BINDABLE),
    (KV, None, 1, "TCP://*:7000", NOT_BINDABLE),
    # An explicit address on ports that are taken
    (KV, None, 1, "tcp://*:5557", OVERLAPS_KV),
    (KV, None, 4, "tcp://*:5558", OVERLAPS_KV),
    (KV, None, 4, "tcp://*:5560", OVERLAPS_KV),
    (KV, None, 4, "tcp://*:5561", ("*", 5561)),  # touches from above
    (KV, None, 4, "tcp://*:5553", ("*", 5553)),  # touches from below
    (KV, None, 4, "tcp://*:5554", OVERLAPS_KV),
    (KV, "tcp://*:6000", 4, "tcp://*:5997", OVERLAPS_REPLAY),
    (KV, "tcp://*:6000", 4, "tcp://*:6002", OVERLAPS_REPLAY),
    (KV, "tcp://*:6000", 4, "tcp://*:6004", ("*", 6004)),
    (KV, "tcp://*:6000", 4, "tcp://*:5996", ("*", 5996)),
    (KV, "tcp://127.0.0.1:5558", 1, "tcp://*:5558", OVERLAPS_REPLAY),
    (KV, "tcp://*:5558", 2, "tcp://*:5558", OVERLAPS_KV),  # KV is looked at before replay
    ("tcp://10.0.0.5:5557", None, 1, "tcp://*:5557", OVERLAPS_KV),  # on whichever machine
    # An explicit address that nobody would hear of
    ("ipc:///run/kv.sock", None, 1, "tcp://*:7000", KV_UNUSABLE),
    ("inproc://kv", None, 1, "tcp://*:7000", KV_UNUSABLE),
    ("tcp://0.0.0.0", None, 1, "tcp://*:7000", KV_UNUSABLE),
    ("tcp://::1:5557", None, 1, "tcp://*:7000", KV_UNUSABLE),
    ("tcp://*:0", None, 1, "tcp://*:7000", KV_UNUSABLE),
    ("", None, 1, "tcp://*:7000", NO_KV),
    (None, None, 1, "tcp://*:7000", NO_KV),
    (None, None, 1, "tcp://10.0.0.5:7000", NO_KV),  # before the address is looked at
    ("ipc:///run/kv.sock", None, 1, "tcp://10.0.0.5:7000", KV_UNUSABLE),
    # An explicit address: the last port
    (KV, None, 4, "tcp://*:65532", ("*", 65532)),
    (KV, None, 4, "tcp://*:65533", PAST),
    ("tcp://*:65533", None, 4, "tcp://*:65534", OVERLAPS_KV),  # overlap is looked at first
]


@pytest.mark.parametrize(("kv", "replay", "dp_size", "mode", "expected"), RESOLVED)
def test_the_resolver_gives_a_range_or_a_reason(
    kv: str | None,
    replay: str | None,
    dp_size: int,
    mode: str | None,
    expected: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E1 to E8: one range or one reason for each configuration, and never a log line."""
    caplog.set_level(logging.DEBUG)
    outcome = resolve_load_pub_range(
        kv_endpoint=kv, replay_endpoint=replay, dp_size=dp_size, load_publish_endpoint=mode
    )
    if isinstance(outcome, LoadRange):
        assert expected == (outcome.host, outcome.base)
        assert outcome.size == dp_size
        assert outcome.port(dp_size - 1) <= 65535
    else:
        assert expected == outcome.reason
        assert outcome.is_quiet == (outcome.text == "") == (outcome.reason is OFF)
        assert "None" not in outcome.text
    assert caplog.records == []


# kv, replay, dp_size, mode, all that the text must say
TEXTS = [
    (None, None, 1, "auto", ["auto", "--kv-events-config"]),
    (None, None, 1, "tcp://*:7000", ["'tcp://*:7000'", "--kv-events-config", "/server_info"]),
    ("ipc:///run/kv", None, 1, "auto", ["bindable", "'ipc:///run/kv'", "--kv-events-config"]),
    ("tcp://::1:5557", None, 1, "auto", ["write tcp://[::1]:5557"]),
    ("tcp://10.0.0.5:5557", None, 1, "auto", ["bindable", "10.0.0.5", "wildcard", "[::]"]),
    (KV, None, 1, "tcp://10.0.0.5:7000", ["not bindable", "10.0.0.5", "tcp://*:7000"]),
    (KV, None, 1, "on", ["not bindable", "'on'", "auto"]),
    (KV, None, 4, "tcp://*:5558", ["5558 to 5561", "overlaps the KV-event ports 5557 to 5560"]),
    (KV, "tcp://*:6000", 4, "tcp://*:6002", ["overlaps the replay ports 6000 to 6003", "4 or"]),
    (KV, None, 1, "tcp://*:5557", ["takes ports 5557 and overlaps"]),
    ("tcp://*:65535", None, 1, "auto", ["65536", "past port 65535", "move the KV endpoint"]),
    (KV, None, 4, "tcp://*:65533", ["65533 to 65536", "past port 65535", "lower base"]),
]


@pytest.mark.parametrize(("kv", "replay", "dp_size", "mode", "parts"), TEXTS)
def test_a_decline_says_what_to_change(
    kv: str | None, replay: str | None, dp_size: int, mode: str, parts: list[str]
) -> None:
    """E5: the text names the flag as it was given, what is in its way, and the way out."""
    outcome = resolve_load_pub_range(
        kv_endpoint=kv, replay_endpoint=replay, dp_size=dp_size, load_publish_endpoint=mode
    )
    assert isinstance(outcome, Decline)
    assert [part for part in ["--load-publish-endpoint=", *parts] if part not in outcome.text] == []


@pytest.mark.parametrize("dp_size", [1, 2, 3, 8])
def test_auto_never_overlaps_what_it_steps_around(dp_size: int) -> None:
    """E2: whatever the replay port, an auto range shares no port with KV or replay."""
    for replay in range(5557 - 2 * dp_size, 5557 + 4 * dp_size):
        outcome = resolve_load_pub_range(
            kv_endpoint=KV,
            replay_endpoint=f"tcp://*:{replay}",
            dp_size=dp_size,
            load_publish_endpoint="auto",
        )
        assert isinstance(outcome, LoadRange)
        load = set(range(outcome.base, outcome.base + dp_size))
        taken = {*range(5557, 5557 + dp_size), *range(replay, replay + dp_size)}
        assert load & taken == set()


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [("*", "tcp://*:5563"), ("0.0.0.0", "tcp://0.0.0.0:5563"), ("::", "tcp://[::]:5563")],
)
def test_a_rank_binds_base_plus_rank(host: str, endpoint: str) -> None:
    """R3: rank 2 of a range from 5561 binds 5563, an IPv6 host in brackets."""
    assert LoadRange(host, 5561, 4).endpoint(2) == endpoint


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_of_the_range_has_no_port(rank: int) -> None:
    """R3: a rank that the range has no port for is an error, not a neighbour's port."""
    with pytest.raises(IndexError, match="outside of 0 to 3"):
        LoadRange("*", 5561, 4).endpoint(rank)
