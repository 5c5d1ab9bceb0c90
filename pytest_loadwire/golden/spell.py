"""Every legal spelling of a msgpack value, byte by byte.

Written against the msgpack specification and nothing else, so that the vectors do not depend on the
libraries whose readers they judge.
"""

from __future__ import annotations

import struct

INT_FORMATS: dict[str, tuple[int, str, int, int]] = {
    # name: (marker, layout of the number, smallest, largest)
    "uint-8": (0xCC, ">B", 0, 2**8 - 1),
    "uint-16": (0xCD, ">H", 0, 2**16 - 1),
    "uint-32": (0xCE, ">I", 0, 2**32 - 1),
    "uint-64": (0xCF, ">Q", 0, 2**64 - 1),
    "int-8": (0xD0, ">b", -(2**7), 2**7 - 1),
    "int-16": (0xD1, ">h", -(2**15), 2**15 - 1),
    "int-32": (0xD2, ">i", -(2**31), 2**31 - 1),
    "int-64": (0xD3, ">q", -(2**63), 2**63 - 1),
}
"""The integer formats behind a marker byte; the fixints stand in the marker itself."""

STR_FORMATS = ("fixstr", "str-8", "str-16", "str-32")
ARRAY_FORMATS = ("fixarray", "array-16", "array-32")


def integer(value: int, form: str) -> bytes:
    """``value`` in the integer format ``form``, as wide as that is."""
    marker, layout, smallest, largest = INT_FORMATS[form]
    assert smallest <= value <= largest, (value, form)  # noqa: S101 - a slip in the families
    return bytes([marker]) + struct.pack(layout, value)


def shortest(value: int | None) -> bytes:
    """The canonical spelling of a count or of nil (rule W6)."""
    if value is None:
        return b"\xc0"
    if 0 <= value <= 0x7F:
        return bytes([value])
    form = next(f for f, (_, _, _, largest) in INT_FORMATS.items() if value <= largest)
    return integer(value, form)


def wider(value: int) -> dict[str, bytes]:
    """Every spelling of ``value`` but the canonical one, by format name."""
    canonical = shortest(value)
    forms = {
        form: integer(value, form)
        for form, (_, _, smallest, largest) in INT_FORMATS.items()
        if smallest <= value <= largest
    }
    return {form: raw for form, raw in forms.items() if raw != canonical}


def text(content: bytes, form: str = "fixstr") -> bytes:
    """A str of ``content``, which need not be UTF-8."""
    if form == "fixstr":
        return bytes([0xA0 | len(content)]) + content
    marker, layout = {"str-8": (0xD9, ">BB"), "str-16": (0xDA, ">BH"), "str-32": (0xDB, ">BI")}[
        form
    ]
    return struct.pack(layout, marker, len(content)) + content


def array_header(length: int, form: str | None = None) -> bytes:
    """The header of an array, canonical unless a form is named."""
    if form is None:
        form = "fixarray" if length < 16 else "array-16" if length < 2**16 else "array-32"
    if form == "fixarray":
        return bytes([0x90 | length])
    return struct.pack(">BH" if form == "array-16" else ">BI", 0xDC + (form == "array-32"), length)
