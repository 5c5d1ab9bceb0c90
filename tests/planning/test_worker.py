"""One worker's ports, its advertisement, and what is the matter with it."""

# ruff: noqa: S104  # nothing here binds the wildcard hosts

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loadwire.discovery import NoPlan, Plan, kv_events_block
from pytest_loadwire.endpoints import Decline, LoadRange
from pytest_loadwire.planning.launch_args import LaunchArgs, parse_worker
from pytest_loadwire.planning.worker import Level, WorkerPlan, plan_worker

STAR = "tcp://*:5557"

# KV endpoint, replay endpoint, ranks, mode, and the load base that SGLang 0.5.23 takes.
BASES = [
    (STAR, None, 1, "auto", 5558),
    (STAR, None, 1, " Auto ", 5558),
    (STAR, None, 2, "auto", 5559),
    (STAR, None, 4, "auto", 5561),
    (STAR, None, 8, "auto", 5565),
    ("tcp://0.0.0.0:5557", None, 1, "auto", 5558),
    ("tcp://[::]:5557", None, 1, "auto", 5558),
    (STAR, "tcp://*:5558", 1, "auto", 5559),
    (STAR, "tcp://*:5558", 2, "auto", 5560),
    (STAR, "tcp://*:5558", 8, "auto", 5566),
    (STAR, "tcp://*:6000", 1, "auto", 5558),
    (STAR, "tcp://127.0.0.1:5558", 1, "auto", 5559),
    (STAR, "ipc:///r", 1, "auto", 5558),
    (STAR, "tcp://*:5564", 4, "auto", 5568),
    (STAR, "tcp://*:5565", 4, "auto", 5561),
    ("tcp://*:65534", None, 1, "auto", 65535),
    ("tcp://*:65531", None, 2, "auto", 65533),
    (STAR, None, 4, "tcp://*:7000", 7000),
    (STAR, None, 1, "tcp://[::]:7000", 7000),
    (STAR, None, 4, "tcp://*:5553", 5553),
    (STAR, "tcp://*:6000", 4, "tcp://*:6004", 6004),
    ("tcp://10.0.0.5:5557", None, 1, "tcp://*:7000", 7000),
    (STAR, None, 4, "tcp://*:65532", 65532),
]
# The same, and the reason of the refusal.
REFUSALS = [
    ("tcp://10.0.0.5:5557", None, 1, "auto", "not-bindable"),
    ("tcp://::1:5557", None, 1, "auto", "kv-not-advertisable"),
    ("ipc:///run/kv", None, 1, "auto", "kv-not-advertisable"),
    ("", None, 1, "auto", "no-kv-events"),
    ("tcp://*:65535", None, 1, "auto", "past-port-65535"),
    ("tcp://*:65533", None, 2, "auto", "past-port-65535"),
    ("tcp://*:65534", "tcp://*:65535", 1, "auto", "past-port-65535"),
    (STAR, None, 1, "tcp://10.0.0.5:7000", "not-bindable"),
    (STAR, None, 1, "7000", "not-bindable"),
    (STAR, None, 4, "tcp://*:5558", "overlaps-kv"),
    (STAR, "tcp://*:6000", 4, "tcp://*:6002", "overlaps-replay"),
    (STAR, None, 4, "tcp://*:65533", "past-port-65535"),
]


def config(endpoint: str = STAR, replay: str | None = None, **more: object) -> str:
    keys = {"publisher": "zmq", "endpoint": endpoint, "replay_endpoint": replay, **more}
    return json.dumps(keys)


def planned(*words: str, kv: str | None = None) -> WorkerPlan:
    """The plan for these arguments, with that ``--kv-events-config``."""
    return plan_worker(
        parse_worker([*(["--kv-events-config", kv] if kv is not None else []), *words])
    )


def ports(worker: WorkerPlan) -> dict[str, tuple[int, int]]:
    return {p.kind: (p.first, p.last) for p in worker.ports if p.kind != "http"}


def codes(worker: WorkerPlan, *levels: Level) -> list[str]:
    return [r.code for r in worker.remarks if r.level in (levels or tuple(Level))]


class TestLoadRange:
    @pytest.mark.parametrize(("kv", "replay", "size", "mode", "base"), BASES)
    def test_base(self, kv: str, replay: str | None, size: int, mode: str, base: int) -> None:
        """E2, E3: the load ports are those of the one resolver, and advertised (E7)."""
        words = ["--dp", str(size), "--load-publish-endpoint", mode]
        worker = planned(*words, kv=config(kv, replay))
        assert isinstance(worker.outcome, LoadRange)
        assert (base, base + size - 1) == ports(worker)["load"]
        assert worker.block is not None
        assert base == worker.block["load_endpoint_port_base"]
        assert isinstance(worker.dials, Plan)
        assert [base + rank for rank in range(size)] == [
            int(dial.endpoint.rpartition(":")[2]) for dial in worker.dials.endpoints
        ]

    @pytest.mark.parametrize(("kv", "replay", "size", "mode", "reason"), REFUSALS)
    def test_refused(self, kv: str, replay: str | None, size: int, mode: str, reason: str) -> None:
        """V1: what is asked for and declined refuses the start, with the reason."""
        words = ["--dp", str(size), "--load-publish-endpoint", mode]
        worker = planned(*words, kv=config(kv, replay))
        assert isinstance(worker.outcome, Decline)
        assert reason == str(worker.outcome.reason)
        assert (False, False) == (worker.ok, worker.starts)
        refusal = worker.remarks[0]
        assert (Level.REFUSED, reason, "V1") == (refusal.level, refusal.code, refusal.rule)
        assert "load" not in ports(worker)
        assert isinstance(worker.dials, NoPlan)

    @pytest.mark.parametrize("kv", [None, "", '{"publisher":"null"}', "{}", "{not json"])
    def test_no_kv_events(self, kv: str | None) -> None:
        """V1: load needs a publisher of KV events to be found through."""
        worker = planned("--load-publish-endpoint", "auto", kv=kv)
        assert ["no-kv-events"] == codes(worker, Level.REFUSED)
        assert {} == ports(worker)
        assert worker.block is None

    @pytest.mark.parametrize("words", [[], ["--load-publish-endpoint=off"], ["--load-p", " "]])
    def test_off(self, words: list[str]) -> None:
        """E1: off is fine, and said."""
        worker = planned(*words, kv=config())
        assert worker.ok
        assert ["off"] == [code for code in codes(worker) if code != "page-size"]
        assert {"kv": (5557, 5557)} == ports(worker)


class TestKVEvents:
    def test_ranks(self) -> None:
        """Rank r takes each base + r, and replay is bound too."""
        worker = planned("--dp", "2", kv=config(replay="tcp://*:6000"))
        assert {"kv": (5557, 5558), "replay": (6000, 6001)} == ports(worker)
        assert 6000 == worker.replay_base

    def test_connects(self) -> None:
        """KV events to a concrete host take no port here, and load then needs its own."""
        worker = planned("--load-p", "tcp://*:7000", kv=config("tcp://10.0.0.5:5557"))
        assert {"load": (7000, 7000)} == ports(worker)
        assert ["other-host"] == codes(worker, Level.WARNING)
        assert "kv-connects" in codes(worker)
        assert worker.ok

    @pytest.mark.parametrize(
        ("endpoint", "bind", "is_bound"),
        [
            ("tcp://127.0.0.1:5557", True, True),
            ("tcp://127.0.0.1:5557", None, False),
            (STAR, False, False),
            (STAR, None, True),
            ("tcp://[2001:db8::5]:5557", None, True),
            ("tcp://name:5557", None, False),
        ],
    )
    def test_bind(self, endpoint: str, bind: bool | None, is_bound: bool) -> None:
        """Whether the KV socket binds is told, or seen from a wildcard in the text."""
        assert is_bound == ("kv" in ports(planned(kv=config(endpoint, bind=bind))))

    def test_ipv6(self) -> None:
        """SGLang's KV socket does not set IPV6, so an IPv6 host cannot be bound."""
        worker = planned(kv=config("tcp://[::]:5557"))
        assert ["kv-ipv6"] == codes(worker, Level.FAILS)
        assert not worker.ok

    def test_past(self) -> None:
        """A KV range past the last port fails, though nobody checks."""
        worker = planned("--dp", "2", kv=config("tcp://*:65535"))
        assert ["kv-past-65535"] == codes(worker, Level.FAILS)

    def test_last(self) -> None:
        """The last port is a port."""
        assert planned(kv=config("tcp://*:65535")).ok

    def test_replay_past(self) -> None:
        """A replay range past the last port fails as well."""
        worker = planned("--dp", "2", kv=config(replay="tcp://*:65535"))
        assert ["replay-past-65535"] == codes(worker, Level.FAILS)

    @pytest.mark.parametrize(
        ("endpoint", "size", "level", "code"),
        [
            ("ipc:///kv", "1", Level.NOTE, "no-block"),
            ("ipc:///kv", "1", Level.NOTE, "no-port"),
            ("inproc://kv", "2", Level.NOTE, "no-block"),
            ("ipc:///kv", "2", Level.REFUSED, "not-offset"),
            ("tcp://host", "1", Level.WARNING, "no-port"),
        ],
    )
    def test_no_ports(self, endpoint: str, size: str, level: Level, code: str) -> None:
        """An endpoint without a known port takes none, and is not advertised (A4)."""
        worker = planned("--dp", size, kv=config(endpoint))
        assert code in codes(worker, level)
        assert ({}, None) == (ports(worker), worker.block)

    @pytest.mark.parametrize(
        ("kv", "level", "code"),
        [
            ("{not json", Level.REFUSED, "kv-config"),
            ('{"publisher":"foo"}', Level.REFUSED, "kv-publisher"),
            ("{}", Level.NOTE, "kv-off"),
        ],
    )
    def test_config(self, kv: str, level: Level, code: str) -> None:
        """A configuration that publishes nothing says so, also where load is off."""
        worker = planned(kv=kv)
        assert code in codes(worker, level)
        assert {} == ports(worker)

    def test_ephemeral(self) -> None:
        """Ports that Linux hands to outgoing connections are a note, and no more."""
        worker = planned("--load-p", "auto", "--dp", "2", kv=config("tcp://*:32765"))
        assert 1 == codes(worker, Level.NOTE).count("ephemeral")
        assert worker.ok


class TestAdvertisement:
    def test_block(self) -> None:
        """The block is that of the contract, with block_size from page size and dcp."""
        words = ["--load-p", "auto", "--dp", "2", "--page-size", "64", "--dcp-size", "2"]
        worker = planned(*words, kv=config(topic="kv"))
        expected = kv_events_block(
            config(topic="kv"), page_size=128, dp_size=2, load_publish_endpoint="auto"
        )
        assert expected == worker.block
        assert [] == codes(worker)

    def test_default_page_size(self) -> None:
        """Without a page size, SGLang's default is shown as such."""
        worker = planned("--load-p", "auto", kv=config())
        assert worker.block is not None
        assert (1, ["page-size"]) == (worker.block["block_size"], codes(worker))

    def test_no_page_size(self) -> None:
        """A4: page size 0 binds the ports and advertises none of them."""
        worker = planned("--load-p", "auto", "--page-size", "0", kv=config())
        assert {"kv": (5557, 5557), "load": (5558, 5558)} == ports(worker)
        assert (None, ["unadvertised"]) == (worker.block, codes(worker))
        assert worker.ok

    @pytest.mark.parametrize(
        ("words", "first"),
        [
            (["--host", "10.0.0.7"], "tcp://10.0.0.7:5558"),
            (["--host", "::1"], "tcp://[::1]:5558"),
            (["--host", "0.0.0.0"], "tcp://worker-host:5558"),
            (["--host", "::"], "tcp://worker-host:5558"),
            (["--host", "a b"], "tcp://worker-host:5558"),
            ([], "tcp://worker-host:5558"),
        ],
    )
    def test_dials(self, words: list[str], first: str) -> None:
        """C1: a router dials the worker's own host, which a wildcard does not tell."""
        worker = planned("--load-p", "auto", *words, kv=config())
        assert isinstance(worker.dials, Plan)
        assert first == worker.dials.endpoints[0].endpoint

    def test_config_file(self) -> None:
        """What stands in a configuration file is not known."""
        assert ["config-file"] == codes(planned("--config", "x.yaml"), Level.WARNING)


class TestNodes:
    WIDE = ("--dp", "8", "--tp", "16", "--enable-dp-attention", "--nnodes", "2", "--load-p=auto")

    def test_remote_ranks(self) -> None:
        """C3: ranks on another node are out of a router's reach, so the load stays unknown."""
        worker = planned(*self.WIDE, kv=config())
        assert ["remote-ranks"] == codes(worker, Level.WARNING)
        assert {"kv": (5557, 5560), "load": (5565, 5568)} == ports(worker)
        assert worker.block is not None
        assert 8 == worker.block["dp_size"]

    def test_second_node(self) -> None:
        """The second node takes the ports of its own ranks."""
        worker = planned(*self.WIDE, "--node-rank", "1", kv=config())
        assert {"kv": (5561, 5564), "load": (5569, 5572)} == ports(worker)

    def test_no_rank(self) -> None:
        """A node without a publisher takes no port, and that harms nobody."""
        words = ["--tp", "16", "--nnodes", "2", "--node-rank", "1", "--load-p", "auto"]
        worker = planned(*words, kv=config())
        assert {} == ports(worker)
        assert [] == codes(worker, Level.WARNING)

    def test_layout(self) -> None:
        """Sizes that do not go together refuse the start."""
        worker = planned("--dp", "2", "--enable-dp-attention", kv=config())
        assert ["layout"] == codes(worker, Level.REFUSED)


class TestJSON:
    def test_ranks(self) -> None:
        """For machines every rank stands in full, those elsewhere without ports."""
        words = [
            "--dp",
            "2",
            "--tp",
            "2",
            "--enable-dp-attention",
            "--nnodes",
            "2",
            "--load-p=auto",
        ]
        found = planned(*words, kv=config()).to_json()
        here = {"rank": 0, "here": True, "publisher": "attention group 0, tp rank 0"}
        away = {"rank": 1, "here": False, "publisher": "attention group 1, tp rank 1"}
        assert [
            here | {"kv": 5557, "replay": None, "load": 5559},
            away | {"kv": None, "replay": None, "load": None},
        ] == found["ranks"]
        assert {"host": "*", "base": 5559, "size": 2} == found["load"]
        assert (True, None) == (found["ok"], found["decline"])

    @given(
        kv=st.none() | st.text() | st.builds(config, st.text(), st.none() | st.text()),
        mode=st.none() | st.text(),
        size=st.integers(1, 40),
        page_size=st.none() | st.integers(-1, 1),
        nodes=st.integers(1, 4),
        host=st.text(),
    )
    def test_any_arguments(
        self,
        kv: str | None,
        mode: str | None,
        size: int,
        page_size: int | None,
        nodes: int,
        host: str,
    ) -> None:
        """Whatever the arguments, there is a plan, and it is JSON."""
        args = LaunchArgs(
            kv_events_config=kv,
            load_publish_endpoint=mode,
            attn_dp_size=size,
            tp_size=size,
            page_size=page_size,
            nnodes=nodes,
            host=host,
            given=frozenset({"host"}),
        )
        json.dumps(plan_worker(args).to_json())
