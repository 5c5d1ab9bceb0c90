"""A testee that misbehaves fails in its own words, at its own vector, and is never a refusal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_loadwire.harness import testee as protocol
from pytest_loadwire.harness.testee import Testee, TesteeError
from pytest_loadwire.judge import Crashed, Refused, Taken
from pytest_loadwire.rules import Policy

# Each answers `ask` for what its payload says, so that one program can do many things.
START = """
import json, os, signal, sys, time

def say(message):
    print(json.dumps(message), flush=True)

GREETING = {"loadwire": 1, "implementation": "toy", "version": "1.0", "revision": 2}
"""
SERVE = """
say(GREETING)
for line in sys.stdin:
    case = json.loads(line)
    answer = {"id": case["id"], "reject": {}}
    def good():
        say(answer)
    exec(bytes.fromhex(case.get("hex") or case["frames"][0]))
"""

# what the program does for one payload, and how the outcome of that payload begins
FAILURES = [
    ("sys.exit(3)", "crashed: exit status 3 before the answer to case 2; nothing on stderr"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed: killed by signal SIGSEGV before the answer"),
    ("raise KeyError('lost')", "crashed: exit status 1 before the answer to case 2; its stderr:\n"),
    (
        "sys.stdout.write('{\"id\"'); sys.stdout.flush(); os._exit(0)",
        "crashed: exit status 0 before the answer to case 2, in the middle of '{\"id\"'",
    ),
    ("os.close(1); signal.pause()", "crashed: it closed its stdout and still runs before the"),
    (
        "signal.pause()",
        "timed out: no answer to case 2 within 0.5 s, nor when its input was closed",
    ),
    ("pass", "timed out: no answer to case 2 within 0.5 s, nor when its input was closed"),
    (
        "print('decoding', flush=True); good()",
        "garbage on stdout: a line that is no JSON: 'decoding'",
    ),
    (
        "os.write(1, b'\\xff\\xfe\\n')",
        "garbage on stdout: a line that is no JSON: '\\\\xff\\\\xfe'",
    ),
    (
        "print(json.dumps(answer))",
        "unflushed: no answer to case 2 within 0.5 s, and then, when its input was closed, '{\"id",
    ),
    (
        "sys.stdout.write(json.dumps(answer)); sys.stdout.flush()",
        'unflushed: the answer to case 2 has no line end: \'{"id": "2", "reject": {}}\'',
    ),
    ("answer['id'] = '99'; good()", "wrong id: case 2 got the answer of '99'"),
    ("answer['id'] = None; good()", "wrong id: case 2 got the answer of None"),
    ("answer['id'] = 2; good()", "wrong type: Expected `str | null`, got `int` - at `$.id`"),
    ("say([])", "wrong type: Expected `object`, got `array`"),
    ("say({})", "wrong type: Object missing required field `id`"),
    ("answer['accept'] = {'value': {}}; good()", "wrong type: an answer has one of accept, reject"),
    ("del answer['reject']; good()", "wrong type: an answer has one of accept, reject and error"),
    ("answer['reject'] = True; good()", "wrong type: Expected `object | null`, got `bool`"),
    (
        "say({'id': case['id'], 'accept': {'value': {'num_tokens': 7}}})",
        "wrong type: Expected `str | null`, got `int` - at `$.accept.value[...]` (numbers are",
    ),
    (
        "answer['id'] = '1'; good()",
        "duplicate answer: case 1 was answered again, seen while case 2",
    ),
    (
        "say({'id': case['id'], 'error': 'no such thing'})",
        "adapter error: the program itself says: no such thing",
    ),
]

# a first line, or what is done instead of one, and what is said of it
GREETINGS = [
    ("sys.exit(0)", "no greeting: exit status 0 before the greeting; nothing on stderr"),
    ("sys.exit('no config')", "crashed: exit status 1 before the greeting; its stderr:\nno config"),
    ("print('toy 1.0', flush=True)", "no greeting: a line that is no JSON: 'toy 1.0'"),
    ("say([1])", "no greeting: Expected `object`, got `array`: '[1]'"),
    ("say({'id': '1', 'reject': {}})", 'no greeting: its first line is \'{"id": "1"'),
    (
        "sys.stdin.read()",
        "late greeting: none came within 1 s, and none when its input was then closed",
    ),
    (
        "print(json.dumps(GREETING)); sys.stdin.read()",
        'unflushed: no greeting within 1 s, and then, when its input was closed, \'{"loadwire"',
    ),
    ("say({**GREETING, 'loadwire': 2})", "other protocol version: it speaks version 2 of the"),
    ("say({**GREETING, 'loadwire': '1'})", "other protocol version: it speaks version '1' of the"),
    ("say({**GREETING, 'revision': '2'})", "bad greeting: Expected `int`, got `str` - at"),
    ("say({**GREETING, 'revision': 9})", "bad greeting: revision 9 is none of 1, 2"),
    ("say({**GREETING, 'implementation': ' '})", "bad greeting: it does not say what it is"),
    ("say({**GREETING, 'policies': {'Trailing': 'reject'}})", "bad greeting: 'Trailing' is no"),
    (
        "say({**GREETING, 'policies': {'NilTail': 'zero'}})",
        "bad greeting: \"NilTail\": 'accept' or 'reject', not 'zero'",
    ),
    ("say({**GREETING, 'kinds': ['frames']})", "bad greeting: kinds are payload, and perhaps"),
]

Make = Callable[..., Testee]


@pytest.fixture
def make_testee(tmp_path: Path) -> Iterator[Make]:
    """Makes testees of Python source, with short deadlines."""
    made: list[Testee] = []

    def make(source: str = SERVE, *, timeout: float = 20, start_timeout: float = 20) -> Testee:
        program = tmp_path / f"testee_{len(made)}.py"
        program.write_text(START + source, "utf-8")
        # isolated: PYTHONUNBUFFERED would mend what is to be broken
        command = [sys.executable, "-IS", program]
        made.append(Testee(command, timeout=timeout, start_timeout=start_timeout))
        return made[-1]

    yield make
    for testee in made:
        testee.close()


def ask(testee: Testee, does: str = "good()") -> object:
    """What comes of a payload for which the program does this."""
    return testee.decode(does.encode())


@pytest.mark.parametrize(("does", "says"), FAILURES, ids=[says[:40] for _, says in FAILURES])
def test_a_failure_says_what_it_is_and_costs_one_vector(make_testee: Make, does: str, says: str):
    """A failure begins with its kind, is no refusal, and the vectors beside it are answered."""
    testee = make_testee()

    outcomes = [ask(testee)]
    # Only what never answers is waited for in vain.
    testee.timeout = 0.5 if "within 0.5 s" in says or "no line end" in says else 20
    outcomes.append(ask(testee, does))
    testee.timeout = 20
    outcomes.append(ask(testee))

    assert [Refused(), Refused()] == [outcomes[0], outcomes[2]]
    assert isinstance(outcomes[1], Crashed)
    assert says == str(outcomes[1])[: len(says)]


@pytest.mark.parametrize(("does", "says"), GREETINGS, ids=[says[:40] for _, says in GREETINGS])
def test_a_bad_greeting_is_no_testee(make_testee: Make, does: str, says: str):
    """Without a greeting as the protocol asks for there is nobody to judge."""
    # Only what never greets is waited for in vain.
    testee = make_testee(does, start_timeout=1 if "within 1 s" in says else 20)

    with pytest.raises(TesteeError) as caught:
        _ = testee.name

    assert says == str(caught.value)[: len(says)]


def test_a_greeting_is_what_the_testee_declares(make_testee: Make):
    """Name, revision, policies and kinds are those of the first line; both kinds by default."""
    policies = "say({**GREETING, 'revision': 1, 'policies': {'NilTail': 'accept'}})"
    silent, loud = make_testee(), make_testee(policies)
    payloads = make_testee("say({**GREETING, 'kinds': ['payload']})")

    assert ("toy", 2, {}) == (silent.name, silent.revision, silent.policies)
    assert (1, {Policy.NIL_TAIL: "accept"}) == (loud.revision, loud.policies)
    assert (True, False) == (silent.reads_frames, payloads.reads_frames)


def test_there_is_no_such_program():
    """A command that cannot be started fails as that, with the system's reason."""
    testee = Testee(["./no-such-program"])

    with pytest.raises(TesteeError, match=r"not started: ./no-such-program cannot be started: No"):
        _ = testee.name
    assert isinstance(testee.decode(b""), Crashed)


def test_a_testee_that_greets_otherwise_after_a_crash_is_not_judged(
    make_testee: Make, tmp_path: Path
):
    """A testee may not change its declarations in the middle."""
    mark = tmp_path / "mark"
    changes = f"GREETING['revision'] = 1 if os.path.exists({str(mark)!r}) else 2"
    testee = make_testee(f"{changes}; open({str(mark)!r}, 'w').close()\n{SERVE}")

    outcomes = [ask(testee), ask(testee, "sys.exit(1)"), ask(testee)]

    assert "bad greeting: started again, it greets as" in str(outcomes[2])


def test_numbers_arrive_whole(make_testee: Make):
    """Decimal strings become ints, null is nil, and what is no number stays as it is."""
    value = {
        "num_tokens": str(2**64 - 1),
        "attn_dp_rank": None,
        "num_running_reqs": "-1",
        "num_waiting_reqs": "7.5",
    }
    accept = {"value": value, "revision": 1, "sequence": "7"}

    outcome = ask(make_testee(), f"say({{'id': case['id'], 'accept': {accept!r}}})")

    reading = {**value, "num_tokens": 2**64 - 1, "num_running_reqs": -1}
    assert Taken(reading, 1, 7) == outcome


def test_a_refusal_says_what_it_says(make_testee: Make):
    """Reason, place and text of a refusal come through."""
    reject = {
        "reason": "too-short",
        "offset": 0,
        "element": 4,
        "frame": 2,
        "text": "no",
        "rule": "W9",
    }

    outcome = ask(make_testee(), f"say({{'id': case['id'], 'reject': {reject!r}}})")

    assert Refused("too-short", 0, 4, 2, "no") == outcome


def test_frames_are_asked_as_frames(make_testee: Make):
    """A message is a case of its own kind, with every frame in hex."""
    testee = make_testee()
    says = b"answer['reject'] = {'text': case['kind'] + ''.join(case['frames'][1:])}; good()"

    assert Refused(text="frames00ff") == testee.parse_frames([says, b"\0", b"\xff"])


def test_a_testee_is_asked_for_its_own_revision_only(make_testee: Make):
    """A testee of revision 2 is no witness for revision 1."""
    testee = make_testee()

    assert Refused() == testee.decode(b"good()", 2)
    assert "not asked: it reads revision 2, not 1" == str(testee.decode(b"good()", 1))


def test_a_case_larger_than_a_pipe_arrives(make_testee: Make):
    """Neither side waits for the other, whatever the sizes: the pipes are served all at once."""
    blanks = " " * 2**20
    does = (
        f"sys.stderr.write('x' * 2**20); answer['reject'] = {{'text': 'y' * 2**20}}; good(){blanks}"
    )

    outcome = ask(make_testee(), does)

    assert Refused(text="y" * 2**20) == outcome


def test_a_testee_that_is_never_silent_ends_all_the_same(make_testee: Make):
    """A flood without a line end is garbage, and a flood on stderr does not stop the clock."""
    testee = make_testee(timeout=0.5)
    _ = testee.name

    flood = ask(testee, "while True: sys.stdout.write('x' * 2**16)")
    began = time.monotonic()
    noise = ask(testee, "while True: sys.stderr.write('x' * 2**16); sys.stderr.flush()")

    assert str(flood).startswith(("garbage on stdout: ", "unflushed: the answer to case 1 has no"))
    assert str(noise).startswith("timed out: ")
    assert time.monotonic() - began < 60


def test_stderr_is_shown_from_both_ends(make_testee: Make):
    """What a program says first and last is shown, and a long middle is left out."""
    lines = "sys.stderr.write(''.join(f'line {n}\\n' for n in range(1000))); sys.exit(1)"

    says = str(ask(make_testee(), lines)).splitlines()

    assert ["line 0", "line 1", "line 2", "line 3", "..."] == says[1:6]
    assert "line 999" == says[-1]


def test_a_broken_adapter_is_given_up(make_testee: Make, monkeypatch: pytest.MonkeyPatch):
    """After too many failures in a row nobody waits for the next ones."""
    monkeypatch.setattr(protocol, "GIVE_UP", 3)
    testee = make_testee()

    says = [str(ask(testee, "sys.exit(1)")) for _ in range(5)]

    assert says[2].startswith("crashed: exit status 1")
    assert "not asked: it failed 3 times in a row, at last so: crashed: exit status 1" in says[3]
    assert says[3] == says[4]


def test_nothing_is_left_running(make_testee: Make, tmp_path: Path):
    """Closing ends the program and whatever it started, also after it ended itself."""
    pids = tmp_path / "pids"
    note = f"open({str(pids)!r}, 'a').write(f'{{pid}} ')"
    child = f"pid = os.fork()\nif pid == 0: signal.alarm(600); signal.pause()\n{note}"
    testee = make_testee()

    ask(testee, f"{child}\ngood()")
    ask(testee, f"{child}\nos._exit(1)")
    testee.close()
    testee.close()

    assert ["gone", "gone"] == [_state(int(pid)) for pid in pids.read_text("utf-8").split()]


def _state(pid: int) -> str:
    """Whether a process is gone; a killed orphan may wait a moment for init to take note of it."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "gone"
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text("utf-8").rpartition(")")[2].split()[0] == "Z":
            return "gone"
    return "runs"


def test_a_clean_end_is_asked_for(make_testee: Make):
    """Whoever says more, fails or stays when the input ends is told so; a clean end is silent."""
    ends = {
        "": None,
        "say({'id': '1', 'reject': {}})": 'duplicate answer: unasked, it said \'{"id": "1"',
        "sys.exit(4)": "its input was closed, and then: exit status 4",
        "signal.pause()": "still running 0.5 s after its input was closed; killed",
    }
    says = {}
    for end in ends:
        testee = make_testee(f"{SERVE}\n{end}")
        ask(testee)
        testee.timeout = 0.5 if "pause" in end else 20
        says[end] = testee.finish()

    assert [None, *list(ends.values())[1:]] == [
        said and said[: len(ends[end] or "")] for end, said in says.items()
    ]


def test_eight_hundred_cases_are_quick(make_testee: Make):
    """A testee that answers at once is asked 800 cases well within two seconds."""
    testee = make_testee()
    ask(testee)

    began = time.monotonic()
    outcomes = {ask(testee) for _ in range(800)}

    assert {Refused()} == outcomes
    assert time.monotonic() - began < 60  # a hang; how fast it is, `loadwire testee` shows


def test_a_slow_greeting_is_said_to_be_waited_for(
    make_testee: Make, monkeypatch: pytest.MonkeyPatch
):
    """Where the first greeting takes its time that is said, once; where it is quick, nothing is."""
    slow, quick = make_testee(), make_testee()
    said: dict[Testee, list[str]] = {slow: [], quick: []}
    for testee, patience in ((slow, 0.0), (quick, 20.0)):
        monkeypatch.setattr(protocol, "PATIENCE", patience)
        testee._progress = said[testee].append
        assert "toy" == testee.name
        ask(testee, "sys.exit(1)")
        ask(testee)

    assert [["waiting for a greeting"], []] == [said[slow], said[quick]]


def test_a_missing_flush_is_not_mended_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """PYTHONUNBUFFERED reaches no testee, neither by inheritance nor by a given environment."""
    program = tmp_path / "unflushed.py"
    program.write_text(START + "print(json.dumps(GREETING)); sys.stdin.read()", "utf-8")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")

    for env in (None, dict(os.environ)):
        with (
            Testee([sys.executable, program], start_timeout=1, env=env) as testee,
            pytest.raises(TesteeError, match=r"^unflushed: no greeting within 1 s"),
        ):
            _ = testee.name
