"""How a wrong decoder or engine is written down: a name, its story, the rules that catch it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_loadwire.contract.decoder import DecoderContract
from pytest_loadwire.contract.wire import WireContract
from wrong.drive import POLICIES, Catch, catches

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(frozen=True)
class Wrong:
    """One implementation that is wrong on purpose.

    Attributes:
        name: What the table calls it.
        story: What its author did, in one line.
        breaks: The rules by which it must be caught.
        make: Makes it. What it has of the hooks of its contract class is put behind them.
        side: The contract class.
        revision: The revision that it declares.
    """

    name: str
    story: str
    breaks: frozenset[str]
    make: Callable[[], Any]
    side: type[DecoderContract | WireContract]
    revision: int = 2

    @cache  # noqa: B019 - a handful of module-level values that live as long as the run
    def catches(self) -> tuple[Catch, ...]:
        """Every failure under its contract class."""
        return catches(contract(self.side, self.make(), self.revision))


def contract(side: type[T], code: Any, revision: int = 2) -> T:
    """A contract class with `code` behind its hooks, as a team would write it."""

    def hook(name: str) -> Callable[..., Any]:
        return lambda _self, *args: getattr(code, name)(*args)

    hooks = ("decode", "decode_frames", "make_stat", "encode", "publish")
    body: dict[str, Any] = {name: hook(name) for name in hooks if hasattr(code, name)}
    made: T = type("Case", (side,), {**body, "revision": revision, "policies": POLICIES})()
    return made


DECODERS: list[Wrong] = []
ENGINES: list[Wrong] = []


def wrong_decoder(story: str, *breaks: str, revision: int = 2) -> Callable[[T], T]:
    """Write down a decode function, or a class with `decode` and perhaps `decode_frames`."""

    def note(code: T) -> T:
        add_decoder(dashed(code), story, code, *breaks, revision=revision)
        return code

    return note


def add_decoder(name: str, story: str, code: Any, *breaks: str, revision: int = 2) -> None:
    """The same with a name of its own, for families."""
    make = code if isinstance(code, type) else lambda: _Decoder(code)
    DECODERS.append(Wrong(name, story, frozenset(breaks), make, DecoderContract, revision))


def wrong_engine(story: str, *breaks: str, revision: int = 2) -> Callable[[T], T]:
    """Write down a class with `make_stat`, `encode` and `publish`."""

    def note(code: T) -> T:
        add_engine(dashed(code), story, code, *breaks, revision=revision)
        return code

    return note


def add_engine(name: str, story: str, code: Any, *breaks: str, revision: int = 2) -> None:
    """The same with a name of its own, for families."""
    ENGINES.append(Wrong(name, story, frozenset(breaks), code, WireContract, revision))


def dashed(code: Any) -> str:
    """`LittleEndianSequence` and `little_endian_sequence` as `little-endian-sequence`."""
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in code.__name__)
    return words.replace("_", "-").strip("-")


class _Decoder:
    def __init__(self, decode: Callable[[bytes], object]) -> None:
        self.decode = decode
