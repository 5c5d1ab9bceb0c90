"""No vector proves itself: other witnesses rebuild the bytes and read every verdict.

Canonical bytes come from the speller of this package, and must be what msgspec makes of the struct
and what msgpack makes of a plain list; Rust joins in ``loadwire check`` and in ``cargo test``.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgpack

from pytest_loadwire.errors import WireError
from pytest_loadwire.vectors import Accept, Declare
from pytest_loadwire.wire import (
    REVISIONS,
    TAG,
    encode,
    field_names,
    from_dict,
    verify,
    verify_frames,
)
from pytest_loadwire.witness import judge_frames, judge_payload, python_witnesses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.vectors import FrameVector, PayloadVector


def unproven(payloads: Sequence[PayloadVector], frames: Sequence[FrameVector]) -> Iterator[str]:
    """Everything that the Python witnesses hold against the vectors, one sentence each."""
    witnesses = python_witnesses()
    yield from _duplicates([*payloads, *frames])
    for vector in payloads:
        yield from _canonical(vector)
        for witness in witnesses:
            for finding in judge_payload(witness, vector):
                yield f"{vector.id}: {witness.name}: {finding}"
    for message in frames:
        sends = _engine_sends(verify_frames, message.parts, message)
        if (message.engine is not None) != sends:
            yield f"{message.rule} {message.id}: engine verdict disagrees with wire.verify_frames"
        for witness in witnesses:
            for finding in judge_frames(witness, message):
                yield f"{message.id}: {witness.name}: {finding}"
    yield from insensitive(payloads)


def insensitive(payloads: Sequence[PayloadVector]) -> Iterator[str]:
    """Goldens that would not notice two swapped slots, a dropped one, or one at its default."""
    widths: dict[int, set[int]] = {}
    for vector in payloads:
        if vector.kind not in ("golden", "boundary"):
            continue
        try:
            _, *values = msgpack.unpackb(vector.payload)
        except (ValueError, TypeError):  # its readers say more about it
            continue
        for (i, a), (j, b) in combinations(enumerate(values, 1), 2):
            if a == b:
                yield f"{vector.rule} {vector.id}: elements {i} and {j} are both {a!r}"
        if vector.kind == "golden":
            rank = 4
            for i, value in enumerate(values):
                if value == 0 or (value is None and i != rank):
                    yield f"{vector.rule} {vector.id}: element {i + 1} is at its default"
            widths.setdefault(len(values), set()).update(len(msgpack.packb(v)) for v in values)
    for length, seen in widths.items():
        if seen != {1, 2, 3, 5, 9}:
            yield f"W2 goldens of {length + 1} elements use the widths {sorted(seen)} only"


def _duplicates(vectors: Sequence[PayloadVector | FrameVector]) -> Iterator[str]:
    seen: set[str] = set()
    for vector in vectors:
        if vector.id in seen:
            yield f"{vector.rule} {vector.id}: the id stands twice"
        seen.add(vector.id)


def _canonical(vector: PayloadVector) -> Iterator[str]:
    if (vector.engine is not None) != _engine_sends(verify, vector.payload, vector):
        yield f"{vector.rule} {vector.id}: engine verdict disagrees with wire.verify"
    if vector.engine is None:
        return
    verdict = vector.readers.get(str(vector.engine))
    taken = verdict.outcomes["accept"] if isinstance(verdict, Declare) else verdict
    if not isinstance(taken, Accept):
        yield f"{vector.rule} {vector.id}: an engine may send it, yet its own reader refuses it"
        return
    reading = taken.reading
    if tuple(reading) != field_names(vector.engine):
        yield f"{vector.rule} {vector.id}: its own reader reads {', '.join(reading)}"
        return
    by_msgspec = encode(from_dict(reading, revision=vector.engine))
    by_msgpack = msgpack.packb([TAG, *reading.values()])
    for name, made in (("msgspec", by_msgspec), ("msgpack", by_msgpack)):
        if made != vector.payload:
            yield f"{vector.rule} {vector.id}: {name} makes {made.hex()}, the vector {vector.hex}"
    for form_id, form in vector.forms():
        if form_id != vector.id and _engine_sends(verify, form, vector):
            yield f"{vector.rule} {form_id}: passes for canonical"


def _engine_sends(check: Any, data: Any, vector: PayloadVector | FrameVector) -> bool:
    """Whether an engine of the named revision may send this, or any that the vector knows of.

    A later revision may well send what was an unknown tail to those before it.
    """
    known = [revision for revision in REVISIONS if revision <= vector.since]
    for revision in known if vector.engine is None else (vector.engine,):
        try:
            check(data, revision=revision)
        except WireError:
            continue
        return True
    return False
