"""What a router dials for a worker, or why nothing: the plans of `discovery.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_loadwire.discovery import NoPlanReason
from pytest_loadwire.rules import AddressPolicy
from pytest_loadwire.vectors.addresses import Choice, Planned, PlanVector, Unplanned

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = "http://10.0.0.5:30000"
TWO = ("tcp://10.0.0.5:5559", "tcp://10.0.0.5:5560")

Plan = Planned | Unplanned


def kv_events(*without: str, **changed: Any) -> dict[str, Any]:
    """The block of an engine of two schedulers, with some keys left out or changed."""
    usual: dict[str, Any] = {
        "publisher": "zmq",
        "endpoint_host": "*",
        "endpoint_port_base": 5557,
        "topic": "kv",
        "block_size": 64,
        "dp_size": 2,
        "load_endpoint_port_base": 5559,
        "load_topic": "load",
    }
    return {key: value for key, value in (usual | changed).items() if key not in without}


def dial(*endpoints: str, skipped: tuple[int, ...] = ()) -> Planned:
    """One endpoint for each rank, and the ranks that are left out."""
    return Planned(endpoints, skipped)


def on(host: str) -> Planned:
    """The two ranks of the usual block on another host."""
    return dial(f"tcp://{host}:5559", f"tcp://{host}:5560")


def none(reason: NoPlanReason) -> Unplanned:
    """No plan."""
    return Unplanned(reason)


BAD_URL = none(NoPlanReason.BAD_URL)


def at(base: object) -> dict[str, Any]:
    """The usual block with another value for the load base."""
    return kv_events(load_endpoint_port_base=base)


def ranks(size: object, base: int = 5559) -> dict[str, Any]:
    """The usual block with another number of ranks."""
    return kv_events(dp_size=size, load_endpoint_port_base=base)


def credentials(dialled: Planned) -> Choice[Plan]:
    """Whether a URL with a user in front of its host is taken."""
    return Choice(AddressPolicy.URL_CREDENTIALS, {"refuse": BAD_URL, "dial": dialled})


# rule, what it is for, name to worker URL, block and verdict
PLANS: tuple[tuple[str, str, dict[str, tuple[str, object, Plan | Choice[Plan]]]], ...] = (
    (
        "C1",
        "the ports of the block on the host of the worker's URL, one for each rank",
        {
            "ipv4": (WORKER, kv_events(), dial(*TWO)),
            "name": ("https://worker-1.example:443", kv_events(), on("worker-1.example")),
            "one-rank": (WORKER, ranks(1), dial("tcp://10.0.0.5:5559")),
            "four-ranks": (
                WORKER,
                ranks(4, 7000),
                dial(*(f"tcp://10.0.0.5:{port}" for port in (7000, 7001, 7002, 7003))),
            ),
        },
    ),
    (
        "C1",
        "nothing of a URL counts but its host, least of all its port",
        {
            "url-slash": ("http://10.0.0.5:30000/", kv_events(), dial(*TWO)),
            "url-no-port": ("http://10.0.0.5", kv_events(), dial(*TWO)),
            "url-path": ("http://10.0.0.5:30000/v1/x:9?y=1@2#[::1]", kv_events(), dial(*TWO)),
            "url-grpc": ("grpc://10.0.0.5:20000", kv_events(), dial(*TWO)),
        },
    ),
    (
        "A3",
        "an IPv6 host keeps its brackets",
        {
            "ipv6": ("http://[2001:db8::5]:30000", kv_events(), on("[2001:db8::5]")),
            "ipv6-loopback": ("http://[::1]:30000", kv_events(), on("[::1]")),
            "ipv6-no-port": ("http://[2001:db8::5]", kv_events(), on("[2001:db8::5]")),
        },
    ),
    (
        "E8",
        "without brackets nobody can tell an IPv6 host from its port",
        {
            "bare-ipv6": ("http://2001:db8::5:30000", kv_events(), BAD_URL),
            "bare-ipv6-loopback": ("http://::1:30000", kv_events(), BAD_URL),
        },
    ),
    (
        "C1",
        "where KV events are is a wildcard or another machine, and is never dialled for load",
        {
            "kv-0-0-0-0": (WORKER, kv_events(endpoint_host="0.0.0.0"), dial(*TWO)),  # noqa: S104
            "kv-ipv6-any": (WORKER, kv_events(endpoint_host="[::]"), dial(*TWO)),
            "kv-ipv4": (WORKER, kv_events(endpoint_host="10.9.9.9"), dial(*TWO)),
            "kv-ipv6": (WORKER, kv_events(endpoint_host="[2001:db8::9]"), dial(*TWO)),
        },
    ),
    (
        "C1",
        "the port is read and never derived, wherever the KV range is",
        {
            "base-far": (WORKER, at(7000), dial("tcp://10.0.0.5:7000", "tcp://10.0.0.5:7001")),
            "base-below-kv": (
                WORKER,
                at(1),
                dial("tcp://10.0.0.5:1", "tcp://10.0.0.5:2"),
            ),
        },
    ),
    (
        "A1",
        "keys that the contract does not know are ignored",
        {
            "more-keys": (
                WORKER,
                kv_events(replay_endpoint_port_base=5558, later={"a": [1]}),
                dial(*TWO),
            ),
        },
    ),
    (
        "C1",
        "a rank past port 65535 is skipped, and no port is wrapped around",
        {
            "last-1": (WORKER, ranks(1, 65535), dial("tcp://10.0.0.5:65535")),
            "last-2": (
                WORKER,
                ranks(2, 65534),
                dial("tcp://10.0.0.5:65534", "tcp://10.0.0.5:65535"),
            ),
            "past-2": (WORKER, ranks(2, 65535), dial("tcp://10.0.0.5:65535", skipped=(1,))),
            "past-4": (
                WORKER,
                ranks(4, 65534),
                dial("tcp://10.0.0.5:65534", "tcp://10.0.0.5:65535", skipped=(2, 3)),
            ),
        },
    ),
    (
        "C1",
        "no KV events, or none that say anything of load",
        {
            "no-block": (WORKER, None, none(NoPlanReason.NO_BLOCK)),
            "no-load-keys": (
                WORKER,
                kv_events("load_endpoint_port_base", "load_topic"),
                none(NoPlanReason.NO_LOAD_KEYS),
            ),
        },
    ),
    (
        "A2",
        "half an advertisement is none",
        {
            "base-alone": (WORKER, kv_events("load_topic"), none(NoPlanReason.ONE_LOAD_KEY)),
            "topic-alone": (
                WORKER,
                kv_events("load_endpoint_port_base"),
                none(NoPlanReason.ONE_LOAD_KEY),
            ),
        },
    ),
    (
        "C1",
        "a base that is no whole number from 1 to 65535 is no port",
        {
            f"base-{name}": (WORKER, at(value), none(NoPlanReason.BAD_PORT))
            for name, value in {
                "0": 0,
                "negative": -1,
                "65536": 65536,
                "bool": True,
                "float": 5559.5,
                "text": "5559",
                "null": None,
                "list": [5559],
            }.items()
        },
    ),
    (
        "C1",
        "a number of ranks that is no whole number from 1",
        {
            "ranks-missing": (WORKER, kv_events("dp_size"), none(NoPlanReason.BAD_DP_SIZE)),
            **{
                f"ranks-{name}": (WORKER, ranks(value), none(NoPlanReason.BAD_DP_SIZE))
                for name, value in {
                    "0": 0,
                    "negative": -1,
                    "bool": True,
                    "float": 1.5,
                    "text": "2",
                    "null": None,
                }.items()
            },
        },
    ),
    (
        "C1",
        "a URL without a host, or with one that nobody can dial",
        {
            "url-empty": ("", kv_events(), BAD_URL),
            "url-no-host": ("http://", kv_events(), BAD_URL),
            "url-port-alone": ("http://:30000", kv_events(), BAD_URL),
            "url-star": ("http://*:30000", kv_events(), BAD_URL),
            "url-0-0-0-0": ("http://0.0.0.0:30000", kv_events(), BAD_URL),
            "url-ipv6-any": ("http://[::]:30000", kv_events(), BAD_URL),
            "url-bracket-name": ("http://[localhost]:30000", kv_events(), BAD_URL),
            "url-bracket-open": ("http://[::1:30000", kv_events(), BAD_URL),
        },
    ),
    (
        "C1",
        "a rank suffix would be read as the host, with the host as its user",
        {"url-rank-suffix": ("http://10.0.0.5:30000@1", kv_events(), BAD_URL)},
    ),
    (
        "C1",
        "credentials in a URL: a router leaves them out, or refuses the URL",
        {
            "url-user": ("http://user@10.0.0.5:30000", kv_events(), credentials(dial(*TWO))),
            "url-user-and-password": (
                "http://user:secret@[2001:db8::5]:30000",
                kv_events(),
                credentials(on("[2001:db8::5]")),
            ),
        },
    ),
)


def plan_vectors() -> Iterator[PlanVector]:
    """Every plan."""
    for rule, why, cases in PLANS:
        for name, (url, block, expect) in cases.items():
            yield PlanVector(
                id=f"plan-{name}",
                rule=rule,
                why=why,
                source=f"by {rule}; a router's half, which no table of SGLang has",
                worker_url=url,
                block=block,
                expect=expect,
            )
