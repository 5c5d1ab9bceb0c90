"""The two Python witnesses: they agree with every vector, and each sees what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from pytest_loadwire import wire
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.rules import Hazard, Policy, Reason
from pytest_loadwire.vectors import Accept, FrameVector, PayloadVector, Reject, load
from pytest_loadwire.witness import (
    STRICT,
    MsgpackWitness,
    MsgspecWitness,
    Witness,
    judge_frames,
    judge_payload,
    python_witnesses,
)

WITNESSES: list[Witness] = [MsgspecWitness(), MsgpackWitness()]
GOLDEN = load()


def named(witness: Witness) -> str:
    return witness.name


def by_id(vector: PayloadVector | FrameVector) -> str:
    return vector.id


def changed(vector: PayloadVector, **changes: Any) -> PayloadVector:
    return msgspec.structs.replace(vector, **changes)


def verdicts(vector: PayloadVector, verdict: Accept | Reject) -> PayloadVector:
    return changed(vector, readers={"2": verdict})


A = GOLDEN.payload("rev2-golden-a")
A_READ = A.readers["2"]
assert isinstance(A_READ, Accept)

# a broken vector and the deed that a witness finds in it
BROKEN = {
    "other value": (
        verdicts(A, Accept(2, {**A_READ.value, "total_prefill_busy_us": "1"})),
        "wrong-value",
    ),
    "swapped values": (
        verdicts(
            A,
            Accept(
                2,
                {
                    **A_READ.value,
                    "num_tokens": A_READ.value["num_total_tokens"],
                    "num_total_tokens": A_READ.value["num_tokens"],
                },
            ),
        ),
        "wrong-value",
    ),
    "other revision": (
        verdicts(A, Accept(1, dict(list(A_READ.value.items())[:5]))),
        "wrong-value",
    ),
    "missing field": (verdicts(A, Accept(2, dict(list(A_READ.value.items())[:9]))), "wrong-value"),
    "refused": (
        verdicts(A, Reject("W9", Reason.TOO_SHORT, 0, 5, Hazard.ATTRACTS_ALL)),
        "accepted",
    ),
    "taken": (changed(GOLDEN.payload("tag-prefix"), readers={"2": A_READ}), "refused"),
    "other reason": (
        verdicts(GOLDEN.payload("top-nil"), Reject("W1", Reason.BAD_TAG, 0, None, Hazard.NONE)),
        "wrong-reason",
    ),
    "other offset": (
        verdicts(GOLDEN.payload("top-nil"), Reject("W10", Reason.NOT_ARRAY, 1, None, Hazard.NONE)),
        "wrong-place",
    ),
    "other element": (
        verdicts(GOLDEN.payload("top-nil"), Reject("W10", Reason.NOT_ARRAY, 0, 0, Hazard.NONE)),
        "wrong-place",
    ),
    "other bytes": (changed(A, hex=A.hex[:-2] + "8a"), "wrong-value"),
    "cut bytes": (changed(A, hex=A.hex[:-2]), "refused"),
    "wrong spelling": (changed(A, spellings={"array-16": "dc0006" + A.hex[2:]}), "refused"),
}


def test_policies() -> None:
    """The witnesses declare every policy, as `wire.decode` states them."""
    assert set(Policy) == set(STRICT)
    expected = ["reject", "reject", "reject", "accept", "older", "reject"]
    assert expected == [STRICT[policy] for policy in Policy]
    assert [STRICT, STRICT] == [witness.policies for witness in WITNESSES]


def test_python_witnesses() -> None:
    """They are the two."""
    assert ["msgspec", "msgpack"] == [witness.name for witness in python_witnesses()]


def test_fields() -> None:
    """The second witness was taught the fields of every revision, by its own spelling."""
    expected = {number: kind.__struct_fields__ for number, kind in wire.REVISIONS.items()}
    assert expected == MsgpackWitness.FIELDS


@pytest.mark.parametrize("witness", WITNESSES, ids=named)
@pytest.mark.parametrize("vector", GOLDEN.payloads, ids=by_id)
def test_payload(witness: Witness, vector: PayloadVector) -> None:
    """A witness agrees with every payload vector, in every spelling, as every revision."""
    assert [] == [str(finding) for finding in judge_payload(witness, vector)]


@pytest.mark.parametrize("witness", WITNESSES, ids=named)
@pytest.mark.parametrize("vector", GOLDEN.frames, ids=by_id)
def test_frames(witness: Witness, vector: FrameVector) -> None:
    """A witness agrees with every frame vector, as every revision."""
    assert [] == [str(finding) for finding in judge_frames(witness, vector)]


@pytest.mark.parametrize("witness", WITNESSES, ids=named)
@pytest.mark.parametrize("name", BROKEN)
def test_broken(witness: Witness, name: str) -> None:
    """Each witness alone catches a broken vector."""
    vector, deed = BROKEN[name]
    assert deed in [finding.deed for finding in judge_payload(witness, vector)]


@pytest.mark.parametrize("witness", WITNESSES, ids=named)
@pytest.mark.parametrize(
    ("vector_id", "frames", "deed"),
    [
        ("frames-sequence-7", ["6c6f6164", "0700000000000000", A.hex], "wrong-value"),
        ("frames-sequence-7", ["6c6f616478", "0000000000000007", A.hex], "refused"),
        ("topic-suffix", ["6c6f6164", "0000000000000007", A.hex], "accepted"),
        ("sequence-9-bytes", ["6c6f616478", "0000000000000007", A.hex], "wrong-reason"),
        ("payload-cut", ["6c6f6164", "0000000000000007", A.hex[:42]], "wrong-place"),
    ],
)
def test_broken_frames(witness: Witness, vector_id: str, frames: list[str], deed: str) -> None:
    """Each witness alone catches a broken message."""
    vector = msgspec.structs.replace(GOLDEN.frame(vector_id), frames=tuple(frames))
    found = list(judge_frames(witness, vector))
    assert deed in [finding.deed for finding in found]
    assert all("(reader of revision " in finding.got for finding in found)


def test_names_the_form() -> None:
    """A finding says in which spelling, and for which reader."""
    vector = changed(A, spellings={"array-16": "dc0006" + A.hex[2:]})
    found = list(judge_payload(MsgspecWitness(), vector))
    assert found
    assert all("rev2-golden-a/array-16, reader of revision " in finding.got for finding in found)


@pytest.mark.parametrize("witness", WITNESSES, ids=named)
def test_places_of_spellings(witness: Witness) -> None:
    """The offset is that of the bytes under test: a spelling may be refused at another byte."""
    refused = GOLDEN.payload("tag-prefix")
    wide = changed(refused, spellings={"array-16": "dc000b" + refused.hex[2:]})
    assert [] == list(judge_payload(witness, wide))
    assert "wrong-place" in [
        f.deed for f in judge_payload(witness, changed(wide, hex="dc000b" + refused.hex[2:]))
    ]


class Broken:
    """A reader that gives the same answer to everything."""

    name = "broken"
    policies = STRICT

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def decode(self, payload: bytes, revision: int) -> Outcome:
        return self.outcome

    def parse_frames(self, frames: Sequence[bytes], revision: int) -> Outcome:
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "deed"),
    [
        (Taken({}, 2), "wrong-value"),
        (Refused("truncated"), "refused"),
        (Crashed("boom"), "crashed"),
    ],
)
def test_broken_reader(outcome: Outcome, deed: str) -> None:
    """A reader that does nothing right is caught by every golden, once for each revision."""
    found = list(judge_payload(Broken(outcome), A))
    assert [deed, deed] == [finding.deed for finding in found]
    found = list(judge_frames(Broken(outcome), GOLDEN.frame("frames-rev2-golden-a")))
    assert [deed, deed] == [finding.deed for finding in found]


def test_beyond_the_library() -> None:
    """The msgpack witness says that it crashed where its library ends, and does not guess."""
    deep = b"\x9c" + A.payload[1:] + b"\x91" * 2_000 + b"\xc0"
    assert isinstance(MsgpackWitness().decode(deep, 2), Crashed)
    assert isinstance(MsgspecWitness().decode(deep, 2), Taken)


def test_revision_never_taught() -> None:
    """The msgpack witness knows no revision that it was not taught, whatever `wire` says."""
    outcome = MsgpackWitness().decode(A.payload, 3)
    assert outcome == Crashed("this witness was never taught revision 3")


def test_lying_length() -> None:
    """The msgpack witness does not allocate by an announced length either."""
    outcome = MsgpackWitness().decode(bytes.fromhex("ddffffffff") + A.payload[1:], 2)
    assert isinstance(outcome, Refused)
    assert ("truncated", len(A.payload) + 4, 11) == outcome[:3]
