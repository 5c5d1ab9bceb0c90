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
    why: str


_BEHIND = "auto packs the range behind the port of KV events"
_AS_TOLD = "an explicit address is bound as it is"
_IPV6 = "a socket is told IPV6 for a host in brackets, before it binds"

BINDS = (
    Bind("K1", "bind-auto", kv_events_config(), "auto", "tcp://*:5558", _BEHIND),
    Bind("K1", "bind-explicit", kv_events_config(), "tcp://*:7000", "tcp://*:7000", _AS_TOLD),
    Bind(
        "K1", "bind-any-ipv4", kv_events_config("tcp://0.0.0.0:5557"), "auto", "tcp://0.0.0.0:5558",
        "auto keeps the wildcard that KV events are bound with",
    ),
    Bind("K1", "bind-ipv6", kv_events_config("tcp://[::]:5557"), "auto", "tcp://[::]:5558", _IPV6),
    Bind(
        "K1", "bind-ipv6-explicit", kv_events_config(), "tcp://[::]:7000", "tcp://[::]:7000", _IPV6
    ),
    Bind(
        "E2",
        "bind-behind-the-replay-range",
        kv_events_config(replay_endpoint="tcp://*:5558"),
        "auto",
        "tcp://*:5559",
        "the replay socket of KV events has the port where load would go",
    ),
    Bind(
        "K2", "bind-without-conflate", kv_events_config(), "auto", "tcp://*:5558",
        "CONFLATE keeps one frame of a message, and no subscriber can read that",
    ),
)  # fmt: skip


class FailedBind(NamedTuple):
    """A bind that raises."""

    rule: str
    case: str
    error: BaseException
    why: str


FAILED_BINDS = (
    FailedBind("K3", "bind-fails-address-in-use", zmq.ZMQError(errno.EADDRINUSE),
               "another process has the port: the engine serves without its load"),
    FailedBind("K3", "bind-fails-no-such-device", zmq.ZMQError(errno.ENODEV),
               "no interface has the host: the engine serves without its load"),
    FailedBind("K3", "bind-fails-permission-denied", zmq.ZMQError(errno.EACCES),
               "the port is privileged: the engine serves without its load"),
    FailedBind("K3", "bind-fails-by-any-error", RuntimeError("no bind today"),
               "whatever a bind raises, zmq's own or not, stops no engine"),
)  # fmt: skip


class Start(NamedTuple):
    """A scheduler that opens no socket, why, and how often it warns of that."""

    rule: str
    case: str
    config: str | None
    load_publish_endpoint: str | None
    why: str
    topology: Topology = Topology()
    warnings: int = 0


_OFF = "nobody asked for load, so no socket opens and no warning is owed"
_NO_KV = "without KV events there is no publisher, and no warning is owed"
_NOT_FIRST = "only pp, attention-TP and attention-CP rank 0 of a KV cache publishes its load"
_NO_WILDCARD = "a PUB socket binds wildcards only, so the range is declined"

STARTS = (
    Start("E1", "off-when-unset", kv_events_config(), None, _OFF),
    Start("E1", "off-when-empty", kv_events_config(), "", _OFF),
    Start("E1", "off-when-blank", kv_events_config(), "   ", _OFF),
    Start("E1", "off-when-off", kv_events_config(), "off", _OFF),
    Start("E1", "off-in-capitals", kv_events_config(), " OFF ", _OFF),
    Start("R1", "closed-without-kv-events", None, "auto", _NO_KV),
    Start("R1", "closed-with-empty-kv-events", "", "auto", _NO_KV),
    Start("R1", "closed-with-unparseable-kv-events", "{not json", "auto",
          "a configuration that does not parse counts as none, and no warning is owed"),
    Start("R1", "closed-with-null-publisher", kv_events_config(publisher="null"), "auto",
          "the null publisher is how KV events are turned off, and no warning is owed"),
    Start("R1", "closed-with-empty-endpoint", kv_events_config(""), "auto",
          "KV events without an endpoint are turned off: nothing is declined, and no warning is "
          "owed"),
    Start("R1", "closed-on-pp-rank-1", kv_events_config(), "auto", _NOT_FIRST,
          Topology(pp_rank=1)),
    Start("R1", "closed-on-tp-rank-1", kv_events_config(), "auto", _NOT_FIRST,
          Topology(attn_tp_rank=1)),
    Start("R1", "closed-on-cp-rank-1", kv_events_config(), "auto", _NOT_FIRST,
          Topology(attn_cp_rank=1)),
    Start(
        "E4", "declined-behind-a-kv-host", kv_events_config("tcp://10.0.0.5:5557"), "auto",
        "auto takes the host of KV events, and a PUB socket binds wildcards only", warnings=1,
    ),
    Start("E4", "declined-on-one-host", kv_events_config(), "tcp://10.0.0.5:7000", _NO_WILDCARD,
          warnings=1),
    Start("E4", "declined-on-one-ipv6-host", kv_events_config(), "tcp://[2001:db8::5]:7000",
          _NO_WILDCARD, warnings=1),
    Start(
        "E3", "declined-within-the-kv-range", kv_events_config(), "tcp://*:5558",
        "the ports of KV events, 5557 to 5560, are taken", Topology(dp_size=4, dp_rank=0),
        warnings=1,
    ),
    Start("E6", "declined-past-65535", kv_events_config("tcp://*:65535"), "auto",
          "there is no port behind the last one", warnings=1),
)  # fmt: skip


class RankPlan(NamedTuple):
    """The schedulers of one engine, in the order of their slots."""

    rule: str
    case: str
    load_publish_endpoint: str
    base: int
    topologies: tuple[Topology, ...]
    why: str


def _pure(size: int) -> tuple[Topology, ...]:
    return tuple(Topology(dp_size=size, dp_rank=rank) for rank in range(size))


def _attention(size: int) -> tuple[Topology, ...]:
    return tuple(
        # `dp_rank` stays what it is by default in such an engine, and has to be passed over.
        Topology(dp_size=size, dp_rank=0, attn_dp_size=size, attn_dp_rank=rank)
        for rank in range(size)
    )


_PURE = "in pure data parallelism the slot is dp_rank"
_ATTENTION = "under DP attention the slot is attn_dp_rank, whatever dp_rank says"

RANK_PLANS = (
    RankPlan("R2", "rank-unset", "auto", 5558, (Topology(),), "a dp_rank that is unset is slot 0"),
    RankPlan("R2", "ranks-of-pure-dp-1", "auto", 5558, _pure(1), _PURE),
    RankPlan("R2", "ranks-of-pure-dp-2", "auto", 5559, _pure(2), _PURE),
    RankPlan("R2", "ranks-of-pure-dp-4", "auto", 5561, _pure(4), _PURE),
    RankPlan("R2", "ranks-of-attention-dp-2", "auto", 5559, _attention(2), _ATTENTION),
    RankPlan("R2", "ranks-of-attention-dp-4", "auto", 5561, _attention(4), _ATTENTION),
    RankPlan("R3", "ranks-of-pure-dp-4-explicit", "tcp://*:7000", 7000, _pure(4), _PURE),
    RankPlan(
        "R3", "ranks-of-attention-dp-4-explicit", "tcp://*:7000", 7000, _attention(4), _ATTENTION
    ),
)


class Closing(NamedTuple):
    """What is done after a publisher was closed."""

    rule: str
    case: str
    why: str


CLOSINGS = (
    Closing("K4", "close-twice", "an engine's shutdown may come by the same way twice"),
    Closing("K4", "close-and-publish", "the scheduler's loop may run on behind a close"),
)
