"""A declared deviation: known, with a reason, and out of date the moment it no longer holds."""

from __future__ import annotations

import pytest

# Keeps bytes behind the array unless told otherwise, and declares that it does not.
DECODER = """
from pytest_loadwire import wire
from pytest_loadwire.contract.base import Deviation
from pytest_loadwire.contract.decoder import DecoderContract

class {name}(DecoderContract):
    policies = {{
        "TrailingBytes": "reject",
        "OmittedRank": "reject",
        "TagAsBin": "reject",
        "CountAboveI64": "accept",
        "PartialTail": "older",
        "NilTail": "reject",
    }}
    deviations = [{deviations}]

    def decode(self, payload):
        try:
            return wire.decode(payload)
        except wire.WireError as error:
            if error.reason != "trailing-bytes" or {strict}:
                raise
            return wire.decode(payload[: error.offset])
"""
KEPT = 'Deviation("W6", "accepted", "our framing pads payloads", cases=("rev?-trailing-*",))'
TRAILING = 10  # vectors of that name


def module(*deviations: str, strict: bool = False, name: str = "TestDecoder") -> str:
    return DECODER.format(deviations=", ".join(deviations), strict=strict, name=name)


def test_undeclared_deviation_fails(pytester: pytest.Pytester) -> None:
    """Without a declaration each case of the deviation fails."""
    pytester.makepyfile(module())
    pytester.runpytest_inprocess("-k", "W6-").assert_outcomes(failed=TRAILING)


def test_declared_deviation_is_xfailed_with_its_reason(pytester: pytest.Pytester) -> None:
    """What is covered and fails as declared is xfailed, and the report gives the reason."""
    pytester.makepyfile(module(KEPT))
    result = pytester.runpytest_inprocess("-rx", "-k", "W6- or declarations")
    result.assert_outcomes(xfailed=TRAILING, passed=1)
    result.stdout.fnmatch_lines(
        ["XFAIL *W6-rev1-trailing-nil* - *W6 accepted: our framing pads payloads"]
    )


def test_deviation_that_is_gone_fails(pytester: pytest.Pytester) -> None:
    """Once the code conforms, each covered case fails and says to narrow the declaration."""
    pytester.makepyfile(module(KEPT, strict=True))
    result = pytester.runpytest_inprocess("-k", "W6-")
    result.assert_outcomes(failed=TRAILING)
    result.stdout.fnmatch_lines(
        ["W6 rev1-trailing-nil: the declared deviation is gone, this case conforms now.*"]
    )


def test_deviation_in_another_way_fails(pytester: pytest.Pytester) -> None:
    """A case that fails in another way than declared is shown in full, with both ways."""
    pytester.makepyfile(module(KEPT.replace("accepted", "crashed")))
    result = pytester.runpytest_inprocess("-k", "W6-rev1-trailing-nil")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "W6 rev1-trailing-nil: declared to deviate as 'crashed', but it deviates as 'accepted'",
            "W6 accepted: *",
            "  expected  a refusal with trailing-bytes*",
        ]
    )


@pytest.mark.parametrize(
    ("deviation", "says"),
    [
        (
            'Deviation("W66", "accepted", "a slip of the pen")',
            "Deviation(rule='W66', *excuses an unknown rule; the contract has W1, *",
        ),
        (
            'Deviation("W6", "accepted", "a slip", cases=("rev?-trailing-*", "rev3-*"))',
            "*covers no case: W6 has none like 'rev3-*'",
        ),
        (
            'Deviation("K1", "accepted", "a rule of another contract class")',
            "*covers no case: K1 has none like '[*]'",
        ),
        ('Deviation("W6", "accepted", "  ")', "Deviation(rule='W6', *gives no reason"),
    ],
    ids=["unknown-rule", "no-such-case", "rule-of-another-side", "no-reason"],
)
def test_declaration_that_excuses_nothing_fails(
    pytester: pytest.Pytester, deviation: str, says: str
) -> None:
    """A declaration with an unknown rule, no case or no reason is itself a failure."""
    pytester.makepyfile(module(deviation))
    result = pytester.runpytest_inprocess("-k", "declarations")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([says])


def test_cases_outside_of_the_pattern_still_fail(pytester: pytest.Pytester) -> None:
    """A declaration spares the cases of its pattern and no other of its rule."""
    pytester.makepyfile(module(KEPT.replace("rev?", "rev1")))
    result = pytester.runpytest_inprocess("-k", "W6-")
    result.assert_outcomes(xfailed=TRAILING // 2, failed=TRAILING // 2)


def test_without_a_pattern_the_whole_rule_is_declared(pytester: pytest.Pytester) -> None:
    """A declaration without cases covers each case of its rule."""
    pytester.makepyfile(module('Deviation("W6", "accepted", "our framing pads payloads")'))
    result = pytester.runpytest_inprocess("-k", "W6- or declarations")
    result.assert_outcomes(xfailed=TRAILING, passed=1)


def test_deviations_belong_to_their_class(pytester: pytest.Pytester) -> None:
    """Of two classes in one module only the one that declares is spared."""
    pytester.makepyfile(module(KEPT) + module(name="TestOther"))
    run = pytester.runpytest_inprocess("-k", "W6-")
    run.assert_outcomes(xfailed=TRAILING, failed=TRAILING)
    run.stdout.fnmatch_lines(["FAILED *::TestOther::*"])


@pytest.mark.parametrize(
    "options",
    [["-p", "xdist", "-n", "2"], ["-p", "no:xdist"]],
    ids=["with-xdist", "without-xdist"],
)
def test_works_under_strict_options(pytester: pytest.Pytester, options: list[str]) -> None:
    """A declared deviation is xfailed under xdist and under strict options as well."""
    pytest.importorskip("xdist")
    pytester.makepyfile(module(KEPT))
    strict = ["--import-mode=importlib", "--strict-markers", "-W", "error", "-o", "xfail_strict=1"]
    result = pytester.runpytest_subprocess("-q", "-k", "W6-", *options, *strict)
    result.assert_outcomes(xfailed=TRAILING)
