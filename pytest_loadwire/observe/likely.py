"""What is likely behind findings about ranks and revisions: the cause, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Likely(NamedTuple):
    """What is behind a finding.

    Attributes:
        cause: The likeliest cause.
        remedy: What to do.
    """

    cause: str
    remedy: str


LIKELY: Mapping[tuple[str, str], Likely] = {
    ("R3", "one-stream-everywhere"): Likely(
        "one port is forwarded to all of them, by a port mapping, a service or a proxy",
        "forward port base + r to the publisher of rank r, one to one, and see ss -ltnp there",
    ),
    ("R3", "one-stream-everywhere-idle"): Likely(
        "one port is forwarded to all of them; or the ranks are idle, count in step, and say 0",
        "send a request while this command watches: if the streams then differ, let the publisher "
        "say its own rank (R2); else forward the ports one to one",
    ),
    ("R3", "one-stream-twice"): Likely(
        "one port is forwarded to both, by a port mapping, a service or a proxy",
        "forward port base + r to the publisher of rank r, one to one, and see ss -ltnp there",
    ),
    ("R3", "one-rank-everywhere"): Likely(
        "the publisher says attn_dp_rank without DP attention, where its slot is dp_rank",
        "let the publisher say the rank of its slot (R2); a router goes by the socket meanwhile",
    ),
    ("R3", "shifted-ranks"): Likely(
        "load_endpoint_port_base was worked out twice and differently (rule E7)",
        "let the advertisement ask the resolver that the publisher asks",
    ),
    ("R3", "wrong-rank"): Likely(
        "another rank, or another worker on the machine, has bound this port",
        "on the engine's machine, find the process of each load port: ss -ltnp",
    ),
    ("R3", "nil-rank"): Likely(
        "the publisher leaves the rank unset, as without DP attention",
        "let the publisher say the rank of its slot (R2)",
    ),
    ("R3", "shared-port"): Likely(
        "several publishers are behind one address, as behind a load balancer",
        "give each rank a port of its own, and dial the engine and no balancer",
    ),
    ("R3", "colliding-workers"): Likely(
        "the workers were started with the same load range",
        "move one of them: --load-publish-endpoint tcp://*:PORT; see loadwire plan",
    ),
    ("W4", "mixed-revisions"): Likely(
        "some of the ports are those of another worker, or the ranks run different versions",
        "on the engine's machine, find the process of each load port: ss -ltnp",
    ),
    ("W4", "revision-changed"): Likely(
        "two publishers share the port, or an encoder leaves elements out now and then",
        "on the engine's machine, find who has the port, ss -ltnp; send every element every time",
    ),
    ("W4", "too-short"): Likely(
        "the encoder leaves out elements at their default, or the engine is between two revisions",
        "send all elements of the revision, an unset rank as nil",
    ),
    ("W4", "extra-elements"): Likely(
        "the engine is of a newer revision, or its encoder appends something of its own",
        "hold the encoder to the vectors: WireContract in the engine's own tests",
    ),
}
"""By rule and code of a finding, for those that need more than their text."""
