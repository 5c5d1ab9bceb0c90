"""The page of the testee protocol is what happens: its program, class, lists and schema."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_loadwire import conform, vectors
from pytest_loadwire.harness.testee import Failure, Greeting, Testee

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
PAGE = (GOLDEN / "TESTEE.md").read_text("utf-8")
SCHEMA: Any = json.loads((GOLDEN / "schema" / "testee.schema.json").read_text("utf-8"))
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

ROUTER = """
from pytest_loadwire.wire import decode, to_dict

def decode_load(payload):
    return to_dict(decode(payload))
"""

VALUE = {"num_running_reqs": "7", "attn_dp_rank": None}
GREETING = {"loadwire": 1, "implementation": "x", "version": "1", "revision": 2}

VALID = [
    GREETING,
    {**GREETING, "policies": {"PartialTail": "older"}, "kinds": ["payload"], "more": 1},
    {"id": "1", "kind": "payload", "hex": "96a8"},
    {"id": "1", "kind": "payload", "hex": ""},
    {"id": "1", "kind": "frames", "frames": ["", "00"]},
    {"id": "1", "accept": {"value": VALUE}},
    {"id": "1", "accept": {"value": VALUE, "sequence": "7", "revision": 2}},
    {"id": "1", "reject": {}},
    {"id": "1", "reject": {"reason": "too-short", "offset": 0, "element": None, "rule": "W9"}},
    {"id": None, "error": "no case"},
]
INVALID = [
    {},
    {"id": "1"},
    {**GREETING, "loadwire": 2},
    {**GREETING, "implementation": " "},
    {**GREETING, "revision": "2"},
    {**GREETING, "policies": {"PartialTail": "reject"}},
    {**GREETING, "policies": {"Unknown": "reject"}},
    {**GREETING, "kinds": ["frames"]},
    {**GREETING, "kinds": ["payload", "both"]},
    {"id": "1", "kind": "payload", "hex": "96A8"},
    {"id": "1", "kind": "payload", "hex": "96a"},
    {"id": "1", "kind": "payload", "frames": []},
    {"id": 1, "reject": {}},
    {"id": "1", "reject": True},
    {"id": "1", "reject": {}, "error": "both"},
    {"id": "1", "accept": {"value": {"num_running_reqs": 7}}},
    {"id": "1", "accept": {}},
    {"id": "1", "accept": {"value": {}, "sequence": 7}},
]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The page's testee, beside a router that conforms."""
    (tmp_path / "router").mkdir()
    (tmp_path / "router" / "load.py").write_text(ROUTER, "utf-8")
    path = tmp_path / "my-testee.py"
    path.write_text(BLOCKS[1], "utf-8")
    return path


def test_the_program_is_complete_and_conforms(program: Path):
    """The program of the page runs as it stands, and conforms with a decoder that does."""
    lines = [line for line in BLOCKS[1].splitlines() if line.strip()]

    with Testee([sys.executable, program]) as testee:
        result = conform.run(testee)
        ending = testee.finish()

    assert len(lines) <= 20
    assert ("my-router", [], None) == (result.name, result.failures, ending)
    assert {"frames"} == set(result.not_run)


def test_the_class_adopts_it(program: Path, pytester: pytest.Pytester):
    """The class of the page runs every vector against it, and declares nothing itself."""
    command = f'"{sys.executable}", "{program}"'
    pytester.makepyfile(test_router=BLOCKS[0].replace('"./my-testee"', command))

    result = pytester.runpytest_subprocess("-W", "error", "-q", "-rs")

    golden = vectors.load()
    forms = sum(1 for vector in golden.payloads for _ in vector.forms())
    result.assert_outcomes(passed=forms + 1, skipped=len(golden.frames))
    result.stdout.fnmatch_lines(["*frames are not checked: my-router takes payloads only"])


def test_every_failure_is_listed():
    """The table of failures has each that there is, and no other."""
    listed = re.findall(r"^\| `([a-z ]+)` \|", PAGE, re.MULTILINE)

    assert sorted(failure.value for failure in Failure) == sorted(listed)


def test_the_messages_of_the_page_are_valid():
    """Each message in the first table is one of the protocol, once its dots are filled."""
    shown = re.findall(r"^\| .+ \| `(\{.*\})` \|$", PAGE, re.MULTILINE)

    messages = [json.loads(text.replace(",...", "").replace("...", "")) for text in shown]

    assert 6 == len(messages)
    assert [[]] * 6 == [_errors(message) for message in messages]


@pytest.mark.parametrize("message", VALID, ids=json.dumps)
def test_the_schema_takes_what_is_legal(message: dict[str, Any]):
    """Every legal line is one of greeting, case and answer."""
    assert [] == _errors(message)


@pytest.mark.parametrize("message", INVALID, ids=json.dumps)
def test_the_schema_refuses_what_is_not(message: dict[str, Any]):
    """A line that is none of them is refused."""
    assert [] != _errors(message)


def test_schema_and_code_know_the_same_greeting():
    """The members of a greeting are those that the harness reads."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert set(Greeting.__struct_fields__) == set(SCHEMA["$defs"]["greeting"]["properties"])


def _errors(message: dict[str, Any]) -> list[str]:
    checker = jsonschema.Draft202012Validator(SCHEMA)
    return [error.message for error in checker.iter_errors(message)]
