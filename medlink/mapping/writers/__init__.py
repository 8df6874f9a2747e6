"""Writers of maps, one file for each format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from medlink.mapping.options import Shape
from medlink.mapping.writers.jsonl import JsonlWriter
from medlink.mapping.writers.omop import OmopWriter
from medlink.mapping.writers.protocol import Context, MapWriter
from medlink.mapping.writers.sssom import SssomWriter
from medlink.mapping.writers.usagi import UsagiWriter

__all__ = ["WRITERS", "Context", "JsonlWriter", "MapWriter", "OmopWriter", "SssomWriter", "UsagiWriter"]
WRITERS: dict[Shape, Callable[[TextIO, Context], MapWriter]] = {
    "usagi": UsagiWriter,
    "source-to-concept-map": OmopWriter,
    "sssom": SssomWriter,
    "jsonl": JsonlWriter,
}
