"""A payload described by what it is made of, and the verdicts that follow from the description.

The verdict of a vector is never what some decoder said. It follows from how the bytes were put
together: this element is a float, that one is missing, these stand behind the array. The decoders
are judged against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_loadwire.golden import spell
from pytest_loadwire.rules import REASON_RULE, Hazard, Policy, Reason
from pytest_loadwire.vectors import Accept, Declare, PayloadVector, Reject, Verdict
from pytest_loadwire.wire import REVISIONS, TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_loadwire.vectors import Kind, Value
    from pytest_loadwire.wire import LoadStatRev1

MAX_I64 = 2**63 - 1

# What a least-loaded router does that reads 0, or garbage, at an element it should have refused.
_HAZARD_AT = {
    "num_running_reqs": Hazard.ATTRACTS_ALL,
    "num_waiting_reqs": Hazard.ATTRACTS_ALL,
    "num_tokens": Hazard.ATTRACTS_ALL,
    "max_total_num_tokens": Hazard.DIVIDES_BY_ZERO,
    "attn_dp_rank": Hazard.NONE,
    "num_waiting_uncached_tokens": Hazard.ATTRACTS_ALL,
    "num_total_tokens": Hazard.ATTRACTS_ALL,
    "max_running_requests": Hazard.STARVES,
    "total_prefill_uncached_tokens": Hazard.STALE,
    "total_prefill_busy_us": Hazard.STALE,
}


@dataclass(frozen=True)
class Element:
    """One array element: its bytes, and what they mean to a reader that reads it.

    Attributes:
        raw: The bytes.
        value: The integer, or None for nil; only meaningful where ``wrong`` is None.
        wrong: The reason why no count can be read here, or None. An unreadable element (malformed)
            carries the offset of the marker 0xc1 within ``raw`` in ``at``.
        at: See ``wrong``.
    """

    raw: bytes
    value: int | None = None
    wrong: Reason | None = None
    at: int = 0


def count(value: int | None, raw: bytes | None = None) -> Element:
    """An element that holds an integer or nil, canonical unless its bytes are given."""
    wrong = Reason.OUT_OF_RANGE if value is not None and value < 0 else None
    return Element(spell.shortest(value) if raw is None else raw, value, wrong)


def wrong(raw: bytes, reason: Reason = Reason.BAD_TYPE, at: int = 0) -> Element:
    """An element that no reader may take for a count."""
    return Element(raw, None, reason, at)


@dataclass(frozen=True)
class Shape:
    """A payload by its parts.

    Attributes:
        elements: The elements behind the tag.
        tag: The bytes of element 0.
        header: The array header, canonical for the elements unless given.
        behind: The bytes behind the array.
        tag_reason: Why the tag is refused, or None.
        revisions: The contract's revisions.
    """

    elements: Sequence[Element]
    tag: bytes = spell.text(TAG.encode())
    header: bytes | None = None
    behind: bytes = b""
    tag_reason: Reason | None = None
    revisions: Mapping[int, type[LoadStatRev1]] = field(default_factory=lambda: REVISIONS)

    @property
    def raw(self) -> bytes:
        """The payload."""
        header = spell.array_header(len(self)) if self.header is None else self.header
        return header + self.tag + b"".join(e.raw for e in self.elements) + self.behind

    def __len__(self) -> int:
        return 1 + len(self.elements)

    def with_element(self, index: int, element: Element) -> Shape:
        """The same payload with element ``index`` (1 is the first behind the tag) replaced."""
        elements = list(self.elements)
        elements[index - 1] = element
        return replace(self, elements=elements)

    def offset(self, index: int) -> int:
        """The offset of element ``index``; 0 is the tag."""
        header = spell.array_header(len(self)) if self.header is None else self.header
        if index == 0:
            return len(header)
        return len(header) + len(self.tag) + sum(len(e.raw) for e in self.elements[: index - 1])

    def readers(self) -> dict[str, Verdict]:
        """The verdict for a reader of each revision."""
        return {str(revision): self.verdict(revision) for revision in self.revisions}

    def verdict(self, revision: int) -> Verdict:
        """What a reader of ``revision`` owes for this payload."""
        if self.tag_reason is not None:
            return reject(self.tag_reason, offset=self.offset(0), element=0)
        smallest = len(self.revisions[1].__struct_fields__) + 1
        if len(self) < smallest:
            refused = self._refuse(Reason.TOO_SHORT, len(self), offset=0)
            if len(self) < smallest - 1:
                return refused
            rank_less = replace(self, elements=[*self.elements, count(None)])
            taken = Accept(1, rank_less.value(1, smallest))
            return Declare(Policy.OMITTED_RANK, {"accept": taken, "reject": refused})
        read = max(
            r
            for r, kind in self.revisions.items()
            if r <= revision and len(kind.__struct_fields__) < len(self)
        )
        elements = len(self.revisions[read].__struct_fields__) + 1
        declared = None
        for index, element in enumerate(self.elements, 1):
            if element.wrong is Reason.MALFORMED:
                # What a reader does not know is the same to it whatever a later revision calls it.
                hazard = None if index < elements else Hazard.ATTRACTS_ALL
                return self._refuse(Reason.MALFORMED, index, at=element.at, hazard=hazard)
            if index >= elements:
                continue
            if element.wrong is not None:
                return self._refuse(element.wrong, index)
            nullable = self._name(index) == "attn_dp_rank"
            if element.value is None and not nullable:
                refused = self._refuse(Reason.BAD_TYPE, index)
                if index < smallest:
                    return refused
                declared = declared or (Policy.NIL_TAIL, refused)
            elif element.value is not None and element.value > MAX_I64:
                refused = self._refuse(Reason.OUT_OF_RANGE, index, hazard=Hazard.STARVES)
                declared = declared or (Policy.COUNT_ABOVE_I64, refused)
        taken = Accept(read, self.value(read, elements))
        if self.behind:
            offset = len(self.raw) - len(self.behind)
            refused = reject(Reason.TRAILING_BYTES, offset=offset, hazard=Hazard.NONE)
            declared = (Policy.TRAILING_BYTES, refused)
        if declared is not None:
            return Declare(declared[0], {"accept": taken, "reject": declared[1]})
        known = len(self.revisions[revision].__struct_fields__) + 1
        if elements < len(self) < known:
            return Declare(
                Policy.PARTIAL_TAIL, {"older": taken, "partial": self._partial(revision)}
            )
        return taken

    def _partial(self, revision: int) -> Accept | Reject:
        """What a reader owes that reads the counts of a partial tail: they are counts like any."""
        for index, element in enumerate(self.elements, 1):
            if element.wrong is not None:
                return self._refuse(element.wrong, index)
        return Accept(revision, self.value(revision, len(self)))

    def value(self, revision: int, elements: int) -> Value:
        """The first ``elements`` of the array as the fields of ``revision``."""
        names = self.revisions[revision].__struct_fields__
        return {
            name: None if element.value is None else str(element.value)
            for name, element in zip(names, self.elements[: elements - 1], strict=False)
        }

    def _name(self, index: int) -> str:
        names = self.revisions[max(self.revisions)].__struct_fields__
        return names[index - 1] if index <= len(names) else ""

    def _refuse(
        self,
        reason: Reason,
        index: int,
        *,
        offset: int | None = None,
        at: int = 0,
        hazard: Hazard | None = None,
    ) -> Reject:
        return reject(
            reason,
            offset=self.offset(index) + at if offset is None else offset,
            element=index,
            hazard=hazard,
            name=self._name(index),
        )


def reject(
    reason: Reason,
    *,
    offset: int | None,
    element: int | None = None,
    hazard: Hazard | None = None,
    name: str | None = None,
) -> Reject:
    """A refusal; the hazard is that of the element unless it is named.

    A negative number wraps to a huge one, so it starves a worker where a zero would attract.
    """
    if hazard is None:
        hazard = _HAZARD_AT.get(name or "num_running_reqs", Hazard.NONE)
        if reason is Reason.OUT_OF_RANGE and hazard is Hazard.ATTRACTS_ALL:
            hazard = Hazard.STARVES
    return Reject(REASON_RULE[reason], reason, offset, element, hazard)


def vector(
    shape: Shape,
    *,
    id: str,  # noqa: A002 - the file's own word
    rule: str,
    kind: Kind,
    since: int,
    why: str,
    source: str,
    spellings: Mapping[str, bytes] | None = None,
    engine: int | None = None,
) -> PayloadVector:
    """A payload vector whose verdicts follow from its shape."""
    return PayloadVector(
        id=id,
        rule=rule,
        kind=kind,
        since=since,
        why=why,
        source=source,
        hex=shape.raw.hex(),
        spellings={name: raw.hex() for name, raw in (spellings or {}).items()},
        engine=engine,
        readers=shape.readers(),
    )
