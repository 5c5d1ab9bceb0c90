"""Text to bytes, in every form that people paste."""

from __future__ import annotations

import base64
import pprint
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loadwire.hextext import Piece, read, read_bytes

PAYLOAD = bytes.fromhex("96a84c6f61645374617411cc82cd9c40ce000f424005")
HEX = PAYLOAD.hex()
TWOS = [HEX[i : i + 2] for i in range(0, len(HEX), 2)]
TOPIC, SEQUENCE = "6c6f6164", "0000000000000007"
FRAMES = (b"load", bytes.fromhex(SEQUENCE), PAYLOAD)

DUMPS = {
    "xxd": """
00000000: 96a8 4c6f 6164 5374 6174 11cc 82cd 9c40  ..LoadStat.....@
00000010: ce00 0f42 4005                           ...B@.
""",
    "xxd -g1": """
00000000: 96 a8 4c 6f 61 64 53 74 61 74 11 cc 82 cd 9c 40  ..LoadStat.....@
00000010: ce 00 0f 42 40 05                                ...B@.
""",
    "hexdump -C": """
00000000  96 a8 4c 6f 61 64 53 74  61 74 11 cc 82 cd 9c 40  |..LoadStat.....@|
00000010  ce 00 0f 42 40 05                                 |...B@.|
00000016
""",
    "od -tx1": """
0000000 96 a8 4c 6f 61 64 53 74 61 74 11 cc 82 cd 9c 40
0000020 ce 00 0f 42 40 05
0000026
""",
    "tcpdump -X": """
\t0x0000:  96a8 4c6f 6164 5374 6174 11cc 82cd 9c40  ..LoadStat.....@
\t0x0010:  ce00 0f42 4005                           ...B@.
""",
    "Wireshark": """
0000   96 a8 4c 6f 61 64 53 74 61 74 11 cc 82 cd 9c 40   ..LoadStat.....@
0010   ce 00 0f 42 40 05                                 ...B@.
""",
    "a dump whose characters look like digits": """
00000000: 96a8 4c6f 6164 5374 6174 11cc 82cd 9c40  aabbccddeeff0011
00000010: ce00 0f42 4005                           aabb ~
""",
}

# what the spelling is, the spelling
SPELLINGS = [
    ("plain", HEX),
    ("upper case", HEX.upper()),
    ("0x", f"0x{HEX}"),
    ("blanks", " ".join(TWOS)),
    ("groups", " ".join(HEX[i : i + 4] for i in range(0, len(HEX), 4))),
    ("colons", ":".join(TWOS)),
    ("hyphens", "-".join(TWOS)),
    ("underscores", "_".join(TWOS)),
    ("commas and 0x", ", ".join(f"0x{two}" for two in TWOS)),
    ("braces", "{ " + ", ".join(f"0x{two}" for two in TWOS) + " }"),
    ("a list without a leading 0", "[" + ", ".join(f"0x{byte:x}" for byte in PAYLOAD) + "]"),
    ("bytes without a leading 0", " ".join(f"{byte:x}" for byte in PAYLOAD)),
    ("0x in front of each byte", "".join(f"0x{two}" for two in TWOS)),
    ("escapes", "".join(f"\\x{two}" for two in TWOS)),
    ("escapes in quotes", '"' + "".join(f"\\x{two}" for two in TWOS) + '"'),
    ("octal escapes", "".join(f"\\{byte:03o}" for byte in PAYLOAD)),
    ("quotes", f"'{HEX}'"),
    ("an SQL literal", f"X'{HEX}'".removeprefix("X")),
    ("angle brackets", f"<{HEX}>"),
    ("a Python literal", repr(PAYLOAD)),
    ("a bytearray", repr(bytearray(PAYLOAD))),
    ("a pretty-printed literal", pprint.pformat(PAYLOAD, width=20)),
    ("a literal without its quotes, as the shell leaves it", "b" + repr(PAYLOAD)[2:-1]),
    ("a literal that is cut", repr(PAYLOAD)[:-1]),
    ("the inside of a literal", repr(PAYLOAD)[2:-1]),
    ("Rust's list", str(list(PAYLOAD))),
    ("Go's list", str(list(PAYLOAD)).replace(",", "")),
    ("base64", base64.b64encode(PAYLOAD).decode()),
    ("base64 for URLs, without padding", base64.urlsafe_b64encode(PAYLOAD).decode().rstrip("=")),
    ("a log line", f"2026-11-30T12:00:01.5 INFO 10.0.0.1:5558 payload={HEX} rank=3"),
    ("a log line with a literal", f"12:00 WARN refused {PAYLOAD!r} from rank 3"),
    ("a coloured line", f"\x1b[32m{HEX}\x1b[0m"),
    ("invisible characters", f"\ufeff{HEX[:6]}\u200b{HEX[6:]}\u00ad"),
    ("blanks that do not break", "\u00a0".join(TWOS)),
    ("comments", f"# from the log\n{HEX}\n# end"),
    ("Windows lines", f"\r\n{HEX}\r\n"),
    ("Rust's type", "Vec" + str(list(PAYLOAD))),
    ("Go's type", "[]byte{" + ", ".join(f"0x{byte:x}" for byte in PAYLOAD) + "}"),
    ("Node's buffer", f"<Buffer {' '.join(TWOS)}>"),
    ("Node's array", f"Uint8Array({len(PAYLOAD)}) {list(PAYLOAD)}"),
    ("a name", f"payload: {' '.join(TWOS)}"),
    ("a JSON string", '"' + "".join(f"\\u{byte:04x}" for byte in PAYLOAD) + '"'),
    ("wrapped lines", f"{HEX[:30]}\n{HEX[30:36]}\n{HEX[36:]}"),
    *DUMPS.items(),
]

MESSAGES = [
    ("blanks", f"{TOPIC} {SEQUENCE} {HEX}"),
    ("bars", f"{TOPIC} | {SEQUENCE} | {HEX}"),
    ("commas", f"{TOPIC}, {SEQUENCE}, {HEX}"),
    ("lines", f"{TOPIC}\n{SEQUENCE}\n{HEX}"),
    ("one string", TOPIC + SEQUENCE + HEX),
    (
        "one string in groups of 8",
        "6c6f6164 00000000 00000007 96a84c6f 61645374 617411cc 82cd9c40 ce000f42 4005",
    ),
    ("bytes", " ".join([TOPIC[i : i + 2] for i in range(0, 8, 2)] + [SEQUENCE] + TWOS)),
    ("the topic as text", f"load {SEQUENCE} {HEX}"),
    ("a Python list", repr(list(FRAMES))),
    ("a Python tuple", repr(FRAMES)),
    ("a Python list over lines", pprint.pformat(list(FRAMES), width=20)),
    ("literals in lines", "\n".join(map(repr, FRAMES))),
    ("literals without commas", " ".join(map(repr, FRAMES))),
    ("literals with names", "topic={!r} seq={!r} payload={!r}".format(*FRAMES)),
    ("a list of strings", f'["{TOPIC}", "{SEQUENCE}", "{HEX}"]'),
    ("a list of strings over lines", f'[\n  "{TOPIC}",\n  "{SEQUENCE}",\n  "{HEX}"\n]'),
    (
        "a list that lost its quotes to a shell",
        repr(list(FRAMES)).replace("'", "").replace(", ", "\n"),
    ),
    ("a wrapped string", TOPIC + SEQUENCE + HEX[:20] + "\n" + HEX[20:]),
    ("a log line", f"INFO received {TOPIC} {SEQUENCE} {HEX} in 3 ms"),
    (
        "an annotated message",
        f"frame 0 (topic): b'load'\nframe 1 (sequence): {SEQUENCE} = 7\nframe 2: {HEX}, 22 bytes",
    ),
]

ODD = "an odd number: a byte has two, so one is missing or one too many"

# text, what is wrong with it
UNREADABLE = [
    (HEX[:-1], f"43 hex digits, {ODD}"),
    ("3", f"1 hex digit, {ODD}"),
    ("96a8 4c6 1164", f"column 6: 3 hex digits, {ODD}"),
    ("96a84g", "column 6: 'g' is no hex digit"),
    ("96 a8 4O", "column 8: 'O' is no hex digit; was 0 meant?"),
    ("96 a8 4l", "column 8: 'l' is no hex digit; was 1 meant?"),
    ("  zz", "column 3: 'z' is no hex digit"),
    ("96\u20ac", r"column 3: '\u20ac' is no hex digit (U+20AC)"),
    ("\udc96\udca8", r"column 1: '\udc96' is no hex digit (U+DC96)"),
    ("96\x1b[2J", r"column 3: '\x1b' is no hex digit"),
    ("96a8..4c6f", "column 5: bytes are left out here ('..')"),
    ("::::", "there is no hex digit in it"),
    ("|||", "there is no hex digit in it"),
    ("0x", "there is no hex digit in it"),
    ("hello", "column 1: 'h' is no hex digit"),
    ("/var/log/router.log", "column 1: '/' is no hex digit"),
    (r"b'\x9'", "column 1: the Python bytes literal that starts here is not valid"),
    ("b'\u20ac'", "column 1: the Python bytes literal that starts here is not valid"),
    (r"\x96\q", r"column 5: a backslash that starts no escape of a byte"),
    ("aGVsbG8gd29ybGQhISEhISE=", "column 2: 'G' is no hex digit"),  # base64, but of no message
]


def alone(pieces: list[Piece]) -> Piece:
    (piece,) = pieces
    return piece


@pytest.mark.parametrize("text", [t for _, t in SPELLINGS], ids=[name for name, _ in SPELLINGS])
def test_a_payload(text: str) -> None:
    """A payload is read in every spelling, as one payload."""
    piece = alone(read(text))
    assert ((PAYLOAD,), False, None) == (piece.frames, piece.message, piece.problem)


@pytest.mark.parametrize("text", [t for _, t in MESSAGES], ids=[name for name, _ in MESSAGES])
def test_a_message(text: str) -> None:
    """Three frames are told from payloads, in one line, in three, and run together."""
    piece = alone(read(text))
    assert (FRAMES, True, None) == (piece.frames, piece.message, piece.problem)


@pytest.mark.parametrize(("text", "problem"), UNREADABLE)
def test_what_cannot_be_read(text: str, problem: str) -> None:
    """What is no hex is no exception: it names the column and the character."""
    piece = alone(read(text))
    assert (problem, ()) == (piece.problem, piece.frames)


class TestLines:
    def test_payloads(self) -> None:
        """Lines are payloads of their own, each with its number, and a bad one spoils no other."""
        pieces = read(f"\n{HEX}\n\nnothing\n80\n")
        assert [(2, (PAYLOAD,)), (4, ()), (5, (b"\x80",))] == [(p.line, p.frames) for p in pieces]

    def test_messages(self) -> None:
        """A topic takes the two lines behind it, and the next topic starts the next message."""
        message = [TOPIC, SEQUENCE, HEX]
        pieces = read("\n".join([*message, *message, "80", *message[:2], "zz"]))
        assert [True, True, False, True, False] == [piece.message for piece in pieces]
        assert [FRAMES, FRAMES, (b"\x80",), FRAMES[:2], ()] == [piece.frames for piece in pieces]

    def test_another_topic(self) -> None:
        """Three lines with eight bytes in the middle are a message, whatever its topic."""
        assert (b"kv", FRAMES[1], b"\x90") == alone(read(f"6b76\n{SEQUENCE}\n90")).frames

    def test_an_empty_frame(self) -> None:
        """Between bars a frame may be empty, and so may a literal."""
        assert (b"", FRAMES[1], b"\x80") == alone(read(f"|{SEQUENCE}|80")).frames
        assert (b"load", b"", b"\x80") == alone(read(r"[b'load', b'', b'\x80']")).frames

    def test_too_many_frames(self) -> None:
        """Frames are not counted here: two or four of them are a message to explain."""
        assert 4 == len(alone(read(f"{TOPIC} {SEQUENCE} {HEX} {HEX}")).frames)
        assert 2 == len(alone(read(f"{TOPIC} {SEQUENCE}")).frames)
        assert (b"load",) == alone(read("load")).frames

    @pytest.mark.parametrize("text", ["", "  \n\t\n", "\ufeff", "# nothing"])
    def test_blank(self, text: str) -> None:
        """A blank text holds nothing."""
        assert [] == read(text)

    def test_a_list_of_one(self) -> None:
        """A list of one is a message of one frame, as CONFLATE leaves it."""
        for text in (repr([PAYLOAD]), repr((PAYLOAD,))):
            piece = alone(read(text))
            assert ((PAYLOAD,), True) == (piece.frames, piece.message)

    def test_packets(self) -> None:
        """What tcpdump prints is read packet by packet."""
        packet = DUMPS["tcpdump -X"].strip("\n")
        about = "12:00:01.5 IP 10.0.0.1.5558 > 10.0.0.2.40000: Flags [P.], length 22"
        pieces = read(f"{about}\n{packet}\n{about}\n{packet}\n")
        assert [(2, (PAYLOAD,)), (5, (PAYLOAD,))] == [(p.line, p.frames) for p in pieces]

    def test_wrapped_base64(self) -> None:
        """Base64 is read over several lines, as programs wrap it."""
        payload = bytes.fromhex("9ca84c6f616453746174") + b"\x01" * 10 + b"\xc4\x64" + b"x" * 100
        text = base64.encodebytes(payload).decode()
        assert (payload,) == alone(read(text)).frames


# what stands around frames that are none of a load message, in a line of a log
AROUND = [
    "{}",
    "router: {}",
    "4. {}",
    "4) {}",
    "10) {}",
    "frames={}",
    "frame={}",
    "WARN refused [{}]",
    "12:00:01.5 got {} from 10.0.0.1:5558, span 4bf92f3577b34da6",
]


class TestInARow:
    @pytest.mark.parametrize("around", AROUND)
    @pytest.mark.parametrize("topic", [b"kv", b"load_stat", b"load", b"topic678"])
    @pytest.mark.parametrize("between", [" ", ", ", "  "])
    def test_frames(self, around: str, topic: bytes, between: str) -> None:
        """Three runs of hex in a row, the middle one of 8 bytes, are a message in any line."""
        text = around.format(between.join([topic.hex(), SEQUENCE, HEX]))
        piece = alone(read(text))
        assert ((topic, *FRAMES[1:]), True) == (piece.frames, piece.message)
        assert topic == b"load" or any("three runs of hex in a row" in n for n in piece.notes)

    def test_a_short_payload(self) -> None:
        """The payload may be as short as it likes, and the topic may be text."""
        for text in (f"router: {TOPIC} {SEQUENCE} 80", f"router: load {SEQUENCE} 80"):
            assert (b"load", FRAMES[1], b"\x80") == alone(read(text)).frames

    def test_groups(self) -> None:
        """Groups of 8 bytes are one string."""
        assert (PAYLOAD,) == alone(read(f"{HEX[:16]} {HEX[16:32]} {HEX[32:]}")).frames


class TestNotes:
    @pytest.mark.parametrize(
        ("text", "note"),
        [
            (HEX[:20] + "...", "the text is cut at column 21 ('...'): what was there is not known"),
            (HEX[:20] + "\u2026", "the text is cut at column 21"),
            ("96 a8 7", "a digit that stands alone is a whole byte"),
            (f"rank=3 payload={HEX}", "the hex was picked out of a line of other words"),
            (f"got {PAYLOAD!r}", "what stands around them is left out: 'got'"),
            (base64.b64encode(PAYLOAD).decode(), "it is no hex; as base64 it is a LoadStat"),
            (TOPIC + SEQUENCE + HEX, "it starts with the topic: taken as a whole message"),
            (repr(PAYLOAD)[:-1], "the closing ' is missing: the text may be cut"),
            ("00000010: 96a8\n00000012: 4c6f", "the dump starts at offset 16"),
        ],
    )
    def test_assumptions(self, text: str, note: str) -> None:
        """What was assumed is said."""
        piece = alone(read(text))
        assert piece.problem is None
        assert any(each.startswith(note.removesuffix("...")) for each in piece.notes), piece.notes

    def test_plain_hex_needs_none(self) -> None:
        """Plain hex is what it is."""
        assert ("hex", ()) == (alone(read(HEX)).form, alone(read(HEX)).notes)


class TestRefusesToGuess:
    @pytest.mark.parametrize(
        "text",
        [
            f"a={HEX} b=96a84c6f61645374617412cc82cd9c40ce000f424005",  # two of them
            f"payload={HEX[:-8]}O{HEX[-7:]}",  # a typing error
            "trace deadbeefdeadbeef span 0123456789abcdef",
            f"dump: {HEX[:16]} {HEX[16:32]} {HEX[32:]}",  # a string in groups of 8 bytes
            "dump: 0123456789abcdef 1123456789abcdef ff",
        ],
    )
    def test_log_lines(self, text: str) -> None:
        """Hex is picked out of a line only if it can be no other."""
        assert alone(read(text)).problem is not None

    @pytest.mark.parametrize(
        "text",
        [
            "00000000: 96a8\n00000010: 4c6f",  # 14 bytes are missing
            "00000000: 96a8 4c6f\n*\n00000010: 6164",  # lines left out
            "0000000000000000 " + HEX,  # a sequence and a payload: offsets stand before groups
        ],
    )
    def test_dumps(self, text: str) -> None:
        """Offsets that do not agree with the bytes make no dump."""
        assert all(piece.form != "a hex dump" for piece in read(text))

    @pytest.mark.parametrize("text", ["[96, 97, 98]", "[10 20 30]"])
    def test_lists(self, text: str) -> None:
        """Numbers that may be hex are hex."""
        digits = "".join(c for c in text if c.isdigit())
        assert (bytes.fromhex(digits),) == alone(read(text)).frames


class TestStandardInput:
    def test_text(self) -> None:
        """Text is read as text, in UTF-8 and, with its mark, in UTF-16."""
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            assert (PAYLOAD,) == alone(read_bytes(HEX.encode(encoding))).frames

    def test_raw(self) -> None:
        """Bytes that are no text are the payload itself, and that is said."""
        piece = alone(read_bytes(PAYLOAD))
        assert ((PAYLOAD,), "raw bytes") == (piece.frames, piece.form)
        assert FRAMES == alone(read_bytes(b"".join(FRAMES))).frames
        assert (b"\0",) == alone(read_bytes(b"\0")).frames
        assert [] == read_bytes(b"")

    @given(st.binary(max_size=64))
    @settings(max_examples=100, deadline=None)
    def test_any(self, data: bytes) -> None:
        """Any standard input gives pieces."""
        read_bytes(data)


ALPHABET = st.sampled_from([*"0123456789abcdefxX\\'\"b[](){}|,;: .-_\n\t=", "load", HEX, TOPIC])
PASTED = st.lists(ALPHABET, max_size=30).map("".join)


@pytest.mark.parametrize(
    "text",
    [f"payload{' ' * 50_000}z", f"payload ={' ' * 50_000}z", f"[bload,\nb\\{',' * 50_000}x\n]"],
)
def test_long_runs(text: str) -> None:
    """A long run of what may stand around bytes is read in one pass."""
    started = time.process_time()
    read(text)
    assert time.process_time() - started < 2


def test_many_fragments() -> None:
    """Payloads that break off before many lines of bytes cost one look each."""
    block = "\n".join([f"9c{HEX[2:]}0102030405dd0000ffff", *["01" * 250] * 62])
    started = time.process_time()
    assert 64 * 63 == len(read("\n".join([block] * 64)))
    assert time.process_time() - started < 4


class TestAnything:
    @given(st.one_of(st.text(st.characters(), max_size=60), PASTED))
    @settings(max_examples=400, deadline=None)
    def test_never_fails(self, text: str) -> None:
        """Any text gives pieces: each has bytes or a problem in ASCII, and a line of the text."""
        for piece in read(text):
            assert (piece.problem is None) == bool(piece.frames)
            assert (piece.problem or "").isascii()
            assert all(note.isascii() for note in piece.notes)
            assert 1 <= piece.line

    @given(st.binary(min_size=1, max_size=40))
    @settings(max_examples=100, deadline=None)
    def test_what_python_prints(self, data: bytes) -> None:
        """What Python prints of any bytes reads back."""
        frames = b"".join(alone(read(repr(data))).frames)
        assert data == frames
        assert (data, data) == alone(read(repr([data, data]))).frames

    @given(st.binary(min_size=1, max_size=40))
    @settings(max_examples=100, deadline=None)
    def test_what_hex_prints(self, data: bytes) -> None:
        """Any bytes in hex read back."""
        assert data == b"".join(alone(read(data.hex())).frames)
