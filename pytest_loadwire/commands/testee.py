"""``loadwire testee``: a decoder in any language, held to the vectors."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    NOTHING_CHECKED,
    golden_option,
    json_option,
    print_json,
    say,
    say_failures,
    start_timeout_option,
    timeout_option,
)
from pytest_loadwire.rules import HAZARD_TEXT, RULE_TITLES

if TYPE_CHECKING:
    from pytest_loadwire.conform import Conformance


@click.command()
@golden_option
@timeout_option
@start_timeout_option
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the result to FILE, .json or .html, as `loadwire report` merges it.",
)
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def testee(
    root: Path | None,
    timeout: float,
    start_timeout: float,
    report_path: Path | None,
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
      loadwire testee --report go.json -- ./my-testee
    """
    from pytest_loadwire import conform
    from pytest_loadwire.harness.testee import Testee, TesteeError
    from pytest_loadwire.vectors import GoldenError, load

    if not command:
        raise click.UsageError("a command is missing: loadwire testee -- ./my-testee")
    if report_path is not None:
        _check_target(report_path)
    progress, began = Console(stderr=True), time.time()
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
        if report_path is not None:
            say(progress, "no report: nothing was asked", "yellow")
        no_testee(str(error), as_json=as_json)
    if result.adapter is None:
        result.adapter = ending
    if report_path is not None:
        from pytest_loadwire.report import reader_run, record

        run = reader_run.run_of(
            result,
            version=version,
            command=shlex.join(["loadwire", "testee", "--", *command]),
            vectors=golden.content_hash,
            began=began,
        )
        try:
            record.write(report_path, record.report_of([run]))
        except record.ReportError as error:
            raise click.UsageError(f"--report: {error}") from None
    if as_json:
        print_json({**result.to_json(), "version": version})
    else:
        _show(result, version)
    if result.adapter is not None:
        raise SystemExit(NOTHING_CHECKED)
    raise SystemExit(CONFORMS if result.ok else BREAKS)


def _check_target(path: Path) -> None:
    from pytest_loadwire.report.record import ReportError, check_target

    try:
        check_target(path)
    except ReportError as error:
        raise click.UsageError(f"--report {error}") from None


def no_testee(why: str, *, as_json: bool) -> NoReturn:
    """Say that a program cannot be asked, and end."""
    if as_json:
        print_json({"ok": False, "adapter": why})
    else:
        say(Console(), f"the adapter does not work: {why}", "bold red")
    raise SystemExit(NOTHING_CHECKED)


def _show(result: Conformance, version: str) -> None:
    console = Console()
    title = f"{result.name} {version}, a reader of revision {result.revision}"
    if result.passed or result.failures:
        table = Table(title=title, title_justify="left")
        table.add_column("rule", style="bold")
        table.add_column("about", no_wrap=True)
        table.add_column("passed", justify="right", style="green")
        table.add_column("failed", justify="right")
        for rule in result.rules:
            failed = result.failed[rule]
            shown = Text(str(failed), style="bold red" if failed else "dim")
            table.add_row(rule, RULE_TITLES[rule], str(result.passed[rule]), shown)
        console.print(table)
    else:
        console.print(title)
    for what, why in result.not_run.items():
        say(console, f"NOT RUN  {what}: {why}", "bold yellow")
    say_failures(console, result.failures)
    for hazard, count in result.hazards.items():
        say(console, f"{count} of hazard {hazard}: {HAZARD_TEXT[hazard]}", "red")
    if result.adapter is not None:
        say(console, f"the adapter does not work: {result.adapter}", "bold red")
    elif result.failures:
        say(console, f"{len(result.failures)} failures", "bold red")
    else:
        say(console, "it conforms", "bold green")
