"""What changed between two states of the contract, by rule, and what it breaks.

The fields come from the manifests, the rest from the vectors and from the page that explains them.
Each change is graded by what it does to those who were there before: it breaks them, it adds
something that they may ignore, or it only says the same in other words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_loadwire.evolution.rollout import Rollout, rollout
from pytest_loadwire.evolution.snapshot import same_unit
from pytest_loadwire.golden.freeze import frozen_content
from pytest_loadwire.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_loadwire.evolution.snapshot import Fields, Snapshot

Grade = Literal["breaking", "additive", "wording"]
"""What a change does to those who were there before."""

ROUTERS, ENGINES, SUITES = "routers", "engines", "test suites"

GRADES: tuple[Grade, ...] = ("breaking", "additive", "wording")
"""The grades, the worst first."""


class Change(NamedTuple):
    """One difference between two states.

    Attributes:
        rule: The rule that it is about.
        grade: What it does to those who were there before.
        kind: What was done, such as ``field reordered`` or ``vector dropped``.
        what: The field, the vector or the code.
        how: What it was and is, or what follows from it.
        who: Who has to act; nobody where it is empty.
    """

    rule: str
    grade: Grade
    kind: str
    what: str
    how: str
    who: tuple[str, ...] = ()

    def __str__(self) -> str:
        acts = f" [{', '.join(self.who)}]" if self.who else ""
        return f"{self.rule} {self.kind}: {self.what}: {self.how}{acts}"


@dataclass(frozen=True)
class Breaking:
    """What a change of the contract does.

    Attributes:
        old: What the old state was read from.
        new: What the new state was read from.
        changes: The differences, the worst first, then by rule.
        rollout: Who has to go first, and which decoder idioms break.
        notes: What is odd about either folder.
    """

    old: str
    new: str
    changes: tuple[Change, ...]
    rollout: Rollout
    notes: tuple[str, ...] = ()

    @property
    def breaking(self) -> list[Change]:
        """The changes that break somebody."""
        return [change for change in self.changes if change.grade == "breaking"]

    @property
    def ok(self) -> bool:
        """Whether nobody breaks who keeps the contract."""
        return not self.breaking

    @property
    def table(self) -> list[tuple[str, str, Counter[Grade]]]:
        """By rule and by what was done, how many changes there are of each grade."""
        counts: dict[tuple[str, str], Counter[Grade]] = {}
        for change in sorted(self.changes, key=lambda c: _rule_order(c.rule)):
            counts.setdefault((change.rule, change.kind), Counter())[change.grade] += 1
        return [(rule, kind, count) for (rule, kind), count in counts.items()]

    def to_json(self) -> dict[str, Any]:
        """The result for machines."""
        grades = Counter(change.grade for change in self.changes)
        return {
            "ok": self.ok,
            "old": self.old,
            "new": self.new,
            "grades": {grade: grades[grade] for grade in GRADES},
            "changes": [{**c._asdict(), "who": list(c.who)} for c in self.changes],
            "rollout": self.rollout.to_json(),
            "notes": list(self.notes),
        }


def compare(old: Snapshot, new: Snapshot) -> Breaking:
    """Everything that a change from one state to another does."""
    found = [
        *_field_changes(old, new),
        *_vector_changes(old, new),
        *_rule_changes(old.rules, new.rules),
        *_code_changes("reason code", old.codes, new.codes),
        *_code_changes("policy", old.policies, new.policies),
    ]
    if old.released is not None and new.released is None:
        how = "nothing holds the released fields and vectors any more"
        found.append(Change("W11", "breaking", "release dropped", "released.json", how, (SUITES,)))
    notes = [f"old: {note}" for note in old.notes] + [f"new: {note}" for note in new.notes]
    found.sort(key=lambda c: (GRADES.index(c.grade), _rule_order(c.rule)))
    return Breaking(old.label, new.label, tuple(found), rollout(old, new), tuple(notes))


def _rule_order(rule: str) -> tuple[int, str]:
    known = list(RULES)
    return (known.index(rule) if rule in RULES else len(known), rule)


# Fields.


def _field_changes(old: Snapshot, new: Snapshot) -> Iterator[Change]:
    both = (ROUTERS, ENGINES)
    for number, fields in old.revisions.items():
        if number in new.revisions:
            changes = [*_changed_fields(number, fields, new.revisions[number])]
        else:
            how = "every router that reads it by position, and every engine that sends it"
            what = f"revision {number}"
            changes = [Change("W11", "breaking", "revision dropped", what, how, both)]
        for change in changes:
            if number in old.as_released.revisions:
                yield change
            else:
                yield change._replace(grade="additive", how="it is not released yet")
    for number in sorted(new.revisions.keys() - old.revisions.keys()):
        before = max((n for n in new.revisions if n < number), default=old.newest)
        base = new.revisions[before] if before < number else old.revisions[before]
        fields = new.revisions[number]
        begins = list(_changed_fields(before, base, fields[: len(base)]))
        appended = ", ".join(f["name"] for f in fields[len(base) :]) or "no field"
        if number < old.newest:
            how = f"older than revision {old.newest}, which is there already"
            yield Change("W11", "breaking", "revision added", f"revision {number}", how, both)
        elif begins:
            for change in begins:
                kind = f"{change.kind} by revision {number}"
                yield change._replace(kind=kind)
        else:
            how = f"{len(fields) + 1} elements, those of revision {before}, then {appended}"
            yield Change("W11", "additive", "revision appended", f"revision {number}", how, both)


def _changed_fields(number: int, old: Fields, new: Fields) -> Iterator[Change]:
    """What happened to the fields of a revision; each of it breaks rule W11."""
    was, now = [f["name"] for f in old], [f["name"] for f in new]
    gone = [name for name in was if name not in now]
    come = [name for name in now if name not in was]
    routers = f"every router that reads revision {number} by position"

    def change(kind: str, name: str, how: str) -> Change:
        element = (was.index(name) if name in was else now.index(name)) + 1
        what = f"revision {number}, element {element} ({name})"
        return Change("W11", "breaking", f"field {kind}", what, how, (ROUTERS, ENGINES))

    for name in list(gone):
        place = was.index(name)
        if place < len(now) and now[place] in come and len(was) == len(now):
            gone.remove(name)
            come.remove(now[place])
            how = f"is {now[place]} now; if only the name changed, keep the name: {routers} has it"
            yield change("renamed", name, how)
    for name in gone:
        last = name == was[-1]
        how = f"{routers} misses it" if last else f"what follows moves up, for {routers}"
        yield change("removed", name, how)
    for name in come:
        behind = all(n in come for n in now[now.index(name) :])
        how = "a new field goes to the end of a new revision, not of a released one"
        if not behind:
            how = (
                f"a new field goes to the end of a new revision; what follows moves, for {routers}"
            )
        yield change("appended" if behind else "inserted", name, how)
    kept, order = [n for n in was if n in now], [n for n in now if n in was]
    for name, there in zip(kept, order, strict=True):
        if name != there:
            how = f"moves to element {now.index(name) + 1}; {routers} takes {there} for it"
            yield change("reordered", name, how)
    for name in kept:
        before, after = old[was.index(name)], new[now.index(name)]
        for key, kind in (("type", "retyped"), ("unit", "of another unit")):
            if before[key] != after[key] and not (
                key == "unit" and same_unit(before[key], after[key])
            ):
                how = f"its {key} was {before[key]} and is {after[key]}, for {routers}"
                yield change(kind, name, how)


# Vectors.

# What a member of a vector is, for those who pin it.
_BYTES = ("hex", "spellings", "frames")


def _vector_changes(old: Snapshot, new: Snapshot) -> Iterator[Change]:
    for vector_id, before in old.vectors.items():
        after = new.vectors.get(vector_id)
        rule = str(before.get("rule", "?"))
        grade: Grade = "breaking" if old.is_pinned(vector_id) else "additive"
        if after is None:
            how = "every suite that pins it by id; a vector that is not released may go"
            if grade == "breaking":
                how = "every suite that pins it by id; a new vector takes a new id"
            yield Change(rule, grade, "vector dropped", vector_id, how, (SUITES,))
        else:
            yield from _changed_vector(rule, grade, before, after, old.newest)
    for vector_id, after in new.vectors.items():
        if vector_id in old.vectors:
            continue
        how = str(after.get("why", "no reason given"))
        rule = str(after.get("rule", "?"))
        yield Change(rule, "additive", "vector added", vector_id, how, (SUITES,))


def _changed_vector(
    rule: str, grade: Grade, before: Mapping[str, Any], after: Mapping[str, Any], newest: int
) -> Iterator[Change]:
    was, now = frozen_content(before, newest), frozen_content(after, newest)
    vector_id = before["id"]
    if was == now:
        words = [k for k in ("rule", "kind", "why", "source") if before.get(k) != after.get(k)]
        if words:
            how = f"other words for {', '.join(words)}"
            yield Change(rule, "wording", "vector reworded", vector_id, how)
        return
    for key in _BYTES:
        if was.get(key) != now.get(key):
            how = f"{key} was {_short(was.get(key))} and is {_short(now.get(key))}"
            who = (SUITES, ENGINES) if was.get("engine") is not None else (SUITES, ROUTERS)
            yield Change(rule, grade, "vector with other bytes", vector_id, how, who)
    if was.get("engine") != now.get("engine"):
        how = f"was for {_engine(was)} and is for {_engine(now)}"
        yield Change(rule, grade, "vector of another engine", vector_id, how, (SUITES, ENGINES))
    readers_was, readers_now = was.get("readers", {}), now.get("readers", {})
    for number in sorted({*readers_was, *readers_now}, key=int):
        yield from _changed_verdict(
            rule, grade, f"{vector_id}, reader of revision {number}", readers_was.get(number),
            readers_now.get(number),
        )  # fmt: skip
    handled = {*_BYTES, "engine", "readers", "id"}
    other = [k for k in {**was, **now} if k not in handled and was.get(k) != now.get(k)]
    if other:
        how = f"other {', '.join(other)}"
        yield Change(rule, grade, "vector with other content", vector_id, how, (SUITES,))


def _changed_verdict(rule: str, grade: Grade, what: str, was: Any, now: Any) -> Iterator[Change]:
    if was == now:
        return
    who = (ROUTERS, SUITES)
    before, after = _verdict(was), _verdict(now)
    if before != after:
        how = f"was {before} and is {after}"
        yield Change(rule, grade, "verdict changed", what, how, who)
    elif isinstance(was, dict) and isinstance(now, dict):
        members = [k for k in {**was, **now} if was.get(k) != now.get(k)]
        how = f"other {', '.join(members)}"
        yield Change(rule, grade, "verdict with other content", what, how, who)
    else:
        how = f"was {_short(was)} and is {_short(now)}"
        yield Change(rule, grade, "verdict with other content", what, how, who)


def _verdict(verdict: Any) -> str:
    """A verdict by what a reader does, with its reason code or its policy."""
    if not isinstance(verdict, dict):
        return "none"
    kind = str(verdict.get("verdict"))
    if kind == "accept":
        return f"accept as revision {verdict.get('revision')}"
    detail = {"reject": "reason", "declare": "policy"}.get(kind, "")
    return f"{kind} ({verdict.get(detail)})"


def _engine(vector: Mapping[str, Any]) -> str:
    number = vector.get("engine")
    return "no engine" if number is None else f"engines of revision {number}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Words and codes.


def _rule_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    if not old or not new:
        return
    for rule, text in old.items():
        if rule not in new:
            how = "a rule's id is never given up: tests and reports name it"
            yield Change(rule, "breaking", "rule dropped", rule, how, (SUITES,))
        elif new[rule] != text:
            yield Change(rule, "wording", "rule reworded", rule, f"says now: {new[rule]}")
    for rule in [rule for rule in new if rule not in old]:
        yield Change(rule, "additive", "rule added", rule, new[rule], (ROUTERS, ENGINES))


def _code_changes(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for code in sorted(old.keys() - new.keys()):
        how = "whoever names it names nothing now"
        yield Change(old[code], "breaking", f"{kind} dropped", code, how, (ROUTERS, SUITES))
    for code in sorted(new.keys() - old.keys()):
        how = "may be given from now on"
        if kind == "policy":
            how = "a decoder has to declare its answer before it passes the vectors again"
        yield Change(new[code], "additive", f"{kind} added", code, how, (ROUTERS,))
