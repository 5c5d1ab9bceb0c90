"""``loadwire plan``: the ports of workers, from the arguments that start them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO, TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from pytest_loadwire.commands.console import (
    BREAKS,
    CONFORMS,
    MOST_FAILURES,
    json_option,
    print_json,
    say,
    verbatim,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_loadwire.planning.cohosting import HostPlan
    from pytest_loadwire.planning.launch_args import LaunchArgs
    from pytest_loadwire.planning.worker import Remark, WorkerPlan

FEW_RANKS = 4
"""So many ranks have a line each; more are shown as ranges unless ``--all`` is given."""
FEW_WORKERS = 4
"""So many workers have a table each; more share one unless ``--all`` is given."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-f",
    "--file",
    "script",
    type=click.File(encoding="utf-8"),
    help="Launch commands, one a line, as in a shell script. - is standard input.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 1024),
    help="Plan the one worker so many times on one machine.",
)
@click.option(
    "--spacing",
    type=click.IntRange(0, 65535),
    help="With --count: ports between two workers; by default the nearest that works.",
)
@click.option("--all", "every_rank", is_flag=True, help="Show every rank in a line of its own.")
@json_option
@click.argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[ENGINE ARGUMENTS [--and ENGINE ARGUMENTS]...]",
)
def plan(
    script: IO[str] | None,
    count: int | None,
    spacing: int | None,
    every_rank: bool,
    as_json: bool,
    arguments: tuple[str, ...],
) -> None:
    """Plan the ports of workers on one machine, before any is started.

    Takes the engine's own arguments, or its whole launch command, and --and between two workers.
    Shows the ports of KV events, replay and load, rank by rank, what /server_info will say, why
    load is declined, where workers collide, and the nearest ports that do not. With --count,
    KV, replay, explicit load and HTTP ports all move by --spacing. Nothing is started or probed.
    Exit status 0: all of it works. 1: something is refused, cannot be bound or collides.

    \b
    Example:
      loadwire plan --kv-events-config '{"publisher":"zmq"}' \\
          --load-publish-endpoint auto --dp-size 2 --count 4
      loadwire plan python -m sglang.launch_server --port 30000 ... \\
          --and python -m sglang.launch_server --port 30001 ...
      loadwire plan --json -f launch.sh | jq .collisions
    """
    from pytest_loadwire.planning.cohosting import ShiftError, plan_host
    from pytest_loadwire.planning.launch_args import LaunchArgsError

    try:
        workers, skipped = _read(script, arguments)
        nearest = None
        if count is not None:
            if len(workers) > 1:
                raise click.UsageError(f"--count repeats one worker, and here are {len(workers)}")
            workers, spacing, nearest = _repeat(workers[0], count, spacing)
        elif spacing is not None:
            raise click.UsageError("--spacing needs --count")
        # Copies move together, so one distance is the whole answer.
        result = plan_host(workers, propose=count is None)
        if result.collisions and count is not None:
            result = replace(result, spacing=nearest)
    except (LaunchArgsError, ShiftError) as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        lines = [{"line": number, "text": text} for number, text in skipped]
        print_json({**result.to_json(), "spaced_by": spacing, "skipped_lines": lines})
    else:
        console = Console()
        for number, text in skipped:
            say(console, f"line {number} starts no worker, skipped: {text}", "dim")
        if every_rank or len(result.workers) <= FEW_WORKERS:
            for worker in result.workers:
                is_one = len(result.workers) == 1
                _show_worker(console, worker, every_rank=every_rank, is_one=is_one)
        else:
            _show_workers(console, result)
        _show_together(console, result, spacing)
    raise SystemExit(CONFORMS if result.ok else BREAKS)


def _read(
    script: IO[str] | None, arguments: tuple[str, ...]
) -> tuple[list[LaunchArgs], tuple[tuple[int, str], ...]]:
    """The workers, and the lines of a script that start none."""
    from pytest_loadwire.planning.launch_args import parse_worker, split_workers

    if script is None and arguments == ("-",):
        with click.open_file("-", encoding="utf-8") as stream:
            return _from_script(stream)
    if script is None:
        if not arguments:
            raise click.UsageError(
                "engine arguments are missing: loadwire plan --kv-events-config "
                '\'{"publisher":"zmq"}\' --load-publish-endpoint auto'
            )
        parts = split_workers(arguments)
        return [parse_worker(part, f"worker {n}") for n, part in enumerate(parts, 1)], ()
    if arguments:
        raise click.UsageError(f"a file was given, and arguments as well: {arguments[0]}")
    return _from_script(script)


def _from_script(script: IO[str]) -> tuple[list[LaunchArgs], tuple[tuple[int, str], ...]]:
    from pytest_loadwire.planning.launch_args import parse_worker, read_script

    try:
        found = read_script(script.read())
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the script is no UTF-8 text: {error}") from error
    if not found.commands:
        raise click.UsageError("no line of it starts a worker of SGLang")
    workers = [
        parse_worker(words, f"worker {n} (line {line})")
        for n, (line, words) in enumerate(found.commands, 1)
    ]
    return workers, found.skipped


def _repeat(
    worker: LaunchArgs, count: int, spacing: int | None
) -> tuple[list[LaunchArgs], int, int | None]:
    """The copies, how far they are apart, and the nearest distance that works."""
    from pytest_loadwire.planning.cohosting import ShiftError, nearest_spacing, repeat
    from pytest_loadwire.planning.worker import plan_worker

    nearest = nearest_spacing(plan_worker(worker), count)
    if spacing is None and nearest is None:
        raise ShiftError(f"no spacing keeps {count} such workers below port 65536")
    spacing = nearest or 0 if spacing is None else spacing
    return repeat(worker, count, spacing), spacing, nearest


def _show_worker(console: Console, worker: WorkerPlan, *, every_rank: bool, is_one: bool) -> None:
    name = "" if is_one else f"{worker.args.name}: "
    ranks = worker.layout.dp_size
    title = f"{name}{ranks} rank{'s' * (ranks != 1)}, HTTP on {worker.args.host}:{worker.args.port}"
    table = Table(title=verbatim(title, "table.title"), title_justify="left")
    table.add_column("rank", style="bold")
    for heading in ("KV events", "replay", "load"):
        table.add_column(heading)
    table.add_column("published by", overflow="fold")
    for group in _groups(worker, every_rank=every_rank):
        table.add_row(*_row(worker, group))
    console.print(table)
    if not worker.starts:
        say(console, "/server_info  nothing, since the engine does not start")
    elif worker.args.node_rank > 0:
        say(console, "/server_info  node 0 answers for the whole engine")
    else:
        _show_server_info(console, worker)
    _say_remarks(console, worker.remarks)
    if worker.args.not_looked_at:
        say(console, f"not looked at: {' '.join(worker.args.not_looked_at)}", "dim")
    console.print()


def _show_workers(console: Console, result: HostPlan) -> None:
    """A line for each of many workers, and what is the matter with them."""
    from pytest_loadwire.planning.worker import span

    table = Table(title=f"{len(result.workers)} workers (--all for each)", title_justify="left")
    table.add_column("worker", style="bold")
    table.add_column("ranks", justify="right")
    for heading in ("KV events", "replay", "load", "HTTP"):
        table.add_column(heading)
    remarks: dict[Remark, list[str]] = {}
    for worker in result.workers:
        found = [worker.range_of(kind) for kind in ("kv", "replay", "load", "http")]
        cells = [span(ports.first, ports.last) if ports else "-" for ports in found]
        table.add_row(worker.args.name, str(worker.layout.dp_size), *cells)
        for remark in worker.remarks:
            remarks.setdefault(remark, []).append(worker.args.name)
    console.print(table)
    for remark, names in remarks.items():
        who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        _say_remarks(console, [replace(remark, text=f"{who}: {remark.text}")])
    console.print()


def _say_remarks(console: Console, remarks: Iterable[Remark]) -> None:
    for remark in remarks:
        style = "bold red" if remark.level.is_bad else "yellow" * (remark.level == "warning")
        rule = f" ({remark.rule})" if remark.rule else ""
        say(console, f"{remark.level.upper()}  {remark.text}{rule}", style)


def _show_server_info(console: Console, worker: WorkerPlan) -> None:
    from pytest_loadwire.discovery import Plan

    say(console, f"/server_info  kv_events: {json.dumps(worker.block)}")
    if worker.replay_base is not None:
        key = f"replay_endpoint_port_base: {worker.replay_base}"
        say(console, f"              SGLang 0.5.23 adds {key}")
    if isinstance(worker.dials, Plan):
        first, last = worker.dials.endpoints[0].endpoint, worker.dials.endpoints[-1].endpoint
        upto = f" to {last.rpartition(':')[2]}" if last != first else ""
        say(console, f"a router dials {first}{upto}")
    else:
        say(console, f"a router dials nothing: {worker.dials.text}")


def _groups(worker: WorkerPlan, *, every_rank: bool) -> list[range]:
    """The ranks of each line: on this machine, and those before and behind."""
    size, local = worker.layout.dp_size, worker.local
    parts = [range(local.start), local, range(local.stop, size)] if local else [range(size)]
    if every_rank or size <= FEW_RANKS:
        return [range(rank, rank + 1) for part in parts for rank in part]
    return [part for part in parts if part]


def _row(worker: WorkerPlan, ranks: range) -> list[str]:
    from pytest_loadwire.planning.worker import span

    cells = [span(ranks[0], ranks[-1])]
    is_here = ranks[0] in worker.local
    for kind in ("kv", "replay", "load"):
        ports = worker.range_of(kind)
        cells.append(
            span(ports.base + ranks[0], ports.base + ranks[-1]) if ports and is_here else "-"
        )
    if not is_here:
        cells.append("another node")
    elif worker.range_of("kv") is None and worker.range_of("load") is None:
        cells.append("-")
    else:
        cells.append(worker.layout.publisher(ranks))
    return cells


def _show_together(console: Console, result: HostPlan, spacing: int | None) -> None:
    count = len(result.workers)
    _say_remarks(console, result.remarks)
    for collision in result.collisions[:MOST_FAILURES]:
        say(console, f"COLLIDES  {collision}", "bold red")
    if len(result.collisions) > MOST_FAILURES:
        console.print(f"... and {len(result.collisions) - MOST_FAILURES} more (see --json)")
    if result.spacing is not None:
        say(console, f"nearest spacing that works for workers alike: {result.spacing}")
    for move in result.moves[:MOST_FAILURES]:
        say(console, f"FREE  {move}")
    if len(result.moves) > MOST_FAILURES:
        console.print(f"... and {len(result.moves) - MOST_FAILURES} more (see --json)")
    if spacing is not None and count > 1:
        say(console, f"{count} workers, {spacing} ports apart")
    bad = sum(not worker.ok for worker in result.workers)
    load = sum(worker.range_of("load") is not None for worker in result.workers)
    of = f"{load} of {count} workers publish{'es' * (load == 1)} load"
    if count == 1:
        of = "load is published" if load else "no load is published"
    if result.ok:
        say(console, f"no collisions, {of}", "bold green")
    else:
        parts = []
        if bad:
            parts.append(f"{bad} of {count} cannot start or bind as told")
        if result.collisions:
            found = len(result.collisions)
            parts.append(f"{found} collision{'s' * (found != 1)}")
        say(console, ", ".join(parts), "bold red")
