"""Suspect translations: names that mean another concept, by an error of the terminology.

The German names of a release of HPO give *Tachykardie* to pachygyria, and its Spanish names give *Apatía* to cold skin.
Such a name links a common word of notes to the wrong concept, with certainty. A name is suspect if all of this holds:

- it is not English, and the whole name is one finding of the lexicon;
- the English headword of that finding is a name of other concepts, and no English name of the name's own concept means
  it;
- the built-in encoder embeds it nearer to the headword than to each English name of its concept, by :data:`NEARER`, or
  by :data:`NEARER_AMBIGUOUS` where the lexicon marks it as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from medlink.kb import KnowledgeBase
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import AMBIGUOUS, WORD, LexiconForms
from medlink.language.lexicon.name_analysis import LexicalAnalyser
from medlink.language.lexicon.tables import HEADWORDS
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.models import Encoder, load_encoder
from medlink.records import FSN, Name

NEARER, NEARER_AMBIGUOUS = 0.17, 0.3
"""Margins of the cosine. Of 150 names of HPO whose headword names another concept, 36 exceed them; nearly all are
wrong, or of a retired concept."""
_BATCH = 1 << 14  # names analysed at a time
_LONGEST = 40  # characters of the longest name examined: the fixed phrases of the lexicon are short


def find_suspect_translations(store: KnowledgeBase, forms: LexiconForms) -> list[tuple[Name, str]]:
    """Find the suspect names of a knowledge base, in its order, each with the English headword of its meaning."""
    analyser, suspects = BatchAnalyser(LexicalAnalyser(forms)), list[tuple[Name, str]]()
    encoder: Encoder | None = None
    for name, headword in _foreign_findings(store.iter_names(), analyser):
        if any(match.concept_id == name.concept_id for match in store.lookup(name.text, HEADWORDS)):
            continue
        others = {match.concept_id for match in store.lookup(headword, HEADWORDS)}
        names = store.names(name.concept_id)
        own = [match.text for match in names if base(match.language) == HEADWORDS and match.type != FSN]
        if not others or not own or name.concept_id in others:
            continue
        if headword in _findings(own, [HEADWORDS] * len(own), analyser).values():
            continue
        encoder = encoder or load_encoder("builtin")
        vectors = encoder.encode([name.text, headword, *own])
        cosines = vectors[1:] @ vectors[0]
        known = forms.find(WORD, base(name.language), normalise(name.text))
        is_ambiguous = any(form.marks & AMBIGUOUS for form in known)
        if cosines[0] - np.max(cosines[1:]) >= (NEARER_AMBIGUOUS if is_ambiguous else NEARER):
            suspects.append((name, headword))
    return suspects


def _foreign_findings(names: Iterable[Name], analyser: BatchAnalyser) -> Iterator[tuple[Name, str]]:
    """Names not in English that are one finding of the lexicon, with its headword."""
    foreign = (n for n in names if n.language and base(n.language) != HEADWORDS and n.type != FSN)
    # an abbreviation means many things
    candidates = (name for name in foreign if len(name.text) <= _LONGEST and not name.text.isupper())
    while batch := list(islice(candidates, _BATCH)):
        headwords = _findings([name.text for name in batch], [name.language for name in batch], analyser)
        yield from ((batch[at], headword) for at, headword in sorted(headwords.items()))


def _findings(texts: Sequence[str], languages: Sequence[str], analyser: BatchAnalyser) -> dict[int, str]:
    """Headwords, by position, of the texts that as a whole are one finding: a word or a fixed phrase."""
    batch = analyser.read(texts, languages)
    counts = np.diff(batch.ends)
    whole = {at: batch.words[batch.word[batch.ends[at]]].meanings for at in np.flatnonzero(counts == 1).tolist()}
    whole |= {at: meanings for at, first, stop, meanings in batch.phrases if stop - first == counts[at]}
    forms, headwords = analyser.forms, dict[int, str]()
    for at, meanings in whole.items():
        if len(meanings) == 1 and forms.kinds[meanings[0]] == "finding" and "(" not in forms.names[meanings[0]]:
            headwords[at] = forms.names[meanings[0]]
    return headwords
