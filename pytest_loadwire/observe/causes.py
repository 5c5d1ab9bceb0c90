"""The likely causes of each symptom, the likeliest first: what to look at, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_loadwire.discovery import NoPlanReason

if TYPE_CHECKING:
    from collections.abc import Mapping


class Cause(NamedTuple):
    """One likely cause.

    Attributes:
        code: A word for machines.
        text: What may be the cause.
        sure: How to make sure.
        remedy: What to do.
    """

    code: str
    text: str
    sure: str
    remedy: str


_GIVE_URL = "give the worker's URL instead: its load ports are looked up then"

_OFF = Cause(
    "off",
    "publishing load is off, as it is by default",
    "look for --load-publish-endpoint in the engine's command line",
    "start the engine with --load-publish-endpoint auto, beside a --kv-events-config",
)
_DECLINED = Cause(
    "declined",
    "publishing was asked for and declined when the engine started",
    "look for a warning about the load publisher in the engine's log",
    "bind a wildcard (tcp://*:PORT) for KV events and load, with ranges that do not overlap",
)
_OLD = Cause(
    "too-old",
    "the engine is older than load publishing",
    "look at the version in /server_info; SGLang publishes load from 0.5.19 on",
    "use a newer engine",
)
_NO_KV = Cause(
    "no-kv-events",
    "KV events are not configured, or in a way that cannot be advertised",
    "look at --kv-events-config: publisher zmq, and an endpoint such as tcp://*:5557",
    'start with --kv-events-config \'{"publisher": "zmq", "endpoint": "tcp://*:5557"}\'',
)
_GATEWAY = Cause(
    "not-a-worker",
    "this is a router, a gateway or another server, and no engine",
    "ask it for /server_info by hand, and look at what answers",
    "give the URL of the engine itself",
)
_DEAD = Cause(
    "dead-publisher",
    "the publisher is dead behind a live advertisement: its bind failed (rule K3), or its "
    "scheduler has died",
    "look for a bind warning in the engine's log, and on its machine who has the port: ss -ltnp",
    "free the port, or move the range with --load-publish-endpoint tcp://*:PORT, and restart",
)
_TOO_MANY_RANKS = Cause(
    "too-many-ranks",
    "the worker has fewer ranks than dp_size advertises, or some of them run on another node, "
    "where this host does not listen",
    "compare dp_size of kv_events in /server_info with --dp-size and --nnodes",
    "advertise one rank per independent KV cache (rule R1), all of them on the worker's own host",
)
_NOT_PUBLISHED = Cause(
    "port-not-published",
    "the port is open on the engine's side and not from here: a container port that is not "
    "published, or a service that forwards the HTTP port alone",
    "run this command on the engine's machine, or inside its container",
    "publish the load ports as well, one per rank, or use the host's network",
)
_FIREWALL = Cause(
    "firewall",
    "a firewall or a security group drops the packets to this port",
    "run this command on the engine's machine; if it works there, something is in between",
    "allow the load ports, one per rank, from the routers",
)
_WRONG_HOST = Cause(
    "wrong-host",
    "the host is another one, or is down",
    "look at the address; ask the worker for /health",
    "give the host of the worker's own URL: the load ports are on the same (rule C1)",
)
_WRONG_PORT = Cause(
    "wrong-port",
    "the load port is another one",
    "it is load_endpoint_port_base + rank, of kv_events in the worker's /server_info",
    _GIVE_URL,
)
_NOT_STARTED = Cause(
    "not-started",
    "the engine is not up: still loading its model, or ended",
    "ask the worker for /health, and look at its log",
    "wait for it, or start it",
)
_PROXY = Cause(
    "proxy",
    "a proxy, a mesh sidecar or a port forwarder takes the connection, with nothing behind it",
    "run this command on the engine's machine",
    "let the load ports pass the proxy as plain TCP, or go around it",
)
_STUCK = Cause(
    "stuck",
    "the engine is stuck or paused: a scheduler that runs publishes at least once a second",
    "look whether the worker answers requests, and at py-spy dump of its scheduler process",
    "restart the engine if it hangs; a router counts for itself meanwhile (rule C4)",
)
_LOADING = Cause(
    "busy-start",
    "the engine has bound the port and does not yet run its loop, or runs one very long step",
    "watch for longer: --seconds 60",
    "wait for it",
)
_KV_IDLE = Cause(
    "kv-port",
    "this is the KV-event port, which speaks only when blocks come and go",
    "send the worker a request while this command watches; then KV events come",
    _GIVE_URL,
)
_KV = Cause(
    "kv-port",
    "the KV-event port was dialled instead of the load port",
    "compare the port with endpoint_port_base, which is that of KV events, in /server_info",
    _GIVE_URL,
)

_SERVER_STUCK = Cause(
    "server-stuck",
    "the server takes the connection and is too busy or stuck to answer",
    "ask it by hand: curl -m 10 URL/server_info",
    "wait, or restart it",
)
_ZMQ_PORT = Cause(
    "zmq-port",
    "this is a ZeroMQ port, perhaps the load port itself, and not the HTTP port",
    "watch it as it is: tcp://host:port",
    "give the worker's HTTP URL, or the socket as tcp://host:port",
)

_NOT_THE_PUBLISHER = Cause(
    "not-the-publisher",
    "the process behind this port is not the publishing rank: another engine's socket, or a rank "
    "whose attention-TP or CP rank is not 0 (rule R1)",
    "on the engine's machine, find the process of each load port: ss -ltnp",
    "keep the ranges of workers on one machine apart",
)

UNRESOLVED: tuple[Cause, ...] = (
    Cause(
        "typo",
        "the name is misspelled, or not known here",
        "look it up: getent hosts NAME",
        "correct it, or give the address",
    ),
    Cause(
        "other-namespace",
        "the name is known only within a cluster or a container network",
        "run this command there",
        "use a name that is known here, or the address",
    ),
)
"""For a name without an address."""

ANSWERS: Mapping[str, tuple[Cause, ...]] = {
    "refused": (
        _NOT_STARTED,
        Cause("wrong-port", "the HTTP port is another one", "look at --port", "give that port"),
        Cause(
            "localhost-only",
            "the engine listens on 127.0.0.1 only, which is its default",
            "look at --host; on its machine: ss -ltn",
            "start it with --host 0.0.0.0",
        ),
    ),
    "unreachable": (_WRONG_HOST, _FIREWALL),
    "timeout": (_FIREWALL, _WRONG_HOST, _SERVER_STUCK),
    "mute": (_SERVER_STUCK, _PROXY),
    "zmtp": (_ZMQ_PORT,),
    "name": UNRESOLVED,
    "closed": (
        Cause(
            "https",
            "the server speaks HTTPS",
            "try the URL with https://",
            "give the URL with https://",
        ),
        _PROXY,
    ),
    "not-http": (_GATEWAY, _PROXY),
    "tls": (
        Cause(
            "certificate",
            "the server speaks no TLS, or its certificate is not trusted here",
            "try the URL with http://, and look at the error above",
            "give the URL with http://, or trust the certificate (SSL_CERT_FILE)",
        ),
    ),
    "status-404": (_GATEWAY, _OLD),
    "status-503": (_NOT_STARTED, _GATEWAY),
    "forbidden": (
        Cause(
            "api-key",
            "the server asks for an API key, which a router would need as well",
            "look for --api-key in the engine's command line",
            "watch the sockets by themselves: tcp://host:port for each rank",
        ),
        _GATEWAY,
    ),
    "status": (
        Cause(
            "server-error",
            "the server failed to answer: the route must answer whatever the configuration (A4)",
            "look at the engine's log at this time",
            "report it to the engine's developers with that log",
        ),
        _GATEWAY,
    ),
    "not-json": (_GATEWAY, _OLD),
    "other": (_GATEWAY, _WRONG_HOST),
}
"""For a worker whose /server_info did not answer, by the way in which it did not."""

NO_PLANS: Mapping[NoPlanReason, tuple[Cause, ...]] = {
    NoPlanReason.NO_BLOCK: (_NO_KV, _OLD, _GATEWAY),
    NoPlanReason.NO_LOAD_KEYS: (_OFF, _DECLINED, _OLD),
    NoPlanReason.ONE_LOAD_KEY: (
        Cause(
            "half-advertised",
            "the route builds the two load keys apart, or something strips one on the way",
            "ask the engine itself for /server_info, without a proxy",
            "add both keys together or none (rule A2)",
        ),
    ),
    **dict.fromkeys(
        (NoPlanReason.BAD_PORT, NoPlanReason.BAD_TOPIC, NoPlanReason.BAD_DP_SIZE),
        (
            Cause(
                "bad-block",
                "the engine advertises what no router can use",
                "look at kv_events in /server_info",
                "let the advertisement ask the resolver that the publisher asks (rule E7)",
            ),
        ),
    ),
    NoPlanReason.BAD_URL: (_WRONG_HOST,),
}
"""For a worker that answers, and advertises nothing to subscribe to."""

PEERS: Mapping[str, tuple[Cause, ...]] = {
    "refused-worker": (_DEAD, _NOT_PUBLISHED),
    "refused-some": (_DEAD, _TOO_MANY_RANKS, _NOT_PUBLISHED),
    "refused": (_WRONG_PORT, _OFF, _NOT_STARTED, _DEAD),
    "unreachable": (_WRONG_HOST, _FIREWALL),
    "timeout": (_FIREWALL, _WRONG_HOST),
    "http": (
        Cause(
            "http-port",
            "the worker's HTTP port was dialled as if it were the load port",
            "open it as a URL: http://host:port/server_info",
            "give the worker's URL with http://; its load ports are looked up then",
        ),
        Cause(
            "port-taken",
            "another program has the port, so that the publisher could not bind it (rule K3)",
            "on the engine's machine: ss -ltnp",
            "move the load range: --load-publish-endpoint tcp://*:PORT",
        ),
    ),
    "tls": (_WRONG_PORT, _PROXY),
    "zmtp-ROUTER": (
        Cause(
            "replay-port",
            "this is the replay port of the KV-event stream, which answers requests",
            "compare the port with replay_endpoint in --kv-events-config",
            _GIVE_URL,
        ),
        Cause(
            "port-taken",
            "the replay range of this or of another worker lies over the load range",
            "on the engine's machine: ss -ltnp",
            "move the load range: --load-publish-endpoint tcp://*:PORT",
        ),
    ),
    "zmtp": (
        Cause(
            "internal-socket",
            "this is one of the engine's internal sockets, or of another program",
            "on the engine's machine: ss -ltnp",
            _GIVE_URL,
        ),
        _WRONG_PORT,
    ),
    "security": (
        Cause(
            "security",
            "the socket asks for a password or a key; the load socket asks for nothing",
            "look at who has the port: ss -ltnp",
            _GIVE_URL,
        ),
    ),
    "mute": (_PROXY, _STUCK, _WRONG_PORT),
    "closed": (_PROXY, _WRONG_PORT),
    "other": (_WRONG_PORT, _PROXY),
    "unknown": (_WRONG_PORT, _FIREWALL, _NOT_STARTED),
}
"""For a port that no subscriber can read, by who listens there."""

SHORT_WATCH = Cause(
    "short-watch",
    "the watch was too short: an engine speaks once a second at least, and when it is idle and "
    "asleep it may let every other beat pass",
    "compare the seconds above",
    "watch for longer: --seconds 6",
)
"""For a publisher that had no time to say anything; it comes before every other cause."""

SILENT: Mapping[str, tuple[Cause, ...]] = {
    "silent": (_KV_IDLE, _STUCK, _NOT_THE_PUBLISHER, _LOADING),
    "silent-all": (_STUCK, _LOADING, _NOT_THE_PUBLISHER),
    "silent-some": (_STUCK, _NOT_THE_PUBLISHER, _LOADING),
    "silent-lost": (
        Cause(
            "died",
            "the engine, or this scheduler, ended while it was watched",
            "look at the end of its log, and for the OOM killer: dmesg",
            "restart it, and watch again",
        ),
        Cause(
            "large-frames",
            "it sends frames of more than 256 KiB, behind which this command hangs up: batches of "
            "the KV-event stream may be so large, and no load message is",
            "compare the port with endpoint_port_base, which is that of KV events, in /server_info",
            _GIVE_URL,
        ),
        _PROXY,
    ),
}
"""For a publisher that is there and says nothing."""

_KV_ADVERTISED = Cause(
    "kv-on-load-port",
    "KV events are published on the port that is advertised for load: the two ranges overlap, or "
    "the base was worked out twice and differently (rule E7)",
    "compare endpoint_port_base and load_endpoint_port_base in /server_info with ss -ltnp",
    "move the load range: --load-publish-endpoint tcp://*:PORT",
)

STREAMS: Mapping[str, tuple[Cause, ...]] = {
    "kv-events": (_KV,),
    "kv-events-worker": (_KV_ADVERTISED, _KV),
    "replay-sentinel": PEERS["zmtp-ROUTER"],
    "load-snapshot": (
        Cause(
            "internal-stream",
            "the engine sends its internal LoadSnapshot, a map, on the load port; engines of an "
            "unreleased design did so",
            "give the bytes above to: loadwire explain",
            "let it send LoadStat, an array of the contract (rule W1)",
        ),
    ),
}
"""For a socket on which another stream comes."""

UNDECODABLE: tuple[Cause, ...] = (
    Cause(
        "broken-encoder",
        "the engine's encoder breaks the contract; the findings above say at which byte",
        "give the bytes above to: loadwire explain",
        "hold the encoder to the vectors: WireContract in the engine's own tests",
    ),
    Cause(
        "other-program",
        "another program publishes on this port",
        "on the engine's machine: ss -ltnp",
        _GIVE_URL,
    ),
)
"""For messages that no router takes."""
