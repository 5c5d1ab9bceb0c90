"""What a live view knows: targets, the state of each rank, and why a load is unknown."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_loadwire import tail as module
from pytest_loadwire.deadline import Deadline
from pytest_loadwire.discovery import NoPlan, NoPlanReason, Plan, RankEndpoint, plan
from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.rules import Reason
from pytest_loadwire.tail import Arrival, Tail
from pytest_loadwire.tail_state import Rate, State
from pytest_loadwire.target import parse_target
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, Message, build_frames, parse_frames

A, B = "http://10.0.0.5:30000", "http://10.0.0.6:30000"

CHECK = f"loadwire check {A} looks for the cause"
MAP = [b"load", bytes(8), b"\x80"]


class TestRate:
    @pytest.mark.parametrize("period", [0.0625, 0.25, 0.5, 1.0])
    def test_steady(self, period: float) -> None:
        """What comes at a steady pace has that rate, whenever it is asked for."""
        rate, start = Rate(5.0), 1000.0
        for step in range(int(60 / period)):
            now = start + step * period
            rate.note(now)
            if now - start >= 2:
                for part in (0.0, 0.25, 0.5, 1.0):
                    assert rate.per_second(now + part * period) == pytest.approx(1 / period)

    def test_too_early(self) -> None:
        """One second has to pass before there is a rate, which then is no burst's."""
        rate = Rate(5.0)
        assert rate.per_second(10.0) is None
        for _ in range(11):
            rate.note(10.0)
        assert rate.per_second(10.99) is None
        assert rate.per_second(11.0) == 10.0

    def test_silence(self) -> None:
        """In a silence the rate goes down to 0, and what comes then counts anew."""
        rate = Rate(5.0)
        for step in range(100):
            rate.note(step / 10)
        assert rate.per_second(10.0) == pytest.approx(10)
        assert rate.per_second(12.5) == pytest.approx(5, rel=0.2)
        assert rate.per_second(15.5) == 0
        rate.note(1e6)
        assert rate.per_second(1e6 + 1) == 0.2

    def test_clock_that_stands(self) -> None:
        """A clock that stands, or runs back a little, breaks nothing."""
        rate = Rate(5.0)
        for now in (10.0, 12.0, 11.9, 12.0, 12.0):
            rate.note(now)
        assert rate.per_second(12.0) == 2.0


class TestState:
    def states(self, world: Any) -> list[str]:
        return [str(rank.state) for rank in world.snapshot().ranks]

    def test_waiting_then_silent(self, tail_world: Any) -> None:
        """A rank from which nothing comes is silent once the window has passed, and not before."""
        tail_world.worker(A, 2)
        tail_world.clock.advance(5.0)
        tail_world.good(A, 1)
        assert ["waiting", "fresh"] == self.states(tail_world)
        tail_world.clock.advance(0.125)
        assert ["silent", "fresh"] == self.states(tail_world)

    def test_fresh_then_stale(self, tail_world: Any) -> None:
        """A reading is fresh up to the window, that included, and stale behind it (rule C2)."""
        tail_world.worker(A, 1)
        tail_world.good(A)
        tail_world.clock.advance(5.0)
        assert ["fresh"] == self.states(tail_world)
        tail_world.clock.advance(0.625)
        assert ["stale"] == self.states(tail_world)
        (rank,) = tail_world.snapshot().ranks
        assert (5.625, 0) == (rank.age, rank.rate)

    def test_refused(self, tail_world: Any) -> None:
        """A refused message shows for the window, beside a reading that stands (rule C5)."""
        tail_world.worker(A, 2)
        tail_world.good(A, 0)
        tail_world.frames(A, 0, MAP)
        tail_world.frames(A, 1, MAP)
        assert ["refused", "refused"] == self.states(tail_world)
        tail_world.clock.advance(4.0)
        tail_world.good(A, 0, 1)
        tail_world.clock.advance(1.5)
        assert ["fresh", "silent"] == self.states(tail_world)
        first, second = tail_world.snapshot().ranks
        assert first.error is not None
        assert (1, 5.5, Reason.NOT_ARRAY) == (first.refused, first.error_age, first.error.reason)
        assert second.stat is None

    def test_another_socket_waits_anew(self, tail_world: Any) -> None:
        """A rank that is advertised elsewhere is another socket, and waits again (rule R3)."""
        tail_world.worker(A, 1)
        tail_world.clock.advance(6.0)
        assert ["silent"] == self.states(tail_world)
        tail_world.table.advertise(A, ["tcp://10.0.0.5:7000"])
        assert ["waiting"] == self.states(tail_world)

    def test_gaps_and_restarts(self, tail_world: Any) -> None:
        """What a gap lost and what restarted is told at the message, and counted by rank."""
        tail_world.worker(A, 2)
        told = [tail_world.good(A, 0, sequence) for sequence in (5, 6, 9, 0, 0, 3)]
        assert [(0, False), (0, False), (2, False), (0, True), (0, True), (2, False)] == told
        assert (0, False) == tail_world.good(A, 1, 7)
        first, second = tail_world.snapshot().ranks
        assert (6, 4, 2) == (first.stats.messages, first.stats.lost, first.stats.restarts)
        assert (1, 0, 0) == (second.stats.messages, second.stats.lost, second.stats.restarts)

    @pytest.mark.parametrize(
        ("used", "capacity", "expected"),
        [(0, 8, 0.0), (4, 8, 0.5), (9, 8, 1.125), (4, 0, None), (0, 0, None)],
    )
    def test_kv_use(self, tail_world: Any, used: int, capacity: int, expected: Any) -> None:
        """KV use is a share of the capacity, and unknown where that is 0."""
        tail_world.worker(A, 1)
        assert [None] == [rank.kv_use for rank in tail_world.snapshot().ranks]
        tail_world.good(A, num_tokens=used, max_total_num_tokens=capacity)
        snapshot = tail_world.snapshot()
        assert [expected, expected] == [snapshot.kv_use, snapshot.ranks[0].kv_use]

    def test_an_unknown_capacity(self, tail_world: Any) -> None:
        """Where one capacity is unknown, so is the use of all together."""
        tail_world.worker(A, 1)
        tail_world.worker(B, 1)
        tail_world.good(A)
        tail_world.good(B, max_total_num_tokens=0)
        snapshot = tail_world.snapshot()
        assert (2, None) == (snapshot.known, snapshot.kv_use)

    def test_totals(self, tail_world: Any) -> None:
        """Totals are of the workers that are known, and a stale rank makes one unknown (C3)."""
        tail_world.worker(A, 2)
        tail_world.worker(B, 1)
        tail_world.good(A, 0)
        tail_world.good(A, 1)
        tail_world.clock.advance(4.0)
        tail_world.good(A, 0, 1)
        tail_world.good(B, 0)
        snapshot = tail_world.snapshot()
        assert (2, 21, 0.125) == (
            snapshot.known,
            snapshot.total("num_running_reqs"),
            snapshot.kv_use,
        )
        assert [2, 2, 2] == [rank.revision for rank in snapshot.ranks]
        tail_world.clock.advance(2.0)
        snapshot = tail_world.snapshot()
        assert (1, 7) == (snapshot.known, snapshot.total("num_running_reqs"))
        tail_world.clock.advance(9.0)
        assert (0, 0, None) == (
            (snapshot := tail_world.snapshot()).known,
            snapshot.total("num_running_reqs"),
            snapshot.kv_use,
        )


class TestWhy:
    """Why a load is unknown, in words, and whether nothing is wrong yet."""

    def why(self, world: Any) -> tuple[str, bool]:
        (row,) = world.snapshot().workers
        return row.why, row.waiting

    def test_asked(self, tail_world: Any) -> None:
        """A worker that has not answered yet is waited for."""
        tail_world.worker(A)
        assert ("it is being asked where its load is", True) == self.why(tail_world)

    def test_no_answer(self, tail_world: Any) -> None:
        """A worker that does not answer says how that failed."""
        tail_world.worker(A, error="DiscoveryError: ConnectionRefusedError")
        assert ("ConnectionRefusedError", False) == self.why(tail_world)

    def test_no_plan(self, tail_world: Any) -> None:
        """A worker that advertises no load says what its advertisement lacks."""
        tail_world.worker(A, plan=NoPlan(NoPlanReason.NO_BLOCK, "kv_events is null"))
        assert ("kv_events is null", False) == self.why(tail_world)

    def test_past_the_last_port(self, tail_world: Any) -> None:
        """A worker with ranks past port 65535 says so."""
        block = {"load_endpoint_port_base": 65535, "load_topic": "load", "dp_size": 2}
        tail_world.worker(A, 2, plan=plan(A, block))
        assert "rank 1 would be past port 65535" in self.why(tail_world)[0]

    def test_silent(self, tail_world: Any) -> None:
        """Ranks from which nothing came are named; more than a few are counted."""
        tail_world.worker(A, 12)
        tail_world.good(A, 3)
        named = "ranks 0, 1, 2, 4, 5, 6, 7, 8 and 3 more"
        why = f"nothing that can be read from {named} so far"
        assert (f"{why}; {CHECK}", True) == self.why(tail_world)
        tail_world.clock.advance(5.5)
        assert (f"{why}; {CHECK}", False) == self.why(tail_world)

    @pytest.mark.parametrize(
        ("closed", "says"),
        [
            ({1: "refused"}, "nobody takes a connection at rank 1: refused"),
            (dict.fromkeys((0, 1), "refused"), "nobody takes a connection at ranks 0, 1: refused"),
            ({0: "refused", 1: "late"}, "nobody takes a connection at ranks 0, 1: refused, late"),
        ],
    )
    def test_closed(self, tail_world: Any, closed: dict[int, str], says: str) -> None:
        """Where nobody listens that is told at once, and not only behind the window."""
        tail_world.worker(A, 3)
        tail_world.good(A, 2)
        table, status = tail_world.table, tail_world.statuses[A]
        heard = {2: "refused"}  # a rank that is heard is not to blame, whatever was found before
        row = tail_world.board.row(
            A, table.view(A), table.ranks(A), status=status, closed={**closed, **heard}
        )
        why = "nothing that can be read from ranks 0, 1 so far"
        assert (f"{why}; {says}", False) == (row.why, row.waiting)

    def test_stale(self, tail_world: Any) -> None:
        """A stale rank is named, and what discovery says is added."""
        tail_world.worker(A, 2, error="DiscoveryError: refused")
        tail_world.good(A, 0)
        tail_world.clock.advance(2.0)
        tail_world.good(A, 1)
        tail_world.clock.advance(4.0)
        why = (
            "nothing that can be read from rank 0 (tcp://10.0.0.5:5558) for more than 5 s; refused"
        )
        assert (why, False) == self.why(tail_world)

    def test_known(self, tail_world: Any) -> None:
        """A known load needs no reason, and what discovery says is apart from it."""
        tail_world.worker(A, 1, error="DiscoveryError: refused")
        tail_world.good(A)
        (row,) = tail_world.snapshot().workers
        assert ("", "refused", False) == (row.why, row.trouble, row.waiting)


class TestArrival:
    def test_reading(self, reading: LoadStatRev2) -> None:
        """A reading is spelled by name, in UTC, with what its sequence says."""
        arrival = Arrival(A, 2, 1_700_000_000.25, [], Message(9, reading), 3, restart=False)
        assert {
            "ok": True,
            "time": "2023-11-14T22:13:20.250000Z",
            "worker": A,
            "rank": 2,
            "sequence": 9,
            "lost": 3,
            "restart": False,
            "revision": 2,
            "elements": None,
            "note": None,
            "load": {
                "num_running_reqs": 7,
                "num_waiting_reqs": 3,
                "num_tokens": 1024,
                "max_total_num_tokens": 8192,
                "attn_dp_rank": 2,
                "num_waiting_uncached_tokens": 512,
                "num_total_tokens": 4096,
                "max_running_requests": 64,
                "total_prefill_uncached_tokens": 20_000,
                "total_prefill_busy_us": 2_000_000,
            },
        } == arrival.to_json()

    def test_a_rank_on_another_socket(self, reading: LoadStatRev2) -> None:
        """Another rank than the socket's is told, but for a socket given by itself (rule R3)."""
        frames = build_frames(0, reading)
        told, bare = (
            Arrival(name, 1, 0.0, frames, Message(0, reading)).to_json()
            for name in (A, "tcp://10.0.0.5:5558")
        )
        assert ("R3: its messages say attn_dp_rank 2", None) == (told["note"], bare["note"])
        assert (11, 11) == (told["elements"], bare["elements"])

    def test_revision_1(self) -> None:
        """A reading of revision 1 has its own fields, and no zeros for the others."""
        stat = LoadStatRev1(
            num_running_reqs=1, num_waiting_reqs=2, num_tokens=3, max_total_num_tokens=4
        )
        line = Arrival(A, 0, 0.0, [], Message(0, stat)).to_json()
        assert (1, 5) == (line["revision"], len(line["load"]))

    def test_refused(self) -> None:
        """A refused message has reason, rule, place, text and bytes."""
        frames = [b"load", bytes(8), bytes.fromhex("96a84c6f6164537461740703cd0400")]
        with pytest.raises(WireError) as caught:
            parse_frames(frames)
        line = Arrival(A, 0, 0.0, frames, caught.value).to_json()
        expected = {
            "ok": False,
            "reason": "truncated",
            "rule": "W10",
            "frame": 2,
            "offset": 15,
            "element": 4,
            "field": "max_total_num_tokens",
            "bytes": [4, 8, 15],
            "hex": ["6c6f6164", "0000000000000000", "96a84c6f6164537461740703cd0400"],
        }
        assert expected == {key: line[key] for key in expected}
        assert str(caught.value) == line["text"]
        json.dumps(line)

    def test_large_frames(self) -> None:
        """A frame of any size makes a line of a bearable one, which says the size."""
        frames = [bytes(2**20)]
        with pytest.raises(WireError) as caught:
            parse_frames(frames)
        line = Arrival(A, 0, 0.0, frames, caught.value).to_json()
        assert ([2**20], [32_768]) == (line["bytes"], [len(text) for text in line["hex"]])


def until(tail: Tail, holds: Callable[[Any], object], timeout: float = 10.0) -> Any:
    """The first snapshot of which something holds."""
    deadline, tick = Deadline(timeout), threading.Event()
    while not holds(snapshot := tail.snapshot()):
        assert deadline.remaining, snapshot
        tick.wait(0.01)
    return snapshot


class TestLive:
    def test_a_fleet(self, loadwire_fleet: Callable[..., Fleet]) -> None:
        """Workers are discovered and read, and each message is handed on as it came."""
        fleet = loadwire_fleet("ramp", workers=2, ranks=2)
        arrived: list[Arrival] = []
        targets = [parse_target(url) for url in (*fleet.urls, fleet.urls[0])]
        with Tail(targets, on_arrival=arrived.append) as tail:
            fleet.wait_for_subscribers()
            for _ in range(3):
                fleet.step()
            snapshot = until(tail, lambda snapshot: snapshot.readings == 12)
            assert (12, 0) == (tail.readings, tail.refused.total())
        assert fleet.urls == [row.worker for row in snapshot.workers]
        assert [engine.load for engine in fleet.engines] == [
            row.view.load for row in snapshot.workers
        ]
        assert 12 == len(arrived)
        for arrival in arrived:
            assert arrival.outcome == parse_frames(arrival.frames)
        tail.close()

    def test_a_socket(self, loadwire_publisher: LivePublisher, reading: LoadStatRev2) -> None:
        """A load socket is watched without a worker, and what it says that is no load counts."""
        name = loadwire_publisher.endpoint
        with Tail([parse_target(name)]) as tail:
            loadwire_publisher.wait_for_subscribers()
            loadwire_publisher.publish(reading)
            loadwire_publisher.send_raw(MAP)
            snapshot = until(tail, lambda snapshot: tail.refused and snapshot.readings)
            (row,) = snapshot.workers
            (rank,) = row.ranks
            assert (name, name, 0) == (row.worker, rank.place, rank.rank)
            assert (reading, State.REFUSED, 1) == (rank.stat, rank.state, rank.refused)
            assert {"W10 not-array": 1} == tail.refused

    def test_nobody_listens(self, loadwire_publisher: LivePublisher) -> None:
        """Where nobody listens the view says so, and a publisher that comes is read."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
            name = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            with Tail([parse_target(name)]) as tail:
                snapshot = until(tail, lambda snapshot: not snapshot.workers[0].waiting)
                (row,) = snapshot.workers
        assert "nobody takes a connection there: Connection refused" == row.why

    def test_a_closed_rank(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a worker's silent ranks those are told at which nobody listens; a few are tried."""
        monkeypatch.setattr(module, "KNOCK_S", 0.01)
        tried: list[int] = []
        connect = socket.create_connection

        def watched(address: tuple[str, int], *arguments: Any) -> socket.socket:
            tried.append(address[1])
            return connect(address, *arguments)

        monkeypatch.setattr(module.socket, "create_connection", watched)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            block = {"load_endpoint_port_base": port, "load_topic": "load", "dp_size": 1}
            with Tail([parse_target("http://127.0.0.1:1")], fetch=lambda _: block) as tail:
                snapshot = until(tail, lambda snapshot: "nobody takes" in snapshot.workers[0].why)
        (row,) = snapshot.workers
        assert row.why.endswith("nobody takes a connection at rank 0: Connection refused")
        assert not row.waiting
        assert {port} == set(tried)

    def test_few_ranks_are_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of many silent ranks the first few are tried, and none once it is closed."""
        tried: list[int] = []

        def refuse(address: Any) -> str:
            tried.append(address.port)
            return "refused"

        monkeypatch.setattr(module, "_refusal", refuse)
        monkeypatch.setattr(module, "KNOCK_S", 600)
        block = {"load_endpoint_port_base": 7000, "load_topic": "load", "dp_size": 9}
        name = "http://127.0.0.1:1"
        with Tail([parse_target(name)], fetch=lambda _: block) as tail:
            until(tail, lambda snapshot: len(snapshot.ranks) == 9)
            tried.clear()
            expected = dict.fromkeys(range(module.MOST_KNOCKED), "refused")
            assert expected == tail._closed_ranks(name)
            assert [7000 + rank for rank in expected] == tried
        tried.clear()
        assert {} == tail._closed_ranks(name)
        assert [] == tried

    def test_close_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker that is being asked and does not answer holds nobody up."""
        monkeypatch.setattr(module, "CLOSE_S", 0.1)
        asked, answer = threading.Event(), threading.Event()

        def fetch(url: str) -> object:
            asked.set()
            answer.wait(30)
            return None

        tail = Tail([parse_target(A)], fetch=fetch)
        try:
            assert asked.wait(10)
            began = time.monotonic()
            tail.close()
            assert time.monotonic() - began < 5
        finally:
            answer.set()
        tail.close()

    def test_a_static_plan(self) -> None:
        """The plan of a load socket is the socket alone."""
        with Tail([parse_target("tcp://[::1]:5558")], fetch=lambda _: None) as tail:
            expected = Plan("[::1]", 1, (RankEndpoint(0, "tcp://[::1]:5558"),), range(0))
            assert expected == tail._plan("tcp://[::1]:5558", None)
