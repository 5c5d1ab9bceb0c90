"""Engines that read endpoints wrongly, take the wrong slot, or bind what they do not advertise."""

from __future__ import annotations

import json
import re
from ipaddress import IPv6Address
from typing import Any

from wrong.plain import Place, Plain, wrong


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


@wrong("A3", "E8")
class UnbracketedAdvertisement(Plain):
    """An IPv6 host is advertised without brackets."""

    def bracketed(self, host: str) -> str:
        return host


@wrong("E4")
class BracketedBind(Plain):
    """An IPv6 host keeps its brackets where it is bound."""

    def bindable(self, endpoint: str | None) -> object:
        place = self.address(endpoint)
        return (
            (self.bracketed(place[0]), place[1]) if place and self.is_wildcard(place[0]) else None
        )


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


@wrong("E4")
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


@wrong("R3", "R2")
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


@wrong("E7")
class AdvertisedNotBound(Plain):
    """The publisher has a gate of its own, and binds nothing."""

    def binds(self, **asked: Any) -> str | None:
        return None


@wrong("E7")
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
