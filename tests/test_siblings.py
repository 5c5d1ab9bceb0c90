"""What else a message can be."""

from __future__ import annotations

import base64
import json
import pickle
import struct

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loadwire.siblings import (
    KV_EVENTS,
    SENTINEL,
    Sibling,
    is_load_stat,
    lookalike,
    recognise_frames,
    recognise_payload,
)
from pytest_loadwire.vectors import Accept, load

GOLDEN = load()
STAT = GOLDEN.payload("rev2-golden-a").payload
SEQUENCE = struct.pack(">q", 7)
STORED = {
    "type": "BlockStored",
    "block_hashes": [2**63 - 5],
    "parent_block_hash": None,
    "token_ids": [1, 2],
    "block_size": 2,
    "lora_id": None,
}
MSGPACK = {"kv-events", "load-snapshot", "load-stat-map"}
SNAPSHOT = {"timestamp": 1.5, "num_running_reqs": 5, "num_used_tokens": 100, "memory": [1, 2, 3, 4]}


def packed(value: object) -> bytes:
    data = msgpack.packb(value)
    assert isinstance(data, bytes)
    return data


def wire(*frames: bytes) -> bytes:
    """A message as ZMTP has it on the TCP stream."""
    data = b""
    for index, frame in enumerate(frames):
        data += bytes([index < len(frames) - 1, len(frame)]) + frame
    return data


# what it is, the bytes, the kind, some of what is said
PAYLOADS = [
    ("events as maps", packed([1.5, [STORED], 0]), "kv-events", "1 event (BlockStored)"),
    ("no rank", packed([1.5, [STORED]]), "kv-events", "1 event (BlockStored)"),
    ("events as arrays", packed([1.5, [["BlockRemoved", [1]]], None]), "kv-events", "BlockRemoved"),
    ("an integer timestamp", packed([17, [["AllBlocksCleared"]]]), "kv-events", "AllBlocksCleared"),
    ("no events", packed([1.5, []]), "kv-events", "0 events"),
    ("two kinds", packed([1.5, [STORED, ["BlockRemoved", []]]]), "kv-events",
     "2 events (BlockStored, BlockRemoved)"),
    ("many", packed([1.5, [STORED] * 300]), "kv-events", "300 events (BlockStored, ...)"),
    ("a batch that is cut", packed([1.5, [STORED, STORED]])[:-20], "kv-events", "BlockStored"),
    ("one event", packed(["BlockStored", [1], None]), "kv-events", "one BlockStored event"),
    ("one event as a map", packed(STORED), "kv-events", "one BlockStored"),
    ("a snapshot", packed(SNAPSHOT), "load-snapshot", "a LoadSnapshot"),
    ("an idle snapshot", b"\x80", "load-snapshot", "an empty map"),
    ("a snapshot that is cut", packed(SNAPSHOT)[:-3], "load-snapshot", "names, which breaks off"),
    ("shared memory", b"SLNS\x02\x00\x01\x00", "load-snapshot", "shared-memory"),
    ("a map of fields", packed({"num_running_reqs": 1, "num_tokens": 2}), "load-stat-map", "a map"),
    ("a tagged map", packed({"type": "LoadStat"}), "load-stat-map", "a LoadStat"),
    ("a response", b"HTTP/1.1 404 Not Found\r\n\r\n", "http", "'HTTP/1.1 404 Not Found'"),
    ("a request", b"GET /server_info HTTP/1.1\r\n", "http", "an HTTP request"),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http", "an HTTP request"),
    ("TLS", b"\x16\x03\x01\x02\x00\x01", "tls", "a TLS record"),
    ("a greeting", b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", "zmtp", "a ZMTP greeting"),
    ("a command", b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB", "zmtp", "command READY"),
    ("a stream", b"\x45\0\0" + wire(b"load", SEQUENCE, STAT), "zmtp", "starts at byte 3"),
    ("a subscription", b"\x01load", "subscription", "a subscription for the topic 'load'"),
    ("the end of one", b"\0load", "subscription", "an unsubscription"),
    ("a pickle", pickle.dumps({"a": 1}, protocol=5), "pickle", "a Python pickle, protocol 5"),
    ("JSON", b'{"a": 1}', "json", "JSON text"),
    ("JSON that is cut", b'{"kv_events": {"publ', "json", "that breaks off"),
    ("server info", json.dumps({"kv_events": None}).encode(), "json", "/server_info"),
    ("an event as JSON", json.dumps(STORED).encode(), "json", "a KV event"),
    ("a snapshot as JSON", json.dumps(SNAPSHOT).encode(), "json", "a load reading"),
    ("a LoadStat as JSON", b'["LoadStat", 7, 3]', "json", "a LoadStat"),
    ("deep JSON", b"[" * 100_000, "json", "JSON text"),
    ("hex twice", STAT.hex().encode(), "hex-text", "hex digits as text of a LoadStat"),
    ("a message, twice", (b"load" + SEQUENCE + STAT).hex().encode(), "hex-text", "a load message"),
    ("base64", base64.b64encode(STAT), "base64-text", "base64 text of a LoadStat"),
    ("text", b"no such worker", "text", "'no such worker'"),
    ("a sequence", SEQUENCE, "sequence", "the sequence 7"),
    ("glued", b"load" + SEQUENCE + STAT, "glued", "topic, sequence and payload in one frame"),
    ("glued without topic", SEQUENCE + STAT, "glued", "sequence and payload in one frame"),
]  # fmt: skip

MESSAGES = [
    ("kv events", (b"", SEQUENCE, packed([1.5, [STORED], 0])), "kv-events"),
    ("kv events with a topic", (b"kv-events", SEQUENCE, packed([1.5, [STORED]])), "kv-events"),
    ("a replayed batch", (b"", SEQUENCE, packed([1.5, [STORED]])), "kv-events"),
    ("a replayed batch, two frames", (SEQUENCE, packed([1.5, [STORED]])), "kv-events"),
    ("the end of a replay", (b"", SENTINEL, b""), "replay-sentinel"),
    ("the end of a replay, two frames", (SENTINEL, b""), "replay-sentinel"),
    ("the end of a replay, one frame", (SENTINEL,), "replay-sentinel"),
    ("a snapshot", (b"", SEQUENCE, packed(SNAPSHOT)), "load-snapshot"),
    ("CONFLATE", (STAT,), "conflated"),
    ("glued", (b"load" + SEQUENCE + STAT,), "glued"),
    ("text", (b"load", SEQUENCE, b"out of memory"), "text"),
]


@pytest.mark.parametrize(
    ("data", "kind", "said"), [row[1:] for row in PAYLOADS], ids=[row[0] for row in PAYLOADS]
)
def test_payloads(data: bytes, kind: str, said: str) -> None:
    """A payload of something else is called by its name, with what to do about it."""
    found = recognise_payload(data)
    assert isinstance(found, Sibling)
    assert kind == found.kind
    assert said in found.says
    assert found.hint
    assert not found.says.endswith(".")
    assert (found.says + found.hint).isascii()


@pytest.mark.parametrize(
    ("frames", "kind"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_messages(frames: tuple[bytes, ...], kind: str) -> None:
    """A message of something else is called by its name."""
    found = recognise_frames(frames)
    assert found is not None
    assert kind == found.kind


def test_the_hint_leads_to_the_load_port() -> None:
    """Who is on the KV port is told where the load port is."""
    found = recognise_frames((b"", SEQUENCE, packed([1.5, [STORED]])))
    assert found is not None
    assert "load_endpoint_port_base + rank" in found.hint


def test_a_stream_gives_its_frames() -> None:
    """What is found in a TCP stream is given as frames to explain."""
    found = recognise_payload(b"\x45" * 40 + wire(b"load", SEQUENCE, STAT) + b"\x04\x05\x04PING")
    assert found is not None
    assert found.hint.endswith(f"6c6f6164 0000000000000007 {STAT.hex()}")


def test_the_empty_topic_is_said() -> None:
    """A snapshot under an empty topic is the design that was not chosen."""
    found = recognise_frames((b"", SEQUENCE, b"\x80"))
    assert found is not None
    assert "empty topic" in found.says


@pytest.mark.parametrize("vector", GOLDEN.payloads, ids=lambda vector: vector.id)
def test_no_reading_is_something_else(vector: object) -> None:
    """What some router reads is never called something else."""
    for _, form in vector.forms():  # type: ignore[attr-defined]
        verdicts = vector.readers.values()  # type: ignore[attr-defined]
        if any(isinstance(verdict, Accept) for verdict in verdicts) or is_load_stat(form):
            assert recognise_payload(form) is None
            assert recognise_frames((b"load", SEQUENCE, form)) is None


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\x01", b"\x90", b"\xc0", b"\xff", b"{", b"\x93\x01\x02\x03",
             b"ab", b"\x91\xdb\xff", b"\xc1", b"\xde\xad\xbe\xef", b"\xdf\0\0\0\1",
             packed([1.5, [1, 2]]), packed([1, []]), packed({"a": 1})]
)  # fmt: skip
def test_nothing_known(data: bytes) -> None:
    """Bytes that say nothing are called nothing."""
    assert recognise_payload(data) is None
    assert recognise_frames((b"load", SEQUENCE, data)) is None


@pytest.mark.parametrize("data", [row[1] for row in PAYLOADS], ids=[row[0] for row in PAYLOADS])
def test_the_hint_of_an_error_agrees(data: bytes) -> None:
    """What an error's hint says it looks like is what it is recognised as."""
    hint, found = lookalike(data), recognise_payload(data)
    assert found is not None
    assert hint is None or hint.startswith(f"it looks like {found.says}")
    assert (hint is not None) == (found.kind in MSGPACK and b"SLNS" != data[:4])


def test_no_frames() -> None:
    """A message without frames is nothing known."""
    assert recognise_frames(()) is None


def test_the_tags() -> None:
    """The KV stream has three events."""
    assert ("BlockStored", "BlockRemoved", "AllBlocksCleared") == KV_EVENTS


@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(PAYLOADS), st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_any_bytes(frames: list[bytes], row: tuple[str, bytes, str, str], cut: int) -> None:
    """Nothing makes it fail, and buffers of every kind are taken."""
    recognise_frames(frames)
    recognise_payload(memoryview(row[1][:cut]))
    for frame in frames:
        recognise_payload(bytearray(frame))
