"""Compare the components of laboratory tests: unit and specimen choose only among tests of one component."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index import ConceptIndex
from medlink.linking.features import CandidateFeatures
from medlink.mapping.laboratory import analyte, is_full_name, is_ratio
from medlink.models import Encoder

_SUBSTANCE = "substance"
_ANALYTES = frozenset({_SUBSTANCE, "body", "organism"})
_SHORT = 3  # letters of the name of a blood group
_ALIKE = 0.7  # cosine from which components without a common word may be the same: chlorine, chloride


class _Component(NamedTuple):
    """The meanings of a component.

    Attributes:
        meanings: of all words and their parts.
        words: for each word that the lexicon has, its meanings as a whole.
        is_known: whether the lexicon has all words, and one of them is an analyte.
    """

    meanings: frozenset[int]
    words: tuple[frozenset[int], ...]
    is_known: bool


def have_other_component(candidates: CandidateFeatures) -> NDArray[np.bool_]:
    """Mark the pairs ``(p,)`` of the full name of a laboratory test and a name with another component.

    If the lexicon has all words of the component of the description, a name has another component if they share no
    meaning and their embeddings differ, or if the name has a further substance beside the only word: *Harnstoff* is not
    *Harnstoff-Stickstoff*. The name of a ratio has another component than any name that is no ratio.
    """
    batch, index = candidates.batch, candidates.batch.index
    is_full = np.array([is_full_name(text) for text in batch.texts], dtype=bool)
    pairs, other = np.flatnonzero(is_full[candidates.mention]), np.zeros(len(candidates.name), dtype=bool)
    if not len(pairs):
        return other
    mentions, mention = np.unique(candidates.mention[pairs], return_inverse=True)
    names, name = np.unique(candidates.name_index[pairs], return_inverse=True)
    asked = [analyte(batch.norms[at]) for at in mentions.tolist()]
    norms = index.norms(candidates.distinct_names[names])
    named = list(map(analyte, norms))
    ratios = [is_ratio(batch.norms[at]) for at in mentions.tolist()], list(map(is_ratio, norms))
    languages = [batch.languages[at] for at in mentions.tolist()]
    of_asked, of_named = _read(index, asked, languages), _read(index, named, [None] * len(named))
    kinds, doubtful = index.forms.kinds, list[int]()
    for at, (pair, m, n) in enumerate(zip(pairs.tolist(), mention.tolist(), name.tolist(), strict=True)):
        own, its = of_asked[m], of_named[n]
        if (ratios[1][n] and not ratios[0][m]) or (len(named[n]) < _SHORT and named[n] != asked[m]):
            other[pair] = True
        elif own.is_known and own.meanings.isdisjoint(its.meanings):
            doubtful.append(at)
        elif own.is_known and len(own.words) == 1:
            other[pair] = any(
                own.meanings.isdisjoint(word) and all(kinds[meaning] == _SUBSTANCE for meaning in word)
                for word in its.words
            )
    if doubtful:
        sides = (mention[doubtful], asked), (name[doubtful], named)
        ours, theirs = (_encode(batch.encoder, texts, numbers) for numbers, texts in sides)
        other[pairs[doubtful]] = np.einsum("pd,pd->p", ours, theirs) < _ALIKE
    return other


def _encode(encoder: Encoder, texts: list[str], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return encoder.encode([texts[number] for number in distinct.tolist()])[inverse]


def _read(index: ConceptIndex, texts: list[str], languages: list[str | None]) -> list[_Component]:
    features, kinds = index.read(texts, languages), index.forms.kinds
    meanings, words = [set[int]() for _ in texts], [dict[int, set[int]]() for _ in texts]
    owner = features.text[features.word].tolist()
    columns = (features.word.tolist(), features.feature.tolist(), features.share.tolist())
    for text, word, meaning, share in zip(owner, *columns, strict=True):
        meanings[text].add(meaning)
        whole = words[text].setdefault(word, set())
        if meaning < len(kinds) and share == 1:
            whole.add(meaning)
    return [
        _Component(
            frozenset(of_text),
            tuple(map(frozenset, filter(None, wholes.values()))),
            bool(wholes)
            and all(wholes.values())
            and any(kinds[one] in _ANALYTES for whole in wholes.values() for one in whole),
        )
        for of_text, wholes in zip(meanings, words, strict=True)
    ]
