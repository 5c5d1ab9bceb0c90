"""Plans against SGLang 0.5.23: the flags it takes, the ports it binds, and where its ranks are."""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import types
from dataclasses import fields
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from pytest_loadwire.endpoints import LoadRange
from pytest_loadwire.planning.launch_args import FLAGS, LaunchArgs, parse_worker
from pytest_loadwire.planning.layout import Layout
from pytest_loadwire.planning.worker import WorkerPlan, plan_worker
from tests.interop import light_sglang

try:
    SGLANG = light_sglang.load()
except (light_sglang.NotAvailableError, ImportError) as error:
    pytest.skip(f"SGLang was not run: {error}", allow_module_level=True)

# Those of its field modules that need nothing heavy: all but one, whose flags are not near ours.
FIELDS = (
    *("device", "disagg", "exec_", "memory", "mm", "model", "observability", "parallel"),
    *("schedule", "serving", "spec"),
)
READ = {field.name for field in fields(LaunchArgs)} - {"name", "given", "not_looked_at"}

KV = ["tcp://*:5557", "tcp://0.0.0.0:65530", "tcp://10.0.0.5:5557", "ipc:///kv"]
REPLAY = [None, "tcp://*:5558", "tcp://*:5561", "tcp://*:6000", "ipc:///r"]
MODES = [None, "off", "auto", "tcp://*:5560", "tcp://*:6002", "tcp://10.0.0.5:7000"]
SIZES = [1, 2, 4]


class Parser(argparse.ArgumentParser):
    """A parser that passes over what the stubs for heavy modules leave out of a flag."""

    def error(self, message: str) -> NoReturn:
        """Refuse without a word."""
        raise ValueError(message)

    def add_argument(self, *names: str, **about: Any) -> argparse.Action:  # type: ignore[override]
        """Register a flag."""
        if not callable(about.get("type", str)):
            del about["type"]
        about.pop("required", None)  # of the model's path
        return super().add_argument(*names, **about)


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """SGLang's own parser, from its declared fields."""
    utils = import_module("sglang.srt.arg_groups.arg_utils")
    found = Parser(exit_on_error=False)
    for name in FIELDS:
        module = import_module(f"sglang.srt.arg_groups.fields.{name}")
        for value in list(vars(module).values()):
            is_own = isinstance(value, type) and value.__module__ == module.__name__
            if is_own and hasattr(value, "__struct_fields__"):
                utils.add_cli_args_from_dataclass(found, value)
    # Registered by hand in its server_args module, which needs torch.
    found.add_argument("--enable-dp-attention", action="store_true")
    return found


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(parser: argparse.ArgumentParser, flag: str) -> None:
    """Each flag is one of SGLang's, and every shorter spelling is read alike or by neither."""
    taken, beside = set(), {"nnodes"} if flag == "--node-rank" else set()
    for end in range(4, len(flag) + 1):
        words = [flag[:end]] if flag == "--enable-dp-attention" else [flag[:end], "1"]
        words += ["--nnodes", "2"] if beside else []
        ours = parse_worker(words)
        try:
            theirs = vars(parser.parse_args(words))
        except (ValueError, argparse.ArgumentError):  # it may be short for several flags
            assert beside == ours.given, words
            continue
        assert {field: theirs[field] for field in READ} == {
            field: getattr(ours, field) for field in READ
        }, words
        taken |= ours.given
    assert taken - beside


def test_defaults(parser: argparse.ArgumentParser) -> None:
    """What is not given has SGLang's defaults."""
    theirs = vars(parser.parse_args([]))
    assert {field: theirs[field] for field in READ} == {
        field: getattr(LaunchArgs(), field) for field in READ
    }


@pytest.mark.parametrize(("kv", "replay"), [*itertools.product(KV, REPLAY)])
def test_ports(kv: str, replay: str | None) -> None:
    """The plan refuses, binds and advertises what SGLang does."""
    for mode, size in itertools.product(MODES, SIZES):
        keys = {"publisher": "zmq", "endpoint": kv, "replay_endpoint": replay, "topic": "kv"}
        words = ["--kv-events-config", json.dumps(keys), "--dp-size", str(size)]
        words += ["--page-size", "64"]
        args = parse_worker([*words, *(["--load-publish-endpoint", mode] if mode else [])])
        plan = plan_worker(args)
        told = SimpleNamespace(
            kv_events_config=args.kv_events_config,
            load_publish_endpoint=mode,
            page_size=64,
            dp_size=size,
            attn_dp_size=1,
            dcp_size=1,
        )
        try:
            SGLANG.validation.check_load_publish_args(told)
            is_refused = False
        except ValueError:
            is_refused = True
        assert is_refused == any(remark.rule == "V1" for remark in plan.remarks), args

        block = SGLANG.runtime_context.describe_kv_events_publisher(told) or {}
        # A replay port is advertised wherever it is, and bound here.
        assert plan.replay_base == block.pop("replay_endpoint_port_base", None), args
        assert (plan.block or {}) == block, args
        resolved, _ = SGLANG.kv_events.resolve_load_pub_range(
            kv_endpoint=kv, replay_endpoint=replay, dp_size=size, load_publish_endpoint=mode
        )
        found = plan.outcome
        ours = (found.host, found.base) if isinstance(found, LoadRange) else None
        assert resolved == ours, args
        _same_offsets(plan, {"kv": kv, "replay": replay}, size)


def _same_offsets(plan: WorkerPlan, endpoints: dict[str, str | None], size: int) -> None:
    """Each rank's KV and replay ports are those that SGLang offsets to."""
    offset = SGLANG.kv_events.ZmqEventPublisher.offset_endpoint_port
    for kind, endpoint in endpoints.items():
        ports = plan.range_of(kind)
        if ports is None:
            continue
        for rank in range(size):
            assert offset(endpoint, rank).rpartition(":")[2] == str(ports.base + rank)


def _rank_ranges() -> Any:
    """SGLang's own dealing of ranks to nodes, compiled alone: its module needs torch."""
    source = light_sglang.folder() / "sglang/srt/entrypoints/engine.py"
    tree = ast.parse(source.read_text("utf-8"))
    (found,) = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "_calculate_rank_ranges"
    )
    found.returns = None
    for argument in found.args.args:
        argument.annotation = None
    module = types.ModuleType("loadwire_interop_ranges")
    exec(compile(ast.Module([found], []), str(source), "exec"), vars(module))  # noqa: S102
    return module


def test_machines() -> None:
    """A rank is on the node that SGLang starts its first tensor rank on."""
    module = _rank_ranges()
    sizes = itertools.product([1, 2, 4, 8], [1, 2, 4], [1, 2, 4], [1, 2, 4])
    for groups, group_size, pp_size, nnodes in sizes:
        layout = Layout(1, groups, groups * group_size, 1, pp_size, nnodes)
        if layout.tp_size < nnodes:
            continue
        told = SimpleNamespace(nnodes=nnodes, pp_size=pp_size, tp_size=layout.tp_size)
        module.get_parallel = lambda told=told: told
        for node in range(nnodes):
            stages, tensor_ranks, _, _ = module._calculate_rank_ranges(node)
            theirs = [r // group_size for r in tensor_ranks if r % group_size == 0 and 0 in stages]
            assert theirs == list(layout.ranks_on(node)), (layout, node)
