"""What was released stays: fields keep their place and type, vectors their bytes and verdicts.

Decoders that are out there read by position. `released.json` remembers the fields of every released
revision and a digest of every released vector; regeneration refuses whatever differs from it, in
words that say which routers would break. A new revision at the end is the only way on (rule W11).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_loadwire.vectors import Vector


class Break(NamedTuple):
    """One thing that a regeneration would break.

    Attributes:
        rule: The contract rule.
        what: The field or vector, and what would happen to it.
        who: The decoders that would read something else, or refuse.
    """

    rule: str
    what: str
    who: str

    def __str__(self) -> str:
        return f"{self.rule} {self.what}; breaks {self.who}"


def released(
    release: str,
    revisions: Mapping[str, Sequence[Mapping[str, Any]]],
    vectors: Sequence[Vector],
) -> dict[str, Any]:
    """The content of ``released.json`` for a release with these revisions and vectors."""
    newest = max(map(int, revisions))
    return {
        "release": release,
        "revisions": {number: [dict(f) for f in fields] for number, fields in revisions.items()},
        "vectors": {vector.id: digest(vector, newest) for vector in vectors},
    }


# What only explains a vector may be said better at any time.
_WORDS = frozenset({"rule", "kind", "why", "source"})


def digest(vector: Vector, newest: int) -> str:
    """What is frozen of a vector: all but the words, with the verdicts up to revision ``newest``.

    A later revision adds its own readers' verdicts, which changes nothing for those before it.
    """
    frozen = frozen_content(msgspec.to_builtins(vector), newest)
    canonical = json.dumps(frozen, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def frozen_content(content: Mapping[str, Any], newest: int) -> dict[str, Any]:
    """Those members of a vector that :func:`digest` covers, as its file has them."""
    frozen = {key: value for key, value in content.items() if key not in _WORDS}
    if "readers" in content:
        frozen["readers"] = {n: v for n, v in content["readers"].items() if int(n) <= newest}
    return frozen


def breaks(
    frozen: Mapping[str, Any],
    revisions: Mapping[str, Sequence[Mapping[str, Any]]],
    vectors: Sequence[Vector],
) -> Iterator[Break]:
    """Everything in which the new state does not keep what was released."""
    yield from field_breaks(frozen, revisions)
    newest_frozen = max(frozen["revisions"], key=int)
    made = {vector.id: vector for vector in vectors}
    for vector_id, old in frozen["vectors"].items():
        vector = made.get(vector_id)
        if vector is None:
            yield Break(
                "W11",
                f"released vector {vector_id!r} is gone",
                "every repository that pins it by id; a new vector takes a new id",
            )
        elif digest(vector, int(newest_frozen)) != old:
            yield Break(
                vector.rule,
                f"released vector {vector_id!r} has other bytes or verdicts",
                "every implementation that was tested against it",
            )


def field_breaks(
    frozen: Mapping[str, Any], revisions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[Break]:
    """Every field of a released revision that would not keep its place, name, type and unit."""
    for number, fields in frozen["revisions"].items():
        yield from _changed_fields(number, fields, revisions.get(number))
    newest_frozen = max(frozen["revisions"], key=int)
    newest = max(revisions, key=int)
    if int(newest) > int(newest_frozen):
        prefix = revisions[newest][: len(frozen["revisions"][newest_frozen])]
        yield from _changed_fields(newest_frozen, frozen["revisions"][newest_frozen], prefix)


def _changed_fields(
    number: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]] | None
) -> Iterator[Break]:
    routers = f"every router that reads revision {number} by position"
    if new is None:
        yield Break("W11", f"revision {number} is gone", routers)
        return
    names = [field["name"] for field in new]
    for element, field in enumerate(old, 1):
        name = field["name"]
        if name not in names:
            yield Break("W11", f"element {element} ({name}) is removed or renamed", routers)
            continue
        place = names.index(name) + 1
        if place != element:
            there = names[element - 1] if element <= len(names) else "nothing"
            yield Break(
                "W11",
                f"element {element} ({name}) moves to {place}",
                f"{routers}: it would take {there} for {name}",
            )
        now = new[place - 1]
        for key in ("type", "unit"):
            if now[key] != field[key]:
                yield Break(
                    "W11",
                    f"element {element} ({name}) changes its {key} from {field[key]} to {now[key]}",
                    routers,
                )
    for element, field in enumerate(new, 1):
        if field["name"] not in [f["name"] for f in old]:
            yield Break(
                "W11",
                f"element {element} ({field['name']}) is put into revision {number}; a new field"
                " goes to the end of a new revision",
                routers,
            )
