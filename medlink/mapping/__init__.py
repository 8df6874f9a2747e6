"""Mapping of local codes to the concepts of a bundle, with the file formats of Usagi, OMOP and SSSOM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medlink.lazy import lazy_getattr
from medlink.mapping.options import Columns, MapOptions

if TYPE_CHECKING:
    from medlink.mapping.codes import CodeMapping, SourceCode, Target
    from medlink.mapping.proposals import Mapper
    from medlink.mapping.run import MapReport, map_codes

__all__ = ["CodeMapping", "Columns", "MapOptions", "MapReport", "Mapper", "SourceCode", "Target", "map_codes"]
__getattr__ = lazy_getattr(
    __name__, {"codes": "CodeMapping SourceCode Target", "proposals": "Mapper", "run": "MapReport map_codes"}
)
