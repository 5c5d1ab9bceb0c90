"""The result of a watch, as plain data and as cases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from pytest_loadwire.golden.frames import KV_BATCH
from pytest_loadwire.observe.asking import NoAnswer
from pytest_loadwire.observe.outcome import RANK_RULES, WORKER_RULES, Outcome
from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.rules import RULES
from pytest_loadwire.target import parse_target

Speak = Callable[..., Stream]
Worker = Callable[..., TargetSeen]
Watched = Callable[..., Seen]


def test_conforming(worker: Worker, watched: Watched) -> None:
    """A worker that conforms is ok, and every rule passes on every rank."""
    outcome = Outcome.of(watched(worker(2)))
    assert outcome.ok
    assert {"error": 0, "warning": 0, "note": 0} == outcome.counts
    checked = list(outcome.checked())
    assert len(WORKER_RULES) + 2 * (len(RANK_RULES) + 1) == len(checked)
    assert all(one.problem is None and one.not_run is None for one in checked)


@pytest.mark.parametrize(("strict", "ok"), [(False, True), (True, False)])
def test_warnings(worker: Worker, watched: Watched, speak: Speak, strict: bool, ok: bool) -> None:
    """Warnings count only when they are to."""
    seen = watched(worker(1, streams=[speak(Stream(rank=0), rank=None)]))
    outcome = Outcome.of(seen, strict=strict)
    assert (ok, ok) == (outcome.ok, not any(one.problem for one in outcome.checked()))


def test_a_broken_and_a_silent_rank(worker: Worker, watched: Watched, speak: Speak) -> None:
    """What is wrong fails its rule on its rank; what was not heard is not run, and fails C3."""
    broken = speak(Stream(rank=0), num_tokens=9000, num_total_tokens=9000)
    outcome = Outcome.of(watched(worker(3, streams=[broken, None, Stream(rank=2)])))
    assert not outcome.ok
    failed = {(one.rule, one.name) for one in outcome.checked() if one.problem}
    url = "http://10.0.0.5:30000"
    assert {("W2", f"{url} rank 0"), ("C3", f"{url} rank 2")} == failed
    not_run = Counter(one.name for one in outcome.checked() if one.not_run)
    assert {f"{url} rank 2": len(RANK_RULES)} == not_run
    problem = next(one.problem for one in outcome.checked() if one.rule == "W2" and one.problem)
    assert "integer 9000" in problem


def test_nothing_watched(watched: Watched) -> None:
    """A watch that was stopped before it began has found nothing, and is not ok."""
    assert not Outcome.of(watched(TargetSeen(parse_target("tcp://h:1")))).ok


def test_no_answer(watched: Watched) -> None:
    """A worker that does not answer fails one rule, and the others are not run."""
    one = TargetSeen(parse_target("http://h:30000"), NoAnswer("refused", "no"), address="10.0.0.5")
    states = Counter(
        "failed" if one.problem else "not run" if one.not_run else "passed"
        for one in Outcome.of(watched(one)).checked()
    )
    assert {"failed": 1, "not run": len(WORKER_RULES) - 1} == states


def test_a_single_socket(watched: Watched, speak: Speak) -> None:
    """A socket that was given by itself has cases, and no advertisement."""
    one = TargetSeen(parse_target("tcp://h:1"), ranks=[RankSeen("tcp://h:1")])
    speak(one.ranks[0].stream, num_running_reqs=65)
    checked = list(Outcome.of(watched(one)).checked())
    assert {"tcp://h:1"} == {case.name for case in checked}
    assert ["W3"] == [case.rule for case in checked if case.problem]


NOT_JUDGED = [
    ([], "no message came"),
    ([[b"", bytes(8), KV_BATCH]], "no load message came"),
    ([[b"load", bytes(8), b"\x93"]], "no message came that could be judged to its end"),
]


@pytest.mark.parametrize(("messages", "why"), NOT_JUDGED)
def test_what_was_not_judged(
    worker: Worker, watched: Watched, messages: list[list[bytes]], why: str
) -> None:
    """Where no load message could be judged, no rule about them has passed."""
    stream = Stream(rank=0)
    for frames in messages:
        stream.receive(1.0, frames)
    outcome = Outcome.of(watched(worker(1, streams=[stream])))
    cases = [one for one in outcome.checked() if one.name.endswith("rank 0")]
    assert {"W1", "W5", "F2", "S1", "R3"} <= {one.rule for one in cases}
    assert {why} == {one.not_run for one in cases if not one.problem}
    assert why == outcome.to_json()["targets"][0]["ranks"][0]["not_judged"]


def test_json(worker: Worker, watched: Watched, speak: Speak) -> None:
    """The JSON has the keys that machines rely on, and is JSON."""
    broken = speak(Stream(rank=0), count=3, num_tokens=9000, num_total_tokens=9000)
    result = json.loads(
        json.dumps(Outcome.of(watched(worker(2, streams=[broken, Stream(rank=1)]))).to_json())
    )
    assert [
        *("ok", "format", "strict", "began", "seconds", "ended", "messages", "counts"),
        *("targets", "findings", "diagnoses"),
    ] == list(result)
    (target,) = result["targets"]
    assert (1, 2) == (target["heard"], len(target["ranks"]))
    assert {"first": 0, "last": 2, "missing": 0, "gaps": 0, "restarts": 0, "backwards": 0} == (
        target["ranks"][0]["sequence"]
    )
    assert [(None, [11]), ("no message came", [])] == [
        (rank["not_judged"], rank["elements"]) for rank in target["ranks"]
    ]
    assert 9000 == target["ranks"][0]["reading"]["num_tokens"]
    assert [("W2", [0]), ("C3", [1])] == [(f["rule"], f["ranks"]) for f in result["findings"]]
    assert all(f["asks"] == RULES[f["rule"]] for f in result["findings"])
    assert [["code", "text", "sure", "remedy"]] * 3 == [
        list(cause) for cause in result["diagnoses"][0]["causes"]
    ]
