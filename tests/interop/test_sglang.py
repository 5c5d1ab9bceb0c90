"""SGLang 0.5.23 itself, held to every engine class of this kit.

What it does otherwise is declared below with rule and reason, and listed in the README from these
declarations. Nothing is passed over: a deviation that is gone, or is another one, fails.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import pytest

from pytest_loadwire import (
    Deviation,
    DiscoveryContract,
    EndpointContract,
    PublisherContract,
    SchedulerContract,
    WireContract,
)
from pytest_loadwire.endpoints import Topology
from tests.interop import light_sglang

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    SGLANG = light_sglang.load()
except (light_sglang.NotAvailableError, ImportError) as error:
    pytest.skip(f"SGLang was not run: {error}", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]

UNCHECKED = "msgspec does not check the values of a struct that it encodes"
DIGITS = "the port is read by Python's int(), which takes blanks, signs, _ and leading zeros"
ANY_HOST = "any text before the last colon is taken for a host"
LAST_GROUP = "the last group of a bare IPv6 address is read as the port"

WIRE = (
    Deviation(
        "W5",
        "accepted",
        UNCHECKED,
        ["float-*", "bool-*", "nil-*", "negative-*", "text-*"],
    ),
)
PUBLISHER = (
    Deviation("W5", "sent", UNCHECKED, ["failure-of-a-negative-count", "failure-of-a-nil-count"]),
)
_DIGIT_CASES = ("underscore", "plus", "inner-blank", "trailing-blank")
_LOOSE_PARSES = (
    *("host-with-*", "host-b*", "host-star-*", "name-port-underscore", "name-port-plus"),
    *("name-port-*-blank", "port-arabic-digits", "port-leading-zeros"),
)
_LOOSE_BINDS = (
    *("at-kv-interface", "at-kv-ipv6-no-port", "*-leading-zero", "a*-plus", "a*-underscore"),
    *("auto-kv-inner-blank", "auto-kv-trailing-blank"),
)
LOOSE = f"{DIGITS}; {ANY_HOST}"
ENDPOINTS = (
    Deviation(
        "E4",
        "wrong-value",
        LOOSE,
        [
            *(f"parse-{c}/{part}" for part in ("port", "advertisable") for c in _LOOSE_PARSES),
            *(
                f"parse-port-{c}/{part}"
                for part in ("port", "advertisable", "bindable")
                for c in _DIGIT_CASES
            ),
        ],
    ),
    Deviation(
        "E4",
        "accepted",
        LOOSE,
        [
            *("resolve-a*-underscore", "resolve-a*-plus", "resolve-*-leading-zero"),
            *("resolve-auto-kv-inner-blank", "resolve-auto-kv-trailing-blank"),
            "resolve-at-kv-interface",
        ],
    ),
    Deviation(
        "E8",
        "wrong-value",
        LAST_GROUP,
        [f"parse-bare-ipv6-as-port-?/{part}" for part in ("port", "advertisable")],
    ),
    Deviation("E8", "accepted", LAST_GROUP, ["resolve-at-kv-ipv6-no-port"]),
    Deviation("E8", "wrong-reason", LAST_GROUP, ["resolve-at-5-kv-ipv6"]),
    Deviation("E2", "wrong-range", DIGITS, ["resolve-auto-replay-underscore"]),
    Deviation("R3", "wrong-range", LOOSE, [f"resolve-{case}/binds" for case in _LOOSE_BINDS]),
)
DISCOVERY = (
    Deviation("A4", "accepted", DIGITS, ["block-kv-port-underscore"]),
    Deviation("E8", "accepted", LAST_GROUP, ["block-kv-ipv6-no-port"]),
    Deviation("V1", "accepted", DIGITS, ["validate-kv-port-underscore"]),
)


class TestWire(WireContract):
    """The struct and its bytes."""

    load_stat = SGLANG.publisher.LoadStat
    deviations = WIRE

    # The frames are the publisher's, and looked at there.
    test_sends_three_frames_in_sequence = None


class TestPublisher(PublisherContract):
    """The publisher, its socket and its cadence."""

    open_socket = f"{light_sglang.PUBLISHER}._open_pub_socket"
    clock = light_sglang.PUBLISHER
    logger = light_sglang.PUBLISHER
    snapshot = SGLANG.load_snapshot.LoadSnapshot
    fields = {"num_tokens": "num_used_tokens", "attn_dp_rank": "dp_rank"}
    socket_mode: ClassVar[str] = "stub"
    deviations = PUBLISHER
    test_on_a_real_socket: Any = None

    def make_publisher(self, *, topology: Topology, **config: Any) -> Any:
        """Start it as a scheduler with these ranks does."""
        with light_sglang.topology(topology):
            return SGLANG.publisher.SchedulerLoadPublisher(**config)


class TestPublisherOnARealSocket(TestPublisher):
    """The same on sockets of this machine."""

    socket_mode = "live"
    test_on_a_real_socket = PublisherContract.test_on_a_real_socket


class _Writer:
    """The in-engine sink of SGLang's scheduler."""

    def __init__(self, write: Callable[[Any], None], interval: int) -> None:
        self.write, self.publish_interval, self.publish_counter = write, interval, 0


class _OldHook(SGLANG.Scheduler):  # type: ignore[name-defined, misc]
    """A scheduler whose publishing hook returns nothing, as before the load socket."""

    def publish_load_snapshot(self, force: bool = False) -> None:
        super().publish_load_snapshot(force)


class TestScheduler(SchedulerContract):
    """The loop's own methods around the publisher."""

    open_socket = TestPublisher.open_socket
    clock = (light_sglang.PUBLISHER, light_sglang.SCHEDULER)
    snapshot = SGLANG.load_snapshot.LoadSnapshot
    fields = {"num_tokens": "num_used_tokens"}

    def make_scheduler(
        self,
        *,
        kind: type = SGLANG.Scheduler,
        get_loads: Any,
        write_snapshot: Any,
        publish_interval: int,
        **config: Any,
    ) -> Any:
        """Wire the real methods to the contract's queues and sink."""
        scheduler: Any = kind()
        scheduler.load_snapshot_writer = write_snapshot and _Writer(
            write_snapshot, publish_interval
        )
        scheduler.load_inquirer = mock.Mock(get_loads=get_loads)
        with light_sglang.topology(Topology()):
            scheduler.load_publisher = SGLANG.publisher.SchedulerLoadPublisher(
                publish_interval=publish_interval, **config
            )
        return scheduler

    def make_scheduler_with_old_hook(self, **config: Any) -> Any:
        """The same with the older hook."""
        return self.make_scheduler(kind=_OldHook, **config)

    def run_batch(self, scheduler: Any, *, is_prefill: bool, process_results: Any) -> None:
        """Hand back a batch of one kind."""
        batch = mock.MagicMock(reqs=[])
        batch.forward_mode.is_extend.return_value = is_prefill
        batch.forward_mode.is_decode.return_value = not is_prefill
        batch.is_dllm.return_value = False
        processor = scheduler.batch_result_processor
        processor.process_batch_result_decode = lambda *_: process_results()
        processor.process_batch_result_prefill = lambda *_: process_results()
        scheduler.process_batch_result(batch, mock.MagicMock())

    def run_without_batch(self, scheduler: Any, *, is_fully_idle: bool) -> None:
        """One pass of the loop with nothing to run."""
        scheduler.is_fully_idle = lambda: is_fully_idle
        scheduler.invariant_checker._check_all_pools.return_value = (False, [])
        scheduler.on_idle()


def _bound(
    kv_events_config: str | None, dp_size: int, load_publish_endpoint: str | None, slot: int
) -> str | None:
    """What the scheduler of a slot binds, without binding it."""
    opened: list[str] = []
    with (
        light_sglang.topology(Topology(dp_size=dp_size, dp_rank=slot)),
        mock.patch.object(
            SGLANG.publisher, "_open_pub_socket", lambda e: opened.append(e) or mock.Mock()
        ),
        mock.patch.object(SGLANG.publisher, "atexit"),
    ):
        SGLANG.publisher.SchedulerLoadPublisher(
            kv_events_config=kv_events_config, load_publish_endpoint=load_publish_endpoint
        )
    return opened[0] if opened else None


class TestEndpoints(EndpointContract):
    """The resolver, the parsers and the choice of ranks."""

    policies = {"LooseEndpoint": "strict"}
    deviations = ENDPOINTS

    def resolve(self, **asked: Any) -> object:
        """Ask the one resolver of bind and advertisement."""
        return SGLANG.kv_events.resolve_load_pub_range(**asked)

    def parse_port(self, endpoint: str | None) -> Any:
        """The port of any host."""
        return SGLANG.kv_events.parse_tcp_port(endpoint)

    def advertisable(self, endpoint: str | None) -> object:
        """Host and port as they are advertised."""
        return SGLANG.kv_events.parse_advertisable_tcp(endpoint)

    def bindable(self, endpoint: str | None) -> object:
        """Host and port as they are bound."""
        return SGLANG.kv_events.parse_bindable_tcp(endpoint)

    def sets_ipv6(self, endpoint: str) -> bool:
        """Whether the socket sets IPV6."""
        return bool(SGLANG.network.is_zmq_endpoint_ipv6(endpoint))

    def slot(self, **ranks: Any) -> int:
        """The slot of a scheduler."""
        return int(SGLANG.kv_events.select_kv_publisher_dp_rank(**ranks))

    def publishes(self, *, kv_events_config: str | None, **ranks: Any) -> bool:
        """Whether a scheduler publishes."""
        with light_sglang.topology(Topology(**ranks)):
            return bool(SGLANG.kv_events.is_kv_publisher_rank(kv_events_config))

    def binds(self, **engine: Any) -> str | None:
        """What the scheduler of a slot binds."""
        return _bound(**engine)


class TestDiscovery(DiscoveryContract):
    """The advertisement and the validation at start."""

    policies = {"LooseEndpoint": "strict"}
    deviations = DISCOVERY
    # The route itself needs the whole server, and an engine plans nothing.
    test_server_info_always_has_the_key = None
    test_plans = None

    def describe(self, **engine: Any) -> Any:
        """The block of ``/server_info``."""
        return SGLANG.runtime_context.describe_kv_events_publisher(_arguments(engine))

    def check_args(self, **engine: Any) -> None:
        """What the entry point refuses."""
        SGLANG.validation.check_load_publish_args(_arguments(engine))

    def binds(self, **engine: Any) -> str | None:
        """What the scheduler of a slot binds."""
        return _bound(**engine)


def _arguments(engine: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**engine, attn_dp_size=1, dcp_size=1)


CLASSES = (TestWire, TestPublisher, TestScheduler, TestEndpoints, TestDiscovery)
BEGIN, END = "<!-- sglang deviations -->", "<!-- end of sglang deviations -->"


def deviation_table() -> str:
    """The README's table, from what is declared above."""
    rows = Counter[tuple[str, str, str, str]]()
    for kind in CLASSES:
        for deviation in kind.deviations:
            cases = {c for rule, c in kind.contract_cases() if deviation.covers(rule, c)}
            name = kind.__mro__[1].__name__
            rows[name, deviation.rule, deviation.deed, deviation.reason] += len(cases)
    head = "| class | rule | what it does | why | cases |\n|---|---|---|---|---|\n"
    return head + "\n".join(
        f"| `{c}` | {r} | {d} | {w} | {n} |" for (c, r, d, w), n in rows.items()
    )


def test_readme_lists_every_deviation():
    """The README's table has exactly the declared deviations, with the number of cases of each."""
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.search(f"{BEGIN}\n(.*?)\n{END}", readme, re.DOTALL)

    assert shown is not None
    assert deviation_table() == shown.group(1)


def write_readme() -> None:
    """Put the table of the declared deviations into the README."""
    path = ROOT / "README.md"
    before, rest = path.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{deviation_table()}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    write_readme()
