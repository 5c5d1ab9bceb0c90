"""The shape of a payload: its length as people tell it, and the widths of its numbers."""

from __future__ import annotations

from pytest_loadwire.tokens import TokenError, walk
from pytest_loadwire.wire import REVISIONS


def revision_text(elements: int) -> str:
    """The revision that a router reads, and how many elements stand behind it (rules W8, W12).

    Args:
        elements: The length of the array, tag included; at least that of revision 1.

    >>> revision_text(6), revision_text(9), revision_text(11)
    ('1', '1+3', '2')
    """
    lengths = {
        revision: len(kind.__struct_fields__) + 1
        for revision, kind in sorted(REVISIONS.items())
        if len(kind.__struct_fields__) < elements
    }
    read = max(lengths, default=min(REVISIONS))
    more = elements - lengths.get(read, elements)
    return f"{read}+{more}" if more else str(read)


def is_between(elements: int) -> bool:
    """Whether a length is that of no revision, and shorter than that of the newest (rule W4).

    Args:
        elements: The length of the array, tag included; at least that of revision 1.

    >>> [is_between(length) for length in (6, 9, 11, 12)]
    [False, True, False, False]
    """
    return "+" in (shown := revision_text(elements)) and not shown.startswith(f"{max(REVISIONS)}+")


def spelling(payload: bytes) -> object:
    """The markers of a payload: readings whose numbers have the same widths are one shape."""
    try:
        return tuple(token.format for _, token in walk(payload))
    except TokenError:
        return len(payload)
