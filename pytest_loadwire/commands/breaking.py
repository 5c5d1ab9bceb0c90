"""``loadwire breaking``: what a change of the contract breaks, and who has to go first."""

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
    json_option,
    print_json,
    say,
    say_failures,
    verbatim,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.commands.junit import Case
    from pytest_loadwire.evolution.breaking import Breaking
    from pytest_loadwire.evolution.rollout import Cell, Row

NOT_COUNTED = "not counted without --strict"


@click.command()
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a JUnit file: a case for each change and each idiom.",
)
@click.option("--idioms", "detailed", is_flag=True, help="Say of each idiom how it reads.")
@click.option("--strict", is_flag=True, help="A decoder idiom that breaks counts as well.")
@json_option
@click.argument("old")
@click.argument("new", required=False)
def breaking(
    old: str, new: str | None, junit: Path | None, detailed: bool, strict: bool, as_json: bool
) -> None:
    """Say what changed between two states of the contract, and what it breaks.

    OLD and NEW are golden folders, or git revisions of the repository here (REV, or
    REV:path/to/golden). NEW is the working tree's golden folder unless it is given.
    Known decoder idioms of five languages, written for one state, are fed what engines
    of the other send: who refuses, who misreads, and so who has to go first.
    Exit status 0: nothing breaks. 1: something does. 2: no such folder or revision.

    \b
    Example:
      loadwire breaking v0.1.0
      loadwire breaking main feature/revision-3 --idioms
      loadwire breaking ../theirs/golden golden --junit breaking.xml
    """
    from pytest_loadwire.evolution import snapshot
    from pytest_loadwire.evolution.breaking import compare
    from pytest_loadwire.evolution.git_tree import GitError

    here = Path.cwd()
    try:
        before = snapshot.read(old, here)
        after = snapshot.read_current(here) if new is None else snapshot.read(new, here)
    except (snapshot.SnapshotError, GitError) as error:
        raise click.UsageError(str(error)) from error
    result = compare(before, after)
    ok = result.ok and not (strict and result.rollout.broken)
    if junit is not None:
        from pytest_loadwire.commands.junit import write_junit

        try:
            write_junit(junit, "loadwire breaking", _cases(result, strict=strict))
        except OSError as error:
            raise click.UsageError(f"{junit}: {error.strerror}") from error
    if as_json:
        print_json({**result.to_json(), "ok": ok, "strict": strict})
    else:
        _show(result, detailed=detailed, strict=strict)
    raise SystemExit(CONFORMS if ok else BREAKS)


def _cases(result: Breaking, *, strict: bool) -> Iterator[Case]:
    from pytest_loadwire.commands.junit import Case

    for change in result.changes:
        problem = str(change) if change.grade == "breaking" else None
        yield Case(change.rule, f"{change.kind}: {change.what}", problem)
    problem = result.rollout.why if result.rollout.order == "neither" else None
    yield Case("rollout", "a router that keeps the contract", problem)
    for row in result.rollout.rows:
        said = None if row.order == "either" else _in_words(row)
        if strict or said is None:
            yield Case("idioms", row.idiom.title, said)
        else:
            yield Case("idioms", row.idiom.title, not_run=f"{said}; {NOT_COUNTED}")


def _in_words(row: Row) -> str:
    sides = {"the old router": row.old_router, "the upgraded router": row.new_router}
    does = [f"{side} {cell}" for side, cell in sides.items() if not cell.right]
    return f"{_ORDERS[row.order]}: {'; '.join(does)}"


def _show(result: Breaking, *, detailed: bool, strict: bool) -> None:
    console = Console()
    say(console, f"old: {result.old}")
    say(console, f"new: {result.new}")
    for note in result.notes:
        say(console, f"NOTE  {note}", "yellow")
    if result.table:
        console.print(_change_table(result))
    else:
        say(console, "no change of fields, vectors, rules or codes")
    say_failures(console, result.breaking)
    for change in result.changes:
        if change.rule == "W11" and change.grade == "additive":
            say(console, str(change))
    if result.rollout.changed or detailed:
        console.print(_idiom_table(result))
    if detailed:
        for row in result.rollout.rows:
            _say_idiom(console, row)
    _say_end(console, result, strict=strict)


def _change_table(result: Breaking) -> Table:
    table = Table(title="what changed, by rule", title_justify="left")
    table.add_column("rule", style="bold")
    table.add_column("what")
    for grade, style in {"breaking": "bold red", "additive": "", "wording": "dim"}.items():
        table.add_column(grade, justify="right", style=style)
    for rule, kind, counts in result.table:
        shown = [str(counts[grade] or "-") for grade in ("breaking", "additive", "wording")]
        table.add_row(verbatim(rule), kind, *shown)
    return table


def _idiom_table(result: Breaking) -> Table:
    table = Table(title="known decoder idioms over the change", title_justify="left")
    table.add_column("written as")
    table.add_column("old router, new engines", max_width=13)
    table.add_column("new router, old engines", max_width=13)
    table.add_column("who may go first", max_width=13)
    rows = [("a router that keeps the contract", result.rollout.reference)]
    for title, row in [*rows, *((r.idiom.title, r) for r in result.rollout.rows)]:
        style = "green" if row.order == "either" else "bold red"
        table.add_row(
            Text(title), _cell(row.old_router), _cell(row.new_router), Text(row.order, style=style)
        )
        if row is result.rollout.reference:
            table.add_section()
    return table


def _cell(cell: Cell) -> Text:
    return Text(cell.deed, style="green" if cell.right else "bold red")


def _say_idiom(console: Console, row: Row) -> None:
    say(console, f"{row.idiom.title} ({row.idiom.library})", "bold")
    say(console, f"  how it reads: {row.idiom.how}")
    for title, cell in {
        "old router, new engines": row.old_router,
        "new router, old engines": row.new_router,
    }.items():
        hazard = "" if cell.right else f"; hazard {cell.hazard}"
        say(console, f"  {title}: {cell}{hazard}")


_ORDERS = {
    "either": "either side may go first",
    "routers first": "routers first",
    "engines first": "engines first",
    "neither": "neither side can go first",
}


def _say_end(console: Console, result: Breaking, *, strict: bool) -> None:
    from pytest_loadwire.evolution.rollout import hazards

    plan = result.rollout
    for order in ("routers first", "engines first", "neither"):
        titles = [row.idiom.title for row in plan.broken if row.order == order]
        if titles:
            say(console, f"{_ORDERS[order]} where routers are: {'; '.join(titles)}", "yellow")
    for hazard in hazards(plan.broken):
        say(console, f"hazard {hazard}", "yellow")
    style = "bold red" if plan.order == "neither" else "bold"
    say(console, f"rollout: {plan.why}", style)
    failed = [f"{len(result.breaking)} breaking"] if result.breaking else []
    if strict and plan.broken:
        failed.append(f"{len(plan.broken)} of {len(plan.rows)} idioms break")
    if failed:
        say(console, f"it breaks: {', '.join(failed)}", "bold red")
        return
    if not plan.broken:
        say(console, "nothing breaks", "bold green")
        return
    counts = f"{len(plan.broken)} of {len(plan.rows)} known idioms break, which --strict counts too"
    say(console, f"nothing breaks where routers keep the contract; {counts}", "bold yellow")
