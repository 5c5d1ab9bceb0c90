"""One comparison for addresses: every way in which an engine or a router fails a vector."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_loadwire.address_judge import (
    Dialled,
    Read,
    Resolution,
    choose,
    judge_block,
    judge_plan,
    judge_range,
    judge_start,
    judge_value,
    split,
)
from pytest_loadwire.discovery import NoPlanReason
from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.judge import Crashed, Refused
from pytest_loadwire.rules import AddressPolicy, Hazard
from pytest_loadwire.vectors.addresses import (
    Advertised,
    Choice,
    Declined,
    Passes,
    Planned,
    Range,
    Refuses,
    Unadvertised,
    Unplanned,
)

BOOM = Crashed("ValueError: boom")
RANGE = Range("*", 5558)
OFF = Declined(DeclineReason.OFF)
PAST = Declined(DeclineReason.PAST_PORT_65535, ("65535",), ("None",))
REFUSES = Refuses(DeclineReason.NO_KV_EVENTS, ("kv-events",))
SIX: dict[str, Any] = {
    "publisher": "zmq",
    "endpoint_host": "[::1]",
    "endpoint_port_base": 1,
    "topic": "",
    "block_size": 1,
    "dp_size": 1,
}
LOAD = {"load_endpoint_port_base": 5558, "load_topic": "load"}
PLAN = Planned(("tcp://[2001:db8::5]:65534", "tcp://[2001:db8::5]:65535"), (2,))
FIRST, SECOND = ((rank, endpoint) for rank, endpoint in enumerate(PLAN.endpoints))

# what is owed, what came, deed and rule of the finding
RANGES: list[tuple[Range | Declined, Resolution | Crashed, tuple[str, str] | None]] = [
    (RANGE, Resolution("*", 5558), None),
    (RANGE, Resolution("*", 5559), ("wrong-range", "E9")),
    (RANGE, Resolution("0.0.0.0", 5558), ("wrong-range", "E9")),  # noqa: S104
    (RANGE, Resolution("*", 5558.0), ("wrong-range", "E9")),  # type: ignore[arg-type]
    (RANGE, Resolution("*"), ("wrong-range", "E9")),
    (Range("*", 1), Resolution("*", True), ("wrong-range", "E9")),
    (RANGE, Resolution("*", 5558, text="fine"), ("wrong-reason", "E5")),
    (RANGE, Resolution("*", 5558, code="off"), None),
    (RANGE, Resolution(), ("refused", "E9")),
    (RANGE, Resolution(text="no"), ("refused", "E9")),
    (RANGE, BOOM, ("crashed", "E9")),
    (OFF, Resolution(), None),
    (OFF, Resolution(code="off"), None),
    (OFF, Resolution(text="  "), None),
    (OFF, Resolution(code="off", text="load is off"), ("wrong-reason", "E9")),
    (OFF, Resolution(code="past-port-65535"), ("wrong-reason", "E9")),
    (OFF, Resolution("*", 5558), ("accepted", "E9")),
    (OFF, BOOM, ("crashed", "E9")),
    (PAST, Resolution(text="past 65535"), None),
    (PAST, Resolution(code="past-port-65535"), None),
    (PAST, Resolution(code="past-port-65535", text="past 65535"), None),
    (PAST, Resolution(), ("wrong-reason", "E5")),
    (PAST, Resolution(code="off"), ("wrong-reason", "E5")),
    (PAST, Resolution(text="\n"), ("wrong-reason", "E5")),
    (PAST, Resolution(text="past the end"), ("wrong-reason", "E5")),
    (PAST, Resolution(text="None past 65535"), ("wrong-reason", "E5")),
    (PAST, Resolution(code="overlaps-kv", text="past 65535"), ("wrong-reason", "E9")),
    (PAST, Resolution("*", 65536), ("accepted", "E9")),
]

STARTS: list[tuple[Passes | Refuses, Read | Refused | Crashed, tuple[str, str] | None]] = [
    (Passes(), Read(None), None),
    (Passes(), Read(False), None),
    (Passes(), Refused(text="no"), ("refused", "E9")),
    (Passes(), BOOM, ("crashed", "E9")),
    (REFUSES, Refused(text="--KV-events-config is missing"), None),
    (REFUSES, Refused("no-kv-events", text="kv-events"), None),
    (REFUSES, Refused("overlaps-kv", text="kv-events"), ("wrong-reason", "E9")),
    (REFUSES, Refused(text="no"), ("wrong-reason", "E9")),
    (REFUSES, Refused("no-kv-events"), ("wrong-reason", "E9")),
    (REFUSES, Read(None), ("accepted", "E9")),
    (REFUSES, BOOM, ("crashed", "E9")),
]

BLOCKS: list[tuple[Advertised | Unadvertised, Any, tuple[str, str] | None]] = [
    (Unadvertised(), None, None),
    (Unadvertised(), {}, ("accepted", "E9")),
    (Unadvertised(), BOOM, ("crashed", "A4")),
    (Advertised(SIX), SIX, None),
    (Advertised(SIX), {**SIX, "later": 1}, None),
    (Advertised(SIX | LOAD), SIX | LOAD, None),
    (Advertised(SIX), None, ("refused", "E9")),
    (Advertised(SIX), BOOM, ("crashed", "E9")),
    (Advertised(SIX), SIX | LOAD, ("accepted", "A2")),
    (Advertised(SIX | LOAD), SIX, ("refused", "A2")),
    (Advertised(SIX), {**SIX, "load_topic": "load"}, ("wrong-value", "A2")),
    (Advertised(SIX | LOAD), {**SIX, "load_topic": "load"}, ("wrong-value", "A2")),
    (
        Advertised(SIX | LOAD),
        {**SIX, **LOAD, "load_endpoint_port_base": 5559},
        ("wrong-value", "E7"),
    ),
    (Advertised(SIX | LOAD), {**SIX, **LOAD, "load_topic": "kv"}, ("wrong-value", "A2")),
    (Advertised(SIX), {**SIX, "endpoint_host": "::1"}, ("wrong-value", "A3")),
    (Advertised(SIX), {**SIX, "endpoint_host": "*"}, ("wrong-value", "A1")),
    (Advertised(SIX), {**SIX, "endpoint_host": None}, ("wrong-value", "A1")),
    (Advertised(SIX), {**SIX, "dp_size": True}, ("wrong-value", "A1")),
    (Advertised(SIX), {**SIX, "block_size": 1.0}, ("wrong-value", "A1")),
    *(
        (Advertised(SIX), {k: v for k, v in SIX.items() if k != missing}, ("wrong-value", "A1"))
        for missing in SIX
    ),
]

PLANS: list[tuple[Planned | Unplanned, Any, tuple[str, str, Hazard] | None]] = [
    (PLAN, Dialled([FIRST, SECOND]), None),
    (PLAN, Dialled([SECOND, FIRST]), None),
    (PLAN, Dialled([FIRST, (1, "tcp://[2001:DB8:0::5]:65535")]), None),
    (PLAN, Dialled([FIRST]), ("wrong-value", "E9", Hazard.NONE)),
    (PLAN, Dialled([FIRST, SECOND, SECOND]), ("wrong-value", "E9", Hazard.NONE)),
    (PLAN, Dialled([FIRST, SECOND, (2, "tcp://w:1")]), ("wrong-value", "E9", Hazard.NONE)),
    (PLAN, Dialled([FIRST, (2, SECOND[1])]), ("wrong-value", "E9", Hazard.NONE)),
    (PLAN, Dialled([FIRST, (1, FIRST[1])]), ("wrong-value", "E9", Hazard.NONE)),
    (PLAN, Dialled([FIRST, (1, "tcp://w:65535")]), ("wrong-value", "E9", Hazard.ATTRACTS_ALL)),
    (PLAN, Refused("bad-port"), ("refused", "E9", Hazard.NONE)),
    (PLAN, BOOM, ("crashed", "E9", Hazard.CRASH)),
    (Unplanned(NoPlanReason.BAD_PORT), Refused(), None),
    (Unplanned(NoPlanReason.BAD_PORT), Refused("bad-port"), None),
    (
        Unplanned(NoPlanReason.BAD_PORT),
        Refused("bad-url"),
        ("wrong-reason", "E9", Hazard.NONE),
    ),
    (Unplanned(NoPlanReason.BAD_PORT), Dialled([FIRST]), ("accepted", "E9", Hazard.NONE)),
    (Unplanned(NoPlanReason.BAD_PORT), BOOM, ("crashed", "E9", Hazard.CRASH)),
]

SPLITS: list[tuple[object, tuple[str, object]]] = [
    ("tcp://10.0.0.5:5559", ("10.0.0.5", 5559)),
    ("tcp://Worker-1:5559", ("worker-1", 5559)),
    ("tcp://[2001:DB8::0:5]:1", ("[2001:db8::5]", 1)),
    *(
        (text, (text, ""))
        for text in (
            "",
            "10.0.0.5:5559",
            "tcp://10.0.0.5",
            "tcp://w:",
            "tcp://w:05559",
            "tcp://w:x",
            "tcp://2001:db8::5:5559",
            "tcp://::1:5559",
            "tcp://[w]:5559",
            "tcp://[::1:5559",
        )
    ),
    (None, ("None", "")),
]

LOOSE = Choice(AddressPolicy.LOOSE_ENDPOINT, {"strict": OFF, "sglang": RANGE})


def ended(finding: Any) -> tuple[str, str] | None:
    return finding and (finding.deed, finding.rule)


@pytest.mark.parametrize(("expect", "outcome", "says"), RANGES)
def test_range(
    expect: Range | Declined, outcome: Resolution | Crashed, says: tuple[str, str] | None
) -> None:
    """A range is that range, a quiet decline is quiet, and any other has a reason of use."""
    assert says == ended(judge_range(expect, outcome, rule="E9", asked="this"))


@pytest.mark.parametrize("text", ["past the end", "None past 65535"])
def test_range_without_texts(text: str) -> None:
    """Where texts are not read, any text will do, but none will not."""
    about: Any = {"rule": "E9", "asked": "this", "texts": False}
    assert judge_range(PAST, Resolution(text=text), **about) is None
    assert ("wrong-reason", "E5") == ended(judge_range(PAST, Resolution(), **about))


@pytest.mark.parametrize(("expect", "outcome", "says"), STARTS)
def test_start(
    expect: Passes | Refuses, outcome: Read | Refused | Crashed, says: tuple[str, str] | None
) -> None:
    """An engine starts, or refuses with the reason."""
    assert says == ended(judge_start(expect, outcome, rule="E9", asked="this"))


def test_start_without_texts() -> None:
    """Where texts are not read, a refusal still needs one."""
    about: Any = {"rule": "E9", "asked": "this", "texts": False}
    assert judge_start(REFUSES, Refused(text="no"), **about) is None
    assert ("wrong-reason", "E9") == ended(judge_start(REFUSES, Refused(), **about))


@pytest.mark.parametrize(("expect", "outcome", "says"), BLOCKS)
def test_block(
    expect: Advertised | Unadvertised, outcome: Any, says: tuple[str, str] | None
) -> None:
    """A block has its keys with value and type, and what is wrong names the rule of the key."""
    assert says == ended(judge_block(expect, outcome, rule="E9", asked="this"))


@pytest.mark.parametrize(("expect", "outcome", "says"), PLANS)
def test_plan(
    expect: Planned | Unplanned, outcome: Any, says: tuple[str, str, Hazard] | None
) -> None:
    """Each rank is dialled once at its endpoint, whatever the order and the spelling of IPv6."""
    finding = judge_plan(expect, outcome, rule="E9", asked="this")
    assert says == (finding and (finding.deed, finding.rule, finding.hazard))


@pytest.mark.parametrize(
    ("expect", "value", "fine"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        (("*", 1), ("*", 1), True),
        (("*", 1), ["*", 1], False),
    ],
)
def test_value(expect: object, value: object, fine: bool) -> None:
    """A value is that value, and of its type."""
    finding = judge_value(expect, Read(value), rule="E9", asked="this")
    assert (None if fine else ("wrong-value", "E9")) == ended(finding)
    assert ("crashed", "E9") == ended(judge_value(expect, BOOM, rule="E9", asked="this"))


@pytest.mark.parametrize(("text", "expected"), SPLITS)
def test_split(text: object, expected: tuple[str, object]) -> None:
    """An endpoint is split without the parsers of this package; what is none equals no other."""
    assert expected == split(text)


def test_choose() -> None:
    """What is owed hangs on the declared answer."""
    policies = {AddressPolicy.LOOSE_ENDPOINT: "sglang"}
    assert RANGE is choose(LOOSE, rule="E9", policies=policies)
    assert OFF is choose(OFF, rule="E9", policies={})


@pytest.mark.parametrize(("answer", "says"), [("", "nothing is"), ("accept", "'accept' is")])
def test_undeclared(answer: str, says: str) -> None:
    """A policy that is not declared, or in other words, is a finding."""
    policies = {AddressPolicy.LOOSE_ENDPOINT: answer} if answer else {}
    finding = choose(LOOSE, rule="E9", policies=policies)
    assert ("undeclared", "E9", f"{says} declared") == (finding.deed, finding.rule, finding.got)
    assert "the policy LooseEndpoint to be declared as 'strict' or 'sglang'" == finding.expected


@pytest.mark.parametrize(
    ("resolution", "text"),
    [
        (Resolution("*", 5558), "the range from port 5558 on *"),
        (Resolution(), "a decline without a word"),
        (Resolution(code="off"), "a decline without a word"),
        (Resolution(code="overlaps-kv"), "a decline with overlaps-kv"),
        (Resolution(text="no"), "a decline saying 'no'"),
        (Resolution(code="overlaps-kv", text="no"), "a decline with overlaps-kv saying 'no'"),
    ],
)
def test_text(resolution: Resolution, text: str) -> None:
    """A resolution reads as part of a sentence."""
    assert text == str(resolution)
