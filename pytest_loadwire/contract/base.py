"""What the contract classes share: declared deviations, and failures that name the rule."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, get_args

import pytest

from pytest_loadwire.annotate import annotate, annotate_frames, compare_payloads
from pytest_loadwire.judge import Deed, Finding
from pytest_loadwire.rules import HAZARD_TEXT, RULES
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence


UNJUDGED = "nothing is judged: see test_declarations"
"""Why a test is skipped where the class lacks what every test needs."""


@dataclass(frozen=True)
class Deviation:
    """A known way in which an implementation does not keep the contract, with the reason.

    Each test that it covers has to fail in this way, and is reported as xfailed. When such a test
    passes, or fails in another way, it fails: the declaration is out of date.

    Attributes:
        rule: The rule that is broken, as the test ids name it.
        deed: In what way, as the failure without the declaration says (`judge.Deed`).
        reason: Why the team lives with it; shown in the report.
        cases: Patterns for the case ids behind the rule, as of `fnmatch`; by default every case of
            the rule.
    """

    rule: str
    deed: Deed
    reason: str
    cases: Sequence[str] = ("*",)

    def covers(self, rule: str, case: str) -> bool:
        """Whether a case is declared to deviate."""
        return rule == self.rule and any(fnmatchcase(case, pattern) for pattern in self.cases)


class Held(NamedTuple):
    """What `Contract.hold` was told, for the report of the run.

    Attributes:
        rule: The rule that the case is about.
        case: The case's id.
        why: What the case is for.
        finding: What is wrong, or None.
        deviation: The declaration that covers the case, or None.
        frames: The payload or the message that the finding is about; empty where there is none.
        is_message: Whether they are a message.
        against: The payload that it should have been, or None.
        notes: What happened on the way.
    """

    rule: str
    case: str
    why: str
    finding: Finding | None
    deviation: Deviation | None
    frames: tuple[bytes, ...]
    is_message: bool
    against: bytes | None
    notes: tuple[str, ...]


class Contract:
    """Base of the contract classes.

    Attributes:
        implementation: What a report calls the code under test; by default module and class.
        deviations: The known deviations of the code under test.
        held: What `hold` was told in this test; None before.
    """

    implementation: ClassVar[str] = ""
    deviations: ClassVar[Sequence[Deviation]] = ()
    held: Held | None = None

    @classmethod
    def contract_cases(cls) -> Iterable[tuple[str, str]]:
        """Every case of this class as rule and id; deviations have to match one of them."""
        return ()

    @classmethod
    def unready(cls) -> str | None:
        """What has to be mended before anything can be judged, a line for each; None if nothing.

        `test_declarations` fails with it, and each other test is one skip that points there.
        """
        return None

    @classmethod
    def withholds(cls, metafunc: pytest.Metafunc, *fixtures: str) -> bool:
        """Whether the class is not ready; a test with one of these arguments is then one skip."""
        if cls.unready() is None:
            return False
        skipped = [pytest.param(None, id="not-judged", marks=pytest.mark.skip(reason=UNJUDGED))]
        for fixture in fixtures:
            if fixture in metafunc.fixturenames:
                metafunc.parametrize(fixture, skipped)
        return True

    def test_declarations(self) -> None:
        """Every declared deviation names a rule of the contract and a case of this class."""
        lacks = self.unready()
        if lacks is not None:
            _fail(lacks)
        cases = list(self.contract_cases())
        for deviation in self.deviations:
            if deviation.rule not in RULES:
                _fail(f"{deviation} excuses an unknown rule; the contract has {', '.join(RULES)}")
            if deviation.deed not in get_args(Deed):
                deeds = ", ".join(get_args(Deed))
                _fail(f"{deviation} deviates in no known way; the ways are {deeds}")
            for pattern in deviation.cases:
                if not any(
                    rule == deviation.rule and fnmatchcase(case, pattern) for rule, case in cases
                ):
                    others = sorted({rule for rule, case in cases if fnmatchcase(case, pattern)})
                    named = others and pattern.strip("*")
                    found = f"; {', '.join(others)} has, as the test ids say" if named else ""
                    _fail(
                        f"{deviation} covers no case: {deviation.rule} has none like"
                        f" {pattern!r}{found}"
                    )
            if not deviation.reason.strip():
                _fail(f"{deviation} gives no reason")

    def hold(
        self,
        finding: Finding | None,
        *,
        rule: str,
        case: str,
        why: str = "",
        payload: bytes | None = None,
        against: bytes | None = None,
        frames: Sequence[bytes] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """End a test by what was found: pass, fail with the rule, or xfail as declared.

        Args:
            finding: What is wrong, or None.
            rule: The rule that the case is about.
            case: The case's id.
            why: What the case is for.
            payload: The payload that the finding is about, to be shown.
            against: The payload that it should have been, shown beside it.
            frames: The message that the finding is about, to be shown.
            notes: What happened on the way, to be shown.
        """
        __tracebackhide__ = True
        deviation = next((d for d in self.deviations if d.covers(rule, case)), None)
        about = tuple(frames or ()) if payload is None else (payload,)
        is_message = payload is None and bool(about)
        self.held = Held(
            rule, case, why, finding, deviation, about, is_message, against, tuple(notes)
        )
        if finding is None:
            if deviation is not None:
                _fail(
                    f"{rule} {case}: the declared deviation is gone, this case conforms now."
                    f" Narrow or remove {deviation}"
                )
            return
        text = explain(finding, rule=rule, case=case, why=why)
        shown: Sequence[str] = notes
        if payload is not None and against is not None:
            shown = compare_payloads(against, payload, ("expected", "got"))
        elif payload is not None:
            shown = annotate(payload).split("\n")
        elif frames is not None:
            shown = annotate_frames(frames).split("\n")
        text = "\n  ".join([text, *shown])
        if deviation is None:
            declared = f'Deviation("{rule}", "{finding.deed}", "why", ["{case}"])'
            _fail(f"{text}\n  to live with it, declare  {declared}")
        if finding.deed != deviation.deed:
            _fail(
                f"{rule} {case}: declared to deviate as {deviation.deed!r}, but it deviates as"
                f" {finding.deed!r}\n{text}"
            )
        pytest.xfail(f"{rule} {deviation.deed}: {deviation.reason}")


def explain(finding: Finding, *, rule: str, case: str, why: str = "") -> str:
    """A finding for a developer who has to mend it: rule, case, expected, got, hazard."""
    broken = finding.rule if finding.rule in RULES else rule
    return "\n".join(
        [
            f"{broken} {finding.deed}: {RULES[broken]}",
            f"  case      {rule}-{case}" + (f" ({why})" if why else ""),
            f"  expected  {finding.expected}",
            f"  got       {finding.got}",
            f"  hazard    {finding.hazard}: {HAZARD_TEXT[finding.hazard]}",
        ]
    )


def code_of(refusal: Exception, codes: Container[str]) -> str | None:
    """The attribute ``reason`` of an exception, where it is one of the contract's codes.

    Other exceptions have such an attribute too, and mean something else by it (UnicodeDecodeError).
    """
    code = getattr(refusal, "reason", None)
    return str(code) if isinstance(code, str) and code in codes else None


def missing_hook(contract: Contract, hook: str, what: str) -> NoReturn:
    """Fail because a hook that the class cannot do without was not overridden."""
    __tracebackhide__ = True
    _fail(lacking(type(contract), hook, what))


def lacking(contract: type[Contract], hook: str, what: str) -> str:
    """What to override in a class, and why."""
    return f"{contract.__name__} has to override {hook}: {what}"


def method_of(contract: Contract, target: Any, name: str, *, hook: str) -> Any:
    """What the default of a hook calls; where there is no such thing, the hook is missing."""
    __tracebackhide__ = True
    if not hasattr(target, name):
        missing_hook(contract, hook, f"{type(target).__name__} has no {name}")
    return getattr(target, name)


def unknown_revision(contract: type[Contract], revision: object) -> str | None:
    """What is wrong with a revision that a class declares, or None."""
    if revision in REVISIONS:
        return None
    return f"{contract.__name__}: revision = {revision!r} is none of {list(REVISIONS)}"


def _fail(text: str) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail(text, pytrace=False)
