"""The light part of a real SGLang: its load publisher, resolver, descriptor, validation and loop.

The wheel comes from the package index without its dependencies, is checked by hash, and is unpacked
once into a cache. None of its files is part of this project. What it imports that needs a GPU stack
is replaced by empty modules; what is under test is not.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import types
import zipfile
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_loadwire.endpoints import Topology

VERSION = "0.5.23"
WHEEL_SHA256 = "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"
# One wheel for every machine and Python: only its pure-Python modules are used.
WHEEL_TAGS = (
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.11",
    "--platform=manylinux_2_34_x86_64",
)
FOLDER_VARIABLE = "LOADWIRE_SGLANG"
DOWNLOAD_SECONDS = 300.0

PUBLISHER = "sglang.srt.managers.scheduler_components.load_publisher"
KV_EVENTS = "sglang.srt.disaggregation.kv_events"
SCHEDULER = "loadwire_interop_scheduler"

# Packages whose own __init__ would import the whole engine.
_BARE_PACKAGES = (
    "sglang",
    "sglang.srt",
    "sglang.srt.managers",
    "sglang.srt.managers.scheduler_components",
    "sglang.srt.disaggregation",
    "sglang.srt.utils",
    "sglang.srt.arg_groups",
)
# Modules that need a GPU stack, and of which the code under test uses nothing.
_EMPTY_MODULES = (
    "sglang.srt.distributed",
    "sglang.srt.distributed.device_communicators",
    "sglang.srt.distributed.device_communicators.mooncake_transfer_engine",
    "sglang.srt.sampling",
    "sglang.srt.sampling.watermarking",
    "sglang.srt.sampling.watermarking.config",
    "sglang.srt.utils.common",
    "sglang.srt.utils.runai_utils",
)


class NotAvailableError(Exception):
    """There is no SGLang to run here; the text says why."""


def folder() -> Path:
    """The unpacked wheel: the one that ``LOADWIRE_SGLANG`` names, or a cached download.

    Raises:
        NotAvailableError: It cannot be downloaded, or is another file than expected.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    unpacked = home / "pytest-loadwire" / f"sglang-{VERSION}"
    if not unpacked.is_dir():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=unpacked.parent) as scratch:
            _unpack(_download(Path(scratch)), Path(scratch) / "unpacked")
            try:
                (Path(scratch) / "unpacked").rename(unpacked)
            except OSError:  # another process was first
                if not unpacked.is_dir():
                    raise
    return unpacked


def _download(target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *WHEEL_TAGS]
    try:
        subprocess.run(
            [*command, "--dest", str(target), f"sglang=={VERSION}"],
            check=True,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or ["no output"]
        raise NotAvailableError(f"sglang {VERSION} cannot be downloaded: {last[0]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"sglang {VERSION} cannot be downloaded: {error}") from error
    (wheel,) = target.glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise NotAvailableError(f"{wheel.name} has the sha256 {found}, expected {WHEEL_SHA256}")
    return wheel


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        wanted = [
            name
            for name in archive.namelist()
            if name.startswith("sglang/srt/") and name.endswith(".py")
        ]
        archive.extractall(target, wanted)


@cache
def load() -> types.SimpleNamespace:
    """The modules under test.

    Returns:
        ``publisher``, ``kv_events``, ``runtime_context``, ``validation``, ``load_snapshot`` and
        ``network`` are SGLang's modules; ``Scheduler`` is its scheduler's loop, see `_scheduler`.

    Raises:
        NotAvailableError: As :func:`folder`.
    """
    root = folder()
    for name in _BARE_PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[name] = package
    for name in _EMPTY_MODULES:
        _empty(name)
    _empty(
        "sglang.srt.arg_groups.overrides",
        resolving_view=lambda arguments: arguments,
        resolved_view=lambda arguments: arguments,
        kv_event_block_size_of=lambda arguments: arguments.page_size * arguments.dcp_size,
    )
    return types.SimpleNamespace(
        publisher=import_module(PUBLISHER),
        kv_events=import_module(KV_EVENTS),
        runtime_context=import_module("sglang.srt.runtime_context"),
        validation=import_module("sglang.srt.arg_groups.validation_hook"),
        load_snapshot=import_module("sglang.srt.managers.load_snapshot"),
        network=import_module("sglang.srt.utils.network"),
        Scheduler=_scheduler(root),
    )


def _empty(name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(attributes)
    module.__getattr__ = _anything  # type: ignore[method-assign]
    sys.modules[name] = module


def _anything(name: str) -> object:
    if name.startswith("__"):  # __file__ and the like, which tools look at in every module
        raise AttributeError(name)
    return object()


def _scheduler(root: Path) -> type:
    """SGLang's scheduler with the three methods that publish, as they stand in its source.

    The module cannot be imported without torch, so these methods alone are compiled. Everything
    else that they reach for is a mock.
    """
    source = root / "sglang/srt/managers/scheduler.py"
    tree = ast.parse(source.read_text("utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Scheduler")
    wanted = {"publish_load_snapshot", "process_batch_result", "on_idle"}
    methods = [n for n in found.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    assert wanted == {method.name for method in methods}
    for method in methods:
        method.decorator_list, method.returns = [], None
        for argument in method.args.args:
            argument.annotation = None
    constants = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "LOAD_STALL_REFRESH_S"
    ]
    found.bases, found.keywords, found.decorator_list = [], [], []
    found.body = [*methods]
    module = types.ModuleType(SCHEDULER)
    sys.modules[SCHEDULER] = module
    vars(module).update(
        time=time,
        logger=logging.getLogger("sglang.srt.managers.scheduler"),
        flush_trace_batch=lambda _: None,
        DisaggregationMode=mock.MagicMock(),
        SCHEDULER_STAGE_SANITY_CHECK_CACHE="sanity",
    )
    compiled = ast.Module(body=[*constants, found], type_ignores=[])
    exec(compile(ast.fix_missing_locations(compiled), str(source), "exec"), vars(module))  # noqa: S102

    class Scheduler(module.Scheduler):  # type: ignore[name-defined, misc]
        """The real methods; whatever else they ask of the scheduler is a mock."""

        _last_stall_publish_ts = float("-inf")

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self.__dict__.setdefault(name, mock.MagicMock(name=name))

    return Scheduler


@contextmanager
def topology(ranks: Topology) -> Iterator[None]:
    """Give the code under test these ranks, which it asks a global for."""
    modules = load()
    parallel = types.SimpleNamespace(
        pp_rank=ranks.pp_rank,
        attn_tp_rank=ranks.attn_tp_rank,
        attn_cp_rank=ranks.attn_cp_rank,
        num_dp_ranks=ranks.dp_size,
        attn_dp_size=ranks.attn_dp_size,
        attn_dp_rank=ranks.attn_dp_rank,
        dp_rank=ranks.dp_rank,
    )
    with (
        mock.patch.object(modules.publisher, "get_parallel", return_value=parallel),
        mock.patch.object(modules.kv_events, "get_parallel", return_value=parallel),
    ):
        yield
