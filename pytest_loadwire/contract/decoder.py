"""`DecoderContract`: a router's decoder against every vector that it may meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_loadwire.contract.base import Contract, missing_hook
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.judge import Crashed, Refused, Taken, judge
from pytest_loadwire.rules import POLICY_ANSWERS, Policy
from pytest_loadwire.vectors import load
from pytest_loadwire.wire import LATEST, REVISIONS, field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_loadwire.judge import Outcome
    from pytest_loadwire.vectors import FrameVector, PayloadVector


class DecoderContract(Contract):
    """Hold a Python callable that decodes to rules W1 to W12, and with a second hook to F1 to F5.

    Example:
        A decoder that raises ValueError for what it refuses::

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

    Attributes:
        revision: The newest revision that the decoder reads.
        policies: Its answer at each point where routers may differ (`rules.POLICY_ANSWERS`).
        refusals: The exceptions by which it refuses. Any other exception is a crash.
    """

    revision: ClassVar[int] = LATEST
    policies: ClassVar[Mapping[str, str]] = {}
    refusals: ClassVar[tuple[type[Exception], ...]] = (ValueError, LoadwireError)

    def decode(self, payload: bytes) -> object:
        """Decode one payload; raise one of `refusals`, or return None, to refuse it."""
        missing_hook(self, "decode(payload)", f"nothing decoded {len(payload)} bytes")

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
        """The reason code of a refusal, or None where the decoder has no such codes."""
        code = getattr(refusal, "reason", None)
        return str(code) if isinstance(code, str) else None

    # What follows is the contract's own.

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
            if type(self).decode_frames is DecoderContract.decode_frames:
                why = pytest.mark.skip(reason="frames are not checked: override decode_frames")
                vectors = [pytest.param(None, id="F1-F5", marks=why)]
            metafunc.parametrize("frame_vector", vectors)

    def test_declarations(self) -> None:
        """Revision, policies and deviations are declared in the contract's own words."""
        super().test_declarations()
        problems = []
        if self.revision not in REVISIONS:
            problems.append(f"revision = {self.revision!r} is none of {list(REVISIONS)}")
        known = {policy.value for policy in Policy}
        problems += [f"{name!r} is no policy" for name in self.policies if name not in known]
        for policy, answers in POLICY_ANSWERS.items():
            answer = self.policies.get(policy.value)
            if answer not in answers:
                problems.append(f'"{policy}": {" or ".join(map(repr, answers))}, not {answer!r}')
        if problems:
            pytest.fail("declare on the class:\n  " + "\n  ".join(problems), pytrace=False)

    def test_reads_payload(self, payload_form: tuple[PayloadVector, str, bytes]) -> None:
        """The decoder takes, refuses or treats by declared policy what the vector asks for."""
        vector, form, raw = payload_form
        finding = judge(
            vector.readers[str(self.revision)],
            self._outcome(lambda: self._taken(self.decode(raw))),
            rule=vector.rule,
            policies=self._policies(),
        )
        self.hold(finding, rule=vector.rule, case=form, why=vector.why, payload=raw)

    def test_reads_frames(self, frame_vector: FrameVector) -> None:
        """The decoder takes or refuses the message as the vector asks for."""
        parts = frame_vector.parts
        finding = judge(
            frame_vector.readers[str(self.revision)],
            self._outcome(lambda: self._taken_frames(self.decode_frames(parts))),
            rule=frame_vector.rule,
            policies=self._policies(),
        )
        self.hold(
            finding,
            rule=frame_vector.rule,
            case=frame_vector.id,
            why=frame_vector.why,
            frames=parts,
        )

    def _policies(self) -> Mapping[Policy, str]:
        return {policy: self.policies[policy] for policy in Policy if policy in self.policies}

    def _outcome(self, call: Callable[[], Outcome]) -> Outcome:
        try:
            return call()
        except self.refusals as refusal:
            return Refused(self.reason(refusal), text=f"{type(refusal).__name__}: {refusal}")
        except Exception as crash:  # whatever it is, that is the finding
            names = ", ".join(kind.__name__ for kind in self.refusals)
            return Crashed(f"{type(crash).__name__}: {crash} (it refuses by {names})")

    def _taken(self, decoded: object) -> Outcome:
        if decoded is None:
            return Refused(text="returned None")
        return Taken(self.reading(decoded))

    def _taken_frames(self, decoded: tuple[int, object] | None) -> Outcome:
        if decoded is None:
            return Refused(text="returned None")
        sequence, reading = decoded
        return Taken(self.reading(reading), sequence=sequence)
