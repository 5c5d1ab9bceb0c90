"""Where an engine publishes its load, or why nowhere: the resolver's table, spelled by hand.

The rows are those of the table that was measured on SGLang 0.5.23, each value of a row a vector of
its own; ``by <rule>`` in place of a row is a neighbour that a boundary needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import Choice, Declined, Range, ResolveVector

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _row(rule: str, row: str, why: str, *cases: Case) -> Row:
    return Row(rule, row, why, cases)


def star(base: int) -> Range:
    """A range on every IPv4 interface."""
    return Range("*", base)


def declined(reason: DeclineReason, *mentions: str, omits: tuple[str, ...] = ()) -> Declined:
    """A decline, and what its text has to mention."""
    return Declined(reason, mentions, omits)


def loose(strict: Range | Declined, sglang: Range | Declined) -> Choice[Range | Declined]:
    """What differs where SGLang reads text that libzmq reads otherwise, or not at all."""
    return Choice(AddressPolicy.LOOSE_ENDPOINT, {"strict": strict, "sglang": sglang})


OFF = declined(DeclineReason.OFF)
NO_KV = declined(DeclineReason.NO_KV_EVENTS, "--kv-events-config", omits=("None",))
NO_KV_TEXT = declined(DeclineReason.NO_KV_EVENTS, "--kv-events-config")
KV_UNUSABLE = declined(DeclineReason.KV_NOT_ADVERTISABLE, "--kv-events-config")
NOT_BINDABLE = declined(DeclineReason.NOT_BINDABLE, "bindable")
OVERLAPS_KV = declined(DeclineReason.OVERLAPS_KV, "overlaps")
OVERLAPS_REPLAY = declined(DeclineReason.OVERLAPS_REPLAY, "overlaps")
PAST = declined(DeclineReason.PAST_PORT_65535)

OFF_ROWS = (
    _row("E1", "1 T", "unset is off", ("off-unset", Ask(None), OFF)),
    _row("E1", "2 T", "off is off", ("off", Ask("off"), OFF)),
    _row(
        "E1",
        "3 D",
        "blank is off, and so is off in any case with blanks around",
        ("off-empty", Ask(""), OFF),
        ("off-blanks", Ask("   "), OFF),
        ("off-upper-case", Ask("OFF"), OFF),
        ("off-padded", Ask(" Off "), OFF),
    ),
    _row(
        "E1",
        "4 T",
        "unset is off and says nothing, even where KV events could not be packed behind",
        ("off-unset-kv-concrete", Ask(None, "tcp://10.0.0.5:5557"), OFF),
    ),
    _row(
        "E1",
        "by E1",
        "off looks at nothing else, so a broken KV endpoint makes no noise",
        ("off-kv-missing", Ask("off", None), OFF),
        ("off-kv-ipc", Ask("off", "ipc:///run/kv"), OFF),
        ("off-unset-kv-at-65535", Ask(None, "tcp://*:65535"), OFF),
    ),
    _row(
        "E1",
        "5 D",
        "no scheduler publishes, so there is nothing to reserve and nothing to say",
        ("no-ranks-auto", Ask("auto", dp=0), OFF),
        ("negative-ranks-auto", Ask("auto", dp=-1), OFF),
        ("no-ranks-explicit", Ask(LOAD, dp=0), OFF),
        ("negative-ranks-explicit", Ask(LOAD, dp=-1), OFF),
    ),
)

AUTO_ROWS = (
    _row("E2", "6 T", "auto packs right behind one KV port", ("auto", Ask(), star(5558))),
    _row(
        "E2",
        "6 D",
        "auto is auto in any case, with blanks around",
        ("auto-upper-case", Ask("AUTO"), star(5558)),
        ("auto-padded", Ask(" Auto "), star(5558)),
    ),
    _row(
        "E2",
        "7-8 T",
        "auto packs behind the whole KV range, whose length is that of the load range",
        ("auto-dp-2", Ask(dp=2), star(5559)),
        ("auto-dp-4", Ask(dp=4), star(5561)),
    ),
    _row("E2", "9 D", "the same for eight schedulers", ("auto-dp-8", Ask(dp=8), star(5565))),
    _row(
        "E4",
        "10-11 T",
        "the load range has the wildcard host of the KV endpoint, without brackets",
        ("auto-kv-0-0-0-0", Ask(kv="tcp://0.0.0.0:5557"), Range("0.0.0.0", 5558)),  # noqa: S104
        ("auto-kv-ipv6-any", Ask(kv="tcp://[::]:5557"), Range("::", 5558)),
    ),
    _row(
        "E4",
        "by E4",
        "the same for two schedulers and a replay range of another host",
        (
            "auto-kv-ipv6-any-replay",
            Ask(kv="tcp://[::]:5557", dp=2, replay="tcp://*:5559"),
            Range("::", 5561),
        ),
    ),
    _row(
        "E2",
        "12-14 T",
        "auto steps behind the replay range that follows on the KV base",
        ("auto-replay-next", Ask(replay="tcp://*:5558"), star(5559)),
        ("auto-replay-next-dp-2", Ask(dp=2, replay="tcp://*:5558"), star(5560)),
        ("auto-replay-next-dp-4", Ask(dp=4, replay="tcp://*:5558"), star(5562)),
    ),
    _row(
        "E2",
        "15 D",
        "the same for eight schedulers",
        ("auto-replay-next-dp-8", Ask(dp=8, replay="tcp://*:5558"), star(5566)),
    ),
    _row(
        "E2",
        "16 T",
        "a replay range elsewhere moves nothing",
        ("auto-replay-far", Ask(replay="tcp://*:6000"), star(5558)),
    ),
    _row(
        "E2",
        "17 D",
        "the replay socket binds its port whatever its host, so the host does not matter",
        ("auto-replay-ipv4", Ask(replay="tcp://127.0.0.1:5558"), star(5559)),
        ("auto-replay-ipv6", Ask(replay="tcp://[::1]:5558"), star(5559)),
    ),
    _row(
        "E2",
        "18 D",
        "a replay endpoint that has no legal tcp port occupies none",
        ("auto-replay-ipc", Ask(replay="ipc:///r"), star(5558)),
        ("auto-replay-no-number", Ask(replay="tcp://*:abc"), star(5558)),
        ("auto-replay-bare-ipv6", Ask(replay="tcp://::1:5558"), star(5558)),
    ),
    _row(
        "E2",
        "19 D",
        "a replay range that ends below the load range, or touches it, moves nothing",
        ("auto-replay-below", Ask(dp=4, replay="tcp://*:5556"), star(5561)),
        ("auto-replay-touches-below", Ask(dp=4, replay="tcp://*:5557"), star(5561)),
    ),
    _row(
        "E2",
        "20-22 D",
        "one shared port is enough to step behind, at either end",
        ("auto-replay-inside-kv", Ask(dp=4, replay="tcp://*:5560"), star(5564)),
        ("auto-replay-same", Ask(dp=4, replay="tcp://*:5561"), star(5565)),
        ("auto-replay-last-overlap", Ask(dp=4, replay="tcp://*:5564"), star(5568)),
    ),
    _row(
        "E2",
        "23 D",
        "a replay range that starts right behind the load range moves nothing",
        ("auto-replay-touches-above", Ask(dp=4, replay="tcp://*:5565"), star(5561)),
    ),
)

AUTO_DECLINED_ROWS = (
    _row(
        "E4",
        "24 T",
        "auto packs behind what is bound, and a concrete host is connected to; :: in an IPv6 "
        "address is no wildcard",
        ("auto-kv-ipv4", Ask(kv="tcp://10.0.0.5:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6", Ask(kv="tcp://[2001:db8::5]:5557"), NOT_BINDABLE),
    ),
    _row(
        "E4",
        "by E4",
        "the loopback addresses are concrete, and a wildcard is known by its text",
        ("auto-kv-ipv4-loopback", Ask(kv="tcp://127.0.0.1:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6-loopback", Ask(kv="tcp://[::1]:5557"), NOT_BINDABLE),
        ("auto-kv-ipv6-any-in-full", Ask(kv="tcp://[0:0:0:0:0:0:0:0]:5557"), NOT_BINDABLE),
    ),
    _row(
        "E8",
        "24 T",
        "an IPv6 address without brackets is no endpoint",
        ("auto-kv-bare-ipv6", Ask(kv="tcp://::1:5557"), KV_UNUSABLE),
    ),
    _row(
        "E2",
        "24 T",
        "auto has nothing to pack behind without a usable KV endpoint",
        ("auto-kv-no-port", Ask(kv="tcp://host"), KV_UNUSABLE),
        ("auto-kv-ipc", Ask(kv="ipc:///run/kv"), KV_UNUSABLE),
    ),
    _row(
        "E5",
        "24 T",
        "without KV events the text names the flag that is missing, and no Python word",
        ("auto-kv-missing", Ask(kv=None), NO_KV),
    ),
    _row(
        "E2",
        "25 T",
        "auto packs behind no KV endpoint that SGLang cannot bind",
        ("auto-kv-ipc-socket", Ask(kv="ipc:///run/kv.sock"), KV_UNUSABLE),
        ("auto-kv-inproc", Ask(kv="inproc://kv"), KV_UNUSABLE),
        ("auto-kv-somehost", Ask(kv="tcp://somehost"), KV_UNUSABLE),
        ("auto-kv-any-port", Ask(kv="tcp://*:*"), KV_UNUSABLE),
        ("auto-kv-negative-port", Ask(kv="tcp://somehost:-100"), KV_UNUSABLE),
    ),
    _row(
        "E2",
        "26 D",
        "the KV endpoint is taken as it stands: no port 0, no other case, no blank",
        ("auto-kv-empty", Ask(kv=""), NO_KV_TEXT),
        ("auto-kv-port-0", Ask(kv="tcp://*:0"), KV_UNUSABLE),
        ("auto-kv-upper-case", Ask(kv="TCP://*:5557"), KV_UNUSABLE),
        ("auto-kv-leading-blank", Ask(kv=" tcp://*:5557"), KV_UNUSABLE),
    ),
    _row("E6", "27 T", "no port is left behind the last", ("past-1", Ask(kv="tcp://*:65535"), PAST)),
    _row("E6", "28 D", "the last port is one", ("last-1", Ask(kv="tcp://*:65534"), star(65535))),
    _row(
        "E6",
        "29 D",
        "the last rank decides, not the base",
        ("last-2-but-one", Ask(kv="tcp://*:65531", dp=2), star(65533)),
        ("last-2", Ask(kv="tcp://*:65532", dp=2), star(65534)),
        ("past-2", Ask(kv="tcp://*:65533", dp=2), PAST),
    ),
    _row(
        "E6",
        "30 D",
        "the last port is reached behind the replay range as well",
        ("last-replay", Ask(kv="tcp://*:65533", replay="tcp://*:65534"), star(65535)),
    ),
    _row(
        "E6",
        "31 D",
        "the end is judged after the step behind the replay range",
        ("past-replay", Ask(kv="tcp://*:65534", replay="tcp://*:65535"), PAST),
    ),
    _row(
        "E6",
        "by E6",
        "four ranks at the end, with and without a step behind the replay range",
        ("last-4", Ask(kv="tcp://*:65528", dp=4), star(65532)),
        ("past-4", Ask(kv="tcp://*:65529", dp=4), PAST),
        ("last-replay-2", Ask(kv="tcp://*:65530", dp=2, replay="tcp://*:65532"), star(65534)),
        ("past-replay-2", Ask(kv="tcp://*:65530", dp=2, replay="tcp://*:65533"), PAST),
    ),
)

EXPLICIT_ROWS = (
    _row("E3", "32 T", "an address sets the base outright", ("at", Ask(LOAD), star(7000))),
    _row("E3", "33 T", "for four schedulers as well", ("at-dp-4", Ask(LOAD, dp=4), star(7000))),
    _row(
        "E3",
        "34 D",
        "blanks around the address do not matter",
        ("at-padded", Ask(" tcp://*:7000 "), star(7000)),
    ),
    _row(
        "E4",
        "35 D",
        "each wildcard host is bound as it is written",
        ("at-0-0-0-0", Ask("tcp://0.0.0.0:7000"), Range("0.0.0.0", 7000)),  # noqa: S104
        ("at-ipv6-any", Ask("tcp://[::]:7000"), Range("::", 7000)),
    ),
    _row(
        "E4",
        "36 T",
        "a concrete host would be connected to, not bound",
        ("at-ipv4", Ask("tcp://10.0.0.5:7000"), NOT_BINDABLE),
    ),
    _row(
        "E4",
        "37 D",
        "what is neither off nor auto is an address with a wildcard host and a legal port",
        ("at-ipv4-loopback", Ask("tcp://127.0.0.1:7000"), NOT_BINDABLE),
        ("at-localhost", Ask("tcp://localhost:7000"), NOT_BINDABLE),
        ("at-port-0", Ask("tcp://*:0"), NOT_BINDABLE),
        ("at-port-65536", Ask("tcp://*:65536"), NOT_BINDABLE),
        ("at-no-port", Ask("tcp://*"), NOT_BINDABLE),
        ("at-ipc", Ask("ipc:///x"), NOT_BINDABLE),
        ("at-no-scheme", Ask("*:7000"), NOT_BINDABLE),
        ("at-number", Ask("7000"), NOT_BINDABLE),
        ("on", Ask("on"), NOT_BINDABLE),
        ("true", Ask("true"), NOT_BINDABLE),
        ("none", Ask("none"), NOT_BINDABLE),
        ("at-upper-case", Ask("TCP://*:7000"), NOT_BINDABLE),
    ),
    _row(
        "E4",
        "by E4",
        ":: stands in every IPv6 address, and only the host that is nothing else is a wildcard",
        ("at-ipv6", Ask("tcp://[2001:db8::5]:7000"), NOT_BINDABLE),
        ("at-ipv6-loopback", Ask("tcp://[::1]:7000"), NOT_BINDABLE),
        ("at-ipv6-any-in-full", Ask("tcp://[::0]:7000"), NOT_BINDABLE),
    ),
    _row(
        "E8",
        "by E8",
        "an IPv6 address without brackets is no address, not even the wildcard",
        ("at-bare-ipv6", Ask("tcp://::1:7000"), NOT_BINDABLE),
        ("at-bare-ipv6-any", Ask("tcp://:::7000"), NOT_BINDABLE),
    ),
    _row(
        "E3",
        "38 T",
        "the range overlaps that of the KV events",
        ("at-inside-kv", Ask("tcp://*:5558", dp=4), OVERLAPS_KV),
    ),
    _row("E3", "39 D", "one port on itself", ("at-kv", Ask("tcp://*:5557"), OVERLAPS_KV)),
    _row(
        "E3",
        "40 D",
        "ranges that touch share no port, above or below",
        ("at-touches-above", Ask("tcp://*:5561", dp=4), star(5561)),
        ("at-touches-below", Ask("tcp://*:5553", dp=4), star(5553)),
    ),
    _row(
        "E3",
        "41 D",
        "one shared port at the low end is an overlap",
        ("at-overlaps-low-end", Ask("tcp://*:5554", dp=4), OVERLAPS_KV),
    ),
    _row(
        "E3",
        "by E3",
        "one shared port at the high end is an overlap, and single ports only overlap themselves",
        ("at-overlaps-high-end", Ask("tcp://*:5560", dp=4), OVERLAPS_KV),
        ("at-next", Ask("tcp://*:5558"), star(5558)),
        ("at-previous", Ask("tcp://*:5556"), star(5556)),
    ),
    _row(
        "E3",
        "42 D",
        "the replay range is kept clear of too, and is not stepped behind",
        ("at-inside-replay", Ask("tcp://*:6002", dp=4, replay="tcp://*:6000"), OVERLAPS_REPLAY),
        ("at-above-replay", Ask("tcp://*:6004", dp=4, replay="tcp://*:6000"), star(6004)),
    ),
    _row(
        "E3",
        "by E3",
        "the ends of the replay range",
        ("at-replay-high-end", Ask("tcp://*:6003", dp=4, replay="tcp://*:6000"), OVERLAPS_REPLAY),
        ("at-replay-low-end", Ask("tcp://*:5997", dp=4, replay="tcp://*:6000"), OVERLAPS_REPLAY),
        ("at-below-replay", Ask("tcp://*:5996", dp=4, replay="tcp://*:6000"), star(5996)),
        ("at-replay-ipc", Ask("tcp://*:6000", replay="ipc:///r"), star(6000)),
    ),
    _row(
        "E3",
        "43 D",
        "the host of the replay endpoint does not matter",
        ("at-replay-ipv4", Ask("tcp://*:5558", replay="tcp://127.0.0.1:5558"), OVERLAPS_REPLAY),
    ),
    _row(
        "E3",
        "44 D",
        "an address of its own needs no bindable KV endpoint, only one that is advertised",
        ("at-kv-ipv4", Ask(LOAD, "tcp://10.0.0.5:5557"), star(7000)),
    ),
    _row(
        "E3",
        "45 D",
        "the KV port counts as taken although it is on another machine",
        ("at-kv-ipv4-same-port", Ask("tcp://*:5557", "tcp://10.0.0.5:5557"), OVERLAPS_KV),
    ),
    _row(
        "E3",
        "by E3",
        "the same for a KV endpoint with an IPv6 host",
        ("at-kv-ipv6", Ask(LOAD, "tcp://[2001:db8::5]:5557"), star(7000)),
    ),
    _row(
        "E7",
        "46 T",
        "beside a KV endpoint that is not advertised, a range would be bound and never advertised",
        ("at-kv-ipc", Ask(LOAD, "ipc:///run/kv.sock"), KV_UNUSABLE),
        ("at-kv-inproc", Ask(LOAD, "inproc://kv"), KV_UNUSABLE),
        ("at-kv-no-port", Ask(LOAD, "tcp://0.0.0.0"), KV_UNUSABLE),
    ),
    _row(
        "E5",
        "47 T",
        "without KV events the text names the flag that is missing, and no Python word",
        ("at-kv-missing", Ask(LOAD, None), NO_KV),
    ),
    _row(
        "E7",
        "48 D",
        "an empty KV endpoint is none, and port 0 is no port",
        ("at-kv-empty", Ask(LOAD, ""), NO_KV_TEXT),
        ("at-kv-port-0", Ask(LOAD, "tcp://*:0"), KV_UNUSABLE),
    ),
    _row(
        "E8",
        "48 D",
        "an IPv6 address without brackets is no KV endpoint either",
        ("at-kv-bare-ipv6", Ask(LOAD, "tcp://::1:5557"), KV_UNUSABLE),
    ),
    _row(
        "E5",
        "49 D",
        "the missing KV events come first: the address may be right for all one knows",
        ("at-ipv4-kv-missing", Ask("tcp://10.0.0.5:7000", None), NO_KV),
    ),
    _row(
        "E6",
        "50 D",
        "the last rank of an explicit range decides",
        ("at-last-4", Ask("tcp://*:65532", dp=4), star(65532)),
        ("at-past-4", Ask("tcp://*:65533", dp=4), PAST),
    ),
    _row(
        "E6",
        "by E6",
        "the last port, for one rank and for two",
        ("at-last-1", Ask("tcp://*:65535"), star(65535)),
        ("at-past-2", Ask("tcp://*:65535", dp=2), PAST),
    ),
    _row(
        "E3",
        "51 D",
        "an overlap comes first, the end of the ports behind it",
        ("at-overlaps-and-past", Ask("tcp://*:65534", "tcp://*:65533", dp=4), OVERLAPS_KV),
    ),
)

_SPELLED = "SGLang reads the port as Python reads integers, libzmq does not: "
LOOSE_ROWS = (
    _row(
        "E4",
        "1.3 D, L",
        f"{_SPELLED}it binds port 5 of 5_557",
        ("auto-kv-underscore", Ask(kv="tcp://*:5_557"), loose(KV_UNUSABLE, star(5558))),
        ("at-underscore", Ask("tcp://*:7_000"), loose(NOT_BINDABLE, star(7000))),
    ),
    _row(
        "E4",
        "1.3 D, L",
        "SGLang takes a sign, blanks and leading zeros in a port",
        ("auto-kv-plus", Ask(kv="tcp://*:+5557"), loose(KV_UNUSABLE, star(5558))),
        ("auto-kv-inner-blank", Ask(kv="tcp://*: 5557"), loose(KV_UNUSABLE, star(5558))),
        ("auto-kv-trailing-blank", Ask(kv="tcp://*:5557 "), loose(KV_UNUSABLE, star(5558))),
        ("auto-kv-leading-zero", Ask(kv="tcp://*:05557"), loose(KV_UNUSABLE, star(5558))),
        ("at-plus", Ask("tcp://*:+7000"), loose(NOT_BINDABLE, star(7000))),
        ("at-leading-zero", Ask("tcp://*:07000"), loose(NOT_BINDABLE, star(7000))),
    ),
    _row(
        "E8",
        "1.3 D",
        "SGLang reads an IPv6 address without brackets and port as port 5 of the host 2001:db8:",
        ("at-kv-ipv6-no-port", Ask(LOAD, "tcp://2001:db8::5"), loose(KV_UNUSABLE, star(7000))),
        ("at-5-kv-ipv6", Ask("tcp://*:5", "tcp://2001:db8::5"), loose(KV_UNUSABLE, OVERLAPS_KV)),
    ),
    _row(
        "E4",
        "1.3 D",
        "SGLang takes any text for a host, that of a connect-style KV endpoint too",
        ("at-kv-interface", Ask(LOAD, "tcp://eth0;10.0.0.1:5557"), loose(KV_UNUSABLE, star(7000))),
    ),
    _row(
        "E2",
        "1.3 D, L",
        "a replay endpoint that libzmq binds on port 5 occupies no port of the range",
        ("auto-replay-underscore", Ask(replay="tcp://*:5_558"), loose(star(5558), star(5559))),
    ),
)

ROWS = (*OFF_ROWS, *AUTO_ROWS, *AUTO_DECLINED_ROWS, *EXPLICIT_ROWS, *LOOSE_ROWS)


def resolve_vectors() -> Iterator[ResolveVector]:
    """Every vector of the resolver, in the order of its table."""
    for rule, row, why, cases in ROWS:
        for name, ask, expect in cases:
            yield ResolveVector(
                id=f"resolve-{name}",
                rule=rule,
                why=why,
                source=source("resolver", row if row.startswith(("by", "1.3")) else f"1.1 row {row}", "resolve_load_pub_range"),
                kv_endpoint=ask.kv,
                replay_endpoint=ask.replay,
                dp_size=ask.dp,
                load_publish_endpoint=ask.mode,
                expect=expect,
            )


def source(table: str, row: str, function: str) -> str:
    """Where an expectation comes from: the table, its row and marks, and whom to ask again.

    Args:
        table: What the table is about.
        row: Its row with its marks behind, such as ``1.1 row 24 T``; ``by E6`` for a neighbour.
        function: The function of SGLang 0.5.23 that answers.
    """
    place = _MARKED.sub(r"\1 [\2]", f"neighbour {row}" if row.startswith("by ") else f"table {row}")
    return f"{table} {place}; {function} of SGLang 0.5.23 answers"
