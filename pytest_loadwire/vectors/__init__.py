"""The golden vectors as typed records.

``golden/`` is plain JSON that any language reads without this kit; this module is its Python face.
Numbers that may pass 2^53 are decimal strings in the files and ints here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypedDict, TypeVar

import msgspec

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import Hazard, Policy, Reason
from pytest_loadwire.vectors.addresses import AddressVector, DiscoveryVector, EndpointVector
from pytest_loadwire.vectors.readings import ReadingTimeline
from pytest_loadwire.vectors.timelines import CadenceVector

Value = dict[str, str | None]
"""Field name to decimal string, or None where nil was read."""

Reading = dict[str, int | None]
"""Field name to int, or None where nil was read."""


RELEASED = "released.json"
"""The file under ``golden/`` that says what was released and stays."""


class GoldenError(LoadwireError):
    """The vector files are missing, damaged or disagree with their manifest."""


class Accept(msgspec.Struct, frozen=True, tag="accept", tag_field="verdict", omit_defaults=True):
    """A reader takes the bytes.

    Attributes:
        revision: The revision that is read.
        value: The fields of that revision and no others; missing fields are missing, not zero.
        sequence: For frames, the sequence as a decimal string; None for a bare payload.
    """

    revision: int
    value: Value
    sequence: str | None = None

    @property
    def reading(self) -> Reading:
        """The value with ints for the decimal strings."""
        return {k: None if v is None else int(v) for k, v in self.value.items()}


class Reject(msgspec.Struct, frozen=True, tag="reject", tag_field="verdict"):
    """A reader refuses the bytes.

    Attributes:
        rule: The rule that the bytes break.
        reason: The reason code.
        offset: The byte of the payload that is to blame, or None.
        element: The array element that is to blame, or None.
        hazard: What a router would do that believed the wrong decoding.
        frame: For frames, the frame that is to blame, or None.
    """

    rule: str
    reason: Reason
    offset: int | None
    element: int | None
    hazard: Hazard
    frame: int | None = None


class Declare(msgspec.Struct, frozen=True, tag="declare", tag_field="verdict"):
    """Real routers differ here, so a reader declares which answer it gives.

    Attributes:
        policy: What is to be declared.
        outcomes: The verdict for each answer (`rules.POLICY_ANSWERS`).
    """

    policy: Policy
    outcomes: dict[str, Accept | Reject]


Verdict = Accept | Reject | Declare

Kind = Literal["golden", "anchor", "boundary", "spelling", "tail", "policy", "reject"]
"""The family of a vector: `golden` is a revision's own set, `anchor` was published by SGLang."""


class PayloadVector(msgspec.Struct, frozen=True):
    """One payload and what each side owes for it.

    Attributes:
        id: A slug that never changes and is never reused.
        rule: The contract rule that this vector proves.
        kind: The family.
        since: The revision that brought this vector.
        why: What it is for, in one sentence.
        source: Where the bytes come from and how to get them again.
        hex: The bytes under test; the canonical form where an engine may send them.
        spellings: Other legal forms of the same value by name; every reader verdict holds for them.
        engine: The revision whose engines may send ``hex``, or None where no engine may.
        readers: The verdict by revision of the reader.
    """

    id: str
    rule: str
    kind: Kind
    since: int
    why: str
    source: str
    hex: str
    spellings: dict[str, str]
    engine: int | None
    readers: dict[str, Verdict]

    @property
    def payload(self) -> bytes:
        """The bytes under test."""
        return bytes.fromhex(self.hex)

    def forms(self) -> Iterator[tuple[str, bytes]]:
        """The bytes under test and every other legal form, each with an id for messages."""
        yield self.id, self.payload
        for name, form in self.spellings.items():
            yield f"{self.id}/{name}", bytes.fromhex(form)


class FrameVector(msgspec.Struct, frozen=True):
    """One message, frame by frame; the attributes are those of `PayloadVector`."""

    id: str
    rule: str
    kind: Kind
    since: int
    why: str
    source: str
    frames: tuple[str, ...]
    engine: int | None
    readers: dict[str, Verdict]

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The frames as bytes."""
        return tuple(bytes.fromhex(frame) for frame in self.frames)


Vector = PayloadVector | FrameVector | AddressVector | CadenceVector | ReadingTimeline
"""Any vector: what all of them have is `id`, `rule`, `why` and `source`."""

VECTOR_TYPES: dict[str, Any] = {
    "payloads": PayloadVector,
    "frames": FrameVector,
    "endpoints": EndpointVector,
    "discovery": DiscoveryVector,
    "cadence": CadenceVector,
    "readings": ReadingTimeline,
}
"""The record type of each file, by subject."""

V = TypeVar("V")


class VectorFile(msgspec.Struct, Generic[V]):
    """One file of vectors: the format's version, the subject and the vectors."""

    format: Literal[1]
    subject: str
    vectors: tuple[V, ...]


class Field(TypedDict):
    """One element of a revision behind the tag, as the manifest has it."""

    name: str
    type: str
    unit: str
    since: int


class File(TypedDict):
    """One vector file, as the manifest has it."""

    sha256: str
    vectors: int


class Manifest(TypedDict):
    """``manifest.json``: the fields by revision, the vector files by name, a hash over them."""

    format: Literal[1]
    revisions: dict[str, list[Field]]
    files: dict[str, File]
    content_hash: str


WHEEL_FOLDER = "_golden"
"""What the folder of vectors is called within an installed package."""


class Golden(msgspec.Struct, frozen=True):
    """Everything under ``golden/``.

    Attributes:
        root: The folder it was read from.
        manifest: ``manifest.json`` as it stands.
        payloads: The payload vectors, in file order.
        frames: The frame vectors, in file order.
        endpoints: The vectors of endpoints, ranges and ranks, in file order.
        discovery: The vectors of advertisement, start and plans, in file order.
        cadence: The readings and timelines, in file order.
        readings: The timelines of a router, in file order.
    """

    root: Path
    manifest: Manifest
    payloads: tuple[PayloadVector, ...]
    frames: tuple[FrameVector, ...]
    endpoints: tuple[EndpointVector, ...]
    discovery: tuple[DiscoveryVector, ...]
    cadence: tuple[CadenceVector, ...]
    readings: tuple[ReadingTimeline, ...]

    def __repr__(self) -> str:
        # The default has every vector in it, and a failed test would show all of that.
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name in VECTOR_TYPES)
        return f"<Golden of {self.root}: {counts}>"

    @property
    def content_hash(self) -> str:
        """The sha256 over all vector files that the Rust crate asserts as well."""
        return self.manifest["content_hash"]

    def payload(self, vector_id: str) -> PayloadVector:
        """The payload vector with this id.

        Raises:
            KeyError: There is none.
        """
        return _by_id(self.payloads, vector_id)

    def frame(self, vector_id: str) -> FrameVector:
        """The frame vector with this id.

        Raises:
            KeyError: There is none.
        """
        return _by_id(self.frames, vector_id)


def _by_id(vectors: tuple[V, ...], vector_id: str) -> V:
    for vector in vectors:
        if getattr(vector, "id", None) == vector_id:
            return vector
    raise KeyError(f"no vector {vector_id!r} among {len(vectors)}")


def folder() -> Path:
    """The vectors that belong to this package: of the wheel, or of the source checkout.

    Raises:
        GoldenError: There are none.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / WHEEL_FOLDER, package.parent / "golden"):
        if (candidate / "manifest.json").is_file():
            return candidate
    raise GoldenError(f"no golden vectors beside the package in {package}")


def load(root: Path | None = None) -> Golden:
    """The vectors under ``root``, by default those of this package (read once a process).

    Raises:
        GoldenError: A file is missing or does not have the form of its schema. The message names
            it, and the command that makes it again.
    """
    return _load((root or folder()).resolve())


@cache
def _load(root: Path) -> Golden:
    try:
        return _read(root)
    except GoldenError as error:
        again = f"`loadwire golden --write --root {root}` makes it again"
        if root.name == WHEEL_FOLDER:
            again = "installing pytest-loadwire anew brings it back"
        raise GoldenError(f"{error}; {again}") from None


def _read(root: Path) -> Golden:
    return Golden(
        root=root,
        manifest=read_json(root / "manifest.json", Manifest),
        payloads=read_json(root / "payloads.json", VectorFile[PayloadVector]).vectors,
        frames=read_json(root / "frames.json", VectorFile[FrameVector]).vectors,
        endpoints=read_json(root / "endpoints.json", VectorFile[EndpointVector]).vectors,
        discovery=read_json(root / "discovery.json", VectorFile[DiscoveryVector]).vectors,
        cadence=read_json(root / "cadence.json", VectorFile[CadenceVector]).vectors,
        readings=read_json(root / "readings.json", VectorFile[ReadingTimeline]).vectors,
    )


def read_json(path: Path, kind: Any) -> Any:
    """One JSON file as ``kind``.

    Raises:
        GoldenError: It cannot be read or is of another form; the message names the file and place.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise GoldenError(f"{path}: {error.strerror}") from None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # The form is looked at first, so what is cut short may seem to be merely of another one.
        try:
            msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as unparsed:
            raise GoldenError(f"{path} is no JSON: {unparsed}") from None
        raise GoldenError(f"{path}: {error}") from None
