"""Watches a subscriber among fake engines: what it knows, and whether it keeps up.

Nothing tells when a foreign subscriber has read a message. So what is to change is waited for, and
where nothing is to change, two readings of a sentinel worker are sent behind, one after the other:
who shows the second has been through its sockets since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pytest_loadwire.deadline import Deadline, DeadlineError, poll
from pytest_loadwire.judge import Crashed, Deed, Finding, hazard_of
from pytest_loadwire.router.replay import show_load
from pytest_loadwire.rules import Hazard
from pytest_loadwire.wire import MAX_COUNT, LoadStat, field_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.engine.fake_engine import FakeEngine
    from pytest_loadwire.engine.fleet import Fleet
    from pytest_loadwire.harness.clock import VirtualClock

Known = Mapping[str, int] | None
"""A load, or None for unknown."""

_SEND_AGAIN_S = 0.25


class RouterSubscriber(Protocol):
    """What a router's subscriber has to be able to do."""

    def add_worker(self, url: str, /) -> object:
        """Begin to read a worker."""

    def remove_worker(self, url: str, /) -> object:
        """Forget a worker."""

    def view(self) -> Mapping[str, Any]:
        """What is known of each worker, None for unknown."""

    def close(self) -> object:
        """End."""


class Broken(Exception):  # noqa: N818 - it carries a finding, and is caught where it is judged
    """The subscriber does not keep the contract; ends a play."""

    def __init__(self, finding: Finding, frames: Sequence[bytes] = ()) -> None:
        super().__init__(finding)
        self.finding = finding
        self.frames = frames


class Watch:
    """One subscriber among fake engines.

    Args:
        subscriber: The subscriber under test.
        fleet: Where the engines come from.
        read: From what a view has for a worker to a load.
        revision: The newest revision that the subscriber reads.
        fields: The counts that it reports, or None for all of them.
        saturates: Whether its sums stop at 2^64-1.
        patience: Seconds in which it has to notice what it owes.
        rediscovers: Seconds in which it asks again what a worker advertises.
        clock: The clock that it ages readings by, or None where that is not in our hands.
    """

    def __init__(
        self,
        subscriber: RouterSubscriber,
        fleet: Fleet,
        *,
        read: Callable[[Any], Known],
        revision: int,
        fields: Sequence[str] | None,
        saturates: bool,
        patience: float,
        rediscovers: float | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self._subscriber = subscriber
        self.fleet = fleet
        self._read = read
        self._revision = revision
        self._fields = field_names(revision) if fields is None else tuple(fields)
        self._saturates = saturates
        self.patience = patience
        self.rediscovers = rediscovers or 0.0
        self.clock = clock
        self._sentinel: FakeEngine | None = None
        self._beats = 0
        self.rule = "C1"

    def watch_sentinel(self) -> None:
        """Have the subscriber read one plain worker, as it has to be able to.

        Raises:
            Broken: It does not.
        """
        self.rule = "C1"
        engine = self.fleet.add_engine(1)
        self.add(engine)
        self._sentinel = engine
        self.sentinel_passes(1)

    def add(self, engine: FakeEngine) -> None:
        """Add a worker, and wait until every rank of it is subscribed to."""
        self.call("add_worker", engine.url)
        self.wait_subscribed(engine, range(engine.dp_size), "C1")

    def sentinel_passes(self, times: int = 2) -> None:
        """Have so many readings of the sentinel seen, one behind the other."""
        engine = self._sentinel
        assert engine is not None  # `watch_sentinel` comes first
        name = next(name for name in self._fields if name != "attn_dp_rank")
        for _ in range(times):
            self._beats += 1
            values = {**dict.fromkeys(field_names(), 1), "attn_dp_rank": 0, name: self._beats}
            beat = partial(engine.send, 0, LoadStat(**values))

            def seen(count: int = self._beats) -> bool:
                load = self.look().get(engine.url)
                return load is not None and load.get(name) == count

            beat()
            if not self.until(seen, beat):
                got = self.look().get(engine.url)
                raise Broken(
                    Finding(
                        "refused",
                        self.rule,
                        f"{name}={self._beats} of a plain worker on port {engine.base}",
                        f"{show(got)}, after {self.patience:g} s",
                        Hazard.STALE,
                    )
                )

    def look(self) -> dict[str, Known]:
        """What the subscriber knows now, worker by worker.

        Raises:
            Broken: It failed to say.
        """
        seen = self.call("view")
        try:
            return {url: None if load is None else self._read(load) for url, load in seen.items()}
        except Exception as error:
            raise Broken(self._crash("a view", error)) from error

    def expect(self, expected: Mapping[str, Known], frames: Sequence[bytes] = ()) -> None:
        """Fail unless exactly this is known of these workers, now.

        Raises:
            Broken: Something else is.
        """
        seen = self.look()
        for url, load in expected.items():
            finding = self.judge(load, seen.get(url))
            if finding is not None:
                raise Broken(finding, frames)

    def judge(self, expected: Known, got: Known) -> Finding | None:
        """What is wrong with a load, or None."""
        if expected is None or got is None:
            if expected is None and got is None:
                return None
            invented = expected is None
            hazard = Hazard.ATTRACTS_ALL if invented else Hazard.NONE
            deed: Deed = "accepted" if invented else "refused"
            return Finding(deed, self.rule, show(expected), show(got), hazard)
        wrong = {
            name: f"{value} as {got.get(name)!r}"
            for name, value in expected.items()
            if type(got.get(name)) is not int or got[name] != value
        }
        surplus = [name for name in self._fields if name in got and name not in expected]
        wrong |= {name: f"nothing as {got[name]!r}" for name in surplus if name != "attn_dp_rank"}
        if not wrong:
            return None
        differs = ", ".join(f"{name} {reads}" for name, reads in wrong.items())
        return Finding(
            "wrong-value",
            self.rule,
            show(expected),
            f"{show(got)}: {differs}",
            hazard_of(dict(expected), got),
        )

    def restrict(self, load: Known) -> Known:
        """A load as this subscriber is to report it."""
        if load is None:
            return None
        values = {name: load[name] for name in self._fields if name in load}
        if self._saturates:
            values = {name: min(value, MAX_COUNT) for name, value in values.items()}
        return values

    def wait_for(self, expected: Mapping[str, Known]) -> None:
        """Wait until exactly this is known of these workers.

        Raises:
            Broken: Something else is, when patience ends.
        """

        def arrived() -> bool:
            seen = self.look()
            return all(self.judge(load, seen.get(url)) is None for url, load in expected.items())

        if not self.until(arrived):
            self.expect(expected)

    def wait_subscribed(self, engine: FakeEngine, ranks: Sequence[int], rule: str) -> None:
        """Wait until each of these ranks has a subscription; without one that rule is broken."""
        rank = 0
        try:
            for rank in ranks:
                engine.wait_for_subscribers(rank=rank, timeout=self.patience + self.rediscovers)
        except DeadlineError as error:
            host = "the host of the worker's URL, the port of its advertisement"
            expected = {
                "C1": f"a subscription to rank {rank} at port {engine.base + rank}: {host}",
                "C5": f"the subscription to rank {rank} to outlive a bad message",
                "C7": f"rank {rank} to be subscribed to again behind a restart",
            }[rule]
            raise Broken(Finding("refused", rule, expected, str(error), Hazard.NONE)) from error

    def until(
        self,
        arrived: Callable[[], bool],
        again: Callable[[], object] | None = None,
        patience: float | None = None,
        every: float = _SEND_AGAIN_S,
    ) -> bool:
        """Whether something came about in time.

        Args:
            arrived: Looks. A foreign subscriber does not tell of a change; it can only be asked.
            again: Called now and then meanwhile.
            patience: Seconds until it is given up; by default those of the contract.
            every: Seconds between two calls of ``again``.
        """
        next_try = Deadline(every)

        def look() -> bool:
            nonlocal next_try
            if arrived():
                return True
            if again is not None and not next_try.remaining:
                again()
                next_try = Deadline(every)
            return False

        return poll(look, Deadline(self.patience if patience is None else patience))

    def call(self, method: str, *arguments: str) -> Any:
        """Call the subscriber; what it raises is a finding."""
        try:
            return getattr(self._subscriber, method)(*arguments)
        except Exception as error:
            raise Broken(self._crash(f"{method}({', '.join(arguments)})", error)) from error

    def unread(self, error: DeadlineError) -> Finding:
        """What it means that a send found no room in time."""
        return Finding("refused", self.rule, "every message to be read", str(error), Hazard.STALE)

    def _crash(self, what: str, error: Exception) -> Finding:
        got = Crashed.of(error).text
        return Finding("crashed", self.rule, f"{what} to answer", got, Hazard.CRASH)


def show(load: Known) -> str:
    """A load in words."""
    return "unknown" if load is None else show_load(load)
