"""``loadwire plan``: what is shown of workers' ports, and with which exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

ZMQ = ("--kv-events-config", '{"publisher":"zmq"}')
NEXT = ("--kv-events-config", '{"publisher":"zmq","endpoint":"tcp://*:5559"}')
AUTO = ("--load-publish-endpoint", "auto")


def flat(result: Result) -> str:
    """The output without the frames of tables, blanks run together."""
    return " ".join(result.output.replace("│", " ").split())


class TestOne:
    def test_ranks(self, invoke: Invoke) -> None:
        """Each rank with its ports, the block, and what a router dials."""
        result = invoke("plan", *ZMQ, *AUTO, "--dp-size", "2", "--page-size", "64")
        assert result.exit_code == 0, result.output
        text = flat(result)
        assert "2 ranks, HTTP on 127.0.0.1:30000" in text
        assert "0 5557 - 5559 replica 0, tp rank 0" in text
        assert "1 5558 - 5560 replica 1, tp rank 0" in text
        block = json.loads(text.partition("kv_events: ")[2].partition(" a router")[0])
        assert (5559, 64, 2) == (
            block["load_endpoint_port_base"],
            block["block_size"],
            block["dp_size"],
        )
        assert "a router dials tcp://worker-host:5559 to 5560" in text
        assert text.endswith("no collisions, load is published")

    def test_launch_command(self, invoke: Invoke) -> None:
        """A whole launch command is taken as it is, and what is passed over is named."""
        command = ["python", "-m", "sglang.launch_server", "--model-path", "m", "--host=10.0.0.5"]
        result = invoke("plan", *command, *ZMQ, *AUTO)
        assert result.exit_code == 0, result.output
        assert "a router dials tcp://10.0.0.5:5558" in flat(result)
        assert "not looked at: --model-path" in result.output

    @pytest.mark.parametrize("host", ["[fe80::1]", "[/x]", "x[red]y"])
    def test_host(self, invoke: Invoke, host: str) -> None:
        """The host is shown to the letter, brackets included."""
        result = invoke("plan", *ZMQ, *AUTO, "--host", host)
        assert f"HTTP on {host}:30000" in result.output
        escaped = invoke("plan", *ZMQ, *AUTO, "--host", "\x1b[2J", "--\x1b]0;x").output
        assert "\x1b" not in escaped

    def test_many_ranks(self, invoke: Invoke) -> None:
        """Many ranks are one line, and with --all a line each."""
        words = [*ZMQ, *AUTO, "--dp", "64", "--tp", "64", "--enable-dp-attention"]
        short = invoke("plan", *words)
        assert short.exit_code == 0, short.output
        assert "0 to 63 5557 to 5620 - 5621 to 5684 attention groups 0 to 63," in flat(short)
        assert len(short.output.splitlines()) < 20
        assert max(map(len, short.output.splitlines()[:7])) <= 80
        every = flat(invoke("plan", "--all", *words))
        assert "63 5620 - 5684 attention group 63, tp rank 63" in every

    def test_nodes(self, invoke: Invoke) -> None:
        """The ranks of another node are shown without ports."""
        wide = ["--dp", "8", "--tp", "8", "--enable-dp-attention", "--nnodes", "2"]
        text = flat(invoke("plan", *ZMQ, *AUTO, *wide))
        assert "4 to 7 - - - another node" in text
        assert "WARNING node 0 of 2 publishes ranks 0 to 3 of 8" in text
        second = flat(invoke("plan", *ZMQ, *AUTO, *wide, "--node-rank", "1"))
        assert "4 to 7 5561 to 5564 - 5569 to 5572" in second
        assert "node 0 answers for the whole engine" in second

    def test_replay(self, invoke: Invoke) -> None:
        """A replay range is shown, and what newer engines add to the block."""
        kv = '{"publisher":"zmq","replay_endpoint":"tcp://*:5558"}'
        text = flat(invoke("plan", "--kv-events-config", kv, *AUTO))
        assert "0 5557 5558 5559 tp rank 0" in text
        assert "SGLang 0.5.23 adds replay_endpoint_port_base: 5558" in text

    def test_off(self, invoke: Invoke) -> None:
        """Load publishing that is off is fine, and said."""
        result = invoke("plan", *ZMQ)
        assert result.exit_code == 0, result.output
        assert "NOTE load publishing is off" in flat(result)
        assert flat(result).endswith("no collisions, no load is published")

    def test_no_kv_events(self, invoke: Invoke) -> None:
        """A worker without KV events has nothing to show but its HTTP port."""
        text = flat(invoke("plan", "--port", "8000"))
        assert "HTTP on 127.0.0.1:8000" in text
        assert "kv_events: null a router dials nothing" in text

    def test_refused(self, invoke: Invoke) -> None:
        """V1: a start that is refused says why, and is status 1."""
        result = invoke("plan", *ZMQ, "--load-publish-endpoint", "tcp://*:5557")
        assert result.exit_code == 1
        text = flat(result)
        assert (
            "REFUSED --load-publish-endpoint='tcp://*:5557' takes ports 5557 and overlaps" in text
        )
        assert "/server_info nothing, since the engine does not start" in text
        assert text.endswith("1 of 1 cannot start or bind as told")


class TestSeveral:
    def test_collision(self, invoke: Invoke) -> None:
        """Workers that collide: the ports, the ranks, and the nearest ports that do not."""
        first = [*ZMQ, *AUTO, "--dp", "2", "--port", "30000"]
        result = invoke("plan", *first, "--and", *NEXT, *AUTO, "--dp", "2", "--port", "30001")
        assert result.exit_code == 1
        text = flat(result)
        assert "COLLIDES ports 5559 to 5560: worker 1 load rank 0 to 1 and worker 2 kv rank" in text
        assert "nearest spacing that works for workers alike: 4" in text
        assert "FREE worker 2: up by 2 to KV base 5561, or down by 6 to KV base 5553" in text
        assert text.endswith("1 collision")

    def test_fine(self, invoke: Invoke) -> None:
        """Workers that do not collide are status 0, with a word on their HTTP ports."""
        result = invoke("plan", *ZMQ, *AUTO, "--and", *NEXT, "--load-publish-endpoint=off")
        assert result.exit_code == 0, result.output
        text = flat(result)
        assert "worker 2: 1 rank, HTTP on" in text
        assert "WARNING worker 1 and worker 2 leave --port out" in text
        assert text.endswith("no collisions, 1 of 2 workers publishes load")

    def test_many(self, invoke: Invoke) -> None:
        """Many workers share a table, and what they have in common is said once."""
        result = invoke("plan", *ZMQ, *AUTO, "--count", "40")
        assert result.exit_code == 0, result.output
        text = flat(result)
        assert "worker 40 1 5635 - 5636 30078" in text
        assert "NOTE worker 1 and 39 more: block_size 1 is" in text
        assert 1 == text.count("NOTE")
        assert "40 workers, 2 ports apart" in text
        assert 40 == invoke("plan", "--all", *ZMQ, *AUTO, "--count", "40").output.count("HTTP on")

    def test_spacing(self, invoke: Invoke) -> None:
        """A spacing that is too small collides, and the nearest that works is said."""
        result = invoke("plan", *ZMQ, *AUTO, "--dp", "2", "--count", "20", "--spacing", "3")
        assert result.exit_code == 1
        text = flat(result)
        assert "COLLIDES port 5560: worker 1 load rank 1 and worker 2 kv rank 0" in text
        assert "nearest spacing that works for workers alike: 4" in text
        assert "FREE" not in text
        assert text.endswith("20 workers, 3 ports apart 19 collisions")

    def test_many_collisions(self, invoke: Invoke) -> None:
        """The first collisions are shown, and how many more there are."""
        result = invoke("plan", *ZMQ, *AUTO, "--count", "30", "--spacing", "1")
        assert 20 == result.output.count("COLLIDES")
        assert "... and 9 more (see --json)" in result.output


class TestScripts:
    SCRIPT = "\n".join(
        [
            "set -e",
            "python -m sglang.launch_server --model-path m --port 30000 \\",
            """  --kv-events-config '{"publisher":"zmq"}' --load-publish-endpoint auto &""",
            """sglang serve m --port 30001 --kv-events-config '{"publisher":"zmq"}'""",
        ]
    )

    def test_standard_input(self, invoke: Invoke) -> None:
        """Launch commands come from standard input, and workers are named by line."""
        for words in (["-"], ["-f", "-"]):
            result = invoke("plan", *words, input=self.SCRIPT)
            assert result.exit_code == 1
            text = flat(result)
            assert "line 1 starts no worker, skipped: set -e" in text
            assert "port 5557: worker 1 (line 2) kv rank 0 and worker 2 (line 4) kv rank 0" in text

    def test_file(self, invoke: Invoke, tmp_path: Path) -> None:
        """Launch commands come from a file, for machines too."""
        file = tmp_path / "launch.sh"
        file.write_text(self.SCRIPT)
        result = invoke("plan", "--json", "-f", file)
        document = json.loads(result.output)
        assert (1, False) == (result.exit_code, document["ok"])
        assert [{"line": 1, "text": "set -e"}] == document["skipped_lines"]
        assert [5557] == document["collisions"][0]["ports"]
        assert ["--model-path"] == document["workers"][0]["not_looked_at"]


class TestJSON:
    def test_whole(self, invoke: Invoke) -> None:
        """For machines: every rank, the block, and what was decided."""
        result = invoke("plan", "--json", *ZMQ, *AUTO, "--count", "2")
        document = json.loads(result.output)
        assert (0, True, 2) == (result.exit_code, document["ok"], document["spaced_by"])
        first, second = document["workers"]
        assert (5558, 5560) == (first["ranks"][0]["load"], second["ranks"][0]["load"])
        assert 5560 == second["kv_events"]["load_endpoint_port_base"]
        assert ([], [], None) == tuple(document[k] for k in ("collisions", "moves", "spacing"))


class TestWrongCalls:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "engine arguments are missing: loadwire plan --kv-events-config"),
            (["--kv-event-config", "{}"], "worker 1: SGLang has no flag --kv-event-config"),
            (["--dp", "2", "--and", "--dp", "x"], "worker 2: --dp-size needs a whole number"),
            (["--dp", "2", "--and"], "worker 2 has no arguments"),
            (["--dp", "2", "--spacing", "4"], "--spacing needs --count"),
            (["--dp", "2", "--and", "--tp", "2", "--count", "2"], "--count repeats one worker"),
            (["--port", "60000", "--count", "3", "--spacing", "9000"], "moved by 9000 is port"),
            ([*ZMQ, *AUTO, "--dp", "64", "--count", "600"], "no spacing keeps 600 such workers"),
            (["-f", "/dev/null"], "no line of it starts a worker of SGLang"),
            (["-f", "/dev/null", "--dp", "2"], "a file was given, and arguments as well: --dp"),
        ],
    )
    def test_wrong(self, invoke: Invoke, words: list[str], message: str) -> None:
        """A call that cannot be planned is status 2 and says what is wrong."""
        result = invoke("plan", *words)
        assert result.exit_code == 2, result.output
        assert message in result.output

    def test_no_text(self, invoke: Invoke) -> None:
        """A script that is no text is a wrong call."""
        result = invoke("plan", "-", input=b"\xff\xfe")
        assert result.exit_code == 2, result.output
        assert "no UTF-8 text" in result.output

    def test_help(self, invoke: Invoke) -> None:
        """The help has an example."""
        assert "Example:\n    loadwire plan --kv-events-config" in invoke("plan", "--help").output
