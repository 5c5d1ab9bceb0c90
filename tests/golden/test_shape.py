"""Verdicts follow from how a payload was put together, and never from a decoder."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pytest_loadwire.golden.shape import Element, Shape, count, reject, wrong
from pytest_loadwire.rules import Hazard, Reason

FLOAT = wrong(b"\xcb\x40\x1c" + bytes(6))
NEVER = wrong(b"\x92\x01\xc1", Reason.MALFORMED, 2)
BIG = count(2**63)


def ten(**at: Element) -> list[Element]:
    """Ten good elements, with some replaced: e3 is element 3."""
    elements = [count(number) for number in range(1, 11)]
    for name, element in at.items():
        elements[int(name[1:]) - 1] = element
    return elements


def said(verdict: Any) -> tuple[Any, ...]:
    """A verdict in short: accept and revision; reason, offset, element; policy and outcomes."""
    content = msgspec.to_builtins(verdict)
    if content["verdict"] == "accept":
        return "accept", content["revision"]
    if content["verdict"] == "reject":
        return content["reason"], content["offset"], content["element"]
    return content["policy"], *(said(verdict.outcomes[key]) for key in content["outcomes"])


# elements, what stands behind the array; the verdict of a reader of revision 1, and of 2
SHAPES: list[tuple[Any, ...]] = [
    ("good", Shape(ten()), ("accept", 1), ("accept", 2)),
    ("revision 1", Shape(ten()[:5]), ("accept", 1), ("accept", 1)),
    ("nil rank", Shape(ten(e5=count(None))), ("accept", 1), ("accept", 2)),
    ("nil count", Shape(ten(e1=count(None))), ("bad-type", 10, 1), ("bad-type", 10, 1)),
    ("float", Shape(ten(e3=FLOAT)), ("bad-type", 12, 3), ("bad-type", 12, 3)),
    ("float in the tail", Shape(ten(e7=FLOAT)), ("accept", 1), ("bad-type", 16, 7)),
    ("negative", Shape(ten(e2=count(-1, b"\xff"))), *[("out-of-range", 11, 2)] * 2),
    ("first wrong one", Shape(ten(e2=FLOAT, e3=NEVER)), *[("bad-type", 11, 2)] * 2),
    ("malformed", Shape(ten(e3=NEVER)), *[("malformed", 14, 3)] * 2),
    ("malformed tail", Shape([*ten(), NEVER]), *[("malformed", 22, 11)] * 2),
    ("no element", Shape([]), *[("too-short", 0, 1)] * 2),
    ("too short", Shape(ten()[:3]), *[("too-short", 0, 4)] * 2),
    (
        "no rank",
        Shape(ten()[:4]),
        *[("OmittedRank", ("accept", 1), ("too-short", 0, 5))] * 2,
    ),
    (
        "partial",
        Shape(ten()[:7]),
        ("accept", 1),
        ("PartialTail", ("accept", 1), ("accept", 2)),
    ),
    (
        "partial with a float",
        Shape([*ten()[:6], FLOAT]),
        ("accept", 1),
        ("PartialTail", ("accept", 1), ("bad-type", 16, 7)),
    ),
    (
        "trailing",
        Shape(ten(), behind=b"\xc1"),
        ("TrailingBytes", ("accept", 1), ("trailing-bytes", 20, None)),
        ("TrailingBytes", ("accept", 2), ("trailing-bytes", 20, None)),
    ),
    (
        "nil tail",
        Shape(ten(e8=count(None))),
        ("accept", 1),
        ("NilTail", ("accept", 2), ("bad-type", 17, 8)),
    ),
    (
        "above i64",
        Shape(ten(e8=BIG)),
        ("accept", 1),
        ("CountAboveI64", ("accept", 2), ("out-of-range", 17, 8)),
    ),
    (
        "tag",
        Shape(ten(), tag=b"\x07", tag_reason=Reason.BAD_TAG),
        *[("bad-tag", 1, 0)] * 2,
    ),
]


@pytest.mark.parametrize(
    ("shape", "first", "second"),
    [row[1:] for row in SHAPES],
    ids=[row[0] for row in SHAPES],
)
def test_verdicts(shape: Shape, first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    """Each reader's verdict follows from the parts."""
    assert [first, second] == [said(verdict) for verdict in shape.readers().values()]


def test_raw() -> None:
    """The bytes are the parts in order, and a header may be given."""
    shape = Shape([count(7), FLOAT], header=b"\xdc\x00\x03", behind=b"\xc0")
    assert "dc0003a84c6f61645374617407cb401c000000000000c0" == shape.raw.hex()
    assert [3, 12, 13] == [shape.offset(index) for index in range(3)]
    assert len(shape) == 3


@pytest.mark.parametrize(
    ("reason", "name", "hazard"),
    [
        (Reason.BAD_TYPE, "num_running_reqs", Hazard.ATTRACTS_ALL),
        (Reason.OUT_OF_RANGE, "num_running_reqs", Hazard.STARVES),
        (Reason.BAD_TYPE, "max_total_num_tokens", Hazard.DIVIDES_BY_ZERO),
        (Reason.OUT_OF_RANGE, "max_total_num_tokens", Hazard.DIVIDES_BY_ZERO),
        (Reason.BAD_TYPE, "max_running_requests", Hazard.STARVES),
        (Reason.BAD_TYPE, "total_prefill_busy_us", Hazard.STALE),
        (Reason.BAD_TYPE, "attn_dp_rank", Hazard.NONE),
        (Reason.TRUNCATED, None, Hazard.ATTRACTS_ALL),
    ],
)
def test_hazard(reason: Reason, name: str | None, hazard: Hazard) -> None:
    """What a wrong reading does to traffic follows from the field, and from how it is wrong."""
    assert hazard is reject(reason, offset=0, name=name).hazard


def test_unknown_elements_have_no_name() -> None:
    """Nothing that a reader does not know of changes its verdict, also the hazard of it."""
    shape = Shape([*ten()[:6], NEVER, *ten()[7:]])
    hazards = {
        number: msgspec.to_builtins(verdict)["hazard"]
        for number, verdict in shape.readers().items()
    }
    assert {"1": "attracts-all", "2": "attracts-all"} == hazards
    last = Shape([*ten()[:9], NEVER]).readers()
    assert ["attracts-all", "stale"] == [msgspec.to_builtins(v)["hazard"] for v in last.values()]
