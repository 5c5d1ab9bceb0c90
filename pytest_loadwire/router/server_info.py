"""Asks a worker what it advertises: ``GET /server_info``, by the standard library, with limits."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from urllib.parse import urlsplit

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.errors import LoadwireError

LARGEST_BODY = 4 * 2**20
"""Bytes of an answer; SGLang's has every argument of the server in it, some ten kilobytes."""

TIMEOUT_S = 2.0
"""Seconds that one question may take."""


HANG_UP = "loadwire-hang-up"
"""The name of the thread that ends a question in time; there is one while a question is open."""


class DiscoveryError(LoadwireError):
    """A worker did not say what it advertises. The text says what came instead."""


def fetch_kv_events(url: str, timeout: float = TIMEOUT_S) -> object:
    """The ``kv_events`` value of a worker's ``/server_info``, or None where it has none (rule A1).

    Proxies of the environment are not used and redirects not followed: the answer has to come from
    the host that is dialled afterwards (rule C1).

    Args:
        url: The worker's URL.
        timeout: Seconds for connecting, and for the answer as a whole.

    Raises:
        DiscoveryError: No answer in time, another status than 200, or no JSON object.
    """
    try:
        return _fetch(url, timeout).get("kv_events")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DiscoveryError(f"{url}/server_info: {type(error).__name__}: {error}") from error


def _fetch(url: str, timeout: float) -> dict[str, object]:
    parts = urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    if parts.scheme not in kinds or parts.hostname is None:
        raise ValueError("a worker URL looks like http://10.0.0.5:30000")
    deadline = Deadline(timeout)
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout)
    timer = threading.Timer(timeout, _hang_up, [connection])
    timer.daemon, timer.name = True, HANG_UP
    try:
        timer.start()
        body = _ask(connection, f"{parts.path.rstrip('/')}/server_info")
    except http.client.HTTPException:
        if deadline.remaining:
            raise
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        connection.close()
    if not deadline.remaining:  # whatever came by then was cut off
        raise TimeoutError(f"not finished after {timeout:g} s")
    try:
        info = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(info, dict):
        raise ValueError(f"a JSON object is needed, not {type(info).__name__}")
    return info


def _ask(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    response = connection.getresponse()
    if response.status != http.client.OK:
        raise ValueError(f"status {response.status}, not 200")
    body = b""
    while chunk := response.read1(65_536):
        body += chunk
        if len(body) > LARGEST_BODY:
            raise ValueError(f"more than {LARGEST_BODY} bytes")
    return body


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End a conversation that a peer draws out byte by byte, which no timeout of a read ends."""
    with contextlib.suppress(OSError, AttributeError):  # closed, or not connected
        connection.sock.shutdown(socket.SHUT_RDWR)
