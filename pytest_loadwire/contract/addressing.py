"""What the two address classes share: declared policies, optional hooks, a grid of engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pytest

from pytest_loadwire.address_judge import Read, Resolution, choose
from pytest_loadwire.contract.base import UNJUDGED, Contract
from pytest_loadwire.judge import Crashed, Finding
from pytest_loadwire.rules import ADDRESS_ANSWERS, AddressPolicy, Hazard
from pytest_loadwire.vectors.addresses import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Hook = TypeVar("Hook", bound=Callable[..., object])


def optional(hook: Hook) -> Hook:
    """Mark a hook that a class can do without: what it would check is one skipped test."""
    hook.loadwire_optional = True  # type: ignore[attr-defined]
    return hook


class Engine(NamedTuple):
    """One engine of the grid.

    Attributes:
        kv_endpoint: Its KV-event endpoint, or None without KV events.
        kv_port: The port in it.
        replay_endpoint: Its replay endpoint, or None.
        replay_port: The port in it, or None.
        dp_size: How many of its schedulers publish.
        mode: Its ``--load-publish-endpoint``.
    """

    kv_endpoint: str | None
    kv_port: int
    replay_endpoint: str | None
    replay_port: int | None
    dp_size: int
    mode: str | None

    @property
    def asked(self) -> dict[str, Any]:
        """The question to a resolver, as keywords."""
        return {
            "kv_endpoint": self.kv_endpoint,
            "replay_endpoint": self.replay_endpoint,
            "dp_size": self.dp_size,
            "load_publish_endpoint": self.mode,
        }


KV_HOSTS: Mapping[str, str | None] = {
    "star": "tcp://*:{}",
    "0-0-0-0": "tcp://0.0.0.0:{}",
    "ipv6-any": "tcp://[::]:{}",
    "ipv4": "tcp://10.0.0.5:{}",
    "ipv6": "tcp://[2001:db8::5]:{}",
    "bare-ipv6": "tcp://::1:{}",
    "ipc": "ipc:///run/kv-{}",
    "no-config": None,
}
"""The KV-event endpoints of the grid, a group for each."""

WILDCARDS = ("star", "0-0-0-0", "ipv6-any")
"""Those that are bound, so that ``auto`` packs behind them."""

ADVERTISED = (*WILDCARDS, "ipv4", "ipv6")
"""Those that ``/server_info`` advertises, so that an explicit address is of use."""


def grid(group: str) -> Iterator[Engine]:
    """Every engine of one group: around ranges that touch, overlap and end at the last port."""
    template = KV_HOSTS[group]
    for port, dp_size in product((5557, 65527), (1, 2, 4)):
        behind = port + dp_size
        modes = (
            None,
            "off",
            "auto",
            "tcp://*:7000",
            "tcp://10.0.0.5:7000",
            f"tcp://*:{behind - 1}",
            f"tcp://*:{behind}",
            f"tcp://[::]:{port - dp_size}",
        )
        replays = (None, port + 1, behind + dp_size - 1, behind + dp_size)
        for replay, mode in product(replays, modes):
            replay_port = replay if replay is not None and replay <= 65535 else None
            yield Engine(
                None if template is None else template.format(port),
                port,
                None if replay_port is None else f"tcp://*:{replay_port}",
                replay_port,
                dp_size,
                mode,
            )


def unclear(
    group: str, engine: Engine, resolve: Callable[[dict[str, Any]], Resolution | Crashed]
) -> Finding | None:
    """What is wrong with the answer for one engine of the grid."""
    outcome = resolve(engine.asked)

    def wrong(deed: Any, rule: str, expected: str) -> Finding:
        what = f"{expected} for {shown(engine.asked)}"
        return Finding(deed, rule, what, str(outcome), Hazard.NONE)

    if isinstance(outcome, Crashed):
        return wrong("crashed", "E5", "an answer")
    if outcome != resolve(engine.asked):
        return wrong("wrong-range", "E7", "the same answer when asked again")
    mode = engine.mode or "off"
    if mode == "off":
        return (
            None
            if outcome == Resolution() or (not outcome.is_range and outcome.is_quiet)
            else wrong("wrong-range", "E1", "a decline without a word")
        )
    if outcome.host is None:
        return wrong("wrong-reason", "E5", "a reason") if outcome.is_quiet else None
    if type(outcome.base) is not int:
        return wrong("wrong-range", "E2", "a base that is an integer")
    ports = set(range(outcome.base, outcome.base + engine.dp_size))
    if outcome.host not in ("*", "0.0.0.0", "::"):  # noqa: S104  # text to compare with
        return wrong("wrong-range", "E4", "a wildcard host")
    if group not in (WILDCARDS if mode == "auto" else ADVERTISED):
        return wrong("accepted", "E4" if mode == "auto" else "E7", "a decline")
    if min(ports) < 1 or max(ports) > 65535:
        return wrong("wrong-range", "E6", "ports from 1 to 65535")
    taken = {engine.kv_port + rank for rank in range(engine.dp_size)}
    if engine.replay_port is not None:
        taken |= {engine.replay_port + rank for rank in range(engine.dp_size)}
    if ports & taken:
        rule = "E2" if mode == "auto" else "E3"
        return wrong("wrong-range", rule, f"none of the ports {sorted(taken)}")
    return None


def config(kv_endpoint: str | None, replay_endpoint: str | None) -> str | None:
    """The text of ``--kv-events-config`` with these endpoints."""
    if kv_endpoint is None:
        return None
    keys = {"publisher": "zmq", "endpoint": kv_endpoint}
    return json.dumps(
        keys if replay_endpoint is None else {**keys, "replay_endpoint": replay_endpoint}
    )


def shown(asked: Mapping[str, object]) -> str:
    """Keywords as they are called with, for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in asked.items())


class AddressContract(Contract):
    """Base of `EndpointContract` and `DiscoveryContract`.

    Attributes:
        policies: The answer at each point where implementations may differ
            (`rules.ADDRESS_ANSWERS`); those of hooks that are not overridden are not asked for.
        reads_reasons: Whether the texts of declines and refusals have to mention what operators
            look for, such as ``--kv-events-config`` or ``overlaps``. That there is a text at all is
            always checked.
        deviations: The known deviations of the code under test.
    """

    policies: ClassVar[Mapping[str, str]] = {}
    reads_reasons: ClassVar[bool] = True

    @optional
    def binds(
        self,
        *,
        kv_events_config: str | None,
        dp_size: int,
        load_publish_endpoint: str | None,
        slot: int,
    ) -> str | None:
        """What the publisher in this slot binds, such as ``tcp://*:5558``, or None.

        Build it as the scheduler does and take the endpoint where it opens its socket, in place of
        opening it. Without this hook rules R3 and E7 are not checked on the publisher, and one
        skipped test says so.
        """
        raise NotImplementedError

    # What follows is the contract's own.

    @classmethod
    def offers(cls, hook: str) -> bool:
        """Whether an optional hook is overridden."""
        return not getattr(getattr(cls, hook), "loadwire_optional", False)

    @classmethod
    def owed_policies(cls) -> Sequence[AddressPolicy]:
        """The policies that this class has to declare."""
        return tuple(AddressPolicy)

    def test_declarations(self) -> None:
        """Policies and deviations are declared in the contract's own words."""
        super().test_declarations()
        owed = self.owed_policies()
        known = [policy.value for policy in AddressPolicy]
        problems = [
            f"{name!r} is no policy of addresses" for name in self.policies if name not in known
        ]
        for policy in AddressPolicy:
            answer, answers = self.policies.get(policy.value), ADDRESS_ANSWERS[policy]
            if answer not in answers and (policy in owed or policy.value in self.policies):
                problems.append(f'"{policy}": {" or ".join(map(repr, answers))}, not {answer!r}')
        if problems:
            pytest.fail("declare in policies:\n  " + "\n  ".join(problems), pytrace=False)

    def give(
        self,
        metafunc: pytest.Metafunc,
        fixture: str,
        cases: Iterable[tuple[str, str, object]],
        *,
        hook: str | None = None,
        checks: str = "",
    ) -> None:
        """Give each case (rule, id, value) a test of its own.

        Args:
            metafunc: What pytest hands to `pytest_generate_tests`.
            fixture: The argument that takes the case.
            cases: The cases.
            hook: The optional hook that they need; without it there is one skipped test.
            checks: What is not checked without it, for the skip and its id.
        """
        if fixture not in metafunc.fixturenames:
            return
        parameters = [pytest.param(value, id=f"{rule}-{case}") for rule, case, value in cases]
        if hook is not None and not self.offers(hook):
            why = pytest.mark.skip(reason=f"{checks} not checked: override {hook}")
            parameters = [pytest.param(None, id=f"no-{hook}", marks=why)]
        metafunc.parametrize(fixture, parameters)

    def chosen(self, expect: Any, *, rule: str) -> Any:
        """What a vector asks for under the declared policies.

        Where it waits for a policy it is skipped: one failure of `test_declarations` lists those.
        """
        owed = choose(expect, rule=rule, policies=self._declared())
        if isinstance(owed, Finding):
            listed = expect.policy in self.owed_policies() or expect.policy.value in self.policies
            assert listed, f"no test says that {expect.policy} has to be declared"
            pytest.skip(UNJUDGED)
        return owed

    def declared(self, finding: Finding | None, expect: object) -> Finding | None:
        """A finding that says which declared policy asks for what is expected, if one does."""
        if finding is None or not isinstance(expect, Choice):
            return finding
        because = f", because {expect.policy} is declared {self.policies[expect.policy.value]!r}"
        return finding._replace(expected=finding.expected + because)

    def _declared(self) -> Mapping[AddressPolicy, str]:
        return {p: self.policies[p.value] for p in AddressPolicy if p.value in self.policies}


def ask(call: Callable[[], object]) -> Read | Crashed:
    """What a hook answers; whatever it raises is the finding."""
    try:
        return Read(call())
    except Exception as crash:  # any of them
        return Crashed.of(crash)
