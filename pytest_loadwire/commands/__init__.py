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
    """The contract kit for SGLang's load socket.

    Exit status of every command that checks something: 0 conforming, 1 not, 2 a wrong call or
    nothing to check.

    \b
    Example:
      loadwire check http://10.0.0.5:30000
    """


# In the order of the help, where click would cut the first sentence of each.
for _command, _summary in (
    (explain, "Say what a captured payload or message is, by rule."),
    (check, "Prove the vectors, or judge live load sockets."),
    (tail, "Watch the load of workers as a router sees it."),
    (testee, "Hold a decoder in any language to the vectors."),
    (skew, "Say who may upgrade first, engines or routers."),
    (breaking, "Say what a change of the contract breaks."),
    (report, "Merge results into one page, rule by implementation."),
    (fleet, "Run fake engines on loopback for a router."),
    (plan, "Find collisions of ports before anything is started."),
    (golden, "Regenerate, compare or release the vectors."),
):
    _command.short_help = _summary
    loadwire.add_command(_command)
