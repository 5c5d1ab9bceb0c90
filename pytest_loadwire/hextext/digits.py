"""Hex digits in every usual spelling, the hex in a log line, and base64."""

from __future__ import annotations

import re
import string
from base64 import b64decode
from typing import TYPE_CHECKING

from pytest_loadwire.hextext.line import AROUND, TOPIC, Line, Unreadable, said, whole
from pytest_loadwire.siblings import is_load_stat

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(r"[^\s,;'\"`<>()\[\]{}]+")
_CUT = re.compile(r"\.{2,}|\u2026")


def hex_digits(text: str) -> Line:
    """Hex digits: one payload, or frames with a bar between them or behind the topic.

    Raises:
        Unreadable: Some character is none, or a digit is missing.
    """
    notes: list[str] = []
    cut = _CUT.search(text)
    if cut and re.search(r"[0-9a-fA-F]", text[: cut.start()]):
        notes.append(
            f"the text is cut at column {cut.start() + 1} ({cut[0]!r}): what was there is not known"
        )
        if re.search(r"[0-9a-fA-F]", text[cut.end() :]):
            raise Unreadable(f"column {cut.start() + 1}: bytes are left out here ({cut[0]!r})")
        text = text[: cut.start()]
    if not re.search(r"[0-9a-fA-F]", re.sub(r"0[xX](?![0-9a-fA-F])", "", text)):
        _tokens(text.replace("|", " "))
        raise Unreadable("there is no hex digit in it")
    if "|" in text:
        frames = []
        column = 0
        for part in text.split("|"):
            tokens = _tokens(part, column)
            frames.append(_joined(tokens, notes))
            column += len(part) + 1
        return Line("hex", tuple(frames), message=True, notes=tuple(notes))
    tokens = _tokens(text)
    if len(tokens) > 1 and _digits(tokens[0][1]) == TOPIC.hex() and not _is_grouped(tokens):
        parts = tuple(_joined([token], notes) for token in tokens)
        return Line("hex", parts, message=True, notes=tuple(notes))
    if len(tokens) == 3 and (three := _three([_digits(token) for _, token in tokens])):
        return Line("hex", three, message=True, notes=(*notes, _IN_A_ROW))
    return Line("hex", (_joined(tokens, notes),), notes=tuple(notes))


def _tokens(text: str, before: int = 0) -> list[tuple[int, str]]:
    """The runs of hex digits with the column of each.

    Raises:
        Unreadable: A character is no hex digit.
    """
    tokens = [(before + m.start() + 1, m[0]) for m in _TOKEN.finditer(text)]
    if tokens and tokens[0][1] == "load":
        tokens[0] = (tokens[0][0], TOPIC.hex())
    for column, token in tokens:
        skipped = 2 if token[:2] in ("0x", "0X") else 0
        for index, character in enumerate(token[skipped:], skipped):
            if character in string.hexdigits or character in ":_-":
                continue
            # 96:0xa8 and 0x960xa8, as some programs print them
            if character in "xX" and token[index - 1] == "0" and index >= 1:
                continue
            raise Unreadable(_no_digit(column + index, character))
    return tokens


def _no_digit(column: int, character: str) -> str:
    problem = f"column {column}: {said(character)} is no hex digit"
    alike = {"o": "0", "O": "0", "l": "1", "I": "1", "i": "1"}.get(character)
    if alike:
        problem += f"; was {alike} meant?"
    elif ord(character) > 127:
        problem += f" (U+{ord(character):04X})"
    return problem


def _digits(token: str) -> str:
    return re.sub(r"0[xX]|[:_-]", "", token).lower()


def _is_grouped(tokens: list[tuple[int, str]]) -> bool:
    """Whether blanks merely group the digits of one string, as xxd -g4 does."""
    sizes = {len(_digits(token)) for _, token in tokens[:-1]}
    return len(tokens) > 3 and sizes == {8}


def _joined(tokens: list[tuple[int, str]], notes: list[str]) -> bytes:
    """The bytes of some runs of digits.

    Raises:
        Unreadable: A digit is missing.
    """
    small = [
        (column + part.start(), re.sub(r"^0[xX]", "", part[0]))
        for column, token in tokens
        for part in re.finditer(r"[^:_-]+", re.sub(r"(?<=.)0[xX]", ":", token))
    ]
    runs = [run for _, run in small]
    if len(runs) > 1 and all(len(run) <= 2 for run in runs) and any(len(run) == 1 for run in runs):
        notes.append("a digit that stands alone is a whole byte")
        runs = [run.zfill(2) for run in runs]
    digits = "".join(runs)
    if len(digits) % 2 == 0:
        return bytes.fromhex(digits)
    odd = next((column, run) for column, run in small if len(run) % 2)
    where = f"column {odd[0]}: " if len(small) > 1 else ""
    raise Unreadable(
        f"{where}{len(odd[1])} hex digit{'s' * (len(odd[1]) > 1)}, an odd number: a byte has two, "
        "so one is missing or one too many"
    )


_IN_A_ROW = (
    "three runs of hex in a row, the middle one of 8 bytes: taken as topic, sequence and payload"
)
_PICKED = "the hex was picked out of a line of other words"


def _three(runs: Sequence[str]) -> tuple[bytes, ...] | None:
    """Three runs of digits as the frames of a message, or None where they may be one string."""
    if len(runs[1]) != 16 or any(not run or len(run) % 2 for run in runs):
        return None
    topic, sequence, payload = map(bytes.fromhex, runs)
    # Groups of 8 bytes, as some programs print them, are a string's.
    if is_load_stat(topic + sequence + payload) or (len(topic) == 8 and not is_load_stat(payload)):
        return None
    return topic, sequence, payload


def _in_a_row(words: Sequence[str]) -> tuple[bytes, ...] | None:
    """The frames of a message between other words, or None where there are none, or several."""
    found: list[tuple[bytes, ...]] = []
    for first in range(len(words) - 2):
        three = [TOPIC.hex() if words[first] == "load" else words[first], *words[first + 1 :][:2]]
        runs = [run[1] for run in map(_RUN.fullmatch, three) if run]
        frames = _three(runs) if len(runs) == 3 else None
        if frames is not None and frames[0] == TOPIC:
            return frames
        if frames is not None:
            found.append(frames)
    read = [frames for frames in found if is_load_stat(frames[2])] or found
    return read[0] if len(read) == 1 else None


_WORD = re.compile(r"[^\s=:,;'\"`<>()\[\]{}|]+")
_RUN = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})+)")
_TAG = "a84c6f616453746174"


def from_log(text: str) -> Line | None:
    """The hex in a line of other words, where it can be no other than this."""
    runs: list[str] = []
    words = _WORD.findall(text)
    for word in words:
        run = _RUN.fullmatch(word)
        if run and len(run[1]) >= 8:
            runs.append(run[1].lower())
        elif _nearly_hex(word):
            return None
    row = _in_a_row(words)
    if row is not None:
        return Line("hex", row, message=True, notes=(_PICKED, _IN_A_ROW))
    note = (_PICKED,)
    if TOPIC.hex() in runs and len(runs) > 1:
        frames = runs[runs.index(TOPIC.hex()) :][:3]
        return Line("hex", tuple(map(bytes.fromhex, frames)), message=True, notes=note)
    tagged = [run for run in runs if _TAG in run[:40] or run.startswith(TOPIC.hex())]
    long = tagged or [run for run in runs if len(run) >= 16]
    if len(long) != 1 and not (long and len(set(long)) == 1):
        return None
    return whole("hex", bytes.fromhex(long[0]), note)


def _nearly_hex(word: str) -> bool:
    """Whether a word is hex with a typing error in it; dates, versions and times are none."""
    digits = sum(character in string.hexdigits for character in word)
    return 8 <= len(word) != digits >= 0.8 * len(word) and not re.search(r"[-.]|\dT\d", word)


def base64_text(text: str) -> Line | None:
    """Base64, if what it decodes to is a load message or starts as one does."""
    text = text.strip(AROUND)
    if len(text) < 14 or not re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", text):
        return None
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = b64decode(body + "=" * (-len(body) % 4))
    except ValueError:
        return None
    if not is_load_stat(data) and not (data[:4] == TOPIC and is_load_stat(data[12:])):
        return None
    return whole("base64", data, ("it is no hex; as base64 it is a LoadStat, so base64 it is",))
