"""Bytes for people: every byte with its offset, the element it belongs to, and what it says.

Works on anything, msgpack or not. The plugin uses it where two messages differ, so that a failed
assertion shows the element that is wrong instead of two byte strings.
"""

from __future__ import annotations

from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.tokens import TokenError, walk
from pytest_loadwire.wire import field_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

MOST_LINES = 64
"""A payload's lines are cut behind so many; a load message has at most 12 and its unknown tail."""


class Line(NamedTuple):
    """One line of an annotated payload.

    Attributes:
        offset: Offset of the first byte.
        raw: The bytes.
        depth: How deep the item is nested; the elements of the array are at 1.
        label: The element with its name, or what these bytes are.
        says: The value in words.
    """

    offset: int
    raw: bytes
    depth: int
    label: str
    says: str

    def __str__(self) -> str:
        shown = self.raw.hex() if len(self.raw) <= 12 else f"{self.raw[:11].hex()}.."
        return f"{self.offset:>4}  {shown:<24}  {'  ' * self.depth}{self.label:<32}  {self.says}"


def lines(payload: Buffer) -> list[Line]:
    """Every token of a payload, and the bytes that are none."""
    data = bytes(memoryview(payload))
    names = ("tag", *field_names())
    found: list[Line] = []
    element, end, cut = -1, 0, False
    try:
        tokens = walk(data)
        for depth, token in islice(tokens, MOST_LINES):
            label = token.format
            if depth == 1:
                element += 1
                name = f" {names[element]}" if element < len(names) else ""
                label = f"{element}{name}"
            says = token.describe()
            found.append(Line(token.start, data[token.start : token.end], depth, label, says))
            end = token.end
        cut = next(tokens, None) is not None
    except TokenError as error:
        needed = f", {error.needed} more needed" if error.reason == "truncated" else ""
        found.append(
            Line(end, data[end:], 0, f"({error.reason})", f"at byte {error.offset}{needed}")
        )
        return found
    if cut:
        more = len(data) - end
        found.append(Line(end, data[end:], 0, f"({more} more byte{'s' * (more != 1)})", ""))
    elif end < len(data):
        found.append(Line(end, data[end:], 0, "(trailing bytes)", f"{len(data) - end} of them"))
    return found


def annotate(payload: Buffer) -> str:
    """A payload line by line: offset, bytes, element, value.

    Example:
        >>> print(annotate(bytes.fromhex("92a84c6f616453746174ff")))
           0  92                        fixarray                          array of 2
           1  a84c6f616453746174          0 tag                             str 'LoadStat'
          10  ff                          1 num_running_reqs                integer -1
    """
    return "\n".join(map(str, lines(payload)))


def annotate_frames(frames: Sequence[Buffer]) -> str:
    """A message frame by frame, the payload as by :func:`annotate`."""
    text = []
    for index, frame in enumerate(frames):
        raw = bytes(memoryview(frame))
        text.append(f"frame {index} ({_role(index)}): {_frame(index, raw)}")
        if index == 2:
            text.append(annotate(raw))
    return "\n".join(text)


def compare_frames(
    left: Sequence[Buffer], right: Sequence[Buffer], names: tuple[str, str] = ("left", "right")
) -> list[str]:
    """Two messages frame by frame and element by element; what differs is marked with ``>``.

    Args:
        left: The frames on the left of a comparison.
        right: Those on the right.
        names: What to call them.
    """
    text = [f"load messages differ ({names[0]} | {names[1]})"]
    if len(left) != len(right):
        text.append(f"> {len(left)} frames | {len(right)} frames")
    for index, (a, b) in enumerate(zip_longest(left, right)):
        ours = None if a is None else bytes(memoryview(a))
        theirs = None if b is None else bytes(memoryview(b))
        mark = " " if ours == theirs else ">"
        one, other = (_frame(index, raw) for raw in (ours, theirs))
        shown = one if one == other else f"{one} | {other}"
        text.append(f"{mark} frame {index} ({_role(index)}): {shown}")
        if index == 2 and ours is not None and theirs is not None and ours != theirs:
            text += compare_payloads(ours, theirs, names)
    return text


def compare_payloads(
    left: Buffer, right: Buffer, names: tuple[str, str] = ("left", "right")
) -> list[str]:
    """Two payloads element by element; an element that differs has a line for each side."""
    text = []
    for ours, theirs in zip_longest(lines(left), lines(right)):
        if ours is not None and theirs is not None and ours[1:] == theirs[1:]:
            text.append(f"  {'':<9}{ours}")
            continue
        text += [
            f"> {name:<9}{line}" for name, line in zip(names, (ours, theirs), strict=True) if line
        ]
    return text


def _role(index: int) -> str:
    return ("topic", "sequence", "payload")[index] if index < 3 else "unexpected"


def _frame(index: int, raw: bytes | None) -> str:
    if raw is None:
        return "missing"
    if index == 0:
        return repr(raw)
    if index == 1 and len(raw) == 8:
        return f"{raw.hex()} = {int.from_bytes(raw, 'big', signed=True)}"
    return f"{raw.hex()}, {len(raw)} bytes" if len(raw) <= 64 else f"{len(raw)} bytes"
