"""Every revision's engine against every revision's reader: who may upgrade first."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from pytest_loadwire import skew, wire
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.reader import Reader, ReferenceReader

ZEROS = dict.fromkeys(wire.field_names(), 0)
Make = Callable[[Callable[[bytes], Outcome]], Reader]
FUTURE = [engine for engine in skew.engines() if engine.revision > wire.LATEST]


def exact(payload: bytes) -> Outcome:
    """Reads eleven elements, no more and no fewer."""
    length = len(msgpack.unpackb(payload, strict_map_key=False))
    return ReferenceReader(2).decode(payload) if length == 11 else Refused()


def zeros(payload: bytes) -> Outcome:
    """Fills what an older engine does not send with zeros."""
    outcome = ReferenceReader(2).decode(payload)
    return Taken({**ZEROS, **outcome.reading}) if isinstance(outcome, Taken) else outcome


def crashes_on_array_16(payload: bytes) -> Outcome:
    return Crashed("no") if payload[0] == 0xDC else ReferenceReader(2).decode(payload)


def refuses_its_own(payload: bytes) -> Outcome:
    return Refused() if payload[0] == 0x9B else ReferenceReader(2).decode(payload)


def misreads(payload: bytes) -> Outcome:
    outcome = ReferenceReader(2).decode(payload)
    return Taken({**outcome.reading, "num_tokens": 1}) if isinstance(outcome, Taken) else outcome


# a reader of revision 2; what it makes of revision 1, of revision 2, of 16 elements; the advice
READERS: list[tuple[Callable[[bytes], Outcome], str, str, str, str]] = [
    (ReferenceReader(2).decode, "reads 1", "reads 2", "reads 2", "either"),
    (exact, "refuses", "reads 2", "refuses", "neither"),
    (zeros, "invents zeros", "reads 2", "reads 2", "the engines"),
    (crashes_on_array_16, "reads 1", "reads 2", "crashes", "the router"),
    (refuses_its_own, "reads 1", "refuses", "reads 2", "neither"),
    (misreads, "misreads", "misreads", "misreads", "neither"),
]


@pytest.mark.parametrize("reader", wire.REVISIONS)
def test_the_reference_lets_either_side_go_first(reader: int):
    """Our decoder, as the router of any revision, reads every engine as far as it knows it."""
    row = skew.ask(ReferenceReader(reader))

    reads = [min(reader, engine.revision) for engine in skew.engines()]
    assert [f"reads {revision}" for revision in reads] == [c.says for c in row.cells.values()]
    assert "either" == row.advice


@pytest.mark.parametrize(("decode", "old", "same", "new", "advice"), READERS)
def test_a_reader_is_advised_by_what_it_reads(
    make_reader: Make,
    decode: Callable[[bytes], Outcome],
    old: str,
    same: str,
    new: str,
    advice: str,
):
    """Engines go first where newer ones are read, the router where older ones are."""
    row = skew.ask(make_reader(decode))

    shown = [row.cells[name].says for name in ("revision 1", "revision 2", "16 elements")]
    assert ([old, same, new], advice) == (shown, row.advice)


def test_every_known_revision_and_some_that_may_come():
    """There is an engine for each revision, and each made-up one appends to the newest."""
    made = skew.engines()

    assert [f"revision {number}" for number in wire.REVISIONS] == [e.name for e in made[:-5]]
    assert list(skew.FUTURES) == [engine.name for engine in FUTURE]
    assert all(len(engine.samples) >= 3 for engine in made)


@pytest.mark.parametrize("engine", FUTURE, ids=lambda engine: engine.name)
def test_a_future_payload_is_the_newest_with_more_behind(engine: skew.Engine):
    """A made-up payload is canonical msgpack: the newest revision's elements, then the new ones."""
    newest = skew.engines()[1]
    items = [
        msgpack.unpackb(bytes.fromhex(item), strict_map_key=False)
        for item in skew.FUTURES[engine.name]
    ]

    for (payload, _), (known, _) in zip(engine.samples, newest.samples, strict=True):
        assert payload == msgpack.packb([*msgpack.unpackb(known), *items])


def test_one_future_needs_another_header():
    """Fifteen elements are the most that a fixarray counts, and one engine sends more."""
    headers = {engine.name: engine.samples[0][0][0] for engine in FUTURE}

    assert 0xDC == headers.pop("16 elements")
    assert {0x9C} == set(headers.values())


def test_the_table_has_a_line_for_each_reader(make_reader: Make):
    """The header names the engines, and each line ends with the advice."""
    header, *lines = skew.table([*skew.reference(), skew.ask(make_reader(zeros))])

    assert ["reader", *(e.name for e in skew.engines()), "may upgrade first"] == header
    assert ["reference, revision 1", "reference, revision 2", "toy"] == [line[0] for line in lines]
    assert ["either", "either", "the engines"] == [line[-1] for line in lines]
    assert [["reader", "may upgrade first"]] == skew.table([])
