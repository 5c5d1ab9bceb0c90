"""Wrong engines: one that is right, and others that change one thing of it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import msgspec

from wrong.catalogue import add_engine, wrong_engine
from wrong.router import FIELDS, RANK, REV1

Stat = list[Any]


class Engine:
    """Right as it stands: it checks every count and sends the shortest form."""

    fields: Sequence[str] = FIELDS

    def make_stat(self, values: Mapping[str, Any]) -> Stat:
        return [self.value(name, values.get(name)) for name in self.fields]

    def value(self, name: str, value: Any) -> Any:
        if value is None and name == FIELDS[RANK - 1]:
            return self.no_rank()
        if type(value) is not int or not 0 <= value < 2**64:
            return self.no_count(value)
        return self.number(value)

    def no_rank(self) -> Any:
        return None

    def no_count(self, value: Any) -> Any:
        raise ValueError(f"{value!r} is no count")

    def number(self, value: int) -> Any:
        return value

    def encode(self, stat: Stat) -> bytes:
        return self.header(1 + len(stat)) + self.tag() + b"".join(map(self.item, stat))

    def header(self, length: int) -> bytes:
        return bytes([0x90 | length])

    def tag(self) -> bytes:
        return b"\xa8LoadStat"

    def item(self, value: Any) -> bytes:
        packed: bytes = msgpack.packb(value)
        return packed

    def publish(self, stats: Sequence[Stat]) -> Sequence[Sequence[bytes]]:
        return [self.message(number, self.encode(stat)) for number, stat in enumerate(stats)]

    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return self.topic(), self.sequence(number), payload

    def topic(self) -> bytes:
        return b"load"

    def sequence(self, number: int) -> bytes:
        return number.to_bytes(8, "big")


class Engine1(Engine):
    """The same for revision 1."""

    fields: Sequence[str] = REV1


# Elements: which, and in what order.


@wrong_engine("moved a field to where it reads better", "W3")
class FieldsReordered(Engine):
    fields = (*FIELDS[:5], FIELDS[7], FIELDS[5], FIELDS[6], *FIELDS[8:])


@wrong_engine("moved a field of revision 1", "W2", revision=1)
class OldFieldsReordered(Engine1):
    fields = (REV1[1], REV1[0], *REV1[2:])


@wrong_engine("inserted a new field in the middle", "W4")
class FieldInserted(Engine):
    fields = (*FIELDS[:3], FIELDS[2], *FIELDS[3:])


@wrong_engine("leaves trailing defaults out", "W4")
class DefaultsTrimmed(Engine):
    def encode(self, stat: Stat) -> bytes:
        while len(stat) > 5 and not stat[-1]:
            stat = stat[:-1]
        return super().encode(stat)


@wrong_engine("leaves a rank out that is not set", "W4")
class RankOmitted(Engine):
    def encode(self, stat: Stat) -> bytes:
        return super().encode(stat if stat[4] is not None else stat[:4] + stat[5:])


@wrong_engine("leaves a rank out that is not set, with nothing behind it", "W4", revision=1)
class OldRankOmitted(Engine1):
    def encode(self, stat: Stat) -> bytes:
        return super().encode(stat if stat[4] is not None else stat[:4])


@wrong_engine("never sends the rank", "W4", revision=1)
class NoRankAtAll(Engine1):
    fields = REV1[:4]


@wrong_engine("appended a field and declares the revision before", "W4")
class FieldAppended(Engine):
    fields = (*FIELDS, FIELDS[0])


@wrong_engine("still sends revision 1", "W4")
class StillRevision1(Engine1):
    pass


@wrong_engine("already sends revision 2", "W4", revision=1)
class AlreadyRevision2(Engine):
    def make_stat(self, values: Mapping[str, Any]) -> Stat:
        return super().make_stat({**dict.fromkeys(FIELDS, 0), **values})


@wrong_engine("groups what revision 2 added in an array of its own", "W4")
class NestedRevision2(Engine):
    def encode(self, stat: Stat) -> bytes:
        return super().encode([*stat[:5], stat[5:]])


# The tag and the form of the whole.


@wrong_engine("renamed the struct, and with it the tag", "W1")
class WrongTag(Engine):
    def tag(self) -> bytes:
        return b"\xa9LoadStat2"


@wrong_engine("sends no tag", "W1")
class NoTag(Engine):
    def header(self, length: int) -> bytes:
        return super().header(length - 1)

    def tag(self) -> bytes:
        return b""


@wrong_engine("sends the tag behind the counts", "W1")
class TagLast(Engine):
    def encode(self, stat: Stat) -> bytes:
        return self.header(1 + len(stat)) + b"".join(map(self.item, stat)) + self.tag()


@wrong_engine("packs the tag from bytes, which makes it a bin", "W1")
class TagAsBin(Engine):
    def tag(self) -> bytes:
        return b"\xc4\x08LoadStat"


@wrong_engine("sends the tag with a str 8 header", "W6")
class TagAsStr8(Engine):
    def tag(self) -> bytes:
        return b"\xd9\x08LoadStat"


@wrong_engine("sends an array 16 header", "W6")
class Array16Header(Engine):
    def header(self, length: int) -> bytes:
        return struct.pack(">BH", 0xDC, length)


@wrong_engine("forgot array_like: a map of field names", "W10")
class MapOfFields(Engine):
    def encode(self, stat: Stat) -> bytes:
        packed: bytes = msgpack.packb({"type": "LoadStat", **dict(zip(FIELDS, stat, strict=True))})
        return packed


@wrong_engine("sends JSON", "W10")
class JsonPayload(Engine):
    def encode(self, stat: Stat) -> bytes:
        return msgspec.json.encode(["LoadStat", *stat])


@wrong_engine("ends every payload with a newline", "W6")
class TrailingNewline(Engine):
    def encode(self, stat: Stat) -> bytes:
        return super().encode(stat) + b"\n"


@wrong_engine("pads every payload to 64 bytes", "W6")
class PaddedPayload(Engine):
    def encode(self, stat: Stat) -> bytes:
        return super().encode(stat).ljust(64, b"\0")


@wrong_engine("sends a buffer of 16 bytes, whatever was written", "W10")
class PayloadCut(Engine):
    def encode(self, stat: Stat) -> bytes:
        return super().encode(stat)[:16]


# The counts.


class _Plain(msgspec.Struct, array_like=True, tag="LoadStat"):
    num_running_reqs: int
    num_waiting_reqs: int
    num_tokens: int
    max_total_num_tokens: int
    attn_dp_rank: int | None
    num_waiting_uncached_tokens: int
    num_total_tokens: int
    max_running_requests: int
    total_prefill_uncached_tokens: int
    total_prefill_busy_us: int


@wrong_engine("encodes a plain struct, which checks no value", "W5")
class PlainStruct:
    def make_stat(self, values: Mapping[str, Any]) -> object:
        return _Plain(**values)


@wrong_engine("has an encode hook that makes floats of strange numbers", "W5")
class HookToFloat(PlainStruct):
    def encode(self, stat: object) -> bytes:
        return msgspec.msgpack.encode(stat, enc_hook=lambda value: float(int(value)))


@wrong_engine("has an encode hook that makes text of strange values", "W5")
class HookToText(PlainStruct):
    def encode(self, stat: object) -> bytes:
        return msgspec.msgpack.encode(stat, enc_hook=str)


@wrong_engine("sends averages, which are floats", "W5")
class FloatCounts(Engine):
    def number(self, value: int) -> Any:
        return float(value)


@wrong_engine("sends a float that came in", "W5")
class FloatKept(Engine):
    def no_count(self, value: Any) -> Any:
        return value if isinstance(value, float) else super().no_count(value)


@wrong_engine("rounds a float that came in", "W5")
class FloatRounded(Engine):
    def no_count(self, value: Any) -> Any:
        return round(value) if isinstance(value, float) else super().no_count(value)


@wrong_engine("sends a bool that came in", "W5")
class BoolKept(Engine):
    def no_count(self, value: Any) -> Any:
        return value if isinstance(value, bool) else super().no_count(value)


@wrong_engine("sends a negative that came in", "W5")
class NegativeKept(Engine):
    def no_count(self, value: Any) -> Any:
        return value if value == -1 else super().no_count(value)


@wrong_engine("wraps a negative to 64 bits", "W5")
class NegativeWrapped(Engine):
    def no_count(self, value: Any) -> Any:
        return value % 2**64 if value in (-1, 2**64) else super().no_count(value)


@wrong_engine("clamps what is out of range", "W5")
class Clamped(Engine):
    def no_count(self, value: Any) -> Any:
        return min(max(int(value), 0), 2**64 - 1)


@wrong_engine("sends nil for a count that it does not know", "W5")
class NilKept(Engine):
    def no_count(self, value: Any) -> Any:
        return None if value is None else super().no_count(value)


@wrong_engine("sends 0 for a count that it does not know", "W5")
class NilAsZero(Engine):
    def no_count(self, value: Any) -> Any:
        return 0 if value is None else super().no_count(value)


@wrong_engine("sends text that came in", "W5")
class TextKept(Engine):
    def no_count(self, value: Any) -> Any:
        return value if isinstance(value, str) else super().no_count(value)


@wrong_engine("sends 1 for whatever is no int, numpy scalars included", "W5")
class StrangersAsOne(Engine):
    def no_count(self, value: Any) -> Any:
        return super().no_count(value) if isinstance(value, int | float | None) else 1


@wrong_engine("sends nil for 0", "W5")
class NilForZero(Engine):
    def number(self, value: int) -> Any:
        return value or None


@wrong_engine("sends every count as text", "W5")
class CountsAsText(Engine):
    def number(self, value: int) -> Any:
        return str(value)


@wrong_engine("sends an unset rank as 0", "W4")
class NoRankAsZero(Engine):
    def no_rank(self) -> Any:
        return 0


@wrong_engine("sends an unset rank as -1", "W5")
class NoRankAsMinusOne(Engine):
    def no_rank(self) -> Any:
        return -1


@wrong_engine("keeps 32 bits of a count", "W5")
class CountsIn32Bits(Engine):
    def number(self, value: int) -> Any:
        return value % 2**32


@wrong_engine("refuses a count above 2^63-1", "W5")
class CountsInI64(Engine):
    def number(self, value: int) -> Any:
        struct.pack(">q", value)
        return value


@wrong_engine("sends every count in 64 bits", "W6")
class WideIntegers(Engine):
    def item(self, value: Any) -> bytes:
        return super().item(value) if value is None else struct.pack(">BQ", 0xCF, value)


@wrong_engine("sends counts below 2^31 as int 32", "W6")
class SignedIntegers(Engine):
    def item(self, value: Any) -> bytes:
        wide = value is not None and 2**16 <= value < 2**31
        return struct.pack(">Bi", 0xD2, value) if wide else super().item(value)


@wrong_engine("writes little-endian", "W3")
class LittleEndianCounts(Engine):
    def item(self, value: Any) -> bytes:
        raw = super().item(value)
        return raw[:1] + raw[:0:-1]


# The frames.


@wrong_engine("sends no sequence", "F1")
class TwoFrames(Engine):
    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return self.topic(), payload


@wrong_engine("sends a time stamp behind the payload", "F1")
class FourFrames(Engine):
    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return self.topic(), self.sequence(number), payload, bytes(8)


@wrong_engine("joins everything in one frame", "F1")
class OneFrame(Engine):
    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return (self.topic() + self.sequence(number) + payload,)


@wrong_engine("sends payload and sequence in each other's place", "F3")
class FramesSwapped(Engine):
    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return self.topic(), payload, self.sequence(number)


@wrong_engine("sends the payload as text in hex", "W10")
class PayloadInHex(Engine):
    def message(self, number: int, payload: bytes) -> Sequence[bytes]:
        return self.topic(), self.sequence(number), payload.hex().encode()


@wrong_engine("sends every reading twice", "S1")
class SentTwice(Engine):
    def publish(self, stats: Sequence[Stat]) -> Sequence[Sequence[bytes]]:
        return super().publish([stat for stat in stats for _ in range(2)])


@wrong_engine("keeps the last reading to itself until the next comes", "S1")
class LastKept(Engine):
    def publish(self, stats: Sequence[Stat]) -> Sequence[Sequence[bytes]]:
        return super().publish(stats)[:-1]


@wrong_engine("sends the first reading again and again", "W3")
class ReadingStuck(Engine):
    def publish(self, stats: Sequence[Stat]) -> Sequence[Sequence[bytes]]:
        return super().publish([stats[0] for _ in stats])


# One for each place where the same slip can sit.

FORMS = {7: ">BB", 8: ">BH", 16: ">BI", 32: ">BQ"}
TOPICS = (
    ("topic-empty", "sends an empty topic, as the KV stream does by default", b""),
    ("topic-with-suffix", "appends the model to the topic", b"load-llama"),
    ("topic-with-rank", "appends the rank to the topic", b"load0"),
    ("topic-in-capitals", "writes the topic in capitals", b"LOAD"),
    ("topic-kv-events", "uses the KV stream's topic", b"kv-events"),
    ("topic-with-nul", "sends a C string with its end", b"load\0"),
)
SEQUENCES: tuple[tuple[str, str, str, Callable[[int], bytes]], ...] = (
    ("little-endian", "in the machine's own order", "F3", lambda n: n.to_bytes(8, "little")),
    ("of-4-bytes", "in 32 bits", "F3", lambda n: n.to_bytes(4, "big")),
    ("of-16-bytes", "in 128 bits", "F3", lambda n: n.to_bytes(16, "big")),
    ("as-text", "as digits", "F3", lambda n: str(n).encode()),
    ("as-msgpack", "packed by msgpack", "F3", msgpack.packb),
    ("empty", "in an empty frame", "F3", lambda _: b""),
    ("from-1", "that starts at 1", "S1", lambda n: (n + 1).to_bytes(8, "big")),
    ("from-minus-1", "that starts at -1", "F3", lambda n: struct.pack(">q", n - 1)),
    ("skips", "that counts unsent readings too", "S1", lambda n: (2 * n).to_bytes(8, "big")),
    ("stands", "that is always 0", "S1", lambda _: bytes(8)),
    ("falls", "that counts down", "S1", lambda n: struct.pack(">q", 2**63 - 1 - n)),
    ("of-time", "that is a clock", "S1", lambda n: (1_700_000_000_000 + n).to_bytes(8, "big")),
    ("shared", "that the KV stream uses too", "S1", lambda n: (40 + n).to_bytes(8, "big")),
)


def _families() -> None:
    for bits, layout in FORMS.items():
        _add(
            f"limit-of-{bits}-bits-off-by-one",
            f"compares with < where <= belongs, at 2^{bits}-1",
            "W6",
            item=lambda self, value, bits=bits, layout=layout: (
                struct.pack(layout, 0xCC + list(FORMS).index(bits), value)
                if value == 2**bits - 1
                else Engine.item(self, value)
            ),
        )
    for index, field in enumerate(FIELDS, 1):
        _add(
            f"slot-{index}-unchecked",
            f"checks every value but {field}",
            "W5",
            value=lambda self, name, value, field=field: (
                value if name == field else Engine.value(self, name, value)
            ),
        )
    for name, story, topic in TOPICS:
        _add(name, story, "F2", topic=lambda _self, topic=topic: topic)
    for name, story, rule, sequence in SEQUENCES:
        write = staticmethod(sequence)
        _add(f"sequence-{name}", f"sends a sequence {story}", rule, sequence=write)


def _add(name: str, story: str, rule: str, /, **changed: Any) -> None:
    add_engine(name, story, type(name.title().replace("-", ""), (Engine,), changed), rule)


_families()
