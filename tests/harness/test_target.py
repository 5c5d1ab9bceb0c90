"""Dotted paths and replacements."""

from __future__ import annotations

from types import ModuleType

import pytest

from pytest_loadwire.harness.target import Replacement, TargetError, resolve


def test_a_path_leads_to_owner_and_name(engine: ModuleType) -> None:
    """The longest importable front is the module, and the rest are attributes."""
    assert resolve("toy_engine.open_socket") == (engine, "open_socket")
    assert resolve("toy_engine.Publisher.open") == (engine.Publisher, "open")
    assert resolve("os.path.join")[1] == "join"


def test_an_inherited_attribute_is_removed_again(engine: ModuleType) -> None:
    """Replacing what a class inherits leaves nothing of its own behind."""
    replacement = Replacement(engine.Child, "open", None)
    assert engine.Child.open is None
    assert engine.Publisher.open is not None
    replacement.undo()
    replacement.undo()
    assert "open" not in vars(engine.Child)


def test_somebody_elses_replacement_stays(
    engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undoing leaves alone what was put there since."""
    replacement = Replacement(engine, "LOG", 1)
    monkeypatch.setattr(engine, "LOG", 2)
    replacement.undo()
    assert engine.LOG == 2


def test_a_function_is_no_path(engine: ModuleType) -> None:
    """A function or another object in place of its path is refused, and the text says so."""
    takes = "a capture takes a dotted path, such as 'engine.load.open_socket', not "
    for given, called in [(engine.open_socket, "a function"), (None, "None")]:
        with pytest.raises(TargetError) as caught:
            resolve(given)
        assert takes + called == str(caught.value)


@pytest.mark.parametrize("path", ["no_such_engine.open_socket", "toy_engine.no_such_name"])
def test_a_path_that_leads_nowhere_has_no_second_traceback(engine: ModuleType, path: str) -> None:
    """The lookup that failed says nothing more than the error does, and is not shown."""
    with pytest.raises(TargetError) as caught:
        resolve(path)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
