"""What the terminal shows about one foreign decoder: ``loadwire testee`` and ``loadwire skew``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire import conform, skew
from pytest_loadwire.harness.testee import Testee, TesteeError
from pytest_loadwire.rules import HAZARD_TEXT, RULES
from pytest_loadwire.vectors import GoldenError, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONFORMS, BREAKS, NOTHING_CHECKED = 0, 1, 2
"""The exit statuses."""

MOST_FAILURES = 20
"""So many failures are shown; ``--json`` has all of them."""


def testee(
    command: Sequence[str],
    root: Path | None,
    *,
    timeout: float,
    start_timeout: float,
    as_json: bool,
) -> int:
    """Ask a testee every vector, show what came out, and give the exit status."""
    if not command:
        raise click.UsageError("a command is missing: loadwire testee -- ./my-testee")
    progress = Console(stderr=True)
    try:
        golden = load(root)
        with (
            Testee(
                command,
                timeout=timeout,
                start_timeout=start_timeout,
                progress=lambda text: progress.print(text, style="dim"),
            ) as reader,
            progress.status("starting", spinner="line") as status,
        ):
            result = conform.run(reader, golden, progress=status.update)
            ending = reader.finish()
            version = reader.greeting.version
    except GoldenError as error:
        raise click.UsageError(str(error)) from error
    except TesteeError as error:
        return _no_testee(str(error), as_json=as_json)
    if result.adapter is None:
        result.adapter = ending
    if as_json:
        click.echo(json.dumps({**result.to_json(), "version": version}, indent=1))
    else:
        _show_conformance(result, version)
    if result.adapter is not None:
        return NOTHING_CHECKED
    return CONFORMS if result.ok else BREAKS


def skewed(command: Sequence[str], *, timeout: float, as_json: bool) -> int:
    """Show who may upgrade first, and give the exit status."""
    rows = skew.reference()
    if command:
        try:
            with Testee(command, timeout=timeout) as reader:
                rows.append(skew.ask(reader))
        except TesteeError as error:
            return _no_testee(str(error), as_json=as_json)
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=1))
    else:
        _show_skew(rows)
    right = all(cell.right for row in rows for cell in row.cells.values())
    return CONFORMS if right else BREAKS


def _no_testee(why: str, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"ok": False, "adapter": why}, indent=1))
    else:
        _say(Console(), f"the adapter does not work: {why}", "bold red")
    return NOTHING_CHECKED


def _show_conformance(result: conform.Conformance, version: str) -> None:
    console = Console()
    title = f"{result.name} {version}, a reader of revision {result.revision}"
    if result.passed or result.failures:
        table = Table(title=title, title_justify="left")
        table.add_column("rule", style="bold")
        table.add_column(
            "what it asks for", overflow="ellipsis", no_wrap=True, max_width=console.width - 33
        )
        table.add_column("passed", justify="right", style="green")
        table.add_column("failed", justify="right")
        for rule in result.rules:
            failed = result.failed[rule]
            shown = Text(str(failed), style="bold red" if failed else "dim")
            table.add_row(rule, RULES[rule], str(result.passed[rule]), shown)
        console.print(table)
    else:
        console.print(title)
    for what, why in result.not_run.items():
        _say(console, f"NOT RUN  {what}: {why}", "bold yellow")
    for failure in result.failures[:MOST_FAILURES]:
        _say(console, f"FAILED  {failure}", "red")
    if len(result.failures) > MOST_FAILURES:
        console.print(f"... and {len(result.failures) - MOST_FAILURES} more (see --json)")
    for hazard, count in result.hazards.items():
        _say(console, f"{count} of hazard {hazard}: {HAZARD_TEXT[hazard]}", "red")
    if result.adapter is not None:
        _say(console, f"the adapter does not work: {result.adapter}", "bold red")
    elif result.failures:
        _say(console, f"{len(result.failures)} failures", "bold red")
    else:
        _say(console, "it conforms", "bold green")


def _show_skew(rows: Sequence[skew.Row]) -> None:
    # The engines are many and the readers few, so they change places to fit a terminal.
    header, *lines = zip(*skew.table(rows), strict=True)
    table = Table(title="what each reader makes of each engine", title_justify="left")
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
    Console().print(table)


def _say(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style), soft_wrap=True)
