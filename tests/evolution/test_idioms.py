"""Each idiom does what the real program does that it was written after."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from decoders.catalogue import BY_NAME, WILD
from decoders.table import README, between

from pytest_loadwire import conform, skew, wire
from pytest_loadwire.evolution.idioms import IDIOMS, REFERENCE, Idiom, IdiomReader, Slot
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.vectors import Accept, Declare, Reject, load

GOLDEN = load()
TODAY = {
    int(number): [Slot(field["name"], field["type"]) for field in fields]
    for number, fields in GOLDEN.manifest["revisions"].items()
}
POSSIBLE = {
    "accepted": Reject,
    "refused": Accept,
    "wrong-value": Accept,
    "crashed": (Accept, Reject),
}


def up_to(revision: int) -> dict[int, list[Slot]]:
    return {number: slots for number, slots in TODAY.items() if number <= revision}


def by_id(idiom: Idiom) -> str:
    return idiom.id


def declared(idiom: Idiom, reader: IdiomReader) -> Iterator[tuple[str, str, str]]:
    """What the catalogue of the real programs expects of the one behind an idiom."""
    for expected in BY_NAME[idiom.id].expected:
        for vector in GOLDEN.payloads:
            owed = vector.readers[str(reader.revision)]
            if isinstance(owed, Declare):
                owed = owed.outcomes[reader.policies[owed.policy]]
            if vector.rule == expected.rule and isinstance(owed, POSSIBLE[expected.deed]):
                for form, _ in vector.forms():
                    if any(fnmatchcase(form, pattern) for pattern in expected.cases):
                        yield expected.rule, expected.deed, form


def test_every_program_has_its_idiom():
    """Names, languages, libraries and order are those of the programs and of the README."""
    programs = [(w.name, w.language, w.idiom, w.library) for w in WILD]

    assert programs == [(i.id, i.language, i.name, i.library) for i in IDIOMS]


@pytest.mark.parametrize("idiom", IDIOMS, ids=by_id)
def test_skew_is_that_of_the_program(idiom: Idiom):
    """The README's row about engines older and newer comes out of the idiom, cell by cell."""
    row = skew.ask(idiom.reader(up_to(idiom.wild)))
    (line,) = skew.table([row])[1:]

    shown = between(README.read_text("utf-8"), "skew").splitlines()
    assert "| " + " | ".join([idiom.title, *line[1:]]) + " |" in shown


@pytest.mark.parametrize("idiom", IDIOMS, ids=by_id)
def test_verdicts_are_those_of_the_program(idiom: Idiom):
    """Of all vectors it gets exactly those wrong that the program gets wrong, in the same way."""
    reader = idiom.reader(up_to(idiom.wild))
    result = conform.run(reader, GOLDEN)

    broken = {(f.rule, f.finding.deed, f.case) for f in result.failures}
    assert result.adapter is None
    assert sorted(declared(idiom, reader)) == sorted(broken)


@pytest.mark.parametrize("revision", wire.REVISIONS)
def test_the_reference_idiom_conforms(revision: int):
    """A router that keeps the contract gets no vector wrong, whichever revision it knows."""
    result = conform.run(REFERENCE.reader(up_to(revision)), GOLDEN)

    assert (None, []) == (result.adapter, result.failures)


@pytest.mark.parametrize("idiom", [*IDIOMS, REFERENCE], ids=by_id)
def test_any_fields_are_read(idiom: Idiom):
    """An idiom is made for the fields that it is given, whatever they are called."""
    slots = [Slot("class"), Slot("busy", "float"), Slot("rank", "count-or-nil"), Slot("x", "ext")]
    reader = idiom.reader({7: slots})

    outcome = reader.decode(bytes.fromhex("95a84c6f61645374617407cb3ff8000000000000c0a178"))

    assert isinstance(outcome, Taken), outcome
    assert ({"class": 7, "busy": 1.5, "rank": None}, 7) == (
        {k: v for k, v in outcome.reading.items() if k != "x"},
        reader.revision,
    )


# what stands at a count, at a float, at an optional count; and who takes it for what
KINDS: list[tuple[str, str, str, object]] = [
    ("java-msgpack-core", "float", "07", Refused),
    ("rust-rmpv", "float", "07", 7.0),
    ("rust-rmpv", "float", "a0", Refused),
    ("go-vmihailenco-struct", "float", "c0", 0.0),
    ("go-vmihailenco-struct", "count-or-nil", "c0", None),
    ("go-vmihailenco-generic", "count", "cb7ff8000000000000", -(2**63)),
    ("go-vmihailenco-generic", "count", "cbc000000000000000", -2),
    ("go-vmihailenco-generic", "count", "dd7fffffff", Crashed),
    ("go-ugorji-struct", "count", "cb3ff8000000000000", Refused),
    ("typescript-destructured", "float", "cb4000000000000000", 2),
    ("typescript-destructured", "count", "cfffffffffffffffff", 2**64),
    ("python-msgspec-typed", "float", "07", 7.0),
]


@pytest.mark.parametrize(("name", "kind", "item", "expected"), KINDS)
def test_what_a_type_takes(name: str, kind: str, item: str, expected: object):
    """Each library has its own idea of what a number is."""
    (idiom,) = [idiom for idiom in IDIOMS if idiom.id == name]

    outcome: Outcome = idiom.reader({1: [Slot("n", kind)]}).decode(
        bytes.fromhex(f"92a84c6f616453746174{item}")
    )

    if isinstance(outcome, Taken):
        assert expected == outcome.reading["n"]
        assert type(expected) is type(outcome.reading["n"])
    else:
        assert expected is type(outcome)


@pytest.mark.parametrize("idiom", IDIOMS, ids=by_id)
def test_says_how_it_reads(idiom: Idiom):
    """Every idiom has one sentence about itself."""
    assert idiom.how.endswith(".")
    assert len(idiom.how) < 100
    frames = idiom.reader(TODAY).parse_frames([b"load", bytes(8), b"\xc0"])
    assert isinstance(frames, Refused)
