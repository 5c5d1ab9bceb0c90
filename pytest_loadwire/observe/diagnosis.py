"""Why a socket is silent: the likely causes, ranked by what was seen. Pure.

A symptom is told apart by evidence alone: what ``/server_info`` said, how far the connection got,
who listens there, and what came instead. Each cause says how to make sure and what to do.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pytest_loadwire.discovery import NoPlan
from pytest_loadwire.observe.asking import Advertised, NoAnswer
from pytest_loadwire.observe.causes import (
    ANSWERS,
    NO_PLANS,
    PEERS,
    SHORT_WATCH,
    SILENT,
    STREAMS,
    UNDECODABLE,
    UNRESOLVED,
    Cause,
)
from pytest_loadwire.observe.peer import Peer
from pytest_loadwire.observe.stream import LATE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen


@dataclass(frozen=True)
class Diagnosis:
    """One symptom with its likely causes.

    Attributes:
        target: The target, as it was given.
        code: The symptom, as a word for machines.
        symptom: The symptom in a sentence.
        causes: The likely causes, the likeliest first.
        ranks: The ranks that show it, where ranks do.
        endpoint: The socket of the first of them.
    """

    target: str
    code: str
    symptom: str
    causes: tuple[Cause, ...]
    ranks: tuple[int, ...] = ()
    endpoint: str = ""

    def to_json(self) -> dict[str, Any]:
        """The diagnosis for machines."""
        return {**asdict(self), "causes": [cause._asdict() for cause in self.causes]}


def diagnose(seen: Seen) -> list[Diagnosis]:
    """Every symptom of every target that has one; ranks with the same symptom share it."""
    return [diagnosis for one in seen.targets for diagnosis in _of_target(seen, one)]


def _of_target(seen: Seen, one: TargetSeen) -> Iterator[Diagnosis]:
    name = one.target.text
    if one.unresolved is not None:
        text = f"the name {one.target.host} has no address: {one.unresolved.text}"
        yield Diagnosis(name, "name", text, UNRESOLVED)
        return
    if isinstance(one.advertised, NoAnswer):
        yield _no_answer(name, one.advertised, one.peer)
        return
    if isinstance(one.advertised, Advertised) and isinstance(one.advertised.plan, NoPlan):
        found = one.advertised.plan
        yield Diagnosis(name, str(found.reason), found.text, NO_PLANS[found.reason])
        return
    groups: dict[str, list[RankSeen]] = defaultdict(list)
    known: dict[str, Peer] = {
        rank.link.state: rank.peer for rank in one.ranks if rank.peer is not None
    }
    for rank in one.ranks:
        if not rank.stream.good:
            groups[_symptom(rank, rank.peer or known.get(rank.link.state))].append(rank)
    for code, ranks in groups.items():
        yield _of_ranks(seen, one, code, ranks)


def _no_answer(name: str, answer: NoAnswer, peer: Peer | None) -> Diagnosis:
    kind: str = answer.kind
    if peer is not None and peer.kind in ("zmtp", "security", "mute", "tls"):
        # What the port says is better evidence than how the question failed.
        kind = "zmtp" if peer.kind == "security" else peer.kind
    code = f"server-info-{kind}"
    if answer.status is not None:
        wanted = {401: "forbidden", 403: "forbidden", 404: "status-404", 503: "status-503"}
        kind = wanted.get(answer.status, "status")
        code = f"server-info-{answer.status}"
    symptom = f"the worker did not say what it advertises: {answer.text}"
    if kind == "zmtp" and peer is not None:
        symptom += f"; a ZeroMQ socket ({peer.detail or 'of a type that is not told'}) listens"
    return Diagnosis(name, code, symptom, ANSWERS[kind])


def _symptom(rank: RankSeen, peer: Peer | None) -> str:
    """One word for how a rank is silent; the strongest evidence first."""
    for kind in rank.stream.siblings:
        if kind in STREAMS:
            return f"stream-{kind}"
    if rank.stream.count:
        return "undecodable"
    if rank.link.ready:
        return "silent" if rank.link.up else "silent-lost"
    if peer is None or peer.publishes:
        # It did not answer libzmq and answers now: it began while it was watched.
        return "silent" if peer is not None else "peer-unknown"
    if peer.kind == "zmtp":
        return f"peer-zmtp-{peer.detail or 'unknown'}"
    return f"peer-{peer.kind}"


def _of_ranks(seen: Seen, one: TargetSeen, code: str, ranks: Sequence[RankSeen]) -> Diagnosis:
    first = ranks[0]
    endpoint = first.endpoint
    worker = one.target.url is not None
    numbers = tuple(rank.rank for rank in ranks if rank.rank is not None)
    peer = next((rank.peer for rank in ranks if rank.peer is not None), None)
    if code.startswith("stream-"):
        sibling = first.stream.siblings[code.removeprefix("stream-")]
        symptom = f"messages come, of another stream: {sibling.says}"
        advertised = f"{sibling.kind}-worker"
        causes = STREAMS[advertised if worker and advertised in STREAMS else sibling.kind]
    elif code == "undecodable":
        symptom = "messages come, and none of them is one that a router takes"
        causes = UNDECODABLE
    elif code in SILENT:
        symptom = f"a publisher is there and said nothing for {seen.seconds:.1f} s"
        if code == "silent-lost":
            symptom = "a publisher was there, said nothing, and is gone"
        causes = SILENT[code]
        if worker and code == "silent":
            some_speak = one.heard > 0
            symptom += ", while other ranks of the worker speak" if some_speak else ""
            causes = SILENT["silent-some" if some_speak else "silent-all"]
        if code == "silent" and seen.seconds < LATE_S:
            causes = (SHORT_WATCH, *causes)
    else:
        key = code.removeprefix("peer-")
        symptom = _says(key, peer)
        known = key if key in PEERS else ("zmtp" if key.startswith("zmtp-") else "unknown")
        if known == "refused" and worker:
            known = "refused-some" if one.heard else "refused-worker"
        causes = PEERS[known]
        if code == "peer-unknown" and seen.seconds < LATE_S:
            causes = (SHORT_WATCH, *causes)
    return Diagnosis(one.target.text, code, symptom, causes, numbers, endpoint)


def _says(key: str, peer: Peer | None) -> str:
    detail = peer.detail if peer is not None else ""
    if key.startswith("zmtp-"):
        return (
            f"a ZeroMQ socket listens there, and its type is {detail or 'not told'}: a subscriber "
            "cannot read it"
        )
    return {
        "refused": "the connection is refused: nobody listens on the port",
        "unreachable": f"the host cannot be reached: {detail}",
        "timeout": "the connection is not answered, neither taken nor refused",
        "http": f"an HTTP server listens there: {detail}",
        "tls": "a server that speaks TLS listens there",
        "security": f"a ZeroMQ socket listens there that asks for {detail} authentication",
        "mute": "something takes the connection and says nothing, not even a ZeroMQ greeting",
        "closed": "something takes the connection and hangs up at once",
        "other": f"something else than ZeroMQ listens there; it says {detail}",
    }.get(key, "there is no connection to the port")
