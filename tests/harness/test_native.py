"""A decoder in a shared library: what loads, what does not, and what each answer means."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loadwire import wire
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness import native
from pytest_loadwire.harness.native import NativeDecoder, NativeUnavailable, build, load
from pytest_loadwire.judge import Crashed, Refused, Taken
from pytest_loadwire.rules import READER_REASONS, Policy
from pytest_loadwire.vectors import load as load_golden
from pytest_loadwire.witness import STRICT, judge_frames, judge_payload

GOLDEN = load_golden()
CHECKOUT = Path(native.__file__).parents[2]
HEADER = CHECKOUT / "rust-check" / "include"

# A decoder that does as the payload says: status, then reason or number of elements.
TOY = """
#include <string.h>
#include "loadwire.h"
#ifndef VERSION
#define VERSION LOADWIRE_ABI_VERSION
#endif
#ifndef NAME
#define NAME "toy 1.0"
#endif
#ifndef ANSWER
#define ANSWER "reject"
#endif
uint32_t loadwire_abi_version(void) { return VERSION; }
#ifndef BARE
const char *loadwire_implementation(void) { return NAME; }
uint32_t loadwire_revision(void) { return 2; }
int32_t loadwire_decode(const uint8_t *payload, size_t len, loadwire_reading *out,
                        loadwire_refusal *refusal) {
    int32_t status = payload[0];
    if (status == LOADWIRE_OK) {
        out->revision = 2;
        out->elements = len < 3 ? payload[1] : payload[1] << 8 | payload[2];
        out->nil_mask = 1 << 5;
        for (int i = 0; i < LOADWIRE_MAX_ELEMENTS; i++) out->values[i] = 100 + i;
    } else {
        refusal->reason = len > 1 ? payload[1] : 0;
        refusal->frame = -1;
        refusal->element = len > 2 ? payload[2] : -1;
        refusal->offset = 9;
    }
    return status;
}
int32_t loadwire_policy(const char *name, char *answer, size_t capacity) {
    (void)name;
    if (strlen(ANSWER) >= capacity) return LOADWIRE_BAD_CALL;
    strcpy(answer, ANSWER);
    return LOADWIRE_OK;
}
#endif
"""

# options of the compiler, what the refusal says
UNUSABLE = [
    (["-DVERSION=2"], "has ABI version 2, this package asks for 1"),
    (["-DVERSION=0"], "has ABI version 0, this package asks for 1"),
    (
        ["-DBARE"],
        "is no loadwire decoder: it lacks " + ", ".join(native.REQUIRED[1:]),
    ),
    (["-DNAME=0"], "does not say what it is: loadwire_implementation"),
    (['-DNAME=""'], "does not say what it is: loadwire_implementation"),
    (['-DNAME=" "'], "does not say what it is: loadwire_implementation"),
]

# what the toy is told, what it means
ANSWERS: list[tuple[str, object]] = [
    ("0106", Refused("bad-type", 9, None, None)),
    ("02", Crashed("the library calls this a bad call")),
    ("03", Crashed("the library panicked")),
    ("09", Crashed("the library answered 9")),
    ("0000ff", Crashed("the library claims to have read 255 elements")),
    ("000021", Crashed("the library claims to have read 33 elements")),
    ("00ffff", Crashed("the library claims to have read 65535 elements")),
    ("0001", Taken({}, 2)),
    ("0000", Taken({}, 2)),
    ("0003", Taken({"num_running_reqs": 101, "num_waiting_reqs": 102}, 2)),
]


@pytest.fixture
def compile_toy(tmp_path: Path) -> Callable[..., Path]:
    """Compiles the toy; skips, with its reason, where there is no C compiler."""
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("NOT RUN: no cc on PATH to compile a decoder in C with")

    def compile_it(*options: str) -> Path:
        source, library = tmp_path / "toy.c", tmp_path / "libtoy.so"
        source.write_text(TOY, "utf-8")
        command = [cc, "-shared", "-fPIC", f"-I{HEADER}", *options, "-o", str(library), str(source)]
        subprocess.run(command, check=True, timeout=60)
        return library

    return compile_it


@pytest.fixture
def fake_cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a cargo on PATH that is a shell script."""

    def put(script: str) -> None:
        cargo = tmp_path / "bin" / "cargo"
        cargo.parent.mkdir()
        cargo.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        cargo.chmod(cargo.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{cargo.parent}{os.pathsep}{os.environ['PATH']}")

    return put


class TestUnavailable:
    """Every reason why there is no decoder says what is wrong."""

    @pytest.mark.parametrize(("options", "says"), UNUSABLE)
    def test_unusable(
        self, compile_toy: Callable[..., Path], options: list[str], says: str
    ) -> None:
        """A library of another version, or with missing functions, is refused by name."""
        library = compile_toy(*options)
        with pytest.raises(NativeUnavailable) as caught:
            NativeDecoder(library)
        assert f"{library} {says}" == str(caught.value)
        assert isinstance(caught.value, LoadwireError)

    def test_no_library(self, tmp_path: Path) -> None:
        """A file that is no library does not load."""
        file = tmp_path / "notes.so"
        file.write_text("not a library", "utf-8")
        with pytest.raises(NativeUnavailable, match=r"notes\.so does not load: "):
            NativeDecoder(file)

    def test_no_file(self, tmp_path: Path) -> None:
        """A path that is not there is named."""
        with pytest.raises(NativeUnavailable, match=r"nowhere\.so does not load: .*[Nn]o such"):
            load(str(tmp_path / "nowhere.so"))

    def test_no_cargo(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without cargo the text says what would help."""
        monkeypatch.setenv("PATH", "")
        with pytest.raises(NativeUnavailable) as caught:
            build()
        expected = (
            "cargo is not on PATH; install Rust, or name a library with --loadwire-native or"
            " LOADWIRE_NATIVE"
        )
        assert expected == str(caught.value)

    def test_no_checkout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An installed wheel has no crate to build."""
        monkeypatch.setattr(native, "__file__", str(tmp_path / "a" / "b" / "native.py"))
        with pytest.raises(NativeUnavailable, match=r"no source checkout .*name a library with"):
            build()

    def test_failing_build(self, fake_cargo: Callable[[str], None]) -> None:
        """A build that fails shows what cargo said."""
        fake_cargo("echo 'error: linker not found' >&2; exit 101")
        with pytest.raises(NativeUnavailable, match="cargo build failed:\nerror: linker not found"):
            build()

    def test_slow_build(
        self, fake_cargo: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A build has a deadline."""
        fake_cargo("exec sleep 30")
        monkeypatch.setattr(native, "BUILD_SECONDS", 0.1)
        with pytest.raises(NativeUnavailable, match="cargo build took more than 0 s"):
            build()

    def test_no_artifact(self, fake_cargo: Callable[[str], None]) -> None:
        """A build that makes no shared library is no build."""
        fake_cargo("""echo '{"filenames": ["/x/libloadwire_check.rlib"]}'; echo '{"success": 1}'""")
        with pytest.raises(NativeUnavailable, match=r"made no shared library of .*Cargo\.toml"):
            build()

    def test_artifact(self, fake_cargo: Callable[[str], None]) -> None:
        """The library is where cargo says it is."""
        fake_cargo("""echo '{"filenames": ["/x/a.rlib", "/x/a.so"]}'; echo '{"success": 1}'""")
        assert Path("/x/a.so") == build()


class TestToy:
    """What a foreign library may do, and what is made of it."""

    def test_identity(self, compile_toy: Callable[..., Path]) -> None:
        """A library with the required functions is enough."""
        library = compile_toy()
        decoder = NativeDecoder(library)
        assert ("toy 1.0", "toy", 2) == (decoder.implementation, decoder.name, decoder.revision)
        assert (library, frozenset()) == (decoder.path, decoder.offers)

    def test_relative_path(
        self, compile_toy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name without a folder is a file here, and not one of the system's libraries."""
        library = compile_toy()
        monkeypatch.chdir(library.parent)
        assert NativeDecoder(Path(library.name)).name == "toy"

    @pytest.mark.parametrize(("payload", "outcome"), ANSWERS)
    def test_answer(self, compile_toy: Callable[..., Path], payload: str, outcome: object) -> None:
        """Each status is an outcome, and a wild number is never believed."""
        assert outcome == NativeDecoder(compile_toy()).decode(bytes.fromhex(payload))

    def test_reasons(self, compile_toy: Callable[..., Path]) -> None:
        """The numbers of the reasons are those of the header, from 1."""
        decoder = NativeDecoder(compile_toy())
        for number, reason in enumerate(READER_REASONS, 1):
            outcome = decoder.decode(bytes([1, number, 4]))
            assert isinstance(outcome, Refused)
            assert (reason, 4) == (outcome.reason, outcome.element)
        assert [reason.value for reason in READER_REASONS] == header_reasons()
        for number in (0, 13, 255):
            outcome = decoder.decode(bytes([1, number]))
            assert isinstance(outcome, Refused)
            assert f"code {number}" == outcome.reason

    def test_reading(self, compile_toy: Callable[..., Path]) -> None:
        """Values have their names, nil is None, and elements that nobody knows keep a number."""
        outcome = NativeDecoder(compile_toy()).decode(bytes([0, 13]))
        assert isinstance(outcome, Taken)
        expected: dict[str, int | None] = {
            name: 100 + element for element, name in enumerate(wire.field_names(), 1)
        }
        expected |= {"attn_dp_rank": None, "element_11": 111, "element_12": 112}
        assert expected == outcome.reading

    def test_lacking_functions(
        self, compile_toy: Callable[..., Path], reading: wire.LoadStatRev2
    ) -> None:
        """What an optional function is for is not run without it, and says so."""
        decoder = NativeDecoder(compile_toy())
        assert Crashed("the library reads revision 2 only") == decoder.decode(b"\x00\x0b", 1)
        lacking = Crashed("the library does not offer loadwire_parse_frames")
        assert lacking == decoder.parse_frames([b"load", bytes(8), b"\x00\x0b"])
        with pytest.raises(NativeUnavailable, match="does not offer loadwire_encode"):
            decoder.encode(reading)

    @pytest.mark.parametrize(
        ("answer", "declared"),
        [
            ("reject", set(Policy) - {Policy.PARTIAL_TAIL}),
            ("accept", set(Policy) - {Policy.PARTIAL_TAIL}),
            ("older", {Policy.PARTIAL_TAIL}),
            ("perhaps", set()),
            ("", set()),
            (r"\xff\xfe", set()),
            ("reject, but not always", set()),
        ],
    )
    def test_policies(
        self, compile_toy: Callable[..., Path], answer: str, declared: set[Policy]
    ) -> None:
        """Only an answer that the policy has counts as declared."""
        decoder = NativeDecoder(compile_toy(f'-DANSWER="{answer}"'))
        assert dict.fromkeys(declared, answer) == decoder.policies


def header_reasons() -> list[str]:
    """The names of the header's enum, as this package spells them."""
    text = (HEADER / "loadwire.h").read_text("utf-8")
    body = text.split("enum loadwire_reason {")[1].split("}")[0]
    names = [line.split("=")[0].strip() for line in body.splitlines() if "=" in line]
    return [name.removeprefix("LOADWIRE_").lower().replace("_", "-") for name in names]


class TestRust:
    """The crate of this checkout; not run, with the reason, where it cannot be built."""

    def test_identity(self, loadwire_native: NativeDecoder) -> None:
        """It says who it is, offers everything, and declares the policies of `wire.decode`."""
        assert loadwire_native.name == "loadwire-check"
        assert wire.LATEST == loadwire_native.revision
        assert set(native.OPTIONAL) == loadwire_native.offers
        assert STRICT == loadwire_native.policies

    def test_vectors(self, loadwire_native: NativeDecoder) -> None:
        """It agrees with every vector, by place too, as a reader of either revision."""
        found = [f for v in GOLDEN.payloads for f in judge_payload(loadwire_native, v)]
        found += [f for v in GOLDEN.frames for f in judge_frames(loadwire_native, v)]
        assert [] == found

    def test_encode(self, loadwire_native: NativeDecoder) -> None:
        """It makes every canonical payload again."""
        canonical = [v for v in GOLDEN.payloads if v.engine is not None]
        assert canonical
        for vector in canonical:
            stat = wire.decode(vector.payload)
            assert vector.hex == loadwire_native.encode(stat).hex()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("num_tokens", -1),
            ("num_tokens", 2**64),
            ("num_tokens", None),
            ("num_tokens", 7.0),
            ("num_tokens", "7"),
            ("total_prefill_busy_us", None),
            ("attn_dp_rank", -1),
        ],
    )
    def test_encode_no_count(
        self,
        loadwire_native: NativeDecoder,
        reading: wire.LoadStatRev2,
        name: str,
        value: Any,
    ) -> None:
        """What is no count does not reach the wire."""
        broken = msgspec.structs.replace(reading, **{name: value})
        with pytest.raises(LoadwireError):
            loadwire_native.encode(broken)

    @pytest.mark.parametrize("revision", [None, 1, 2])
    def test_revisions(
        self,
        loadwire_native: NativeDecoder,
        reading: wire.LoadStatRev2,
        revision: int | None,
    ) -> None:
        """It reads as the newest revision unless one is named, messages too."""
        expected = wire.decode(wire.encode(reading), revision=revision or 2)
        taken = Taken(wire.to_dict(expected), wire.revision_of(expected))
        assert taken == loadwire_native.decode(wire.encode(reading), revision)
        frames = wire.build_frames(7, reading)
        assert taken._replace(sequence=7) == loadwire_native.parse_frames(frames, revision)

    def test_unknown_revision(
        self, loadwire_native: NativeDecoder, reading: wire.LoadStatRev2
    ) -> None:
        """A revision that it does not know is no refusal of the bytes."""
        bad_call = Crashed("the library calls this a bad call")
        assert bad_call == loadwire_native.decode(wire.encode(reading), 3)
        assert bad_call == loadwire_native.parse_frames(wire.build_frames(7, reading), 3)

    @pytest.mark.parametrize("count", [0, 1, 2, 4, 100])
    @pytest.mark.parametrize("revision", [1, 2])
    def test_frame_count(self, loadwire_native: NativeDecoder, count: int, revision: int) -> None:
        """Any number of frames, empty ones too, is taken without harm."""
        outcome = loadwire_native.parse_frames([b""] * count, revision)
        assert Refused("frame-count") == outcome

    def test_loaded_once(self, loadwire_native: NativeDecoder) -> None:
        """The library is loaded once a process."""
        assert load() is load()


def test_build_at_the_same_time(loadwire_native: NativeDecoder, tmp_path: Path) -> None:
    """Several processes that ask at once share one build from nothing."""
    code = "from pytest_loadwire.harness import native; print(native.build())"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    done = [worker.communicate(timeout=300) for worker in workers]
    assert [("", 0)] * 3 == [
        (err, worker.returncode) for (_, err), worker in zip(done, workers, strict=True)
    ]
    (library,) = {out.strip() for out, _ in done}
    assert NativeDecoder(Path(library)).implementation == loadwire_native.implementation
