"""``loadwire explain``, as it is typed and piped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loadwire.commands import loadwire
from pytest_loadwire.commands.explain import MOST_ROWS
from pytest_loadwire.vectors import load

Invoke = Callable[..., Result]

GOLDEN = load()
REV1 = "96a84c6f6164537461740703cd0400cd200002"
NEGATIVE = "96a84c6f616453746174ff03cd0400cd200002"
TRIMMED = "95a84c6f6164537461740703cd0400cd2000"
MESSAGE = ("6c6f6164", "0000000000000007", REV1)

SHOWN = """\
BROKEN, routers refuse this payload: num_running_reqs is -1, which is below zero
(W5 out-of-range)
read as  hex, 19 bytes

   byte  bytes               element = value
      0  96                  array of 6
      1  a84c6f616453746174  0 tag = str 'LoadStat'
                               says that this is a load reading
>    10  ff                  1 num_running_reqs = -1 requests
                               in the running batch
     11  03                  2 num_waiting_reqs = 3 requests
                               that wait to be scheduled
     12  cd0400              3 num_tokens = 1024 tokens
                               of KV cache in use
     15  cd2000              4 max_total_num_tokens = 8192 tokens
                               of KV-cache capacity; 0 is unknown
     18  02                  5 attn_dp_rank = 2
                               the publisher's slot, or nil

breaks   W5 out-of-range at byte 10, element 1 (num_running_reqs)
         expected 0 to 2^64-1, got -1
rule     a count is an unsigned integer, 0 to 2^64-1
hazard   starves: a decoder that stores it unsigned reads num_running_reqs =
         18446744073709551615: the worker reads as full and is never chosen; one
         that keeps it signed reads less than idle, and draws all traffic
likely   a subtraction that went below zero, or -1 for unknown
engine   no engine may send this (W5 out-of-range)
router   of revisions 1 and 2: refuses it (out-of-range)
"""


def test_page(invoke: Invoke) -> None:
    """The page begins with the verdict, then has every byte, then what it breaks and does."""
    result = invoke("explain", NEGATIVE)
    assert (1, SHOWN) == (result.exit_code, result.output)


@pytest.mark.parametrize(
    ("arguments", "status", "first"),
    [
        ((REV1,), 0, "CONFORMS: a payload as an engine of revision 1 sends it"),
        (MESSAGE, 0, "CONFORMS: a message as an engine of revision 1 sends it"),
        ((" ".join(MESSAGE),), 0, "CONFORMS: a message"),
        (tuple(REV1[i : i + 2] for i in range(0, 38, 2)), 0, "CONFORMS: a payload"),
        (tuple(f"0x{REV1[i : i + 2]}," for i in range(0, 38, 2)), 0, "CONFORMS: a payload"),
        ((repr(bytes.fromhex(REV1)),), 0, "CONFORMS: a payload"),
        ((TRIMMED,), 1, "NOT CONFORMING: routers may read it, no engine may send it"),
        (("80",), 1, "NO LOAD MESSAGE: an empty map, perhaps of a LoadSnapshot"),
        ((REV1[:-1],), 2, "CANNOT BE READ as bytes: 37 hex digits, an odd number"),
        (("HTTP/1.1 200 OK",), 2, "CANNOT BE READ as bytes: column 1: 'H' is no hex digit"),
        (("hello", "world"), 2, "1 of 2, line 1"),
        ((REV1, REV1), 0, "1 of 2, line 1"),
        ((REV1, NEGATIVE), 1, "1 of 2, line 1"),
        ((REV1, "nothing at all"), 1, "1 of 2, line 1"),
    ],
)
def test_status(invoke: Invoke, arguments: tuple[str, ...], status: int, first: str) -> None:
    """Exit status 0: all conform. 1: some do not. 2: no bytes were found."""
    result = invoke("explain", *arguments)
    assert first in result.output.splitlines()[0] or first in " ".join(result.output.split())
    assert status == result.exit_code


class TestStandardInput:
    @pytest.mark.parametrize("arguments", [(), ("-",)])
    def test_piped(self, invoke: Invoke, arguments: tuple[str, ...]) -> None:
        """What is piped is read, with or without a hyphen."""
        result = invoke("explain", *arguments, input="\n".join(MESSAGE))
        assert result.output.startswith("CONFORMS: a message")

    def test_among_others(self, invoke: Invoke) -> None:
        """A hyphen stands for standard input among other arguments."""
        found = json.loads(invoke("explain", "--json", REV1, "-", "80", input=NEGATIVE).output)
        assert [REV1, NEGATIVE, "80"] == [each["text"] for each in found["explanations"]]

    def test_raw(self, invoke: Invoke) -> None:
        """A payload in raw bytes is taken as it is."""
        result = invoke("explain", "-", input=bytes.fromhex(REV1))
        assert (0, True) == (result.exit_code, "raw bytes, 19 bytes" in result.output)

    @pytest.mark.parametrize("data", [b"", b" \n", b"# nothing\n"])
    def test_nothing(self, invoke: Invoke, data: bytes) -> None:
        """Nothing to explain is a wrong call."""
        result = invoke("explain", "-", input=data)
        assert (2, True) == (result.exit_code, "nothing to explain" in result.stderr)


class TestOptions:
    def test_json(self, invoke: Invoke) -> None:
        """For machines, it is one object with every byte and verdict, and whether all is well."""
        result = invoke("explain", "--json", NEGATIVE, "-", input="zz")
        found = json.loads(result.output)
        told, unread = found["explanations"]
        assert (1, False) == (result.exit_code, found["ok"])
        assert NEGATIVE == "".join(row["raw"] for row in told["frames"][0]["rows"])
        assert ("W5", "out-of-range", 10, 1) == tuple(
            told["fault"][key] for key in ("rule", "reason", "offset", "element")
        )
        vector = GOLDEN.payload("rev1-num-running-reqs-minus-1").readers["1"]
        assert vector.rule == told["readers"]["1"]["rule"]  # type: ignore[union-attr]
        assert {"code": "starves", "text": told["hazard"]["text"]} == told["hazard"]
        assert "column 1: 'z' is no hex digit" == unread["problem"]
        assert json.loads(invoke("explain", "--json", REV1).output)["ok"] is True

    def test_strict(self, invoke: Invoke) -> None:
        """What is odd and legal is told of, and with --strict it is not enough."""
        odd = "96a84c6f6164537461740703cd2000cd040002"
        headline = "CONFORMS in form, but odd: num_tokens 8192 is above the capacity 1024: are"
        for options, status in (((), 0), (("--strict",), 1)):
            for texts in ((odd,), (REV1, odd)):
                result = invoke("explain", *options, *texts)
                assert (status, True) == (
                    result.exit_code,
                    headline in " ".join(result.output.split()),
                )
                result = invoke("explain", "--json", *options, *texts)
                found = json.loads(result.output)
                assert (status, not status, True) == (result.exit_code, found["ok"], found["odd"])
                told = found["explanations"]
                assert (not status, True) == (told[-1]["ok"], told[-1]["odd"])
            assert (True, False) == (told[0]["ok"], told[0]["odd"])
        assert 0 == invoke("explain", "--strict", REV1).exit_code
        assert json.loads(invoke("explain", "--json", "--strict", REV1).output)["odd"] is False

    def test_revision(self, invoke: Invoke) -> None:
        """Only the routers of one revision are asked."""
        partial = "97a84c6f6164537461740703cd0400cd200002cb0000000000000000"
        assert "router   of revision 2" in invoke("explain", partial).output
        one = invoke("explain", "--revision", "1", partial).output
        assert "router   of revision 1: reads revision 1, ignores the 1 behind it" in one
        assert "of revision 2" not in one.split("router   ", 1)[1]

    @pytest.mark.parametrize("revision", ["0", "9", "x"])
    def test_unknown_revision(self, invoke: Invoke, revision: str) -> None:
        """A revision that is none is a wrong call."""
        assert 2 == invoke("explain", "--revision", revision, REV1).exit_code

    def test_help(self, invoke: Invoke) -> None:
        """The help has examples."""
        result = invoke("explain", "--help")
        assert "Example:\n    loadwire explain 96a84c6f" in result.output
        text = " ".join(result.output.split())
        assert "Several may be given" in text
        assert "- is standard input" in text
        for status in ("Exit status 0: ", " 1: ", " 2: "):
            assert status in text
        assert "--strict What is legal and odd" in text


class TestPage:
    def test_a_file(self, invoke: Invoke, tmp_path: Path) -> None:
        """A file's name is no bytes, and it says how to read the file."""
        file = tmp_path / "payload.hex"
        file.write_text(REV1)
        result = invoke("explain", file)
        assert (2, True) == (result.exit_code, "loadwire explain - < FILE" in result.output)

    def test_sibling(self, invoke: Invoke) -> None:
        """A message of another stream is called by its name, with where to look instead."""
        frames = [part.hex() for part in GOLDEN.frame("kv-stream-no-topic").parts]
        output = " ".join(invoke("explain", "|".join(frames)).output.split())
        assert "NO LOAD MESSAGE: a batch of the KV-event stream" in output
        assert "load_endpoint_port_base + rank" in output
        assert "breaks F5 bad-topic at frame 0" in output

    def test_pasted_sibling(self, invoke: Invoke) -> None:
        """Text of another protocol is called by its name as well."""
        output = " ".join(invoke("explain", "HTTP/1.1 404 Not Found").output.split())
        assert "it looks like an HTTP response" in output

    def test_policies(self, invoke: Invoke) -> None:
        """Where routers differ, it says what each does."""
        output = " ".join(invoke("explain", TRIMMED).output.split())
        assert (
            "by its policy OmittedRank: with 'accept' it reads revision 1; with 'reject' it refuses"
            in output
        )

    def test_two_policies(self, invoke: Invoke) -> None:
        """Where an accepting router chooses once more, that is said behind the first choice."""
        both = "98a84c6f6164537461740703cd0400cd200002cd0200cd100000"
        output = " ".join(invoke("explain", both).output.split())
        assert "router of revision 2: by its policy TrailingBytes: with 'accept' it reads" in output
        assert "(trailing-bytes); if it accepts, also by its policy PartialTail: with" in output

    def test_a_log(self, invoke: Invoke) -> None:
        """A line of a log with frames in it is a message, be it a bad one, and that is said."""
        text = f"4. 6b76 {MESSAGE[1]} 80\nrouter: 6c6f61645f73746174 {MESSAGE[1]} {REV1}"
        result = invoke("explain", "-", input=text)
        assert "CANNOT BE READ" not in result.output
        assert 2 == result.output.count("three runs of hex in a row")
        assert "the topic is b'load_stat', and not b'load'" in " ".join(result.output.split())

    def test_long(self, invoke: Invoke) -> None:
        """A long table is cut with a line that says how much is left out, not before the fault."""
        tail = "01" * 300
        whole = f"dc0132{REV1[2:20]}{'01' * 5}{tail}"
        cut = invoke("explain", whole)
        assert "... 267 more bytes in 267 rows, from byte 50 on" in cut.output
        late = invoke("explain", whole[:-2] + "c1")
        assert f"> {316:>5}  c1 " in late.output
        assert MOST_ROWS + 60 > len(late.output.splitlines())

    def test_narrow(self, invoke: Invoke) -> None:
        """A page fits 80 columns, apart from what cannot be broken."""
        text = "\n".join(vector.hex for vector in GOLDEN.payloads[::7] if vector.hex)
        for line in invoke("explain", "-", input=text).output.splitlines():
            assert 80 >= len(line) or not line[9:].strip().count(" "), line

    def test_escapes(self, invoke: Invoke) -> None:
        """Control characters in a text or a payload never reach the terminal."""
        key = "82a91b5d303b6576696c07019200" + "00"  # of a map, which names the rows of its value
        for text in ("\x1b[2J\x07", "96a84c6f61645374617\u202e", "\udce9", "93a41b5b324aa0a0", key):
            output = invoke("explain", text).output
            assert output.isascii()
            assert not [c for c in output if ord(c) < 32 and c != "\n"]


TEXT = st.one_of(st.text(), st.binary().map(bytes.hex), st.binary().map(repr))


class TestAnything:
    @given(st.lists(TEXT, min_size=1, max_size=3), st.booleans())
    @settings(max_examples=100, deadline=None)
    def test_arguments(self, arguments: list[str], as_json: bool) -> None:
        """Any arguments end in a page and a status, never in a traceback."""
        options = ["--json"] if as_json else []
        result = CliRunner().invoke(loadwire, ["explain", *options, "--", *arguments], input="")
        assert result.exit_code in (0, 1, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit)

    @given(st.binary(max_size=200))
    @settings(max_examples=100, deadline=None)
    def test_input(self, data: bytes) -> None:
        """Any standard input does too."""
        result = CliRunner().invoke(loadwire, ["explain", "-"], input=data)
        assert result.exit_code in (0, 1, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit)

    def test_megabytes(self, invoke: Invoke) -> None:
        """A megabyte is no different."""
        payload = bytes.fromhex("c600100000") + b"\xff" * (1 << 20)
        for data in (payload, payload.hex().encode()):
            result = invoke("explain", "-", input=data)
            assert (1, True) == (result.exit_code, len(result.output) < 10_000)
