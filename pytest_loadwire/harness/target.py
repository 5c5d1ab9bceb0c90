"""Dotted paths: finding what one names, and replacing it for a while."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from pytest_loadwire.errors import LoadwireError

_MISSING = object()


class TargetError(LoadwireError, LookupError):
    """A dotted path does not lead to what is needed there. The text says where it ends."""


def resolve(path: str) -> tuple[object, str]:
    """The owner and the attribute name that ``package.module.Class.attribute`` stands for.

    The longest importable front is the module; the rest are attributes.

    Raises:
        TargetError: The path is no string or has no dot, no front of it can be imported, or an
            attribute is missing. An import that fails for a reason of its own raises that reason.
    """
    __tracebackhide__ = True
    given: object = path
    if not isinstance(given, str):
        what = "a function" if inspect.isroutine(given) else repr(given)
        raise TargetError(
            f"a capture takes a dotted path, such as 'engine.load.open_socket', not {what}"
        )
    parts = path.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise TargetError(f"{path!r} is no dotted path such as 'engine.module.open_socket'")
    owner, depth = _import_front(path, parts)
    for index, name in enumerate(parts[depth:-1], depth):
        owner = _attribute(path, owner, name, parts[:index])
    _attribute(path, owner, parts[-1], parts[:-1])
    return owner, parts[-1]


def _import_front(path: str, parts: list[str]) -> tuple[object, int]:
    __tracebackhide__ = True
    module: object = None
    for depth in range(1, len(parts)):
        name = ".".join(parts[:depth])
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            # A module that is not there ends the front; one that misses an import of its own fails.
            if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
                raise
            if depth == 1:
                raise TargetError(f"{path!r}: there is no module {name!r}") from None
            return module, depth - 1
    return module, len(parts) - 1


def _attribute(path: str, owner: object, name: str, so_far: list[str]) -> object:
    __tracebackhide__ = True
    try:
        return getattr(owner, name)
    except AttributeError:
        raise TargetError(f"{path!r}: {'.'.join(so_far)!r} has no {name!r}") from None


class Replacement:
    """An attribute of a module or class, replaced until `undo`.

    Undoing is careful: what somebody else has put there since stays, as it is theirs to undo.

    Args:
        owner: The module or class.
        name: The attribute.
        value: What to put there.
    """

    def __init__(self, owner: object, name: str, value: object) -> None:
        self._owner = owner
        self._name = name
        self._value = value
        self._before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put back what was there. Idempotent."""
        if vars(self._owner).get(self._name, _MISSING) is not self._value:
            return
        if self._before is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


def own_attribute(owner: object, name: str) -> Any:
    """What ``owner`` holds under ``name``, with a method's descriptor still around it."""
    return inspect.getattr_static(owner, name)
