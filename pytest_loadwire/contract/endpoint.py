"""`EndpointContract`: where an engine publishes its load, which scheduler, and why nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_loadwire.address_judge import (
    Read,
    Resolution,
    judge_range,
    judge_value,
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
    unclear,
)
from pytest_loadwire.contract.base import lacking, missing_hook
from pytest_loadwire.endpoints import DeclineReason
from pytest_loadwire.judge import Crashed, Finding
from pytest_loadwire.rules import AddressPolicy, Hazard
from pytest_loadwire.vectors import load
from pytest_loadwire.vectors.addresses import (
    GateVector,
    ParseVector,
    Range,
    ResolveVector,
    SlotVector,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

_RESOLVE = "answer where your engine publishes its load"

CODES = frozenset(reason.value for reason in DeclineReason)

PARTS = {
    "port": "parse_port",
    "advertisable": "advertisable",
    "bindable": "bindable",
    "ipv6": "sets_ipv6",
}
"""What a parse vector says of an endpoint, and the hook that is asked."""


class EndpointContract(AddressContract):
    """Hold an engine's resolver and ranks to rules E1 to E8 and R1 to R3.

    Example:
        ::

            class TestEndpoints(EndpointContract):
                policies = {"LooseEndpoint": "strict"}

                def resolve(self, **asked):
                    return resolve_load_pub_range(**asked)

    The vectors are those of ``endpoints.json``.

    Attributes:
        policies: The answer at each point where implementations may differ
            (`rules.ADDRESS_ANSWERS`); those of hooks that are not overridden are not asked for.
        reads_reasons: Whether the texts of declines and refusals have to mention what operators
            look for, such as ``--kv-events-config`` or ``overlaps``. That there is a text at all is
            always checked.
        deviations: The known deviations of the code under test.
    """

    def resolve(
        self,
        *,
        kv_endpoint: str | None,
        replay_endpoint: str | None,
        dp_size: int,
        load_publish_endpoint: str | None,
    ) -> object:
        """Where the engine publishes its load: whatever its resolver answers.

        `resolution` reads a range as ``(host, base)`` or as an object with these attributes; a
        decline as its text, its reason code, a pair of both, or an object with ``reason`` and
        ``text``; no word as None; and a pair of range and reason of which one or both are None.
        """
        del kv_endpoint, replay_endpoint, dp_size, load_publish_endpoint
        missing_hook(self, "resolve", _RESOLVE)

    @optional
    def parse_port(self, endpoint: str | None) -> int | None:
        """The port that an endpoint occupies, whatever its host; None or ValueError for none."""
        raise NotImplementedError

    @optional
    def advertisable(self, endpoint: str | None) -> object:
        """Host (IPv6 in brackets) and port as a pair or an object; None or ValueError for none."""
        raise NotImplementedError

    @optional
    def bindable(self, endpoint: str | None) -> object:
        """Host (without brackets) and port to bind, as `advertisable` answers."""
        raise NotImplementedError

    @optional
    def sets_ipv6(self, endpoint: str) -> bool:
        """Whether a socket sets IPV6 before it binds this (rule K1)."""
        raise NotImplementedError

    @optional
    def slot(self, *, attn_dp_size: int, attn_dp_rank: int, dp_rank: int | None) -> int:
        """The slot of a publishing scheduler (rule R2)."""
        raise NotImplementedError

    @optional
    def publishes(
        self, *, kv_events_config: str | None, pp_rank: int, attn_tp_rank: int, attn_cp_rank: int
    ) -> bool:
        """Whether a scheduler publishes (rule R1)."""
        raise NotImplementedError

    def resolution(self, resolved: Any) -> Resolution:
        """What `resolve` returned; override it for another shape than those it names."""
        if isinstance(resolved, tuple | list) and len(resolved) == 2:
            first, second = resolved
            if isinstance(first, str) and isinstance(second, str):
                return Resolution(code=str(first), text=second)
            if isinstance(first, str) and second is not None:
                return Resolution(_bare(first), second)
            if first is None:
                return self.resolution(second)
            found = self.resolution(first)
            said = self.resolution(second)
            return found._replace(code=said.code, text=said.text)
        if resolved is None:
            return Resolution()
        if isinstance(resolved, str):
            word = str(resolved)
            return Resolution(code=word) if word in CODES else Resolution(text=word)
        if hasattr(resolved, "host") and hasattr(resolved, "base"):
            return Resolution(_bare(resolved.host), resolved.base)
        if not hasattr(resolved, "reason"):
            what = f"{resolved!r} is none of the shapes it reads"
            missing_hook(self, "resolution(resolved)", what)
        code = None if resolved.reason is None else str(resolved.reason)
        return Resolution(code=code, text=str(getattr(resolved, "text", None) or ""))

    # What follows is the contract's own.

    @classmethod
    def unready(cls) -> str | None:
        """There is a resolver to ask."""
        if cls.resolve is EndpointContract.resolve:
            return lacking(cls, "resolve", _RESOLVE)
        return None

    @classmethod
    def owed_policies(cls) -> Sequence[AddressPolicy]:
        """An engine declares how it reads loose endpoints."""
        return (AddressPolicy.LOOSE_ENDPOINT,)

    @classmethod
    def contract_cases(cls) -> Iterator[tuple[str, str]]:
        """Every case as rule and id."""
        for rule, case, _ in (*cls._resolves(), *cls._clear()):
            yield rule, case
        for part, hook in PARTS.items():
            if cls.offers(hook):
                yield from ((rule, case) for rule, case, _ in cls._parses(part))
        for hook, cases in (
            ("slot", cls._slots()),
            ("publishes", cls._gates()),
            ("binds", (*cls._bound(), *cls._agreements())),
        ):
            if cls.offers(hook):
                yield from ((rule, case) for rule, case, _ in cases)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each vector, and each group of the grid, a test of its own."""
        parts = [f"{part}_vector" for part in PARTS]
        others = ("resolve_vector", "grid_group", "slot_vector", "gate_vector", "bound_vector")
        if self.withholds(metafunc, *parts, *others, "bound_group"):
            return
        self.give(metafunc, "resolve_vector", self._resolves())
        self.give(metafunc, "grid_group", self._clear())
        for part, hook in PARTS.items():
            what = f"{part} of endpoints"
            self.give(metafunc, f"{part}_vector", self._parses(part), hook=hook, checks=what)
        self.give(metafunc, "slot_vector", self._slots(), hook="slot", checks="R2")
        self.give(metafunc, "gate_vector", self._gates(), hook="publishes", checks="R1")
        self.give(metafunc, "bound_vector", self._bound(), hook="binds", checks="R3")
        self.give(metafunc, "bound_group", self._agreements(), hook="binds", checks="E7")

    def test_resolves(
        self, resolve_vector: ResolveVector, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The resolver gives the range that is owed, or declines as it should, and never logs."""
        vector = resolve_vector
        asked = {
            "kv_endpoint": vector.kv_endpoint,
            "replay_endpoint": vector.replay_endpoint,
            "dp_size": vector.dp_size,
            "load_publish_endpoint": vector.load_publish_endpoint,
        }
        caplog.clear()
        with caplog.at_level(1):
            outcome = self._resolved(asked)
        logged = [record.getMessage() for record in caplog.records]
        expect = self.chosen(vector.expect, rule=vector.rule)
        finding = judge_range(
            expect, outcome, rule=vector.rule, asked=shown(asked), texts=self.reads_reasons
        )
        if finding is None and logged:
            what = f"no line in the log for {shown(asked)}"
            finding = Finding("logged", "E5", what, repr(logged[0]), Hazard.NONE)
        finding = self.declared(finding, vector.expect)
        self.hold(finding, rule=vector.rule, case=vector.id, why=vector.why)

    def test_keeps_clear(self, grid_group: str) -> None:
        """Whatever range comes is bound by a wildcard, clear of other ranges and within ports."""
        found = (unclear(grid_group, engine, self._resolved) for engine in grid(grid_group))
        finding = next(filter(None, found), None)
        why = "ranges that touch, overlap and end at the last port"
        self.hold(finding, rule="E2", case=f"grid-{grid_group}", why=why)

    def test_reads_port(self, port_vector: ParseVector) -> None:
        """The port that an endpoint occupies is the one that is owed, or none."""
        self._parse("port", port_vector)

    def test_reads_advertisable(self, advertisable_vector: ParseVector) -> None:
        """Host and port for the advertisement are those that are owed, or none."""
        self._parse("advertisable", advertisable_vector)

    def test_reads_bindable(self, bindable_vector: ParseVector) -> None:
        """Host and port to bind are those that are owed, or none."""
        self._parse("bindable", bindable_vector)

    def test_sets_ipv6(self, ipv6_vector: ParseVector) -> None:
        """IPV6 is set for an IPv6 literal in brackets and for nothing else."""
        self._parse("ipv6", ipv6_vector)

    def test_selects_slot(self, slot_vector: SlotVector) -> None:
        """A scheduler takes the slot that tells its replica apart."""
        ranks = {
            "attn_dp_size": slot_vector.attn_dp_size,
            "attn_dp_rank": slot_vector.attn_dp_rank,
            "dp_rank": slot_vector.dp_rank,
        }
        finding = judge_value(
            slot_vector.expect,
            ask(lambda: self.slot(**ranks)),  # type: ignore[arg-type]  # the sizes are integers
            rule="R2",
            asked=shown(ranks),
        )
        self.hold(finding, rule="R2", case=slot_vector.id, why=slot_vector.why)

    def test_gates(self, gate_vector: GateVector) -> None:
        """One scheduler publishes for each independent KV cache."""
        ranks: dict[str, Any] = {
            "kv_events_config": gate_vector.config,
            "pp_rank": gate_vector.pp_rank,
            "attn_tp_rank": gate_vector.attn_tp_rank,
            "attn_cp_rank": gate_vector.attn_cp_rank,
        }
        outcome = ask(lambda: bool(self.publishes(**ranks)))
        finding = judge_value(gate_vector.expect, outcome, rule="R1", asked=shown(ranks))
        self.hold(finding, rule="R1", case=gate_vector.id, why=gate_vector.why)

    def test_binds_what_is_owed(self, bound_vector: ResolveVector) -> None:
        """Slot r binds base + r of the range that is owed, and nothing where there is none."""
        vector = bound_vector
        expect = self.chosen(vector.expect, rule="R3")
        place = (expect.host, expect.base) if isinstance(expect, Range) else None
        engine = Engine(
            vector.kv_endpoint,
            0,
            vector.replay_endpoint,
            None,
            vector.dp_size,
            vector.load_publish_endpoint,
        )
        finding = self._unbound(engine, place, "wrong-range")
        finding = self.declared(finding, vector.expect)
        self.hold(finding, rule="R3", case=f"{vector.id}/binds", why=vector.why)

    def test_binds_what_it_resolves(self, bound_group: str) -> None:
        """The publisher binds what the resolver answers, over a grid of engines."""
        finding = None
        for engine in grid(bound_group):
            outcome = self._resolved(engine.asked)
            if isinstance(outcome, Crashed):
                finding = Finding("crashed", "E7", "an answer", str(outcome), Hazard.NONE)
            else:
                place = None if outcome.host is None else (outcome.host, outcome.base or 0)
                finding = self._unbound(engine, place, "disagrees")
            if finding is not None:
                break
        why = "publisher and advertisement ask one resolver"
        self.hold(finding, rule="E7", case=f"grid-{bound_group}", why=why)

    @classmethod
    def _vectors(cls, kind: type) -> list[Any]:
        return [vector for vector in load().endpoints if isinstance(vector, kind)]

    @classmethod
    def _resolves(cls) -> Iterator[tuple[str, str, object]]:
        yield from ((v.rule, v.id, v) for v in cls._vectors(ResolveVector))

    @classmethod
    def _clear(cls) -> Iterator[tuple[str, str, object]]:
        yield from (("E2", f"grid-{group}", group) for group in KV_HOSTS)

    @classmethod
    def _parses(cls, part: str) -> Iterator[tuple[str, str, object]]:
        for vector in cls._vectors(ParseVector):
            # A socket is not opened on nothing.
            if part != "ipv6" or vector.endpoint is not None:
                yield vector.rule, f"{vector.id}/{part}", vector

    @classmethod
    def _slots(cls) -> Iterator[tuple[str, str, object]]:
        yield from ((v.rule, v.id, v) for v in cls._vectors(SlotVector))

    @classmethod
    def _gates(cls) -> Iterator[tuple[str, str, object]]:
        yield from ((v.rule, v.id, v) for v in cls._vectors(GateVector))

    @classmethod
    def _bound(cls) -> Iterator[tuple[str, str, object]]:
        yield from (("R3", f"{v.id}/binds", v) for v in cls._vectors(ResolveVector))

    @classmethod
    def _agreements(cls) -> Iterator[tuple[str, str, object]]:
        yield from (("E7", f"grid-{group}", group) for group in KV_HOSTS)

    def _resolved(self, asked: dict[str, Any]) -> Resolution | Crashed:
        answer = ask(lambda: self.resolve(**asked))
        return answer if isinstance(answer, Crashed) else self.resolution(answer.value)

    def _parse(self, part: str, vector: ParseVector) -> None:
        case = f"{vector.id}/{part}"
        expect = self.chosen(vector.expect, rule=vector.rule)
        owed = getattr(expect, part)
        if part in ("advertisable", "bindable") and owed is not None:
            owed = (owed.host, owed.port)
        try:
            value = getattr(self, PARTS[part])(vector.endpoint)
        except ValueError:
            outcome: Read | Crashed = Read(None if part != "ipv6" else False)
        except Exception as crash:  # whatever it is, that is the finding
            outcome = Crashed.of(crash)
        else:
            outcome = Read(_pair(value) if part in ("advertisable", "bindable") else value)
        asked = f"the {part} part of {vector.endpoint!r}"
        bracketless = isinstance(outcome, Read) and _without_brackets(owed) == outcome.value != owed
        finding = judge_value(owed, outcome, rule="A3" if bracketless else vector.rule, asked=asked)
        finding = self.declared(finding, vector.expect)
        self.hold(finding, rule=vector.rule, case=case, why=vector.why)

    def _unbound(self, engine: Engine, place: tuple[str, int] | None, deed: Any) -> Finding | None:
        """The first slot that does not bind its port of a range, or binds without one."""
        for slot in range(max(engine.dp_size, 1)):
            asked: dict[str, Any] = {
                "kv_events_config": config(engine.kv_endpoint, engine.replay_endpoint),
                "dp_size": engine.dp_size,
                "load_publish_endpoint": engine.mode,
                "slot": slot,
            }
            owed = None if place is None else endpoint(place[0], place[1] + slot)
            outcome = ask(lambda asked=asked: self.binds(**asked))  # type: ignore[misc]
            expected = f"{owed or 'no socket'} for {shown(asked)}"
            if isinstance(outcome, Crashed):
                return Finding("crashed", "R3", expected, str(outcome), Hazard.NONE)
            if outcome.value != owed:
                bare = owed is not None and str(outcome.value).replace("[", "").replace(
                    "]", ""
                ) == owed.replace("[", "").replace("]", "")
                rule = "E8" if bare else "E7" if None in (owed, outcome.value) else "R3"
                got = "no socket" if outcome.value is None else str(outcome.value)
                return Finding(deed, rule, expected, got, Hazard.NONE)
        return None


def endpoint(host: str, port: int) -> str:
    """A ``tcp://`` text, IPv6 in brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _bare(host: object) -> str:
    text = str(host)
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def _without_brackets(place: Any) -> object:
    return (_bare(place[0]), place[1]) if isinstance(place, tuple) else None


def _pair(value: Any) -> object:
    if isinstance(value, tuple | list):
        return tuple(value)
    if hasattr(value, "host") and hasattr(value, "port"):
        return (value.host, value.port)
    return value
