"""What this package raises: one base, and one error that says what is wrong with bytes."""

from __future__ import annotations

from pytest_loadwire.rules import REASON_RULE, Reason


class LoadwireError(Exception):
    """Base of every error that this package raises on purpose."""


class WireError(LoadwireError, ValueError):
    """Bytes, or a value about to become bytes, that break the contract.

    The text says the rule, the reason, where, what was expected and what came.

    Attributes:
        reason: The reason code, the same in every language.
        rule: The id of the contract rule that is broken.
        expected: What the contract asks for at this place.
        got: What was there.
        offset: Byte offset into the payload, or None where no byte is to blame.
        element: Index of the array element, 0 is the tag, or None outside of the elements.
        field: Name of that element, or None.
        frame: Index of the frame for a message, or None for a bare payload or the frame count.
        hint: A likely cause in one sentence, or None.
    """

    def __init__(
        self,
        reason: Reason,
        *,
        expected: str,
        got: str,
        rule: str | None = None,
        offset: int | None = None,
        element: int | None = None,
        field: str | None = None,
        frame: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.reason = reason
        self.rule = REASON_RULE[reason] if rule is None else rule
        self.expected = expected
        self.got = got
        self.offset = offset
        self.element = element
        self.field = field
        self.frame = frame
        self.hint = hint
        # All of it in args, so that the error survives pickling (pytest-xdist sends it home).
        super().__init__(reason, expected, got)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.reason, {k: v for k, v in vars(self).items() if k != "reason"}))

    @property
    def where(self) -> str:
        """The place in words, for example ``frame 2, byte 10, element 1 (num_running_reqs)``."""
        element = None if self.element is None else f"element {self.element}"
        if element and self.field:
            element += f" ({self.field})"
        parts = [
            None if self.frame is None else f"frame {self.frame}",
            None if self.offset is None else f"byte {self.offset}",
            element,
        ]
        return ", ".join(part for part in parts if part)

    def __str__(self) -> str:
        where = f" at {self.where}" if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.rule} {self.reason}{where}: expected {self.expected}, got {self.got}{hint}"


def _rebuild(reason: Reason, attributes: dict[str, object]) -> WireError:
    error = WireError(reason, expected="", got="")
    vars(error).update(attributes)
    error.args = (reason, error.expected, error.got)
    return error
