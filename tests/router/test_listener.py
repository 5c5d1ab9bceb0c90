"""Who listens to the reference subscriber hears every message, and breaks nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_loadwire.engine.fleet import Fleet
from pytest_loadwire.errors import WireError
from pytest_loadwire.router.subscriber import LoadSubscriber
from pytest_loadwire.router.table import RankStats, ReadingTable
from pytest_loadwire.rules import Reason
from pytest_loadwire.wire import LoadStatRev2, Message, build_frames

MakeFleet = Callable[..., Fleet]
MAP = [b"load", bytes(8), b"\x80"]


def test_every_message_in_order(loadwire_fleet: MakeFleet) -> None:
    """A listener is called with worker, rank, frames and outcome, when the table has it."""
    fleet = loadwire_fleet("ramp")
    (engine,) = fleet.engines
    heard: list[tuple[Any, ...]] = []

    def listen(url: str, rank: int, frames: list[bytes], outcome: Message | WireError) -> None:
        heard.append((url, rank, frames, outcome, subscriber.stats(url)[rank].messages))

    with LoadSubscriber(listener=listen) as subscriber:
        subscriber.add_worker(engine.url)
        fleet.wait_for_subscribers()
        fleet.step()
        engine.send_frames(0, MAP)
        fleet.step()
        subscriber.wait_until(lambda _: len(heard) == 3)
        first, refused, second = heard
        assert [(engine.url, 0, 1)] * 2 == [(*h[:2], h[4]) for h in (first, refused)]
        assert [list(build_frames(*h[3])) for h in (first, second)] == [first[2], second[2]]
        assert (MAP, Reason.NOT_ARRAY) == (refused[2], refused[3].reason)
        assert subscriber.listener_error is None
        (view,) = subscriber.ranks(engine.url)
        assert (2, 1, second[3].stat) == (
            view.stats.messages,
            view.stats.undecodable[Reason.NOT_ARRAY],
            view.stat,
        )


def test_a_listener_that_raises(loadwire_fleet: MakeFleet) -> None:
    """What a listener raises is kept, and every further message is read all the same."""
    fleet = loadwire_fleet("ramp")
    (engine,) = fleet.engines

    def listen(*message: object) -> None:
        raise ValueError("no room")

    with LoadSubscriber(listener=listen) as subscriber:
        subscriber.add_worker(engine.url)
        fleet.wait_for_subscribers()
        fleet.step()
        fleet.step()
        subscriber.wait_until(lambda s: s.stats(engine.url)[0].messages == 2)
        assert "no room" == str(subscriber.listener_error)


def test_the_view_of_a_rank(reading: LoadStatRev2) -> None:
    """A rank's view has its age, if it counts, and its statistics as they stood."""
    now = 100.0
    table = ReadingTable(clock=lambda: now)
    assert () == table.ranks("a")
    table.advertise("a", ["x", "y"])
    table.receive("a", 0, build_frames(4, reading))
    now = 102.0
    table.receive("a", 0, MAP)
    now = 105.0
    first, second = table.ranks("a")
    assert ("x", reading, 5.0, True, 3.0) == (*first[:4], first.error_age)
    assert ("y", None, None, False, RankStats(), None) == tuple(second)
    now = 105.5
    table.receive("a", 0, MAP)
    assert 1 == first.stats.undecodable[Reason.NOT_ARRAY]
    assert (5.5, False, 0.0) == (
        (later := table.ranks("a")[0]).age,
        later.fresh,
        later.error_age,
    )
