"""What `PublisherContract` asks of a publisher beyond the timelines, as tables of cases."""

from __future__ import annotations

import errno
from typing import NamedTuple

import zmq

from pytest_loadwire.contract.engine import kv_events_config
from pytest_loadwire.endpoints import Topology

HWM = 8
"""The high-water mark of rule K1."""


class Bind(NamedTuple):
    """What an engine of one scheduler is told, and what its socket then binds."""

    rule: str
    case: str
    config: str
    load_publish_endpoint: str
    endpoint: str


BINDS = (
    Bind("K1", "bind-auto", kv_events_config(), "auto", "tcp://*:5558"),
    Bind("K1", "bind-explicit", kv_events_config(), "tcp://*:7000", "tcp://*:7000"),
    Bind(
        "K1", "bind-any-ipv4", kv_events_config("tcp://0.0.0.0:5557"), "auto", "tcp://0.0.0.0:5558"
    ),
    Bind("K1", "bind-ipv6", kv_events_config("tcp://[::]:5557"), "auto", "tcp://[::]:5558"),
    Bind("K1", "bind-ipv6-explicit", kv_events_config(), "tcp://[::]:7000", "tcp://[::]:7000"),
    Bind(
        "E2",
        "bind-behind-the-replay-range",
        kv_events_config(replay_endpoint="tcp://*:5558"),
        "auto",
        "tcp://*:5559",
    ),
    Bind("K2", "bind-without-conflate", kv_events_config(), "auto", "tcp://*:5558"),
)


class FailedBind(NamedTuple):
    """A bind that raises."""

    rule: str
    case: str
    error: BaseException


FAILED_BINDS = (
    FailedBind("K3", "bind-fails-address-in-use", zmq.ZMQError(errno.EADDRINUSE)),
    FailedBind("K3", "bind-fails-no-such-device", zmq.ZMQError(errno.ENODEV)),
    FailedBind("K3", "bind-fails-permission-denied", zmq.ZMQError(errno.EACCES)),
    FailedBind("K3", "bind-fails-by-any-error", RuntimeError("no bind today")),
)


class Start(NamedTuple):
    """A scheduler that opens no socket, and how often it warns of that."""

    rule: str
    case: str
    config: str | None
    load_publish_endpoint: str | None
    topology: Topology = Topology()
    warnings: int = 0


STARTS = (
    Start("E1", "off-when-unset", kv_events_config(), None),
    Start("E1", "off-when-empty", kv_events_config(), ""),
    Start("E1", "off-when-blank", kv_events_config(), "   "),
    Start("E1", "off-when-off", kv_events_config(), "off"),
    Start("E1", "off-in-capitals", kv_events_config(), " OFF "),
    Start("R1", "closed-without-kv-events", None, "auto"),
    Start("R1", "closed-with-empty-kv-events", "", "auto"),
    Start("R1", "closed-with-unparseable-kv-events", "{not json", "auto"),
    Start("R1", "closed-with-null-publisher", kv_events_config(publisher="null"), "auto"),
    Start("R1", "closed-with-empty-endpoint", kv_events_config(""), "auto"),
    Start("R1", "closed-on-pp-rank-1", kv_events_config(), "auto", Topology(pp_rank=1)),
    Start("R1", "closed-on-tp-rank-1", kv_events_config(), "auto", Topology(attn_tp_rank=1)),
    Start("R1", "closed-on-cp-rank-1", kv_events_config(), "auto", Topology(attn_cp_rank=1)),
    Start(
        "E4", "declined-behind-a-kv-host", kv_events_config("tcp://10.0.0.5:5557"), "auto",
        warnings=1,
    ),
    Start("E4", "declined-on-one-host", kv_events_config(), "tcp://10.0.0.5:7000", warnings=1),
    Start("E4", "declined-on-one-ipv6-host", kv_events_config(), "tcp://[2001:db8::5]:7000",
          warnings=1),
    Start(
        "E3", "declined-within-the-kv-range", kv_events_config(), "tcp://*:5558",
        Topology(dp_size=4, dp_rank=0), warnings=1,
    ),
    Start("E6", "declined-past-65535", kv_events_config("tcp://*:65535"), "auto", warnings=1),
)  # fmt: skip


class RankPlan(NamedTuple):
    """The schedulers of one engine, in the order of their slots."""

    rule: str
    case: str
    load_publish_endpoint: str
    base: int
    topologies: tuple[Topology, ...]


def _pure(size: int) -> tuple[Topology, ...]:
    return tuple(Topology(dp_size=size, dp_rank=rank) for rank in range(size))


def _attention(size: int) -> tuple[Topology, ...]:
    return tuple(
        # `dp_rank` stays what it is by default in such an engine, and has to be passed over.
        Topology(dp_size=size, dp_rank=0, attn_dp_size=size, attn_dp_rank=rank)
        for rank in range(size)
    )


RANK_PLANS = (
    RankPlan("R2", "rank-unset", "auto", 5558, (Topology(),)),
    RankPlan("R2", "ranks-of-pure-dp-1", "auto", 5558, _pure(1)),
    RankPlan("R2", "ranks-of-pure-dp-2", "auto", 5559, _pure(2)),
    RankPlan("R2", "ranks-of-pure-dp-4", "auto", 5561, _pure(4)),
    RankPlan("R2", "ranks-of-attention-dp-2", "auto", 5559, _attention(2)),
    RankPlan("R2", "ranks-of-attention-dp-4", "auto", 5561, _attention(4)),
    RankPlan("R3", "ranks-of-pure-dp-4-explicit", "tcp://*:7000", 7000, _pure(4)),
    RankPlan("R3", "ranks-of-attention-dp-4-explicit", "tcp://*:7000", 7000, _attention(4)),
)


class Closing(NamedTuple):
    """What is done after a publisher was closed."""

    rule: str
    case: str


CLOSINGS = (Closing("K4", "close-twice"), Closing("K4", "close-and-publish"))
