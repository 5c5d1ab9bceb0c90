"""What a failed comparison of two load messages shows."""

from __future__ import annotations

import pytest

HEAD = """
import engine
from pytest_loadwire.wire import Message, build_frames

SENT = build_frames(7, engine.reading(7))
OTHER = build_frames(8, engine.reading(8))
"""

SAME = ["*load messages differ*", "*frame 1*7*8*", "*1 num_running_reqs*", "*1 num_running_reqs*"]

# The comparison, and what its failure shows.
COMPARISONS = {
    "tuples": ("SENT == OTHER", SAME),
    "a list and a tuple": ("list(SENT) == OTHER", SAME),
    "lists": ("list(SENT) == list(OTHER)", SAME),
    "messages": ("Message(7, engine.reading(7)) == Message(8, engine.reading(8))", SAME),
    "too few frames": ("SENT[:2] == OTHER", ["*load messages differ*", "*2 frames | 3 frames*"]),
    "a list of messages": ("[SENT, SENT] == [SENT, OTHER]", ["*message 1:*", *SAME[:2]]),
    "a wrong topic": ("(b'loadx', *SENT[1:]) == SENT", ["*load messages differ*", "*frame 0*"]),
}

# Comparisons that are none of our business.
FOREIGN = [
    "[b'a', b'b', b'c'] == [b'a', b'b', b'd']",
    "(b'load', b'b') == (b'load', b'c')",
    "b'load' == b'loads'",
    "['load', '7', 'x'] == ['load', '8', 'x']",
    "[] == [b'x']",
    "SENT != SENT",
    "Message(-1, engine.reading()) == Message(8, engine.reading())",
]


@pytest.mark.parametrize(("comparison", "shown"), COMPARISONS.values(), ids=COMPARISONS)
def test_messages_are_shown_element_by_element(
    repo: pytest.Pytester, comparison: str, shown: list[str]
) -> None:
    """A failed comparison of load messages shows frames and elements with their annotated bytes."""
    repo.makepyfile(f"{HEAD}\ndef test_x():\n    assert {comparison}\n")
    result = repo.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(shown)


@pytest.mark.parametrize("comparison", FOREIGN)
def test_other_comparisons_are_left_alone(repo: pytest.Pytester, comparison: str) -> None:
    """What does not look like a load message fails as it does without the plugin."""
    repo.makepyfile(f"{HEAD}\ndef test_x():\n    assert {comparison}\n")
    result = repo.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*load messages differ*")
