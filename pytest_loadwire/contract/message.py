"""Holds one message of an engine to the reading and the number that it owes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.judge import Finding, differences, hazard_of
from pytest_loadwire.rules import Hazard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.vectors import Reading

RANK = "attn_dp_rank"


def judge_message(
    frames: Sequence[bytes],
    *,
    revision: int,
    sequence: int | None,
    owed: Reading,
    named: str,
    rule: str,
    rank_rule: str | None = None,
) -> Finding | None:
    """Whether a message is exactly the one that an engine of a revision owes.

    Args:
        frames: The message.
        revision: The revision of the engine.
        sequence: The number of the message, or None for any.
        owed: The reading that it carries, field by field.
        named: What that reading is called.
        rule: The rule to name where a count is another.
        rank_rule: The rule to name where only the rank is; `rule` unless said.
    """
    shown = " ".join(frame.hex() for frame in frames)
    try:
        message = wire.verify_frames(frames, revision=revision)
    except WireError as error:
        expected = f"a message of revision {revision}, number {sequence}, with {named}"
        return Finding("wrong-bytes", error.rule, expected, f"{shown}: {error}", Hazard.STALE)
    if sequence is not None and message.sequence != sequence:
        little = int.from_bytes(frames[1], "little") == sequence
        got = f"{frames[1].hex()}: the number is little-endian" if little else message.sequence
        broken = "F3" if little else "S1"
        return Finding("wrong-sequence", broken, f"number {sequence}", f"{got}", Hazard.NONE)
    wrong = differences(owed, wire.to_dict(message.stat))
    if not wrong:
        return None
    moved = ", ".join(f"{name} {reads}" for name, reads in wrong.items())
    return Finding(
        "wrong-value",
        (rank_rule or rule) if set(wrong) == {RANK} else rule,
        named,
        f"{shown}: a router would read {moved}",
        hazard_of(owed, wire.to_dict(message.stat)),
    )
