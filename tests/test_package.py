"""What ``medlink`` exports: names that are imported on first use, with their true types."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import medlink

LAZY = {name: f"medlink.{module}" for module, names in medlink._MODULES.items() for name in names.split()}


def test_every_lazy_name_is_typed_from_the_module_it_comes_from() -> None:
    tree = ast.parse(Path(medlink.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == LAZY
    assert set(LAZY) <= set(medlink.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["kb", "linking", "training", "training.biolord"])
def test_lazy_names_of_a_package_are_those_of_its_types(package: str) -> None:
    module = importlib.import_module(f"medlink.{package}")
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = [node for node in block.body if isinstance(node, ast.ImportFrom) and str(node.module).startswith("medlink")]
    names = {alias.name: str(node.module) for node in typed for alias in node.names}
    assert names
    assert names.keys() <= set(module.__all__)
    for name, source in names.items():
        assert getattr(module, name) is getattr(importlib.import_module(source), name)
    with pytest.raises(AttributeError, match=f"module 'medlink.{package}' has no attribute 'Linkr'"):
        _ = module.Linkr


@pytest.mark.slow
def test_every_name_can_be_imported_and_is_documented() -> None:
    for name in medlink.__all__:
        value = getattr(medlink, name)
        if name in LAZY:
            assert value is getattr(importlib.import_module(LAZY[name]), name)
            assert value.__doc__, name
    with pytest.raises(AttributeError, match="'medlink' has no attribute 'Linkr'"):
        _ = medlink.Linkr  # type: ignore[attr-defined]  # that is the point
