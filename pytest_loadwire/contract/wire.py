"""`WireContract`: what an engine sends, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest

from pytest_loadwire import wire
from pytest_loadwire.contract.base import Contract, lacking, missing_hook, unknown_revision
from pytest_loadwire.contract.message import judge_message
from pytest_loadwire.errors import WireError
from pytest_loadwire.judge import Crashed, Finding, hazard_of
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import Accept, Declare, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors import PayloadVector, Reading


_LOAD_STAT = "name the struct that your engine encodes, or override make_stat"
_NO_FRAMES = (
    "frames are not checked: override publish if your code sends a whole LoadStat as handed in;"
    " a publisher that fills in its own rank is held by PublisherContract"
)


class NumpyLike:
    """Stands for a numpy scalar: it counts and indexes like an int, and is none."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"numpy-like {self.value}"


# What an engine must not send as a count, with the integer it stands for, or None where there is no
# such integer. An engine may refuse it or send that integer, and nothing else.
FORBIDDEN: tuple[tuple[str, object, int | None], ...] = (
    ("float", 7.0, 7),
    ("float-fraction", 7.5, None),
    ("bool", True, 1),
    ("nil", None, None),
    ("negative", -1, None),
    ("above-u64", 2**64, None),
    ("text", "7", 7),
    ("numpy-like", NumpyLike(7), 7),
)


class WireContract(Contract):
    """Hold an engine's struct or encode function to rules W1 to W6, its frames to F1 to F4 and S1.

    Example:
        ::

            class TestWire(WireContract):
                load_stat = LoadStat

    Attributes:
        load_stat: The engine's struct, built with the contract's field names as keywords.
        revision: The revision that the engine sends.
        deviations: The known deviations of the engine.
    """

    load_stat: ClassVar[Any] = None
    revision: ClassVar[int] = wire.LATEST

    def make_stat(self, values: Mapping[str, Any]) -> Any:
        """A reading of the engine's own type; override it where field names differ."""
        if self.load_stat is None:
            missing_hook(self, "load_stat", _LOAD_STAT)
        return self.load_stat(**values)

    def encode(self, stat: Any) -> bytes:
        """The payload that the engine makes of a reading; override it where msgspec does not do."""
        return msgspec.msgpack.encode(stat)

    def publish(self, stats: Sequence[Any]) -> Sequence[Sequence[bytes]]:
        """The messages that a fresh engine sends for these readings, in order, frame by frame.

        This is for code that sends a whole LoadStat as it is handed in. A publisher that fills in
        its own rank is held by `PublisherContract`: leave this out then. Without it the frames are
        not checked here, and one skipped test says so.
        """
        raise NotImplementedError

    # What follows is the contract's own.

    @classmethod
    def unready(cls) -> str | None:
        """There is something to encode, of a revision that is known."""
        if cls.load_stat is None and cls.make_stat is WireContract.make_stat:
            return lacking(cls, "load_stat", _LOAD_STAT)
        return unknown_revision(cls, cls.revision)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every case as rule and id."""
        for vector in cls._vectors():
            yield vector.rule, vector.id
        for _, case, *_ in cls._forbidden():
            yield "W5", case
        for case, _ in cls._bursts():
            yield "S1", case

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each vector and each forbidden value a test of its own."""
        if self.withholds(metafunc, "payload_vector", "forbidden", "burst"):
            return
        if "payload_vector" in metafunc.fixturenames:
            vectors = [pytest.param(v, id=f"{v.rule}-{v.id}") for v in self._vectors()]
            metafunc.parametrize("payload_vector", vectors)
        if "forbidden" in metafunc.fixturenames:
            values = [pytest.param(case, id=f"W5-{case[1]}") for case in self._forbidden()]
            metafunc.parametrize("forbidden", values)
        if "burst" in metafunc.fixturenames:
            bursts = [pytest.param(case, id=f"S1-{case[0]}") for case in self._bursts()]
            if type(self).publish is WireContract.publish:
                why = pytest.mark.skip(reason=_NO_FRAMES)
                bursts = [pytest.param(None, id="F1-F4-S1", marks=why)]
            metafunc.parametrize("burst", bursts)

    def test_sends_canonical_bytes(self, payload_vector: PayloadVector) -> None:
        """The engine encodes the reading to exactly the bytes of the vector."""
        reading = _reading(payload_vector, self.revision)
        expected = payload_vector.payload
        got: bytes | None = None
        finding: Finding | None
        try:
            sent = got = self.encode(self.make_stat(reading))
        except Exception as error:  # whatever it is, that is the finding
            finding = _crashed(payload_vector.rule, expected.hex(), error)
        else:
            same = sent == expected
            finding = None if same else self._grade(sent, expected, reading, payload_vector)
        self.hold(
            finding,
            rule=payload_vector.rule,
            case=payload_vector.id,
            why=payload_vector.why,
            payload=got,
            against=expected,
        )

    def test_never_sends_what_is_no_count(self, forbidden: tuple[str, str, object, Any]) -> None:
        """The engine refuses a value that is no count, or sends the count it stands for."""
        field, case, value, means = forbidden
        reading = _reading(load().payload(f"rev{self.revision}-golden-a"), self.revision)
        try:
            got = self.encode(self.make_stat({**reading, field: value}))
        except Exception:  # any refusal will do
            finding, got = None, b""
        else:
            finding = self._grade_forbidden(got, {**reading, field: means}, field, value)
        self.hold(finding, rule="W5", case=case, payload=got)

    def test_sends_three_frames_in_sequence(self, burst: tuple[str, Sequence[str]]) -> None:
        """A fresh engine sends topic, sequence from 0 without a gap, and the canonical payload."""
        case, ids = burst
        finding: Finding | None
        vectors = [load().payload(vector_id) for vector_id in ids]
        try:
            stats = [self.make_stat(_reading(vector, self.revision)) for vector in vectors]
            messages = [tuple(map(bytes, message)) for message in self.publish(stats)]
        except Exception as error:  # as above
            finding = _crashed("S1", f"{len(vectors)} messages", error)
            self.hold(finding, rule="S1", case=case)
            return
        if len(messages) != len(vectors):
            finding = Finding(
                "wrong-bytes",
                "S1",
                f"{len(vectors)} messages for {len(vectors)} changed readings",
                f"{len(messages)}",
                Hazard.STALE,
            )
            self.hold(finding, rule="S1", case=case)
            return
        for number, (vector, message) in enumerate(zip(vectors, messages, strict=True)):
            finding = judge_message(
                message,
                revision=self.revision,
                sequence=number,
                owed=_reading(vector, self.revision),
                named=vector.id,
                rule=vector.rule,
            )
            if finding is not None:
                self.hold(finding, rule="S1", case=case, why=vector.id, frames=message)
                return
        self.hold(None, rule="S1", case=case)

    @classmethod
    def _vectors(cls) -> list[PayloadVector]:
        return [v for v in load().payloads if v.engine == cls.revision and v.kind != "spelling"]

    @classmethod
    def _forbidden(cls) -> list[tuple[str, str, object, int | None]]:
        # In every slot, since an engine checks, or forgets to check, each one by itself.
        return [
            (field, f"{kind}-{field.replace('_', '-')}", value, means)
            for field in wire.field_names(cls.revision)
            for kind, value, means in FORBIDDEN
            if not (value is None and field == "attn_dp_rank")  # nil is how an unset rank is sent
        ]

    @classmethod
    def _bursts(cls) -> list[tuple[str, Sequence[str]]]:
        return [
            ("three-readings", [f"rev{cls.revision}-golden-{name}" for name in "abc"]),
            ("nil-rank", [f"rev{cls.revision}-golden-nil-rank"]),
        ]

    def _grade(
        self, got: bytes, expected: bytes, reading: Reading, vector: PayloadVector
    ) -> Finding:
        """Which rule bytes break that are not those of the vector."""
        try:
            stat = wire.verify(got, revision=self.revision)
        except WireError as error:
            return Finding(
                "wrong-bytes", error.rule, expected.hex(), f"{got.hex()}: {error}", Hazard.STALE
            )
        moved = [
            f"{name}={value} instead of {reading[name]}"
            for name, value in wire.to_dict(stat).items()
            if value != reading[name]
        ]
        return Finding(
            "wrong-bytes",
            vector.rule,
            expected.hex(),
            f"{got.hex()}: a router would read {', '.join(moved)}",
            hazard_of(reading, wire.to_dict(stat)),
        )

    def _grade_forbidden(
        self, got: bytes, means: Mapping[str, Any], field: str, value: object
    ) -> Finding | None:
        """Whether what an engine made of a forbidden value is the count that it stands for."""
        try:
            stat = wire.verify(got, revision=self.revision)
        except WireError as error:
            sent = str(error)
        else:
            if wire.to_dict(stat) == means:
                return None
            sent = f"{field}={getattr(stat, field)}"
        return Finding(
            "accepted",
            "W5",
            f"a refusal of {field}={value!r}" + (f", or {means[field]}" if means[field] else ""),
            f"{got.hex()}: {sent}",
            Hazard.STARVES if value == -1 else Hazard.ATTRACTS_ALL,
        )


def _crashed(rule: str, expected: str, error: Exception) -> Finding:
    got = Crashed.of(error).text
    if isinstance(error, TypeError) and "keyword" in str(error):
        got += "; add the field, or override make_stat"
    return Finding("crashed", rule, expected, got, Hazard.STALE)


def _reading(vector: PayloadVector, revision: int) -> Reading:
    verdict = vector.readers[str(revision)]
    taken = verdict.outcomes["accept"] if isinstance(verdict, Declare) else verdict
    assert isinstance(taken, Accept)  # an engine's vector is one that its own reader takes
    return taken.reading
