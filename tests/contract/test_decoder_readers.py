"""`DecoderContract` over a program and over a shared library, as a router team adopts it."""

from __future__ import annotations

import sys

import pytest

from pytest_loadwire import DecoderContract
from pytest_loadwire.harness.native import NativeDecoder
from pytest_loadwire.harness.testee import START_TIMEOUT
from pytest_loadwire.vectors import load

GOLDEN = load()
FORMS = sum(1 for vector in GOLDEN.payloads for _ in vector.forms())

TESTEE = """
import json, os, sys
from pytest_loadwire import wire
from pytest_loadwire.witness import STRICT

def say(message):
    print(json.dumps(message), flush=True)

say({"loadwire": 1, "implementation": "toy", "version": "1", "revision": 2, "policies": STRICT})
for line in sys.stdin:
    case = json.loads(line)
    answer = {"id": case["id"]}
    try:
        if case["kind"] == "payload":
            sequence, stat = None, wire.decode(bytes.fromhex(case["hex"]))
        else:
            sequence, stat = wire.parse_frames([bytes.fromhex(f) for f in case["frames"]])
    except ValueError as error:
        answer["reject"] = {"reason": error.reason}
    else:
        value = {k: None if v is None else str(v) for k, v in wire.to_dict(stat).items()}
        answer["accept"] = {"value": value, "sequence": sequence and str(sequence)}
        if sequence == 0:
            answer["accept"]["sequence"] = "0"
    say(answer)
"""
CLASS = f"""
from pytest_loadwire import DecoderContract, Deviation

class TestRouter(DecoderContract):
    testee = [{sys.executable!r}, "toy.py"]
"""

LIMITED = "class TestRouter(DecoderContract):\n    start_timeout = 0.25\n"


@pytest.fixture
def repo(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with a testee that conforms and a test class for it."""
    pytester.makepyfile(toy=TESTEE, test_router=CLASS)
    return pytester


def change(repo: pytest.Pytester, old: str, new: str, file: str = "toy.py") -> None:
    path = repo.path / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_a_testee_passes_every_vector(repo: pytest.Pytester):
    """Revision and policies come from the greeting, frames are asked as well, nothing leaks."""
    result = repo.runpytest_subprocess("-W", "error", "-q")

    result.assert_outcomes(passed=FORMS + len(GOLDEN.frames) + 1)


def test_a_testee_under_xdist(repo: pytest.Pytester):
    """Each worker has a testee of its own."""
    result = repo.runpytest_subprocess("-W", "error", "-q", "-n2", "-k", "W9 or declarations")

    assert {"passed"} == set(result.parseoutcomes())


def test_one_crash_costs_one_vector(repo: pytest.Pytester):
    """A testee that dies at one payload fails that vector, in its own words, and no other."""
    lying = GOLDEN.payload("lying-tag")
    change(repo, "    try:", f"    if case.get('hex') == '{lying.hex}': os.abort()\n    try:")

    result = repo.runpytest_subprocess("-q", "-k", "W10 or declarations")

    assert 1 == result.parseoutcomes()["failed"]
    result.stdout.fnmatch_lines(
        [
            "W10 crashed: a router rejects what is not a whole LoadStat array",
            "*got       crashed: killed by signal SIGABRT before the answer to case *",
        ]
    )


def test_a_broken_adapter_fails_as_that(repo: pytest.Pytester):
    """No vector is judged, no rule is named, and one failure says why."""
    change(repo, '"loadwire": 1', '"loadwire": 3')

    result = repo.runpytest_subprocess("-q", "-rs", "-k", "W9 or declarations")

    outcome = result.parseoutcomes()
    assert {"failed", "skipped", "deselected"} == set(outcome)
    assert 1 == outcome["failed"]
    says = "the adapter does not work, so that no vector is judged: other protocol version: it"
    assert 1 == sum(line.startswith(says) for line in result.outlines)
    result.stdout.fnmatch_lines(["*nothing is judged: see test_declarations"])


def test_a_start_has_a_timeout_of_its_own(repo: pytest.Pytester):
    """A testee that does not greet in `start_timeout` is a broken adapter; 60 s unless said."""
    change(repo, "\nsay({", "\nsys.stdin.read()\nsay({")
    change(repo, "class TestRouter(DecoderContract):\n", LIMITED, "test_router.py")

    result = repo.runpytest_subprocess("-q", "-k", "W9 or declarations")

    result.stdout.fnmatch_lines(["the adapter does not work, *: no greeting within 0.25 s*"])
    assert 1 == result.parseoutcomes()["failed"]
    assert DecoderContract.start_timeout == START_TIMEOUT == 60


def test_the_smoke_run_comes_first(repo: pytest.Pytester):
    """An adapter that answers in other words is broken, and not a decoder that misreads all."""
    change(repo, "value = {k:", "value = {k.upper():")

    result = repo.runpytest_subprocess("-q", "-k", "W2 or declarations")

    result.stdout.fnmatch_lines(["*none of its field names is the contract's: NUM_RUNNING_REQS*"])


def test_the_class_may_say_otherwise(repo: pytest.Pytester):
    """Policies of the class go over those of the greeting; a revision has to be the testee's."""
    own = '    policies = {"NilTail": "accept"}\n    revision = 1\n'
    change(repo, "toy.py", 'toy.py"]\n' + own + "    deviations = [", "test_router.py")
    change(repo, 'deviations = ["]', "deviations = []", "test_router.py")

    result = repo.runpytest_subprocess("-q", "-k", "declarations")

    result.stdout.fnmatch_lines(["*revision = 2, as the testee's greeting says"])
    change(repo, "    revision = 1\n", "", "test_router.py")
    result = repo.runpytest_subprocess("-q", "-k", "rev2-nil or declarations")
    assert (5, 1) == tuple(result.parseoutcomes()[key] for key in ("failed", "passed"))


def test_deviations_are_declared_as_ever(repo: pytest.Pytester):
    """What a testee has to live with is declared on the class."""
    change(repo, "wire.to_dict(stat)", "{**dict(max_running_requests=0), **wire.to_dict(stat)}")
    declared = 'Deviation(rule="W2", deed="wrong-value", reason="zeros")'
    text = CLASS.rstrip() + f"\n    deviations = [{declared}]\n"
    repo.makepyfile(test_router=text)

    result = repo.runpytest_subprocess("-q", "-k", "W2-")

    assert {"xfailed", "deselected"} == set(result.parseoutcomes())


def test_a_shared_library_passes_every_vector(
    loadwire_native: NativeDecoder, pytester: pytest.Pytester
):
    """A library says itself what it reads and declares, and reads an older revision if asked."""
    body = f"    native = {str(loadwire_native.path)!r}\n"
    head = "from pytest_loadwire import DecoderContract\n\n"
    classes = f"class TestNew(DecoderContract):\n{body}\nclass TestOld(DecoderContract):\n{body}"
    pytester.makepyfile(test_router=f"{head}{classes}    revision = 1\n")

    result = pytester.runpytest_subprocess("-W", "error", "-q")

    result.assert_outcomes(passed=2 * (FORMS + len(GOLDEN.frames) + 1))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('native = "libno.so"', "*judged: libno.so does not load: *"),
        ('native, testee = "a", ["b"]', "*judged: testee and native are both given; a class *"),
        ('testee = ["./none"]', "*judged: not started: ./none cannot be started: No such file*"),
        ('testee = "./none"', "*judged: not started: a command is a list of a program and *"),
    ],
)
def test_a_reader_that_cannot_be_reached(pytester: pytest.Pytester, body: str, says: str):
    """A class that names no usable decoder fails with what is wrong with it."""
    head = "from pytest_loadwire import DecoderContract\n\nclass TestRouter(DecoderContract):\n    "
    pytester.makepyfile(test_router=head + body)

    result = pytester.runpytest_subprocess("-q", "-k", "declarations or rev1-anchor-small")

    outcome = result.parseoutcomes()
    assert (1, 1) == (outcome["failed"], outcome["skipped"])
    result.stdout.fnmatch_lines([says])
