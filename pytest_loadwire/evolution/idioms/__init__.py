"""Decoder idioms that are out there, as readers of any list of fields.

A change of the contract meets routers that nobody has at hand: a derived struct in Rust, a cast in
TypeScript, a slice of interfaces in Go. Each idiom here is one of them, written down by how it
reads, and made for whatever fields a contract has. What they do with the golden vectors is what the
real programs in ``tests/decoders/`` do; the tests hold each to its program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_loadwire.evolution.idioms import decoders
from pytest_loadwire.evolution.idioms.decoders import Decode
from pytest_loadwire.evolution.idioms.meeting import Contract, DeadError, Slot
from pytest_loadwire.judge import Crashed, Outcome, Refused, Taken
from pytest_loadwire.rules import Policy

__all__ = ["IDIOMS", "REFERENCE", "Contract", "Idiom", "IdiomReader", "Slot"]


@dataclass(frozen=True)
class Idiom:
    """A way to write a decoder.

    Attributes:
        id: What the real program calls itself.
        language: Its language.
        name: How it is written, as the README's tables call it.
        library: The library that it uses.
        wild: The newest revision that the real program knows.
        make: Writes the decoder for a contract.
        answers: What it answers where the contract leaves a choice: one sign for each policy, in
            the order of `rules.Policy`; ``+`` accepts (reads a partial tail), ``-`` refuses (reads
            the older revision).
    """

    id: str
    language: str
    name: str
    library: str
    wild: int
    make: Callable[[Contract], Decode]
    answers: str

    @property
    def title(self) -> str:
        """Language and idiom, as the README's tables have them."""
        return f"{self.language}: {self.name}"

    @property
    def how(self) -> str:
        """How it reads, in one sentence."""
        return (self.make.__doc__ or "").partition("\n")[0]

    def reader(self, contract: Contract) -> IdiomReader:
        """A decoder in this idiom, by somebody who knew this contract."""
        return IdiomReader(self, contract)


class IdiomReader:
    """A decoder in one idiom for one contract; a `reader.Reader`.

    Args:
        idiom: How it is written.
        contract: What its author knew; the idioms that know one length know the newest.
    """

    reads_frames = False

    def __init__(self, idiom: Idiom, contract: Contract) -> None:
        self.name = idiom.id
        self.revision = max(contract)
        answers = ["accept" if letter == "+" else "reject" for letter in idiom.answers]
        tail = "partial" if idiom.answers[4] == "+" else "older"
        self.policies = dict(zip(Policy, answers, strict=True)) | {Policy.PARTIAL_TAIL: tail}
        self._decode = idiom.make(contract)

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:  # noqa: ARG002
        """Read one payload; it knows one contract, whatever ``revision`` asks for."""
        try:
            return Taken(self._decode(payload))
        except DeadError as error:
            return Crashed(str(error))
        except Exception as error:  # a router logs it and reads on
            return Refused(text=str(error) or type(error).__name__)

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        """Read one message: the payload is all that an idiom knows of it."""
        return self.decode(frames[-1], revision)


IDIOMS: tuple[Idiom, ...] = (
    Idiom(
        "rust-rmp-serde-tuple",
        "rust",
        "derived tuple struct",
        "rmp-serde",
        1,
        decoders.rust_tuple,
        "+-++--",
    ),
    Idiom(
        "rust-rmp-serde-defaults",
        "rust",
        "derived struct, `#[serde(default)]`",
        "rmp-serde",
        2,
        decoders.rust_defaults,
        "+++++-",
    ),
    Idiom(
        "rust-rmp-serde-visitor",
        "rust",
        "hand-written visitor",
        "rmp-serde",
        2,
        decoders.rust_visitor,
        "+-++--",
    ),
    Idiom("rust-rmpv", "rust", "dynamic value", "rmpv", 2, decoders.rust_value, "++-+--"),
    Idiom(
        "go-vmihailenco-struct",
        "go",
        "struct, `as_array`",
        "github.com/vmihailenco/msgpack/v5",
        1,
        decoders.go_as_array,
        "+-++--",
    ),
    Idiom(
        "go-vmihailenco-generic",
        "go",
        "`[]interface{}`, loose numbers",
        "github.com/vmihailenco/msgpack/v5",
        2,
        decoders.go_interfaces,
        "+-++--",
    ),
    Idiom(
        "go-ugorji-struct",
        "go",
        "struct, `toarray`",
        "github.com/ugorji/go/codec",
        2,
        decoders.go_toarray,
        "+++++-",
    ),
    Idiom(
        "typescript-destructured",
        "typescript",
        "cast and destructured",
        "@msgpack/msgpack",
        1,
        decoders.typescript_cast,
        "-+-+--",
    ),
    Idiom(
        "java-msgpack-core",
        "java",
        "unpacker, element by element",
        "msgpack-core",
        2,
        decoders.java_unpacker,
        "+-+---",
    ),
    Idiom(
        "python-msgspec-typed",
        "python",
        "struct with the engine's defaults",
        "msgspec",
        2,
        decoders.python_msgspec,
        "-+-++-",
    ),
    Idiom(
        "python-msgpack",
        "python",
        "`unpackb`, then names",
        "msgpack",
        2,
        decoders.python_unpackb,
        "-+-+++",
    ),
)
"""The idioms, in the order of the README's tables."""

REFERENCE = Idiom("reference", "any", "as the contract asks", "-", 2, decoders.reference, "---+--")
"""A router that keeps the contract."""
