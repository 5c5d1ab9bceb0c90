"""The vectors as Rust data. That it compiles and holds the vectors is tested in the crate."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_loadwire.golden import rust_table
from pytest_loadwire.golden.build import Built, build

# A time, and the whole nanoseconds that stand for it.
TIMES = [
    ("0", 0),
    ("5", 5_000_000_000),
    ("100.25", 100_250_000_000),
    ("105.2509765625", 105_250_976_562),
    ("0.0000000009", 0),
]

# A part of a block, and the value in Rust.
VALUES = [
    ({}, "Missing"),
    ({"dp_size": None}, "Null"),
    ({"dp_size": True}, "Bool(true)"),
    ({"dp_size": -1}, "Integer(-1)"),
    ({"dp_size": 1.5}, "Float(1.5)"),
    ({"dp_size": 2.0}, "Float(2.0)"),
    ({"dp_size": 'a"b'}, 'Text("a\\"b")'),
    ({"dp_size": [2]}, "List"),
    ({"dp_size": {}}, "Object"),
]


@pytest.fixture(scope="module")
def built() -> Built:
    """Everything, made anew."""
    return build()


@pytest.fixture
def subjects(built: Built) -> dict[str, Any]:
    """The parsed files by subject, to be changed."""
    return {name: json.loads(built.files[f"{name}.json"]) for name in built.subjects}


def test_every_plan_and_timeline_is_there(built: Built, subjects: dict[str, Any]) -> None:
    """Each is there once, in file order, and each step of a timeline has a line of its own."""
    lines = built.rust.splitlines()
    plans = [v["id"] for v in subjects["discovery"]["vectors"] if v["kind"] == "plan"]
    timelines = subjects["readings"]["vectors"]
    for record, expected in [("PlanVector", plans), ("Timeline", [v["id"] for v in timelines])]:
        head = f"    {record} {{ id: "
        assert expected == [line.split('"')[1] for line in lines if line.startswith(head)]
    steps = sum(line.startswith("        Step {") for line in lines)
    assert sum(len(timeline["steps"]) for timeline in timelines) == steps


def test_the_same_input_gives_the_same_text(built: Built, subjects: dict[str, Any]) -> None:
    """The text is a function of the files, so that it can be compared."""
    assert built.rust == rust_table.render(subjects, built.manifest)


@pytest.mark.parametrize(("seconds", "nanos"), TIMES)
def test_times(seconds: str, nanos: int) -> None:
    """A time is rounded down to whole nanoseconds."""
    assert f"D::from_nanos({nanos})" == rust_table._duration(seconds)


@pytest.mark.parametrize(("block", "value"), VALUES)
def test_values_of_a_block(block: dict[str, Any], value: str) -> None:
    """Every kind of JSON value has its own form: a bool is no number, and null is not missing."""
    assert f"dp_size: V::{value} }})" in rust_table._block(block)


def _event(subjects: dict[str, Any]) -> None:
    subjects["readings"]["vectors"][0]["steps"][0]["happens"] = {"event": "flood", "worker": "w"}


def _load(subjects: dict[str, Any]) -> None:
    subjects["readings"]["vectors"][0]["steps"][1]["expect"]["w"] = {
        "view": "known",
        "load": {"num_tokens": "1"},
    }


def _policy(subjects: dict[str, Any]) -> None:
    plans = (v for v in subjects["discovery"]["vectors"] if v["kind"] == "plan")
    next(plans)["expect"] = {"verdict": "declare", "policy": "LooseEndpoint", "outcomes": {}}


def _block(subjects: dict[str, Any]) -> None:
    next(v for v in subjects["discovery"]["vectors"] if v["kind"] == "plan")["block"] = []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_event, "'flood' is no event"),
        (_load, "one-rank: num_tokens are not the first counts"),
        (_policy, "plan-ipv4: LooseEndpoint is no policy of a plan"),
        (_block, "a block that is"),
    ],
)
def test_what_the_table_cannot_express(
    built: Built, subjects: dict[str, Any], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    """Input for which there is no Rust form is an error that names it, and never a wrong table."""
    change(subjects)
    with pytest.raises(ValueError, match=message):
        rust_table.render(subjects, built.manifest)
