"""What one line of a text holds, and the way out where it holds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = b"load"
"""Frame 0 of a message, by which a message is told from payloads."""

AROUND = "'\"`<>()[]{},;"
"""What programs put around bytes when they print them."""


class Unreadable(Exception):  # noqa: N818 - a way out, no error of this package
    """Why a line holds no bytes."""


@dataclass(frozen=True)
class Line:
    """What one line holds, before lines are put together.

    Attributes:
        form: What it was read as.
        parts: The frames of a message, or one payload.
        message: Whether the parts are frames.
        notes: What was assumed.
    """

    form: str
    parts: tuple[bytes, ...]
    message: bool = False
    notes: tuple[str, ...] = ()


def whole(form: str, data: bytes, notes: Sequence[str] = ()) -> Line:
    """One payload."""
    return Line(form, (data,), notes=tuple(notes))


def plain(text: str) -> str:
    """A text in ASCII and escapes, so that any terminal shows it and none obeys it."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)


def said(text: str) -> str:
    """Some of a text, quoted, in ASCII."""
    return ascii(text if len(text) <= 40 else f"{text[:40]}...")
