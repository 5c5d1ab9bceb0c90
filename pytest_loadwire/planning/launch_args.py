"""A worker's launch command, read for what decides about its ports.

People have a launch command in front of them, so that is what is read: the engine's own flags, as
SGLang spells them, with ``--flag value`` or ``--flag=value``. The rest of the command is passed
over by name and never taken for a value. What SGLang would refuse, or what only a shell could fill
in, is an error that names worker and flag, since a guess would plan other ports than the engine's.
"""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.endpoints import MAX_PORT
from pytest_loadwire.errors import LoadwireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEPARATOR = "--and"
"""What stands between the arguments of two workers."""


class LaunchArgsError(LoadwireError, ValueError):
    """A launch command that cannot be read. The message names the worker and the flag."""


@dataclass(frozen=True)
class LaunchArgs:
    """What one worker was told, with SGLang's defaults for the rest.

    Attributes:
        name: What to call the worker, such as ``worker 2``.
        kv_events_config: The JSON text of ``--kv-events-config``, or None.
        load_publish_endpoint: The text of ``--load-publish-endpoint``, or None.
        dp_size: Data-parallel replicas.
        attn_dp_size: Groups of attention data parallelism; SGLang 0.5.23 has the flag.
        enable_dp_attention: The older spelling: ``dp_size`` then counts attention groups.
        tp_size: Tensor parallelism.
        pp_size: Pipeline parallelism.
        attn_cp_size: Context parallelism of the attention.
        dcp_size: Decode context parallelism, which widens a block of tokens.
        page_size: KV page size in tokens, None where SGLang chooses.
        nnodes: Machines that one engine spans.
        node_rank: Which of them this command starts.
        host: What the HTTP server binds.
        port: The port of the HTTP server.
        given: The fields that the command names; the others are defaults.
        not_looked_at: The flags that decide nothing here.
    """

    name: str = "worker 1"
    kv_events_config: str | None = None
    load_publish_endpoint: str | None = None
    dp_size: int = 1
    attn_dp_size: int = 1
    enable_dp_attention: bool = False
    tp_size: int = 1
    pp_size: int = 1
    attn_cp_size: int = 1
    dcp_size: int = 1
    page_size: int | None = None
    nnodes: int = 1
    node_rank: int = 0
    host: str = "127.0.0.1"
    port: int = 30000
    given: frozenset[str] = field(default=frozenset())
    not_looked_at: tuple[str, ...] = ()


class _Flag(NamedTuple):
    """A flag, its aliases each with the shortest prefix that argparse takes for it."""

    names: dict[str, str]
    low: int | None = None
    high: int = MAX_PORT

    @property
    def is_number(self) -> bool:
        return self.low is not None


_FLAGS = {
    "kv_events_config": _Flag({"--kv-events-config": "--kv-e"}),
    "load_publish_endpoint": _Flag({"--load-publish-endpoint": "--load-p"}),
    "dp_size": _Flag({"--dp-size": "--dp", "--data-parallel-size": "--da"}, 1),
    "attn_dp_size": _Flag(
        {"--attn-dp-size": "--attn-d", "--attention-data-parallel-size": "--attention-d"}, 1
    ),
    "enable_dp_attention": _Flag({"--enable-dp-attention": "--enable-dp-attention"}),
    "tp_size": _Flag({"--tp-size": "--tp", "--tensor-parallel-size": "--te"}, 1),
    "pp_size": _Flag({"--pp-size": "--pp-s", "--pipeline-parallel-size": "--pi"}, 1),
    "attn_cp_size": _Flag(
        {"--attn-cp-size": "--attn-c", "--attention-context-parallel-size": "--attention-c"}, 1
    ),
    "dcp_size": _Flag({"--dcp-size": "--dcp-s", "--decode-context-parallel-size": "--decode-c"}, 1),
    # Zero and less are legal text, and suppress the advertisement (rule A4).
    "page_size": _Flag({"--page-size": "--page-"}, -(2**31), 2**31),
    "nnodes": _Flag({"--nnodes": "--nn"}, 1),
    "node_rank": _Flag({"--node-rank": "--nod"}, 0),
    "host": _Flag({"--host": "--ho"}),
    "port": _Flag({"--port": "--po"}, 1),
}
_SWITCHES = {"enable_dp_attention"}
FLAGS = tuple(name for flag in _FLAGS.values() for name in flag.names)
"""Every flag that is looked at, in full."""

# No flag of SGLang 0.5.23 comes nearer to these than 0.67, and no likely slip is farther.
_MISSPELT = ("--kv-events-config", "--load-publish-endpoint")
_NEAR = 0.75

# Linux takes no longer argument, and shlex needs a minute for ten times as much.
_MOST_LINE = 1 << 17
_LAUNCHERS = re.compile(r"sglang\.launch_server|(.*/)?launch_server\.py")
_TEMPLATE = re.compile(r"\$[A-Za-z_{(][^\s\"']*|\{\{(?:(?!\{\{).)*?\}\}|<[A-Za-z_]+>")


def parse_worker(arguments: Sequence[str], name: str = "worker 1") -> LaunchArgs:
    """Read the arguments of one worker, or its whole launch command.

    Args:
        arguments: Words, as a shell hands them over. Those in front of the engine's own, such as
            ``python -m sglang.launch_server``, are passed over.
        name: What to call the worker in messages.

    Raises:
        LaunchArgsError: A flag that matters has no value, or one that SGLang or this function
            cannot read, or it is misspelt.
    """
    words = _behind_launcher(list(arguments))
    values: dict[str, str | bool] = {}
    passed_over: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            continue
        flag, is_joined, value = word.partition("=")
        wanted = _find(flag)
        if wanted is None:
            _refuse_misspelt(name, flag)
            passed_over.append(flag)
        elif wanted in _SWITCHES:
            if is_joined:
                raise LaunchArgsError(f"{name}: {flag} takes no value, and was given {value!r}")
            values[wanted] = True
        else:
            if not is_joined:
                if at >= len(words) or _is_flag(words[at]):
                    behind = f"{words[at]} follows" if at < len(words) else "the command ends there"
                    raise LaunchArgsError(f"{name}: {flag} has no value: {behind}")
                value = words[at]
                at += 1
            values[wanted] = value  # as in argparse, the last one counts
    return _to_args(name, values, passed_over)


def split_workers(arguments: Iterable[str]) -> list[list[str]]:
    """Cut arguments at every ``--and``.

    Raises:
        LaunchArgsError: There is nothing before or behind an ``--and``.
    """
    workers: list[list[str]] = [[]]
    for word in arguments:
        if word == SEPARATOR:
            workers.append([])
        else:
            workers[-1].append(word)
    for number, worker in enumerate(workers, 1):
        if not worker:
            raise LaunchArgsError(f"worker {number} has no arguments: {SEPARATOR} stands alone")
    return workers


@dataclass(frozen=True)
class Script:
    """Launch commands from a text.

    Attributes:
        commands: The line that each starts at, and its words.
        skipped: The other lines that say something, by number.
    """

    commands: tuple[tuple[int, list[str]], ...]
    skipped: tuple[tuple[int, str], ...]


def read_script(text: str) -> Script:
    """Read launch commands, one a line, as they stand in a shell script.

    A backslash at the end of a line continues it, ``#`` starts a comment, quotes are the shell's.
    A line without any flag that is looked at and without SGLang's launcher is passed over.

    Raises:
        LaunchArgsError: The quotes of a line do not close, or it is longer than a command can be.
    """
    commands, skipped = [], []
    for number, line in _logical_lines(text):
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise LaunchArgsError(f"line {number} cannot be split into words: {error}") from error
        if not words:
            continue
        flags = [_find(word.partition("=")[0]) for word in words if _is_flag(word)]
        if any(flags) or _launcher(words) is not None:
            commands.append((number, words))
        else:
            skipped.append((number, line.strip()))
    return Script(tuple(commands), tuple(skipped))


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines as a shell sees them: joined where it joins them, without comments, numbered."""
    lines: list[tuple[int, str]] = []
    kept, quote, start, number = "", "", 1, 1
    at, text = 0, text.replace("\r\n", "\n") + "\n"
    while at < len(text):
        if len(kept) > _MOST_LINE:
            raise LaunchArgsError(f"line {start} is longer than any launch command")
        here, at = text[at], at + 1
        number += here == "\n"
        if here == "\\" and quote != "'":
            if text[at : at + 1] == "\n":
                number += 1
            else:
                kept += text[at - 1 : at + 1]
            at += 1
        elif here == "\n" and not quote:
            lines.append((start, kept))
            kept, start = "", number
        elif here == "#" and not quote and (not kept or kept[-1].isspace()):
            at = text.index("\n", at)
        else:
            if here in {"'", '"'} and quote in {"", here}:
                quote = "" if quote else here
            kept += here
    return [*lines, (start, kept)] if kept.strip() else lines


def _is_flag(word: str) -> bool:
    # As in argparse, a negative number is a value.
    is_number = re.fullmatch(r"-\d+|-\d*\.\d+", word)
    return len(word) > 1 and word.startswith("-") and not is_number


def _launcher(words: list[str]) -> int | None:
    """Where the engine's own arguments start, if the launcher is among the words."""
    for at, word in enumerate(words):
        if _LAUNCHERS.fullmatch(word):
            return at + 1
        if re.fullmatch(r"(.*/)?sglang", word) and words[at + 1 : at + 2] == ["serve"]:
            return at + 2
    return None


def _behind_launcher(words: list[str]) -> list[str]:
    return words[_launcher(words) or 0 :]


def _find(flag: str) -> str | None:
    """The field that a flag sets: by its name, an alias or a prefix that SGLang takes."""
    for wanted, spec in _FLAGS.items():
        for full, shortest in spec.names.items():
            if full.startswith(flag) and flag.startswith(shortest):
                return wanted
    return None


def _refuse_misspelt(name: str, flag: str) -> None:
    spelt = "--" + flag.lstrip("-").replace("_", "-").lower()
    first = spelt.partition(" ")[0]  # a flag and its value in one pair of quotes
    if first in FLAGS:
        near = [first]
    else:
        near = difflib.get_close_matches(spelt, _MISSPELT, n=1, cutoff=_NEAR)
    if near:
        raise LaunchArgsError(
            f"{name}: SGLang has no flag {flag}, did you mean {near[0]}? It would not start"
        )


def _to_args(name: str, values: dict[str, str | bool], passed_over: list[str]) -> LaunchArgs:
    found: dict[str, object] = {}
    for wanted, value in values.items():
        flag = next(iter(_FLAGS[wanted].names))
        if isinstance(value, bool):
            found[wanted] = value
            continue
        template = _TEMPLATE.search(value)
        if template:
            raise LaunchArgsError(
                f"{name}: {flag} has {template[0]}, which something else fills in: "
                "give the text that the engine gets"
            )
        found[wanted] = _number(name, flag, wanted, value) if _FLAGS[wanted].is_number else value
    args = LaunchArgs(
        name=name,
        given=frozenset(found),
        not_looked_at=tuple(dict.fromkeys(passed_over)),
        **found,  # type: ignore[arg-type]  # each by the table above
    )
    if args.node_rank >= args.nnodes:
        raise LaunchArgsError(
            f"{name}: --node-rank is {args.node_rank} with --nnodes {args.nnodes}: "
            f"nodes are 0 to {args.nnodes - 1}"
        )
    return args


def _number(name: str, flag: str, wanted: str, text: str) -> int:
    spec = _FLAGS[wanted]
    low = spec.low or 0
    try:
        number = int(text)
    except ValueError:
        raise LaunchArgsError(f"{name}: {flag} needs a whole number, not {text!r}") from None
    if not low <= number <= spec.high:
        raise LaunchArgsError(f"{name}: {flag} is {number}, not {low} to {spec.high}")
    return number
