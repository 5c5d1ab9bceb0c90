"""``loadwire check TARGET``: live load sockets, watched for a while and judged by rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import BREAKS, CONFORMS, Seconds, counted, print_json, say
from pytest_loadwire.rules import HAZARD_TEXT, RULES, Hazard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from pytest_loadwire.observe.diagnosis import Diagnosis
    from pytest_loadwire.observe.findings import Finding
    from pytest_loadwire.observe.outcome import Outcome
    from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen

MOST_ROWS = 16
"""So many ranks of a target that are well have a row; ``--json`` has all of them."""

MOST_TROUBLED = 32
"""So many of the others have one."""

MOST_EVIDENCE = 20
"""So many lines of an annotated message are shown."""

DROPPED = ("last reading", "/s", "sequence", "rev")
"""The columns that go where a terminal is narrower than 80 columns, the first one first."""

_COLUMNS = ("rank", "port", "link", "rev", "msgs", "/s", "sequence", "last reading")
_LEFT = ("link", "sequence", "last reading")
_BORDER = 3  # a line and a blank on either side
_NARROW = 80

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "cyan"}

_LINKS = {
    "connected": "up",
    "lost": "lost",
    "no handshake": "no ZMTP",
    "refused": "refused",
    "no connection": "none",
}

_OPTIONS = (
    click.option(
        "--seconds",
        type=Seconds(min=0, max=86_400),
        default=6.0,
        show_default=True,
        help="How long to watch; longer than the 5 s for which a router calls a reading fresh.",
    ),
    click.option("--strict", is_flag=True, help="Let warnings count as well."),
    click.option(
        "--revision",
        type=click.IntRange(1, 2),
        help="The revision that the engines should send; by default whichever they do.",
    ),
    click.option(
        "--junit",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the results as JUnit XML, a case for each rule and rank.",
    ),
    click.option(
        "--save",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Keep messages of every shape as vectors, in the form of golden/frames.json.",
    ),
)


def live_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that are for live sockets alone."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_live(
    texts: Sequence[str],
    *,
    seconds: float,
    strict: bool,
    revision: int | None,
    junit: Path | None,
    save: Path | None,
    as_json: bool,
) -> NoReturn:
    """Watch some targets, show what was found, and end with the exit status."""
    from pytest_loadwire.errors import LoadwireError
    from pytest_loadwire.interrupt import Interrupt
    from pytest_loadwire.observe.outcome import Outcome
    from pytest_loadwire.observe.tap import watch
    from pytest_loadwire.target import TargetError, parse_target

    try:
        targets = list(dict.fromkeys(parse_target(text) for text in texts))
    except TargetError as error:
        raise click.UsageError(str(error)) from error
    for file in (junit, save):
        if file is not None and not file.absolute().parent.is_dir():
            raise click.UsageError(f"there is no folder for {file}")
    progress = Console(stderr=True)
    try:
        with Interrupt() as stop, progress.status("asking", spinner="line") as status:
            seen = watch(
                targets,
                seconds=seconds,
                revision=revision,
                stop=stop.is_set,
                progress=lambda so_far: status.update(_so_far(so_far)),
            )
    except LoadwireError as error:
        raise click.UsageError(str(error)) from error
    outcome = Outcome.of(seen, strict=strict)
    saved = _write(outcome, junit, save)
    if as_json:
        print_json({**outcome.to_json(), "saved": saved})
    else:
        _show(outcome)
        if saved is not None:
            say(Console(), f"{counted(saved, 'vector')} in {save}")
    raise SystemExit(CONFORMS if outcome.ok else BREAKS)


def _so_far(seen: Seen) -> str:
    ranks = seen.ranks
    if not ranks:
        return "asking what is advertised"
    heard = sum(rank.stream.good > 0 for rank in ranks)
    return (
        f"{seen.seconds:.0f} of {seen.asked_seconds:g} s, {counted(seen.messages, 'message')}, "
        f"{heard} of {counted(len(ranks), 'rank')} heard"
    )


def _write(outcome: Outcome, junit: Path | None, save: Path | None) -> int | None:
    """Write the files that were asked for, and return how many vectors one has."""
    from pytest_loadwire.observe.keep import save as save_vectors

    try:
        if junit is not None:
            from pytest_loadwire.commands.junit import Case, write_junit

            write_junit(junit, "loadwire check", (Case(*case) for case in outcome.checked()))
        return None if save is None else save_vectors(save, outcome.seen)
    except OSError as error:
        raise click.UsageError(f"cannot write {error.filename}: {error.strerror}") from error


def _show(outcome: Outcome) -> None:
    console = Console()
    for one in outcome.seen.targets:
        _show_target(console, one, outcome)
    if outcome.findings:
        console.print()
    for finding in outcome.findings:
        _show_finding(console, finding, several=len(outcome.seen.targets) > 1)
    for diagnosis in outcome.diagnoses:
        _show_diagnosis(console, diagnosis)
    _show_verdict(console, outcome)


def _show_target(console: Console, one: TargetSeen, outcome: Outcome) -> None:
    if not one.ranks:
        say(console, f"{one.target.text}: no load socket to watch", "bold")
        return
    many = counted(len(one.ranks), "rank")
    last = one.ranks[-1].endpoint.rpartition(":")[2]
    to = f" to {last}" if len(one.ranks) > 1 else ""
    where = f", {many} at {one.ranks[0].endpoint}{to}" if one.target.url else ""
    say(console, f"{one.target.text}{where}", "bold")
    shown = _rows(one, outcome)
    console.print(_table([_row(rank) for rank in shown], console.width))
    if len(shown) < len(one.ranks):
        console.print(
            f"... and {counted(len(one.ranks) - len(shown), 'more rank')}; {one.heard} of "
            f"{len(one.ranks)} were heard (see --json)"
        )


def _rows(one: TargetSeen, outcome: Outcome) -> list[RankSeen]:
    """The ranks to show: the first few, and the first few that something is wrong with."""
    wrong = {
        number
        for finding in outcome.findings
        if finding.target == one.target.text and finding.level != "note"
        for number in finding.ranks
    }
    troubled = [r.rank for r in one.ranks if r.rank in wrong or not r.stream.good]
    keep = set(troubled[:MOST_TROUBLED])
    return [r for place, r in enumerate(one.ranks) if place < MOST_ROWS or r.rank in keep]


def _table(rows: Sequence[Sequence[Text]], width: int) -> Table:
    """The rows, with as many of the columns as fit where the terminal is narrow."""
    widths = {
        name: max(len(name), *(row[place].cell_len for row in rows)) + _BORDER
        for place, name in enumerate(_COLUMNS)
    }
    kept = list(_COLUMNS)
    for name in DROPPED if width < _NARROW else ():
        if sum(widths[name] for name in kept) + 1 > width:
            kept.remove(name)
    table = Table()
    for name in kept:
        last = name == _COLUMNS[-1]
        others = sum(widths[other] for other in kept if other != name)
        room = width - 1 - others - _BORDER
        own = widths[name] - _BORDER
        table.add_column(
            name,
            justify="left" if name in _LEFT else "right",
            style="bold" if name == _COLUMNS[0] else "",
            overflow="ellipsis" if last else "fold",
            no_wrap=last,
            # The reading is shortened, so that a sequence is not split over two rows.
            width=min(own, max(len(name), room)) if last else None,
        )
    for row in rows:
        table.add_row(*(cell for name, cell in zip(_COLUMNS, row, strict=True) if name in kept))
    return table


def _row(rank: RankSeen) -> list[Text]:
    from pytest_loadwire.observe.elements import revision_text

    stream = rank.stream
    missing = f", {stream.missing} missing" if stream.missing else ""
    again = f", {counted(stream.restarts, 'restart')}" if stream.restarts else ""
    sequence = "" if stream.first is None else f"{stream.first} to {stream.last}{missing}{again}"
    return [
        Text(rank.name),
        Text(rank.endpoint.rpartition(":")[2]),
        Text(_LINKS[rank.link.state], style="" if stream.good else "bold red"),
        Text(", ".join(map(revision_text, sorted(stream.lengths))) or "-"),
        Text(str(stream.count)),
        Text(f"{stream.rate:.1f}" if stream.rate else "-"),
        Text(sequence or "-"),
        Text(_reading(stream.reading)),
    ]


def _reading(reading: Mapping[str, int | None] | None) -> str:
    if reading is None:
        return "-"
    tokens, capacity = reading.get("num_tokens") or 0, reading.get("max_total_num_tokens") or 0
    used = f"{100 * tokens / capacity:.1f}% KV" if capacity else f"{tokens} tokens"
    return f"{reading.get('num_running_reqs')} run {reading.get('num_waiting_reqs')} wait {used}"


def _show_finding(console: Console, finding: Finding, *, several: bool) -> None:
    from pytest_loadwire.observe.findings import ranks_text

    about = [finding.target] if several else []
    if finding.ranks:
        about.append(ranks_text(finding.ranks))
    where = f"{', '.join(about)}: " if about else ""
    say(
        console,
        f"{finding.level.upper():<8} {finding.rule:<3} {where}{finding.text}",
        _STYLES[finding.level],
    )
    indent = " " * 13
    if not finding.is_unanswered:
        say(console, f"{indent}{finding.rule} asks: {RULES[finding.rule]}", "dim")
    if finding.count:
        number = "" if finding.sequence is None else f", the first with sequence {finding.sequence}"
        many = counted(finding.count, "message")
        say(console, f"{indent}{many}{number}, at {finding.endpoint}", "dim")
    if finding.likely:
        say(console, f"{indent}likely:     {finding.likely}")
        say(console, f"{indent}what to do: {finding.remedy}")
    if finding.hazard is not Hazard.NONE:
        say(console, f"{indent}if a router believes it: {HAZARD_TEXT[finding.hazard]}", "dim")
    for line in finding.evidence[:MOST_EVIDENCE]:
        say(console, f"{indent}{line}")
    if len(finding.evidence) > MOST_EVIDENCE:
        say(console, f"{indent}... (see --json)")


def _show_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    from pytest_loadwire.observe.findings import ranks_text

    about = ranks_text(diagnosis.ranks) + ", " if diagnosis.ranks else ""
    where = f"{about}{diagnosis.endpoint or diagnosis.target}"
    console.print()
    say(console, f"DIAGNOSIS  {where}: {diagnosis.symptom}", "bold")
    say(console, "likely causes, the likeliest first:")
    for place, cause in enumerate(diagnosis.causes, 1):
        say(console, f"  {place}. {cause.text}", "bold")
        say(console, f"     to make sure: {cause.sure}")
        say(console, f"     what to do:   {cause.remedy}")


def _show_verdict(console: Console, outcome: Outcome) -> None:
    seen, counts = outcome.seen, outcome.counts
    heard = sum(one.heard for one in seen.targets)
    console.print()
    ended = {
        "time": "",
        "interrupted": " (interrupted)",
        "nothing-can-come": " (ended early: nothing can come)",
    }[seen.ended]
    say(
        console,
        f"{heard} of {counted(len(seen.ranks), 'rank')} heard, "
        f"{counted(seen.messages, 'message')} in {seen.seconds:.1f} s{ended}; {_levels(counts)}",
    )
    if outcome.ok:
        say(console, "it conforms", "bold green")
    elif not seen.messages:
        say(console, "silent: a router knows no load here", "bold red")
    else:
        say(console, "it does not conform", "bold red")


def _levels(counts: Mapping[str, Any]) -> str:
    return ", ".join(counted(n, level) for level, n in counts.items())
