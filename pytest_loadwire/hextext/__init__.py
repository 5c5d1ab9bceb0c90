"""Text to bytes: how people paste a message, from a log, a debugger or a packet dump.

:func:`read` takes hex in every usual spelling, Python bytes literals, byte lists as Rust and Go
print them, hex dumps and, where nothing else fits, base64. It never raises: what cannot be read
becomes a piece that says which character of which column is to blame. Stdlib only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_loadwire.hextext.digits import base64_text, from_log, hex_digits
from pytest_loadwire.hextext.dump import read_dump, read_packets
from pytest_loadwire.hextext.line import TOPIC, Line, Unreadable, whole
from pytest_loadwire.hextext.literals import decimals, escapes, literals, unquoted
from pytest_loadwire.siblings import is_load_stat
from pytest_loadwire.tokens import TokenError, item_end

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Piece:
    """One payload or message that a text holds, or a part of it that cannot be read.

    Attributes:
        line: The number of its first line, from 1.
        form: What it was read as, for example ``hex``.
        frames: The bytes: one payload, or the frames of a message.
        message: Whether ``frames`` are a message, frame by frame, and not a bare payload.
        notes: What was assumed, a sentence each.
        problem: Why it cannot be read as bytes, or None.
        text: Its text as given, at most the first 200 characters.
    """

    line: int
    form: str
    frames: tuple[bytes, ...] = ()
    message: bool = False
    notes: tuple[str, ...] = ()
    problem: str | None = None
    text: str = ""


def read_bytes(data: bytes) -> list[Piece]:
    """What standard input holds: text as for `read`, or the bytes of one payload as they are."""
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if any(ord(character) < 32 and character not in "\t\n\v\f\r\x1b" for character in text):
        return [_piece(1, whole("raw bytes", data, ("the input is no text: taken as it is",)), "")]
    return read(text)


def read(text: str) -> list[Piece]:
    """The payloads and messages that a text holds, in order; none where it is blank.

    Lines are separate payloads unless they make up a message: a line that is the topic alone, and
    the two behind it.
    """
    text = text.translate(_INVISIBLE)
    lines = [
        (number, line)
        for number, line in enumerate(
            re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text), 1
        )
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        return []
    found = _of_several_lines(text, [line for _, line in lines])
    if found is not None:
        return [_piece(lines[0][0], found, text)]
    packets = read_packets(lines)
    if packets:
        return [_piece(at, whole("a packet dump", data), shown) for at, shown, data in packets]
    return _together([(number, line, _line(line)) for number, line in lines])


def _of_several_lines(text: str, lines: Sequence[str]) -> Line | None:
    """What only the whole text shows: a dump, a list over several lines, wrapped base64."""
    dump = read_dump(lines)
    if dump is not None:
        return whole("a hex dump", *dump)
    if len(lines) < 2:
        return None
    stripped = text.strip()
    if stripped[0] in "[(" and stripped[-1] in "])":
        try:
            return literals(stripped) or unquoted(lines) or _line_of(" ".join(lines))
        except Unreadable:
            return None
    if min(map(len, map(str.strip, lines[:-1]))) >= 60:
        return base64_text("".join(line.strip() for line in lines))
    return None


def _together(lines: list[tuple[int, str, Line | str]]) -> list[Piece]:
    """Lines as pieces; a topic takes the frames behind it, and three lines may be a message."""
    pieces: list[Piece] = []
    alone = [part for _, _, part in lines if isinstance(part, Line) and len(part.parts) == 1]
    three = len(lines) == len(alone) == 3 and len(alone[1].parts[0]) == 8
    position = 0
    while position < len(lines):
        number, text, line = lines[position]
        taken = 1
        if isinstance(line, str):
            pieces.append(Piece(number, "text", problem=line, text=text[:_MOST_TEXT]))
        elif three or line.parts == (TOPIC,):
            group = [line]
            for _, _, further in lines[position + 1 : position + 3]:
                if not isinstance(further, Line) or len(further.parts) != 1:
                    break
                if further.parts == (TOPIC,):
                    break
                group.append(further)
            taken = len(group)
            frames = tuple(part for each in group for part in each.parts)
            notes = tuple(dict.fromkeys(note for each in group for note in each.notes))
            message = Line(line.form, frames, message=True, notes=notes)
            shown = "\n".join(text for _, text, _ in lines[position : position + taken])
            pieces.append(_piece(number, message, shown))
        else:
            joined = _wrapped(
                line, [each for _, _, each in lines[position + 1 : position + _MOST_WRAPS]]
            )
            if joined is not None:
                taken, line = joined
            pieces.append(_piece(number, line, text))
        position += taken
    return pieces


def _wrapped(line: Line, further: Sequence[Line | str]) -> tuple[int, Line] | None:
    """A payload that breaks off, if the lines behind it make it whole."""
    first = line.parts[0]
    if line.message or not _ends(first) > len(first):
        return None
    joined = first
    sizes: list[int] = []
    for behind in further:
        if not isinstance(behind, Line) or behind.message or is_load_stat(behind.parts[0]):
            break
        if len(joined) + len(behind.parts[0]) > _MOST_WRAPPED:
            break
        joined += behind.parts[0]
        sizes.append(len(joined))
    # One look at all of it: looking again after each line takes as many looks as there are lines.
    end = _ends(joined)
    for count, size in enumerate(sizes, 2):
        if size >= end:
            note = f"{count} pieces are joined: alone the first one breaks off"
            return count, Line(line.form, (joined[:size],), notes=(*line.notes, note))
    return None


def _ends(data: bytes) -> int:
    """Where a LoadStat, perhaps behind topic and sequence, ends or goes wrong.

    A number above the length of ``data`` where it breaks off, and 0 where it is no LoadStat.
    """
    start = 12 if data[:4] == TOPIC else 0
    payload = data[start:]
    if not is_load_stat(payload):
        return 0
    try:
        return start + item_end(payload, 0)
    except TokenError as error:
        return len(data) + 1 if error.reason == "truncated" else start + error.offset + 1


def _piece(number: int, line: Line, text: str) -> Piece:
    frames, message, notes = line.parts, line.message, line.notes
    if not message and len(frames) == 1 and frames[0][:4] == TOPIC and len(frames[0]) > 4:
        joined = frames[0]
        frames = tuple(part for part in (joined[:4], joined[4:12], joined[12:]) if part)
        message = True
        notes = (
            *notes,
            "it starts with the topic: taken as a whole message, 4 + 8 bytes + payload",
        )
    return Piece(number, line.form, frames, message, notes, None, text[:_MOST_TEXT])


_MOST_TEXT = 200
_MOST_WRAPS = 64
_MOST_WRAPPED = 1 << 14
# What is in a text and not on the screen: a byte order mark, zero-width blanks, a soft hyphen, the
# directions of text; and the escape sequences that colour a terminal.
_INVISIBLE = dict.fromkeys([0xFEFF, 0x200B, 0x200C, 0x200D, 0x2060, 0xAD, 0x200E, 0x200F])
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


# What languages and logs put in front of bytes: Vec[, []byte{, <Buffer, Uint8Array(22) [, payload=
_TYPE = re.compile(
    r"^\W*(?:\w+::)*(?:u?int8_t|uint8|byte|u8|vec|buffer|bytes|bytearray|uint8array|bytestring|hex|"
    r"payload|frame|message|data)\b!?(?:\(\d+\))?\s*(?:[:=]\s*)?(?=[\[{(<\"'0-9a-fA-F])",
    re.IGNORECASE,
)
# 4) in front of an item; a bracket that closes has none that opens before it.
_NUMBER = re.compile(r"^\s*\d{1,4}\)(?=\s)")


def _line(text: str) -> Line | str:
    try:
        return _line_of(_COLOURS.sub("", text))
    except Unreadable as problem:
        return str(problem)


def _line_of(text: str) -> Line:
    found = literals(text)
    if found is not None:
        return found
    # Blanks in place of a type's name, or of a list's number, keep the columns right.
    text = _TYPE.sub(lambda match: " " * len(match[0]), text)
    text = _NUMBER.sub(lambda match: " " * len(match[0]), text)
    found = escapes(text) or decimals(text)
    if found is not None:
        return found
    try:
        return hex_digits(text)
    except Unreadable:
        found = from_log(text) or base64_text(text.strip())
        if found is not None:
            return found
        raise
