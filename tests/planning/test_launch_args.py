"""Launch commands as people have them: words, flags, scripts, and what is refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loadwire.planning.launch_args import (
    FLAGS,
    LaunchArgs,
    LaunchArgsError,
    parse_worker,
    read_script,
    split_workers,
)

# The words, and what they say that is no default.
READ = [
    ([], {}),
    (["--kv-events-config", "{}"], {"kv_events_config": "{}"}),
    (["--kv-events-config={}"], {"kv_events_config": "{}"}),
    (["--kv-events-config="], {"kv_events_config": ""}),
    (["--kv-events-config", '{"a": "--dp-size"}'], {"kv_events_config": '{"a": "--dp-size"}'}),
    (["--load-publish-endpoint", "auto"], {"load_publish_endpoint": "auto"}),
    (["--load-publish-endpoint=tcp://*:7000"], {"load_publish_endpoint": "tcp://*:7000"}),
    (["--dp-size", "2"], {"dp_size": 2}),
    (["--dp", "2"], {"dp_size": 2}),
    (["--dp=2"], {"dp_size": 2}),
    (["--data-parallel-size", "2"], {"dp_size": 2}),
    (["--attn-dp-size=4"], {"attn_dp_size": 4}),
    (["--attention-data-parallel-size", "4"], {"attn_dp_size": 4}),
    (["--enable-dp-attention"], {"enable_dp_attention": True}),
    (["--tp", "8", "--pp-size", "2"], {"tp_size": 8, "pp_size": 2}),
    (["--tensor-parallel-size", "8"], {"tp_size": 8}),
    (["--pipeline-parallel-size", "2"], {"pp_size": 2}),
    (["--attn-cp-size", "2"], {"attn_cp_size": 2}),
    (["--attention-context-parallel-size", "2"], {"attn_cp_size": 2}),
    (["--dcp-size", "2"], {"dcp_size": 2}),
    (["--decode-context-parallel-size", "2"], {"dcp_size": 2}),
    (["--page-size", "0"], {"page_size": 0}),
    (["--page-size", "-1"], {"page_size": -1}),
    (["--nnodes", "2", "--node-rank", "1"], {"nnodes": 2, "node_rank": 1}),
    (["--host", "0.0.0.0", "--port", "8000"], {"host": "0.0.0.0", "port": 8000}),  # noqa: S104
    (["--kv-events", "{}"], {"kv_events_config": "{}"}),
    # The last one counts, as in argparse.
    (["--dp-size", "2", "--dp", "4"], {"dp_size": 4}),
]
# Words in front or between that must not be taken for anything.
AROUND = [
    ["python", "-m", "sglang.launch_server", "--model-path", "x", "--dp-size", "2"],
    ["CUDA_VISIBLE_DEVICES=0", "nohup", "sglang", "serve", "m", "--dp-size=2", ">", "log", "&"],
    ["/opt/bin/sglang", "serve", "--dp-size", "2"],
    ["python3", "/sgl/launch_server.py", "--lora-paths", "a", "b", "--dp-size", "2", "2>&1"],
    ["docker", "run", "--port", "1:1", "img", "python", "-m", "sglang.launch_server", "--dp", "2"],
    ["--trust-remote-code", "--dp-size", "2", "--chat-template", "dp-size"],
    ["--moe-dp-size", "8", "--dp-size", "2", "--dp-attention-x", "9"],
    ["--json-model-override-args", '{"--dp-size": 3}', "--dp-size", "2"],
]
REFUSED = [
    (["--dp-size"], "worker 1: --dp-size has no value: the command ends there"),
    (["--dp-size", "--tp", "2"], "worker 1: --dp-size has no value: --tp follows"),
    (["--dp-size", "two"], "worker 1: --dp-size needs a whole number, not 'two'"),
    (["--dp", "2.0"], "worker 1: --dp-size needs a whole number, not '2.0'"),
    (["--dp-size="], "worker 1: --dp-size needs a whole number, not ''"),
    (["--dp-size", "0"], "worker 1: --dp-size is 0, not 1 to 65535"),
    (["--dp-size", "9" * 5000], "worker 1: --dp-size needs a whole number"),
    (["--port", "70000"], "worker 1: --port is 70000, not 1 to 65535"),
    (["--node-rank", "2", "--nnodes", "2"], "--node-rank is 2 with --nnodes 2: nodes are 0 to 1"),
    (["--enable-dp-attention=1"], "--enable-dp-attention takes no value, and was given '1'"),
    (["--kv-event-config", "{}"], "no flag --kv-event-config, did you mean --kv-events-config?"),
    (["--load-publish-endpoints", "x"], "did you mean --load-publish-endpoint?"),
    (["--load-endpoint=auto"], "did you mean --load-publish-endpoint?"),
    (["--dp_size", "2"], "no flag --dp_size, did you mean --dp-size?"),
    (["--dp-size 2"], "no flag --dp-size 2, did you mean --dp-size?"),
    (["-dp-size", "2"], "no flag -dp-size, did you mean --dp-size?"),
    (["--Page-Size=1"], "no flag --Page-Size, did you mean --page-size?"),
    (["--port", "$PORT"], "worker 1: --port has $PORT, which something else fills in"),
    (["--port", "${PORT:-1}"], "has ${PORT:-1}, which something else"),
    (["--port=$(PORT)"], "has $(PORT), which something else"),
    (["--host", "{{ .Values.host }}"], "has {{ .Values.host }}, which something else"),
    (["--kv-events-config", '{"endpoint": "tcp://*:$KV"}'], "--kv-events-config has $KV, which"),
]


class TestParseWorker:
    @pytest.mark.parametrize(("words", "said"), READ)
    def test_read(self, words: list[str], said: dict[str, object]) -> None:
        """A flag is read in every spelling that SGLang takes, and the rest are its defaults."""
        assert LaunchArgs(given=frozenset(said), **said) == parse_worker(words)  # type: ignore[arg-type]

    @pytest.mark.parametrize("words", AROUND)
    def test_around(self, words: list[str]) -> None:
        """What stands around the flags that matter is passed over, and never taken for a value."""
        args = parse_worker(words)
        assert (2, {"dp_size"}) == (args.dp_size, args.given)

    def test_not_looked_at(self) -> None:
        """The flags that decide nothing are named once each, in order."""
        words = ["--model-path=m", "--dp", "2", "--mem", "-0.5", "--model-path", "-1"]
        args = parse_worker(words)
        assert ("--model-path", "--mem") == args.not_looked_at

    @pytest.mark.parametrize(("words", "message"), REFUSED)
    def test_refused(self, words: list[str], message: str) -> None:
        """What cannot be read names the worker and the flag, and what to write."""
        with pytest.raises(LaunchArgsError) as caught:
            parse_worker(words)
        assert message in str(caught.value)

    def test_name(self) -> None:
        """The name of the worker is in its messages."""
        with pytest.raises(LaunchArgsError, match=r"^worker 7 \(line 3\): --dp-size has no value"):
            parse_worker(["--dp-size"], "worker 7 (line 3)")

    @pytest.mark.parametrize("flag", FLAGS)
    def test_misspelt(self, flag: str) -> None:
        """Underscores for dashes are noticed in every flag that matters."""
        if "-" not in flag[2:]:
            return
        with pytest.raises(LaunchArgsError, match=f"did you mean {flag}"):
            parse_worker(["--" + flag[2:].replace("-", "_"), "1"])

    @given(
        st.lists(st.sampled_from([*FLAGS, "2", "-1", "{}", "--x", "--dp=2", "serve"]) | st.text())
    )
    def test_any_words(self, words: list[str]) -> None:
        """Any words are read or refused, and nothing else happens."""
        try:
            parse_worker(words)
        except LaunchArgsError as error:
            assert str(error).startswith("worker 1: ")  # noqa: PT017  # only the text is at stake


class TestSplitWorkers:
    def test_split(self) -> None:
        """Workers stand between --and."""
        words = ["--dp", "2", "--and", "--dp", "4"]
        assert [["--dp", "2"], ["--dp", "4"]] == split_workers(words)

    @pytest.mark.parametrize("words", [["--and"], ["a", "--and"], ["a", "--and", "--and", "b"]])
    def test_alone(self, words: list[str]) -> None:
        """An --and with nothing on one side is refused."""
        with pytest.raises(LaunchArgsError, match="has no arguments: --and stands alone"):
            split_workers(words)


SCRIPT = """\
#!/bin/bash
export PORT=1  # don't read this
python -m sglang.launch_server --model-path org#name \\
    --kv-events-config '{"publisher":
"zmq"}' \\
    --dp-size 2 &  # it's the first

  # sglang serve --dp-size 9 \\
sglang serve m --port 30001 --note "a \\"b\\" # c"
--dp-size 4
sleep 5
"""


class TestReadScript:
    def test_script(self) -> None:
        """Lines are joined, commented and quoted as in a shell, and numbered where they start."""
        script = read_script(SCRIPT)
        assert [3, 9, 10] == [line for line, _ in script.commands]
        first, second, third = (parse_worker(words) for _, words in script.commands)
        assert ('{"publisher":\n"zmq"}', 2) == (first.kv_events_config, first.dp_size)
        assert 30001 == second.port
        assert 4 == third.dp_size
        assert 'a "b" # c' in script.commands[1][1]
        assert ((2, "export PORT=1"), (11, "sleep 5")) == script.skipped

    def test_single_quotes(self) -> None:
        """Between single quotes a backslash is one."""
        script = read_script("sglang serve --note 'a\\' --dp 2 # '")
        assert ["sglang", "serve", "--note", "a\\", "--dp", "2"] == script.commands[0][1]

    def test_windows(self) -> None:
        """Line ends of Windows are line ends."""
        script = read_script("sglang serve \\\r\n --dp 2\r\n")
        assert ((1, ["sglang", "serve", "--dp", "2"]),) == script.commands

    def test_open_quote(self) -> None:
        """A quote that does not close names the line."""
        with pytest.raises(LaunchArgsError, match=r"^line 2 cannot be split into words"):
            read_script("sglang serve\nsglang serve --host 'x\n")

    def test_huge(self) -> None:
        """A file that holds no commands, and braces without end, are refused without a wait."""
        started = time.process_time()
        with pytest.raises(LaunchArgsError, match="line 2 is longer than any launch command"):
            read_script("sglang serve\n" + "x" * 1_000_000)
        parse_worker(["--kv-events-config", "{{" * 50_000])
        with pytest.raises(
            LaunchArgsError, match=r"\{\{ \.Values\.host \}\}, which something else"
        ):
            parse_worker(["--host", "{{{{ .Values.host }}"])
        assert time.process_time() - started < 2

    @given(st.text(st.sampled_from("ab'\"\\\n# -=")))
    def test_any_text(self, text: str) -> None:
        """Any text is split or refused, and nothing else happens."""
        try:
            read_script(text)
        except LaunchArgsError as error:
            assert str(error).startswith("line ")  # noqa: PT017  # only the text is at stake
