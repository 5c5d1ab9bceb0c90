"""The contract kit for SGLang's ZeroMQ load socket.

Engines publish their load as ``[b"load", sequence, msgpack ["LoadStat", ...]]``; routers decode it
by position. This package is what both sides test against. The names below are loaded on first use,
so that a pytest run which asks for nothing of ours pays for nothing of ours.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_loadwire.contract.base import Deviation as Deviation
    from pytest_loadwire.contract.decoder import DecoderContract as DecoderContract
    from pytest_loadwire.contract.discovery import DiscoveryContract as DiscoveryContract
    from pytest_loadwire.contract.endpoint import EndpointContract as EndpointContract
    from pytest_loadwire.contract.publisher import PublisherContract as PublisherContract
    from pytest_loadwire.contract.scheduler import SchedulerContract as SchedulerContract
    from pytest_loadwire.contract.subscriber import SubscriberContract as SubscriberContract
    from pytest_loadwire.contract.wire import WireContract as WireContract
    from pytest_loadwire.errors import LoadwireError as LoadwireError
    from pytest_loadwire.errors import WireError as WireError
    from pytest_loadwire.wire import LoadStat as LoadStat
    from pytest_loadwire.wire import LoadStatRev1 as LoadStatRev1
    from pytest_loadwire.wire import LoadStatRev2 as LoadStatRev2
    from pytest_loadwire.wire import Message as Message

__version__ = "0.1.0"

_HOME = {
    "DecoderContract": "contract.decoder",
    "Deviation": "contract.base",
    "DiscoveryContract": "contract.discovery",
    "EndpointContract": "contract.endpoint",
    "LoadStat": "wire",
    "LoadStatRev1": "wire",
    "LoadStatRev2": "wire",
    "LoadwireError": "errors",
    "Message": "wire",
    "PublisherContract": "contract.publisher",
    "SchedulerContract": "contract.scheduler",
    "SubscriberContract": "contract.subscriber",
    "WireContract": "contract.wire",
    "WireError": "errors",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - the names are the keys above


def __getattr__(name: str) -> object:
    """Load a public name from its module on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
