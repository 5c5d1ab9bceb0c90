"""A router crate adopts `loadwire-check` in two steps, and real mistakes in it are caught by rule.

`my_router` is the crate as its team wrote it. Step one appends `adopted/dev-dependencies.toml` to
its manifest, step two adds `adopted/tests/load_contract.rs`. Each variant is the same crate with
one mistake, made by exact search and replace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).resolve().parent
CRATE = HERE.parents[2] / "rust-check"
BUILT = CRATE / "target" / "journey"
"""Where everything goes that is built, the variants' sources too: what they share is built once."""

ENVIRONMENT = {
    "CARGO_TARGET_DIR": str(BUILT),
    "CARGO_PROFILE_DEV_DEBUG": "0",  # builds faster
    "RUST_BACKTRACE": "0",
}

SECONDS = 300.0
"""How long one cargo may take; the first one downloads and builds."""

RUNS = {"payloads", "messages", "plans", "readings"}
"""The tests of `load_contract.rs`, one for each conformance run."""


class Mistake(NamedTuple):
    """A router with one mistake.

    Attributes:
        file: The file that has it.
        edits: Search and replace; each text is there exactly once.
        failing: The runs that fail, and no other.
        rule: The rule that it breaks.
        vector: A vector that shows it.
        expected: What that vector expects.
        got: What it got.
    """

    file: str
    edits: dict[str, str]
    failing: set[str]
    rule: str
    vector: str
    expected: str
    got: str


MISTAKES = {
    "six-element-tuple": Mistake(
        "decode.rs",
        {"if length < 6 {": "if length != 6 {"},
        {"payloads", "messages", "readings"},
        "W3",
        "rev2-golden-a",
        "accept as revision 2: num_running_reqs 17, num_waiting_reqs 130,",
        "reject (11 elements)",
    ),
    "defaults-to-zero": Mistake(
        "decode.rs",
        {
            "if length < 6 {": "if length == 0 {",
            "    read_int(rest).map_err": "    if rest.is_empty() {\n        return Ok(0);\n    }\n"
            "    read_int(rest).map_err",
            "u64::from(length - read)": "u64::from(length.saturating_sub(read))",
        },
        {"payloads", "messages", "readings"},
        "W9",
        "too-short-4-elements",
        "reject too-short, element 4",
        "accept num_running_reqs 17, num_waiting_reqs 130, num_tokens 40000, "
        "max_total_num_tokens 0, attn_dp_rank 0",
    ),
    "partial-tail-rejects-the-frame": Mistake(
        "decode.rs",
        {"if length >= 11 {": "if length > 6 {"},
        {"payloads", "messages"},
        "W12",
        "partial-tail-8-elements",
        "accept as revision 1: ",
        "reject (",
    ),
    "load-dialled-at-the-kv-host": Mistake(
        "plan.rs",
        {
            "let host = host(worker_url)?;": "let host = host(worker_url)?;\n"
            '    let host = match kv_events.get("endpoint_host")?.as_str()? {\n'
            '        "*" | "0.0.0.0" | "[::]" => host,\n'
            "        kv_host => kv_host.to_owned(),\n    };"
        },
        {"plans"},
        "C1",
        "plan-kv-ipv4",
        "dial tcp://10.0.0.5:5559, tcp://10.0.0.5:5560",
        "dial tcp://10.9.9.9:5559, tcp://10.9.9.9:5560",
    ),
    "missing-rank-as-zero": Mistake(
        "table.rs",
        {
            "!slots.is_empty()": "slots.iter().any(|slot| slot.newest.is_some())",
            "let (at, message) = slot.newest.as_ref()?;": "let Some((at, message)) = "
            "slot.newest.as_ref() else {\n                continue;\n            };",
        },
        {"readings"},
        "C3",
        "missing-rank",
        "http://10.0.0.5:30000 unknown (missing-rank of 0)",
        "http://10.0.0.5:30000 known: num_running_reqs 10, num_waiting_reqs 20,",
    ),
    "kept-after-removal": Mistake(
        "table.rs",
        {
            "self.workers.remove(worker);\n    }": "let _ = worker; // its readings expire anyway\n"
            "    }"
        },
        {"readings"},
        "C6",
        "late-message-after-removal",
        "http://10.0.0.5:30000 unknown (removed)",
        "http://10.0.0.5:30000 known: ",
    ),
    "sequence-as-a-filter": Mistake(
        "table.rs",
        {
            "slot.newest = Some((now, message));": (
                "let newer = |(_, last): &(Instant, Message)| message.sequence > last.sequence;\n"
                "            if slot.newest.as_ref().map_or(true, newer) {\n"
                "                slot.newest = Some((now, message));\n            }"
            )
        },
        {"readings"},
        "S3",
        "restart-with-the-same-number",
        "http://10.0.0.5:30000 known: num_running_reqs",
        "http://10.0.0.5:30000 known: num_running_reqs",
    ),
    "torn-down-by-one-bad-message": Mistake(
        "table.rs",
        {
            "let Ok(message) = parse(frames) else {\n            return Ok(());\n        };": (
                "let message = parse(frames)?;"
            )
        },
        {"readings"},
        "C5",
        "bad-payloads-in-between",
        "the subscription to stay up",
        "an error, which ends it: ",
    ),
}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder with these files; what is unchanged stays untouched, and is not built again."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    return folder


def router() -> dict[str, str]:
    """The files of the router as its team wrote it."""
    root = HERE / "my_router"
    files = [path for path in sorted(root.rglob("*")) if path.suffix in (".rs", ".toml")]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in files}


def adopted() -> dict[str, str]:
    """The files of the router with the two steps taken."""
    files = router()
    files["Cargo.toml"] += (HERE / "adopted" / "dev-dependencies.toml").read_text("utf-8")
    test = "tests/load_contract.rs"
    return {**files, test: (HERE / "adopted" / test).read_text("utf-8")}


def with_mistake(name: str) -> dict[str, str]:
    """The files of the adopted router with a mistake made."""
    mistake, files = MISTAKES[name], adopted()
    # Cargo tells what it built apart by name and version, and not by folder.
    manifest = files["Cargo.toml"]
    files["Cargo.toml"] = manifest.replace('version = "0.0.0"', f'version = "0.0.0-{name}"')
    name = f"src/{mistake.file}"
    for search, replacement in mistake.edits.items():
        assert files[name].count(search) == 1, f"{search!r} is not once in {name}"
        files[name] = files[name].replace(search, replacement)
    return files


@pytest.fixture(scope="module")
def cargo() -> str:
    """Where cargo is; without it a skip, and under CI a failure."""
    found = shutil.which("cargo")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("cargo is not on PATH: NOT RUN")
    return found


def run(cargo: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of one cargo in a router's folder."""
    lock = folder / "Cargo.lock"
    if not lock.is_file():
        # The versions that are there already; cargo adds and removes what it has to.
        shutil.copy(CRATE / "Cargo.lock", lock)
    patch = f"patch.crates-io.loadwire-check.path={str(CRATE)!r}"
    done = subprocess.run(
        [cargo, *arguments, "--config", patch],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def outcomes(output: str) -> dict[str, str]:
    """What became of each run, by its name."""
    return dict(re.findall(r"^test (\w+) \.\.\. (ok|FAILED)$", output, re.MULTILINE))


def test_the_router_adopts_the_kit_in_two_steps(cargo: str) -> None:
    """With a dev-dependency and a test file it passes all four runs, and ships nothing of ours."""
    folder = write(BUILT / "routers" / "right", adopted())
    status, output = run(cargo, folder, "test", "--test=load_contract")
    assert status == 0, output
    assert dict.fromkeys(RUNS, "ok") == outcomes(output)
    status, shipped = run(cargo, folder, "tree", "--edges=normal")
    assert status == 0, shipped
    assert "loadwire" not in shipped.partition("\n")[2]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught_by_its_rule(cargo: str, name: str) -> None:
    """The runs that are about it fail; the message has rule, vector, what was due and what came."""
    mistake = MISTAKES[name]
    folder = write(BUILT / "routers" / name, with_mistake(name))
    status, output = run(cargo, folder, "test", "--test=load_contract")
    assert status != 0, output
    failing = {run for run, outcome in outcomes(output).items() if outcome == "FAILED"}
    assert (mistake.failing, RUNS) == (failing, set(outcomes(output))), output
    failures = re.split(r"\n\n", output)
    head = re.compile(rf"{mistake.rule} {mistake.vector}( |$)", re.MULTILINE)
    shown = [failure for failure in failures if head.match(failure)]
    assert shown, f"no {mistake.rule} {mistake.vector} in\n{output}"
    assert f"    expected {mistake.expected}" in shown[0]
    assert f"    got      {mistake.got}" in shown[0]
