"""What is said of one message that is not the one that an engine owes."""

from __future__ import annotations

import pytest

from pytest_loadwire import wire
from pytest_loadwire.contract.message import judge_message
from pytest_loadwire.judge import Finding

OWED = {name: 7 * n + 1 for n, name in enumerate(wire.field_names(2))}


def message(sequence: int = 3, **changed: int | None) -> list[bytes]:
    """A message with the owed counts, but for those that are changed."""
    return [*wire.build_frames(sequence, wire.LoadStatRev2(**{**OWED, **changed}))]  # type: ignore[arg-type]


def judged(frames: list[bytes], sequence: int | None = 3, revision: int = 2) -> Finding | None:
    return judge_message(
        frames,
        revision=revision,
        sequence=sequence,
        owed=OWED,
        named="reading-x",
        rule="P2",
        rank_rule="R3",
    )


def test_the_owed_message_is_right() -> None:
    """Number and counts are those that are owed; any number is, where none is asked for."""
    assert judged(message()) is None
    assert judged(message(9), sequence=None) is None


@pytest.mark.parametrize(
    ("frames", "deed", "rule", "got"),
    [
        (message(4), "wrong-sequence", "S1", "4"),
        (message(3 << 56), "wrong-sequence", "F3", "0300000000000000: the number is little-endian"),
        (message(num_tokens=0), "wrong-value", "P2", "num_tokens 15 as 0"),
        (message(attn_dp_rank=None), "wrong-value", "R3", "attn_dp_rank 29 as None"),
        (message(attn_dp_rank=0, num_tokens=0), "wrong-value", "P2", "num_tokens 15 as 0"),
        ([b"load0", *message()[1:]], "wrong-bytes", "F2", "frame 0"),
        (message()[:2], "wrong-bytes", "F1", "payload), got 2"),
    ],
)
def test_another_message_is_told_by_its_rule(
    frames: list[bytes], deed: str, rule: str, got: str
) -> None:
    """The rule that is broken is named, and what a router would make of the message."""
    finding = judged(frames)
    assert finding is not None
    assert (deed, rule) == (finding.deed, finding.rule)
    assert got in finding.got


def test_a_rank_without_a_rule_of_its_own() -> None:
    """A wrong rank breaks the rule of the case, unless another one is named for it."""
    finding = judge_message(
        message(attn_dp_rank=0), revision=2, sequence=3, owed=OWED, named="x", rule="W3"
    )
    assert finding is not None
    assert ("wrong-value", "W3") == (finding.deed, finding.rule)


def test_another_revision() -> None:
    """A message of a revision that the engine does not send is none of its own."""
    finding = judged(message(), revision=1)
    assert finding is not None
    assert "wrong-bytes" == finding.deed
    assert finding.expected == "a message of revision 1, number 3, with reading-x"
