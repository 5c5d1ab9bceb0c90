"""One reader against every vector: what ``loadwire testee`` shows.

:func:`run` asks any `reader.Reader`; the failures come with the worst for traffic first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.annotate import annotate, annotate_frames
from pytest_loadwire.judge import judge
from pytest_loadwire.reader import smoke
from pytest_loadwire.rules import HAZARD_TEXT, RULES, Hazard
from pytest_loadwire.vectors import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_loadwire.judge import Finding
    from pytest_loadwire.reader import Reader
    from pytest_loadwire.rules import Policy
    from pytest_loadwire.vectors import Golden


MOST_LINES = 15
"""So many lines of a failure's bytes are shown: a whole message, if nothing is appended to it."""


class Failure(NamedTuple):
    """One form of a vector that the reader got wrong.

    Attributes:
        rule: The rule that the vector is about; the finding may name a closer one.
        case: The vector's id, and that of the spelling behind a ``/``.
        why: What the vector is for.
        finding: What is wrong.
        frames: The bytes that were asked about: one payload, or the frames of a message.
        is_message: Whether they are a message.
    """

    rule: str
    case: str
    why: str
    finding: Finding
    frames: tuple[bytes, ...]
    is_message: bool

    @property
    def vector(self) -> str:
        """The vector's id."""
        return self.case.partition("/")[0]

    def __str__(self) -> str:
        found = self.finding
        shown = annotate_frames(self.frames) if self.is_message else annotate(self.frames[0])
        lines = shown.splitlines()
        if (more := len(lines) - MOST_LINES) > 0:
            lines[MOST_LINES:] = [f"... {more} more line{'s' * (more > 1)}"]
        text = [
            f"{found.rule} {found.deed}: {RULES[found.rule]}",
            f"case      {self.case} ({self.why})",
            f"expected  {found.expected}",
            f"got       {found.got}",
            f"hazard    {found.hazard}: {HAZARD_TEXT[found.hazard]}",
            *lines,
        ]
        return "\n  ".join(text)

    def to_json(self) -> dict[str, Any]:
        """The failure for machines."""
        found = self.finding
        return {
            "rule": self.rule,
            "vector": self.vector,
            "case": self.case,
            "broken": found.rule,
            "deed": found.deed,
            "hazard": str(found.hazard),
            "expected": found.expected,
            "got": found.got,
            "bytes": [frame.hex() for frame in self.frames],
        }


@dataclass
class Conformance:
    """What a reader makes of the vectors.

    Attributes:
        name: The reader.
        revision: The revision that it was judged as a reader of.
        policies: What it declares.
        adapter: What is wrong with the adapter, or None; then no vector was asked.
        passed: By rule, how many forms of vectors it got right.
        passed_cases: By rule, which forms those are.
        failures: What it got wrong, the worst for traffic first.
        not_run: What was not asked, and why.
    """

    name: str
    revision: int
    policies: Mapping[Policy, str]
    adapter: str | None = None
    passed: Counter[str] = field(default_factory=Counter)
    passed_cases: dict[str, list[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the adapter works and nothing that was asked failed."""
        return self.adapter is None and not self.failures

    @property
    def failed(self) -> Counter[str]:
        """By rule, how many forms of vectors it got wrong."""
        return Counter(failure.rule for failure in self.failures)

    @property
    def rules(self) -> list[str]:
        """The rules that were asked about, in the order of the contract."""
        return [rule for rule in RULES if rule in {*self.passed, *self.failed}]

    @property
    def hazards(self) -> Counter[Hazard]:
        """How many failures have which hazard, the worst first."""
        counted = Counter(failure.finding.hazard for failure in self.failures)
        return Counter({hazard: counted[hazard] for hazard in Hazard if counted[hazard]})

    def to_json(self) -> dict[str, Any]:
        """The result for machines."""
        return {
            "ok": self.ok,
            "reader": self.name,
            "revision": self.revision,
            "policies": {str(policy): answer for policy, answer in self.policies.items()},
            "adapter": self.adapter,
            "rules": {
                rule: {"passed": self.passed[rule], "failed": self.failed[rule]}
                for rule in self.rules
            },
            "hazards": {str(hazard): count for hazard, count in self.hazards.items()},
            "not_run": self.not_run,
            "failures": [failure.to_json() for failure in self.failures],
        }


def run(
    reader: Reader,
    golden: Golden | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Conformance:
    """Smoke run first, then every vector in every spelling.

    Args:
        reader: Whom to ask.
        golden: The vectors; by default those of this package.
        progress: Told what is under way, before each part.

    Raises:
        TesteeError: The reader is a program that cannot be started or does not greet.
    """
    golden = golden or load()
    result = Conformance(reader.name, reader.revision, reader.policies)
    progress("smoke run: three payloads")
    result.adapter = smoke(reader, golden)
    if result.adapter is not None:
        result.not_run["vectors"] = "the adapter does not work"
        return result
    progress(f"{reader.name}: reading {len(golden.payloads)} payload vectors")
    revision = str(reader.revision)
    for vector in golden.payloads:
        for form, payload in vector.forms():
            finding = judge(
                vector.readers[revision],
                reader.decode(payload),
                rule=vector.rule,
                policies=reader.policies,
            )
            _note(result, vector.rule, form, vector.why, finding, (payload,))
    if reader.reads_frames:
        progress(f"{reader.name}: reading {len(golden.frames)} frame vectors")
        for message in golden.frames:
            finding = judge(
                message.readers[revision],
                reader.parse_frames(message.parts),
                rule=message.rule,
                policies=reader.policies,
            )
            parts = message.parts
            _note(result, message.rule, message.id, message.why, finding, parts, message=True)
    else:
        result.not_run["frames"] = "the reader takes payloads only, so F1 to F5 were not checked"
    worst = list(Hazard)
    order = list(RULES)
    result.failures.sort(key=lambda f: (worst.index(f.finding.hazard), order.index(f.rule)))
    return result


def _note(
    result: Conformance,
    rule: str,
    case: str,
    why: str,
    finding: Finding | None,
    frames: tuple[bytes, ...],
    *,
    message: bool = False,
) -> None:
    if finding is None:
        result.passed[rule] += 1
        result.passed_cases.setdefault(rule, []).append(case)
    else:
        result.failures.append(Failure(rule, case, why, finding, frames, message))
