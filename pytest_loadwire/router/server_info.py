"""Asks a worker what it advertises: ``GET /server_info``, by the standard library, with limits."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.errors import LoadwireError

LARGEST_BODY = 4 * 2**20
"""Bytes of an answer; SGLang's has every argument of the server in it, some ten kilobytes."""

TIMEOUT_S = 2.0
"""Seconds that one question may take."""


class DiscoveryError(LoadwireError):
    """A worker did not say what it advertises. The text says what came instead."""


def fetch_kv_events(url: str, timeout: float = TIMEOUT_S) -> object:
    """The ``kv_events`` value of a worker's ``/server_info``, or None where it has none (rule A1).

    Proxies of the environment are not used and redirects not followed: the answer has to come from
    the host that is dialled afterwards (rule C1).

    Args:
        url: The worker's URL.
        timeout: Seconds for each of connecting and every read, and for the body as a whole.

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
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/server_info")
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ValueError(f"status {response.status}, not 200")
        body = b""
        while chunk := response.read1(65_536):
            body += chunk
            if len(body) > LARGEST_BODY:
                raise ValueError(f"more than {LARGEST_BODY} bytes")
            if not deadline.remaining:
                raise TimeoutError(f"not finished after {timeout:g} s")
    finally:
        connection.close()
    try:
        info = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(info, dict):
        raise ValueError(f"a JSON object is needed, not {type(info).__name__}")
    return info
