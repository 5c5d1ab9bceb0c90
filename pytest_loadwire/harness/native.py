"""A decoder in a shared library with the C ABI of ``loadwire.h``, loaded through cffi.

The Rust crate of this project is one such library; a decoder in C, C++ or Go can be another. In a
source checkout the crate is built on demand with cargo, whose own lock makes one build of it,
however many processes ask.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.judge import Crashed, Refused, Taken
from pytest_loadwire.rules import POLICY_ANSWERS, READER_REASONS, Policy
from pytest_loadwire.wire import LoadStat, encode, field_names, revision_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_loadwire.judge import Outcome
    from pytest_loadwire.wire import LoadStatRev1

ABI_VERSION = 1
"""The version of ``loadwire.h`` that this module was made for."""

MAX_ELEMENTS = 32
"""Room for array elements in a reading of ``loadwire.h``, the tag included."""

REQUIRED = (
    "loadwire_abi_version",
    "loadwire_implementation",
    "loadwire_revision",
    "loadwire_decode",
    "loadwire_policy",
)
OPTIONAL = ("loadwire_decode_as", "loadwire_parse_frames", "loadwire_encode")

BUILD_SECONDS = 600.0
"""How long cargo may take; a first build downloads one small crate."""

_OK, _REFUSED = 0, 1


class NativeUnavailable(LoadwireError):  # noqa: N818 - it is a state, and named after it
    """There is no native decoder to check with; the text says why, and what would help."""


class NativeDecoder:
    """One loaded library. It is a witness: `decode` and `parse_frames` never raise for bad bytes.

    Attributes:
        path: The library.
        implementation: What the library calls itself, name and version.
        revision: The newest revision that it reads.
        policies: What it declares where the contract leaves a choice.
        offers: The optional functions that it has.
    """

    def __init__(self, path: Path) -> None:
        """Load a library and check its version before anything else is called.

        Raises:
            NativeUnavailable: It does not load, lacks a required function, or has another version.
        """
        from pytest_loadwire.harness import _abi  # noqa: PLC0415 - cffi only where it is used

        self.path = path
        ffi: Any = _abi.ffi
        self._ffi = ffi
        try:
            # A name without a folder would be looked for among the system's libraries.
            self._lib = ffi.dlopen(str(path.absolute()))
        except OSError as error:
            raise NativeUnavailable(f"{path} does not load: {error}") from error
        lacking = [name for name in REQUIRED if not self._has(name)]
        if lacking:
            raise NativeUnavailable(f"{path} is no loadwire decoder: it lacks {', '.join(lacking)}")
        version = self._lib.loadwire_abi_version()
        if version != ABI_VERSION:
            raise NativeUnavailable(
                f"{path} has ABI version {version}, this package asks for {ABI_VERSION}"
            )
        implementation = self._lib.loadwire_implementation()
        if not implementation or not ffi.string(implementation).strip():
            raise NativeUnavailable(f"{path} does not say what it is: loadwire_implementation")
        self.implementation: str = ffi.string(implementation).decode("utf-8", "replace")
        self.revision: int = self._lib.loadwire_revision()
        self.offers = frozenset(name for name in OPTIONAL if self._has(name))
        self.policies: Mapping[Policy, str] = {
            policy: answer for policy in Policy if (answer := self._policy(policy)) is not None
        }
        self._reading = ffi.new("loadwire_reading *")
        self._refusal = ffi.new("loadwire_refusal *")
        self._sequence = ffi.new("int64_t *")

    @property
    def name(self) -> str:
        """What a table calls it."""
        return self.implementation.split()[0]

    @property
    def reads_frames(self) -> bool:
        """Whether it takes whole messages as well as payloads."""
        return "loadwire_parse_frames" in self.offers

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:
        """Read one payload, as a reader of the library's newest revision unless one is named."""
        if revision in (None, self.revision):
            status = self._lib.loadwire_decode(payload, len(payload), self._reading, self._refusal)
        elif "loadwire_decode_as" not in self.offers:
            return Crashed(f"the library reads revision {self.revision} only")
        else:
            status = self._lib.loadwire_decode_as(
                payload, len(payload), revision, self._reading, self._refusal
            )
        return self._outcome(status)

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        """Read one message, as a reader of the library's newest revision unless one is named.

        The C ABI parses frames for the newest revision. For an older one the frames are parsed
        around a good payload, and the payload is decoded as that revision.
        """
        if "loadwire_parse_frames" not in self.offers:
            return Crashed("the library does not offer loadwire_parse_frames")
        older = revision not in (None, self.revision)
        parts = (*frames[:2], _GOOD) if older and len(frames) == 3 else tuple(frames)
        buffers = [self._ffi.from_buffer("uint8_t[]", part) for part in parts]
        status = self._lib.loadwire_parse_frames(
            self._ffi.new("uint8_t *[]", buffers),
            self._ffi.new("size_t[]", [len(part) for part in parts]),
            len(parts),
            self._sequence,
            self._reading,
            self._refusal,
        )
        outcome = self._outcome(status)
        if isinstance(outcome, Taken):
            outcome = outcome._replace(sequence=self._sequence[0])
            if older:
                inner = self.decode(frames[2], revision)
                if isinstance(inner, Refused):
                    return inner._replace(frame=2)
                if isinstance(inner, Taken):
                    return inner._replace(sequence=outcome.sequence)
                return inner
        return outcome

    def encode(self, stat: LoadStatRev1) -> bytes:
        """The library's canonical bytes of a reading.

        Raises:
            NativeUnavailable: The library does not encode.
            LoadwireError: It refused the call, or a value is no 64-bit count.
        """
        if "loadwire_encode" not in self.offers:
            raise NativeUnavailable(f"{self.path} does not offer loadwire_encode")
        values = [getattr(stat, name) for name in stat.__struct_fields__]
        reading = self._ffi.new("loadwire_reading *")
        reading.revision = revision_of(stat)
        reading.elements = 1 + len(values)
        for element, value in enumerate(values, 1):
            if value is None:
                reading.nil_mask |= 1 << element
                continue
            try:
                reading.values[element] = value
            except (OverflowError, TypeError) as error:
                raise LoadwireError(f"element {element} is no count: {error}") from error
        buffer = self._ffi.new("uint8_t[]", 256)
        written = self._ffi.new("size_t *")
        status = self._lib.loadwire_encode(reading, buffer, len(buffer), written)
        if status != _OK:
            raise LoadwireError(f"loadwire_encode of {self.path} answered {status}")
        return bytes(self._ffi.buffer(buffer, written[0]))

    def _has(self, function: str) -> bool:
        try:
            getattr(self._lib, function)
        except (AttributeError, self._ffi.error):  # the second one of out-of-line modules
            return False
        return True

    def _policy(self, policy: Policy) -> str | None:
        answer = self._ffi.new("char[]", 16)
        status = self._lib.loadwire_policy(policy.value.encode(), answer, len(answer))
        text = self._ffi.string(answer).decode("utf-8", "replace")
        return text if status == _OK and text in POLICY_ANSWERS[policy] else None

    def _outcome(self, status: int) -> Outcome:
        if status == _OK:
            reading = self._reading[0]
            if reading.elements > MAX_ELEMENTS:
                return Crashed(f"the library claims to have read {reading.elements} elements")
            names = field_names()
            values = self._ffi.unpack(reading.values, reading.elements)
            return Taken(
                {
                    names[element - 1] if element <= len(names) else f"element_{element}": None
                    if reading.nil_mask >> element & 1
                    else values[element]
                    for element in range(1, reading.elements)
                },
                reading.revision,
            )
        if status == _REFUSED:
            refusal = self._refusal[0]
            known = 1 <= refusal.reason <= len(READER_REASONS)
            return Refused(
                READER_REASONS[refusal.reason - 1].value if known else f"code {refusal.reason}",
                None
                if refusal.frame in (0, 1) or refusal.reason == _FRAME_COUNT
                else refusal.offset,
                _or_none(refusal.element),
                _or_none(refusal.frame),
            )
        return Crashed(
            {2: "the library calls this a bad call", 3: "the library panicked"}.get(
                status, f"the library answered {status}"
            )
        )


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


_FRAME_COUNT = 1 + [reason.value for reason in READER_REASONS].index("frame-count")

_GOOD = encode(
    LoadStat(
        num_running_reqs=1,
        num_waiting_reqs=2,
        num_tokens=3,
        max_total_num_tokens=4,
        attn_dp_rank=5,
        num_waiting_uncached_tokens=6,
        num_total_tokens=7,
        max_running_requests=8,
        total_prefill_uncached_tokens=9,
        total_prefill_busy_us=10,
    )
)


@cache
def load(path: str | None = None) -> NativeDecoder:
    """The named library, or the crate of this source checkout, built with cargo if need be.

    Raises:
        NativeUnavailable: There is neither a library nor a way to build one.
    """
    return NativeDecoder(Path(path) if path is not None else build())


def build() -> Path:
    """Build the crate's library in this source checkout and say where it is.

    Raises:
        NativeUnavailable: This is no source checkout, there is no cargo, or the build fails.
    """
    manifest = Path(__file__).resolve().parents[2] / "rust-check" / "Cargo.toml"
    advice = "name a library with --loadwire-native or LOADWIRE_NATIVE"
    if not manifest.is_file():
        raise NativeUnavailable(f"no source checkout with the Rust crate; {advice}")
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NativeUnavailable(f"cargo is not on PATH; install Rust, or {advice}")
    command = [cargo, "build", "--locked", "--release", "--lib"]
    told = ["--message-format=json-render-diagnostics", "--manifest-path", str(manifest)]
    try:
        done = subprocess.run(  # noqa: S603 - cargo, found on PATH, on our own manifest
            [*command, *told],
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NativeUnavailable(f"cargo build took more than {BUILD_SECONDS:.0f} s") from error
    if done.returncode:
        raise NativeUnavailable(f"cargo build failed:\n{done.stderr[-2000:]}")
    for line in reversed(done.stdout.splitlines()):
        for name in json.loads(line).get("filenames", ()):
            if Path(name).suffix in (".so", ".dylib", ".dll"):
                return Path(name)
    raise NativeUnavailable(f"cargo build made no shared library of {manifest}")
