"""The live table of ``loadwire tail``: a snapshot as exactly so many lines of so many columns.

Every width is fixed, so that nothing jumps while numbers change. What does not fit goes in a stated
order: columns by `DROPPED`, rows from the calmest on, and the last line says how many those are.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from pytest_loadwire.observe.elements import revision_text
from pytest_loadwire.tail_state import TROUBLE, RankRow, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_loadwire.tail_state import Snapshot, WorkerRow

NARROWEST = 60
"""Columns that the table needs; on fewer its lines are cut."""

DROPPED = ("tokens", "refused", "rev", "restarts", "lost", "rate")
"""The columns that go where the terminal is too narrow, the first one first."""

STYLES = {
    State.REFUSED: "bold red",
    State.SILENT: "bold red",
    State.STALE: "bold yellow",
    State.WAITING: "dim",
    State.FRESH: "green",
}

_EIGHTHS = "▏▎▍▌▋▊▉█"
_SHORTEST_NAME, _LONGEST_NAME = 15, 40
_SHORTEST_BAR, _LONGEST_BAR = 6, 20
_MOST_NOTE_LINES = 3
_NOTE_INDENT = "  "
_NARROWEST_NOTE = 20
_HOW_IT_ENDS = "Ctrl-C ends"


class Entry(NamedTuple):
    """One line of the table: a rank, or a worker that has none."""

    worker: WorkerRow
    rank: RankRow | None

    @property
    def trouble(self) -> int:
        """0 for the worst; the last is calm."""
        if self.rank is None:
            return len(TROUBLE) if self.worker.waiting else 0
        states = list(State)
        return min(states.index(self.rank.state), len(TROUBLE))

    @property
    def is_calm(self) -> bool:
        """Whether nobody needs to look at it."""
        return self.trouble == len(TROUBLE)


def can_draw(encoding: str) -> bool:
    """Whether a terminal of this encoding has the characters that the bar is made of."""
    try:
        f"{_EIGHTHS}…".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def tail_view(
    snapshot: Snapshot, width: int, height: int, *, drawn: bool = True, ended: bool = False
) -> Text:
    """A snapshot as text that fits.

    Args:
        snapshot: What to show.
        width: Columns of the terminal.
        height: Lines of the terminal.
        drawn: Whether it has block characters; else the bar is made of ``#`` and ``.``.
        ended: Whether this is the last one, which is not filled up to the height.
    """
    cut = "…" if drawn else "~"
    entries = [
        Entry(worker, rank) for worker in snapshot.workers for rank in worker.ranks or (None,)
    ]
    head = _head(snapshot, width)
    room = max(1, height - len(head) - 2)  # the names of the columns, and the last line
    notes = _notes(entries)
    written: list[Text] = []
    room_of_notes = max(room // 3, room - len(entries))
    while notes and len(written) < room_of_notes:
        lines = _wrap(notes[0], width, cut)
        if len(written) + len(lines) > room_of_notes:
            break
        written += lines
        notes.pop(0)
    room -= len(written)
    ordered = entries
    if len(entries) > room:
        ordered = sorted(entries, key=lambda entry: entry.trouble)
    table = _Table(entries, width, drawn=drawn, cut=cut)
    lines = [*head, table.names(), *map(table.line, ordered[:room])]
    if written and room > len(entries):
        lines.append(Text())  # there is a line to spare between the table and the notes
    lines += written
    last = _last(ordered[room:], len(entries), len(notes), width, ended=ended)
    lines = lines[: max(0, height - 1)]
    if not ended:
        lines += [Text() for _ in range(height - 1 - len(lines))]
    if last:
        lines.append(last)
    for line in lines:
        line.no_wrap, line.overflow = True, "crop"
        line.truncate(width, overflow="crop")
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines)


def _head(snapshot: Snapshot, width: int) -> list[Text]:
    """Totals, in as few lines as hold them. The load is that of the known workers."""
    unknown = [row for row in snapshot.workers if row.view.load is None]
    waiting = sum(row.waiting for row in unknown)
    workers = Text(_count(len(snapshot.workers), "worker"), "bold")
    workers.append(f": {snapshot.known} known", "green" if snapshot.known else "")
    if len(unknown) > waiting:
        workers.append(f", {len(unknown) - waiting} unknown", "bold red")
    if waiting:
        workers.append(f", {waiting} waiting", "dim")
    states = Counter(rank.state for rank in snapshot.ranks)
    ranks = Text(_count(len(snapshot.ranks), "rank"), "bold")
    for index, state in enumerate(state for state in reversed(State) if states[state]):
        ranks.append(", " if index else ": ").append(f"{states[state]} {state}", STYLES[state])
    load = Text().append("known load: ", "dim")
    load.append(
        f"{_short(snapshot.total('num_running_reqs'))} running, "
        f"{_short(snapshot.total('num_waiting_reqs'))} waiting, "
        f"KV {'unknown' if snapshot.kv_use is None else _percent(snapshot.kv_use)}"
    )
    rate = f"{sum(rank.rate or 0 for rank in snapshot.ranks):.1f} msg/s"
    lines = [workers]
    elapsed = Text(_duration(snapshot.elapsed), "dim")
    for part in (ranks, load, Text(rate), elapsed):
        if lines[-1].cell_len + 5 + part.cell_len <= width:
            lines[-1].append("  |  ", "not bold dim").append_text(part)
        elif part is not elapsed:
            lines.append(part)
    return lines


def _last(hidden: Sequence[Entry], rows: int, notes: int, width: int, *, ended: bool) -> Text:
    said = []
    if hidden:
        troubled = sum(not entry.is_calm for entry in hidden)
        said.append(f"{len(hidden)} of {rows} rows not shown ({troubled} in trouble)")
    if notes:
        said.append(_count(notes, "more note"))
    if not ended and len("; ".join([*said, _HOW_IT_ENDS])) <= width:
        said.append(_HOW_IT_ENDS)
    return Text("; ".join(said), "bold" if hidden else "dim")


class _Note(NamedTuple):
    """What is wrong, in words; `who` is a worker, with a rank where one is to blame."""

    who: str
    text: str
    style: str


def _notes(entries: Sequence[Entry]) -> list[_Note]:
    """What the table has no room for: workers first, then the newest refusals."""
    notes = []
    seen = set()
    for worker, _ in entries:
        if worker.worker in seen:
            continue
        seen.add(worker.worker)
        if worker.why and not worker.waiting:
            notes.append(_Note(worker.worker, f"load unknown: {worker.why}", "bold yellow"))
        if worker.trouble:
            notes.append(_Note(worker.worker, worker.trouble, "yellow"))
    ranks = [rank for _, rank in entries if rank is not None and rank.error is not None]
    for rank in sorted(ranks, key=lambda rank: rank.error_age or 0):
        ago = _duration(rank.error_age or 0)
        notes.append(
            _Note(rank.who, f"{rank.refused} refused, the last {ago} ago: {rank.error}", "red")
        )
    for _, row in entries:
        if row is not None and row.note:
            notes.append(_Note(row.who, row.note, "yellow"))
    return notes


def _wrap(note: _Note, width: int, cut: str) -> list[Text]:
    lines = textwrap.wrap(
        _printable(f"{note.who}: {note.text}"),
        max(width, _NARROWEST_NOTE),
        subsequent_indent=_NOTE_INDENT,
        max_lines=_MOST_NOTE_LINES,
        placeholder=f" {cut}",
        break_on_hyphens=False,
    )
    shown = [Text(line, note.style) for line in lines]
    shown[0].stylize("not bold default", 0, len(note.who))
    return shown


def _printable(text: str) -> str:
    """Without what would move the cursor: an error's text may quote what came."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _number(value: int | None, *, calm: bool = True) -> tuple[str, str]:
    if value is None:
        return "-", "dim"
    return _short(value), ("" if calm else "yellow") if value else "dim"


def _bar(use: float, length: int, *, drawn: bool) -> tuple[str, str]:
    """The full part of a bar, and the rest of it."""
    use = min(use, 1.0)
    if not drawn:
        full = round(use * length)
        return "#" * full, "." * (length - full)
    eighths = round(use * length * 8)
    if use and not eighths:
        eighths = 1  # in use, if only just
    whole, part = divmod(eighths, 8)
    blocks = _EIGHTHS[-1] * whole + (_EIGHTHS[part - 1] if part else "")
    return blocks, "·" * (length - len(blocks))


def _tokens(rank: RankRow) -> tuple[str, str]:
    if rank.stat is None:
        return "-", "dim"
    capacity = rank.stat.max_total_num_tokens
    return f"{_short(rank.stat.num_tokens)}/{_short(capacity) if capacity else '?'}", ""


def _age(rank: RankRow) -> tuple[str, str]:
    if rank.age is None:
        return "-", "dim"
    return _duration(rank.age), STYLES[State.STALE] if rank.state is State.STALE else ""


def _revision(rank: RankRow) -> tuple[str, str]:
    if rank.stat is None or rank.elements is None:
        return _number(rank.revision)
    return revision_text(rank.elements), ""


def _percent(use: float) -> str:
    return f"{use:.0%}" if use < 10 else ">999%"


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 1000 else _short(round(rate))


def _duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for unit, size, most in (("s", 1, 100), ("m", 60, 100), ("h", 3600, 100)):
        if seconds / size < most:
            return f"{seconds / size:.0f}{unit}"
    return f"{min(seconds / 86_400, 9999):.0f}d"


def _short(value: int) -> str:
    """A number in at most five characters, up to 2^64 and beyond."""
    if value < 100_000:
        return str(value)
    shown = float(value)
    for unit in "kMGTPE":
        shown /= 1000
        if shown < 999.5:
            return f"{shown:.3g}{unit}" if shown >= 1 else f"{shown:.2f}{unit}"
    return "huge"


def _short_name(name: str) -> str:
    return _printable(name.removeprefix("http://").removeprefix("tcp://"))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class _Column(NamedTuple):
    """One column: its name, its width, and what stands in it."""

    name: str
    width: int
    cell: Callable[[RankRow], tuple[str, str]]  # text and style


_COLUMNS = (
    _Column("run", 5, lambda r: _number(r.stat.num_running_reqs if r.stat else None)),
    _Column("wait", 5, lambda r: _number(r.stat.num_waiting_reqs if r.stat else None)),
    _Column("KV", 0, lambda _: ("", "")),  # drawn by itself
    _Column("tokens", 11, _tokens),
    _Column("age", 5, _age),
    _Column("rate", 5, lambda r: ("-", "dim") if r.rate is None else (_rate(r.rate), "")),
    _Column("lost", 5, lambda r: _number(r.stats.lost, calm=False)),
    _Column("restarts", 3, lambda r: _number(r.stats.restarts, calm=False)),
    _Column("rev", 3, _revision),
    _Column("refused", 7, lambda r: _number(r.refused, calm=False)),
)
_HEADS = {"restarts": "rst"}


class _Table:
    """The columns that fit, and the lines made of them."""

    def __init__(self, entries: Sequence[Entry], width: int, *, drawn: bool, cut: str) -> None:
        self._drawn, self._cut = drawn, cut
        self._names = {entry.worker.worker: _short_name(entry.worker.worker) for entry in entries}
        longest = max((len(name) for name in self._names.values()), default=0)
        self._columns = list(_COLUMNS)
        for name in DROPPED:
            if self._taken(1) <= width:
                break
            self._columns = [column for column in self._columns if column.name != name]
        self._gap = 2 if self._taken(2) <= width else 1
        spare = max(0, width - self._taken(self._gap))
        wanted = min(max(longest, _SHORTEST_NAME), _LONGEST_NAME) - _SHORTEST_NAME
        more = min(spare, wanted)
        self._name = _SHORTEST_NAME + more
        self._bar = min(_LONGEST_BAR, _SHORTEST_BAR + spare - more)

    def _taken(self, gap: int) -> int:
        cells = [column.width for column in self._columns]
        kv = _SHORTEST_BAR + 5
        return _SHORTEST_NAME + 4 + 7 + sum(cells) + kv + gap * (len(cells) + 2)

    def names(self) -> Text:
        """The line with the names of the columns."""
        cells = ["worker".ljust(self._name), "rank", "state  "]
        for column in self._columns:
            if column.name == "KV":
                cells.append("KV".ljust(self._bar + 5))
            else:
                cells.append(_HEADS.get(column.name, column.name).rjust(column.width))
        return Text((" " * self._gap).join(cells), "bold underline")

    def line(self, entry: Entry) -> Text:
        """The line of one rank, or of a worker that has none."""
        gap = " " * self._gap
        name = self._names[entry.worker.worker]
        if len(name) > self._name:
            name = self._cut + name[len(name) - self._name + 1 :]  # the end tells them apart
        line = Text(name.ljust(self._name) + gap)
        rank = entry.rank
        if rank is None:
            state, style = ("waiting", "dim") if entry.worker.waiting else ("unknown", "bold red")
            return line.append("-".rjust(4) + gap, "dim").append(state, style)
        line.append(rank.name.rjust(4) + gap)
        line.append(str(rank.state).ljust(7), STYLES[rank.state])
        for column in self._columns:
            line.append(gap)
            if column.name == "KV":
                self._draw(line, rank)
            else:
                text, style = column.cell(rank)
                line.append(text.rjust(column.width), style)
        return line

    def _draw(self, line: Text, rank: RankRow) -> None:
        use = rank.kv_use
        if use is None:
            line.append(("-" if rank.stat is None else "unknown").ljust(self._bar + 5), "dim")
            return
        style = (
            "bold red" if use > 1 else "red" if use > 0.9 else "yellow" if use > 0.7 else "green"
        )
        full, rest = _bar(use, self._bar, drawn=self._drawn)
        line.append(full, style).append(rest, "dim")
        line.append(_percent(use).rjust(5), style if use > 1 else "")
