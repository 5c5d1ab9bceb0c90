"""The files of ``golden/`` as bytes, from the families."""

from __future__ import annotations

import hashlib
import json
import re
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_loadwire.golden import rust_table
from pytest_loadwire.golden.addresses import endpoint_vectors
from pytest_loadwire.golden.advertisement import block_vectors
from pytest_loadwire.golden.cadence import cadence_vectors
from pytest_loadwire.golden.frames import frame_vectors
from pytest_loadwire.golden.payloads import payload_vectors
from pytest_loadwire.golden.plans import plan_vectors
from pytest_loadwire.golden.readings import reading_timelines
from pytest_loadwire.golden.rejects import reject_vectors
from pytest_loadwire.golden.starts import start_vectors
from pytest_loadwire.rules import RULES
from pytest_loadwire.vectors import FrameVector, PayloadVector, Vector
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_loadwire.wire import LoadStatRev1

RUST_TABLE = Path("rust-check/src/vectors.rs")
"""Where the Rust table stands, relative to the repository."""


SUBJECTS: dict[str, Callable[[], Iterable[Vector]]] = {
    "payloads": lambda: (*payload_vectors(), *reject_vectors()),
    "frames": frame_vectors,
    "endpoints": endpoint_vectors,
    "discovery": lambda: (*block_vectors(), *start_vectors(), *plan_vectors()),
    "cadence": cadence_vectors,
    "readings": reading_timelines,
}
"""What makes the vectors of each file, by subject."""


class Built(NamedTuple):
    """Everything that regeneration makes.

    Attributes:
        subjects: The vectors by subject; each subject is one file.
        manifest: The manifest.
        files: File name under ``golden/`` to content.
        rust: The content of the Rust table.
    """

    subjects: dict[str, tuple[Vector, ...]]
    manifest: dict[str, Any]
    files: dict[str, bytes]
    rust: str

    @property
    def payloads(self) -> tuple[PayloadVector, ...]:
        """The payload vectors."""
        return tuple(v for v in self.subjects["payloads"] if isinstance(v, PayloadVector))

    @property
    def frames(self) -> tuple[FrameVector, ...]:
        """The frame vectors."""
        return tuple(v for v in self.subjects["frames"] if isinstance(v, FrameVector))

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """All vectors of all files."""
        return tuple(vector for vectors in self.subjects.values() for vector in vectors)


def build() -> Built:
    """Make every file anew, from the families and the structs alone."""
    subjects = {subject: tuple(make()) for subject, make in SUBJECTS.items()}
    files = {f"{subject}.json": render(subject, vectors) for subject, vectors in subjects.items()}
    entries = {
        f"{subject}.json": {
            "sha256": sha256(files[f"{subject}.json"]),
            "vectors": len(subjects[subject]),
        }
        for subject in sorted(subjects)
    }
    manifest = {
        "format": 1,
        "revisions": revisions(),
        "files": entries,
        "content_hash": content_hash(entries),
    }
    files["manifest.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    rust = rust_table.render(
        {subject: json.loads(files[f"{subject}.json"]) for subject in subjects}, manifest
    )
    built = Built(subjects, manifest, files, rust)
    files["INDEX.md"] = index(built.vectors).encode()
    return built


def sha256(content: bytes) -> str:
    """The hash of one file, in hex."""
    return hashlib.sha256(content).hexdigest()


def content_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The hash over all vector files, from their entries in the manifest."""
    lines = "".join(f"{name} {files[name]['sha256']}\n" for name in sorted(files))
    return sha256(lines.encode())


def revisions() -> dict[str, list[dict[str, Any]]]:
    """The fields of every revision, by its number as the manifest has it."""
    return {str(number): fields(kind) for number, kind in REVISIONS.items()}


def fields(kind: type[LoadStatRev1]) -> list[dict[str, Any]]:
    """The elements of a revision behind the tag: name, type, unit and first revision of each."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        {
            "name": name,
            "type": type_name(hints[name]),
            "unit": _unit(hints[name]),
            "since": min(n for n, k in REVISIONS.items() if name in k.__struct_fields__),
        }
        for name in kind.__struct_fields__
    ]


def type_name(hint: Any) -> str:
    """The contract's word for a field's type; a Python type that the contract lacks, by name."""
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) is typing.Annotated:
        bare = typing.get_args(hint)[0]
        return "count" if bare is int else bare.__name__
    if len(options) == 1 and type(None) in typing.get_args(hint):
        return f"{type_name(options[0])}-or-nil"
    return getattr(hint, "__name__", str(hint))


def _unit(hint: Any) -> str | None:
    for part in (hint, *typing.get_args(hint)):
        for extra in getattr(part, "__metadata__", ()):
            if isinstance(extra, msgspec.Meta) and extra.extra:
                return str(extra.extra["unit"])
    return None


def render(subject: str, vectors: Sequence[Vector]) -> bytes:
    """One vector file: a line for each attribute, so that a diff shows what changed in which."""
    blocks = [_render_vector(vector) for vector in vectors]
    head = f'{{\n "format": 1,\n "subject": "{subject}",\n "vectors": [\n'
    return (head + ",\n".join(blocks) + "\n ]\n}\n").encode()


def _render_vector(vector: Vector) -> str:
    lines = []
    for key, value in msgspec.to_builtins(vector).items():
        if isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()):
            inner = ",\n".join(f"    {json.dumps(k)}: {_compact(v)}" for k, v in value.items())
            lines.append(f"   {json.dumps(key)}: {{\n{inner}\n   }}")
        elif isinstance(value, list | tuple) and any(isinstance(v, dict) for v in value):
            inner = ",\n".join(f"    {_compact(v)}" for v in value)
            lines.append(f"   {json.dumps(key)}: [\n{inner}\n   ]")
        elif key == "spellings" and value:
            inner = ",\n".join(f"    {json.dumps(k)}: {_compact(v)}" for k, v in value.items())
            lines.append(f"   {json.dumps(key)}: {{\n{inner}\n   }}")
        else:
            lines.append(f"   {json.dumps(key)}: {_compact(value)}")
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(", ", ": "))


def index(vectors: Sequence[Vector]) -> str:
    """``INDEX.md``: every vector by rule, with what it is for."""
    lines = [
        "<!-- Made by `python -m pytest_loadwire.golden --write`. -->",
        "# Vectors by rule",
        "",
    ]
    for rule, text in RULES.items():
        proving = [vector for vector in vectors if vector.rule == rule]
        if not proving:
            continue
        lines += [f"## {rule}", "", f"{text[0].upper()}{text[1:]}.", ""]
        lines += [f"- `{vector.id}`: {vector.why}" for vector in proving]
        lines.append("")
    return "\n".join(lines)


_MARK = re.compile(r"<!-- vectors (\w+) -->.*$", re.MULTILINE)


def with_vector_lines(readme: str, vectors: Sequence[Vector]) -> str:
    """``README.md`` with the line behind each ``<!-- vectors W1 -->`` made anew."""

    def line(match: re.Match[str]) -> str:
        rule = match.group(1)
        ids = [vector.id for vector in vectors if vector.rule == rule]
        shown = ", ".join(f"`{vector_id}`" for vector_id in ids[:3])
        more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
        link = f"[{len(ids)} vectors](INDEX.md#{rule.lower()})" if len(ids) != 1 else "1 vector"
        return f"<!-- vectors {rule} --> {link}: {shown}{more}" if ids else match.group(0)

    return _MARK.sub(line, readme)
