"""Asks a worker what it advertises, and says in which way it did not answer."""

from __future__ import annotations

import errno
import http.client
import re
import socket
import ssl
import threading
from dataclasses import dataclass
from queue import Empty, Queue
from typing import TYPE_CHECKING, Literal

from pytest_loadwire.discovery import NoPlan, Plan, plan
from pytest_loadwire.router.server_info import TIMEOUT_S, DiscoveryError, fetch_kv_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_loadwire.target import Target

Failure = Literal[
    "name",
    "refused",
    "unreachable",
    "timeout",
    "closed",
    "not-http",
    "tls",
    "status",
    "not-json",
    "other",
]
"""In which way a worker did not answer."""


@dataclass(frozen=True)
class Advertised:
    """A worker's answer.

    Attributes:
        block: The ``kv_events`` value, whatever it is.
        plan: What a router makes of it.
    """

    block: object
    plan: Plan | NoPlan


@dataclass(frozen=True)
class NoAnswer:
    """A worker, or the name of a host, that gave no answer.

    Attributes:
        kind: In which way.
        text: What came instead.
        status: The HTTP status, where there was one.
    """

    kind: Failure
    text: str
    status: int | None = None


def ask(target: Target, timeout: float = TIMEOUT_S) -> Advertised | NoAnswer:
    """Ask a worker for its ``kv_events`` block (rules A1, C1). Takes about ``timeout`` seconds.

    Args:
        target: A worker.
        timeout: Seconds that the answer may take.
    """
    url = target.url or ""
    try:
        block = fetch_kv_events(url, timeout)
    except DiscoveryError as error:
        return classify(error)
    return Advertised(block, plan(url, block))


def resolve(host: str) -> str | NoAnswer:
    """The numeric address of a host, IPv4 first as libzmq dials a name. May take long."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return NoAnswer("name", f"{host}: {error}")
    by_family = {family: str(address[0]) for family, *_, address in reversed(found)}
    return by_family.get(socket.AF_INET) or str(found[0][4][0])


class Question:
    """A question on a thread of its own, since looking up a name knows no time-out.

    Args:
        asks: What to call; its answer is `answer`. The thread is a daemon: an answer that never
            comes holds nobody up.
    """

    def __init__(self, asks: Callable[[], object]) -> None:
        self._answers: Queue[object] = Queue()
        thread = threading.Thread(
            target=lambda: self._answers.put(_safely(asks)), name="loadwire-asking", daemon=True
        )
        thread.start()

    def answer(self, timeout: float) -> object | None:
        """The answer, or None where there is none after so many seconds."""
        try:
            return self._answers.get(timeout=timeout)
        except Empty:
            return None


def _safely(asks: Callable[[], object]) -> object:
    try:
        return asks()
    except Exception as error:  # whatever a peer makes of it is an answer
        return NoAnswer("other", f"{type(error).__name__}: {error}")


def classify(error: DiscoveryError) -> NoAnswer:
    """In which way a question failed, by what is behind the error."""
    text, cause = str(error), error.__cause__
    status = re.search(r"status (\d+), not 200", text)
    kind: Failure = "other"
    if isinstance(cause, socket.gaierror | UnicodeError) and not isinstance(
        cause, UnicodeDecodeError
    ):
        kind = "name"
    elif isinstance(cause, ConnectionRefusedError):
        kind = "refused"
    elif isinstance(cause, TimeoutError):
        kind = "timeout"
    elif isinstance(cause, ssl.SSLError):
        kind = "tls"
    elif isinstance(cause, http.client.RemoteDisconnected | ConnectionError):
        kind = "closed"
    elif isinstance(cause, http.client.HTTPException):
        kind = "not-http"
    elif isinstance(cause, OSError):
        unreachable = cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
        kind = "unreachable" if unreachable else "other"
    elif status:
        kind = "status"
    elif isinstance(cause, ValueError):
        kind = "not-json"
    return NoAnswer(kind, text, int(status[1]) if status else None)
