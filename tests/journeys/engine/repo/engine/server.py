"""What is checked before an engine starts, and what /server_info says of its sockets."""

from __future__ import annotations

from typing import Any

from engine.args import EngineArgs, parse_kv_events
from engine.load import TOPIC
from engine.ports import LoadPorts, NoPorts, parse_tcp, plan_load_ports


def check_args(args: EngineArgs) -> None:
    """ValueError for an engine that was asked to publish load and cannot."""
    if (args.load_publish_endpoint or "").strip().lower() in ("", "off"):
        return
    if not args.kv_events_config:
        raise ValueError("--load-publish-endpoint needs --kv-events-config")
    try:
        events = parse_kv_events(args.kv_events_config)
    except ValueError as error:
        raise ValueError(f"--kv-events-config is not parseable: {error}") from error
    if events.publisher == "null" or not events.endpoint:
        lack = "an empty endpoint" if not events.endpoint else "the publisher null"
        raise ValueError(f"--load-publish-endpoint: --kv-events-config has {lack}")
    ports = plan_load_ports(
        events.endpoint, events.replay, args.replicas, args.load_publish_endpoint
    )
    if isinstance(ports, NoPorts):
        raise ValueError(f"--load-publish-endpoint: {ports.why}")


def server_info(args: EngineArgs) -> dict[str, Any]:
    """The answer of /server_info, as far as routers need it to find sockets."""
    return {"version": "0.1.0", "replicas": args.replicas, "kv_events": kv_events_block(args)}


def kv_events_block(args: EngineArgs) -> dict[str, Any] | None:
    """Where KV events and load are published, or None where no router could use them."""
    if not args.kv_events_config or args.page_size is None or args.page_size < 1:
        return None
    try:
        events = parse_kv_events(args.kv_events_config)
    except ValueError:
        return None
    address = parse_tcp(events.endpoint)
    if events.publisher == "null" or address is None:
        return None
    block = {
        "publisher": events.publisher,
        "endpoint_host": address.shown,
        "endpoint_port_base": address.port,
        "topic": events.topic,
        "block_size": args.page_size,
        "dp_size": args.replicas,
    }
    ports = plan_load_ports(
        events.endpoint, events.replay, args.replicas, args.load_publish_endpoint
    )
    if isinstance(ports, LoadPorts):
        block["load_endpoint_port_base"] = ports.first
        block["load_topic"] = TOPIC.decode()
    return block
