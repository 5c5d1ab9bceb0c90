"""Golden folders in other states than today's, for comparisons."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_loadwire.vectors import folder

State = dict[str, Any]
"""The JSON files of a golden folder by name without their ending."""


def write_state(root: Path, *edits: Callable[[State], None]) -> Path:
    """A copy of today's golden folder with edits, and a manifest that fits its files."""
    shutil.copytree(folder(), root, ignore=shutil.ignore_patterns("schema", "INDEX.md"))
    state = {path.stem: json.loads(path.read_text("utf-8")) for path in root.glob("*.json")}
    for edit in edits:
        edit(state)
    manifest = state["manifest"]
    for name in [name for name in manifest["files"] if name.removesuffix(".json") not in state]:
        del manifest["files"][name]
    for name in manifest["files"]:
        content = json.dumps(state[name.removesuffix(".json")]).encode()
        manifest["files"][name]["sha256"] = hashlib.sha256(content).hexdigest()
        manifest["files"][name]["vectors"] = len(state[name.removesuffix(".json")]["vectors"])
    for path in root.glob("*.json"):
        path.unlink()
    for name, content in state.items():
        (root / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return root


def only_revision_1(state: State) -> None:
    """The contract as it was before revision 2: what is of a later one is not there yet."""
    for file in ("manifest", "released"):
        del state[file]["revisions"]["2"]
    for name in [name.removesuffix(".json") for name in state["manifest"]["files"]]:
        early = [v for v in state[name]["vectors"] if v.get("since", 1) == 1]
        for vector in early:
            vector.get("readers", {}).pop("2", None)
        state[name]["vectors"] = early
    ids = {v["id"] for name in state for v in state[name].get("vectors", []) if isinstance(v, dict)}
    kept = {k: v for k, v in state["released"]["vectors"].items() if k in ids}
    state["released"]["vectors"] = kept


def fields_of(state: State, revision: int = 2) -> list[dict[str, Any]]:
    """The fields of a revision, to change."""
    fields: list[dict[str, Any]] = state["manifest"]["revisions"][str(revision)]
    return fields


def vector_of(state: State, vector_id: str) -> dict[str, Any]:
    """A payload vector, to change."""
    (found,) = [v for v in state["payloads"]["vectors"] if v["id"] == vector_id]
    vector: dict[str, Any] = found
    return vector


def new_field(name: str = "num_preempted_reqs", since: int = 3) -> dict[str, Any]:
    """A field that nobody has yet."""
    return {"name": name, "type": "count", "unit": "requests", "since": since}


def append_revision_3(state: State) -> None:
    """A revision with one count more, of which the folder has no goldens yet."""
    revisions = state["manifest"]["revisions"]
    revisions["3"] = [*revisions["2"], new_field()]


def swap(state: State) -> None:
    """The first two fields of revision 2 change places."""
    fields = fields_of(state)
    fields[0], fields[1] = fields[1], fields[0]


def git(cwd: Path, *arguments: str | Path) -> str:
    """Run git as nobody in particular, without the settings of whoever runs the tests."""
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]
    settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", *who, "-c", "commit.gpgsign=false", *map(str, arguments)],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def commit(repository: Path, message: str) -> None:
    """Commit all that is there."""
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
