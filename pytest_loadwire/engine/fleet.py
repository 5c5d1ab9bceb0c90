"""Fake engines on loopback: a real ``/server_info`` and a real load socket per rank, any number.

All of them live in one process: one zmq context, one thread that answers HTTP, and none that
publishes, since a test steps the fleet, and `Fleet.run` steps it on a clock. The load sockets are
XPUB: the same bytes on the wire as PUB, but they tell which subscriptions are in place.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline
from pytest_loadwire.engine.fake_engine import FakeEngine
from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.engine.load_ports import LoadPorts, allow_open_files
from pytest_loadwire.engine.scenario import Act, Scenario, load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pytest_loadwire.interrupt import Interrupt


class Fleet(Closing):
    """Fake engines, driven by a scenario.

    Args:
        scenario: A `Scenario`, the name of one that comes with the kit, or a file with one.
        workers: How many engines there are to begin with.
        ranks: How many ranks each of them has.
        clock: A monotonic clock in seconds, for `catch_up` and `run`.
        sheds: Whether a load socket drops messages at its high-water mark, as an engine's does
            (rule S2), instead of waiting for room so that a test sees the same each time.
        kv_host: The host in the KV endpoint of the advertisement. No load is published there.
        timeout: Seconds that each wait may take unless the call says otherwise.

    Attributes:
        scenario: What happens.
        engines: The engines, in the order in which they were added.
        steps: How many steps are done.
        sent: How many messages went out in them.
        bad: The bad messages that a hostile scenario goes through, over and over.

    Raises:
        LoadwireError: There is no such scenario, or there are no ports for it.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        scenario: Scenario | str | Path = "steady",
        *,
        workers: int = 1,
        ranks: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sheds: bool = False,
        kv_host: str = "127.0.0.2",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if workers < 0 or ranks < 1:
            raise ValueError(
                f"a fleet has 0 workers or more of 1 rank or more, not {workers}x{ranks}"
            )
        self.scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self.timeout = timeout
        self.steps = 0
        self.sent = 0
        self.engines: list[FakeEngine] = []
        self._ranks = ranks
        self._kv_host = kv_host
        self._clock = clock
        self._began = clock()
        self.bad = bad_messages(self.scenario.revision) if self.scenario.hostile else ()
        self._next_bad = 0
        allow_open_files(workers * ranks)
        self._ports = LoadPorts(self.host, sheds=sheds, timeout=timeout)
        try:
            self._http = InfoServer(self.host)
        except BaseException:
            self._ports.close()
            raise
        try:
            for _ in range(workers):
                self.add_engine()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Fleet {self.scenario.name!r}, {len(self.engines)} engine(s), step {self.steps}>"

    @property
    def urls(self) -> list[str]:
        """The URL of every engine."""
        return [engine.url for engine in self.engines]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._ports.closed

    def add_engine(self, ranks: int | None = None, room: int = 1) -> FakeEngine:
        """One more engine, that takes part in the scenario from the next step on.

        Args:
            ranks: How many ranks it has; by default as many as the others.
            room: For how many it has ports in a row, should it be resized by hand.
        """
        count = self._ranks if ranks is None else ranks
        room = max(room, self.scenario.most_ranks(count))
        engine = FakeEngine(self._ports, self._http, count, room=room, kv_host=self._kv_host)
        engine.advertised = self.scenario.advertised
        engine.silent |= set(self.scenario.silent)
        self.engines.append(engine)
        return engine

    def step(self) -> int:
        """Do what the next step of the scenario asks for; every rank publishes once.

        Returns:
            How many messages went out.

        Raises:
            DeadlineError: A subscriber reads so little that there was no room in time.
            LoadwireError: An engine could not come back on its ports.
        """
        step, self.steps = self.steps, self.steps + 1
        for act in self.scenario.acts_at(step):
            self._do(act)
        before = self.sent
        for engine in self.engines:
            if engine.up:
                for rank in range(engine.dp_size):
                    if rank not in engine.silent:
                        self._publish(engine, rank, step)
        return self.sent - before

    def catch_up(self) -> int:
        """Do every step whose time has come on the clock, and return how many those were.

        Step n is due n periods after the fleet was made. On a virtual clock, move it and call this.
        """
        due = math.floor((self._clock() - self._began) / self.scenario.period) + 1
        done = max(0, due - self.steps)
        for _ in range(done):
            self.step()
        return done

    def run(
        self, seconds: float | None = None, stop: threading.Event | Interrupt | None = None
    ) -> None:
        """Step in real time, for so many seconds or until ``stop`` is set.

        Args:
            seconds: None for no end.
            stop: Set it from another thread to end the run; an `Interrupt` is set by a signal.
        """
        stop = threading.Event() if stop is None else stop
        end = math.inf if seconds is None else self._clock() + seconds
        self._began = self._clock() - self.steps * self.scenario.period
        while not stop.is_set() and (now := self._clock()) < end:
            self.catch_up()
            due = self._began + self.steps * self.scenario.period
            stop.wait(max(0.0, min(due, end) - now))

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> None:
        """Return when every rank of every engine that is up has so many subscriptions.

        Raises:
            DeadlineError: A rank has fewer. The text says which.
        """
        deadline = Deadline(self.timeout if timeout is None else timeout)
        for engine in self.engines:
            if engine.up:
                engine.wait_for_subscribers(count, timeout=deadline.remaining)

    def close(self) -> None:
        """End every engine and free every port. Idempotent."""
        try:
            self._http.close(self.timeout)
        finally:
            for engine in self.engines:
                engine.up = False
            self._ports.close()

    def _do(self, act: Act) -> None:
        for index, engine in enumerate(self.engines):
            if act.workers is not None and index not in act.workers:
                continue
            if act.do == "resize":
                engine.resize(act.dp_size or 1)
            elif act.do in ("advertise", "withdraw"):
                engine.advertised = act.do == "advertise"
            elif act.do in ("silence", "speak"):
                ranks = set(range(engine.dp_size) if act.ranks is None else act.ranks)
                if act.do == "silence":
                    engine.silent |= ranks
                else:
                    engine.silent -= ranks - set(self.scenario.silent)
            elif act.do == "restart":
                engine.restart()
            elif act.do == "stop":
                engine.stop()
            else:
                engine.start()

    def _publish(self, engine: FakeEngine, rank: int, step: int) -> None:
        for _ in range(self.scenario.hostile):
            engine.send_frames(rank, self.bad[self._next_bad])
            self._next_bad = (self._next_bad + 1) % len(self.bad)
            self.sent += 1
        engine.send(rank, self.scenario.reading(rank, step))
        self.sent += 1


def fleet_status(engines: Iterable[FakeEngine]) -> list[str]:
    """One line for each engine: URL, ports and state."""
    return [
        f"{engine.url}  {engine.dp_size} rank(s), ports {engine.base} to {engine.ports[-1]}"
        + ("" if engine.up else ", down")
        + ("" if engine.advertised else ", not advertised")
        for engine in engines
    ]
