"""One reader against every vector: counts, order and what a failure says."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pytest_loadwire import conform, wire
from pytest_loadwire.conform import Failure
from pytest_loadwire.judge import Crashed, Finding, Outcome, Refused, Taken
from pytest_loadwire.reader import Reader, ReferenceReader
from pytest_loadwire.rules import RULES, Hazard, Policy
from pytest_loadwire.vectors import load
from pytest_loadwire.witness import STRICT

GOLDEN = load()

Make = Callable[[Callable[[bytes], Outcome]], Reader]
FORMS = sum(1 for vector in GOLDEN.payloads for _ in vector.forms())


def sloppy(payload: bytes) -> Outcome:
    """Reads whatever the reference refuses as an idle worker."""
    outcome = ReferenceReader(2).decode(payload)
    idle = Taken(dict.fromkeys(wire.field_names(), 0))
    return idle if isinstance(outcome, Refused) and payload != b"\xc0" else outcome


def test_the_reference_conforms():
    """Every form of every vector is asked once and passes, frames included."""
    result = conform.run(ReferenceReader(2))

    assert (True, None, [], {}) == (result.ok, result.adapter, result.failures, result.not_run)
    assert FORMS + len(GOLDEN.frames) == sum(result.passed.values())


def test_payloads_alone_are_said_to_be_alone(make_reader: Make):
    """What was not asked is in the result, with its reason."""
    result = conform.run(make_reader(ReferenceReader(2).decode))

    assert result.ok
    assert FORMS == sum(result.passed.values())
    assert ["frames"] == list(result.not_run)


def test_a_broken_adapter_is_not_judged(make_reader: Make):
    """Where the smoke run fails no vector is asked."""
    result = conform.run(make_reader(lambda _: Crashed("no")))

    assert not result.ok
    assert (0, []) == (sum(result.passed.values()), result.failures)
    assert {"vectors": "the adapter does not work"} == result.not_run


def test_the_worst_comes_first(make_reader: Make):
    """Failures are ordered by hazard, then by rule, and the counts are those of the failures."""
    result = conform.run(make_reader(sloppy))

    order = [
        (list(Hazard).index(f.finding.hazard), list(RULES).index(f.rule)) for f in result.failures
    ]
    assert order == sorted(order)
    assert Hazard.ATTRACTS_ALL == result.failures[0].finding.hazard
    assert len(result.failures) == sum(result.hazards.values()) == sum(result.failed.values())
    assert FORMS == sum(result.passed.values()) + len(result.failures)
    assert result.rules == [rule for rule in RULES if rule in result.rules]


def test_a_failure_names_vector_rule_and_bytes(make_reader: Make):
    """A failure says rule, deed, case, expected, got, hazard, and shows the bytes by element."""
    result = conform.run(make_reader(sloppy))
    failure = next(f for f in result.failures if f.case == "too-short-4-elements")

    lines = str(failure).splitlines()
    vector = GOLDEN.payload("too-short-4-elements")

    assert f"W9 accepted: {RULES['W9']}" == lines[0]
    assert f"  case      too-short-4-elements ({vector.why})" == lines[1]
    assert "  expected  a refusal with too-short at element 4" == lines[2]
    assert lines[3].startswith("  got       (num_running_reqs=0, ")
    assert lines[4].startswith("  hazard    divides-by-zero: ")
    assert lines[5].endswith("array of 4")
    assert ("too-short-4-elements", [vector.hex]) == (
        failure.to_json()["vector"],
        failure.to_json()["bytes"],
    )


def test_a_message_is_shown_frame_by_frame():
    """A failure about a message shows its frames."""

    class Deaf(ReferenceReader):
        def parse_frames(self, frames: object, revision: int | None = None) -> Outcome:
            return Refused()

    result = conform.run(Deaf(2))

    assert {"refused"} == {f.finding.deed for f in result.failures}
    assert "frame 0 (topic): b'load'" in str(result.failures[0])


def test_an_undeclared_policy_fails():
    """Each policy that is not declared fails the vectors that ask for it, and says which."""
    reader = ReferenceReader(2)
    reader.policies = {policy: STRICT[policy] for policy in Policy if policy != "NilTail"}

    result = conform.run(reader)

    assert {"undeclared"} == {f.finding.deed for f in result.failures}
    assert all("NilTail" in f.finding.expected for f in result.failures)


def test_the_result_is_json(make_reader: Make):
    """Machines get the same, with every failure."""
    result = conform.run(make_reader(sloppy))

    loaded = json.loads(json.dumps(result.to_json()))

    assert len(result.failures) == len(loaded["failures"])
    assert {rule: counts["failed"] for rule, counts in loaded["rules"].items()} == {
        rule: result.failed[rule] for rule in result.rules
    }
    assert (False, "toy", 2) == (loaded["ok"], loaded["reader"], loaded["revision"])


@pytest.mark.parametrize(
    ("elements", "left_out"),
    [(14, None), (15, "... 1 more line"), (16, "... 2 more lines"), (5000, "... 50 more lines")],
)
def test_the_bytes_of_a_failure_are_capped(elements: int, left_out: str | None):
    """A whole message is shown, and of a longer one the beginning and how much was left out."""
    payload = b"\xdc" + elements.to_bytes(2, "big") + bytes(elements)
    finding = Finding("refused", "W8", "a reading", "a refusal", Hazard.NONE)

    lines = str(Failure("W8", "long", "to be cut", finding, (payload,), False)).splitlines()

    assert 5 + 15 == len([line for line in lines if not line.startswith("  ... ")])
    assert [left_out] * (left_out is not None) == [line.strip() for line in lines[20:]]
