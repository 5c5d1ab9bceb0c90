"""An engine's addresses written from the rules alone, for others to get one step of it wrong."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import json
import re
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

from pytest_loadwire import EndpointContract

Place = tuple[str, int]


class Plain(EndpointContract):
    """A second engine, written from the rules without the code of this package.

    It answers in SGLang's shape. Each engine that is wrong replaces one of its steps.
    """

    policies = {"LooseEndpoint": "strict"}

    # The steps

    def asked(self, mode: str | None) -> str:
        mode = (mode or "").strip()
        return mode.lower() if mode.lower() in ("off", "auto") else mode

    def number(self, text: str) -> int | None:
        if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
            return None
        return int(text) if int(text) <= 65535 else None

    def address(self, text: str | None) -> Place | None:
        bare = re.fullmatch(r"tcp://(\*|[\w.-]+|\[[^\[\]]*\]):(.*)", text or "", re.ASCII)
        if bare is None:
            return None
        host, port = bare[1], self.number(bare[2])
        if port is None or (host[0] == "[" and not self.is_ipv6(host[1:-1])):
            return None
        return host.strip("[]"), port

    def is_ipv6(self, text: str) -> bool:
        try:
            return bool(IPv6Address(text))
        except ValueError:
            return False

    def is_wildcard(self, host: str) -> bool:
        return host in ("*", "0.0.0.0", "::")

    def overlap(self, base: int, other: int, size: int) -> bool:
        return base < other + size and other < base + size

    def first(self, port: int, size: int) -> int:
        return port + size

    def behind(self, base: int, replay: str | None, size: int) -> int:
        place = self.address(replay)
        if place is not None and self.overlap(base, place[1], size):
            return place[1] + size
        return base

    def no_kv(self, kv: str | None) -> str | None:
        if self.address(kv) is None:
            return f"--kv-events-config has {f'the endpoint {kv}' if kv else 'no endpoint'}"
        return None

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        for place in map(self.address, others):
            if place is not None and self.overlap(base, place[1], size):
                return f"port {base} overlaps port {place[1]}"
        return None

    def past(self, base: int, size: int) -> bool:
        return base + size - 1 > 65535

    def quiet(self) -> object:
        return None, None

    def loud(self, text: str) -> object:
        return None, text

    def at(self, host: str, base: int) -> object:
        return (host, base), None

    # The hooks

    def resolve(
        self,
        *,
        kv_endpoint: str | None,
        replay_endpoint: str | None,
        dp_size: int,
        load_publish_endpoint: str | None,
    ) -> object:
        mode = self.asked(load_publish_endpoint)
        if dp_size < 1 or mode in ("", "off"):
            return self.quiet()
        missing = self.no_kv(kv_endpoint)
        if missing:
            return self.loud(missing)
        place = self.address(kv_endpoint if mode == "auto" else mode)
        if place is None or not self.is_wildcard(place[0]):
            return self.loud(f"not bindable: {kv_endpoint} of --kv-events-config, or {mode}")
        host, base = place
        if mode == "auto":
            base = self.behind(self.first(base, dp_size), replay_endpoint, dp_size)
        else:
            taken = self.clash(base, [kv_endpoint, replay_endpoint], dp_size)
            if taken:
                return self.loud(taken)
        if self.past(base, dp_size):
            return self.loud("past the last port")
        return self.at(host, base)

    def parse_port(self, endpoint: str | None) -> int | None:
        place = self.address(endpoint)
        return place and place[1]

    def advertisable(self, endpoint: str | None) -> object:
        place = self.address(endpoint)
        return place and (self.bracketed(place[0]), place[1])

    def bracketed(self, host: str) -> str:
        return f"[{host}]" if ":" in host else host

    def bindable(self, endpoint: str | None) -> object:
        place = self.address(endpoint)
        return place if place and self.is_wildcard(place[0]) else None

    def sets_ipv6(self, endpoint: str) -> bool:
        found = re.match(r"tcp://\[([^\]]*)\]", endpoint)
        return found is not None and self.is_ipv6(found[1])

    def slot(self, *, attn_dp_size: int, attn_dp_rank: int, dp_rank: int | None) -> int:
        return attn_dp_rank if attn_dp_size > 1 else dp_rank or 0

    def publishes(
        self, *, kv_events_config: str | None, pp_rank: int, attn_tp_rank: int, attn_cp_rank: int
    ) -> bool:
        return bool(kv_events_config) and not pp_rank + attn_tp_rank + attn_cp_rank

    def binds(
        self,
        *,
        kv_events_config: str | None,
        dp_size: int,
        load_publish_endpoint: str | None,
        slot: int,
    ) -> str | None:
        config = json.loads(kv_events_config or "{}")
        answer: Any = self.resolve(
            kv_endpoint=config.get("endpoint"),
            replay_endpoint=config.get("replay_endpoint"),
            dp_size=dp_size,
            load_publish_endpoint=load_publish_endpoint,
        )
        place = self.resolution(answer)
        if place.host is None or place.base is None:
            return None
        return f"tcp://{self.bracketed(place.host)}:{place.base + slot}"


WRONG: dict[type[Plain], frozenset[str]] = {}


def wrong(*rules: str) -> Callable[[type[Plain]], type[Plain]]:
    """Note an engine that is wrong, with the rules that have to catch it."""

    def note(engine: type[Plain]) -> type[Plain]:
        WRONG[engine] = frozenset(rules)
        return engine

    return note
