"""Listens to every load socket of some targets for a while, and never longer.

One thread and one context for all of them. As in the reference subscriber the sockets' descriptors
are waited on, so that a message costs the same beside 512 ranks; a monitor for each tells how its
connection goes. The subscription is to everything, since a topic that is nearly right is what a
router does not hear.
"""

from __future__ import annotations

import selectors
import time
from collections import Counter
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from pytest_loadwire.discovery import Plan
from pytest_loadwire.endpoints import TcpAddress, is_ipv6_literal
from pytest_loadwire.engine.load_ports import allow_open_files
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.observe.asking import Advertised, NoAnswer, Question, ask, resolve
from pytest_loadwire.observe.peer import CONNECT_S, PATIENCE_S, Peer, identify
from pytest_loadwire.observe.seen import RankSeen, Seen, TargetSeen
from pytest_loadwire.observe.stream import Stream
from pytest_loadwire.router.server_info import TIMEOUT_S
from pytest_loadwire.router.subscriber import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from pytest_loadwire.observe.link import LinkEvent
    from pytest_loadwire.target import Target

SECONDS = 6.0
"""How long to watch by default: longer than the window in which a router calls a reading fresh
(rule C2), so that a rank that stays silent for all of it is one that no router knows."""

LARGEST_FRAME = 2**18
"""Bytes of one frame; libzmq hangs up on a peer that announces more. A load message has less than a
hundred, and a batch of KV events rarely more than some ten thousand."""

HIGH_WATER_MARK = 64
"""Messages of one rank that wait to be read. More than a router's 8, so that a loss is the
engine's, and bounded, so that a flood is dropped and not kept."""

IDENTIFIED = 4
"""So many silent ranks of one target are asked who they are; the others are like them."""

# Without a word of HTTP, it is worth a look what the port speaks.
_NO_HTTP = ("timeout", "closed", "not-http", "other")
_BATCH = 64  # messages of one rank in a row, before the others and the clock have a turn
_LOOK_S = 0.1  # between two looks at whether to stop
_RECONNECT_MS = 100

_EVENTS: dict[int, LinkEvent] = {
    zmq.EVENT_CONNECT_DELAYED: "connecting",
    zmq.EVENT_CONNECTED: "connected",
    zmq.EVENT_CLOSED: "closed",
    zmq.EVENT_CONNECT_RETRIED: "retried",
    zmq.EVENT_HANDSHAKE_SUCCEEDED: "ready",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshake-failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshake-failed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "handshake-failed",
    zmq.EVENT_DISCONNECTED: "disconnected",
}


def watch(
    targets: Sequence[Target],
    *,
    seconds: float = SECONDS,
    revision: int | None = None,
    timeout: float = TIMEOUT_S,
    patience: float = PATIENCE_S,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[Seen], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Seen:
    """Ask every target what it advertises, and listen to every rank.

    Takes ``seconds`` behind the answers, and less where nothing can come any more: nothing is
    advertised, or every port is closed. Who listens on silent ports is looked up at the end.

    Args:
        targets: What to watch.
        seconds: How long to listen.
        revision: The revision that engines are held to; None for the one that each seems to send.
        timeout: Seconds that a name and an answer of ``/server_info`` may take, each.
        patience: Seconds that a silent peer has for its first words, at the end.
        stop: Whether to stop early; looked at ten times a second.
        progress: Called as often, with what was seen so far.
        clock: A monotonic clock in seconds.

    Raises:
        LoadwireError: The system does not allow so many sockets.
    """
    seen = Seen([TargetSeen(target) for target in targets], asked_seconds=seconds)
    seen.began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    progress(seen)
    _ask_all(seen, timeout=timeout, stop=stop)
    for one in seen.targets:
        one.ranks = _planned(one, revision)
    if any(one.ranks for one in seen.targets) and not stop():
        with _Tap(seen, clock) as tap:
            tap.run(seconds, stop, progress)
    elif not stop():
        seen.ended = "nothing-can-come"
    if stop():
        seen.ended = "interrupted"
        patience = min(patience, _LOOK_S)
    _identify_all(seen, patience)
    return seen


def _ask_all(seen: Seen, *, timeout: float, stop: Callable[[], bool]) -> None:
    """Names first, then what is advertised: all targets at a time, on threads of their own."""
    hosts = [Question(partial(resolve, one.target.host)) for one in seen.targets]
    late = NoAnswer("name", f"no answer from the name service in {timeout:g} s")
    for one, found in zip(seen.targets, _answers(hosts, timeout, stop), strict=True):
        if isinstance(found, str):
            one.address = found
        elif isinstance(found, NoAnswer) or not stop():
            one.unresolved = found if isinstance(found, NoAnswer) else late
    workers = [one for one in seen.targets if one.target.url and one.address]
    asked = [Question(partial(ask, one.target, timeout)) for one in workers]
    # A question ends itself; a little more than its own time-out makes the better message win.
    for one, answer in zip(workers, _answers(asked, timeout + 1, stop), strict=True):
        slow = NoAnswer("timeout", f"{one.target.url}/server_info: no answer in {timeout:g} s")
        if isinstance(answer, Advertised | NoAnswer):
            one.advertised = answer
        elif not stop():
            one.advertised = slow


def _answers(
    questions: Sequence[Question], timeout: float, stop: Callable[[], bool]
) -> list[object | None]:
    end = time.monotonic() + timeout
    answers: list[object | None] = []
    for question in questions:
        answer = question.answer(0.0001)
        while answer is None and not stop() and (left := end - time.monotonic()) > 0:
            answer = question.answer(min(left, _LOOK_S))
        answers.append(answer)
    return answers


def _planned(one: TargetSeen, revision: int | None) -> list[RankSeen]:
    """The sockets to open for a target."""
    if not one.address:
        return []
    if one.target.url is None:
        return [RankSeen(one.target.endpoint, stream=Stream(revision))]
    if not isinstance(one.advertised, Advertised) or not isinstance(one.advertised.plan, Plan):
        return []
    return [
        RankSeen(found.endpoint, found.rank, stream=Stream(revision, found.rank))
        for found in one.advertised.plan.endpoints[:MOST_RANKS]
    ]


def _identify_all(seen: Seen, patience: float) -> None:
    """Look up who listens on silent ports, all at a time; who takes too long stays unknown."""
    asked: list[tuple[TargetSeen | RankSeen, Question]] = []
    for one in seen.targets:
        if isinstance(one.advertised, NoAnswer) and one.advertised.kind in _NO_HTTP:
            asks = partial(identify, one.address, one.target.port, patience)
            asked.append((one, Question(asks)))
        looked: Counter[str] = Counter()
        for rank in one.ranks:
            looked[rank.link.state] += not rank.stream.count
            # Good messages say enough, and bad ones what they are.
            if rank.stream.count or looked[rank.link.state] > IDENTIFIED:
                continue
            port = TcpAddress.parse(rank.endpoint).port
            asked.append((rank, Question(partial(identify, one.address, port, patience))))
    longest = 2 * (CONNECT_S + patience) if seen.ended != "interrupted" else 2 * _LOOK_S
    answers = _answers([question for _, question in asked], longest, lambda: False)
    for (place, _), answer in zip(asked, answers, strict=True):
        place.peer = answer if isinstance(answer, Peer) else None


class _Source:
    """The socket of one rank, and the monitor of its connection."""

    def __init__(self, rank: RankSeen, sub: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
        self.rank = rank
        self.sub = sub
        self.monitor = monitor


class _Tap:
    """The sockets of a watch, opened, read and closed."""

    def __init__(self, seen: Seen, clock: Callable[[], float]) -> None:
        self._seen = seen
        self._clock = clock
        self._ready: set[_Source] = set()
        self._selector = selectors.DefaultSelector()
        # A rank takes four descriptors: its connection, its socket, and a pair for the monitor.
        allow_open_files(len(seen.ranks))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # libzmq allows 1023 sockets unless told otherwise, before the first.
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))
        self._sources: list[_Source] = []

    def __enter__(self) -> Self:
        try:
            for one in self._seen.targets:
                for rank in one.ranks:
                    self._sources.append(self._open(rank, one.address))
        except zmq.ZMQError as error:
            self.__exit__()
            raise LoadwireError(
                f"cannot open {len(self._seen.ranks)} sockets: {error} (a rank takes four file "
                "descriptors; ulimit -n allows more)"
            ) from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._context.destroy(linger=0)

    def _open(self, rank: RankSeen, address: str) -> _Source:
        sub = self._context.socket(zmq.SUB)
        sub.setsockopt(zmq.LINGER, 0)
        sub.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
        sub.setsockopt(zmq.MAXMSGSIZE, LARGEST_FRAME)
        sub.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        sub.setsockopt(zmq.IPV6, int(is_ipv6_literal(address)))
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        monitor = sub.get_monitor_socket(sum(_EVENTS))
        monitor.setsockopt(zmq.LINGER, 0)
        source = _Source(rank, sub, monitor)
        for socket in (sub, monitor):
            self._selector.register(int(socket.getsockopt(zmq.FD)), selectors.EVENT_READ, source)
        # The address and not the name: libzmq looks a name up where it cannot be hurried.
        sub.connect(str(TcpAddress(address, TcpAddress.parse(rank.endpoint).port)))
        self._ready.add(source)
        return source

    def run(
        self, seconds: float, stop: Callable[[], bool], progress: Callable[[Seen], None]
    ) -> None:
        """Listen for so many seconds, or until nothing can come any more."""
        clock, seen = self._clock, self._seen
        began = now = clock()
        end, looked = began + seconds, began - _LOOK_S
        while True:
            if now - looked >= _LOOK_S or now >= end:
                looked = now
                seen.seconds = now - began
                progress(seen)
                if now >= end or stop():
                    break
                if all(source.rank.link.is_hopeless(now) for source in self._sources):
                    seen.ended = "nothing-can-come"
                    break
            until = min(looked + _LOOK_S, end)
            wait = 0.0 if self._ready else max(0.0, until - now)
            events = self._selector.select(wait)
            self._ready.update(key.data for key, _ in events)
            woken = clock()
            # What this process slept through may have come earlier than it seems.
            seen.lag = max(seen.lag, woken - now - wait)
            for source in tuple(self._ready):
                self._read(source, until=until)
                if clock() >= end:
                    break
            now = clock()
            seen.lag = max(seen.lag, now - woken)
        for source in self._sources:
            source.rank.stream.ended(now)

    def _read(self, source: _Source, *, until: float) -> None:
        """Take what has come to one socket: one message at least, and no more behind a time."""
        self._read_monitor(source)
        receive = source.sub.recv_multipart
        for _ in range(_BATCH):
            try:
                frames = receive(zmq.NOBLOCK)
            except zmq.Again:
                # Only behind this is the descriptor quiet, and speaks up for the next message.
                self._ready.discard(source)
                return
            # What happened to the connection before this message came is known now, and tells a
            # restart from a sequence that runs backwards.
            self._read_monitor(source)
            at = self._clock()
            source.rank.stream.receive(at, frames)
            # A message can be made so that judging it takes long.
            if at >= until:
                return

    def _read_monitor(self, source: _Source) -> None:
        while True:
            try:
                event = parse_monitor_message(source.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            kind = _EVENTS.get(int(event["event"]))
            if kind is not None:
                self._happened(source.rank, kind)

    def _happened(self, rank: RankSeen, kind: LinkEvent) -> None:
        at = self._clock()
        rank.link.happened(at, kind)
        if kind == "ready":
            rank.stream.connected(at)
