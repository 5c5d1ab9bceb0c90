"""How a timeline is spelled by hand: a line for each step.

A publisher's line is a time, F or U (forced or not), a reading, and what the call owes::

    100.25 F a given -> sends 0
    100.5  F -       -> asks warns

``-`` stands for a provider that raises; ``given`` hands the reading in, ``no-provider`` lets asking
raise all the same, ``no-send`` lets the socket raise. A call owes any of ``asks``, ``sends N`` and
``warns``. A scheduler's line is a time, the kind of pass, a reading, and any of ``writes``,
``sends N`` and ``walks N``; ``no-write`` lets the in-engine sink raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from pytest_loadwire.vectors.timelines import (
    Call,
    LoopOwes,
    Owes,
    PublisherStep,
    PublisherTimeline,
    SchedulerStep,
    SchedulerTimeline,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.timelines import LoopPass

TESTED = "[T] SGLang's own tests assert it"
DERIVED = "[D] follows from the rules of SGLang's code, and held when it was run on 0.5.23"
READ = "[C] read from SGLang's code"
BESIDE = "[D] follows from the rule"


def publisher(
    rule: str, vector_id: str, source: str, why: str, lines: str, interval: int = 5, since: int = 1
) -> PublisherTimeline:
    """The timeline of a publisher whose steps ``lines`` spell."""
    steps = []
    for at, words, owes in _steps(lines):
        kind, reading, *further = words
        _only(further, "given", "no-provider", "no-send")
        _only(owes, "asks", "sends", "warns")
        broken = reading == "-" or "no-provider" in further
        call = Call(
            forced={"F": True, "U": False}[kind],
            reading=_reading(reading),
            handed_in="given" in further,
            provider="raises" if broken else "ok",
            send="raises" if "no-send" in further else "ok",
        )
        expect = Owes(owes.get("sends"), asked="asks" in owes, warned="warns" in owes)
        steps.append(PublisherStep(at, call, expect))
    return PublisherTimeline(vector_id, rule, since, why, source, interval, tuple(steps))


def scheduler(
    rule: str,
    vector_id: str,
    source: str,
    why: str,
    lines: str,
    interval: int = 15,
    sink: bool = True,
    hook: Literal["returns-snapshot", "returns-nothing"] = "returns-snapshot",
) -> SchedulerTimeline:
    """The timeline of a scheduler's loop whose steps ``lines`` spell."""
    steps = []
    for at, words, owes in _steps(lines):
        kind, reading, *further = words
        _only(further, "no-write")
        _only(owes, "writes", "sends", "walks")
        expect = LoopOwes("writes" in owes, owes.get("sends"), int(owes.get("walks", "0")))
        steps.append(
            SchedulerStep(
                at,
                cast("LoopPass", kind),
                _reading(reading),
                "raises" if "no-write" in further else "ok",
                expect,
            )
        )
    return SchedulerTimeline(vector_id, rule, 1, why, source, interval, sink, hook, tuple(steps))


def _steps(lines: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Each line as its time, the words of the call, and what is owed with its number."""
    for line in filter(str.strip, lines.splitlines()):
        call, _, owed = line.partition("->")
        at, *words = call.split()
        owes: dict[str, str] = {}
        for word in owed.split():
            if word.isdigit():
                owes[next(reversed(owes))] = word
            else:
                owes[word] = ""
        yield at, words, owes


def _only(words: list[str] | dict[str, str], *known: str) -> None:
    """A misspelled word is an error, and not a step that owes nothing."""
    if unknown := set(words) - set(known):
        raise ValueError(f"no words of a timeline: {', '.join(sorted(unknown))}")


def _reading(name: str) -> str | None:
    return None if name == "-" else f"reading-{name}"
