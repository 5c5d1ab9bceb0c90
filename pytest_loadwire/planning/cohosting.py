"""Several workers on one machine: where their ports collide, and the nearest ones that do not.

No engine looks at its neighbours: what two workers both want, the second to start does not get.
For KV events that ends the start, for load it is one warning, and ``/server_info`` goes on
advertising ports that another engine answers on (rule K3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pytest_loadwire.discovery import KVEventsConfig, KVEventsConfigError
from pytest_loadwire.endpoints import BINDABLE_HOSTS, MAX_PORT, EndpointError, TcpAddress
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.planning.worker import Level, Ports, Remark, WorkerPlan, plan_worker, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_loadwire.planning.launch_args import LaunchArgs

LOWEST_PORT = 1024
"""No port below is proposed: binding one takes a privilege."""


class ShiftError(LoadwireError, ValueError):
    """Arguments that cannot be moved to other ports. The message says which."""


@dataclass(frozen=True)
class Claim:
    """A range of ports that one of several workers binds."""

    worker: int
    """Its place among the workers, from 0."""
    name: str
    ports: Ports

    def to_json(self, shared: range) -> dict[str, Any]:
        """The claim for machines, with the ranks that the shared ports belong to."""
        ranks = range(shared.start - self.ports.base, shared.stop - self.ports.base)
        return {"worker": self.name, "kind": self.ports.kind, "ranks": list(ranks)}

    def describe(self, shared: range) -> str:
        """The claim as text, with the ranks that the shared ports belong to."""
        if self.ports.kind == "http":
            return f"{self.name} HTTP"
        first, last = shared.start - self.ports.base, shared[-1] - self.ports.base
        return f"{self.name} {self.ports.kind} rank {span(first, last)}"


@dataclass(frozen=True)
class Collision:
    """Ports that two ranges share, of two workers or of one."""

    first: Claim
    second: Claim
    ports: range

    @property
    def is_within_one(self) -> bool:
        """Whether a worker is in its own way, which no distance to others mends."""
        return self.first.worker == self.second.worker

    @property
    def kinds(self) -> set[str]:
        """What meets: ``kv``, ``replay``, ``load``, ``http``."""
        return {self.first.ports.kind, self.second.ports.kind}

    def __str__(self) -> str:
        what = "port " if len(self.ports) == 1 else "ports "
        text = (
            f"{what}{span(self.ports[0], self.ports[-1])}: {self.first.describe(self.ports)} "
            f"and {self.second.describe(self.ports)}"
        )
        if self.is_within_one and self.kinds == {"kv", "replay"}:
            kv = min(self.first, self.second, key=lambda claim: claim.ports.kind)
            size = len(kv.ports.ranks)
            text += (
                f" (SGLang does not check this: give replay_endpoint a port {size} or more away, "
                f"such as {kv.ports.base + size})"
            )
        return text

    def to_json(self) -> dict[str, Any]:
        """The collision for machines."""
        return {
            "ports": list(self.ports),
            "first": self.first.to_json(self.ports),
            "second": self.second.to_json(self.ports),
        }


@dataclass(frozen=True)
class Move:
    """The nearest ports that are free for a worker, given where all the others are.

    The moves of one plan belong together: each counts on those before it, whichever way they go.

    Attributes:
        worker: Its place among the workers, from 0.
        name: Its name.
        kind: Which base is named: ``kv``, or ``load`` where no KV events are bound.
        base: That base as it is.
        up: How far KV, replay and explicit load ports have to go up together; None where they may
            stay, or where no place is left.
        down: How far down they could go instead, below 0; None where no place is left.
        port: The HTTP port to take; None where it may stay, or where none is left.
    """

    worker: int
    name: str
    kind: str = "kv"
    base: int = 0
    up: int | None = None
    down: int | None = None
    port: int | None = None

    def __str__(self) -> str:
        what = {"kv": "KV base"}.get(self.kind, f"{self.kind} base")
        parts = [
            f"{way} by {abs(by)} to {what} {self.base + by}"
            for way, by in (("up", self.up), ("down", self.down))
            if by is not None
        ]
        parts = [", or ".join(parts)] if parts else []
        if self.port is not None:
            parts.append(f"--port {self.port}")
        return f"{self.name}: {' and '.join(parts) or 'no ports are left for it'}"

    def to_json(self) -> dict[str, Any]:
        """The move for machines."""
        return {
            "worker": self.name,
            "kind": self.kind,
            "base": self.base,
            "up": self.up,
            "down": self.down,
            "port": self.port,
        }


@dataclass(frozen=True)
class HostPlan:
    """Several workers together.

    Attributes:
        workers: Each by itself.
        collisions: The ports that two ranges share.
        moves: What resolves those between workers.
        spacing: The nearest distance of KV bases that works, for workers that are alike.
        remarks: What concerns several of them.
    """

    workers: tuple[WorkerPlan, ...]
    collisions: tuple[Collision, ...]
    moves: tuple[Move, ...]
    spacing: int | None
    remarks: tuple[Remark, ...]

    @property
    def ok(self) -> bool:
        """Whether all of them start and bind what they advertise."""
        return not self.collisions and all(worker.ok for worker in self.workers)

    def to_json(self) -> dict[str, Any]:
        """The plan for machines."""
        return {
            "ok": self.ok,
            "workers": [worker.to_json() for worker in self.workers],
            "collisions": [collision.to_json() for collision in self.collisions],
            "moves": [move.to_json() for move in self.moves],
            "spacing": self.spacing,
            "remarks": [
                {"level": str(r.level), "code": r.code, "text": r.text} for r in self.remarks
            ],
        }


def plan_host(workers: Iterable[LaunchArgs], *, propose: bool = True) -> HostPlan:
    """Plan workers that share a machine.

    Those with another ``--node-rank`` are on another machine, and collide with none of these.

    Args:
        workers: What each was told.
        propose: Whether to look for moves and a spacing where they collide.
    """
    plans = tuple(plan_worker(args) for args in workers)
    found = find_collisions(plans)
    # A spacing is one of KV bases, so HTTP ports alone ask for none.
    between = [pair for pair in found if not pair.is_within_one and "http" not in pair.kinds]
    involved = sorted({c.worker for pair in between for c in (pair.first, pair.second)})
    spacing = None
    if propose and involved and len({_shape(plans[place]) for place in involved}) == 1:
        spacing = nearest_spacing(plans[involved[0]], len(involved), with_http=False)
    moves = _moves(plans) if found and propose else []
    return HostPlan(plans, found, tuple(moves), spacing, tuple(_shared_remarks(plans)))


def repeat(args: LaunchArgs, count: int, spacing: int) -> list[LaunchArgs]:
    """One worker so many times, each ``spacing`` ports above the one before.

    Raises:
        ShiftError: A copy would leave the ports that there are.
    """
    named = replace(args, given=args.given | {"port"})
    return [shifted(named, place * spacing, f"worker {place + 1}") for place in range(count)]


def shifted(args: LaunchArgs, by: int, name: str) -> LaunchArgs:
    """The same worker on other ports: KV, replay, explicit load and HTTP go up by the same.

    Raises:
        ShiftError: One of them would leave 1 to 65535.
    """
    if by == 0:
        return replace(args, name=name)
    text, load = args.kv_events_config, args.load_publish_endpoint
    if text:
        try:
            config = KVEventsConfig.from_cli(text)
        except KVEventsConfigError:
            pass  # refused as it stands, wherever it is
        else:
            document = json.loads(text)
            document["endpoint"] = _shift_endpoint(name, config.endpoint, by)
            if config.replay_endpoint is not None:
                document["replay_endpoint"] = _shift_endpoint(name, config.replay_endpoint, by)
            text = json.dumps(document)
    if load is not None:
        load = _shift_endpoint(name, load.strip(), by)
    return replace(
        args,
        name=name,
        kv_events_config=text,
        load_publish_endpoint=load,
        port=_shift_port(name, "--port", args.port, by),
    )


def find_collisions(plans: Sequence[WorkerPlan]) -> tuple[Collision, ...]:
    """Every pair of ranges on one machine that share a port, by port."""
    claims = sorted(_claims(plans), key=lambda claim: claim.ports.first)
    machines = [plan.args.node_rank for plan in plans]
    found, open_claims = [], list[Claim]()
    for claim in claims:
        open_claims = [other for other in open_claims if other.ports.last >= claim.ports.first]
        for other in open_claims:
            if machines[other.worker] != machines[claim.worker]:
                continue
            if other.ports.is_default and claim.ports.is_default:
                continue  # nobody chose them: a remark, since the call may leave --port out
            if _clash(other.ports, claim.ports):
                last = min(other.ports.last, claim.ports.last)
                pair = sorted((other, claim), key=lambda entry: entry.worker)
                found.append(Collision(pair[0], pair[1], range(claim.ports.first, last + 1)))
        open_claims.append(claim)
    return tuple(found)


def nearest_spacing(worker: WorkerPlan, count: int, *, with_http: bool = True) -> int | None:
    """The smallest distance at which copies of a worker share no port, or None.

    With ``auto`` and no replay that is ``2 * dp_size``, unless the HTTP port is near.

    Args:
        worker: The worker.
        count: How many copies there are.
        with_http: Whether ``--port`` moves along and counts.
    """
    claimed = [ports for ports in worker.ports if with_http or ports.kind != "http"]
    if not claimed:
        return 1
    bad = _bad_distances(claimed, claimed)
    top = max(ports.last for ports in claimed)
    for spacing in range(1, MAX_PORT):
        if top + (count - 1) * spacing > MAX_PORT:
            return None
        if not any(_hits(spacing, count, low, high) for low, high in bad):
            return spacing
    return None


def _hits(spacing: int, count: int, low: int, high: int) -> bool:
    """Whether one of ``spacing``, ``2 * spacing`` and so on, is from low to high."""
    copies = -(-max(low, 1) // spacing)
    return copies < count and copies * spacing <= high


def _bad_distances(moving: Iterable[Ports], fixed: Sequence[Ports]) -> list[tuple[int, int]]:
    """How far ``moving`` may not go up: at low to high it meets something of ``fixed``."""
    return [
        (still.first - ports.last, still.last - ports.first)
        for ports in moving
        for still in fixed
        if _same_host(ports, still)
    ]


def _nearest(bad: list[tuple[int, int]], step: int) -> int:
    """The nearest distance up (step 1) or down (step -1) that is not bad."""
    distance = step
    for low, high in sorted(bad) if step > 0 else sorted(bad, key=itemgetter(1), reverse=True):
        if low <= distance <= high:
            distance = high + 1 if step > 0 else low - 1
    return distance


def _moves(plans: Sequence[WorkerPlan]) -> list[Move]:
    """The nearest free place for each worker that is in the way of one before it."""
    placed = [list(plan.ports) for plan in plans]
    # Where earlier workers may go down to instead: whichever way each of them goes, no two meet.
    instead: list[list[Ports]] = [[] for _ in plans]
    moves = []
    for place, plan in enumerate(plans):
        near = [at for at, p in enumerate(plans) if p.args.node_rank == plan.args.node_rank]
        before = [ports for at in near if at < place for ports in placed[at]]
        others = [ports for at in near if at != place for ports in (*placed[at], *instead[at])]
        wires = [ports for ports in placed[place] if ports.kind != "http"]
        http = [ports for ports in placed[place] if ports.kind == "http"]
        move = None
        if any(_clash(a, b) for a in wires for b in [*before, *http]):
            bad = _bad_distances(wires, [*others, *http])
            up, down = _nearest(bad, 1), _nearest(bad, -1)
            top, bottom = max(p.last for p in wires), min(p.first for p in wires)
            move = Move(
                place,
                plan.args.name,
                wires[0].kind,
                wires[0].base,
                up if top + up <= MAX_PORT else None,
                down if bottom + down >= LOWEST_PORT else None,
            )
            if move.down is not None:
                instead[place] = [replace(ports, base=ports.base + move.down) for ports in wires]
            wires = [replace(ports, base=ports.base + (move.up or 0)) for ports in wires]
        if any(_clash(a, b) for a in http for b in before if not (a.is_default and b.is_default)):
            up = _nearest(_bad_distances(http, [*others, *wires, *instead[place]]), 1)
            move = move or Move(place, plan.args.name)
            if http[0].last + up <= MAX_PORT:
                move = replace(move, port=http[0].base + up)
                http = [replace(http[0], base=http[0].base + up)]
        placed[place] = [*wires, *http]
        if move is not None:
            moves.append(move)
    return moves


def _shared_remarks(plans: Sequence[WorkerPlan]) -> list[Remark]:
    """What several workers have in common and should not."""
    by_machine: dict[int, list[str]] = {}
    for plan in plans:
        if "port" not in plan.args.given:
            by_machine.setdefault(plan.args.node_rank, []).append(plan.args.name)
    return [
        Remark(
            Level.WARNING,
            "http-default",
            f"{' and '.join(names) if len(names) == 2 else f'{len(names)} workers'} leave --port "
            "out, and SGLang gives each 30000",
        )
        for names in by_machine.values()
        if len(names) > 1
    ]


def _claims(plans: Sequence[WorkerPlan]) -> list[Claim]:
    return [
        Claim(place, plan.args.name, ports)
        for place, plan in enumerate(plans)
        for ports in plan.ports
    ]


def _clash(one: Ports, other: Ports) -> bool:
    """Whether two sockets cannot both have their port."""
    return one.first <= other.last and other.first <= one.last and _same_host(one, other)


def _same_host(one: Ports, other: Ports) -> bool:
    """Whether two bound hosts share addresses: a wildcard does with all."""
    hosts = [
        "127.0.0.1" if ports.host == "localhost" else ports.host.strip("[]")
        for ports in (one, other)
    ]
    return hosts[0] == hosts[1] or any(host in {"", *BINDABLE_HOSTS} for host in hosts)


def _shape(plan: WorkerPlan) -> tuple[object, ...]:
    """What is the same for workers that differ only in where their ports start."""
    wires = [ports for ports in plan.ports if ports.kind != "http"]
    base = wires[0].base if wires else 0
    return (plan.args.node_rank, *((p.kind, p.base - base, p.ranks) for p in wires))


def _shift_endpoint(name: str, endpoint: str, by: int) -> str:
    try:
        address = TcpAddress.parse(endpoint)
    except EndpointError:
        return endpoint  # auto, off and what occupies no port
    return str(replace(address, port=_shift_port(name, endpoint, address.port, by)))


def _shift_port(name: str, what: str, port: int, by: int) -> int:
    if not 1 <= port + by <= MAX_PORT:
        raise ShiftError(f"{name}: {what} moved by {by} is port {port + by}, not 1 to {MAX_PORT}")
    return port + by
