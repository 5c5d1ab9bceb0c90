"""The main job: everything agrees, and what does not is named by rule and vector."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loadwire import check
from pytest_loadwire.check import Cell, Result, rule_order, run
from pytest_loadwire.deadline import DeadlineError
from pytest_loadwire.golden.build import content_hash
from pytest_loadwire.harness import native, sockets
from pytest_loadwire.rules import RULES
from pytest_loadwire.vectors import FrameVector, GoldenError, PayloadVector, folder, load
from pytest_loadwire.vectors.timelines import NamedReading, PublisherTimeline, SchedulerTimeline
from pytest_loadwire.witness import MsgspecWitness

GOLDEN = load()
READERS = ["msgspec", "msgpack", "rust"]
CANONICAL = sum(vector.engine is not None for vector in GOLDEN.payloads)
ALL: list[PayloadVector | FrameVector] = [*GOLDEN.payloads, *GOLDEN.frames]
BEHAVIOUR = [*GOLDEN.endpoints, *GOLDEN.discovery, *GOLDEN.cadence, *GOLDEN.readings]


def edit(root: Path, name: str, old: str, new: str, *, count: int = 1) -> None:
    text = (root / name).read_text("utf-8")
    assert old in text
    (root / name).write_text(text.replace(old, new, count), "utf-8")


def seal(root: Path) -> None:
    """Makes hashes and counts of the manifest right for what is there."""
    file = root / "manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    for name, entry in manifest["files"].items():
        entry["sha256"] = hashlib.sha256((root / name).read_bytes()).hexdigest()
        entry["vectors"] = len(json.loads((root / name).read_text("utf-8"))["vectors"])
    manifest["content_hash"] = content_hash(manifest["files"])
    file.write_text(json.dumps(manifest), "utf-8")


def manifest_edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def tamper(root: Path) -> None:
        file = root / "manifest.json"
        manifest = json.loads(file.read_text("utf-8"))
        change(manifest)
        file.write_text(json.dumps(manifest), "utf-8")

    return tamper


def vector_edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of the vectors that the manifest vouches for, so that only the vectors show it."""

    def tamper(root: Path) -> None:
        edit(root, name, old, new)
        seal(root)

    return tamper


def _sends(timeline: PublisherTimeline | SchedulerTimeline, reading: str) -> bool:
    if isinstance(timeline, SchedulerTimeline):
        return any(step.reading == reading and step.expect.sent for step in timeline.steps)
    return any(step.call.reading == reading and step.expect.sent for step in timeline.steps)


A_HEX = GOLDEN.payload("rev1-golden-a").hex
UNPARSEABLE = '"expect": {"verdict": "refuse", "reason": "no-kv-events"}'
# The timelines that send the second reading: a message that cannot go out breaks each of them.
BROKEN_BY_B = sorted(
    f"{vector.rule} {vector.id}: reference: "
    for vector in GOLDEN.cadence
    if not isinstance(vector, NamedReading) and _sends(vector, "reading-b")
)
FRAMES_A = json.dumps(list(GOLDEN.frame("frames-rev1-golden-a").frames))

# what somebody did to the folder, and the beginnings of all that the check says
TAMPERED: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "hash": (
        lambda root: edit(root, "payloads.json", "\n", "\n\n"),
        [
            "W11 payloads.json: its hash is ",
            "W11 manifest.json: content_hash is not that of the files",
        ],
    ),
    "count": (
        manifest_edit(lambda m: m["files"]["frames.json"].update(vectors=1)),
        [f"W11 frames.json: {len(GOLDEN.frames)} vectors, the manifest says 1"],
    ),
    "content hash": (
        manifest_edit(lambda m: m.update(content_hash="0" * 64)),
        ["W11 manifest.json: content_hash is not that of the files"],
    ),
    "file left out": (
        manifest_edit(
            lambda m: (
                m["files"].pop("frames.json"),
                m.update(content_hash=content_hash(m["files"])),
            )
        ),
        [
            "W11 frames.json: is not in the manifest",
        ],
    ),
    "unknown file": (
        manifest_edit(
            lambda m: m["files"].update({"zebras.json": {"sha256": "0" * 64, "vectors": 1}})
        ),
        ["W11 zebras.json: is no file of vectors"],
    ),
    "field": (
        manifest_edit(lambda m: m["revisions"]["2"][9].update(name="total_busy_us")),
        ["W11 manifest.json: revision 2 has the fields ['num_running_reqs', "],
    ),
    "no revision": (
        manifest_edit(lambda m: m["revisions"].pop("2")),
        ["W11 manifest.json: revision 2 has the fields []"],
    ),
    "schema of the manifest": (
        manifest_edit(lambda m: m["revisions"]["1"][0].update(unit="pages")),
        ["W11 manifest.json: $.revisions"],
    ),
    "schema of the payloads": (
        vector_edit("payloads.json", '"why": "every slot', '"more": 1, "why": "every slot'),
        ["W11 payloads.json: $.vectors[0]: Additional properties are not allowed ('more'"],
    ),
    "schema of the frames": (
        vector_edit("frames.json", '"source": "', '"source": "", "x-source": "'),
        ["W11 frames.json: $.vectors[0]: Additional", "W11 frames.json: $.vectors[0].source: ''"],
    ),
    "verdict": (
        vector_edit(
            "payloads.json",
            '"1": {"verdict": "accept", "revision": 1, "value": {"num_running_reqs": "17"',
            '"1": {"verdict": "accept", "revision": 1, "value": {"num_running_reqs": "18"',
        ),
        [
            *(
                f"W2 rev1-golden-a: {reader}: W2 wrong-value: expected revision 1, "
                for reader in READERS
            ),
            *(f"W6 rev1-golden-a made again: {reader}: makes " for reader in READERS),
            "F1 rev1-golden-a: socket: ",
        ],
    ),
    "hex": (
        vector_edit("payloads.json", f'"hex": "{A_HEX}"', f'"hex": "{A_HEX[:-2]}07"'),
        [
            *(f"W2 rev1-golden-a: {reader}: W2 wrong-value: " for reader in READERS for _ in "12"),
            *(f"W6 rev1-golden-a made again: {reader}: makes {A_HEX} of " for reader in READERS),
            "F1 rev1-golden-a: socket: ",
        ],
    ),
    "frames": (
        vector_edit("frames.json", FRAMES_A, FRAMES_A.replace("6c6f6164", "6c6f6165", 1)),
        [f"F4 frames-rev1-golden-a: {r}: F4 refused: expected " for r in READERS for _ in "12"],
    ),
    "address": (
        vector_edit("endpoints.json", '"port": 5557', '"port": 5558'),
        ["E4 parse-star: reference: E4 wrong-value: expected Parsed("],
    ),
    "start": (
        vector_edit("discovery.json", '"expect": {"verdict": "pass"}', UNPARSEABLE),
        ["V1 validate-unset: reference: V1 accepted: expected a refusal of validate-unset"],
    ),
    "timeline": (
        vector_edit("cadence.json", '{"sent": "0", "asked": true', '{"sent": "1", "asked": true'),
        ["P1 throttle-one-in-five: reference: S1 wrong-sequence: expected number 1, got 0; the "],
    ),
    "pass": (
        vector_edit("cadence.json", '"sent": "0", "walks": 1', '"sent": "0", "walks": 0'),
        ["P5 batch-prefill-is-forced: reference: P5 asked: expected at most 0 walk(s) "],
    ),
    "reading that no engine sends": (
        vector_edit("cadence.json", '"num_waiting_reqs": "-1"', '"num_waiting_reqs": "1"'),
        [
            "W5 reading-negative: reference: encodes it, and should refuse",
            "W5 failure-of-a-negative-count: reference: W5 sent: expected no message at 100.25",
        ],
    ),
    "reading that nobody can send": (
        vector_edit("cadence.json", '"num_running_reqs": "0"', '"num_running_reqs": "-2"'),
        ["P2 reading-b: reference: refuses it: W5 out-of-range", *BROKEN_BY_B],
    ),
    "timeline that nobody can play": (
        vector_edit("cadence.json", '"reading": "reading-zero"', '"reading": "reading-none"'),
        ["P2 change-from-nothing-to-zeros: reference: KeyError: 'reading-none'"],
    ),
    "view": (
        vector_edit("readings.json", '"num_running_reqs": "1"', '"num_running_reqs": "2"'),
        ["C1 one-rank: reference: step 1 at 100.25, http"],
    ),
    "reason": (
        vector_edit(
            "payloads.json",
            '"reason": "not-array", "offset": 0, "element": null, "hazard": "attracts-all"',
            '"reason": "bad-tag", "offset": 0, "element": null, "hazard": "attracts-all"',
        ),
        [f"W10 top-nil: {reader}: W10 wrong-reason: expected a refusal" for reader in READERS],
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder(), tmp_path / "golden"))


@pytest.fixture
def without_rust(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(path: str | None = None) -> native.NativeDecoder:
        raise native.NativeUnavailable("cargo is not on PATH")

    monkeypatch.setattr(native, "load", unavailable)


def passed(result: Result, witness: str) -> int:
    return sum(row[witness].passed for row in result.cells.values() if witness in row)


def test_agreement(loadwire_native: native.NativeDecoder) -> None:
    """Every vector by its witnesses, every canonical payload by three encoders and the socket."""
    told: list[str] = []
    result = run(progress=told.append)
    assert ([], {}) == (result.failures, result.not_run)
    assert result.ok
    assert [*READERS, "socket", "reference"] == result.witnesses
    expected = {
        **dict.fromkeys(READERS, len(ALL) + CANONICAL),
        "socket": CANONICAL,
        "reference": len(BEHAVIOUR),
    }
    assert expected == {witness: passed(result, witness) for witness in result.witnesses}
    assert (folder(), GOLDEN.content_hash) == (result.root, result.content_hash)
    spellings = sum(len(vector.spellings) for vector in GOLDEN.payloads)
    assert {
        "payload vectors": len(GOLDEN.payloads),
        "payload spellings": spellings,
        "frame vectors": len(GOLDEN.frames),
        "canonical messages": CANONICAL,
        "endpoint vectors": len(GOLDEN.endpoints),
        "discovery vectors": len(GOLDEN.discovery),
        "cadence vectors": len(GOLDEN.cadence),
        "reading timelines": len(GOLDEN.readings),
    } == result.totals
    parts = ["files", "Rust", *READERS, "encoders", "socket", "reference"]
    assert parts == [text.split(":")[0] for text in told]


def test_rules(loadwire_native: native.NativeDecoder) -> None:
    """Every vector counts for its rule, once for each of its witnesses."""
    result = run()
    assert {vector.rule for vector in (*ALL, *BEHAVIOUR)} == set(result.cells)
    assert {*"REVAPC"} < {rule[0] for rule in result.cells}
    for rule in result.cells:
        number = sum(vector.rule == rule for vector in ALL)
        again = CANONICAL if rule == "W6" else 0
        expected = dict.fromkeys(READERS, Cell(number + again)) if number else {}
        if rule == "F1":
            expected["socket"] = Cell(CANONICAL)
        if answered := sum(vector.rule == rule for vector in BEHAVIOUR):
            expected["reference"] = Cell(answered)
        assert expected == result.cells[rule]


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered(name: str, root: Path, loadwire_native: native.NativeDecoder) -> None:
    """What somebody did to a folder is found, and nothing else is said."""
    tamper, expected = TAMPERED[name]
    tamper(root)
    result = run(root)
    assert not result.ok
    assert result.root == root
    # In any order, and a sentence is known by its beginning.
    left = list(result.failures)
    for beginning in expected:
        found = [sentence for sentence in left if sentence.startswith(beginning)]
        assert found, beginning
        left.remove(found[0])
    assert [] == left


def test_failed_cells(root: Path, loadwire_native: native.NativeDecoder) -> None:
    """A vector that fails counts as failed for its rule and witness, once."""
    TAMPERED["hex"][0](root)
    result = run(root)
    number = sum(vector.rule == "W2" for vector in GOLDEN.payloads)
    expected = dict.fromkeys(READERS, Cell(number - 1, 1))
    assert expected == result.cells["W2"]


def test_without_rust(without_rust: None) -> None:
    """Without Rust the rest is run, and the result says what was not and why."""
    result = run()
    assert {"rust": "cargo is not on PATH"} == result.not_run
    assert result.ok
    assert ["msgspec", "msgpack", "socket", "reference"] == result.witnesses


def test_named_library(tmp_path: Path) -> None:
    """A library that somebody names and that does not load is an error, not a thing not run."""
    with pytest.raises(native.NativeUnavailable, match=r"libmine\.so does not load"):
        run(native=str(tmp_path / "libmine.so"))


def test_other_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library is a column of its own name, and is not asked for what it does not offer."""

    class Mine(MsgspecWitness):
        name = "mine"
        offers: frozenset[str] = frozenset()

    monkeypatch.setattr(native, "load", lambda path=None: Mine())
    result = run(native="libmine.so")
    assert [] == result.failures
    assert ["msgspec", "msgpack", "mine", "socket", "reference"] == result.witnesses
    assert passed(result, "mine") == len(ALL)


def test_wrong_decoder(monkeypatch: pytest.MonkeyPatch, without_rust: None) -> None:
    """A reader that is wrong fails for what it gets wrong, and the others do not."""
    good = MsgspecWitness.decode

    def careless(self: MsgspecWitness, payload: bytes, revision: int) -> object:
        return good(self, payload[:-1], revision)

    monkeypatch.setattr(MsgspecWitness, "decode", careless)
    result = run()
    assert any(f.startswith("W3 rev2-golden-a: msgspec: W3 refused: ") for f in result.failures)
    assert all(": msgspec: " in failure for failure in result.failures)


def test_wrong_encoder(monkeypatch: pytest.MonkeyPatch, without_rust: None) -> None:
    """An encoder that makes other bytes fails for them."""
    monkeypatch.setattr(check, "_pack", lambda stat: b"\x90")
    failures = run().failures
    assert len(failures) == CANONICAL
    assert failures[0].startswith("W6 rev1-golden-a made again: msgpack: makes 90 of LoadStatRev1(")


def test_wrong_socket(monkeypatch: pytest.MonkeyPatch, without_rust: None) -> None:
    """What arrives otherwise than it was sent fails."""
    good = sockets.LiveSubscriber.receive_frames

    def turned(self: sockets.LiveSubscriber, *args: Any, **kwargs: Any) -> tuple[bytes, ...]:
        topic, sequence, payload = good(self, *args, **kwargs)
        return topic, sequence[::-1], payload

    monkeypatch.setattr(sockets.LiveSubscriber, "receive_frames", turned)
    failures = run().failures
    # The first sequence is 0, which reads the same from both ends.
    assert len(failures) == CANONICAL - 1
    assert failures[0].startswith("F1 rev1-golden-b: socket: (b'load', ")


def test_failing_socket(monkeypatch: pytest.MonkeyPatch, without_rust: None) -> None:
    """A socket that fails is a failure and not a crash."""

    def late(self: sockets.LiveSubscriber, *args: Any, **kwargs: Any) -> tuple[bytes, ...]:
        raise DeadlineError("nothing arrived")

    monkeypatch.setattr(sockets.LiveSubscriber, "receive_frames", late)
    result = run()
    assert ["F1 socket: nothing arrived"] == result.failures


def test_without_jsonschema(monkeypatch: pytest.MonkeyPatch, without_rust: None) -> None:
    """Without jsonschema the schemas are not run, and what to install is said."""
    monkeypatch.setattr(check, "find_spec", lambda name: None)
    result = run()
    assert result.ok
    assert "comes with the cli extra" in result.not_run["schemas"]


@pytest.mark.parametrize(
    "name", ["manifest.json", "payloads.json", "frames.json", "schema/payloads.schema.json"]
)
def test_unreadable(name: str, root: Path, without_rust: None) -> None:
    """A folder whose files cannot be read at all is no folder to check."""
    (root / name).unlink()
    with pytest.raises(GoldenError, match=name):
        run(root)


def test_json(root: Path, without_rust: None) -> None:
    """The result is plain data, with the rules in the contract's order."""
    TAMPERED["reason"][0](root)
    result = run(root)
    told = json.loads(json.dumps(result.to_json()))
    assert (False, str(root)) == (told["ok"], told["golden"])
    assert result.failures == told["failures"]
    assert {"rust": "cargo is not on PATH"} == told["not_run"]
    assert result.content_hash == told["content_hash"]
    assert [rule for rule in RULES if rule in result.cells] == list(told["rules"])
    tops = {"passed": result.cells["W10"]["msgspec"].passed, "failed": 1}
    assert tops == told["rules"]["W10"]["msgspec"]


def test_rule_order() -> None:
    """Rules are in the contract's order, W2 before W10, and what is none comes last."""
    assert ["W1", "W2", "W10", "F1", "Z9"] == sorted(
        ["Z9", "W10", "F1", "W2", "W1"], key=rule_order
    )
