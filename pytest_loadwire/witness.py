"""The readers that prove the vectors: one on msgspec, one on msgpack alone.

They share no code below the reason codes. A witness is anything with a name, declared policies and
two methods; ``harness.native`` adds one for every shared library, the Rust crate first of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgpack

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.judge import Crashed, Refused, Taken, judge
from pytest_loadwire.rules import Policy, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_loadwire.judge import Finding, Outcome
    from pytest_loadwire.vectors import FrameVector, PayloadVector

STRICT: Mapping[Policy, str] = {
    Policy.TRAILING_BYTES: "reject",
    Policy.OMITTED_RANK: "reject",
    Policy.TAG_AS_BIN: "reject",
    Policy.COUNT_ABOVE_I64: "accept",
    Policy.PARTIAL_TAIL: "older",
    Policy.NIL_TAIL: "reject",
}
"""The policies of `wire.decode`, which all witnesses of this package share."""


class Witness(Protocol):
    """A reader whose word counts."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def policies(self) -> Mapping[Policy, str]:
        """What it declares where the contract leaves a choice."""

    def decode(self, payload: bytes, revision: int) -> Outcome:
        """Read one payload as a reader of ``revision``."""

    def parse_frames(self, frames: Sequence[bytes], revision: int) -> Outcome:
        """Read one message as a reader of ``revision``."""


class MsgspecWitness:
    """`wire.decode` and `wire.parse_frames`, the reference: msgspec into the typed structs."""

    name = "msgspec"
    policies = STRICT

    def decode(self, payload: bytes, revision: int) -> Outcome:
        """Read one payload as a reader of ``revision``."""
        if revision not in wire.REVISIONS:
            return _untaught(revision)
        try:
            return _taken(wire.decode(payload, revision=revision))
        except WireError as error:
            return _refused(error)

    def parse_frames(self, frames: Sequence[bytes], revision: int) -> Outcome:
        """Read one message as a reader of ``revision``."""
        if revision not in wire.REVISIONS:
            return _untaught(revision)
        try:
            message = wire.parse_frames(frames, revision=revision)
        except WireError as error:
            return _refused(error)
        return _taken(message.stat)._replace(sequence=message.sequence)


def _untaught(revision: int) -> Crashed:
    return Crashed(f"this witness was never taught revision {revision}")


def _taken(stat: wire.LoadStatRev1) -> Taken:
    return Taken(wire.to_dict(stat), wire.revision_of(stat))


def _refused(error: WireError) -> Refused:
    return Refused(error.reason.value, error.offset, error.element, error.frame, str(error))


class MsgpackWitness:
    """A reader on the msgpack library's streaming unpacker, which has never seen our structs.

    It walks the array item by item: `skip` finds where an item ends without building it, so that an
    announced length allocates nothing, and only whole items are unpacked. What it cannot do is
    follow nesting deeper than the library's own stack, 1024 levels; there it says that it crashed.
    """

    name = "msgpack"
    policies = STRICT

    # revision -> names behind the tag; spelled here again, on purpose
    FIELDS: Mapping[int, tuple[str, ...]] = {
        1: (
            "num_running_reqs",
            "num_waiting_reqs",
            "num_tokens",
            "max_total_num_tokens",
            "attn_dp_rank",
        ),
        2: (
            "num_running_reqs",
            "num_waiting_reqs",
            "num_tokens",
            "max_total_num_tokens",
            "attn_dp_rank",
            "num_waiting_uncached_tokens",
            "num_total_tokens",
            "max_running_requests",
            "total_prefill_uncached_tokens",
            "total_prefill_busy_us",
        ),
    }

    def decode(self, payload: bytes, revision: int) -> Outcome:
        """Read one payload as a reader of ``revision``."""
        unpacker = msgpack.Unpacker(max_buffer_size=2**31 - 1, strict_map_key=False)
        unpacker.feed(payload.replace(*_EXT_32_THAT_WRAPS))
        element: int | None = None
        reading: dict[str, object] = {}
        names: tuple[str, ...] = ()
        if revision not in self.FIELDS:
            return _untaught(revision)
        try:
            if payload[:1] == b"\xc1":
                return Refused(Reason.MALFORMED.value, 0)
            try:
                length = unpacker.read_array_header()
            except msgpack.OutOfData:
                raise
            except ValueError:
                return Refused(Reason.NOT_ARRAY.value, 0)
            if length == 0:
                return Refused(Reason.TOO_SHORT.value, 0, 0)
            for element in range(length):
                start = unpacker.tell()
                unpacker.skip()
                item = payload[start : unpacker.tell()]
                if element == 0:
                    if not _is_tag(item):
                        return Refused(Reason.BAD_TAG.value, start, 0)
                    if length < 6:
                        return Refused(Reason.TOO_SHORT.value, 0, length)
                    names = max(
                        (f for r, f in self.FIELDS.items() if r <= revision and len(f) < length),
                        key=len,
                    )
                elif element <= len(names):
                    name = names[element - 1]
                    value = _value(item)
                    if value is None and name == "attn_dp_rank":
                        reading[name] = None
                    elif type(value) is not int:
                        return Refused(Reason.BAD_TYPE.value, start, element)
                    elif value < 0:
                        return Refused(Reason.OUT_OF_RANGE.value, start, element)
                    else:
                        reading[name] = value
        except msgpack.OutOfData:
            return Refused(Reason.TRUNCATED.value, len(payload), element)
        except msgpack.FormatError:
            return Refused(Reason.MALFORMED.value, unpacker.tell(), element)
        except msgpack.StackError:
            return Crashed("nested deeper than the msgpack library goes")
        if unpacker.tell() != len(payload):
            return Refused(Reason.TRAILING_BYTES.value, unpacker.tell())
        read = next(number for number, fields in self.FIELDS.items() if fields == names)
        return Taken(reading, read)

    def parse_frames(self, frames: Sequence[bytes], revision: int) -> Outcome:
        """Read one message as a reader of ``revision``."""
        if len(frames) != 3:
            return Refused(Reason.FRAME_COUNT.value)
        if frames[0] != b"load":
            return Refused(Reason.BAD_TOPIC.value, frame=0)
        if len(frames[1]) != 8:
            return Refused(Reason.BAD_SEQ_LENGTH.value, frame=1)
        # an int 64 of msgpack is the same eight bytes behind a marker
        sequence = msgpack.unpackb(b"\xd3" + frames[1])
        if sequence < 0:
            return Refused(Reason.NEGATIVE_SEQ.value, frame=1)
        outcome = self.decode(frames[2], revision)
        if isinstance(outcome, Refused):
            return outcome._replace(frame=2)
        return outcome._replace(sequence=sequence) if isinstance(outcome, Taken) else outcome


# msgpack adds the type byte to the length of an ext 32 in 32 bits, in C, so that 2^32-1 bytes
# are none. One byte less is cut short all the same. Where the pattern is no such header its last
# byte is content, which is read from the payload itself.
_EXT_32_THAT_WRAPS = (b"\xc9\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xfe")


def _is_tag(item: bytes) -> bool:
    # surrogateescape keeps str and bin apart and takes bytes that are no UTF-8
    value = _value(item)
    return isinstance(value, str) and value == "LoadStat"


def _value(item: bytes) -> object:
    """One whole item as a Python object; a stand-in where the library refuses to build it."""
    try:
        value: object = msgpack.unpackb(
            item, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_Ext
        )
    except (ValueError, TypeError):  # a timestamp of an illegal length, a map keyed by a list
        return _Ext
    return value


class _Ext:
    """An ext, whatever its body."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code, self.body = code, body


def python_witnesses() -> tuple[Witness, ...]:
    """The witnesses that need nothing but this package's own dependencies."""
    return MsgspecWitness(), MsgpackWitness()


def judge_payload(witness: Witness, vector: PayloadVector) -> Iterator[Finding]:
    """What a witness gets wrong about one payload vector, in every spelling, by every revision."""
    for form, payload in vector.forms():
        for revision, verdict in vector.readers.items():
            finding = judge(
                verdict,
                witness.decode(payload, int(revision)),
                rule=vector.rule,
                policies=witness.policies,
                places=form == vector.id,
            )
            if finding is not None:
                yield finding._replace(got=f"{finding.got} ({form}, reader of revision {revision})")


def judge_frames(witness: Witness, vector: FrameVector) -> Iterator[Finding]:
    """What a witness gets wrong about one frame vector, by every revision."""
    for revision, verdict in vector.readers.items():
        finding = judge(
            verdict,
            witness.parse_frames(vector.parts, int(revision)),
            rule=vector.rule,
            policies=witness.policies,
            places=True,
        )
        if finding is not None:
            yield finding._replace(got=f"{finding.got} (reader of revision {revision})")
