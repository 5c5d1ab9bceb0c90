"""What ``/server_info`` says of an engine: the blocks of `discovery.json`, spelled by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.golden.ranges import source
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import (
    Advertised,
    BlockVector,
    Choice,
    Unadvertised,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def zmq(endpoint: str = "tcp://*:5557", **more: str) -> str:
    """The text of a ``--kv-events-config`` that publishes on an endpoint."""
    config = {"publisher": "zmq", "endpoint": endpoint, **more}
    return json.dumps(config, separators=(",", ":"))


class Engine(NamedTuple):
    """The arguments of one engine; most differ from the usual ones in one or two."""

    config: str | None = zmq()
    mode: str | None = "auto"
    dp: int = 1
    page: int | None = 64


def block(
    host: str = "*",
    port: int = 5557,
    *,
    topic: str = "",
    page: int = 64,
    dp: int = 1,
    load: int | None = None,
) -> Advertised:
    """A block of six keys, and both load keys where there is a base."""
    keys: dict[str, Any] = {
        "publisher": "zmq",
        "endpoint_host": host,
        "endpoint_port_base": port,
        "topic": topic,
        "block_size": page,
        "dp_size": dp,
    }
    if load is not None:
        keys |= {"load_endpoint_port_base": load, "load_topic": "load"}
    return Advertised(keys)


NULL = Unadvertised()
ANY4 = "tcp://0.0.0.0"
PORT_5 = "tcp://2001:db8::5"

Block = Advertised | Unadvertised

# rule, row and mark, what it is for, name to engine and verdict
BLOCKS: tuple[
    tuple[str, str, str, dict[str, tuple[Engine, Block | Choice[Block]]]],
    ...,
] = (
    (
        "A1",
        "3 T",
        "every key of the contract, where load is published and where it is not",
        {
            "all-keys": (
                Engine(zmq(topic="kv"), dp=2),
                block(topic="kv", dp=2, load=5559),
            ),
            "six-keys": (
                Engine(zmq(f"{ANY4}:7777", topic="kv"), None, page=128),
                block("0.0.0.0", 7777, topic="kv", page=128),  # noqa: S104
            ),
        },
    ),
    (
        "E7",
        "3 T",
        "the base is that of the resolver, and so that of the socket",
        {
            "behind-replay": (
                Engine(zmq(topic="kv", replay_endpoint="tcp://*:5558"), dp=2),
                block(topic="kv", dp=2, load=5560),
            ),
            "explicit": (Engine(mode="tcp://*:7000", dp=2), block(dp=2, load=7000)),
        },
    ),
    (
        "E7",
        "by E7",
        "the same for one and for four schedulers, and at the last port",
        {
            "auto": (Engine(), block(load=5558)),
            "auto-dp-4": (Engine(dp=4), block(dp=4, load=5561)),
            "auto-last-port": (Engine(zmq("tcp://*:65534")), block(port=65534, load=65535)),
            "auto-padded": (Engine(mode=" Auto "), block(load=5558)),
            "page-1": (Engine(page=1), block(page=1, load=5558)),
        },
    ),
    (
        "A2",
        "3 T",
        "no range, so neither load key; the KV half of the block stays",
        {
            "kv-ipv4": (Engine(zmq("tcp://10.0.0.5:5557")), block("10.0.0.5")),
            "off": (Engine(mode="off"), block()),
            "past": (Engine(zmq("tcp://*:65535")), block(port=65535)),
        },
    ),
    (
        "A2",
        "by A2",
        "the same for each other way to have no range",
        {
            "unset": (Engine(mode=None), block()),
            "blank": (Engine(mode="  "), block()),
            "off-upper-case": (Engine(mode="OFF"), block()),
            "overlaps-kv": (Engine(mode="tcp://*:5558", dp=4), block(dp=4)),
            "overlaps-replay": (
                Engine(zmq(replay_endpoint="tcp://*:6000"), "tcp://*:6000"),
                block(),
            ),
            "at-ipv4": (Engine(mode="tcp://10.0.0.5:7000"), block()),
            "past-dp-2": (Engine(mode="tcp://*:65535", dp=2), block(dp=2)),
            "kv-ipv6-any-in-full": (Engine(zmq("tcp://[::0]:5557")), block("[::0]")),
        },
    ),
    (
        "A3",
        "3 T",
        "an IPv6 host stands in brackets",
        {
            "kv-ipv6-any": (Engine(zmq("tcp://[::]:5557")), block("[::]", load=5558)),
            "kv-ipv6": (Engine(zmq("tcp://[2001:db8::5]:5557")), block("[2001:db8::5]")),
        },
    ),
    (
        "A2",
        "3 D",
        "KV events on one host and load on another: why a router never dials endpoint_host",
        {
            "kv-ipv4-explicit": (
                Engine(zmq("tcp://10.0.0.5:5557"), "tcp://*:7000"),
                block("10.0.0.5", load=7000),
            ),
            "kv-ipv6-explicit": (
                Engine(zmq("tcp://[2001:db8::5]:5557"), "tcp://[::]:7000"),
                block("[2001:db8::5]", load=7000),
            ),
        },
    ),
    (
        "A4",
        "3 T",
        "nothing that a router could use: null, and the route answers",
        {
            "no-config": (Engine(None), NULL),
            "publisher-null": (Engine('{"publisher":"null"}'), NULL),
            "not-json": (Engine("not-json"), NULL),
            "inproc": (Engine(zmq("inproc://cache")), NULL),
            "no-port": (Engine(zmq(ANY4)), NULL),
            "port-text": (Engine(zmq(f"{ANY4}:abc")), NULL),
            "port-0": (Engine(zmq(f"{ANY4}:0")), NULL),
            "port-negative": (Engine(zmq(f"{ANY4}:-1")), NULL),
            "port-65536": (Engine(zmq(f"{ANY4}:65536")), NULL),
            "port-1000000": (Engine(zmq(f"{ANY4}:1000000")), NULL),
            "page-missing": (Engine(page=None), NULL),
            "page-0": (Engine(page=0), NULL),
            "page-negative": (Engine(page=-1), NULL),
        },
    ),
    (
        "A4",
        "by A4",
        "no load range saves a block that has no KV half",
        {
            "empty-config": (Engine(""), NULL),
            "no-publisher": (Engine("{}"), NULL),
            "not-an-object": (Engine("[]"), NULL),
            "cut-json": (Engine('{"publisher":"zmq"'), NULL),
            "wrong-type": (Engine('{"publisher":"zmq","endpoint":5557}'), NULL),
            "empty-endpoint": (Engine(zmq("")), NULL),
            "ipc": (Engine(zmq("ipc:///run/kv.sock")), NULL),
            "explicit-beside-ipc": (Engine(zmq("ipc:///run/kv.sock"), "tcp://*:7000"), NULL),
            "explicit-without-page": (Engine(mode="tcp://*:7000", page=0), NULL),
        },
    ),
    (
        "E8",
        "3 D",
        "an IPv6 address without brackets is advertised to nobody",
        {"kv-bare-ipv6": (Engine(zmq("tcp://::1:5557")), NULL)},
    ),
    (
        "A1",
        "by A1",
        "keys that the configuration leaves out have their defaults, and more keys do no harm",
        {
            "defaults": (Engine('{"publisher":"zmq"}'), block(load=5558)),
            "more-keys": (
                Engine('{"publisher":"zmq","later":{"a":[1]},"hwm":5}'),
                block(load=5558),
            ),
        },
    ),
    (
        "E8",
        "1.3 D",
        "SGLang reads the last group of an IPv6 address without brackets as its port",
        {
            "kv-ipv6-no-port": (
                Engine(zmq(PORT_5), None),
                Choice(
                    AddressPolicy.LOOSE_ENDPOINT,
                    {"strict": NULL, "sglang": block("2001:db8:", 5)},
                ),
            ),
        },
    ),
    (
        "A4",
        "1.3 D, L",
        "SGLang advertises port 5557 for 5_557, of which libzmq binds port 5",
        {
            "kv-port-underscore": (
                Engine(zmq("tcp://*:5_557")),
                Choice(
                    AddressPolicy.LOOSE_ENDPOINT,
                    {"strict": NULL, "sglang": block(load=5558)},
                ),
            ),
        },
    ),
)


def block_vectors() -> Iterator[BlockVector]:
    """Every block."""
    for rule, row, why, cases in BLOCKS:
        for name, (engine, expect) in cases.items():
            yield BlockVector(
                id=f"block-{name}",
                rule=rule,
                why=why,
                source=source("advertisement", row, "describe_kv_events_publisher"),
                config=engine.config,
                page_size=engine.page,
                dp_size=engine.dp,
                load_publish_endpoint=engine.mode,
                expect=expect,
            )
