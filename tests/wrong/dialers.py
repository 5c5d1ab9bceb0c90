"""Routers that dial wrongly, beside one that is right and written from the rules alone."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pytest_loadwire import DiscoveryContract, discovery
from wrong.advertisers import LOAD_KEYS, Ours, wrong


class Router(DiscoveryContract):
    """A second router, written from the rules alone; each wrong one replaces a step."""

    policies = {"UrlCredentials": "dial"}

    def base(self, block: Any) -> int | None:
        if any(key not in block for key in LOAD_KEYS):
            return None
        return self.whole(block[LOAD_KEYS[0]], 65535)

    def whole(self, value: object, most: int) -> int | None:
        return value if type(value) is int and 0 < value <= most else None

    def ranks(self, block: Any) -> int | None:
        return self.whole(block.get("dp_size"), 2**31)

    def host(self, url: str, block: Any) -> str | None:
        place = urlsplit(url).netloc.rpartition("@")[2]
        if place.count(":") > 1 and "[" not in place:
            return None
        host = urlsplit(url).hostname
        if not host or host in ("*", "0.0.0.0", "::", "1"):
            return None
        if "[" in place and ":" not in host:  # which Python before 3.11 lets pass
            return None
        return self.bracketed(host)

    def bracketed(self, host: str) -> str:
        return f"[{host}]" if ":" in host else host

    def port(self, base: int, rank: int) -> int | None:
        return base + rank if base + rank <= 65535 else None

    def plan(self, worker_url: str, block: Any) -> Any:
        if block is None:
            return None
        base, ranks, host = self.base(block), self.ranks(block), self.host(worker_url, block)
        if base is None or ranks is None or host is None:
            return []
        ports = [(rank, self.port(base, rank)) for rank in range(ranks)]
        return [(rank, f"tcp://{host}:{port}") for rank, port in ports if port is not None]


@wrong("C1", "A2")
class PlansAnything(Router):
    """A block is taken as it comes, and what is missing is made up."""

    def base(self, block: Any) -> int | None:
        base = block.get(LOAD_KEYS[0], block["endpoint_port_base"] + 2)
        return base if isinstance(base, int) else 5559

    def ranks(self, block: Any) -> int | None:
        size = block.get("dp_size")
        return size if isinstance(size, int) and size > 0 else 1


@wrong("C1")
class DialsTheKVHost(Router):
    """Load is dialled where KV events are."""

    def host(self, url: str, block: Any) -> str | None:
        return str(block["endpoint_host"])


@wrong("C1")
class DialsTheKVHostIfConcrete(Router):
    """Wildcards are replaced, other KV hosts are dialled."""

    def host(self, url: str, block: Any) -> str | None:
        host = str(block["endpoint_host"])
        return super().host(url, block) if host in ("*", "0.0.0.0", "[::]") else host


@wrong("C1")
class DerivesThePort(Router):
    """The load range is where auto would pack it."""

    def base(self, block: Any) -> int | None:
        return super().base(block) and block["endpoint_port_base"] + block["dp_size"]


@wrong("C1")
class DialsTheWorkersPort(Router):
    """The port of the URL is added to its host."""

    def host(self, url: str, block: Any) -> str | None:
        return urlsplit(url).netloc or None


@wrong("A3")
class UnbracketedDial(Router):
    """IPv6 is spliced without brackets."""

    def bracketed(self, host: str) -> str:
        return host


@wrong("C1", "A3", "E8")
class HostUpToTheColon(Router):
    """The host ends at the first colon behind the slashes."""

    def host(self, url: str, block: Any) -> str | None:
        return url.partition("://")[2].partition(":")[0] or "localhost"


@wrong("C1")
class WholeRestIsHost(Router):
    """The host is all of the URL but its scheme and last port."""

    def host(self, url: str, block: Any) -> str | None:
        return url.partition("://")[2].rpartition(":")[0]


@wrong("E8")
class BareIPv6(Router):
    """An IPv6 URL without brackets is read up to its last colon."""

    def host(self, url: str, block: Any) -> str | None:
        place = url.partition("://")[2]
        bare = place.count(":") > 1 and "[" not in place and "/" not in place and "@" not in place
        return f"[{place.rpartition(':')[0]}]" if bare else super().host(url, block)


@wrong("C1")
class DialsWildcards(Router):
    """A wildcard in a URL is dialled, which works on one machine only."""

    def host(self, url: str, block: Any) -> str | None:
        return self.bracketed(urlsplit(url).hostname or "localhost")


@wrong("C1")
class UserIsHost(Router):
    """What stands in front of an @ is dialled."""

    def host(self, url: str, block: Any) -> str | None:
        place = urlsplit(url).netloc
        return (
            place.partition("@")[0].partition(":")[0] if "@" in place else super().host(url, block)
        )


@wrong("C1")
class AnyScheme(Router):
    """Only http is a worker's scheme."""

    def host(self, url: str, block: Any) -> str | None:
        return super().host(url, block) if url.startswith("http:") else None


@wrong("C1")
class PortsWrap(Router):
    """A port past the last one is what is left of it in 16 bits."""

    def port(self, base: int, rank: int) -> int | None:
        return (base + rank) % 65536


@wrong("C1")
class PastTheLastPort(Router):
    """No rank is skipped."""

    def port(self, base: int, rank: int) -> int | None:
        return base + rank


@wrong("C1")
class AllRanksOrNone(Router):
    """One rank past the last port takes the others along."""

    def ranks(self, block: Any) -> int | None:
        ranks = super().ranks(block)
        return ranks if ranks and (self.base(block) or 0) + ranks <= 65536 else None


@wrong("C1")
class LastPortUnused(Router):
    """One port too few."""

    def port(self, base: int, rank: int) -> int | None:
        return base + rank if base + rank < 65535 else None


@wrong("C1")
class OneRankOnly(Router):
    """Only rank 0 is dialled."""

    def ranks(self, block: Any) -> int | None:
        return super().ranks(block) and 1


@wrong("C1")
class RanksFromOne(Router):
    """Ranks are counted from 1."""

    def plan(self, worker_url: str, block: Any) -> Any:
        return [(rank + 1, endpoint) for rank, endpoint in super().plan(worker_url, block) or ()]


@wrong("C1", "A2")
class LooseNumbers(Router):
    """A number is whatever an integer can be made of."""

    def base(self, block: Any) -> int | None:
        return None if LOAD_KEYS[0] not in block else self.whole(block[LOAD_KEYS[0]], 65535)

    def whole(self, value: Any, most: int) -> int | None:
        try:
            return int(value) & 0xFFFF or 1
        except (TypeError, ValueError):
            return 1


@wrong("C1")
class CrashesOnNull(Router):
    """A worker without KV events stops the router."""

    def plan(self, worker_url: str, block: Any) -> Any:
        return super().plan(worker_url, dict(block))


@wrong("C1")
class CrashesOnMissingKeys(Router):
    """A worker that publishes no load stops the router."""

    def base(self, block: Any) -> int | None:
        return self.whole(block[LOAD_KEYS[0]], 65535)


@wrong("A1")
class KnownKeysOnly(Router):
    """A key of a later engine makes the block unreadable."""

    def plan(self, worker_url: str, block: Any) -> Any:
        return None if block and len(block) > 8 else super().plan(worker_url, block)


@wrong("C1", "A2")
class OneReasonNoPlan(Ours):
    """Every worker without a plan has the same reason."""

    def plan(self, worker_url: str, block: Any) -> Any:
        found = super().plan(worker_url, block)
        if isinstance(found, discovery.Plan):
            return found
        return "no-block" if found.reason != "no-block" else "bad-url"


@wrong("C1")
class NoCredentials(Router):
    """It says that it dials past credentials, and refuses them."""

    def host(self, url: str, block: Any) -> str | None:
        return None if "@" in urlsplit(url).netloc else super().host(url, block)
