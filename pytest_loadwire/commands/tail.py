"""``loadwire tail``: what routers know of workers, as it changes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

import click

from pytest_loadwire.commands.console import BREAKS, CONFORMS, Seconds, counted, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from pytest_loadwire.interrupt import Interrupt
    from pytest_loadwire.tail import Arrival, Tail
    from pytest_loadwire.tail_state import Snapshot
    from pytest_loadwire.target import Target

FASTEST_S = 0.25
"""Seconds between two pictures at the least: who reads numbers gains nothing by more."""

MOST_UNWRITTEN = 20_000
"""So many messages wait for whoever reads the JSON lines; what comes beyond is counted only."""

_DRAIN_S = 0.05
_LOOK_S = 1.0
_BELOW = 4
_MOST_REASONS = 3
_KNOWN = "load known"
_LAST_LINE_S = 1.0


@click.command()
@click.option(
    "--seconds",
    type=Seconds(min=0),
    help="How long to watch; by default until it is interrupted.",
)
@click.option(
    "--interval",
    type=Seconds(min=FASTEST_S),
    default=0.5,
    show_default=True,
    help="Seconds between two pictures of the table.",
)
@click.option(
    "--window",
    type=Seconds(min=1, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds for which a reading is fresh, and over which rates are taken.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="JSON lines on a terminal as well: one per message."
)
@click.argument("targets", metavar="TARGET...", nargs=-1)
def tail(
    targets: tuple[str, ...], seconds: float | None, interval: float, window: float, as_json: bool
) -> None:
    """Watch the load of workers as a router sees it.

    A TARGET is a worker's URL, whose /server_info says where its load is, or tcp://host:port of
    one load socket. On a terminal this is a live table, a row per worker and rank, until Ctrl-C;
    else one JSON line per message, the refused ones too. It subscribes to the topic load only, as
    a router does: a socket that sends other streams alone, such as KV events, reads as silent.

    States: fresh; waiting (nothing came yet, and the first message may still be on its way); stale
    (older than the window); silent (nothing that can be read came); refused (a message was refused
    within the window). A worker is unknown where it gives no ranks to listen to: it does not
    answer, or advertises no load.

    The rank of a tcp:// target is -, as nobody says which it is. A rev of 1+3 is revision 1 with 3
    elements behind it. lost are messages that gaps in the sequence stand for, rst restarts of the
    engine; both are legal. On a narrow terminal these columns go first, in this order: tokens,
    refused, rev, rst, lost, rate. Where rows do not fit, trouble is shown first.

    Exit status 0: readings came, and none was refused. 1: some were refused, or none came, or the
    lines could not be written. 2: a wrong call.

    \b
    Example:
      loadwire tail http://10.0.0.5:30000 http://10.0.0.6:30000
      loadwire tail tcp://10.0.0.5:5558 --seconds 10 | jq .load.num_running_reqs
    """
    from pytest_loadwire.interrupt import Interrupt
    from pytest_loadwire.tail import Tail
    from pytest_loadwire.target import TargetError, parse_target

    if not targets:
        raise click.UsageError(
            "a target is missing: loadwire tail http://10.0.0.5:30000, or tcp://10.0.0.5:5558"
        )
    try:
        watched = [parse_target(text) for text in targets]
    except TargetError as error:
        raise click.UsageError(str(error)) from error
    lines = as_json or not _is_terminal()
    with Interrupt() as stop:
        if lines:
            result = _write_lines(watched, window, seconds, stop)
        else:
            with Tail(watched, window=window) as tailed:
                result = _draw(tailed, seconds, interval, stop)
    raise SystemExit(result)


def _is_terminal() -> bool:
    """Whether the output is a terminal whose cursor can be moved."""
    if sys.stdout is None or not sys.stdout.isatty():  # None: it was closed by who started this
        return False
    return os.environ.get("TERM", "dumb").lower() not in ("dumb", "unknown")


def _verdict(tailed: Tail, console: Console) -> int:
    """Say how it went, and the exit status."""
    refused = tailed.refused
    if refused:
        of = tailed.readings + refused.total()
        most = refused.most_common(_MOST_REASONS)
        by = ", ".join(f"{count} {what}" for what, count in most)
        if rest := refused.total() - sum(count for _, count in most):
            by += f" and {rest} more"
        were = "was" if of == 1 else "were"
        text = f"{refused.total()} of {counted(of, 'message')} {were} refused: {by}"
        say(console, text, "bold red")
    elif not tailed.readings:
        say(console, "no reading came; loadwire check TARGET looks for the cause", "bold red")
    else:
        say(console, f"{counted(tailed.readings, 'reading')}, none refused", "bold green")
    return _status(tailed)


def _status(tailed: Tail) -> int:
    return BREAKS if tailed.refused or not tailed.readings else CONFORMS


# A live table.


def _draw(tailed: Tail, seconds: float | None, interval: float, stop: Interrupt) -> int:
    from rich.console import Console
    from rich.live import Live

    from pytest_loadwire.commands.tail_view import can_draw, tail_view

    console = Console()
    drawn = can_draw(console.encoding)
    end = None if seconds is None else time.monotonic() + seconds

    # On the other screen of the terminal, where a change of its size leaves nothing behind.
    with Live(
        console=console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as live:
        while True:
            live.update(tail_view(tailed.snapshot(), *console.size, drawn=drawn), refresh=True)
            left = interval if end is None else min(interval, end - time.monotonic())
            if left <= 0 or stop.wait(left):
                break
    # What was seen last stays, with the verdict and the prompt below it.
    width, height = console.size
    console.print(tail_view(tailed.snapshot(), width, height - _BELOW, drawn=drawn, ended=True))
    return _verdict(tailed, console)


# JSON lines.


def _write_lines(
    targets: Sequence[Target], window: float, seconds: float | None, stop: Interrupt
) -> int:
    from rich.console import Console

    from pytest_loadwire.tail import Tail

    progress = Console(stderr=True)
    arrived: deque[Arrival] = deque()
    missed = 0

    def keep(arrival: Arrival) -> None:
        nonlocal missed
        if len(arrived) < MOST_UNWRITTEN:
            arrived.append(arrival)
        else:
            missed += 1

    def write() -> None:
        for _ in range(len(arrived)):
            output.write(json.dumps(arrived.popleft().to_json()))

    end = None if seconds is None else time.monotonic() + seconds
    output = _Output(stop)
    told: dict[str, str] = {}
    look = 0.0
    with Tail(targets, window=window, on_arrival=keep) as tailed:
        over = False
        while not over and not output.is_closed():
            left = _DRAIN_S if end is None else min(_DRAIN_S, end - time.monotonic())
            over = stop.wait(max(0.0, left)) or left <= 0
            write()
            if not output.is_closed() and (over or time.monotonic() >= look):
                look = time.monotonic() + _LOOK_S
                _tell(tailed.snapshot(), told, progress, over=over)
    write()  # what came until it was closed is counted, and so has a line
    if missed:
        were = "is not shown: it was" if missed == 1 else "are not shown: they were"
        say(progress, f"{counted(missed, 'message')} {were} not read in time", "yellow")
    return _status(tailed) if output.is_closed() else _verdict(tailed, progress)


def _tell(snapshot: Snapshot, told: dict[str, str], console: Console, *, over: bool) -> None:
    """Say of each worker why its load is unknown, once for each reason, and when that is over.

    What else is wrong with a rank, and refuses nothing, is said at the end.
    """
    for row in snapshot.workers:
        if row.waiting and not over:
            continue
        text = f"load unknown: {row.why}" if row.why else row.trouble or _KNOWN
        if told.get(row.worker, _KNOWN) != text:
            told[row.worker] = text
            say(console, f"{row.worker}: {text}", "yellow" if row.why or row.trouble else "dim")
    for rank in snapshot.ranks if over else ():
        if rank.note:
            say(console, f"{rank.who}: {rank.note}", "yellow")


class _Output:
    """Standard output, line by line. What reads it may be slow, or go away at any time."""

    def __init__(self, stop: Interrupt) -> None:
        self._stop = stop
        self._broken = False
        self._poll = select.poll()
        self._fd: int | None = None
        try:
            self._fd = sys.stdout.fileno()
        except (AttributeError, OSError):  # not a file, as in a test
            return
        self._poll.register(self._fd, 0)  # which reports no more than that the other end is gone

    def is_closed(self) -> bool:
        """Whether nobody reads it any more."""
        gone = select.POLLERR | select.POLLHUP
        self._broken = self._broken or any(event & gone for _, event in self._poll.poll(0))
        return self._broken

    def write(self, line: str) -> None:
        """Write one line, waiting for whoever reads, but not for long after an interrupt."""
        if self._fd is None:
            click.echo(line)
            return
        left = memoryview(f"{line}\n".encode())
        patience = _LAST_LINE_S
        while left and not self._broken:
            # So much a pipe that is ready takes without waiting.
            if select.select([], [self._fd], [], _DRAIN_S)[1]:
                with contextlib.suppress(BlockingIOError):
                    try:
                        left = left[os.write(self._fd, left[: select.PIPE_BUF]) :]
                    except BrokenPipeError:
                        self._broken = True
                    except BlockingIOError:
                        raise
                    except OSError as error:  # a full disk
                        said = error.strerror or error
                        raise click.ClickException(f"cannot write the lines: {said}") from error
            elif self._stop.is_set():
                patience -= _DRAIN_S
                self._broken = patience <= 0
