"""A msgspec struct with the engine's own defaults, so that messages of older engines decode."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from testee import serve


class LoadStat(msgspec.Struct, array_like=True, tag=True):
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_tokens: int = 0
    max_total_num_tokens: int = 0
    attn_dp_rank: int | None = None
    num_waiting_uncached_tokens: int = 0
    num_total_tokens: int = 0
    max_running_requests: int = 0
    total_prefill_uncached_tokens: int = 0
    total_prefill_busy_us: int = 0


decoder = msgspec.msgpack.Decoder(LoadStat)


def decode(payload: bytes) -> Mapping[str, object]:
    return msgspec.structs.asdict(decoder.decode(payload))


if __name__ == "__main__":
    policies = {
        "TrailingBytes": "reject",
        "OmittedRank": "accept",
        "TagAsBin": "reject",
        "CountAboveI64": "accept",
        "PartialTail": "partial",
        "NilTail": "reject",
    }
    serve("python-msgspec-typed", 2, policies, decode)
