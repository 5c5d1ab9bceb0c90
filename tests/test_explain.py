"""Any bytes explained, with the golden vectors as the witness."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loadwire.explain import Explanation, explain, explain_message, explain_text
from pytest_loadwire.explain.elements import MEANINGS, NAMES
from pytest_loadwire.explain.hazards import misread
from pytest_loadwire.explain.table import MOST_ROWS
from pytest_loadwire.judge import hazard_of
from pytest_loadwire.rules import READER_REASONS, RULES, Hazard, Reason
from pytest_loadwire.vectors import Accept, FrameVector, PayloadVector, Reject, Verdict, load
from pytest_loadwire.wire import REVISIONS, encode, from_dict

GOLDEN = load()
TAG = "a84c6f616453746174"
REV2 = GOLDEN.payload("rev2-golden-a").payload
SEQUENCE = struct.pack(">q", 7)
LOAD = b"load"

# The hazard of this vector is not that of the element where it is cut, as all others are.
OTHER_HAZARD = {"payload-cut"}


def verdicts(vector: PayloadVector | FrameVector) -> dict[int, Verdict]:
    return {int(revision): verdict for revision, verdict in vector.readers.items()}


def whole(told: Explanation) -> list[bytes]:
    """The bytes of the tables, frame by frame; each row has to follow the one before it."""
    for frame in told.frames:
        position = 0
        for row in frame.rows:
            assert position == row.offset
            position += len(row.raw)
    return [b"".join(row.raw for row in frame.rows) for frame in told.frames]


def complete(told: Explanation) -> None:
    """What every explanation has to say, whatever it is about."""
    assert (told.fault is None) == (told.engine is not None)
    assert (told.hazard is None) == (not told.hazard_text)
    assert told.hazard is not None or told.fault is None
    assert told.fault is not None or told.hazard in (None, Hazard.STARVES)
    assert told.ok == told.summary.startswith("CONFORMS")
    said = [told.summary, told.hazard_text, told.cause or "", *told.warnings]
    assert all(text.isascii() for text in said)
    if told.fault is not None:
        assert told.fault.rule in RULES
        assert told.fault.reason.value in told.fault.brief
        blamed = [row for frame in told.frames for row in frame.rows if row.fault]
        placed = told.fault.offset is not None or told.fault.frame is not None
        assert (1 if placed else 0) == len(blamed)
    json.dumps(told.to_json())


@pytest.mark.parametrize("vector", GOLDEN.payloads, ids=lambda vector: vector.id)
def test_golden_payloads(vector: PayloadVector) -> None:
    """The verdicts on every golden payload, and on every spelling, are the vector's."""
    for name, form in vector.forms():
        told = explain(form)
        assert verdicts(vector) == told.readers
        assert (vector.engine if name == vector.id else None) == told.engine
        assert [form] == whole(told)
        complete(told)


@pytest.mark.parametrize("vector", GOLDEN.frames, ids=lambda vector: vector.id)
def test_golden_frames(vector: FrameVector) -> None:
    """The verdicts on every golden message are the vector's."""
    told = explain_message(vector.parts)
    if vector.id in OTHER_HAZARD:
        for verdict in vector.readers.values():
            assert str(verdict).split("hazard")[0] == str(told.readers[1]).split("hazard")[0]
    else:
        assert verdicts(vector) == told.readers
    assert vector.engine == told.engine
    assert list(vector.parts) == whole(told)
    complete(told)


def test_every_reason_has_its_words() -> None:
    """The golden vectors make it say every reason code, and every hazard in words."""
    found = [explain(form) for vector in GOLDEN.payloads for _, form in vector.forms()]
    found += [explain_message(vector.parts) for vector in GOLDEN.frames]
    faults = [told.fault for told in found if told.fault is not None]
    assert set(READER_REASONS) <= {fault.reason for fault in faults}
    assert {*Hazard} == {told.hazard for told in found if told.hazard is not None}


class TestHazards:
    def test_zeros(self) -> None:
        """A hazard is what the judge derives from a zero, where it looks at the field."""
        for name in NAMES[1:]:
            if name not in ("attn_dp_rank", "max_running_requests"):
                assert hazard_of({name: 7}, {name: 0}) is misread(name, 0)

    def test_wrapped(self) -> None:
        """A wrapped negative is a load that nobody has."""
        for name in ("num_running_reqs", "num_waiting_reqs", "num_tokens", "num_total_tokens"):
            assert hazard_of({name: 7}, {name: 2**64 - 1}) is misread(name, 2**64 - 1)


# payload, what the summary says, what the hazard's words say, what the cause says
BROKEN = [
    ("95" + TAG + "0703cd0400cd2000", "may send it: attn_dp_rank is missing (W4 too-short)",
     "reads rank 0", "leaves out an unset rank"),
    ("94" + TAG + "0703cd0400", "max_total_num_tokens is missing (W9 too-short)",
     "max_total_num_tokens = 0", "leaves out what is at its default"),
    ("98" + TAG + "07" * 7, "max_running_requests is missing (W4", "= 0", "trimmed at its end"),
    ("97" + TAG + "07" * 6, "num_total_tokens is missing (W4", "= 0", "a fork of SGLang"),
    ("9c" + TAG + "07" * 11, "the array has 12 elements", "no wrong traffic", "an engine newer"),
    ("96" + TAG + "ff030400c0", "num_running_reqs is -1, which is below zero (W5 out-of-range)",
     "18446744073709551615", "below zero"),
    ("96" + TAG + "fd030400c0", "num_running_reqs is -3, which", "= 18446744073709551613",
     "below zero"),
    ("96" + TAG + "ca41200000030400c0", "num_running_reqs is float 10.0", "reads 10 and hides",
     "a division"),
    ("96" + TAG + "c3030400c0", "num_running_reqs is true", "reads 1 and hides", "a flag"),
    ("96" + TAG + "a137030400c0", "num_running_reqs is str '7'", "reads 7", "formatted as text"),
    ("96" + TAG + "c0030400c0", "num_running_reqs is nil", "= 0", "never set"),
    ("96" + TAG + "07030400c0c0", "1 more byte behind the array (W6", "no wrong", "beyond its"),
    ("96" + TAG + "07030400c00a", "behind the array (W6", "no wrong", "a line end"),
    ("96" + TAG + "07030400c00000", "2 more bytes behind the array", "no wrong", "a fixed size"),
    ("96" + TAG + "07030400c096" + TAG, "behind the array", "no wrong", "two payloads"),
    ("96" + TAG + "cd0007030400c0", "num_running_reqs has a shorter spelling", "no wrong",
     "one fixed width"),
    ("dc0006" + TAG + "07030400c0", "the array header has a shorter spelling", "no", "fixed width"),
    ("9b" + TAG + "07030400c0", "the bytes end where num_waiting_uncached_tokens should be", "= 0",
     "the header announces 11 elements and 6 were sent"),
    ("96" + TAG + "cd07", "the bytes end where num_running_reqs should be", "= 0", "were cut"),
    ("9b" + TAG + "dd80000000", "the bytes end where", "2147483648 items", "out of step"),
    ("96a86c6f61647374617407030400c0", "the tag is str 'loadstat'", "num_running_reqs = 7",
     "spelled otherwise"),
    ("96c4084c6f6164537461740703040005", "NOT CONFORMING", "num_tokens = 4", "bytes in place"),
    ("950703040005", "the tag is integer 7", "any array for a reading", "lacks tag='LoadStat'"),
    ("96a8" + "41" * 8 + "07030400c0", "the tag is str 'AAAAAAAA'", "num_tokens = 4;",
     "another struct"),
    ("0096" + TAG + "07030400c0", "the payload is integer 0", "zeros", "starts at byte 1"),
    (TAG + "07030400c0", "the payload is str 'LoadStat'", "zeros", "header, is missing"),
    ("", "the bytes end where the payload should be", "draws all traffic", "an empty frame"),
    ("96" + TAG + "c1030400c0", "num_running_reqs is no msgpack (W10 malformed)", "= 0", None),
]  # fmt: skip

# frames, what the summary says, what the hazard's words say, what the cause says
BROKEN_MESSAGES = [
    ((LOAD, REV2), "2 frames instead of 3", "by position", None),
    ((LOAD,), "1 frame instead of 3", "by position", None),
    (
        (b"loadx", SEQUENCE, REV2),
        "the topic is b'loadx', and not b'load'",
        "never takes this reading",
        "prefix",
    ),
    ((b"", SEQUENCE, REV2), "the topic is b''", "waits for the topic", "an empty topic"),
    ((LOAD, b"7", REV2), "the sequence has 1 byte '37', and not 8", "S3", "sent as text"),
    ((LOAD, b"\xcf" + SEQUENCE, REV2), "the sequence has 9 bytes", "S3", "as msgpack"),
    ((LOAD, SEQUENCE[4:], REV2), "the sequence has 4 bytes", "S3", "32 bits"),
    ((LOAD, REV2, SEQUENCE), "the sequence has 51 bytes", "S3", "out of order"),
    ((LOAD, struct.pack(">q", -2), REV2), "the sequence is -2, which is below zero", "S3", None),
    ((LOAD, SEQUENCE, REV2[:-1]), "the bytes end where total_prefill_busy_us", "= 0", "were cut"),
]


@pytest.mark.parametrize(("payload", "summary", "hazard", "cause"), BROKEN)
def test_broken(payload: str, summary: str, hazard: str, cause: str | None) -> None:
    """A broken payload's summary names the cause in plain words, and what it would do."""
    check(explain(bytes.fromhex(payload)), summary, hazard, cause)


@pytest.mark.parametrize(("frames", "summary", "hazard", "cause"), BROKEN_MESSAGES)
def test_broken_messages(
    frames: tuple[bytes, ...], summary: str, hazard: str, cause: str | None
) -> None:
    """A broken message's summary names the cause in plain words, and what it would do."""
    check(explain_message(frames), summary, hazard, cause)


def check(told: Explanation, summary: str, hazard: str, cause: str | None) -> None:
    complete(told)
    assert summary in told.summary
    assert hazard in told.hazard_text
    assert (cause is None) == (told.cause is None), told.cause
    assert (cause or "") in (told.cause or "")


def rev2(**values: Any) -> bytes:
    usual: dict[str, Any] = dict(zip(NAMES[1:], range(10, 20), strict=True))
    usual.update(num_total_tokens=90, max_running_requests=64)
    return encode(from_dict({**usual, **values}))


# values, what is odd about them
ODD: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"attn_dp_rank": None}, ["attn_dp_rank is nil"]),
    ({"attn_dp_rank": 70_000}, ["runs past port 65535"]),
    ({"max_total_num_tokens": 0}, ["never divide by it"]),
    ({"num_tokens": 14}, ["num_tokens 14 is above the capacity 13: are elements 3 and 4 swapped?"]),
    ({"num_tokens": 99, "max_total_num_tokens": 95},
     ["num_tokens 99 is above the capacity 95 (max_total_num_tokens)", "90 is below num_tokens"]),
    ({"num_total_tokens": 11, "num_waiting_uncached_tokens": 1}, ["is below num_tokens 12"]),
    ({"max_running_requests": 9}, ["num_running_reqs 10 is above the limit"]),
    ({"num_waiting_uncached_tokens": 91}, ["num_waiting_uncached_tokens 91 is above"]),
    ({"total_prefill_busy_us": 2**64 - 3}, ["which is -3 in signed 64 bits"]),
    (dict.fromkeys(NAMES[6:], 0), ["5 counts that a later revision appended are all 0"]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "said"), ODD)
def test_odd_values(values: dict[str, Any], said: list[str]) -> None:
    """Values that cannot be are legal, and a warning says what is odd."""
    told = explain(rev2(**values))
    assert told.ok
    assert len(said) == len(told.warnings), told.warnings
    assert all(part in text for part, text in zip(said, told.warnings, strict=True))
    ways = " in 2 ways" if len(said) > 1 else ""
    head = f"CONFORMS in form, but odd{ways}: " if said else "CONFORMS: "
    assert (bool(said), told.summary[: len(head)]) == (told.odd, head)
    if said:
        assert head + told.warnings[0] == told.summary


@pytest.mark.parametrize(
    ("values", "hazard", "text"),
    [
        ({"num_running_reqs": 2**64 - 3}, Hazard.STARVES, f"num_running_reqs = {2**64 - 3} is no"),
        ({"num_total_tokens": 2**63}, Hazard.STARVES, f"num_total_tokens = {2**63} is no load"),
        ({"num_total_tokens": 2**63 - 1}, None, ""),
        ({"max_total_num_tokens": 2**63}, None, ""),
        ({"max_running_requests": 2**63}, None, ""),
        ({"attn_dp_rank": 2**63}, None, ""),
    ],
)
def test_a_legal_count_that_starves(
    values: dict[str, int], hazard: Hazard | None, text: str
) -> None:
    """A negative count that was stored unsigned is legal, and its hazard is said all the same."""
    told = explain(rev2(**values))
    assert (None, hazard) == (told.fault, told.hazard)
    assert told.hazard_text.startswith(text)
    assert bool(told.hazard_text) == bool(text)


def test_a_counter_from_below_zero() -> None:
    """The sequence -1 in front of a reading is a counter, and no end of a replay."""
    told = explain_message((LOAD, b"\xff" * 8, rev2()))
    assert told.sibling is None
    assert "the sequence is -1, which is below zero (F3 negative-seq)" in told.summary
    assert "starts at -1" in (told.cause or "")

    ended = explain_message((b"", b"\xff" * 8, b""))
    assert ended.sibling is not None
    assert "replay-sentinel" == ended.sibling.kind


def test_odd_sequence() -> None:
    """A sequence in the wrong byte order is legal and gives itself away."""
    told = explain_message((LOAD, SEQUENCE[::-1], rev2()))
    assert told.ok
    assert ["would be 7 in little-endian"] == [text[32:59] for text in told.warnings]


@pytest.mark.parametrize(
    ("value", "unknown"), [("ff", True), ("fe", False), ("d1fff6", False), ("d0ff", True)]
)
def test_minus_one(value: str, unknown: bool) -> None:
    """Only -1 may stand for unknown."""
    told = explain(bytes.fromhex(f"96{TAG}{value}030400c0"))
    assert told.cause is not None
    assert unknown == ("-1 for unknown" in told.cause)


@pytest.mark.parametrize("name", ["kv-stream-no-topic", "kv-stream-kv-events", "payload-kv-batch"])
def test_kv_events_break_f5(name: str) -> None:
    """A message of the KV stream breaks F5, as its vector says, whatever a decoder stumbles at."""
    vector = GOLDEN.frame(name)
    told = explain_message(vector.parts)
    for fault in (told.fault, told.engine_fault):
        assert fault is not None
        assert "F5" == vector.rule == fault.rule
        assert fault.text.startswith(f"F5 {fault.reason}")
        assert f"(F5 {fault.reason})" in fault.brief
    assert verdicts(vector) == told.readers  # and these keep the rule of their reason
    assert "F5" not in str(told.readers)


def trimmed(length: int) -> bytes:
    """The first elements of a message of revision 2, under a header that announces so many."""
    return bytes([0x90 | length]) + bytes.fromhex(TAG) + bytes(range(7, 6 + length))


@pytest.mark.parametrize(
    ("length", "reads"),
    [
        (7, "num_total_tokens = 0, and 0 for the 3 behind it: the worker reads as idle"),
        (9, "total_prefill_uncached_tokens = 0, and 0 for the one behind it: the reading looks"),
        (10, "total_prefill_busy_us = 0: the reading looks fresh and is partly wrong"),
    ],
)
def test_what_is_filled_in(length: int, reads: str) -> None:
    """Of a trimmed array it is said what is misread, all of it, and what that does."""
    assert f"missing reads {reads}" in explain(trimmed(length)).hazard_text


# payload, the policies on which it depends
DEPENDS = [
    (trimmed(8), ["PartialTail"]),
    (trimmed(8) + b"\0", ["TrailingBytes", "PartialTail"]),
    (trimmed(11) + b"\0", ["TrailingBytes"]),
    (
        trimmed(8).replace(b"\xa8", b"\xc4\x08") + b"\0",
        ["TagAsBin", "TrailingBytes", "PartialTail"],
    ),
    (trimmed(8).replace(b"\x07", b"\xcf" + b"\xff" * 8), ["CountAboveI64", "PartialTail"]),
]


@pytest.mark.parametrize(("payload", "policies"), DEPENDS)
def test_several_policies(payload: bytes, policies: list[str]) -> None:
    """Where an accepting router has a second choice to make, that is told of as well."""
    for told in (explain(payload), explain_message((LOAD, SEQUENCE, payload))):
        first, further = told.readers[2], told.further.get(2, ())
        assert policies == [str(each.policy) for each in (first, *further)]  # type: ignore[union-attr]
        for each in further:
            accepts = [v for v in each.outcomes.values() if isinstance(v, Accept)]
            rejects = [v for v in each.outcomes.values() if isinstance(v, Reject)]
            assert {"7" if told.message else None} == {v.sequence for v in accepts}
            assert {2 if told.message else None} >= {v.frame for v in rejects}
        complete(told)
    assert "PartialTail" not in str(explain(payload, revisions=[1]).further)


class TestElements:
    def test_meanings(self) -> None:
        """Every element and frame has a meaning, and its unit is the one in the manifest."""
        assert set(NAMES) <= set(MEANINGS)
        for field in GOLDEN.manifest["revisions"][str(max(REVISIONS))]:
            if field["name"] != "tag":
                assert field["unit"] == MEANINGS[field["name"]].unit

    def test_rows(self) -> None:
        """Each row has offset, bytes, element, meaning, unit and value."""
        row = explain(REV2).frames[0].rows[4]
        assert (13, b"\xcd\x9c\x40", 3, "num_tokens", "40000", "tokens", "of KV cache in use") == (
            row.offset,
            row.raw,
            row.element,
            row.name,
            row.value,
            row.unit,
            row.meaning,
        )

    def test_missing(self) -> None:
        """What is missing has a row without bytes."""
        rows = explain(bytes.fromhex("95" + TAG + "0703cd0400cd2000")).frames[0].rows
        assert (b"", 5, "attn_dp_rank", "missing", True) == (
            rows[-1].raw,
            rows[-1].element,
            rows[-1].name,
            rows[-1].value,
            rows[-1].fault,
        )

    def test_a_sibling_has_no_counts(self) -> None:
        """The elements of another stream are not called by a reading's names."""
        told = explain_message(GOLDEN.frame("kv-stream-kv-events").parts)
        names = {row.name for frame in told.frames for row in frame.rows}
        assert {"timestamp", "events", "attn_dp_rank"} <= names
        assert not {"num_running_reqs", "tag"} & names

    def test_maps(self) -> None:
        """A value in a map is called by its key."""
        told = explain(GOLDEN.payload("top-map-load-snapshot").payload)
        rows = told.frames[0].rows
        assert ("num_used_tokens", "integer 100") == (rows[6].name, rows[6].value)
        assert "NO LOAD MESSAGE: a LoadSnapshot" in told.summary


class TestRevisions:
    def test_one(self) -> None:
        """Only the routers that are asked for are told of, and they decide."""
        partly = bytes.fromhex("9b" + TAG + "07030400c0") + b"\xcb" + b"\0" * 8 + b"\0" * 4
        assert "BROKEN for routers of revision 2" in explain(partly).summary
        assert [1] == list(explain(partly, revisions=[1]).readers)
        assert "NOT CONFORMING" in explain(partly, revisions=[1]).summary

    def test_unknown(self) -> None:
        """A revision that does not exist is a ValueError, the only one there is."""
        with pytest.raises(ValueError, match="no revision 9"):
            explain(REV2, revisions=[9])
        with pytest.raises(ValueError, match="no revision 9"):
            explain_message((LOAD, SEQUENCE, REV2), revisions=[9])


class TestText:
    def test_lines(self) -> None:
        """A text is explained piece by piece, with where each came from."""
        payload, message, bad = explain_text(f"{REV2.hex()}\nload {SEQUENCE.hex()} 80\nzz")
        assert (True, 1, "hex", False) == (payload.ok, payload.line, payload.form, payload.message)
        assert (False, 2, True) == (message.ok, message.line, message.message)
        assert ("column 1: 'z' is no hex digit", 3, None) == (bad.problem, bad.line, bad.fault)
        assert "CANNOT BE READ" in bad.summary
        assert not bad.ok
        assert [] == explain_text(" \n")

    @pytest.mark.parametrize(
        ("text", "kind"),
        [("HTTP/1.1 404 Not Found", "http"), ('["LoadStat", 7]', "json"), ("hello world", None)],
    )
    def test_pasted_siblings(self, text: str, kind: str | None) -> None:
        """Text of another protocol is recognised, although it is no hex."""
        (told,) = explain_text(text)
        assert told.problem is not None
        assert kind == (told.sibling and told.sibling.kind)


class TestSize:
    def test_megabytes(self) -> None:
        """A megabyte is told of in so many rows and one for the rest, and no byte is lost."""
        payload = bytes.fromhex("dd00020000" + TAG) + b"\x01" * 0x1FFFF
        told = explain(payload)
        assert [payload] == whole(told)
        assert MOST_ROWS + 1 == len(told.frames[0].rows)
        assert ("(not shown)", f"{0x1FFFF - MOST_ROWS + 2} more bytes") == (
            told.frames[0].rows[-1].name,
            told.frames[0].rows[-1].value,
        )
        big = b"\xc6\x00\x10\x00\x00" + b"x" * (1 << 20)
        assert [LOAD, SEQUENCE, big] == whole(explain_message((LOAD, SEQUENCE, big)))

    @pytest.mark.parametrize("behind", [b"\xc0", b""])
    @pytest.mark.parametrize("marker", [b"\x91", b"\x81"])
    def test_deep(self, marker: bytes, behind: bytes) -> None:
        """Nesting of any depth is followed, whole or broken off."""
        nested(marker * 20_000, behind)

    def test_deeper(self) -> None:
        """Even a hundred thousand levels are."""
        nested(b"\x91" * 100_000, b"\xc0")


def nested(markers: bytes, behind: bytes) -> None:
    tail = markers + behind
    payload = b"\x9c" + REV2[1:] + tail
    told = explain(payload)
    assert [payload] == whole(told)
    expected = Reason.EXTRA_ELEMENTS if markers[0] == 0x91 and behind else Reason.TRUNCATED
    assert told.fault is not None
    assert expected is told.fault.reason
    assert [tail] == whole(explain(tail))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A golden payload with a few bytes changed, taken out or put in."""
    data = bytearray(draw(st.sampled_from(GOLDEN.payloads)).payload)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


BYTES = st.one_of(st.binary(max_size=80), mutated())


class TestAnything:
    @given(BYTES)
    @settings(max_examples=400, deadline=None)
    def test_payloads(self, payload: bytes) -> None:
        """Any bytes are explained, whole, and the verdict on a payload is that on its message."""
        told = explain(payload)
        assert [payload] == whole(told)
        complete(told)
        framed = explain_message((LOAD, SEQUENCE, payload))
        assert told.engine == framed.engine
        assert [type(v) for v in told.readers.values()] == [
            type(v) for v in framed.readers.values()
        ]
        complete(framed)

    @given(
        st.lists(st.one_of(BYTES, st.sampled_from([LOAD, SEQUENCE, b"", b"\xff" * 8])), max_size=5)
    )
    @settings(max_examples=200, deadline=None)
    def test_messages(self, frames: list[bytes]) -> None:
        """Any frames are explained, whole."""
        told = explain_message(frames)
        assert frames == whole(told)
        complete(told)

    @given(st.one_of(st.text(max_size=60), BYTES.map(repr), BYTES.map(bytes.hex)))
    @settings(max_examples=200, deadline=None)
    def test_text(self, text: str) -> None:
        """Any text is explained."""
        for told in explain_text(text):
            assert told.summary.isascii()
            json.dumps(told.to_json())
