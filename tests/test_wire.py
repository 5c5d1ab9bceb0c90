"""The codec: the model engine, the model router, and the grading of an engine's bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgpack
import msgspec
import pytest
import zmq

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2


class NumpyLike:
    """Counts as an integer to Python's operators, as a numpy scalar does, and is none."""

    def __index__(self) -> int:
        return 7

    __int__ = __index__

    def __repr__(self) -> str:
        return "int64(7)"


class Whole(int):
    """An int of a class of its own."""


REV1 = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_tokens",
    "max_total_num_tokens",
    "attn_dp_rank",
)
REV2 = (
    *REV1,
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "max_running_requests",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
)
NAMES = {1: REV1, 2: REV2}
SLOTS = [
    (revision, element) for revision in NAMES for element in range(1, len(NAMES[revision]) + 1)
]

# No two slots are alike and none is at a boundary, so that a swap changes the bytes.
VALUES: tuple[int | None, ...] = (
    17,
    130,
    40_000,
    1_000_000,
    5,
    300,
    70_000,
    2_048,
    5_000_000_000,
    9,
)

# the ends of every msgpack integer width
WIDTHS = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]

ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)

# value, reason, what the error says it got
NO_COUNTS: list[tuple[object, str, str]] = [
    (-1, "out-of-range", "-1"),
    (-(2**63), "out-of-range", "-9223372036854775808"),
    (-(2**63) - 1, "out-of-range", "-9223372036854775809"),
    (2**64, "out-of-range", "18446744073709551616"),
    (True, "bad-type", "bool True"),
    (False, "bad-type", "bool False"),
    (7.0, "bad-type", "float 7.0"),
    (7.5, "bad-type", "float 7.5"),
    (math.nan, "bad-type", "float nan"),
    (math.inf, "bad-type", "float inf"),
    ("7", "bad-type", "str '7'"),
    ("\ud800", "bad-type", "str '\\ud800'"),
    (b"7", "bad-type", "bytes b'7'"),
    (ENDLESS, "bad-type", "list [[...]]"),
    ([7], "bad-type", "list [7]"),
    ((), "bad-type", "tuple ()"),
    ({}, "bad-type", "dict {}"),
    (Decimal(7), "bad-type", "Decimal Decimal('7')"),
    (Fraction(7), "bad-type", "Fraction Fraction(7, 1)"),
    (NumpyLike(), "bad-type", "NumpyLike int64(7)"),
    (Whole(7), "bad-type", "Whole 7"),
]

# sequence, whether it goes out
SEQUENCES: list[tuple[object, bool]] = [
    (0, True),
    (1, True),
    (2**31, True),
    (2**63 - 1, True),
    (2**63, False),
    (-1, False),
    (-(2**63), False),
    (2**64, False),
    (True, False),
    (False, False),
    (7.0, False),
    (None, False),
    ("7", False),
    (b"7", False),
    (NumpyLike(), False),
]

GOOD = "9ba84c6f61645374617411cc82cd9c40ce000f424005cd012cce00011170cd0800cf000000012a05f20009"
TAG = "a84c6f616453746174"
KV_BATCH = "93cb41d954fa8e8000009197ab426c6f636b53746f7265649101c0910110c0c000"
SEVEN = "0000000000000007"
NAMED_FIELDS = msgpack.packb(dict.fromkeys(wire.field_names(), 7)).hex()

_SNAPSHOT = "it looks like a LoadSnapshot, the engine's internal reading: a map of field names"
_NO_ARRAY = (
    "it looks like a LoadStat that was sent as a map of field names; the engine's struct lacks "
    "array_like=True"
)
_EMPTY = (
    "it looks like an empty map, perhaps of a LoadSnapshot, the engine's internal reading, that "
    "has all at its default"
)

# the keys of a map, and what it is likely to be
MAPS = [
    (wire.field_names(1), _NO_ARRAY),
    (wire.field_names(2), _NO_ARRAY),
    (("type", *wire.field_names(2)), _NO_ARRAY),
    (wire.field_names(2)[:3], _NO_ARRAY),
    ((*wire.field_names(2), "brought_by_revision_3"), _NO_ARRAY),
    ((), _EMPTY),
    (("num_running_reqs", "num_used_tokens"), _SNAPSHOT),
    (("num_running_reqs", "max_running_requests"), _SNAPSHOT),
    # no key that either has
    (("type",), None),
    ((7, b"num_running_reqs"), None),
    (("a", "b"), None),
]

# frames, reason, rule, frame, the hint that names the likely cause
BAD_MESSAGES = [
    ([], "frame-count", "F1", None, None),
    ([GOOD], "frame-count", "F1", None, "CONFLATE keeps only the last frame (rule K2)"),
    (["6c6f6164"], "frame-count", "F1", None, None),
    (["6c6f6164", GOOD], "frame-count", "F1", None, None),
    (["6c6f6164", SEVEN, GOOD, ""], "frame-count", "F1", None, None),
    (["6c6f616478", SEVEN, GOOD], "bad-topic", "F2", 0, "subscriptions match by prefix"),
    (["6c6f6164", SEVEN, GOOD][::-1], "bad-topic", "F2", 0, None),
    (["6c6f61", SEVEN, GOOD], "bad-topic", "F2", 0, None),
    (["", SEVEN, KV_BATCH], "bad-topic", "F2", 0, "a batch of the KV-event stream"),
    (["6c6f616478", SEVEN, KV_BATCH], "bad-topic", "F2", 0, "a batch of the KV-event stream"),
    (["6c6f616478", "07", "80"], "bad-topic", "F2", 0, "perhaps of a LoadSnapshot"),
    (["6c6f6164", "", GOOD], "bad-seq-length", "F3", 1, None),
    (["6c6f6164", "07", GOOD], "bad-seq-length", "F3", 1, None),
    (["6c6f6164", SEVEN + "00", GOOD], "bad-seq-length", "F3", 1, None),
    (["6c6f6164", "ff" * 8, GOOD], "negative-seq", "F3", 1, "the replay sentinel"),
    (["6c6f6164", "ff" * 7 + "fe", GOOD], "negative-seq", "F3", 1, None),
    (["6c6f6164", "80" + "00" * 7, GOOD], "negative-seq", "F3", 1, None),
    (["6c6f6164", SEVEN, ""], "truncated", "W10", 2, None),
    (["6c6f6164", SEVEN, "80"], "not-array", "W10", 2, "perhaps of a LoadSnapshot"),
    (["6c6f616478", SEVEN, NAMED_FIELDS], "bad-topic", "F2", 0, "lacks array_like=True"),
    (["6c6f6164", SEVEN, KV_BATCH], "bad-tag", "W1", 2, "a batch of the KV-event stream"),
    (["6c6f6164", SEVEN, GOOD + "c0"], "trailing-bytes", "W6", 2, None),
]

# payload, reason, rule, offset, element, field, expected, got
REFUSED = [
    ("", "truncated", "W10", 0, None, None, "at least 1 more byte", "the end of the payload"),
    ("dd00", "truncated", "W10", 2, None, None, "at least 3 more bytes", "the end of the payload"),
    ("c1", "malformed", "W10", 0, None, None, "a msgpack marker", "0xc1, which msgpack never uses"),
    ("c0", "not-array", "W10", 0, None, None, "an array", "nil"),
    ("82c0c0", "not-array", "W10", 0, None, None, "an array", "the start of a map of 2"),
    ("d9", "not-array", "W10", 0, None, None, "an array", "an item that starts with 0xd9"),
    ("90", "too-short", "W9", 0, 0, "tag", "the tag 'LoadStat'", "an empty array"),
    ("9601", "bad-tag", "W1", 1, 0, "tag", "the str 'LoadStat'", "integer 1"),
    ("96a16c", "bad-tag", "W1", 1, 0, "tag", "the str 'LoadStat'", "str 'l'"),
    ("96a86c", "truncated", "W10", 3, 0, "tag", "at least 7 more bytes", "the end of the payload"),
    ("96" + TAG, "truncated", "W10", 10, 1, REV1[0], "at least 1 more byte", None),
    ("92" + TAG + "07", "too-short", "W9", 0, 2, REV1[1], "an array of at least 6", "2"),
    ("96" + TAG + "0102c003c0", "bad-type", "W5", 12, 3, REV1[2], "an unsigned integer", "nil"),
    (
        "96" + TAG + "01020304c2",
        *("bad-type", "W5", 14, 5, REV1[4], "an unsigned integer or nil", "false"),
    ),
    ("96" + TAG + "01d0df0304c0", "out-of-range", "W5", 11, 2, REV1[1], "0 to 2^64-1", "-33"),
    ("96" + TAG + "01029201c104c0", "malformed", "W10", 14, 3, REV1[2], "a msgpack marker", None),
    ("97" + TAG + "01020304c09107ff", "trailing-bytes", "W6", 17, None, None, None, "1 more byte"),
    ("9c" + TAG + "00" * 10 + "c1", "malformed", "W10", 20, 11, None, "a msgpack marker", None),
]

# The choices that the contract leaves to a router, as this one makes them: name, payload, what it
# reads or the reason
BODY = "11cc82cd9c40ce000f4240"
POLICIES: list[tuple[str, str, int | str]] = [
    ("TrailingBytes", "96" + TAG + BODY + "05c0", "trailing-bytes"),
    ("OmittedRank", "95" + TAG + BODY, "too-short"),
    ("TagAsBin", "96c4084c6f616453746174" + BODY + "05", "bad-tag"),
    ("CountAboveI64", "96" + TAG + "cf8000000000000000" + "01020305", 1),
    ("PartialTail", "9a" + TAG + BODY + "0501020304", 1),
    ("NilTail", "9b" + TAG + BODY + "0501020304c0", "bad-type"),
]

# payload, revision, reason, rule, offset, element, field, expected, got
UNGRADED = [
    ("96" + TAG + BODY + "05", 2, "too-short", "W4", 0, 6, REV2[5], "exactly the 11", "6"),
    (
        "9a" + TAG + BODY + "0501020304",
        2,
        "too-short",
        "W4",
        0,
        10,
        REV2[9],
        "exactly the 11",
        "10",
    ),
    (GOOD, 1, "extra-elements", "W4", 0, 6, None, "exactly the 6 elements of revision 1", "11"),
    ("97" + TAG + BODY + "05c0", 1, "extra-elements", "W4", 0, 6, None, "exactly the 6", "7"),
    ("9c" + GOOD[2:] + "00", 2, "extra-elements", "W4", 0, 11, None, "exactly the 11", "12"),
    (
        "dc0006" + TAG + BODY + "05",
        *(1, "not-canonical", "W6", 0, None, None, "spelling 96", "dc0006 (array 16)"),
    ),
    (
        "dd0000000b" + GOOD[2:],
        *(2, "not-canonical", "W6", 0, None, None, "spelling 9b", "dd0000000b (array 32)"),
    ),
    (
        "96d9084c6f616453746174" + BODY + "05",
        *(1, "not-canonical", "W6", 1, 0, "tag", TAG, "d9084c6f616453746174 (str 8)"),
    ),
    (
        "96" + TAG + "cc11" + BODY[2:] + "05",
        *(1, "not-canonical", "W6", 10, 1, REV1[0], "spelling 11", "cc11 (uint 8)"),
    ),
    (
        "96" + TAG + BODY + "d3" + SEVEN,
        *(1, "not-canonical", "W6", 21, 5, REV1[4], "spelling 07", f"d3{SEVEN} (int 64)"),
    ),
    (
        "96" + TAG + "11d10082cd9c40ce000f4240cd0005",
        *(1, "not-canonical", "W6", 11, 2, REV1[1], "spelling cc82", "d10082 (int 16)"),
    ),
    (
        GOOD[:-2] + "cc09",
        *(2, "not-canonical", "W6", 42, 10, REV2[9], "spelling 09", "cc09 (uint 8)"),
    ),
    (GOOD + "00", 2, "trailing-bytes", "W6", 43, None, None, "the end of the payload", "1 more"),
    ("96" + TAG + BODY + "ff", 1, "out-of-range", "W5", 21, 5, REV1[4], "0 to 2^64-1", "-1"),
    ("95" + TAG + BODY, 1, "too-short", "W4", 0, 5, REV1[4], "at least 6", "5"),
]


def stat_of(revision: int, values: tuple[object, ...] = VALUES) -> LoadStatRev1:
    names = NAMES[revision]
    fields: dict[str, Any] = dict(zip(names, values, strict=False))
    return (LoadStatRev1 if revision == 1 else LoadStatRev2)(**fields)


def with_value(revision: int, element: int, value: object) -> LoadStatRev1:
    values: list[object] = list(VALUES[: len(NAMES[revision])])
    values[element - 1] = value
    return stat_of(revision, tuple(values))


def place(error: WireError) -> tuple[object, ...]:
    return (str(error.reason), error.rule, error.offset, error.element, error.field)


def says(expected: str | None, text: str) -> None:
    if expected is not None:
        assert expected in text


class TestStructs:
    @pytest.mark.parametrize("revision", [1, 2])
    def test_fields(self, revision: int) -> None:
        """The fields stand in wire order."""
        assert NAMES[revision] == wire.field_names(revision)
        assert NAMES[revision] == tuple(wire.to_dict(stat_of(revision)))

    def test_revision_2_extends_revision_1(self) -> None:
        """A reading of revision 2 is one of revision 1, and begins with its fields (rule W11)."""
        assert issubclass(LoadStatRev2, LoadStatRev1)
        assert REV1 == REV2[: len(REV1)]

    def test_newest(self) -> None:
        """`LoadStat` is the newest revision."""
        assert wire.LATEST == max(wire.REVISIONS)
        assert wire.REVISIONS[wire.LATEST] is wire.LoadStat

    @pytest.mark.parametrize(("revision", "element"), SLOTS)
    def test_frozen(self, revision: int, element: int) -> None:
        """A reading cannot be changed."""
        with pytest.raises(AttributeError, match="immutable"):
            setattr(stat_of(revision), NAMES[revision][element - 1], 1)

    @pytest.mark.parametrize("kind", [LoadStatRev1, LoadStatRev2])
    def test_keyword_only(self, kind: type[LoadStatRev1]) -> None:
        """Fields are given by name, so that no two of them are mixed up."""
        with pytest.raises(TypeError, match="positional"):
            kind(7, 3, 1024, 8192, 2)  # type: ignore[call-arg]

    @pytest.mark.parametrize(("revision", "element"), SLOTS)
    def test_no_defaults(self, revision: int, element: int) -> None:
        """No count has a default, so that none is 0 because it was forgotten; the rank is nil."""
        name = NAMES[revision][element - 1]
        given: dict[str, Any] = wire.to_dict(stat_of(revision))
        del given[name]
        if name == "attn_dp_rank":
            assert wire.from_dict(given, revision=revision).attn_dp_rank is None
        else:
            with pytest.raises(TypeError, match=name):
                wire.from_dict(given, revision=revision)

    def test_equality(self) -> None:
        """Readings are equal by value and can be keys, and the revisions are not equal."""
        assert stat_of(2) == stat_of(2)
        assert hash(stat_of(2)) == hash(stat_of(2))
        assert stat_of(1) != stat_of(2)

    @pytest.mark.parametrize("revision", [1, 2])
    def test_dict_and_back(self, revision: int) -> None:
        """`from_dict` takes what `to_dict` gives."""
        stat = stat_of(revision)
        assert stat == wire.from_dict(wire.to_dict(stat), revision=revision)
        assert revision == wire.revision_of(stat)

    def test_unknown_field(self) -> None:
        """A field that the revision lacks is refused."""
        with pytest.raises(TypeError, match="num_total_tokens"):
            wire.from_dict({**wire.to_dict(stat_of(1)), "num_total_tokens": 1}, revision=1)


class TestEncode:
    @pytest.mark.parametrize(("revision", "element"), SLOTS)
    @pytest.mark.parametrize(("value", "reason", "got"), NO_COUNTS, ids=repr)
    def test_no_count(
        self, revision: int, element: int, value: object, reason: str, got: str
    ) -> None:
        """A value that W5 forbids is refused in every slot, by element and field."""
        with pytest.raises(WireError) as caught:
            wire.encode(with_value(revision, element, value))
        expected = (reason, "W5", None, element, NAMES[revision][element - 1])
        assert expected == place(caught.value)
        assert ("an int, 0 to 2^64-1", got) == (caught.value.expected, caught.value.got)
        assert caught.value.__suppress_context__

    @pytest.mark.parametrize(("revision", "element"), SLOTS)
    def test_nil(self, revision: int, element: int) -> None:
        """None is a rank and no count."""
        stat = with_value(revision, element, None)
        if element == 5:
            assert msgpack.unpackb(wire.encode(stat))[5] is None
        else:
            with pytest.raises(WireError, match="got NoneType None") as caught:
                wire.encode(stat)
            assert element == caught.value.element

    def test_first_wrong_value(self) -> None:
        """Of several wrong values the first one is named."""
        with pytest.raises(WireError, match=r"element 2 .*got bool True"):
            wire.encode(stat_of(2, (1, True, -1, 7.0, None, None, 1, 1, 1, 1)))

    @pytest.mark.parametrize(("revision", "element"), SLOTS)
    @pytest.mark.parametrize("value", WIDTHS)
    def test_canonical(self, revision: int, element: int, value: int) -> None:
        """The bytes are those of the msgpack library for the plain list, at every width."""
        stat = with_value(revision, element, value)
        expected = msgpack.packb(["LoadStat", *wire.to_dict(stat).values()])
        assert expected == wire.encode(stat)
        assert stat == wire.decode(expected, revision=revision)

    def test_bytes(self) -> None:
        """The bytes are these, and nothing is trimmed at its default (rule W4)."""
        assert GOOD == wire.encode(stat_of(2)).hex()
        idle = stat_of(2, (0, 0, 0, 0, None, 0, 0, 0, 0, 0))
        assert f"9b{TAG}00000000c00000000000" == wire.encode(idle).hex()


class TestDecode:
    @pytest.mark.parametrize(
        ("payload", "reason", "rule", "offset", "element", "field", "expected", "got"), REFUSED
    )
    def test_refused(
        self,
        payload: str,
        reason: str,
        rule: str,
        offset: int,
        element: int | None,
        field: str | None,
        expected: str | None,
        got: str | None,
    ) -> None:
        """A refusal says rule, reason, place, expected and got."""
        with pytest.raises(WireError) as caught:
            wire.decode(bytes.fromhex(payload))
        assert (reason, rule, offset, element, field) == place(caught.value)
        says(expected, caught.value.expected)
        says(got, caught.value.got)
        assert caught.value.frame is None

    @pytest.mark.parametrize(("policy", "payload", "answer"), POLICIES)
    def test_policy(self, policy: str, payload: str, answer: int | str) -> None:
        """This reader makes the choices that it states."""
        if isinstance(answer, int):
            assert answer == wire.revision_of(wire.decode(bytes.fromhex(payload)))
        else:
            with pytest.raises(WireError) as caught:
                wire.decode(bytes.fromhex(payload))
            assert answer == caught.value.reason

    @pytest.mark.parametrize("length", [*range(6, 18), 300])
    @pytest.mark.parametrize("reader", [1, 2])
    def test_length_picks_the_revision(self, reader: int, length: int) -> None:
        """The newest revision is read whose elements are all there, and never one with zeros."""
        payload = msgpack.packb(["LoadStat", *range(1, length)])
        stat = wire.decode(payload, revision=reader)
        expected = 2 if reader == 2 and length >= 11 else 1
        assert wire.REVISIONS[expected] is type(stat)
        names = NAMES[expected]
        assert dict(zip(names, range(1, len(names) + 1), strict=True)) == wire.to_dict(stat)
        assert (expected == 2) == hasattr(stat, "num_total_tokens")

    @pytest.mark.parametrize(
        "tail", ["c0", "ff", "cb7ff8000000000000", "a2fffe", "81910102", "d6ff00", "c703ff010203"]
    )
    def test_unknown_tail(self, tail: str) -> None:
        """What stands behind the known elements is ignored, whatever it is (rule W8)."""
        whole = bytes.fromhex(tail) + bytes(3 if tail == "d6ff00" else 0)
        payload = b"\x9c" + bytes.fromhex(GOOD)[1:] + whole
        assert stat_of(2) == wire.decode(payload)

    def test_deep_tail(self) -> None:
        """A tail is ignored however deep it is nested, also deeper than msgspec goes."""
        payload = b"\x9c" + bytes.fromhex(GOOD)[1:] + b"\x91" * 100_000 + b"\xc0"
        assert stat_of(2) == wire.decode(payload)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, zmq.Frame])
    def test_buffers(self, kind: Callable[[bytes], Any]) -> None:
        """Any buffer is read, a received zmq frame as well."""
        assert stat_of(2) == wire.decode(kind(bytes.fromhex(GOOD)))
        with pytest.raises(WireError, match="not-array"):
            wire.decode(kind(b"\xc0"))

    def test_buffer_slice(self) -> None:
        """A part of a larger buffer is read as what it is."""
        raw = memoryview(b"??" + bytes.fromhex(GOOD) + b"??")
        assert stat_of(2) == wire.decode(raw[2:-2])

    @pytest.mark.parametrize("data", ["9b", None, 7, [0x9B]])
    def test_no_bytes(self, data: Any) -> None:
        """What is no buffer is a wrong call and not a wrong payload."""
        with pytest.raises(TypeError):
            wire.decode(data)
        with pytest.raises(TypeError):
            wire.parse_frames([b"load", bytes(8), data])

    @pytest.mark.parametrize("revision", [0, 3, -1, None, "2"])
    def test_unknown_revision(self, revision: Any) -> None:
        """A revision that is not there is a wrong call, whatever the bytes."""
        payload = bytes.fromhex(GOOD)
        frames = [wire.TOPIC, bytes(8), payload]
        for call in (
            lambda: wire.decode(payload, revision=revision),
            lambda: wire.decode(b"", revision=revision),
            lambda: wire.parse_frames(frames, revision=revision),
            lambda: wire.verify(payload, revision=revision),
            lambda: wire.verify_frames(frames, revision=revision),
            lambda: wire.field_names(revision),
            lambda: wire.from_dict({}, revision=revision),
        ):
            with pytest.raises(ValueError, match=r"no revision .* there are 1, 2") as caught:
                call()
            assert not isinstance(caught.value, WireError)


class TestFrames:
    @pytest.mark.parametrize(("sequence", "good"), SEQUENCES, ids=repr)
    def test_sequence(self, sequence: Any, good: bool) -> None:
        """A sequence is an int from 0 to 2^63-1, sent big-endian; a bool or float is none."""
        if good:
            frames = wire.build_frames(sequence, stat_of(2))
            expected = (b"load", sequence.to_bytes(8, "big"), bytes.fromhex(GOOD))
            assert expected == frames
            assert sequence == wire.parse_frames(frames).sequence
        else:
            with pytest.raises(WireError) as caught:
                wire.build_frames(sequence, stat_of(2))
            assert ("negative-seq", "F3", 1) == (*place(caught.value)[:2], caught.value.frame)
            assert repr(sequence) == caught.value.got

    def test_build_refuses_values(self) -> None:
        """A value that is no count is refused as by `encode`."""
        with pytest.raises(WireError, match=r"W5 bad-type at element 1 \(num_running_reqs\)"):
            wire.build_frames(0, with_value(2, 1, 7.0))

    @pytest.mark.parametrize("revision", [1, 2])
    def test_parse(self, revision: int) -> None:
        """A message reads back, from any buffers, as the revision that was sent."""
        frames = wire.build_frames(7, stat_of(revision))
        assert wire.Message(7, stat_of(revision)) == wire.parse_frames(frames)
        received: list[Any] = [zmq.Frame(frame) for frame in frames]
        assert wire.Message(7, stat_of(revision)) == wire.parse_frames(received)

    def test_parse_as_revision_1(self) -> None:
        """A reader of revision 1 reads the beginning of a newer message."""
        frames = wire.build_frames(7, stat_of(2))
        assert wire.Message(7, stat_of(1)) == wire.parse_frames(frames, revision=1)

    @pytest.mark.parametrize(("frames", "reason", "rule", "frame", "hint"), BAD_MESSAGES)
    def test_refused(
        self, frames: list[str], reason: str, rule: str, frame: int | None, hint: str | None
    ) -> None:
        """A message is refused by the first frame that is wrong, with a likely cause."""
        with pytest.raises(WireError) as caught:
            wire.parse_frames([bytes.fromhex(part) for part in frames])
        error = caught.value
        assert (reason, rule, frame) == (error.reason, error.rule, error.frame)
        if hint is None:
            assert error.hint is None
        else:
            says(hint, error.hint or "")
            assert str(error).endswith(f"({error.hint})")

    @pytest.mark.parametrize(("keys", "hint"), MAPS)
    def test_a_map(self, keys: tuple[object, ...], hint: str | None) -> None:
        """A map is called by a name only if it has a key of that, and it says if it is cut."""
        payload = msgpack.packb(dict.fromkeys(keys, 7))
        for revision in wire.REVISIONS:
            with pytest.raises(WireError, match="W10 not-array") as caught:
                wire.decode(payload, revision=revision)
            assert hint == caught.value.hint
        for cut in range(1, len(payload)):
            with pytest.raises(WireError) as caught:
                wire.decode(payload[:cut])
            assert ", which breaks off" in (caught.value.hint or ", which breaks off")

    @pytest.mark.parametrize("payload", ["deadbeef", "df", "8f", "8101", "81a161"])
    def test_no_map(self, payload: str) -> None:
        """Bytes that merely start as a map does are called nothing."""
        with pytest.raises(WireError, match="W10") as caught:
            wire.decode(bytes.fromhex(payload))
        assert caught.value.hint is None

    def test_text(self) -> None:
        """The whole sentence: rule, reason, frame, byte, element, field, expected and got."""
        payload = bytes.fromhex("96" + TAG + "01d0df0304c0")
        with pytest.raises(WireError) as caught:
            wire.parse_frames([b"load", bytes(8), payload])
        expected = (
            "W5 out-of-range at frame 2, byte 11, element 2 (num_waiting_reqs): "
            "expected 0 to 2^64-1, got -33"
        )
        assert expected == str(caught.value)


class TestVerify:
    @pytest.mark.parametrize("revision", [1, 2])
    def test_good(self, revision: int) -> None:
        """What `encode` makes passes, as a message too."""
        stat = stat_of(revision)
        assert stat == wire.verify(wire.encode(stat), revision=revision)
        frames = wire.build_frames(7, stat)
        assert wire.Message(7, stat) == wire.verify_frames(frames, revision=revision)

    @pytest.mark.parametrize(
        ("payload", "revision", "reason", "rule", "offset", "element", "field", "expected", "got"),
        UNGRADED,
    )
    def test_refused(
        self,
        payload: str,
        revision: int,
        reason: str,
        rule: str,
        offset: int,
        element: int | None,
        field: str | None,
        expected: str,
        got: str,
    ) -> None:
        """An engine's bytes are exact in length and canonical, or the first fault is named."""
        raw = bytes.fromhex(payload)
        with pytest.raises(WireError) as caught:
            wire.verify(raw, revision=revision)
        assert (reason, rule, offset, element, field) == place(caught.value)
        says(expected, caught.value.expected)
        says(got, caught.value.got)
        with pytest.raises(WireError) as caught:
            wire.verify_frames([b"load", bytes(8), raw], revision=revision)
        assert (reason, rule, offset, element, field) == place(caught.value)
        assert caught.value.frame == 2

    @pytest.mark.parametrize(("frames", "reason", "rule", "frame", "hint"), BAD_MESSAGES)
    def test_bad_message(
        self, frames: list[str], reason: str, rule: str, frame: int | None, hint: str | None
    ) -> None:
        """A message that no router reads does not pass either."""
        with pytest.raises(WireError) as caught:
            wire.verify_frames([bytes.fromhex(part) for part in frames])
        assert (reason, rule, frame) == (caught.value.reason, caught.value.rule, caught.value.frame)


class LoadStatRev3(
    LoadStatRev2, array_like=True, tag=wire.TAG, frozen=True, kw_only=True, gc=False
):
    """A revision that does not exist."""

    num_preempted_reqs: wire.Requests
    num_paused_reqs: wire.Requests


class TestAppendedRevision:
    STAT = LoadStatRev3(
        **wire.to_dict(stat_of(2)),  # type: ignore[arg-type]
        num_preempted_reqs=1_234,
        num_paused_reqs=70_001,
    )

    @pytest.fixture(autouse=True)
    def revision_3(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(wire.REVISIONS, 3, LoadStatRev3)

    @pytest.mark.parametrize(("reader", "read"), [(1, 1), (2, 2), (3, 3)])
    def test_readers(self, reader: int, read: int) -> None:
        """A reader of the new revision reads it; older ones read their own fields of it."""
        frames = wire.build_frames(0, self.STAT)
        message = wire.parse_frames(frames, revision=reader)
        expected = self.STAT if read == 3 else stat_of(read)
        assert wire.Message(0, expected) == message
        assert type(expected) is type(message.stat)
        assert frames[2] == msgpack.packb(["LoadStat", *VALUES, 1_234, 70_001])

    @pytest.mark.parametrize("sent", [1, 2])
    def test_older_messages(self, sent: int) -> None:
        """A reader of the new revision reads the older ones as what they are."""
        assert stat_of(sent) == wire.decode(wire.encode(stat_of(sent)), revision=3)

    def test_partial_tail(self) -> None:
        """A length between revision 2 and 3 is revision 2 (rule W12)."""
        payload = msgpack.packb(["LoadStat", *VALUES, 1_234])
        assert stat_of(2) == wire.decode(payload, revision=3)

    def test_refusal(self) -> None:
        """An appended field is refused by its name, and only by who reads it."""
        payload = msgpack.packb(["LoadStat", *VALUES, 7.0, 1])
        with pytest.raises(WireError, match=r"element 11 \(num_preempted_reqs\).*got float 7.0"):
            wire.decode(payload, revision=3)
        assert stat_of(2) == wire.decode(payload)
        with pytest.raises(WireError, match=r"element 12 \(num_paused_reqs\).*got -1"):
            wire.encode(msgspec.structs.replace(self.STAT, num_paused_reqs=-1))

    def test_verify(self) -> None:
        """An engine is graded by the revision that it says it has."""
        payload = wire.encode(self.STAT)
        assert self.STAT == wire.verify(payload, revision=3)
        with pytest.raises(WireError, match=r"W4 extra-elements .*revision 2, got 13"):
            wire.verify(payload)
        with pytest.raises(WireError, match=r"W4 too-short .*element 11 \(num_preempted_reqs\)"):
            wire.verify(wire.encode(stat_of(2)), revision=3)
