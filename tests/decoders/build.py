"""Builds the decoders, each language by its own tool, once for every state of its sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE / ".build"
"""Where everything goes that is built; git ignores it."""

SECONDS = 600.0
"""How long one tool may take; a first build downloads its libraries."""

MEMORY = 2**20
"""KiB of address space for a program that would allocate whatever a header announces."""


class NotBuiltError(Exception):
    """A tool is not on this machine, so its decoders cannot be built; the text says which."""


@cache
def build(language: str) -> Path:
    """Build all decoders of a language, and say in which folder they are.

    Raises:
        NotBuiltError: A tool is missing.
        AssertionError: A tool failed.
    """
    tools, make = BUILDERS[language]
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise NotBuiltError(f"{' and '.join(missing)} not on PATH")
    source, out = HERE / language, BUILT / language
    with _locked(language):
        out.mkdir(parents=True, exist_ok=True)
        stamp, state = out / "built", _state(source, tools)
        if not stamp.is_file() or stamp.read_text("utf-8") != state:
            stamp.unlink(missing_ok=True)
            make(source, out)
            stamp.write_text(state, "utf-8")
    return out


def rust(program: str) -> list[str]:
    """The command of a Rust decoder."""
    return [str(build("rust") / "release" / program)]


def go(program: str) -> list[str]:
    """The command of a Go decoder, which may not take all of the machine's memory."""
    limited = f'ulimit -v {MEMORY} && GOMAXPROCS=1 exec "$0"'
    return ["sh", "-c", limited, str(build("go") / program)]


def typescript(program: str) -> list[str]:
    """The command of a TypeScript decoder."""
    return ["node", str(build("typescript") / "out" / f"{program}.js")]


def java(program: str) -> list[str]:
    """The command of a Java decoder."""
    out = build("java")
    path = os.pathsep.join([str(out / "classes"), str(out / "lib" / "*")])
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", path, f"decoders.{program}"]


def python(program: str) -> list[str]:
    """The command of a Python decoder, which needs no building."""
    return [sys.executable, str(HERE / "python" / f"{program}.py")]


def crate() -> list[str]:
    """The command of the testee in this repository's own crate."""
    target = HERE.parents[1] / "rust-check"
    manifest = ["--manifest-path", str(target / "Cargo.toml")]
    _run(["cargo", "build", "-q", "--locked", "--features=cli", "--bins", *manifest])
    return [str(target / "target" / "debug" / "loadwire-check"), "decode"]


def _make_rust(source: Path, out: Path) -> None:
    manifest = ["--manifest-path", str(source / "Cargo.toml")]
    _run(["cargo", "build", "-q", "--release", "--locked", *manifest, "--target-dir", str(out)])


def _make_go(source: Path, out: Path) -> None:
    # A checkout without git history, or owned by somebody else, has no version to stamp.
    # Without cgo a thread is small: with it, each takes so much of MEMORY that one more may fail.
    command = ["go", "build", "-buildvcs=false", "-o", f"{out}{os.sep}", "./cmd/..."]
    _run(["env", "CGO_ENABLED=0", *command], source)


def _make_typescript(source: Path, out: Path) -> None:
    # npm and tsc write beside their input.
    for name in ("package.json", "package-lock.json", "tsconfig.json"):
        shutil.copy(source / name, out)
    shutil.copytree(source / "src", out / "src", dirs_exist_ok=True)
    _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], out)
    _run([str(out / "node_modules" / ".bin" / "tsc")], out)


def _make_java(source: Path, out: Path) -> None:
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    pom = ["-f", str(source / "pom.xml")]
    _run(["mvn", "-q", "-B", *pom, copy, f"-DoutputDirectory={out / 'lib'}"])
    files = map(str, sorted(source.rglob("*.java")))
    _run(["javac", "-cp", str(out / "lib" / "*"), "-d", str(out / "classes"), *files])


BUILDERS: dict[str, tuple[tuple[str, ...], Callable[[Path, Path], None]]] = {
    "rust": (("cargo",), _make_rust),
    "go": (("go",), _make_go),
    "typescript": (("node", "npm"), _make_typescript),
    "java": (("java", "javac", "mvn"), _make_java),
}
"""What each language needs on the machine, and how its decoders are made."""


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    output = (done.stdout + done.stderr)[-4000:]
    assert done.returncode == 0, f"{' '.join(command)} answered {done.returncode}:\n{output}"


def _state(source: Path, tools: Sequence[str]) -> str:
    """What was built, and by which tools: changes when anything of it does."""
    state = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file():
            state.update(f"{path.relative_to(source)}\n".encode() + path.read_bytes())
    found = (os.path.realpath(shutil.which(tool) or tool) for tool in tools)
    return state.hexdigest() + "".join(f"\n{tool}" for tool in found)


@contextmanager
def _locked(language: str) -> Iterator[None]:
    """Keeps other processes of the same run from building the same thing at the same time."""
    BUILT.mkdir(exist_ok=True)
    with open(BUILT / f"{language}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
