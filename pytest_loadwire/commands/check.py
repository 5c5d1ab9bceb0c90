"""``loadwire check``: the vectors, proven, or live load sockets, watched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
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
from pytest_loadwire.commands.live_check import check_live, live_options
from pytest_loadwire.rules import RULE_TITLES

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pytest_loadwire.check import Result


@click.command()
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@live_options
@golden_option
@click.option(
    "--native",
    envvar="LOADWIRE_NATIVE",
    type=click.Path(exists=True, dir_okay=False),
    help="A shared library with the C ABI of loadwire.h, in place of the Rust crate.",
)
@json_option
@click.pass_context
def check(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    root: Path | None,
    native: str | None,
    as_json: bool,
    **live: Any,
) -> None:
    """Prove the golden vectors, or watch a live TARGET.

    A TARGET is a worker's URL, which is asked for its load ports, or one load socket as
    tcp://host:port. Every rank is listened to for a while, and what comes is judged by rule; a
    silent socket ends in a diagnosis. Exit status 0: all conform. 1: something does not, or is
    silent. 2: a wrong call.

    A rev of 1+3 is revision 1 with 3 elements behind it. Below 80 columns these columns of the
    table go, in this order: last reading, /s, sequence, rev.

    Without a TARGET: decoders, encoders, a live socket and the reference prove every vector.

    \b
    Example:
      loadwire check
      loadwire check http://10.0.0.5:30000
      loadwire check tcp://10.0.0.5:5558 --seconds 30 --strict
    """
    given = {
        str(parameter.name): parameter.opts[-1]
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    }
    if targets:
        _refuse(given, {"root", "native"}, "is for the vectors, and goes without a TARGET")
        check_live(targets, as_json=as_json, **live)
    _refuse(given, set(live), "watches live sockets, and needs a TARGET such as tcp://host:5558")
    _check_vectors(root, native, as_json=as_json)


def _refuse(given: dict[str, str], names: set[str], why: str) -> None:
    for name, option in given.items():
        if name in names:
            raise click.UsageError(f"{option} {why}")


def _check_vectors(root: Path | None, native: str | None, *, as_json: bool) -> None:
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
    table.add_column("rule", style="bold", no_wrap=True)
    table.add_column("about", no_wrap=True)
    for witness in result.witnesses:
        table.add_column(witness, justify="right", no_wrap=True)
    for rule in sorted(result.cells, key=rule_order):
        cells = [_cell(result, rule, witness) for witness in result.witnesses]
        table.add_row(rule, RULE_TITLES.get(rule, "not in the contract"), *cells)
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
