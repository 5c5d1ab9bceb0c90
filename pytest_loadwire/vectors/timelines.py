"""What an engine does over time: timelines of calls on a virtual clock, with what each call owes.

Times are decimal strings of seconds on a monotonic clock. They are exact as doubles, or their
differences are, so that no comparison depends on rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

Outcome = Literal["ok", "raises"]
"""Whether something works in a step, or raises."""

LoopPass = Literal["prefill", "decode", "stall", "idle"]
"""One pass of a scheduler's loop: a batch came back, nothing could run, nothing was there."""


class NamedReading(msgspec.Struct, frozen=True, tag="reading", tag_field="kind"):
    """A reading that timelines name by its id.

    Attributes:
        id: The name.
        rule: The rule that the reading is there for.
        since: The revision that it needs.
        why: What it is for, in one sentence.
        source: Where it comes from.
        rank: What the snapshot itself says its rank is. It is not what goes on the wire (rule R3).
        counts: Every count by the contract's name, as a decimal string; None stands for nil, and a
            count that no payload can hold is there to be refused (rule W5).
    """

    id: str
    rule: str
    since: int
    why: str
    source: str
    rank: str
    counts: dict[str, str | None]

    @property
    def values(self) -> dict[str, int | None]:
        """The counts as ints."""
        return {name: None if v is None else int(v) for name, v in self.counts.items()}


class Call(msgspec.Struct, frozen=True):
    """One call of the publisher.

    Attributes:
        forced: Whether it passes the throttle.
        reading: The name of the reading that the provider has, or None where it raises.
        handed_in: Whether the caller hands the reading in, beside the provider.
        provider: Whether asking the provider works.
        send: Whether the socket takes the message.
    """

    forced: bool
    reading: str | None
    handed_in: bool
    provider: Outcome
    send: Outcome


class Owes(msgspec.Struct, frozen=True):
    """What the publisher does in one call.

    Attributes:
        sent: The sequence of the message that goes out, as a decimal string, or None for none.
        asked: Whether the provider is asked, once.
        warned: Whether there is a warning, one.
    """

    sent: str | None
    asked: bool
    warned: bool


class PublisherStep(msgspec.Struct, frozen=True):
    """One call at a time, and what it owes."""

    at: str
    call: Call
    expect: Owes


class PublisherTimeline(msgspec.Struct, frozen=True, tag="publisher", tag_field="kind"):
    """Calls of one fresh publisher.

    Attributes:
        id: A slug that never changes and is never reused.
        rule: The contract rule that this timeline proves.
        since: The oldest revision whose engines owe this.
        why: What it is for, in one sentence.
        source: Where it comes from, with its mark.
        interval: One in this many unforced calls passes.
        steps: The calls in order.
    """

    id: str
    rule: str
    since: int
    why: str
    source: str
    interval: int
    steps: tuple[PublisherStep, ...]


class LoopOwes(msgspec.Struct, frozen=True):
    """What the scheduler does in one pass.

    Attributes:
        written: Whether the in-engine sink gets a snapshot.
        sent: The sequence of the message that goes out, as a decimal string, or None for none.
        walks: How often the queues are walked for a snapshot, at most.
    """

    written: bool
    sent: str | None
    walks: int


class SchedulerStep(msgspec.Struct, frozen=True):
    """One pass of the loop at a time, and what it owes.

    Attributes:
        at: The time.
        loop_pass: What kind of pass it is; ``pass`` in the file.
        reading: The name of the reading that a walk of the queues finds, or None where it raises.
        write: Whether the in-engine sink takes the snapshot.
        expect: What the pass owes.
    """

    at: str
    loop_pass: LoopPass = msgspec.field(name="pass")
    reading: str | None
    write: Outcome
    expect: LoopOwes


class SchedulerTimeline(msgspec.Struct, frozen=True, tag="scheduler", tag_field="kind"):
    """Passes of one fresh scheduler's loop.

    Attributes:
        id: A slug that never changes and is never reused.
        rule: The contract rule that this timeline proves.
        since: The oldest revision whose engines owe this.
        why: What it is for, in one sentence.
        source: Where it comes from, with its mark.
        interval: One in this many unforced passes is published, for both sinks.
        sink: Whether the engine has an in-engine sink.
        hook: What the publishing hook does with the snapshot that it wrote: return it, or return
            nothing, as an override from before the load socket does.
        steps: The passes in order.
    """

    id: str
    rule: str
    since: int
    why: str
    source: str
    interval: int
    sink: bool
    hook: Literal["returns-snapshot", "returns-nothing"]
    steps: tuple[SchedulerStep, ...]


CadenceVector = NamedReading | PublisherTimeline | SchedulerTimeline
"""A record of ``cadence.json``, by its ``kind``."""


def readings(vectors: tuple[CadenceVector, ...]) -> Mapping[str, NamedReading]:
    """The readings by name."""
    return {vector.id: vector for vector in vectors if isinstance(vector, NamedReading)}


def publisher_timelines(vectors: tuple[CadenceVector, ...]) -> tuple[PublisherTimeline, ...]:
    """The timelines of a publisher, in file order."""
    return tuple(vector for vector in vectors if isinstance(vector, PublisherTimeline))


def scheduler_timelines(vectors: tuple[CadenceVector, ...]) -> tuple[SchedulerTimeline, ...]:
    """The timelines of a scheduler, in file order."""
    return tuple(vector for vector in vectors if isinstance(vector, SchedulerTimeline))
