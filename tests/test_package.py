"""The package as a whole: what its import costs, its layers, and that it explains itself."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pytest_loadwire

PACKAGE = Path(pytest_loadwire.__file__).parent

# Each module may import from those before it and never from one behind it.
LAYERS = [
    "rules",
    "errors",
    "deadline",
    "socket_mode",
    "closing",
    "interrupt",
    "tokens",
    "exact",
    "siblings",
    "wire",
    "annotate",
    "hextext",
    "endpoints",
    "discovery",
    "target",
    "planning",
    "vectors",
    "judge",
    "explain",
    "address_judge",
    "witness",
    "reader",
    "conform",
    "report",
    "skew",
    "golden",
    "evolution",
    "engine",
    "router",
    "tail_state",
    "tail",
    "harness",
    "contract",
    "reference",
    "check",
    "observe",
    "plugin",
    "commands",
    "cli",
]
MOST_LINES = 450
HEAVY = ["cffi", "_cffi_backend", "msgpack", "msgspec", "zmq"]
GENERATED = {"harness/_abi.py"}


def modules() -> list[str]:
    """Every module that is written by hand, relative to the package."""
    return sorted(
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in GENERATED
    )


def load(module: str) -> ModuleType:
    parts = module.removesuffix(".py").removesuffix("/__init__").split("/")
    return importlib.import_module(
        ".".join(["pytest_loadwire", *(p for p in parts if p != "__init__")])
    )


def loaded_by(code: str) -> set[str]:
    """Which heavy modules a fresh process has loaded after some code."""
    watch = f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; {watch}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


class TestPublicNames:
    def test_import_is_light(self) -> None:
        """Importing the package, its codes and its errors loads nothing heavy."""
        assert set() == loaded_by("import pytest_loadwire; dir(pytest_loadwire)")
        light = "from pytest_loadwire import LoadwireError, WireError, __version__"
        assert set() == loaded_by(light)
        assert set() == loaded_by("import pytest_loadwire.plugin, pytest_loadwire.rules")

    def test_used_is_loaded(self) -> None:
        """A name loads what it needs, and no more."""
        assert {"msgspec"} == loaded_by("from pytest_loadwire import LoadStat")

    @pytest.mark.parametrize("name", pytest_loadwire.__all__)
    def test_name(self, name: str) -> None:
        """Every public name is there, once it is asked for in a fresh process too."""
        value = getattr(pytest_loadwire, name)
        assert name in dir(pytest_loadwire)
        if name not in ("__version__", "LoadStat"):
            assert name == value.__name__
        code = f"from pytest_loadwire import {name} as value; assert value is not None"
        subprocess.run([sys.executable, "-c", code], timeout=60, check=True)

    def test_all_is_sorted_and_whole(self) -> None:
        """The names are those that type checkers see."""
        tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
        seen = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_")
            for alias in node.names
        }
        assert {"__version__", *seen} == set(pytest_loadwire.__all__)
        assert len(set(pytest_loadwire.__all__)) == len(pytest_loadwire.__all__)

    def test_unknown_name(self) -> None:
        """Another name is an AttributeError that says so."""
        with pytest.raises(
            AttributeError, match="module 'pytest_loadwire' has no attribute 'LoadState'"
        ):
            pytest_loadwire.LoadState  # noqa: B018

    def test_typed(self) -> None:
        """The package says that it is typed."""
        assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("module", modules())
class TestModules:
    def test_length(self, module: str) -> None:
        """A module is one idea, and short enough to read at once."""
        lines = (PACKAGE / module).read_text("utf-8").count("\n")
        assert lines <= MOST_LINES

    def test_layers(self, module: str) -> None:
        """A module imports from the layers below it and never from one above."""
        own = module.removesuffix(".py").split("/")[0]
        # The package's own names come from any layer.
        height = len(LAYERS) if own == "__init__" else LAYERS.index(own)
        tree = ast.parse((PACKAGE / module).read_text("utf-8"))
        for node in ast.walk(tree):
            for name in imported(node):
                layer = name.split(".")[1] if "." in name else own
                if layer in LAYERS:
                    assert LAYERS.index(layer) <= height, ast.unparse(node)
                assert layer in LAYERS or layer == "__version__", ast.unparse(node)

    def test_docstrings(self, module: str) -> None:
        """Every public name says what it is."""
        loaded = load(module)
        assert (loaded.__doc__ or "").strip()
        for name, value in vars(loaded).items():
            own = getattr(value, "__module__", None) == loaded.__name__
            if name.startswith("_") or not own or not (inspect.isclass(value) or callable(value)):
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                assert (value.__doc__ or "").strip(), name
            if inspect.isclass(value):
                for attribute, member in vars(value).items():
                    function = getattr(member, "fget", getattr(member, "__func__", member))
                    if inspect.isfunction(function) and not attribute.startswith("_"):
                        assert (inspect.getdoc(getattr(value, attribute)) or "").strip(), attribute

    def test_examples(self, module: str) -> None:
        """The examples in docstrings are true."""
        if ">>>" in (PACKAGE / module).read_text("utf-8"):
            failed, attempted = doctest.testmod(load(module))
            assert (failed, attempted > 0) == (0, True)


def imported(node: ast.AST) -> list[str]:
    """The modules of this package that a statement imports, as dotted names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.startswith("pytest_loadwire.")]
    if isinstance(node, ast.ImportFrom) and node.module == "pytest_loadwire":
        return [f"pytest_loadwire.{alias.name}" for alias in node.names]
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_loadwire."):
        return [str(node.module)]
    return []


def test_no_relative_imports() -> None:
    """Modules import by full name, so that the layers can be seen."""
    for module in modules():
        for node in ast.walk(ast.parse((PACKAGE / module).read_text("utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), module
