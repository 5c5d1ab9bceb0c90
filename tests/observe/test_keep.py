"""What was seen, as vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_loadwire.engine.hostile import bad_messages
from pytest_loadwire.judge import judge
from pytest_loadwire.observe.keep import MOST_VECTORS, save, vectors
from pytest_loadwire.observe.seen import Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.vectors import FrameVector, VectorFile, folder, load, read_json
from pytest_loadwire.wire import LoadStatRev2
from pytest_loadwire.witness import MsgpackWitness, MsgspecWitness

Worker = Callable[..., TargetSeen]
Watched = Callable[..., Seen]


def heard(*messages: tuple[bytes, ...]) -> Stream:
    """A stream that got these messages."""
    stream = Stream(rank=0)
    for at, frames in enumerate(messages):
        stream.receive(at, frames)
    return stream


def schema() -> dict[str, Any]:
    """The schema of golden/frames.json."""
    text = (folder() / "schema" / "frames.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def test_a_worker(worker: Worker, watched: Watched, tmp_path: Path) -> None:
    """A worker's messages become vectors that load, fit the schema and say where they are from."""
    file = tmp_path / "seen.json"
    assert 2 == save(file, watched(worker(2)))
    Draft202012Validator(schema()).validate(json.loads(file.read_text()))
    first, second = read_json(file, VectorFile[FrameVector]).vectors
    assert first.id != second.id
    assert (2, 2, "F4", "boundary") == (first.engine, first.since, first.rule, first.kind)
    assert first.source == (
        "seen by loadwire check on http://10.0.0.5:30000, rank 0 at tcp://10.0.0.5:5558, "
        "2026-01-01T00:00:00+00:00"
    )


# ZeroMQ cannot send a message without a frame.
SENT = [vector for vector in load().frames if vector.parts]


@pytest.mark.parametrize("vector", SENT, ids=lambda vector: vector.id)
def test_every_frame_vector(worker: Worker, watched: Watched, vector: FrameVector) -> None:
    """What is seen of a golden message gets the golden verdicts, and both witnesses agree."""
    (kept,) = vectors(watched(worker(1, streams=[heard(vector.parts)])))
    assert (vector.frames, vector.engine) == (kept.frames, kept.engine)
    for reader, verdict in vector.readers.items():
        mine = kept.readers[reader]
        assert type(verdict) is type(mine)
        assert getattr(verdict, "reason", None) == getattr(mine, "reason", None)
        assert getattr(verdict, "outcomes", {}).keys() == getattr(mine, "outcomes", {}).keys()
        for witness in (MsgspecWitness(), MsgpackWitness()):
            answer = witness.parse_frames(kept.parts, int(reader))
            assert judge(mine, answer, rule=kept.rule, policies=witness.policies) is None


def test_hostile_messages(worker: Worker, watched: Watched, tmp_path: Path) -> None:
    """Whatever came, every vector fits the schema, is no golden one by id, and stays a vector."""
    streams = [heard(*bad_messages()[start::16]) for start in range(16)]
    seen = watched(worker(16, streams=streams))
    file = tmp_path / "seen.json"
    count = save(file, seen)
    assert 16 < count <= MOST_VECTORS
    document = json.loads(file.read_text())
    Draft202012Validator(schema()).validate(document)
    ids = [vector["id"] for vector in document["vectors"]]
    assert count == len(set(ids))
    assert not set(ids) & {vector.id for vector in load().frames}


def test_ids_follow_from_the_bytes(worker: Worker, watched: Watched) -> None:
    """The same bytes have the same id whenever they are seen, and are kept once."""
    message = (b"load", bytes(8), b"\x80")
    once = vectors(watched(worker(1, streams=[heard(message)])))
    twice = vectors(watched(worker(2, streams=[heard(message), heard(message)])))
    assert [one.id for one in once] == [one.id for one in twice]
    other = vectors(watched(worker(1, streams=[heard((b"loa", b"d" + bytes(8), b"\x80"))])))
    assert once[0].id != other[0].id


def test_shapes_are_kept_once(
    worker: Worker,
    watched: Watched,
    stat: Callable[..., LoadStatRev2],
    speak: Callable[..., Stream],
) -> None:
    """Readings whose numbers have the same widths are one shape."""
    stream = speak(Stream(rank=0), count=50)
    assert 1 == len(vectors(watched(worker(1, streams=[stream]))))
    speak(stream, count=1, first=50, num_waiting_reqs=300)
    assert 2 == len(vectors(watched(worker(1, streams=[stream]))))


def test_nothing_seen(worker: Worker, watched: Watched, tmp_path: Path) -> None:
    """A silent watch keeps an empty list."""
    file = tmp_path / "seen.json"
    assert 0 == save(file, watched(worker(1, streams=[Stream(rank=0)])))
    assert [] == json.loads(file.read_text())["vectors"]
