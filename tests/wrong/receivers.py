"""Wrong receivers: the right router with one thing changed about the frames."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from wrong.catalogue import wrong_decoder
from wrong.router import REV1, Refusal, Router

if TYPE_CHECKING:
    from collections.abc import Sequence


# How many frames.


@wrong_decoder("takes the first three of any number of frames", "F1")
class FourFrames(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return super().three(frames[:3])


@wrong_decoder("takes the last three frames, an identity in front or not", "F1")
class LastThreeFrames(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return super().three(frames[-3:])


@wrong_decoder("does without a sequence: topic and payload will do", "F1")
class TwoFrames(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        if len(frames) == 2:
            frames = (frames[0], bytes(8), frames[1])
        return super().three(frames)


@wrong_decoder("does without a topic: the subscription chose it already", "F1")
class NoTopicFrame(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return super().three((b"load", *frames) if len(frames) == 2 else frames)


@wrong_decoder("reads a payload alone, as a socket with CONFLATE leaves it", "F1")
class PayloadAlone(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return super().three((b"load", bytes(8), *frames) if len(frames) == 1 else frames)


@wrong_decoder("takes the last frame for the payload, whatever is in front", "F1", "F2", "F3")
class LastFrame(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        if not frames:
            raise ValueError("nothing came")
        number = frames[1] if len(frames) > 2 else b""
        return int.from_bytes(number[:8], "big", signed=True), self.decode(frames[-1])


@wrong_decoder("drops empty frames before it counts", "F1")
class EmptyFramesDropped(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        return super().three([frame for frame in frames if frame])


@wrong_decoder("joins the frames and cuts them by position", "F1", "F2", "F3")
class FramesJoined(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        joined = b"".join(frames)
        return joined[:4], joined[4:12], joined[12:]


@wrong_decoder("unpacks the frames into three names and lets the error out", "F1")
class FrameCountCrash(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        if len(frames) != 3:
            raise LookupError("not enough values to unpack")
        return frames


@wrong_decoder("reads no frame at all as an engine without work", "F1")
class NoFrameIsIdle(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        return super().decode_frames(frames) if frames else (0, dict.fromkeys(REV1, 0))


@wrong_decoder("keeps what came of a message without its payload", "F1")
class PayloadMissing(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        if len(frames) < 3 and frames[:1] == (b"load",):
            return 0, dict.fromkeys(REV1, 0)
        return super().decode_frames(frames)


# The topic.


@wrong_decoder("does not look at the topic", "F2", "F5")
class NoTopicCheck(Router):
    def topic(self, topic: bytes) -> None:
        pass


@wrong_decoder("compares the topic by prefix, as the subscription does", "F2")
class TopicByPrefix(Router):
    def topic(self, topic: bytes) -> None:
        super().topic(topic[:4])


@wrong_decoder("takes a topic that load starts with, the empty one as well", "F2")
class TopicCutOff(Router):
    def topic(self, topic: bytes) -> None:
        if not b"load".startswith(topic):
            raise Refusal("bad-topic")


@wrong_decoder("strips blanks and NULs off the topic", "F2")
class TopicStripped(Router):
    def topic(self, topic: bytes) -> None:
        super().topic(topic.strip(b" \0"))


@wrong_decoder("takes the topic in any case", "F2")
class TopicInAnyCase(Router):
    def topic(self, topic: bytes) -> None:
        super().topic(topic.lower())


@wrong_decoder("looks for load anywhere in the topic", "F2")
class TopicContains(Router):
    def topic(self, topic: bytes) -> None:
        if b"load" not in topic:
            raise Refusal("bad-topic")


@wrong_decoder("refuses the topics of the KV stream and takes all others", "F2")
class OtherTopicsTaken(Router):
    def topic(self, topic: bytes) -> None:
        if topic in (b"", b"kv-events"):
            raise Refusal("bad-topic")


@wrong_decoder("takes the KV stream's topics too, since one loop serves both sockets", "F2")
class KvTopicTaken(Router):
    def topic(self, topic: bytes) -> None:
        if topic != b"kv-events":
            super().topic(topic)


@wrong_decoder("looks for the topic in whichever frame has it", "F2")
class FramesInAnyOrder(Router):
    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        one, two, three = super().three(frames)
        return (three, two, one) if three == b"load" else (one, two, three)


@wrong_decoder("reads the sequence before it looks at the topic", "F2")
class SequenceBeforeTopic(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        self.sequence(self.three(frames)[1])
        return super().decode_frames(frames)


@wrong_decoder("reads a batch of the KV stream as an engine without work", "F5")
class KvBatchIsIdle(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        if payload[:2] == b"\x93\xcb":
            return dict.fromkeys(REV1, 0)
        return super().decode(payload)

    def topic(self, topic: bytes) -> None:
        if topic:
            super().topic(topic)


@wrong_decoder("takes messages of the KV stream for heartbeats, by their topic", "F5", "F2")
class KvStreamIsHeartbeat(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        if frames[:1] == (b"kv-events",):
            return 0, dict.fromkeys(REV1, 0)
        return super().decode_frames(frames)


# The sequence.


@wrong_decoder("reads the sequence in the machine's own order", "F3")
class LittleEndianSequence(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw[::-1])


@wrong_decoder("reads the sequence unsigned", "F3")
class UnsignedSequence(Router):
    def sequence(self, raw: bytes) -> int:
        if len(raw) != 8:
            raise Refusal("bad-seq-length")
        return int.from_bytes(raw, "big")


@wrong_decoder("takes a sequence of any length", "F3")
class SequenceOfAnyLength(Router):
    def sequence(self, raw: bytes) -> int:
        return int.from_bytes(raw, "big")


@wrong_decoder("pads a short sequence", "F3")
class ShortSequencePadded(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw.rjust(8, b"\0"))


@wrong_decoder("takes the first 8 bytes of a longer sequence", "F3")
class LongSequenceCut(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw[:8])


@wrong_decoder("reads no sequence at all as 0", "F3")
class EmptySequenceIsZero(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw) if raw else 0


@wrong_decoder("reads a 32-bit sequence as well", "F3")
class SequenceOf4Bytes(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw if len(raw) != 4 else bytes(4) + raw)


@wrong_decoder("reads a sequence as text where it is no 8 bytes", "F3")
class SequenceAsText(Router):
    def sequence(self, raw: bytes) -> int:
        return int(raw) if raw.isdigit() else super().sequence(raw)


@wrong_decoder("reads a sequence as msgpack where it is no 8 bytes", "F3")
class SequenceAsMsgpack(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw[1:] if raw[:1] in (b"\xcf", b"\xd3") else raw)


@wrong_decoder("takes a negative sequence", "F3")
class NegativeSequenceTaken(Router):
    def sequence(self, raw: bytes) -> int:
        if len(raw) != 8:
            raise Refusal("bad-seq-length")
        return int.from_bytes(raw, "big", signed=True)


@wrong_decoder("takes -1 for the start of the sequence", "F3")
class MinusOneIsStart(Router):
    def sequence(self, raw: bytes) -> int:
        return 0 if raw == b"\xff" * 8 else super().sequence(raw)


@wrong_decoder("refuses only -1, the sentinel that it heard of", "F3")
class OnlyMinusOneRefused(Router):
    def sequence(self, raw: bytes) -> int:
        if raw == b"\xff" * 8:
            raise Refusal("negative-seq")
        return int.from_bytes(raw, "big") if len(raw) == 8 else super().sequence(raw)


@wrong_decoder("keeps 32 bits of the sequence", "F3")
class SequenceIn32Bits(Router):
    def sequence(self, raw: bytes) -> int:
        return super().sequence(raw) % 2**32


@wrong_decoder("unpacks the sequence as two signed halves", "F3")
class SequenceInHalves(Router):
    def sequence(self, raw: bytes) -> int:
        super().sequence(raw)
        high, low = struct.unpack(">ii", raw)
        return int(high * 2**32 + low)


@wrong_decoder("keeps the sequence in a double", "F3")
class SequenceAsDouble(Router):
    def sequence(self, raw: bytes) -> int:
        return int(float(super().sequence(raw)))


@wrong_decoder("reads a sequence below 256 by its last byte, as signed", "F3")
class SequenceLastByteSigned(Router):
    def sequence(self, raw: bytes) -> int:
        number = super().sequence(raw)
        return number if number > 255 else int.from_bytes(raw[7:], "big", signed=True)


@wrong_decoder("starts at 1: a sequence of 0 says that nothing was sent", "S1")
class SequenceZeroRefused(Router):
    def sequence(self, raw: bytes) -> int:
        number = super().sequence(raw)
        if not number:
            raise ValueError("nothing was sent yet")
        return number


@wrong_decoder("refuses a sequence that jumps, though gaps are legal", "F3")
class SequenceJumpsRefused(Router):
    def sequence(self, raw: bytes) -> int:
        number = super().sequence(raw)
        if number not in range(64):
            raise ValueError("messages were lost")
        return number


@wrong_decoder("drops a sequence that is not above the last one", "F3")
class SequenceMustGrow(Router):
    last = 7

    def sequence(self, raw: bytes) -> int:
        number = super().sequence(raw)
        if number < self.last:
            raise ValueError("an old message")
        return number


# The payload within.


@wrong_decoder("answers a payload that does not decode with an engine without work", "F4", "F5")
class BrokenPayloadIsIdle(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        try:
            return super().decode_frames(frames)
        except Refusal as refusal:
            if refusal.reason in ("frame-count", "bad-topic", "bad-seq-length", "negative-seq"):
                raise
            return 7, dict.fromkeys(REV1, 0)


@wrong_decoder("hands out the sequence and keeps no payload", "F4")
class PayloadForgotten(Router):
    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        return super().decode_frames(frames)[0], dict.fromkeys(REV1, 0)
