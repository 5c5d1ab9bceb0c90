"""The form of a report: runs of implementations by rule and case, and how it is written.

Nothing but the standard library: a run that asks for JSON pays for nothing else. The JSON Schema of
the same form is ``report.schema.json`` beside this module.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pytest_loadwire import __version__
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FORMAT, VERSION = "loadwire-report", 1
"""What a report says of itself, so that another file is not taken for one."""

NO_RULE = "-"
"""The rule of a test that is about no single one, such as that of a class's declarations."""

SCHEMA = Path(__file__).with_name("report.schema.json")
"""The JSON Schema of a report."""

MOST_CHARACTERS = 2000
"""A text is cut behind so many; a report of a run that goes all wrong still opens."""

MOST_NOTES = 80
"""So many notes of a case are kept; the longest timeline has fewer."""

MOST_BYTES = 4096
"""So many bytes of a frame are kept, many times the longest load message."""

_SHOWN = ("msgpack", "msgspec", "pytest", "sglang", "xdist", "zmq")
_DISTRIBUTION = {"zmq": "pyzmq", "xdist": "pytest-xdist"}

Outcome = Literal["failed", "declared", "stale", "skipped"]
"""What became of a case that did not pass: it failed; deviates as declared; conforms although a
deviation is declared; or was not judged."""

UNDECLARED: tuple[Outcome, ...] = ("failed", "stale")
"""The outcomes for which a run is not conforming."""


class ReportError(LoadwireError):
    """A report cannot be written, read or merged; the message says which file, and where."""


class Found(TypedDict):
    """A `judge.Finding` in a report."""

    rule: str
    deed: str
    expected: str
    got: str
    hazard: str


class Bytes(TypedDict):
    """The bytes that a finding is about, as hex.

    Attributes:
        frames: One payload, or the frames of a message.
        message: Whether they are a message.
        against: The payload that it should have been, or None.
    """

    frames: list[str]
    message: bool
    against: str | None


class Case(TypedDict):
    """One case that did not pass.

    Attributes:
        rule: The rule that it is about, or `NO_RULE`.
        case: Its id.
        outcome: What became of it.
        why: Why there is such a case.
        text: The reason of a skip or a declaration, or how a test failed that judged nothing.
        finding: What is wrong, or None.
        bytes: The bytes it is about, or None.
        notes: What happened on the way.
        test: The id of the test in its run.
    """

    rule: str
    case: str
    outcome: Outcome
    why: str
    text: str
    finding: Found | None
    bytes: Bytes | None
    notes: list[str]
    test: str


class Declared(TypedDict):
    """A declared deviation."""

    rule: str
    deed: str
    reason: str
    cases: list[str]


class Part(TypedDict):
    """One test class of an implementation, or its testee.

    Attributes:
        name: The class with its module, or the program.
        contract: What it was held to, as ``WireContract``.
        revision: The newest revision that it claims, or None where it does not say.
        policies: What it declares where the contract leaves a choice.
        deviations: What it declares to get wrong.
    """

    name: str
    contract: str
    revision: int | None
    policies: dict[str, str]
    deviations: list[Declared]


class Implementation(TypedDict):
    """One column of the matrix.

    Attributes:
        name: What it is called.
        version: Its version, or "".
        side: ``engine``, ``router`` or ``both``.
        parts: The classes that held it to the contract.
        passed: By rule the ids of the cases that passed.
        cases: All other cases.
    """

    name: str
    version: str
    side: str
    parts: list[Part]
    passed: dict[str, list[str]]
    cases: list[Case]


class NotRun(TypedDict):
    """What was not run, and why."""

    what: str
    why: str


class Run(TypedDict):
    """One run.

    Attributes:
        name: What it is called.
        kind: ``pytest`` or ``testee``.
        command: The command that does it again.
        started: When, as ISO 8601 in UTC.
        seconds: How long it took.
        vectors: The content hash of its vectors.
        versions: The versions of what took part.
        problems: What went wrong beside the cases, such as a crashed worker.
        not_run: What was not run.
        implementations: What was tested.
    """

    name: str
    kind: Literal["pytest", "testee"]
    command: str
    started: str
    seconds: float
    vectors: str
    versions: dict[str, str]
    problems: list[str]
    not_run: list[NotRun]
    implementations: list[Implementation]


class Report(TypedDict):
    """Runs, side by side.

    Attributes:
        format: `FORMAT`.
        version: `VERSION`.
        ok: Whether nothing failed that is not declared, and nothing went wrong beside it.
        mixed: Whether the runs had different vectors.
        runs: The runs.
    """

    format: str
    version: int
    ok: bool
    mixed: bool
    runs: list[Run]


def report_of(runs: Iterable[Run]) -> Report:
    """The report of these runs."""
    kept = list(runs)
    fails = any(
        run["problems"]
        or any(
            case["outcome"] in UNDECLARED for one in run["implementations"] for case in one["cases"]
        )
        for run in kept
    )
    mixed = len({run["vectors"] for run in kept}) > 1
    return {"format": FORMAT, "version": VERSION, "ok": not fails, "mixed": mixed, "runs": kept}


def bytes_of(
    frames: Sequence[bytes], *, message: bool, against: bytes | None = None
) -> Bytes | None:
    """Bytes for a report; None where there are none."""
    if not frames and against is None:
        return None
    try:
        return {
            "frames": [_hex(frame) for frame in frames],
            "message": message,
            "against": None if against is None else _hex(against),
        }
    except TypeError:  # an encoder may return anything, and the finding says so
        return None


def _hex(frame: bytes) -> str:
    return bytes(memoryview(frame)[:MOST_BYTES]).hex()


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text of at most about so many characters, that says how much it lacks."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} [... {len(text) - most} characters ...] {text[-end:]}"


def rules_of(test_id: str) -> tuple[list[str], str]:
    """The rules and the case that the parameters of a contract test name.

    Example:
        >>> rules_of("W3-rev2-golden-a")
        (['W3'], 'rev2-golden-a')
        >>> rules_of("F1-F3-S1")
        (['F1', 'F2', 'F3', 'S1'], 'all')
        >>> rules_of("no-binds")
        (['-'], 'no-binds')
    """
    parts = test_id.split("-")
    if all(part in RULES for part in parts):
        rules: list[str] = []
        for part in parts:
            before = rules[-1] if rules else ""
            if before[:1] == part[0]:
                first, last = int(before[1:]) + 1, int(part[1:])
                rules += [f"{part[0]}{number}" for number in range(first, last)]
            rules.append(part)
        return rules, "all"
    rule, _, case = test_id.partition("-")
    return ([rule], case) if rule in RULES and case else ([NO_RULE], test_id)


def versions() -> dict[str, str]:
    """The versions of the kit, of Python and of the libraries that this process has loaded."""
    found = {"pytest-loadwire": __version__, "python": platform.python_version()}
    for name in _SHOWN:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[_DISTRIBUTION.get(name, name)] = version
    return found


def utc(timestamp: float) -> str:
    """A time as in a report."""
    return datetime.fromtimestamp(timestamp, timezone.utc).isoformat(timespec="seconds")


def check_target(path: Path) -> None:
    """Refuse, before anything is run, a file that could not be written in the end.

    Raises:
        ReportError: Its name ends in neither ``.json`` nor ``.html``, its folder cannot be written
            to, or it needs a library that is not installed.
    """
    if path.suffix not in (".json", ".html"):
        raise ReportError(f"must end in .json or .html, not {str(path)!r}")
    if path.suffix == ".html" and find_spec("jinja2") is None:
        raise ReportError(
            "a page needs jinja2: pip install 'pytest-loadwire[cli]', or write a .json"
        )
    if path.is_dir():
        raise ReportError(f"{path} is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None


def write(path: Path, report: Report) -> None:
    """Write a report as JSON or as a page, by its name; a reader sees the old file or the new one.

    Raises:
        ReportError: It cannot be written.
    """
    if path.suffix == ".html":
        from pytest_loadwire.report.page import render  # noqa: PLC0415 - jinja2 only for a page

        text = render(report)
    else:
        text = json.dumps(report, indent=1) + "\n"
    handle, temporary = None, None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # A file of mkstemp is its owner's alone, and reports are there to be shared.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise ReportError(f"{path} cannot be written: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(text: Any) -> str:
    """Any text without colours of a terminal and what UTF-8 does not have, cut."""
    # A worker of xdist sends it as UTF-8, and must not end by what a hook says.
    sound = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return cut(re.sub(r"\x1b\[[0-9;]*m", "", sound))
