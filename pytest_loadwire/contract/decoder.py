"""`DecoderContract`: a router's decoder against every vector that it may meet.

The class asks a `reader.Reader` for outcomes: the callable behind its own hooks, a program behind
the testee protocol, or a shared library behind the C ABI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_loadwire.contract.base import (
    UNJUDGED,
    Contract,
    code_of,
    lacking,
    missing_hook,
    unknown_revision,
)
from pytest_loadwire.deadline import DEFAULT_TIMEOUT
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.judge import Crashed, Refused, Taken, judge
from pytest_loadwire.reader import smoke
from pytest_loadwire.rules import POLICY_ANSWERS, READER_REASONS, Policy
from pytest_loadwire.vectors import load
from pytest_loadwire.wire import LATEST, REVISIONS, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_loadwire.judge import Finding, Outcome
    from pytest_loadwire.reader import Reader
    from pytest_loadwire.vectors import FrameVector, PayloadVector


_CODES = frozenset(reason.value for reason in READER_REASONS)


_DECODE = "there is nothing to decode with; or set testee or native"


class DecoderContract(Contract):
    """Hold a decoder to rules W1 to W12, and where it takes whole messages to F1 to F5.

    Examples:
        A callable that raises ValueError for what it refuses::

            class TestDecoder(DecoderContract):
                policies = {
                    "TrailingBytes": "reject",
                    "OmittedRank": "reject",
                    "TagAsBin": "reject",
                    "CountAboveI64": "accept",
                    "PartialTail": "older",
                    "NilTail": "reject",
                }

                def decode(self, payload: bytes) -> object:
                    return my_router.decode_load(payload)

        A program in any language, which speaks the testee protocol (``golden/TESTEE.md``) and
        declares revision and policies itself::

            class TestGoRouter(DecoderContract):
                testee = ["./my-testee"]

        A shared library behind the C ABI of ``loadwire.h``, which does the same::

            class TestCRouter(DecoderContract):
                native = "build/libmyrouter.so"

    Attributes:
        testee: The command of a testee, in place of the hooks; it starts in the folder that pytest
            was started in.
        native: The path of a shared library, in place of the hooks.
        timeout: Seconds that one answer of a testee may take.
        start_timeout: Seconds that its start may take, up to the greeting.
        revision: The newest revision that the decoder reads; by default what the testee or the
            library says, and the newest for a callable.
        policies: Its answer at each point where routers may differ (`rules.POLICY_ANSWERS`), over
            what the testee or the library declares.
        refusals: The exceptions by which a callable refuses. Any other exception is a crash.
        deviations: The known deviations of the decoder.
    """

    testee: ClassVar[Sequence[str | Path] | None] = None
    native: ClassVar[str | Path | None] = None
    timeout: ClassVar[float] = DEFAULT_TIMEOUT
    start_timeout: ClassVar[float] = 60.0
    revision: ClassVar[int | None] = None
    policies: ClassVar[Mapping[str, str]] = {}
    refusals: ClassVar[tuple[type[Exception], ...]] = (ValueError, LoadwireError)

    def decode(self, payload: bytes) -> object:
        """Decode one payload; raise one of `refusals`, or return None, to refuse it."""
        del payload
        missing_hook(self, "decode(payload)", _DECODE)

    def decode_frames(self, frames: Sequence[bytes]) -> tuple[int, object] | None:
        """Decode one message to its sequence and reading; refuse as `decode` does.

        Without it the frame rules are not checked, and one skipped test says so.
        """
        raise NotImplementedError

    def reading(self, decoded: Any) -> Mapping[str, object]:
        """What `decode` returned, as field name to value.

        The default takes a mapping, or an object with the contract's field names as attributes. A
        field that was not on the wire has to be missing or None.
        """
        if isinstance(decoded, Mapping):
            return decoded
        names = [name for name in field_names() if hasattr(decoded, name)]
        if not names:
            missing_hook(
                self,
                "reading(decoded)",
                f"a {type(decoded).__name__} has none of the contract's field names",
            )
        return {name: getattr(decoded, name) for name in names}

    def reason(self, refusal: Exception) -> str | None:
        """The reason code of a refusal, or None where the decoder has no such codes.

        The default takes an attribute ``reason`` that is one of the contract's codes.
        """
        return code_of(refusal, _CODES)

    # What follows is the contract's own.

    _reader: ClassVar[Reader | None] = None
    _broken: ClassVar[str | None] = None

    @classmethod
    def unready(cls) -> str | None:
        """There is something to decode with, of a revision that is known.

        Whether a testee or a library works is known once it is asked for: collecting starts none.
        """
        hooks = cls.testee is None and cls.native is None
        if hooks and cls.decode is DecoderContract.decode:
            return lacking(cls, "decode(payload)", _DECODE)
        return None if cls.revision is None else unknown_revision(cls, cls.revision)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every vector and spelling as rule and id."""
        golden = load()
        for payload in golden.payloads:
            for form, _ in payload.forms():
                yield payload.rule, form
        for frame in golden.frames:
            yield frame.rule, frame.id

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each vector, and each spelling of it, a test of its own."""
        if self.withholds(metafunc, "payload_form", "frame_vector"):
            return
        if "payload_form" in metafunc.fixturenames:
            forms = [
                pytest.param((vector, form, raw), id=f"{vector.rule}-{form}")
                for vector in load().payloads
                for form, raw in vector.forms()
            ]
            metafunc.parametrize("payload_form", forms)
        if "frame_vector" in metafunc.fixturenames:
            vectors: Sequence[object] = [
                pytest.param(vector, id=f"{vector.rule}-{vector.id}") for vector in load().frames
            ]
            hooks = self.testee is None and self.native is None
            if hooks and type(self).decode_frames is DecoderContract.decode_frames:
                why = pytest.mark.skip(reason="frames are not checked: override decode_frames")
                vectors = [pytest.param(None, id="F1-F5", marks=why)]
            metafunc.parametrize("frame_vector", vectors)

    @classmethod
    def teardown_class(cls) -> None:
        """End the testee, if there is one."""
        close = getattr(cls._reader, "close", None)
        cls._reader = cls._broken = None
        if close is not None:
            close()

    def test_declarations(self) -> None:
        """Revision, policies and deviations are declared in the contract's own words."""
        super().test_declarations()
        try:
            reader = self._opened()
        except LoadwireError as error:
            text = f"the adapter does not work, so that no vector is judged: {error}"
            pytest.fail(text, pytrace=False)
        problems = []
        if self._revision(reader) not in REVISIONS:
            problems.append(f"revision = {self._revision(reader)!r} is none of {list(REVISIONS)}")
        elif self.testee is not None and self._revision(reader) != reader.revision:
            problems.append(f"revision = {reader.revision}, as the testee's greeting says")
        known = {policy.value for policy in Policy}
        problems += [f"{name!r} is no policy" for name in self.policies if name not in known]
        declared = self._policies(reader)
        if any(declared.get(policy) not in answers for policy, answers in POLICY_ANSWERS.items()):
            problems += _policies_to_paste(declared)
        if problems:
            pytest.fail("declare on the class:\n  " + "\n  ".join(problems), pytrace=False)

    def test_reads_payload(self, payload_form: tuple[PayloadVector, str, bytes]) -> None:
        """The decoder takes, refuses or treats by declared policy what the vector asks for."""
        vector, form, raw = payload_form
        reader = self._asked()
        revision = self._revision(reader)
        finding = judge(
            vector.readers[str(revision)],
            reader.decode(raw, revision),
            rule=vector.rule,
            policies=self._policies(reader),
        )
        _see_declarations(finding)
        self.hold(finding, rule=vector.rule, case=form, why=vector.why, payload=raw)

    def test_reads_frames(self, frame_vector: FrameVector) -> None:
        """The decoder takes or refuses the message as the vector asks for."""
        parts = frame_vector.parts
        reader = self._asked()
        if not reader.reads_frames:
            pytest.skip(f"frames are not checked: {reader.name} takes payloads only")
        revision = self._revision(reader)
        finding = judge(
            frame_vector.readers[str(revision)],
            reader.parse_frames(parts, revision),
            rule=frame_vector.rule,
            policies=self._policies(reader),
        )
        _see_declarations(finding)
        self.hold(
            finding,
            rule=frame_vector.rule,
            case=frame_vector.id,
            why=frame_vector.why,
            frames=parts,
        )

    def _asked(self) -> Reader:
        """The reader of this class for a vector; of one that cannot be reached nothing is said."""
        try:
            return self._opened()
        except LoadwireError:
            pytest.skip(UNJUDGED)

    def _opened(self) -> Reader:
        """The reader of this class.

        Raises:
            LoadwireError: It cannot be reached, or does not work.
        """
        cls = type(self)
        # The hooks belong to this instance, a program or a library to the class.
        if self.testee is None and self.native is None:
            return _Hooks(self)
        if cls._reader is None and cls._broken is None:
            try:
                cls._reader, cls._broken = _open(cls)
            except LoadwireError as error:
                cls._broken = str(error)
        if cls._broken is not None or cls._reader is None:
            raise LoadwireError(cls._broken)
        return cls._reader

    def _revision(self, reader: Reader) -> int:
        return reader.revision if self.revision is None else self.revision

    def _policies(self, reader: Reader) -> Mapping[Policy, str]:
        own = {policy: self.policies[policy] for policy in Policy if policy in self.policies}
        return {**reader.policies, **own}


def _see_declarations(finding: Finding | None) -> None:
    """Skip a vector that waits for a policy: one failure lists all of those."""
    if finding is not None and finding.deed == "undeclared":
        pytest.skip(UNJUDGED)


def _policies_to_paste(declared: Mapping[Policy, str]) -> Iterator[str]:
    """A whole declaration, with the answers that are there and the choice where there is none."""
    yield "policies = {"
    for policy, answers in POLICY_ANSWERS.items():
        answer = declared.get(policy)
        if answer in answers:
            yield f'    "{policy}": "{answer}",'
        else:
            was = "" if answer is None else f", not {answer!r}"
            yield f'    "{policy}": "{answers[1]}",  # or "{answers[0]}"{was}'
    yield "}"


def _open(contract: type[DecoderContract]) -> tuple[Reader, str | None]:
    """The reader that a class names, and what is wrong with its adapter."""
    if contract.testee is not None and contract.native is not None:
        raise LoadwireError("testee and native are both given; a class checks one decoder")
    if contract.testee is None:
        from pytest_loadwire.harness import native  # noqa: PLC0415 - cffi only where it is used

        return native.load(str(contract.native)), None
    from pytest_loadwire.harness.testee import Testee  # noqa: PLC0415 - as above

    testee = Testee(contract.testee, timeout=contract.timeout, start_timeout=contract.start_timeout)
    broken = smoke(testee, load())
    if broken is not None:
        testee.close()
    return testee, broken


class _Hooks:
    """The hooks of a contract class as a reader."""

    def __init__(self, contract: DecoderContract) -> None:
        self._contract = contract
        self.name = type(contract).__name__
        self.revision = LATEST if contract.revision is None else contract.revision
        self.policies: Mapping[Policy, str] = {}
        self.reads_frames = True  # where it does not, there is no frame vector to ask about

    def decode(self, payload: bytes, revision: int | None = None) -> Outcome:  # noqa: ARG002
        contract = self._contract
        return self._outcome(lambda: self._taken(contract.decode(payload)))

    def parse_frames(
        self,
        frames: Sequence[bytes],
        revision: int | None = None,  # noqa: ARG002
    ) -> Outcome:
        contract = self._contract
        return self._outcome(lambda: self._taken_frames(contract.decode_frames(frames)))

    def _outcome(self, call: Callable[[], Outcome]) -> Outcome:
        contract = self._contract
        try:
            return call()
        except contract.refusals as refusal:
            return Refused(contract.reason(refusal), text=f"{type(refusal).__name__}: {refusal}")
        except Exception as crash:  # whatever it is, that is the finding
            names = ", ".join(kind.__name__ for kind in contract.refusals)
            return Crashed.of(crash, f"it refuses by {names}")

    def _taken(self, decoded: object) -> Outcome:
        if decoded is None:
            return Refused(text="returned None")
        return Taken(self._contract.reading(decoded))

    def _taken_frames(self, decoded: tuple[int, object] | None) -> Outcome:
        if decoded is None:
            return Refused(text="returned None")
        sequence, reading = decoded
        return Taken(self._contract.reading(reading), sequence=sequence)
