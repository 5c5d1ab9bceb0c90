"""`DiscoveryContract`: what it asks of engines and routers, and that it catches wrong ones."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from wrong.advertisers import POLICIES, WRONG, Block, OneTextForAll, Ours, RefusesWithoutAWord
from wrong.dialers import CrashesOnNull, DialsTheKVHost, Router, UnbracketedDial

from pytest_loadwire import Deviation, DiscoveryContract, discovery
from pytest_loadwire.address_judge import Dialled
from pytest_loadwire.contract.base import UNJUDGED
from pytest_loadwire.judge import Refused
from pytest_loadwire.vectors import load

# Vectors that catch none of these, and why they are kept.
KEPT: dict[str, str] = {}


@pytest.mark.parametrize("side", [Ours, Router])
def test_a_right_side_passes(side: type[DiscoveryContract], outcomes: Any) -> None:
    """This package keeps the whole contract, and so does a router written from the rules alone."""
    assert [] == [o for o in outcomes(side) if o.how not in ("passed", "skipped")]


@pytest.mark.parametrize("side", WRONG, ids=lambda side: side.__name__)
def test_a_wrong_side_is_caught(side: type[DiscoveryContract], outcomes: Any) -> None:
    """Each side that is wrong is caught under the rules that it breaks, by name."""
    failed = [outcome for outcome in outcomes(side) if outcome.how == "failed"]
    assert WRONG[side] <= {outcome.rule for outcome in failed}
    assert [] == [outcome.text for outcome in failed if not outcome.deed]


def test_every_vector_catches_a_side(outcomes: Any) -> None:
    """A vector that catches nobody proves nothing, unless the table says why it stays."""
    caught = {
        outcome.case.partition("/")[0]
        for side in WRONG
        for outcome in outcomes(side)
        if outcome.how == "failed"
    }
    idle = [vector.id for vector in load().discovery if vector.id not in caught]
    assert [] == [case for case in idle if not any(fnmatchcase(case, kept) for kept in KEPT)]
    assert [] == [kept for kept in KEPT if not any(fnmatchcase(case, kept) for case in idle)]


# what plan returns, what the contract makes of it
PLANNED: list[tuple[object, object]] = [
    (None, Refused(text="nothing to dial")),
    ([], Refused(text="nothing to dial")),
    ({}, Refused(text="nothing to dial")),
    ("bad-port", Refused("bad-port")),
    ("the port is no number", Refused(text="the port is no number")),
    (["tcp://w:1", "tcp://w:2"], Dialled([(0, "tcp://w:1"), (1, "tcp://w:2")])),
    (("tcp://w:1",), Dialled([(0, "tcp://w:1")])),
    ([(1, "tcp://w:2"), [0, "tcp://w:1"]], Dialled([(1, "tcp://w:2"), (0, "tcp://w:1")])),
    ({0: "tcp://w:1"}, Dialled([(0, "tcp://w:1")])),
    (
        discovery.Plan("w", 1, (discovery.RankEndpoint(0, "tcp://w:1"),), range(1, 1)),
        Dialled([(0, "tcp://w:1")]),
    ),
    (
        discovery.NoPlan(discovery.NoPlanReason.BAD_PORT, "no number"),
        Refused("bad-port", text="no number"),
    ),
]


@pytest.mark.parametrize(("planned", "expected"), PLANNED)
def test_a_plan_may_have_any_usual_shape(planned: object, expected: object) -> None:
    """Endpoints come as a list, pairs, a mapping or objects; no plan as nothing, text or code."""
    assert expected == Ours().dialled(planned)


def test_another_shape_of_a_plan_asks_for_the_hook() -> None:
    """What the contract cannot read is said with the hook that has to be overridden."""
    with pytest.raises(pytest.fail.Exception, match=r"has to override dialled\(planned\): 5559 is"):
        Ours().dialled([5559])


def test_a_side_without_hooks_is_refused(outcomes: Any) -> None:
    """A class that overrides nothing would check nothing, so it fails, once."""
    done = outcomes(DiscoveryContract)
    (failed,) = (o for o in done if o.how != "skipped")
    assert "at least one of describe, check_args, plan" in failed.text
    assert {"nothing is judged: see test_declarations"} == {
        o.text for o in done if o.how == "skipped"
    }


class EngineOnly(DiscoveryContract):
    policies = {"LooseEndpoint": "strict"}
    describe = Ours.describe
    check_args = Ours.check_args


class RouterOnly(DiscoveryContract):
    policies = {"UrlCredentials": "refuse"}
    plan = Ours.plan


class StartOnly(DiscoveryContract):
    policies = {"LooseEndpoint": "strict"}
    check_args = Ours.check_args


@pytest.mark.parametrize(
    ("side", "skips"),
    [
        (Ours, []),
        (
            EngineOnly,
            [
                "A1 not checked: override server_info",
                "C1 not checked: override plan",
                "E7 of describe and binds not checked: override binds",
            ],
        ),
        (
            RouterOnly,
            [
                "A1 not checked: override server_info",
                "A1 to A4 not checked: override describe",
                "E7 of describe and binds not checked: override describe",
                "E7 of describe and check_args not checked: override describe",
                "V1 not checked: override check_args",
            ],
        ),
        (
            StartOnly,
            [
                "A1 not checked: override server_info",
                "A1 to A4 not checked: override describe",
                "C1 not checked: override plan",
                "E7 of describe and binds not checked: override describe",
                "E7 of describe and check_args not checked: override describe",
            ],
        ),
    ],
)
def test_a_hook_that_is_left_out_is_one_loud_skip(
    side: type[DiscoveryContract], skips: list[str], outcomes: Any
) -> None:
    """What is not checked for want of a hook is one skip that says which, and nothing else."""
    done = outcomes(side)
    assert skips == sorted(outcome.text for outcome in done if outcome.how == "skipped")
    assert [] == [outcome for outcome in done if outcome.how not in ("passed", "skipped")]


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({}, "\"LooseEndpoint\": 'strict' or 'sglang', not None"),
        ({"LooseEndpoint": "strict"}, "\"UrlCredentials\": 'refuse' or 'dial', not None"),
        ({**POLICIES, "LooseEndpoint": "accept"}, "'strict' or 'sglang', not 'accept'"),
        ({**POLICIES, "TrailingBytes": "reject"}, "'TrailingBytes' is no policy of addresses"),
    ],
)
def test_a_policy_has_to_be_declared(policies: dict[str, str], says: str, outcomes: Any) -> None:
    """A policy that is missing, unknown or answered otherwise is a failure that lists the words."""

    class Side(Ours):
        pass

    Side.policies = policies
    (declared,) = (o for o in outcomes(Side) if o.how == "failed")
    assert declared.case == "test_declarations"
    assert says in declared.text


def test_an_undeclared_policy_skips_its_vectors(outcomes: Any) -> None:
    """What waits for a policy points to the one failure that lists it; the rest is judged."""

    class Side(Ours):
        policies = {"LooseEndpoint": "strict"}

    waits = {o.case for o in outcomes(Side) if o.text == UNJUDGED}
    assert waits == {"plan-url-user", "plan-url-user-and-password"}


def test_a_policy_of_the_other_side_is_not_asked_for(outcomes: Any) -> None:
    """A router declares nothing of engines, nor an engine of routers."""
    assert [] == [o for o in outcomes(RouterOnly) if o.how == "failed"]
    assert [] == [o for o in outcomes(EngineOnly) if o.how == "failed"]


def test_texts_are_not_read_on_request(outcomes: Any) -> None:
    """With `reads_reasons` off a refusal may say what it wants, as long as it says something."""

    class Terse(OneTextForAll):
        reads_reasons = False

    class Mute(RefusesWithoutAWord):
        reads_reasons = False

    assert [] == [o for o in outcomes(Terse) if o.how == "failed"]
    assert {"V1"} == {o.rule for o in outcomes(Mute) if o.how == "failed"}


@pytest.mark.parametrize("value", [[], "null", 0, object()])
def test_a_block_is_null_or_a_mapping(value: object, outcomes: Any) -> None:
    """Anything else on /server_info is a failure, where null is owed as well."""

    class Other(Ours):
        def describe(self, **engine: Any) -> Any:
            return super().describe(**engine) or value

    crashed = {o.case for o in outcomes(Other) if o.deed == "crashed"}
    assert {"block-no-config", "block-no-config/server-info"} <= crashed


def test_more_keys_are_tolerated(outcomes: Any) -> None:
    """SGLang 0.5.23 adds replay_endpoint_port_base, and later engines may add more."""

    class Later(Block):
        def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
            return {**block, "replay_endpoint_port_base": 5558, "load_later": None}

    assert [] == [o for o in outcomes(Later) if o.how != "passed"]


def test_a_declared_deviation_is_an_xfail(outcomes: Any) -> None:
    """A known deviation is reported with its reason, and the rest is checked."""

    class Known(UnbracketedDial):
        deviations = [Deviation("A3", "wrong-value", "fixed in 2.0", cases=["plan-ipv6*"])]

    known = outcomes(Known)
    assert {"A3 wrong-value: fixed in 2.0"} == {o.text for o in known if o.how == "xfailed"}
    assert 3 == len([o for o in known if o.how == "xfailed"])
    assert [] == [o for o in known if o.how == "failed" and o.rule == "A3"]


@pytest.mark.parametrize(
    ("deviation", "case", "says"),
    [
        (Deviation("A3", "wrong-value", "old", ["plan-ipv6"]), "plan-ipv6", "deviation is gone"),
        (Deviation("V1", "accepted", "old", ["validate-on"]), "validate-on", "deviation is gone"),
        (Deviation("V1", "accepted", "old", ["plan-*"]), "test_declarations", "covers no case"),
        (Deviation("E1", "accepted", "old"), "test_declarations", "covers no case"),
        (Deviation("Z9", "accepted", "old"), "test_declarations", "an unknown rule"),
    ],
)
def test_a_deviation_that_is_none_fails(
    deviation: Deviation, case: str, says: str, outcomes: Any
) -> None:
    """A deviation that is gone, or excuses nothing, is a failure."""

    class Side(Ours):
        deviations = [deviation]

    failed = {o.case: o.text for o in outcomes(Side) if o.how == "failed"}
    assert [case] == list(failed)
    assert says in failed[case]


def test_a_deviation_of_another_kind_fails(outcomes: Any) -> None:
    """A crash is not excused by a deviation that was declared as a wrong value."""

    class Side(CrashesOnNull):
        deviations = [Deviation("C1", "accepted", "old", ["plan-no-block"])]

    (text,) = (o.text for o in outcomes(Side) if o.case == "plan-no-block")
    assert "declared to deviate as 'accepted', but it deviates as 'crashed'" in text


def test_a_failure_says_what_was_asked(outcomes: Any) -> None:
    """A message names the rule, the case, the question, what is owed and what came."""
    text = next(o.text for o in outcomes(DialsTheKVHost) if o.case == "plan-kv-ipv4")
    assert text.startswith("C1 wrong-value: the port comes from the advertisement")
    assert "case      C1-plan-kv-ipv4 (where KV events are" in text
    assert "expected  rank 0 at tcp://10.0.0.5:5559, rank 1 at tcp://10.0.0.5:5560 for" in text
    assert "worker_url='http://10.0.0.5:30000'" in text
    assert "got       rank 0 at tcp://10.9.9.9:5559, rank 1 at tcp://10.9.9.9:5560" in text
    assert "hazard    attracts-all" in text
