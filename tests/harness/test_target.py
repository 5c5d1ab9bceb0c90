"""Dotted paths and replacements."""

from __future__ import annotations

from types import ModuleType

import pytest

from pytest_loadwire.harness.target import Replacement, resolve


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
