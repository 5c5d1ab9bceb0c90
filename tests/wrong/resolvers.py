"""Engines that resolve their range wrongly: modes, replay, overlaps, the last port, reasons."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import logging
import re
from ipaddress import IPv6Address
from typing import Any

from wrong.plain import Plain, wrong


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


@wrong("E5")
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
        return False


@wrong("E5")
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


@wrong("E4", "E3", "E6")
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
