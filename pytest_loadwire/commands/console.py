"""What the commands share: exit statuses, the shared options, and lines that are never cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

CONFORMS, BREAKS, NOTHING_CHECKED = 0, 1, 2
"""The exit statuses of every command. click gives the last for a wrong call as well."""

MOST_FAILURES = 20
"""So many failures are shown; ``--json`` has all of them."""

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
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds that one answer may take.",
)
"""``--timeout``, for the commands that ask a program."""

start_timeout_option = click.option(
    "--start-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that its start may take, up to the greeting.",
)
"""``--start-timeout``, for the commands that start a testee."""


def print_json(result: Any) -> None:
    """Print a result for machines."""
    click.echo(json.dumps(result, indent=1))


def say(console: Console, text: str, style: str = "") -> None:
    """Print text as it is, however wide the terminal: what is cut cannot be searched or copied."""
    console.print(Text(text, style=style), soft_wrap=True)


def say_failures(console: Console, failures: list[Any]) -> None:
    """Print the first failures, and how many more there are."""
    for failure in failures[:MOST_FAILURES]:
        say(console, f"FAILED  {failure}", "red")
    if len(failures) > MOST_FAILURES:
        console.print(f"... and {len(failures) - MOST_FAILURES} more (see --json)")
