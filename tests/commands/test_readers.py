"""`loadwire testee` and `loadwire skew`: what is printed, and the exit status."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pytest_loadwire.harness import testee as protocol

TESTEE = """
import json, sys
from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.witness import STRICT

def say(message):
    print(json.dumps(message), flush=True)

say({"loadwire": 1, "implementation": "toy", "version": "1.2", "revision": 2, "policies": STRICT})
for line in sys.stdin:
    case = json.loads(line)
    answer = {"id": case["id"]}
    try:
        if case["kind"] == "payload":
            stat = wire.decode(bytes.fromhex(case["hex"]))
        else:
            answer["accept"], stat = wire.parse_frames([bytes.fromhex(f) for f in case["frames"]])
    except WireError as error:
        answer["reject"] = {"reason": str(error.reason), "text": str(error)}
    else:
        value = {k: None if v is None else str(v) for k, v in wire.to_dict(stat).items()}
        sequence = answer.get("accept")
        answer["accept"] = {"value": value, "sequence": sequence and str(sequence)}
        answer["accept"]["sequence"] = None if sequence is None else str(sequence)
    say(answer)
"""

Invoke = Callable[..., Result]


@pytest.fixture
def make_command(tmp_path: Path) -> Callable[..., list[str]]:
    """Makes the command of a testee that conforms, unless something in it is replaced."""

    def make(old: str = "", new: str = "") -> list[str]:
        program = tmp_path / "testee.py"
        program.write_text(TESTEE.replace(old, new) if old else TESTEE, "utf-8")
        return [sys.executable, str(program)]

    return make


def test_a_conforming_testee(invoke: Invoke, make_command: Callable[..., list[str]]):
    """Exit status 0, a line for each rule, and one that says so."""
    result = invoke("testee", "--", *make_command())

    assert 0 == result.exit_code
    assert result.stdout.startswith("toy 1.2, a reader of revision 2")
    assert "F5" in result.stdout
    assert "it conforms" == result.stdout.splitlines()[-1]


def test_a_testee_that_breaks_a_rule(invoke: Invoke, make_command: Callable[..., list[str]]):
    """Exit status 1; the failures with bytes, the worst first, and how many have which hazard."""
    command = make_command(
        "wire.to_dict(stat)", "{**dict(max_running_requests=0), **wire.to_dict(stat)}"
    )

    result = invoke("testee", "--", *command)

    assert 1 == result.exit_code
    assert "FAILED  W2 wrong-value: revision 1 has 6 elements" in result.stdout
    assert "max_running_requests nothing as 0" in result.stdout
    assert "  case      rev1-golden-a" in result.stdout
    assert "array of 6" in result.stdout
    assert "more (see --json)" in result.stdout
    assert result.stdout.splitlines()[-1].endswith(" failures")


def test_json_has_it_all(invoke: Invoke, make_command: Callable[..., list[str]]):
    """Machines get every failure, and the same exit status."""
    good = invoke("testee", "--json", "--", *make_command())
    bad = invoke("testee", "--json", "--", *make_command("str(error.reason)", "'bad-tag'"))

    assert (0, 1) == (good.exit_code, bad.exit_code)
    assert (True, "toy", "1.2") == tuple(
        json.loads(good.stdout)[key] for key in ("ok", "reader", "version")
    )
    assert {"wrong-reason"} == {f["deed"] for f in json.loads(bad.stdout)["failures"]}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"loadwire": 1', '"loadwire": 2', "other protocol version: it speaks version 2"),
        ("say(answer)", "say({})", "wrong type: Object missing required field `id`"),
        ("say(answer)", "say(answer); raise SystemExit(5)", "crashed: exit status 5"),
        (
            '"id": case["id"]}\n    try',
            '"id": "x"}\n    try',
            "wrong id: case 1 got the answer of 'x'",
        ),
        ("wire.decode(bytes", "wire.decode(b'!' + bytes", "it refuses the plainest payload"),
    ],
)
def test_a_broken_adapter(
    invoke: Invoke,
    make_command: Callable[..., list[str]],
    old: str,
    new: str,
    says: str,
    as_json: bool,
):
    """Exit status 2: nothing was learnt about the decoder, and the text says what to mend."""
    options = ["--json"] if as_json else []

    result = invoke("testee", *options, "--", *make_command(old, new))

    assert 2 == result.exit_code
    shown = json.loads(result.stdout)["adapter"] if as_json else result.stdout
    assert says in shown


def test_an_ending_that_is_not_clean(invoke: Invoke, make_command: Callable[..., list[str]]):
    """A testee that conforms and fails at the end of its input does not work."""
    result = invoke(
        "testee", "--", *make_command("    say(answer)\n", "    say(answer)\nsys.exit(3)\n")
    )

    assert 2 == result.exit_code
    assert "its input was closed, and then: exit status 3" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["testee"], "a command is missing: loadwire testee -- ./my-testee"),
        (["testee", "--timeout", "nan", "--", "cat"], "nan is no number of seconds"),
        (["testee", "--start-timeout", "inf", "--", "cat"], "inf is no number of seconds"),
        (["testee", "--timeout", "0", "--", "cat"], "0.0 is not in the range x>0"),
        (["testee", "--start-timeout", "0", "--", "cat"], "0.0 is not in the range x>0"),
        (["testee", "--golden", ".", "--", "cat"], "manifest.json: No such file"),
    ],
)
def test_a_wrong_call(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], says: str
):
    """Exit status 2, and what is wrong with the call."""
    monkeypatch.chdir(tmp_path)

    result = invoke(*arguments)

    assert 2 == result.exit_code
    assert says in result.stderr


@pytest.mark.parametrize("command", ["testee", "skew"])
def test_no_such_program(invoke: Invoke, command: str):
    """A program that is not there is said to be not there."""
    result = invoke(command, "--", "./no-such-program")

    assert 2 == result.exit_code
    assert "not started: ./no-such-program cannot be started" in result.stdout


def test_skew_of_the_reference(invoke: Invoke):
    """Without a command the reference is shown as the router of every revision."""
    result = invoke("skew")

    assert 0 == result.exit_code
    assert "what each reader makes of each engine" == result.stdout.splitlines()[0]
    assert "may upgrade first │ either" in result.stdout
    assert "16 elements" in result.stdout


def test_skew_of_a_testee(invoke: Invoke, make_command: Callable[..., list[str]]):
    """A testee that goes wrong with some engine is a column more, and exit status 1."""
    command = make_command(
        "wire.to_dict(stat)", "{**dict(max_running_requests=0), **wire.to_dict(stat)}"
    )

    shown, machine = invoke("skew", "--", *command), invoke("skew", "--json", "--", *command)

    assert (1, 1) == (shown.exit_code, machine.exit_code)
    assert "invents zeros" in shown.stdout
    assert ["either", "either", "the engines"] == [
        row["upgrades_first"] for row in json.loads(machine.stdout)
    ]


@pytest.mark.parametrize("command", ["testee", "skew"])
def test_help_has_an_example(invoke: Invoke, command: str):
    """The help shows how to call it, on lines of their own."""
    shown = invoke(command, "--help").stdout
    assert f"\n    loadwire {command} " in shown
    flat = " ".join(shown.split())
    assert all(f" {status}: " in flat for status in (0, 1, 2))


def test_a_slow_start(
    invoke: Invoke, make_command: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
):
    """A start that takes long is said on stderr, and ends at the timeout that the help tells."""
    monkeypatch.setattr(protocol, "PATIENCE", 0.0)
    command = make_command("say({", "sys.stdin.read(); say({")

    result = invoke("testee", "--json", "--start-timeout", "0.5", "--", *command)

    assert 2 == result.exit_code
    assert "waiting for a greeting\n" == result.stderr
    assert "no greeting within 0.5 s" in json.loads(result.stdout)["adapter"]


def test_a_slow_start_of_a_skew(invoke: Invoke, make_command: Callable[..., list[str]]):
    """What a testee may take to start is said to `skew` as well."""
    command = make_command("say({", "sys.stdin.read(); say({")

    result = invoke("skew", "--json", "--start-timeout", "0.5", "--", *command)

    assert 2 == result.exit_code
    assert "no greeting within 0.5 s" in json.loads(result.stdout)["adapter"]


@pytest.mark.parametrize("command", ["testee", "skew"])
def test_the_start_timeout_is_told(invoke: Invoke, command: str):
    """The help tells how long a start may take unless said."""
    flat = " ".join(invoke(command, "--help").stdout.split())
    assert re.search(r"--start-timeout FLOAT RANGE Seconds that its start may take.*60", flat)
