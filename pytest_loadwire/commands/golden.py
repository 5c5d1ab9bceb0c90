"""``loadwire golden``: the regeneration script."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def golden(arguments: tuple[str, ...]) -> None:
    """Regenerate, compare or release the vectors.

    The same as python -m pytest_loadwire.golden.

    \b
    Example:
      loadwire golden --check
      loadwire golden --write
    """
    from pytest_loadwire.golden.__main__ import main as regenerate

    raise SystemExit(regenerate(arguments, prog="loadwire golden"))
