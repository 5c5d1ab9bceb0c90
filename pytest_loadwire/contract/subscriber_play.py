"""Plays a timeline of ``readings.json`` on real sockets, event by event.

Where an event changes what is to be known, the play waits until it is known; meanwhile every view
has to be the one before or the one behind. Where it changes nothing, a sentinel shows that it went
by, and all has to be known as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_loadwire.contract.subscriber_watch import Broken, Watch
from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.judge import Finding
from pytest_loadwire.router.replay import expected_load
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors.readings import (
    Advertise,
    Receive,
    Remove,
    Restart,
    UnknownLoad,
    Withdraw,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_loadwire.contract.subscriber_watch import Known
    from pytest_loadwire.engine.fake_engine import FakeEngine
    from pytest_loadwire.vectors.readings import Event, ReadingStep, ReadingTimeline, View

_LET_GO_S = 0.5


class Play(Watch):
    """A `Watch` that lets the events of a timeline happen."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._engines: dict[str, FakeEngine] = {}
        self._advertised: dict[str, Advertise] = {}
        self._added: set[str] = set()
        self._known: dict[str, Known] = {}
        self._restarted: set[str] = set()
        self._insulted: set[str] = set()
        self._lost: dict[tuple[str, int], int] = {}
        self._room = 1

    def timeline(self, timeline: ReadingTimeline) -> None:
        """Play a timeline to its end.

        Raises:
            Broken: The subscriber knows something else than the timeline expects.
        """
        self._room = max(
            (
                step.happens.dp_size
                for step in timeline.steps
                if isinstance(step.happens, Advertise)
            ),
            default=1,
        )
        if self.clock is not None:
            self.clock.set(timeline.steps[0].time)
        try:
            self.watch_sentinel()
            self.rule = timeline.rule
            for step in timeline.steps:
                self._step(step)
        except DeadlineError as error:  # a send that found no room
            raise Broken(self.unread(error)) from error

    # One step of a timeline.

    def _step(self, step: ReadingStep) -> None:
        if self.clock is not None:
            self.clock.set(step.time)
        event = step.happens
        before = dict(self._known)
        self._known = {url: self._load(view) for url, view in step.expect.items()}
        frames = event.parts if isinstance(event, Receive) else ()
        again = self._happen(event, frames)
        changes = [url for url in self._known if before.get(url) != self._known[url]]
        # A view that does not change at an advertisement may still need time to come about.
        patience = self.patience
        if isinstance(event, Advertise | Withdraw):
            patience += self.rediscovers
        if changes:
            self._until_known(before, again, patience, frames)
        self._let_go(step)
        self.sentinel_passes()
        self.expect(self._real(self._known), frames)
        self._still_subscribed(frames)

    def _happen(self, event: Event, frames: Sequence[bytes]) -> Callable[[], object] | None:
        """Let an event happen, and say what to do again while it takes effect, if anything."""
        if isinstance(event, Advertise | Withdraw | Remove | Restart):
            # From here on a subscription may end for good reasons.
            ended = [key for key in self._lost if key[0] == event.worker]
            for key in ended:
                del self._lost[key]
        if isinstance(event, Advertise):
            self._advertise(event)
        elif isinstance(event, Withdraw):
            self._withdraw(event.worker)
        elif isinstance(event, Remove):
            self._added.discard(event.worker)
            self.call("remove_worker", self._engines[event.worker].url)
        elif isinstance(event, Restart):
            self._engines[event.worker].restart()
            self._restarted.add(event.worker)
        elif isinstance(event, Receive):
            return self._receive(event, frames)
        return None

    def _advertise(self, event: Advertise) -> None:
        worker, before = event.worker, self._advertised.get(event.worker)
        self._advertised[worker] = event
        engine = self._engines.get(worker)
        if engine is None:
            engine = self._engines[worker] = self.fleet.add_engine(event.dp_size, self._room)
        elif before is not None and before.base != event.base:
            engine.move()
        elif engine.dp_size != event.dp_size:
            engine.resize(event.dp_size)
        engine.advertised = True
        self._join(worker)
        self.wait_subscribed(engine, range(engine.dp_size), "C1")

    def _withdraw(self, worker: str) -> None:
        engine = self._engines.get(worker)
        if engine is None:
            engine = self._engines[worker] = self.fleet.add_engine(1, self._room)
        engine.advertised = False
        self._join(worker)

    def _join(self, worker: str) -> None:
        """Add the worker, or wait until the subscriber has asked again what it advertises."""
        engine = self._engines[worker]
        if worker not in self._added:
            self._added.add(worker)
            self.call("add_worker", engine.url)
            return
        # The first question may have been under way, the second one was not.
        asked = engine.asked + 2
        if not self.until(lambda: engine.asked >= asked, patience=2 * self.rediscovers + 1.0):
            raise Broken(
                Finding(
                    "refused",
                    self.rule,
                    f"to be asked what it advertises every {self.rediscovers:g} s",
                    "no question",
                    Hazard.STALE,
                )
            )

    def _receive(self, event: Receive, frames: Sequence[bytes]) -> Callable[[], object] | None:
        worker, rank = event.worker, event.rank
        engine = self._engines[worker]
        if rank >= engine.dp_size:
            return None  # its socket is closed: nothing can come from there
        if worker in self._added and engine.advertised:
            rule = "C7" if worker in self._restarted else "C5" if worker in self._insulted else "C1"
            self.wait_subscribed(engine, [rank], rule)
        if event.vector is not None:
            self._insulted.add(worker)
        if event.vector is not None and worker in self._added and engine.advertised:
            self._lost.setdefault((worker, rank), engine.lost_subscribers(rank))
        engine.send_frames(rank, frames)
        # An engine repeats itself every second, so a message that got lost is no failure (S2).
        return None if event.vector else lambda: engine.send_frames(rank, frames)

    def _until_known(
        self,
        before: Mapping[str, Known],
        again: Callable[[], object] | None,
        patience: float,
        frames: Sequence[bytes],
    ) -> None:
        """Wait until all is known as expected; whatever is seen on the way is that or `before`."""
        old, new = self._real(before), self._real(self._known)

        def arrived() -> bool:
            seen = self.look()
            done = True
            for url, load in new.items():
                finding = self.judge(load, seen.get(url))
                if finding is not None:
                    done = False
                    if self.judge(old.get(url), seen.get(url)) is not None:
                        raise Broken(finding, frames)
            return done

        if not self.until(arrived, again, patience):
            self.expect(new, frames)

    def _let_go(self, step: ReadingStep) -> None:
        """Behind a removal, give the subscriber a moment to close its sockets.

        It need not. But where it does, a subscription that is still there is not yet the new one.
        """
        if isinstance(step.happens, Remove | Withdraw):
            engine = self._engines[step.happens.worker]
            ranks = range(engine.dp_size)
            self.until(
                lambda: not any(engine.subscribers(rank) for rank in ranks), patience=_LET_GO_S
            )

    def _still_subscribed(self, frames: Sequence[bytes]) -> None:
        """Look at every rank that sent nonsense: a subscription that ended may show late."""
        for (worker, rank), lost in self._lost.items():
            if self._engines[worker].lost_subscribers(rank) > lost:
                raise Broken(
                    Finding(
                        "refused",
                        "C5",
                        "the subscription to stay up",
                        "it was closed behind a message that does not decode",
                        Hazard.STALE,
                    ),
                    frames,
                )

    def _real(self, known: Mapping[str, Known]) -> dict[str, Known]:
        """The same under the URLs of the fake engines."""
        return {self._engines[worker].url: load for worker, load in known.items()}

    def _load(self, view: View) -> Known:
        if isinstance(view, UnknownLoad):
            return None
        return self.restrict(expected_load(view, self._revision))
