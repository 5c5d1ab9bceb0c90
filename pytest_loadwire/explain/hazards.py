"""What a least-loaded router would do that believed bytes it should refuse, and why.

A careless decoder fills in zeros for what is missing, takes any number for a count, wraps a
negative one, and compares no tag. What it then reads decides what it does to traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.errors import WireError
from pytest_loadwire.exact import RANK_FIELD, array_length
from pytest_loadwire.explain.elements import NAMES
from pytest_loadwire.judge import hazard_of
from pytest_loadwire.rules import HAZARD_TEXT, Hazard, Reason
from pytest_loadwire.siblings import recognise_payload
from pytest_loadwire.tokens import Kind, Token, TokenError, item_end, read_token
from pytest_loadwire.wire import LATEST, MAX_COUNT, REVISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

_CAPACITY = "max_total_num_tokens"
_LIMIT = "max_running_requests"
_LIE = 1 << 16


def hazard_in(error: WireError, payload: bytes, revision: int = LATEST) -> Hazard:
    """What a router of ``revision`` would do that took the bytes that ``error`` refuses.

    Args:
        error: The refusal.
        payload: The payload, or the last frame of a message.
        revision: The revision of the router.
    """
    reason, element = error.reason, error.element
    name = NAMES[element] if element is not None and element < len(NAMES) else None
    if reason in (Reason.BAD_SEQ_LENGTH, Reason.NEGATIVE_SEQ):
        return Hazard.STALE
    if reason is Reason.BAD_TOPIC:
        sibling = recognise_payload(payload)
        return Hazard.STALE if sibling is None else Hazard.ATTRACTS_ALL
    if reason in (Reason.TRAILING_BYTES, Reason.NOT_CANONICAL, Reason.EXTRA_ELEMENTS):
        return Hazard.NONE
    if reason in (Reason.FRAME_COUNT, Reason.NOT_ARRAY, Reason.BAD_TAG) or element is None:
        return Hazard.ATTRACTS_ALL
    if reason is Reason.TRUNCATED:
        if name is None or announced(payload, element) is not None:
            return Hazard.CRASH
        return Hazard.NONE if element == 0 else misread(name, 0)
    if reason is Reason.MALFORMED:
        # Behind the elements that it knows, a careless decoder has not even started to read.
        known = len(REVISIONS[revision].__struct_fields__)
        unknown = name is None or element == 0 or element > known
        return Hazard.ATTRACTS_ALL if unknown else misread(str(name), 0)
    if name is None or element == 0:
        return Hazard.ATTRACTS_ALL
    if reason is Reason.OUT_OF_RANGE:
        if not error.got.startswith("-"):
            return Hazard.STARVES  # above 2^63-1: huge, however it is read
        return misread(name, MAX_COUNT)
    return misread(name, 0)


def misread(name: str, got: int) -> Hazard:
    """What a router does that reads ``got``, 0 or a huge number, at a field it cannot know."""
    if name == RANK_FIELD:
        return Hazard.NONE  # readings are keyed by socket (rule R3)
    if name == _CAPACITY:
        return Hazard.DIVIDES_BY_ZERO  # a negative capacity is clamped to 0
    if name == _LIMIT:
        return Hazard.STARVES  # a limit of 0 is reached
    return hazard_of({name: 1}, {name: got})


def hazard_of_reading(reading: Mapping[str, int | None]) -> tuple[Hazard, str] | None:
    """What a router does that believes a legal reading which cannot be meant, and how; or None.

    A count of 2^63 or more is what a negative one becomes that was stored unsigned.
    """
    for name, value in reading.items():
        if value is not None and value > MAX_COUNT >> 1:
            hazard = misread(name, value)
            if hazard is Hazard.STARVES and name != _LIMIT:
                return hazard, f"{name} = {value} is no load: {HAZARD_TEXT[hazard]}"
    return None


def announced(payload: bytes, element: int) -> int | None:
    """A length that some header up to ``element`` announces and nobody could hold, or None."""
    try:
        header = read_token(payload, 0)
        if header.children > len(payload) + _LIE:
            return header.children
        position = header.end
        for _ in range(element):
            position = item_end(payload, position)
        pending = 1
        while pending:
            token = read_token(payload, position)
            if token.children > len(payload) - token.end + _LIE:
                return token.children
            pending += token.children - 1
            position = token.end
    except TokenError as error:
        return error.needed if error.needed >= _LIE else None
    return None


def words(error: WireError, payload: bytes, hazard: Hazard) -> str:
    """What happens with a careless decoder, in a sentence or two without a full stop."""
    reason, name = error.reason, error.field
    if name is None and error.element is not None and error.element < len(NAMES):
        name = NAMES[error.element]
    told = _told(reason, hazard)
    if reason is Reason.FRAME_COUNT:
        return (
            "a receive loop that takes frames by position decodes the wrong one and fills in "
            f"zeros: {told}"
        )
    if reason is Reason.BAD_TOPIC:
        if hazard is Hazard.STALE:
            return f"a router that waits for the topic load never takes this reading: {told}"
        return (
            "a router that does not compare the topic decodes another stream's payload and fills "
            f"in zeros: {told}"
        )
    if reason in (Reason.BAD_SEQ_LENGTH, Reason.NEGATIVE_SEQ):
        return (
            "a router that orders messages by this number (rule S3 forbids it) drops good "
            f"readings: {told}"
        )
    if reason is Reason.NOT_ARRAY:
        return f"a decoder with a default for each field finds none, and reads zeros: {told}"
    if reason is Reason.BAD_TAG:
        return (
            "a decoder that does not compare the tag takes any array for a reading, this one for "
            f"{_by_position(payload)}; where others have zeros, {told}"
        )
    if hazard is Hazard.CRASH:
        size = None if error.element is None else announced(payload, error.element)
        if size is None:
            return f"a decoder that trusts the announced length reads past the end: {told}"
        return f"a decoder that allocates the {size} items or bytes announced dies: {told}"
    if reason in (Reason.TOO_SHORT, Reason.TRUNCATED, Reason.MALFORMED):
        if name in (None, "tag"):
            return f"a decoder that fills in what is missing reads zeros: {told}"
        if name == RANK_FIELD:
            return f"a decoder that fills in what is missing reads rank 0: {told}"
        behind = _missing_behind(error, payload) if reason is Reason.TOO_SHORT else ""
        return f"a decoder that fills in what is missing reads {name} = 0{behind}: {told}"
    if reason is Reason.OUT_OF_RANGE:
        return _out_of_range(error, name, told)
    if reason is Reason.BAD_TYPE:
        converted = _number(error, payload)
        also = f"; one that converts reads {converted} and hides the fault" if converted else ""
        return f"a decoder that falls back to 0 reads {name} = 0: {told}{also}"
    return told


def _told(reason: Reason, hazard: Hazard) -> str:
    """What a hazard does; of a stale reading, which one is stale."""
    if hazard is not Hazard.STALE:
        return HAZARD_TEXT[hazard]
    if reason is Reason.BAD_TOPIC:
        return "the worker keeps an old reading, or none"
    if reason in (Reason.BAD_SEQ_LENGTH, Reason.NEGATIVE_SEQ):
        return "the worker keeps an old reading that looks fresh"
    return "the reading looks fresh and is partly wrong"


def _missing_behind(error: WireError, payload: bytes) -> str:
    """How many elements are missing behind the first one, of the revision that was meant."""
    length = array_length(payload)
    sizes = sorted(len(kind.__struct_fields__) + 1 for kind in REVISIONS.values())
    behind = next((size for size in sizes if size > length), length) - length - 1
    if error.element != length or behind < 1:
        return ""
    return f", and 0 for the {behind} behind it" if behind > 1 else ", and 0 for the one behind it"


def _out_of_range(error: WireError, name: str | None, told: str) -> str:
    value = int(error.got)
    if value >= 0:
        return f"a decoder of signed 64-bit integers reads {name} = {value - MAX_COUNT - 1}: {told}"
    wrapped = value & MAX_COUNT
    text = f"a decoder that stores it unsigned reads {name} = {wrapped}"
    if name == _CAPACITY:
        return f"a decoder that clamps it reads {name} = 0: {told}"
    if name == RANK_FIELD:
        return f"{text}: {told}"
    if name in ("total_prefill_uncached_tokens", "total_prefill_busy_us"):
        return f"{text}, above every later value: {told}"
    if name == _LIMIT:
        return f"a decoder that takes it reads a limit below what runs: {told}"
    return f"{text}: {told}; one that keeps it signed reads less than idle, and draws all traffic"


def _number(error: WireError, payload: bytes) -> str:
    """What a decoder makes of the element that converts whatever it can, or nothing."""
    try:
        token = read_token(payload, error.offset or 0)
    except TokenError:
        return ""
    if token.kind is Kind.BOOL:
        return str(int(bool(token.value)))
    if token.kind is Kind.FLOAT and isinstance(token.value, float):
        return str(int(token.value)) if abs(token.value) < 2**64 else ""
    if token.kind is Kind.STR and isinstance(token.value, bytes) and token.value.isdigit():
        return token.value[:20].decode()
    return ""


def _by_position(payload: bytes) -> str:
    """What a decoder reads that skips element 0 whatever it is; counts that are none as 0."""
    found: list[str] = []
    try:
        header = read_token(payload, 0)
        position = item_end(payload, header.end)
        for name in NAMES[1:4]:
            token: Token | None = None
            if len(found) + 1 < header.children:
                token = read_token(payload, position)
                position = item_end(payload, position)
            number = token.value if token is not None and token.kind is Kind.INT else 0
            found.append(f"{name} = {number!r}")
    except TokenError:
        pass
    return ", ".join(found) or "zeros"
