"""Readings that cannot be: what no engine can mean, in one reading and from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.rules import Hazard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COUNTERS = ("total_prefill_uncached_tokens", "total_prefill_busy_us")
_LIMITS = (("max_total_num_tokens", "W2"), ("max_running_requests", "W3"))


class Impossible(NamedTuple):
    """Something that a reading cannot say.

    Attributes:
        rule: The rule that says what the elements are.
        code: A word for machines.
        text: What is wrong, with the values.
        is_error: Whether it cannot be at all; else it is only unlikely.
        hazard: What a least-loaded router does that believes it.
    """

    rule: str
    code: str
    text: str
    is_error: bool
    hazard: Hazard


def in_one(reading: Mapping[str, int | None]) -> Iterator[Impossible]:
    """What cannot be within one reading: tokens above capacity, and the like (rules W2, W3).

    Args:
        reading: Fields by name; those that a revision lacks are missing. A capacity or a limit of 0
            means that it is unknown.
    """
    tokens, capacity = reading.get("num_tokens"), reading.get("max_total_num_tokens")
    if tokens is not None and capacity and tokens > capacity:
        yield Impossible(
            "W2",
            "tokens-above-capacity",
            f"num_tokens is {tokens}, and max_total_num_tokens, the capacity, only {capacity}: "
            "are two elements swapped, or a capacity of one rank and tokens of several?",
            is_error=True,
            hazard=Hazard.STARVES,
        )
    running, limit = reading.get("num_running_reqs"), reading.get("max_running_requests")
    if running is not None and limit and running > limit:
        yield Impossible(
            "W3",
            "running-above-limit",
            f"num_running_reqs is {running}, and max_running_requests, the limit, only {limit}: "
            "are two elements swapped?",
            is_error=True,
            hazard=Hazard.STARVES,
        )
    total = reading.get("num_total_tokens")
    if tokens is not None and total is not None and total < tokens:
        yield Impossible(
            "W3",
            "total-below-tokens",
            f"num_total_tokens is {total}, less than num_tokens, {tokens}, which it includes",
            is_error=True,
            hazard=Hazard.ATTRACTS_ALL,
        )


def from_one_to_the_next(
    before: Mapping[str, int | None], after: Mapping[str, int | None]
) -> Iterator[Impossible]:
    """What cannot be between two readings of one engine process (rules W2, W3)."""
    for name in _COUNTERS:
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None and now < was:
            yield Impossible(
                "W3",
                f"counter-backwards-{name.replace('_', '-')}",
                f"{name} went from {was} to {now} while the process lived: it only grows, so "
                "either two publishers share the port, or it is reset or wraps",
                is_error=True,
                hazard=Hazard.STALE,
            )
    for name, rule in _LIMITS:
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None and now != was:
            yield Impossible(
                rule,
                f"limit-changed-{name.replace('_', '-')}",
                f"{name} went from {was} to {now} while the process lived",
                is_error=False,
                hazard=Hazard.NONE,
            )
