"""Bytes as programming languages print them: Python literals, escapes, lists of numbers."""

from __future__ import annotations

import ast
import re
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_loadwire.hextext.digits import hex_digits
from pytest_loadwire.hextext.line import AROUND, TOPIC, Line, Unreadable, said, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

_LITERAL = re.compile(
    r"""(?<![\w'"])(?:[bB][rR]?|[rR][bB])(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""", re.DOTALL
)


def literals(text: str) -> Line | None:
    """Python bytes literals, several as the frames of a message."""
    found = list(_LITERAL.finditer(text))
    if not found:
        return None
    values: list[bytes] = []
    between = [text[a.end() : b.start()] for a, b in pairwise(found)]
    for match in found:
        value = _evaluated(match[0])
        if value is None:
            column = match.start() + 1
            raise Unreadable(
                f"column {column}: the Python bytes literal that starts here is not valid"
            )
        values.append(value)
    form = "a Python bytes literal" if len(values) == 1 else "Python bytes literals"
    outside = _LITERAL.sub("", text).strip("[](){},; \t\n\r")
    notes = (f"what stands around them is left out: {said(outside)}",) if outside else ()
    # Without a comma Python joins literals, as its pretty printer relies on.
    if values[0] == TOPIC and not any(gap.strip() for gap in between):
        return Line(form, tuple(values), message=True, notes=notes)
    parts = values[:1]
    for gap, value in zip(between, values[1:], strict=True):
        if gap.strip():
            parts.append(value)
        else:
            parts[-1] += value
    # A list of one is what a socket received: a message of one frame.
    listed = re.fullmatch(r"\[.*\]|\(.*,\s*\)", text.strip(), re.DOTALL) is not None
    return Line(form, tuple(parts), message=listed or len(parts) > 1, notes=notes)


def _evaluated(literal: str) -> bytes | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for escapes that Python will not know for long
            value = ast.literal_eval(literal)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, bytes) else None


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-3][0-7]{2})|([abefnrtv0\\'\"]))")
_NAMED = {"a": 7, "b": 8, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "0": 0}


def escapes(text: str) -> Line | None:
    """Bytes as escapes, with or without the characters that need none between them."""
    # JSON has no shorter one.
    text = re.sub(r"\\u00([0-9a-fA-F]{2})", r"\\x\1", text)
    if not re.search(r"\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2}", text):
        return None
    if not re.sub(r"\\x[0-9a-fA-F]{2}", "", text).strip(AROUND + " \t,;:"):
        return hex_digits(re.sub(r"\\x", " 0x", text))
    body = text.strip()
    notes = ["characters that are not escaped stand for themselves"]
    opening = re.match(r"(?:\$|[bB])?(['\"])|[bB](?=\\x)", body)
    if opening:
        body = body[opening.end() :]
        quote = opening[1]
        if quote and body.endswith(quote):
            body = body[:-1]
        elif quote:
            notes.append(f"the closing {quote} is missing: the text may be cut")
    data = bytearray()
    position = 0
    while position < len(body):
        match = _ESCAPE.match(body, position)
        if match:
            digits, octal, name = match.groups()
            code = int(digits, 16) if digits else int(octal, 8) if octal else None
            data.append(_NAMED.get(name, ord(name or "\0")) if code is None else code)
            position = match.end()
            continue
        character = body[position]
        if character == "\\":
            column = text.find(body) + position + 1
            raise Unreadable(f"column {column}: a backslash that starts no escape of a byte")
        data += character.encode("utf-8", "surrogateescape" if _is_stray(character) else "replace")
        position += 1
    return Line("escaped text", (bytes(data),), notes=tuple(notes))


def unquoted(lines: Sequence[str]) -> Line | None:
    """A Python list of frames whose quotes a shell took away, one frame in each line."""
    parts: list[bytes] = []
    for line in lines:
        match = re.fullmatch(r"[\[(]?b(load|\\.*)", line.strip().rstrip(",])"))
        if match is None:
            return None
        found = Line("", (TOPIC,)) if match[1] == "load" else escapes(match[1])
        if found is None:
            return None
        parts += found.parts
    notes = ("the quotes are missing: a shell takes them away unless the whole text is quoted",)
    return Line("Python bytes literals", tuple(parts), message=True, notes=notes)


def _is_stray(character: str) -> bool:
    return 0xDC80 <= ord(character) <= 0xDCFF


def decimals(text: str) -> Line | None:
    """A list of numbers from 0 to 255, in brackets."""
    body = text.strip()
    if not re.match(r"(?:\w+\()?[\[{(]", body) or body[-1] not in "]})":
        return None
    tokens = re.findall(r"[^\s,\[\](){}]+", re.sub(r"^\w+\(", "", body))
    if len(tokens) < 2 or not all(t.isascii() and t.isdigit() for t in tokens):
        return None
    # Hex digits come in twos. Decimal numbers of two digits alone are left to hex.
    if all(len(token) == 2 for token in tokens) or any(len(token) > 3 for token in tokens):
        return None
    if any(int(token) > 255 for token in tokens):
        return None
    return whole("a list of decimal bytes", bytes(map(int, tokens)))
