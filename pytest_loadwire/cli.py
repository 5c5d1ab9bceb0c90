"""The terminal face: ``loadwire check``, ``testee``, ``skew``, ``fleet`` and ``golden``.

Thin on purpose: each command calls one function of the library and shows what it says. Exit status
0 is conforming, 1 is not, 2 is a wrong call or nothing to check.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_loadwire import __version__

try:
    import click
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    _MISSING: str | None = error.name
else:
    _MISSING = None

if TYPE_CHECKING:
    from pytest_loadwire.check import Result

MOST_FAILURES = 20
"""So many failures are shown; ``--json`` has all of them."""


def main() -> None:
    """Run the command line; say what to install where the extra is missing."""
    if _MISSING is not None:
        print(  # noqa: T201 - the libraries that print better are what is missing
            f"loadwire: {_MISSING} is not installed; pip install 'pytest-loadwire[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2)
    _commands()(prog_name="loadwire")


def _commands() -> click.Group:
    @click.group(context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="pytest-loadwire")
    def commands() -> None:
        """The contract kit for SGLang's load socket."""

    @commands.command()
    @click.option(
        "--golden",
        "root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Another golden folder than that of this package.",
    )
    @click.option(
        "--native",
        envvar="LOADWIRE_NATIVE",
        type=click.Path(exists=True, dir_okay=False),
        help="A shared library with the C ABI of loadwire.h, in place of the Rust crate.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    def check(root: Path | None, native: str | None, as_json: bool) -> None:
        """Prove the golden vectors: decoders, encoders, a live socket, the reference.

        \b
        Example:
          loadwire check
          loadwire check --json | jq .totals
        """  # noqa: D301 - the character itself keeps click from filling the lines
        from pytest_loadwire.check import run  # noqa: PLC0415 - zmq and cffi only when asked for
        from pytest_loadwire.harness.native import NativeUnavailable  # noqa: PLC0415
        from pytest_loadwire.vectors import GoldenError  # noqa: PLC0415

        progress = Console(stderr=True)
        try:
            with progress.status("starting", spinner="line") as status:
                result = run(root, native=native, progress=status.update)
        except (GoldenError, NativeUnavailable) as error:
            raise click.UsageError(str(error)) from error
        # What a machine does not run nobody notices, so there it counts.
        strict = bool(os.environ.get("CI"))
        if as_json:
            click.echo(json.dumps({**result.to_json(), "strict": strict}, indent=1))
        else:
            _show(result, strict=strict)
        raise SystemExit(0 if result.ok and not (strict and result.not_run) else 1)

    _add_reader_commands(commands)
    _add_fleet_command(commands)

    @commands.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def golden(arguments: tuple[str, ...]) -> None:
        """Regenerate, compare or release the vectors.

        The same as python -m pytest_loadwire.golden.

        \b
        Example:
          loadwire golden --check
          loadwire golden --write
        """  # noqa: D301 - as above
        from pytest_loadwire.golden.__main__ import main as regenerate  # noqa: PLC0415

        raise SystemExit(regenerate(arguments, prog="loadwire golden"))

    return commands


def _add_fleet_command(commands: click.Group) -> None:
    count = click.IntRange(min=1)

    @commands.command()
    @click.option("--scenario", default="steady", show_default=True, help="A name, or a file.")
    @click.option("--workers", type=count, default=1, show_default=True, help="How many engines.")
    @click.option("--ranks", type=count, default=1, show_default=True, help="Ranks of each.")
    @click.option(
        "--seconds",
        type=click.FloatRange(min=0),
        help="How long to run; by default until it is interrupted.",
    )
    def fleet(scenario: str, workers: int, ranks: int, seconds: float | None) -> None:
        """Run fake engines on loopback: /server_info, /health and a load socket per rank.

        Prints the URL of each engine, which is what a router adds. A file with a scenario is JSON,
        or TOML from Python 3.11 on; the names of those that come with the kit are shown where one
        is not known.

        \b
        Example:
          loadwire fleet --workers 2 --ranks 4
          loadwire fleet --scenario hostile --seconds 60
        """  # noqa: D301 - as above
        from pytest_loadwire.engine.fleet import Fleet, fleet_status  # noqa: PLC0415
        from pytest_loadwire.errors import LoadwireError  # noqa: PLC0415
        from pytest_loadwire.interrupt import Interrupt  # noqa: PLC0415

        try:
            # As real engines do, these drop what a router does not read in time (rule S2).
            with (
                Interrupt() as stop,
                Fleet(scenario, workers=workers, ranks=ranks, sheds=True) as engines,
            ):
                for line in fleet_status(engines.engines):
                    click.echo(line)
                engines.run(seconds, stop)
                click.echo(f"{engines.sent} messages in {engines.steps} steps")
        except LoadwireError as error:
            raise click.UsageError(str(error)) from error


def _add_reader_commands(commands: click.Group) -> None:
    timeout = click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=5.0,
        show_default=True,
        help="Seconds that one answer may take.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    command = click.argument("command", nargs=-1, type=click.UNPROCESSED)

    @commands.command()
    @click.option(
        "--golden",
        "root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Another golden folder than that of this package.",
    )
    @timeout
    @click.option(
        "--start-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds that its start may take, up to the greeting.",
    )
    @as_json
    @command
    def testee(
        root: Path | None,
        timeout: float,
        start_timeout: float,
        as_json: bool,
        command: tuple[str, ...],
    ) -> None:
        """Hold a decoder in any language to the vectors, as a program COMMAND.

        It speaks the testee protocol on stdin and stdout; golden/TESTEE.md is the page about it.
        Three payloads are tried first, so that a broken adapter is told from a broken decoder.
        Exit status 0: it conforms. 1: it does not. 2: the adapter does not work.

        \b
        Example:
          loadwire testee -- ./my-testee --quiet
          loadwire testee --json -- node testee.js | jq .hazards
        """  # noqa: D301 - the character itself keeps click from filling the lines
        from pytest_loadwire import show  # noqa: PLC0415 - msgspec only when asked for

        raise SystemExit(
            show.testee(
                command, root, timeout=timeout, start_timeout=start_timeout, as_json=as_json
            )
        )

    @commands.command()
    @timeout
    @as_json
    @command
    def skew(timeout: float, as_json: bool, command: tuple[str, ...]) -> None:
        """Say who may upgrade first: every revision's engine against every revision's reader.

        The readers are the reference decoder as the router of each revision, and COMMAND if there
        is one: a decoder in any language, as for loadwire testee. The engines are those of each
        revision, and of some that may come. Exit status 1: some pair goes wrong.

        \b
        Example:
          loadwire skew
          loadwire skew -- ./my-testee
        """  # noqa: D301 - the character itself keeps click from filling the lines
        from pytest_loadwire import show  # noqa: PLC0415 - msgspec only when asked for

        raise SystemExit(show.skewed(command, timeout=timeout, as_json=as_json))


def _show(result: Result, *, strict: bool) -> None:
    from pytest_loadwire.check import rule_order  # noqa: PLC0415
    from pytest_loadwire.rules import RULES  # noqa: PLC0415

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
    console.print(f"content hash {result.content_hash}", soft_wrap=True, highlight=False)
    for what, why in result.not_run.items():
        console.print(Text(f"NOT RUN  {what}: {why}", style="bold yellow"), soft_wrap=True)
    for failure in result.failures[:MOST_FAILURES]:
        console.print(Text(f"FAILED  {failure}", style="red"), soft_wrap=True)
    if len(result.failures) > MOST_FAILURES:
        console.print(f"... and {len(result.failures) - MOST_FAILURES} more (see --json)")
    if result.failures:
        console.print(Text(f"{len(result.failures)} disagreements", style="bold red"))
    elif result.not_run and strict:
        console.print(Text("what ran agrees; under CI what was not run fails", style="bold red"))
    elif result.not_run:
        console.print(Text("what ran agrees", style="bold yellow"))
    else:
        console.print(Text("all agree", style="bold green"))


def _cell(result: Result, rule: str, witness: str) -> Text:
    cell = result.cells[rule].get(witness)
    if cell is None:
        return Text("-", style="dim")
    if cell.failed:
        return Text(f"{cell.failed} of {cell.failed + cell.passed} FAILED", style="bold red")
    return Text(str(cell.passed), style="green")


if __name__ == "__main__":
    main()
