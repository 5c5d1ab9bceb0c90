"""Every file is valid by its schema, and the schemas refuse what is broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from pytest_loadwire.vectors import load

GOLDEN = load()
FILES = ["manifest.json", "released.json", *GOLDEN.manifest["files"]]

Json = dict[str, Any]


def content(name: str) -> Any:
    return json.loads((GOLDEN.root / name).read_text("utf-8"))


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = content(f"schema/{name.removesuffix('.json')}.schema.json")
    return jsonschema.Draft202012Validator(schema)


def set_to(*path: str | int, value: Any) -> Callable[[Json], None]:
    """A change of one value at a path into the document."""

    def change(document: Json) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def without(*path: str | int) -> Callable[[Json], None]:
    """A document that lacks what stands at a path."""

    def change(document: Json) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


VECTOR_KEYS = ["id", "rule", "kind", "since", "why", "source", "engine", "readers"]

# A change to a file of vectors, whose first vector is accepted; the verdicts are set as a whole.
REJECT = {
    "verdict": "reject",
    "rule": "W5",
    "reason": "bad-type",
    "offset": 10,
    "element": 1,
    "hazard": "stale",
    "frame": None,
}
ACCEPT = {"verdict": "accept", "revision": 1, "value": {"num_tokens": "7", "attn_dp_rank": None}}
DECLARE = {
    "verdict": "declare",
    "policy": "NilTail",
    "outcomes": {"accept": ACCEPT, "reject": REJECT},
}
BAD_VERDICTS: list[Any] = [
    {},
    None,
    {**REJECT, "verdict": "maybe"},
    {**REJECT, "reason": "because"},
    {**REJECT, "reason": "not-canonical"},
    {**REJECT, "hazard": "boom"},
    {**REJECT, "rule": "w5"},
    {**REJECT, "offset": -1},
    {**REJECT, "element": "1"},
    {**REJECT, "more": 1},
    {key: value for key, value in REJECT.items() if key != "hazard"},
    {**ACCEPT, "revision": 0},
    {**ACCEPT, "value": {"num_tokens": 7}},
    {**ACCEPT, "value": {"num_tokens": "07"}},
    {**ACCEPT, "value": {"num_tokens": "-7"}},
    {**ACCEPT, "value": {"num_tokens": ""}},
    {**ACCEPT, "value": {"num_tokens": "9" * 21}},
    {**ACCEPT, "value": {"Tokens": "7"}},
    {"verdict": "accept", "revision": 1},
    {**DECLARE, "policy": "Whatever"},
    {**DECLARE, "outcomes": {"accept": ACCEPT}},
    {**DECLARE, "outcomes": {"accept": ACCEPT, "perhaps": REJECT}},
    {**DECLARE, "outcomes": {"accept": DECLARE, "reject": REJECT}},
]
BAD_VECTORS: list[Callable[[Json], None]] = [
    *(without("vectors", 0, key) for key in VECTOR_KEYS),
    set_to("vectors", 0, "more", value=1),
    set_to("vectors", 0, "id", value="Golden"),
    set_to("vectors", 0, "id", value="golden_a"),
    set_to("vectors", 0, "rule", value="X"),
    set_to("vectors", 0, "kind", value="silver"),
    set_to("vectors", 0, "since", value=0),
    set_to("vectors", 0, "why", value=""),
    set_to("vectors", 0, "source", value=""),
    set_to("vectors", 0, "engine", value=0),
    set_to("vectors", 0, "engine", value="1"),
    set_to("vectors", 0, "readers", value={}),
    set_to("vectors", 0, "readers", value={"0": REJECT}),
    set_to("vectors", value=[]),
    set_to("format", value=2),
    set_to("subject", value="something"),
    set_to("more", value=1),
    without("format"),
    without("subject"),
    without("vectors"),
    *(set_to("vectors", 0, "readers", "1", value=verdict) for verdict in BAD_VERDICTS),
]
BAD_PAYLOADS = [
    without("vectors", 0, "hex"),
    without("vectors", 0, "spellings"),
    set_to("vectors", 0, "hex", value="9BA8"),
    set_to("vectors", 0, "hex", value="9ba"),
    set_to("vectors", 0, "hex", value="0x9b"),
    set_to("vectors", 0, "spellings", value={"array-16": "zz"}),
    set_to("vectors", 0, "spellings", value={"Array 16": "dc"}),
    set_to("vectors", 0, "spellings", value=["dc"]),
    set_to("vectors", 0, "readers", "1", value={**REJECT, "frame": 0}),
    set_to("vectors", 0, "readers", "1", value={**ACCEPT, "sequence": "7"}),
]
BAD_FRAMES = [
    without("vectors", 0, "frames"),
    set_to("vectors", 0, "frames", value="6c"),
    set_to("vectors", 0, "frames", value=["6C"]),
    set_to("vectors", 0, "readers", "1", value={**REJECT, "frame": 3}),
    set_to("vectors", 0, "readers", "1", value={**REJECT, "frame": -1}),
    set_to("vectors", 0, "readers", "1", value={**ACCEPT, "sequence": 7}),
    set_to("vectors", 0, "readers", "1", value={**ACCEPT, "sequence": "-1"}),
    set_to("vectors", 0, "readers", "1", value=ACCEPT),
]
BAD_MANIFESTS = [
    set_to("format", value=2),
    set_to("more", value=1),
    set_to("revisions", value={}),
    set_to("revisions", "0", value=[]),
    set_to("revisions", "1", 0, "type", value="float"),
    set_to("revisions", "1", 0, "unit", value="pages"),
    set_to("revisions", "1", 0, "since", value=0),
    without("revisions", "1", 0, "name"),
    set_to("content_hash", value="abc"),
    set_to("files", "payloads.json", "sha256", value="A" * 64),
    set_to("files", "payloads.json", "vectors", value=0),
    without("files", "payloads.json", "vectors"),
    *(without(key) for key in ("format", "revisions", "files", "content_hash")),
]


@pytest.mark.parametrize("name", FILES)
def test_valid(name: str) -> None:
    """A file is valid by its schema, which is a valid schema itself."""
    checker = validator(name)
    jsonschema.Draft202012Validator.check_schema(checker.schema)
    assert [] == [f"{e.json_path}: {e.message}" for e in checker.iter_errors(content(name))]


@pytest.mark.parametrize("verdict", [REJECT, ACCEPT, DECLARE])
def test_sample_verdicts(verdict: Json) -> None:
    """What the broken verdicts are made of is valid."""
    document = head("payloads.json")
    set_to("vectors", 0, "readers", "1", value=verdict)(document)
    assert validator("payloads.json").is_valid(document)


def head(name: str) -> Json:
    """The first vector of a file alone, which is enough to be broken."""
    document: Json = content(name)
    if "vectors" in document:
        document["vectors"] = copy.deepcopy(document["vectors"][:1])
    return document


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("payloads.json", change) for change in [*BAD_VECTORS, *BAD_PAYLOADS]),
        *(("frames.json", change) for change in [*BAD_VECTORS, *BAD_FRAMES]),
        *(("manifest.json", change) for change in BAD_MANIFESTS),
    ],
)
def test_broken(name: str, change: Callable[[Json], None]) -> None:
    """A broken file is refused by its schema."""
    document = head(name)
    checker = validator(name)
    assert checker.is_valid(document)
    change(document)
    assert not checker.is_valid(document)
