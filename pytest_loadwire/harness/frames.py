"""The frames of a message in an error text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.annotate import annotate_frames
from pytest_loadwire.errors import WireError
from pytest_loadwire.wire import LATEST, Message, parse_frames

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse(frames: Sequence[bytes], *, revision: int = LATEST) -> Message:
    """As `wire.parse_frames`, and the traceback of an error shows the message byte by byte."""
    __tracebackhide__ = True
    try:
        return parse_frames(frames, revision=revision)
    except WireError as error:
        # What `add_note` does from Python 3.11 on; pytest shows it on 3.10 as well.
        vars(error)["__notes__"] = [annotate_frames(frames)]
        # Where in the reader it was raised helps nobody who wants to mend the bytes.
        raise error.with_traceback(None) from None


def show_frames(frames: Sequence[bytes]) -> str:
    """The frames of a message in one line."""
    shown = ", ".join(
        repr(frame) if frame.isascii() and frame.decode().isprintable() else frame.hex()
        for frame in frames
    )
    return f"{len(frames)} frame(s) [{shown}]"
