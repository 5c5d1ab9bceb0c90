"""The main job: every vector, by every witness, and through a real socket.

`run` verifies the files against manifest and schema, has each payload and message read by msgspec,
by msgpack and by Rust, has the canonical bytes made by all three, sends every canonical message
through a real loopback socket, and holds the reference engine and router to every address and
timeline. What could not be run is in the result with its reason, never passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgpack

from pytest_loadwire import wire
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import RULES
from pytest_loadwire.vectors import RELEASED, VECTOR_TYPES, Accept, Declare, Golden, load, read_json
from pytest_loadwire.witness import judge_frames, judge_payload, python_witnesses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_loadwire.harness.native import NativeDecoder
    from pytest_loadwire.reference import BehaviourVector
    from pytest_loadwire.vectors import PayloadVector
    from pytest_loadwire.witness import Witness

Encoder = Callable[[wire.LoadStatRev1], bytes]

SOCKET = "socket"
RUST = "rust"
REFERENCE = "reference"


@dataclass
class Cell:
    """What one witness made of the vectors of one rule."""

    passed: int = 0
    failed: int = 0


@dataclass
class Result:
    """What a check found.

    Attributes:
        root: The golden folder.
        content_hash: The hash over its vector files.
        witnesses: Who was asked, in the order of the table's columns.
        cells: By rule and witness, how many vectors passed and failed.
        failures: One sentence for each vector that a witness, the socket or the files got wrong.
        not_run: What could not be run, and why.
        totals: How many vectors, spellings and messages there are.
    """

    root: Path
    content_hash: str
    witnesses: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all that ran agrees. What was not run is in `not_run`."""
        return not self.failures

    def note(self, witness: str, rule: str, vector_id: str, problems: Iterable[object]) -> None:
        """Count one vector for a witness; each problem is a failure."""
        cell = self.cells.setdefault(rule, {}).setdefault(witness, Cell())
        found = [f"{rule} {vector_id}: {witness}: {problem}" for problem in problems]
        self.failures += found
        cell.failed += bool(found)
        cell.passed += not found

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "ok": self.ok,
            "golden": str(self.root),
            "content_hash": self.content_hash,
            "witnesses": self.witnesses,
            "rules": {
                rule: {w: {"passed": c.passed, "failed": c.failed} for w, c in row.items()}
                for rule, row in sorted(self.cells.items(), key=lambda item: rule_order(item[0]))
            },
            "totals": self.totals,
            "not_run": self.not_run,
            "failures": self.failures,
        }


def rule_order(rule: str) -> int:
    """Where a rule stands in the contract."""
    return list(RULES).index(rule) if rule in RULES else len(RULES)


def run(
    root: Path | None = None,
    *,
    native: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Check a golden folder.

    Args:
        root: The folder; by default that of this package.
        native: A library with the C ABI; by default the Rust crate, built if need be.
        progress: Told what is under way, before each part.

    Raises:
        GoldenError: The folder is not there, or its files cannot be read at all.
        NativeUnavailable: A library was named, and is no decoder.
    """
    golden = load(root)
    result = Result(golden.root, golden.content_hash)
    progress("files: manifest and schemas")
    _check_files(golden, result)
    witnesses = python_witnesses()
    result.witnesses = [witness.name for witness in witnesses]
    progress("Rust: building and loading the decoder")
    rust = _native(native, result)
    readers = (*witnesses, rust) if rust else witnesses
    for name, witness in zip(result.witnesses, readers, strict=True):
        progress(f"{name}: reading {len(golden.payloads) + len(golden.frames)} vectors")
        _ask(name, witness, golden, result)
    progress("encoders: making the canonical bytes again")
    encoders: dict[str, Encoder] = {"msgspec": wire.encode, "msgpack": _pack}
    if rust is not None and "loadwire_encode" in rust.offers:
        encoders[result.witnesses[-1]] = rust.encode
    _make_again(golden, result, encoders)
    progress("socket: sending every canonical message over loopback")
    _send(golden, result)
    behaviour = (*golden.endpoints, *golden.discovery, *golden.cadence, *golden.readings)
    progress(f"reference: answering and playing {len(behaviour)} vectors")
    _answer(behaviour, golden, result)
    result.totals = {
        "payload vectors": len(golden.payloads),
        "payload spellings": sum(len(v.spellings) for v in golden.payloads),
        "frame vectors": len(golden.frames),
        "canonical messages": sum(1 for _ in _canonical(golden)),
        "endpoint vectors": len(golden.endpoints),
        "discovery vectors": len(golden.discovery),
        "cadence vectors": len(golden.cadence),
        "reading timelines": len(golden.readings),
    }
    return result


def _check_files(golden: Golden, result: Result) -> None:
    """Hashes and counts against the manifest, every file against its schema."""
    lines = ""
    listed = golden.manifest["files"]
    counts = {f"{subject}.json": len(getattr(golden, subject)) for subject in VECTOR_TYPES}
    result.failures += [
        f"W11 {name}: " + ("is not in the manifest" if name in counts else "is no file of vectors")
        for name in sorted(listed.keys() ^ counts.keys())
    ]
    for name in sorted(listed.keys() & counts.keys()):
        digest = hashlib.sha256((golden.root / name).read_bytes()).hexdigest()
        lines += f"{name} {digest}\n"
        if digest != listed[name]["sha256"]:
            result.failures.append(f"W11 {name}: its hash is {digest}, not that of the manifest")
        if counts[name] != listed[name]["vectors"]:
            said = listed[name]["vectors"]
            result.failures.append(f"W11 {name}: {counts[name]} vectors, the manifest says {said}")
    if hashlib.sha256(lines.encode()).hexdigest() != golden.content_hash:
        result.failures.append("W11 manifest.json: content_hash is not that of the files")
    for number, kind in wire.REVISIONS.items():
        names = [f["name"] for f in golden.manifest["revisions"].get(str(number), ())]
        if names != list(kind.__struct_fields__):
            result.failures.append(f"W11 manifest.json: revision {number} has the fields {names}")
    if find_spec("jsonschema") is None:
        result.not_run["schemas"] = "jsonschema is not installed; it comes with the cli extra"
        return
    import jsonschema  # noqa: PLC0415 - of the cli extra

    frozen = [RELEASED] if (golden.root / RELEASED).exists() else []
    for name in ("manifest.json", *counts, *frozen):
        schema = read_json(golden.root / "schema" / f"{name[:-5]}.schema.json", Any)
        content = read_json(golden.root / name, Any)
        for error in jsonschema.Draft202012Validator(schema).iter_errors(content):
            result.failures.append(f"W11 {name}: {error.json_path}: {error.message[:200]}")


def _native(path: str | None, result: Result) -> NativeDecoder | None:
    """The named library, or the Rust crate, as one more column of the table."""
    from pytest_loadwire.harness import native  # noqa: PLC0415 - cffi only where it is used

    try:
        decoder = native.load(path)
    except native.NativeUnavailable as error:
        if path is not None:  # who names a library wants it checked
            raise
        result.not_run[RUST] = str(error)
        return None
    result.witnesses.append(RUST if decoder.name == "loadwire-check" else decoder.name)
    return decoder


def _ask(name: str, witness: Witness, golden: Golden, result: Result) -> None:
    for vector in golden.payloads:
        result.note(name, vector.rule, vector.id, judge_payload(witness, vector))
    for message in golden.frames:
        result.note(name, message.rule, message.id, judge_frames(witness, message))


def _canonical(golden: Golden) -> Iterator[tuple[PayloadVector, wire.LoadStatRev1]]:
    """Every payload that an engine may send, with its reading."""
    for vector in golden.payloads:
        if vector.engine is not None:
            verdict = vector.readers[str(vector.engine)]
            taken = verdict.outcomes["accept"] if isinstance(verdict, Declare) else verdict
            if isinstance(taken, Accept):
                yield vector, wire.from_dict(taken.reading, revision=vector.engine)


def _pack(stat: wire.LoadStatRev1) -> bytes:
    return bytes(msgpack.packb([wire.TAG, *wire.to_dict(stat).values()]))


def _make_again(golden: Golden, result: Result, encoders: Mapping[str, Encoder]) -> None:
    """The canonical bytes, made again by every library that can."""
    for vector, stat in _canonical(golden):
        for name, encoder in encoders.items():
            try:
                made = encoder(stat).hex()
            except LoadwireError as error:
                made = str(error)
            wrong = [] if made == vector.hex else [f"makes {made} of {stat}, not {vector.hex}"]
            result.note(name, "W6", f"{vector.id} made again", wrong)


def _send(golden: Golden, result: Result) -> None:
    """Every canonical message through a real socket, one at a time, compared as it arrives."""
    from pytest_loadwire.harness.sockets import LivePublisher, LiveSubscriber  # noqa: PLC0415

    result.witnesses.append(SOCKET)
    try:
        with LivePublisher() as publisher, LiveSubscriber(publisher.endpoint) as subscriber:
            publisher.wait_for_subscribers()
            for vector, stat in _canonical(golden):
                number = publisher.publish(stat)
                arrived = subscriber.receive_frames()
                expected = (wire.TOPIC, number.to_bytes(8, "big"), vector.payload)
                wrong = [] if arrived == expected else [f"{arrived} arrived for {expected}"]
                result.note(SOCKET, "F1", vector.id, wrong)
    except LoadwireError as error:
        result.failures.append(f"F1 {SOCKET}: {error}")


def _answer(vectors: Iterable[BehaviourVector], golden: Golden, result: Result) -> None:
    """Every address and every timeline, by this package's own resolver, engine and router."""
    from pytest_loadwire.reference import Reference  # noqa: PLC0415 - pytest where it is used

    result.witnesses.append(REFERENCE)
    reference = Reference(golden)
    for vector in vectors:
        result.note(REFERENCE, vector.rule, vector.id, reference.problems(vector))
