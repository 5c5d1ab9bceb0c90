"""What stands in for the socket of an engine under test: nothing real, or a real one elsewhere."""

from __future__ import annotations

from typing import Literal, get_args

SocketMode = Literal["stub", "live"]
"""``stub`` opens no socket at all; ``live`` opens a real one on an ephemeral loopback port."""

SOCKET_MODES: tuple[str, ...] = get_args(SocketMode)
"""Both of them, in the order in which they are named to a user."""
