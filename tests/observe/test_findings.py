"""What was seen, judged by rule: several sockets, the advertisement, and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pytest_loadwire.observe.asking import NoAnswer
from pytest_loadwire.observe.findings import Finding, judge, ranks_text
from pytest_loadwire.observe.likely import LIKELY
from pytest_loadwire.observe.link import Link
from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.rules import RULES, Hazard
from pytest_loadwire.target import parse_target
from pytest_loadwire.wire import LoadStatRev1, LoadStatRev2, build_frames

Speak = Callable[..., Stream]
Worker = Callable[..., TargetSeen]
Watched = Callable[..., Seen]
Stat = Callable[..., LoadStatRev2]


def brief(findings: list[Finding]) -> list[tuple[str, str, str, tuple[int, ...]]]:
    """Level, rule, code and ranks of each."""
    return [(one.level, one.rule, one.code, one.ranks) for one in findings]


def test_a_conforming_worker(worker: Worker, watched: Watched) -> None:
    """There is nothing to say about a worker that conforms."""
    assert [] == judge(watched(worker(4)))


def test_a_conforming_socket(speak: Speak, watched: Watched) -> None:
    """Nor about a socket that was given by itself, whatever its rank."""
    one = TargetSeen(parse_target("tcp://h:5558"), ranks=[RankSeen("tcp://h:5558")])
    speak(one.ranks[0].stream, rank=5)
    assert [] == judge(watched(one))


def test_a_silent_rank(worker: Worker, watched: Watched) -> None:
    """A rank that is advertised and silent makes the whole worker unknown (C3)."""
    (finding,) = judge(watched(worker(3, streams=[None, Stream(rank=1)])))
    assert [("error", "C3", "silent-rank", (1,))] == brief([finding])
    assert "the load of the whole worker stays unknown" in finding.text
    assert "tcp://10.0.0.5:5559" == finding.endpoint


def test_silent_ranks_in_two_states(worker: Worker, watched: Watched) -> None:
    """Silent ranks are told apart by how their connections stand."""
    one = worker(4, streams=[None, *(Stream(rank=rank) for rank in (1, 2, 3))])
    one.ranks[1].link.happened(0.0, "closed")
    for rank in (2, 3):
        one.ranks[rank].link.happened(0.0, "connected")
        one.ranks[rank].link.happened(0.0, "ready")
    findings = judge(watched(one))
    assert [("refused", (1,)), ("connected", (2, 3))] == [(f.state, f.ranks) for f in findings]
    assert all(f"({finding.state})" in finding.text for finding in findings)


def test_a_short_watch(worker: Worker, watched: Watched) -> None:
    """Silence for less than a heartbeat is told as such."""
    seen = watched(worker(1, streams=[Stream(rank=0)]))
    seen.seconds = 0.5
    (finding,) = judge(seen)
    assert "watch for longer" in finding.text


def test_oddities_have_their_place(worker: Worker, watched: Watched, speak: Speak) -> None:
    """Trouble of one socket gets target, rank, endpoint, number and annotated bytes."""
    stream = speak(Stream(rank=1), num_tokens=9000, num_total_tokens=9000)
    (finding,) = judge(watched(worker(2, streams=[None, stream])))
    assert [("error", "W2", "tokens-above-capacity", (1,))] == brief([finding])
    assert (8, 0, Hazard.STARVES) == (finding.count, finding.sequence, finding.hazard)
    assert any("3 num_tokens" in line and "integer 9000" in line for line in finding.evidence)
    assert RULES["W2"] == finding.to_json()["asks"]


def test_a_sibling_is_not_annotated_as_a_reading(worker: Worker, watched: Watched) -> None:
    """Another stream's payload is shown as bytes, without the names of our elements."""
    stream = Stream(rank=0)
    stream.receive(0.0, [b"load", bytes(8), b"\x80"])
    finding, _ = judge(watched(worker(1, streams=[stream])))
    assert ["frame 0", "frame 1", "frame 2"] == [line[:7] for line in finding.evidence]


def test_ranks_with_the_same_trouble(worker: Worker, watched: Watched, speak: Speak) -> None:
    """Ranks that show the same are one finding, and their messages are counted together."""
    streams = [speak(Stream(rank=rank), rank=None) for rank in range(3)]
    assert [("warning", "R3", "nil-rank", (0, 1, 2))] == brief(
        judge(watched(worker(4, streams=streams)))
    )
    assert 24 == judge(watched(worker(4, streams=streams)))[0].count


def test_gaps_and_restarts_are_notes(worker: Worker, watched: Watched, stat: Stat) -> None:
    """Gaps are legal (S2), and a restart is one (S3)."""
    stream = Stream(rank=0)
    stream.connected(0.0)
    for at, number in enumerate((5, 9)):
        stream.receive(at, build_frames(number, stat(step=at)))
    stream.connected(1.5)
    stream.receive(2.0, build_frames(0, stat(step=-9)))
    assert [("note", "S2", "gaps", (0,)), ("note", "S3", "restarted", (0,))] == brief(
        judge(watched(worker(1, streams=[stream])))
    )


SILENCES = [
    (2.1, 0.0, []),  # idle and asleep, with every second look
    (2.6, 0.0, [("warning", "P2", "late-heartbeat", (0,))]),
    (2.6, 0.5, []),  # the watcher was late itself
    (5.0, 0.0, [("warning", "P2", "late-heartbeat", (0,))]),
    (5.1, 0.0, [("error", "C2", "stale", (0,))]),
    (5.1, 0.2, [("warning", "P2", "late-heartbeat", (0,))]),
]


@pytest.mark.parametrize(("seconds", "lag", "expected"), SILENCES)
def test_silences(
    worker: Worker, watched: Watched, stat: Stat, seconds: float, lag: float, expected: Any
) -> None:
    """A heartbeat that is clearly late warns (P2), one behind the window is an error (C2)."""
    stream = Stream(rank=0)
    stream.receive(0.0, build_frames(0, stat()))
    stream.receive(seconds, build_frames(1, stat(step=1)))
    seen = watched(worker(1, streams=[stream]))
    seen.lag = lag
    assert expected == brief(judge(seen))


@pytest.mark.parametrize(("count", "level"), [(3, None), (4, "warning")])
def test_early_repeats(
    worker: Worker, watched: Watched, stat: Stat, count: int, level: str | None
) -> None:
    """Unchanged readings one behind the other warn, once they are too many for the way (P2)."""
    stream = Stream(rank=0)
    for n in range(count):
        stream.receive(n * 0.25, build_frames(n, stat()))
    expected = [(level, "P2", "early-repeats", (0,))] if level else []
    assert expected == brief(judge(watched(worker(1, streams=[stream]))))


def test_repeats_on_a_slow_way(worker: Worker, watched: Watched, stat: Stat) -> None:
    """Messages that are now and then late on the way are not the engine's, however many (P2)."""
    stream = Stream(rank=0)
    for n in range(100):
        stream.receive(n + (0.5 if n % 10 == 0 else 0.0), build_frames(n, stat()))
    assert (99, 10) == (stream.repeats, stream.early)
    assert [] == brief(judge(watched(worker(1, streams=[stream]))))


def test_mixed_revisions(
    worker: Worker, watched: Watched, stat: Stat, old: Callable[..., LoadStatRev1]
) -> None:
    """The ranks of one worker are of one revision (W4)."""
    stream = Stream(rank=1)
    for n in range(4):
        stream.receive(n, build_frames(n, old(stat(rank=1, step=n))))
    (finding,) = judge(watched(worker(3, streams=[None, stream])))
    assert [("error", "W4", "mixed-revisions", ())] == brief([finding])
    assert "revision 1 on rank 1; revision 2 on ranks 0, 2" in finding.text


def test_a_restart_into_another_revision(
    worker: Worker, watched: Watched, stat: Stat, old: Callable[..., LoadStatRev1]
) -> None:
    """The last revision of each rank counts, and of ranks that are not back yet none (W4)."""
    streams = [Stream(rank=rank) for rank in range(3)]
    for stream in streams:
        stream.connected(0.0)
        for n in range(3):
            stream.receive(n, build_frames(n, old(stat(rank=stream.rank, step=n))))
    for stream in streams[:2]:
        stream.connected(3.0)
        stream.receive(4.0, build_frames(0, stat(rank=stream.rank)))
    expected = [("note", "S3", "restarted", (0, 1))]
    assert expected == brief(judge(watched(worker(3, streams=streams))))
    # One that came back as it was is at fault.
    streams[2].connected(3.0)
    streams[2].receive(4.0, build_frames(0, old(stat(rank=2))))
    (finding, _) = judge(watched(worker(3, streams=streams)))
    assert ("mixed-revisions", True) == (finding.code, bool(finding.likely and finding.remedy))
    assert "revision 1 on rank 2; revision 2 on ranks 0 and 1: " in finding.text


def test_one_rank_everywhere(worker: Worker, watched: Watched, speak: Speak) -> None:
    """Ranks that all say 0 have one cause, which is told first and once."""
    streams = [speak(Stream(rank=rank), rank=0, first=100 * rank) for rank in range(3)]
    findings = judge(watched(worker(3, streams=streams)))
    assert [("R3", "one-rank-everywhere"), ("R3", "wrong-rank")] == [
        (one.rule, one.code) for one in findings
    ]
    assert "every rank says that it is rank 0" in findings[0].text
    assert ["attn_dp_rank" in findings[0].likely, findings[1].likely] == [True, ""]


@pytest.mark.parametrize("moves", [True, False])
def test_one_stream_everywhere(worker: Worker, watched: Watched, stat: Stat, moves: bool) -> None:
    """Sockets that all carry one stream have that told, in one error; idle ranks may only seem."""
    streams = [Stream(rank=rank) for rank in range(3)]
    for stream in streams:
        stream.connected(0.0)
        for n in range(5):
            stream.receive(n, build_frames(n, stat(rank=0, step=n * moves)))
    findings = judge(watched(worker(3, streams=streams)))
    code = "one-stream-everywhere" if moves else "one-stream-everywhere-idle"
    assert [("error", "R3", code, ()), ("error", "R3", "wrong-rank", (1, 2))] == brief(findings)
    assert "all their sockets carry the same messages, number by number" in findings[0].text
    assert findings[0].likely.startswith("one port is forwarded to all of them")
    assert moves == ("idle" not in findings[0].likely)
    assert "" == findings[1].likely


def test_shifted_ranks(worker: Worker, watched: Watched, speak: Speak) -> None:
    """Ranks that are all off by the same number hint at the base port."""
    streams = [speak(Stream(rank=rank), rank=rank + 1) for rank in range(3)]
    findings = judge(watched(worker(3, streams=streams)))
    assert "its own number +1: load_endpoint_port_base is off" in findings[0].text


def test_an_array_that_is_too_short(worker: Worker, watched: Watched) -> None:
    """An array that no router takes has its likely cause as well, whatever its length."""
    stream = Stream(rank=0)
    for n, payload in enumerate((b"\x92\xa8LoadStat\x01", b"\x93\xa8LoadStat\x01\x01")):
        stream.receive(n, [b"load", n.to_bytes(8, "big"), payload])
    *short, _ = judge(watched(worker(1, streams=[stream])))
    assert ["too-short-2", "too-short-3"] == [finding.code for finding in short]
    assert {"send all elements of the revision, an unset rank as nil"} == {
        finding.remedy for finding in short
    }


def test_a_lost_connection(worker: Worker, watched: Watched) -> None:
    """A connection that was lost and is back is a note (C7)."""
    one = worker(1)
    for event in ("disconnected", "connected", "ready"):
        one.ranks[0].link.happened(3.0, event)  # type: ignore[arg-type]
    assert [("note", "C7", "reconnected", (0,))] == brief(judge(watched(one)))


def test_two_publishers_on_one_port(worker: Worker, watched: Watched, stat: Stat) -> None:
    """Two ranks and two sequences on one socket share a port."""
    stream = Stream(rank=0)
    stream.connected(0.0)
    for n in range(3):
        stream.receive(n, build_frames(n, stat(rank=0, step=n)))
        stream.receive(n + 0.5, build_frames(n + 50, stat(rank=1, step=n)))
    codes = {one.code for one in judge(watched(worker(1, streams=[stream])))}
    assert {"shared-port", "sequence-backwards", "wrong-rank"} <= codes


@pytest.mark.parametrize(("moves", "level"), [(True, "error"), (False, "warning")])
def test_one_stream_on_two_ports(
    worker: Worker, watched: Watched, stat: Stat, moves: bool, level: str
) -> None:
    """Two ports that carry the same numbers and readings carry one stream; still ones may not."""
    streams = [Stream(rank=0), Stream(rank=1), None]
    for stream in streams[:2]:
        assert stream is not None
        stream.connected(0.0)
        for n in range(5):
            stream.receive(n, build_frames(n, stat(rank=1, step=n * moves)))
    doubled, _ = sorted(judge(watched(worker(3, streams=streams))), key=lambda one: one.code)
    assert [(level, "R3", "one-stream-twice", (0, 1))] == brief([doubled])
    assert moves == ("something forwards one port to both" in doubled.text)


@pytest.mark.parametrize("key", sorted(LIKELY))
def test_likely_causes_are_whole(key: tuple[str, str]) -> None:
    """Each likely cause says what it is and what to do."""
    assert all(len(text) > 8 and not text.endswith(".") for text in LIKELY[key])


def test_idle_ranks_without_a_rank_are_no_double(
    worker: Worker, watched: Watched, speak: Speak
) -> None:
    """Idle ranks in step that say no rank are alike, and are no double."""
    streams = [speak(Stream(rank=rank), rank=None) for rank in (0, 1)]
    codes = [one.code for one in judge(watched(worker(2, streams=streams)))]
    assert ["nil-rank"] == codes


def test_colliding_workers(worker: Worker, watched: Watched) -> None:
    """Two workers of one machine that advertise the same port collide."""
    other = worker(2, url="http://10.0.0.5:30001", block={"load_endpoint_port_base": 5559})
    apart = worker(2, url="http://10.0.0.5:30002", block={"load_endpoint_port_base": 5570})
    findings = judge(watched(worker(2), other, apart))
    assert [("error", "R3", "colliding-workers", (1,))] == brief(findings)
    assert "http://10.0.0.5:30001 advertises port 5559 as well" in findings[0].text
    elsewhere = worker(2, url="http://10.0.0.6:30001", block={"load_endpoint_port_base": 5559})
    elsewhere.address = "10.0.0.6"
    assert [] == judge(watched(worker(2), elsewhere))


def test_workers_of_two_revisions(
    worker: Worker, watched: Watched, stat: Stat, old: Callable[..., LoadStatRev1]
) -> None:
    """Workers may differ in revision while engines roll; that is a note (W11)."""
    stream = Stream(rank=0)
    for n in range(4):
        stream.receive(n, build_frames(n, old(stat(step=n))))
    older = worker(1, url="http://10.0.0.6:30000", streams=[stream])
    older.address = "10.0.0.6"
    (finding,) = judge(watched(worker(1), older))
    assert [("note", "W11", "targets-differ", ())] == brief([finding])
    assert "http://10.0.0.5:30000" == finding.target
    text = "it sends revision 2, and http://10.0.0.6:30000 revision 1: fine while engines roll"
    assert text == finding.text


def test_a_trimmed_array_is_no_other_revision(worker: Worker, watched: Watched, stat: Stat) -> None:
    """A worker whose array is trimmed is wrong (W4), and not said to be of an older revision."""
    stream = Stream(rank=0)
    for n in range(4):
        topic, sequence, payload = build_frames(n, stat(step=n))
        short = msgspec.msgpack.encode(msgspec.msgpack.decode(payload)[:9])
        stream.receive(n, [topic, sequence, short])
    trimmed = worker(1, url="http://10.0.0.6:30000", streams=[stream])
    trimmed.address = "10.0.0.6"
    findings = judge(watched(worker(1), trimmed))
    assert [("W4", "http://10.0.0.6:30000")] == [(one.rule, one.target) for one in findings]


@pytest.mark.parametrize(("kind", "unanswered"), [("refused", True), ("not-json", False)])
def test_no_answer_at_all(watched: Watched, kind: Any, unanswered: bool) -> None:
    """Where nothing came it is said so, and nothing is asked of an answer that there is not."""
    one = TargetSeen(parse_target("http://h:30000"), NoAnswer(kind, "http://h:30000/x: no"))
    (finding,) = judge(watched(one))
    text = "/x: no; the route does not answer at all" if unanswered else "/x: no"
    assert (text, unanswered) == (finding.text, finding.is_unanswered)


@pytest.mark.parametrize(("status", "rule"), [(None, "A1"), (500, "A4")])
def test_no_answer(watched: Watched, status: int | None, rule: str) -> None:
    """A worker that does not answer is an error: the route always does (A4)."""
    one = TargetSeen(parse_target("http://h:30000"), NoAnswer("status", "status 500", status))
    assert [("error", rule, "no-answer-status", ())] == brief(judge(watched(one)))


def test_an_unknown_name(watched: Watched) -> None:
    """A name without an address is an error (C1)."""
    one = TargetSeen(parse_target("tcp://h:1"), unresolved=NoAnswer("name", "h: unknown"))
    assert [("error", "C1", "unresolved", ())] == brief(judge(watched(one)))


def test_order(worker: Worker, watched: Watched, speak: Speak) -> None:
    """The worst comes first, and then the order of the rules."""
    streams = [
        speak(Stream(rank=0), rank=None, num_running_reqs=65),
        speak(Stream(rank=1), num_tokens=9000, num_total_tokens=9000),
    ]
    findings = judge(watched(worker(3, streams=[*streams, Stream(rank=2)])))
    assert ["W2", "W3", "C3", "R3"] == [one.rule for one in findings]


RANKS = [
    ([3], "rank 3"),
    ([-1], "the socket"),
    ([1, 0], "ranks 0 and 1"),
    ([0, 1, 2, 2], "ranks 0 to 2"),
    ([0, 2, 5], "ranks 0, 2, 5"),
    ([*range(0, 20, 2)], "ranks 0, 2, 4, 6 and 6 more"),
]


@pytest.mark.parametrize(("ranks", "text"), RANKS)
def test_ranks_text(ranks: list[int], text: str) -> None:
    """Ranks in words stay short, however many they are."""
    assert text == ranks_text(ranks)


LINKS: list[tuple[list[str], str, bool]] = [
    ([], "no connection", False),
    (["connecting", "closed"], "refused", True),
    (["connected"], "no handshake", False),
    (["connected", "disconnected"], "no handshake", True),
    (["connected", "handshake-failed", "disconnected"], "no handshake", False),
    (["connected", "ready"], "connected", False),
    (["connected", "ready", "disconnected"], "lost", False),
    (["connected", "ready", "disconnected", "closed"], "lost", False),
    (["closed", "connected", "ready"], "connected", False),
]


@pytest.mark.parametrize(("events", "state", "hopeless"), LINKS)
def test_link(events: list[str], state: str, hopeless: bool) -> None:
    """A connection's state follows from its events; nothing can come only where that is certain."""
    link = Link()
    for event in events:
        link.happened(0.0, event)  # type: ignore[arg-type]
    assert (state, hopeless) == (link.state, link.is_hopeless(1.0))
    assert not Link(refused=1, refused_at=0.5).is_hopeless(1.0)
