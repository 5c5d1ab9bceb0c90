"""The vectors of endpoints and discovery: every row there, proven, and held by their schemas."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from pytest_loadwire import endpoints
from pytest_loadwire.discovery import NoPlanReason
from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.golden.__main__ import main
from pytest_loadwire.golden.address_proofs import judge_address, unproven_addresses
from pytest_loadwire.rules import ADDRESS_ANSWERS, AddressPolicy
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.addresses import (
    AddressVector,
    Advertised,
    BlockVector,
    Choice,
    Declined,
    Parsed,
    ParseVector,
    Passes,
    Planned,
    PlanVector,
    Range,
    Refuses,
    ResolveVector,
    SlotVector,
    Unadvertised,
    Unplanned,
    ValidateVector,
)

GOLDEN = load()
ADDRESSES = (*GOLDEN.endpoints, *GOLDEN.discovery)
BY_ID = {vector.id: vector for vector in ADDRESSES}
LOOSE = AddressPolicy.LOOSE_ENDPOINT

# How many vectors each row of the resolver's table has: its values, each on its own.
MANY = {3: 4, 5: 4, 6: 3, 17: 2, 18: 3, 19: 2, 24: 6, 25: 5, 26: 4, 29: 3, 35: 2, 37: 12}
RESOLVER_ROWS = dict.fromkeys(range(1, 52), 1) | MANY | {40: 2, 42: 2, 46: 3, 48: 3, 50: 2}
START_STEPS = {1: 8, 2: 3, 3: 3, 4: 4, 5: 12, 6: 8}
KINDS = {
    "parse": 97,
    "resolve": 134,
    "slot": 13,
    "gate": 9,
    "block": 51,
    "validate": 41,
    "plan": 54,
}
RULES = {
    "R1",
    "R2",
    *(f"E{n}" for n in range(1, 9)),
    "V1",
    *(f"A{n}" for n in range(1, 5)),
    "C1",
    "K1",
}

# id, another expectation, what the proof says of it
TAMPERED: list[tuple[str, object, str]] = [
    ("resolve-auto", Range("*", 5557), "E2 wrong-range"),
    ("resolve-auto", Range("0.0.0.0", 5558), "E2 wrong-range"),  # noqa: S104
    ("resolve-auto", Declined(DeclineReason.OFF), "E2 accepted"),
    ("resolve-auto", Declined(DeclineReason.NOT_BINDABLE), "E2 accepted"),
    ("resolve-off", Range("*", 5558), "E1 refused"),
    ("resolve-off", Declined(DeclineReason.NOT_BINDABLE), "E5 wrong-reason"),
    ("resolve-past-1", Declined(DeclineReason.OFF), "E6 wrong-reason"),
    ("resolve-past-1", Declined(DeclineReason.OVERLAPS_KV), "E6 wrong-reason"),
    ("resolve-past-1", Declined(DeclineReason.PAST_PORT_65535, ("no such word",)), "E5 wrong-r"),
    ("resolve-past-1", Declined(DeclineReason.PAST_PORT_65535, (), ("65535",)), "E5 wrong-r"),
    ("parse-star", Parsed(5557, None, None, ipv6=False), "E4 wrong-value"),
    ("slot-attn-3-of-4-dp-0", 0, "R2 wrong-value"),
    ("slot-attn-1-of-2-dp-99", True, "R2 wrong-value"),
    ("gate-pp", True, "R1 wrong-value"),
    ("block-auto", Unadvertised(), "E7 accepted"),
    ("block-no-config", Advertised({"publisher": "zmq"}), "A4 refused"),
    ("block-off", Advertised({"load_topic": "load"}), "A2 refused"),
    ("block-auto", Advertised({"load_topic": "load"}), "A2 accepted"),
    ("validate-auto", Refuses(DeclineReason.OVERLAPS_KV), "V1 accepted"),
    ("validate-no-config", Passes(), "V1 refused"),
    ("validate-no-config", Refuses(DeclineReason.OVERLAPS_KV), "V1 wrong-reason"),
    ("plan-ipv4", Planned(("tcp://10.0.0.5:5559",), (1,)), "C1 wrong-value"),
    ("plan-ipv4", Planned(("tcp://w:5559", "tcp://w:5560"), ()), "C1 wrong-value"),
    ("plan-ipv4", Unplanned(NoPlanReason.NO_BLOCK), "C1 accepted"),
    ("plan-no-block", Planned(("tcp://10.0.0.5:5559",), ()), "C1 refused"),
    ("plan-no-block", Unplanned(NoPlanReason.BAD_URL), "C1 wrong-reason"),
    (
        "resolve-auto",
        Choice(LOOSE, {"strict": Range("*", 5558), "sglang": Range("*", 5558)}),
        "do not differ",
    ),
    (
        "resolve-auto",
        Choice(LOOSE, {"strict": Range("*", 1), "sglang": Range("*", 5558)}),
        "E2 wrong-range",
    ),
    ("resolve-auto", Choice(LOOSE, {"strict": Range("*", 5558)}), "has the answers ['strict']"),
    (
        "resolve-auto",
        Choice(LOOSE, {"refuse": Range("*", 5558), "dial": Range("*", 1)}),
        "has the answers ['refuse', 'dial']",
    ),
]


def outcomes(vector: AddressVector) -> list[Any]:
    """Everything that a vector may expect."""
    expect: Any = vector.expect
    return list(expect.outcomes.values()) if isinstance(expect, Choice) else [expect]


def test_proven() -> None:
    """This package's own parsers, resolver, advertisement and plan answer every vector."""
    assert [] == list(unproven_addresses(ADDRESSES))


@pytest.mark.parametrize(("vector_id", "expect", "says"), TAMPERED)
def test_tampered(vector_id: str, expect: object, says: str) -> None:
    """An expectation that is wrong does not pass the proof, and the proof says how."""
    vector = msgspec.structs.replace(BY_ID[vector_id], expect=expect)
    (problem,) = unproven_addresses([vector])
    assert says in problem
    assert vector_id in problem


def test_the_proof_refuses_an_id_that_stands_twice() -> None:
    """Two vectors of one id are a problem."""
    vector = BY_ID["plan-ipv4"]
    assert ["C1 plan-ipv4: the id stands twice"] == list(unproven_addresses([vector, vector]))


def test_a_resolver_that_differs_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regeneration refuses to write vectors that this package itself does not keep."""
    monkeypatch.setattr(endpoints, "_overlap", lambda *_: False)
    assert main(["--write", "--root", str(root)]) == 1
    said = capsys.readouterr().out
    assert "resolve-at-inside-kv: E3 accepted: expected a decline with overlaps-kv" in said
    assert "nothing written" in said


def test_every_row_of_the_resolver_is_there() -> None:
    """All 51 rows of the table, each value of a row in a vector of its own."""
    rows: Counter[int] = Counter()
    for vector in GOLDEN.endpoints:
        found = re.match(r"resolver table 1\.1 row ([0-9]+)(?:-([0-9]+))? \[", vector.source)
        if found:
            last = int(found[2] or found[1])
            names = range(int(found[1]), last + 1)
            # Rows that were measured together are told apart by their order.
            rows[names[min(rows_of(vector.source, vector.id), len(names) - 1)]] += 1
    assert rows == RESOLVER_ROWS


def rows_of(source: str, vector_id: str) -> int:
    """How many vectors of the same source stand in front of this one."""
    same = [vector.id for vector in GOLDEN.endpoints if vector.source == source]
    return same.index(vector_id)


def test_every_step_of_the_start_is_there() -> None:
    """All steps of the validation."""
    steps = [
        int(found[1])
        for vector in GOLDEN.discovery
        if (found := re.match(r"start table 2 step ([1-6]) \[", vector.source))
    ]
    assert START_STEPS == Counter(steps)


def test_kinds() -> None:
    """An id begins with the kind, so that ids of several files never meet."""
    kinds = Counter(vector.id.partition("-")[0] for vector in ADDRESSES)
    assert KINDS == kinds
    for vector in ADDRESSES:
        assert type(vector).__struct_config__.tag == vector.id.partition("-")[0]
    others = {v.id for v in (*GOLDEN.payloads, *GOLDEN.frames, *GOLDEN.cadence)}
    assert set() == others & set(BY_ID)


def test_every_rule_has_vectors() -> None:
    """Every rule that a single question can show has some; R3 binds what the ranges say."""
    assert RULES == {vector.rule for vector in ADDRESSES}


def test_every_reason_has_vectors() -> None:
    """Every reason to decline, refuse or plan nothing; another topic is no matter of a vector."""
    declined = {o.reason for v in ADDRESSES for o in outcomes(v) if isinstance(o, Declined)}
    refused = {o.reason for v in ADDRESSES for o in outcomes(v) if isinstance(o, Refuses)}
    unplanned = {o.reason for v in ADDRESSES for o in outcomes(v) if isinstance(o, Unplanned)}
    assert set(DeclineReason) == declined
    assert set(DeclineReason) - {DeclineReason.OFF} == refused
    assert set(NoPlanReason) - {NoPlanReason.BAD_TOPIC} == unplanned


def test_every_source_is_marked() -> None:
    """A source says table and mark, or the rule by which a neighbour stands there."""
    table = r"\w+ table [0-9., a-z-]+ \[[TCDL](, [TCDL])*\]; [\w.*, ]+ of SGLang 0\.5\.23 answers"
    neighbour = r"\w+ neighbour by [A-Z][0-9]; [\w.*, ]+ of SGLang 0\.5\.23 answers"
    router = r"by [A-Z][0-9]; a router's half, which no table of SGLang has"
    assert [] == [
        vector.source
        for vector in ADDRESSES
        if not re.fullmatch(f"{table}|{neighbour}|{router}", vector.source)
    ]


def test_quiet_declines_say_nothing() -> None:
    """Off has no words to look for, and every other decline may have some."""
    for vector in ADDRESSES:
        for outcome in outcomes(vector):
            if isinstance(outcome, Declined) and outcome.is_quiet:
                assert outcome.mentions == outcome.omits == ()
                assert vector.rule == "E1"


def test_answers() -> None:
    """A choice has the two answers of its policy."""
    choices = [v.expect for v in ADDRESSES if isinstance(v.expect, Choice)]
    assert set(AddressPolicy) == {choice.policy for choice in choices}
    for choice in choices:
        assert ADDRESS_ANSWERS[choice.policy] == tuple(choice.outcomes)


def test_nobody_judges_himself() -> None:
    """The judge compares with what the file says, whatever the parsers of this package say."""
    vector = BY_ID["resolve-auto"]
    assert isinstance(vector, ResolveVector)
    assert judge_address(vector) is None
    assert judge_address(msgspec.structs.replace(vector, dp_size=2)) is not None


def first(kind: type[AddressVector], *, loose: bool = False) -> str:
    """The first vector of a kind, with or without a choice."""
    return next(
        v.id for v in ADDRESSES if type(v) is kind and isinstance(v.expect, Choice) is loose
    )


def put(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of one value of a vector."""

    def change(vector: dict[str, Any]) -> None:
        place: Any = vector
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def drop(*path: str) -> Callable[[dict[str, Any]], None]:
    """A vector that lacks a value."""

    def change(vector: dict[str, Any]) -> None:
        place: Any = vector
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


BROKEN: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    *(
        (first(kind), drop(key))
        for kind in (
            ParseVector,
            ResolveVector,
            SlotVector,
            BlockVector,
            ValidateVector,
            PlanVector,
        )
        for key in ("id", "rule", "kind", "why", "source", "expect")
    ),
    ("resolve-auto", put("id", value="Resolve")),
    ("resolve-auto", put("rule", value="e2")),
    ("resolve-auto", put("kind", value="parse")),
    ("resolve-auto", put("dp_size", value="1")),
    ("resolve-auto", put("kv_endpoint", value=5557)),
    ("resolve-auto", put("more", value=1)),
    ("resolve-auto", drop("replay_endpoint")),
    ("resolve-auto", put("expect", "base", value=65536)),
    ("resolve-auto", put("expect", "base", value="5558")),
    ("resolve-auto", put("expect", "host", value="10.0.0.5")),
    ("resolve-auto", put("expect", "verdict", value="decline")),
    ("resolve-off", put("expect", "reason", value="because")),
    ("resolve-off", put("expect", "mentions", value=[])),
    ("resolve-auto-kv-underscore", put("expect", "policy", value="UrlCredentials")),
    ("resolve-auto-kv-underscore", drop("expect", "outcomes", "strict")),
    ("resolve-auto-kv-underscore", put("expect", "outcomes", "loose", value=None)),
    ("parse-star", put("expect", "port", value=0)),
    ("parse-star", put("expect", "bindable", value=["*", 5557])),
    ("parse-star", drop("expect", "ipv6")),
    ("slot-attn-3-of-4-dp-0", put("expect", value=-1)),
    ("slot-attn-3-of-4-dp-0", put("expect", value="3")),
    ("slot-attn-3-of-4-dp-0", put("attn_dp_size", value=0)),
    ("gate-pp", put("expect", value=0)),
    ("block-auto", drop("expect", "block", "topic")),
    ("block-auto", drop("expect", "block", "load_topic")),
    ("block-auto", drop("expect", "block", "load_endpoint_port_base")),
    ("block-auto", put("expect", "block", "load_topic", value="loads")),
    ("block-auto", put("expect", "block", "more", value=1)),
    ("block-auto", put("page_size", value="64")),
    ("validate-no-config", put("expect", "reason", value="off")),
    ("validate-no-config", drop("dp_size")),
    ("plan-ipv4", put("expect", "endpoints", value=[])),
    ("plan-ipv4", put("expect", "endpoints", value=["10.0.0.5:5559"])),
    ("plan-ipv4", put("expect", "skipped", value=[0])),
    ("plan-ipv4", put("worker_url", value=None)),
    ("plan-no-block", put("expect", "reason", value="because")),
    ("plan-url-user", put("expect", "policy", value="LooseEndpoint")),
]


@pytest.mark.parametrize(("vector_id", "change"), BROKEN)
def test_broken(vector_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    """A broken vector is refused by its schema."""
    subject = "endpoints" if BY_ID[vector_id] in GOLDEN.endpoints else "discovery"
    schema = json.loads((GOLDEN.root / f"schema/{subject}.schema.json").read_text("utf-8"))
    document = json.loads((GOLDEN.root / f"{subject}.json").read_text("utf-8"))
    (vector,) = (v for v in document["vectors"] if v["id"] == vector_id)
    checker = jsonschema.Draft202012Validator(schema)
    assert checker.is_valid({**document, "vectors": [copy.deepcopy(vector)]})
    change(vector)
    assert not checker.is_valid({**document, "vectors": [vector]})
