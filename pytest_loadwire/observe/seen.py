"""What a watch has seen: of each rank its connection, its messages and who listens there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_loadwire.observe.link import Link
from pytest_loadwire.observe.stream import Stream

if TYPE_CHECKING:
    from pytest_loadwire.observe.asking import Advertised, NoAnswer
    from pytest_loadwire.observe.peer import Peer
    from pytest_loadwire.target import Target


@dataclass
class RankSeen:
    """One load socket.

    Attributes:
        endpoint: What was dialled, as ``tcp://host:port``.
        rank: The rank it is advertised for; None for a socket that was given by itself.
        link: How the connection went.
        stream: What came.
        peer: Who listens there; looked up only where nothing good came, and not for every rank.
    """

    endpoint: str
    rank: int | None = None
    link: Link = field(default_factory=Link)
    stream: Stream = field(default_factory=Stream)
    peer: Peer | None = None

    @property
    def name(self) -> str:
        """The rank as text; the endpoint's own socket has none."""
        return "-" if self.rank is None else str(self.rank)


@dataclass
class TargetSeen:
    """One target.

    Attributes:
        target: What was asked for.
        advertised: What a worker advertises, or how it did not say.
        unresolved: How the name of the host has no address.
        address: The numeric address that was dialled.
        ranks: Its load sockets.
        peer: Who listens on a worker's HTTP port; looked up only where no HTTP came.
    """

    target: Target
    advertised: Advertised | NoAnswer | None = None
    unresolved: NoAnswer | None = None
    address: str = ""
    ranks: list[RankSeen] = field(default_factory=list)
    peer: Peer | None = None

    @property
    def heard(self) -> int:
        """How many of its ranks sent something that a router takes."""
        return sum(rank.stream.good > 0 for rank in self.ranks)


@dataclass
class Seen:
    """A whole watch.

    Attributes:
        targets: What was seen of each.
        seconds: For how long the sockets were watched.
        asked_seconds: For how long they were to be watched.
        ended: Why it ended: ``time``, ``interrupted``, or ``nothing-can-come``.
        lag: Seconds that the watcher itself was late at most; so much later may a message seem.
        began: When it began, as text in UTC.
    """

    targets: list[TargetSeen]
    seconds: float = 0.0
    asked_seconds: float = 0.0
    ended: str = "time"
    lag: float = 0.0
    began: str = ""

    @property
    def messages(self) -> int:
        """How many messages came in all."""
        return sum(rank.stream.count for target in self.targets for rank in target.ranks)

    @property
    def ranks(self) -> list[RankSeen]:
        """Every load socket of every target."""
        return [rank for target in self.targets for rank in target.ranks]
