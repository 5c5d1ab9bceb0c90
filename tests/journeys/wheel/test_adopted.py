"""What a team that installed the wheel can do, with nothing of the source tree around."""

from __future__ import annotations

import msgspec

import pytest_loadwire
from pytest_loadwire import DecoderContract, Deviation, LoadStat, WireContract, wire
from pytest_loadwire.witness import STRICT


class EngineStat(msgspec.Struct, array_like=True, tag="LoadStat"):
    """The gauge as an engine declares it, with defaults."""

    num_running_reqs: int
    num_waiting_reqs: int
    num_tokens: int
    max_total_num_tokens: int
    attn_dp_rank: int | None = None
    num_waiting_uncached_tokens: int = 0
    num_total_tokens: int = 0
    max_running_requests: int = 0
    total_prefill_uncached_tokens: int = 0
    total_prefill_busy_us: int = 0


class TestWire(WireContract):
    """The two-step adoption of an engine."""

    load_stat = EngineStat
    deviations = (
        Deviation(
            rule="W5",
            deed="accepted",
            cases=["float*", "bool*", "nil*", "negative*", "text*"],
            reason="msgspec does not check the values of a struct that it encodes",
        ),
    )

    def publish(self, stats):
        """Frame the readings as the engine does."""
        return [
            (b"load", number.to_bytes(8, "big"), self.encode(stat))
            for number, stat in enumerate(stats)
        ]


class TestDecoder(DecoderContract):
    """The two-step adoption of a router in Python, with this package's own decoder."""

    policies = {policy.value: answer for policy, answer in STRICT.items()}

    def decode(self, payload: bytes) -> object:
        """Decode with the reference."""
        return wire.decode(payload)

    def decode_frames(self, frames: object) -> tuple[int, object]:
        """Parse with the reference."""
        return wire.parse_frames(frames)  # type: ignore[arg-type]


def test_live_socket(loadwire_publisher, make_loadwire_subscriber, loadwire_golden):
    """A published reading arrives as it was sent."""
    subscriber = make_loadwire_subscriber(loadwire_publisher.endpoint)
    loadwire_publisher.wait_for_subscribers()
    vector = loadwire_golden.payload("rev2-golden-a")
    sent = wire.decode(vector.payload)

    number = loadwire_publisher.publish(sent)

    assert subscriber.receive() == (number, sent)


def test_native_decoder(loadwire_native, loadwire_golden):
    """The native decoder reads what the wheel's vectors hold."""
    vector = loadwire_golden.payload("rev2-golden-a")

    outcome = loadwire_native.decode(vector.payload)

    assert outcome.reading == vector.readers["2"].reading


def test_version():
    """The package says its version."""
    assert pytest_loadwire.__version__
    assert LoadStat is wire.LoadStat
