"""The smoke run tells a broken adapter from a broken decoder."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_loadwire import wire
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.reader import Reader, ReferenceReader, smoke
from pytest_loadwire.vectors import load

GOLDEN = load()

Make = Callable[[Callable[[bytes], Outcome]], Reader]
PLAIN = GOLDEN.payload("rev2-golden-a")
ZEROS = dict.fromkeys(wire.field_names(), 0)


def takes_canonical(payload: bytes) -> Outcome:
    """Reads nothing but the goldens' own spelling, all of it wrong."""
    return Taken(ZEROS) if payload == PLAIN.payload else Refused()


# a reader that cannot be judged, and what is said of its adapter
BROKEN: dict[str, tuple[Callable[[bytes], Outcome], str]] = {
    "crashes": (lambda _: Crashed("no"), f"rev2-golden-a ({PLAIN.hex}): crashed: no"),
    "crashes at nil": (
        lambda payload: Taken(ZEROS) if len(payload) > 1 else Crashed("no"),
        "top-nil (c0): crashed: no",
    ),
    "refuses all": (lambda _: Refused("bad-tag"), "it refuses the plainest payload, rev2-golden-a"),
    "other names": (
        lambda _: Taken({"running": 17, "waiting": 130}),
        "none of its field names is the contract's: running, waiting",
    ),
    "no names": (lambda _: Taken({}), "none of its field names is the contract's: none"),
    "always the same": (lambda _: Taken(ZEROS), "it answers nil as it answers rev2-golden-a: ("),
}


@pytest.mark.parametrize(("decode", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_adapter_is_told(make_reader: Make, decode: Callable[[bytes], Outcome], says: str):
    """An adapter that does not reach a decoder is what fails, and not a rule."""
    assert says == (smoke(make_reader(decode), GOLDEN) or "")[: len(says)]


@pytest.mark.parametrize("revision", wire.REVISIONS)
def test_a_good_reader_passes(revision: int):
    """The reference passes as the router of every revision."""
    assert smoke(ReferenceReader(revision), GOLDEN) is None


def test_a_broken_decoder_passes(make_reader: Make):
    """What is wrong with the decoder is left to the vectors: values, spellings, what it takes."""
    assert smoke(make_reader(takes_canonical), GOLDEN) is None


def test_the_reference_is_a_router_of_its_revision():
    """A reference reader reads its own revision unless another is named."""
    reader = ReferenceReader(1)
    frames = GOLDEN.frame("frames-sequence-7")

    outcomes = [reader.decode(PLAIN.payload), reader.decode(PLAIN.payload, 2)]
    message = reader.parse_frames(frames.parts)

    assert [1, 2] == [outcome.revision for outcome in outcomes if isinstance(outcome, Taken)]
    assert isinstance(message, Taken)
    assert (7, 1) == (message.sequence, message.revision)
