"""This package's own engine and router under its own vectors, with no test runner around.

Addresses are answered by `endpoints` and `discovery`, the cadence is kept by the publisher and the
loop of `engine`, judged as every engine is by the contract classes, and readings are kept by the
table of `router`. Sockets are stubs and time is a virtual clock, so that nothing waits.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_loadwire import wire
from pytest_loadwire.contract.engine import EngineContract
from pytest_loadwire.contract.publisher import PublisherContract
from pytest_loadwire.contract.scheduler import SchedulerContract
from pytest_loadwire.endpoints import Topology
from pytest_loadwire.engine.publisher import LoadPublisher, LoadSnapshot
from pytest_loadwire.engine.scheduler import Scheduler
from pytest_loadwire.errors import WireError
from pytest_loadwire.golden.address_proofs import judge_address
from pytest_loadwire.harness.capture import Capture
from pytest_loadwire.router.replay import replay
from pytest_loadwire.router.table import ReadingTable
from pytest_loadwire.vectors.addresses import AddressVector
from pytest_loadwire.vectors.readings import ReadingTimeline
from pytest_loadwire.vectors.timelines import (
    CadenceVector,
    NamedReading,
    PublisherTimeline,
    SchedulerTimeline,
    readings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_loadwire.judge import Finding
    from pytest_loadwire.vectors import Golden

BehaviourVector = AddressVector | CadenceVector | ReadingTimeline
"""A vector of what an engine or a router does; the others are about bytes."""

_ENGINE = "pytest_loadwire.engine"


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep to ourselves what a timeline makes the engine warn of. It is judged here."""
    logger, nobody = logging.getLogger(_ENGINE), logging.NullHandler()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(nobody)  # without any, Python would print the warning
    try:
        yield
    finally:
        logger.removeHandler(nobody)
        logger.propagate = propagated


class Reference:
    """This package under the vectors of one folder.

    Args:
        golden: The folder, whose timelines name its own readings.
    """

    def __init__(self, golden: Golden) -> None:
        self._named = readings(golden.cadence)

    def problems(self, vector: BehaviourVector) -> Iterator[str]:
        """What this package does otherwise than a vector asks for, each in one sentence."""
        try:
            if isinstance(vector, ReadingTimeline):
                yield from map(str, replay(vector, _table))
            elif isinstance(vector, NamedReading):
                yield from _misjudged(vector)
            elif isinstance(vector, PublisherTimeline | SchedulerTimeline):
                yield from self._broken(vector)
            else:
                finding = judge_address(vector)
                if finding is not None:
                    yield str(finding)
        except Exception as error:  # a vector that nobody can play is one that fails
            yield f"{type(error).__name__}: {error}"

    def _broken(self, timeline: PublisherTimeline | SchedulerTimeline) -> Iterator[str]:
        finding: Finding | None
        with _unheard(), Capture(_Publisher.open_socket) as capture:
            if isinstance(timeline, PublisherTimeline):
                finding, notes = _Publisher(self._named).judge_timeline(timeline, capture)
            else:
                finding, notes = _Scheduler(self._named).judge_timeline(timeline, capture)
        if finding is not None:
            yield "; ".join([str(finding), *(note.strip() for note in notes)])


@dataclass
class _Snapshot(LoadSnapshot):
    """A reading that says its own rank, which must not matter (rule P2)."""

    dp_rank: int = 0


class _Sink:
    def __init__(self, write: Callable[[object], None]) -> None:
        self.write = write


class _OldHook(Scheduler):
    """A loop whose publishing hook is from before the load socket, and returns nothing."""

    def publish_load_snapshot(self, force: bool = False) -> None:
        super().publish_load_snapshot(force)


class _Engine(EngineContract):
    open_socket = f"{_ENGINE}.publisher.open_pub_socket"
    clock = (f"{_ENGINE}.publisher", f"{_ENGINE}.scheduler")
    logger = _ENGINE
    snapshot = _Snapshot
    fields = {"num_tokens": "num_used_tokens", "attn_dp_rank": "dp_rank"}  # noqa: RUF012

    def __init__(self, named: Mapping[str, NamedReading]) -> None:
        self._named = named

    def reading(self, name: str) -> NamedReading:
        return self._named[name]


class _Publisher(_Engine, PublisherContract):
    def make_publisher(self, **config: Any) -> LoadPublisher:
        return LoadPublisher.from_config(**config)


class _Scheduler(_Engine, SchedulerContract):
    def make_scheduler(
        self,
        *,
        kind: type[Scheduler] = Scheduler,
        get_loads: Callable[[], object],
        write_snapshot: Callable[[object], None] | None,
        publish_interval: int,
        **config: Any,
    ) -> Scheduler:
        return kind(
            get_loads=get_loads,
            load_publisher=LoadPublisher.from_config(
                publish_interval=publish_interval, topology=Topology(), **config
            ),
            snapshot_sink=None if write_snapshot is None else _Sink(write_snapshot),
            publish_interval=publish_interval,
        )

    def make_scheduler_with_old_hook(self, **config: Any) -> Scheduler:
        return self.make_scheduler(kind=_OldHook, **config)


def _table(window: float, clock: Callable[[], float]) -> ReadingTable:
    return ReadingTable(window=window, clock=clock)


def _misjudged(reading: NamedReading) -> Iterator[str]:
    """A reading that a timeline can send is one that is encoded, and one of rule W5 is refused."""
    values: dict[str, Any] = {**reading.values, "attn_dp_rank": int(reading.rank)}
    names = wire.field_names()
    try:
        stat = wire.from_dict({name: values[name] for name in names}, revision=wire.LATEST)
        wire.verify(wire.encode(stat), revision=wire.LATEST)
    except WireError as refusal:
        if reading.rule != "W5":
            yield f"refuses it: {refusal}"
    else:
        if reading.rule == "W5":
            yield "encodes it, and should refuse"
