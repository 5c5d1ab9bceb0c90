"""What a router knows over time: timelines of events, with the view behind each.

Times are decimal strings of seconds on a monotonic clock, exact as doubles. A worker is named by
its URL and a rank by its socket, never by what a payload says.
"""

from __future__ import annotations

import msgspec

from pytest_loadwire.rules import Unknown


class Advertise(msgspec.Struct, frozen=True, tag="advertise", tag_field="event"):
    """The router learns what a worker advertises, now or anew; one it did not have is added.

    Attributes:
        worker: The worker's URL.
        base: ``load_endpoint_port_base``; rank r is the socket at base + r.
        dp_size: How many ranks there are.
    """

    worker: str
    base: int
    dp_size: int


class Withdraw(msgspec.Struct, frozen=True, tag="withdraw", tag_field="event"):
    """The router learns that a worker advertises no load; one it did not have is added."""

    worker: str


class Remove(msgspec.Struct, frozen=True, tag="remove", tag_field="event"):
    """The router is told that a worker is gone."""

    worker: str


class Restart(msgspec.Struct, frozen=True, tag="restart", tag_field="event"):
    """The worker's engine is a new process on the same ports. The router is not told."""

    worker: str


class Receive(msgspec.Struct, frozen=True, tag="message", tag_field="event"):
    """One message arrives on the socket of one rank.

    Attributes:
        worker: The worker's URL.
        rank: The rank that the socket was opened for.
        frames: The frames in hex.
        vector: The vector that a bad message is from, with its file, or None for a good one.
    """

    worker: str
    rank: int
    frames: tuple[str, ...]
    vector: str | None

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The frames as bytes."""
        return tuple(bytes.fromhex(frame) for frame in self.frames)


class Silence(msgspec.Struct, frozen=True, tag="silence", tag_field="event"):
    """Nothing happens; only time has passed."""


Event = Advertise | Withdraw | Remove | Restart | Receive | Silence


class KnownLoad(msgspec.Struct, frozen=True, tag="known", tag_field="view"):
    """The load of a worker is known.

    Attributes:
        load: The sum over its ranks of every count that all of them sent, as decimal strings. A
            reader of an older revision knows the fields of its own among them.
    """

    load: dict[str, str]

    @property
    def values(self) -> dict[str, int]:
        """The load with ints for the decimal strings."""
        return {name: int(value) for name, value in self.load.items()}


class UnknownLoad(msgspec.Struct, frozen=True, tag="unknown", tag_field="view"):
    """The load of a worker is unknown, and the router counts for itself.

    Attributes:
        reason: Why. A router need not tell reasons apart, but never takes unknown for a number.
        ranks: The ranks to blame.
    """

    reason: Unknown
    ranks: tuple[int, ...]


View = KnownLoad | UnknownLoad


class ReadingStep(msgspec.Struct, frozen=True):
    """One event at a time, and what the router knows of each worker behind it.

    Attributes:
        at: The time.
        happens: The event.
        expect: By worker, for every one that the timeline has named so far.
    """

    at: str
    happens: Event
    expect: dict[str, View]

    @property
    def time(self) -> float:
        """The time in seconds."""
        return float(self.at)


class ReadingTimeline(msgspec.Struct, frozen=True):
    """Events for one fresh router.

    Attributes:
        id: A slug that never changes and is never reused.
        rule: The contract rule that this timeline proves.
        since: The oldest revision whose readers owe this.
        why: What it is for, in one sentence.
        source: Where it comes from.
        window: The freshness window that the router is configured to, in seconds.
        ages: Whether a reading turns stale in it, so that it needs the window and the clock.
        steps: The events in order.
    """

    id: str
    rule: str
    since: int
    why: str
    source: str
    window: str
    ages: bool
    steps: tuple[ReadingStep, ...]
