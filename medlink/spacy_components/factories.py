"""The factories that spaCy's entry points name, and the options of the components.

spaCy imports this module in every program that looks up any factory, so a factory imports its component when called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from spacy.language import Language

from medlink.linking.options import LinkOptions
from medlink.reading.options import Detector, FinderOptions, Qualify
from medlink.settings import Settings, option

SPANS_KEY = "medlink"
"""Span group that ``medlink_mentions`` writes and ``biolord_linker`` reads."""
BundleFolder = Annotated[
    str | None, Field(description="Folder of the bundle  [default: MEDLINK_BUNDLE, else the demo bundle]")
]


class MentionsOptions(FinderOptions):
    """Options of ``medlink_mentions``; the default of ``language`` is the language of the pipeline."""

    bundle: BundleFolder = None
    spans_key: str = option(SPANS_KEY, "Span group that is written.")


class LinkerOptions(LinkOptions):
    """Options of ``biolord_linker``; the default of ``language`` is the language of the pipeline."""

    bundle: BundleFolder = None
    abbreviations: Detector = "builtin"
    qualifiers: Qualify = True
    spans_key: str | None = option(
        None, "Span group to link  [default: the entities, and the group medlink where there is one]"
    )


def _factory(name: str, component: str, options: type[Settings], **meta: Any) -> Callable[..., Any]:
    """Register the factory of a component; spaCy validates a configuration by its signature, the options."""

    def make(nlp: Language, name: str, **values: Any) -> Any:
        components = importlib.import_module("medlink.spacy_components.components")
        return getattr(components, component)(nlp.vocab, name, **values)

    fields = options.model_fields.items()
    make.__signature__ = Signature(  # type: ignore[attr-defined]  # read by inspect and spaCy
        [Parameter(field, Parameter.POSITIONAL_OR_KEYWORD) for field in ("nlp", "name")]
        + [Parameter(field, Parameter.KEYWORD_ONLY, annotation=_type(info)) for field, info in fields]
    )
    Language.factory(name, default_config=options().to_dict(), func=make, **meta)
    return make


def _type(field: FieldInfo) -> Any:
    """Return the type of an option in a configuration, which is JSON: lists replace tuples."""
    if any(isinstance(item, BeforeValidator) for item in field.metadata):
        return Any  # the validator accepts other types
    return list[str] if field.annotation == tuple[str, ...] else field.annotation


make_mention_finder = _factory(
    "medlink_mentions", "MedlinkMentions", MentionsOptions, assigns=["doc.ents", "doc.spans"]
)
make_linker = _factory(
    "biolord_linker", "BiolordLinker", LinkerOptions,
    requires=["doc.ents"], assigns=["doc.ents", "doc.spans", "span._.kb_ents", "span._.medlink"],
)  # fmt: skip
