"""Names that say another concept: slips of translation that a terminology ships.

The German names of a release of HPO give *Tachykardie* to pachygyria, the Spanish ones *Apatía* to cold skin. With them
the plainest word of a note is linked wrongly, and surely. A name is doubted where all of this holds:

- it is in another language than English, and the lexicon reads it, as a whole, as one finding;
- the English headword of that finding is a name of other concepts, and no English name of its own concept says it;
- for the built-in encoder it is nearer to the headword than to each English name of its concept, by :data:`NEARER`,
  or by :data:`NEARER_AMBIGUOUS` where the lexicon marks it as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from medlink.kb import KnowledgeBase
from medlink.language.lexicon.batch_analysis import BulkReader
from medlink.language.lexicon.forms import AMBIGUOUS, WORD, Forms
from medlink.language.lexicon.reading import FamilyReader
from medlink.language.lexicon.tables import HEADWORDS
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

NEARER, NEARER_AMBIGUOUS = 0.17, 0.3
"""By how much a cosine has to be higher. Of 150 names of HPO whose headword is another concept's name 36 pass; nearly
all of them are wrong where they stand, or belong to a retired concept."""
_TOGETHER = 1 << 14  # names that are read at a time
_LONGEST = 40  # characters of a name that is looked at: the fixed phrases of the lexicon are short


def doubted_names(store: KnowledgeBase, forms: Forms) -> list[tuple[Name, str]]:
    """Names of a knowledge base that say another concept, with the English headword of what they say, in its order."""
    bulk, found = BulkReader(FamilyReader(forms)), list[tuple[Name, str]]()
    encoder: Encoder | None = None
    for name, headword in _foreign_findings(store.iter_names(), bulk):
        if any(one.concept_id == name.concept_id for one in store.lookup(name.text, HEADWORDS)):
            continue
        others = {one.concept_id for one in store.lookup(headword, HEADWORDS)}
        own = [one.text for one in store.names(name.concept_id) if base(one.language) == HEADWORDS and one.type != FSN]
        if not others or not own or name.concept_id in others:
            continue
        if headword in _findings(own, [HEADWORDS] * len(own), bulk).values():
            continue
        encoder = encoder or load_encoder("builtin")
        vectors = encoder.encode([name.text, headword, *own])
        cosines = vectors[1:] @ vectors[0]
        if cosines[0] - np.max(cosines[1:]) >= (NEARER_AMBIGUOUS if _ambiguous(name, forms) else NEARER):
            found.append((name, headword))
    return found


def _foreign_findings(names: Iterable[Name], bulk: BulkReader) -> Iterator[tuple[Name, str]]:
    """Names in other languages than English that are one finding of the lexicon, with its headword."""
    left = (name for name in names if _is_looked_at(name))
    while some := list(islice(left, _TOGETHER)):
        found = _findings([name.text for name in some], [name.language for name in some], bulk)
        yield from ((some[at], headword) for at, headword in sorted(found.items()))


def _is_looked_at(name: Name) -> bool:
    foreign = name.language and base(name.language) != HEADWORDS and name.type != FSN
    # an abbreviation means many things
    return bool(foreign) and len(name.text) <= _LONGEST and not name.text.isupper()


def _ambiguous(name: Name, forms: Forms) -> bool:
    return any(form.marks & AMBIGUOUS for form in forms.find(WORD, base(name.language), normalise(name.text)))


def _findings(texts: Sequence[str], languages: Sequence[str], bulk: BulkReader) -> dict[int, str]:
    """The headwords of the texts that are one finding in whole, by a word or a fixed phrase; by their numbers."""
    read = bulk.read(texts, languages)
    counts = np.diff(read.ends)
    meant = {at: read.words[read.word[read.ends[at]]].meanings for at in np.flatnonzero(counts == 1).tolist()}
    meant |= {at: meanings for at, first, stop, meanings in read.phrases if stop - first == counts[at]}
    forms, found = bulk.reader.forms, dict[int, str]()
    for at, meanings in meant.items():
        if len(meanings) == 1 and forms.kinds[meanings[0]] == "finding" and "(" not in forms.names[meanings[0]]:
            found[at] = forms.names[meanings[0]]
    return found
