"""Bugs that engines really had, each as a small change of the repository in `repo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Bug:
    """One bug, and how it has to be reported.

    Attributes:
        name: What is wrong.
        file: The file that has it.
        old: What stands there in the repository, exactly once.
        new: What the bug makes of it.
        classes: The contract classes that are run, by their names in the repository.
        rule: The rule that it breaks.
        case: A case that has to fail.
        says: What its message has to tell the developer, line by line.
        more: The further rules that may be named, each with the reason why this bug breaks it.
    """

    name: str
    file: str
    old: str
    new: str
    classes: Sequence[str]
    rule: str
    case: str
    says: Sequence[str]
    more: Mapping[str, str] = field(default_factory=dict)

    def apply(self, repo: Path) -> None:
        """Put the bug into a copy of the repository.

        Raises:
            ValueError: The text that it changes is not there, or stands there twice.
        """
        path = repo / self.file
        text = path.read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(self.old)} of {self.old!r}")
        path.write_text(text.replace(self.old, self.new), "utf-8")


BUGS = (
    Bug(
        "all pure-DP replicas on one port",
        "engine/args.py",
        "return self.dp or 0",
        "return self.attn_dp",
        ("TestPublisher",),
        "R2",
        "ranks-of-pure-dp-2",
        (
            "expected  tcp://*:5559, tcp://*:5560",
            "got       tcp://*:5559, tcp://*:5559",
        ),
        {"R3": "the same replicas at an explicit base"},
    ),
    Bug(
        "every TP rank binds",
        "engine/args.py",
        "self.pp == 0 and self.attn_tp == 0 and",
        "self.pp == 0 and",
        ("TestPublisher",),
        "R1",
        "closed-on-tp-rank-1",
        ("expected  no socket", "got       one for tcp://*:5558"),
    ),
    Bug(
        "port packed over the replay range",
        "engine/ports.py",
        "            first = replayed.port + replicas\n",
        "            pass\n",
        ("TestEndpoints",),
        "E2",
        "resolve-auto-replay-next",
        (
            "expected  the range from port 5559 on * for kv_endpoint='tcp://*:5557'",
            "replay_endpoint='tcp://*:5558'",
            "got       the range from port 5558 on *",
        ),
        {
            "E4": "the same behind a KV range on [::]",
            "E6": "the range that has stepped behind the replay range is what ends past 65535",
            "R3": "the socket of a slot binds what the resolver says",
            "E7": "the same, where there should be no socket at all",
        },
    ),
    Bug(
        "a concrete IPv6 taken for a wildcard",
        "engine/ports.py",
        "return address.host in WILDCARDS",
        "return any(wildcard in address.host for wildcard in WILDCARDS)",
        ("TestEndpoints", "TestPublisher"),
        "E4",
        "declined-on-one-ipv6-host",
        ("expected  no socket", "got       one for tcp://[2001:db8::5]:7000"),
        {
            "E2": "the grid of engines has such hosts among them",
            "K1": "a parse vector of an IPv6 host is there for the IPV6 option",
            "R3": "the socket of a slot binds what the resolver says",
            "E7": "the same, where there should be no socket at all",
        },
    ),
    Bug(
        "default on",
        "engine/ports.py",
        'wanted = (wanted or "").strip()',
        'wanted = (wanted or "auto").strip()',
        ("TestPublisher", "TestDiscovery"),
        "E1",
        "off-when-unset",
        ("expected  no socket", "got       one for tcp://*:5558"),
        {
            "A1": "blocks of six keys, for an engine that publishes no load, have eight",
            "A2": "the load keys are there without having been asked for",
        },
    ),
    Bug(
        "the floor that swallows the busy-to-idle transition",
        "engine/load.py",
        "if values == self.last and now - self.last_at < REPEAT_AFTER:",
        "if now - self.last_at < (REPEAT_AFTER if values == self.last else 0.05):",
        ("TestPublisher", "TestScheduler"),
        "P2",
        "change-goes-at-once",
        (
            "expected  message 1 at 100",
            "got       none",
            "100 forced   reading-b -> asked   <- here",
        ),
        {
            "P1": "changed readings that pass the throttle at one time",
            "P3": "a changed reading that is handed in",
            "P5": "an idle pass right behind a batch",
            "P6": "passes of one stall that are 50 ms apart, or come behind a batch",
            "P7": "a batch of each kind at one time",
        },
    ),
    Bug(
        "a counter that is reset on send",
        "engine/load.py",
        """        self.skipped = 0
        try:
            if self._send_if_news(self.socket, read() if load is None else load):
""",
        """        try:
            if self._send_if_news(self.socket, read() if load is None else load):
                self.skipped = 0
""",
        ("TestPublisher",),
        "P1",
        "throttle-resets-without-a-send",
        ("expected  the provider to be asked 0 time(s) at 100", "got       1"),
        {"P2": "a repeat that stayed at home leaves the throttle open behind it"},
    ),
    Bug(
        "a warning on every failure",
        "engine/load.py",
        "self.failing = True",
        "self.failing = False",
        ("TestPublisher",),
        "P4",
        "failure-goes-on-and-on",
        ("expected  no warning", "got       engine.load: load is not published: the provider of"),
        {
            "P1": "a provider that fails twice",
            "S1": "sends and readings that fail twice",
            "W5": "a count that cannot be sent is such a failure",
        },
    ),
    Bug(
        "advertised but not bound",
        "engine/server.py",
        """    if isinstance(ports, LoadPorts):
        block["load_endpoint_port_base"] = ports.first
""",
        """    if isinstance(ports, NoPorts):
        ports = LoadPorts(address.host, address.port + args.replicas)
    if isinstance(ports, LoadPorts):
        block["load_endpoint_port_base"] = ports.first
""",
        ("TestDiscovery",),
        "E7",
        "socket-grid-ipv4",
        (
            "expected  5558, as {'publisher': 'zmq', 'endpoint_host': '10.0.0.5',",
            "got       None for kv_events_config=",
        ),
        {
            "A2": "the load keys are there without a range",
            "A1": "they are in the whole answer of /server_info as well",
            "A3": "a KV host in brackets, which nobody packs behind",
        },
    ),
    Bug(
        "HWM unlimited",
        "engine/load.py",
        "socket.set_hwm(QUEUE)",
        "socket.set_hwm(0)",
        ("TestPublisher",),
        "K1",
        "bind-auto",
        ("expected  PUB: SNDHWM=8, RCVHWM=8, LINGER=0", "got       PUB: SNDHWM=0, RCVHWM=0"),
        {"E2": "the socket behind a replay range is one as well"},
    ),
    Bug(
        "no IPV6 on an IPv6 wildcard",
        "engine/load.py",
        "        if is_ipv6(endpoint):\n            socket.setsockopt(zmq.IPV6, 1)\n",
        "",
        ("TestPublisher",),
        "K1",
        "bind-ipv6",
        ("LINGER=0, IPV6=1, bind('tcp://[::]:5558')", "LINGER=0, bind('tcp://[::]:5558')"),
    ),
    Bug(
        "a field reordered",
        "engine/load.py",
        "    running: int\n    queued: int\n",
        "    queued: int\n    running: int\n",
        ("TestWire",),
        "W3",
        "rev2-golden-a",
        (
            "expected  9ba84c6f61645374617411cc82",
            "got       9ba84c6f616453746174cc8211",
            "a router would read num_running_reqs=130 instead of 17, num_waiting_reqs=17",
            "> expected   10  11                          1 num_running_reqs",
        ),
        {
            "W4": "the payload without a rank has these fields as well",
            "W5": "so has each count at the ends of its range",
        },
    ),
    Bug(
        "defaults trimmed",
        "engine/load.py",
        "    return msgspec.msgpack.encode(stat)\n",
        """    values = ["LoadStat", *msgspec.structs.astuple(stat)]
    while values[-1] in (0, None):
        values.pop()
    return msgspec.msgpack.encode(values)
""",
        ("TestWire",),
        "W4",
        "rev2-total-prefill-busy-us-0",
        ("expected exactly the 11 elements of revision 2, got 10",),
        {
            "W3": "a whole reading of SGLang's that ends in a zero",
            "W5": "a count of zero at the end of the array",
        },
    ),
    Bug(
        "the sequence little-endian",
        "engine/load.py",
        'number.to_bytes(8, "big")',
        'number.to_bytes(8, "little")',
        ("TestPublisher",),
        "F3",
        "change-goes-at-once",
        ("expected  number 1", "got       0100000000000000: the number is little-endian"),
        dict.fromkeys(("P1", "P2", "P3", "P4", "S1", "W5"), "a timeline with a second message"),
    ),
)
