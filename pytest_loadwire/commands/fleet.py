"""``loadwire fleet``: fake engines to point a router at."""

from __future__ import annotations

import click

from pytest_loadwire.commands.console import Seconds

_count = click.IntRange(min=1)


@click.command()
@click.option("--scenario", default="steady", show_default=True, help="A name, or a file.")
@click.option("--workers", type=_count, default=1, show_default=True, help="How many engines.")
@click.option("--ranks", type=_count, default=1, show_default=True, help="Ranks of each.")
@click.option(
    "--seconds",
    type=Seconds(min=0),
    help="How long to run; by default until it is interrupted.",
)
def fleet(scenario: str, workers: int, ranks: int, seconds: float | None) -> None:
    """Run fake engines on loopback: /server_info, /health and a load socket per rank.

    Prints the URL of each engine, which is what a router adds. A file with a scenario is JSON,
    or TOML from Python 3.11 on.

    Scenarios: steady, ramp, burst, idle, stall, restart, outage, silent-rank, skewed,
    late-advertisement, dp-size, hostile.

    Exit status 0: it ran, and its time was over or it was interrupted. 2: a wrong call.

    \b
    Example:
      loadwire fleet --workers 2 --ranks 4
      loadwire fleet --scenario hostile --seconds 60
    """
    from pytest_loadwire.engine.fleet import Fleet, fleet_status
    from pytest_loadwire.errors import LoadwireError
    from pytest_loadwire.interrupt import Interrupt

    try:
        # As real engines do, these drop what a router does not read in time (rule S2).
        with (
            Interrupt() as stop,
            Fleet(scenario, workers=workers, ranks=ranks, sheds=True) as engines,
        ):
            for line in fleet_status(engines.engines):
                click.echo(line)
            engines.run(seconds, stop)
            click.echo(f"{engines.sent} messages in {engines.steps} steps")
    except LoadwireError as error:
        raise click.UsageError(str(error)) from error
