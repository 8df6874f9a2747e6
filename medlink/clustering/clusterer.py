"""``TermClusterer``: a term list to clusters, known and new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.clustering.clusters import AMBIGUOUS, CONCEPT_COLUMNS, KNOWN, NEW, Clustering, Summary
from medlink.clustering.concepts import KNOWN_AT, Linking, Parents, answer, as_one, known_groups
from medlink.clustering.cut import average_cut
from medlink.clustering.evidence import Evidence
from medlink.clustering.forms import find_forms
from medlink.clustering.graph import build_graph
from medlink.clustering.guards import Guards
from medlink.clustering.made import MadeClusters
from medlink.clustering.terms import Terms
from medlink.errors import ConfigError
from medlink.index.selfjoin import nearest
from medlink.language.guard_words import GuardReader
from medlink.language.tags import base, language_tag
from medlink.models import Encoder
from medlink.records import Link
from medlink.settings import Settings

_LONG = 256
"""Characters that the built-in encoder reads: two longer terms may differ in what it does not."""
_BATCH = 4096

Progress = Callable[[str, int, int], object]
"""Called with the name of a step, how much of it is done, and its whole."""


class ClusterOptions(Settings):
    """Options of :class:`TermClusterer`."""

    threshold: Annotated[
        float, Field(gt=0, lt=1, description="Mean probability of the pairs between two groups that joins them.")
    ] = 0.5
    neighbours: Annotated[int, Field(ge=1, description="Nearest terms of each term that are looked at.")] = 30
    known_at: Annotated[float, Field(ge=0, le=1, description="Score that a known concept needs.")] = KNOWN_AT
    prefer_language: Annotated[
        str, Field(description="Language of the terms that stand for clusters; without it the list's main one.")
    ] = ""


class TermClusterer:
    """Cluster a term list: same list, same encoder, same options, same clusters.

    Args:
        encoder: any encoder of :func:`medlink.load_encoder`.
        linker: where given (a :class:`medlink.Linker` fits), each term is linked by itself. Those that are one known
            concept are one cluster, and any other cluster is a name of several concepts or NEW.
        parents: id and name of each parent of a concept; NEW clusters then get a proposed parent.
        progress: called with step, done and whole.
        options: those of :class:`ClusterOptions`; a higher ``threshold`` gives smaller clusters.

    Raises:
        ConfigError: a value is out of range.

    >>> from medlink.models import load_encoder
    >>> found = TermClusterer(load_encoder()).cluster(["Niere", "Nieren", "kidney", "left leg", "right leg"])
    >>> [[member.term for member in cluster.members] for cluster in found.clusters]
    [['Niere', 'Nieren', 'kidney'], ['left leg'], ['right leg']]
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        linker: Linking | None = None,
        parents: Parents | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        self.options = ClusterOptions(**options)
        if (language := self.options.prefer_language) and language_tag(language) is None:
            raise ConfigError(f"prefer_language is {language!r}, no BCP 47 tag", remedy="give one such as de")
        self._encoder, self._linker, self._parents = encoder, linker, parents
        self._progress = progress or (lambda step, done, whole: None)

    def cluster(self, terms: Terms | Sequence[str]) -> Clustering:
        """Cluster a term list, or texts, of which equal ones count as frequency.

        Returns:
            Clusters, the most frequent first, and their counts. Records are made when they are asked for.

        Raises:
            ConfigError: ``terms`` is one string.
        """
        if isinstance(terms, str):
            raise ConfigError("a list of terms is expected, not one string", remedy="give [text]")
        table = (terms if isinstance(terms, Terms) else Terms.of((text, 1, "", "") for text in terms)).ordered()
        forms = find_forms(table, lambda done: self._progress("forms", done, len(table)))
        texts = [table.texts[int(row)] for row in forms.row]
        languages = [table.languages[table.language[row]] for row in forms.row]
        vectors = self._encode(texts)
        guards = Guards(texts, languages, lambda done: self._progress("guards", done, len(texts)))
        rows, cosines = nearest(
            vectors, self.options.neighbours, progress=lambda done, whole: self._progress("neighbours", done, whole)
        )
        evidence = Evidence(texts, languages, guards, cosines)
        graph = build_graph(
            rows, cosines, vectors, evidence, guards, lambda done, whole: self._progress("pairs", done, whole)
        )
        del evidence, guards, rows, cosines
        group = average_cut(len(forms), graph.one, graph.other, graph.weight, self.options.threshold)
        links = self._link(texts)
        reader = GuardReader()
        answers = [answer(link, language, reader) for link, language in zip(links, languages, strict=False)]
        concepts: list[str] = []
        if self._linker is not None:
            group, concepts = known_groups(group, answers, self.options.known_at)
        clusters = MadeClusters(
            table, forms, group, vectors, graph, base(self.options.prefer_language) or _main_language(table)
        )
        if self._linker is not None:
            clusters.judge(links, answers, concepts, self.options.known_at, self._parents, reader)
        absent = set() if self._linker is not None else set(CONCEPT_COLUMNS)
        if len(table.languages) == 1:
            absent.add("language")
        if not len(table.ids):
            absent.add("id")
        return Clustering(clusters, self._summary(clusters), self._linker is not None, frozenset(absent))

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._encoder.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            vectors[start : start + _BATCH] = self._encoder.encode(batch)
            vectors[[start + i for i, text in enumerate(batch) if len(text) > _LONG]] = 0
            self._progress("embeddings", start + len(batch), len(texts))
        return vectors

    def _link(self, texts: Sequence[str]) -> list[Link]:
        links: list[Link] = []
        if self._linker is not None:
            for start in range(0, len(texts), _BATCH):
                links += self._linker.link(texts[start : start + _BATCH])
                self._progress("concepts", len(links), len(texts))
        return as_one(links)

    def _summary(self, clusters: MadeClusters) -> Summary:
        sizes = np.diff(clusters.starts)
        statuses = Counter(verdict.status for verdict in clusters.verdicts)
        return Summary(
            terms=len(clusters.terms),
            forms=len(clusters.forms),
            clusters=len(clusters),
            single=int((sizes == 1).sum()),
            largest=int(sizes.max(initial=0)),
            known=statuses[KNOWN],
            ambiguous=statuses[AMBIGUOUS],
            new=statuses[NEW],
            doubtful=sum(verdict.doubtful for verdict in clusters.verdicts),
            maybe=clusters.maybe,
            narrower=int((clusters.broader >= 0).sum()),
            guarded=clusters.guarded(self.options.threshold),
            threshold=self.options.threshold,
            encoder=self._encoder.fingerprint,
        )


def _main_language(terms: Terms) -> str:
    counts: Counter[str] = Counter()
    for place, tag in enumerate(terms.languages):
        counts[base(tag)] += int(terms.frequency[terms.language == place].sum())
    del counts[""]
    return min(counts, key=lambda tag: (-counts[tag], tag), default="")
