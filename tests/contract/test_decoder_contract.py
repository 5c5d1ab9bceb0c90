"""`DecoderContract` as a router team meets it: ids, hooks, declarations, what a failure says."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from pytest_loadwire.vectors import load

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """
from pytest_loadwire import wire
from pytest_loadwire.contract.decoder import DecoderContract

POLICIES = {
    "TrailingBytes": "reject",
    "OmittedRank": "reject",
    "TagAsBin": "reject",
    "CountAboveI64": "accept",
    "PartialTail": "older",
    "NilTail": "reject",
}
"""
FRAMES = """
def decode_frames(self, frames):
    return wire.parse_frames(frames, revision=self.revision or wire.LATEST)
"""
DECODE = """
def decode(self, payload):
    return wire.decode(payload, revision=self.revision or wire.LATEST)
"""


def module(*bodies: str, head: str = HEAD) -> str:
    """A test module with a contract class for each body."""
    classes = [
        f"class Test{name}(DecoderContract):\n    policies = POLICIES\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
        for name, body in zip(("Decoder", "Other"), bodies, strict=False)
    ]
    return head + "\n" + "\n".join(classes)


def forms() -> list[str]:
    """The ids of every payload test, as pytest shows them."""
    return [
        f"test_reads_payload[{vector.rule}-{form}]"
        for vector in load().payloads
        for form, _ in vector.forms()
    ]


def messages() -> list[str]:
    """The ids of every frame test."""
    return [f"test_reads_frames[{vector.rule}-{vector.id}]" for vector in load().frames]


def names(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Reports by the name of their test."""
    return [report.nodeid.rpartition("::")[2] for report in reports]


def test_each_case_is_a_test_named_by_rule_and_vector(pytester: pytest.Pytester) -> None:
    """Every vector and every spelling of it is one test, and its id names the rule."""
    pytester.makepyfile(module(DECODE + FRAMES))
    passed, skipped, failed = pytester.inline_run().listoutcomes()
    assert (skipped, failed) == ([], [])
    assert sorted(names(passed)) == sorted([*forms(), *messages(), "test_declarations"])
    assert "test_reads_payload[W7-rev2-spelled-headers/array-16]" in names(passed)


def test_base_class_alone_runs_nothing(pytester: pytest.Pytester) -> None:
    """Importing the contract class collects no test."""
    pytester.makepyfile(HEAD)
    assert pytester.inline_run().listoutcomes() == ([], [], [])


def test_missing_decode_says_what_to_override(pytester: pytest.Pytester) -> None:
    """Without `decode` one failure says which hook is missing; the rest is skipped."""
    pytester.makepyfile(module("pass"))
    result = pytester.runpytest_inprocess("-rs")
    result.stdout.fnmatch_lines(
        [
            "TestDecoder has to override decode(payload): there is nothing to decode with; or set*",
            "*nothing is judged: see test_declarations",
        ]
    )
    result.assert_outcomes(failed=1, skipped=2)


def test_unreadable_result_says_what_to_override(pytester: pytest.Pytester) -> None:
    """A result without the contract's names asks for `reading`, by the type that came."""
    pytester.makepyfile(module("def decode(self, payload):\n    return (7, 3)"))
    result = pytester.runpytest_inprocess("-k", "rev2-golden-a and reads_payload")
    result.stdout.fnmatch_lines(["TestDecoder has to override reading(decoded): a tuple has none*"])
    result.assert_outcomes(failed=1)


def test_own_names_are_mapped_by_reading(pytester: pytest.Pytester) -> None:
    """`reading` translates a decoder's own names into the contract's."""
    own = """
    def decode(self, payload):
        return list(wire.to_dict(wire.decode(payload)).values())

    def reading(self, decoded):
        return dict(zip(wire.field_names(), decoded))
    """
    pytester.makepyfile(module(own))
    result = pytester.runpytest_inprocess("-k", "golden and reads_payload")
    result.assert_outcomes(passed=8)


def test_undeclared_policies_are_listed(pytester: pytest.Pytester) -> None:
    """One failure lists every policy to declare with its answers, ready to be pasted."""
    policies = "{'TrailingBytes': 'maybe', 'TagAsBin': 'accept', 'Tailing': 'x'}"
    pytester.makepyfile(module(f"policies = {policies}" + DECODE))
    result = pytester.runpytest_inprocess("-k", "declarations")
    result.stdout.fnmatch_lines(
        [
            "declare on the class:",
            "  'Tailing' is no policy",
            "  policies = {",
            '      "TrailingBytes": "reject",  # or "accept", not \'maybe\'',
            '      "OmittedRank": "reject",  # or "accept"',
            '      "TagAsBin": "accept",',
            '      "CountAboveI64": "reject",  # or "accept"',
            '      "PartialTail": "partial",  # or "older"',
            '      "NilTail": "reject",  # or "accept"',
            "  }",
        ],
        consecutive=True,
    )
    result.assert_outcomes(failed=1)


def test_undeclared_policy_skips_its_vectors(pytester: pytest.Pytester) -> None:
    """A vector that asks for a policy points to the list of all, whatever the decoder did."""
    pytester.makepyfile(module("policies = {}" + DECODE))
    result = pytester.runpytest_inprocess("-rs", "-k", "rev1-trailing-nil or declarations")
    result.stdout.fnmatch_lines(["*nothing is judged: see test_declarations"])
    result.assert_outcomes(failed=1, skipped=1)


@pytest.mark.parametrize("answer", ["accept", "reject"])
def test_declared_policy_is_what_is_checked(pytester: pytest.Pytester, answer: str) -> None:
    """A decoder that refuses trailing bytes passes only where it declares that."""
    pytester.makepyfile(module(f"policies = {{**POLICIES, 'TrailingBytes': {answer!r}}}" + DECODE))
    result = pytester.runpytest_inprocess("-k", "rev1-trailing-nil")
    result.assert_outcomes(**{"passed" if answer == "reject" else "failed": 1})


def test_unknown_revision_is_a_wrong_declaration(pytester: pytest.Pytester) -> None:
    """A revision that the contract does not have is named along with those it has."""
    pytester.makepyfile(module("revision = 9" + DECODE + FRAMES))
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["TestDecoder: revision = 9 is none of [[]1, 2[]]"])
    result.assert_outcomes(failed=1, skipped=2)


CRASHING = """
def decode(self, payload):
    try:
        return wire.decode(payload)
    except wire.WireError as error:
        raise KeyError(error.element) from None
"""


def test_crash_is_no_refusal(pytester: pytest.Pytester) -> None:
    """An exception that is none of `refusals` is a crash, and the text says what would refuse."""
    pytester.makepyfile(module(CRASHING))
    result = pytester.runpytest_inprocess("-k", "tag-lower-case")
    result.stdout.fnmatch_lines(
        [
            "W1 crashed: *",
            "*expected  a refusal with bad-tag at element 0",
            "*got       crashed: KeyError: 0 (it refuses by ValueError, LoadwireError)",
            "*hazard    crash: *",
        ]
    )
    result.assert_outcomes(failed=1)


def test_declared_exception_is_a_refusal(pytester: pytest.Pytester) -> None:
    """An exception named in `refusals` refuses."""
    pytester.makepyfile(module("refusals = (KeyError,)" + CRASHING))
    pytester.runpytest_inprocess("-k", "tag-lower-case").assert_outcomes(passed=1)


def test_none_is_a_refusal(pytester: pytest.Pytester) -> None:
    """A decoder may refuse by returning None, for payloads and for messages."""
    by_none = """
    def decode(self, payload):
        return None

    def decode_frames(self, frames):
        return None
    """
    pytester.makepyfile(module(by_none))
    result = pytester.runpytest_inprocess("-k", "tag-lower-case or frame-count-none")
    result.assert_outcomes(passed=2)
    result = pytester.runpytest_inprocess("-k", "W3-rev2-golden-a")
    result.stdout.fnmatch_lines(["W3 refused: *", "*got       refused *: returned None"])


def test_reason_codes_are_checked_where_there_are_any(pytester: pytest.Pytester) -> None:
    """A wrong reason code is a failure of its own; a decoder without codes is not asked."""
    coded = """
    def reason(self, refusal):
        return {code}
    """
    pytester.makepyfile(module(DECODE + textwrap.dedent(coded.format(code="'too-short'"))))
    result = pytester.runpytest_inprocess("-k", "tag-lower-case or too-short-1-elements")
    result.stdout.fnmatch_lines(["W1 wrong-reason: *"])
    result.assert_outcomes(failed=1, passed=1)
    pytester.makepyfile(module(DECODE + textwrap.dedent(coded.format(code="None"))))
    result = pytester.runpytest_inprocess("-k", "tag-lower-case or too-short-1-elements")
    result.assert_outcomes(passed=2)


def test_without_decode_frames_one_skipped_test_says_so(pytester: pytest.Pytester) -> None:
    """A decoder of payloads alone has one skipped frame test, which names the hook."""
    pytester.makepyfile(module(DECODE))
    passed, skipped, failed = pytester.inline_run().listoutcomes()
    assert failed == []
    assert names(skipped) == ["test_reads_frames[F1-F5]"]
    assert "frames are not checked: override decode_frames" in str(skipped[0].longrepr)
    assert len(passed) == len(forms()) + 1


def test_failure_is_all_that_a_developer_needs(pytester: pytest.Pytester) -> None:
    """A failure says rule, case, expected, got and hazard, and annotates the bytes."""
    idle = """
    def decode(self, payload):
        try:
            return wire.decode(payload)
        except wire.WireError:
            return dict.fromkeys(wire.field_names(1), 0)
    """
    pytester.makepyfile(module(idle))
    result = pytester.runpytest_inprocess("-k", "too-short-2-elements")
    result.stdout.fnmatch_lines(
        [
            "W9 accepted: a router rejects a payload that lacks an element it reads; *",
            "  case      W9-too-short-2-elements (2 of 6 elements: *",
            "  expected  a refusal with too-short at element 2",
            "  got       *num_running_reqs=0, *attn_dp_rank=0*",
            "  hazard    attracts-all: the worker reads as idle and draws all traffic",
            "*0  92 *fixarray *array of 2",
            "*1  a84c6f616453746174 *0 tag *str 'LoadStat'",
            "*10  11 *1 num_running_reqs *integer 17",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_frame_failure_shows_the_frames(pytester: pytest.Pytester) -> None:
    """A failed frame test shows every frame by its role."""
    wrong = """
    def decode_frames(self, frames):
        return int.from_bytes(frames[1], "little"), wire.decode(frames[2])
    """
    pytester.makepyfile(module(DECODE + textwrap.dedent(wrong)))
    result = pytester.runpytest_inprocess("-k", "frames-sequence-1 and not sequence-127")
    result.stdout.fnmatch_lines(
        [
            "F3 wrong-value: *",
            "  expected  revision 2, (sequence=1, *",
            "  got       *sequence 1 as 72057594037927936",
            "  frame 0 (topic): b'load'",
            "  frame 1 (sequence): 0000000000000001 = 1",
            "  frame 2 (payload): *",
        ]
    )


def test_two_revisions_in_one_module(pytester: pytest.Pytester) -> None:
    """Each class of a module is held to its own revision."""
    pytester.makepyfile(module("revision = 1" + DECODE + FRAMES, "revision = 2" + DECODE + FRAMES))
    passed, skipped, failed = pytester.inline_run().listoutcomes()
    assert (skipped, failed) == ([], [])
    assert len(passed) == 2 * (len(forms()) + len(messages()) + 1)
    # The one reads for revision 2 what the other must not know yet.
    pytester.makepyfile(module("revision = 1" + DECODE.replace("self.revision", "2"), DECODE))
    run = pytester.inline_run("-k", "W3-rev2-golden-a and reads_payload")
    run.assertoutcome(passed=1, failed=1)
    assert "::TestDecoder::" in run.getfailures()[0].nodeid


@pytest.mark.parametrize(
    "options",
    [["-p", "xdist", "-n", "2"], ["-p", "no:xdist"]],
    ids=["with-xdist", "without-xdist"],
)
def test_works_under_strict_options(pytester: pytest.Pytester, options: list[str]) -> None:
    """Strict markers, importlib mode and warnings as errors are no trouble, xdist or not."""
    pytest.importorskip("xdist")
    pytester.makepyfile(module(DECODE + FRAMES))
    strict = ["--import-mode=importlib", "--strict-markers", "--strict-config", "-W", "error"]
    result = pytester.runpytest_subprocess("-q", *options, *strict)
    result.assert_outcomes(passed=len(forms()) + len(messages()) + 1)
