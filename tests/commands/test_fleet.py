"""``loadwire fleet``: what is printed, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from click.testing import Result

from pytest_loadwire.engine.scenario import SCENARIOS

LINE = r"(http://127\.0\.0\.1:\d+)  2 rank\(s\), ports (\d+) to (\d+)"


Invoke = Callable[..., Result]


def test_urls_and_a_count(invoke: Invoke) -> None:
    """A line for each engine with its URL and ports, and at the end what was sent."""
    result = invoke("fleet", "--workers", "2", "--ranks", "2", "--seconds", "0.1")
    assert result.exit_code == 0, result.output
    first, second, last = result.output.splitlines()
    assert all(re.fullmatch(LINE, line) for line in (first, second))
    assert last == "4 messages in 1 steps"


def test_a_scenario_file(invoke: Invoke, tmp_path: Path) -> None:
    """A scenario may be a file."""
    file = tmp_path / "late.json"
    file.write_text(json.dumps({"name": "late", "advertised": False}))
    result = invoke("fleet", "--scenario", str(file), "--seconds", "0")
    assert result.exit_code == 0, result.output
    assert "not advertised" in result.output


def test_no_number_of_seconds(invoke: Invoke) -> None:
    """`nan` seconds are a wrong call, as everywhere."""
    result = invoke("fleet", "--seconds", "nan")
    assert result.exit_code == 2
    assert "nan is no number of seconds" in result.output


def test_help(invoke: Invoke) -> None:
    """The help names every scenario that comes with the kit, and the exit statuses."""
    flat = " ".join(invoke("fleet", "--help").output.split())
    assert f"Scenarios: {', '.join(SCENARIOS)}." in flat
    assert "Exit status 0: it ran" in flat


def test_an_unknown_scenario(invoke: Invoke) -> None:
    """A scenario that there is not is a wrong call, and the answer lists those that there are."""
    result = invoke("fleet", "--scenario", "rush")
    assert result.exit_code == 2
    assert "no scenario of this name (steady, ramp," in result.output


def test_an_interrupt_ends_it() -> None:
    """It runs until it is interrupted, answers meanwhile, and ends well."""
    command = [sys.executable, "-m", "pytest_loadwire.cli", "fleet", "--ranks", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            assert run.stdout is not None
            match = re.match(LINE, run.stdout.readline())
            assert match is not None
            with urlopen(f"{match[1]}/server_info", timeout=5) as answer:  # noqa: S310
                block = json.load(answer)["kv_events"]
            assert int(match[2]) == block["load_endpoint_port_base"]
            run.send_signal(signal.SIGINT)
            output, errors = run.communicate(timeout=10)
        finally:
            run.kill()
    assert (0, "") == (run.returncode, errors)
    assert re.fullmatch(r"\d+ messages in \d+ steps\n", output)
