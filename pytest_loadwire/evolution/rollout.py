"""Who has to go first when the contract changes, and which decoder idioms break on the way.

Engines and routers are never upgraded at once. So the engines of each state of the contract meet
readers of the other: the canonical messages of the new engines go to readers that know the old
state, and those of the old engines to readers that know the new one. What a pair got wrong before
the change is no news, and is not held against it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_loadwire.evolution.idioms import IDIOMS, REFERENCE, Slot
from pytest_loadwire.evolution.snapshot import same_fields, same_unit
from pytest_loadwire.judge import Crashed, Refused, hazard_of
from pytest_loadwire.rules import HAZARD_TEXT, Hazard
from pytest_loadwire.tokens import Kind, TokenError, item_end, read_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pytest_loadwire.evolution.idioms import Idiom, IdiomReader
    from pytest_loadwire.evolution.snapshot import Fields, Snapshot

Deed = Literal["reads", "loses fields", "refuses", "crashes", "invents zeros", "misreads"]
"""What a reader does with an engine, from right to worst."""

Order = Literal["either", "routers first", "engines first", "neither"]
"""Who may be upgraded while the other side is not."""

_WORST: tuple[Deed, ...] = (
    "reads",
    "loses fields",
    "refuses",
    "crashes",
    "invents zeros",
    "misreads",
)


class Cell(NamedTuple):
    """What one reader makes of the engines of one state.

    Attributes:
        deed: The worst that it does, of what it did not do before the change.
        revision: The revision of the engine.
        detail: How that shows, in words.
        hazard: What it does to traffic.
    """

    deed: Deed
    revision: int
    detail: str = ""
    hazard: Hazard = Hazard.NONE

    @property
    def right(self) -> bool:
        """Whether the pair may meet."""
        return self.deed == "reads"

    def __str__(self) -> str:
        if self.right:
            return "reads"
        link = "of" if self.deed in ("invents zeros", "loses fields") else ""
        text = " ".join(filter(None, [self.deed, link, f"revision {self.revision}"]))
        return f"{text} ({self.detail})" if self.detail else text


class Row(NamedTuple):
    """One way to write a decoder, over the change.

    Attributes:
        idiom: The idiom.
        old_router: What a router of the old state makes of the new engines.
        new_router: What a router of the new state makes of the old engines.
    """

    idiom: Idiom
    old_router: Cell
    new_router: Cell

    @property
    def order(self) -> Order:
        """Who may go first."""
        if self.old_router.right:
            return "either" if self.new_router.right else "engines first"
        return "routers first" if self.new_router.right else "neither"

    @property
    def hazard(self) -> Hazard:
        """The worse of both meetings."""
        return min(self.old_router.hazard, self.new_router.hazard, key=list(Hazard).index)

    def to_json(self) -> dict[str, Any]:
        """The row for machines."""
        return {
            "idiom": self.idiom.id,
            "title": self.idiom.title,
            "library": self.idiom.library,
            "reads_by": self.idiom.how,
            "old_router_new_engine": _cell_json(self.old_router),
            "new_router_old_engine": _cell_json(self.new_router),
            "order": self.order,
        }


@dataclass(frozen=True)
class Rollout:
    """In which order a change can be rolled out.

    Attributes:
        reference: A router that keeps the contract.
        rows: The idioms.
        changed: Whether the elements of any revision changed at all.
    """

    reference: Row
    rows: tuple[Row, ...]
    changed: bool

    @property
    def order(self) -> Order:
        """Who may go first where routers keep the contract."""
        return self.reference.order

    @property
    def broken(self) -> list[Row]:
        """The idioms that do not stand the change in both orders."""
        return [row for row in self.rows if row.order != "either"]

    @property
    def why(self) -> str:
        """The order as a sentence with its reason."""
        old, new = self.reference.old_router, self.reference.new_router
        if not self.changed:
            return "either: no element of any revision changed, so there is no order to keep"
        if self.order == "either":
            return (
                "either side may go first: a router that keeps the contract reads the engines"
                " before and after the change"
            )
        if self.order == "routers first":
            return (
                f"routers first: a router from before the change {old} of the new engines, and an"
                " upgraded one reads the old engines"
            )
        if self.order == "engines first":
            return (
                f"engines first: an upgraded router {new} of the old engines, and one from before"
                " the change reads the new engines"
            )
        return (
            "neither: not without downtime, or a second socket for the time of the change; a router"
            f" from before it {old} of the new engines, and an upgraded one {new} of the old"
        )

    def to_json(self) -> dict[str, Any]:
        """The rollout for machines."""
        return {
            "order": self.order,
            "why": self.why,
            "changed": self.changed,
            "reference": self.reference.to_json(),
            "idioms": [row.to_json() for row in self.rows],
        }


class Sample(NamedTuple):
    """One canonical message, and what it says.

    Attributes:
        payload: The bytes.
        values: What each field of the engine's revision holds, as its engine means it.
    """

    payload: bytes
    values: dict[str, object]


def rollout(old: Snapshot, new: Snapshot) -> Rollout:
    """Every idiom over the change from one state, as far as it was released, to another."""
    old = old.as_released
    engines = [
        {number: samples(state, number) for number in state.revisions} for state in (old, new)
    ]
    rows = [_row(idiom, old, new, engines) for idiom in (REFERENCE, *IDIOMS)]
    return Rollout(rows[0], tuple(rows[1:]), not same_fields(old, new))


def samples(state: Snapshot, revision: int) -> list[Sample]:
    """Canonical messages of one revision's engines.

    The goldens of the folder, as far as they fit the fields that its manifest gives; what its
    fields say where none of them does.
    """
    fields = state.revisions[revision]
    found = []
    for vector in state.vectors.values():
        if vector.get("kind") == "golden" and vector.get("engine") == revision and "hex" in vector:
            try:
                payload = bytes.fromhex(vector["hex"])
                values = [*_values(payload)][1:]
            except (ValueError, TypeError, TokenError):
                continue
            if len(values) == len(fields) and all(map(_fits, fields, values)):
                found.append(
                    Sample(payload, {f["name"]: v for f, v in zip(fields, values, strict=True)})
                )
    return found or [_made_up(fields)]


def hazards(rows: Sequence[Row]) -> list[str]:
    """What the idioms that break do to traffic, the worst first, a sentence each."""
    found = [cell.hazard for row in rows for cell in (row.old_router, row.new_router)]
    return [
        f"{hazard}: {HAZARD_TEXT[hazard]}"
        for hazard in Hazard
        if hazard is not Hazard.NONE and hazard in found
    ]


def _row(
    idiom: Idiom, old: Snapshot, new: Snapshot, engines: Sequence[Mapping[int, list[Sample]]]
) -> Row:
    before, after = (idiom.reader(_slots(state.revisions)) for state in (old, new))
    known: dict[int, tuple[Cell, set[str]]] = {
        n: (_meet(before, n, messages, old, old), _names(before, messages))
        for n, messages in engines[0].items()
    }
    had = known[old.newest][1]
    kept = had & {f["name"] for f in new.revisions[new.newest]}
    old_router = [
        _meet(before, n, messages, new, old, had if n == new.newest else set())
        for n, messages in engines[1].items()
    ]
    new_router = [
        _meet(after, n, messages, old, new, kept if n == old.newest else set())
        for n, messages in engines[0].items()
    ]

    def news(cell: Cell) -> bool:
        # What the pair did before, it may do again.
        return cell.revision not in known or cell.deed != known[cell.revision][0].deed

    return Row(idiom, *(_worst(filter(news, cells)) for cells in (old_router, new_router)))


def _worst(cells: Iterable[Cell]) -> Cell:
    return max(cells, key=lambda cell: _WORST.index(cell.deed), default=Cell("reads", 0))


def _meet(
    reader: IdiomReader,
    revision: int,
    messages: Sequence[Sample],
    engine: Snapshot,
    router: Snapshot,
    had: AbstractSet[str] = frozenset(),
) -> Cell:
    """What a reader of the state ``router`` makes of one revision of the state ``engine``.

    Args:
        reader: The reader.
        revision: The engine's revision.
        messages: What the engine sends.
        engine: The state that the engine knows.
        router: The state that the reader knows.
        had: What a router read of the newest engines before the change, and should read still.
    """
    cells = [
        _judge(reader, revision, sample, engine.revisions[revision], router.revisions)
        for sample in messages
    ]
    lost = sorted(had - _names(reader, messages))
    if lost:
        detail = f"no {', '.join(lost)} any more"
        cells.append(Cell("loses fields", revision, detail, Hazard.NONE))
    return _worst(cells)


def _judge(
    reader: IdiomReader,
    revision: int,
    sample: Sample,
    sent: Fields,
    knows: Mapping[int, Fields],
) -> Cell:
    outcome = reader.decode(sample.payload)
    if isinstance(outcome, Refused):
        return Cell("refuses", revision, outcome.text, Hazard.STALE)
    if isinstance(outcome, Crashed):
        return Cell("crashes", revision, outcome.text, Hazard.CRASH)
    # A reader that goes by the length may have read an older revision.
    read = [f for f in knows.values() if {field["name"] for field in f} == outcome.reading.keys()]
    fields = read[-1] if read else knows[max(knows)]
    units = {f["name"]: f["unit"] for f in fields}
    places = {f["name"]: place for place, f in enumerate(fields)}
    sent_units = {f["name"]: f["unit"] for f in sent}
    truth = sample.values
    zeros, wrong = [], []
    for name, value in outcome.reading.items():
        if name in truth:
            if truth[name] != value:
                there = sent[places[name]]["name"] if places[name] < len(sent) else name
                taken = f", since it takes {there} for it" if there != name else ""
                wrong.append(f"{name} as {value!r} instead of {truth[name]!r}{taken}")
            elif value is not None and not same_unit(units[name], sent_units[name]):
                wrong.append(f"{name}, in {sent_units[name]}, as {units[name]}")
        elif value is None:
            continue
        elif not isinstance(value, bool) and value == 0 and places[name] >= len(sent):
            zeros.append(name)
        else:
            there = sent[places[name]]["name"] if places[name] < len(sent) else "nothing"
            wrong.append(f"{there} as {name}")
    if not wrong and not zeros:
        return Cell("reads", revision)
    expected: dict[str, Any] = {
        n: v for n, v in truth.items() if n in outcome.reading and isinstance(v, int | float)
    }
    hazard = hazard_of(expected, outcome.reading)
    if wrong:
        if all(v == truth.get(n) for n, v in outcome.reading.items()):
            hazard = Hazard.ATTRACTS_ALL  # a number in a larger unit reads as less load
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Cell("misreads", revision, wrong[0] + more, hazard)
    # A load that was never sent and reads as 0 says idle, whichever load it is.
    worst = min(hazard, Hazard.ATTRACTS_ALL, key=list(Hazard).index)
    return Cell("invents zeros", revision, f"0 for {', '.join(zeros)}", worst)


def _names(reader: IdiomReader, messages: Sequence[Sample]) -> set[str]:
    """The fields that a reader takes from an engine, whatever it takes for them."""
    read: set[str] = set()
    for sample in messages:
        outcome = reader.decode(sample.payload)
        if isinstance(outcome, Refused | Crashed):
            return set()
        read |= outcome.reading.keys() - {n for n, v in outcome.reading.items() if v is None}
    return read


def _slots(revisions: Mapping[int, Fields]) -> dict[int, list[Slot]]:
    return {n: [Slot(f["name"], f["type"]) for f in fields] for n, fields in revisions.items()}


def _values(payload: bytes) -> Iterator[object]:
    """The elements of an array; a container or an ext is its bytes."""
    header = read_token(payload, 0)
    at = header.end
    for _ in range(header.children if header.kind is Kind.ARRAY else 0):
        token, end = read_token(payload, at), item_end(payload, at)
        if token.kind in (Kind.ARRAY, Kind.MAP, Kind.EXT):
            yield payload[at:end]
        else:
            yield token.value
        at = end


def _fits(field: Mapping[str, Any], value: object) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "count": (int,),
        "count-or-nil": (int, type(None)),
        "float": (float,),
    }
    return field["type"] not in kinds or type(value) in kinds[field["type"]]


def _made_up(fields: Fields) -> Sample:
    """A message that nobody recorded, from the fields alone: no two of its values are alike."""
    items: list[bytes] = []
    values: dict[str, object] = {}
    for place, field in enumerate(fields, 1):
        if field["type"] == "float":
            values[field["name"]] = place + 0.5
            items.append(struct.pack(">Bd", 0xCB, place + 0.5))
        elif field["type"] in ("count", "count-or-nil"):
            values[field["name"]] = 1000 + place
            items.append(b"\xcd" + (1000 + place).to_bytes(2, "big"))
        else:
            values[field["name"]] = b"x%d" % (place % 10)
            items.append(b"\xc4\x02x%d" % (place % 10))
    length = len(fields) + 1
    header = bytes([0x90 + length]) if length < 16 else b"\xdc" + length.to_bytes(2, "big")
    return Sample(header + b"\xa8LoadStat" + b"".join(items), values)


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {**cell._asdict(), "hazard": str(cell.hazard), "right": cell.right}
