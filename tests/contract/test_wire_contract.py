"""`WireContract` as an engine team meets it, a struct like SGLang's first of all."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from pytest_loadwire.contract.wire import FORBIDDEN
from pytest_loadwire.vectors import load
from pytest_loadwire.wire import field_names

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """
import msgspec

from pytest_loadwire import wire
from pytest_loadwire.contract.base import Deviation
from pytest_loadwire.contract.wire import WireContract
"""

# An engine's struct in the form that SGLang has: positional, with defaults, the tag its own name.
SGLANG_LIKE = """
class LoadStat(msgspec.Struct, array_like=True, tag=True):
    num_running_reqs: int
    num_waiting_reqs: int
    num_tokens: int
    max_total_num_tokens: int
    attn_dp_rank: int | None = None
    num_waiting_uncached_tokens: int = 0
    num_total_tokens: int = 0
    max_running_requests: int = 0
    total_prefill_uncached_tokens: int = 0
    total_prefill_busy_us: int = 0
"""
MODEL = """
def make_stat(self, values):
    return wire.from_dict(values, revision=self.revision)

def encode(self, stat):
    return wire.encode(stat)
"""
PUBLISH = """
def publish(self, stats):
    return [wire.build_frames(number, stat) for number, stat in enumerate(stats)]
"""

# What msgspec sends without a word, by the kind of the forbidden value.
UNCHECKED_BY_MSGSPEC = ("float", "float-fraction", "bool", "nil", "negative", "text")


def module(*bodies: str, head: str = HEAD) -> str:
    """A test module with a contract class for each body."""
    classes = [
        f"class Test{name}(WireContract):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        for name, body in zip(("Wire", "Other"), bodies, strict=False)
    ]
    return head + "\n" + "\n".join(classes)


def canonical(revision: int = 2) -> list[str]:
    """The ids of the tests of an engine's bytes."""
    return [
        f"test_sends_canonical_bytes[{vector.rule}-{vector.id}]"
        for vector in load().payloads
        if vector.engine == revision and vector.kind != "spelling"
    ]


def forbidden(*kinds: str, revision: int = 2) -> list[str]:
    """The ids of the tests of values that are no count, for these kinds of value in every slot."""
    return [
        f"test_never_sends_what_is_no_count[W5-{kind}-{field.replace('_', '-')}]"
        for field in field_names(revision)
        for kind in kinds
        if (kind, field) != ("nil", "attn_dp_rank")
    ]


def bursts() -> list[str]:
    """The ids of the tests of an engine's messages."""
    return [
        f"test_sends_three_frames_in_sequence[S1-{case}]" for case in ("three-readings", "nil-rank")
    ]


def names(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Reports by the name of their test, in the order of names."""
    return sorted(report.nodeid.rpartition("::")[2] for report in reports)


@pytest.mark.parametrize("revision", [1, 2])
def test_each_case_is_a_test_named_by_rule_and_vector(
    pytester: pytest.Pytester, revision: int
) -> None:
    """The model engine passes every case of its revision, and each id names the rule."""
    pytester.makepyfile(module(f"revision = {revision}" + MODEL + PUBLISH))
    passed, skipped, failed = pytester.inline_run().listoutcomes()
    assert (skipped, failed) == ([], [])
    kinds = [kind for kind, *_ in FORBIDDEN]
    assert names(passed) == sorted(
        [
            *canonical(revision),
            *forbidden(*kinds, revision=revision),
            *bursts(),
            "test_declarations",
        ]
    )


def test_two_steps_hold_an_engine_like_sglang_to_the_bytes(pytester: pytest.Pytester) -> None:
    """One line is enough: canonical bytes pass, and W5 fails where msgspec checks nothing."""
    pytester.makepyfile(module("load_stat = LoadStat", head=HEAD + SGLANG_LIKE))
    passed, skipped, failed = pytester.inline_run().listoutcomes()
    assert names(failed) == sorted(forbidden(*UNCHECKED_BY_MSGSPEC))
    assert names(skipped) == ["test_sends_three_frames_in_sequence[F1-F4-S1]"]
    others = [kind for kind, *_ in FORBIDDEN if kind not in UNCHECKED_BY_MSGSPEC]
    assert names(passed) == sorted([*canonical(), *forbidden(*others), "test_declarations"])


def test_exactly_the_unchecked_values_are_to_be_declared(pytester: pytest.Pytester) -> None:
    """One deviation for what msgspec does not check leaves no failure and spares no other."""
    declared = """
    load_stat = LoadStat
    deviations = [
        Deviation(
            "W5",
            "accepted",
            "msgspec does not check the values of a struct",
            cases=("float-*", "bool-*", "nil-*", "negative-*", "text-*"),
        )
    ]
    """
    pytester.makepyfile(module(declared, head=HEAD + SGLANG_LIKE))
    _, skipped, failed = pytester.inline_run().listoutcomes()
    assert failed == []
    xfailed = [report for report in skipped if hasattr(report, "wasxfail")]
    assert names(xfailed) == sorted(forbidden(*UNCHECKED_BY_MSGSPEC))
    # pytest 7.4 puts "reason: " in front
    assert {report.wasxfail.replace("reason: ", "") for report in xfailed} == {
        "W5 accepted: msgspec does not check the values of a struct"
    }
    assert len(skipped) == len(xfailed) + 1


def test_missing_struct_says_what_to_name(pytester: pytest.Pytester) -> None:
    """Without a struct one failure says which attribute is missing, and nothing passes."""
    pytester.makepyfile(module("pass"))
    result = pytester.runpytest_inprocess("-rs")
    result.stdout.fnmatch_lines(
        [
            "TestWire has to override load_stat: name the struct *, or override make_stat",
            "*nothing is judged: see test_declarations",
        ]
    )
    result.assert_outcomes(failed=1, skipped=3)


def test_unknown_revision_is_a_wrong_declaration(pytester: pytest.Pytester) -> None:
    """A revision that the contract does not have is one failure, and no error of collecting."""
    pytester.makepyfile(module("revision = 3" + MODEL))
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["TestWire: revision = 3 is none of [[]1, 2[]]"])
    result.assert_outcomes(failed=1, skipped=3)


def test_a_missing_field_says_what_to_add(pytester: pytest.Pytester) -> None:
    """A struct that lacks a field fails with the way out, in payloads and in messages."""
    older = SGLANG_LIKE.replace("    total_prefill_busy_us: int = 0\n", "")
    pytester.makepyfile(module("load_stat = LoadStat" + PUBLISH, head=HEAD + older))
    result = pytester.runpytest_inprocess("-k", "W3-rev2-golden-a or S1-three-readings")
    says = "*'total_prefill_busy_us'; add the field, or override make_stat"
    result.stdout.fnmatch_lines(["W3 crashed: *", says, "S1 crashed: *", says])
    result.assert_outcomes(failed=2)


def test_own_field_names_are_mapped_by_make_stat(pytester: pytest.Pytester) -> None:
    """`make_stat` builds an engine's type that names its fields in another way."""
    own = """
    revision = 1

    def make_stat(self, values):
        return ["LoadStat", *values.values()]
    """
    pytester.makepyfile(module(own))
    result = pytester.runpytest_inprocess("-k", "canonical")
    result.assert_outcomes(passed=len(canonical(1)))


def test_without_publish_one_skipped_test_says_so(pytester: pytest.Pytester) -> None:
    """An engine whose messages are checked elsewhere has one skipped test, which names the hook."""
    pytester.makepyfile(module(MODEL))
    skipped = pytester.inline_run("-k", "three_frames").listoutcomes()[1]
    assert names(skipped) == ["test_sends_three_frames_in_sequence[F1-F4-S1]"]
    assert (
        "frames are not checked: override publish if your code sends a whole LoadStat as handed"
        " in; a publisher that fills in its own rank is held by PublisherContract"
    ) in str(skipped[0].longrepr)


def test_failure_shows_both_payloads_element_by_element(pytester: pytest.Pytester) -> None:
    """A failure names rule, case, expected, got and hazard, and the element that differs."""
    swapped = """
    def make_stat(self, values):
        values = {**values, "num_running_reqs": values["num_waiting_reqs"],
                  "num_waiting_reqs": values["num_running_reqs"]}
        return wire.from_dict(values)
    """
    pytester.makepyfile(module(swapped))
    result = pytester.runpytest_inprocess("-k", "canonical and W3-rev2-golden-a")
    result.stdout.fnmatch_lines(
        [
            "W3 wrong-bytes: revision 2 has 11 elements: *",
            "  case      W3-rev2-golden-a (*",
            "  expected  9ba84c6f6164537461741*",
            "  got       9b*: a router would read num_running_reqs=130 instead of 17, *",
            "  hazard    *: *",
            "*1 num_running_reqs*integer 17",
            "*1 num_running_reqs*integer 130",
        ]
    )
    result.assert_outcomes(failed=1)


def test_longer_spelling_is_named_by_its_element(pytester: pytest.Pytester) -> None:
    """Bytes that are legal and not the shortest break W6, and the text says where."""
    wide = """
    load_stat = LoadStat

    def encode(self, stat):
        return msgspec.msgpack.encode(stat).replace(b"\\xa8LoadStat", b"\\xd9\\x08LoadStat")
    """
    pytester.makepyfile(module(wide, head=HEAD + SGLANG_LIKE))
    result = pytester.runpytest_inprocess("-k", "canonical and W3-rev2-golden-a")
    result.stdout.fnmatch_lines(
        ["W6 wrong-bytes: *", "*W6 not-canonical at byte 1, element 0 (tag)*"]
    )


def test_forbidden_value_failure_says_what_was_sent(pytester: pytest.Pytester) -> None:
    """A count that was sent as a float is named with the field, the value and the alternative."""
    pytester.makepyfile(module("load_stat = LoadStat", head=HEAD + SGLANG_LIKE))
    result = pytester.runpytest_inprocess("-k", "W5-float-num-tokens")
    result.stdout.fnmatch_lines(
        [
            "W5 accepted: a count is an unsigned integer, 0 to 2^64-1",
            "  expected  a refusal of num_tokens=7.0, or 7",
            "  got       *W5 bad-type at *element 3 (num_tokens)*float 7.0",
        ]
    )


def test_messages_are_held_to_frames_and_sequence(pytester: pytest.Pytester) -> None:
    """A wrong topic breaks F2 and a sequence from 1 breaks S1, each shown frame by frame."""
    topic, late = (
        f"def publish(self, stats):\n    return [{message} for n, stat in enumerate(stats)]"
        for message in (
            "(b'load0', *wire.build_frames(n, stat)[1:])",
            "wire.build_frames(n + 1, stat)",
        )
    )
    pytester.makepyfile(module(MODEL + topic, MODEL + late))
    result = pytester.runpytest_inprocess("-k", "three-readings")
    result.stdout.fnmatch_lines(
        [
            "F2 wrong-bytes: *",
            "  frame 0 (topic): b'load0'",
            "S1 wrong-sequence: *",
            "  frame 1 (sequence): 0000000000000001 = 1",
        ]
    )
    result.assert_outcomes(failed=2)


def test_two_revisions_in_one_module(pytester: pytest.Pytester) -> None:
    """Each class of a module is held to its own revision."""
    pytester.makepyfile(module("revision = 1" + MODEL, "revision = 2" + MODEL))
    run = pytester.inline_run("-k", "canonical")
    run.assertoutcome(passed=len(canonical(1)) + len(canonical(2)))


@pytest.mark.parametrize(
    "options",
    [["-p", "xdist", "-n", "2"], ["-p", "no:xdist"]],
    ids=["with-xdist", "without-xdist"],
)
def test_works_under_strict_options(pytester: pytest.Pytester, options: list[str]) -> None:
    """Strict markers, importlib mode and warnings as errors are no trouble, xdist or not."""
    pytest.importorskip("xdist")
    pytester.makepyfile(module(MODEL + PUBLISH))
    strict = ["--import-mode=importlib", "--strict-markers", "--strict-config", "-W", "error"]
    result = pytester.runpytest_subprocess("-q", *options, *strict)
    assert result.parseoutcomes().keys() == {"passed"}
