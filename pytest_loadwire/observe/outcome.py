"""The result of a watch: whether it conforms, and everything of it as plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire.observe.asking import Advertised, NoAnswer
from pytest_loadwire.observe.diagnosis import Diagnosis, diagnose
from pytest_loadwire.observe.findings import LEVELS, Finding, judge
from pytest_loadwire.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen

FORMAT = 1
"""The version of `Outcome.to_json`: keys are only ever added."""

RANK_RULES = (
    *("W1", "W2", "W3", "W4", "W5", "W6", "W10", "F1", "F2", "F3", "F4", "F5"),
    *("S1", "R3", "P2", "C2"),
)
"""What every message, or their order in time, is held to."""

WORKER_RULES = ("E3", "E6", "A1", "A2", "A3", "A4", "C1", "C4")
"""What an advertisement is held to."""


class Checked(NamedTuple):
    """One rule on one rank, or on a worker's advertisement.

    Attributes:
        rule: The rule.
        name: The target, with the rank where it is one's.
        problem: What is wrong, or None.
        not_run: Why it could not be looked at, or None.
    """

    rule: str
    name: str
    problem: str | None = None
    not_run: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A watch, judged.

    Attributes:
        seen: What was seen.
        findings: What was found, the worst first.
        diagnoses: Why sockets were silent.
        strict: Whether warnings count.
    """

    seen: Seen
    findings: list[Finding]
    diagnoses: list[Diagnosis]
    strict: bool

    @classmethod
    def of(cls, seen: Seen, *, strict: bool = False) -> Outcome:
        """Judge a watch."""
        return cls(seen, judge(seen), diagnose(seen), strict)

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each level there are."""
        counts = Counter(finding.level for finding in self.findings)
        return {level: counts[level] for level in LEVELS}  # type: ignore[index]

    @property
    def ok(self) -> bool:
        """Whether everything conforms: every rank was heard, and nothing was wrong."""
        heard = all(one.heard for one in self.seen.targets)
        return heard and not any(self._counts(finding) for finding in self.findings)

    def _counts(self, finding: Finding) -> bool:
        return finding.level == "error" or (self.strict and finding.level == "warning")

    def to_json(self) -> dict[str, Any]:
        """All of it for machines, in a form that only grows (`FORMAT`)."""
        seen = self.seen
        return {
            "ok": self.ok,
            "format": FORMAT,
            "strict": self.strict,
            "began": seen.began,
            "seconds": round(seen.seconds, 3),
            "ended": seen.ended,
            "messages": seen.messages,
            "counts": self.counts,
            "targets": [_target(one) for one in seen.targets],
            "findings": [finding.to_json() for finding in self.findings],
            "diagnoses": [diagnosis.to_json() for diagnosis in self.diagnoses],
        }

    def checked(self) -> Iterator[Checked]:
        """Every rule on every rank and on every advertisement, as passed, failed or not run."""
        for one in self.seen.targets:
            own = [f for f in self.findings if f.target == one.target.text]
            yield from self._of_advertisement(one, [f for f in own if not f.ranks])
            for rank in one.ranks:
                number = rank.rank
                about = [f for f in own if number in f.ranks or (number is None and f.endpoint)]
                yield from self._of_rank(one, rank, about)

    def _of_advertisement(self, one: TargetSeen, about: list[Finding]) -> Iterator[Checked]:
        about = [finding for finding in about if not finding.endpoint]
        rules = WORKER_RULES if one.target.url is not None else ()
        for rule in _ordered({*rules, *(f.rule for f in about)}):
            not_run = None
            if rule in rules and not isinstance(one.advertised, Advertised):
                not_run = "the worker did not answer"
            yield self._case(rule, one.target.text, about, not_run)

    def _of_rank(self, one: TargetSeen, rank: RankSeen, about: list[Finding]) -> Iterator[Checked]:
        name = one.target.text + ("" if rank.rank is None else f" rank {rank.rank}")
        not_run = rank.stream.not_judged
        for rule in _ordered({*RANK_RULES, "C3", *(f.rule for f in about)}):
            yield self._case(rule, name, about, not_run)

    def _case(self, rule: str, name: str, about: list[Finding], not_run: str | None) -> Checked:
        problems = [
            "\n".join([finding.text, *finding.evidence])
            for finding in about
            if finding.rule == rule and self._counts(finding)
        ]
        if problems:
            return Checked(rule, name, problem="\n".join(problems))
        return Checked(rule, name, not_run=not_run)


def _ordered(rules: set[str]) -> list[str]:
    return [rule for rule in RULES if rule in rules]


def _target(one: TargetSeen) -> dict[str, Any]:
    advertised: dict[str, Any] | None = None
    if isinstance(one.advertised, Advertised):
        advertised = {"kv_events": one.advertised.block}
    elif isinstance(one.advertised, NoAnswer):
        answer = one.advertised
        advertised = {"error": answer.kind, "text": answer.text, "status": answer.status}
    return {
        "target": one.target.text,
        "address": one.address,
        "advertised": advertised,
        "heard": one.heard,
        "ranks": [_rank(rank) for rank in one.ranks],
    }


def _rank(rank: RankSeen) -> dict[str, Any]:
    stream = rank.stream
    return {
        "rank": rank.rank,
        "endpoint": rank.endpoint,
        "connection": rank.link.state,
        "peer": None if rank.peer is None else rank.peer._asdict(),
        "messages": stream.count,
        "good": stream.good,
        "not_judged": stream.not_judged,
        "rate": round(stream.rate, 3),
        "revisions": sorted(stream.revisions),
        "elements": sorted(stream.lengths),
        "sequence": {
            "first": stream.first,
            "last": stream.last,
            "missing": stream.missing,
            "gaps": stream.gaps,
            "restarts": stream.restarts,
            "backwards": stream.backwards,
        },
        "longest_silence": round(stream.longest, 3),
        "reading": stream.reading,
    }
