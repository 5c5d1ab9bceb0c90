"""How a publisher's socket and calls are judged, and told to a developer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.contract.engine import sent
from pytest_loadwire.contract.publisher_cases import HWM
from pytest_loadwire.judge import Finding
from pytest_loadwire.rules import Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.timelines import readings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_loadwire.contract.engine import Warnings
    from pytest_loadwire.contract.publisher_cases import Bind
    from pytest_loadwire.harness.capture import Capture
    from pytest_loadwire.harness.journal import SocketRecord
    from pytest_loadwire.vectors.timelines import PublisherStep, PublisherTimeline


def judge_socket(record: SocketRecord, bind: Bind) -> Finding | None:
    """Kind, binds and options of one socket."""
    in_order = [f"{name}={value}" for name, value in record.options]
    before = record.options_at_bind
    binds = [f"bind({endpoint!r})" for endpoint in record.bind_calls]
    got = f"{record.kind}: " + ", ".join(
        in_order if before is None else [*in_order[:before], *binds, *in_order[before:]]
    )
    if bind.rule == "K2":
        if "CONFLATE" in record.option:
            return Finding("wrong-socket", "K2", "no CONFLATE", got, Hazard.STALE)
        return None
    ipv6 = int("[" in bind.endpoint)
    owed = {"SNDHWM": HWM, "RCVHWM": HWM, "LINGER": 0, "IPV6": ipv6}
    set_before = {"IPV6": 0, **dict(record.options[:before])}
    set_late = [name for name, _ in record.options[before:] if name in owed]
    wanted = ", ".join(f"{name}={n}" for name, n in owed.items() if name != "IPV6" or ipv6)
    expected = f"PUB: {wanted}, bind({bind.endpoint!r}) and nothing behind it"
    if record.bind_calls != [bind.endpoint]:
        return Finding("wrong-socket", bind.rule, expected, got, Hazard.STALE)
    kept = all(set_before.get(name) == value for name, value in owed.items())
    if record.kind == "PUB" and kept and not set_late:
        return None
    return Finding("wrong-socket", "K1", expected, got, Hazard.STALE)


def judge_asked(asked: int, step: PublisherStep, rule: str) -> Finding | None:
    """Whether the provider was asked as often as it should be."""
    owed = int(step.expect.asked)
    if asked == owed:
        return None
    if step.call.handed_in:
        rule = "P3"
    expected = f"the provider to be asked {owed} time(s) at {step.at}"
    return Finding("asked" if asked > owed else "not-asked", rule, expected, str(asked))


def names_another_rank(timeline: PublisherTimeline) -> bool:
    """Whether the readings of a timeline come from more than one rank."""
    known = readings(load().cadence)
    names = [step.call.reading for step in timeline.steps if step.call.reading]
    return len({known[name].rank for name in names}) > 1


def raise_unseen(capture: Capture) -> None:
    """Raise what went wrong in the harness, before an engine is blamed for passing it on."""
    for error in capture.unseen():
        raise error


def note(
    step: PublisherStep, messages: Sequence[tuple[bytes, ...]], asked: int, warnings: Warnings
) -> str:
    """One call, and what came of it, in one line."""
    call = step.call
    did = [*sent(messages), *["asked"] * asked]
    if step.expect.sent is not None and not messages:
        # Why nothing went out is in the engine's own words.
        did += [f"warned: {text}" for text in warnings.texts]
    else:
        did += ["warned"] * len(warnings.texts)
    words = [
        f"{step.at:>8}",
        "forced  " if call.forced else "unforced",
        call.reading or "(provider raises)",
        *(["handed in"] if call.handed_in else []),
        *(["(send raises)"] if call.send == "raises" else []),
    ]
    return f"{' '.join(words)} -> {', '.join(did) or 'nothing'}"
