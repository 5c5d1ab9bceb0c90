"""The load contract, held to this engine by pytest-loadwire."""

from unittest import mock

from engine import load, ports, server
from engine.args import EngineArgs, Ranks
from engine.scheduler import Scheduler

from pytest_loadwire import (
    DiscoveryContract,
    EndpointContract,
    PublisherContract,
    SchedulerContract,
    WireContract,
)

# What this engine calls the fields of the contract.
NAMES = {
    "num_running_reqs": "running",
    "num_waiting_reqs": "queued",
    "num_tokens": "used_tokens",
    "max_total_num_tokens": "capacity",
    "attn_dp_rank": "rank",
    "num_waiting_uncached_tokens": "uncached_tokens",
    "num_total_tokens": "all_tokens",
    "max_running_requests": "max_running",
    "total_prefill_uncached_tokens": "prefilled_tokens",
    "total_prefill_busy_us": "prefill_us",
}


def arguments(*, dp_size=1, publish_interval=5, **flags):
    return EngineArgs(replicas=dp_size, load_every=publish_interval, **flags)


def binds(*, slot, **flags):
    """What the scheduler in a slot binds."""
    with mock.patch("engine.load.open_socket") as opened:
        load.LoadPublisher(arguments(**flags), Ranks(dp=slot))
    return opened.call_args.args[0] if opened.called else None


class TestWire(WireContract):
    test_sends_three_frames_in_sequence = None  # TestPublisher looks at the frames

    def make_stat(self, values):
        return load.LoadStat(**{NAMES[name]: value for name, value in values.items()})

    def encode(self, stat):
        return load.encode(stat)


class TestPublisher(PublisherContract):
    open_socket = "engine.load.open_socket"
    clock = "engine.load"
    logger = "engine.load"
    snapshot = load.Load
    fields = NAMES

    def make_publisher(self, *, topology, **flags):
        ranks = Ranks(
            dp=topology.dp_rank,
            attn_dp_size=topology.attn_dp_size,
            attn_dp=topology.attn_dp_rank,
            attn_tp=topology.attn_tp_rank,
            attn_cp=topology.attn_cp_rank,
            pp=topology.pp_rank,
        )
        return load.LoadPublisher(arguments(dp_size=topology.dp_size, **flags), ranks)

    def publish(self, publisher, provider, *, force, snapshot):
        publisher.tell(provider, must=force, load=snapshot)

    def close(self, publisher):
        publisher.shut()


class TestEndpoints(EndpointContract):
    policies = {"LooseEndpoint": "strict"}

    def resolve(self, *, kv_endpoint, replay_endpoint, dp_size, load_publish_endpoint):
        return ports.plan_load_ports(kv_endpoint, replay_endpoint, dp_size, load_publish_endpoint)

    def resolution(self, resolved):
        if isinstance(resolved, ports.NoPorts):
            return super().resolution(resolved.why)
        return super().resolution(resolved)

    def parse_port(self, endpoint):
        address = ports.parse_tcp(endpoint)
        return address and address.port

    def advertisable(self, endpoint):
        address = ports.parse_tcp(endpoint)
        return address and (address.shown, address.port)

    def bindable(self, endpoint):
        address = ports.parse_tcp(endpoint)
        return address if address and ports.is_wildcard(address) else None

    def sets_ipv6(self, endpoint):
        return ports.is_ipv6(endpoint)

    def slot(self, *, attn_dp_size, attn_dp_rank, dp_rank):
        return Ranks(dp=dp_rank, attn_dp_size=attn_dp_size, attn_dp=attn_dp_rank).slot

    def publishes(self, *, kv_events_config, pp_rank, attn_tp_rank, attn_cp_rank):
        leads = Ranks(pp=pp_rank, attn_tp=attn_tp_rank, attn_cp=attn_cp_rank).leads
        return bool(kv_events_config) and leads

    def binds(self, **flags):
        return binds(**flags)


class TestDiscovery(DiscoveryContract):
    policies = {"LooseEndpoint": "strict"}
    test_plans = None  # an engine dials nobody

    def describe(self, **flags):
        return server.kv_events_block(arguments(**flags))

    def server_info(self, **flags):
        return server.server_info(arguments(**flags))

    def check_args(self, **flags):
        server.check_args(arguments(**flags))

    def binds(self, **flags):
        return binds(**flags)


class OldHook(Scheduler):
    """A scheduler whose hook returns nothing, as plugins of before the load socket have it."""

    def post(self, must):
        super().post(must)


class TestScheduler(SchedulerContract):
    open_socket = TestPublisher.open_socket
    clock = ("engine.load", "engine.scheduler")
    snapshot = load.Load
    fields = NAMES

    def make_scheduler(
        self, *, get_loads, write_snapshot, publish_interval, kind=Scheduler, **flags
    ):
        args = arguments(publish_interval=publish_interval, **flags)
        publisher = load.LoadPublisher(args, Ranks())
        return kind(get_loads, publisher, write_snapshot, publish_interval)

    def make_scheduler_with_old_hook(self, **config):
        return self.make_scheduler(kind=OldHook, **config)

    def run_batch(self, scheduler, *, is_prefill, process_results):
        scheduler.batch_is_back(is_prefill, process_results)

    def run_without_batch(self, scheduler, *, is_fully_idle):
        scheduler.nothing_ran(is_fully_idle)

    def close(self, scheduler):
        scheduler.publisher.shut()
