"""The vocabulary: one set of ids and codes for every language."""

from __future__ import annotations

import re
from enum import Enum

import pytest

from pytest_loadwire.rules import (
    HAZARD_TEXT,
    POLICY_ANSWERS,
    READER_REASONS,
    REASON_RULE,
    RULE_TITLES,
    RULES,
    Hazard,
    Policy,
    Reason,
)

# Spelled again from the contract: neither codes nor their order ever change.
REASONS = [
    "malformed",
    "truncated",
    "not-array",
    "bad-tag",
    "too-short",
    "bad-type",
    "out-of-range",
    "trailing-bytes",
    "frame-count",
    "bad-topic",
    "bad-seq-length",
    "negative-seq",
]
ENGINE_REASONS = ["extra-elements", "not-canonical"]
POLICIES = ["TrailingBytes", "OmittedRank", "TagAsBin", "CountAboveI64", "PartialTail", "NilTail"]
HAZARDS = ["attracts-all", "starves", "divides-by-zero", "stale", "crash", "none"]
AREAS = {"W": 12, "F": 5, "S": 3, "K": 4, "R": 3, "E": 8, "V": 1, "A": 4, "P": 7, "C": 7}


@pytest.mark.parametrize(
    ("codes", "kind"),
    [(REASONS + ENGINE_REASONS, Reason), (POLICIES, Policy), (HAZARDS, Hazard)],
)
def test_codes(codes: list[str], kind: type[Enum]) -> None:
    """The codes are those of the contract, in its order."""
    assert codes == [str(code) for code in kind]


def test_codes_are_strings() -> None:
    """A code prints as its value, also in an f-string, and equals it."""
    assert ("bad-tag", "bad-tag") == (f"{Reason.BAD_TAG}", str(Reason.BAD_TAG))
    expected: str = "bad-tag"
    assert expected == Reason.BAD_TAG


def test_reader_reasons() -> None:
    """A reader's reasons stand in the order of the C ABI's numbers."""
    assert REASONS == [str(reason) for reason in READER_REASONS]


def test_rules() -> None:
    """Every area of the contract is there with all its rules, numbered from 1 without a gap."""
    expected = [f"{area}{number}" for area, most in AREAS.items() for number in range(1, most + 1)]
    assert expected == list(RULES)
    assert all(re.fullmatch(r"[^\n.]{10,100}", text) for text in RULES.values())


def test_every_reason_has_a_rule() -> None:
    """Every reason names a rule of the contract, by the contract's own table."""
    assert set(Reason) == set(REASON_RULE)
    payload = ["W10", "W10", "W10", "W1", "W9", "W5", "W5", "W6"]
    expected = [*payload, "F1", "F2", "F3", "F3", "W4", "W6"]
    assert expected == [REASON_RULE[reason] for reason in Reason]


def test_every_policy_has_two_answers() -> None:
    """A policy is answered with accept or reject; how a partial tail is read, with older or not."""
    assert set(Policy) == set(POLICY_ANSWERS)
    for policy, answers in POLICY_ANSWERS.items():
        partial = policy is Policy.PARTIAL_TAIL
        assert (("older", "partial") if partial else ("accept", "reject")) == answers


def test_every_hazard_has_words() -> None:
    """Every hazard says what happens to traffic."""
    assert list(Hazard) == list(HAZARD_TEXT)


@pytest.mark.parametrize("table", [RULES, REASON_RULE, POLICY_ANSWERS, HAZARD_TEXT])
def test_tables_are_read_only(table: dict[str, str]) -> None:
    """Nobody changes the contract at run time."""
    with pytest.raises(TypeError):
        table["W1"] = ""


def test_every_rule_has_a_title():
    """Each rule has a title of its own that fits the tables, in the order of the rules."""
    assert list(RULES) == list(RULE_TITLES)
    assert len(set(RULE_TITLES.values())) == len(RULES)
    assert max(map(len, RULE_TITLES.values())) <= 20
