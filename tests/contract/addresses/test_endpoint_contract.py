"""`EndpointContract`: what it asks of an engine, and that it catches engines that are wrong."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from wrong.parsers import CrashesOnNothing, ForgetfulResolver, PythonPorts
from wrong.plain import WRONG, Plain
from wrong.resolvers import (
    AnyHostBinds,
    DefaultOn,
    ExplicitWithoutKV,
    NoisyOff,
    NoOverlapCheck,
    PackedOverReplay,
    PastTheLastPort,
    SaysNothingOfUse,
    SilentDecline,
    SubstringWildcard,
)

from pytest_loadwire import Deviation, EndpointContract
from pytest_loadwire import endpoints as ours
from pytest_loadwire.address_judge import Resolution
from pytest_loadwire.discovery import KVEventsConfig
from pytest_loadwire.vectors import load


class Ours(EndpointContract):
    """The engine side of this package, with every hook."""

    policies = {"LooseEndpoint": "strict"}

    def resolve(self, **asked: Any) -> object:
        return ours.resolve_load_pub_range(**asked)

    def parse_port(self, endpoint: str | None) -> int | None:
        return ours.parse_tcp_port(endpoint)

    def advertisable(self, endpoint: str | None) -> object:
        return ours.parse_advertisable_tcp(endpoint)

    def bindable(self, endpoint: str | None) -> object:
        return ours.parse_bindable_tcp(endpoint)

    def sets_ipv6(self, endpoint: str) -> bool:
        return ours.is_zmq_endpoint_ipv6(endpoint)

    def slot(self, **ranks: Any) -> int:
        return ours.select_kv_publisher_dp_rank(**ranks)

    def publishes(self, **ranks: Any) -> bool:
        return ours.is_kv_publisher_rank(**ranks)

    def binds(self, *, kv_events_config: str | None, slot: int, **asked: Any) -> str | None:
        if kv_events_config is None:
            return None
        place = KVEventsConfig.from_cli(kv_events_config).load_range(**asked)
        return place.endpoint(slot) if isinstance(place, ours.LoadRange) else None


# Vectors that catch none of the engines above, and why they are kept.
KEPT: dict[str, str] = {}


@pytest.mark.parametrize("engine", [Ours, Plain])
def test_a_right_engine_passes(engine: type[EndpointContract], outcomes: Any) -> None:
    """This package, and a second engine written from the rules alone, keep the whole contract."""
    assert [] == [outcome for outcome in outcomes(engine) if outcome.how != "passed"]


@pytest.mark.parametrize("engine", WRONG, ids=lambda engine: engine.__name__)
def test_a_wrong_engine_is_caught(engine: type[Plain], outcomes: Any) -> None:
    """Each engine that is wrong is caught under the rules that it breaks, by name."""
    failed = [outcome for outcome in outcomes(engine) if outcome.how == "failed"]
    assert WRONG[engine] <= {outcome.rule for outcome in failed}
    assert [] == [outcome.text for outcome in failed if not outcome.deed]


def test_every_vector_catches_an_engine(outcomes: Any) -> None:
    """A vector that catches no wrong engine proves nothing, unless the table says why it stays."""
    caught = {
        outcome.case.partition("/")[0]
        for engine in WRONG
        for outcome in outcomes(engine)
        if outcome.how == "failed"
    }
    idle = [vector.id for vector in load().endpoints if vector.id not in caught]
    assert [] == [case for case in idle if not any(fnmatchcase(case, kept) for kept in KEPT)]
    assert [] == [kept for kept in KEPT if not any(fnmatchcase(case, kept) for case in idle)]


# an engine, the group of the grid that catches it, the rule and deed that are named
ON_THE_GRID = [
    (DefaultOn, "star", "E1", "wrong-range"),
    (PackedOverReplay, "star", "E2", "wrong-range"),
    (NoOverlapCheck, "ipv4", "E3", "wrong-range"),
    (SubstringWildcard, "ipv6", "E4", "wrong-range"),
    (AnyHostBinds, "star", "E4", "wrong-range"),
    (SilentDecline, "ipc", "E5", "wrong-reason"),
    (PastTheLastPort, "0-0-0-0", "E6", "wrong-range"),
    (ExplicitWithoutKV, "no-config", "E7", "accepted"),
    (ForgetfulResolver, "ipv6-any", "E7", "wrong-range"),
    (CrashesOnNothing, "no-config", "E5", "crashed"),
]


@pytest.mark.parametrize(("engine", "group", "rule", "deed"), ON_THE_GRID)
def test_the_grid_asks_no_oracle(
    engine: type[Plain], group: str, rule: str, deed: str, outcomes: Any
) -> None:
    """Over a grid of engines every range is clear of the others, whoever computed it."""
    (found,) = (o for o in outcomes(engine)[::-1] if o.case == f"grid-{group}" and "E2-" in o.text)
    assert (rule, deed) == (found.rule, found.deed)


# what resolve returns, what the contract makes of it
RESOLVED: list[tuple[object, Resolution]] = [
    (None, Resolution()),
    ((None, None), Resolution()),
    ("off", Resolution(code="off")),
    ("not-bindable", Resolution(code="not-bindable")),
    ("give another address", Resolution(text="give another address")),
    ((None, "give another"), Resolution(text="give another")),
    (("not-bindable", "give another"), Resolution(code="not-bindable", text="give another")),
    (("*", 5558), Resolution("*", 5558)),
    (["[::]", 5558], Resolution("::", 5558)),
    ((("::", 5558), None), Resolution("::", 5558)),
    ((("*", 5558), "fine"), Resolution("*", 5558, text="fine")),
    ((ours.LoadRange("*", 5558, 2), None), Resolution("*", 5558)),
    (ours.LoadRange("*", 5558, 2), Resolution("*", 5558)),
    (ours.Decline(ours.DeclineReason.OFF), Resolution(code="off")),
    (
        ours.Decline(ours.DeclineReason.OVERLAPS_KV, "choose another"),
        Resolution(code="overlaps-kv", text="choose another"),
    ),
]


@pytest.mark.parametrize(("resolved", "expected"), RESOLVED)
def test_an_answer_may_have_any_usual_shape(resolved: object, expected: Resolution) -> None:
    """A range and a decline are read from pairs, texts, codes and objects."""
    assert expected == Ours().resolution(resolved)


@pytest.mark.parametrize("resolved", [5558, object(), ("*", 5558, 2)])
def test_another_shape_asks_for_the_hook(resolved: object) -> None:
    """What the contract cannot read is said with the hook that has to be overridden."""
    with pytest.raises(pytest.fail.Exception, match=r"has to override resolution\(resolved\)"):
        Ours().resolution(resolved)


def test_the_resolver_has_to_be_there(outcomes: Any) -> None:
    """Without `resolve` nothing can be said: one failure asks for it, the rest points there."""

    class Nothing(EndpointContract):
        policies = {"LooseEndpoint": "strict"}

    done = outcomes(Nothing)
    (failed,) = (o for o in done if o.how != "skipped")
    assert failed.case == "test_declarations"
    assert failed.text == (
        "Nothing has to override resolve: answer where your engine publishes its load"
    )
    assert {"nothing is judged: see test_declarations"} == {
        o.text for o in done if o.how == "skipped"
    }
    assert len(done) == 11


def test_a_hook_that_is_left_out_is_one_loud_skip(outcomes: Any) -> None:
    """What is not checked for want of a hook is one skip that says which, and nothing else."""

    class Small(EndpointContract):
        policies = {"LooseEndpoint": "strict"}
        resolve = Ours.resolve

    done = outcomes(Small)
    assert [
        "E7 not checked: override binds",
        "R1 not checked: override publishes",
        "R2 not checked: override slot",
        "R3 not checked: override binds",
        "advertisable of endpoints not checked: override advertisable",
        "bindable of endpoints not checked: override bindable",
        "ipv6 of endpoints not checked: override sets_ipv6",
        "port of endpoints not checked: override parse_port",
    ] == sorted(o.text for o in done if o.how == "skipped")
    assert [] == [o for o in done if o.how not in ("passed", "skipped")]


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ({}, "\"LooseEndpoint\": 'strict' or 'sglang', not None"),
        ({"LooseEndpoint": "loose"}, "\"LooseEndpoint\": 'strict' or 'sglang', not 'loose'"),
        ({"LooseEndpoint": "strict", "Loose": "x"}, "'Loose' is no policy of addresses"),
    ],
)
def test_a_policy_has_to_be_declared(policies: dict[str, str], says: str, outcomes: Any) -> None:
    """A policy that is missing, unknown or answered otherwise is a failure that lists the words."""

    class Engine(Ours):
        pass

    Engine.policies = policies
    done = outcomes(Engine)
    (declared,) = (o for o in done if o.case == "test_declarations")
    assert says in declared.text
    (asks,) = (o for o in done if o.case == "resolve-auto-kv-underscore")
    assert asks.how == ("passed" if policies.get("LooseEndpoint") == "strict" else "skipped")
    assert [] == [o for o in done if o.how == "failed" and o is not declared]


def test_an_engine_as_loose_as_sglang_says_so(outcomes: Any) -> None:
    """A loose engine passes with that declaration, and fails when it claims to be strict."""

    class Loose(PythonPorts):
        policies = {"LooseEndpoint": "sglang"}

    ports = "resolve-auto-kv-underscore"
    assert ["passed"] == [o.how for o in outcomes(Loose) if o.case == ports]
    (strict,) = (o for o in outcomes(PythonPorts) if o.case == ports)
    assert strict.deed == "accepted"
    assert ", because LooseEndpoint is declared 'strict'\n" in strict.text


def test_a_text_that_lacks_a_word_is_told_which(outcomes: Any) -> None:
    """What a decline has to mention is said with the reason, and with the switch to turn off."""
    texts = [o.text for o in outcomes(SaysNothingOfUse) if o.deed == "wrong-reason"]
    (text,) = (text for text in texts if "E4-resolve-auto-kv-ipv4 " in text)
    assert (
        "  expected  the text to mention 'bindable' (operators search for it;"
        " reads_reasons = False turns this check off) in a decline with not-bindable for " in text
    )


def test_texts_are_not_read_on_request(outcomes: Any) -> None:
    """With `reads_reasons` off a decline may say what it wants, as long as it says something."""

    class Terse(SaysNothingOfUse):
        reads_reasons = False

    class Mute(SilentDecline):
        reads_reasons = False

    assert [] == [o for o in outcomes(Terse) if o.how == "failed"]
    assert {"E5"} == {o.rule for o in outcomes(Mute) if o.how == "failed"}


def test_a_declared_deviation_is_an_xfail(outcomes: Any) -> None:
    """A known deviation is reported with its reason; when it is gone, it fails."""

    class Known(DefaultOn):
        deviations = [
            Deviation("E1", "accepted", "on until 2.0", ["resolve-off-unset", "resolve-off-empty"])
        ]

    class Gone(Ours):
        deviations = Known.deviations

    class Other(NoisyOff):
        deviations = Known.deviations

    cases = ("resolve-off-unset", "resolve-off-empty")
    for engine, how, says in (
        (Known, "xfailed", "E1 accepted: on until 2.0"),
        (Gone, "failed", "the declared deviation is gone"),
        (Other, "failed", "declared to deviate as 'accepted', but it deviates as 'wrong-reason'"),
    ):
        for outcome in outcomes(engine):
            if outcome.case in cases:
                assert how == outcome.how
                assert says in outcome.text


def test_a_failure_says_what_was_asked(outcomes: Any) -> None:
    """A message names the rule, the case, the question, what is owed and what came."""
    text = next(o.text for o in outcomes(PackedOverReplay) if o.case == "resolve-auto-replay-next")
    assert text.splitlines()[0].startswith(
        "E2 wrong-range: auto packs the range behind the KV range"
    )
    assert "  case      E2-resolve-auto-replay-next (auto steps behind the replay range" in text
    assert "  expected  the range from port 5559 on * for kv_endpoint='tcp://*:5557', " in text
    assert "replay_endpoint='tcp://*:5558', dp_size=1, load_publish_endpoint='auto'" in text
    assert "  got       the range from port 5558 on *" in text


def test_a_team_inherits_it(pytester: pytest.Pytester) -> None:
    """In a run of pytest each vector is a test with rule and id, a deviation an xfail."""
    pytester.makepyfile(
        """
        from pytest_loadwire import Deviation, EndpointContract
        from pytest_loadwire.endpoints import resolve_load_pub_range, select_kv_publisher_dp_rank

        class TestEndpoints(EndpointContract):
            policies = {"LooseEndpoint": "strict"}
            deviations = [Deviation("R2", "wrong-value", "never unset", ["*-dp-unset"])]

            def resolve(self, **asked):
                return resolve_load_pub_range(**asked)

            def slot(self, **ranks):
                return None if ranks["dp_rank"] is None else select_kv_publisher_dp_rank(**ranks)
        """
    )
    result = pytester.runpytest("-v", "-rsx", "-p", "no:cacheprovider")
    counts = result.parseoutcomes()
    assert {"passed", "skipped", "xfailed"} == set(counts)
    assert (7, 4) == (counts["skipped"], counts["xfailed"])
    result.stdout.fnmatch_lines_random(
        [
            "*test_resolves?E2-resolve-auto? PASSED*",
            "*test_selects_slot?R2-slot-attn-1-of-2-dp-unset? XFAIL*",
            "*test_gates?no-publishes? SKIPPED*",
            "SKIPPED*: R1 not checked: override publishes",
        ]
    )
