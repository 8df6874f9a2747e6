"""Options of finding mentions for the library, the spaCy components and the command line."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from medlink.linking.options import LanguageOption, PathOption
from medlink.settings import Settings, option

Detector = Annotated[
    Literal["builtin", "scispacy", "none"],
    BeforeValidator(lambda value: ("none", "builtin")[value] if isinstance(value, bool) else value),
    Field(
        description="Who finds the abbreviations that a note explains: medlink's own detector, scispaCy's, which comes "
        "with medlink[scispacy], or none."
    ),
]
Qualify = Annotated[
    bool,
    Field(
        description="Read whether each mention is present, absent or uncertain, of now or before, of the patient or "
        "another person, and its section; a heading is then no mention."
    ),
]


class FinderOptions(Settings):
    """Options of :class:`medlink.reading.reader.TextReader`."""

    language: LanguageOption = option(None, "Language of the notes.")
    other_languages: bool = option(
        True, "Also find names of the bundle's other languages, such as Latin terms in a German note."
    )
    semantic_types: tuple[str, ...] = option((), "Only concepts of this semantic type; may be repeated.", strict=False)
    verbatim: bool = option(
        False, "Find names only as the bundle writes them, in any inflection; quicker, and finds less."
    )
    values: bool = option(False, "Also find measured values that are findings, such as 'Hb 7,9' or 'SpO2 88 %'.")
    abbreviations: Detector = "builtin"
    qualifiers: Qualify = True
    present_only: bool = option(
        False,
        "Leave out mentions that are absent, uncertain or hypothetical, or not of the patient; "
        "what was present before stays.",
    )
    learned: PathOption = option(
        None, "File of mentions from 'medlink learn', to be linked here as in the annotated notes."
    )

    @model_validator(mode="after")
    def _need_qualifiers(self) -> Self:
        if self.present_only and not self.qualifiers:
            raise ValueError("present_only needs qualifiers, which are switched off")
        return self
