"""What the two engine classes share: seams, snapshots, and how a message is judged."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_loadwire import wire
from pytest_loadwire.contract.base import Contract, lacking, missing_hook, unknown_revision
from pytest_loadwire.contract.message import RANK, judge_message
from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.clock import VirtualClock
from pytest_loadwire.judge import Crashed, Finding
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import NamedReading, readings

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytest_loadwire.harness.capture import Capture


_OPEN_SOCKET = "name the function that opens your load socket"
_CLOCK = "name the module in which your engine reads time.monotonic"
_SNAPSHOT = "name the class of your engine's own reading"

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'", re.IGNORECASE)


class ReadingFailedError(Exception):
    """What a provider raises in a timeline: to the engine, any failure of its own."""


class EngineContract(Contract):
    """What has to be known of an engine to drive its load publishing.

    Attributes:
        open_socket: Dotted path of the function or method that opens the load socket, as the engine
            looks it up.
        clock: Dotted path of the module, or of each module, in which the engine reads
            ``time.monotonic``.
        snapshot: The class of the engine's own reading, built with keywords.
        fields: What that class calls the contract's fields, where the names differ; with an entry
            for ``attn_dp_rank`` if a snapshot says its own rank.
        socket_mode: ``stub`` or ``live``, whatever ``--loadwire-socket`` says; by default that.
        logger: The logger that the engine warns on; by default any. None where warnings go
            elsewhere: then they are not judged, and one skipped test says so.
        revision: The revision that the engine sends.
        deviations: The known deviations of the engine.
    """

    open_socket: ClassVar[str] = ""
    clock: ClassVar[str | Sequence[str]] = ""
    snapshot: ClassVar[Any] = None
    fields: ClassVar[Mapping[str, str]] = {}
    socket_mode: ClassVar[str | None] = None
    logger: ClassVar[str | None] = ""
    revision: ClassVar[int] = wire.LATEST

    def make_snapshot(self, counts: Mapping[str, Any]) -> Any:
        """The engine's own reading with these counts, which the contract's names tell apart."""
        if self.snapshot is None:
            missing_hook(self, "snapshot", _SNAPSHOT)
        try:
            return self._built(counts)
        except TypeError as error:
            refused = self._refused(error, counts)
            if refused is None:
                raise
            pytest.fail(refused, pytrace=False)

    # What follows is the contract's own.

    @classmethod
    def unready(cls) -> str | None:
        """What every test needs: seam, clock, a snapshot that can be built, a known revision."""
        wrong = unknown_revision(cls, cls.revision)
        if wrong is not None:
            return wrong
        return "\n".join(cls._lacks()) or None

    @classmethod
    def _lacks(cls) -> Iterator[str]:
        if not cls.open_socket:
            yield lacking(cls, "open_socket", _OPEN_SOCKET)
        if not any([cls.clock] if isinstance(cls.clock, str) else cls.clock):
            yield lacking(cls, "clock", _CLOCK)
        known = wire.field_names()
        unknown = [name for name in cls.fields if name not in known]
        if unknown:
            names = ", ".join(map(repr, unknown))
            yield f"fields: {names} is no field of the contract; those are {', '.join(known)}"
        elif cls.make_snapshot is EngineContract.make_snapshot:
            wrong = cls._snapshot_lacks()
            if wrong is not None:
                yield wrong

    @classmethod
    def _snapshot_lacks(cls) -> str | None:
        """What keeps the default of `make_snapshot` from building a snapshot."""
        if cls.snapshot is None:
            return lacking(cls, "snapshot", _SNAPSHOT)
        own_rank = RANK in cls.fields
        names = [name for name in wire.field_names(cls.revision) if name != RANK or own_rank]
        # What else a class may raise belongs to the tests, which show where it comes from.
        with suppress(Exception):
            try:
                cls._built(dict.fromkeys(names, 0))
            except TypeError as error:
                what = f"{cls._kind()} is not built by the counts alone: {error}"
                return cls._refused(error, names) or lacking(cls, "make_snapshot", what)
        return None

    @classmethod
    def _kind(cls) -> str:
        return getattr(cls.snapshot, "__name__", repr(cls.snapshot))

    @classmethod
    def _built(cls, counts: Mapping[str, Any]) -> Any:
        return cls.snapshot(**{cls.fields.get(name, name): n for name, n in counts.items()})

    @classmethod
    def _refused(cls, error: TypeError, names: Iterable[str]) -> str | None:
        """What to declare for a keyword that the snapshot's class does not know, or None."""
        found = _UNEXPECTED.search(str(error))
        refused = None if found is None else found[1]
        for name in names:
            own = cls.fields.get(name, name)
            if own == refused:
                what = "it" if own == name else name
                return f"{cls._kind()} takes no {own!r}: say in `fields` what {what} is called"
        return None

    def reading(self, name: str) -> NamedReading:
        """A reading of the vectors by its name."""
        return readings(load().cadence)[name]

    def snapshot_of(self, name: str) -> Any:
        """The engine's snapshot for a reading of the vectors."""
        reading = self.reading(name)
        values: dict[str, Any] = dict(self._counts_of(name))
        if RANK in self.fields:
            values[RANK] = int(reading.rank)
        return self.make_snapshot(values)

    def _counts_of(self, name: str) -> dict[str, int | None]:
        """The counts of a reading that a payload of this revision has."""
        values = self.reading(name).values
        return {field: values[field] for field in wire.field_names(self.revision) if field != RANK}

    def _captured(self, loadwire_capture: Any) -> Capture:
        if not self.open_socket:
            missing_hook(self, "open_socket", _OPEN_SOCKET)
        capture: Capture = loadwire_capture(
            self.open_socket, mode=self.socket_mode, revision=self.revision
        )
        return capture

    @contextmanager
    def _clock_at(self, start: str) -> Iterator[VirtualClock]:
        """A clock that stands at ``start``, in the engine's modules."""
        with VirtualClock(float(start)) as clock:
            self._install(clock)
            yield clock

    def _install(self, clock: VirtualClock) -> None:
        modules = [self.clock] if isinstance(self.clock, str) else self.clock
        if not any(modules):
            missing_hook(self, "clock", _CLOCK)
        for module in modules:
            clock.install(module)

    def listening(self) -> Warnings:
        """Hears what the engine warns of, while it is entered."""
        return Warnings(self.logger)

    def judge_open(self, capture: Capture) -> Finding | None:
        """Whether the engine has one open socket, without which nothing else can be judged."""
        opened = capture.sockets
        if len(opened) == 1:
            return None
        got = f"{len(opened)}" if opened else "none; is open_socket the name that the engine calls?"
        return Finding("wrong-socket", "K1", "one socket for one scheduler", got)

    def judge_sent(
        self,
        messages: Sequence[Sequence[bytes]],
        *,
        sequence: str | None,
        at: str,
        reading: str | None,
        rule: str,
    ) -> Finding | None:
        """Whether one step of a timeline sent exactly the message that it owes, or none.

        Args:
            messages: What it sent.
            sequence: The number of the message that is owed, or None for no message.
            at: The time of the step.
            reading: The name of the reading that the message carries.
            rule: The rule of the timeline.
        """
        if sequence is None:
            if not messages:
                return None
            return self.judge_surplus(messages[0], expected=f"no message at {at}", rule=rule)
        if not messages:
            return Finding("not-sent", rule, f"message {sequence} at {at}", "none", Hazard.STALE)
        if len(messages) > 1:
            return Finding("sent", rule, f"one message at {at}", f"{len(messages)}")
        assert reading is not None  # the vectors send nothing without one
        return self.judge_message(
            messages[0], sequence=int(sequence), reading=reading, rank=0, rule=rule
        )

    def judge_message(
        self, frames: Sequence[bytes], *, sequence: int | None, reading: str, rank: int, rule: str
    ) -> Finding | None:
        """Whether a message is exactly the one that an engine of this revision owes.

        Args:
            frames: The message.
            sequence: Its number, or None for any.
            reading: The name of the reading that it carries.
            rank: The slot of its scheduler.
            rule: The rule to name where a count is another.
        """
        return judge_message(
            frames,
            revision=self.revision,
            sequence=sequence,
            owed={**self._counts_of(reading), RANK: rank},
            named=f"{reading} from rank {rank}",
            rule=rule,
            rank_rule="R3",
        )

    def judge_surplus(self, frames: Sequence[bytes], *, expected: str, rule: str) -> Finding:
        """A message that should not have gone out; by its own rule if no engine may send it."""
        shown = " ".join(frame.hex() for frame in frames)
        try:
            wire.verify_frames(frames, revision=self.revision)
        except WireError as error:
            return Finding("sent", error.rule, expected, f"{shown}: {error}", Hazard.STALE)
        return Finding("sent", rule, expected, shown, Hazard.NONE)


def kv_events_config(endpoint: str = "tcp://*:5557", **further: str) -> str:
    """A configuration of KV events in SGLang's JSON, with what ``further`` says."""
    return json.dumps({"publisher": "zmq", "topic": "kv", "endpoint": endpoint, **further})


def sent(messages: Sequence[Sequence[bytes]]) -> list[str]:
    """Each message by its number, in words."""
    return [f"sent {int.from_bytes(m[1], 'big') if len(m) > 1 else '?'}" for m in messages]


def history(what: str, notes: list[str]) -> list[str]:
    """What happened up to the step that went wrong, which is marked."""
    return [f"the {what} so far:", *notes[:-1], f"{notes[-1]}   <- here"] if notes else []


def crashed(error: Exception, what: str) -> Finding:
    """An exception that got out of the engine's publishing, and so into its loop (rule P4)."""
    got = Crashed.of(error).text
    return Finding("crashed", "P4", f"{what} without an exception", got, Hazard.CRASH)


class Warnings(logging.Handler):
    """Counts what an engine warns of.

    Args:
        name: The logger, with an empty name for any of them; None hears nothing.
    """

    def __init__(self, name: str | None) -> None:
        super().__init__(logging.WARNING)
        self._logger = None if name is None else logging.getLogger(name or None)
        self.texts: list[str] = []

    def __enter__(self) -> Self:
        if self._logger is not None:
            self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._logger is not None:
            self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Part of `logging.Handler`."""
        error = record.exc_info[1] if record.exc_info else None
        cause = "" if error is None else f" ({type(error).__name__}: {error})"
        self.texts.append(f"{record.name}: {record.getMessage()}{cause}")

    def judge(self, count: int, rule: str, why: str = "") -> Finding | None:
        """Whether there were ``count`` warnings, as many as are owed because of ``why``."""
        heard = len(self.texts)
        if self._logger is None or heard == count:
            return None
        expected = (f"{count} warning(s)" if count else "no warning") + (why and f": {why}")
        got = "; ".join(self.texts) or "none"
        return Finding("warned" if heard > count else "not-warned", rule, expected, got)


class ReservedPort:
    """A port that an engine can bind and nobody else will be given.

    It stays bound here, and is never listened on. Both sockets allow the address to be used again,
    so that an engine which binds any address at that port succeeds.
    """

    def __init__(self) -> None:
        self._holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def __enter__(self) -> int:
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", 0))
        port: int = self._holder.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._holder.close()
