"""What came from one socket: every message judged as it arrives, and little of it kept.

A peer may send anything, as fast as it likes, so nothing here grows with the number of messages:
they are counted, and of each kind of trouble the first message is kept. No socket and no clock;
times are handed in, so that a test plays a day in a millisecond.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import RANK_FIELD, array_length
from pytest_loadwire.golden.shape import reject
from pytest_loadwire.observe.elements import revision_text, spelling
from pytest_loadwire.observe.values import from_one_to_the_next, in_one
from pytest_loadwire.rules import Hazard, Reason
from pytest_loadwire.siblings import recognise_frames
from pytest_loadwire.wire import (
    LATEST,
    REVISIONS,
    TOPIC,
    Message,
    parse_frames,
    revision_of,
    to_dict,
    verify_frames,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.siblings import Sibling

Level = Literal["error", "warning", "note"]
"""How bad something is: it breaks the contract, it may, or it is worth knowing."""

MOST_ODDITIES = 32
"""So many kinds of trouble are kept of one socket; what is behind is counted."""

MOST_SHAPES = 8
"""So many messages of different shape are kept of one socket."""

MOST_BYTES = 1024
"""A frame is kept up to so many bytes; whoever needs more has the engine at hand."""

EARLY_REPEAT_S = 0.9
"""An unchanged reading that comes sooner than this behind the one before is one too soon. A tenth
of the heartbeat is left for the way."""

LATE_S = 2.5
"""Behind so many seconds a heartbeat is late, whatever the way does. An engine that sleeps while it
is idle looks once a second, and so may send at every second look only."""

IMPLAUSIBLE_SEQUENCE = 2**48
"""Counting a thousand messages a second, an engine needs nine thousand years to get here."""

_MOST_VALUES = 16  # of one kind, such as ranks, with a count each
_ENDS = 16  # of the messages at the end, for a comparison with other sockets


class End(NamedTuple):
    """One of the last messages: what tells whether another socket sends the same stream."""

    sequence: int
    payload: bytes


@dataclass
class Oddity:
    """One kind of trouble, with the first message that had it.

    Attributes:
        level: How bad it is.
        rule: The rule of the contract.
        code: A word for machines; one socket has it once.
        text: What is wrong with the first message that had it.
        at: When that came, in seconds of the watch's clock.
        sequence: Its number, or None where it has none.
        frames: Its frames, or nothing where they do not matter.
        hazard: What a least-loaded router would do that believed it.
        count: How many messages had it.
    """

    level: Level
    rule: str
    code: str
    text: str
    at: float
    sequence: int | None = None
    frames: tuple[bytes, ...] = ()
    hazard: Hazard = Hazard.NONE
    count: int = 1


@dataclass
class Stream:
    """Everything that came from the socket of one rank.

    Attributes:
        revision: The revision that its engine is held to; None for the one that it seems to send.
        rank: The rank of the socket, which the payload has to repeat (rule R3); None if unknown.
        count: Messages of any kind.
        good: Those that a router takes.
        others: Those of another stream, which say nothing of how load messages are made.
        revisions: How many of each revision, as a router reads them.
        lengths: How many of each length of the array, tag included; at most 16 of them.
        ranks: What the payloads gave for a rank, with how often; at most 16 of them.
        siblings: What else came, by kind.
        oddities: Trouble by code.
        unlisted: How many messages had trouble that is not kept.
        shapes: One message of each shape, as it came.
        first_at, last_at: When the first and the last came that a router takes.
        first, last: Their sequences.
        missing: How many numbers were left out (rule S2).
        gaps: In how many places.
        backwards: How often the number went down on a connection that stayed up.
        restarts: How often it, or a counter, went down with a new connection (rule S3).
        longest: Seconds of the longest silence: between two of them, and at both ends.
        longest_at: When that ended.
        late: How many silences were longer than `LATE_S`.
        repeats: How many unchanged readings were sent again.
        early: How many of them too soon (rule P2).
        reading: The last reading.
        ends: The last messages.
    """

    revision: int | None = None
    rank: int | None = None
    count: int = 0
    good: int = 0
    others: int = 0
    revisions: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    ranks: Counter[int | None] = field(default_factory=Counter)
    siblings: dict[str, Sibling] = field(default_factory=dict)
    oddities: dict[str, Oddity] = field(default_factory=dict)
    unlisted: int = 0
    shapes: dict[object, tuple[bytes, ...]] = field(default_factory=dict)
    first_at: float | None = None
    last_at: float | None = None
    first: int | None = None
    last: int | None = None
    missing: int = 0
    gaps: int = 0
    backwards: int = 0
    restarts: int = 0
    longest: float = 0.0
    longest_at: float = 0.0
    late: int = 0
    repeats: int = 0
    early: int = 0
    reading: dict[str, int | None] | None = None
    ends: deque[End] = field(default_factory=lambda: deque(maxlen=_ENDS))
    _read: int = 0
    _since: float | None = None
    _connected_anew: bool = False

    @property
    def rate(self) -> float:
        """Messages a second that a router takes, between the first and the last; 0 below two."""
        if self.first_at is None or self.last_at is None or self.last_at <= self.first_at:
            return 0.0
        return (self.good - 1) / (self.last_at - self.first_at)

    @property
    def revision_read(self) -> int:
        """The revision of the last message that a router takes; 0 where none came."""
        return self._read

    @property
    def not_judged(self) -> str | None:
        """Why rules without a finding are neither kept nor broken; None where messages were taken.

        Judging a message that no router takes ends at its first fault.
        """
        if self.good:
            return None
        if not self.count:
            return "no message came"
        if self.count == self.others:
            return "no load message came"
        return "no message came that could be judged to its end"

    def connected(self, at: float) -> None:
        """A handshake is done; when it is not the first, a lower number is a new process (S3).

        Messages of the old one may still be waiting, so it need not be the next.
        """
        if self._since is None:
            self._since = at
        else:
            self._connected_anew = True

    def ended(self, at: float) -> None:
        """The watch is over: count the silence up to here."""
        self._silence(at)

    def receive(self, at: float, frames: Sequence[bytes]) -> None:
        """Judge one message.

        Args:
            at: When it came, in seconds of the watch's clock.
            frames: Its frames.
        """
        self.count += 1
        message, graded = self._grade(frames)
        sequence = _sequence(frames)
        self._keep(frames, graded)
        anew = self._follow(at, sequence, frames)
        if message is None:
            assert graded is not None  # noqa: S101 - for the type checker
            self._refused(at, frames, graded, sequence)
            return
        if graded is not None:
            self._imperfect(at, frames, graded, sequence)
        self._taken(at, frames, message, anew=anew)

    def _grade(self, frames: Sequence[bytes]) -> tuple[Message | None, WireError | None]:
        """What a router makes of a message, and what an engine's grader has against it."""
        revision = self.revision
        if revision is None:
            length = array_length(frames[2]) if len(frames) == 3 else 0
            fitting = (
                r for r, kind in REVISIONS.items() if length <= len(kind.__struct_fields__) + 1
            )
            revision = next(fitting, LATEST)
        try:
            return verify_frames(frames, revision=revision), None
        except WireError as error:
            graded = error
        try:
            return parse_frames(frames), graded
        except WireError:
            return None, graded

    def _refused(
        self, at: float, frames: Sequence[bytes], error: WireError, sequence: int | None
    ) -> None:
        sibling = recognise_frames(frames)
        said = _without_rule(error)
        if error.reason is Reason.TOO_SHORT:
            said += "; nothing may be trimmed, and is something at its default left out?"
        if sibling is None:
            code = f"{error.reason}" + (f"-{error.element}" if error.element is not None else "")
            self._odd("error", error.rule, code, said, at, sequence, frames, _hazard(error))
            return
        self.siblings.setdefault(sibling.kind, sibling)
        other = sibling.kind in ("kv-events", "replay-sentinel")
        self.others += other
        self._odd(
            "error",
            "F5" if other else error.rule,
            sibling.kind,
            sibling.says if other else f"{said}; {sibling.says}",
            at,
            sequence,
            frames,
            Hazard.ATTRACTS_ALL if other else _hazard(error),
        )

    def _imperfect(
        self, at: float, frames: Sequence[bytes], error: WireError, sequence: int | None
    ) -> None:
        """A message that a router takes and no engine of this revision may send."""
        text = _without_rule(error)
        level: Level = "error"
        if error.reason is Reason.TOO_SHORT:
            text += (
                "; nothing may be trimmed: a router reads it as the older revision (rule W12), or "
                "fills in zeros"
            )
            shown = revision_text(array_length(frames[2]))
            if "+" in shown:
                read, _, more = shown.partition("+")
                many = f"{more} element" + "s" * (more != "1")
                text += f" (rev {shown}: revision {read} and {many} more)"
        newest = len(REVISIONS[LATEST].__struct_fields__) + 1
        extra = error.reason is Reason.EXTRA_ELEMENTS
        if extra and self.revision is None and array_length(frames[2]) > newest:
            level = "warning"
            text += f"; is it of a newer revision than {LATEST}? Routers ignore the rest (rule W8)"
        hazard = _hazard(error) if error.reason is Reason.TOO_SHORT else Hazard.NONE
        self._odd(level, error.rule, str(error.reason), text, at, sequence, frames, hazard)

    def _taken(self, at: float, frames: Sequence[bytes], message: Message, *, anew: bool) -> None:
        self.good += 1
        sequence, reading = message.sequence, to_dict(message.stat)
        self._notice_repeat(at, sequence, reading)
        self._silence(at)
        self.first_at = at if self.first_at is None else self.first_at
        self.last_at = at
        revision = revision_of(message.stat)
        anew = anew or self._restarted_unseen(reading, revision)
        if self._read and revision != self._read and not anew:
            self._odd(
                "error",
                "W4",
                "revision-changed",
                f"revision {self._read}, and then revision {revision} while the process lived",
                at,
                sequence,
                frames,
            )
        self._read = revision
        self.revisions[revision] += 1
        length = array_length(frames[2])
        if length in self.lengths or len(self.lengths) < _MOST_VALUES:
            self.lengths[length] += 1
        self._check_rank(at, sequence, frames, reading[RANK_FIELD])
        impossible = list(in_one(reading))
        if self.reading is not None and not anew:
            impossible += from_one_to_the_next(self.reading, reading)
        for found in impossible:
            level: Level = "error" if found.is_error else "warning"
            self._odd(level, found.rule, found.code, found.text, at, sequence, frames, found.hazard)
        self.reading = reading
        self.ends.append(End(sequence, bytes(frames[2][:MOST_BYTES])))

    def _check_rank(
        self, at: float, sequence: int, frames: Sequence[bytes], said: int | None
    ) -> None:
        if said in self.ranks or len(self.ranks) < _MOST_VALUES:
            self.ranks[said] += 1
        if self.rank is None:
            return
        if said is None:
            text = f"the payload's rank is nil on the socket of rank {self.rank}"
            self._odd("warning", "R3", "nil-rank", text, at, sequence, frames)
        elif said != self.rank:
            text = f"the payload says rank {said} on the socket of rank {self.rank}"
            self._odd("error", "R3", "wrong-rank", text, at, sequence, frames, Hazard.STALE)

    def _follow(self, at: float, sequence: int | None, frames: Sequence[bytes]) -> bool:
        """Follow the sequence; whether the message is the first of a new process."""
        if sequence is None:
            return False
        previous, anew = self.last, False
        self.last = sequence
        if previous is None:
            self.first = sequence
            if sequence >= IMPLAUSIBLE_SEQUENCE:
                turned = int.from_bytes(sequence.to_bytes(8, "big"), "little", signed=True)
                text = f"the sequence is {sequence}, which nobody has counted to"
                if 0 <= turned < IMPLAUSIBLE_SEQUENCE:
                    text += f"; with its bytes turned it is {turned}: sent little-endian?"
                self._odd("error", "F3", "implausible-sequence", text, at, sequence, frames)
        elif sequence > previous:
            self.gaps += sequence > previous + 1
            self.missing += sequence - previous - 1
        elif self._connected_anew:
            self.restarts += 1
            self._connected_anew, anew = False, True
        elif sequence == previous:
            text = f"the sequence {sequence} twice in a row: every message takes a number"
            self._odd("error", "S1", "sequence-repeated", text, at, sequence, frames)
        else:
            self.backwards += 1
            text = (
                f"the sequence went from {previous} to {sequence} while the connection stayed up: "
                "no restart does that, but two publishers behind one port do"
            )
            self._odd("error", "S1", "sequence-backwards", text, at, sequence, frames)
        return anew

    def _restarted_unseen(self, reading: dict[str, int | None], revision: int) -> bool:
        """Whether a new process has counted past the old one's number before it was heard (S3)."""
        if not self._connected_anew or self.reading is None:
            return False
        fell = any(found.is_error for found in from_one_to_the_next(self.reading, reading))
        if fell or revision != self._read:
            self.restarts += 1
            self._connected_anew = False
            return True
        return False

    def _notice_repeat(self, at: float, sequence: int, reading: dict[str, int | None]) -> None:
        """Count readings that are sent again too soon; the rank is no part of it (rule P2)."""
        # Something else may have been in between if a number is missing.
        if self.ends and self.last_at is not None and self.reading is not None:
            follows = self.ends[-1].sequence + 1 == sequence
            same = {**self.reading, RANK_FIELD: None} == {**reading, RANK_FIELD: None}
            self.repeats += follows and same
            self.early += follows and same and at - self.last_at < EARLY_REPEAT_S

    def _silence(self, ended: float) -> None:
        began = self._since if self.last_at is None else self.last_at
        if began is None:
            return
        seconds = ended - began
        self.late += seconds > LATE_S
        if seconds > self.longest:
            self.longest, self.longest_at = seconds, ended

    def _keep(self, frames: Sequence[bytes], graded: WireError | None) -> None:
        if len(self.shapes) >= MOST_SHAPES or not 0 < len(frames) <= 4:
            return
        if sum(map(len, frames)) > MOST_BYTES:
            return
        shape: object = tuple(map(len, frames))
        if graded is not None:
            shape = (graded.reason, graded.element, graded.frame)
        elif len(frames) == 3:
            shape = spelling(frames[2])
        self.shapes.setdefault(shape, tuple(map(bytes, frames)))

    def _odd(
        self,
        level: Level,
        rule: str,
        code: str,
        text: str,
        at: float,
        sequence: int | None,
        frames: Sequence[bytes],
        hazard: Hazard = Hazard.NONE,
    ) -> None:
        known = self.oddities.get(code)
        if known is not None:
            known.count += 1
        elif len(self.oddities) < MOST_ODDITIES:
            kept = tuple(bytes(frame[:MOST_BYTES]) for frame in frames[:4])
            self.oddities[code] = Oddity(level, rule, code, text, at, sequence, kept, hazard)
        else:
            self.unlisted += 1


def _without_rule(error: WireError) -> str:
    """An error's text without the rule in front, which a finding names by itself."""
    return str(error).removeprefix(f"{error.rule} ")


def _sequence(frames: Sequence[bytes]) -> int | None:
    """The number of a message that has one where it belongs, whatever its payload is."""
    if len(frames) != 3 or frames[0] != TOPIC or len(frames[1]) != 8:
        return None
    number = int.from_bytes(frames[1], "big", signed=True)
    return number if number >= 0 else None


def _hazard(error: WireError) -> Hazard:
    """What a least-loaded router does that reads garbage or 0 where it should have refused."""
    if error.frame in (None, 0, 1):
        return Hazard.STALE
    return reject(error.reason, offset=error.offset, element=error.element, name=error.field).hazard
