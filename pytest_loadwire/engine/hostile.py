"""What a hostile engine sends: every message that a router has to refuse."""

from __future__ import annotations

from functools import cache

from pytest_loadwire.vectors import Reject, load
from pytest_loadwire.wire import LATEST, TOPIC


@cache
def bad_messages(revision: int = LATEST) -> tuple[tuple[bytes, ...], ...]:
    """Every refused payload in good frames, spellings included, and every refused message.

    What is a matter of policy is left out, and so is the message without a frame, which ZeroMQ
    cannot send. The sequence of a payload's message is its place in this tuple.

    Args:
        revision: The revision of the reader that refuses.
    """
    golden = load()
    payloads = [
        form
        for vector in golden.payloads
        if isinstance(vector.readers[str(revision)], Reject)
        for _, form in vector.forms()
    ]
    messages: list[tuple[bytes, ...]] = [
        (TOPIC, n.to_bytes(8, "big"), payload) for n, payload in enumerate(payloads)
    ]
    messages += [
        vector.parts
        for vector in golden.frames
        if isinstance(vector.readers[str(revision)], Reject) and vector.parts
    ]
    return tuple(messages)
