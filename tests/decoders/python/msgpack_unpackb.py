"""The whole payload is unpacked into a list, and the list into names."""

from __future__ import annotations

from collections.abc import Mapping

import msgpack
from testee import NAMES, serve


def decode(payload: bytes) -> Mapping[str, object]:
    tag, *values = msgpack.unpackb(payload)
    if tag != "LoadStat":
        raise ValueError(f"unexpected tag {tag!r}")
    return dict(zip(NAMES, values, strict=False))


if __name__ == "__main__":
    policies = {
        "TrailingBytes": "reject",
        "OmittedRank": "accept",
        "TagAsBin": "reject",
        "CountAboveI64": "accept",
        "PartialTail": "partial",
        "NilTail": "accept",
    }
    serve("python-msgpack", 2, policies, decode)
