"""``loadwire check``: the vectors, proven."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    golden_option,
    json_option,
    print_json,
    say,
    say_failures,
)
from pytest_loadwire.rules import RULES

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_loadwire.check import Result


@click.command()
@golden_option
@click.option(
    "--native",
    envvar="LOADWIRE_NATIVE",
    type=click.Path(exists=True, dir_okay=False),
    help="A shared library with the C ABI of loadwire.h, in place of the Rust crate.",
)
@json_option
def check(root: Path | None, native: str | None, as_json: bool) -> None:
    """Prove the golden vectors: decoders, encoders, a live socket, the reference.

    \b
    Example:
      loadwire check
      loadwire check --json | jq .totals
    """
    from pytest_loadwire.check import run
    from pytest_loadwire.harness.native import NativeUnavailable
    from pytest_loadwire.vectors import GoldenError

    progress = Console(stderr=True)
    try:
        with progress.status("starting", spinner="line") as status:
            result = run(root, native=native, progress=status.update)
    except (GoldenError, NativeUnavailable) as error:
        raise click.UsageError(str(error)) from error
    # What a machine does not run nobody notices, so there it counts.
    strict = bool(os.environ.get("CI"))
    if as_json:
        print_json({**result.to_json(), "strict": strict})
    else:
        _show(result, strict=strict)
    raise SystemExit(CONFORMS if result.ok and not (strict and result.not_run) else BREAKS)


def _show(result: Result, *, strict: bool) -> None:
    from pytest_loadwire.check import rule_order

    console = Console()
    table = Table(title="load contract, vectors by rule and witness", title_justify="left")
    # A column takes its text and three more for its border; the long texts get what is left.
    taken = len("rule") + 3 + sum(max(len(witness), 3) + 3 for witness in result.witnesses)
    table.add_column("rule", style="bold")
    table.add_column(
        "what it asks for", overflow="ellipsis", no_wrap=True, max_width=console.width - taken - 4
    )
    for witness in result.witnesses:
        table.add_column(witness, justify="right")
    for rule in sorted(result.cells, key=rule_order):
        cells = [_cell(result, rule, witness) for witness in result.witnesses]
        table.add_row(rule, RULES.get(rule, "no rule of the contract"), *cells)
    table.add_section()
    totals = [
        sum(row[w].passed for row in result.cells.values() if w in row) for w in result.witnesses
    ]
    table.add_row("", "agreed", *map(str, totals))
    console.print(table)
    console.print(", ".join(f"{count} {what}" for what, count in result.totals.items()))
    say(console, f"content hash {result.content_hash}")
    for what, why in result.not_run.items():
        say(console, f"NOT RUN  {what}: {why}", "bold yellow")
    say_failures(console, result.failures)
    if result.failures:
        say(console, f"{len(result.failures)} disagreements", "bold red")
    elif result.not_run and strict:
        say(console, "what ran agrees; under CI what was not run fails", "bold red")
    elif result.not_run:
        say(console, "what ran agrees", "bold yellow")
    else:
        say(console, "all agree", "bold green")


def _cell(result: Result, rule: str, witness: str) -> Text:
    cell = result.cells[rule].get(witness)
    if cell is None:
        return Text("-", style="dim")
    if cell.failed:
        return Text(f"{cell.failed} of {cell.failed + cell.passed} FAILED", style="bold red")
    return Text(str(cell.passed), style="green")
