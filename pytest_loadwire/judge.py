"""One comparison for every decoder: what a vector asks for against what a reader made of it.

`Taken`, `Refused` and `Crashed` are what a reader can do; :func:`judge` holds one of them against a
verdict. The contract classes, ``loadwire check`` and the differential tests all call it, so that a
decoder in any language fails for the same reasons in the same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_loadwire.rules import POLICY_ANSWERS, Hazard, Policy
from pytest_loadwire.vectors import Accept, Declare, Reject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_loadwire.vectors import Reading, Verdict


class Taken(NamedTuple):
    """The reader took the bytes.

    Attributes:
        reading: Field name to int, None where nil was read; fields it did not read are missing.
        revision: The revision it says it read, or None where it does not say.
        sequence: For frames, the sequence it read.
    """

    reading: Mapping[str, object]
    revision: int | None = None
    sequence: int | None = None

    def __str__(self) -> str:
        return _show(self.reading, self.sequence)


class Refused(NamedTuple):
    """The reader refused the bytes; every attribute is optional, and judged where it is given.

    Attributes:
        reason: The reason code.
        offset: The byte of the payload to blame.
        element: The array element to blame.
        frame: The frame to blame.
        text: The reader's own words.
    """

    reason: str | None = None
    offset: int | None = None
    element: int | None = None
    frame: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"refused with {self.reason or 'no reason code'}" + (self.text and f": {self.text}")


class Crashed(NamedTuple):
    """The reader neither took nor refused the bytes: it failed.

    Attributes:
        text: How, for example the exception with its message.
    """

    text: str

    @classmethod
    def of(cls, error: BaseException, note: str = "") -> Crashed:
        """What an exception says, behind its type, with a note in brackets."""
        return cls(f"{type(error).__name__}: {error}" + (note and f" ({note})"))

    def __str__(self) -> str:
        return f"crashed: {self.text}"


Outcome = Taken | Refused | Crashed

Deed = Literal[
    "accepted",
    "refused",
    "wrong-value",
    "wrong-reason",
    "wrong-place",
    "wrong-bytes",
    "crashed",
    "undeclared",
    "sent",
    "not-sent",
    "wrong-sequence",
    "wrong-socket",
    "wrong-order",
    "left-open",
    "asked",
    "not-asked",
    "warned",
    "not-warned",
    "wrong-range",
    "disagrees",
    "logged",
]
"""In what way an implementation failed a vector; ``wrong-bytes`` and what is behind ``undeclared``
are an engine's: a message too many or missing, a provider asked or not, a warning too many or
missing, a range elsewhere, two parts that disagree, a resolver that logs."""


class Finding(NamedTuple):
    """One failed vector.

    Attributes:
        deed: In what way.
        rule: The rule that is broken.
        expected: What the contract asks for.
        got: What the reader did.
        hazard: What that does to traffic; by itself nothing.
    """

    deed: Deed
    rule: str
    expected: str
    got: str
    hazard: Hazard = Hazard.NONE

    def __str__(self) -> str:
        return f"{self.rule} {self.deed}: expected {self.expected}, got {self.got}"


def judge(
    verdict: Verdict,
    outcome: Outcome,
    *,
    rule: str,
    policies: Mapping[Policy, str],
    places: bool = False,
) -> Finding | None:
    """Hold what a reader did against what it owes.

    Args:
        verdict: The vector's verdict for a reader of this revision.
        outcome: What the reader did.
        rule: The vector's rule, named where the verdict has none of its own.
        policies: What the reader declares; an answer that is asked for and missing is a finding.
        places: Whether byte offset and element of a refusal have to agree as well.

    Returns:
        What is wrong, or None.
    """
    if isinstance(verdict, Declare):
        answer = policies.get(verdict.policy)
        if answer not in verdict.outcomes:
            choices = " or ".join(repr(choice) for choice in POLICY_ANSWERS[verdict.policy])
            declared = "nothing is declared" if answer is None else f"{answer!r} is declared"
            return Finding(
                "undeclared",
                rule,
                f"the policy {verdict.policy} to be declared as {choices}",
                declared,
                Hazard.NONE,
            )
        return judge(verdict.outcomes[answer], outcome, rule=rule, policies=policies, places=places)
    if isinstance(verdict, Reject):
        return _judge_refusal(verdict, outcome, places=places)
    return _judge_reading(verdict, outcome, rule)


def _judge_refusal(verdict: Reject, outcome: Outcome, *, places: bool) -> Finding | None:
    expected = f"a refusal with {verdict.reason}"
    if verdict.element is not None:
        expected += f" at element {verdict.element}"
    if isinstance(outcome, Crashed):
        return Finding("crashed", verdict.rule, expected, str(outcome), Hazard.CRASH)
    if isinstance(outcome, Taken):
        return Finding("accepted", verdict.rule, expected, str(outcome), verdict.hazard)
    if outcome.reason is not None and outcome.reason != verdict.reason:
        return Finding("wrong-reason", verdict.rule, expected, str(outcome), Hazard.NONE)
    if places:
        asked = (verdict.frame, verdict.offset, verdict.element)
        named = (outcome.frame, outcome.offset, outcome.element)
        if asked != named:
            places_text = "{} at frame {}, byte {}, element {}"
            return Finding(
                "wrong-place",
                verdict.rule,
                places_text.format(verdict.reason, *asked),
                places_text.format(outcome.reason, *named),
                Hazard.NONE,
            )
    return None


def _judge_reading(verdict: Accept, outcome: Outcome, rule: str) -> Finding | None:
    reading = verdict.reading
    sequence = None if verdict.sequence is None else int(verdict.sequence)
    expected = f"revision {verdict.revision}, {_show(reading, sequence)}"
    if isinstance(outcome, Crashed):
        return Finding("crashed", rule, expected, str(outcome), Hazard.CRASH)
    if isinstance(outcome, Refused):
        return Finding("refused", rule, expected, str(outcome), Hazard.STALE)
    wrong = differences(reading, outcome.reading)
    hazard = hazard_of(reading, outcome.reading) if wrong else Hazard.STALE
    if outcome.revision not in (None, verdict.revision):
        wrong["revision"] = f"{verdict.revision} as {outcome.revision}"
    if sequence is not None and not (
        type(outcome.sequence) is int and outcome.sequence == sequence
    ):
        rule = rule if wrong else "F3"
        wrong["sequence"] = f"{sequence} as {outcome.sequence!r}"
    if not wrong:
        return None
    got = f"{outcome}: {', '.join(f'{name} {reads}' for name, reads in wrong.items())}"
    return Finding("wrong-value", rule, expected, got, hazard)


def differences(expected: Reading, got: Mapping[str, object]) -> dict[str, str]:
    """The fields in which a reading is wrong, each as ``expected as got``.

    A field that the revision does not have may be missing or None, and nothing else: above all not
    0. Types count: True is not 1 and 7.0 is not 7.
    """
    wrong = {}
    for name in {**expected, **got}:
        asked, read = expected.get(name), got.get(name)
        if asked is None and read is None:
            continue
        if type(read) is not int or read != asked:
            wrong[name] = f"{'nothing' if asked is None else asked} as {read!r}"
    return wrong


# What a router adds up to see how loaded a worker is.
_LOAD = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_tokens",
    "num_waiting_uncached_tokens",
    "num_total_tokens",
)


def hazard_of(expected: Reading, got: Mapping[str, object]) -> Hazard:
    """What a least-loaded router does that takes ``got`` for ``expected``."""
    for name in _LOAD:
        asked, read = expected.get(name), got.get(name)
        if not isinstance(read, int | float) or read == asked:
            continue
        # A load that was never sent and reads as 0 is the zero that says "idle".
        return Hazard.ATTRACTS_ALL if read < (asked or 1) else Hazard.STARVES
    if expected.get("max_total_num_tokens") and not got.get("max_total_num_tokens"):
        return Hazard.DIVIDES_BY_ZERO
    return Hazard.STALE


def _show(reading: Mapping[str, object], sequence: int | None) -> str:
    fields = ", ".join(f"{k}={'nil' if v is None else v}" for k, v in reading.items())
    return f"({'' if sequence is None else f'sequence={sequence}, '}{fields})"
