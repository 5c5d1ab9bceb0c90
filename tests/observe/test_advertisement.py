"""The ``kv_events`` block, judged key by key."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loadwire.discovery import kv_events_block, plan
from pytest_loadwire.observe.advertisement import block_findings

GOOD = kv_events_block(
    '{"publisher": "zmq", "endpoint": "tcp://*:5557"}',
    page_size=64,
    dp_size=4,
    load_publish_endpoint="auto",
)
URL = "http://10.0.0.5:30000"

CHANGED: list[tuple[dict[str, Any], list[str], list[tuple[str, str, str]]]] = [
    ({"more": 1}, [], []),
    ({}, ["block_size"], [("error", "A1", "keys-missing")]),
    ({"publisher": None}, [], [("error", "A1", "bad-publisher")]),
    ({"endpoint_port_base": "5557"}, [], [("error", "A1", "bad-endpoint-port-base")]),
    ({"endpoint_port_base": 65536}, [], [("error", "A1", "bad-endpoint-port-base")]),
    ({"block_size": 0}, [], [("error", "A1", "bad-block-size")]),
    ({"block_size": True}, [], [("error", "A1", "bad-block-size")]),
    ({"endpoint_host": "::"}, [], [("error", "A3", "bare-ipv6")]),
    ({"endpoint_host": "[::]"}, [], []),
    ({"dp_size": 0}, [], [("error", "A1", "bad-dp-size"), ("error", "A1", "bad-dp-size")]),
    ({}, ["load_topic"], [("error", "A2", "one-load-key")]),
    ({}, ["load_topic", "load_endpoint_port_base"], [("error", "C4", "no-load-keys")]),
    ({"load_topic": "kv"}, [], [("error", "F2", "bad-topic")]),
    ({"load_endpoint_port_base": "5561"}, [], [("error", "A2", "bad-port")]),
    ({"load_endpoint_port_base": 65534}, [], [("error", "E6", "past-port-65535")]),
    ({"load_endpoint_port_base": 5560}, [], [("error", "E3", "overlapping-ranges")]),
    ({"load_endpoint_port_base": 5554}, [], [("error", "E3", "overlapping-ranges")]),
    ({"load_endpoint_port_base": 5553}, [], []),
    ({"dp_size": 2000, "load_endpoint_port_base": 9000}, [], [("warning", "A1", "many-ranks")]),
]


@pytest.mark.parametrize(("changes", "without", "expected"), CHANGED)
def test_blocks(
    changes: dict[str, Any], without: list[str], expected: list[tuple[str, str, str]]
) -> None:
    """Every way to break the block is an error of its rule; an unknown key is none."""
    block = {key: v for key, v in {**dict(GOOD or {}), **changes}.items() if key not in without}
    found = block_findings(block, plan(URL, block))
    assert expected == [(level, rule, code) for level, rule, code, _ in found]


@pytest.mark.parametrize(
    ("block", "expected"),
    [(None, ["no-block"]), ([], ["no-object", "no-block"]), ("x", ["no-object", "no-block"])],
)
def test_no_block(block: object, expected: list[str]) -> None:
    """Null leaves nothing to subscribe to, and anything but an object is wrong as well."""
    assert expected == [code for _, _, code, _ in block_findings(block, plan(URL, block))]


def test_huge_values() -> None:
    """What an engine says is quoted, and not at length."""
    block = {**dict(GOOD or {}), "topic": list(range(10_000))}
    (_, _, _, text), *_ = block_findings(block, plan(URL, block))
    assert len(text) < 120
