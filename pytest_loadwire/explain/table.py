"""The byte table: every byte of a frame, with the element that it belongs to and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from pytest_loadwire.errors import WireError
from pytest_loadwire.explain.elements import MEANINGS, NAMES
from pytest_loadwire.hextext.line import plain
from pytest_loadwire.siblings import Sibling, is_load_stat
from pytest_loadwire.tokens import Kind, Token, TokenError, is_array_marker, read_token, walk
from pytest_loadwire.wire import REVISIONS, TOPIC

MOST_ROWS = 4096
"""A payload has at most so many rows; the bytes behind them are in one last row."""

_KV_BATCH = ("timestamp", "events", "attn_dp_rank")


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        offset: Offset of the first byte in its frame.
        raw: The bytes; none for an element that is missing.
        depth: How deep the item is nested; the elements of a payload are at 1.
        element: The index of the payload's element that these bytes are, or None.
        name: The element's name, or what the bytes are.
        value: Their value in words.
        unit: The unit of the value, or nothing.
        meaning: What the element counts, or nothing.
        fault: Whether the place that is to blame is here.
    """

    offset: int
    raw: bytes
    depth: int
    element: int | None
    name: str
    value: str
    unit: str = ""
    meaning: str = ""
    fault: bool = False

    def to_json(self) -> dict[str, object]:
        """The row for machines, its bytes as hex."""
        return {**vars(self), "raw": self.raw.hex()}


@dataclass(frozen=True)
class Frame:
    """One frame, or a bare payload.

    Attributes:
        role: ``topic``, ``sequence``, ``payload`` or ``unexpected``.
        raw: The bytes.
        rows: Every byte, in order.
    """

    role: str
    raw: bytes
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, object]:
        """The frame for machines."""
        rows = [row.to_json() for row in self.rows]
        return {"role": self.role, "hex": self.raw.hex(), "rows": rows}


def payload_frame(data: bytes, error: WireError | None, sibling: Sibling | None) -> Frame:
    """A payload as a frame.

    Args:
        data: The payload.
        error: What is wrong with it, or None.
        sibling: What else it is, or None; then its elements are not called by a reading's names.
    """
    if error is not None and error.frame not in (None, 2):
        error = None
    names = _names(data, sibling)
    rows: list[Row] = []
    element, end, cut, whole = -1, 0, False, True
    keys = _Keys()
    try:
        tokens = walk(data)
        for depth, token in islice(tokens, MOST_ROWS):
            if depth == 1 and is_array_marker(data[0]):
                element += 1
            at = element if depth == 1 and element >= 0 else None
            rows.append(_row(data, depth, token, at, names, keys))
            end = token.end
        cut = next(tokens, None) is not None
    except TokenError as broken:
        rows.append(_broken(data, end, broken, None if error is None else error.element, element))
        end, whole = len(data), False
    if cut:
        rows.append(_rest(data, end, "(not shown)"))
    elif end < len(data):
        rows.append(_rest(data, end, "(trailing)"))
    elif names and whole:
        rows += _missing(data)
    return Frame("payload", data, tuple(_blamed(rows, error)))


def message_frames(
    frames: tuple[bytes, ...], error: WireError | None, sibling: Sibling | None
) -> tuple[Frame, ...]:
    """The frames of a message; where they are not three, each is told by what it holds."""
    found: list[Frame] = []
    for index, raw in enumerate(frames):
        role = _role(index, raw, len(frames))
        blamed = error is not None and error.frame == index
        if role == "payload":
            found.append(payload_frame(raw, error, sibling))
        else:
            rows = (_plain(role, raw, fault=blamed),) if raw or blamed else ()
            found.append(Frame(role, raw, rows))
    return tuple(found)


def _role(index: int, raw: bytes, count: int) -> str:
    if count == 3:
        return ("topic", "sequence", "payload")[index]
    if is_load_stat(raw):
        return "payload"
    if raw == TOPIC:
        return "topic"
    if len(raw) == 8:
        return "sequence"
    # Of another stream all that is known is that the payload comes last.
    return "payload" if index == count - 1 and raw else "unexpected"


def _plain(role: str, raw: bytes, *, fault: bool) -> Row:
    meaning = MEANINGS[role].text if role in MEANINGS else "no load message has this frame"
    shown = raw if len(raw) <= 40 else raw[:40]
    value = ascii(shown.decode("latin-1")) + ("..." if shown != raw else "")
    if role == "sequence":
        value = str(int.from_bytes(raw, "big", signed=True)) if len(raw) == 8 else "no 8 bytes"
    return Row(0, raw, 0, None, role, value, "", meaning, fault)


def _names(data: bytes, sibling: Sibling | None) -> tuple[str, ...]:
    """What the elements at depth 1 are called, or nothing where that would mislead."""
    try:
        header = read_token(data, 0)
        if header.kind is not Kind.ARRAY:
            return ()
        if sibling is not None and not is_load_stat(data):
            first = read_token(data, header.end)
            return () if first.kind is Kind.STR else _KV_BATCH
    except TokenError:
        return NAMES
    return NAMES


class _Keys:
    """Tells the keys of maps from their values, token by token."""

    def __init__(self) -> None:
        # For each open item whether it is a map, whether a key came last, and that key.
        self._open: list[tuple[bool, bool, str]] = []

    def label(self, depth: int, token: Token) -> str:
        """``key``, the key that a token is the value of, or nothing outside of maps."""
        del self._open[depth:]
        label = ""
        if self._open and self._open[-1][0]:
            _, key_came, key = self._open[-1]
            label = key if key_came else "key"
            self._open[-1] = (True, not key_came, _key(token))
        self._open.append((token.kind is Kind.MAP, False, ""))
        return label


def _key(token: Token) -> str:
    if token.kind is Kind.STR and isinstance(token.value, bytes) and len(token.value) <= 40:
        return token.value.decode("utf-8", "backslashreplace")
    return token.describe()


def _row(
    data: bytes, depth: int, token: Token, element: int | None, names: tuple[str, ...], keys: _Keys
) -> Row:
    raw = data[token.start : token.end]
    label = keys.label(depth, token)
    name = token.describe() if _is_container(token) else token.format
    value = "" if _is_container(token) else plain(token.describe())
    if depth == 1 and element is not None:
        known = names[element] if element < len(names) else ""
        meaning = MEANINGS.get(known) if names is NAMES else None
        counts = token.kind in (Kind.INT, Kind.NIL) or known == "tag"
        if token.kind is Kind.INT:
            value = str(token.value)
        elif _is_container(token):
            value = token.describe()
        return Row(
            token.start,
            raw,
            depth,
            element,
            known or "unknown element",
            value,
            meaning.unit if meaning and token.kind is Kind.INT else "",
            meaning.text if meaning and counts else "",
        )
    if label and _is_container(token):
        value = name
    return Row(token.start, raw, depth, None, plain(label) or name, value)


def _is_container(token: Token) -> bool:
    return token.kind in (Kind.ARRAY, Kind.MAP)


def _broken(data: bytes, start: int, broken: TokenError, element: int | None, last: int) -> Row:
    """The bytes that are no token any more: ``element`` is to blame, ``last`` came before."""
    if broken.reason == "malformed":
        value = f"0xc1 at byte {broken.offset} is no msgpack"
    elif start < len(data):
        value = f"cut short, {broken.needed} more byte{'s' * (broken.needed != 1)} needed"
    else:
        value = "not there, the bytes end here"
    named = element is not None and last < element < len(NAMES)
    name = NAMES[element] if named and element is not None else f"({broken.reason})"
    return Row(start, data[start:], int(start > 0), element if named else None, name, value)


def _rest(data: bytes, start: int, name: str) -> Row:
    more = len(data) - start
    return Row(start, data[start:], 0, None, name, f"{more} more byte{'s' * (more != 1)}")


def _missing(data: bytes) -> list[Row]:
    """The elements that the revision which was probably meant has and the payload has not."""
    try:
        header = read_token(data, 0)
    except TokenError:
        return []
    length = header.children
    if header.kind is not Kind.ARRAY or not length or not is_load_stat(data):
        return []
    sizes = sorted(len(kind.__struct_fields__) + 1 for kind in REVISIONS.values())
    meant = next((size for size in sizes if size >= length), length)
    return [
        Row(len(data), b"", 1, index, NAMES[index], "missing", "", MEANINGS[NAMES[index]].text)
        for index in range(length, meant)
    ]


def _blamed(rows: list[Row], error: WireError | None) -> list[Row]:
    """The rows, with the one marked where the fault is."""
    if error is None or error.offset is None:
        return rows
    found = None
    for index, row in enumerate(rows):
        named = row.element is not None and row.element == error.element
        if (row.raw and row.offset <= error.offset < row.offset + len(row.raw)) or (
            named and (not row.raw or row.offset == error.offset)
        ):
            found = index
    if found is None and rows:
        found = len(rows) - 1
    return [
        row if index != found else Row(**{**vars(row), "fault": True})
        for index, row in enumerate(rows)
    ]
