"""The frames of a message in an error text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.errors import WireError
from pytest_loadwire.wire import LATEST, Message, parse_frames

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse(frames: Sequence[bytes], *, revision: int = LATEST) -> Message:
    """As `wire.parse_frames`, with the whole message in the text of an error."""
    try:
        return parse_frames(frames, revision=revision)
    except WireError as error:
        seen = show_frames(frames)
        error.hint = f"{error.hint}; {seen}" if error.hint else seen
        raise


def show_frames(frames: Sequence[bytes]) -> str:
    """The frames of a message in one line, for an error text."""
    shown = ", ".join(
        repr(frame) if frame.isascii() and frame.decode().isprintable() else frame.hex()
        for frame in frames
    )
    return f"{len(frames)} frame(s) [{shown}]"
