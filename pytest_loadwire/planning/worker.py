"""One worker's ports: which it takes, rank by rank, and what routers will read and dial.

Everything that the contract rules is asked of the modules that bind and advertise
(:mod:`pytest_loadwire.endpoints`, :mod:`pytest_loadwire.discovery`). What they do not look at, and
SGLang neither until a bind fails, is looked at here: the KV range past the last port, KV events
against replay, ranks on other nodes. No socket is opened and no port is probed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_loadwire.discovery import (
    KVEventsBlock,
    KVEventsConfig,
    KVEventsConfigError,
    LoadPublishArgsError,
    NoPlan,
    NoPlanReason,
    Plan,
    check_load_publish_args,
    kv_events_block,
    plan,
)
from pytest_loadwire.endpoints import (
    MAX_PORT,
    Decline,
    DeclineReason,
    EndpointError,
    LoadRange,
    TcpAddress,
    is_load_publish_asked,
)
from pytest_loadwire.planning.layout import Layout
from pytest_loadwire.rules import Code

if TYPE_CHECKING:
    from pytest_loadwire.planning.launch_args import LaunchArgs

PLACEHOLDER_HOST = "worker-host"
"""Stands for the host of the worker's URL where ``--host`` names no host to dial."""

EPHEMERAL_PORTS = range(32768, 61000)
"""The ports that Linux hands to outgoing connections, unless it is told otherwise."""

DEFAULT_PAGE_SIZE = 1
"""SGLang's page size without ``--page-size``, on most hardware."""

_KNOWN_PUBLISHERS = ("null", "zmq")


class Level(Code):
    """How much a remark matters."""

    REFUSED = "refused"
    """The engine refuses to start, or ends while it starts."""
    FAILS = "fails"
    """A socket cannot be bound, though SGLang does not look."""
    WARNING = "warning"
    """It runs, and some of it is of no use."""
    NOTE = "note"
    """Good to know."""

    @property
    def is_bad(self) -> bool:
        """Whether the plan is not to be used as it stands."""
        return self in (Level.REFUSED, Level.FAILS)


@dataclass(frozen=True)
class Remark:
    """What an operator should know.

    Attributes:
        level: How much it matters.
        code: A short word for machines.
        text: What is the matter, and what to change.
        rule: The rule of the contract that it comes from, or an empty text.
    """

    level: Level
    code: str
    text: str
    rule: str = ""


@dataclass(frozen=True)
class Ports:
    """One range of ports that a worker binds: rank r of it binds ``base + r`` (rule R3).

    Attributes:
        kind: ``kv``, ``replay``, ``load`` or ``http``.
        host: What is bound, without brackets.
        base: The port of rank 0, whether or not that rank is on this machine.
        ranks: The ranks on this machine.
        is_default: Nobody chose it.
    """

    kind: str
    host: str
    base: int
    ranks: range
    is_default: bool = False

    @property
    def first(self) -> int:
        """The lowest port."""
        return self.base + self.ranks.start

    @property
    def last(self) -> int:
        """The highest port, which may be past 65535."""
        return self.base + self.ranks.stop - 1


@dataclass(frozen=True)
class WorkerPlan:
    """What one worker does with its arguments.

    Attributes:
        args: The arguments.
        layout: The ranks.
        local: The ranks that publish from this machine.
        ports: The ranges bound on this machine: KV events, replay, load, HTTP.
        block: The ``kv_events`` value of ``/server_info`` by the contract (rules A1 to A4).
        outcome: The resolver's answer (rule E7), or the reason of the refusal (rule V1).
        dials: What a router subscribes to (rule C1), or why it does not.
        replay_base: What newer engines add to the block as ``replay_endpoint_port_base``.
        remarks: The rest, worst first.
    """

    args: LaunchArgs
    layout: Layout
    local: range
    ports: tuple[Ports, ...]
    block: KVEventsBlock | None
    outcome: LoadRange | Decline
    dials: Plan | NoPlan
    replay_base: int | None
    remarks: tuple[Remark, ...]

    @property
    def ok(self) -> bool:
        """Whether the engine starts and binds all of it; load publishing may be off."""
        return not any(remark.level.is_bad for remark in self.remarks)

    @property
    def starts(self) -> bool:
        """Whether the engine gets past its own checks; a bind may still fail."""
        return not any(remark.level is Level.REFUSED for remark in self.remarks)

    def range_of(self, kind: str) -> Ports | None:
        """The range of one kind, or None where nothing is bound."""
        return next((ports for ports in self.ports if ports.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """The plan for machines, every rank in full."""
        load = self.outcome if isinstance(self.outcome, LoadRange) else None
        decline = self.outcome if isinstance(self.outcome, Decline) else None
        ranks = []
        for rank in range(self.layout.dp_size):
            here = rank in self.local
            entry: dict[str, Any] = {
                "rank": rank,
                "here": here,
                "publisher": self.layout.publisher(range(rank, rank + 1)),
            }
            for kind in ("kv", "replay", "load"):
                ports = self.range_of(kind)
                entry[kind] = ports.base + rank if ports and here else None
            ranks.append(entry)
        dialled = self.dials.endpoints if isinstance(self.dials, Plan) else ()
        return {
            "name": self.args.name,
            "ok": self.ok,
            "starts": self.starts,
            "dp_size": self.layout.dp_size,
            "http": {"host": self.args.host, "port": self.args.port},
            "ranks": ranks,
            "load": load and {"host": load.host, "base": load.base, "size": load.size},
            "decline": decline and {"reason": str(decline.reason), "text": decline.text},
            "kv_events": self.block,
            "replay_endpoint_port_base": self.replay_base,
            "dials": [{"rank": dial.rank, "endpoint": dial.endpoint} for dial in dialled],
            "no_dial": str(self.dials.reason) if isinstance(self.dials, NoPlan) else None,
            "remarks": [
                {"level": str(r.level), "code": r.code, "rule": r.rule, "text": r.text}
                for r in self.remarks
            ],
            "not_looked_at": list(self.args.not_looked_at),
        }


def plan_worker(args: LaunchArgs) -> WorkerPlan:
    """Work out what an engine does with these arguments, without starting one.

    Nothing is raised: whatever is wrong stands in the remarks.
    """
    layout = Layout.of(args)
    dp_size, local = layout.dp_size, layout.ranks_on(args.node_rank)
    remarks = [Remark(Level.REFUSED, "layout", text) for text in layout.problems]
    outcome = _load_range(args, dp_size, remarks)
    ports = _kv_ports(args, dp_size, local, remarks)
    if isinstance(outcome, LoadRange) and local:
        ports.append(Ports("load", outcome.host, outcome.base, local))
    ports.append(Ports("http", args.host, args.port, range(1), "port" not in args.given))
    page_size = DEFAULT_PAGE_SIZE if args.page_size is None else args.page_size
    block = kv_events_block(
        args.kv_events_config,
        page_size=page_size,
        dp_size=dp_size,
        load_publish_endpoint=args.load_publish_endpoint,
        dcp_size=args.dcp_size,
    )
    replay = next((p.base for p in ports if p.kind == "replay"), None)
    remarks += _advert_remarks(args, block, outcome)
    remarks += _port_remarks(ports)
    remarks += _node_remarks(args, layout)
    order = list(Level)
    return WorkerPlan(
        args=args,
        layout=layout,
        local=local,
        ports=tuple(ports),
        block=block,
        outcome=outcome,
        dials=_dials(args, block),
        replay_base=replay if block else None,
        remarks=tuple(sorted(remarks, key=lambda remark: order.index(remark.level))),
    )


def span(first: int, last: int) -> str:
    """A range as text: ``5557`` or ``5557 to 5560``."""
    return str(first) if first == last else f"{first} to {last}"


def _load_range(args: LaunchArgs, dp_size: int, remarks: list[Remark]) -> LoadRange | Decline:
    """What the resolver gives, once validation at start has let it through (rules V1, E7)."""
    if not is_load_publish_asked(args.load_publish_endpoint):
        remarks.append(
            Remark(
                Level.NOTE,
                "off",
                "load publishing is off: --load-publish-endpoint=auto turns it on, where "
                "--kv-events-config has a publisher",
                "E1",
            )
        )
        return Decline(DeclineReason.OFF)
    try:
        check_load_publish_args(
            kv_events_config=args.kv_events_config,
            dp_size=dp_size,
            load_publish_endpoint=args.load_publish_endpoint,
        )
    except LoadPublishArgsError as error:
        remarks.append(Remark(Level.REFUSED, str(error.reason), error.text, "V1"))
        return Decline(error.reason, error.text)
    config = KVEventsConfig.from_cli(args.kv_events_config or "")
    return config.load_range(dp_size=dp_size, load_publish_endpoint=args.load_publish_endpoint)


def _kv_ports(args: LaunchArgs, dp_size: int, local: range, remarks: list[Remark]) -> list[Ports]:
    """The ranges of KV events and replay that this machine binds."""
    if not args.kv_events_config:
        return []
    try:
        config = KVEventsConfig.from_cli(args.kv_events_config)
    except KVEventsConfigError as error:
        if not is_load_publish_asked(args.load_publish_endpoint):  # said by V1 otherwise
            text = f"--kv-events-config is not parseable: {error}"
            remarks.append(Remark(Level.REFUSED, "kv-config", text))
        return []
    if not config.is_active:
        if config.publisher == "null":
            text = 'KV events are off: --kv-events-config has the publisher "null", which is '
            text += 'the default: set "publisher" to "zmq"'
            remarks.append(Remark(Level.NOTE, "kv-off", text))
        return []
    if config.publisher not in _KNOWN_PUBLISHERS:
        text = f"--kv-events-config has the publisher {config.publisher!r}; SGLang knows zmq"
        remarks.append(Remark(Level.REFUSED, "kv-publisher", text))
        return []
    found = []
    kv = _address("KV events", config.endpoint, dp_size, remarks)
    if kv is not None and _binds(args.kv_events_config, config.endpoint):
        if kv.is_ipv6:
            text = (
                f"KV events cannot bind {kv}: SGLang 0.5.23 does not set IPV6 on that socket, so "
                "libzmq refuses an IPv6 host: use tcp://*"
            )
            remarks.append(Remark(Level.FAILS, "kv-ipv6", text))
        if local:
            found.append(Ports("kv", kv.host, kv.port, local))
    elif kv is not None:
        text = f"KV events connect to {kv} and bind nothing here: {kv.host} is a concrete host"
        remarks.append(Remark(Level.NOTE, "kv-connects", text))
    if config.replay_endpoint is not None:
        replay = _address("replay", config.replay_endpoint, dp_size, remarks)
        if replay is not None and local:
            found.append(Ports("replay", replay.host, replay.port, local))
    return found


def _address(what: str, endpoint: str, dp_size: int, remarks: list[Remark]) -> TcpAddress | None:
    """A tcp endpoint that every rank offsets; None where no port is known."""
    try:
        return TcpAddress.parse(endpoint)
    except EndpointError as error:
        if "tcp" not in endpoint and "inproc" not in endpoint and dp_size > 1:
            text = (
                f"{what}: {endpoint!r} cannot be given to {dp_size} ranks: SGLang offsets only "
                "tcp:// and inproc://"
            )
            remarks.append(Remark(Level.REFUSED, "not-offset", text))
        else:
            level = Level.WARNING if endpoint.startswith("tcp") else Level.NOTE
            text = f"{what}: no tcp ports are known, since {error}"
            remarks.append(Remark(level, "no-port", text))
        return None


def _binds(text: str, endpoint: str) -> bool:
    """Whether the KV socket binds: SGLang looks for a wildcard anywhere in the text."""
    told = json.loads(text).get("bind")
    if isinstance(told, bool):
        return told
    return any(wildcard in endpoint for wildcard in ("*", "::", "0.0.0.0"))  # noqa: S104


def _advert_remarks(
    args: LaunchArgs, block: KVEventsBlock | None, outcome: LoadRange | Decline
) -> list[Remark]:
    """What ``/server_info`` leaves out, or says so that it misleads."""
    remarks = []
    is_published = isinstance(outcome, LoadRange)
    if args.page_size is not None and args.page_size <= 0 and args.kv_events_config:
        text = f"--page-size {args.page_size}: the whole kv_events block is null"
        if is_published:
            text += ", so load is published on its ports and no router finds them"
        remarks.append(Remark(Level.WARNING, "unadvertised", text, "A4"))
    elif (
        block is None
        and args.kv_events_config
        and not is_load_publish_asked(args.load_publish_endpoint)
    ):
        text = "/server_info has kv_events null: routers find neither KV events nor load"
        remarks.append(Remark(Level.NOTE, "no-block", text, "A4"))
    if block is not None and args.page_size is None:
        text = (
            f"block_size {block['block_size']} is SGLang's default; some attention backends "
            "raise it: --page-size decides"
        )
        remarks.append(Remark(Level.NOTE, "page-size", text))
    if block is not None and isinstance(outcome, LoadRange):
        host = block["endpoint_host"]
        if host not in ("*", "0.0.0.0", "[::]"):  # noqa: S104  # text to compare with
            text = (
                f"endpoint_host is {host}, where KV events are; load is on the worker's own "
                "host, and a router that pairs the two dials the wrong machine"
            )
            remarks.append(Remark(Level.WARNING, "other-host", text, "C1"))
    if "--config" in args.not_looked_at:
        text = "--config FILE is not read: give the flags that stand in it as well"
        remarks.append(Remark(Level.WARNING, "config-file", text))
    return remarks


def _port_remarks(ports: list[Ports]) -> list[Remark]:
    """Ports that do not exist, or that something else may take."""
    remarks = []
    for taken in ports:
        if taken.last > MAX_PORT:
            text = f"{taken.kind} ports {span(taken.first, taken.last)} run past {MAX_PORT}"
            if taken.kind != "load":
                text += ", which SGLang does not check: the bind fails"
            remarks.append(Remark(Level.FAILS, f"{taken.kind}-past-65535", text))
        elif taken.kind != "http" and (
            taken.first < EPHEMERAL_PORTS.stop and EPHEMERAL_PORTS.start <= taken.last
        ):
            text = (
                f"{taken.kind} ports {span(taken.first, taken.last)}: Linux hands "
                f"{span(EPHEMERAL_PORTS.start, EPHEMERAL_PORTS.stop - 1)} to outgoing connections, "
                "so one may be taken at start"
            )
            remarks.append(Remark(Level.NOTE, "ephemeral", text))
    return remarks


def _node_remarks(args: LaunchArgs, layout: Layout) -> list[Remark]:
    """Ranks that no router reaches, since a worker is advertised with one host."""
    if layout.nnodes == 1 or layout.problems or not args.kv_events_config:
        return []
    local, first = layout.ranks_on(args.node_rank), layout.ranks_on(0)
    here = f"ranks {span(local.start, local.stop - 1)}" if local else "no rank"
    where = f"node {args.node_rank} of {layout.nnodes} publishes {here} of {layout.dp_size}"
    if len(first) == layout.dp_size:
        return [Remark(Level.NOTE, "node", where)]
    text = (
        f"{where}: /server_info names one base and routers pair it with one host, so they reach "
        f"ranks {span(first.start, first.stop - 1)} on node 0 alone, and the load of this worker "
        "stays unknown"
    )
    return [Remark(Level.WARNING, "remote-ranks", text, "C3")]


def _dials(args: LaunchArgs, block: KVEventsBlock | None) -> Plan | NoPlan:
    """What a router dials that was given this worker by its ``--host``."""
    if "host" in args.given:
        host = TcpAddress(args.host, args.port).url_host
        answer = plan(f"http://{host}:{args.port}", block)
        if not isinstance(answer, NoPlan) or answer.reason is not NoPlanReason.BAD_URL:
            return answer
    return plan(f"http://{PLACEHOLDER_HOST}:{args.port}", block)
