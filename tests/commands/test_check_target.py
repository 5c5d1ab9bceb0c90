"""``loadwire check TARGET``: what is printed and written, and how it ends."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import msgspec
import pytest
from click.testing import Result
from rich.console import Console
from rich.text import Text
from standing import StandingClock, everyone

from pytest_loadwire.commands import live_check
from pytest_loadwire.commands.check import check
from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.engine.scenario import Scenario
from pytest_loadwire.harness.sockets import LivePublisher
from pytest_loadwire.observe import link, tap
from pytest_loadwire.observe.seen import Seen
from pytest_loadwire.target import Target
from pytest_loadwire.vectors import FrameVector, VectorFile, read_json
from pytest_loadwire.wire import LATEST, REVISIONS, LoadStatRev2, encode

Invoke = Callable[..., Result]

SECONDS = ("--seconds", "0.3")


@pytest.fixture
def check_from(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs `loadwire check` for a short time, from when what was seen was enough."""
    watch = tap.watch

    def run(enough: Callable[[Seen], object], *arguments: str | Path) -> Result:
        clock = StandingClock(enough)

        def patient(
            targets: Sequence[Target], *, progress: Callable[[Seen], None], **options: Any
        ) -> Seen:
            def look(seen: Seen) -> None:
                clock.look(seen)
                progress(seen)

            return watch(targets, progress=look, clock=clock, **options)

        monkeypatch.setattr(tap, "watch", patient)
        return invoke("check", *SECONDS, *arguments)

    return run


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """An engine with two ranks that publish all the time."""
    with Fleet(Scenario("fast", shape="ramp", period=0.05), ranks=2, sheds=True) as engines:
        stop = threading.Event()
        thread = threading.Thread(target=engines.run, kwargs={"stop": stop}, daemon=True)
        thread.start()
        yield engines
        stop.set()
        thread.join(10)


@pytest.fixture
def closed() -> Iterator[str]:
    """A socket's endpoint on which nobody listens, and nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def test_a_conforming_worker(check_from: Invoke, fleet: Fleet) -> None:
    """A worker that conforms has a row for each rank, a verdict and exit status 0."""
    result = check_from(everyone(), fleet.urls[0])
    assert result.exit_code == 0, result.output
    base = fleet.engines[0].base
    head, *_ = result.stdout.splitlines()
    assert f"{fleet.urls[0]}, 2 ranks at tcp://127.0.0.1:{base} to {base + 1}" == head
    assert all(f"│ {base + rank} │ up" in result.stdout for rank in (0, 1))
    assert "2 of 2 ranks heard, " in result.stdout
    assert "it conforms" == result.stdout.splitlines()[-1]
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_json(check_from: Invoke, fleet: Fleet, closed: str) -> None:
    """--json is one object for all targets, with every rank."""
    result = check_from(lambda seen: seen.targets[0].heard == 2, "--json", fleet.urls[0], closed)
    assert result.exit_code == 1
    parsed = json.loads(result.stdout)
    assert (False, None) == (parsed["ok"], parsed["saved"])
    assert [2, 0] == [target["heard"] for target in parsed["targets"]]
    assert ["peer-refused"] == [diagnosis["code"] for diagnosis in parsed["diagnoses"]]


def test_files(check_from: Invoke, fleet: Fleet, tmp_path: Path) -> None:
    """--junit has a case for each rule and rank, and --save has vectors."""
    junit, saved = tmp_path / "check.xml", tmp_path / "seen.json"
    result = check_from(everyone(), fleet.urls[0], "--junit", junit, "--save", saved)
    assert result.exit_code == 0, result.output
    suite = ET.parse(junit).getroot()[0]  # noqa: S314 - written by ourselves
    assert ("loadwire check", "0") == (suite.get("name"), suite.get("failures"))
    assert {"W6", "R3", "P2", "A1"} <= {case.get("classname") for case in suite}
    vectors = read_json(saved, VectorFile[FrameVector]).vectors
    assert vectors
    assert all(fleet.urls[0] in vector.source for vector in vectors)
    assert f"{len(vectors)} vectors in {saved}" in result.stdout.splitlines()


def test_a_silent_target(
    invoke: Invoke, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent socket ends in a diagnosis and exit status 1, before its time."""
    monkeypatch.setattr(link, "REFUSED_S", 0.05)
    junit = tmp_path / "check.xml"
    result = invoke("check", closed, "--seconds", "60", "--junit", junit)
    assert result.exit_code == 1
    assert f"DIAGNOSIS  {closed}: the connection is refused" in result.stdout
    assert "  1. the load port is another one" in result.stdout
    assert "(ended early: nothing can come)" in result.stdout
    assert "silent: a router knows no load here" == result.stdout.splitlines()[-1]
    suite = ET.parse(junit).getroot()[0]  # noqa: S314 - written by ourselves
    assert ["C3"] == [case.get("classname") for case in suite if case.find("failure") is not None]


def test_a_dead_worker(invoke: Invoke, closed: str) -> None:
    """A worker that gives no answer is said to give none, without what a rule asks of one."""
    result = invoke("check", closed.replace("tcp", "http"), "--seconds", "60")
    assert result.exit_code == 1
    assert "; the route does not answer at all\n" in result.stdout
    assert "A1 asks" not in result.stdout


@pytest.mark.parametrize(
    ("sequence", "rows", "reading"),
    [
        ("7128 to 7142", ["7128 to 7142"], "128 run 64 wait 12.…"),
        ("7128 to 7142, 3 missing", ["7128 to 7142, 3", "missing"], "128 run 64 …"),
        ("4 to 15", ["4 to 15"], "128 run 64 wait 12.5% KV"),
    ],
)
def test_long_sequences(sequence: str, rows: list[str], reading: str) -> None:
    """In 80 columns the reading is shortened first, and a sequence breaks behind it alone."""
    cells = ["0", "23422", "up", "2", "12", "2.0", sequence, "128 run 64 wait 12.5% KV"]
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(live_check._table([list(map(Text, cells))], 80))
    shown = [line.split("│")[-3:-1] for line in console.export_text().splitlines() if "│" in line]
    assert rows == [row.strip() for row, _ in shown]
    assert reading == shown[0][1].strip()


def test_a_broken_engine(check_from: Invoke) -> None:
    """What breaks a rule is shown with the rule, the rank and the bytes."""
    with Fleet(Scenario("bad", period=0.02, hostile=4)) as engines:
        stop = threading.Event()
        thread = threading.Thread(target=engines.run, kwargs={"stop": stop}, daemon=True)
        thread.start()
        result = check_from(everyone(10), engines.urls[0])
        stop.set()
        thread.join(10)
    assert result.exit_code == 1
    assert "ERROR    W" in result.stdout
    assert "if a router believes it: " in result.stdout
    assert "frame 2 (payload): " in result.stdout
    assert "it does not conform" == result.stdout.splitlines()[-1]


@pytest.mark.parametrize(("strict", "status"), [((), 0), (("--strict",), 1)])
def test_strict(check_from: Invoke, strict: tuple[str, ...], status: int) -> None:
    """--strict lets warnings count: here a reading that is repeated too soon."""
    with Fleet(Scenario("repeats", shape="idle", period=0.02, revision=1)) as engines:
        stop = threading.Event()
        thread = threading.Thread(target=engines.run, kwargs={"stop": stop}, daemon=True)
        thread.start()
        result = check_from(everyone(5), engines.urls[0], *strict)
        stop.set()
        thread.join(10)
    assert "WARNING  P2  rank 0: " in result.stdout
    assert result.exit_code == status, result.output


@pytest.mark.parametrize(("revision", "status"), [("1", 1), ("2", 0)])
def test_revision(check_from: Invoke, fleet: Fleet, revision: str, status: int) -> None:
    """--revision holds the engines to one revision."""
    result = check_from(everyone(), fleet.urls[0], "--revision", revision)
    assert result.exit_code == status
    assert ("ERROR    W4  ranks 0 and 1: extra-elements" in result.stdout) == bool(status)


def publish_all_the_time(
    publisher: LivePublisher, payload: bytes, stop: threading.Event
) -> threading.Thread:
    """A thread that sends a payload again and again, with the next sequence each time."""

    def run() -> None:
        sequence = 0
        while not stop.wait(0.01):
            publisher.send_raw([b"load", sequence.to_bytes(8, "big"), payload])
            sequence += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


# Columns of a terminal, and the columns of the table that fit.
WIDTHS = [
    (80, "rank port link rev msgs /s sequence last reading"),
    (60, "rank port link rev msgs /s sequence"),
    (50, "rank port link rev msgs sequence"),
    (40, "rank port link rev msgs"),
    (30, "rank port link msgs"),
]


@pytest.mark.parametrize(("width", "columns"), WIDTHS)
def test_between_two_revisions(
    check_from: Invoke,
    loadwire_publisher: LivePublisher,
    reading: LoadStatRev2,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    columns: str,
) -> None:
    """What was sent is shown, as 1+3; a narrow table has fewer columns, and none is cut."""
    monkeypatch.setenv("COLUMNS", str(width))
    short = msgspec.msgpack.encode(msgspec.msgpack.decode(encode(reading))[:9])
    stop = threading.Event()
    thread = publish_all_the_time(loadwire_publisher, short, stop)
    result = check_from(everyone(5), loadwire_publisher.endpoint)
    stop.set()
    thread.join(10)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert columns == " ".join(lines[2].replace("┃", " ").split())
    assert ("1+3" in lines[4]) == ("rev" in columns)
    assert "..." not in lines[4]
    assert max(map(len, lines[1:6])) <= width
    assert "(rev 1+3: revision 1 and 3 elements more)" in result.stdout
    assert "likely:     the encoder leaves out elements" in result.stdout
    assert "what to do: send all elements" in result.stdout


WRONG = [
    (("tcp://::1:5558",), "write tcp://[::1]:5558"),
    (("10.0.0.5:5558",), "write tcp://10.0.0.5:5558"),
    (("tcp://*:5558",), "a wildcard host"),
    (("tcp://0x0:5558",), "a wildcard host"),
    (("tcp://h:1", "--golden", "."), "--golden is for the vectors, and goes without a TARGET"),
    (("tcp://h:1", "--junit", "no/such/folder/f.xml"), "there is no folder for"),
    (("tcp://h:1", "--seconds", "-1"), "--seconds"),
    (("tcp://h:1", "--seconds", "nan"), "nan is no number of seconds"),
    (("tcp://h:1", "--revision", "3"), "--revision"),
    (("--seconds", "3"), "--seconds watches live sockets, and needs a TARGET"),
    (("--strict",), "--strict watches live sockets"),
    (("--save", "f.json"), "--save watches live sockets"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_wrong_calls(invoke: Invoke, arguments: tuple[str, ...], says: str) -> None:
    """A wrong call is told as one, with how to write it."""
    result = invoke("check", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not result.stdout


def test_options_are_those_of_the_library() -> None:
    """The command, which imports nothing heavy, repeats what the library says."""
    options = {parameter.name: parameter for parameter in check.params}
    assert tap.SECONDS == options["seconds"].default
    kind = options["revision"].type
    assert isinstance(kind, click.IntRange)
    assert (min(REVISIONS), LATEST) == (kind.min, kind.max)


def test_native_from_the_environment(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """A variable that is set for the vectors does not spoil a call for a target."""
    monkeypatch.setenv("LOADWIRE_NATIVE", sys.executable)
    assert invoke("check", closed, "--seconds", "0").exit_code == 1


def test_many_ranks(check_from: Invoke) -> None:
    """Of many ranks the first few have a row, and the silent ones are grouped."""
    with Fleet(Scenario("fast", period=0.05), ranks=64) as engines:
        engines.engines[0].silent = {40, 41, 63}
        stop = threading.Event()
        thread = threading.Thread(target=engines.run, kwargs={"stop": stop}, daemon=True)
        thread.start()
        result = check_from(lambda seen: seen.targets[0].heard == 61, engines.urls[0])
        stop.set()
        thread.join(10)
    assert result.exit_code == 1
    assert "... and 45 more ranks; 61 of 64 were heard (see --json)" in result.stdout
    assert "DIAGNOSIS  ranks 40, 41, 63, tcp://" in result.stdout


def test_an_interrupt_ends_it(fleet: Fleet) -> None:
    """An interrupt ends the watch early, and what was seen is told."""
    command = [sys.executable, "-m", "pytest_loadwire.cli", "check", fleet.urls[0]]
    with subprocess.Popen(
        [*command, "--seconds", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            fleet.wait_for_subscribers(timeout=30)
            run.send_signal(signal.SIGINT)
            output, errors = run.communicate(timeout=30)
        finally:
            run.kill()
    assert "" == errors.strip()
    assert "(interrupted)" in output
    assert run.returncode in (0, 1)
