"""The advertisement, the validation at start, and a router's plan."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pytest_loadwire.discovery import (
    KVEventsConfig,
    KVEventsConfigError,
    LoadPublishArgsError,
    NoPlan,
    NoPlanReason,
    Plan,
    check_load_publish_args,
    kv_events_block,
    plan,
)
from pytest_loadwire.endpoints import Decline, DeclineReason, LoadRange
from pytest_loadwire.errors import LoadwireError

NO_KV = DeclineReason.NO_KV_EVENTS
KV_UNUSABLE = DeclineReason.KV_NOT_ADVERTISABLE
NOT_BINDABLE = DeclineReason.NOT_BINDABLE
OVERLAPS_KV = DeclineReason.OVERLAPS_KV
OVERLAPS_REPLAY = DeclineReason.OVERLAPS_REPLAY
PAST = DeclineReason.PAST_PORT_65535


def zmq_config(endpoint: str = "tcp://*:5557", **more: object) -> str:
    """The text of a ``--kv-events-config`` that publishes on ``endpoint``."""
    return json.dumps({"publisher": "zmq", "endpoint": endpoint, **more})


CONFIGS = [
    ("{}", KVEventsConfig("null", "tcp://*:5557", None, "")),
    (' {"publisher":"zmq"} ', KVEventsConfig("zmq")),
    ('{"publisher":"zmq","endpoint":""}', KVEventsConfig("zmq", "")),
    ('{"replay_endpoint":null}', KVEventsConfig()),
    (
        '{"publisher":"zmq","endpoint":"tcp://*:1","replay_endpoint":"tcp://*:2","topic":"kv"}',
        KVEventsConfig("zmq", "tcp://*:1", "tcp://*:2", "kv"),
    ),
    ('{"publisher":"zmq","hwm":5,"later":{}}', KVEventsConfig("zmq")),
    ('{"publisher":"null","publisher":"zmq"}', KVEventsConfig("zmq")),
]

# text, part of the error
BAD_CONFIGS = [
    ("", "no JSON"),
    ("not-json", "no JSON"),
    ("{not json", "no JSON"),
    ('{"publisher":"zmq",}', "no JSON"),
    ('{"publisher":"zmq"}x', "no JSON"),
    ("\ufeff{}", "no JSON"),
    ("[" * 100_000, "no JSON"),
    ("[]", "object"),
    ("null", "object"),
    ('"zmq"', "object"),
    ('{"publisher":null}', "publisher must be a string, not null"),
    ('{"publisher":1}', "publisher must be a string, not 1"),
    ('{"endpoint":5557}', "endpoint must be a string, not 5557"),
    ('{"endpoint":null}', "endpoint must be a string, not null"),
    ('{"replay_endpoint":["x"]}', "replay_endpoint must be a string"),
    ('{"topic":true}', "topic must be a string, not true"),
    ('{"topic":"\\ud800"}', "topic has a lone surrogate"),
]


@pytest.mark.parametrize(("text", "expected"), CONFIGS)
def test_a_kv_events_config_has_defaults_and_room_for_more(
    text: str, expected: KVEventsConfig
) -> None:
    """Missing keys have SGLang's defaults, and keys of other readers are ignored."""
    assert KVEventsConfig.from_cli(text) == expected


@pytest.mark.parametrize(("text", "part"), BAD_CONFIGS, ids=[t[:40] for t, _ in BAD_CONFIGS])
def test_a_kv_events_config_that_is_none_is_refused(text: str, part: str) -> None:
    """V1: a text that is no JSON object of the right types is refused, and the error says why."""
    with pytest.raises(KVEventsConfigError) as caught:
        KVEventsConfig.from_cli(text)
    assert part in str(caught.value)
    assert isinstance(caught.value, LoadwireError)


def six(host: str, port: int, topic: str = "", block: int = 64, dp_size: int = 1) -> dict[str, Any]:
    """A block without load keys."""
    return {
        "publisher": "zmq",
        "endpoint_host": host,
        "endpoint_port_base": port,
        "topic": topic,
        "block_size": block,
        "dp_size": dp_size,
    }


def load(base: int) -> dict[str, Any]:
    """The load keys of a block."""
    return {"load_endpoint_port_base": base, "load_topic": "load"}


# config, page size, dp size, mode, block
BLOCKS: list[tuple[str | None, int | None, int, str | None, dict[str, Any] | None]] = [
    (zmq_config(topic="kv"), 64, 2, "auto", six("*", 5557, "kv", 64, 2) | load(5559)),
    (
        zmq_config(topic="kv", replay_endpoint="tcp://*:5558"),
        64,
        2,
        "auto",
        six("*", 5557, "kv", 64, 2) | load(5560),
    ),
    (zmq_config(), 64, 2, "tcp://*:7000", six("*", 5557, dp_size=2) | load(7000)),
    (zmq_config("tcp://0.0.0.0:5557"), 1, 1, "auto", six("0.0.0.0", 5557, block=1) | load(5558)),
    (zmq_config("tcp://[::]:5557"), 64, 1, "auto", six("[::]", 5557) | load(5558)),
    # The load keys are absent, the KV keys are not
    (zmq_config("tcp://10.0.0.5:5557"), 64, 1, "auto", six("10.0.0.5", 5557)),
    (zmq_config("tcp://[2001:db8::5]:5557"), 64, 1, "auto", six("[2001:db8::5]", 5557)),
    (zmq_config(), 64, 1, "off", six("*", 5557)),
    (zmq_config(), 64, 1, "  ", six("*", 5557)),
    (zmq_config(), 64, 1, None, six("*", 5557)),
    (zmq_config("tcp://*:65535"), 64, 1, "auto", six("*", 65535)),
    (zmq_config(), 64, 4, "tcp://*:5558", six("*", 5557, dp_size=4)),
    (zmq_config(), 64, 1, "tcp://10.0.0.5:7000", six("*", 5557)),
    (zmq_config("tcp://0.0.0.0:7777", topic="kv"), 128, 1, None, six("0.0.0.0", 7777, "kv", 128)),
    # KV events on one host and load on another: why a router never dials endpoint_host
    (zmq_config("tcp://10.0.0.5:5557"), 64, 1, "tcp://*:7000", six("10.0.0.5", 5557) | load(7000)),
    # No block at all
    (None, 64, 1, "auto", None),
    ("", 64, 1, "auto", None),
    ("{}", 64, 1, "auto", None),
    ('{"publisher":"null"}', 64, 1, "auto", None),
    ("not-json", 64, 1, "auto", None),
    (zmq_config(""), 64, 1, "auto", None),
    (zmq_config("inproc://cache"), 64, 1, "auto", None),
    (zmq_config("tcp://0.0.0.0"), 64, 1, "auto", None),
    (zmq_config("tcp://0.0.0.0:abc"), 64, 1, "auto", None),
    (zmq_config("tcp://*:0"), 64, 1, "auto", None),
    (zmq_config("tcp://*:-1"), 64, 1, "auto", None),
    (zmq_config("tcp://*:65536"), 64, 1, "auto", None),
    (zmq_config("tcp://*:1000000"), 64, 1, "auto", None),
    (zmq_config("tcp://::1:5557"), 64, 1, "auto", None),
    (zmq_config("tcp://2001:db8::5"), 64, 1, "auto", None),
    (zmq_config(), None, 1, "auto", None),
    (zmq_config(), 0, 1, "auto", None),
    (zmq_config(), -1, 1, "auto", None),
]


@pytest.mark.parametrize(("config", "page_size", "dp_size", "mode", "expected"), BLOCKS)
def test_server_info_advertises_what_can_be_subscribed_to(
    config: str | None,
    page_size: int | None,
    dp_size: int,
    mode: str | None,
    expected: dict[str, Any] | None,
) -> None:
    """A1 to A4: six keys, the load keys together or not at all, or no block."""
    block = kv_events_block(
        config, page_size=page_size, dp_size=dp_size, load_publish_endpoint=mode
    )
    assert block == expected
    assert json.loads(json.dumps(block)) == expected


def test_decode_context_parallelism_widens_the_block_and_no_range() -> None:
    """A1: block_size is the page size times dcp_size, dp_size counts publishers only."""
    block = kv_events_block(zmq_config(), page_size=64, dp_size=2, dcp_size=4)
    assert block == six("*", 5557, block=256, dp_size=2)


@pytest.mark.parametrize(("config", "page_size", "dp_size", "mode", "block"), BLOCKS)
def test_what_is_advertised_is_what_is_bound(
    config: str | None,
    page_size: int | None,
    dp_size: int,
    mode: str | None,
    block: dict[str, Any] | None,
) -> None:
    """E7: the advertised base is the base of the range that a publisher would bind."""
    if block is None or config is None:
        return
    outcome = KVEventsConfig.from_cli(config).load_range(
        dp_size=dp_size, load_publish_endpoint=mode
    )
    base = outcome.base if isinstance(outcome, LoadRange) else None
    assert block.get("load_endpoint_port_base") == base


@pytest.mark.parametrize("text", ["{}", '{"publisher":"null"}', zmq_config("")])
def test_no_load_range_without_kv_events(text: str) -> None:
    """E2, E3: publisher null, or no endpoint, is no KV-event stream, whatever its default says."""
    outcome = KVEventsConfig.from_cli(text).load_range(dp_size=1, load_publish_endpoint="auto")
    assert isinstance(outcome, Decline)
    assert outcome.reason is NO_KV


# config, dp size, mode, reason, parts of the text
REFUSED: list[tuple[str | None, int, str, DeclineReason, list[str]]] = [
    (None, 1, "auto", NO_KV, ["--load-publish-endpoint", "--kv-events-config"]),
    (None, 1, "tcp://*:6000", NO_KV, ["--kv-events-config"]),
    ("", 1, "auto", NO_KV, ["--kv-events-config"]),
    (None, 0, "auto", NO_KV, ["--kv-events-config"]),
    ("{not json", 1, "auto", NO_KV, ["not parseable", "line 1"]),
    ('{"publisher":5}', 1, "auto", NO_KV, ["not parseable", "publisher must be a string"]),
    ("{}", 1, "auto", NO_KV, ["null", "zmq"]),
    ('{"publisher":"null"}', 1, "auto", NO_KV, ["null", "zmq"]),
    (zmq_config(""), 1, "auto", NO_KV, ["empty endpoint"]),
    (zmq_config(), 1, "tcp://10.0.0.5:6000", NOT_BINDABLE, ["bindable"]),
    (zmq_config("tcp://10.0.0.5:5557"), 1, "auto", NOT_BINDABLE, ["bindable", "wildcard"]),
    (zmq_config("ipc:///run/kv"), 1, "auto", KV_UNUSABLE, ["bindable", "ipc:///run/kv"]),
    (zmq_config("ipc:///run/kv"), 1, "tcp://*:6000", KV_UNUSABLE, ["kv_events"]),
    (zmq_config("tcp://::1:5557"), 1, "auto", KV_UNUSABLE, ["tcp://[::1]:5557"]),
    (zmq_config(), 4, "tcp://*:5558", OVERLAPS_KV, ["overlaps"]),
    (
        zmq_config(replay_endpoint="tcp://*:6000"),
        1,
        "tcp://*:6000",
        OVERLAPS_REPLAY,
        ["overlaps", "replay"],
    ),
    (zmq_config("tcp://*:65535"), 1, "auto", PAST, ["65535"]),
]

# config, dp size, mode
ADMITTED: list[tuple[str | None, int, str | None]] = [
    (None, 1, None),
    (None, 1, "off"),
    ("{not json", 1, " OFF "),
    ("{not json", 1, "  "),
    ('{"publisher":"null"}', 1, None),
    (zmq_config(), 1, None),
    (zmq_config(), 1, "OFF"),
    (zmq_config(), 1, "auto"),
    ('{"publisher":"zmq"}', 1, "auto"),
    (zmq_config(), 1, "tcp://*:6000"),
    (zmq_config(), 4, "tcp://*:5561"),
    ('{"publisher":"foo"}', 1, "auto"),
    (zmq_config(), 0, "auto"),
]


@pytest.mark.parametrize(("config", "dp_size", "mode", "reason", "parts"), REFUSED)
def test_an_engine_that_cannot_publish_refuses_to_start(
    config: str | None, dp_size: int, mode: str, reason: DeclineReason, parts: list[str]
) -> None:
    """V1: asked and unable is an error with a reason code and a text that says what to change."""
    with pytest.raises(LoadPublishArgsError) as caught:
        check_load_publish_args(
            kv_events_config=config, dp_size=dp_size, load_publish_endpoint=mode
        )
    assert caught.value.reason is reason
    assert [part for part in parts if part not in str(caught.value)] == []
    assert isinstance(caught.value, LoadwireError)
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # xdist sends it home
    assert (again.reason, str(again)) == (reason, str(caught.value))


@pytest.mark.parametrize(("config", "dp_size", "mode"), ADMITTED)
def test_an_engine_that_can_publish_or_is_not_asked_starts(
    config: str | None, dp_size: int, mode: str | None
) -> None:
    """V1: off is never refused, even with a KV configuration that is broken."""
    check_load_publish_args(kv_events_config=config, dp_size=dp_size, load_publish_endpoint=mode)


BLOCK: dict[str, Any] = six("*", 5557, "kv", 64, 2) | load(5559)


def without(*keys: str) -> dict[str, Any]:
    """The usual block without some keys."""
    return {key: value for key, value in BLOCK.items() if key not in keys}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://10.0.0.5:30000", "10.0.0.5"),
        ("http://10.0.0.5:30000/", "10.0.0.5"),
        ("http://10.0.0.5", "10.0.0.5"),
        ("https://worker-1.example:443/v1?x=@", "worker-1.example"),
        ("grpc://worker_1:20000", "worker_1"),
        ("http://LOCALHOST:30000", "localhost"),
        ("http://127.0.0.1:30000", "127.0.0.1"),
        ("http://[2001:db8::5]:30000", "[2001:db8::5]"),
        ("http://[::1]:30000", "[::1]"),
        ("http://[::1]", "[::1]"),
        ("http://[fe80::1%25eth0]:30000", "[fe80::1%eth0]"),
        ("http://[fe80::1%eth0]:30000", "[fe80::1%eth0]"),
        ("http://[::ffff:10.0.0.5]:30000", "[::ffff:10.0.0.5]"),
    ],
)
def test_a_plan_pairs_the_advertised_ports_with_the_workers_own_host(url: str, host: str) -> None:
    """C1: one endpoint per rank, the host from the URL, IPv6 in brackets, never the KV host."""
    outcome = plan(url, BLOCK)
    assert isinstance(outcome, Plan)
    dialled = [(e.rank, e.endpoint) for e in outcome.endpoints]
    assert dialled == [(0, f"tcp://{host}:5559"), (1, f"tcp://{host}:5560")]
    assert (outcome.host, outcome.topic, outcome.dp_size) == (host, "load", 2)
    assert outcome.warning == ""


@pytest.mark.parametrize("kv_host", ["*", "0.0.0.0", "[::]", "10.9.9.9", "[2001:db8::9]"])
def test_a_plan_never_dials_where_kv_events_are(kv_host: str) -> None:
    """C1: endpoint_host is a wildcard or another machine, so it is not looked at."""
    outcome = plan("http://10.0.0.5:30000", BLOCK | {"endpoint_host": kv_host})
    assert outcome == plan("http://10.0.0.5:30000", BLOCK)


def test_a_plan_reads_the_port_and_never_derives_it() -> None:
    """C1: a base that no packing would give is taken as it is advertised."""
    outcome = plan("http://w:1", BLOCK | {"load_endpoint_port_base": 1, "dp_size": 1})
    assert isinstance(outcome, Plan)
    assert [e.endpoint for e in outcome.endpoints] == ["tcp://w:1"]


def test_a_plan_ignores_keys_that_it_does_not_know() -> None:
    """A1: SGLang 0.5.23 adds replay_endpoint_port_base, and later engines may add more."""
    more = BLOCK | {"replay_endpoint_port_base": 5558, "later": [1]}
    assert plan("http://w:1", more) == plan("http://w:1", BLOCK)


@pytest.mark.parametrize(
    ("base", "dp_size", "ports", "skipped", "warned"),
    [
        (65535, 1, [65535], range(1, 1), ""),
        (65534, 2, [65534, 65535], range(2, 2), ""),
        (65535, 2, [65535], range(1, 2), "rank 1 would be past port 65535"),
        (65534, 4, [65534, 65535], range(2, 4), "ranks 2 to 3 would be past port 65535"),
        (65535, 10**30, [65535], range(1, 10**30), "would be past port 65535"),
    ],
)
def test_a_rank_past_the_last_port_is_skipped_and_said(
    base: int, dp_size: int, ports: list[int], skipped: range, warned: str
) -> None:
    """C1: no port is ever wrapped around, and however large dp_size is, it costs nothing."""
    outcome = plan("http://w:1", BLOCK | {"load_endpoint_port_base": base, "dp_size": dp_size})
    assert isinstance(outcome, Plan)
    assert [e.endpoint for e in outcome.endpoints] == [f"tcp://w:{port}" for port in ports]
    assert outcome.skipped == skipped
    assert warned in outcome.warning
    assert bool(outcome.warning) == bool(warned)
    assert outcome.dp_size == dp_size


NO_PLANS: list[tuple[str, object, NoPlanReason, str]] = [
    ("http://w:1", None, NoPlanReason.NO_BLOCK, "null"),
    ("http://w:1", [], NoPlanReason.NO_BLOCK, "[]"),
    ("http://w:1", "zmq", NoPlanReason.NO_BLOCK, "not an object"),
    (
        "http://w:1",
        without("load_topic", "load_endpoint_port_base"),
        NoPlanReason.NO_LOAD_KEYS,
        "--load-publish-endpoint",
    ),
    ("http://w:1", {}, NoPlanReason.NO_LOAD_KEYS, "no load keys"),
    ("http://w:1", without("load_topic"), NoPlanReason.ONE_LOAD_KEY, "load_endpoint_port_base al"),
    ("http://w:1", without("load_endpoint_port_base"), NoPlanReason.ONE_LOAD_KEY, "load_topic al"),
    *(
        ("http://w:1", BLOCK | {"load_endpoint_port_base": port}, NoPlanReason.BAD_PORT, repr(port))
        for port in (0, -1, 65536, "5559", 5559.0, True, None, [5559])
    ),
    *(
        ("http://w:1", BLOCK | {"load_topic": topic}, NoPlanReason.BAD_TOPIC, repr(topic))
        for topic in ("", "kv", "loadx", "Load", None, 5)
    ),
    *(
        ("http://w:1", BLOCK | {"dp_size": size}, NoPlanReason.BAD_DP_SIZE, repr(size))
        for size in (0, -1, "2", 2.0, True, None)
    ),
    ("http://w:1", without("dp_size"), NoPlanReason.BAD_DP_SIZE, "None"),
    *(
        (url, BLOCK, NoPlanReason.BAD_URL, part)
        for url, part in (
            ("", "no scheme or no host"),
            ("http://[::1]]:1", "no IPv6 address"),
            ("http://[::1]x:1", "no IPv6 address"),
            ("10.0.0.5:30000", "no scheme or no host"),
            ("localhost:30000", "no scheme or no host"),
            ("http:10.0.0.5:30000", "no scheme or no host"),
            ("//10.0.0.5:30000", "no scheme or no host"),
            ("http://", "no scheme or no host"),
            ("http://:30000", "no scheme or no host"),
            ("http://10.0.0.5:30000@1", "an @"),
            ("http://user@10.0.0.5:30000", "an @"),
            ("http://2001:db8::5:30000", "no URL"),
            ("http://[::1", "no URL"),
            ("http://[localhost]:30000", ""),
            ("http://[v1.x]:30000", ""),
            ("http://w:port", "no URL"),
            ("http://w:99999", "no URL"),
            ("http://w w:1", "blanks"),
            ("http://w\n:1", "control"),
            ("http://w;x:1", "no usable host"),
            ("http://h\u00e9:1", "no usable host"),
            ("http://*:30000", "wildcard"),
            ("http://0.0.0.0:30000", "wildcard"),
            ("http://0:30000", "wildcard"),
            ("http://000.0:30000", "wildcard"),
            ("http://0x0:30000", "wildcard"),
            ("http://[::]:30000", "wildcard"),
            ("http://[0:0::0]:30000", "wildcard"),
            ("http://[::ffff:0.0.0.0]:30000", "wildcard"),
        )
    ),
]


@pytest.mark.parametrize(("url", "block", "reason", "part"), NO_PLANS)
def test_where_nothing_can_be_subscribed_to_the_plan_says_why(
    url: str, block: object, reason: NoPlanReason, part: str
) -> None:
    """C1, A2: half an advertisement, a bad number or a URL without a host is no plan."""
    outcome = plan(url, block)
    assert isinstance(outcome, NoPlan)
    assert (outcome.reason, part in outcome.text) == (reason, True), outcome


@pytest.mark.parametrize(("config", "page_size", "dp_size", "mode", "block"), BLOCKS)
def test_a_router_dials_what_an_engine_binds(
    config: str | None,
    page_size: int | None,
    dp_size: int,
    mode: str | None,
    block: dict[str, Any] | None,
) -> None:
    """E7, C1: an engine's block and a router's plan give the same port for each rank."""
    outcome = plan("http://10.0.0.5:30000", block)
    if isinstance(outcome, NoPlan):
        expected = NoPlanReason.NO_BLOCK if block is None else NoPlanReason.NO_LOAD_KEYS
        assert outcome.reason is expected
        return
    bound = KVEventsConfig.from_cli(config or "").load_range(
        dp_size=dp_size, load_publish_endpoint=mode
    )
    assert isinstance(bound, LoadRange)
    dialled = [int(e.endpoint.rpartition(":")[2]) for e in outcome.endpoints]
    assert dialled == [bound.port(rank) for rank in range(dp_size)]
