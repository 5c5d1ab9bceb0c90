"""Workers on one machine: their collisions, against a count by hand, and the nearest way out."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_loadwire.endpoints import MAX_PORT
from pytest_loadwire.planning.cohosting import (
    HostPlan,
    ShiftError,
    find_collisions,
    nearest_spacing,
    plan_host,
    repeat,
    shifted,
)
from pytest_loadwire.planning.launch_args import LaunchArgs, parse_worker
from pytest_loadwire.planning.worker import WorkerPlan, plan_worker

# Ranks, replay endpoint, mode, and the nearest spacing of two such workers from KV port 5557.
SPACINGS = [
    (1, None, "off", 1),
    (1, None, "auto", 2),
    (2, None, "auto", 4),
    (8, None, "auto", 16),
    (64, None, "auto", 128),
    # One range more with replay; next to KV that is 2 * dp_size + 1 for one rank.
    (1, "tcp://*:5558", "auto", 3),
    (2, "tcp://*:5559", "auto", 6),
    (4, "tcp://*:5561", "auto", 12),
    # Ranges far apart only have to keep from their own copies.
    (2, "tcp://*:6000", "auto", 4),
    (2, None, "tcp://*:7000", 2),
]


def worker(
    base: int = 5557,
    size: int = 1,
    replay: str | None = None,
    mode: str = "auto",
    port: int = 30000,
    name: str = "worker 1",
) -> LaunchArgs:
    config = {"publisher": "zmq", "endpoint": f"tcp://*:{base}", "replay_endpoint": replay}
    words = ["--kv-events-config", json.dumps(config), "--load-publish-endpoint", mode]
    return parse_worker([*words, "--dp-size", str(size), "--port", str(port)], name)


def bound(plan: WorkerPlan) -> list[int]:
    """Every port of a worker, one by one."""
    return [port for p in plan.ports for port in range(p.first, p.last + 1)]


def shared(plans: list[WorkerPlan]) -> set[int]:
    """The ports that are taken twice, counted by hand."""
    taken = Counter(port for plan in plans for port in bound(plan))
    return {port for port, count in taken.items() if count > 1}


def between(result: HostPlan) -> list[str]:
    return [str(found) for found in result.collisions if not found.is_within_one]


workers = st.builds(
    worker,
    base=st.integers(5550, 5590),
    size=st.integers(1, 6),
    replay=st.none() | st.integers(5550, 5600).map(lambda port: f"tcp://*:{port}"),
    mode=st.sampled_from(["auto", "off"])
    | st.integers(5550, 5600).map(lambda port: f"tcp://*:{port}"),
    port=st.integers(5540, 5610) | st.integers(30000, 30010),
)


class TestCollisions:
    def test_neighbours(self) -> None:
        """A collision names the ports, and whose ranks they are."""
        result = plan_host([worker(size=2), worker(5558, 2, port=30001, name="worker 2")])
        assert [
            "port 5558: worker 1 kv rank 1 and worker 2 kv rank 0",
            "port 5559: worker 1 load rank 0 and worker 2 kv rank 1",
            "port 5560: worker 1 load rank 1 and worker 2 load rank 0",
        ] == [str(found) for found in result.collisions]
        assert not result.ok
        assert 4 == result.spacing
        (move,) = result.moves
        assert "worker 2: up by 3 to KV base 5561, or down by 5 to KV base 5553" == str(move)

    def test_touching(self) -> None:
        """Ranges that touch do not collide."""
        result = plan_host([worker(size=2), worker(5561, 2, port=30001, name="worker 2")])
        assert result.ok
        assert ((), (), None) == (result.collisions, result.moves, result.spacing)

    def test_http(self) -> None:
        """The HTTP port counts, and another is proposed."""
        result = plan_host([worker(), worker(5600, name="worker 2")])
        assert ["port 30000: worker 1 HTTP and worker 2 HTTP"] == between(result)
        assert ["worker 2: --port 30001"] == [str(move) for move in result.moves]
        assert result.spacing is None

    def test_default_http(self) -> None:
        """HTTP ports that nobody chose are no collision, and are said."""
        first, second = worker(), worker(5600, name="worker 2")
        bare = [replace(args, given=args.given - {"port"}) for args in (first, second)]
        result = plan_host(bare)
        assert result.ok
        (remark,) = result.remarks
        assert "worker 1 and worker 2 leave --port out" in remark.text

    def test_within_one(self) -> None:
        """Replay next to KV is in the way of the second rank, which SGLang does not check."""
        result = plan_host([worker(size=2, replay="tcp://*:5558")])
        (text,) = map(str, result.collisions)
        assert text.startswith("port 5558: worker 1 kv rank 1 and worker 1 replay rank 0 (SGLang")
        assert "such as 5559" in text
        assert (False, (), None) == (result.ok, result.moves, result.spacing)

    @pytest.mark.parametrize(
        ("first", "second", "collides"),
        [
            ("10.0.0.1", "10.0.0.2", False),
            ("10.0.0.1", "10.0.0.1", True),
            ("10.0.0.1", "0.0.0.0", True),  # noqa: S104
            ("::", "127.0.0.1", True),
            ("localhost", "127.0.0.1", True),
        ],
    )
    def test_hosts(self, first: str, second: str, collides: bool) -> None:
        """Two concrete hosts do not meet, and a wildcard meets all."""
        pair = [replace(worker(), host=first), replace(worker(5600), host=second)]
        assert collides == bool(plan_host(pair).collisions)

    def test_machines(self) -> None:
        """The nodes of one engine are different machines."""
        wide = replace(worker(size=2), enable_dp_attention=True, tp_size=2, nnodes=2)
        assert plan_host([wide, replace(wide, node_rank=1)]).ok

    @given(st.lists(workers, min_size=1, max_size=4))
    def test_by_hand(self, several: list[LaunchArgs]) -> None:
        """The ports of all collisions are those that are taken twice."""
        plans = [plan_worker(args) for args in several]
        found = {port for pair in find_collisions(plans) for port in pair.ports}
        assert shared(plans) == found

    @given(st.lists(workers, min_size=2, max_size=3))
    def test_json(self, several: list[LaunchArgs]) -> None:
        """For machines each collision names ports and ranks that belong together."""
        result = plan_host(several)
        for one, document in zip(result.collisions, result.to_json()["collisions"], strict=True):
            for claim, side in ((one.first, "first"), (one.second, "second")):
                ranks = document[side]["ranks"]
                assert list(one.ports) == [claim.ports.base + rank for rank in ranks]


class TestSpacing:
    @pytest.mark.parametrize(("size", "replay", "mode", "spacing"), SPACINGS)
    def test_two(self, size: int, replay: str | None, mode: str, spacing: int) -> None:
        """With auto a worker takes 2 * dp_size ports, and one range more with replay."""
        plan = plan_worker(worker(size=size, replay=replay, mode=mode))
        assert spacing == nearest_spacing(plan, 2, with_http=False)

    @given(workers, st.integers(2, 4))
    def test_by_hand(self, args: LaunchArgs, count: int) -> None:
        """The copies at the nearest spacing share no port, and at every smaller one they do."""
        alone = plan_worker(args)
        assume(not shared([alone]))
        nearest = nearest_spacing(alone, count)
        assert nearest is not None
        for spacing in range(1, nearest + 1):
            plans = [plan_worker(copy) for copy in repeat(args, count, spacing)]
            assert (spacing < nearest) == bool(shared(plans)), spacing
            assert (spacing < nearest) == bool(find_collisions(plans)), spacing

    def test_none_left(self) -> None:
        """Where the ports end, there is no spacing."""
        assert nearest_spacing(plan_worker(worker(size=64)), 600) is None
        last = plan_worker(worker(mode="off", port=MAX_PORT))
        assert (None, 1) == (nearest_spacing(last, 2), nearest_spacing(last, 2, with_http=False))


class TestMoves:
    @given(st.lists(workers, min_size=2, max_size=4), st.integers(0, 15))
    def test_all_moved(self, several: list[LaunchArgs], ways: int) -> None:
        """With every move made, whichever way each worker goes, no two share a port."""
        plans = [plan_worker(args) for args in several]
        assume(all(not shared([plan]) for plan in plans))
        placed = [[(p.kind, p.first, p.last) for p in plan.ports] for plan in plans]
        for move in plan_host(several).moves:
            goes_down = ways >> move.worker & 1 and move.down is not None
            by = (move.down if goes_down else move.up) or 0
            placed[move.worker] = [
                (kind, move.port, move.port)
                if kind == "http" and move.port
                else (kind, first, last)
                if kind == "http"
                else (kind, first + by, last + by)
                for kind, first, last in placed[move.worker]
            ]
        everything = [r for ranges in placed for r in ranges]
        for (_, first, last), (_, low, high) in itertools.combinations(everything, 2):
            assert last < low or high < first

    @given(st.lists(workers, min_size=2, max_size=2))
    def test_nearest(self, pair: list[LaunchArgs]) -> None:
        """Of two workers the second moves, and every smaller step up or down collides."""
        first, second = replace(pair[0], port=40000), replace(pair[1], port=40001)
        plans = [plan_worker(first), plan_worker(second)]
        assume(all(not shared([plan]) for plan in plans))
        moves = plan_host([first, second]).moves
        assert bool(shared(plans)) == bool(moves)
        for move in moves:
            assert (1, None) == (move.worker, move.port)
            assert move.up is not None
            assert move.down is not None
            for step in range(move.down, move.up + 1):
                away = plan_worker(replace(shifted(second, step, "there"), port=40001))
                is_free = step in (move.down, move.up)
                assert is_free == (not shared([plans[0], away])), step

    def test_three(self) -> None:
        """Each move counts on those before it."""
        alike = [worker(port=30000 + n, name=f"worker {n}") for n in (1, 2, 3)]
        result = plan_host(alike)
        assert [5559, 5561] == [move.base + (move.up or 0) for move in result.moves]
        assert [5555, 5553] == [move.base + (move.down or 0) for move in result.moves]
        assert 2 == result.spacing

    def test_those_behind(self) -> None:
        """A worker is not moved to where a later one is well placed."""
        bases = [5557, 5557, 5559]
        three = [worker(base, port=30000 + n, name=f"worker {n}") for n, base in enumerate(bases)]
        assert ["worker 1: up by 4 to KV base 5561, or down by 2 to KV base 5555"] == [
            str(move) for move in plan_host(three).moves
        ]

    def test_own_http(self) -> None:
        """A worker whose ports meet its own HTTP port is moved as well."""
        result = plan_host([worker(port=5558)])
        assert ["port 5558: worker 1 load rank 0 and worker 1 HTTP"] == [
            str(found) for found in result.collisions
        ]
        assert ["worker 1: up by 2 to KV base 5559, or down by 1 to KV base 5556"] == [
            str(move) for move in result.moves
        ]

    def test_privileged(self) -> None:
        """No port that takes a privilege is proposed."""
        result = plan_host([worker(1025), worker(1025, port=30001, name="worker 2")])
        assert ["worker 2: up by 2 to KV base 1027"] == [str(move) for move in result.moves]

    def test_none_left(self) -> None:
        """Where no place is left above, the one below remains, and is said."""
        result = plan_host([worker(65534), worker(65534, port=30001, name="worker 2")])
        (move,) = result.moves
        assert "worker 2: down by 2 to KV base 65532" == str(move)

    def test_not_asked(self) -> None:
        """Without proposals there are the collisions alone."""
        result = plan_host([worker(), worker()], propose=False)
        assert (True, (), None) == (bool(result.collisions), result.moves, result.spacing)


class TestShifted:
    def test_everything_moves(self) -> None:
        """KV, replay, explicit load and HTTP ports go up together."""
        args = shifted(worker(replay="tcp://*:6000", mode="tcp://*:7000"), 10, "worker 2")
        ports = {p.kind: p.base for p in plan_worker(args).ports}
        assert {"kv": 5567, "replay": 6010, "load": 7010, "http": 30010} == ports
        assert "worker 2" == args.name

    def test_default_endpoint(self) -> None:
        """A default endpoint moves like a given one."""
        args = shifted(parse_worker(["--kv-events-config", '{"publisher":"zmq"}']), 4, "worker 2")
        assert "tcp://*:5561" == json.loads(args.kv_events_config or "")["endpoint"]

    @pytest.mark.parametrize("kv", ["{not json", '{"publisher":"zmq","endpoint":"ipc:///kv"}'])
    def test_no_ports(self, kv: str) -> None:
        """What has no port stays as it is."""
        args = shifted(parse_worker(["--kv-events-config", kv]), 4, "worker 2")
        assert plan_worker(args).block is None

    def test_past(self) -> None:
        """A copy past the last port is refused by name."""
        with pytest.raises(ShiftError, match=r"^worker 3: --port moved by 40000 is port 70000"):
            repeat(worker(), 3, 20000)
