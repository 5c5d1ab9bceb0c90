"""Every decoder in the wild, and what it is expected to get wrong.

The patterns of an `Expected` are those of `fnmatch` over case ids: a vector's id, and that of a
spelling behind a `/`. They cover the cases whose owed verdict the deed can break: only what should
be taken can be refused or misread, only what should be refused can be accepted. The tests hold the
declared set against the run in both directions, so that any change of a library or a vector shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import requires
from typing import NamedTuple

from decoders import build
from decoders.build import HERE
from pytest_loadwire import conform, skew
from pytest_loadwire.harness.testee import Testee
from pytest_loadwire.judge import Deed


class Expected(NamedTuple):
    """One way in which a decoder breaks one rule, and why."""

    rule: str
    deed: Deed
    cases: Sequence[str]
    reason: str


class Wild(NamedTuple):
    """A decoder.

    Attributes:
        name: What its greeting says.
        idiom: How it is written, for the table.
        library: The library's name.
        language: The folder that it is built from.
        command: Builds it and says how to run it.
        expected: What it gets wrong.
    """

    name: str
    idiom: str
    library: str
    language: str
    command: Callable[[], list[str]]
    expected: tuple[Expected, ...] = ()

    @property
    def version(self) -> str:
        """The version that the lock file pins, or the lower bound of this package."""
        return _version(self.language, self.library)


@cache
def asked(name: str) -> tuple[conform.Conformance, skew.Row]:
    """What one decoder makes of every vector, and of every revision's engine; asked once a run."""
    with Testee(BY_NAME[name].command()) as testee:
        result = conform.run(testee)
        row = skew.ask(testee)
        ending = testee.finish()
    assert ending is None, f"{name}: {ending}"
    return result, row


ANY = ("*",)
OLD = ("rev1-*",)
NEW = ("rev2-*",)

# Each vector of revision 2 that is about something else is refused or misread along with the rest.
_EXACT = "a fixed-size type takes exactly its own number of elements, so a longer array is an error"
_SIX = tuple(
    Expected(rule, "refused", cases, _EXACT)
    for rule, cases in {
        "W1": NEW,
        "W3": ANY,
        "W4": NEW,
        "W5": NEW,
        "W6": NEW,
        "W7": NEW,
        "W8": ANY,
        "W12": ANY,
    }.items()
)
_ZEROS = "what an older engine does not send stays at the default, 0, as if it had been sent"
_DEFAULTS = tuple(
    Expected(rule, "wrong-value", cases, _ZEROS)
    for rule, cases in {
        "W2": ANY,
        "W4": OLD,
        "W5": OLD,
        "W7": OLD,
        "W9": ANY,
        "W12": ANY,
    }.items()
)
_SHORT = "missing elements stay at their defaults: a tag alone is an idle worker"
_SIGNED = "the type is a signed integer, and nobody asks whether it is negative"
_UNREAD = "elements behind those that are read are not looked at, so that garbage there goes unseen"

WILD = (
    Wild(
        "rust-rmp-serde-tuple",
        "derived tuple struct",
        "rmp-serde",
        "rust",
        partial(build.rust, "rmp_serde_tuple"),
        _SIX,
    ),
    Wild(
        "rust-rmp-serde-defaults",
        "derived struct, `#[serde(default)]`",
        "rmp-serde",
        "rust",
        partial(build.rust, "rmp_serde_defaults"),
        (
            *_DEFAULTS,
            Expected("W1", "wrong-value", OLD, _ZEROS),
            Expected("W6", "wrong-value", OLD, _ZEROS),
            Expected("W8", "refused", ANY, _EXACT),
            Expected("W9", "accepted", ("too-short-*-elements",), _SHORT),
        ),
    ),
    Wild(
        "rust-rmp-serde-visitor",
        "hand-written visitor",
        "rmp-serde",
        "rust",
        partial(build.rust, "rmp_serde_visitor"),
    ),
    Wild(
        "rust-rmpv",
        "dynamic value",
        "rmpv",
        "rust",
        partial(build.rust, "rmpv_value"),
        (
            Expected(
                "W5",
                "accepted",
                ("rev1-attn-dp-rank-*",),
                "`as_u64` is None for nil and for everything that is no rank",
            ),
            Expected(
                "W10",
                "accepted",
                ("malformed-*tail", "malformed-middle-count"),
                "rmpv reads the marker 0xc1 as nil",
            ),
        ),
    ),
    Wild(
        "go-vmihailenco-struct",
        "struct, `as_array`",
        "github.com/vmihailenco/msgpack/v5",
        "go",
        partial(build.go, "vmihailenco_struct"),
        (
            *_SIX,
            Expected("W5", "accepted", ("rev1-*-nil",), "nil leaves a field at 0"),
            Expected(
                "W5",
                "accepted",
                ("rev1-*-minus-*",),
                "a negative wraps around in an unsigned field",
            ),
        ),
    ),
    Wild(
        "go-vmihailenco-generic",
        "`[]interface{}`, loose numbers",
        "github.com/vmihailenco/msgpack/v5",
        "go",
        partial(build.go, "vmihailenco_generic"),
        (
            Expected("W5", "accepted", ("*-minus-*",), _SIGNED),
            Expected("W5", "accepted", ("*-float-*",), "a float is cut to an integer"),
            Expected(
                "W5",
                "wrong-value",
                ("*-9223372036854775808", "*-18446744073709551615"),
                "a count above 2^63-1 wraps around in an int64",
            ),
            Expected(
                "W8",
                "refused",
                ("tail-*ext-*", "tail-timestamp-bad-length", "tail-map-int-keys"),
                "the library builds what it does not know: ext types, maps with other keys",
            ),
            Expected("W8", "refused", ("tail-map-array-key",), "as above"),
            Expected(
                "W10",
                "crashed",
                ("lying-array-2-*", "lying-count", "lying-tail-array-*", "lying-tail-map-32"),
                "the library allocates what a header announces; Go cannot recover from that",
            ),
        ),
    ),
    Wild(
        "go-ugorji-struct",
        "struct, `toarray`",
        "github.com/ugorji/go/codec",
        "go",
        partial(build.go, "ugorji_struct"),
        (
            *_DEFAULTS,
            Expected("W1", "wrong-value", OLD, _ZEROS),
            Expected("W6", "wrong-value", OLD, _ZEROS),
            Expected("W5", "accepted", ("*-nil", "rev2-nil-*"), "nil leaves a field at 0"),
            Expected("W5", "accepted", ("*-float-32", "*-float-64"), "a whole float is an integer"),
            Expected("W9", "accepted", ANY, _SHORT),
            Expected("W12", "accepted", ANY, "a whole float is an integer"),
        ),
    ),
    Wild(
        "typescript-destructured",
        "cast and destructured",
        "@msgpack/msgpack",
        "typescript",
        partial(build.typescript, "destructured"),
        (
            Expected(
                "W5",
                "accepted",
                (
                    "*-minus-*",
                    "*-float-*",
                    "*-map-*",
                    "*-array-*",
                    "*-str",
                    "*-str-not-utf-8",
                    "*-bin",
                    "*-true",
                    "*-false",
                    "*-fixext",
                    "*-nil",
                    "*[!d]-timestamp",  # and not ext-bad-timestamp
                ),
                "a cast checks nothing",
            ),
            Expected(
                "W5",
                "wrong-value",
                tuple(
                    f"{slot}-{count}"
                    for slot in ("rev1-*", "rev2-*-reqs", "rev2-*num-tokens", "rev2-attn-dp-rank")
                    for count in ("9223372036854775807", "18446744073709551615")
                ),
                "a double has 53 bits for an integer",
            ),
            Expected(
                "W5",
                "refused",
                ("*-ext-bad-timestamp",),
                "the library builds what it skips, a timestamp of an illegal length too",
            ),
            Expected(
                "W8",
                "refused",
                (
                    "tail-map-array-key",
                    "tail-timestamp-bad-length",
                    "tail-nested",
                    "tail-every-type-*",
                ),
                "the library builds what it skips, maps with other keys too",
            ),
            Expected("W9", "accepted", ANY, "what is missing is undefined, and nobody asks"),
        ),
    ),
    Wild(
        "java-msgpack-core",
        "unpacker, element by element",
        "msgpack-core",
        "java",
        partial(build.java, "Unpacker"),
        (
            Expected("W5", "accepted", ("*-minus-*",), _SIGNED),
            Expected("W10", "accepted", ("*-tail", "lying-tail-*", "lying-array-12"), _UNREAD),
        ),
    ),
    Wild(
        "python-msgspec-typed",
        "struct with the engine's defaults",
        "msgspec",
        "python",
        partial(build.python, "msgspec_typed"),
        (
            *_DEFAULTS,
            Expected("W5", "accepted", ("*-minus-*",), _SIGNED),
            Expected("W9", "accepted", ("too-short-*-elements",), _SHORT),
        ),
    ),
    Wild(
        "python-msgpack",
        "`unpackb`, then names",
        "msgpack",
        "python",
        partial(build.python, "msgpack_unpackb"),
        (
            Expected(
                "W5",
                "accepted",
                (
                    "*-minus-*",
                    "*-float-*",
                    "*-map-empty",
                    "*-array-*",
                    "*-str",
                    "*-bin",
                    "*-true",
                    "*-false",
                    "*-fixext",
                    "*-nil",
                    "*[!d]-timestamp",  # and not ext-bad-timestamp
                ),
                "nobody asks for the type of an element",
            ),
            Expected(
                "W8",
                "refused",
                (
                    "tail-str-not-utf-8",
                    "tail-map-*-key*",
                    "tail-timestamp-bad-length",
                    "tail-nested",
                ),
                "the library builds what is ignored, and refuses what it cannot build",
            ),
            Expected("W9", "accepted", ANY, "what is missing is not missed"),
            Expected("W12", "accepted", ANY, "nobody asks for the type of an element"),
        ),
    ),
)

BY_NAME = {decoder.name: decoder for decoder in WILD}


def _version(language: str, library: str) -> str:
    name = re.escape(library)
    if language == "python":
        (bound,) = [r for r in requires("pytest-loadwire") or () if re.match(rf"{name}\W", r)]
        return bound.partition(">=")[2] + " or newer"
    file, pattern = {
        "rust": ("Cargo.lock", rf'name = "{name}"\nversion = "(.+)"'),
        "go": ("go.mod", rf"{name} v(\S+)"),
        "typescript": ("package-lock.json", rf'node_modules/{name}": {{\s+"version": "(.+)"'),
        "java": ("pom.xml", rf"<artifactId>{name}</artifactId>\s+<version>(.+)</version>"),
    }[language]
    found = re.search(pattern, (HERE / language / file).read_text("utf-8"))
    assert found is not None, f"{file} does not pin {library}"
    return found[1]
