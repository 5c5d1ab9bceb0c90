"""What every check asks: a reader, be it a callable, a program or a shared library.

A reader differs from a `witness.Witness` in that it is not ours: it reads the one revision that it
declares, perhaps only payloads, and nothing it does is taken for granted. :func:`smoke` tells a
reader that cannot be reached from one that reads wrongly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_loadwire.judge import Crashed, Refused, Taken
from pytest_loadwire.vectors import Accept
from pytest_loadwire.witness import MsgspecWitness

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_loadwire.judge import Outcome
    from pytest_loadwire.rules import Policy
    from pytest_loadwire.vectors import Golden


class Reader(Protocol):
    """Foreign code that decodes."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def revision(self) -> int:
        """The newest revision that it reads."""

    @property
    def policies(self) -> Mapping[Policy, str]:
        """What it declares where the contract leaves a choice."""

    @property
    def reads_frames(self) -> bool:
        """Whether it takes whole messages as well as payloads."""

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:
        """Read one payload, by default as a reader of its newest revision."""

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        """Read one message, by default as a reader of its newest revision."""


class ReferenceReader:
    """`wire.decode` as the router of one revision.

    Args:
        revision: The revision that it reads.
    """

    reads_frames = True

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self._witness = MsgspecWitness()
        self.name = f"reference, revision {revision}"
        self.policies = self._witness.policies

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:
        """Read one payload."""
        return self._witness.decode(payload, revision or self.revision)

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        """Read one message."""
        return self._witness.parse_frames(frames, revision or self.revision)


def smoke(reader: Reader, golden: Golden) -> str | None:
    """Three payloads that any decoder gets right: what is wrong with the adapter, or None.

    The plainest payload of the reader's revision, nil, and the plainest with longer headers. An
    adapter that works answers all three; a decoder that reads anything at all reads the first, with
    the contract's field names. What is wrong beyond that is the decoder's, and left to the vectors.
    """
    plain = golden.payload(f"rev{reader.revision}-golden-a")
    spelled = golden.payload(f"rev{reader.revision}-spelled-headers")
    asked = dict([next(plain.forms()), *golden.payload("top-nil").forms(), [*spelled.forms()][-1]])
    outcomes = {}
    for case, payload in asked.items():
        outcomes[case] = reader.decode(payload)
        if isinstance(outcomes[case], Crashed):
            return f"{case} ({payload.hex()}): {outcomes[case]}"
    first = outcomes[plain.id]
    verdict = plain.readers[str(reader.revision)]
    assert isinstance(verdict, Accept)  # noqa: S101 - for the type checker
    if isinstance(first, Refused):
        return f"it refuses the plainest payload, {plain.id} ({plain.hex}): {first}"
    if isinstance(first, Taken):
        if not first.reading.keys() & verdict.value.keys():
            names = ", ".join(first.reading) or "none"
            return f"none of its field names is the contract's: {names}"
        if first == outcomes["top-nil"]:
            return f"it answers nil as it answers {plain.id}: {first}"
    return None
