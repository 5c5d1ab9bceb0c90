"""Wrong decoders: the right router with one thing changed.

Where a bug can sit in any of several places, such as one integer width or one slot, there is one
decoder for each place. A vector that catches one of these few is there for a reason of its own.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from pytest_loadwire import wire
from pytest_loadwire.errors import WireError
from pytest_loadwire.rules import Reason
from wrong.catalogue import add_decoder, wrong_decoder
from wrong.router import (
    FIELDS,
    FORMS,
    NUMBERS,
    OTHER,
    RANK,
    REV1,
    Refusal,
    Router,
    Router1,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


# The tag.


@wrong_decoder("compares the tag as a prefix: startswith", "W1")
class TagByPrefix(Router):
    def is_tag(self, tag: bytes) -> bool:
        return tag.startswith(b"LoadStat")


@wrong_decoder("takes a cut-off tag: the constant starts with it", "W1")
class TagCutOff(Router):
    def is_tag(self, tag: bytes) -> bool:
        return b"LoadStat".startswith(tag)


@wrong_decoder("compares the tag without regard to case", "W1")
class TagInAnyCase(Router):
    def is_tag(self, tag: bytes) -> bool:
        return tag.lower() == b"loadstat"


@wrong_decoder("strips blanks and NULs off the tag before it compares", "W1")
class TagStripped(Router):
    def is_tag(self, tag: bytes) -> bool:
        return tag.strip(b" \0") == b"LoadStat"


@wrong_decoder("knows only that a tag starts with Load, like every struct of the engine", "W1")
class TagOfAnyLoadStruct(Router):
    def is_tag(self, tag: bytes) -> bool:
        return tag.startswith(b"Load")


@wrong_decoder("compares seven bytes of the tag", "W1")
class TagSevenBytes(Router):
    def is_tag(self, tag: bytes) -> bool:
        return tag[:7] == b"LoadSta" and len(tag) == 8


@wrong_decoder("takes a bin for the tag and declares that it does not", "W1")
class TagAsBin(Router):
    def tag(self) -> None:
        if self.item() != b"LoadStat":
            raise ValueError("another tag")


@wrong_decoder("compares nine bytes, header and all: only the shortest tag passes", "W7")
class TagAsBytes(Router):
    def tag(self) -> None:
        if self.take(9) != b"\xa8LoadStat":
            raise ValueError("another tag")


@wrong_decoder("knows no str 8, which writers that predate it did not have either", "W7", "W8")
class NoStr8(Router):
    def seen_form(self, form: str) -> None:
        if form == "str-8":
            raise ValueError(form)


@wrong_decoder("lets a tag pass that is no str, and compares the others", "W1")
class TagOnlyIfText(Router):
    def tag(self) -> None:
        tag = self.item()
        if isinstance(tag, Text) and not self.is_tag(tag):
            raise ValueError("another tag")


@wrong_decoder("takes the array for tagless when element 0 is a number", "W1")
class TaglessArray(Router):
    def array_length(self) -> int:
        length = super().array_length()
        return length + self.tagless()

    def tag(self) -> None:
        if not self.tagless():
            super().tag()

    def tagless(self) -> bool:
        return self.data[self.at : self.at + 1] < b"\x80"


# The array and its length.


@wrong_decoder("knows fixarray headers only", "W7", "W8")
class NoArray16(Router):
    def array_length(self) -> int:
        length = super().array_length()
        if FORMS[self.data[0]] != "fixarray":
            raise ValueError("no fixarray")
        return length


@wrong_decoder("refuses an array of more elements than it ever saw", "W8")
class NoLongArrays(Router):
    def known(self, length: int) -> int:
        if length > 15:
            raise ValueError("too long")
        return super().known(length)


@wrong_decoder("refuses elements that it does not know", "W8", "W12")
class NoUnknownElements(Router):
    def known(self, length: int) -> int:
        if length not in (6, 11):
            raise ValueError("unknown elements")
        return super().known(length)


@wrong_decoder("a reader of revision 1 that refuses longer arrays", "W3", "W8", "W12", revision=1)
class NoLaterRevision(Router1):
    def known(self, length: int) -> int:
        if length != 6:
            raise ValueError("unknown elements")
        return 5


@wrong_decoder("declares revision 2 and reads 6 elements", "W3")
class StillRevision1(Router1):
    pass


@wrong_decoder("declares revision 1 and reads 11 elements as revision 2", "W3", revision=1)
class AlreadyRevision2(Router):
    pass


@wrong_decoder("reads a partial tail and declares that it does not", "W12")
class PartialTailRead(Router):
    def known(self, length: int) -> int:
        return max(5, min(super().known(length) + 5, length - 1, 10))


@wrong_decoder("takes a payload without a rank and declares that it does not", "W9")
class OmittedRankTaken(Router):
    def known(self, length: int) -> int:
        return 4 if length == 5 else super().known(length)


@wrong_decoder("reads as many counts as there are: a short array has the others at 0", "W9")
class ShortArrayTaken(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        return {**dict.fromkeys(REV1, 0), **super().decode(payload)}

    def known(self, length: int) -> int:
        return length - 1 if length < 6 else super().known(length)


@wrong_decoder("reserves memory by the announced length before it reads", "W10")
class ReservesByLength(Router):
    def known(self, length: int) -> int:
        self.reserve(length)
        return super().known(length)

    def length(self, form: str, raw: bytes) -> int:
        size = super().length(form, raw)
        self.reserve(size)
        return size

    def reserve(self, size: int) -> None:
        if size >= 2**31:  # stands for an allocation that the machine does not have
            raise MemoryError(size)


@wrong_decoder("wraps an announced length to 31 bits: 2^31 + 11 elements are 11", "W10")
class LengthIn31Bits(Router):
    def array_length(self) -> int:
        return super().array_length() & 0x7FFFFFFF

    def length(self, form: str, raw: bytes) -> int:
        return super().length(form, raw) & 0x7FFFFFFF


@wrong_decoder("wraps a long length to 8 bits", "W8")
class LengthIn8Bits(Router):
    def array_length(self) -> int:
        return super().array_length() & 0xFF


@wrong_decoder("keeps bytes behind the array and declares that it does not", "W6")
class TrailingBytesKept(Router):
    def finish(self) -> None:
        pass


@wrong_decoder("keeps zeros behind the array, as padding", "W6")
class ZeroPaddingKept(Router):
    def finish(self) -> None:
        if self.data[self.at :].strip(b"\0"):
            raise ValueError("bytes behind the array")


@wrong_decoder("keeps white space behind the array", "W6")
class WhiteSpaceKept(Router):
    def finish(self) -> None:
        if self.data[self.at :].strip():
            raise ValueError("bytes behind the array")


@wrong_decoder("reads the payloads that are joined in one buffer and keeps the last", "W6")
class LastOfSeveral(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        reading = super().decode(payload)
        return self.decode(payload[self.at :]) if self.at < len(payload) else reading

    def finish(self) -> None:
        if self.at < len(self.data) and self.data[self.at] & 0xF0 != 0x90:
            raise ValueError("bytes behind the array")


@wrong_decoder("stops behind the counts it knows and never sees what follows", "W6", "W10")
class StopsEarly(Router):
    def array_length(self) -> int:
        return min(super().array_length(), 11)

    def finish(self) -> None:
        pass


# What stands for a count.


@wrong_decoder("cuts floats to integers", "W5")
class FloatsTruncated(Router):
    def no_count(self, value: object, index: int) -> int | None:
        if isinstance(value, float):
            return 0 if math.isnan(value) else int(value)
        return super().no_count(value, index)


@wrong_decoder("takes a float that is whole", "W5")
class WholeFloatsTaken(Router):
    def no_count(self, value: object, index: int) -> int | None:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return super().no_count(value, index)


@wrong_decoder("takes float 32 alone, which another library sends for small numbers", "W5")
class Float32Taken(Router):
    form = ""

    def seen_form(self, form: str) -> None:
        self.form = form

    def no_count(self, value: object, index: int) -> int | None:
        if isinstance(value, float) and self.form == "float-32":
            return int(value)
        return super().no_count(value, index)


@wrong_decoder("reads not-a-number as no load", "W5")
class NanAsZero(Router):
    def no_count(self, value: object, index: int) -> int | None:
        if isinstance(value, float) and math.isnan(value):
            return 0
        return super().no_count(value, index)


@wrong_decoder("wraps negatives to 64 bits: -1 is a very full engine", "W5")
class NegativesWrapped(Router):
    def negative(self, value: int) -> int:
        return value % 2**64


@wrong_decoder("clamps negatives to 0", "W5")
class NegativesAsZero(Router):
    def negative(self, value: int) -> int:
        return 0


@wrong_decoder("keeps negatives", "W5")
class NegativesKept(Router):
    def negative(self, value: int) -> int:
        return value


@wrong_decoder("takes -1 for unknown and reads it as 0", "W5")
class MinusOneAsZero(Router):
    def negative(self, value: int) -> int:
        return 0 if value == -1 else super().negative(value)


@wrong_decoder("reads false as 0", "W5")
class FalseAsZero(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return 0 if value is False else super().no_count(value, index)


@wrong_decoder("reads true as 1", "W5")
class TrueAsOne(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return 1 if value is True else super().no_count(value, index)


@wrong_decoder("reads nil as 0 in any count", "W5")
class NilAsZero(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return 0 if value is None else super().no_count(value, index)


@wrong_decoder("keeps nil in an appended count and declares that it does not", "W5")
class NilTailKept(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return None if value is None and index > 5 else super().no_count(value, index)


@wrong_decoder("reads an unset rank as rank 0", "W4")
class NilRankAsZero(Router):
    def no_rank(self) -> int | None:
        return 0


@wrong_decoder("wants a rank", "W4")
class NilRankRefused(Router):
    def no_rank(self) -> int | None:
        raise ValueError("no rank")


@wrong_decoder("parses digits that come as text", "W5")
class TextParsed(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return int(value) if isinstance(value, Text) else super().no_count(value, index)


@wrong_decoder("counts text by its length, as a dynamic language may", "W5")
class TextMeasured(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return len(value) if isinstance(value, Text) else super().no_count(value, index)


@wrong_decoder("reads a bin as a number in host order", "W5")
class BinAsNumber(Router):
    def no_count(self, value: object, index: int) -> int | None:
        if type(value) is bytes:
            return int.from_bytes(value, "little")
        return super().no_count(value, index)


@wrong_decoder("reads any container or ext at a count as 0", "W5")
class ContainerAsZero(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return 0 if value is OTHER else super().no_count(value, index)


@wrong_decoder("reads any wrong type at an optional rank as no rank", "W5")
class AnyRank(Router):
    def no_count(self, value: object, index: int) -> int | None:
        return None if index == RANK else super().no_count(value, index)


@wrong_decoder("unwraps an array of one at a count", "W5")
class ArrayUnwrapped(Router):
    def count(self, index: int) -> int | None:
        if self.data[self.at : self.at + 1] == b"\x91":
            self.take(1)
        return super().count(index)


@wrong_decoder("takes 0 and 1 for bools, since True == 1 in Python, and refuses them", "W5")
class ZeroAndOneAsBool(Router):
    def number(self, value: int, index: int) -> int | None:
        if value in (True, False):
            raise ValueError("a bool")
        return value


@wrong_decoder("drops a count of 0: value or None", "W5")
class ZeroAsNothing(Router):
    def number(self, value: int, index: int) -> int | None:
        return value or None


@wrong_decoder("counts up to 2^63-1 alone and declares more", "W5")
class CountsInI64(Router):
    def number(self, value: int, index: int) -> int | None:
        return super().negative(value) if value >= 2**63 else value


@wrong_decoder("keeps the low 32 bits of a count", "W5")
class CountsIn32Bits(Router):
    def number(self, value: int, index: int) -> int | None:
        return value % 2**32


@wrong_decoder("reads every slot one place too far", "W2", "W3")
class OffByOneSlot(Router):
    def name(self, index: int) -> str:
        return FIELDS[index - 2]


@wrong_decoder("names the fields in the order of the alphabet", "W2", "W3")
class AlphabeticFields(Router):
    def name(self, index: int) -> str:
        return sorted(FIELDS)[index - 1]


# The msgpack itself.

SHORTEST_FROM = {"uint-8": 2**7, "uint-16": 2**8, "uint-32": 2**16, "uint-64": 2**32}
"""The least value that has no shorter form; there is none for a signed format."""


@wrong_decoder("knows no signed format: an encoder of fixed i64 is not heard", "W7")
class NoSignedFormats(Router):
    def integer(self, form: str, raw: bytes) -> object:
        if form.startswith("int"):
            raise ValueError(form)
        return super().integer(form, raw)


@wrong_decoder("takes the shortest form of each integer alone", "W7")
class ShortestFormsOnly(Router):
    slot = 0  # 0 for all of them
    index = 0

    def count(self, index: int) -> int | None:
        self.index = index
        return super().count(index)

    def integer(self, form: str, raw: bytes) -> object:
        value = super().integer(form, raw)
        assert isinstance(value, int)
        if self.slot in (0, self.index) and 0 <= value < SHORTEST_FROM.get(form, 2**64):
            raise ValueError("not the shortest form")
        return value


@wrong_decoder("takes a payload by its first bytes: the headers are fixed", "W7")
class FixedHeader(Router):
    def array_length(self) -> int:
        if self.data[1:10] != b"\xa8LoadStat":
            raise ValueError("no LoadStat")
        return super().array_length()


@wrong_decoder("reads the marker that msgpack never uses as nil", "W10")
class ReservedAsNil(Router):
    def reserved(self) -> tuple[object, int]:
        return None, 0

    def no_count(self, value: object, index: int) -> int | None:
        return 0 if self.data[self.at - 1] == 0xC1 else super().no_count(value, index)


@wrong_decoder("reads the marker that msgpack never uses as a tag of no matter", "W10")
class ReservedTag(Router):
    def tag(self) -> None:
        if self.data[self.at : self.at + 1] == b"\xc1":
            self.take(1)
        else:
            super().tag()


@wrong_decoder("takes a lone marker that msgpack never uses for a ping without load", "W10")
class LoneMarkerIsIdle(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        return super().decode(payload) if payload != b"\xc1" else dict.fromkeys(REV1, 0)


@wrong_decoder("reads what is cut off a number as zero bytes", "W10")
class CutNumberPadded(Router):
    def token(self) -> tuple[object, int]:
        form = FORMS[self.data[self.at]] if self.at < len(self.data) else ""
        if form in NUMBERS:
            self.data = self.data.ljust(self.at + 1 + struct.calcsize(NUMBERS[form]), b"\0")
        return super().token()


@wrong_decoder("keeps what it read before the payload ended, the others at 0", "W10")
class KeepsWhatCame(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        self.reading: dict[str, int | None] = dict.fromkeys(REV1, 0)
        try:
            return super().decode(payload)
        except ValueError as error:
            if error.args != ("truncated",):
                raise
            return self.reading

    def count(self, index: int) -> int | None:
        value = super().count(index)
        self.reading[FIELDS[index - 1]] = value
        return value


@wrong_decoder("lets an unknown element be cut short", "W10")
class CutTailTaken(Router):
    def array_length(self) -> int:
        return min(super().array_length(), 300)

    def skip(self, index: int) -> None:
        try:
            super().skip(index)
        except ValueError as error:
            if error.args != ("truncated",):
                raise
            self.at = len(self.data)


@wrong_decoder("indexes past the end and lets the IndexError out", "W10")
class CrashesWhenCut(Router):
    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise IndexError("index out of range")
        return super().take(size)


@wrong_decoder("skips a pair of a map as one item", "W8")
class MapSkippedByHalf(Router):
    def items_of(self, family: str) -> int:
        return 1


@wrong_decoder("recurses into nested elements, and no deeper than 16", "W8")
class ShallowNesting(Router):
    depth = 0

    def skip(self, index: int) -> None:
        self.descend(0)

    def descend(self, depth: int) -> None:
        if depth > 16:
            raise RecursionError("maximum recursion depth exceeded")
        for _ in range(self.token()[1]):
            self.descend(depth + 1)


@wrong_decoder("skips the first level of nested elements only", "W8")
class FlatSkip(Router):
    def skip(self, index: int) -> None:
        for _ in range(self.token()[1]):
            self.token()


@wrong_decoder("skips one header per unknown element", "W8")
class NoNestedSkip(Router):
    def skip(self, index: int) -> None:
        self.token()


@wrong_decoder("decodes unknown text, which need not be UTF-8", "W8")
class TailTextDecoded(Router):
    def token(self) -> tuple[object, int]:
        value, children = super().token()
        if isinstance(value, Text):
            value.decode()
        return value, children


@wrong_decoder("takes unknown elements for counts of a later revision", "W8")
class TailMustCount(Router):
    def skip(self, index: int) -> None:
        self.count(index)


@wrong_decoder("refuses a short array before it knows whose it is", "W1")
class LengthBeforeTag(Router):
    def array_length(self) -> int:
        length = super().array_length()
        if length < 5:
            raise Refusal("too-short")
        return length


@wrong_decoder("looks at the counts of a short array before it says that it is short", "W9")
class TypeBeforeLength(Router):
    def known(self, length: int) -> int:
        start = self.at
        for index in range(1, min(length, 6)):
            self.count(index)
        self.at = start
        return super().known(length)


@wrong_decoder("judges a count by its first byte, before it is all there", "W10")
class TypeBeforeEnd(Router):
    def count(self, index: int) -> int | None:
        form = FORMS[self.data[self.at]] if self.at < len(self.data) else ""
        if form.rstrip("-12346") in ("array", "map", "ext", "fixarray", "fixmap"):
            raise Refusal("bad-type")
        return super().count(index)


@wrong_decoder("reads the first item to its end before it asks for an array", "W10")
class EndBeforeType(Router):
    def array_length(self) -> int:
        start = self.at
        if self.data and FORMS[self.data[0]].lstrip("fix")[:5] != "array":
            self.item()
        self.at = start
        return super().array_length()


@wrong_decoder("reads what starts with a brace as JSON, of which it knows no field", "W10")
class JsonAsWell(Router):
    def decode(self, payload: bytes) -> dict[str, int | None]:
        return super().decode(payload) if payload[:1] != b"{" else dict.fromkeys(REV1, 0)


@wrong_decoder("gives its own reason codes: everything is malformed", "W1", "W5", "W9", "W10", "F1")
class OneReasonForAll:
    def decode(self, payload: bytes) -> object:
        try:
            return wire.decode(payload)
        except WireError as error:
            error.reason = Reason.MALFORMED
            raise

    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object]:
        try:
            return wire.parse_frames(frames)
        except WireError as error:
            error.reason = Reason.MALFORMED
            raise


# One for each place where the same slip can sit.


def _families() -> None:
    for index in range(1, 10):
        names = list(FIELDS)
        names[index - 1], names[index] = names[index], names[index - 1]
        rules = ("W2", "W3") if index < 5 else ("W3",)
        _add(
            f"swapped-slots-{index}-{index + 1}",
            f"reads {names[index]} and {names[index - 1]} in each other's place",
            *rules,
            name=lambda _self, i, names=names: names[i - 1],
        )
    for form, mistaken in (
        ("uint-8", ">b"),
        ("uint-16", ">h"),
        ("uint-32", ">i"),
        ("uint-64", ">q"),
        ("int-8", ">B"),
        ("int-16", ">H"),
        ("int-32", ">I"),
        ("int-64", ">Q"),
        ("negative-fixint", ">B"),
        ("uint-16", "<H"),
        ("uint-32", "<I"),
        ("uint-64", "<Q"),
    ):
        kind = "little-endian" if mistaken[0] == "<" else "unsigned"
        _add(
            f"{form}-as-{'signed' if mistaken[1].islower() else kind}",
            f"unpacks {form.replace('-', ' ', form.count('-'))} by {mistaken!r}",
            "W5",
            integer=lambda self, got, raw, form=form, mistaken=mistaken: (
                struct.unpack(mistaken, raw)[0] if got == form else Router.integer(self, got, raw)
            ),
        )
    for bits in (7, 8, 16, 32, 63, 64):
        _add(
            f"all-ones-{bits}-bits-as-nothing",
            f"takes 2^{bits}-1 for `unknown`",
            "W5",
            number=lambda _self, value, _index, bits=bits: None if value == 2**bits - 1 else value,
        )
    for bits in (7, 8, 16, 32, 63, 64):
        _add(
            f"limit-of-{bits}-bits-off-by-one",
            f"compares with < where <= belongs, at 2^{bits}-1",
            "W5",
            number=lambda self, value, _index, bits=bits: (
                self.negative(-1) if value == 2**bits - 1 else value
            ),
        )
        _add(
            f"first-behind-{bits}-bits-refused",
            f"refuses 2^{bits}, the first count that {bits} bits do not hold",
            "W5",
            number=lambda self, value, _index, bits=bits: (
                self.negative(-1) if value == 2**bits else value
            ),
        ) if bits < 64 else None
    for index, field in enumerate(FIELDS, 1):
        for bits in (8, 16, 32, 63):
            _add(
                f"slot-{index}-in-{bits}-bits",
                f"has room for {bits} bits in {field}",
                "W5",
                number=lambda _self, value, i, index=index, bits=bits: (
                    value % 2**bits if i == index else value
                ),
            )
        for value_, word in ((0, "zero"), (1, "one")):
            _add(
                f"slot-{index}-{word}-refused",
                f"refuses {field} at {value_}",
                "W5",
                number=lambda self, value, i, index=index, value_=value_: (
                    self.negative(-1) if (i, value) == (index, value_) else value
                ),
            )
        _add(
            f"slot-{index}-unchecked",
            f"reads 0 for whatever is no count in {field}",
            "W5",
            no_count=lambda self, value, i, index=index: (
                0 if i == index else Router.no_count(self, value, i)
            ),
        )
        _add(
            f"slot-{index}-float-cut",
            f"cuts a float to an integer in {field}",
            "W5",
            no_count=lambda self, value, i, index=index: (
                int(value)
                if i == index and isinstance(value, float) and not math.isnan(value)
                else Router.no_count(self, value, i)
            ),
        )
        _add(
            f"slot-{index}-negative-kept",
            f"keeps a negative in {field}",
            "W5",
            count=lambda self, i, index=index: _count_kept(self, i, index),
        )
        _add(
            f"slot-{index}-shortest-only",
            f"takes {field} in the shortest form alone",
            "W7",
            base=ShortestFormsOnly,
            slot=index,
        )
    for form in sorted({*FORMS} - {"reserved"}):
        _add(
            f"no-{form}-in-the-tail",
            f"cannot skip {form} in an unknown element",
            "W8",
            skip=lambda self, _index, form=form: _skip_all_but(self, form),
        )


def _count_kept(router: Any, index: int, kept: int) -> int | None:
    router.negative = (lambda value: value) if index == kept else Router().negative
    return Router.count(router, index)


def _skip_all_but(router: Any, form: str) -> None:
    start = router.at
    if start < len(router.data) and FORMS[router.data[start]] == form:
        raise ValueError(f"unknown format {form}")
    Router.item(router)


def _add(
    name: str, story: str, /, *breaks: str, base: type[Router] = Router, **changed: Any
) -> None:
    kind = type("".join(word.title() for word in name.split("-")), (base,), changed)
    add_decoder(name, story, kind, *breaks)


_families()
