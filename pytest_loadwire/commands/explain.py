"""``loadwire explain``: any bytes, and what is wrong with them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    NOTHING_CHECKED,
    json_option,
    print_json,
    say,
)
from pytest_loadwire.hextext.line import plain
from pytest_loadwire.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.explain import Explanation, Frame, Row
    from pytest_loadwire.hextext import Piece
    from pytest_loadwire.vectors import Verdict

MOST_ROWS = 40
"""So many rows of a byte table are shown; ``--json`` has all of them."""

_LABEL = 9
_BYTES = 18


@click.command()
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask only routers of this revision; all of them by default.",
)
@click.option("--strict", is_flag=True, help="What is legal and odd makes exit status 1 as well.")
@json_option
@click.argument("text", nargs=-1, metavar="[HEX]...")
def explain(text: tuple[str, ...], revision: int | None, strict: bool, as_json: bool) -> None:
    """Explain a payload or a message byte by byte, and what is wrong with it.

    HEX is hex in any spelling (0x, \\x, blanks, colons), a Python bytes literal, a hex dump or
    base64; three frames in one line, in three lines or as a list; a line of a log with such a
    thing in it. Quote it for the shell. Several may be given: each argument, and each line, is
    one, unless three of them are the frames of a message. - is standard input, and so is no
    argument at all.

    Exit status 0: all conform, be they odd or not. 1: some do not; with --strict also where one
    conforms and is odd, such as more tokens than the capacity holds. 2: no bytes were found in
    any of them, or the call is wrong.

    \b
    Example:
      loadwire explain 96a84c6f6164537461740703cd0400cd200002
      loadwire explain 6c6f6164 0000000000000007 96a84c6f61645374...
      grep payload= router.log | loadwire explain --strict -
    """
    from pytest_loadwire.explain import explain_piece
    from pytest_loadwire.wire import REVISIONS

    if revision is not None and revision not in REVISIONS:
        known = ", ".join(map(str, REVISIONS))
        raise click.UsageError(f"no revision {revision} is known; there are {known}")
    pieces = _pieces(text)
    if not pieces:
        raise click.UsageError("nothing to explain: give hex, or - and standard input")
    asked = tuple(REVISIONS) if revision is None else (revision,)
    found = [explain_piece(piece, revisions=asked) for piece in pieces]
    passed = [each.ok and not (strict and each.odd) for each in found]
    ok = all(passed)
    if as_json:
        told = [{**each.to_json(), "ok": good} for each, good in zip(found, passed, strict=True)]
        print_json({"ok": ok, "odd": any(each.odd for each in found), "explanations": told})
    else:
        console = Console()
        for number, each in enumerate(found, 1):
            if number > 1:
                console.print()
            if len(found) > 1:
                say(console, f"{number} of {len(found)}, line {each.line}", "dim")
            _show(console, each)
    if all(each.problem is not None for each in found):
        raise SystemExit(NOTHING_CHECKED)
    raise SystemExit(CONFORMS if ok else BREAKS)


def _pieces(arguments: Sequence[str]) -> list[Piece]:
    """What the arguments hold: pieces of text, and standard input for ``-`` or for none."""
    from pytest_loadwire.hextext import read, read_bytes

    if not arguments and not sys.stdin.isatty():
        arguments = ("-",)
    pieces: list[Piece] = []
    given = list(arguments)
    while "-" in given:
        at = given.index("-")
        pieces += read(_joined(given[:at])) + read_bytes(sys.stdin.buffer.read())
        given = given[at + 1 :]
    return pieces + read(_joined(given))


def _joined(arguments: Sequence[str]) -> str:
    """Arguments as lines; short groups of digits are one string that was not quoted."""
    groups = len(arguments) > 1 and all(
        len(argument.strip(",:").removeprefix("0x")) <= 4 for argument in arguments
    )
    return (" " if groups else "\n").join(arguments)


def _show(console: Console, told: Explanation) -> None:
    style = "bold green" if told.ok else "bold red"
    if told.ok and told.odd:
        style = "bold yellow"
    if not told.ok and told.problem is None and not any(_refuses(v) for v in told.readers.values()):
        style = "bold yellow"
    _wrapped(console, told.summary, style=style)
    if told.problem is not None:
        _block(console, "text", plain(told.text))
    elif told.form != "bytes":
        size = sum(len(frame.raw) for frame in told.frames)
        count = len(told.frames)
        frames = f" in {count} frame{'s' * (count != 1)}" if told.message else ""
        _block(console, "read as", f"{told.form}, {size} byte{'s' * (size != 1)}{frames}")
    for note in told.notes:
        _block(console, "assumed", note)
    if told.sibling is not None:
        if told.problem is not None:
            _block(console, "what", f"it looks like {told.sibling.says}")
        _block(console, "what now", told.sibling.hint, "bold")
    elif told.problem is not None:
        hint = _hint(told.text)
        if hint:
            _block(console, "what now", hint, "bold")
    if told.problem is not None:
        return
    for index, frame in enumerate(told.frames):
        _table(console, frame, f"frame {index}, {frame.role}" if told.message else "")
    console.print()
    _verdict(console, told)


def _hint(text: str) -> str:
    text = text.strip()
    try:
        if text and Path(text).is_file():
            return "a file is not opened by its name: loadwire explain - < FILE"
    except (OSError, ValueError):
        pass
    return ""


def _verdict(console: Console, told: Explanation) -> None:
    fault = told.fault
    if fault is not None:
        where = f" at {fault.where}" if fault.where else ""
        _block(console, "breaks", f"{fault.rule} {fault.reason}{where}", "red")
        _block(console, "", f"expected {plain(fault.expected)}, got {plain(fault.got)}")
        _block(console, "rule", RULES.get(fault.rule, ""))
    if told.hazard is not None:
        _block(console, "hazard", f"{told.hazard}: {told.hazard_text}")
    if told.cause is not None:
        _block(console, "likely", told.cause)
    for warning in told.warnings:
        _block(console, "odd", warning, "yellow")
    if told.engine is not None:
        _block(console, "engine", f"revision {told.engine} sends this", "green")
    elif told.engine_fault is not None:
        reason = f"{told.engine_fault.rule} {told.engine_fault.reason}"
        _block(console, "engine", f"no engine may send this ({reason})")
    said: dict[str, list[int]] = {}
    for revision, verdict in told.readers.items():
        text = _reads(told, verdict)
        for further in told.further.get(revision, ()):
            text += f"; if it accepts, also {_reads(told, further)}"
        said.setdefault(text, []).append(revision)
    for text, revisions in said.items():
        who = " and ".join(map(str, revisions))
        plural = "revisions" if len(revisions) > 1 else "revision"
        _block(console, "router", f"of {plural} {who}: {text}")


def _refuses(verdict: Verdict) -> bool:
    from pytest_loadwire.vectors import Reject

    return isinstance(verdict, Reject)


def _reads(told: Explanation, verdict: Verdict) -> str:
    """What a router does, in words."""
    from pytest_loadwire.tokens import TokenError, read_token
    from pytest_loadwire.vectors import Accept, Declare

    if isinstance(verdict, Declare):
        answers = "; ".join(
            f"with {answer!r} it {_reads(told, each)}" for answer, each in verdict.outcomes.items()
        )
        return f"by its policy {verdict.policy}: {answers}"
    if isinstance(verdict, Accept):
        payload = told.frames[-1].raw
        try:
            length = read_token(payload, 0).children
        except TokenError:
            length = 0
        ignored = length - 1 - len(verdict.value)
        behind = f", ignores the {ignored} behind it (rule W8)" if ignored > 0 else ""
        return f"reads revision {verdict.revision}{behind}"
    return f"refuses it ({verdict.reason})"


def _table(console: Console, frame: Frame, title: str) -> None:
    console.print()
    if title:
        say(console, f"{title}, {len(frame.raw)} byte{'s' * (len(frame.raw) != 1)}", "bold")
    say(console, f"  {'byte':>5}  {'bytes':<{_BYTES}}  element = value", "dim")
    if not frame.rows:
        say(console, f"  {'':>5}  {'(no bytes)':<{_BYTES}}")
    for rows, left_out in _shown(frame.rows):
        for row in rows:
            for line, style in _lines(row, console.width):
                say(console, line, style)
        if left_out:
            more = sum(len(row.raw) for row in left_out)
            say(
                console,
                f"  {left_out[0].offset:>5}  ... {more} more byte{'s' * (more != 1)} in "
                f"{len(left_out)} row{'s' * (len(left_out) != 1)}, from byte "
                f"{left_out[0].offset} on (--json has them)",
                "dim",
            )


def _shown(rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], Sequence[Row]]]:
    """Rows to show, each time with those to leave out behind them; the one to blame is shown."""
    blamed = next((index for index, row in enumerate(rows) if row.fault), 0)
    if len(rows) <= MOST_ROWS:
        yield rows, ()
    elif blamed < MOST_ROWS - 5:
        yield rows[:MOST_ROWS], rows[MOST_ROWS:]
    else:
        first, start, end = MOST_ROWS // 2, blamed - 5, blamed + 5
        yield rows[:first], rows[first:start]
        yield rows[start:end], rows[end:]


def _lines(row: Row, width: int) -> Iterator[tuple[str, str]]:
    """A row as lines with their style: the bytes and the value, and what they mean."""
    shown = row.raw.hex()
    if len(shown) > _BYTES:
        shown = f"{shown[: _BYTES - 2]}.."
    left = f"{'>' if row.fault else ' '} {row.offset:>5}  {shown:<{_BYTES}}  "
    indent = "  " * min(max(row.depth - 1, 0), 8)
    index = "" if row.element is None else f"{row.element} "
    name = f"{indent}{index}{row.name}"
    unit = "" if row.unit == "rank" else row.unit.removesuffix("s" if row.value == "1" else "!")
    value = f"= {row.value} {unit}".rstrip() if row.value else ""
    style = "bold red" if row.fault else ""
    further = " " * len(left) + indent + "  "
    if len(left) + len(name) + 1 + len(value) <= max(width, 80):
        yield f"{left}{name} {value}".rstrip(), style
    else:
        yield f"{left}{name}", style
        yield f"{further}{value}", style
    if row.meaning:
        yield f"{further}{row.meaning}", "dim"


def _block(console: Console, label: str, text: str, style: str = "") -> None:
    """A labelled text, filled; what cannot be broken at a blank is not broken."""
    _wrapped(console, text, label=f"{label:<{_LABEL}}", style=style)


def _wrapped(console: Console, text: str, *, label: str = "", style: str = "") -> None:
    lines = textwrap.wrap(
        text,
        max(console.width, 40),
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [label]:
        say(console, line, style)
