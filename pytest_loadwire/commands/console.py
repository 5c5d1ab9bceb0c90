"""What the commands share: exit statuses, the shared options, and lines that are never cut."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

CONFORMS, BREAKS, NOTHING_CHECKED = 0, 1, 2
"""The exit statuses of every command. click gives the last for a wrong call as well."""

MOST_FAILURES = 20
"""So many failures are shown; ``--json`` has all of them."""


class Seconds(click.FloatRange):
    """A number of seconds: `nan`, which is in every range to click, and `inf` are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or a wrong call."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{seconds} is no number of seconds", param, ctx)
        return seconds


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
"""``--json``, which every command that checks something has."""

golden_option = click.option(
    "--golden",
    "root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another golden folder than that of this package.",
)
"""``--golden DIR``, for the commands that read vectors."""

timeout_option = click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds that one answer may take.",
)
"""``--timeout``, for the commands that ask a program."""

start_timeout_option = click.option(
    "--start-timeout",
    type=Seconds(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that its start may take, up to the greeting.",
)
"""``--start-timeout``, for the commands that start a testee."""


def print_json(result: Any) -> None:
    """Print a result for machines."""
    click.echo(json.dumps(result, indent=1))


def verbatim(text: str, style: str = "") -> Text:
    """Text without markup; what a terminal would obey is shown as an escape, but for line ends."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )
    return Text(shown, style=style)


def say(console: Console, text: str, style: str = "") -> None:
    """Print text as it is, however wide the terminal: what is cut cannot be searched or copied."""
    console.print(verbatim(text, style), soft_wrap=True)


def counted(number: int, what: str) -> str:
    """A number with what it counts, in the plural but for one: ``1 rank``, ``2 ranks``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def say_failures(console: Console, failures: list[Any]) -> None:
    """Print the first failures, and how many more there are."""
    for failure in failures[:MOST_FAILURES]:
        say(console, f"FAILED  {failure}", "red")
    if len(failures) > MOST_FAILURES:
        console.print(f"... and {len(failures) - MOST_FAILURES} more (see --json)")
