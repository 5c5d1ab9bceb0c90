"""This package under its own vectors: it keeps them, and where it does not, that is said."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from pytest_loadwire import discovery, endpoints
from pytest_loadwire.engine import publisher, scheduler
from pytest_loadwire.reference import BehaviourVector, Reference
from pytest_loadwire.router import table
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import PublisherTimeline, SchedulerTimeline

GOLDEN = load()
SUBJECTS: dict[str, tuple[BehaviourVector, ...]] = {
    "endpoints": GOLDEN.endpoints,
    "discovery": GOLDEN.discovery,
    "cadence": GOLDEN.cadence,
    "readings": GOLDEN.readings,
}
VECTORS = {vector.id: vector for vectors in SUBJECTS.values() for vector in vectors}

# what is broken in this package, and by what a vector's problem then begins
BROKEN: list[tuple[object, str, Any, str, str]] = [
    (endpoints, "MAX_PORT", 70000, "resolve-past-1", "E6 accepted: "),
    (discovery, "LOAD_TOPIC", "kv", "block-auto", "A2 wrong-value: "),
    (publisher, "LOAD_PUBLISH_HEARTBEAT_S", 2.0, "repeat-heartbeat", "P2 not-sent: "),
    (publisher, "TOPIC", b"loads", "change-goes-at-once", "F2 wrong-bytes: "),
    (scheduler, "LOAD_STALL_REFRESH_S", 0.0, "stall-many-passes", "P6 sent: "),
    (table, "parse_frames", lambda *_, **__: 1 // 0, "one-rank", "step 1 at 100.25, "),
]


def problems(vector: BehaviourVector) -> list[str]:
    return list(Reference(GOLDEN).problems(vector))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_it_keeps_its_own_vectors(subject: str) -> None:
    """Every address is answered and every timeline kept."""
    assert {} == {v.id: found for v in SUBJECTS[subject] if (found := problems(v))}


@pytest.mark.parametrize(("module", "name", "value", "vector", "says"), BROKEN)
def test_it_tells_on_itself(
    module: object,
    name: str,
    value: object,
    vector: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where this package breaks a rule, the vector of that rule has a problem that names it."""
    monkeypatch.setattr(module, name, value)

    (problem, *_) = problems(VECTORS[vector])

    assert problem.startswith(says)


def test_a_timeline_says_what_happened_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls up to the one that went wrong stand behind the finding."""
    monkeypatch.setattr(publisher, "LOAD_PUBLISH_HEARTBEAT_S", 2.0)

    (problem,) = problems(VECTORS["repeat-after-silence"])

    calls = "100 forced   reading-a -> sent 0, asked; 100 forced   reading-a -> asked; 101.5"
    assert f"got none; the calls so far:; {calls} forced   reading-a -> asked   <- here" in problem


def test_readings_are_those_of_the_folder() -> None:
    """A timeline names the readings of its own folder, not those of this package."""
    vector = VECTORS["change-goes-at-once"]
    same = [
        msgspec.structs.replace(v, counts={**v.counts, "num_running_reqs": "7"})
        if v.id == "reading-b"
        else v
        for v in GOLDEN.cadence
    ]

    (problem,) = Reference(msgspec.structs.replace(GOLDEN, cadence=tuple(same))).problems(vector)

    assert problem.startswith("P2 not-sent: expected message 1 at 100")


@pytest.mark.parametrize("kind", [PublisherTimeline, SchedulerTimeline])
def test_provoked_warnings_are_not_heard(
    kind: type, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a timeline makes the engine warn of goes nowhere else, and later warnings do again."""
    logger = logging.getLogger("pytest_loadwire.engine")
    before = list(logger.handlers)

    for vector in GOLDEN.cadence:
        if isinstance(vector, kind):
            assert [] == problems(vector)

    assert [] == caplog.messages
    assert ("", "") == capsys.readouterr()
    assert (before, True) == (logger.handlers, logger.propagate)
