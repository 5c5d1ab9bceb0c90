"""Where an engine publishes its load that is off or on auto: the resolver's table, by hand.

The rows are those of the table that was measured on SGLang 0.5.23, each value of a row a vector of
its own; ``by <rule>`` in place of a row is a neighbour that a boundary needs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import Choice, Declined, Range

_MARKED = re.compile(r"^(table .*?) ([TCDL](?:, [TCDL])*)$")

KV = "tcp://*:5557"
LOAD = "tcp://*:7000"


class Ask(NamedTuple):
    """One question; most differ from the usual one in one or two places."""

    mode: str | None = "auto"
    kv: str | None = KV
    dp: int = 1
    replay: str | None = None


Expect = Range | Declined | Choice[Range | Declined]
Case = tuple[str, Ask, Expect]


class Row(NamedTuple):
    """One row of the table: the rule, row and mark, what it is for, and its values."""

    rule: str
    row: str
    why: str
    cases: tuple[Case, ...]


def row(rule: str, place: str, why: str, *cases: Case) -> Row:
    """A row, with its cases one after the other."""
    return Row(rule, place, why, cases)


def star(base: int) -> Range:
    """A range on every IPv4 interface."""
    return Range("*", base)


def declined(reason: DeclineReason, *mentions: str, omits: tuple[str, ...] = ()) -> Declined:
    """A decline, and what its text has to mention."""
    return Declined(reason, mentions, omits)


def loose(strict: Range | Declined, sglang: Range | Declined) -> Choice[Range | Declined]:
    """What differs where SGLang reads text that libzmq reads otherwise, or not at all."""
    return Choice(AddressPolicy.LOOSE_ENDPOINT, {"strict": strict, "sglang": sglang})


def source(table: str, row: str, function: str) -> str:
    """Where an expectation comes from: the table, its row and marks, and whom to ask again.

    Args:
        table: What the table is about.
        row: Its row with its marks behind, such as ``1.1 row 24 T``; ``by E6`` for a neighbour.
        function: The function of SGLang 0.5.23 that answers.
    """
    place = _MARKED.sub(r"\1 [\2]", f"neighbour {row}" if row.startswith("by ") else f"table {row}")
    return f"{table} {place}; {function} of SGLang 0.5.23 answers"


OFF = declined(DeclineReason.OFF)
NO_KV = declined(DeclineReason.NO_KV_EVENTS, "--kv-events-config", omits=("None",))
NO_KV_TEXT = declined(DeclineReason.NO_KV_EVENTS, "--kv-events-config")
KV_UNUSABLE = declined(DeclineReason.KV_NOT_ADVERTISABLE, "--kv-events-config")
NOT_BINDABLE = declined(DeclineReason.NOT_BINDABLE, "bindable")
OVERLAPS_KV = declined(DeclineReason.OVERLAPS_KV, "overlaps")
OVERLAPS_REPLAY = declined(DeclineReason.OVERLAPS_REPLAY, "overlaps")
PAST = declined(DeclineReason.PAST_PORT_65535)

OFF_ROWS = (
    row("E1", "1.1 row 1 T", "unset is off", ("off-unset", Ask(None), OFF)),
    row("E1", "1.1 row 2 T", "off is off", ("off", Ask("off"), OFF)),
    row(
        "E1",
        "1.1 row 3 D",
        "blank is off, and so is off in any case with blanks around",
        ("off-empty", Ask(""), OFF),
        ("off-blanks", Ask("   "), OFF),
        ("off-upper-case", Ask("OFF"), OFF),
        ("off-padded", Ask(" Off "), OFF),
    ),
    row(
        "E1",
        "1.1 row 4 T",
        "unset is off and says nothing, even where KV events could not be packed behind",
        ("off-unset-kv-concrete", Ask(None, "tcp://10.0.0.5:5557"), OFF),
    ),
    row(
        "E1",
        "by E1",
        "off looks at nothing else, so a broken KV endpoint makes no noise",
        ("off-kv-missing", Ask("off", None), OFF),
        ("off-kv-ipc", Ask("off", "ipc:///run/kv"), OFF),
        ("off-unset-kv-at-65535", Ask(None, "tcp://*:65535"), OFF),
    ),
    row(
        "E1",
        "1.1 row 5 D",
        "no scheduler publishes, so there is nothing to reserve and nothing to say",
        ("no-ranks-auto", Ask("auto", dp=0), OFF),
        ("negative-ranks-auto", Ask("auto", dp=-1), OFF),
        ("no-ranks-explicit", Ask(LOAD, dp=0), OFF),
        ("negative-ranks-explicit", Ask(LOAD, dp=-1), OFF),
    ),
)

AUTO_ROWS = (
    row("E2", "1.1 row 6 T", "auto packs right behind one KV port", ("auto", Ask(), star(5558))),
    row(
        "E2",
        "1.1 row 6 D",
        "auto is auto in any case, with blanks around",
        ("auto-upper-case", Ask("AUTO"), star(5558)),
        ("auto-padded", Ask(" Auto "), star(5558)),
    ),
    row(
        "E2",
        "1.1 row 7-8 T",
        "auto packs behind the whole KV range, whose length is that of the load range",
        ("auto-dp-2", Ask(dp=2), star(5559)),
        ("auto-dp-4", Ask(dp=4), star(5561)),
    ),
    row("E2", "1.1 row 9 D", "the same for eight schedulers", ("auto-dp-8", Ask(dp=8), star(5565))),
    row(
        "E4",
        "1.1 row 10-11 T",
        "the load range has the wildcard host of the KV endpoint, without brackets",
        ("auto-kv-0-0-0-0", Ask(kv="tcp://0.0.0.0:5557"), Range("0.0.0.0", 5558)),  # noqa: S104
        ("auto-kv-ipv6-any", Ask(kv="tcp://[::]:5557"), Range("::", 5558)),
    ),
    row(
        "E4",
        "by E4",
        "the same for two schedulers and a replay range of another host",
        (
            "auto-kv-ipv6-any-replay",
            Ask(kv="tcp://[::]:5557", dp=2, replay="tcp://*:5559"),
            Range("::", 5561),
        ),
    ),
    row(
        "E2",
        "1.1 row 12-14 T",
        "auto steps behind the replay range that follows on the KV base",
        ("auto-replay-next", Ask(replay="tcp://*:5558"), star(5559)),
        ("auto-replay-next-dp-2", Ask(dp=2, replay="tcp://*:5558"), star(5560)),
        ("auto-replay-next-dp-4", Ask(dp=4, replay="tcp://*:5558"), star(5562)),
    ),
    row(
        "E2",
        "1.1 row 15 D",
        "the same for eight schedulers",
        ("auto-replay-next-dp-8", Ask(dp=8, replay="tcp://*:5558"), star(5566)),
    ),
    row(
        "E2",
        "1.1 row 16 T",
        "a replay range elsewhere moves nothing",
        ("auto-replay-far", Ask(replay="tcp://*:6000"), star(5558)),
    ),
    row(
        "E2",
        "1.1 row 17 D",
        "the replay socket binds its port whatever its host, so the host does not matter",
        ("auto-replay-ipv4", Ask(replay="tcp://127.0.0.1:5558"), star(5559)),
        ("auto-replay-ipv6", Ask(replay="tcp://[::1]:5558"), star(5559)),
    ),
    row(
        "E2",
        "1.1 row 18 D",
        "a replay endpoint that has no legal tcp port occupies none",
        ("auto-replay-ipc", Ask(replay="ipc:///r"), star(5558)),
        ("auto-replay-no-number", Ask(replay="tcp://*:abc"), star(5558)),
        ("auto-replay-bare-ipv6", Ask(replay="tcp://::1:5558"), star(5558)),
    ),
    row(
        "E2",
        "1.1 row 19 D",
        "a replay range that ends below the load range, or touches it, moves nothing",
        ("auto-replay-below", Ask(dp=4, replay="tcp://*:5556"), star(5561)),
        ("auto-replay-touches-below", Ask(dp=4, replay="tcp://*:5557"), star(5561)),
    ),
    row(
        "E2",
        "1.1 row 20-22 D",
        "one shared port is enough to step behind, at either end",
        ("auto-replay-inside-kv", Ask(dp=4, replay="tcp://*:5560"), star(5564)),
        ("auto-replay-same", Ask(dp=4, replay="tcp://*:5561"), star(5565)),
        ("auto-replay-last-overlap", Ask(dp=4, replay="tcp://*:5564"), star(5568)),
    ),
    row(
        "E2",
        "1.1 row 23 D",
        "a replay range that starts right behind the load range moves nothing",
        ("auto-replay-touches-above", Ask(dp=4, replay="tcp://*:5565"), star(5561)),
    ),
)

AUTO_DECLINED_ROWS = (
    row(
        "E4",
        "1.1 row 24 T",
        "auto packs behind what is bound, and a concrete host is connected to; :: in an IPv6 "
        "address is no wildcard",
        ("auto-kv-ipv4", Ask(kv="tcp://10.0.0.5:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6", Ask(kv="tcp://[2001:db8::5]:5557"), NOT_BINDABLE),
    ),
    row(
        "E4",
        "by E4",
        "the loopback addresses are concrete, and a wildcard is known by its text",
        ("auto-kv-ipv4-loopback", Ask(kv="tcp://127.0.0.1:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6-loopback", Ask(kv="tcp://[::1]:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6-any-in-full", Ask(kv="tcp://[0:0:0:0:0:0:0:0]:5557"), NOT_BINDABLE),
    ),
    row(
        "E8",
        "1.1 row 24 T",
        "an IPv6 address without brackets is no endpoint",
        ("auto-kv-bare-ipv6", Ask(kv="tcp://::1:5557"), KV_UNUSABLE),
    ),
    row(
        "E2",
        "1.1 row 24 T",
        "auto has nothing to pack behind without a usable KV endpoint",
        ("auto-kv-no-port", Ask(kv="tcp://host"), KV_UNUSABLE),
        ("auto-kv-ipc", Ask(kv="ipc:///run/kv"), KV_UNUSABLE),
    ),
    row(
        "E5",
        "1.1 row 24 T",
        "without KV events the text names the flag that is missing, and no Python word",
        ("auto-kv-missing", Ask(kv=None), NO_KV),
    ),
    row(
        "E2",
        "1.1 row 25 T",
        "auto packs behind no KV endpoint that SGLang cannot bind",
        ("auto-kv-ipc-socket", Ask(kv="ipc:///run/kv.sock"), KV_UNUSABLE),
        ("auto-kv-inproc", Ask(kv="inproc://kv"), KV_UNUSABLE),
        ("auto-kv-somehost", Ask(kv="tcp://somehost"), KV_UNUSABLE),
        ("auto-kv-any-port", Ask(kv="tcp://*:*"), KV_UNUSABLE),
        ("auto-kv-negative-port", Ask(kv="tcp://somehost:-100"), KV_UNUSABLE),
    ),
    row(
        "E2",
        "1.1 row 26 D",
        "the KV endpoint is taken as it stands: no port 0, no other case, no blank",
        ("auto-kv-empty", Ask(kv=""), NO_KV_TEXT),
        ("auto-kv-port-0", Ask(kv="tcp://*:0"), KV_UNUSABLE),
        ("auto-kv-upper-case", Ask(kv="TCP://*:5557"), KV_UNUSABLE),
        ("auto-kv-leading-blank", Ask(kv=" tcp://*:5557"), KV_UNUSABLE),
    ),
    row(
        "E6",
        "1.1 row 27 T",
        "no port is left behind the last",
        ("past-1", Ask(kv="tcp://*:65535"), PAST),
    ),
    row(
        "E6",
        "1.1 row 28 D",
        "the last port is one",
        ("last-1", Ask(kv="tcp://*:65534"), star(65535)),
    ),
    row(
        "E6",
        "1.1 row 29 D",
        "the last rank decides, not the base",
        ("last-2-but-one", Ask(kv="tcp://*:65531", dp=2), star(65533)),
        ("last-2", Ask(kv="tcp://*:65532", dp=2), star(65534)),
        ("past-2", Ask(kv="tcp://*:65533", dp=2), PAST),
    ),
    row(
        "E6",
        "1.1 row 30 D",
        "the last port is reached behind the replay range as well",
        ("last-replay", Ask(kv="tcp://*:65533", replay="tcp://*:65534"), star(65535)),
    ),
    row(
        "E6",
        "1.1 row 31 D",
        "the end is judged after the step behind the replay range",
        ("past-replay", Ask(kv="tcp://*:65534", replay="tcp://*:65535"), PAST),
    ),
    row(
        "E6",
        "by E6",
        "four ranks at the end, with and without a step behind the replay range",
        ("last-4", Ask(kv="tcp://*:65528", dp=4), star(65532)),
        ("past-4", Ask(kv="tcp://*:65529", dp=4), PAST),
        ("last-replay-2", Ask(kv="tcp://*:65530", dp=2, replay="tcp://*:65532"), star(65534)),
        ("past-replay-2", Ask(kv="tcp://*:65530", dp=2, replay="tcp://*:65533"), PAST),
    ),
)
