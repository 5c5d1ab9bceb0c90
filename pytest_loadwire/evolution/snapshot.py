"""A golden folder as it stands, of whatever version: what two states of a contract are compared by.

:mod:`~pytest_loadwire.vectors` reads the folder of this version and refuses any other. This reads
older and newer ones as well: members that it does not know are kept, files that did not exist yet
are missed in a note, and only what cannot be understood at all is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_loadwire import vectors
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.evolution import git_tree
from pytest_loadwire.rules import RULES
from pytest_loadwire.vectors import RELEASED, VECTOR_TYPES

FORMAT = 1
"""The version of the files that this kit writes."""

Fields = list[dict[str, Any]]
"""The elements of a revision behind the tag, as the manifest has them."""


class SnapshotError(LoadwireError):
    """What was named is no golden folder, or not one that can be read."""


@dataclass(frozen=True)
class Snapshot:
    """One state of the contract.

    Attributes:
        label: What it was read from, for people.
        revisions: The fields by revision.
        vectors: Every vector as its file has it, by id.
        rules: The rules of the folder's README, by id; empty where there is none.
        codes: The reason codes that vectors and README name, each with its rule.
        policies: The policies that vectors name, each with the rule that most such vectors are of.
        released: ``released.json``, or None where there is none.
        notes: What is odd about the folder, a sentence each.
    """

    label: str
    revisions: dict[int, Fields]
    vectors: dict[str, dict[str, Any]]
    rules: dict[str, str] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    released: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> int:
        """The newest revision."""
        return max(self.revisions)

    @property
    def as_released(self) -> Snapshot:
        """The same with only those revisions that engines and routers may be running."""
        if self.released is None:
            return self
        listed = self.released.get("revisions", {})
        revisions = {n: fields for n, fields in self.revisions.items() if str(n) in listed}
        return replace(self, revisions=revisions or self.revisions)

    def is_pinned(self, vector_id: str) -> bool:
        """Whether others may rely on a vector: without ``released.json``, on every one."""
        return self.released is None or vector_id in self.released.get("vectors", {})


def same_unit(one: str, other: str) -> bool:
    """Whether two units are the same, as far as both manifests say one."""
    return one == other or not one or not other


def same_fields(one: Snapshot, other: Snapshot) -> bool:
    """Whether two states have the same revisions with the same elements."""
    return one.revisions.keys() == other.revisions.keys() and all(
        len(fields) == len(other.revisions[number])
        and all(
            (f["name"], f["type"]) == (g["name"], g["type"]) and same_unit(f["unit"], g["unit"])
            for f, g in zip(fields, other.revisions[number], strict=True)
        )
        for number, fields in one.revisions.items()
    )


def read(name: str, cwd: Path) -> Snapshot:
    """The golden folder that a folder's name or a git revision stands for.

    Args:
        name: A folder, or a revision as `git_tree.read_tree` takes it. A folder wins.
        cwd: Where names are relative to, and whose repository is asked.

    Raises:
        SnapshotError: It is no golden folder, or cannot be read.
        GitError: It is no revision either.
    """
    folder = cwd / name
    if folder.is_dir():
        return from_folder(folder, name)
    if folder.exists():
        raise SnapshotError(f"{name} is a file; a golden folder or a git revision is expected")
    tree = git_tree.read_tree(name, cwd)
    return from_files(tree.files, f"{name} ({tree.path} in {tree.commit})")


def read_current(cwd: Path) -> Snapshot:
    """The golden folder of the working tree that ``cwd`` is in, or else that of this package.

    Raises:
        SnapshotError: It cannot be read.
    """
    try:
        top = git_tree.top(cwd)
        folder = top / "golden"
        if (folder / git_tree.MANIFEST).is_file():
            changed = git_tree.changed("golden", cwd)
            more = f"{len(changed)} file{'s' * (len(changed) > 1)} not committed"
            how = more if changed else "as committed"
            return from_folder(folder, f"golden in the working tree, {how}")
    except git_tree.GitError:
        pass
    return from_folder(vectors.folder(), "the vectors of this package")


def from_folder(folder: Path, label: str) -> Snapshot:
    """A golden folder on disk.

    Raises:
        SnapshotError: It is none, or cannot be read.
    """
    try:
        paths = [p for p in folder.iterdir() if p.suffix in (".json", ".md") and p.is_file()]
        files = {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise SnapshotError(f"{label}: {error.strerror}") from None
    return from_files(files, label)


def from_files(files: Mapping[str, bytes], label: str) -> Snapshot:
    """A golden folder from the contents of its files.

    Raises:
        SnapshotError: As `read`.
    """
    if git_tree.MANIFEST not in files:
        raise SnapshotError(f"{label} is no golden folder: it has no {git_tree.MANIFEST}")
    manifest = _json(files, git_tree.MANIFEST, label)
    notes = []
    if manifest.get("format") != FORMAT:
        notes.append(f"format {manifest.get('format')!r}, and this kit knows {FORMAT}")
    listed = manifest.get("files")
    if not isinstance(listed, dict):
        raise SnapshotError(f"{label}: manifest.json lists no vector files")
    revisions = _revisions(manifest, label)
    found: dict[str, dict[str, Any]] = {}
    for name, entry in listed.items():
        if name not in files:
            raise SnapshotError(f"{label}: manifest.json lists {name}, and it is not there")
        digest = hashlib.sha256(files[name]).hexdigest()
        if not isinstance(entry, dict) or entry.get("sha256") != digest:
            notes.append(f"{name} does not have the hash that the manifest gives")
        for vector in _vectors(files, name, label):
            if vector["id"] in found:
                notes.append(f"two vectors are called {vector['id']}")
            found[vector["id"]] = vector
    missing = [f"{s}.json" for s in VECTOR_TYPES if f"{s}.json" not in listed]
    if missing:
        notes.append(f"it has no {', '.join(missing)}")
    released = _json(files, RELEASED, label) if RELEASED in files else None
    if released is None:
        notes.append(f"it has no {RELEASED}, so every vector counts as released")
    elif not isinstance(released.get("vectors"), dict):
        raise SnapshotError(f"{label}: {RELEASED} has no vectors")
    page = files.get("README.md", b"").decode("utf-8", "replace")
    rules = _rules(page)
    if not rules:
        notes.append("it has no README.md with rules, so their wording is not compared")
    unknown = sorted({str(v.get("rule")) for v in found.values()} - RULES.keys())
    if unknown:
        notes.append(f"rules that this version of the kit does not know: {', '.join(unknown)}")
    return Snapshot(
        label=label,
        revisions=revisions,
        vectors=found,
        rules=rules,
        codes=_named("reason", found.values()) | dict(_CODE.findall(page)),
        policies=_named("policy", found.values()),
        released=released,
        notes=tuple(notes),
    )


def _json(files: Mapping[str, bytes], name: str, label: str) -> dict[str, Any]:
    try:
        content = json.loads(files[name])
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{label}: {name} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise SnapshotError(f"{label}: {name} is no JSON object")
    return content


def _revisions(manifest: Mapping[str, Any], label: str) -> dict[int, Fields]:
    revisions = manifest.get("revisions")
    if not isinstance(revisions, dict) or not revisions:
        raise SnapshotError(f"{label}: manifest.json has no revisions")
    read: dict[int, Fields] = {}
    for number, fields in revisions.items():
        known = isinstance(fields, list) and all(
            isinstance(f, dict)
            and isinstance(f.get("name"), str)
            and isinstance(f.get("type", ""), str)
            and isinstance(f.get("unit", ""), str)
            for f in fields
        )
        if not number.isascii() or not number.isdigit() or not known or not fields:
            raise SnapshotError(f"{label}: manifest.json has no list of fields for {number!r}")
        if len({f["name"] for f in fields}) < len(fields):
            raise SnapshotError(
                f"{label}: manifest.json has two fields of one name in revision {number}"
            )
        # What an older manifest did not say is what all fields were.
        read[int(number)] = [{"type": "count", "unit": "", **f} for f in fields]
    return dict(sorted(read.items()))


def _vectors(files: Mapping[str, bytes], name: str, label: str) -> list[dict[str, Any]]:
    entries = _json(files, name, label).get("vectors")
    known = isinstance(entries, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("id"), str)
        and isinstance(entry.get("readers", {}), dict)
        and all(n.isascii() and n.isdigit() for n in entry.get("readers", {}))
        for entry in entries
    )
    if not known or entries is None:
        raise SnapshotError(f"{label}: {name} has no list of vectors with ids")
    return list(entries)


_RULE = re.compile(r"^- \*\*([A-Z]\d+)\*\* ((?:.+\n?)(?:^  (?!<!--).+\n?)*)", re.MULTILINE)
_CODE = re.compile(r"^\| `([a-z0-9-]+)` \| ([A-Z]\d+) \|", re.MULTILINE)


def _rules(page: str) -> dict[str, str]:
    return {rule: " ".join(text.split()) for rule, text in _RULE.findall(page)}


def _named(member: str, vectors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Every code that vectors name in this member, however deep, and the rule that most are of."""
    named: dict[str, Counter[str]] = {}
    for vector in vectors:
        left: list[Any] = [vector]
        while left:
            item = left.pop()
            if isinstance(item, dict):
                code = item.get(member)
                if isinstance(code, str):
                    rule = item.get("rule", vector.get("rule", "?"))
                    named.setdefault(code, Counter())[str(rule)] += 1
                left += item.values()
            elif isinstance(item, list):
                left += item
    return {code: rules.most_common(1)[0][0] for code, rules in named.items()}
