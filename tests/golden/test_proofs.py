"""No vector proves itself: what the proof finds in a set that is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_loadwire.golden.payloads import shape_of
from pytest_loadwire.golden.proofs import insensitive, unproven
from pytest_loadwire.rules import Hazard, Reason
from pytest_loadwire.vectors import Accept, PayloadVector, Reject, load

GOLDEN = load()
A = GOLDEN.payload("rev2-golden-a")
A_READ = A.readers["2"]
FRAMES_A = GOLDEN.frame("frames-rev2-golden-a")
REFUSAL = Reject("W9", Reason.TOO_SHORT, 0, 5, Hazard.ATTRACTS_ALL)


def changed(vector: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(vector, **changes)


def golden(*values: int | None, kind: str = "golden") -> PayloadVector:
    """A golden with these values, right in all but its choice of values."""
    shape = shape_of(values)
    engine = {5: 1, 10: 2}[len(values)]
    return changed(  # type: ignore[no-any-return]
        A, id="made", kind=kind, hex=shape.raw.hex(), engine=engine, readers=shape.readers()
    )


# what is wrong with one payload vector, and what the proof says of it
BROKEN_PAYLOADS: dict[str, tuple[PayloadVector, str]] = {
    "other hex": (
        changed(A, hex=A.hex[:-1] + "c"),
        "rev2-golden-a: msgspec: W3 wrong-value: expected revision 2",
    ),
    "cut hex": (changed(A, hex=A.hex[:-2]), "rev2-golden-a: msgpack: W3 refused: expected"),
    "not canonical": (
        changed(A, hex=A.hex[:20] + "cc" + A.hex[20:]),
        "W3 rev2-golden-a: engine verdict disagrees with wire.verify",
    ),
    "msgspec makes other bytes": (
        changed(A, hex=A.hex[:20] + "cc" + A.hex[20:]),
        f"W3 rev2-golden-a: msgspec makes {A.hex}, the vector {A.hex[:20]}cc",
    ),
    "msgpack makes other bytes": (
        changed(A, hex=A.hex[:20] + "cc" + A.hex[20:]),
        f"W3 rev2-golden-a: msgpack makes {A.hex}, the vector {A.hex[:20]}cc",
    ),
    "other verdict": (
        changed(A, readers={**A.readers, "2": REFUSAL}),
        "rev2-golden-a: msgspec: W9 accepted: expected a refusal with too-short",
    ),
    "engine may, reader refuses": (
        changed(A, readers={**A.readers, "2": REFUSAL}),
        "W3 rev2-golden-a: an engine may send it, yet its own reader refuses it",
    ),
    "engine may not": (
        changed(A, engine=None),
        "W3 rev2-golden-a: engine verdict disagrees with wire.verify",
    ),
    "other engine": (
        changed(A, engine=1),
        "W3 rev2-golden-a: engine verdict disagrees with wire.verify",
    ),
    "other reason": (
        changed(
            GOLDEN.payload("top-nil"),
            readers={"2": Reject("W1", Reason.BAD_TAG, 0, None, Hazard.NONE)},
        ),
        "top-nil: msgpack: W1 wrong-reason: expected a refusal with bad-tag",
    ),
    "other place": (
        changed(
            GOLDEN.payload("top-nil"),
            readers={"2": Reject("W10", Reason.NOT_ARRAY, 1, None, Hazard.NONE)},
        ),
        "top-nil: msgspec: W10 wrong-place: expected not-array at frame None, byte 1",
    ),
    "no bytes at all": (changed(A, hex=""), "rev2-golden-a: msgspec: W3 refused: expected"),
    "missing field": (
        changed(A, readers={"2": Accept(2, {"num_tokens": "40000"})}),
        "W3 rev2-golden-a: its own reader reads num_tokens",
    ),
    "no reader": (
        changed(A, readers={}),
        "W3 rev2-golden-a: an engine may send it, yet its own reader refuses it",
    ),
    "canonical spelling": (
        changed(A, spellings={"array-16": A.hex}),
        "W3 rev2-golden-a/array-16: passes for canonical",
    ),
    "spelling of another value": (
        changed(A, spellings={"array-16": GOLDEN.payload("rev2-golden-b").hex}),
        "rev2-golden-a: msgpack: W3 wrong-value",
    ),
}

B = (70_000, 9, 5_000_000_001, 301, 200, 11, 13, 40_003, 140, 66_001)
# values, what makes the golden blind
BLIND: list[tuple[tuple[int | None, ...], str]] = [
    ((*B[:9], 9), "W3 made: elements 2 and 10 are both 9"),
    ((70_000, 70_000, *B[2:]), "W3 made: elements 1 and 2 are both 70000"),
    ((*B[:9], 0), "W3 made: element 10 is at its default"),
    ((0, *B[1:]), "W3 made: element 1 is at its default"),
    ((*B[:4], 0, *B[5:]), "W3 made: element 5 is at its default"),
]


def test_proven() -> None:
    """Nothing is held against the set as it stands."""
    assert [] == list(unproven(GOLDEN.payloads, GOLDEN.frames))


@pytest.mark.parametrize("name", BROKEN_PAYLOADS)
def test_broken_payload(name: str) -> None:
    """A wrong verdict, wrong bytes or a wrong engine is found, and the vector is named."""
    vector, says = BROKEN_PAYLOADS[name]
    assert [] != [problem for problem in unproven([vector], []) if problem.startswith(says)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"engine": None},
            "F4 frames-rev2-golden-a: engine verdict disagrees with wire.verify_fra",
        ),
        ({"engine": 1}, "F4 frames-rev2-golden-a: engine verdict disagrees with wire.verify_fra"),
        ({"frames": FRAMES_A.frames[:2]}, "frames-rev2-golden-a: msgspec: F4 refused"),
        (
            {"frames": ("6c6f6164", "0700000000000000", A.hex)},
            "frames-rev2-golden-a: msgpack: F3 wrong-value",
        ),
        (
            {"readers": {"2": changed(A_READ, sequence="8")}},
            "frames-rev2-golden-a: msgspec: F3 wrong-value",
        ),
    ],
)
def test_broken_message(changes: dict[str, Any], says: str) -> None:
    """The same for messages."""
    problems = list(unproven([], [changed(FRAMES_A, **changes)]))
    assert [] != [problem for problem in problems if problem.startswith(says)]


def test_duplicate() -> None:
    """An id that stands twice is found, also across files."""
    other = changed(FRAMES_A, id="rev2-golden-a")
    assert "F4 rev2-golden-a: the id stands twice" in unproven(GOLDEN.payloads, [other])
    assert "W3 rev2-golden-a: the id stands twice" in unproven([A, A], [])


@pytest.mark.parametrize(("values", "says"), BLIND)
def test_blind_golden(values: tuple[int | None, ...], says: str) -> None:
    """A golden with equal slots or a slot at its default is no golden."""
    assert says in insensitive([golden(*values)])
    assert says in unproven([golden(*values)], [])


def test_nil_rank_is_no_default() -> None:
    """The rank alone may be nil: that is how an unset one is sent."""
    nil_rank = golden(*B[:4], None, *B[5:])
    assert not [problem for problem in insensitive([nil_rank]) if "default" in problem]


def test_blind_boundary() -> None:
    """A boundary vector may hold zeros, and has to tell its slots apart as well."""
    at_zero = golden(0, *B[1:], kind="boundary")
    assert [] == [p for p in insensitive([at_zero]) if "made" in p]
    equal = golden(9, *B[1:], kind="boundary")
    assert "W3 made: elements 1 and 2 are both 9" in insensitive([equal])


def test_narrow_goldens() -> None:
    """The goldens of a revision spread over every integer width."""
    narrow = golden(17, 130, 40_000, 41, 5)
    assert "W2 goldens of 6 elements use the widths [1, 2, 3] only" in insensitive([narrow])


def test_anchor_may_be_blind() -> None:
    """An anchor is as it was published."""
    anchors = [vector for vector in GOLDEN.payloads if vector.kind == "anchor"]
    assert [] == list(insensitive(anchors))


@pytest.mark.parametrize("revision", [1, 2])
def test_swapped_slots_change_the_bytes(revision: int) -> None:
    """Any two slots of any golden, swapped, are other bytes."""
    for vector in GOLDEN.payloads:
        if vector.kind == "golden" and vector.engine == revision:
            verdict = vector.readers[str(revision)]
            assert isinstance(verdict, Accept)
            values = list(verdict.reading.values())
            for i in range(len(values)):
                for j in range(i):
                    swapped = [*values]
                    swapped[i], swapped[j] = swapped[j], swapped[i]
                    assert shape_of(swapped).raw != vector.payload
