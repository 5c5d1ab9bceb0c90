"""What an address vector asks for against what an engine or a router made of it.

The counterpart of :mod:`pytest_loadwire.judge` for ports, advertisements and plans. Nothing here
asks the parsers of this package: the code under test does not judge itself.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.judge import Crashed, Deed, Finding, Refused
from pytest_loadwire.rules import ADDRESS_ANSWERS, AddressPolicy, Hazard
from pytest_loadwire.vectors.addresses import (
    Advertised,
    Choice,
    Declined,
    Passes,
    Planned,
    Range,
    Refuses,
    Unadvertised,
    Unplanned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOAD_KEYS = ("load_endpoint_port_base", "load_topic")
"""The two keys that stand together or not at all (rule A2)."""

OFF = "off"
"""The reason code of the one decline that owes no word (rule E1)."""


class Resolution(NamedTuple):
    """What a resolver answered: a range, or a decline with what it says of it.

    Attributes:
        host: The host of a range, without brackets; None for a decline.
        base: Its first port.
        code: The reason code of a decline, where it has one.
        text: What it says of the decline.
    """

    host: str | None = None
    base: int | None = None
    code: str | None = None
    text: str = ""

    @property
    def is_range(self) -> bool:
        """Whether load is published."""
        return self.host is not None

    @property
    def is_quiet(self) -> bool:
        """Whether a decline has no word for an operator."""
        return not self.text.strip() and self.code in (None, OFF)

    def __str__(self) -> str:
        if self.is_range:
            return f"the range from port {self.base} on {self.host}"
        if self.is_quiet:
            return "a decline without a word"
        said = [f"with {self.code}" if self.code else "", self.text and f"saying {self.text!r}"]
        return " ".join(["a decline", *filter(None, said)])


class Dialled(NamedTuple):
    """What a router subscribes to: rank and endpoint of each."""

    endpoints: Sequence[tuple[int, str]]

    def __str__(self) -> str:
        return ", ".join(f"rank {rank} at {endpoint}" for rank, endpoint in self.endpoints)


class Read(NamedTuple):
    """What a hook answered where any value will do."""

    value: object

    def __str__(self) -> str:
        return repr(self.value)


def choose(expect: Any, *, rule: str, policies: Mapping[AddressPolicy, str]) -> Any:
    """What is owed under the declared policies, or the finding that one is not declared."""
    if not isinstance(expect, Choice):
        return expect
    answer = policies.get(expect.policy, "")
    if answer in expect.outcomes:
        return expect.outcomes[answer]
    choices = " or ".join(repr(choice) for choice in ADDRESS_ANSWERS[expect.policy])
    declared = f"{answer!r} is declared" if answer else "nothing is declared"
    expected = f"the policy {expect.policy} to be declared as {choices}"
    return Finding("undeclared", rule, expected, declared, Hazard.NONE)


def judge_value(
    expect: object, outcome: Read | Crashed, *, rule: str, asked: str
) -> Finding | None:
    """A value that has to be exactly this one, and of its type."""
    expected = f"{expect!r} for {asked}"
    if isinstance(outcome, Crashed):
        return _finding("crashed", rule, expected, outcome)
    if type(outcome.value) is type(expect) and outcome.value == expect:
        return None
    return _finding("wrong-value", rule, expected, outcome)


def judge_range(
    expect: Range | Declined,
    outcome: Resolution | Crashed,
    *,
    rule: str,
    asked: str,
    texts: bool = True,
) -> Finding | None:
    """A resolver's answer.

    Args:
        expect: What is owed.
        outcome: What came.
        rule: The vector's rule.
        asked: The question, for the message.
        texts: Whether the text of a decline has to mention what the vector says (rule E5).
    """
    if isinstance(expect, Range):
        expected = f"{Resolution(expect.host, expect.base)} for {asked}"
        if isinstance(outcome, Crashed):
            return _finding("crashed", rule, expected, outcome)
        if not outcome.is_range:
            return _finding("refused", rule, expected, outcome)
        if (expect.host, expect.base) != outcome[:2] or type(outcome.base) is not int:
            return _finding("wrong-range", rule, expected, outcome)
        if not outcome.is_quiet:
            got = f"{outcome}, and {outcome._replace(host=None)}"
            return _finding("wrong-reason", "E5", expected, got)
        return None
    what = "a decline without a word" if expect.is_quiet else f"a decline with {expect.reason}"
    expected = f"{what} for {asked}"
    if isinstance(outcome, Crashed):
        return _finding("crashed", rule, expected, outcome)
    if outcome.is_range:
        return _finding("accepted", rule, expected, outcome)
    if expect.is_quiet or outcome.is_quiet:
        if outcome.is_quiet and expect.is_quiet:
            return None
        return _finding("wrong-reason", rule if expect.is_quiet else "E5", expected, outcome)
    if outcome.code not in (None, expect.reason):
        return _finding("wrong-reason", rule, expected, outcome)
    if not (texts and outcome.text):  # a reason code alone is a reason too
        return None
    return _judge_text(expect, outcome.text, outcome, "E5", expected)


def judge_start(
    expect: Passes | Refuses,
    outcome: Read | Refused | Crashed,
    *,
    rule: str,
    asked: str,
    texts: bool = True,
) -> Finding | None:
    """Whether an engine starts; the arguments are those of `judge_range`."""
    if isinstance(expect, Passes):
        expected = f"a start with {asked}"
        if isinstance(outcome, Read):
            return None
        return _finding(
            "refused" if isinstance(outcome, Refused) else "crashed", rule, expected, outcome
        )
    expected = f"a refusal of {asked} for {expect.reason}"
    if isinstance(outcome, Crashed):
        return _finding("crashed", rule, expected, outcome)
    if isinstance(outcome, Read):
        return _finding("accepted", rule, expected, "a start")
    if outcome.reason not in (None, expect.reason):
        return _finding("wrong-reason", rule, expected, outcome)
    if not outcome.text.strip():
        return _finding("wrong-reason", rule, f"{expected}, and a text", outcome)
    return _judge_text(expect, outcome.text, outcome, rule, expected) if texts else None


def _judge_text(
    expect: Declined | Refuses, text: str, outcome: object, rule: str, expected: str
) -> Finding | None:
    missing = [part for part in expect.mentions if part.lower() not in text.lower()]
    if missing:
        expected = (
            f"the text to mention {' and '.join(map(repr, missing))} (operators search for it;"
            f" reads_reasons = False turns this check off) in {expected}"
        )
        return _finding("wrong-reason", rule, expected, outcome)
    surplus = [part for part in expect.omits if part in text]
    if surplus:
        expected += f", without {' and '.join(map(repr, surplus))} in its text"
        return _finding("wrong-reason", rule, expected, outcome)
    return None


def judge_block(
    expect: Advertised | Unadvertised,
    outcome: Mapping[str, object] | Crashed | None,
    *,
    rule: str,
    asked: str,
) -> Finding | None:
    """A ``kv_events`` value. Keys that the contract does not know are tolerated (rule A1)."""
    if isinstance(expect, Unadvertised):
        expected = f"null for {asked}"
        if isinstance(outcome, Crashed):
            return _finding("crashed", "A4", expected, outcome)
        return None if outcome is None else _finding("accepted", rule, expected, outcome)
    expected = f"{expect.block} for {asked}"
    if isinstance(outcome, Crashed):
        return _finding("crashed", rule, expected, outcome)
    if outcome is None:
        return _finding("refused", rule, expected, "null")
    keys = [key for key in LOAD_KEYS if key in outcome]
    if len(keys) == 1:
        return _finding("wrong-value", "A2", expected, f"{keys[0]} alone in {outcome}")
    owed = [key for key in LOAD_KEYS if key in expect.block]
    if keys != owed:
        got = f"{'the' if keys else 'no'} load keys in {outcome}"
        return _finding("accepted" if keys else "refused", "A2", expected, got)
    for key, value in expect.block.items():
        if key not in outcome:
            return _finding("wrong-value", "A1", expected, f"no {key} in {outcome}")
        there = outcome[key]
        if type(there) is not type(value) or there != value:
            broken = _rule_of(key, value, there)
            return _finding("wrong-value", broken, expected, f"{key} {there!r} in {outcome}")
    return None


def _rule_of(key: str, value: object, got: object) -> str:
    if key == "load_endpoint_port_base":
        return "E7"
    if key == "endpoint_host" and isinstance(got, str) and f"[{got}]" == value:
        return "A3"
    return "A2" if key in LOAD_KEYS else "A1"


def judge_plan(
    expect: Planned | Unplanned,
    outcome: Dialled | Refused | Crashed,
    *,
    rule: str,
    asked: str,
) -> Finding | None:
    """A router's plan. IPv6 hosts may be spelled in any way, as long as brackets are around."""
    if isinstance(expect, Unplanned):
        expected = f"no plan ({expect.reason}) for {asked}"
        if isinstance(outcome, Crashed):
            return _finding("crashed", rule, expected, outcome, Hazard.CRASH)
        if isinstance(outcome, Dialled):
            return _finding("accepted", rule, expected, outcome)
        if outcome.reason not in (None, expect.reason):
            return _finding("wrong-reason", rule, expected, outcome)
        return None
    owed = list(enumerate(expect.endpoints))
    skipped = f", without rank {' and '.join(map(str, expect.skipped))}" if expect.skipped else ""
    expected = f"{Dialled(owed)}{skipped} for {asked}"
    if isinstance(outcome, Crashed):
        return _finding("crashed", rule, expected, outcome, Hazard.CRASH)
    if isinstance(outcome, Refused):
        return _finding("refused", rule, expected, outcome)
    wanted = {rank: split(endpoint) for rank, endpoint in owed}
    got = {rank: split(endpoint) for rank, endpoint in outcome.endpoints}
    if wanted == got and len(got) == len(outcome.endpoints):
        return None
    elsewhere = any(rank in wanted and place[0] != wanted[rank][0] for rank, place in got.items())
    hazard = Hazard.ATTRACTS_ALL if elsewhere else Hazard.NONE
    return _finding("wrong-value", rule, expected, outcome, hazard)


def split(endpoint: object) -> tuple[str, int | str]:
    """Host and port of a ``tcp://`` text, an IPv6 host in brackets in its shortest form.

    What is no such text is a host of its own, which equals no other.
    """
    text = str(endpoint)
    host, colon, port = text.removeprefix("tcp://").rpartition(":")
    if not text.startswith("tcp://") or not colon or not port.isdecimal() or port[0] == "0":
        return text, ""
    if host.startswith("[") and host.endswith("]"):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1])}]"
        except ValueError:
            return text, ""
    elif ":" in host:
        return text, ""
    return host.lower(), int(port)


def _finding(
    deed: Deed, rule: str, expected: str, got: object, hazard: Hazard = Hazard.NONE
) -> Finding:
    return Finding(deed, rule, expected, str(got), hazard)
