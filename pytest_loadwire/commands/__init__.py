"""The commands of ``loadwire``, a module for each.

Thin on purpose: a command reads its arguments, calls one function of the library, and shows what it
says. Nothing but click and rich is imported before a command runs.
"""

from __future__ import annotations

import click

from pytest_loadwire import __version__
from pytest_loadwire.commands.breaking import breaking
from pytest_loadwire.commands.check import check
from pytest_loadwire.commands.explain import explain
from pytest_loadwire.commands.fleet import fleet
from pytest_loadwire.commands.golden import golden
from pytest_loadwire.commands.plan import plan
from pytest_loadwire.commands.report import report
from pytest_loadwire.commands.skew import skew
from pytest_loadwire.commands.tail import tail
from pytest_loadwire.commands.testee import testee


class _InOrder(click.Group):
    """A group whose help lists the commands as they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pytest-loadwire")
def loadwire() -> None:
    """The contract kit for SGLang's load socket."""


for _command in (explain, check, tail, testee, skew, breaking, report, fleet, plan, golden):
    loadwire.add_command(_command)
