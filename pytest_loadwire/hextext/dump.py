"""Hex dumps as xxd, hexdump, od, tcpdump and Wireshark print them, back to bytes. Stdlib only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Offset, an optional colon, and the rest: bytes and perhaps a column of characters.
_LINE = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16})(:?)(?:\s+(.*))?$")
_GROUP = re.compile(r"(\s*)((?:[0-9a-fA-F]{2}){1,8})(?=\s|$)")


def read_dump(lines: Sequence[str]) -> tuple[bytes, tuple[str, ...]] | None:
    """The bytes of a hex dump, and what was assumed.

    Args:
        lines: The lines of a text that are not blank.

    Returns:
        None where the lines are no dump: where they do not all start with an offset, or where the
        offsets do not agree with the bytes between them.
    """
    rows = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            return None
        rows.append((match[1], bool(match[2]), match[3] or ""))
    if not rows[0][2] or not _looks_like_one(rows):
        return None
    for base in (16, 8, 10):
        data = _bytes(rows, base)
        if data is not None:
            first = int(rows[0][0], base)
            notes = (f"the dump starts at offset {first}",) if first else ()
            return data, notes
    return None


_PACKET = re.compile(r"\s*0x([0-9a-fA-F]{4}):\s")


def read_packets(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str, bytes]]:
    """The packets that tcpdump prints with -x or -X, each behind a line about it.

    Args:
        lines: The lines of a text with their numbers.

    Returns:
        The number of the first line of each, its text and its bytes; none where there is no packet.
    """
    packets: list[list[tuple[int, str]]] = []
    for number, line in lines:
        match = _PACKET.match(line)
        if match is None:
            continue
        if int(match[1], 16) == 0 or not packets:
            packets.append([])
        packets[-1].append((number, line))
    found = []
    for packet in packets:
        texts = [line for _, line in packet]
        dump = read_dump(texts)
        if dump is not None:
            found.append((packet[0][0], "\n".join(texts), dump[0]))
    return found


def _looks_like_one(rows: Sequence[tuple[str, bool, str]]) -> bool:
    """Whether offsets are offsets: several that grow, or one that is 0 and stands apart."""
    if len({len(offset) for offset, _, _ in rows}) != 1:
        return False
    if len(rows) > 1:
        return rows[0][0] < rows[1][0]
    offset, colon, rest = rows[0]
    # Groups of one or two bytes: four zero bytes in front of a payload are not written so.
    return not int(offset, 16) and (colon or bool(re.match(r"(?:[0-9a-fA-F]{2}){1,2}\s", rest)))


def _bytes(rows: Sequence[tuple[str, bool, str]], base: int) -> bytes | None:
    data = bytearray()
    try:
        offsets = [int(offset, base) for offset, _, _ in rows]
    except ValueError:
        return None
    for index, (_, _, rest) in enumerate(rows):
        more = offsets[index + 1] - offsets[index] if index + 1 < len(rows) else None
        found = _row(rest, more)
        if found is None:
            return None
        data += found
    return bytes(data)


def _row(rest: str, size: int | None) -> bytes | None:
    """The bytes of one row: ``size`` of them, or as many as stand there where it is the last."""
    found = bytearray()
    position = 0
    width = 0
    while match := _GROUP.match(rest, position):
        gap, group = match.groups()
        # Two blanks part the bytes from their characters; in the middle of a row they part halves.
        if width and len(gap) > 1 and not (len(found) == 8 and len(group) == 2):
            break
        if width and len(group) > width:
            break
        width = width or len(group)
        found += bytes.fromhex(group)
        position = match.end()
        if size is not None and len(found) >= size:
            break
    if size is None:
        return bytes(found) if found or not rest else None
    return bytes(found) if len(found) == size else None
