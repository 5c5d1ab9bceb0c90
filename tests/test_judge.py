"""One comparison for every decoder: every way to fail, and what it does to traffic."""

from __future__ import annotations

import math

import pytest

from pytest_loadwire.judge import Crashed, Finding, Outcome, Refused, Taken, differences, judge
from pytest_loadwire.rules import Hazard, Policy, Reason
from pytest_loadwire.vectors import Accept, Declare, Reject

ACCEPT = Accept(
    1,
    {
        "num_running_reqs": "7",
        "num_waiting_reqs": "1",
        "num_tokens": "1024",
        "max_total_num_tokens": "8192",
        "attn_dp_rank": None,
    },
)
READING: dict[str, object] = {
    "num_running_reqs": 7,
    "num_waiting_reqs": 1,
    "num_tokens": 1024,
    "max_total_num_tokens": 8192,
    "attn_dp_rank": None,
}
MESSAGE = Accept(1, ACCEPT.value, sequence="9")
REJECT = Reject("W5", Reason.BAD_TYPE, 10, 1, Hazard.STARVES)
FRAME = Reject("F2", Reason.BAD_TOPIC, None, None, Hazard.STALE, 0)
ELSEWHERE = "bad-type at frame None, byte 11, element 1"
DECLARE = Declare(Policy.TRAILING_BYTES, {"accept": ACCEPT, "reject": REJECT})
PARTIAL = Declare(Policy.PARTIAL_TAIL, {"older": ACCEPT, "partial": ACCEPT})

# a field to change, its value, what is wrong with it, the hazard
WRONG_VALUES: list[tuple[str, object, str, Hazard]] = [
    ("num_running_reqs", 0, "7 as 0", Hazard.ATTRACTS_ALL),
    ("num_running_reqs", 6, "7 as 6", Hazard.ATTRACTS_ALL),
    ("num_running_reqs", 8, "7 as 8", Hazard.STARVES),
    ("num_running_reqs", -7, "7 as -7", Hazard.ATTRACTS_ALL),
    ("num_running_reqs", 7.0, "7 as 7.0", Hazard.STALE),
    ("num_running_reqs", "7", "7 as '7'", Hazard.STALE),
    ("num_running_reqs", None, "7 as None", Hazard.STALE),
    ("num_waiting_reqs", True, "1 as True", Hazard.STALE),
    ("num_waiting_reqs", 2, "1 as 2", Hazard.STARVES),
    ("num_tokens", 0, "1024 as 0", Hazard.ATTRACTS_ALL),
    ("max_total_num_tokens", 0, "8192 as 0", Hazard.DIVIDES_BY_ZERO),
    ("max_total_num_tokens", None, "8192 as None", Hazard.DIVIDES_BY_ZERO),
    ("max_total_num_tokens", 1, "8192 as 1", Hazard.STALE),
    ("attn_dp_rank", 0, "nothing as 0", Hazard.STALE),
    ("num_total_tokens", 0, "nothing as 0", Hazard.ATTRACTS_ALL),
    ("num_total_tokens", 5, "nothing as 5", Hazard.STARVES),
    ("no_such_field", 0, "nothing as 0", Hazard.STALE),
]

# verdict, what the reader did, deed, rule, hazard
FINDINGS: list[tuple[Accept | Reject, Outcome, str, str, Hazard]] = [
    (ACCEPT, Refused("truncated"), "refused", "W3", Hazard.STALE),
    (ACCEPT, Refused(), "refused", "W3", Hazard.STALE),
    (ACCEPT, Crashed("boom"), "crashed", "W3", Hazard.CRASH),
    (ACCEPT, Taken(READING, 2), "wrong-value", "W3", Hazard.STALE),
    (ACCEPT, Taken({}), "wrong-value", "W3", Hazard.DIVIDES_BY_ZERO),
    (REJECT, Taken(READING), "accepted", "W5", Hazard.STARVES),
    (REJECT, Taken({}), "accepted", "W5", Hazard.STARVES),
    (REJECT, Crashed("boom"), "crashed", "W5", Hazard.CRASH),
    (REJECT, Refused("truncated"), "wrong-reason", "W5", Hazard.NONE),
    (REJECT, Refused("no-code"), "wrong-reason", "W5", Hazard.NONE),
    (MESSAGE, Taken(READING, 1, 8), "wrong-value", "F3", Hazard.STALE),
    (MESSAGE, Taken(READING, 1, None), "wrong-value", "F3", Hazard.STALE),
    (MESSAGE, Taken(READING, 1, 9.0), "wrong-value", "F3", Hazard.STALE),  # type: ignore[arg-type]
    (MESSAGE, Taken({**READING, "num_tokens": 0}, 1, 8), "wrong-value", "W3", Hazard.ATTRACTS_ALL),
]

# verdict, what the reader did: nothing to say
FINE: list[tuple[Accept | Reject, Outcome]] = [
    (ACCEPT, Taken(READING)),
    (ACCEPT, Taken(READING, 1)),
    (ACCEPT, Taken({k: v for k, v in READING.items() if v is not None}, 1)),
    (ACCEPT, Taken({**READING, "num_total_tokens": None}, 1)),
    (ACCEPT, Taken(READING, 1, 77)),
    (MESSAGE, Taken(READING, 1, 9)),
    (REJECT, Refused()),
    (REJECT, Refused("bad-type")),
    (REJECT, Refused("bad-type", 99, 5)),
    (FRAME, Refused("bad-topic")),
]


def ask(
    verdict: Accept | Reject | Declare,
    outcome: Outcome,
    policies: dict[Policy, str] | None = None,
    *,
    places: bool = False,
) -> Finding | None:
    return judge(verdict, outcome, rule="W3", policies=policies or {}, places=places)


@pytest.mark.parametrize(("verdict", "outcome"), FINE)
def test_fine(verdict: Accept | Reject, outcome: Outcome) -> None:
    """What a reader owes, it may say in fewer words."""
    assert ask(verdict, outcome) is None


@pytest.mark.parametrize(("verdict", "outcome", "deed", "rule", "hazard"), FINDINGS)
def test_finding(
    verdict: Accept | Reject, outcome: Outcome, deed: str, rule: str, hazard: Hazard
) -> None:
    """Every way to fail has its deed, its rule and its hazard."""
    finding = ask(verdict, outcome)
    assert finding is not None
    assert (deed, rule, hazard) == (finding.deed, finding.rule, finding.hazard)
    assert str(outcome) in finding.got


@pytest.mark.parametrize(("name", "value", "says", "hazard"), WRONG_VALUES)
def test_wrong_value(name: str, value: object, says: str, hazard: Hazard) -> None:
    """A value is wrong by type as well, and above all 0 is not what is missing."""
    finding = ask(ACCEPT, Taken({**READING, name: value}, 1))
    assert finding is not None
    assert ("wrong-value", hazard) == (finding.deed, finding.hazard)
    assert finding.got.endswith(f": {name} {says}")


def test_not_a_number() -> None:
    """A reading that is no number starves: no comparison puts it first."""
    finding = ask(ACCEPT, Taken({**READING, "num_running_reqs": math.nan}))
    assert finding is not None
    assert finding.hazard is Hazard.STARVES


def test_missing_count() -> None:
    """A count that was not read is wrong, each by its name."""
    expected = {"num_running_reqs": "7 as None", "num_tokens": "1024 as None"}
    got = {k: v for k, v in READING.items() if k not in expected}
    assert expected == differences(ACCEPT.reading, got)


def test_nil_for_zero() -> None:
    """Nil where 0 was sent is wrong as well."""
    assert {"attn_dp_rank": "0 as None"} == differences({"attn_dp_rank": 0}, {"attn_dp_rank": None})


@pytest.mark.parametrize(
    ("outcome", "got"),
    [
        (Refused("bad-type", 11, 1), ELSEWHERE),
        (Refused("bad-type", 10, 2), "bad-type at frame None, byte 10, element 2"),
        (Refused("bad-type", 10, 1, 2), "bad-type at frame 2, byte 10, element 1"),
        (Refused("bad-type"), "bad-type at frame None, byte None, element None"),
    ],
)
def test_wrong_place(outcome: Refused, got: str) -> None:
    """Where places count, frame, byte and element have to agree."""
    assert ask(REJECT, outcome) is None
    finding = ask(REJECT, outcome, places=True)
    assert finding is not None
    expected = ("wrong-place", "bad-type at frame None, byte 10, element 1", got)
    assert expected == (finding.deed, finding.expected, finding.got)


def test_right_place() -> None:
    """The right place is fine."""
    assert ask(REJECT, Refused("bad-type", 10, 1), places=True) is None
    assert ask(FRAME, Refused("bad-topic", frame=0), places=True) is None


@pytest.mark.parametrize(
    ("declared", "says"),
    [({}, "nothing is declared"), ({Policy.TRAILING_BYTES: "older"}, "'older' is declared")],
)
@pytest.mark.parametrize("outcome", [Taken(READING), Refused("bad-type"), Crashed("boom")])
def test_undeclared(declared: dict[Policy, str], says: str, outcome: Outcome) -> None:
    """A policy that is not declared is a failure, whatever the reader did."""
    finding = ask(DECLARE, outcome, declared)
    assert finding is not None
    assert ("undeclared", "W3", says) == (finding.deed, finding.rule, finding.got)
    assert "the policy TrailingBytes to be declared as 'accept' or 'reject'" == finding.expected


def test_undeclared_partial_tail() -> None:
    """The answers for a partial tail are its own."""
    finding = ask(PARTIAL, Taken(READING), {Policy.PARTIAL_TAIL: "accept"})
    assert finding is not None
    assert "PartialTail to be declared as 'older' or 'partial'" in finding.expected


@pytest.mark.parametrize(
    ("answer", "outcome", "deed"),
    [
        ("accept", Taken(READING), None),
        ("accept", Refused("bad-type"), "refused"),
        ("reject", Refused("bad-type"), None),
        ("reject", Taken(READING), "accepted"),
        ("reject", Crashed("boom"), "crashed"),
    ],
)
def test_declared(answer: str, outcome: Outcome, deed: str | None) -> None:
    """A reader owes the verdict under the answer that it declared."""
    finding = ask(DECLARE, outcome, {Policy.TRAILING_BYTES: answer})
    assert deed == (finding and finding.deed)


def test_declared_place() -> None:
    """Places count under a policy too."""
    policies = {Policy.TRAILING_BYTES: "reject"}
    finding = ask(DECLARE, Refused("bad-type", 11, 1), policies, places=True)
    assert finding is not None
    assert finding.deed == "wrong-place"


def test_text() -> None:
    """A finding is one sentence: rule, deed, expected, got."""
    finding = ask(REJECT, Taken({"num_running_reqs": 7, "attn_dp_rank": None}, 1, 3))
    expected = (
        "W5 accepted: expected a refusal with bad-type at element 1, "
        "got (sequence=3, num_running_reqs=7, attn_dp_rank=nil)"
    )
    assert expected == str(finding)
    refused = Refused("truncated", text="too little")
    assert str(ask(REJECT, refused)).endswith("got refused with truncated: too little")
    assert str(Refused()) == "refused with no reason code"


def test_a_crash_says_what_was_raised() -> None:
    """The type of an exception stands before its message, and a note behind it."""
    assert "ValueError: too short" == Crashed.of(ValueError("too short")).text
    assert "KeyError: 'x' (as always)" == Crashed.of(KeyError("x"), "as always").text
