"""What the README shows is what happens: its commands, its examples, its numbers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_loadwire import check, rules, vectors

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")

ENGINE = """
import msgspec
import zmq

class LoadStat(msgspec.Struct, array_like=True, tag=True):
    {fields}

def open_socket(endpoint):
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.set_hwm(8)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(endpoint)
    return socket

class Publisher:
    def __init__(self, endpoint):
        self.socket, self.sequence = open_socket(endpoint), 0

    def publish(self, running, waiting):
        stat = LoadStat(running, waiting, 0, 0, 0)
        payload = msgspec.msgpack.encode(stat)
        self.socket.send_multipart([b"load", self.sequence.to_bytes(8, "big"), payload])
        self.sequence += 1

    def close(self):
        self.socket.close()
"""
FIELDS = (
    "num_running_reqs: int",
    "num_waiting_reqs: int",
    "num_tokens: int",
    "max_total_num_tokens: int",
    "attn_dp_rank: int | None = None",
    "num_waiting_uncached_tokens: int = 0",
    "num_total_tokens: int = 0",
    "max_running_requests: int = 0",
    "total_prefill_uncached_tokens: int = 0",
    "total_prefill_busy_us: int = 0",
)
ROUTER = """
from pytest_loadwire.wire import decode as decode_load
"""
RUST_ROUTER = """
pub struct Load {
    pub running: u64, pub waiting: u64, pub tokens: u64, pub capacity: u64, pub rank: Option<u64>,
}
pub fn decode_load(bytes: &[u8]) -> Result<Load, loadwire_check::Refusal> {
    loadwire_check::decode_as(bytes, loadwire_check::Revision::V1).map(|stat| Load {
        running: stat.num_running_reqs,
        waiting: stat.num_waiting_reqs,
        tokens: stat.num_tokens,
        capacity: stat.max_total_num_tokens,
        rank: stat.attn_dp_rank,
    })
}
"""


def blocks(language: str) -> list[str]:
    """The README's code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def block(language: str, part: str) -> str:
    """The one block of a language that has this part."""
    (found,) = (text for text in blocks(language) if part in text)
    return found


def make_engine(repo: pytest.Pytester, fields: tuple[str, ...] = FIELDS) -> None:
    source = ENGINE.format(fields="\n    ".join(fields))
    repo.mkpydir("engine").joinpath("load.py").write_text(source, "utf-8")


@pytest.fixture
def repo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty repository, whose packages can be imported by the pytest that runs in it."""
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    return pytester


def test_the_two_commands_come_first_and_are_what_ci_runs():
    """The first two code blocks are one command each, and `.ci/run` reads them from here."""
    commands = [text.strip() for text in blocks("sh")[:2]]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")

    assert [1, 1] == [len(command.splitlines()) for command in commands]
    assert commands[0].endswith("loadwire check")
    assert commands[1].endswith("pytest -n 2")
    assert "readme_command 'loadwire check'" in ci
    assert "readme_command '/pytest'" in ci


def test_an_engine_adopts_the_contract_as_shown(repo: pytest.Pytester):
    """The class of the second step runs every vector against the engine's struct."""
    make_engine(repo)
    repo.makepyfile(test_wire=block("python", "reason="))

    result = repo.runpytest_subprocess("-W", "error")

    outcome = result.parseoutcomes()
    canonical = [v for v in vectors.load().payloads if v.engine == 2 and v.kind != "spelling"]
    assert outcome["passed"] > len(canonical)
    assert set(outcome) == {"passed", "skipped", "xfailed"}


def test_a_reordered_engine_fails_as_shown(repo: pytest.Pytester):
    """An engine whose first two fields changed places gets the failure that the README prints."""
    make_engine(repo, (FIELDS[1], FIELDS[0], *FIELDS[2:]))
    repo.makepyfile(test_wire=blocks("python")[0])
    shown = block("text", "W3 wrong-bytes").splitlines()

    result = repo.runpytest_subprocess("-k", "rev2-golden-a")

    result.assert_outcomes(failed=1, deselected=result.parseoutcomes()["deselected"])
    patterns = [re.escape(line).replace(r"\.\.\.", ".*") + ".*" for line in shown]
    result.stdout.re_match_lines([re.sub(r"(\\ )+", r"\\s+", pattern) for pattern in patterns])


@pytest.mark.parametrize("mode", ["stub", "live"])
def test_the_capture_example_runs(repo: pytest.Pytester, mode: str):
    """The capture example passes on a stub and on a real socket."""
    make_engine(repo)
    repo.makepyfile(test_capture=block("python", "loadwire_capture"))

    result = repo.runpytest_subprocess(f"--loadwire-socket={mode}", "-W", "error")

    result.assert_outcomes(passed=1)


def test_the_fixture_example_runs(repo: pytest.Pytester):
    """The example of the live fixtures passes."""
    repo.makepyfile(test_live=block("python", "make_loadwire_subscriber(loadwire_publisher)"))

    result = repo.runpytest_subprocess("-W", "error")

    result.assert_outcomes(passed=1)


def test_a_python_router_adopts_the_contract_as_shown(repo: pytest.Pytester):
    """The decoder class runs every vector in every spelling, and says what it leaves out."""
    repo.mkpydir("router").joinpath("load.py").write_text(ROUTER, "utf-8")
    repo.makepyfile(test_decoder=block("python", "DecoderContract"))

    result = repo.runpytest_subprocess("-W", "error")

    golden = vectors.load()
    forms = sum(len(vector.spellings) + 1 for vector in golden.payloads)
    result.assert_outcomes(passed=forms + 1, skipped=1)


def test_the_codec_example_runs():
    """The codec example holds, to the letter of the error."""
    exec(compile(block("python", "decode(payload[:14])"), "README.md", "exec"), {})  # noqa: S102


def test_a_rust_router_adopts_the_contract_as_shown(tmp_path: Path):
    """The Rust test of the second step compiles against the crate and passes."""
    cargo = shutil.which("cargo")
    if cargo is None:
        if os.environ.get("CI"):
            pytest.fail("cargo is not on PATH, and under CI the Rust example has to run")
        pytest.skip("cargo is not on PATH: the Rust example was not run")
    step = block("toml", "loadwire-check")
    crate = ROOT / "rust-check"
    assert re.search(r'^loadwire-check = "0\.1"$', step, re.MULTILINE)
    local = f'[dependencies]\nloadwire-check = {{ path = "{crate}" }}\n'
    package = '[package]\nname = "my_router"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'
    for name, content in {
        "Cargo.toml": package + local,
        "src/lib.rs": RUST_ROUTER,
        "tests/load_contract.rs": block("rust", "conformance::payloads"),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    lock = crate / "Cargo.lock"
    if lock.exists():
        shutil.copy(lock, tmp_path)  # the versions that the crate is tested with

    done = subprocess.run(
        [cargo, "test", "-q", "--test", "load_contract"],
        cwd=tmp_path,
        env={**os.environ, "CARGO_TARGET_DIR": str(crate / "target" / "journeys")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_numbers_are_those_of_the_vectors():
    """The counts in the text are those of the files, and the table is the one that comes out."""
    golden = vectors.load()
    result = check.run()

    everything = sum(len(getattr(golden, subject)) for subject in vectors.VECTOR_TYPES)
    assert f"{everything} golden vectors" in README
    totals = ", ".join(f"{count} {what}" for what, count in result.totals.items())
    table = block("text", "vectors by rule and witness")
    assert totals in " ".join(table.split())
    (head,) = re.findall(r"^┃ rule ┃.*$", table, re.MULTILINE)
    assert result.witnesses == re.findall(r"\w+", head)[-len(result.witnesses) :]
    agreed = {
        w: sum(row[w].passed for row in result.cells.values() if w in row) for w in result.witnesses
    }
    shown = dict(re.findall(r"^│ (\w*) +│ [^│]*│(.*)│$", table, re.MULTILINE))
    assert len(shown) >= 3
    for rule, row in shown.items():
        cells = {w: cell.passed for w, cell in result.cells[rule].items()} if rule else agreed
        assert row.split("│") == [f" {cells.get(w, '-'):>{max(len(w), 3)}} " for w in agreed]


def test_every_fixture_and_option_is_listed(repo: pytest.Pytester):
    """The tables have every fixture and option of the plugin, and no other."""
    listed = repo.runpytest_subprocess("--fixtures").stdout.str()
    fixtures = set(re.findall(r"^((?:make_)?loadwire_\w+)", listed, re.MULTILINE))
    options = set(re.findall(r"(--loadwire-\w+)", repo.runpytest_subprocess("--help").stdout.str()))

    assert fixtures == set(re.findall(r"^\| `((?:make_)?loadwire_\w+)`", README, re.MULTILINE))
    assert options == set(re.findall(r"^\| `(--loadwire-\w+)", README, re.MULTILINE))


def test_every_rule_stands_in_the_contract():
    """golden/README.md has each rule, reason, policy and hazard, and no rule that is none."""
    contract = (ROOT / "golden" / "README.md").read_text("utf-8")

    assert list(rules.RULES) == re.findall(r"^- \*\*([A-Z]\d+)\*\*", contract, re.MULTILINE)
    for code in (*rules.Reason, *rules.Policy, *rules.Hazard):
        assert f"`{code}`" in contract
