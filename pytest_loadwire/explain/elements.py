"""What each element of a load message means, and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pytest_loadwire.wire import field_names


class Meaning(NamedTuple):
    """What an element means.

    Attributes:
        unit: The unit of its number, or nothing.
        text: What it counts, in half a sentence.
    """

    unit: str
    text: str


NAMES = ("tag", *field_names())
"""The elements of the newest revision by index; 0 is the tag."""

MEANINGS: Mapping[str, Meaning] = MappingProxyType(
    {
        "topic": Meaning("", "the same in every load message"),
        "sequence": Meaning("", "counts the engine's messages, from 0"),
        "tag": Meaning("", "says that this is a load reading"),
        "num_running_reqs": Meaning("requests", "in the running batch"),
        "num_waiting_reqs": Meaning("requests", "that wait to be scheduled"),
        "num_tokens": Meaning("tokens", "of KV cache in use"),
        "max_total_num_tokens": Meaning("tokens", "of KV-cache capacity; 0 is unknown"),
        "attn_dp_rank": Meaning("rank", "the publisher's slot, or nil"),
        "num_waiting_uncached_tokens": Meaning("tokens", "of waiting prompts, without cached ones"),
        "num_total_tokens": Meaning("tokens", "of KV cache in use and of queued requests"),
        "max_running_requests": Meaning("requests", "may run at once, the scheduler's limit"),
        "total_prefill_uncached_tokens": Meaning("tokens", "prefilled since the start, not cached"),
        "total_prefill_busy_us": Meaning("microseconds", "of prefill steps since the start"),
    }
)
"""The meaning of every frame and element by name."""
