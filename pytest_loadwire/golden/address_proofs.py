"""No address vector proves itself: this package's own parsers, resolver and plan answer each.

The vectors were spelled by hand from the measured tables, so that an agreement says something. The
second witness is SGLang, in `tests/interop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_loadwire import discovery, endpoints
from pytest_loadwire.address_judge import (
    Dialled,
    Read,
    Resolution,
    choose,
    judge_block,
    judge_plan,
    judge_range,
    judge_start,
    judge_value,
)
from pytest_loadwire.judge import Finding, Refused
from pytest_loadwire.rules import ADDRESS_ANSWERS, AddressPolicy
from pytest_loadwire.vectors.addresses import (
    Address,
    BlockVector,
    Choice,
    GateVector,
    Parsed,
    ParseVector,
    PlanVector,
    ResolveVector,
    SlotVector,
    ValidateVector,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.vectors.addresses import AddressVector

STRICT = {AddressPolicy.LOOSE_ENDPOINT: "strict", AddressPolicy.URL_CREDENTIALS: "refuse"}
"""What this package answers where implementations differ."""


def unproven_addresses(vectors: Sequence[AddressVector]) -> Iterator[str]:
    """Everything that this package's own answers hold against the vectors, one sentence each."""
    seen: set[str] = set()
    for vector in vectors:
        if vector.id in seen:
            yield f"{vector.rule} {vector.id}: the id stands twice"
        seen.add(vector.id)
        expect = vector.expect
        if isinstance(expect, Choice):
            answers = list(expect.outcomes)
            if answers != list(ADDRESS_ANSWERS[expect.policy]):
                yield f"{vector.rule} {vector.id}: has the answers {answers} to {expect.policy}"
                continue
            if len({repr(outcome) for outcome in expect.outcomes.values()}) == 1:
                yield f"{vector.rule} {vector.id}: the answers to {expect.policy} do not differ"
        finding = judge_address(vector)
        if finding is not None:
            yield f"{vector.id}: {finding}"


def judge_address(vector: AddressVector) -> Finding | None:
    """What this package answers to one vector, against what is owed."""
    owed = choose(vector.expect, rule=vector.rule, policies=STRICT)
    if isinstance(owed, Finding):
        return owed
    about: Any = {"rule": vector.rule, "asked": vector.id}
    if isinstance(vector, ParseVector):
        return judge_value(owed, Read(_parsed(vector.endpoint)), **about)
    if isinstance(vector, ResolveVector):
        return judge_range(owed, _resolved(vector), **about)
    if isinstance(vector, SlotVector):
        ranks = (vector.attn_dp_size, vector.attn_dp_rank, vector.dp_rank)
        return judge_value(owed, Read(endpoints.select_kv_publisher_dp_rank(*ranks)), **about)
    if isinstance(vector, GateVector):
        publishes = endpoints.is_kv_publisher_rank(
            vector.config,
            pp_rank=vector.pp_rank,
            attn_tp_rank=vector.attn_tp_rank,
            attn_cp_rank=vector.attn_cp_rank,
        )
        return judge_value(owed, Read(publishes), **about)
    if isinstance(vector, BlockVector):
        block = discovery.kv_events_block(
            vector.config,
            page_size=vector.page_size,
            dp_size=vector.dp_size,
            load_publish_endpoint=vector.load_publish_endpoint,
        )
        return judge_block(owed, block, **about)
    if isinstance(vector, ValidateVector):
        return judge_start(owed, _started(vector), **about)
    return judge_plan(owed, _planned(vector), **about)


def _parsed(endpoint: str | None) -> Parsed:
    advertisable = endpoints.parse_advertisable_tcp(endpoint)
    bindable = endpoints.parse_bindable_tcp(endpoint)
    return Parsed(
        endpoints.parse_tcp_port(endpoint),
        None if advertisable is None else Address(*advertisable),
        None if bindable is None else Address(*bindable),
        ipv6=endpoint is not None and endpoints.is_zmq_endpoint_ipv6(endpoint),
    )


def _resolved(vector: ResolveVector) -> Resolution:
    outcome = endpoints.resolve_load_pub_range(
        kv_endpoint=vector.kv_endpoint,
        replay_endpoint=vector.replay_endpoint,
        dp_size=vector.dp_size,
        load_publish_endpoint=vector.load_publish_endpoint,
    )
    if isinstance(outcome, endpoints.LoadRange):
        return Resolution(outcome.host, outcome.base)
    return Resolution(code=str(outcome.reason), text=outcome.text)


def _started(vector: ValidateVector) -> Read | Refused:
    try:
        discovery.check_load_publish_args(
            kv_events_config=vector.config,
            dp_size=vector.dp_size,
            load_publish_endpoint=vector.load_publish_endpoint,
        )
    except discovery.LoadPublishArgsError as refusal:
        return Refused(str(refusal.reason), text=str(refusal))
    return Read(None)


def _planned(vector: PlanVector) -> Dialled | Refused:
    outcome = discovery.plan(vector.worker_url, vector.block)
    if isinstance(outcome, discovery.NoPlan):
        return Refused(str(outcome.reason), text=outcome.text)
    return Dialled([(e.rank, e.endpoint) for e in outcome.endpoints])
