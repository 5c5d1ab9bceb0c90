"""A report as one HTML page that needs nothing but itself: no script, no font, no request.

Every text of a run may hold anything: jinja2 escapes it, and what no page may hold, or what would
turn a line around, is shown by its code.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup, escape

from pytest_loadwire import annotate
from pytest_loadwire.report import merge
from pytest_loadwire.report.record import NO_RULE
from pytest_loadwire.rules import HAZARD_TEXT, RULES, Hazard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.report.merge import Cell
    from pytest_loadwire.report.record import Bytes, Case, Implementation, Report

TEMPLATE = Path(__file__).with_name("page.html")

MOST_DETAIL = 900_000
"""So many characters of bytes and texts are shown among the failures, and again in the cells; what
lies behind is a line each, and whole in the JSON."""

MOST_ALIKE = 8
"""So many failures of one hazard, rule and implementation stand in the list; the cell has all."""

MOST_LINES = 24
"""So many lines of one payload are shown: a whole message, and the beginning of a longer tail."""

FAMILIES = {
    "W": "the payload",
    "F": "the frames",
    "S": "the sequence",
    "K": "the socket",
    "R": "ranks",
    "E": "endpoints",
    "V": "validation at start",
    "A": "the advertisement",
    "P": "when an engine publishes",
    "C": "what a router does with readings",
    NO_RULE: "the classes themselves",
}
_UNJUDGED = "the test failed by itself, so that nothing is known of the code"
_STALE = "the code conforms although a deviation is declared"
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


class Column(NamedTuple):
    """One implementation of the matrix: its place in the ids, itself, its run, its cells."""

    number: int
    one: Implementation
    run: int
    cells: dict[str, Cell]


class Shown(NamedTuple):
    """One case as the page shows it.

    Attributes:
        column: Whose it is.
        case: The case.
        blocks: Its bytes, a titled block each, side by side where there are two.
        full: Whether there is room for more than its line.
    """

    column: Column
    case: Case
    blocks: list[tuple[str, str]]
    full: bool


class Cluster(NamedTuple):
    """The failures of one hazard, rule and implementation.

    Attributes:
        column: The implementation.
        rule: The rule that the cases are about.
        total: How many there are.
        shown: The first of them; the cell has the rest.
    """

    column: Column
    rule: str
    total: int
    shown: list[Shown]


class Group(NamedTuple):
    """The failures of one hazard.

    Attributes:
        name: The hazard, or what else they have in common.
        means: What it means for traffic.
        total: How many there are.
        clusters: They, in the order of the contract.
    """

    name: str
    means: str
    total: int
    clusters: list[Cluster]


def render(report: Report) -> str:
    """The page, as text for UTF-8."""
    columns, runs = _columns(report)
    rows = merge.rows(report)
    return _template().render(
        report=report,
        runs=runs,
        columns=columns,
        families=_families(rows),
        rules={**RULES, NO_RULE: "declarations, and tests that are about no single rule"},
        never=[rule for rule in RULES if rule not in rows],
        groups=list(_groups(columns)),
        panels=list(_panels(columns, rows)),
        failed=sum(1 for _ in merge.undeclared(report)),
        hazards=[(hazard.value, HAZARD_TEXT[hazard]) for hazard in Hazard],
        empty=merge.Cell(),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters["soft"] = _soft
    return environment.from_string(TEMPLATE.read_text("utf-8"))


def _columns(report: Report) -> tuple[list[Column], list[dict[str, Any]]]:
    columns = []
    for number, (run, one) in enumerate(merge.implementations(report)):
        place = next(i for i, other in enumerate(report["runs"]) if other is run)
        columns.append(Column(number, one, place, merge.cells(one)))
    runs = [
        {**run, "columns": [column for column in columns if column.run == place]}
        for place, run in enumerate(report["runs"])
    ]
    return columns, runs


def _families(rows: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """The rows by what they are about."""
    letters = dict.fromkeys(rule[0] for rule in rows)
    return [
        (letter, FAMILIES.get(letter, ""), [rule for rule in rows if rule[0] == letter])
        for letter in letters
    ]


def _groups(columns: Sequence[Column]) -> Iterator[Group]:
    """The failures that no declaration covers, the worst hazard first."""
    found: dict[str, list[tuple[Column, Case]]] = {}
    for column in columns:
        for one, case in ((column, case) for case in column.one["cases"]):
            if case["outcome"] == "failed":
                finding = case["finding"]
                kind = merge.NO_VERDICT if finding is None else finding["hazard"]
                found.setdefault(kind, []).append((one, case))
            elif case["outcome"] == "stale":
                found.setdefault(merge.OUT_OF_DATE, []).append((one, case))
    # A rule that a newer kit has brought comes last.
    order = {rule: place for place, rule in enumerate([*RULES, NO_RULE])}
    means = {hazard.value: text for hazard, text in HAZARD_TEXT.items()}
    means |= {merge.NO_VERDICT: _UNJUDGED, merge.OUT_OF_DATE: _STALE}
    room = MOST_DETAIL
    for name, text in means.items():
        if name not in found:
            continue
        alike: dict[tuple[str, int], list[tuple[Column, Case]]] = {}
        for column, case in found[name]:
            alike.setdefault((case["rule"], column.number), []).append((column, case))
        clusters = []
        for rule, number in sorted(alike, key=lambda key: (order.get(key[0], len(order)), key)):
            pairs = alike[rule, number]
            shown = []
            for column, case in pairs[:MOST_ALIKE]:
                if room > 0:
                    shown.append(_shown(column, case))
                    room -= _size(shown[-1])
            clusters.append(Cluster(columns[number], rule, len(pairs), shown))
        yield Group(name, text, len(found[name]), clusters)


def _panels(
    columns: Sequence[Column], rows: Sequence[str]
) -> Iterator[tuple[Column, str, Cell, list[Shown], list[str]]]:
    """What each cell opens to: what did not pass, and the ids of what did."""
    room = MOST_DETAIL
    for rule in rows:
        for column in columns:
            cell = column.cells.get(rule)
            if cell is None:
                continue
            shown = []
            # What lacks a declaration comes first, and has the room.
            cases = [case for case in column.one["cases"] if case["rule"] == rule]
            ranks = ("failed", "stale", "declared", "skipped")
            for case in sorted(cases, key=lambda case: ranks.index(case["outcome"])):
                if room > 0:
                    shown.append(_shown(column, case))
                    room -= _size(shown[-1])
                else:
                    shown.append(Shown(column, case, [], False))
            yield column, rule, cell, shown, column.one["passed"].get(rule, [])


def _shown(column: Column, case: Case) -> Shown:
    return Shown(column, case, _blocks(case["bytes"], column.one["side"]), True)


def _size(entry: Shown) -> int:
    case = entry.case
    finding = case["finding"]
    texts = [case["case"], case["why"], case["text"], case["test"], *case["notes"]]
    texts += [text for _, text in entry.blocks]
    texts += [] if finding is None else [finding["expected"], finding["got"]]
    return 900 + sum(map(len, texts))


def _blocks(about: Bytes | None, side: str) -> list[tuple[str, str]]:
    """The bytes of a case line by line, and beside them those that they should have been."""
    if about is None or not (about["frames"] or about["against"]):
        return []
    frames = [bytes.fromhex(frame) for frame in about["frames"]]
    if about["against"] is not None and not about["message"]:
        expected = annotate.lines(bytes.fromhex(about["against"]))
        got = annotate.lines(frames[0]) if frames else []
        return [
            ("bytes expected", _block(expected, got)),
            ("bytes got", _block(got, expected) if frames else "nothing"),
        ]
    title = "bytes sent" if side == "engine" else "bytes given"
    if not about["message"]:
        return [(title, _block(annotate.lines(frames[0]), None))]
    text = annotate.annotate_frames(frames[:2]).splitlines()
    if len(frames) > 2:
        text.append(f"frame 2 (payload): {len(frames[2])} bytes")
        text.append(_block(annotate.lines(frames[2]), None))
    text += [
        f"frame {number} (unexpected): {frame[:32].hex()}, {len(frame)} bytes"
        for number, frame in enumerate(frames[3:8], 3)
    ]
    return [(title, "\n".join(text))]


def _block(lines: Sequence[annotate.Line], other: Sequence[annotate.Line] | None) -> str:
    """Annotated lines; against others, a mark stands before each that differs."""
    text = []
    wide = max((len(_label(line)) for line in lines[:MOST_LINES]), default=0)
    for ours, theirs in zip_longest(lines[:MOST_LINES], (other or [])[:MOST_LINES]):
        if ours is None:
            continue
        differs = other is not None and (theirs is None or ours[1:] != theirs[1:])
        mark = "" if other is None else "> " if differs else "  "
        raw = ours.raw.hex() if len(ours.raw) <= 9 else f"{ours.raw[:8].hex()}.."
        says = ours.says.removeprefix("integer ")
        line = f"{mark}{ours.offset:>3}  {raw:<18}  {_label(ours):<{wide}}  {says}"
        text.append(line.rstrip())
    if (more := len(lines) - MOST_LINES) > 0:
        text.append(f"... {more} more line{'s' * (more > 1)}")
    return "\n".join(text)


def _label(line: annotate.Line) -> str:
    """The element, as deep as it is nested."""
    return "  " * max(line.depth - 1, 0) + line.label


def _visible(value: Any) -> Any:
    """Text without what no page may hold, and what would turn a line around."""
    if not isinstance(value, str) or not _UNSAFE.search(value):
        return value
    clean = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return Markup(clean) if isinstance(value, Markup) else clean  # noqa: S704 - as safe as before


def _soft(value: str) -> Markup:
    """A name that may be broken behind its separators."""
    return Markup(re.sub(r"(::|[/_.-])(?=.)", r"\1<wbr>", str(escape(_visible(value)))))  # noqa: S704
