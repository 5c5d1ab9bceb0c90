"""Decoders as router authors write them break the rules that are declared, and no others."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from decoders import build
from decoders.build import NotBuiltError
from decoders.catalogue import WILD, Expected, Wild, asked
from decoders.table import README, between, conformance_table, skew_table
from pytest_loadwire import conform, skew, vectors
from pytest_loadwire.conform import Conformance
from pytest_loadwire.harness.testee import Testee
from pytest_loadwire.vectors import Accept, Declare, Reject

Broken = set[tuple[str, str, str]]

POSSIBLE = {
    "accepted": Reject,
    "refused": Accept,
    "wrong-value": Accept,
    "crashed": (Accept, Reject),
}
"""What has to be owed for a deed to be possible."""


@pytest.fixture(params=WILD, ids=lambda decoder: decoder.name)
def decoder(request: pytest.FixtureRequest) -> Wild:
    """Each decoder whose tools are on this machine."""
    missing = _missing(request.param)
    if missing is not None:
        pytest.skip(f"NOT RUN: {missing}")
    return request.param


def test_breaks_what_is_declared_and_nothing_else(decoder: Wild):
    """Exactly the declared cases fail, each in the declared way."""
    result, _ = asked(decoder.name)

    broken = {(f.rule, f.finding.deed, f.case) for f in result.failures}
    declared = _declared(decoder.expected, result)

    assert result.adapter is None
    surplus = sorted(broken - declared)
    texts = [str(f.finding) for f in result.failures if (f.rule, f.finding.deed, f.case) in surplus]
    assert [] == surplus, f"fails, and is not declared: {texts}"
    assert [] == sorted(declared - broken), "is declared, and does not fail that way any more"


def test_every_declaration_covers_something(decoder: Wild):
    """No pattern of a declaration is left over from a library or a vector that changed."""
    result, _ = asked(decoder.name)

    idle = [
        (expected.rule, expected.deed, pattern)
        for expected in decoder.expected
        for pattern in expected.cases
        if not _declared([expected._replace(cases=(pattern,))], result)
    ]

    assert [] == idle


def test_the_greeting_names_the_decoder(decoder: Wild):
    """The program that was built is the one that the catalogue means."""
    result, row = asked(decoder.name)

    assert (decoder.name, decoder.name) == (result.name, row.name)


def test_the_crate_of_this_repository_conforms():
    """The Rust crate is a testee too, and the only one here that takes whole messages."""
    missing = _missing(WILD[0])
    if missing is not None:
        pytest.skip(f"NOT RUN: {missing}")

    with Testee(build.crate()) as testee:
        result = conform.run(testee)
        row = skew.ask(testee)
        ending = testee.finish()

    assert ([], {}, None) == (result.failures, result.not_run, ending)
    assert "either" == row.advice


def test_the_readme_shows_the_tables_of_this_run():
    """The README's tables are those that come out, as far as this machine could build."""
    missing = {wild.name: why for wild in WILD if (why := _missing(wild)) is not None}
    built = [wild.name for wild in WILD if wild.name not in missing]

    for name, table in {"decoders": conformance_table(built), "skew": skew_table(built)}.items():
        shown = between(README.read_text("utf-8"), name).splitlines()
        assert table[:2] == shown[:2]
        assert [] == [line for line in table if line not in shown]
        assert missing or len(table) == len(shown)
    if missing:
        rows = "; ".join(f"{name}: {why}" for name, why in missing.items())
        pytest.skip(f"NOT RUN, rows not compared: {rows}")


def _missing(decoder: Wild) -> str | None:
    """What this machine lacks to build a decoder, or None. A build that fails is no such thing."""
    try:
        decoder.command()
    except NotBuiltError as error:
        return str(error)
    return None


def _declared(expected: tuple[Expected, ...] | list[Expected], result: Conformance) -> Broken:
    cases = [
        (vector.rule, form, _owed(vector.readers[str(result.revision)], result))
        for vector in vectors.load().payloads
        for form, _ in vector.forms()
    ]
    return {
        (rule, entry.deed, form)
        for entry in expected
        for rule, form, owed in cases
        if rule == entry.rule
        and isinstance(owed, POSSIBLE[entry.deed])
        and any(fnmatchcase(form, pattern) for pattern in entry.cases)
    }


def _owed(verdict: vectors.Verdict, result: Conformance) -> Accept | Reject:
    if isinstance(verdict, Declare):
        return verdict.outcomes[result.policies[verdict.policy]]
    return verdict
