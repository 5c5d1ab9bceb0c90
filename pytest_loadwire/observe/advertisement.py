"""Judges the ``kv_events`` block of a worker: its shape, its ports, and what a router loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.discovery import NoPlan, NoPlanReason, Plan
from pytest_loadwire.endpoints import MAX_PORT, is_ipv6_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_loadwire.observe.stream import Level

    Told = tuple[Level, str, str, str]

_NO_PLAN_RULE = {
    NoPlanReason.NO_BLOCK: "C4",
    NoPlanReason.NO_LOAD_KEYS: "C4",
    NoPlanReason.ONE_LOAD_KEY: "A2",
    NoPlanReason.BAD_PORT: "A2",
    NoPlanReason.BAD_TOPIC: "F2",
    NoPlanReason.BAD_DP_SIZE: "A1",
    NoPlanReason.BAD_URL: "C1",
}
_MOST_RANKS = 1024


def block_findings(block: object, plan: Plan | NoPlan) -> Iterator[Told]:
    """What is wrong with a block: level, rule, a word for machines, and a sentence each.

    Args:
        block: The ``kv_events`` value of ``/server_info``, as JSON gave it.
        plan: What a router makes of it.
    """
    if isinstance(block, dict):
        yield from _shape(block)
    elif block is not None:
        yield "error", "A1", "no-object", f"kv_events is {_short(block)}: null or an object"
    if isinstance(plan, NoPlan):
        text = f"nothing to subscribe to: {plan.text}"
        yield "error", _NO_PLAN_RULE[plan.reason], str(plan.reason), text
        return
    if plan.skipped:
        yield "error", "E6", "past-port-65535", plan.warning
    if len(plan.endpoints) > _MOST_RANKS:
        text = f"{plan.dp_size} ranks are advertised; the first {_MOST_RANKS} are watched"
        yield "warning", "A1", "many-ranks", text
    if isinstance(block, dict):
        yield from _ranges(block, plan.dp_size)


def _shape(block: dict[str, object]) -> Iterator[Told]:
    checks: dict[str, tuple[Callable[[object], bool], str]] = {
        "publisher": (lambda value: isinstance(value, str), "a string"),
        "endpoint_host": (lambda value: isinstance(value, str), "a string"),
        "endpoint_port_base": (_is_port, f"a whole number from 1 to {MAX_PORT}"),
        "topic": (lambda value: isinstance(value, str), "a string"),
        "block_size": (_is_positive, "a whole number of 1 or more"),
        "dp_size": (_is_positive, "a whole number of 1 or more"),
    }
    missing = [name for name in checks if name not in block]
    if missing:
        yield "error", "A1", "keys-missing", f"kv_events lacks {', '.join(missing)}"
    for name, (fits, wanted) in checks.items():
        if name in block and not fits(block[name]):
            got = _short(block[name])
            yield "error", "A1", f"bad-{name.replace('_', '-')}", f"{name} is {got}, not {wanted}"
    host = block.get("endpoint_host")
    if isinstance(host, str) and is_ipv6_literal(host):
        text = f"endpoint_host is {host}, which cannot be spliced in front of a port: [{host}]"
        yield "error", "A3", "bare-ipv6", text


def _ranges(block: dict[str, object], size: int) -> Iterator[Told]:
    load, events = block.get("load_endpoint_port_base"), block.get("endpoint_port_base")
    if isinstance(load, int) and isinstance(events, int) and abs(load - events) < size:
        text = (
            f"the load ports from {load} and the KV-event ports from {events} overlap, "
            f"{size} of each: some are bound by the one and read as the other"
        )
        yield "error", "E3", "overlapping-ranges", text


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_port(value: object) -> bool:
    return _is_positive(value) and isinstance(value, int) and value <= MAX_PORT


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
