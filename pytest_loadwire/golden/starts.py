"""What an engine refuses to start with: the validations of `discovery.json`, spelled by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.golden.advertisement import Engine, zmq
from pytest_loadwire.golden.ranges import source
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import Choice, Passes, Refuses, ValidateVector

if TYPE_CHECKING:
    from collections.abc import Iterator

Start = Passes | Refuses

PASS = Passes()
NO_KV = Refuses(DeclineReason.NO_KV_EVENTS, ("kv-events",))
NOT_PARSEABLE = Refuses(DeclineReason.NO_KV_EVENTS, ("not parseable",))
INACTIVE = Refuses(DeclineReason.NO_KV_EVENTS, ("null",))
EMPTY = Refuses(DeclineReason.NO_KV_EVENTS, ("empty",))
NOT_BINDABLE = Refuses(DeclineReason.NOT_BINDABLE, ("bindable",))
KV_UNUSABLE = Refuses(DeclineReason.KV_NOT_ADVERTISABLE, ("kv-events",))
OVERLAPS_KV = Refuses(DeclineReason.OVERLAPS_KV, ("overlaps",))
OVERLAPS_REPLAY = Refuses(DeclineReason.OVERLAPS_REPLAY, ("overlaps",))
PAST = Refuses(DeclineReason.PAST_PORT_65535)
LATER = "tcp://*:6000"

# row and mark, what it is for, name to engine and verdict
STARTS: tuple[tuple[str, str, dict[str, tuple[Engine, Start | Choice[Start]]]], ...] = (
    (
        "2 step 1 T",
        "nobody asked, so nothing is refused",
        {"unset": (Engine(mode=None), PASS), "off": (Engine(mode="off"), PASS)},
    ),
    (
        "2 step 1 T",
        "off in any case",
        {"off-upper-case": (Engine(mode="OFF"), PASS)},
    ),
    (
        "2 step 1 C",
        "off looks at no configuration, be it missing or broken",
        {
            "unset-no-config": (Engine(None, None), PASS),
            "off-bad-config": (Engine("{not json", " OFF "), PASS),
            "blank-bad-config": (Engine("{not json", "  "), PASS),
            "unset-publisher-null": (Engine('{"publisher":"null"}', None), PASS),
            "off-kv-ipc": (Engine(zmq("ipc:///run/kv"), "off"), PASS),
        },
    ),
    (
        "2 step 2 T",
        "routers find the load ports in the kv_events block, and there is none",
        {"no-config": (Engine(None, LATER), NO_KV)},
    ),
    (
        "2 step 2 C",
        "the same for auto and for an empty configuration",
        {
            "auto-no-config": (Engine(None), NO_KV),
            "auto-empty-config": (Engine(""), NO_KV),
        },
    ),
    (
        "2 step 3 T",
        "a configuration that cannot be read is refused as such",
        {"bad-json": (Engine("{not json"), NOT_PARSEABLE)},
    ),
    (
        "2 step 3 C",
        "and so is one of another form",
        {
            "not-an-object": (Engine("[]"), NOT_PARSEABLE),
            "wrong-type": (Engine('{"publisher":5}'), NOT_PARSEABLE),
        },
    ),
    (
        "2 step 4 T",
        "the publisher null publishes nothing",
        {"publisher-null": (Engine('{"publisher":"null"}'), INACTIVE)},
    ),
    (
        "2 step 4 D",
        "null is the default, and no endpoint is no publisher either",
        {
            "no-publisher": (Engine("{}"), INACTIVE),
            "null-explicit": (Engine('{"publisher":"null"}', LATER), INACTIVE),
            "empty-endpoint": (Engine(zmq("")), EMPTY),
        },
    ),
    (
        "2 step 5 T",
        "what the resolver declines is refused, with its reason",
        {
            "at-ipv4": (Engine(mode="tcp://10.0.0.5:6000"), NOT_BINDABLE),
            "overlaps-kv": (Engine(mode="tcp://*:5558", dp=4), OVERLAPS_KV),
        },
    ),
    (
        "2 step 5 C",
        "the same for every other decline",
        {
            "kv-ipv4": (Engine(zmq("tcp://10.0.0.5:5557")), NOT_BINDABLE),
            "kv-ipv6": (Engine(zmq("tcp://[2001:db8::5]:5557")), NOT_BINDABLE),
            "kv-ipc": (Engine(zmq("ipc:///run/kv")), KV_UNUSABLE),
            "kv-ipc-explicit": (Engine(zmq("ipc:///run/kv"), LATER), KV_UNUSABLE),
            "kv-bare-ipv6": (Engine(zmq("tcp://::1:5557")), KV_UNUSABLE),
            "on": (Engine(mode="on"), NOT_BINDABLE),
            "overlaps-kv-low-end": (Engine(mode="tcp://*:5554", dp=4), OVERLAPS_KV),
            "overlaps-replay": (
                Engine(zmq(replay_endpoint=LATER), LATER),
                OVERLAPS_REPLAY,
            ),
            "past": (Engine(zmq("tcp://*:65535")), PAST),
            "past-dp-2": (Engine(mode="tcp://*:65535", dp=2), PAST),
        },
    ),
    (
        "2 step 6 T",
        "an engine that can publish starts",
        {"auto": (Engine(), PASS), "explicit": (Engine(mode=LATER), PASS)},
    ),
    (
        "2 step 6 D",
        "what is no matter of load publishing is no reason to refuse",
        {
            "defaults": (Engine('{"publisher":"zmq"}'), PASS),
            "more-keys": (Engine('{"publisher":"zmq","later":{"a":[1]}}'), PASS),
            "unknown-publisher": (Engine('{"publisher":"foo"}'), PASS),
            "no-ranks": (Engine(dp=0), PASS),
            "explicit-kv-ipv4": (Engine(zmq("tcp://10.0.0.5:5557"), LATER), PASS),
            "touches-kv": (Engine(mode="tcp://*:5561", dp=4), PASS),
        },
    ),
    (
        "by V1",
        "the last port is one",
        {
            "last": (Engine(zmq("tcp://*:65534")), PASS),
            "last-dp-2": (Engine(mode="tcp://*:65534", dp=2), PASS),
        },
    ),
    (
        "1.3 D, L",
        "SGLang starts on 5_557, of which libzmq binds port 5",
        {
            "kv-port-underscore": (
                Engine(zmq("tcp://*:5_557")),
                Choice(AddressPolicy.LOOSE_ENDPOINT, {"strict": KV_UNUSABLE, "sglang": PASS}),
            ),
        },
    ),
)


def start_vectors() -> Iterator[ValidateVector]:
    """Every validation."""
    for row, why, cases in STARTS:
        for name, (engine, expect) in cases.items():
            yield ValidateVector(
                id=f"validate-{name}",
                rule="V1",
                why=why,
                source=source("start", row, "check_load_publish_args"),
                config=engine.config,
                dp_size=engine.dp,
                load_publish_endpoint=engine.mode,
                expect=expect,
            )
