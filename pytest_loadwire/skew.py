"""Who may upgrade first: every revision's engine against every revision's reader.

Engines and routers are never rolled out at once, so each pair of revisions meets somewhere, also
those with revisions that do not exist yet. What a future revision may append is known (rule W11),
and so it can be made up: one more count, a nil, something nested, and enough for another header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_loadwire import wire
from pytest_loadwire.judge import Refused, Taken, judge
from pytest_loadwire.reader import ReferenceReader
from pytest_loadwire.vectors import Accept, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_loadwire.reader import Reader
    from pytest_loadwire.vectors import Golden

FUTURES: Mapping[str, tuple[str, ...]] = {
    "an int more": ("cd0539",),
    "a nil more": ("c0",),
    "an array more": ("92019302c09103",),
    "a map more": ("820004012a",),
    "16 elements": ("cd0539", "07", "c3", "cb3ff8000000000000", "a178"),
}
"""Revisions that may come, and what they append to the newest, item by item as msgpack in hex."""


class Engine(NamedTuple):
    """What engines of one revision send.

    Attributes:
        name: The revision, or what a future one appends.
        revision: Its number; a future one has the number behind the newest.
        samples: Payloads, each with what a reader of each revision owes for it.
    """

    name: str
    revision: int
    samples: tuple[tuple[bytes, Mapping[int, Accept]], ...]


class Cell(NamedTuple):
    """What one reader makes of one engine.

    Attributes:
        right: Whether it reads every sample as it should.
        says: ``reads 2``, or what it does wrong with the first sample that it gets wrong.
    """

    right: bool
    says: str


@dataclass(frozen=True)
class Row:
    """One reader against every engine.

    Attributes:
        name: The reader.
        revision: The newest revision that it reads.
        cells: By the engine's name.
        engines_first: Whether engines of newer revisions may be rolled out before this reader goes.
        router_first: Whether this reader may be rolled out before engines of older revisions go.
    """

    name: str
    revision: int
    cells: Mapping[str, Cell]
    engines_first: bool
    router_first: bool

    @property
    def advice(self) -> str:
        """Who may upgrade first."""
        if self.engines_first:
            return "either" if self.router_first else "the engines"
        return "the router" if self.router_first else "neither"

    def to_json(self) -> dict[str, Any]:
        """The row for machines."""
        return {
            "reader": self.name,
            "revision": self.revision,
            "engines": {engine: cell._asdict() for engine, cell in self.cells.items()},
            "upgrades_first": self.advice,
        }


def engines(golden: Golden | None = None) -> tuple[Engine, ...]:
    """Every revision's engine, oldest first, the made-up ones last.

    The samples are the goldens of each revision: no two slots alike, with and without a rank.
    """
    golden = golden or load()
    known = []
    for revision in wire.REVISIONS:
        vectors = [v for v in golden.payloads if v.kind == "golden" and v.engine == revision]
        samples = tuple(
            (
                vector.payload,
                {
                    int(reader): verdict
                    for reader, verdict in vector.readers.items()
                    if isinstance(verdict, Accept)
                },
            )
            for vector in vectors
        )
        known.append(Engine(f"revision {revision}", revision, samples))
    newest = known[-1]
    future = [
        Engine(
            name,
            newest.revision + 1,
            tuple((_appended(payload, items), owed) for payload, owed in newest.samples),
        )
        for name, items in FUTURES.items()
    ]
    return (*known, *future)


def ask(reader: Reader, golden: Golden | None = None) -> Row:
    """One reader against every engine."""
    made = engines(golden)
    cells = {engine.name: _cell(reader, engine) for engine in made}
    return Row(
        reader.name,
        reader.revision,
        cells,
        engines_first=all(cells[e.name].right for e in made if e.revision >= reader.revision),
        router_first=all(cells[e.name].right for e in made if e.revision <= reader.revision),
    )


def reference(golden: Golden | None = None) -> list[Row]:
    """`wire.decode` as the router of every revision."""
    return [ask(ReferenceReader(revision), golden) for revision in wire.REVISIONS]


def table(rows: Iterable[Row]) -> list[list[str]]:
    """The rows as text, the header first."""
    rows = list(rows)
    names = list(rows[0].cells) if rows else []
    body = [[row.name, *(row.cells[name].says for name in names), row.advice] for row in rows]
    return [["reader", *names, "may upgrade first"], *body]


def _cell(reader: Reader, engine: Engine) -> Cell:
    says = ""
    for payload, owed in engine.samples:
        verdict = owed[reader.revision]
        outcome = reader.decode(payload)
        finding = judge(verdict, outcome, rule="W11", policies=reader.policies)
        if finding is None:
            says = f"reads {verdict.revision}"
        elif isinstance(outcome, Taken):
            extra = sorted(outcome.reading.keys() - verdict.value.keys())
            invents = bool(extra) and all(outcome.reading[name] == 0 for name in extra)
            return Cell(False, "invents zeros" if invents else "misreads")
        else:
            return Cell(False, "refuses" if isinstance(outcome, Refused) else "crashes")
    return Cell(True, says)


def _appended(payload: bytes, items: tuple[str, ...]) -> bytes:
    """A canonical payload with items behind its last element, under a header that counts them."""
    length = payload[0] - 0x90 + len(items)  # a known revision has at most 15 elements
    header = bytes([0x90 + length]) if length < 16 else b"\xdc" + length.to_bytes(2, "big")
    return header + payload[1:] + bytes.fromhex("".join(items))
