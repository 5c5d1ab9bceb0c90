"""`EndpointContract`: what it asks of an engine, and that it catches engines that are wrong."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from ipaddress import IPv6Address
from typing import Any

import pytest

from pytest_loadwire import Deviation, EndpointContract
from pytest_loadwire import endpoints as ours
from pytest_loadwire.discovery import KVEventsConfig
from pytest_loadwire.vectors import load

Place = tuple[str, int]


class Ours(EndpointContract):
    """The engine side of this package, with every hook."""

    policies = {"LooseEndpoint": "strict"}

    def resolve(self, **asked: Any) -> object:
        return ours.resolve_load_pub_range(**asked)

    def parse_port(self, endpoint: str | None) -> int | None:
        return ours.parse_tcp_port(endpoint)

    def advertisable(self, endpoint: str | None) -> object:
        return ours.parse_advertisable_tcp(endpoint)

    def bindable(self, endpoint: str | None) -> object:
        return ours.parse_bindable_tcp(endpoint)

    def sets_ipv6(self, endpoint: str) -> bool:
        return ours.is_zmq_endpoint_ipv6(endpoint)

    def slot(self, **ranks: Any) -> int:
        return ours.select_kv_publisher_dp_rank(**ranks)

    def publishes(self, **ranks: Any) -> bool:
        return ours.is_kv_publisher_rank(**ranks)

    def binds(self, *, kv_events_config: str | None, slot: int, **asked: Any) -> str | None:
        if kv_events_config is None:
            return None
        place = KVEventsConfig.from_cli(kv_events_config).load_range(**asked)
        return place.endpoint(slot) if isinstance(place, ours.LoadRange) else None


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


@wrong("E4")
class SubstringWildcard(Plain):
    """`::` stands in every IPv6 address, and here makes a wildcard of it."""

    def is_wildcard(self, host: str) -> bool:
        return any(part in host for part in ("*", "0.0.0.0", "::"))


@wrong("E4")
class EveryZeroIsAWildcard(Plain):
    """Other spellings of zero pass for wildcards."""

    def is_wildcard(self, host: str) -> bool:
        if self.is_ipv6(host):
            return not int(IPv6Address(host))
        return host == "*" or host.replace(".", "").strip("0") == ""


@wrong("E4")
class AnyHostBinds(Plain):
    """A concrete host is bound, which works on one machine only."""

    def is_wildcard(self, host: str) -> bool:
        return True


@wrong("E4")
class NoIPv6Wildcard(Plain):
    """`[::]` is refused."""

    def is_wildcard(self, host: str) -> bool:
        return host in ("*", "0.0.0.0")


@wrong("E4")
class HostIsAlwaysStar(Plain):
    """The wildcard of the KV endpoint is lost."""

    def at(self, host: str, base: int) -> object:
        return ("*", base), None


@wrong("E1")
class DefaultOn(Plain):
    """Unset means auto."""

    def asked(self, mode: str | None) -> str:
        return super().asked(mode) or "auto"


@wrong("E1", "E2")
class ModeAsWritten(Plain):
    """Neither blanks nor case are looked past."""

    def asked(self, mode: str | None) -> str:
        return mode or ""


@wrong("E4")
class TrueIsAuto(Plain):
    """Other words switch it on."""

    def asked(self, mode: str | None) -> str:
        return "auto" if mode in ("on", "true") else super().asked(mode)


@wrong("E4")
class NoneIsOff(Plain):
    """Another word switches it off, without a word of it."""

    def asked(self, mode: str | None) -> str:
        return "off" if mode == "none" else super().asked(mode)


@wrong("E4")
class PortAloneWillDo(Plain):
    """A number, or a number with a host and no scheme, is taken for an address."""

    def asked(self, mode: str | None) -> str:
        mode = super().asked(mode)
        return re.sub(r"^(\*:)?([0-9]+)$", r"tcp://*:\2", mode)


@wrong("E1")
class NoRanksNoCheck(Plain):
    """An engine of no ranks reserves ports."""

    def resolve(self, *, dp_size: int, **asked: Any) -> object:
        return super().resolve(dp_size=max(dp_size, 1), **asked)


@wrong("E2")
class PackedBehindTheFirstPort(Plain):
    """The range starts one behind the KV base, whatever dp_size is."""

    def first(self, port: int, size: int) -> int:
        return port + 1


@wrong("E2")
class PackedOverReplay(Plain):
    """Nobody looks at the replay range."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        return base


@wrong("E2")
class AlwaysBehindReplay(Plain):
    """A replay range moves the load range wherever it is."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        place = self.address(replay)
        return base if place is None else place[1] + size


@wrong("E2")
class OneBehindReplay(Plain):
    """The step is one port and not one range."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        place = self.address(replay)
        clash = place is not None and self.overlap(base, place[1], size)
        return place[1] + 1 if place and clash else base


@wrong("E2")
class ReplayIsOnePort(Plain):
    """Only the base of the replay range counts as taken."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        place = self.address(replay)
        clash = place is not None and base <= place[1] < base + size
        return place[1] + size if place and clash else base


@wrong("E2")
class ConcreteReplayIgnored(Plain):
    """A replay endpoint on a concrete host takes no port."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        place = self.address(replay)
        return super().behind(base, replay if place and self.is_wildcard(place[0]) else None, size)


@wrong("E3")
class ConcreteReplayForgotten(Plain):
    """The same where the range has an address of its own."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        wild = [o for o in others if (self.address(o) or ("",))[0] in ("*", "0.0.0.0", "::")]
        return super().clash(base, list(wild), size)


@wrong("E2")
class ReplayByItsLastColon(Plain):
    """The port of a replay endpoint is what stands behind its last colon."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        port = re.sub("[^0-9]", "", (replay or "").rpartition(":")[2])
        clash = bool(port) and self.overlap(base, int(port), size)
        return int(port) + size if clash else base


@wrong("E2")
class DeclinesForReplay(Plain):
    """An overlapping replay range is a reason to decline, and so is one that is no address."""

    def resolve(self, *, replay_endpoint: str | None, **asked: Any) -> object:
        answer: Any = super().resolve(replay_endpoint=None, **asked)
        if not answer[0] or replay_endpoint is None:
            return answer
        place = self.address(replay_endpoint)
        if place is None or self.overlap(answer[0][1], place[1], asked["dp_size"]):
            return self.loud("overlaps the replay range")
        return answer


@wrong("E3")
class NoOverlapCheck(Plain):
    """An explicit address is taken wherever it is."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        return None


@wrong("E3")
class OnlyKVIsKeptClear(Plain):
    """The replay range is forgotten."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        return super().clash(base, others[:1], size)


@wrong("E3", "E2")
class OverlapOffByOne(Plain):
    """Ranges that touch count as overlapping."""

    def overlap(self, base: int, other: int, size: int) -> bool:
        return base <= other + size and other <= base + size


@wrong("E3", "E2")
class OneSharedPortIsNone(Plain):
    """One port may be shared."""

    def overlap(self, base: int, other: int, size: int) -> bool:
        return abs(base - other) < size - 1 or (size == 1 and base == other)


@wrong("E3")
class OverlapBelowOnly(Plain):
    """A range that starts below the other one is not seen."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        places = [self.address(other) for other in others]
        clash = any(place and place[1] <= base < place[1] + size for place in places)
        return "overlaps" if clash else None


@wrong("E3")
class StepsBehindForExplicit(Plain):
    """An explicit address is moved instead of declined."""

    def resolve(self, *, load_publish_endpoint: str | None, **asked: Any) -> object:
        answer: Any = super().resolve(load_publish_endpoint=load_publish_endpoint, **asked)
        if answer[1] and "overlaps" in answer[1]:
            return self.at("*", 7000)
        return answer


@wrong("E3")
class ExplicitIgnored(Plain):
    """An address is as good as auto."""

    def asked(self, mode: str | None) -> str:
        mode = super().asked(mode)
        return "auto" if self.address(mode) else mode


@wrong("E3")
class ExplicitNeedsBindableKV(Plain):
    """A concrete KV host switches off what has an address of its own."""

    def no_kv(self, kv: str | None) -> str | None:
        place = self.address(kv)
        return None if place and self.is_wildcard(place[0]) else "not bindable: --kv-events-config"


@wrong("E3")
class OtherMachinesDoNotCount(Plain):
    """A KV port on a concrete host is not kept clear."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        return super().clash(base, [o for o in others if o and "10.0.0.5" not in o], size)


@wrong("E6")
class PastTheLastPort(Plain):
    """Nobody counts."""

    def past(self, base: int, size: int) -> bool:
        return False


@wrong("E6")
class OnlyTheBaseCounts(Plain):
    """The base fits, the last rank does not."""

    def past(self, base: int, size: int) -> bool:
        return base > 65535


@wrong("E6")
class LastPortUnused(Plain):
    """One port too few."""

    def past(self, base: int, size: int) -> bool:
        return base + size > 65535


@wrong("E6")
class PastBeforeReplay(Plain):
    """The end is judged before the step behind the replay range."""

    def behind(self, base: int, replay: str | None, size: int) -> int:
        return super().behind(base, replay, size) if base + size - 1 <= 65535 else base

    def past(self, base: int, size: int) -> bool:
        return base == 65536 and size == 1 and False


@wrong("E3")
class PastComesFirst(Plain):
    """An overlap at the end of the ports is not called one."""

    def clash(self, base: int, others: list[str | None], size: int) -> str | None:
        return "past the last port" if self.past(base, size) else super().clash(base, others, size)


@wrong("E5")
class SilentDecline(Plain):
    """No decline has a reason."""

    def loud(self, text: str) -> object:
        return None, None


@wrong("E1")
class NoisyOff(Plain):
    """Off has a reason, which would be in the log of every engine."""

    def quiet(self) -> object:
        return None, "load publishing is off"


@wrong("E5")
class Logs(Plain):
    """The resolver warns, on every call of /server_info."""

    def loud(self, text: str) -> object:
        logging.getLogger("engine").warning(text)
        return super().loud(text)


@wrong("E5")
class LogsDebug(Plain):
    """It does so for developers only."""

    def at(self, host: str, base: int) -> object:
        logging.getLogger("engine").debug("%s %s", host, base)
        return super().at(host, base)


@wrong("E5")
class SaysNone(Plain):
    """A Python word in an operator's message."""

    def no_kv(self, kv: str | None) -> str | None:
        return f"--kv-events-config has the endpoint {kv}" if super().no_kv(kv) else None


@wrong("E5")
class SaysNothingOfUse(Plain):
    """A reason that names no flag."""

    def loud(self, text: str) -> object:
        return super().loud("declined")


@wrong("E4", "E3", "E6", "E5")
class OneCodeForAll(Plain):
    """Every decline has the same reason code."""

    def loud(self, text: str) -> object:
        return "no-kv-events"


@wrong("E5")
class RangeWithAReason(Plain):
    """A range and a reason at once: a caller that looks at the reason publishes nothing."""

    def at(self, host: str, base: int) -> object:
        return (host, base), "fine"


@wrong("E7")
class ExplicitWithoutKV(Plain):
    """A range beside KV events that nobody can see is bound and never advertised."""

    def no_kv(self, kv: str | None) -> str | None:
        return None


@wrong("E5")
class AddressComesFirst(Plain):
    """The address is called wrong although KV events are what is missing."""

    def no_kv(self, kv: str | None) -> str | None:
        return None if kv is None else super().no_kv(kv)

    def loud(self, text: str) -> object:
        return super().loud("not bindable" if "no endpoint" in text else text)


@wrong("E8")
class BareIPv6AsPort(Plain):
    """The last group of an IPv6 address is read as its port."""

    def address(self, text: str | None) -> Place | None:
        bare = re.fullmatch(r"tcp://([0-9a-f:]+):([0-9]+)", text or "")
        return (bare[1], int(bare[2])) if bare and ":" in bare[1] else super().address(text)


@wrong("E4", "E2")
class PythonPorts(Plain):
    """A port is whatever Python takes for an integer."""

    def number(self, text: str) -> int | None:
        try:
            return int(text) if 0 < int(text) < 65536 else None
        except ValueError:
            return None


@wrong("E4")
class AnyHost(Plain):
    """A host is whatever stands in front of the last colon."""

    def address(self, text: str | None) -> Place | None:
        host, _, port = (text or "").removeprefix("tcp://").rpartition(":")
        number = self.number(port)
        plain = super().address(text)
        loose = bool(host) and host[0] != "[" and not self.is_ipv6(host) and "://" in (text or "")
        return (host, number) if plain is None and loose and number else plain


@wrong("E6", "E4", "E2")
class PortZero(Plain):
    """Port 0 is legal: libzmq would choose one, which nobody is told."""

    def number(self, text: str) -> int | None:
        return 0 if text == "0" else super().number(text)

    def parse_port(self, endpoint: str | None) -> int | None:
        place = self.address(endpoint)
        return None if place is None else place[1]

    def no_kv(self, kv: str | None) -> str | None:
        return None if self.address(kv) else super().no_kv(kv)


@wrong("E6")
class PortsWithoutEnd(Plain):
    """Ports past 65535 are legal."""

    def number(self, text: str) -> int | None:
        return int(text) if re.fullmatch("[1-9][0-9]*", text) else None


@wrong("E6")
class LastPortIllegal(Plain):
    """65535 is not."""

    def number(self, text: str) -> int | None:
        return None if text == "65535" else super().number(text)


@wrong("E6")
class PortsWrap(Plain):
    """A port is what is left of it in 16 bits."""

    def number(self, text: str) -> int | None:
        return int(text) % 65536 or None if re.fullmatch("-?[0-9]+", text) else None


@wrong("E6")
class PrivilegedPortsIllegal(Plain):
    """Ports below 1024 are refused."""

    def number(self, text: str) -> int | None:
        port = super().number(text)
        return None if port is None or port < 1024 else port


@wrong("A4")
class TextBehindThePort(Plain):
    """What follows the digits is cut off."""

    def number(self, text: str) -> int | None:
        return super().number(re.sub("[^0-9].*", "", text))


@wrong("A4")
class HexPorts(Plain):
    """Hexadecimal ports are read."""

    def number(self, text: str) -> int | None:
        return int(text, 16) if text.startswith("0x") else super().number(text)


@wrong("A4")
class DefaultPort(Plain):
    """A missing port, or one that is no number, is 5557."""

    def address(self, text: str | None) -> Place | None:
        if re.fullmatch(r"tcp://[*\w.]*", text or ""):
            return super().address(f"{text}:5557")
        return super().address(re.sub(r":[*a-z]*$", ":5557", text or "") if text else text)


@wrong("A4")
class EmptyHostIsStar(Plain):
    """No host means every host."""

    def address(self, text: str | None) -> Place | None:
        return super().address((text or "").replace("tcp://:8", "tcp://*:8"))


@wrong("A4", "E2")
class AnyCaseAnyScheme(Plain):
    """The scheme is read in any case, behind blanks, or not at all."""

    def address(self, text: str | None) -> Place | None:
        rest = (text or "").strip().lower().rpartition("://")[2]
        return super().address(f"tcp://{rest}")


@wrong("A4")
class CrashesOnNothing(Plain):
    """No endpoint is no text."""

    def address(self, text: str | None) -> Place | None:
        assert text
        return super().address(text)


@wrong("E4")
class AnyBrackets(Plain):
    """What stands in brackets is not looked at."""

    def address(self, text: str | None) -> Place | None:
        place = super().address(text)
        if place is None and (found := re.fullmatch(r"tcp://\[([^\]]*)\]:([0-9]+)", text or "")):
            return found[1], int(found[2])
        return place


@wrong("E4")
class OpenBrackets(Plain):
    """A bracket need not be closed."""

    def address(self, text: str | None) -> Place | None:
        found = re.fullmatch(r"tcp://\[(.+?)\]*:?:?([0-9]+)", text or "")
        return super().address(text) or (found and (found[1], int(found[2]))) or None


@wrong("A3", "E4")
class UnbracketedAdvertisement(Plain):
    """An IPv6 host is advertised without brackets."""

    def bracketed(self, host: str) -> str:
        return host


@wrong("E4")
class BracketedBind(Plain):
    """An IPv6 host keeps its brackets where it is bound."""

    def bindable(self, endpoint: str | None) -> object:
        place = self.address(endpoint)
        return (self.bracketed(place[0]), place[1]) if place and self.is_wildcard(place[0]) else None


@wrong("E4")
class HostNormalised(Plain):
    """IPv6 hosts are written in their shortest form."""

    def bracketed(self, host: str) -> str:
        return f"[{IPv6Address(host)}]" if ":" in host else host.replace("00.", "0.")


@wrong("E4")
class NoNames(Plain):
    """Only addresses are read, no names, no mapped ones, and no zones."""

    def address(self, text: str | None) -> Place | None:
        return None if re.search(r"//[a-z]|%|ffff:\d", text or "") else super().address(text)


@wrong("E4", "E6")
class NumbersAreNoHosts(Plain):
    """A host of digits is refused."""

    def address(self, text: str | None) -> Place | None:
        place = super().address(text)
        return None if place and place[0].replace(".", "").isdigit() else place


@wrong("K1")
class IPv6ByColons(Plain):
    """IPV6 is set for every text with `::` in it."""

    def sets_ipv6(self, endpoint: str) -> bool:
        return "::" in endpoint


@wrong("K1")
class IPv6ByBracket(Plain):
    """IPV6 is set for every bracket."""

    def sets_ipv6(self, endpoint: str) -> bool:
        return "[" in endpoint


@wrong("K1")
class IPv6WithAPort(Plain):
    """IPV6 is set only where the whole endpoint is usable."""

    def sets_ipv6(self, endpoint: str) -> bool:
        place = self.address(endpoint)
        return place is not None and self.is_ipv6(place[0])


@wrong("K1")
class AlwaysIPv6(Plain):
    """IPV6 is always set, so that a wildcard listens on IPv6 as well."""

    def sets_ipv6(self, endpoint: str) -> bool:
        return True


@wrong("R3", "R2", "E7")
class AllOnOnePort(Plain):
    """Every replica takes slot 0: pure data parallelism is forgotten."""

    def slot(self, *, attn_dp_rank: int, **ranks: Any) -> int:
        return attn_dp_rank

    def binds(self, *, slot: int, **asked: Any) -> str | None:
        return super().binds(slot=0, **asked)


@wrong("R2")
class ReplicaFirst(Plain):
    """The replica rank is taken wherever it is set, under DP attention too."""

    def slot(self, *, dp_rank: int | None, attn_dp_rank: int, **ranks: Any) -> int:
        return attn_dp_rank if dp_rank is None else dp_rank


@wrong("R2")
class AnyAttentionRank(Plain):
    """An attention-DP rank counts although there is no DP attention."""

    def slot(self, *, dp_rank: int | None, attn_dp_rank: int, **ranks: Any) -> int:
        return attn_dp_rank or dp_rank or 0


@wrong("R2")
class NoSlotWithoutRank(Plain):
    """An unset rank stays unset."""

    def slot(self, *, dp_rank: int | None, attn_dp_size: int, **ranks: Any) -> Any:
        return ranks["attn_dp_rank"] if attn_dp_size > 1 else dp_rank


@wrong("R2")
class SumOfRanks(Plain):
    """The ranks are added up."""

    def slot(self, *, dp_rank: int | None, attn_dp_rank: int, **ranks: Any) -> int:
        return attn_dp_rank + (dp_rank or 0)


@wrong("R2")
class SlotsFromOne(Plain):
    """Slots are counted from 1."""

    def slot(self, **ranks: Any) -> int:
        return super().slot(**ranks) + 1


@wrong("R1")
class EveryRankPublishes(Plain):
    """Every tensor-parallel rank publishes, on the one port of its replica."""

    def publishes(self, *, kv_events_config: str | None, **ranks: Any) -> bool:
        return bool(kv_events_config)


@wrong("R1")
class OnlyTheFirstPipelineStageCounts(Plain):
    """Attention ranks are forgotten."""

    def publishes(self, *, kv_events_config: str | None, pp_rank: int, **ranks: Any) -> bool:
        return bool(kv_events_config) and pp_rank == 0


@wrong("R1")
class PublishesUnconfigured(Plain):
    """KV events are not asked for."""

    def publishes(self, *, kv_events_config: str | None, **ranks: Any) -> bool:
        return not any(ranks.values())


@wrong("R1")
class GateReadsTheConfig(Plain):
    """A configuration that cannot be read closes the gate, and nobody hears why."""

    def publishes(self, *, kv_events_config: str | None, **ranks: Any) -> bool:
        return bool(kv_events_config and kv_events_config.endswith("}")) and not any(ranks.values())


@wrong("R1")
class NobodyPublishes(Plain):
    """The gate is shut."""

    def publishes(self, **ranks: Any) -> bool:
        return False


@wrong("E7", "R3")
class AdvertisedNotBound(Plain):
    """The publisher has a gate of its own, and binds nothing."""

    def binds(self, **asked: Any) -> str | None:
        return None


@wrong("E7", "R3")
class BoundNotAdvertised(Plain):
    """The publisher has a default of its own, and binds where nothing is advertised."""

    def binds(self, *, slot: int, **asked: Any) -> str | None:
        return super().binds(slot=slot, **asked) or f"tcp://*:{5558 + slot}"


@wrong("R3")
class DoubleSteps(Plain):
    """Slot r binds base + 2 r."""

    def binds(self, *, slot: int, **asked: Any) -> str | None:
        return super().binds(slot=2 * slot, **asked)


@wrong("E8")
class BindsUnbracketed(Plain):
    """An IPv6 host is spliced without brackets."""

    def binds(self, **asked: Any) -> str | None:
        return (super().binds(**asked) or "").replace("[", "").replace("]", "") or None


@wrong("E7")
class BindsReplayPort(Plain):
    """The publisher derives its port without the replay range."""

    def binds(self, *, kv_events_config: str | None, **asked: Any) -> str | None:
        config = {**json.loads(kv_events_config or "{}"), "replay_endpoint": None}
        return super().binds(kv_events_config=json.dumps(config), **asked)


@wrong("E7")
class ForgetfulResolver(Plain):
    """The answer depends on what was asked before."""

    count = 0

    def at(self, host: str, base: int) -> object:
        type(self).count += 1
        return super().at(host, base + self.count % 2)


# Vectors that catch none of the engines above, and why they are kept.
KEPT: dict[str, str] = {}


@pytest.mark.parametrize("engine", [Ours, Plain])
def test_a_right_engine_passes(engine: type[EndpointContract], outcomes: Any) -> None:
    """This package, and a second engine written from the rules alone, keep the whole contract."""
    assert [] == [outcome for outcome in outcomes(engine()) if outcome.how != "passed"]


@pytest.mark.parametrize("engine", WRONG, ids=lambda engine: engine.__name__)
def test_a_wrong_engine_is_caught(engine: type[Plain], outcomes: Any) -> None:
    """Each engine that is wrong is caught under the rules that it breaks, by name."""
    failed = [outcome for outcome in outcomes(engine()) if outcome.how == "failed"]
    assert WRONG[engine] <= {outcome.rule for outcome in failed}
    assert [] == [outcome.text for outcome in failed if not outcome.deed]


def test_every_vector_catches_an_engine(outcomes: Any) -> None:
    """A vector that catches no wrong engine proves nothing, unless the table says why it stays."""
    caught = {
        outcome.case.partition("/")[0]
        for engine in WRONG
        for outcome in outcomes(engine())
        if outcome.how == "failed"
    }
    idle = [vector.id for vector in load().endpoints if vector.id not in caught]
    assert [] == [case for case in idle if not any(fnmatchcase(case, kept) for kept in KEPT)]
    assert [] == [kept for kept in KEPT if not any(fnmatchcase(case, kept) for case in idle)]
