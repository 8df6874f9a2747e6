"""The folder of the data that ships with medlink."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

RESOURCES = Path(str(resources.files("medlink"))) / "resources"
