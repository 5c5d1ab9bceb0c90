"""A decoder in any language: a program that speaks the testee protocol on stdin and stdout.

The protocol is one page, ``golden/TESTEE.md``. What matters here: a decoder that refuses says so.
Everything else that can go wrong between two processes is a failure of its own, with its own words,
and never counts as a refusal.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_loadwire.closing import Closing
from pytest_loadwire.deadline import DEFAULT_TIMEOUT, Deadline
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.harness.program import GRACE, MAX_LINE, Program, StartError
from pytest_loadwire.judge import Crashed, Refused, Taken
from pytest_loadwire.rules import POLICY_ANSWERS, Policy
from pytest_loadwire.wire import REVISIONS

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_loadwire.judge import Outcome

PROTOCOL = 1
"""The version of the testee protocol that this module speaks."""

START_TIMEOUT = 60.0
"""Seconds that the greeting may take: a virtual machine starts, or ``go run`` compiles first."""

PATIENCE = 2.0
"""Seconds after which it is said that a greeting is waited for."""

GIVE_UP = 25
"""After so many failures in a row a testee is not started again. More vectors than this in a row
can fail only by an adapter that is broken for all of them."""

KINDS = ("payload", "frames")
"""What a case can be."""


class Failure(str, Enum):
    """In what way a testee failed to answer."""

    NOT_STARTED = "not started"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    GARBAGE = "garbage on stdout"
    UNFLUSHED = "unflushed"
    WRONG_ID = "wrong id"
    WRONG_TYPE = "wrong type"
    DUPLICATE = "duplicate answer"
    ADAPTER = "adapter error"
    NO_GREETING = "no greeting"
    LATE_GREETING = "late greeting"
    BAD_GREETING = "bad greeting"
    OTHER_VERSION = "other protocol version"


class TesteeError(LoadwireError):
    """A testee did not do what the protocol asks of it.

    Attributes:
        failure: In what way.
    """

    __test__ = False  # its name begins as that of a test class

    def __init__(self, failure: Failure, text: str) -> None:
        self.failure = failure
        super().__init__(failure, text)

    def __str__(self) -> str:
        return f"{self.failure.value}: {self.args[1]}"


class Failed(Crashed):
    """The outcome of a case that a testee did not answer; its text begins with the failure."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.text


class Greeting(msgspec.Struct, frozen=True):
    """The first line of a testee.

    Attributes:
        loadwire: The version of the protocol.
        implementation: What the decoder calls itself.
        version: Its version.
        revision: The newest revision that it reads.
        policies: Its answer at each point where routers may differ (`rules.POLICY_ANSWERS`).
        kinds: The cases that it takes: ``payload``, and perhaps ``frames``.
    """

    loadwire: int
    implementation: str
    version: str
    revision: int
    policies: dict[str, str] = {}
    kinds: tuple[str, ...] = KINDS


class _Accept(msgspec.Struct):
    value: dict[str, str | None]
    revision: int | None = None
    sequence: str | None = None


class _Reject(msgspec.Struct):
    reason: str | None = None
    offset: int | None = None
    element: int | None = None
    frame: int | None = None
    text: str = ""


class _Answer(msgspec.Struct):
    id: str | None
    accept: _Accept | None = None
    reject: _Reject | None = None
    error: str | None = None


class Testee(Closing):
    """A program behind the protocol. It is a witness: no bytes make its methods raise.

    It is started for the first question, and again after each failure, so that one crash costs one
    vector. Use it in a ``with`` statement, or `close` it.

    Args:
        command: The program and its arguments.
        timeout: Seconds that one answer may take.
        start_timeout: Seconds that the greeting may take.
        cwd: The folder that it starts in; by default that of this process.
        env: Its environment; by default that of this process. PYTHONUNBUFFERED is left out.
        progress: Told so where the first greeting takes more than 2 s.
    """

    __test__ = False  # as above

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        timeout: float = DEFAULT_TIMEOUT,
        start_timeout: float = START_TIMEOUT,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.command = command
        self.timeout = timeout
        self.start_timeout = start_timeout
        self._cwd, self._progress = cwd, progress
        # It hides a missing flush, which then shows on a machine that does not set it.
        inherited = os.environ if env is None else env
        self._env = {name: inherited[name] for name in inherited if name != "PYTHONUNBUFFERED"}
        self._program: Program | None = None
        self._greeting: Greeting | None = None
        self._asked = 0
        self._failed_in_a_row = 0
        self._last_failure = ""

    @property
    def greeting(self) -> Greeting:
        """What it said first; starts it if need be.

        Raises:
            TesteeError: It cannot be started, or does not greet as the protocol asks.
        """
        if self._greeting is None:
            self._start()
        assert self._greeting is not None  # noqa: S101 - `_start` sets it or raises
        return self._greeting

    @property
    def name(self) -> str:
        """What a table calls it."""
        return self.greeting.implementation

    @property
    def revision(self) -> int:
        """The newest revision that it reads."""
        return self.greeting.revision

    @property
    def policies(self) -> Mapping[Policy, str]:
        """What it declares where the contract leaves a choice."""
        return {Policy(name): answer for name, answer in self.greeting.policies.items()}

    @property
    def reads_frames(self) -> bool:
        """Whether it takes whole messages as well as payloads."""
        return "frames" in self.greeting.kinds

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:
        """Read one payload, as a reader of the revision that the testee declares."""
        return self._ask({"kind": "payload", "hex": payload.hex()}, revision)

    def parse_frames(self, frames: Sequence[bytes], revision: int | None = None) -> Outcome:
        """Read one message, as a reader of the revision that the testee declares."""
        return self._ask({"kind": "frames", "frames": [f.hex() for f in frames]}, revision)

    def close(self) -> None:
        """End it, and whatever it started; twice is once."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def finish(self) -> str | None:
        """Close its input, wait for its end, and say what was wrong with that, or None."""
        program, self._program = self._program, None
        if program is None:
            return None
        program.close_input()
        deadline = Deadline(self.timeout)
        surplus = program.line(deadline) or program.partial
        while program.line(deadline) is not None:
            pass
        runs = not program.ended
        ended = "" if runs else program.how_it_ended()
        program.kill()
        if surplus:
            return f"{Failure.DUPLICATE.value}: unasked, it said {_show(surplus)}"
        if runs:
            return f"still running {self.timeout:g} s after its input was closed; killed"
        return None if ended == "exit status 0" else f"its input was closed, and then: {ended}"

    def _ask(self, case: Mapping[str, object], revision: int | None) -> Outcome:
        if self._failed_in_a_row >= GIVE_UP:
            times = f"it failed {GIVE_UP} times in a row"
            return Failed(f"not asked: {times}, at last so: {self._last_failure}")
        try:
            if revision not in (None, self.revision):
                return Failed(f"not asked: it reads revision {self.revision}, not {revision}")
            outcome = self._outcome(case)
        except TesteeError as failure:
            self.close()
            self._failed_in_a_row += 1
            self._last_failure = str(failure)
            return Failed(str(failure))
        self._failed_in_a_row = 0
        return outcome

    def _outcome(self, case: Mapping[str, object]) -> Outcome:
        if self._program is None:
            self._start()
        self._asked += 1
        answer = self._answer({"id": str(self._asked), **case})
        if answer.accept is not None:
            return Taken(
                {name: _number(value) for name, value in answer.accept.value.items()},
                answer.accept.revision,
                _number(answer.accept.sequence),  # type: ignore[arg-type] # judged for its type
            )
        if answer.reject is not None:
            refusal = answer.reject
            return Refused(
                refusal.reason, refusal.offset, refusal.element, refusal.frame, refusal.text
            )
        raise TesteeError(Failure.ADAPTER, f"the program itself says: {answer.error}")

    def _answer(self, case: Mapping[str, Any]) -> _Answer:
        program = self._program
        assert program is not None  # noqa: S101 - started by the caller
        program.send(json.dumps(case).encode())
        line = program.line(Deadline(self.timeout))
        if line is None:
            raise self._silence(program, f"answer to case {case['id']}", self.timeout)
        answer: _Answer = _parse(line, _Answer, Failure.GARBAGE, Failure.WRONG_TYPE)
        if answer.id != case["id"]:
            earlier = answer.id is not None and answer.id.isdecimal()
            if earlier and 0 < int(answer.id or 0) < self._asked:
                raise TesteeError(
                    Failure.DUPLICATE,
                    f"case {answer.id} was answered again, seen while case {case['id']} waited"
                    f" for its answer: {_show(line)}",
                )
            raise TesteeError(
                Failure.WRONG_ID,
                f"case {case['id']} got the answer of {answer.id!r}: {_show(line)}",
            )
        given = [
            name for name in ("accept", "reject", "error") if getattr(answer, name) is not None
        ]
        if len(given) != 1:
            raise TesteeError(
                Failure.WRONG_TYPE,
                f"an answer has one of accept, reject and error, this has"
                f" {' and '.join(given) or 'none'}: {_show(line)}",
            )
        return answer

    def _start(self) -> None:
        try:
            program = Program(self.command, cwd=self._cwd, env=self._env)
        except StartError as error:
            raise TesteeError(Failure.NOT_STARTED, str(error)) from None
        self._program = program
        try:
            greeting = self._greet(program)
            if self._greeting not in (None, greeting):
                raise TesteeError(
                    Failure.BAD_GREETING,
                    f"started again, it greets as {greeting}, not as {self._greeting}",
                )
        except TesteeError:
            self.close()
            raise
        self._greeting = greeting

    def _greet(self, program: Program) -> Greeting:
        deadline = Deadline(self.start_timeout)
        first = self._greeting is None
        line = program.line(Deadline(min(PATIENCE, self.start_timeout)) if first else deadline)
        if line is None and first and deadline.remaining and not program.ended:
            self._progress("waiting for a greeting")
            line = program.line(deadline)
        if line is None:
            raise self._silence(program, "greeting", self.start_timeout)
        message: dict[str, object] = _parse(
            line, dict[str, object], Failure.NO_GREETING, Failure.NO_GREETING
        )
        if "loadwire" not in message:
            raise TesteeError(Failure.NO_GREETING, f"its first line is {_show(line)}")
        if message["loadwire"] != PROTOCOL:
            raise TesteeError(
                Failure.OTHER_VERSION,
                f"it speaks version {message['loadwire']!r} of the testee protocol, this is"
                f" {PROTOCOL}",
            )
        greeting: Greeting = _parse(line, Greeting, Failure.NO_GREETING, Failure.BAD_GREETING)
        problems = list(_problems(greeting))
        if problems:
            raise TesteeError(Failure.BAD_GREETING, "; ".join(problems))
        return greeting

    def _silence(self, program: Program, what: str, timeout: float) -> TesteeError:
        """Why nothing came. The last thing to try is to close the program's input."""
        greets = what == "greeting"
        if len(program.partial) > MAX_LINE:
            return TesteeError(
                Failure.GARBAGE, f"{MAX_LINE} bytes without a line end: {_show(program.partial)}"
            )
        if program.ended:
            partial = program.partial
            cut = f", in the middle of {_show(partial)}" if partial else ""
            # First: a process whose output is closed may have no status for a moment.
            ended = program.how_it_ended()
            failure = Failure.NO_GREETING if greets and program.status == 0 else Failure.CRASHED
            text = f"{ended} before the {what}{cut}"
            return TesteeError(failure, _with_stderr(text, program))
        if program.partial:
            text = f"the {what} has no line end: {_show(program.partial)}"
            return TesteeError(Failure.UNFLUSHED, _with_stderr(text, program))
        program.close_input()
        line = program.line(Deadline(GRACE)) or program.partial
        if line:
            text = (
                f"no {what} within {timeout:g} s, and then, when its input was closed,"
                f" {_show(line)}: it has to read line by line, and to"
                " flush its output after each"
            )
            return TesteeError(Failure.UNFLUSHED, _with_stderr(text, program))
        if greets:
            text = f"none came within {timeout:g} s, and none when its input was then closed"
            return TesteeError(Failure.LATE_GREETING, _with_stderr(text, program))
        text = f"no {what} within {timeout:g} s, nor when its input was closed"
        return TesteeError(Failure.TIMED_OUT, _with_stderr(text, program))


def _problems(greeting: Greeting) -> list[str]:
    problems = []
    if not greeting.implementation.strip():
        problems.append("it does not say what it is: implementation")
    if greeting.revision not in REVISIONS:
        known = ", ".join(map(str, REVISIONS))
        problems.append(f"revision {greeting.revision} is none of {known}")
    names = {policy.value: POLICY_ANSWERS[policy] for policy in Policy}
    for name, answer in greeting.policies.items():
        if name not in names:
            problems.append(f"{name!r} is no policy")
        elif answer not in names[name]:
            choices = " or ".join(map(repr, names[name]))
            problems.append(f'"{name}": {choices}, not {answer!r}')
    if "payload" not in greeting.kinds or not set(greeting.kinds) <= set(KINDS):
        problems.append(f"kinds are payload, and perhaps frames, not {list(greeting.kinds)}")
    return problems


def _parse(line: bytes, kind: Any, garbage: Failure, wrong_type: Failure) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        hint = ""
        if "$.accept.value" in str(error) or "$.accept.sequence" in str(error):
            hint = " (numbers are decimal strings, so that no JSON reader loses a 64-bit one)"
        raise TesteeError(wrong_type, f"{error}{hint}: {_show(line)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TesteeError(garbage, f"a line that is no JSON: {_show(line)}") from None


def _number(text: str | None) -> int | str | None:
    """A decimal string as an int; what is none stays as it is, and is judged as it is."""
    if text is not None and re.fullmatch("-?[0-9]{1,64}", text):
        return int(text)
    return text


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}... ({len(line)} bytes)"


def _with_stderr(text: str, program: Program) -> str:
    said = program.stderr()
    return f"{text}; its stderr:\n{said}" if said else f"{text}; nothing on stderr"
