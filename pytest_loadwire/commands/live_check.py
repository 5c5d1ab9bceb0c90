"""``loadwire check TARGET``: live load sockets, watched for a while and judged by rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_loadwire.commands.console import BREAKS, CONFORMS, print_json, say
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
        type=click.FloatRange(min=0, max=86_400),
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
    from pytest_loadwire.observe.target import TargetError, parse_target

    try:
        targets = [parse_target(text) for text in dict.fromkeys(texts)]
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
            say(Console(), f"{saved} vectors in {save}")
    raise SystemExit(CONFORMS if outcome.ok else BREAKS)


def _so_far(seen: Seen) -> str:
    ranks = seen.ranks
    if not ranks:
        return "asking what is advertised"
    heard = sum(rank.stream.good > 0 for rank in ranks)
    return (
        f"{seen.seconds:.0f} of {seen.asked_seconds:g} s, {seen.messages} messages, "
        f"{heard} of {len(ranks)} ranks heard"
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
    many = f"{len(one.ranks)} ranks" if len(one.ranks) > 1 else "1 rank"
    last = one.ranks[-1].endpoint.rpartition(":")[2]
    to = f" to {last}" if len(one.ranks) > 1 else ""
    where = f", {many} at {one.ranks[0].endpoint}{to}" if one.target.url else ""
    say(console, f"{one.target.text}{where}", "bold")
    table = Table()
    table.add_column("rank", justify="right", style="bold")
    table.add_column("port", justify="right")
    table.add_column("link")
    for name in ("rev", "msgs", "/s"):
        table.add_column(name, justify="right")
    table.add_column("sequence")
    table.add_column("last reading", overflow="ellipsis", no_wrap=True)
    shown = _rows(one, outcome)
    for rank in shown:
        table.add_row(*_row(rank))
    console.print(table)
    if len(shown) < len(one.ranks):
        console.print(
            f"... and {len(one.ranks) - len(shown)} more ranks; {one.heard} of "
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


def _row(rank: RankSeen) -> list[str | Text]:
    stream = rank.stream
    missing = f", {stream.missing} missing" if stream.missing else ""
    again = f", {stream.restarts} restarts" if stream.restarts else ""
    sequence = "" if stream.first is None else f"{stream.first} to {stream.last}{missing}{again}"
    return [
        rank.name,
        rank.endpoint.rpartition(":")[2],
        Text(_LINKS[rank.link.state], style="" if stream.good else "bold red"),
        "+".join(map(str, sorted(stream.revisions))) or "-",
        str(stream.count),
        f"{stream.rate:.1f}" if stream.rate else "-",
        sequence or "-",
        _reading(stream.reading),
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
    say(console, f"{indent}{finding.rule} asks: {RULES[finding.rule]}", "dim")
    if finding.count:
        number = "" if finding.sequence is None else f", the first with sequence {finding.sequence}"
        many = "1 message" if finding.count == 1 else f"{finding.count} messages"
        say(console, f"{indent}{many}{number}, at {finding.endpoint}", "dim")
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
        f"{heard} of {len(seen.ranks)} ranks heard, {seen.messages} messages in "
        f"{seen.seconds:.1f} s{ended}; {_counted(counts)}",
    )
    if outcome.ok:
        say(console, "it conforms", "bold green")
    elif not seen.messages:
        say(console, "silent: a router knows no load here", "bold red")
    else:
        say(console, "it does not conform", "bold red")


def _counted(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for level, n in counts.items())
