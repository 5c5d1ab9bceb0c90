"""A child process that is talked to in lines: no wait without a deadline, no thread, no sleep.

One `select` loop serves all three pipes at once, so that a program which writes a lot to its
stderr, or reads its input late, blocks nobody.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import weakref
from typing import IO, TYPE_CHECKING, Any

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.errors import LoadwireError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_LINE = 2**24
"""Bytes without a line end behind which a program is no longer listened to."""

KEEP_STDERR = 2**12
"""So many of the first bytes of stderr are kept, and of the last."""

GRACE = 1.0
"""Seconds that a program has to end once its input is closed, or once its output is."""


class StartError(LoadwireError):
    """The program cannot be started at all; the text has the command and the system's reason."""


class Program:
    """One running program in a process group of its own.

    Args:
        command: The program and its arguments.
        cwd: The folder that it starts in; by default that of this process.
        env: Its environment; by default that of this process.

    Raises:
        StartError: There is no such program, or it may not be run.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not command or isinstance(command, str | bytes):
            raise StartError(f"a command is a list of a program and its arguments, not {command!r}")
        try:
            process = subprocess.Popen(  # noqa: S603 - running the caller's program is the purpose
                [os.fspath(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(f"{command[0]} cannot be started: {error.strerror or error}") from None
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._lines = bytearray()
        self._said = bytearray()
        self._unsent = b""
        self._selector = selectors.DefaultSelector()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(_fd(pipe), False)
        for pipe in (self._stdout, self._stderr):
            self._selector.register(_fd(pipe), selectors.EVENT_READ)
        # Its end shows on its output, unless somebody whom it started holds that open.
        self._end_fd = _watch(process.pid)
        if self._end_fd is not None:
            self._selector.register(self._end_fd, selectors.EVENT_READ)
        # Whoever forgets us leaves no process behind.
        self._finalizer = weakref.finalize(self, _end, process, self._selector, self._end_fd)

    def send(self, line: bytes) -> None:
        """Queue a line; it goes out while an answer is waited for."""
        if not self._unsent and self._stdin is not None:
            self._selector.register(_fd(self._stdin), selectors.EVENT_WRITE)
        self._unsent += line + b"\n"

    def line(self, deadline: Deadline) -> bytes | None:
        """The next whole line without its end, or None when there is none in time, or none at all.

        `ended` tells those two apart, and `partial` has what came of a line without an end.
        """
        late = False
        while True:
            end = self._lines.find(b"\n")
            if end >= 0:
                line = bytes(self._lines[:end])
                del self._lines[: end + 1]
                return line.rstrip(b"\r")
            if late or self._stdout is None or len(self._lines) > MAX_LINE:
                return None
            # Some programs are never silent, so the clock decides and not whether anything came.
            # What a process wrote before its end can be read at once, so nothing is worth a wait.
            patience = 0 if self.status is not None else deadline.remaining
            late = not self._serve(patience) or not deadline.remaining

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: the output is closed, or the process is gone."""
        return self._stdout is None or self._process.poll() is not None

    @property
    def partial(self) -> bytes:
        """What was read and is no whole line yet, or was not asked for."""
        return bytes(self._lines)

    def close_input(self) -> None:
        """Say that nothing more comes."""
        if self._stdin is not None:
            if self._unsent:
                self._selector.unregister(_fd(self._stdin))
                self._unsent = b""
            self._stdin.close()
            self._stdin = None

    def how_it_ended(self) -> str:
        """Exit status or signal in words, after a short wait for it."""
        try:
            status = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "it closed its stdout and still runs"
        if status >= 0:
            return f"exit status {status}"
        try:
            return f"killed by signal {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal, or None while it runs."""
        return self._process.poll()

    def stderr(self) -> str:
        """What it wrote to stderr: a few lines of the beginning and of the end.

        A Go program says what is wrong first, a Python program last.
        """
        while self._stderr is not None and self._serve(0, only=self._stderr):
            pass
        said = self._said.decode("utf-8", "replace").rstrip().splitlines()
        return "\n".join(said if len(said) <= 10 else [*said[:4], "...", *said[-6:]])

    def kill(self) -> None:
        """End the process and whatever it started in its group; twice is once."""
        for pipe in (self._stdin, self._stdout, self._stderr):
            if pipe is not None:
                pipe.close()
        self._stdin = self._stdout = self._stderr = None
        self._finalizer()

    def _serve(self, timeout: float, only: IO[bytes] | None = None) -> bool:
        """Move what can be moved within some seconds; False where nothing was ready."""
        ready = self._selector.select(timeout)
        moved = False
        for key, _ in ready:
            if only is not None and key.fd != _fd(only):
                continue
            moved = True
            if key.fd == self._end_fd:
                self._selector.unregister(key.fd)
            elif self._stdin is not None and key.fd == _fd(self._stdin):
                self._write(key.fd)
            elif self._stdout is not None and key.fd == _fd(self._stdout):
                if not self._read(key.fd, self._lines):
                    self._stdout.close()
                    self._stdout = None
            elif self._stderr is not None and key.fd == _fd(self._stderr):
                if not self._read(key.fd, self._said):
                    self._stderr.close()
                    self._stderr = None
                if len(self._said) > 2 * KEEP_STDERR:
                    self._said[KEEP_STDERR:-KEEP_STDERR] = b"\n...\n"
        return moved

    def _write(self, fd: int) -> None:
        try:
            self._unsent = self._unsent[os.write(fd, self._unsent) :]
        except BrokenPipeError:
            # It reads no more. What it does instead shows on its output.
            self._unsent = b""
        if not self._unsent:
            self._selector.unregister(fd)

    def _read(self, fd: int, into: bytearray) -> bool:
        try:
            data = os.read(fd, 2**16)
        except BlockingIOError:
            return True
        if not data:
            self._selector.unregister(fd)
        into += data
        return bool(data)


def _fd(pipe: IO[bytes] | None) -> int:
    assert pipe is not None  # noqa: S101 - for the type checker
    return pipe.fileno()


def _watch(pid: int) -> int | None:
    """A file descriptor that can be read once a process has ended, where the system has such."""
    open_it = getattr(os, "pidfd_open", None)
    try:
        return None if open_it is None else int(open_it(pid))
    except OSError:  # an older kernel
        return None


def _end(
    process: subprocess.Popen[Any], selector: selectors.BaseSelector, end_fd: int | None
) -> None:
    # The group is named after its first process, and lives as long as anyone in it. The errors say
    # that all are gone or, as macOS puts it, that none is left that may be killed.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # in case it left its group
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    selector.close()
    if end_fd is not None:
        os.close(end_fd)
    process.wait()
