"""Wrong on purpose: every wrong decoder and engine is caught, and every vector catches one.

Run with `-rP` or `-s` to see the table.
"""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loadwire import wire
from pytest_loadwire.contract.decoder import DecoderContract
from pytest_loadwire.contract.wire import WireContract
from pytest_loadwire.judge import Refused, Taken
from pytest_loadwire.rules import RULES
from pytest_loadwire.vectors import load
from pytest_loadwire.witness import MsgpackWitness
from wrong import decoders, engines, libraries, receivers, router  # noqa: F401 - libraries fill
from wrong.catalogue import DECODERS, ENGINES, Wrong, contract
from wrong.drive import catches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_loadwire.judge import Outcome

ALL = [*DECODERS, *ENGINES]

# Vectors that only implementations notice which get a lot else wrong as well: pattern, reason.
# Every other vector catches one that is right about at least five vectors in six.
KEPT: tuple[tuple[str, str], ...] = (
    ("rev?-golden-a", "the base from which most other vectors are one change away"),
    ("rev1-anchor-sglang", "the bytes that SGLang and llm-d pin, whatever else catches here"),
)


class _Reference:
    """`wire` as a router team would put it behind the hooks."""

    def __init__(self, revision: int) -> None:
        self.revision = revision

    def decode(self, payload: bytes) -> object:
        return wire.to_dict(wire.decode(payload, revision=self.revision))

    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        message = wire.parse_frames(frames, revision=self.revision)
        return message.sequence, wire.to_dict(message.stat)


class _Msgpack:
    """The witness on msgpack alone behind the same hooks."""

    def __init__(self, revision: int) -> None:
        self.revision = revision

    def decode(self, payload: bytes) -> object:
        return _reading(MsgpackWitness().decode(payload, self.revision))

    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int | None, object]:
        outcome = MsgpackWitness().parse_frames(frames, self.revision)
        reading = _reading(outcome)
        assert isinstance(outcome, Taken)
        return outcome.sequence, reading


def _reading(outcome: Outcome) -> Mapping[str, object]:
    if isinstance(outcome, Refused):
        raise router.Refusal(str(outcome.reason))
    assert isinstance(outcome, Taken), outcome
    return outcome.reading


class _Model:
    """The model engine: `wire.encode` and `wire.build_frames`."""

    def __init__(self, revision: int) -> None:
        self.revision = revision

    def make_stat(self, values: Mapping[str, Any]) -> wire.LoadStatRev1:
        return wire.from_dict(values, revision=self.revision)

    def encode(self, stat: wire.LoadStatRev1) -> bytes:
        return wire.encode(stat)

    def publish(self, stats: Sequence[wire.LoadStatRev1]) -> Sequence[Sequence[bytes]]:
        return [wire.build_frames(number, stat) for number, stat in enumerate(stats)]


RIGHT: dict[str, tuple[type[DecoderContract | WireContract], Any, int]] = {
    "wire-1": (DecoderContract, _Reference(1), 1),
    "wire-2": (DecoderContract, _Reference(2), 2),
    "msgpack-1": (DecoderContract, _Msgpack(1), 1),
    "msgpack-2": (DecoderContract, _Msgpack(2), 2),
    "router-1": (DecoderContract, router.Router1(), 1),
    "router-2": (DecoderContract, router.Router(), 2),
    "model-engine-1": (WireContract, _Model(1), 1),
    "model-engine-2": (WireContract, _Model(2), 2),
    "engine-1": (WireContract, engines.Engine1(), 1),
    "engine-2": (WireContract, engines.Engine(), 2),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str) -> None:
    """The reference, the msgpack witness, and the base of all wrong ones break no rule."""
    side, code, revision = RIGHT[name]
    assert catches(contract(side, code, revision)) == ()


@pytest.mark.parametrize("wrong", DECODERS, ids=lambda wrong: wrong.name)
def test_wrong_decoder_is_caught(wrong: Wrong) -> None:
    """A wrong decoder fails by every rule that it breaks."""
    assert sorted(wrong.breaks - _rules(wrong)) == [], wrong.story
    assert wrong.catches()


@pytest.mark.parametrize("wrong", ENGINES, ids=lambda wrong: wrong.name)
def test_wrong_engine_is_caught(wrong: Wrong) -> None:
    """A wrong engine fails by every rule that it breaks."""
    assert sorted(wrong.breaks - _rules(wrong)) == [], wrong.story
    assert wrong.catches()


def test_a_lot_is_wrong_and_each_is_named_once() -> None:
    """There are enough wrong ones of both sides, each with a name, a story and known rules."""
    assert len(DECODERS) >= 25
    assert len(ENGINES) >= 16
    for side in (DECODERS, ENGINES):
        names = [wrong.name for wrong in side]
        assert sorted(set(names)) == sorted(names)
    assert [wrong.name for wrong in ALL if not (wrong.story and wrong.breaks <= set(RULES))] == []


def test_wrong_ones_are_told_apart() -> None:
    """A crash is reported as a crash, a wrong reason as a wrong reason, and so on."""
    deeds = {wrong.name: {catch.deed for catch in wrong.catches()} for wrong in DECODERS}
    assert deeds["crashes-when-cut"] == {"crashed"}
    assert deeds["one-reason-for-all"] == {"wrong-reason"}
    assert deeds["trailing-bytes-kept"] == {"accepted"}
    assert deeds["no-signed-formats"] == {"refused"}
    assert deeds["off-by-one-slot"] == {"wrong-value"}


def test_every_vector_catches_something() -> None:
    """Each payload vector and each frame vector catches a wrong decoder or a wrong engine."""
    caught = _catchers()
    assert [vector for vector in _vectors() if not caught[vector]] == []


def test_every_vector_sees_what_most_others_do_not() -> None:
    """Each vector catches one that is right about five vectors in six, or is kept for a reason."""
    caught = _catchers()
    blunt = [v for v in _vectors() if not any(_mostly_right(wrong) for wrong in caught[v])]
    kept = [v for v in _vectors() if any(fnmatchcase(v, pattern) for pattern, _ in KEPT)]
    assert [v for v in blunt if v not in kept] == []
    for pattern, reason in KEPT:
        assert reason
        assert any(fnmatchcase(v, pattern) for v in blunt), f"{pattern} keeps nothing any more"


def test_the_table() -> None:
    """The table names every wrong one with its story, the rules that caught it and how often."""
    rows = [
        f"{wrong.name:<40} {len(_caught_by(wrong)):>4} {','.join(sorted(_rules(wrong))):<24}"
        f" {wrong.story}"
        for wrong in ALL
    ]
    print(f"\n{'wrong on purpose':<40} caught by vectors, rules; story", *rows, sep="\n")  # noqa: T201
    print(f"{len(DECODERS)} decoders, {len(ENGINES)} engines, {len(_vectors())} vectors")  # noqa: T201
    assert [row for row, wrong in zip(rows, ALL, strict=True) if not wrong.catches()] == []


# The same through a real pytest run, by the class that a team would write: code, its tests, rules.
RUNS: tuple[tuple[str, str, set[str]], ...] = (
    ("router.Router", "reads_payload", set()),
    ("decoders.NegativesWrapped", "reads_payload", {"W5"}),
    ("decoders.StillRevision1", "reads_payload", {"W3", "W4", "W5", "W7", "W8"}),
    ("decoders.TrailingBytesKept", "reads_payload", {"W6"}),
    ("receivers.LittleEndianSequence", "reads_frames", {"F3", "F4"}),
    ("receivers.FourFrames", "reads_frames", {"F1"}),
)


@pytest.mark.parametrize(("code", "test", "rules"), RUNS, ids=[code for code, *_ in RUNS])
def test_a_real_run_fails_by_the_same_cases(
    pytester: pytest.Pytester, code: str, test: str, rules: set[str]
) -> None:
    """A pytest run reports exactly the failures that this module counts, by the same ids."""
    module, _, name = code.partition(".")
    pytester.makepyfile(
        f"""
        from pytest_loadwire.contract.decoder import DecoderContract
        from wrong import {module}
        from wrong.drive import POLICIES

        class TestDecoder(DecoderContract):
            policies = POLICIES

            def decode(self, payload):
                return {code}().decode(payload)

            def decode_frames(self, frames):
                return {code}().decode_frames(frames)
        """
    )
    made = getattr({"router": router, "decoders": decoders, "receivers": receivers}[module], name)
    frames = {vector.id for vector in load().frames}
    expected = [
        catch
        for catch in catches(contract(DecoderContract, made()))
        if (catch.vector in frames) == (test == "reads_frames")
    ]
    assert {rule for catch in expected for rule in catch.rules} == rules

    run = pytester.inline_run("-k", test)
    passed, skipped, failed = run.listoutcomes()
    assert skipped == []
    assert [_case(report.nodeid) for report in failed] == [catch.case for catch in expected]
    assert len(passed) > len(failed)


def _case(nodeid: str) -> str:
    """`rev2-golden-a` of `test_x.py::TestDecoder::test_reads_payload[W3-rev2-golden-a]`."""
    return nodeid.partition("[")[2].rstrip("]").partition("-")[2]


def _rules(wrong: Wrong) -> set[str]:
    return {rule for catch in wrong.catches() for rule in catch.rules}


def _vectors() -> list[str]:
    golden = load()
    return [v.id for v in golden.payloads] + [v.id for v in golden.frames]


def _mostly_right(wrong: Wrong) -> bool:
    """Whether it is right about five in six of the vectors that it is held to."""
    golden = load()
    held = len(golden.payloads) + len(golden.frames)
    if wrong in ENGINES:
        held = sum(v.engine == wrong.revision and v.kind != "spelling" for v in golden.payloads)
    return len(_caught_by(wrong)) <= held // 6


def _caught_by(wrong: Wrong) -> set[str]:
    return {catch.vector for catch in wrong.catches()}


def _catchers() -> dict[str, list[Wrong]]:
    """Vector to all that it catches."""
    found: dict[str, list[Wrong]] = defaultdict(list)
    for wrong in ALL:
        for vector in _caught_by(wrong):
            found[vector].append(wrong)
    return found
