"""The cffi module for the C ABI, made from ``loadwire.h``.

Out of line and in ABI mode: the header is parsed here, once, and what is committed loads without
cffi's parser and without a compiler.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

import cffi

HEADER = Path("rust-check/include/loadwire.h")
"""The header, relative to the repository."""

MODULE = Path("pytest_loadwire/harness/_abi.py")
"""The generated module, relative to the repository."""


def declarations(header: str) -> str:
    """The header as cffi's parser takes it: without comments, guards and what is for C++."""
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    plain = re.sub(r"#ifdef __cplusplus.*?#endif", "", plain, flags=re.DOTALL)
    kept = [
        line
        for line in plain.splitlines()
        if line.strip() and (not line.startswith("#") or re.match(r"#define \w+ \d+$", line))
    ]
    return "\n".join(kept)


def render(header: str) -> bytes:
    """The source of the module for a header."""
    builder = cffi.FFI()
    builder.cdef(declarations(header))
    builder.set_source("pytest_loadwire.harness._abi", None)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "_abi.py"
        with contextlib.redirect_stdout(io.StringIO()):  # cffi tells where it writes
            builder.emit_python_code(str(made))
        return made.read_bytes()
