"""Engines that advertise wrongly, or start where they should not, beside one that is right."""

# nothing here binds the wildcard hosts

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pytest_loadwire import DiscoveryContract, discovery, endpoints
from pytest_loadwire.discovery import KVEventsConfig, KVEventsConfigError

POLICIES = {"LooseEndpoint": "strict", "UrlCredentials": "refuse"}
LOAD_KEYS = ("load_endpoint_port_base", "load_topic")


class Ours(DiscoveryContract):
    """Both sides of this package, with every hook. Each wrong one replaces a step."""

    policies = POLICIES

    def describe(self, *, kv_events_config: str | None, **engine: Any) -> Any:
        return discovery.kv_events_block(kv_events_config, **engine)

    def server_info(self, **engine: Any) -> Any:
        return {"version": "1", "kv_events": self.describe(**engine)}

    def check_args(self, **engine: Any) -> object:
        return discovery.check_load_publish_args(**engine)

    def plan(self, worker_url: str, block: Any) -> Any:
        return discovery.plan(worker_url, block)

    def binds(self, *, kv_events_config: str | None, slot: int, **engine: Any) -> str | None:
        try:
            place = KVEventsConfig.from_cli(kv_events_config or "").load_range(**engine)
        except KVEventsConfigError:
            return None
        return place.endpoint(slot) if isinstance(place, endpoints.LoadRange) else None


WRONG: dict[type[DiscoveryContract], frozenset[str]] = {}


def wrong(*rules: str) -> Callable[[type[DiscoveryContract]], type[DiscoveryContract]]:
    """Note a side that is wrong, with the rules that have to catch it."""

    def note(side: type[DiscoveryContract]) -> type[DiscoveryContract]:
        WRONG[side] = frozenset(rules)
        return side

    return note


class Block(Ours):
    """An engine whose block is changed on its way out."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        raise NotImplementedError

    def describe(self, **engine: Any) -> Any:
        block = super().describe(**engine)
        return None if block is None else self.change(dict(block), engine)


@wrong("A4")
class RaisesOnBadJson(Ours):
    """The route answers 500 for a configuration that does not parse."""

    def describe(self, *, kv_events_config: str | None, **engine: Any) -> Any:
        if kv_events_config:
            json.loads(kv_events_config)
        return super().describe(kv_events_config=kv_events_config, **engine)


@wrong("A4")
class EmptyBlock(Ours):
    """No block is an empty one."""

    def describe(self, **engine: Any) -> Any:
        return super().describe(**engine) or {}


@wrong("A4")
class AnyPage(Ours):
    """A page size that is missing is a placeholder of 1."""

    def describe(self, *, page_size: int | None, **engine: Any) -> Any:
        page = page_size if page_size and page_size > 0 else 1
        return super().describe(page_size=page, **engine)


@wrong("A4", "E8")
class AnyEndpoint(Ours):
    """The block is there whatever the endpoint is."""

    def describe(self, *, kv_events_config: str | None, **engine: Any) -> Any:
        block = super().describe(kv_events_config=kv_events_config, **engine)
        try:
            config = json.loads(kv_events_config or "x")
        except ValueError:
            return block
        if block or not isinstance(config, dict):
            return block
        text = str(config.get("endpoint", "tcp://*:5557"))
        host, _, port = text.rpartition("://")[2].rpartition(":")
        number = int(port) if port.lstrip("-").isdigit() else 5557
        return {"endpoint_host": host, "endpoint_port_base": number, "topic": ""}


@wrong("A4")
class NullIsAPublisher(Ours):
    """The publisher null is described like any other."""

    def describe(self, *, kv_events_config: str | None, **engine: Any) -> Any:
        config = (kv_events_config or "").replace('"null"', '"zmq"')
        return super().describe(kv_events_config=config, **engine)


@wrong("A1", "A2")
class NoBlock(Ours):
    """Nothing is ever advertised."""

    def describe(self, **engine: Any) -> Any:
        return None


@wrong("A2")
class DefaultOn(Ours):
    """Unset and blank are auto."""

    def describe(self, *, load_publish_endpoint: str | None, **engine: Any) -> Any:
        mode = (load_publish_endpoint or "").strip() or "auto"
        return super().describe(load_publish_endpoint=mode, **engine)


@wrong("A2")
class OffIsAuto(Ours):
    """Off is not known, in no case."""

    def describe(self, *, load_publish_endpoint: str | None, **engine: Any) -> Any:
        mode = (load_publish_endpoint or "").lower().replace("off", "auto")
        return super().describe(load_publish_endpoint=mode, **engine)


@wrong("A2")
class BaseWithoutTopic(Block):
    """The base alone."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {key: value for key, value in block.items() if key != "load_topic"}


@wrong("A2")
class TopicAlways(Block):
    """The topic stands there without a base."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {**block, "load_topic": "load"}


@wrong("A2")
class NullLoadKeys(Block):
    """Load keys without a range are null in place of missing."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {**dict.fromkeys(LOAD_KEYS), **block}


@wrong("A2")
class LoadAnyway(Block):
    """The base is derived where the resolver declines."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        base = block["endpoint_port_base"] + block["dp_size"]
        return {"load_endpoint_port_base": base, "load_topic": "load", **block}


@wrong("E7")
class DerivedBase(Block):
    """The base is derived and not asked for: neither a replay range nor an address counts."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        base = block["endpoint_port_base"] + block["dp_size"]
        return {**block, "load_endpoint_port_base": base} if "load_topic" in block else block


@wrong("A3")
class UnbracketedHost(Block):
    """An IPv6 host without brackets."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {**block, "endpoint_host": block["endpoint_host"].strip("[]")}


@wrong("A1")
class KeyMissing(Block):
    """One of the six keys is missing."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {key: value for key, value in block.items() if key != "dp_size"}


@wrong("A1")
class PortAsText(Block):
    """A port is text."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {**block, "endpoint_port_base": str(block["endpoint_port_base"])}


@wrong("A1")
class PublisherRenamed(Block):
    """The publisher goes by another name."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {**block, "publisher": "ZmqEventPublisher"}


@wrong("A1")
class UnknownKeysRefused(Ours):
    """A configuration with a key of a later version is not described."""

    def describe(self, *, kv_events_config: str | None, **engine: Any) -> Any:
        config = None if "later" in (kv_events_config or "") else kv_events_config
        return super().describe(kv_events_config=config, **engine)


@wrong("A1")
class KeyMissingWhenNull(Ours):
    """/server_info leaves the key out where it would be null."""

    def server_info(self, **engine: Any) -> Any:
        return {key: value for key, value in super().server_info(**engine).items() if value}


@wrong("A1")
class ServerInfoRaises(Ours):
    """/server_info fails where there is no configuration."""

    def server_info(self, **engine: Any) -> Any:
        assert engine["kv_events_config"]
        return super().server_info(**engine)


@wrong("V1", "E7")
class ChecksNothing(Ours):
    """Every engine starts."""

    def check_args(self, **engine: Any) -> object:
        return None


@wrong("V1", "E7")
class ChecksKVOnly(Ours):
    """That there are KV events is checked, and no range."""

    def check_args(self, *, kv_events_config: str | None, **engine: Any) -> object:
        try:
            return super().check_args(kv_events_config=kv_events_config, **engine)
        except discovery.LoadPublishArgsError as error:
            if error.reason is endpoints.DeclineReason.NO_KV_EVENTS:
                raise
        return None


@wrong("V1")
class ChecksWhenOff(Ours):
    """A broken KV configuration stops an engine that was not asked to publish load."""

    def check_args(self, *, load_publish_endpoint: str | None, **engine: Any) -> object:
        mode = (load_publish_endpoint or "").strip().lower()
        mode = "auto" if mode in ("", "off") else load_publish_endpoint or ""
        return super().check_args(load_publish_endpoint=mode, **engine)


@wrong("V1")
class OffAsWritten(Ours):
    """Only `off` is off, not `OFF`."""

    def check_args(self, *, load_publish_endpoint: str | None, **engine: Any) -> object:
        if load_publish_endpoint and load_publish_endpoint != load_publish_endpoint.strip().lower():
            raise ValueError("no such mode")
        return super().check_args(load_publish_endpoint=load_publish_endpoint, **engine)


@wrong("V1")
class RaisesSomethingElse(Ours):
    """A refusal is no ValueError, so the entry point shows a traceback."""

    def check_args(self, **engine: Any) -> object:
        try:
            return super().check_args(**engine)
        except ValueError as error:
            raise KeyError(str(error)) from error


@wrong("V1")
class RefusesWithoutAWord(Ours):
    """A refusal does not say why."""

    def check_args(self, **engine: Any) -> object:
        try:
            return super().check_args(**engine)
        except ValueError:
            raise ValueError from None


@wrong("V1")
class OneTextForAll(Ours):
    """A refusal does not say which."""

    def check_args(self, **engine: Any) -> object:
        try:
            return super().check_args(**engine)
        except ValueError:
            raise ValueError("bad arguments") from None


@wrong("V1")
class OneReasonForAll(Ours):
    """Every refusal has the same reason code."""

    def check_args(self, **engine: Any) -> object:
        try:
            return super().check_args(**engine)
        except discovery.LoadPublishArgsError as error:
            reason = endpoints.DeclineReason.NO_KV_EVENTS
            if error.reason is reason:
                reason = endpoints.DeclineReason.NOT_BINDABLE
            raise discovery.LoadPublishArgsError(reason, error.text) from error


@wrong("V1")
class RefusesAll(Ours):
    """Whoever asks for load is refused."""

    def check_args(self, **engine: Any) -> object:
        super().check_args(**engine)
        if endpoints.is_load_publish_asked(engine["load_publish_endpoint"]):
            raise ValueError("not supported")
        return None


@wrong("V1")
class MustBeAsked(Ours):
    """An engine has to say where it publishes load."""

    def check_args(self, **engine: Any) -> object:
        if not endpoints.is_load_publish_asked(engine["load_publish_endpoint"]):
            raise ValueError("--load-publish-endpoint is missing")
        return super().check_args(**engine)


@wrong("E7")
class AdvertisedNotBound(Ours):
    """The publisher binds nothing."""

    def binds(self, **engine: Any) -> str | None:
        return None


@wrong("E7")
class BoundNotAdvertised(Block):
    """The block never has load keys."""

    def change(self, block: dict[str, Any], engine: dict[str, Any]) -> Any:
        return {key: value for key, value in block.items() if key not in LOAD_KEYS}


@wrong("E7")
class AllOnOnePort(Ours):
    """Every slot binds the base."""

    def binds(self, *, slot: int, **engine: Any) -> str | None:
        return super().binds(slot=0, **engine)
