"""`DiscoveryContract`: what an engine advertises, what it refuses at start, what a router dials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_loadwire.address_judge import (
    Dialled,
    Read,
    judge_block,
    judge_plan,
    judge_start,
    split,
)
from pytest_loadwire.contract.addressing import (
    KV_HOSTS,
    AddressContract,
    Engine,
    ask,
    config,
    grid,
    optional,
    shown,
)
from pytest_loadwire.contract.base import code_of, lacking, missing_hook
from pytest_loadwire.discovery import NoPlanReason
from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.judge import Crashed, Finding, Refused
from pytest_loadwire.rules import AddressPolicy, Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.addresses import BlockVector, PlanVector, ValidateVector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_loadwire.vectors.addresses import DiscoveryVector

KEY = "kv_events"
SIDES = ("describe", "check_args", "plan", "server_info")
PAGE = 64

_CODES = frozenset(reason.value for kind in (DeclineReason, NoPlanReason) for reason in kind)


class DiscoveryContract(AddressContract):
    """Hold an engine's advertisement and start to rules A1 to A4 and V1, a router's plan to C1.

    One class serves an engine (`describe`, `check_args`, `server_info`), a router (`plan`), or
    both. Each hook that is not overridden is one skipped test, and at least one has to be.

    Example:
        ::

            class TestDiscovery(DiscoveryContract):
                policies = {"LooseEndpoint": "strict"}

                def describe(self, **engine):
                    return describe_kv_events_publisher(SimpleNamespace(**engine))

                def check_args(self, **engine):
                    check_load_publish_args(SimpleNamespace(**engine))

    Attributes:
        refusals: The exceptions by which `check_args` and `plan` refuse. Any other is a crash.
        policies: The answer at each point where implementations may differ
            (`rules.ADDRESS_ANSWERS`); those of hooks that are not overridden are not asked for.
        reads_reasons: Whether the texts of declines and refusals have to mention what operators
            look for, such as ``--kv-events-config`` or ``overlaps``. That there is a text at all is
            always checked.
        deviations: The known deviations of the code under test.
    """

    refusals: ClassVar[tuple[type[Exception], ...]] = (ValueError, LoadwireError)

    @optional
    def describe(
        self,
        *,
        kv_events_config: str | None,
        page_size: int | None,
        dp_size: int,
        load_publish_endpoint: str | None,
    ) -> Mapping[str, object] | None:
        """The ``kv_events`` value of ``/server_info``; it must not raise (rule A4)."""
        raise NotImplementedError

    @optional
    def server_info(
        self,
        *,
        kv_events_config: str | None,
        page_size: int | None,
        dp_size: int,
        load_publish_endpoint: str | None,
    ) -> Mapping[str, object]:
        """The whole answer of ``/server_info``, always with the key ``kv_events`` (rule A1)."""
        raise NotImplementedError

    @optional
    def check_args(
        self, *, kv_events_config: str | None, dp_size: int, load_publish_endpoint: str | None
    ) -> object:
        """Raise one of `refusals` for an engine that must not start (rule V1)."""
        raise NotImplementedError

    @optional
    def plan(self, worker_url: str, block: Any) -> object:
        """What the router dials for a worker; None or one of `refusals` for nothing (rule C1)."""
        raise NotImplementedError

    def dialled(self, planned: Any) -> Dialled | Refused:
        """What `plan` returned; override it for another shape.

        The default takes endpoints in the order of ranks, pairs of rank and endpoint, a mapping
        from rank to endpoint, objects with ``rank`` and ``endpoint``, or one object with such
        ``endpoints``. None, nothing, a text, a reason code or an object with ``reason`` is no plan.
        """
        if isinstance(planned, str):
            code = str(planned)
            known = code in {reason.value for reason in NoPlanReason}
            return Refused(code) if known else Refused(text=code)
        if hasattr(planned, "endpoints"):
            return self.dialled(planned.endpoints)
        if hasattr(planned, "reason"):
            return Refused(str(planned.reason), text=str(getattr(planned, "text", "")))
        if not planned:
            return Refused(text="nothing to dial")
        if isinstance(planned, Mapping):
            return Dialled(list(planned.items()))
        pairs: list[tuple[int, str]] = []
        for number, item in enumerate(planned):
            if hasattr(item, "rank") and hasattr(item, "endpoint"):
                pairs.append((item.rank, item.endpoint))
            elif isinstance(item, str):
                pairs.append((number, item))
            elif isinstance(item, tuple | list) and len(item) == 2:
                pairs.append((item[0], item[1]))
            else:
                missing_hook(self, "dialled(planned)", f"{item!r} is none of the shapes it reads")
        return Dialled(pairs)

    def reason(self, refusal: Exception) -> str | None:
        """The reason code of a refusal, or None where there are no such codes.

        The default takes an attribute ``reason`` that is one of the contract's codes.
        """
        return code_of(refusal, _CODES)

    # What follows is the contract's own.

    @classmethod
    def unready(cls) -> str | None:
        """There is at least one side."""
        if any(cls.offers(hook) for hook in SIDES):
            return None
        return lacking(cls, f"at least one of {', '.join(SIDES)}", "nothing would be checked")

    @classmethod
    def owed_policies(cls) -> Sequence[AddressPolicy]:
        """An engine declares how it reads loose endpoints, a router what it does with a user."""
        engine = any(cls.offers(hook) for hook in SIDES if hook != "plan")
        owed = [AddressPolicy.LOOSE_ENDPOINT] if engine else []
        return [*owed, AddressPolicy.URL_CREDENTIALS] if cls.offers("plan") else owed

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every case as rule and id, of the hooks that are overridden."""
        for hook, cases in (
            ("describe", cls._cases(BlockVector)),
            ("server_info", cls._infos()),
            ("check_args", cls._cases(ValidateVector)),
            ("plan", cls._cases(PlanVector)),
        ):
            if cls.offers(hook):
                yield from ((rule, case) for rule, case, _ in cases)
        for hook in ("check_args", "binds"):
            if cls.offers(hook) and cls.offers("describe"):
                yield from ((rule, case) for rule, case, _ in cls._agreements(hook))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each vector, and each group of the grid, a test of its own."""
        vectors = ("block_vector", "info_vector", "start_vector", "plan_vector")
        if self.withholds(metafunc, *vectors, "start_group", "bound_group"):
            return
        self.give(
            metafunc, "block_vector", self._cases(BlockVector), hook="describe", checks="A1 to A4"
        )
        self.give(metafunc, "info_vector", self._infos(), hook="server_info", checks="A1")
        self.give(
            metafunc, "start_vector", self._cases(ValidateVector), hook="check_args", checks="V1"
        )
        self.give(metafunc, "plan_vector", self._cases(PlanVector), hook="plan", checks="C1")
        for fixture, hook in (("start_group", "check_args"), ("bound_group", "binds")):
            needed = hook if self.offers("describe") else "describe"
            self.give(
                metafunc,
                fixture,
                self._agreements(hook),
                hook=needed,
                checks=f"E7 of describe and {hook}",
            )

    def test_describes(self, block_vector: BlockVector) -> None:
        """The block has the keys and values that are owed, or is null; it never raises."""
        self._hold_block(block_vector, self._described(_engine(block_vector)), block_vector.id)

    def test_server_info_always_has_the_key(self, info_vector: BlockVector) -> None:
        """``/server_info`` answers with the key ``kv_events``, null or a block."""
        engine = _engine(info_vector)
        case = f"{info_vector.id}/server-info"
        outcome = ask(lambda: self.server_info(**engine))
        if isinstance(outcome, Read) and isinstance(outcome.value, Mapping):
            if KEY in outcome.value:
                self._hold_block(info_vector, self._block(outcome.value[KEY]), case, rule="A1")
                return
            outcome = Read(f"only {', '.join(map(str, outcome.value))}")
        deed: Any = "crashed" if isinstance(outcome, Crashed) else "wrong-value"
        expected = f"the key {KEY} for {shown(engine)}"
        finding = Finding(deed, "A1", expected, str(outcome), Hazard.NONE)
        self.hold(finding, rule="A1", case=case, why=info_vector.why)

    def test_starts_or_refuses(self, start_vector: ValidateVector) -> None:
        """An engine that was asked to publish and cannot refuses to start, any other starts."""
        vector = start_vector
        engine = _engine(vector)
        expect = self.chosen(vector.expect, rule=vector.rule)
        finding = judge_start(
            expect,
            self._started(engine),
            rule=vector.rule,
            asked=shown(engine),
            texts=self.reads_reasons,
        )
        finding = self.declared(finding, vector.expect)
        self.hold(finding, rule=vector.rule, case=vector.id, why=vector.why)

    def test_plans(self, plan_vector: PlanVector) -> None:
        """The router dials the worker's own host, one advertised port for each rank, or nothing."""
        vector = plan_vector
        expect = self.chosen(vector.expect, rule=vector.rule)
        outcome: Dialled | Refused | Crashed
        try:
            planned = self.plan(vector.worker_url, vector.block)
        except self.refusals as refusal:
            outcome = self._refused(refusal)
        except Exception as crash:  # whatever it is, that is the finding
            outcome = Crashed.of(crash)
        else:
            outcome = self.dialled(planned)
        asked = shown({"worker_url": vector.worker_url, "block": vector.block})
        finding = judge_plan(expect, outcome, rule=vector.rule, asked=asked)
        finding = self.declared(finding, vector.expect)
        self.hold(finding, rule=vector.rule, case=vector.id, why=vector.why)

    def test_starts_exactly_with_what_it_advertises(self, start_group: str) -> None:
        """An engine that was asked starts exactly where its block has the load keys."""
        finding = next(filter(None, map(self._unlike_start, grid(start_group))), None)
        why = "one resolver answers at start and on /server_info"
        self.hold(finding, rule="E7", case=f"start-grid-{start_group}", why=why)

    def test_binds_exactly_what_it_advertises(self, bound_group: str) -> None:
        """Slot r binds the advertised base + r, and nothing where no base is advertised."""
        finding = next(filter(None, map(self._unlike_socket, grid(bound_group))), None)
        why = "one resolver answers for the socket and on /server_info"
        self.hold(finding, rule="E7", case=f"socket-grid-{bound_group}", why=why)

    @classmethod
    def _cases(cls, kind: type[DiscoveryVector]) -> Iterator[tuple[str, str, object]]:
        yield from ((v.rule, v.id, v) for v in load().discovery if isinstance(v, kind))

    @classmethod
    def _infos(cls) -> Iterator[tuple[str, str, object]]:
        yield from (("A1", f"{case}/server-info", v) for _, case, v in cls._cases(BlockVector))

    @classmethod
    def _agreements(cls, hook: str) -> Iterator[tuple[str, str, object]]:
        with_what = {"check_args": "start", "binds": "socket"}[hook]
        yield from (("E7", f"{with_what}-grid-{group}", group) for group in KV_HOSTS)

    def _hold_block(
        self,
        vector: BlockVector,
        outcome: Mapping[str, object] | Crashed | None,
        case: str,
        *,
        rule: str | None = None,
    ) -> None:
        expect = self.chosen(vector.expect, rule=vector.rule)
        asked = shown(_engine(vector))
        finding = judge_block(expect, outcome, rule=vector.rule, asked=asked)
        self.hold(finding, rule=rule or vector.rule, case=case, why=vector.why)

    def _described(self, engine: dict[str, Any]) -> Mapping[str, object] | Crashed | None:
        answer = ask(lambda: self.describe(**engine))
        return answer if isinstance(answer, Crashed) else self._block(answer.value)

    def _block(self, value: object) -> Mapping[str, object] | Crashed | None:
        if value is None or isinstance(value, Mapping):
            return value
        return Crashed(f"{value!r} is neither None nor a mapping")

    def _started(self, engine: dict[str, Any]) -> Read | Refused | Crashed:
        try:
            return Read(self.check_args(**engine))
        except self.refusals as refusal:
            return self._refused(refusal)
        except Exception as crash:  # whatever it is, that is the finding
            return Crashed.of(crash)

    def _refused(self, refusal: Exception) -> Refused:
        return Refused(self.reason(refusal), text=str(refusal))

    def _unlike_start(self, engine: Engine) -> Finding | None:
        """Where one engine of the grid starts without load keys, or refuses with them."""
        if engine.mode in (None, "off"):
            return None
        arguments = _arguments(engine)
        block = self._described({**arguments, "page_size": PAGE})
        started = self._started(arguments)
        advertised = isinstance(block, Mapping) and "load_endpoint_port_base" in block
        if isinstance(block, Crashed) or isinstance(started, Crashed):
            got = f"{block} on /server_info, {started} at start"
            return Finding("crashed", "E7", f"answers for {shown(arguments)}", got, Hazard.NONE)
        if advertised is isinstance(started, Read):
            return None
        expected = f"{'a start' if advertised else 'a refusal'} with {block} for {shown(arguments)}"
        got = "a start" if isinstance(started, Read) else str(started)
        return Finding("disagrees", "E7", expected, got, Hazard.NONE)

    def _unlike_socket(self, engine: Engine) -> Finding | None:
        """Where a publisher of one engine of the grid binds something else than is advertised."""
        arguments = _arguments(engine)
        block = self._described({**arguments, "page_size": PAGE})
        base = block.get("load_endpoint_port_base") if isinstance(block, Mapping) else None
        for slot in range(engine.dp_size):
            outcome = ask(lambda slot=slot: self.binds(**arguments, slot=slot))  # type: ignore[misc]
            port = None if outcome == Read(None) else split(_text(outcome))[1]
            owed = base + slot if isinstance(base, int) else None
            if isinstance(outcome, Crashed) or port != owed:
                expected = f"{owed or 'no socket'}, as {block} says, for slot {slot}"
                deed: Any = "crashed" if isinstance(outcome, Crashed) else "disagrees"
                got = f"{outcome} for {shown(arguments)}"
                return Finding(deed, "E7", expected, got, Hazard.NONE)
        return None


def _engine(vector: BlockVector | ValidateVector) -> dict[str, Any]:
    """An engine's arguments as keywords; only a block depends on the page size."""
    engine: dict[str, Any] = {
        "kv_events_config": vector.config,
        "dp_size": vector.dp_size,
        "load_publish_endpoint": vector.load_publish_endpoint,
    }
    return {**engine, "page_size": vector.page_size} if isinstance(vector, BlockVector) else engine


def _arguments(engine: Engine) -> dict[str, Any]:
    return {
        "kv_events_config": config(engine.kv_endpoint, engine.replay_endpoint),
        "dp_size": engine.dp_size,
        "load_publish_endpoint": engine.mode,
    }


def _text(outcome: Read | Crashed) -> str:
    return str(outcome.value) if isinstance(outcome, Read) else outcome.text
