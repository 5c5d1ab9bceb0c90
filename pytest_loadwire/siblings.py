"""What else a message can be: the streams and formats that land where a load message belongs.

A refused payload is often a good one of something else: the KV events of the socket next door, the
engine's internal snapshot, an answer of the HTTP port. Naming it ends a search. Nothing here says
whether a message conforms; that is `wire`'s word alone. Stdlib only.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.exact import TAG
from pytest_loadwire.tokens import Kind, Token, TokenError, item_end, read_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer


class Sibling(NamedTuple):
    """What some bytes are that are no load message.

    Attributes:
        kind: What it is, as a word for machines, for example ``kv-events``.
        says: What it is, as a sentence without a full stop.
        hint: What to do about it, as a sentence without a full stop.
    """

    kind: str
    says: str
    hint: str


KV_EVENTS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")
"""The tags of the KV-event stream. An event is a map with the tag as ``type``, once an array."""

SNAPSHOT_KEYS = frozenset(
    {
        "timestamp",
        "dp_rank",
        "num_running_reqs",
        "num_waiting_reqs",
        "num_waiting_uncached_tokens",
        "num_used_tokens",
        "num_total_tokens",
        "num_active_tokens",
        "max_total_num_tokens",
        "max_running_requests",
        "token_usage",
        "gen_throughput",
        "cache_hit_rate",
        "utilization",
        "memory",
        "speculative",
        "lora",
        "disaggregation",
        "queues",
        "total_prefill_uncached_tokens",
        "total_prefill_busy_us",
        "decode_moments",
    }
)
"""The fields of SGLang's internal ``LoadSnapshot``, a map without those at their default."""

SENTINEL = b"\xff" * 8
"""Frame 1 of the last answer on a replay socket: the sequence -1."""

_READ_PORT = (
    "the load port is load_endpoint_port_base + rank of the kv_events block in the worker's "
    "/server_info"
)
_KV_HINT = f"this is the KV-event port; {_READ_PORT}"
_SNAPSHOT_HINT = (
    "the engine should encode LoadStat, an array, for the load socket, and not its LoadSnapshot"
)
# Their own fields tell the two maps apart: the one rename between them, and the publisher's rank.
_STAT_ONLY = frozenset({"num_tokens", "attn_dp_rank"})
_MOST_LOOKED_AT = 64
_MOST_JSON = 1 << 20


def recognise_payload(payload: Buffer) -> Sibling | None:
    """What a payload is that is no load message, or None: a LoadStat, or nothing known."""
    data = bytes(memoryview(payload))
    if is_load_stat(data):
        return None
    return (
        _by_first_bytes(data)
        or _by_msgpack(data)
        or _on_the_wire(data)
        or _glued(data)
        or (_by_text(data) if _is_text(data) else None)
    )


def lookalike(payload: bytes) -> str | None:
    """Which other stream of an engine a refused payload looks like, or None (rule F5).

    The hint of an error. It says no more than `recognise_payload`, and looks at msgpack only.

    Args:
        payload: The refused bytes.
    """
    found = _by_msgpack(payload)
    if found is None:
        return None
    why = f"; {found.hint}" if found.kind == "load-stat-map" else ""
    return f"it looks like {found.says}{why}"


def recognise_frames(frames: Sequence[Buffer]) -> Sibling | None:
    """What a message is that is no load message, or None; frame by frame, and by their number."""
    parts = [bytes(memoryview(frame)) for frame in frames]
    if not parts:
        return None
    numbers = parts[-2:-1] if len(parts) > 1 else []
    if SENTINEL in (numbers or parts) and not is_load_stat(parts[-1]):
        return Sibling(
            "replay-sentinel",
            "the sequence -1: the end of a replay on the KV-event stream's replay socket",
            f"this is the KV replay port; {_READ_PORT}",
        )
    found = recognise_payload(parts[-1])
    if found is not None and found.kind != "sequence":
        if found.kind == "load-snapshot" and len(parts) == 3 and not parts[0]:
            return found._replace(
                says=f"{found.says}, under an empty topic: the design of an engine that was never "
                "released"
            )
        return found
    if len(parts) == 1 and is_load_stat(parts[0]):
        return Sibling(
            "conflated",
            "a payload alone, without topic and sequence",
            "the option CONFLATE keeps only the last frame (rule K2); or the engine does not call "
            "send_multipart",
        )
    return None


def is_load_stat(payload: bytes) -> bool:
    """Whether a payload starts as a LoadStat does: an array whose first element is the tag."""
    try:
        header = read_token(payload, 0)
        if header.kind is not Kind.ARRAY or not header.children:
            return False
        tag = read_token(payload, header.end)
    except TokenError:
        return False
    return tag.kind in (Kind.STR, Kind.BIN) and tag.value == TAG.encode()


_HTTP_ANSWER = re.compile(rb"HTTP/\d")
_HTTP_REQUEST = re.compile(
    rb"(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|PRI) [^\r\n]* HTTP/\d"
)


def _by_first_bytes(data: bytes) -> Sibling | None:
    if _HTTP_ANSWER.match(data):
        return Sibling(
            "http",
            f"an HTTP response: {_quote(data)}",
            f"this is the worker's HTTP port; {_READ_PORT}",
        )
    if _HTTP_REQUEST.match(data):
        return Sibling(
            "http",
            f"an HTTP request: {_quote(data)}",
            "an HTTP client speaks to this port; the load socket speaks ZeroMQ only",
        )
    if len(data) >= 10 and data[0] == 0xFF and data[9] == 0x7F:
        return Sibling(
            "zmtp",
            "a ZMTP greeting, with which every ZeroMQ connection begins",
            "these bytes are from the raw TCP stream; a ZeroMQ socket (SUB) takes the greeting and "
            "gives the frames",
        )
    command = data[3 : 3 + data[2]] if len(data) > 3 and data[0] == 4 else b""
    if command.isalpha() and command.isupper() and len(command) > 3:
        return Sibling(
            "zmtp",
            f"a ZMTP command {command.decode('ascii', 'replace')}, which the two sockets exchange",
            "these bytes are from the raw TCP stream; the frames of messages come behind it",
        )
    if len(data) >= 3 and data[0] in (0x15, 0x16) and data[1] == 3 and data[2] <= 4:
        return Sibling(
            "tls",
            "a TLS record",
            f"one side speaks TLS and the load socket does not; {_READ_PORT}",
        )
    if len(data) >= 4 and data[0] == 0x80 and data[1] in (2, 3, 4, 5) and data[-1:] == b".":
        return Sibling(
            "pickle",
            f"a Python pickle, protocol {data[1]}",
            "engines use pickle between their own processes only; never unpickle what comes from a "
            f"socket; {_READ_PORT}",
        )
    if data[:4] == b"SLNS":
        return Sibling(
            "load-snapshot",
            "the engine's shared-memory block of LoadSnapshots (magic SLNS)",
            "that block is internal to the engine; routers read the load socket",
        )
    if len(data) == 8 and data[0] == 0:
        return Sibling(
            "sequence",
            f"8 bytes, as frame 1 of a message: the sequence {int.from_bytes(data, 'big')}",
            "the payload is the frame behind it",
        )
    if data in (b"\x01load", b"\x00load"):
        return Sibling(
            "subscription",
            f"{'a subscription' if data[0] else 'an unsubscription'} for the topic 'load', which a "
            "subscriber sends to the publisher",
            "these bytes go from the router to the engine; look at the other direction",
        )
    return None


def _by_msgpack(data: bytes) -> Sibling | None:
    try:
        header = read_token(data, 0)
        if header.kind is Kind.ARRAY:
            return _array(data, header)
    except TokenError:
        return None
    return _map(data, header) if header.kind is Kind.MAP else None


def _array(data: bytes, header: Token) -> Sibling | None:
    if not header.children:
        return None
    first = read_token(data, header.end)
    if first.kind is Kind.STR:
        tag = _text(first)
        if tag in KV_EVENTS:
            return Sibling("kv-events", f"one {tag} event of the KV-event stream", _KV_HINT)
        return None
    if first.kind not in (Kind.FLOAT, Kind.INT) or header.children not in (2, 3):
        return None
    second = read_token(data, first.end)
    if second.kind is not Kind.ARRAY:
        return None
    tags = _event_tags(data, second)
    if not tags and (second.children or first.kind is not Kind.FLOAT):
        return None
    what = f"{second.children} event{'s' * (second.children != 1)}"
    if tags:
        what += f" ({', '.join(dict.fromkeys(tags))}{', ...' * (second.children > len(tags))})"
    return Sibling("kv-events", f"a batch of the KV-event stream: a timestamp and {what}", _KV_HINT)


def _event_tags(data: bytes, events: Token) -> list[str]:
    """The tags of the first few events of a batch, as far as they are events and whole."""
    tags: list[str] = []
    position = events.end
    with suppress(TokenError):
        for _ in range(min(events.children, 8)):
            event = read_token(data, position)
            tag = ""
            if event.kind is Kind.ARRAY and event.children:
                tag = _text(read_token(data, event.end))
            elif event.kind is Kind.MAP:
                tag = _keys(data, event).get("type", "")
            if tag not in KV_EVENTS:
                break
            tags.append(tag)
            position = item_end(data, position)
    return tags


def _map(data: bytes, header: Token) -> Sibling | None:
    if not header.children:
        if header.end != len(data):
            return None
        return Sibling(
            "load-snapshot",
            "an empty map, perhaps of a LoadSnapshot, the engine's internal reading, that has all "
            "at its default",
            _SNAPSHOT_HINT,
        )
    keys = _keys(data, header)
    tag = keys.get("type", "")
    names = keys.keys() - {"type"}
    if tag in KV_EVENTS:
        return Sibling("kv-events", f"one {tag} event of the KV-event stream", _KV_HINT)
    if tag == TAG or names & _STAT_ONLY:
        return Sibling(
            "load-stat-map",
            f"a LoadStat that was sent as a map of field names{_cut(data)}",
            "the engine's struct lacks array_like=True",
        )
    if names & SNAPSHOT_KEYS:
        return Sibling(
            "load-snapshot",
            f"a LoadSnapshot, the engine's internal reading: a map of field names{_cut(data)}",
            _SNAPSHOT_HINT,
        )
    return None


def _cut(data: bytes) -> str:
    """What to say of an item that is not all there."""
    try:
        item_end(data, 0)
    except TokenError:
        return ", which breaks off"
    return ""


def _keys(data: bytes, header: Token) -> dict[str, str]:
    """The first keys of a map, with the value of each where that is text."""
    keys: dict[str, str] = {}
    position = header.end
    with suppress(TokenError):
        for _ in range(min(header.children // 2, _MOST_LOOKED_AT)):
            key = read_token(data, position)
            name = _text(key)
            position = item_end(data, position)
            if name:
                keys[name] = ""
                keys[name] = _text(read_token(data, position))
            position = item_end(data, position)
    return keys


def _text(token: Token) -> str:
    if token.kind is not Kind.STR or not isinstance(token.value, bytes) or len(token.value) > 64:
        return ""
    return token.value.decode("utf-8", "replace")


# A frame that more follow, of 4 bytes: the topic. The next one of 8: the sequence.
_WIRE = re.compile(rb"\x01\x04(load)\x01\x08(.{8})(?:\x00(.)|\x02(.{8}))", re.DOTALL)


def _on_the_wire(data: bytes) -> Sibling | None:
    """A load message within the bytes of a TCP stream, or of a packet."""
    match = _WIRE.search(data)
    if match is None:
        return None
    topic, sequence, short, long = match.groups()
    payload = data[match.end() :][: int.from_bytes(short or long, "big")]
    if not is_load_stat(payload):
        return None
    message = " ".join(frame.hex() for frame in (topic, sequence, payload))
    return Sibling(
        "zmtp",
        f"a piece of the raw TCP stream: a load message starts at byte {match.start()}",
        f"its frames without the lengths in between are: {message}",
    )


def _glued(data: bytes) -> Sibling | None:
    if data[:4] == b"load" and is_load_stat(data[12:]):
        return Sibling(
            "glued",
            "topic, sequence and payload in one frame",
            "send them as three frames (send_multipart), not as one",
        )
    if is_load_stat(data[8:]) and not is_load_stat(data):
        return Sibling(
            "glued",
            "sequence and payload in one frame",
            "send topic, sequence and payload as three frames (send_multipart)",
        )
    return None


def _is_text(data: bytes) -> bool:
    return len(data) >= 2 and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in data)


def _by_text(data: bytes) -> Sibling | None:
    text = data.decode("ascii").strip()
    if text[:1] in ("{", "["):
        return _json(text)
    joined = "".join(text.split()).lower().removeprefix("0x").replace("\\x", "")
    if len(joined) >= 8 and len(joined) % 2 == 0:
        with suppress(ValueError):
            inner = bytes.fromhex(joined)
            what = _inner(inner)
            return Sibling(
                "hex-text",
                f"hex digits as text{what}: it was turned into hex twice",
                "decode the hex once more; an engine that sends this sends text and not bytes",
            )
    with suppress(ValueError, binascii.Error):
        inner = b64decode("".join(text.split()), validate=True)
        if is_load_stat(inner) or inner[:4] == b"load":
            return Sibling(
                "base64-text",
                f"base64 text{_inner(inner)}",
                "decode the base64 first; an engine that sends this sends text and not bytes",
            )
    if len(text) >= 6 and re.fullmatch(r"[\w .,:;'\"!?()\[\]{}<>=/@#%&*+-]+", text):
        return Sibling(
            "text", f"plain text: {_quote(data)}", "an error message, or a log line, in its place"
        )
    return None


def _inner(inner: bytes) -> str:
    if is_load_stat(inner):
        return " of a LoadStat"
    if inner[:4] == b"load":
        return " of a load message"
    return ""


def _json(text: str) -> Sibling | None:
    says, hint = "JSON text", "the load socket speaks msgpack; JSON is what the HTTP port speaks"
    value: object = None
    try:
        value = json.loads(text[:_MOST_JSON])
    except RecursionError:
        says = "JSON text, nested deeply"
    except ValueError:
        # Cut text is still text; anything shorter is as likely a number with bytes behind it.
        if not re.match(r'\{\s*"|\[\s*[\["{]', text) or len(text) < 8:
            return None
        says = "JSON text that breaks off"
    if isinstance(value, dict):
        if "kv_events" in value:
            says = "the answer of /server_info, as JSON text"
        elif value.get("type") in KV_EVENTS:
            says = "a KV event as JSON text"
        elif value.keys() & (SNAPSHOT_KEYS | _STAT_ONLY):
            says, hint = "a load reading as JSON text", "the engine should send msgpack (rule W1)"
    elif isinstance(value, list) and value[:1] == [TAG]:
        says, hint = "a LoadStat as JSON text", "the engine should send msgpack (rule W1)"
    return Sibling("json", says, hint)


def _quote(data: bytes) -> str:
    first = data.split(b"\n", 1)[0].rstrip()
    said = first[:60].decode("ascii", "backslashreplace")
    return repr(said + "..." * (len(first) > 60))
