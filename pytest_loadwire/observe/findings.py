"""Judges what was seen, by rule. Pure: no socket and no clock.

What one message or one socket is wrong in, `stream` has noted already; here it gets its place, and
what only shows over several sockets, over time or in the advertisement is added.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from pytest_loadwire.annotate import annotate_frames
from pytest_loadwire.exact import RANK_FIELD
from pytest_loadwire.observe.advertisement import block_findings
from pytest_loadwire.observe.asking import Advertised, NoAnswer
from pytest_loadwire.observe.elements import is_between
from pytest_loadwire.observe.likely import LIKELY
from pytest_loadwire.observe.stream import EARLY_REPEAT_S, LATE_S
from pytest_loadwire.router.table import HEARTBEAT_S, WINDOW_S
from pytest_loadwire.rules import RULES, Hazard
from pytest_loadwire.siblings import recognise_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
    from pytest_loadwire.observe.stream import End, Level, Oddity

FEW_REPEATS = 3
"""One message that is late on the way makes the next seem early; so many are not the way's, where
they are more than `EARLY_SHARE` of the repeats."""

EARLY_SHARE = 0.25
"""A watch of an hour sees many that were late on the way, and an engine at fault is often so."""

SAME_MESSAGES = 3
"""So many messages with number and reading alike, on two sockets, are one stream and no chance."""

_OF_ALL_RANKS = (
    *("one-rank-everywhere", "one-stream-everywhere", "one-stream-everywhere-idle"),
    *("one-stream-twice", "shifted-ranks"),
)
"""What wrong ranks are told by where they have one cause."""

NO_WORD = ("name", "refused", "unreachable", "timeout", "closed")
"""Ways of a worker not to answer in which nothing came, so that nothing is held to a rule."""

LEVELS = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        level: ``error`` breaks the contract, ``warning`` may or soon will, ``note`` is legal.
        rule: The rule of the contract.
        code: A word for machines.
        target: The target, as it was given.
        text: What was found, with the values.
        ranks: The ranks that it is about, where it is about ranks.
        endpoint: The socket of the first of them.
        sequence: The number of the first message that showed it.
        count: How many messages showed it; 0 where it is not about messages.
        evidence: The bytes of that message, annotated, line by line.
        hazard: What a least-loaded router does that believes it.
        state: How the connection stood, where the text says so; ranks that differ in it are told
            apart.
        likely: The likeliest cause, where the text alone does not say it.
        remedy: What to do about that.
    """

    level: Level
    rule: str
    code: str
    target: str
    text: str
    ranks: tuple[int, ...] = ()
    endpoint: str = ""
    sequence: int | None = None
    count: int = 0
    evidence: tuple[str, ...] = ()
    hazard: Hazard = Hazard.NONE
    state: str = ""
    likely: str = ""
    remedy: str = ""

    @property
    def is_unanswered(self) -> bool:
        """Whether it says that a worker gave no answer, so that no rule can be held to one."""
        return self.code in {f"no-answer-{kind}" for kind in NO_WORD}

    def to_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return {**asdict(self), "hazard": str(self.hazard), "asks": RULES[self.rule]}


def judge(seen: Seen) -> list[Finding]:
    """Everything that is to be said, the worst first, then by rule.

    Ranks of one target that show the same are one finding.
    """
    found: list[Finding] = []
    for one in seen.targets:
        found += _of_target(seen, one)
    found += _across_targets(seen)
    order = {rule: place for place, rule in enumerate(RULES)}
    return sorted(
        _with_causes(_merged(found)),
        key=lambda f: (LEVELS.index(f.level), order[f.rule], f.target, f.ranks),
    )


def _of_target(seen: Seen, one: TargetSeen) -> Iterator[Finding]:
    target = one.target.text
    if isinstance(one.advertised, NoAnswer):
        answer = one.advertised
        rule = "A1" if answer.status is None else "A4"
        text = answer.text.removeprefix(target)  # its path is left: the target stands beside it
        if answer.kind in NO_WORD:
            text += "; the route does not answer at all"
        yield Finding("error", rule, f"no-answer-{answer.kind}", target, text)
    elif isinstance(one.advertised, Advertised):
        for level, rule, code, text in block_findings(one.advertised.block, one.advertised.plan):
            yield Finding(level, rule, code, target, text)
    if one.unresolved is not None:
        yield Finding("error", "C1", "unresolved", target, one.unresolved.text)
    for rank in one.ranks:
        yield from _of_rank(seen, one, rank)
    yield from _of_ranks(one)


def _of_rank(seen: Seen, one: TargetSeen, rank: RankSeen) -> Iterator[Finding]:
    target, stream = one.target.text, rank.stream
    place: dict[str, Any] = {
        "target": target,
        "ranks": () if rank.rank is None else (rank.rank,),
        "endpoint": rank.endpoint,
    }
    for oddity in stream.oddities.values():
        yield _from_oddity(oddity, place)
    if stream.unlisted:
        text = f"{_counted(stream.unlisted, 'more message')} had trouble of other kinds"
        yield Finding("error", "F4", "more-trouble", text=text, **place)
    if not stream.good:
        text = "advertised, and " if rank.rank is not None else ""
        if stream.count:
            text += f"none of {_counted(stream.count, 'message')} is one that a router takes"
        else:
            text += f"silent for {seen.seconds:.1f} s ({rank.link.state})"
        if rank.rank is not None:
            text += ": the load of the whole worker stays unknown"
        if seen.seconds < LATE_S and seen.ended != "nothing-can-come":
            text += f"; that is short for a heartbeat of {HEARTBEAT_S:g} s, watch for longer"
        state = "not taken" if stream.count else rank.link.state
        yield Finding("error", "C3", "silent-rank", text=text, state=state, **place)
        return
    if rank.link.ready > 1:
        text = f"the connection was lost and is back, {_times(rank.link.ready - 1)}"
        yield Finding("note", "C7", "reconnected", text=text, **place)
    if stream.restarts:
        text = f"the engine restarted {_times(stream.restarts)}: the sequence began anew"
        yield Finding("note", "S3", "restarted", text=text, **place)
    if stream.missing:
        text = (
            f"{_counted(stream.missing, 'sequence number')} "
            f"{'is' if stream.missing == 1 else 'are'} missing in {_counted(stream.gaps, 'place')}"
            ": legal, a full pipe drops; a network or a reader that is too slow is why"
        )
        yield Finding("note", "S2", "gaps", text=text, **place)
    yield from _cadence(seen, rank, place)


def _cadence(seen: Seen, rank: RankSeen, place: dict[str, Any]) -> Iterator[Finding]:
    """How often a rank speaks (rules P2, C2). Its lag is the watcher's own and is let pass."""
    stream = rank.stream
    if stream.longest > WINDOW_S + seen.lag:
        text = (
            f"silent for {stream.longest:.1f} s: a router drops a reading after {WINDOW_S:g} s, "
            "and then the load of the worker is unknown"
        )
        yield Finding("error", "C2", "stale", text=text, **place)
    elif stream.longest > LATE_S + seen.lag:
        text = (
            f"silent for up to {stream.longest:.1f} s, {_times(stream.late)} longer than "
            f"{LATE_S:g} s: the heartbeat is {HEARTBEAT_S:g} s"
        )
        yield Finding("warning", "P2", "late-heartbeat", text=text, **place)
    if stream.early >= max(FEW_REPEATS, EARLY_SHARE * stream.repeats):
        text = (
            f"{stream.early} unchanged readings came less than {EARLY_REPEAT_S:g} s behind the one "
            "before: an unchanged reading is repeated once a second"
        )
        yield Finding("warning", "P2", "early-repeats", text=text, count=stream.early, **place)


def _from_oddity(oddity: Oddity, place: dict[str, Any]) -> Finding:
    evidence = annotate_frames(oddity.frames).splitlines() if oddity.frames else []
    if recognise_frames(oddity.frames) is not None:
        # The elements have the names of a LoadStat's there, which would mislead.
        evidence = [line for line in evidence if line.startswith("frame ")]
    return Finding(
        oddity.level,
        oddity.rule,
        oddity.code,
        text=oddity.text,
        sequence=oddity.sequence,
        count=oddity.count,
        evidence=tuple(evidence[:80]),
        hazard=oddity.hazard,
        **place,
    )


def _of_ranks(one: TargetSeen) -> Iterator[Finding]:
    """What shows over several ranks of one worker."""
    target = one.target.text
    revisions: dict[int, list[int]] = defaultdict(list)
    # A restart may bring another revision: the last ones count, of the ranks that are back.
    heard = [rank for rank in one.ranks if rank.stream.good]
    restarts = max((rank.stream.restarts for rank in heard), default=0)
    for rank in heard:
        if rank.stream.restarts == restarts:
            number = -1 if rank.rank is None else rank.rank
            revisions[rank.stream.revision_read].append(number)
    if len(revisions) > 1:
        text = "; ".join(f"revision {r} on {ranks_text(on)}" for r, on in sorted(revisions.items()))
        yield Finding("error", "W4", "mixed-revisions", target, f"{text}: one engine has one")
    for rank in one.ranks:
        said = [number for number in rank.stream.ranks if number is not None]
        if len(said) > 1:
            text = (
                f"one socket carries the ranks {', '.join(map(str, sorted(said)))}: "
                "several publishers share the port, or the rank is not the publisher's"
            )
            own = () if rank.rank is None else (rank.rank,)
            yield Finding("error", "R3", "shared-port", target, text, own, rank.endpoint)
    wrong = list(_shifted(one))
    yield from wrong
    if not any(finding.code.startswith("one-stream") for finding in wrong):
        yield from _doubled(one)


def _shifted(one: TargetSeen) -> Iterator[Finding]:
    """Wrong ranks with one cause: all the same, or all off by the same number."""
    pairs = [
        (rank.rank, number)
        for rank in one.ranks
        for number in rank.stream.ranks
        if rank.rank is not None and number is not None
    ]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    if len(pairs) < 2 or not wrong:
        return
    values, offsets = {number for _, number in pairs}, {number - rank for rank, number in pairs}
    if len(values) == 1:
        says = values.pop()
        ends = [set(rank.stream.ends) for rank in one.ranks if rank.stream.good]
        common = set.intersection(*ends)
        if len(common) >= SAME_MESSAGES and says is not None:
            text = (
                f"every rank says that it is rank {says}, and all their sockets carry the same "
                "messages, number by number: as it looks, they are one publisher's"
            )
            code = f"one-stream-everywhere{'-idle' if _is_still(common) else ''}"
            yield Finding("error", "R3", code, one.target.text, text)
            return
        text = (
            f"every rank says that it is rank {says}: it is not the publisher's rank "
            "(without DP attention attn_dp_rank is 0 everywhere, and the slot is dp_rank, rule R2)"
        )
        yield Finding("error", "R3", "one-rank-everywhere", one.target.text, text)
    elif len(offsets) == 1:
        text = (
            f"every rank says its own number {offsets.pop():+d}: load_endpoint_port_base is off, "
            "or ranks are counted from another number than 0"
        )
        yield Finding("error", "R3", "shifted-ranks", one.target.text, text)


def _doubled(one: TargetSeen) -> Iterator[Finding]:
    """Two sockets that carry one stream: number by number the same reading."""
    holders: dict[End, list[int]] = defaultdict(list)
    for place, rank in enumerate(one.ranks):
        for end in set(rank.stream.ends):
            holders[end].append(place)
    shared: dict[tuple[int, int], list[End]] = defaultdict(list)
    for end, places in holders.items():
        for pair in pairwise(places):
            shared[pair].append(end)
    for (left, right), ends in shared.items():
        first, second = one.ranks[left], one.ranks[right]
        says = (first.stream.reading or {}).get(RANK_FIELD)
        if len(ends) < SAME_MESSAGES or says is None:
            continue
        text = (
            f"{second.endpoint} carries the same messages as {first.endpoint}, number by number, "
            f"all of rank {says}: "
        )
        still = _is_still(ends)
        text += (
            "does something forward one port to both, or are both idle and in step?"
            if still
            else "something forwards one port to both"
        )
        level: Level = "warning" if still else "error"
        numbers = tuple(rank.rank for rank in (first, second) if rank.rank is not None)
        yield Finding(
            level, "R3", "one-stream-twice", one.target.text, text, numbers, first.endpoint
        )


def _is_still(ends: Iterable[End]) -> bool:
    """Whether nothing changed in them: idle ranks that count in step may be alike by chance."""
    return len({end.payload for end in ends}) < 2


def _across_targets(seen: Seen) -> Iterator[Finding]:
    """Workers that advertise the same port of the same machine, or differ in revision."""
    dialled: dict[tuple[str, str], list[tuple[TargetSeen, RankSeen]]] = defaultdict(list)
    for one in seen.targets:
        for rank in one.ranks:
            port = rank.endpoint.rpartition(":")[2]
            dialled[one.address, port].append((one, rank))
    told = set()
    for (_, port), users in dialled.items():
        workers = [(one, rank) for one, rank in users if one.target.url is not None]
        if len(workers) < 2:
            continue
        (one, rank), (other, _) = workers[:2]
        pair = (one.target.text, other.target.text)
        if pair in told:
            continue
        told.add(pair)
        text = (
            f"{other.target.text} advertises port {port} as well: workers on one machine need "
            "ranges that do not overlap, else one of them reads as the other"
        )
        own = () if rank.rank is None else (rank.rank,)
        yield Finding("error", "R3", "colliding-workers", pair[0], text, own, rank.endpoint)
    revisions = {
        one.target.text: max(rank.stream.revision_read for rank in one.ranks)
        for one in seen.targets
        # An array that was trimmed is an error (rule W4), and reads as a revision that it is not.
        if one.heard and not any(map(is_between, chain(*(r.stream.lengths for r in one.ranks))))
    }
    if len(set(revisions.values())) > 1:
        (first, own_revision), *others = revisions.items()
        text = ", ".join(f"{target} revision {r}" for target, r in others)
        text = f"it sends revision {own_revision}, and {text}: fine while engines roll"
        yield Finding("note", "W11", "targets-differ", first, text)


def _merged(found: Iterable[Finding]) -> list[Finding]:
    """Ranks of one target that show the same, told once: the first speaks for all."""
    groups: dict[object, list[Finding]] = defaultdict(list)
    for place, finding in enumerate(found):
        own: object = (*(finding.target, finding.level, finding.rule, finding.code, finding.state),)
        groups[own if finding.ranks else place].append(finding)
    merged = []
    for group in groups.values():
        first = group[0]
        ranks = tuple(dict.fromkeys(number for one in group for number in one.ranks))
        count = sum(one.count for one in group)
        merged.append(Finding(**{**vars(first), "ranks": ranks, "count": count}))
    return merged


def _with_causes(found: Sequence[Finding]) -> Iterator[Finding]:
    """The findings, with what is likely behind them; wrong ranks with one cause have it once."""
    told = {finding.target for finding in found if finding.code in _OF_ALL_RANKS}
    for finding in found:
        # Behind the code of what no router takes stands the element: too-short-3.
        code = finding.code.rstrip("0123456789").rstrip("-")
        likely = LIKELY.get((finding.rule, code))
        if likely is None or (finding.code == "wrong-rank" and finding.target in told):
            yield finding
        else:
            yield replace(finding, likely=likely.cause, remedy=likely.remedy)


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks in words: ``rank 3``, ``ranks 0 to 7``, ``ranks 0, 2 and 5 more``."""
    numbers = sorted(set(ranks))
    if len(numbers) == 1:
        return f"rank {numbers[0]}" if numbers[0] >= 0 else "the socket"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        join = "and" if len(numbers) == 2 else "to"
        return f"ranks {numbers[0]} {join} {numbers[-1]}"
    if len(numbers) <= 6:
        return f"ranks {', '.join(map(str, numbers))}"
    return f"ranks {', '.join(map(str, numbers[:4]))} and {len(numbers) - 4} more"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
