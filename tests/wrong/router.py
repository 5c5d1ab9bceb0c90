"""A router's decoder that is right, written so that each wrong one can change one thing of it.

It shares nothing with the package: a mistake in the one is no mistake in the other.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REV1 = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_tokens",
    "max_total_num_tokens",
    "attn_dp_rank",
)
FIELDS = (
    *REV1,
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "max_running_requests",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
)
RANK = 5

NUMBERS = {
    "float-32": ">f",
    "float-64": ">d",
    "uint-8": ">B",
    "uint-16": ">H",
    "uint-32": ">I",
    "uint-64": ">Q",
    "int-8": ">b",
    "int-16": ">h",
    "int-32": ">i",
    "int-64": ">q",
}


def _forms() -> tuple[str, ...]:
    """The format name of each first byte, after the table of the msgpack specification."""
    forms = ["positive-fixint"] * 128 + ["fixmap"] * 16 + ["fixarray"] * 16 + ["fixstr"] * 32
    forms += ["nil", "reserved", "false", "true", "bin-8", "bin-16", "bin-32"]
    forms += ["ext-8", "ext-16", "ext-32", *NUMBERS]
    forms += [f"fixext-{size}" for size in (1, 2, 4, 8, 16)]
    forms += ["str-8", "str-16", "str-32", "array-16", "array-32", "map-16", "map-32"]
    return (*forms, *["negative-fixint"] * 32)


FORMS = _forms()


class Text(bytes):
    """The bytes of a str; plain bytes are those of a bin."""


OTHER = object()
"""Stands for an array, a map or an ext, none of which can be a count or a tag."""


class Refusal(ValueError):  # noqa: N818 - named after the contract's word
    """Names the contract's reason code, which a decoder may, and need not."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Router:
    """Right as it stands, for both revisions and with the strict policies."""

    data = b""
    at = 0

    # the payload

    def decode(self, payload: bytes) -> dict[str, int | None]:
        self.data, self.at = payload, 0
        length = self.array_length()
        self.tag()
        known = self.known(length)
        reading = {}
        for index in range(1, length):
            if index <= known:
                reading[self.name(index)] = self.count(index)
            else:
                self.skip(index)
        self.finish()
        return reading

    def array_length(self) -> int:
        marker = self.take(1)[0]
        form = FORMS[marker]
        if form == "fixarray":
            length = marker & 0x0F
        elif form in ("array-16", "array-32"):
            length = int.from_bytes(self.take(2 if form == "array-16" else 4), "big")
        else:
            raise Refusal("malformed" if form == "reserved" else "not-array")
        if not length:
            raise Refusal("too-short")
        return length

    def tag(self) -> None:
        tag = self.item()
        if not (isinstance(tag, Text) and self.is_tag(tag)):
            raise Refusal("bad-tag")

    def is_tag(self, tag: bytes) -> bool:
        return tag == b"LoadStat"

    def known(self, length: int) -> int:
        """How many counts are read of an array of this length."""
        if length < 6:
            raise Refusal("too-short")
        return 10 if length >= 11 else 5

    def name(self, index: int) -> str:
        return FIELDS[index - 1]

    def count(self, index: int) -> int | None:
        value = self.item()
        if value is None and index == RANK:
            return self.no_rank()
        if type(value) is not int:
            return self.no_count(value, index)
        if value < 0:
            return self.negative(value)
        return self.number(value, index)

    def no_rank(self) -> int | None:
        return None

    def no_count(self, value: object, index: int) -> int | None:
        raise Refusal("bad-type")

    def negative(self, value: int) -> int:
        raise Refusal("out-of-range")

    def number(self, value: int, index: int) -> int | None:
        return value

    def skip(self, index: int) -> None:
        self.item()

    def finish(self) -> None:
        if self.at != len(self.data):
            raise Refusal("trailing-bytes")

    # msgpack

    def item(self) -> object:
        """The next item as a whole, nested ones included."""
        first, children = self.token()
        pending = children
        while pending:
            pending += self.token()[1] - 1
        return first

    def token(self) -> tuple[object, int]:
        """The next header with its body, and how many items belong to it."""
        marker = self.take(1)[0]
        form = FORMS[marker]
        self.seen_form(form)
        family, _, bits = form.partition("-")
        if form == "positive-fixint":
            return marker, 0
        if form == "negative-fixint":
            return self.integer(form, bytes([marker])), 0
        if family in ("uint", "int"):
            return self.integer(form, self.take(int(bits) // 8)), 0
        if family == "float":
            return struct.unpack(NUMBERS[form], self.take(int(bits) // 8))[0], 0
        if form in ("nil", "true", "false"):
            return {"nil": None, "true": True, "false": False}[form], 0
        if form == "reserved":
            return self.reserved()
        if form in ("fixarray", "fixmap"):
            return OTHER, (marker & 0x0F) * (2 if form == "fixmap" else 1)
        if form == "fixstr":
            return Text(self.take(marker & 0x1F)), 0
        if family == "fixext":
            self.take(1 + int(bits))
            return OTHER, 0
        length = self.length(form, self.take(int(bits) // 8))
        if family in ("array", "map"):
            return OTHER, length * self.items_of(family)
        body = self.take(length + (1 if family == "ext" else 0))
        return {"str": Text(body), "bin": body}.get(family, OTHER), 0

    def seen_form(self, form: str) -> None:
        """Called with the format of every token."""

    def reserved(self) -> tuple[object, int]:
        raise Refusal("malformed")

    def integer(self, form: str, raw: bytes) -> object:
        return int.from_bytes(raw, "big", signed=not form.startswith("uint"))

    def length(self, form: str, raw: bytes) -> int:
        return int.from_bytes(raw, "big")

    def items_of(self, family: str) -> int:
        return 2 if family == "map" else 1

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise Refusal("truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    # the frames

    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        topic, sequence, payload = self.three(frames)
        self.topic(topic)
        return self.sequence(sequence), self.decode(payload)

    def three(self, frames: Sequence[bytes]) -> Sequence[bytes]:
        if len(frames) != 3:
            raise Refusal("frame-count")
        return frames

    def topic(self, topic: bytes) -> None:
        if topic != b"load":
            raise Refusal("bad-topic")

    def sequence(self, raw: bytes) -> int:
        if len(raw) != 8:
            raise Refusal("bad-seq-length")
        number = int.from_bytes(raw, "big", signed=True)
        if number < 0:
            raise Refusal("negative-seq")
        return number


class Router1(Router):
    """The same for a reader of revision 1."""

    def known(self, length: int) -> int:
        return min(super().known(length), 5)
