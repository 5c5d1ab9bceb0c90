"""What exactness costs, as ratios within one run: each group has the bare library beside ours."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.harness.native import NativeDecoder
from pytest_loadwire.wire import LoadStatRev2

pytest.importorskip("pytest_benchmark")

Benchmark = Callable[..., object]

encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(LoadStatRev2)


@pytest.mark.benchmark(group="build one message")
def test_build_frames(benchmark: Benchmark, reading: LoadStatRev2) -> None:
    """Three frames of a reading that is checked value by value."""
    assert benchmark(wire.build_frames, 7, reading) == bare_frames(7, reading)


@pytest.mark.benchmark(group="build one message")
def test_bare_build(benchmark: Benchmark, reading: LoadStatRev2) -> None:
    """Three frames of whatever is in the struct."""
    assert benchmark(bare_frames, 7, reading) == wire.build_frames(7, reading)


def bare_frames(sequence: int, stat: LoadStatRev2) -> tuple[bytes, bytes, bytes]:
    return b"load", sequence.to_bytes(8, "big"), encoder.encode(stat)


@pytest.mark.benchmark(group="decode one payload")
def test_decode(benchmark: Benchmark, reading: LoadStatRev2) -> None:
    """The revision is picked by length, and a refusal would say where."""
    assert benchmark(wire.decode, wire.encode(reading)) == reading


@pytest.mark.benchmark(group="decode one payload")
def test_bare_decode(benchmark: Benchmark, reading: LoadStatRev2) -> None:
    """A typed decoder, which reads missing elements as its defaults."""
    assert benchmark(decoder.decode, wire.encode(reading)) == reading


@pytest.mark.benchmark(group="decode one payload")
def test_native_decode(
    benchmark: Benchmark, reading: LoadStatRev2, loadwire_native: NativeDecoder
) -> None:
    """The Rust decoder through cffi, its answer as a Python object."""
    benchmark(loadwire_native.decode, wire.encode(reading))


@pytest.mark.benchmark(group="decode one payload")
def test_native_call(
    benchmark: Benchmark, reading: LoadStatRev2, loadwire_native: NativeDecoder
) -> None:
    """The call through cffi alone."""
    lib, payload = loadwire_native._lib, wire.encode(reading)
    out, refusal = loadwire_native._reading, loadwire_native._refusal
    assert benchmark(lib.loadwire_decode, payload, len(payload), out, refusal) == 0


@pytest.mark.benchmark(group="refuse one payload")
def test_refuse(benchmark: Benchmark, reading: LoadStatRev2) -> None:
    """A float in the last slot: msgspec refuses, and the exact reader says where."""
    payload = wire.encode(reading)[:-5] + bytes.fromhex("cb401c000000000000")

    def refuse() -> None:
        with pytest.raises(WireError):
            wire.decode(payload)

    benchmark(refuse)
