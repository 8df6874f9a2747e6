"""The words and terms of a lexicon as names of concepts: what an encoder learns first of a language."""

from __future__ import annotations

from collections.abc import Iterator

from medlink.language.lexicon.lexicon import Lexicon
from medlink.language.lexicon.tables import WHOLE
from medlink.language.text import normalise
from medlink.records import Name

_FORMS = 2  # forms of an abbreviation that are names
LEXICON = "LEXICON"
"""Source of the names that are the lexicon's own."""


def lexicon_names(lexicon: Lexicon) -> Iterator[Name]:
    """Each meaning as a concept ``LEX:number``, its unambiguous words, expressions and safe abbreviations as names.

    Verbs and combining forms are left out; of irregular plurals the first counts.
    """
    rows: set[tuple[str, str, str]] = set()
    known: dict[str, str] = {}
    for entry, meaning in zip(lexicon.entries, lexicon.meanings[0], strict=True):
        if meaning is None or entry.table == "affix":
            continue
        concept = f"LEX:{meaning}"
        known.setdefault(entry.name, concept)
        for member in entry.members:
            if "amb" not in member.marks and member.place == WHOLE and member.part != "v":
                rows.update((concept, form, member.language) for form in (member.form, *member.plurals[:1]))
    for one in lexicon.abbreviations:
        if one.safe:
            found = lexicon.find(one.long, one.language) or lexicon.find(one.english or one.long, "en")
            meant = [known[e.name] for e, member in found if e.name in known and "amb" not in member.marks]
            concept = meant[0] if meant else f"LEX:{normalise(one.english or one.long).replace(' ', '_')}"
            rows.add((concept, one.long, one.language))
            rows.update((concept, form, one.language) for form in one.forms[:_FORMS])
            if one.english:
                rows.add((concept, one.english, "en"))
    for concept, text, language in sorted(rows):
        yield Name(concept, text, language=language, source=LEXICON)
