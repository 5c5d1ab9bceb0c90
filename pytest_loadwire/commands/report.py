"""``loadwire report``: several runs in one matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    NOTHING_CHECKED,
    json_option,
    print_json,
    say,
)
from pytest_loadwire.rules import HAZARD_TEXT, Hazard

if TYPE_CHECKING:
    from pytest_loadwire.report.merge import Cell
    from pytest_loadwire.report.record import Report

_STYLES = {"ok": "green", "failed": "bold red", "declared": "yellow", "not-run": "dim"}


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the matrix to FILE: .html for a page, .json to merge it again.",
)
@click.option("--mixed", is_flag=True, help="Take runs whose vectors differ, and say so.")
@json_option
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
def report(files: tuple[Path, ...], output: Path | None, mixed: bool, as_json: bool) -> None:
    """Merge the reports of several runs, and show rules by implementation.

    FILES are what `pytest --loadwire-report=FILE.json` and `loadwire testee --report FILE.json`
    write: an engine's and its routers', say. Without -o the matrix is printed.
    Exit status 0: nothing failed that is not declared. 1: something did, or a run broke.
    2: a file is no report, the vectors differ, or nothing was judged.

    \b
    Example:
      loadwire report engine.json go.json rust.json
      loadwire report engine.json go.json rust.json -o matrix.html
    """
    from pytest_loadwire.report import merge, record

    try:
        if output is not None:
            record.check_target(output)
        merged = merge.merge([(str(path), merge.read(path)) for path in files], mixed=mixed)
        if output is not None:
            record.write(output, merged)
    except record.ReportError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(merged)
    else:
        _show(merged, output)
    if merge.is_empty(merged):
        raise SystemExit(NOTHING_CHECKED)
    raise SystemExit(CONFORMS if merged["ok"] else BREAKS)


def _show(merged: Report, output: Path | None) -> None:
    from pytest_loadwire.report import merge
    from pytest_loadwire.report.record import NO_RULE

    console = Console()
    found = merge.implementations(merged)
    if output is None and found:
        # The names are as long as they are, so that each column has a number.
        for number, (_, one) in enumerate(found, 1):
            side = "engine and router" if one["side"] == "both" else one["side"]
            say(console, f"{number}  {side}  {one['name']} {one['version']}".rstrip())
        table = Table(title="load contract, cases by rule and implementation", title_justify="left")
        table.add_column("rule", style="bold", no_wrap=True)
        for number in range(1, len(found) + 1):
            table.add_column(str(number))
        counted = [merge.cells(one) for _, one in found]
        for rule in merge.rows(merged):
            row = [cells.get(rule, merge.Cell()) for cells in counted]
            shown = [Text(_cell(cell), style=_STYLES[cell.state]) for cell in row]
            table.add_row("other" if rule == NO_RULE else rule, *shown)
        console.print(table)
    for run in merged["runs"]:
        for problem in run["problems"]:
            say(console, f"{run['name']}: {problem}", "bold red")
        for left in run["not_run"]:
            say(console, f"NOT RUN  {run['name']}: {left['what']}: {left['why']}", "bold yellow")
    if merged["mixed"]:
        say(console, "the runs had different vectors: their counts do not compare", "bold yellow")
    _sum_up(console, merged)
    if output is not None:
        say(console, f"written to {output}")


def _cell(cell: Cell) -> str:
    """A cell's word, and out of how many where not all are of that kind."""
    judged = cell.passed + cell.failed + cell.declared
    return cell.word if cell.state in ("ok", "not-run") else f"{cell.word} of {judged}"


def _sum_up(console: Console, merged: Report) -> None:
    """The failures by hazard, and how to look at them."""
    from pytest_loadwire.report import merge

    counted = merge.hazards(merged)
    for name, count in counted.items():
        means = f": {HAZARD_TEXT[Hazard(name)]}" if name in set(Hazard) else ""
        say(console, f"{count} of hazard {name}{means}" if means else f"{count} {name}", "red")
    if counted:
        total = sum(counted.values())
        say(console, f"{total} undeclared failure{'s' * (total > 1)}", "bold red")
    elif not merged["ok"]:
        say(console, "not all of it went well", "bold red")
    elif merge.is_empty(merged):
        say(console, "nothing was judged", "bold yellow")
    else:
        say(console, "nothing failed that is not declared", "bold green")
