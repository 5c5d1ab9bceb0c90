"""Any bytes explained: what they are, what they break, what that does, and who can read them.

For someone with a string from a log. :func:`explain` takes a payload, :func:`explain_message` the
frames of a message and :func:`explain_text` whatever was pasted; none of them raises on any input.
Verdicts are those of `wire`, for every revision's engine and router.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_loadwire.exact import RANK_FIELD
from pytest_loadwire.explain import grading, hazards, oddities
from pytest_loadwire.explain.table import Frame, Row, message_frames, payload_frame
from pytest_loadwire.hextext import Piece, read
from pytest_loadwire.hextext.line import plain
from pytest_loadwire.rules import RULES, Hazard, Policy, Reason
from pytest_loadwire.siblings import Sibling, recognise_frames, recognise_payload
from pytest_loadwire.vectors import Declare, Reject, Verdict
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from pytest_loadwire.errors import WireError

__all__ = [
    "Explanation",
    "Fault",
    "Frame",
    "Row",
    "explain",
    "explain_message",
    "explain_piece",
    "explain_text",
]

_OF_KV_EVENTS = ("kv-events", "replay-sentinel")


@dataclass(frozen=True)
class Fault:
    """What some bytes break.

    Attributes:
        rule: The id of the rule.
        reason: The reason code.
        text: Rule, reason, place, what was expected and what came.
        expected: What the contract asks for at this place.
        got: What was there.
        frame: The frame to blame, or None.
        offset: The byte to blame, or None.
        element: The index of the element to blame, or None.
        field: The name of that element, or None.
    """

    rule: str
    reason: Reason
    text: str
    expected: str
    got: str
    frame: int | None
    offset: int | None
    element: int | None
    field: str | None

    @classmethod
    def of(cls, error: WireError, sibling: Sibling | None = None) -> Fault:
        """The fault that an error names.

        Args:
            error: What is wrong.
            sibling: What else it is. A message of the KV-event stream breaks rule F5, whichever
                of its bytes gives it away.
        """
        error = copy(error)
        if sibling is not None and sibling.kind in _OF_KV_EVENTS:
            error.rule = "F5"
        return cls(
            error.rule,
            error.reason,
            plain(str(error)),
            error.expected,
            error.got,
            error.frame,
            error.offset,
            error.element,
            error.field,
        )

    @property
    def where(self) -> str:
        """The place in words, or nothing."""
        named = f" ({self.field})" if self.field else ""
        parts = [
            None if self.frame is None else f"frame {self.frame}",
            None if self.offset is None else f"byte {self.offset}",
            None if self.element is None else f"element {self.element}{named}",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def brief(self) -> str:
        """What is wrong in a few words, without a full stop."""
        name = self.field or (None if self.element is None else f"element {self.element}")
        got = plain(self.got)
        said = {
            Reason.MALFORMED: f"{name or 'the first byte'} is no msgpack",
            Reason.TRUNCATED: f"the bytes end where {name or 'the payload'} should be",
            Reason.NOT_ARRAY: f"the payload is {got}, and not an array",
            Reason.BAD_TAG: f"the tag is {got}, and not the str 'LoadStat'",
            Reason.TOO_SHORT: f"{name} is missing",
            Reason.BAD_TYPE: f"{name} is {got}, and not an unsigned integer",
            Reason.OUT_OF_RANGE: f"{name} is {got}, which is below zero",
            Reason.TRAILING_BYTES: f"{got} behind the array",
            Reason.FRAME_COUNT: f"{got} frame{'s' * (got != '1')} instead of 3",
            Reason.BAD_TOPIC: f"the topic is {got}, and not {self.expected}",
            Reason.BAD_SEQ_LENGTH: f"the sequence has {got}, and not 8",
            Reason.NEGATIVE_SEQ: f"the sequence is {got}, which is below zero",
            Reason.EXTRA_ELEMENTS: f"the array has {got} elements, more than any known revision",
            Reason.NOT_CANONICAL: f"{name or 'the array header'} has a shorter spelling",
        }[self.reason]
        return f"{said} ({self.rule} {self.reason})"


@dataclass(frozen=True)
class Explanation:
    """All there is to say about one payload or message.

    Attributes:
        frames: The frames of a message, or one payload; none where nothing could be read.
        message: Whether they are the frames of a message.
        readers: What a router of each revision makes of it.
        further: Further policies on which that depends, where a router goes on by the first one.
        engine: The revision whose engines may send this, or None.
        engine_fault: Why no engine may, or None.
        fault: What the newest router refuses, or else `engine_fault`.
        hazard: What a router would do that believed a careless decoding, or a reading that is
            legal and cannot be meant; None where nothing of this is at hand.
        hazard_text: How that comes about.
        sibling: What else it is, or None.
        warnings: What is odd and legal.
        cause: What probably made it so, or None.
        problem: Why it could not be read as bytes, or None.
        form: What the text was read as.
        notes: What was assumed when the text was read.
        line: The number of its first line in the text.
        text: The text, cut behind 200 characters.
    """

    frames: tuple[Frame, ...] = ()
    message: bool = False
    readers: dict[int, Verdict] = field(default_factory=dict)
    further: dict[int, tuple[Declare, ...]] = field(default_factory=dict)
    engine: int | None = None
    engine_fault: Fault | None = None
    fault: Fault | None = None
    hazard: Hazard | None = None
    hazard_text: str = ""
    sibling: Sibling | None = None
    warnings: tuple[str, ...] = ()
    cause: str | None = None
    problem: str | None = None
    form: str = "bytes"
    notes: tuple[str, ...] = ()
    line: int = 1
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether an engine may send it and no router that was asked has to refuse it."""
        refused = any(isinstance(verdict, Reject) for verdict in self.readers.values())
        return self.engine is not None and not refused

    @property
    def odd(self) -> bool:
        """Whether something is legal and still cannot be meant, as `warnings` say."""
        return bool(self.warnings)

    @property
    def summary(self) -> str:
        """The verdict in one line, without a full stop."""
        what = "message" if self.message else "payload"
        if self.problem is not None:
            return f"CANNOT BE READ as bytes: {self.problem}"
        if self.ok and self.engine is not None:
            if self.warnings:
                count = len(self.warnings)
                ways = f" in {count} ways" if count > 1 else ""
                return f"CONFORMS in form, but odd{ways}: {self.warnings[0]}"
            return f"CONFORMS: a {what} as an engine of revision {self.engine} sends it"
        if self.sibling is not None:
            return f"NO LOAD MESSAGE: {self.sibling.says}"
        fault = self.fault
        if fault is None:
            return f"BROKEN: no load {what}"
        refusing = [r for r, verdict in self.readers.items() if isinstance(verdict, Reject)]
        if not refusing:
            return f"NOT CONFORMING: routers may read it, no engine may send it: {fault.brief}"
        if len(refusing) < len(self.readers):
            those = " and ".join(map(str, refusing))
            return f"BROKEN for routers of revision {those}: {fault.brief}"
        return f"BROKEN, routers refuse this {what}: {fault.brief}"

    def to_json(self) -> dict[str, Any]:
        """All of it for machines: verdicts as in ``golden/``, bytes as hex."""
        return {
            "ok": self.ok,
            "odd": self.odd,
            "summary": self.summary,
            "line": self.line,
            "text": self.text,
            "form": self.form,
            "notes": list(self.notes),
            "problem": self.problem,
            "kind": None if self.problem else "message" if self.message else "payload",
            "frames": [frame.to_json() for frame in self.frames],
            "fault": _json(self.fault),
            "hazard": None
            if self.hazard is None
            else {"code": self.hazard.value, "text": self.hazard_text},
            "cause": self.cause,
            "sibling": None if self.sibling is None else self.sibling._asdict(),
            "engine": {"revision": self.engine, "fault": _json(self.engine_fault)},
            "readers": {
                str(revision): msgspec.to_builtins(verdict)
                for revision, verdict in self.readers.items()
            },
            "further": {
                str(revision): msgspec.to_builtins(declared)
                for revision, declared in self.further.items()
            },
            "warnings": list(self.warnings),
        }


def explain(payload: Buffer, *, revisions: Sequence[int] = tuple(REVISIONS)) -> Explanation:
    """One payload explained.

    Args:
        payload: The bytes, whatever they are.
        revisions: The revisions of the routers that are asked.

    Raises:
        ValueError: There is no such revision.
    """
    data = bytes(memoryview(payload))
    grades = {revision: grading.router(data, revision) for revision in revisions}
    sibling = recognise_payload(data)
    return _explained((data,), grades, sibling, message=False)


def explain_message(
    frames: Sequence[Buffer], *, revisions: Sequence[int] = tuple(REVISIONS)
) -> Explanation:
    """One message explained, however many frames it has.

    Args:
        frames: The frames as they were received.
        revisions: The revisions of the routers that are asked.

    Raises:
        ValueError: There is no such revision.
    """
    parts = tuple(bytes(memoryview(frame)) for frame in frames)
    grades = {revision: grading.router_of_message(parts, revision) for revision in revisions}
    return _explained(parts, grades, recognise_frames(parts), message=True)


def explain_text(text: str, *, revisions: Sequence[int] = tuple(REVISIONS)) -> list[Explanation]:
    """Everything that a text holds explained, as `hextext.read` takes it apart.

    Args:
        text: What was pasted.
        revisions: The revisions of the routers that are asked.

    Returns:
        One explanation for each payload, message or line that cannot be read; none for blank text.

    Raises:
        ValueError: There is no such revision.
    """
    return [explain_piece(piece, revisions=revisions) for piece in read(text)]


def explain_piece(piece: Piece, *, revisions: Sequence[int] = tuple(REVISIONS)) -> Explanation:
    """One piece of a text explained.

    Raises:
        ValueError: There is no such revision.
    """
    if piece.problem is not None:
        typed = recognise_payload(piece.text.strip().encode("utf-8", "replace"))
        if typed is not None and typed.kind.endswith("text"):
            typed = None  # that it is text is no news
        found = Explanation(problem=piece.problem, sibling=typed)
    elif piece.message:
        found = explain_message(piece.frames, revisions=revisions)
    else:
        found = explain(piece.frames[0], revisions=revisions)
    told = {"form": piece.form, "notes": piece.notes, "line": piece.line, "text": piece.text}
    return Explanation(**{**vars(found), **told})


def _explained(
    parts: tuple[bytes, ...],
    grades: dict[int, grading.Grade],
    sibling: Sibling | None,
    *,
    message: bool,
) -> Explanation:
    engine, engine_error = grading.engine(parts, message=message)
    refusals = [
        grade.error
        for _, grade in sorted(grades.items())
        if isinstance(grade.verdict, Reject) and grade.error is not None
    ]
    error = refusals[-1] if refusals else engine_error
    payload = parts[-1] if parts else b""
    reading, sequence = _newest(grades)
    hazard, hazard_text = None, ""
    if error is not None:
        hazard = hazards.hazard_in(error, payload, max(grades, default=1))
        hazard_text = hazards.words(error, payload, hazard)
    elif found := hazards.hazard_of_reading(reading):
        hazard, hazard_text = found
    frames = (
        message_frames(parts, error, sibling)
        if message
        else (payload_frame(parts[0], error, sibling),)
    )
    return Explanation(
        frames=frames,
        message=message,
        readers={revision: grade.verdict for revision, grade in grades.items()},
        further={revision: grade.further for revision, grade in grades.items() if grade.further},
        engine=engine,
        engine_fault=None if engine_error is None else Fault.of(engine_error, sibling),
        fault=None if error is None else Fault.of(error, sibling),
        hazard=hazard,
        hazard_text=hazard_text,
        sibling=sibling if engine is None else None,
        warnings=tuple(oddities.warnings(reading, sequence)),
        cause=None
        if error is None or sibling is not None
        else oddities.cause(error, parts) or error.hint,
    )


def _newest(grades: dict[int, grading.Grade]) -> tuple[dict[str, int | None], int | None]:
    """Reading and sequence of the newest router that reads anything; nothing where none does."""
    for _, grade in sorted(grades.items(), reverse=True):
        if read := grading.readings(grade.verdict):
            last = read[-1]
            reading = last.reading
            if getattr(grade.verdict, "policy", None) is Policy.OMITTED_RANK:
                del reading[RANK_FIELD]  # it was not sent, and that is said already
            return reading, None if last.sequence is None else int(last.sequence)
    return {}, None


def _json(fault: Fault | None) -> dict[str, Any] | None:
    if fault is None:
        return None
    return {
        **vars(fault),
        "reason": fault.reason.value,
        "rule_text": RULES.get(fault.rule, ""),
        "where": fault.where,
    }
