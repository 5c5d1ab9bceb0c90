"""Plays the timelines of ``readings.json`` on a table, on a clock of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_loadwire.vectors.readings import (
    Advertise,
    KnownLoad,
    Receive,
    Remove,
    Withdraw,
)
from pytest_loadwire.wire import LATEST, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_loadwire.router.table import WorkerView
    from pytest_loadwire.vectors.readings import Event, ReadingTimeline, View


class Table(Protocol):
    """What a table of readings does; `ReadingTable` says what each of it means."""

    def add(self, worker: str) -> object:
        """A worker joins."""

    def advertise(self, worker: str, places: Sequence[int], /) -> object:
        """It advertises one port per rank."""

    def withdraw(self, worker: str) -> object:
        """It advertises no load."""

    def remove(self, worker: str) -> object:
        """It is gone."""

    def receive(self, worker: str, rank: int, frames: Sequence[bytes]) -> object:
        """A message came on the socket of a rank."""

    def view(self, worker: str) -> WorkerView:
        """What is known of it now."""


class Difference(NamedTuple):
    """One view that is not what the timeline expects.

    Attributes:
        step: The index of the step.
        at: Its time.
        worker: The worker.
        expected: The view that is expected.
        got: The view that the table has, or how it failed.
    """

    step: int
    at: str
    worker: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"step {self.step} at {self.at}, {self.worker}: {self.expected}, got {self.got}"


def replay(
    timeline: ReadingTimeline,
    make: Callable[[float, Callable[[], float]], Table],
    *,
    revision: int = LATEST,
) -> Iterator[Difference]:
    """Every difference between what a table knows and what a timeline expects.

    Args:
        timeline: The timeline.
        make: Makes a table from the window in seconds and a monotonic clock.
        revision: The newest revision that the table reads.
    """
    now = timeline.steps[0].time
    table = make(float(timeline.window), lambda: now)
    for index, step in enumerate(timeline.steps):
        now = step.time
        try:
            _apply(table, step.happens)
            views = {worker: shown_view(table.view(worker), revision) for worker in step.expect}
        except Exception as error:
            worker = next(iter(step.expect))
            yield Difference(index, step.at, worker, "a view", f"{type(error).__name__}: {error}")
            return
        for worker, view in step.expect.items():
            expected = shown(view, revision)
            if views[worker] != expected:
                yield Difference(index, step.at, worker, expected, views[worker])


def expected_load(view: View, revision: int = LATEST) -> Mapping[str, int] | None:
    """The load that a reader of ``revision`` is to know, or None."""
    if not isinstance(view, KnownLoad):
        return None
    names = field_names(revision)
    return {name: value for name, value in view.values.items() if name in names}


def shown(view: View, revision: int = LATEST) -> str:
    """A view of a timeline in the words of `WorkerView`."""
    if isinstance(view, KnownLoad):
        return show_load(expected_load(view, revision) or {})
    blamed = f" ({', '.join(map(str, view.ranks))})" if view.ranks else ""
    return f"unknown: {view.reason}{blamed}"


def shown_view(view: WorkerView, revision: int = LATEST) -> str:
    """A table's view in the same words, fields in the order of the contract."""
    if view.load is None:
        return str(view)
    order = {name: index for index, name in enumerate(field_names(revision))}
    return show_load(dict(sorted(view.load.items(), key=lambda item: order.get(item[0], 99))))


def show_load(load: Mapping[str, object]) -> str:
    """A load in one line; a value that is no int shows what it is."""
    return ", ".join(
        f"{name}={value if type(value) is int else repr(value)}" for name, value in load.items()
    )


def _apply(table: Table, event: Event) -> None:
    if isinstance(event, Advertise):
        table.add(event.worker)
        table.advertise(event.worker, range(event.base, event.base + event.dp_size))
    elif isinstance(event, Withdraw):
        table.add(event.worker)
        table.withdraw(event.worker)
    elif isinstance(event, Remove):
        table.remove(event.worker)
    elif isinstance(event, Receive):
        table.receive(event.worker, event.rank, event.parts)
