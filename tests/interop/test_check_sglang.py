"""SGLang's own publisher on a live socket, watched as `loadwire check` watches it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any
from unittest import mock

import pytest
import zmq

from pytest_loadwire.endpoints import Topology
from pytest_loadwire.engine.info_server import InfoServer
from pytest_loadwire.observe.outcome import Outcome
from pytest_loadwire.observe.seen import Seen
from pytest_loadwire.observe.tap import watch
from pytest_loadwire.target import parse_target
from tests.interop import light_sglang

try:
    SGLANG = light_sglang.load()
except (light_sglang.NotAvailableError, ImportError) as error:
    pytest.skip(f"SGLang was not run: {error}", allow_module_level=True)

CONFIG = '{"publisher": "zmq", "endpoint": "tcp://*:5557"}'


@contextmanager
def publishing(rank: int) -> Iterator[int]:
    """Lets SGLang's publisher publish all the time, as a busy engine; gives its port."""
    endpoints = []
    own = SGLANG.publisher._open_pub_socket

    def on_loopback(_: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = own("tcp://127.0.0.1:0")
        endpoints.append(socket.getsockopt_string(zmq.LAST_ENDPOINT))
        return socket

    topology = Topology(dp_size=4, attn_dp_size=4, attn_dp_rank=rank)
    with (
        light_sglang.topology(topology),
        mock.patch.object(SGLANG.publisher, "_open_pub_socket", on_loopback),
    ):
        publisher = SGLANG.publisher.SchedulerLoadPublisher(
            kv_events_config=CONFIG, load_publish_endpoint="auto", publish_interval=1
        )
    done = threading.Event()

    def run() -> None:
        for step in count():
            if done.wait(0.02):
                break
            publisher.publish_load_stat(partial(snapshot, step))
        publisher.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield int(endpoints[0].rpartition(":")[2])
    finally:
        done.set()
        thread.join(10)


def snapshot(step: int) -> Any:
    """A snapshot as SGLang's scheduler takes it, with what the load socket needs."""
    values = {
        "num_running_reqs": 7,
        "num_waiting_reqs": 3,
        "num_waiting_uncached_tokens": 512,
        "num_used_tokens": 1024,
        "num_total_tokens": 4096,
        "max_total_num_tokens": 8192,
        "max_running_requests": 64,
        "total_prefill_uncached_tokens": step,
        "total_prefill_busy_us": 100 * step,
    }
    return SGLANG.load_snapshot.LoadSnapshot(**values)


def heard(target: str) -> Outcome:
    """A watch until there were a few messages, judged."""
    so_far: list[Seen] = []
    seen = watch(
        [parse_target(target)],
        seconds=20,
        stop=lambda: bool(so_far and so_far[-1].messages >= 5),
        progress=so_far.append,
    )
    return Outcome.of(seen, strict=True)


def test_the_publisher_conforms() -> None:
    """SGLang's publisher conforms on a socket of its own, warnings counted."""
    with publishing(rank=0) as port:
        outcome = heard(f"tcp://127.0.0.1:{port}")
    assert outcome.ok, outcome.to_json()
    assert 2 in outcome.seen.ranks[0].stream.revisions


@pytest.mark.parametrize(("rank", "ok"), [(0, True), (1, False)])
def test_behind_an_advertisement(rank: int, ok: bool) -> None:
    """Behind an advertisement its rank is that of its port, or is told to be another."""
    server = InfoServer()
    with publishing(rank=rank) as port:
        block = {
            "publisher": "zmq",
            "endpoint_host": "*",
            "endpoint_port_base": 5557,
            "topic": "",
            "block_size": 64,
            "dp_size": 1,
            "load_endpoint_port_base": port,
            "load_topic": "load",
        }
        body = json.dumps({"kv_events": block}).encode()
        try:
            outcome = heard(f"http://127.0.0.1:{server.open(lambda _: (200, body))}")
        finally:
            server.close()
    assert ok == outcome.ok, outcome.to_json()
    assert ([] if ok else ["wrong-rank"]) == [
        f.code for f in outcome.findings if f.level == "error"
    ]
