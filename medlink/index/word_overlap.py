"""How much a mention and a name cover each other, by the features of their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, ArrayWriter, RaggedArray, open_array, save_array
from medlink.index.word_features import (
    UNKNOWN,
    FeatureExtractor,
    WordFeatures,
    any_of_group,
    document_frequency,
    smooth_idf,
    with_weights,
)
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import LexiconForms, load_shared_forms
from medlink.language.lexicon.name_analysis import LexicalAnalyser, shared_analyser

ARRAYS = {
    "slot_ends": np.int64,
    "said_ends": np.int64,
    "slot_weight": np.float16,
    "said_feature": np.int32,
    "said_share": np.float16,
    "said_weight": np.float32,
}
"""Files of an index with their types: ends of the words of each text, ends of the features of each word, weights of
words, features, their shares, and the weights of all possible features."""
_UNWEIGHTED = ("slot_ends", "said_ends", "said_feature", "said_share")  # files that need no weights
_GROUPS = {
    "finding": ("finding", "change"),
    "possible finding": ("finding", "change", ""),
    # a quality may be a part of a finding (*short of breath*)
    "other": ("body", "function", "substance", "organism", "procedure", "person", "circumstance", "measure"),
    "attribute": ("quality", "general", "measure", "circumstance"),
}
"""Groups of the lexicon's kinds of words; ``""`` is a word that the lexicon lacks."""
_BATCH = 1 << 15  # names analysed at a time
_CACHED_WORDS = 1 << 15  # distinct words of mentions


class Overlap(NamedTuple):
    """How much p pairs of a mention and a name cover each other, all ``(p,)``.

    Attributes:
        mention: share of the mention, by weight, that the name covers.
        name: share of the name that the mention covers.
        more: greatest weight of a word of the name that the mention lacks, 0 for none.
        fewer: greatest weight of a word of the mention that the name lacks.
        opposed: whether they have words of opposite meaning.
        lacks_finding: whether the mention names a finding and the name does not (*loss of neurons*, *neuron*).
        adds_finding: whether the name names a finding and the mention only other things (*abnormal ECG*, *ECG*).
    """

    mention: NDArray[np.float32]
    name: NDArray[np.float32]
    more: NDArray[np.float32]
    fewer: NDArray[np.float32]
    opposed: NDArray[np.bool_]
    lacks_finding: NDArray[np.bool_]
    adds_finding: NDArray[np.bool_]


class FeatureStore:
    """The word features of many texts, and their overlap with others.

    Attributes:
        forms: the lexicon forms that analyse texts.
        width: number of possible features.
    """

    forms: LexiconForms

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        ends, feature_ends, self._weight, self._feature, self._share, self._weights = (arrays[n] for n in ARRAYS)
        self._words, self._features = RaggedArray(ends), RaggedArray(feature_ends)
        self.width = len(self._weights)

    @cached_property
    def _opposites(self) -> RaggedArray:
        opposites = self.forms.opposites
        pairs = np.array([*opposites, *((b, a) for a, b in opposites)], dtype=np.int64).reshape(-1, 2)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        return RaggedArray(np.searchsorted(pairs[:, 0], np.arange(self.width + 1)), pairs[:, 1])

    @cached_property
    def _in_group(self) -> dict[str, NDArray[np.bool_]]:
        """Marks of the features ``(width,)`` of each group of kinds."""
        kinds = np.array(self.forms.kinds, dtype=str)
        return {name: np.append(np.isin(kinds, of), np.full(UNKNOWN, "" in of)) for name, of in _GROUPS.items()}

    def of(self, rows: NDArray[np.int64]) -> WordFeatures:
        """Return the features of stored texts."""
        text, word = self._words.take(rows)
        owner, at = self._features.take(word)
        weight, share = self._weight[word].astype(np.float32), self._share[at].astype(np.float32)
        return WordFeatures(text, weight, owner, self._feature[at].astype(np.int64), share)

    def weights(self, features: WordFeatures) -> NDArray[np.float32]:
        """Return the weights ``(features,)`` of features, each times its share."""
        return np.asarray(self._weights[features.feature] * features.share, dtype=np.float32)

    def attributes(self, names: WordFeatures, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the names ``(n,)`` that consist only of qualities, times or measures; ``counts (n,)`` are their numbers
        of words.

        All words of such a name must be content words, because a noun may look like an article (*uña*).
        """
        every: NDArray[np.bool_] = np.bincount(names.text, minlength=len(counts)) == counts
        is_thing = ~self._in_group["attribute"][names.feature]
        return every & ~any_of_group(names.text[names.word], is_thing, len(counts))

    def compare(
        self, mentions: WordFeatures, mention: NDArray[np.int64], names: WordFeatures, name: NDArray[np.int64]
    ) -> tuple[PairWords, PairWords, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the words of both sides of p pairs, masks of their shared features, and a mask of pairs with opposite
        words; arguments are those of :meth:`overlap`.
        """
        of_mentions, of_names = PairWords.of(mentions, mention), PairWords.of(names, name)
        feature = names.feature[of_names.feature]
        # the features of all mentions, sorted once; those of names are looked up among them
        keys, number = np.unique(mentions.text[mentions.word] * self.width + mentions.feature, return_inverse=True)
        firsts = np.searchsorted(keys, np.arange(mention.max(initial=-1) + 2) * self.width)
        counts = np.diff(firsts)[mention]
        # start of the features of each pair, minus the number of the first
        begin = np.cumsum(counts) - counts - firsts[mention]
        is_known = np.zeros(self.width, dtype=bool)
        is_known[mentions.feature] = True
        position = begin[of_mentions.pair] + number[of_mentions.feature]

        def match(pair: NDArray[np.int64], feature: NDArray[np.int64]) -> tuple[Array, Array]:
            """Mark the mention features that are among the given features of their pair, and vice versa."""
            at_feature = np.flatnonzero(is_known[feature])
            wanted = mention[pair[at_feature]] * self.width + feature[at_feature]
            at = np.searchsorted(keys, wanted)
            at[at == len(keys)] = 0
            same = keys[at] == wanted if len(keys) else np.zeros(0, dtype=bool)
            at_feature, at = at_feature[same], at[same]
            flags, has = np.zeros(int(counts.sum()), dtype=bool), np.zeros(len(feature), dtype=bool)
            flags[begin[pair[at_feature]] + at] = True
            has[at_feature] = True
            return flags[position], has

        in_name, in_mention = match(of_names.pair, feature)
        few = np.flatnonzero(np.diff(self._opposites.offsets)[feature] > 0)
        which, opposite = self._opposites.take(feature[few])
        is_opposed, _ = match(of_names.pair[few][which], opposite)
        opposed = any_of_group(of_mentions.pair, is_opposed & ~in_name, len(mention))
        return of_mentions, of_names, in_name, in_mention, opposed

    def overlap(
        self, mentions: WordFeatures, mention: NDArray[np.int64], names: WordFeatures, name: NDArray[np.int64]
    ) -> Overlap:
        """Compare p pairs: the mentions with the names at these positions ``(p,)``."""
        of_mentions, of_names, in_name, in_mention, opposed = self.compare(mentions, mention, names, name)
        share, fewer = of_mentions.coverage(mentions, mention, of_mentions.covered(mentions, in_name))
        name_share, more = of_names.coverage(names, name, of_names.covered(names, in_mention))
        # the meaning of a whole word counts before those of its parts
        whole = mentions.share == 1
        meant = whole | ~any_of_group(mentions.word, whole, len(mentions.text))[mentions.word]
        groups = self._in_group
        finds = _having(mentions, groups["finding"][mentions.feature], mention)
        may_find = _having(mentions, meant & ~groups["other"][mentions.feature], mention)
        name_finds = _having(names, groups["finding"][names.feature], name)
        name_may_find = _having(names, groups["possible finding"][names.feature], name)
        return Overlap(share, name_share, more, fewer, opposed, finds & ~name_may_find, name_finds & ~may_find)


class PairWords(NamedTuple):
    """The words of one side of pairs, repeated for each pair, and their features.

    Attributes:
        owner: ``(w,)`` pair of each word.
        word: ``(w,)`` number of each word in the texts.
        position: ``(f,)`` position in ``word`` of the word of each feature.
        feature: ``(f,)`` number of each feature in the texts.
        pair: ``(f,)`` pair of each feature.
    """

    owner: NDArray[np.int64]
    word: NDArray[np.int64]
    position: NDArray[np.int64]
    feature: NDArray[np.int64]
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, features: WordFeatures, text: NDArray[np.int64]) -> PairWords:
        owner, word = RaggedArray.by_owner(features.text, int(text.max(initial=-1)) + 1).take(text)
        position, feature = RaggedArray.by_owner(features.word, len(features.text)).take(word)
        return cls(owner, word, position, feature, owner[position])

    def covered(self, features: WordFeatures, shared: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Compute how much of each word ``(w,)`` the ``shared (f,)`` features cover."""
        covered = np.bincount(self.position[shared], features.share[self.feature[shared]], len(self.word))
        return np.asarray(np.minimum(covered, 1), dtype=np.float32)

    def coverage(
        self, features: WordFeatures, text: NDArray[np.int64], covered: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Compute the covered share, by weight, of the text ``(p,)`` of each pair, and its greatest missing weight."""
        total = np.bincount(features.text, features.weight, int(text.max(initial=-1)) + 1)[text]
        weight, left = features.weight[self.word], np.zeros(len(text), dtype=np.float32)
        share = np.bincount(self.owner, weight * covered, len(text)) / np.maximum(total, 1e-9)
        np.maximum.at(left, self.owner, weight * (1 - covered))
        return share.astype(np.float32), left


class NameFeatures(FeatureStore):
    """The word features of the names of an index, memory-mapped from a folder that :meth:`build` filled."""

    def __init__(self, folder: Path) -> None:
        super().__init__({name: open_array(folder, name) for name in ARRAYS})
        self._folder, self._lock = folder, Lock()

    @cached_property
    def forms(self) -> LexiconForms:  # type: ignore[override]  # mypy takes it for a read-only property
        """The lexicon forms, opened at their first use; a segment of later names has none."""
        return load_shared_forms(self._folder)

    @cached_property
    def _tools(self) -> tuple[BatchAnalyser, FeatureExtractor]:
        return BatchAnalyser(shared_analyser(self.forms)), FeatureExtractor(len(self.forms.names))

    def read(self, texts: Sequence[str], languages: Sequence[str | None]) -> WordFeatures:
        with self._lock:
            analyser, extractor = self._tools
            batch = analyser.read(texts, languages)
            features = extractor.extract(batch, self._weights)
            if len(batch.words) > _CACHED_WORDS:
                del self._tools
        return features

    @classmethod
    def build(
        cls,
        folder: Path,
        texts: Iterable[str],
        languages: Sequence[str],
        forms: LexiconForms,
        main: NameFeatures | None = None,
    ) -> NameFeatures:
        """Fill a folder from names with their languages; later names take weights and forms from ``main``."""
        if main is None:
            forms.save(folder)
        analyser, extractor = BatchAnalyser(LexicalAnalyser(forms)), FeatureExtractor(len(forms.names))
        width = len(forms.names) + UNKNOWN
        df, begin, word_begin = np.zeros(width, np.int64), 0, 0
        remaining = iter(texts)
        with ExitStack() as files:
            ends, feature_ends, feature, share = (
                files.enter_context(ArrayWriter(folder, name, ARRAYS[name])) for name in _UNWEIGHTED
            )
            for start in range(0, len(languages), _BATCH):
                tags = languages[start : start + _BATCH]
                features = extractor.extract(analyser.read(list(islice(remaining, len(tags))), tags))
                df += document_frequency(features, width)
                ends.append(begin + np.searchsorted(features.text, np.arange(len(tags))))
                feature_ends.append(word_begin + np.searchsorted(features.word, np.arange(len(features.text))))
                feature.append(features.feature)
                share.append(features.share)
                begin, word_begin = begin + len(features.text), word_begin + len(features.word)
            ends.append(np.array([begin]))
            feature_ends.append(np.array([word_begin]))
        weights = smooth_idf(df, len(languages)) if main is None else main._weights
        save_array(folder, "said_weight", weights.astype(ARRAYS["said_weight"]))
        arrays = {name: open_array(folder, name) for name in (*_UNWEIGHTED, "said_weight")}
        unweighted = FeatureStore({**arrays, "slot_weight": np.broadcast_to(np.float16(0), begin)})
        with ArrayWriter(folder, "slot_weight", ARRAYS["slot_weight"]) as weight:
            for start in range(0, len(languages), _BATCH):
                features = unweighted.of(np.arange(start, min(start + _BATCH, len(languages))))
                weight.append(with_weights(features, weights).weight)
        return cls(folder)


def _having(features: WordFeatures, values: NDArray[np.bool_], text: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the pairs with a true value ``(features,)`` in their text ``(p,)``."""
    count = int(max(text.max(initial=-1), features.text.max(initial=-1))) + 1
    return np.asarray(any_of_group(features.text[features.word], values, count)[text])
