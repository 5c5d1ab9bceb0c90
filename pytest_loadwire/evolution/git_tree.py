"""A golden folder as git has it, without a checkout.

Everything is read from git's own store: no working tree is touched, no index, no lock, and no hook
or filter runs. What a user typed is never taken for an option of git.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from pytest_loadwire.errors import LoadwireError

SECONDS = 60.0
"""How long one question to git may take."""

MANIFEST = "manifest.json"
"""The file that a golden folder is known by."""


class GitError(LoadwireError):
    """git cannot say what was asked for; the text says why, and what helps."""


class Tree(NamedTuple):
    """A golden folder of one commit.

    Attributes:
        commit: The commit, abbreviated.
        path: The folder, relative to the top of the repository.
        files: The files right in it, by name.
    """

    commit: str
    path: str
    files: dict[str, bytes]


def read_tree(name: str, cwd: Path) -> Tree:
    """The golden folder of a revision.

    Args:
        name: A revision as git spells it, with ``:path/to/golden`` behind it where a commit has
            several golden folders.
        cwd: A folder of the repository.

    Raises:
        GitError: No git, no repository, no such revision, or not exactly one golden folder.
    """
    try:
        _git(["rev-parse", "--git-dir"], cwd)
    except _SaidNoError as error:
        raise GitError(
            f"{name!r} is no folder, and {cwd} is in no repository of git: {error}"
        ) from None
    revision, colon, path = name.partition(":")
    commit = _commit(revision, cwd)
    short = _git(["rev-parse", "--short", commit], cwd).decode().strip()
    if colon:
        prefix = _git(["rev-parse", "--show-prefix"], cwd).decode().strip()
        path = os.path.normpath(prefix + path if path.startswith((".", "..")) else path)
        folder = "" if path == "." else path.strip("/")
    else:
        folder = _the_folder(commit, name, cwd)
    files = {
        Path(file).name: blob
        for file, blob in _listing(commit, cwd).items()
        if str(Path(file).parent) == (folder or ".")
    }
    if MANIFEST not in files:
        raise GitError(f"{name!r}: {folder or '.'} has no {MANIFEST} in {short}")
    wanted = {n: b for n, b in files.items() if n.endswith((".json", ".md"))}
    contents = _blobs(list(wanted.values()), cwd)
    return Tree(short, folder or ".", dict(zip(wanted, contents, strict=True)))


def top(cwd: Path) -> Path:
    """The top of the working tree that ``cwd`` is in.

    Raises:
        GitError: There is no git, or no repository.
    """
    try:
        return Path(_git(["rev-parse", "--show-toplevel"], cwd).decode().rstrip("\n"))
    except _SaidNoError as error:
        raise GitError(f"{cwd} is in no working tree of git: {error}") from None


def changed(path: str, cwd: Path) -> list[str]:
    """Files below a path, relative to the top, that differ from HEAD or are not in git."""
    said = _git(["status", "--porcelain", "-z", "--", f":(top,literal){path}"], cwd).decode()
    return [entry[3:] for entry in said.split("\0") if len(entry) > 3]


class _SaidNoError(GitError):
    """git ran and ended with an error."""


def _commit(revision: str, cwd: Path) -> str:
    why = f"no revision {revision!r} in this repository"
    if revision.startswith("-"):
        raise GitError(f"{why}: no name of a revision begins with '-'")
    if not revision or "\0" in revision:
        raise GitError(f"{why}: a branch, a tag or a commit is expected, such as v0.1.0 or HEAD~3")
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        return _git(asked, cwd).decode().strip()
    except _SaidNoError:
        pass
    if _git(["rev-parse", "--is-shallow-repository"], cwd).strip() == b"true":
        raise GitError(
            f"{why}, which is a shallow clone: fetch the history and the tags first"
            " (git fetch --unshallow --tags; fetch-depth: 0 for actions/checkout)"
        )
    raise GitError(f"{why}: neither a folder nor a branch, tag or commit (git fetch --tags?)")


def _the_folder(commit: str, name: str, cwd: Path) -> str:
    """The one golden folder of a commit: a manifest that has revisions and vector files."""
    named = {f: blob for f, blob in _listing(commit, cwd).items() if Path(f).name == MANIFEST}
    contents = _blobs(list(named.values()), cwd)
    found = [
        str(Path(file).parent)
        for file, content in zip(named, contents, strict=True)
        if _is_manifest(content)
    ]
    if "golden" in found:
        return "golden"
    if len(found) == 1:
        return found[0]
    if not found:
        raise GitError(f"{name!r} has no golden folder: no {MANIFEST} with revisions and files")
    choices = " or ".join(f"{name}:{folder}" for folder in sorted(found))
    raise GitError(f"{name!r} has {len(found)} golden folders; say which: {choices}")


def _is_manifest(content: bytes) -> bool:
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and {"revisions", "files"} <= manifest.keys()


def _listing(commit: str, cwd: Path) -> dict[str, str]:
    """Every file of a commit with its blob; links and submodules are none."""
    entries = _git(["ls-tree", "-r", "-z", "--full-tree", commit], cwd)
    listing = {}
    for entry in filter(None, entries.decode("utf-8", "surrogateescape").split("\0")):
        about, _, file = entry.partition("\t")
        mode, kind, blob = about.split(" ")
        if kind == "blob" and mode.startswith("100"):
            listing[file] = blob
    return listing


def _blobs(names: list[str], cwd: Path) -> list[bytes]:
    """The contents of many blobs, by one process: a large repository has many manifests."""
    said = _git(["cat-file", "--batch"], cwd, "".join(f"{name}\n" for name in names).encode())
    contents = []
    at = 0
    for _ in names:
        begin = said.index(b"\n", at) + 1
        about = said[at:begin].decode().split()
        if len(about) < 3:
            raise GitError(f"git has no content for {' '.join(about)}; is this a partial clone?")
        size = int(about[2])
        contents.append(said[begin : begin + size])
        at = begin + size + 1
    return contents


def _git(arguments: list[str], cwd: Path, asked: bytes = b"") -> bytes:
    # A user's settings may page, colour or translate; GIT_DIR and the like stay, as git means them.
    plain = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and names are checked before they come here
            ["git", *arguments],  # noqa: S607 - the git of whoever asks
            cwd=cwd,
            env=plain,
            input=asked,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not on PATH, so only folders can be compared") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} did not answer within {SECONDS:g} s") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise _SaidNoError(said or f"git {arguments[0]} ended with status {done.returncode}")
    return done.stdout
