"""What single endpoints are good for, and who publishes where: `endpoints.json`, spelled by hand.

The questions to the resolver are in `golden.ranges` and `golden.explicit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.golden.explicit import EXPLICIT_ROWS, LOOSE_ROWS
from pytest_loadwire.golden.ranges import AUTO_DECLINED_ROWS, AUTO_ROWS, OFF_ROWS, source
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import (
    Address,
    Choice,
    GateVector,
    Parsed,
    ParseVector,
    ResolveVector,
    SlotVector,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.vectors.addresses import EndpointVector

NOTHING = Parsed(None, None, None, ipv6=False)


def anywhere(port: int, host: str) -> Parsed:
    """A host that is connected to: its port is taken, and it is advertised."""
    return Parsed(port, Address(host, port), None, ipv6=host.startswith("["))


def wildcard(port: int, host: str) -> Parsed:
    """A host that is bound; brackets stand in the advertisement only."""
    return Parsed(
        port, Address(host, port), Address(host.strip("[]"), port), ipv6=host.startswith("[")
    )


def only_ipv6(what: Parsed = NOTHING) -> Parsed:
    """No endpoint, yet with an IPv6 literal in brackets, for which a socket sets IPV6."""
    return Parsed(what.port, what.advertisable, what.bindable, ipv6=True)


def loose(sglang: Parsed, strict: Parsed = NOTHING) -> Choice[Parsed]:
    """Text that SGLang reads, and that a strict parser refuses."""
    return Choice(AddressPolicy.LOOSE_ENDPOINT, {"strict": strict, "sglang": sglang})


class Row(NamedTuple):
    """Endpoints of one kind: rule, rows and marks, what they are for, name to text and verdict."""

    rule: str
    row: str
    why: str
    cases: dict[str, tuple[str | None, Parsed | Choice[Parsed]]]


ENDPOINTS = (
    Row(
        "E4",
        "1.3 C, T",
        "a wildcard host is bound, and advertised as it is written",
        {
            "star": ("tcp://*:5557", wildcard(5557, "*")),
            "0-0-0-0": ("tcp://0.0.0.0:5557", wildcard(5557, "0.0.0.0")),  # noqa: S104
            "ipv6-any": ("tcp://[::]:5557", wildcard(5557, "[::]")),
        },
    ),
    Row(
        "E4",
        "1.3 C",
        "a wildcard is known by its text: other spellings of zero are advertised, never bound",
        {
            "ipv6-any-short": ("tcp://[::0]:5557", anywhere(5557, "[::0]")),
            "ipv6-any-in-full": (
                "tcp://[0:0:0:0:0:0:0:0]:5557",
                anywhere(5557, "[0:0:0:0:0:0:0:0]"),
            ),
            "zero": ("tcp://0:5557", anywhere(5557, "0")),
            "zeros": ("tcp://00.0.0.0:5557", anywhere(5557, "00.0.0.0")),
        },
    ),
    Row(
        "E4",
        "1.3 C",
        "a concrete host is connected to, and :: within it makes it no wildcard",
        {
            "ipv6-loopback": ("tcp://[::1]:5557", anywhere(5557, "[::1]")),
            "ipv6": ("tcp://[2001:db8::5]:5557", anywhere(5557, "[2001:db8::5]")),
            "ipv6-8000": ("tcp://[::1]:8000", anywhere(8000, "[::1]")),
            "ipv6-zone": ("tcp://[fe80::1%eth0]:80", anywhere(80, "[fe80::1%eth0]")),
            "ipv6-mapped": ("tcp://[::ffff:10.0.0.1]:5557", anywhere(5557, "[::ffff:10.0.0.1]")),
            "ipv4": ("tcp://10.0.0.5:5557", anywhere(5557, "10.0.0.5")),
            "ipv4-loopback": ("tcp://127.0.0.1:8000", anywhere(8000, "127.0.0.1")),
            "localhost": ("tcp://localhost:5557", anywhere(5557, "localhost")),
            "name": ("tcp://my-hostname:8000", anywhere(8000, "my-hostname")),
            "interface": ("tcp://eth0:5557", anywhere(5557, "eth0")),
        },
    ),
    Row(
        "E8",
        "1.2, 1.3 C",
        "an IPv6 address without brackets is refused: nobody can tell where its port begins",
        {
            "bare-ipv6-loopback": ("tcp://::1:5557", NOTHING),
            "bare-ipv6-any": ("tcp://:::5557", NOTHING),
            "bare-ipv6": ("tcp://2001:db8::5:5557", NOTHING),
            "bare-ipv6-zone": ("tcp://fe80::1%eth0:80", NOTHING),
            "bare-ipv6-mapped": ("tcp://::ffff:10.0.0.1:5557", NOTHING),
            "bare-ipv6-any-no-port": ("tcp://::", NOTHING),
        },
    ),
    Row(
        "E8",
        "1.2, 1.3 C",
        "SGLang reads the last group of an IPv6 address without brackets as its port",
        {
            "bare-ipv6-as-port-5": ("tcp://2001:db8::5", loose(anywhere(5, "2001:db8:"))),
            "bare-ipv6-as-port-1": ("tcp://::1", loose(anywhere(1, ":"))),
        },
    ),
    Row(
        "E4",
        "1.2 C",
        "brackets hold an IPv6 address and nothing else, and a port follows them",
        {
            "bracket-open": ("tcp://[::1:8000", NOTHING),
            "bracket-name": ("tcp://[localhost]:80", NOTHING),
            "bracket-ipv4": ("tcp://[127.0.0.1]:80", NOTHING),
            "bracket-empty": ("tcp://[]:80", NOTHING),
            "bracket-star": ("tcp://[*]:5557", NOTHING),
        },
    ),
    Row(
        "K1",
        "1.2, 1.3 C",
        "no usable port, yet IPV6 is set for what the brackets hold",
        {
            "bracket-no-port": ("tcp://[::1]", only_ipv6()),
            "bracket-empty-port": ("tcp://[::1]:", only_ipv6()),
            "bracket-no-colon": ("tcp://[::1]8000", only_ipv6()),
            "bracket-twice": ("tcp://[::1]]:80", only_ipv6()),
            "bracket-two-colons": ("tcp://[::1]::80", only_ipv6()),
            "ipv6-port-65536": ("tcp://[::1]:65536", only_ipv6()),
            "ipv6-port-0": ("tcp://[::1]:0", only_ipv6()),
        },
    ),
    Row(
        "K1",
        "1.3 C",
        "IPV6 is set exactly for a literal in brackets",
        {
            "socket-ipv6-any": ("tcp://[::]:5558", wildcard(5558, "[::]")),
            "socket-ipv6-loopback": ("tcp://[::1]:1", anywhere(1, "[::1]")),
            "socket-ipv6-zone": ("tcp://[fe80::1%eth0]:1", anywhere(1, "[fe80::1%eth0]")),
            "socket-star": ("tcp://*:1", wildcard(1, "*")),
            "socket-0-0-0-0": ("tcp://0.0.0.0:1", wildcard(1, "0.0.0.0")),  # noqa: S104
            "socket-bare-ipv6": ("tcp://::1:1", NOTHING),
            "socket-name": ("tcp://[host]:1", NOTHING),
            "socket-open": ("tcp://[::1", NOTHING),
            "socket-ipc": ("ipc://[::1]", NOTHING),
            "socket-upper-case": ("TCP://[::1]:1", NOTHING),
        },
    ),
    Row(
        "A4",
        "1.2, 1.3 C",
        "no host, no port, or a port that is no number",
        {
            "host-alone": ("tcp://host", NOTHING),
            "star-alone": ("tcp://*", NOTHING),
            "scheme-alone": ("tcp://", NOTHING),
            "0-0-0-0-alone": ("tcp://0.0.0.0", NOTHING),
            "port-alone": ("tcp://:8000", NOTHING),
            "port-empty": ("tcp://host:", NOTHING),
            "port-star": ("tcp://*:*", NOTHING),
            "port-text": ("tcp://0.0.0.0:abc", NOTHING),
            "port-hex": ("tcp://host:0x50", NOTHING),
            "port-and-slash": ("tcp://*:5557/", NOTHING),
            "name-port-and-slash": ("tcp://host:5557/", NOTHING),
        },
    ),
    Row(
        "E6",
        "1.2, 1.3 C",
        "a port is a number from 1 to 65535",
        {
            "port-65535": ("tcp://*:65535", wildcard(65535, "*")),
            "port-65536": ("tcp://0.0.0.0:65536", NOTHING),
            "name-port-65536": ("tcp://host:65536", NOTHING),
            "port-1000000": ("tcp://0.0.0.0:1000000", NOTHING),
            "name-port-1000000": ("tcp://host:1000000", NOTHING),
            "port-negative": ("tcp://0.0.0.0:-1", NOTHING),
            "name-port-negative": ("tcp://host:-100", NOTHING),
            "port-0": ("tcp://*:0", NOTHING),
            "0-0-0-0-port-0": ("tcp://0.0.0.0:0", NOTHING),
            "name-port-0": ("tcp://host:0", NOTHING),
        },
    ),
    Row(
        "E6",
        "by E6",
        "the last and the first port of any host",
        {
            "name-port-65535": ("tcp://host:65535", anywhere(65535, "host")),
            "name-port-1": ("tcp://host:1", anywhere(1, "host")),
            "ipv6-port-65535": ("tcp://[::]:65535", wildcard(65535, "[::]")),
            "port-twenty-digits": ("tcp://*:18446744073709557173", NOTHING),
        },
    ),
    Row(
        "A4",
        "1.3 C",
        "only tcp:// in lower case at the very front is a tcp endpoint",
        {
            "missing": (None, NOTHING),
            "empty": ("", NOTHING),
            "scheme-upper-case": ("TCP://*:5557", NOTHING),
            "scheme-behind-blank": (" tcp://*:5557", NOTHING),
            "scheme-missing": ("*:5557", NOTHING),
            "ipc": ("ipc:///run/kv.sock", NOTHING),
            "inproc": ("inproc://kv", NOTHING),
            "udp": ("udp://*:5557", NOTHING),
        },
    ),
    Row(
        "E4",
        "1.2, 1.3 C, L",
        "SGLang reads a port as Python reads integers; libzmq binds port 5 of 5_557",
        {
            "port-underscore": ("tcp://*:5_557", loose(wildcard(5557, "*"))),
            "port-plus": ("tcp://*:+5557", loose(wildcard(5557, "*"))),
            "port-inner-blank": ("tcp://*: 5557", loose(wildcard(5557, "*"))),
            "port-trailing-blank": ("tcp://*:5557 ", loose(wildcard(5557, "*"))),
            "port-leading-zeros": ("tcp://host:00080", loose(anywhere(80, "host"))),
            "port-arabic-digits": (
                "tcp://host:\u0668\u0660",
                loose(anywhere(80, "host")),
            ),
            "name-port-underscore": ("tcp://host:8_0", loose(anywhere(80, "host"))),
            "name-port-plus": ("tcp://host:+80", loose(anywhere(80, "host"))),
            "name-port-inner-blank": ("tcp://host: 80", loose(anywhere(80, "host"))),
            "name-port-trailing-blank": ("tcp://host:80 ", loose(anywhere(80, "host"))),
        },
    ),
    Row(
        "E4",
        "1.2, 1.3 C",
        "SGLang takes any text in front of the last colon for a host",
        {
            "host-with-colon": ("tcp://a:b:80", loose(anywhere(80, "a:b"))),
            "host-with-scheme": ("tcp://tcp://host:80", loose(anywhere(80, "tcp://host"))),
            "host-star-with-scheme": ("tcp://tcp://*:5557", loose(anywhere(5557, "tcp://*"))),
            "host-with-user": ("tcp://user@h:80", loose(anywhere(80, "user@h"))),
            "host-bracket": ("tcp://]:80", loose(anywhere(80, "]"))),
            "host-behind-blank": ("tcp:// host:80", loose(anywhere(80, " host"))),
            "host-with-source": (
                "tcp://eth0;10.0.0.1:5557",
                loose(anywhere(5557, "eth0;10.0.0.1")),
            ),
        },
    ),
)

RANGES = (*OFF_ROWS, *AUTO_ROWS, *AUTO_DECLINED_ROWS, *EXPLICIT_ROWS, *LOOSE_ROWS)

# row and mark, attn_dp_size, attn_dp_rank, dp_rank, slot
SLOTS = (
    ("T", 1, 0, 0, 0),
    ("T", 1, 0, 1, 1),
    ("T", 1, 0, 3, 3),
    ("T", 2, 0, None, 0),
    ("T", 2, 1, None, 1),
    ("T", 2, 1, 99, 1),
    ("T", 1, 0, None, 0),
    ("D", 1, 5, 2, 2),
    ("T", 4, 3, 0, 3),
    ("by R2", 1, 0, 2, 2),
    ("by R2", 4, 0, 3, 0),
    ("by R2", 4, 1, None, 1),
    ("by R2", 4, 2, 1, 2),
)

CONFIG = '{"publisher":"zmq","endpoint":"tcp://*:5557"}'

# name, row and mark, what it is for, configuration, pp, attention-TP and attention-CP rank, answer
GATES: tuple[tuple[str, str, str, str | None, tuple[int, int, int], bool], ...] = (
    ("first", "1.4 C", "the first of all ranks publishes", CONFIG, (0, 0, 0), True),
    ("no-config", "1.4 C", "without KV events nobody publishes", None, (0, 0, 0), False),
    ("empty-config", "1.4 C", "an empty configuration is none", "", (0, 0, 0), False),
    ("bad-config", "1.4 C", "any text is given; another place reads it", "{x", (0, 0, 0), True),
    ("pp", "1.4 T", "a later pipeline stage has no KV cache to tell of", CONFIG, (1, 0, 0), False),
    ("attn-tp", "1.4 T", "one attention-TP rank speaks for all", CONFIG, (0, 1, 0), False),
    ("attn-cp", "1.4 T", "one attention-CP rank speaks for all", CONFIG, (0, 0, 1), False),
    ("attn-tp-7", "by R1", "a higher attention-TP rank neither", CONFIG, (0, 7, 0), False),
    (
        "every-rank",
        "by R1",
        "one rank above 0 is enough, all the more three",
        CONFIG,
        (1, 1, 1),
        False,
    ),
)


def endpoint_vectors() -> Iterator[EndpointVector]:
    """Every vector of ``endpoints.json``."""
    for rule, row, why, cases in ENDPOINTS:
        for name, (endpoint, expect) in cases.items():
            yield ParseVector(
                id=f"parse-{name}",
                rule=rule,
                why=why,
                source=source("endpoint", row, "NetworkAddress.parse, parse_*_tcp"),
                endpoint=endpoint,
                expect=expect,
            )
    for rule, row, why, asked in RANGES:
        for name, ask, place in asked:
            yield ResolveVector(
                id=f"resolve-{name}",
                rule=rule,
                why=why,
                source=source("resolver", row, "resolve_load_pub_range"),
                kv_endpoint=ask.kv,
                replay_endpoint=ask.replay,
                dp_size=ask.dp,
                load_publish_endpoint=ask.mode,
                expect=place,
            )
    for mark, size, attn_rank, dp_rank, slot in SLOTS:
        attention = size > 1
        dp = "unset" if dp_rank is None else str(dp_rank)
        yield SlotVector(
            id=f"slot-attn-{attn_rank}-of-{size}-dp-{dp}",
            rule="R2",
            why=f"under DP attention the slot is the attention-DP rank, here {slot}"
            if attention
            else f"in pure data parallelism the slot is the replica, {slot} when it is {dp}",
            source=source(
                "rank", mark if " " in mark else f"1.4 {mark}", "select_kv_publisher_dp_rank"
            ),
            attn_dp_size=size,
            attn_dp_rank=attn_rank,
            dp_rank=dp_rank,
            expect=slot,
        )
    for name, row, why, config, (pp, attn_tp, attn_cp), answer in GATES:
        yield GateVector(
            id=f"gate-{name}",
            rule="R1",
            why=why,
            source=source("rank", row, "is_kv_publisher_rank"),
            config=config,
            pp_rank=pp,
            attn_tp_rank=attn_tp,
            attn_cp_rank=attn_cp,
            expect=answer,
        )
