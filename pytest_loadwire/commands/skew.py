"""``loadwire skew``: who may upgrade first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    json_option,
    print_json,
    start_timeout_option,
    timeout_option,
)
from pytest_loadwire.commands.testee import no_testee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.skew import Row


@click.command()
@timeout_option
@start_timeout_option
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def skew(timeout: float, start_timeout: float, as_json: bool, command: tuple[str, ...]) -> None:
    """Say who may upgrade first: every revision's engine against every revision's reader.

    The readers are the reference decoder as the router of each revision, and COMMAND if there
    is one: a decoder in any language, as for loadwire testee. The engines are those of each
    revision, and of some that may come. Exit status 0: every pair goes right. 1: some pair goes
    wrong. 2: a wrong call, or COMMAND cannot be asked.

    \b
    Example:
      loadwire skew
      loadwire skew -- ./my-testee
    """
    from pytest_loadwire.harness.testee import Testee, TesteeError
    from pytest_loadwire.skew import ask, reference

    rows = reference()
    if command:
        try:
            with Testee(command, timeout=timeout, start_timeout=start_timeout) as reader:
                rows.append(ask(reader))
        except TesteeError as error:
            no_testee(str(error), as_json=as_json)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _show(rows)
    right = all(cell.right for row in rows for cell in row.cells.values())
    raise SystemExit(CONFORMS if right else BREAKS)


def _show(rows: Sequence[Row]) -> None:
    from pytest_loadwire.skew import table as table_of

    # The engines are many and the readers few, so they change places to fit a terminal.
    header, *lines = zip(*table_of(rows), strict=True)
    table = Table()
    table.add_column("engine", style="bold")
    for name in header[1:]:
        table.add_column(name)
    for engine, *cells in lines[:-1]:
        shown: list[Any] = [
            Text(text, style="green" if row.cells[engine].right else "bold red")
            for row, text in zip(rows, cells, strict=True)
        ]
        table.add_row(engine, *shown)
    table.add_section()
    table.add_row(*lines[-1])
    console = Console()
    # Not as the table's title, which rich fills up with blanks.
    console.print("what each reader makes of each engine", style="table.title")
    console.print(table)
