"""``TermClusterer``: cluster a term list into known and new concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import AMBIGUOUS, CONCEPT_COLUMNS, KNOWN, NEW, Clustering, Summary
from medlink.clustering.concepts import (
    Parents,
    TermConcept,
    TermLinker,
    group_by_concept,
    is_name,
    resolve_terms,
    score_members,
    unify_ids,
)
from medlink.clustering.graph import Graph, average_cut, build_graph
from medlink.clustering.graph_clusters import GraphClusters
from medlink.clustering.pair_features import PairFeatures
from medlink.clustering.terms import Terms, find_forms
from medlink.errors import ConfigError
from medlink.index.knn_graph import nearest
from medlink.language.guard_words import GuardReader
from medlink.language.tags import base, language_tag
from medlink.language.text import is_short
from medlink.models import Encoder
from medlink.processes import MIN_FORKED, forked, gc_disabled
from medlink.records import Link
from medlink.settings import Settings, option

_MAX_CHARACTERS = 256  # that the built-in encoder reads: two longer terms may differ in the rest
_BATCH = 4096

Progress = Callable[[str, int, int], object]
"""Called with the name of a step, the amount done, and the total."""


class ClusterOptions(Settings):
    """Options of :class:`TermClusterer`."""

    threshold: float = option(
        0.4, "Lowest mean probability of the pairs between two groups that are joined.", gt=0, lt=1
    )
    neighbours: int = option(30, "Nearest terms that each term is compared with.", ge=1)
    known_at: float = option(0.5, "Lowest score of a known concept.", ge=0, le=1)
    prefer_language: str = option("", "Language of the representatives  [default: the main language of the list]")


class TermClusterer:
    """Cluster a term list. The same list, encoder and options give the same clusters.

    Args:
        linker: links each term by itself, as :class:`medlink.Linker` does. Terms of one known concept form one cluster;
            any other cluster is ambiguous or NEW.
        parents: function from a concept to id and name of its parents, to propose a parent for NEW clusters.
        options: those of :class:`ClusterOptions`; a higher ``threshold`` gives smaller clusters.

    Raises:
        ConfigError: a value is out of range.

    Examples:
        >>> from medlink.models import load_encoder
        >>> found = TermClusterer(load_encoder()).cluster(["Niere", "Nieren", "kidney", "left leg", "right leg"])
        >>> [[member.term for member in cluster.members] for cluster in found.clusters]
        [['Niere', 'Nieren', 'kidney'], ['left leg'], ['right leg']]
    """

    def __init__(
        self, encoder: Encoder, *, linker: TermLinker | None = None, parents: Parents | None = None,
        progress: Progress | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.options = ClusterOptions(**options)
        if (language := self.options.prefer_language) and language_tag(language) is None:
            raise ConfigError(f"prefer_language is {language!r}, no BCP 47 tag", remedy="give one such as de")
        self._encoder, self._linker, self._parents = encoder, linker, parents
        self._progress = progress or (lambda step, done, total: None)

    @gc_disabled()
    def cluster(self, terms: Terms | Sequence[str]) -> Clustering:
        """Cluster a term list, or texts (repeated ones count as frequency), the most frequent cluster first.

        Raises:
            ConfigError: ``terms`` is one string.
        """
        if isinstance(terms, str):
            raise ConfigError("a list of terms is expected, not one string", remedy="give [text]")
        table = (terms if isinstance(terms, Terms) else Terms.from_rows((text, 1, "", "") for text in terms)).ordered()
        forms = find_forms(table, lambda done: self._progress("forms", done, len(table)))
        texts = [table.texts[int(row)] for row in forms.row]
        languages = [table.languages[table.language[row]] for row in forms.row]
        with forked(lambda: PairFeatures(texts, languages), wanted=len(texts) >= MIN_FORKED) as find_features:
            vectors = self._encode(texts)
            rows, cosines = nearest(
                vectors, self.options.neighbours, progress=lambda done, total: self._progress("neighbours", done, total)
            )
            vectors = vectors.astype(np.float16)  # what follows needs them to four digits
            features = find_features()
        denied = features.guards.denied
        features.add_neighbours(cosines)
        graph = build_graph(rows, cosines, vectors, features, lambda done, total: self._progress("pairs", done, total))
        del features, rows, cosines
        group = average_cut(len(forms), graph.one, graph.other, graph.weight, self.options.threshold)
        empty = {"language"} if len(table.languages) == 1 else set()
        empty |= set() if table.ids else {"id"}
        language = base(self.options.prefer_language) or _main_language(table)
        inside, crossing = graph.split(group)
        if self._linker is None:
            del graph  # as large as both
            clusters = GraphClusters(table, forms, group, vectors, inside, crossing, language, denied)
            empty.update(CONCEPT_COLUMNS)
        else:
            links, reader, known_at = unify_ids(self._link(texts)), GuardReader(), self.options.known_at
            links, resolved = resolve_terms(links, languages, reader)
            self._follow_long_forms(resolved, texts, inside)
            near = group
            group, concepts = group_by_concept(group, resolved, known_at)
            inside, crossing = graph.split(group)
            inside = inside.select(near[inside.one] == near[inside.other])
            del graph
            scores, weak = score_members(links, group, concepts)
            clusters = GraphClusters(table, forms, group, vectors, inside, crossing, language, denied | weak)
            clusters.classify(links, resolved, concepts, scores, known_at, self._parents, reader)
        return Clustering(clusters, self._summary(clusters), self._linker is not None, frozenset(empty))

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._encoder.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            vectors[start : start + _BATCH] = self._encoder.encode(batch)
            vectors[[start + i for i, text in enumerate(batch) if len(text) > _MAX_CHARACTERS]] = 0
            self._progress("embeddings", start + len(batch), len(texts))
        return vectors

    def _link(self, texts: Sequence[str]) -> list[Link]:
        links: list[Link] = []
        if self._linker is not None:
            for start in range(0, len(texts), _BATCH):
                links += self._linker.link(texts[start : start + _BATCH])
                self._progress("concepts", len(links), len(texts))
        return links

    def _follow_long_forms(self, resolved: list[TermConcept], texts: Sequence[str], inside: Graph) -> None:
        # an abbreviation that is no name of a concept has the concept of its long form, the likeliest last
        edges = np.flatnonzero(inside.short & (inside.probability >= self.options.threshold))
        for edge in edges[np.argsort(inside.probability[edges], kind="stable")].tolist():
            for one, other in permutations((int(inside.one[edge]), int(inside.other[edge]))):
                if is_short(texts[one]) and not is_short(texts[other]) and resolved[other].best:
                    resolved[one] = resolved[one] if is_name(resolved[one]) else resolved[other]

    def _summary(self, clusters: GraphClusters) -> Summary:
        sizes, statuses = np.diff(clusters.starts), Counter(verdict.status for verdict in clusters.verdicts)
        return Summary(
            terms=len(clusters.terms), forms=len(clusters.forms), clusters=len(clusters),
            single=int((sizes == 1).sum()), largest=int(sizes.max(initial=0)),
            known=statuses[KNOWN], ambiguous=statuses[AMBIGUOUS], new=statuses[NEW],
            doubtful=sum(verdict.doubtful for verdict in clusters.verdicts), maybe=clusters.maybe_pairs,
            narrower=int((clusters.broader >= 0).sum()), guarded=clusters.guarded_pairs(self.options.threshold),
            threshold=self.options.threshold, encoder=self._encoder.fingerprint,
        )  # fmt: skip


def _main_language(terms: Terms) -> str:
    counts: Counter[str] = Counter()
    for number, tag in enumerate(terms.languages):
        counts[base(tag)] += int(terms.frequency[terms.language == number].sum())
    del counts[""]
    return min(counts, key=lambda tag: (-counts[tag], tag), default="")
