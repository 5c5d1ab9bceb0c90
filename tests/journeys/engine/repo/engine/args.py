"""What an engine is started with, and where one scheduler stands in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class EngineArgs:
    """The flags that matter for load."""

    kv_events_config: str | None = None
    load_publish_endpoint: str | None = None
    load_every: int = 5
    replicas: int = 1
    page_size: int | None = None


@dataclass(frozen=True)
class Ranks:
    """One scheduler's place. Replicas differ in `dp`, or under DP attention in `attn_dp`."""

    dp: int | None = None
    attn_dp_size: int = 1
    attn_dp: int = 0
    attn_tp: int = 0
    attn_cp: int = 0
    pp: int = 0

    @property
    def slot(self) -> int:
        """The number of this scheduler's replica."""
        if self.attn_dp_size > 1:
            return self.attn_dp
        return self.dp or 0

    @property
    def leads(self) -> bool:
        """Whether this scheduler speaks for its replica."""
        return self.pp == 0 and self.attn_tp == 0 and self.attn_cp == 0


class KvEvents(NamedTuple):
    """The parts of --kv-events-config that load depends on."""

    publisher: str
    endpoint: str
    replay: str | None
    topic: str


def parse_kv_events(text: str) -> KvEvents:
    """Read --kv-events-config; ValueError says what is wrong with it."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"{text} is no object")
    events = KvEvents(
        values.get("publisher", "null"),
        values.get("endpoint", "tcp://*:5557"),
        values.get("replay_endpoint"),
        values.get("topic", ""),
    )
    for name, value in events._asdict().items():
        if not isinstance(value, str) and (name, value) != ("replay", None):
            raise ValueError(f"{name} is {value!r}")
    return events
