"""A router's subscriber that is a program: takes worker URLs, prints what it knows as JSON lines.

The protocol, version 1. Each line that it reads is one request, each line that it prints is the
answer to one, in order and flushed::

    {"id": 1, "add": "http://127.0.0.1:30000"}       {"id": 1}
    {"id": 2, "view": true}                          {"id": 2, "view": {"http://...": {...}}}
    {"id": 3, "remove": "http://127.0.0.1:30000"}    {"id": 3}

A view has each worker that was added and not removed: null while its load is unknown, else field
name to value, as a number or, where it may pass 2^53, a decimal string. The program ends when its
input does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class RouterProgramError(LoadwireError):
    """The program did not answer as the protocol asks. The text says what it did instead."""


class RouterProgram:
    """A subscriber behind that protocol, with the methods that `SubscriberContract` calls.

    Args:
        command: The program and its arguments.
        timeout: Seconds that one answer may take; the first one has `start_timeout`.
        start_timeout: Seconds that the first answer may take.
        cwd: The folder that it starts in.
        env: Its environment.

    Raises:
        StartError: It cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        timeout: float = DEFAULT_TIMEOUT,
        start_timeout: float = 60.0,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._program = Program(command, cwd=cwd, env=env)
        self._timeout = timeout
        self._next_timeout = start_timeout
        self._asked = 0

    def add_worker(self, url: str) -> None:
        """Have it read a worker."""
        self._ask({"add": url})

    def remove_worker(self, url: str) -> None:
        """Have it forget a worker."""
        self._ask({"remove": url})

    def view(self) -> Mapping[str, Mapping[str, int] | None]:
        """What it knows of each worker.

        Raises:
            RouterProgramError: It says something else.
        """
        views = self._ask({"view": True}).get("view")
        if not isinstance(views, dict):
            raise RouterProgramError(f"a view is an object, not {views!r}")
        return {url: _load(url, load) for url, load in views.items()}

    def close(self) -> None:
        """End it. Idempotent."""
        self._program.close_input()
        self._program.kill()

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        self._asked += 1
        self._program.send(json.dumps({"id": self._asked, **request}).encode())
        timeout, self._next_timeout = self._next_timeout, self._timeout
        line = self._program.line(Deadline(timeout))
        if line is None:
            raise RouterProgramError(self._silence(timeout, request))
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise RouterProgramError(f"{line[:200]!r} is no JSON: {error}") from error
        if not isinstance(answer, dict) or answer.get("id") != self._asked:
            raise RouterProgramError(f"{line[:200]!r} does not answer {request} ({self._asked})")
        return answer

    def _silence(self, timeout: float, request: dict[str, object]) -> str:
        said = self._program.stderr()
        behind = f"; its stderr:\n{said}" if said else ""
        if self._program.ended:
            return f"it ended ({self._program.how_it_ended()}) instead of answering{behind}"
        if self._program.partial:
            return f"a line without its end, {self._program.partial[:80]!r}: flush each{behind}"
        return f"no answer to {request} in {timeout:g} s{behind}"


def _load(url: str, load: object) -> Mapping[str, int] | None:
    if load is None:
        return None
    try:
        if not isinstance(load, dict):
            raise TypeError("it is no object")
        return {name: _count(value) for name, value in load.items()}
    except (TypeError, ValueError) as error:
        raise RouterProgramError(f"the load of {url} is {load!r}: {error}") from error


def _count(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} is no whole number")
