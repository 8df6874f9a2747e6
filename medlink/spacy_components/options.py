"""Options of the components: those of the finder and of the linker, the bundle, and the span group."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from medlink.linking.options import LinkOptions
from medlink.reading.options import Detector, FinderOptions, Qualify

SPANS_KEY = "medlink"
"""Span group that ``medlink_mentions`` writes and ``biolord_linker`` reads."""
BundleFolder = Annotated[
    str | None, Field(description="Folder of the bundle  [default: MEDLINK_BUNDLE, else the demo bundle]")
]


class MentionsOptions(FinderOptions):
    """Options of ``medlink_mentions``; ``language`` is that of the pipeline unless given."""

    bundle: BundleFolder = None
    spans_key: Annotated[str, Field(description="Span group that is written.")] = SPANS_KEY


class LinkerOptions(LinkOptions):
    """Options of ``biolord_linker``; ``language`` is that of the pipeline unless given."""

    bundle: BundleFolder = None
    abbreviations: Detector = "builtin"
    qualifiers: Qualify = True
    spans_key: Annotated[
        str | None,
        Field(description="Span group to link  [default: the entities, and the group medlink where there is one]"),
    ] = None
