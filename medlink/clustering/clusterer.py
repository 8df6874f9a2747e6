"""``TermClusterer``: a term list to clusters, known and new."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.clustering.abbreviations import join_abbreviations, keep_concepts_apart
from medlink.clustering.clusters import (
    ABBREVIATION,
    AMBIGUOUS,
    EMBEDDING,
    KNOWN,
    NEW,
    SAME_FORM,
    Cluster,
    Clustering,
    LazyClusters,
    Member,
    Neighbour,
    Summary,
)
from medlink.clustering.concepts import ASKED, KNOWN_AT, Linking, Parents, as_one, concepts_named, judge
from medlink.clustering.cut import average_cut, components, cut_apart
from medlink.clustering.evidence import Evidence
from medlink.clustering.forms import Forms, find_forms
from medlink.clustering.graph import NEIGHBOURS, THRESHOLD, Graph, build_graph
from medlink.clustering.guards import CONCEPT, KINDS, Guards
from medlink.clustering.terms import Terms
from medlink.errors import ConfigError
from medlink.index.selfjoin import nearest
from medlink.language.guard_words import GuardReader
from medlink.language.text import is_short
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
    ] = THRESHOLD
    neighbours: Annotated[int, Field(ge=1, description="Nearest terms of each term that are looked at.")] = NEIGHBOURS
    known_at: Annotated[float, Field(ge=0, le=1, description="Score that a known concept needs.")] = KNOWN_AT


class TermClusterer:
    """Cluster a term list: same list, same encoder, same options, same clusters.

    Args:
        encoder: any encoder of :func:`medlink.load_encoder`.
        linker: where given, each cluster is a known concept or NEW (a :class:`medlink.Linker` fits), and terms that are
            names of different known concepts stand in different clusters.
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
        self._encoder, self._linker, self._parents = encoder, linker, parents
        self._progress = progress or (lambda step, done, whole: None)

    def cluster(self, terms: Terms | Sequence[str], *, near: int = 0) -> Clustering:
        """Cluster a term list, or texts, of which equal ones count as frequency.

        With ``near`` so many terms of other clusters are kept for each cluster, with the guard that kept them apart.

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
        vectors = self._encode(texts)
        languages = [table.languages[table.language[row]] for row in forms.row]
        links = self._link(texts)
        named = [concepts_named(link) for link in links]
        guards = Guards(texts, languages, lambda done: self._progress("guards", done, len(texts)), named)
        rows, cosines = nearest(
            vectors, self.options.neighbours, progress=lambda done, whole: self._progress("neighbours", done, whole)
        )
        evidence = Evidence(texts, languages, guards, cosines)
        graph = build_graph(rows, cosines, vectors, evidence, guards)
        del evidence
        if not near:
            del rows, cosines
        edges, threshold = (graph.one, graph.other, graph.weight), self.options.threshold
        group = average_cut(len(forms), *edges, threshold)
        group = cut_apart(group, *edges, _forbidden(group, named, guards), threshold)
        short = keep_concepts_apart(join_abbreviations(texts, group, languages), group, named)
        pairs = np.array(short, dtype=np.int64).reshape(-1, 2)
        # groups, not terms, are joined; a pair of terms says which
        whole = components(int(group.max(initial=-1)) + 1, group[pairs[:, 0]], group[pairs[:, 1]])[group]
        inside = whole[graph.one] == whole[graph.other]
        guarded = int(((graph.apart > 0) & (graph.probability >= threshold) & ~inside).sum())
        graph = graph.kept(inside & (graph.apart == 0))
        ends = np.unique([graph.one[graph.short], graph.other[graph.short]])
        abbreviations = len({*pairs[:, 0].tolist(), *(node for node in ends.tolist() if is_short(texts[node]))})
        clusters = _Clusters(table, forms, whole, vectors, graph, pairs)
        if near:
            clusters.keep_near(rows, cosines, guards, near)
        if self._linker is not None:
            clusters.judge(links, self.options.known_at, self._parents)
        return Clustering(clusters, self._summary(clusters, guarded, abbreviations), self._linker is not None)

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings; a term of more characters than an encoder reads has none, and no neighbour."""
        vectors = np.zeros((len(texts), self._encoder.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            vectors[start : start + _BATCH] = self._encoder.encode(batch)
            vectors[[start + i for i, text in enumerate(batch) if len(text) > _LONG]] = 0
            self._progress("embeddings", start + len(batch), len(texts))
        return vectors

    def _link(self, texts: Sequence[str]) -> list[Link]:
        """A link for each text, none without a linker."""
        links: list[Link] = []
        if self._linker is not None:
            for start in range(0, len(texts), _BATCH):
                links += self._linker.link(texts[start : start + _BATCH])
                self._progress("concepts", len(links), len(texts))
        return as_one(links)

    def _summary(self, clusters: _Clusters, guarded: int, abbreviations: int) -> Summary:
        sizes = np.diff(clusters.starts)
        verdicts = clusters.verdicts
        statuses = Counter(verdict.status for verdict in verdicts)
        return Summary(
            terms=len(clusters.terms),
            forms=len(clusters.forms),
            clusters=len(clusters),
            single=int((sizes == 1).sum()),
            largest=int(sizes.max(initial=0)),
            known=statuses[KNOWN],
            ambiguous=statuses[AMBIGUOUS],
            new=statuses[NEW],
            doubtful=sum(verdict.doubtful for verdict in verdicts),
            guarded=guarded,
            abbreviations=abbreviations,
            threshold=self.options.threshold,
            encoder=self._encoder.fingerprint,
        )


def _forbidden(
    group: NDArray[np.int64], named: Sequence[frozenset[str]], guards: Guards
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of terms of one group that are names of two known concepts.

    A group has no more than some hundred terms (a term has as many neighbours as ``neighbours``, and two groups need
    a share of all pairs between them), so that its pairs, and all of them, grow with the list alone.
    """
    by_group: dict[int, list[int]] = {}
    for node, ids in enumerate(named):
        if ids:
            by_group.setdefault(int(group[node]), []).append(node)
    pairs = [pair for nodes in by_group.values() if len(nodes) > 1 for pair in combinations(nodes, 2)]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    clash = guards.parted_by(CONCEPT, ends[:, 0], ends[:, 1])
    return ends[clash, 0], ends[clash, 1]


class _Clusters(LazyClusters):
    """Clusters as arrays."""

    def __init__(
        self,
        terms: Terms,
        forms: Forms,
        group: NDArray[np.int64],
        vectors: NDArray[np.float32],
        graph: Graph,
        pairs: NDArray[np.int64],
    ) -> None:
        self.terms, self.forms, self._vectors, self._graph = terms, forms, vectors, graph
        self._abbreviations = {int(one): int(other) for one, other in pairs}
        row_group = group[forms.node]
        count = int(group.max(initial=-1)) + 1
        # an abbreviation never stands for a cluster that has a longer name
        short = np.fromiter((is_short(text) for text in terms.texts), dtype=bool, count=len(terms))
        order = np.lexsort((forms.rank, short, row_group))
        starts = np.searchsorted(row_group[order], np.arange(count + 1))
        weight = np.bincount(row_group, weights=terms.frequency, minlength=count)
        by_weight = np.lexsort((forms.rank[order[starts[:-1]]], -np.diff(starts), -weight))
        self.cluster_of_node = np.argsort(by_weight)[group]
        sizes = np.diff(starts)[by_weight]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        super().__init__(count, self._record)
        offsets = np.repeat(starts[:-1][by_weight] - self.starts[:-1], sizes)
        self._rows = order[np.arange(len(order)) + offsets]
        of_edge = self.cluster_of_node[graph.one]
        self._edges = np.argsort(of_edge, kind="stable")
        self._edge_starts = np.searchsorted(of_edge[self._edges], np.arange(count + 1))
        self.verdicts: list[Cluster] = []
        # of the nearest terms of other clusters: where those of each cluster begin, node, cosine, guard between
        self._near: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.uint8]] | None = None

    def judge(self, links: Sequence[Link], known_at: float, parents: Parents | None) -> None:
        """Decide what each cluster is by the links of up to :data:`ASKED` forms of it, the representative first."""
        reader = GuardReader()
        for index in range(len(self)):
            rows = self._rows[self.starts[index] : self.starts[index + 1]].tolist()
            nodes = list(dict.fromkeys(int(self.forms.node[row]) for row in rows))[:ASKED]
            language = self.terms.languages[self.terms.language[rows[0]]]
            self.verdicts.append(judge([links[node] for node in nodes], known_at, parents, language, reader))

    def keep_near(self, rows: NDArray[np.int64], cosines: NDArray[np.float32], guards: Guards, near: int) -> None:
        """Keep the nearest terms of other clusters, each cluster once."""
        ends, place = np.nonzero(rows >= 0)
        far, cosine = rows[ends, place], cosines[ends, place]
        own, other = self.cluster_of_node[ends], self.cluster_of_node[far]
        outside = own != other
        ends, far, cosine, own, other = (x[outside] for x in (ends, far, cosine, own, other))
        order = np.lexsort((far, ends, -cosine, other, own))
        key = own[order] * len(self) + other[order]
        order = order[np.r_[True, np.diff(key) > 0]] if len(order) else order
        order = order[np.lexsort((far[order], -cosine[order], own[order]))]
        begins = np.searchsorted(own[order], own[order])
        order = order[np.arange(len(order)) - begins < near]
        starts = np.searchsorted(own[order], np.arange(len(self) + 1))
        self._near = starts, far[order], cosine[order], guards.apart(ends[order], far[order])

    def _record(self, index: int) -> Cluster:
        """The record of a cluster."""
        rows = self._rows[self.starts[index] : self.starts[index + 1]].tolist()
        return replace(
            self.verdicts[index] if self.verdicts else Cluster(),
            number=index + 1,
            representative=self.terms.texts[rows[0]],
            members=self._members(index, rows),
            neighbours=self._neighbours(index),
        )

    def _members(self, index: int, rows: list[int]) -> tuple[Member, ...]:
        texts = {row: self.terms.texts[row] for row in rows}
        node_row: dict[int, int] = {}
        for row in rows:
            node_row.setdefault(int(self.forms.node[row]), row)
        joined = self._tree(index, list(node_row))
        head = self._vectors[int(self.forms.node[rows[0]])]
        members = []
        for row in rows:
            node = int(self.forms.node[row])
            similarity = 1.0 if node_row[node] == rows[0] else round(float(self._vectors[node] @ head), 4)
            to, by, score = "", "", None
            if node_row[node] != row:
                to, by, score = texts[node_row[node]], SAME_FORM, 1.0
            elif node in joined:
                other, by, score = joined[node]
                to = texts[node_row[other]]
            language = self.terms.languages[self.terms.language[row]]
            identifier = self.terms.ids[row] if len(self.terms.ids) else ""
            frequency = int(self.terms.frequency[row])
            members.append(Member(texts[row], frequency, language, identifier, similarity, to, by, score))
        return tuple(members)

    def _tree(self, index: int, nodes: list[int]) -> dict[int, tuple[int, str, float]]:
        """To which node each but the first was joined, and why: the strongest tree of edges from the first node on."""
        graph = self._graph
        edges = self._edges[self._edge_starts[index] : self._edge_starts[index + 1]]
        inside = set(nodes)
        links = [
            (
                -float(graph.weight[e]),
                int(graph.one[e]),
                int(graph.other[e]),
                ABBREVIATION if graph.short[e] else EMBEDDING,
                float(graph.cosine[e]),
            )
            for e in edges
        ]
        for one in nodes:
            if (long := self._abbreviations.get(one)) in inside:
                links.append((0.0, one, long, ABBREVIATION, float(self._vectors[one] @ self._vectors[long])))
        by_end: defaultdict[int, list[tuple[float, int, int, str, float]]] = defaultdict(list)
        for weight, one, other, why, score in links:
            by_end[one].append((weight, one, other, why, score))
            by_end[other].append((weight, other, one, why, score))
        joined: dict[int, tuple[int, str, float]] = {}
        reached = {nodes[0]}
        heap = list(by_end[nodes[0]])
        heapify(heap)
        while heap:
            _, near, far, why, score = heappop(heap)
            if far in reached:
                continue
            reached.add(far)
            joined[far] = (near, why, round(score, 4))
            for link in by_end[far]:
                heappush(heap, link)
        return joined

    def _neighbours(self, index: int) -> tuple[Neighbour, ...]:
        if self._near is None:
            return ()
        starts, node, cosine, apart = self._near
        return tuple(
            Neighbour(
                self.terms.texts[int(self.forms.row[node[at]])],
                int(self.cluster_of_node[node[at]]) + 1,
                round(float(cosine[at]), 4),
                KINDS[apart[at]],
            )
            for at in range(starts[index], starts[index + 1])
        )
