"""``loadwire tail``: the table, the JSON lines, a real terminal, and how it ends."""

from __future__ import annotations

import array
import fcntl
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec import structs
from programs import need
from rich.console import Console

from pytest_loadwire.commands.tail_view import DROPPED, NARROWEST, can_draw, tail_view
from pytest_loadwire.deadline import Deadline
from pytest_loadwire.discovery import NoPlan, NoPlanReason
from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.tail_state import State
from pytest_loadwire.wire import LoadStatRev2

A, B = "http://10.0.0.5:30000", "http://10.0.0.6:30000"
MAP = [b"load", bytes(8), b"\x80"]
SHORT = b"\x99\xa8LoadStat\x07\x03\x10\x20\x00\x01\x20\x08"  # 9 of 11 elements
TAIL = [sys.executable, "-m", "pytest_loadwire.cli", "tail"]

# Columns of a terminal, and the columns of the table that fit.
COLUMNS = [
    (160, "worker rank state run wait KV tokens age rate lost rst rev refused"),
    (98, "worker rank state run wait KV tokens age rate lost rst rev refused"),
    (97, "worker rank state run wait KV age rate lost rst rev refused"),
    (85, "worker rank state run wait KV age rate lost rst rev"),
    (80, "worker rank state run wait KV age rate lost rst rev"),
    (77, "worker rank state run wait KV age rate lost rst"),
    (73, "worker rank state run wait KV age rate lost"),
    (69, "worker rank state run wait KV age rate"),
    (63, "worker rank state run wait KV age"),
    (60, "worker rank state run wait KV age"),
]

# KV tokens in use and capacity, and what the table shows of them.
BARS = [
    (0, 100, "······   0%"),
    (1, 10_000, "▏·····   0%"),
    (50, 100, "███···  50%"),
    (52, 100, "███▏··  52%"),
    (100, 100, "██████ 100%"),
    (112, 100, "██████ 112%"),
    (10_000, 1, "██████>999%"),
    (5, 0, "unknown"),
]
ASCII_BARS = [(0, "......   0%"), (52, "###...  52%"), (100, "###### 100%"), (112, "###### 112%")]


def lines(world: Any, width: int = 80, height: int = 24, **options: bool) -> list[str]:
    """The lines of the view as a terminal of that size shows them, without trailing blanks."""
    console = Console(record=True, width=width, height=height, file=io.StringIO())
    console.print(tail_view(world.snapshot(), width, height, **options))
    shown = console.export_text().removesuffix("\n").split("\n")
    assert all(len(line) <= width for line in shown), shown
    return [line.rstrip() for line in shown]


def row(shown: list[str], rank: int | str, worker: str = "10.0.0.5:30000") -> str:
    """The line of one rank."""
    (line,) = [line for line in shown if re.match(rf"{re.escape(worker)} +{rank} ", line)]
    return line


def notes(shown: list[str]) -> str:
    """What stands below the table, on one line."""
    start = next(index for index, line in enumerate(shown) if line.startswith("http"))
    return " ".join(" ".join(shown[start:-1]).split())


class TestView:
    def test_healthy(self, tail_world: Any) -> None:
        """A worker that publishes reads fresh, with its load, its age and its rate."""
        tail_world.worker(A, 2)
        for sequence in range(9):
            tail_world.clock.advance(0.5)
            tail_world.good(A, 0, sequence)
            tail_world.good(A, 1, sequence, num_running_reqs=1234, num_waiting_reqs=0)
        shown = lines(tail_world)
        assert [
            "1 worker: 1 known  |  2 ranks: 2 fresh",
            "known load: 1241 running, 3 waiting, KV 12%  |  4.0 msg/s  |  4.5s",
            "worker          rank state     run  wait KV              age  rate  lost rst rev",
            "10.0.0.5:30000     0 fresh       7     3 █·······  12%  0.0s   2.0     0   0   2",
            "10.0.0.5:30000     1 fresh    1234     0 █·······  12%  0.0s   2.0     0   0   2",
        ] == shown[:5]
        assert ([""] * 18, "Ctrl-C ends") == (shown[5:-1], shown[-1])

    def test_stale(self, tail_world: Any) -> None:
        """A stale rank keeps its numbers, and the worker's load is unknown for a stated reason."""
        tail_world.worker(A, 2)
        tail_world.good(A, 0)
        tail_world.clock.advance(4.0)
        tail_world.good(A, 1)
        tail_world.clock.advance(3.5)
        shown = lines(tail_world)
        assert "1 worker: 0 known, 1 unknown  |  2 ranks: 1 fresh, 1 stale" == shown[0]
        assert re.search(r"0 stale +7 +3 .* 7\.5s", row(shown, 0))
        why = "nothing that can be read from rank 0 (tcp://10.0.0.5:5558) for more than 5 s"
        hint = f"loadwire check {A} looks for the cause"
        assert f"{A}: load unknown: {why}; {hint}" == notes(shown)

    def test_restart_and_gap(self, tail_world: Any) -> None:
        """Restarts and lost messages are counted, and are no trouble (rules S2, S3)."""
        tail_world.worker(A, 2)
        for sequence in (7, 8, 0, 1):
            tail_world.good(A, 0, sequence)
        for sequence in (0, 1501):
            tail_world.good(A, 1, sequence)
        shown = lines(tail_world)
        assert row(shown, 0).endswith("    0   1   2")
        assert row(shown, 1).endswith(" 1500   0   2")
        assert "1 worker: 1 known  |  2 ranks: 2 fresh" == shown[0]

    def test_refused(self, tail_world: Any) -> None:
        """A refused message shows at its rank, and below the table with rule, reason and age."""
        tail_world.worker(A, 2)
        tail_world.good(A, 0)
        tail_world.good(A, 1)
        tail_world.frames(A, 1, MAP)
        tail_world.frames(A, 1, MAP)
        tail_world.clock.advance(2.0)
        shown = lines(tail_world)
        assert "1 worker: 1 known  |  2 ranks: 1 fresh, 1 refused" == shown[0]
        assert re.search(r" 1 refused +7 ", row(shown, 1))
        assert (
            f"{A} rank 1: 2 refused, the last 2.0s ago: W10 not-array at frame 2, byte 0: "
            "expected an array, got map of 0" in notes(shown)
        )

    def test_newest_refusal_first(self, tail_world: Any) -> None:
        """Of several refusals the newest stands first, since not all of them may fit."""
        tail_world.worker(A, 3)
        for rank in (1, 2, 0):
            tail_world.clock.advance(1.0)
            tail_world.good(A, rank)
            tail_world.frames(A, rank, MAP)
        assert ["0", "2", "1"] == re.findall(r"rank (\d): 1 refused", notes(lines(tail_world)))

    def test_unknown_workers(self, tail_world: Any) -> None:
        """A worker without ranks has a line of its own, and says why."""
        tail_world.worker(A, error=f"DiscoveryError: {A}/server_info: ConnectionRefusedError")
        tail_world.worker(B, plan=NoPlan(NoPlanReason.NO_LOAD_KEYS, "kv_events has no load keys"))
        tail_world.worker("http://10.0.0.7:30000")
        shown = lines(tail_world)
        assert "3 workers: 0 known, 2 unknown, 1 waiting  |  0 ranks" == shown[0]
        assert row(shown, "-").endswith("- unknown")
        assert row(shown, "-", "10.0.0.7:30000").endswith("- waiting")
        assert f"{A}: load unknown: /server_info: ConnectionRefusedError" in notes(shown)
        assert f"{B}: load unknown: kv_events has no load keys" in notes(shown)

    def test_a_rank_on_another_socket(self, tail_world: Any) -> None:
        """A payload that says another rank than its socket's is told (rule R3)."""
        tail_world.worker(A, 2)
        tail_world.worker("tcp://10.0.0.5:5559", 1)
        tail_world.good(A, 0)
        tail_world.good(A, 1, attn_dp_rank=0)
        tail_world.good("tcp://10.0.0.5:5559", 0, attn_dp_rank=1)  # nobody said which it is
        shown = notes(lines(tail_world))
        assert f"{A} rank 1: R3: its messages say attn_dp_rank 0" == shown

    def test_a_socket_by_itself(self, tail_world: Any) -> None:
        """Nobody said which rank a `tcp://` target has, so none is shown, in the notes neither."""
        target = "tcp://10.0.0.5:5559"
        tail_world.worker(target, 1)
        tail_world.good(target)
        tail_world.frames(target, 0, MAP)
        shown = lines(tail_world)
        assert re.search(r" - refused +7 ", row(shown, "-", "10.0.0.5:5559"))
        assert f"{target}: 1 refused, the last 0.0s ago: " in " ".join(shown)
        assert "rank 0" not in " ".join(shown)

    def test_a_length_between_two_revisions(self, tail_world: Any) -> None:
        """The column rev shows what was sent, as `loadwire check` does (rule W4)."""
        tail_world.worker(A, 2)
        tail_world.frames(A, 0, [b"load", bytes(8), SHORT])
        tail_world.good(A, 1)
        shown = lines(tail_world)
        assert (True, True) == (row(shown, 0).endswith(" 1+3"), row(shown, 1).endswith("   2"))

    @pytest.mark.parametrize(("used", "capacity", "cell"), BARS)
    def test_bar(self, tail_world: Any, used: int, capacity: int, cell: str) -> None:
        """KV use is a bar and a number; a capacity of 0 is unknown."""
        tail_world.worker(A, 1)
        tail_world.good(A, num_tokens=used, max_total_num_tokens=capacity)
        assert f"     3 {cell}  " in row(lines(tail_world, 58), 0)

    @pytest.mark.parametrize(("used", "cell"), ASCII_BARS)
    def test_ascii(self, tail_world: Any, used: int, cell: str) -> None:
        """A terminal that has no block characters gets a bar all the same."""
        tail_world.worker(A, 1)
        tail_world.worker(f"http://a-name-that-is-rather-long.{'x' * 40}.example:30000")
        tail_world.good(A, num_tokens=used, max_total_num_tokens=100)
        shown = lines(tail_world, 60, drawn=False)
        assert f"     3 {cell}  " in row(shown, 0)
        assert "".join(shown).isascii()

    @pytest.mark.parametrize(
        ("encoding", "drawn"),
        [("utf-8", True), ("cp437", False), ("ascii", False), ("nonsense", False)],
    )
    def test_encoding(self, encoding: str, drawn: bool) -> None:
        """The encoding of the terminal decides which it is."""
        assert drawn == can_draw(encoding)

    @pytest.mark.parametrize(("width", "heads"), COLUMNS)
    def test_width(self, tail_world: Any, width: int, heads: str) -> None:
        """On a narrow terminal columns go in the stated order; the others keep their place."""
        tail_world.worker(A, 1)
        tail_world.good(A, num_running_reqs=2**64 - 1, num_waiting_reqs=123_456_789)
        shown = lines(tail_world, width)
        (head,) = [line for line in shown if line.startswith("worker")]
        assert heads.split() == head.split()
        assert row(shown, 0).index("fresh") == head.index("state")
        assert row(shown, 0).index("0.0s") + 4 == head.index("age") + 3

    def test_stated_order(self) -> None:
        """The order in which columns go is what the widths show, down to the narrowest."""
        heads = [heads.split() for _, heads in COLUMNS]
        order = [name for wide, narrow in pairwise(heads) for name in wide if name not in narrow]
        assert [*DROPPED] == [name.replace("rst", "restarts") for name in order]
        assert NARROWEST == COLUMNS[-1][0]

    @pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 24), (40, 10), (20, 3), (1, 1)])
    def test_it_fits(self, tail_world: Any, size: tuple[int, int]) -> None:
        """The view never has more lines or columns than the terminal, and fills it."""
        self.crowd(tail_world)
        shown = lines(tail_world, *size)
        assert size[1] == len(shown)

    def crowd(self, world: Any) -> None:
        """64 workers of 8 ranks, with four ranks and one worker in trouble."""
        names = [world.worker(f"http://10.0.1.{number}:30000", 8) for number in range(63)]
        lost = world.worker("http://10.0.1.63:30000", error="DiscoveryError: no route to host")
        for name in names:
            for rank in range(8):
                if (name, rank) != (names[40], 3):
                    world.good(name, rank)
        world.clock.advance(3.0)
        for name in names:
            for rank in range(8):
                if (name, rank) not in ((names[40], 3), (names[50], 7)):
                    world.good(name, rank, 1)
        world.clock.advance(2.5)
        world.frames(names[60], 0, MAP)
        world.frames(names[61], 1, MAP)
        assert lost

    def test_512_ranks_in_24_lines(self, tail_world: Any) -> None:
        """Where rows do not fit trouble comes first, and the last line counts the others."""
        self.crowd(tail_world)
        shown = lines(tail_world)
        assert [
            "64 workers: 61 known, 3 unknown",
            "504 ranks: 500 fresh, 1 stale, 1 silent, 2 refused",
            "known load: 3416 running, 1464 waiting, KV 12%  |  100.4 msg/s  |  5.5s",
        ] == shown[:3]
        assert [
            "10.0.1.60:30000    0 refused",
            "10.0.1.61:30000    1 refused",
            "10.0.1.63:30000    - unknown",
            "10.0.1.40:30000    3 silent",
            "10.0.1.50:30000    7 stale",
            "10.0.1.0:30000     0 fresh",
        ] == [line[:28].rstrip() for line in shown[4:10]]
        assert "492 of 505 rows not shown (0 in trouble); 3 more notes; Ctrl-C ends" == shown[-1]

    def test_trouble_that_does_not_fit(self, tail_world: Any) -> None:
        """If even the trouble does not fit the last line says how much of it is hidden."""
        for number in range(40):
            tail_world.worker(f"http://10.0.1.{number}:30000", error="DiscoveryError: no route")
        shown = lines(tail_world)
        assert "26 of 40 rows not shown (26 in trouble); 34 more notes; Ctrl-C ends" == shown[-1]

    def test_the_last_one(self, tail_world: Any) -> None:
        """The last picture is not filled up, since it stays in the terminal's history."""
        tail_world.worker(A, 1)
        tail_world.good(A)
        shown = lines(tail_world, ended=True)
        assert 4 == len(shown)
        assert shown[-1].startswith("10.0.0.5:30000 ")

    def test_long_names(self, tail_world: Any) -> None:
        """Of a long name the end stays, which has the port; the notes have all of it."""
        name = f"http://engine-0.{'x' * 60}.example:30000"
        tail_world.worker(name, error="DiscoveryError: no route")
        tail_world.worker("tcp://10.0.0.5:5558")
        shown = lines(tail_world, 120)
        assert any(re.fullmatch(r"…x+\.example:30000 +- +unknown", line) for line in shown), shown
        assert row(shown, "-", "10.0.0.5:5558").endswith("-  waiting")
        assert f"{name}: load unknown: no route" == notes(shown)

    def test_hostile_text(self, tail_world: Any) -> None:
        """What came from outside cannot move the cursor."""
        tail_world.worker(A, error="\x1b[2J\r\n\x07gone")
        (shown,) = [line for line in lines(tail_world) if "gone" in line]
        assert shown.endswith("?[2J???gone")


def test_help(invoke: Callable[..., Result]) -> None:
    """The help says which topic is heard, and what each state means."""
    flat = " ".join(invoke("tail", "--help").output.split())
    assert "It subscribes to the topic load only, as a router does" in flat
    assert "A worker is unknown where it gives no ranks" in flat
    assert all(f"{state} (" in flat for state in State if state is not State.FRESH)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a target is missing: loadwire tail http://10.0.0.5:30000"),
        (["10.0.0.5:30000"], "or http://10.0.0.5:30000 for a worker"),
        (["tcp://0x0:5558"], "bound and never dialled"),
        (["tcp://2001:db8::5:5558"], "write tcp://[2001:db8::5]:5558"),
        ([A, "--interval", "0.1"], "0.1 is not in the range x>=0.25"),
        ([A, "--window", "1"], "1.0 is not in the range x>1"),
        ([A, "--seconds", "-1"], "-1.0 is not in the range x>=0"),
        ([A, "--window", "nan"], "nan is no number of seconds"),
        ([A, "--window", "inf"], "inf is no number of seconds"),
        ([A, "--seconds", "nan"], "nan is no number of seconds"),
        ([A, "--interval", "nan"], "nan is no number of seconds"),
    ],
)
def test_a_wrong_call(invoke: Callable[..., Result], arguments: list[str], said: str) -> None:
    """A wrong call exits with 2 and says what to write."""
    result = invoke("tail", *arguments)
    assert 2 == result.exit_code
    assert said in " ".join(result.output.split())


@contextmanager
def running(
    *arguments: str, program: Sequence[str] = TAIL, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, that is over behind the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*program, *arguments], **{"stdout": pipe, "stderr": pipe, "text": True, **options}
    ) as run:
        try:
            yield run
        finally:
            run.kill()


class TestLines:
    def test_a_reading(self, loadwire_fleet: Callable[..., Fleet]) -> None:
        """Every message is a line as soon as it comes, and Ctrl-C ends it with 0."""
        fleet = loadwire_fleet("ramp", workers=2, ranks=2)
        with running(*fleet.urls) as run:
            fleet.wait_for_subscribers(timeout=20)
            for step in range(3):
                fleet.step()
                assert run.stdout is not None
                came = [json.loads(run.stdout.readline()) for _ in range(4)]
                assert {(url, rank) for url in fleet.urls for rank in (0, 1)} == {
                    (line["worker"], line["rank"]) for line in came
                }
                assert [(True, step, 2, step)] * 4 == [
                    (
                        line["ok"],
                        line["sequence"],
                        line["revision"],
                        line["load"]["num_running_reqs"],
                    )
                    for line in came
                ]
                assert all(re.fullmatch(r"\d{4}-.*\.\d{6}Z", line["time"]) for line in came)
            run.send_signal(signal.SIGINT)
            output, errors = run.communicate(timeout=20)
        assert (0, "", "12 readings, none refused\n") == (run.returncode, output, errors)

    def test_refused(self, loadwire_publisher: LivePublisher, reading: LoadStatRev2) -> None:
        """A refused message is a line with reason, place and bytes; SIGTERM ends it with 1."""
        with running(loadwire_publisher.endpoint) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            # The good one first, or at a slow moment the load would be told to be unknown.
            loadwire_publisher.publish(reading)
            loadwire_publisher.send_raw(MAP)
            assert run.stdout is not None
            good, refused = (json.loads(run.stdout.readline()) for _ in range(2))
            run.send_signal(signal.SIGTERM)
            _, errors = run.communicate(timeout=20)
        assert (False, "not-array", "W10", 2, 0, None, ["6c6f6164", "00" * 8, "80"]) == tuple(
            refused[key] for key in ("ok", "reason", "rule", "frame", "offset", "element", "hex")
        )
        assert (True, 0, 1024) == (good["ok"], good["sequence"], good["load"]["num_tokens"])
        assert (1, "1 of 2 messages were refused: 1 W10 not-array\n") == (run.returncode, errors)

    def test_a_rank_on_another_socket(
        self, loadwire_fleet: Callable[..., Fleet], reading: LoadStatRev2
    ) -> None:
        """Another rank than the socket's is told with the message, and at the end (rule R3)."""
        fleet = loadwire_fleet("steady", ranks=2)
        (url,), (engine,) = fleet.urls, fleet.engines
        with running(url) as run:
            fleet.wait_for_subscribers(timeout=20)
            for rank in (0, 1):
                engine.send(rank, structs.replace(reading, attn_dp_rank=0))
            assert run.stdout is not None
            came = [json.loads(run.stdout.readline()) for _ in range(2)]
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate(timeout=20)
        says = "R3: its messages say attn_dp_rank 0"
        assert {0: None, 1: says} == {line["rank"]: line["note"] for line in came}
        assert [f"{url} rank 1: {says}", "2 readings, none refused"] == errors.splitlines()

    def test_nothing(self, loadwire_publisher: LivePublisher) -> None:
        """Where nothing came it says why, and exits with 1."""
        silent = loadwire_publisher.endpoint
        with running(silent) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            run.send_signal(signal.SIGINT)
            output, errors = run.communicate(timeout=20)
        assert (1, "") == (run.returncode, output)
        why = "nothing that can be read from the socket so far"
        assert [
            f"{silent}: load unknown: {why}; loadwire check {silent} looks for the cause",
            "no reading came; loadwire check TARGET looks for the cause",
        ] == errors.splitlines()

    def test_seconds(
        self, invoke: Callable[..., Result], loadwire_publisher: LivePublisher
    ) -> None:
        """It ends by itself when the time is up."""
        result = invoke("tail", loadwire_publisher.endpoint, "--seconds", "0.1")
        assert (1, "") == (result.exit_code, result.stdout)
        assert "no reading came" in result.stderr

    def test_a_reader_that_goes(
        self, loadwire_publisher: LivePublisher, reading: LoadStatRev2
    ) -> None:
        """A closed pipe ends it quietly, before another message comes."""
        with running(loadwire_publisher.endpoint) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            loadwire_publisher.publish(reading)
            assert run.stdout is not None
            assert json.loads(run.stdout.readline())["ok"]
            run.stdout.close()
            assert run.stderr is not None
            assert (0, "") == (run.wait(20), run.stderr.read())

    @pytest.mark.parametrize("goes", [False, True], ids=["interrupt", "close"])
    def test_a_reader_that_waits(
        self, loadwire_publisher: LivePublisher, reading: LoadStatRev2, goes: bool
    ) -> None:
        """A reader that stopped reading cannot keep it from ending, and no line is lost before."""
        with running(loadwire_publisher.endpoint) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            fill(run, loadwire_publisher, reading)
            assert run.stdout is not None
            assert run.stderr is not None
            if goes:
                run.stdout.close()
                assert (0, "") == (run.wait(20), run.stderr.read())
                return
            run.send_signal(signal.SIGINT)
            assert 0 == run.wait(20)
            came = run.stdout.read().splitlines()
        sequences = [json.loads(line)["sequence"] for line in came[:-1]]
        assert [*range(len(sequences))] == sequences

    def test_a_full_disk(self, loadwire_publisher: LivePublisher, reading: LoadStatRev2) -> None:
        """Where the lines cannot be written it ends with 1 and says so in one line."""
        with (
            open("/dev/full", "w") as full,
            running(loadwire_publisher.endpoint, stdout=full) as run,
        ):
            loadwire_publisher.wait_for_subscribers(timeout=20)
            loadwire_publisher.publish(reading)
            assert run.stderr is not None
            assert (1, "Error: cannot write the lines: No space left on device\n") == (
                run.wait(20),
                run.stderr.read(),
            )

    def test_the_last_moment(
        self, loadwire_publisher: LivePublisher, reading: LoadStatRev2
    ) -> None:
        """What comes while it ends has a line as well: there are as many as it counts."""
        done = threading.Event()

        def speak() -> None:
            while not done.is_set():
                loadwire_publisher.publish(reading)

        with running(loadwire_publisher.endpoint) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            thread = threading.Thread(target=speak, daemon=True)
            thread.start()
            try:
                assert run.stdout is not None
                assert run.stderr is not None
                assert run.stdout.readline()
                run.send_signal(signal.SIGINT)
                lines = 1 + len(run.stdout.read().splitlines())
                counts = re.findall(r"^(\d+) ", run.stderr.read(), re.MULTILINE)
                *not_shown, readings = map(int, counts)
                assert readings == lines + sum(not_shown)
                assert 0 == run.wait(20)
            finally:
                done.set()
                thread.join(10)

    def test_more_than_is_read(
        self, loadwire_publisher: LivePublisher, reading: LoadStatRev2
    ) -> None:
        """Messages do not pile up for a reader that is too slow: they are counted."""
        code = (
            "import sys; from pytest_loadwire.commands import loadwire; "
            "sys.modules['pytest_loadwire.commands.tail'].MOST_UNWRITTEN = 1; loadwire()"
        )
        program = [sys.executable, "-c", code, "tail"]
        with running(loadwire_publisher.endpoint, program=program) as run:
            loadwire_publisher.wait_for_subscribers(timeout=20)
            assert run.stdout is not None
            assert run.stderr is not None
            sequences = []
            for _ in range(3):
                for _ in range(20):
                    loadwire_publisher.publish(reading)
                sequences.append(json.loads(run.stdout.readline())["sequence"])
            assert sequences[2] > 2
            run.send_signal(signal.SIGINT)
            assert 0 == run.wait(20)
            assert re.search(r"^\d+ messages are not shown", run.stderr.read())

    @pytest.mark.parametrize(("arguments", "term"), [(["--json"], "xterm"), ([], "dumb")])
    def test_json_on_a_terminal(
        self,
        loadwire_publisher: LivePublisher,
        reading: LoadStatRev2,
        arguments: list[str],
        term: str,
    ) -> None:
        """--json writes lines to a terminal as well, and so does a terminal without a cursor."""
        environment = {**os.environ, "TERM": term}
        ours, theirs = os.openpty()
        try:
            with running(
                loadwire_publisher.endpoint, *arguments, stdout=theirs, env=environment
            ) as run:
                loadwire_publisher.wait_for_subscribers(timeout=20)
                loadwire_publisher.publish(reading)
                text = b""
                while not text.endswith(b"\n"):
                    assert select.select([ours], [], [], 20)[0]
                    text += os.read(ours, 4096)
                run.send_signal(signal.SIGINT)
                assert 0 == run.wait(20)
        finally:
            os.close(ours)
            os.close(theirs)
        assert json.loads(text)["ok"]


def fill(run: subprocess.Popen[str], publisher: LivePublisher, reading: LoadStatRev2) -> None:
    """Publish more than the pipe of a process holds, and return when nobody can write to it."""
    assert run.stdout is not None
    for _ in range(1000):  # some 400 KB, and a pipe holds 64
        publisher.publish(reading)
    held, deadline = array.array("i", [0]), Deadline(20)
    # It holds 16 pages, is full with a line on the last, and none is split over two of them.
    while held[0] <= 15 * (4096 - 500):
        assert deadline.remaining, held
        threading.Event().wait(0.01)
        fcntl.ioctl(run.stdout.fileno(), termios.FIONREAD, held)


class Terminal:
    """A real terminal of 100 columns and 30 lines, with a shell in it."""

    def __init__(self, folder: Path) -> None:
        self._name = f"loadwire-{uuid.uuid4().hex[:12]}"
        self._env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TMUX")},
            "LC_ALL": "C.UTF-8",
            "PS1": "$ ",
            "ENV": "",
        }
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh")
        self._folder = folder

    def tmux(self, *arguments: str) -> str:
        """What one tmux command answers."""
        done = subprocess.run(
            ["tmux", "-u", "-L", self._name, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type a line."""
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def screen(self) -> str:
        """What stands on the screen."""
        return self.tmux("capture-pane", "-p")

    def until(self, shows: Callable[[str], object], step: Callable[[], object] = int) -> str:
        """The first screen of which something holds, with a step between two looks."""
        deadline, tick = Deadline(30), threading.Event()
        while not shows(screen := self.screen()):
            assert deadline.remaining, screen
            step()
            tick.wait(0.02)
        return screen

    def state(self) -> tuple[str, str]:
        """Whether it is on its other screen, and whether its cursor shows."""
        on, cursor = self.tmux("display", "-p", "#{alternate_on} #{cursor_flag}").split()
        return on, cursor

    def close(self) -> None:
        """End the shell and whatever runs in it."""
        self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need("tmux", packages="tmux")
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_a_real_terminal(
    terminal: Terminal, loadwire_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    """On a terminal the table is live; Ctrl-C ends it with 0 and gives the terminal back."""
    fleet = loadwire_fleet("ramp", workers=2, ranks=2)
    before, after = tmp_path / "before", tmp_path / "after"
    command = f"{' '.join(TAIL)} --interval 0.25 {' '.join(fleet.urls)}"
    terminal.type(f"stty -g > {before}; {command}; echo status $?; stty -g > {after}; echo over")
    live = terminal.until(lambda screen: "4 ranks: 4 fresh" in screen, fleet.catch_up)
    assert ("1", "0") == terminal.state()
    assert 30 == len(live.removesuffix("\n").split("\n"))
    assert "Ctrl-C ends" in live
    first, *_ = fleet.urls
    table = [line for line in live.splitlines() if line.startswith(first.removeprefix("http://"))]
    assert 2 == len(table), live
    steps = fleet.steps
    newest = rf"{re.escape(first.removeprefix('http://'))} +0 fresh +{steps} "
    terminal.until(
        lambda screen: re.search(newest, screen), lambda: fleet.steps > steps or fleet.step()
    )
    terminal.tmux("send-keys", "C-c")
    left = terminal.until(lambda screen: re.search("^over$", screen, re.MULTILINE))
    assert ("0", "1") == terminal.state()
    assert re.search(r"^\d+ readings, none refused\nstatus 0\nover$", left, re.MULTILINE), left
    assert before.read_text() == after.read_text()
