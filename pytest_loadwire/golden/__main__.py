"""``python -m pytest_loadwire.golden``: check, rewrite or release the vectors."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_loadwire.golden import native_abi
from pytest_loadwire.golden.address_proofs import unproven_addresses
from pytest_loadwire.golden.build import RUST_TABLE, build, revisions, with_vector_lines
from pytest_loadwire.golden.freeze import breaks, field_breaks, released
from pytest_loadwire.golden.proofs import unproven
from pytest_loadwire.vectors import (
    RELEASED,
    VECTOR_TYPES,
    WHEEL_FOLDER,
    GoldenError,
    VectorFile,
    folder,
    read_json,
)
from pytest_loadwire.vectors.addresses import AddressVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.golden.build import Built


def main(
    arguments: Sequence[str] | None = None, *, prog: str = "python -m pytest_loadwire.golden"
) -> int:
    """Run the command; 0 for agreement, 1 for a difference or refusal, 2 for a wrong call.

    Args:
        arguments: By default those of this process.
        prog: What the command is called in its usage.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Make the golden vectors from their families, prove them, compare or write.",
        epilog=f"""Exit status 0: the files agree, or were written. 1: they differ, or what would be
written breaks a released contract. 2: a wrong call, or a damaged folder.

Example:
  {prog} --check
  {prog} --write
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", action="store_true", help="fail on any difference; write nothing"
    )
    action.add_argument("--write", action="store_true", help="rewrite what is derived")
    action.add_argument(
        "--release",
        metavar="VERSION",
        help="rewrite, and freeze every field and vector as released with VERSION",
    )
    parser.add_argument(
        "--root", type=Path, help="the golden folder (default: that of this source checkout)"
    )
    options = parser.parse_args(arguments)
    try:
        root: Path = options.root or folder()
        if not options.check and root.resolve().name == WHEEL_FOLDER:
            raise GoldenError(
                "an installed package's vectors are not written; use a source checkout or --root"
            )
        problems = regenerate(root, write=not options.check, release=options.release)
    except GoldenError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a command
        return 2
    for problem in problems:
        print(problem)  # noqa: T201
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        print(f"golden: {count}, nothing written")  # noqa: T201
        return 1
    state = "as generated" if options.check else "written"
    print(f"golden: {root} is {state}")  # noqa: T201
    return 0


def regenerate(root: Path, *, write: bool, release: str | None = None) -> list[str]:
    """Make everything anew under ``root`` and compare or write it.

    Args:
        root: A golden folder with a README.md; the Rust table is looked for beside the folder.
        write: Whether to write. Nothing is written when there is any problem.
        release: Freeze the result under this version as well.

    Returns:
        The problems, one sentence each: what does not prove itself, what would break a released
        contract, and with ``write=False`` what differs from the files.

    Raises:
        GoldenError: The folder is missing, or a file that regeneration reads is damaged.
    """
    if not root.is_dir():
        raise GoldenError(f"{root} is no folder")
    frozen_file = root / RELEASED
    frozen = read_json(frozen_file, dict[str, Any]) if frozen_file.exists() else None
    if frozen is not None:
        broken = list(map(str, field_breaks(frozen, revisions())))
        if broken:  # and with it every vector, or the families that make them
            return broken
    built = build()
    problems = list(unproven(built.payloads, built.frames))
    problems += unproven_addresses([v for v in built.vectors if isinstance(v, AddressVector)])
    if frozen is not None:
        problems += map(str, breaks(frozen, built.manifest["revisions"], built.vectors))
    files = {root / name: content for name, content in built.files.items()}
    readme = root / "README.md"
    if readme.exists():
        files[readme] = with_vector_lines(readme.read_text("utf-8"), built.vectors).encode()
    rust_table = root.parent / RUST_TABLE
    if rust_table.parent.is_dir():
        files[rust_table] = built.rust.encode()
    header = root.parent / native_abi.HEADER
    if header.is_file():
        files[root.parent / native_abi.MODULE] = native_abi.render(header.read_text("utf-8"))
    if release is not None:
        freeze = released(release, built.manifest["revisions"], built.vectors)
        files[frozen_file] = (json.dumps(freeze, indent=1) + "\n").encode()
    if write:
        if not problems:
            for path, content in files.items():
                path.write_bytes(content)
        return problems
    for path, content in files.items():
        if not path.exists() or path.read_bytes() != content:
            problems += _differences(path, built)
    return problems


def _differences(path: Path, built: Built) -> Iterator[str]:
    """How one file differs from what is generated, by vector where it holds vectors."""
    vectors = built.subjects.get(path.stem, ())
    found = False
    if vectors and path.exists():
        kind: Any = VECTOR_TYPES[path.stem]
        there = {v.id: v for v in read_json(path, VectorFile[kind]).vectors}
        for vector in vectors:
            old = there.pop(vector.id, None)
            if old != vector:
                found = True
                state = "is missing" if old is None else "differs from what is generated"
                yield f"{vector.rule} {path.name}: {vector.id} {state}"
        for vector_id, old in there.items():
            found = True
            yield f"{old.rule} {path.name}: {vector_id} is not generated by any family"
    if not found:
        yield f"{path.name} differs from what is generated; run with --write"


if __name__ == "__main__":
    raise SystemExit(main())
