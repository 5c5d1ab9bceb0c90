"""The adapter: a decode function on one side, the testee protocol on the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

NAMES = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_tokens",
    "max_total_num_tokens",
    "attn_dp_rank",
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "max_running_requests",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
)


def say(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - it speaks on stdout


def serve(
    implementation: str,
    revision: int,
    policies: Mapping[str, str],
    decode: Callable[[bytes], Mapping[str, object]],
) -> None:
    """Greet, then answer each case by what `decode` makes of it."""
    say(
        {
            "loadwire": 1,
            "implementation": implementation,
            "version": "0.1.0",
            "revision": revision,
            "policies": policies,
            "kinds": ["payload"],
        }
    )
    for line in sys.stdin:
        case = json.loads(line)
        try:
            value = decode(bytes.fromhex(case["hex"]))
        except Exception as refusal:  # a router logs it and reads on
            say({"id": case["id"], "reject": {"text": f"{type(refusal).__name__}: {refusal}"}})
        else:
            spelled = {name: None if v is None else str(v) for name, v in value.items()}
            say({"id": case["id"], "accept": {"value": spelled}})
