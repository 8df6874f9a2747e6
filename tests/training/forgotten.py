"""Modules that a test lets be imported again."""

from __future__ import annotations

import importlib
import sys

import pytest


def forget(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let modules of ``medlink.training`` be imported again; afterwards they are what they were."""
    for module in modules:
        found = importlib.import_module(f"medlink.training.{module}")
        package, _, name = found.__name__.rpartition(".")
        # set to what it is, so that it is that again afterwards: an import sets it as well
        monkeypatch.setattr(sys.modules[package], name, found)
        monkeypatch.delitem(sys.modules, found.__name__)
