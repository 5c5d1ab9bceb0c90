"""What fake engines do over time, as data: a shape of load, and acts at given steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.wire import LATEST, REVISIONS, LoadStatRev1

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Shape = Literal["steady", "ramp", "burst", "idle"]
"""How busy an engine is: always the same, ever more, now and then very, not at all."""

Deed = Literal["restart", "stop", "start", "advertise", "withdraw", "resize", "silence", "speak"]


class Act(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something that happens to engines before the readings of a step go out.

    Attributes:
        step: The step, from 0.
        do: ``restart``: a new process on the same ports, sequences from 0. ``stop`` and ``start``:
            gone and back on the same ports. ``withdraw`` and ``advertise``: ``/server_info`` is
            without the load keys, and with them. ``resize``: back with ``dp_size`` ranks, on the
            same base. ``silence`` and ``speak``: nothing is published though the sockets are open,
            and again.
        workers: Indices of the engines; all of them by default.
        ranks: For silence and speak: which ranks; all of them by default.
        dp_size: For resize: how many ranks from now on.
    """

    step: int
    do: Deed
    workers: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None
    dp_size: int | None = None

    def __post_init__(self) -> None:
        if (self.do == "resize") != (self.dp_size is not None and self.dp_size >= 1):
            raise ValueError("resize, and it alone, has a dp_size of 1 or more")


class Scenario(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a fleet behaves, step by step.

    Attributes:
        name: What to call it.
        why: What it is for, in one sentence.
        shape: How busy the engines are.
        period: Seconds from one step to the next; every rank publishes once a step. More than one
            message a second, the heartbeat, keeps a silent second from passing for a stall.
        skew: How much busier each rank is than the one before, in multiples of rank 0.
        advertised: Whether ``/server_info`` has the load keys from the start.
        silent: Ranks that never publish.
        hostile: How many bad messages go out before each good one.
        revision: The revision of the payloads.
        acts: What happens, in any order.
        every: The acts begin anew every so many steps; 0 means that they happen once.
    """

    name: str
    why: str = ""
    shape: Shape = "steady"
    period: float = 0.5
    skew: int = 0
    advertised: bool = True
    silent: tuple[int, ...] = ()
    hostile: int = 0
    revision: int = LATEST
    acts: tuple[Act, ...] = ()
    every: int = 0

    def __post_init__(self) -> None:
        if not self.period > 0:
            raise ValueError(f"a period is more than 0 seconds, not {self.period!r}")
        if self.revision not in REVISIONS:
            raise ValueError(f"no revision {self.revision!r}; there are {list(REVISIONS)}")

    def acts_at(self, step: int) -> tuple[Act, ...]:
        """What happens before the readings of a step, in the order of the list."""
        at = step % self.every if self.every else step
        return tuple(act for act in self.acts if act.step == at)

    def most_ranks(self, ranks: int) -> int:
        """How many ranks an engine has at most, when it starts with ``ranks``."""
        return max([ranks, *(act.dp_size or 0 for act in self.acts)])

    def reading(self, rank: int, step: int) -> LoadStatRev1:
        """What a rank reads in a step."""
        level = {
            "steady": 8,
            "ramp": step,
            "burst": 64 if step % 8 in (3, 4) else 2,
            "idle": 0,
        }[self.shape] * (1 + self.skew * rank)
        values = {
            "num_running_reqs": level,
            "num_waiting_reqs": level // 2,
            "num_tokens": 128 * level,
            "max_total_num_tokens": 2**20,
            "attn_dp_rank": rank,
            "num_waiting_uncached_tokens": 16 * level,
            "num_total_tokens": 160 * level,
            "max_running_requests": 256,
            "total_prefill_uncached_tokens": 1024 * step,
            "total_prefill_busy_us": 4096 * step,
        }
        kind = REVISIONS[self.revision]
        return kind(**{name: values[name] for name in kind.__struct_fields__})


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("steady", "every rank says the same, as often as a busy engine does"),
        Scenario("ramp", "load grows with every step", shape="ramp"),
        Scenario("burst", "load jumps up for two of eight steps", shape="burst"),
        Scenario(
            "idle", "every count that may be 0 is 0: idle is known, not unknown", shape="idle"
        ),
        Scenario(
            "stall",
            "the engines fall silent with open sockets, for longer than any freshness window",
            acts=(Act(4, "silence"), Act(24, "speak")),
            every=40,
        ),
        Scenario(
            "restart",
            "the engines come back on the same ports, and their sequences start at 0",
            shape="ramp",
            acts=(Act(8, "restart"),),
            every=16,
        ),
        Scenario(
            "outage",
            "the first engine is gone for ten steps, and back on the same ports",
            acts=(Act(4, "stop", workers=(0,)), Act(14, "start", workers=(0,))),
            every=24,
        ),
        Scenario("silent-rank", "rank 0 never publishes, so no load is ever known", silent=(0,)),
        Scenario("skewed", "each rank is busier than the one before", skew=3),
        Scenario(
            "late-advertisement",
            "load is advertised only after four steps, as by an engine that still loads its model",
            advertised=False,
            acts=(Act(4, "advertise"),),
        ),
        Scenario(
            "dp-size",
            "the engines come back with three ranks, and then with two",
            acts=(Act(8, "resize", dp_size=3), Act(16, "resize", dp_size=2)),
            every=24,
        ),
        Scenario(
            "hostile",
            "every refused vector and broken frame, four before each good message",
            shape="ramp",
            period=0.05,
            hostile=4,
        ),
    )
}
"""The scenarios that come with the kit, by name."""


def load_scenario(source: str | Path) -> Scenario:
    """A scenario by its name, or from a JSON or TOML file (TOML from Python 3.11 on).

    Raises:
        LoadwireError: There is neither such a scenario nor such a file, or the file is no scenario.
    """
    from pathlib import Path  # noqa: PLC0415 - only here

    if str(source) in SCENARIOS:
        return SCENARIOS[str(source)]
    path = Path(source)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LoadwireError(
            f"{source}: no scenario of this name ({', '.join(SCENARIOS)}), and no file: "
            f"{error.strerror}"
        ) from error
    try:
        decode = msgspec.toml.decode if path.suffix == ".toml" else msgspec.json.decode
        return decode(content, type=Scenario)
    except (msgspec.MsgspecError, ImportError) as error:
        raise LoadwireError(f"{source}: {error}") from error
