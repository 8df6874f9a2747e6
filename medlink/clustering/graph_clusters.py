"""The clusters of a term list as arrays, whose records are built on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering import clusters
from medlink.clustering.clusters import MAYBE, Cluster, LazyClusters, Member, Neighbour
from medlink.clustering.concepts import Parents, TermConcept, classify_cluster
from medlink.clustering.graph import Graph
from medlink.clustering.guards import KINDS
from medlink.clustering.terms import TermForms, Terms
from medlink.language.guard_words import GuardReader
from medlink.language.tags import base
from medlink.language.text import is_short
from medlink.processes import MIN_FORKED, forked
from medlink.records import Link

_MIN_PROBABILITY = 0.05  # of a neighbour
_MAX_NEIGHBOURS = 5  # of each cluster
_PART = 1 << 14  # clusters whose neighbours are found at a time
_MAX_CLASSIFIED = 10  # members whose links classify their cluster


class GraphClusters(LazyClusters):
    """The clusters of a term list, numbered by summed frequency, then size.

    ``forms`` are the n nodes of a list, and ``group (n,)`` their groups. ``inside`` has the edges within groups that no
    guard separates, and ``crossing`` those between groups.
    ``language`` is the base language preferred for representatives, or ``""``; ``unfit (n,)`` tells whether a node
    represents only a cluster of such nodes, as one that denies something (*no fever*).

    Attributes:
        starts: ``(clusters + 1,)`` where the rows of each cluster begin.
        broader: ``(clusters,)`` the edge to the broader cluster, -1 for none.
        verdicts: the results of :meth:`classify`, in the order of the clusters.
    """

    def __init__(
        self, terms: Terms, forms: TermForms, group: NDArray[np.int64], vectors: NDArray[np.floating[Any]],
        inside: Graph, crossing: Graph, language: str = "", unfit: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        self.terms, self.forms, self._vectors = terms, forms, vectors
        row_group = group[forms.node]
        count = int(group.max(initial=-1)) + 1
        # an abbreviation represents only a cluster without a longer name
        unfit = np.zeros(len(forms), dtype=bool) if unfit is None else unfit
        short = np.fromiter((is_short(text) for text in terms.texts), dtype=bool, count=len(terms))
        preferred = np.array([not language or base(tag) in ("", language) for tag in terms.languages], dtype=bool)
        order = np.lexsort((forms.rank, ~preferred[terms.language], short, unfit[forms.node], row_group))
        starts = np.searchsorted(row_group[order], np.arange(count + 1))
        weight = np.bincount(row_group, weights=terms.frequency, minlength=count)
        by_weight = np.lexsort((forms.rank[order[starts[:-1]]], -np.diff(starts), -weight))
        self.cluster_of_node = np.argsort(by_weight)[group]
        self._group_of = by_weight
        sizes = np.diff(starts)[by_weight]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        super().__init__(count, self._record)
        offsets = np.repeat(starts[:-1][by_weight] - self.starts[:-1], sizes)
        self._rows = order[np.arange(len(order)) + offsets]
        self._inside, self._crossing = inside, crossing
        with forked(self._find_near, wanted=len(forms) >= MIN_FORKED) as near:
            self._joined_to, self._joined_by = self._find_tree()
            self.broader = self._find_broader()
            self._near = near()
        self.verdicts: list[Cluster] = []
        self._scores = np.full(len(forms), np.nan)

    def classify(
        self, links: Sequence[Link], resolved: Sequence[TermConcept], concepts: Sequence[str],
        scores: NDArray[np.float64], known_at: float, parents: Parents | None, reader: GuardReader | None = None,
    ) -> None:  # fmt: skip
        """Classify each cluster by the links of its representative and of up to nine other forms.

        ``concepts`` has an id for each group, ``links``, ``resolved`` and ``scores`` have an entry for each node.
        """
        self._scores = scores
        for index in range(len(self)):
            rows = self._rows[self.starts[index] : self.starts[index + 1]]
            nodes = list(dict.fromkeys(self.forms.node[rows].tolist()))
            concept = concepts[self._group_of[index]]
            if concept:  # the surest members first
                nodes[1:] = sorted(nodes[1:], key=lambda node: (-scores[node], node))
            language = self.terms.languages[self.terms.language[rows[0]]]
            some, term = [links[node] for node in nodes[:_MAX_CLASSIFIED]], resolved[nodes[0]]
            self.verdicts.append(classify_cluster(some, term, concept, known_at, parents, language, reader))
        known = np.array([verdict.concept_id is not None for verdict in self.verdicts], dtype=bool)
        self.broader[known] = -1  # the terminology has the parents of a known concept
        for index, verdict in enumerate(self.verdicts):
            above = self.verdicts[self._ends(self.broader[index], index)[0]] if self.broader[index] >= 0 else None
            if above is not None and above.concept_id and verdict.concept_id is None and not verdict.candidates:
                self.verdicts[index] = replace(verdict, parent_id=above.concept_id, parent_name=above.concept_name)

    @property
    def maybe_pairs(self) -> int:
        """Number of pairs of clusters that may be one concept."""
        graph = self._crossing
        edges = np.flatnonzero((graph.apart == 0) & (graph.probability >= MAYBE))
        ends = self.cluster_of_node[graph.one[edges]], self.cluster_of_node[graph.other[edges]]
        known = np.array([verdict.concept_id is not None for verdict in self.verdicts] or [False] * len(self), bool)
        keys = np.minimum(*ends) * len(self) + np.maximum(*ends)
        return len(np.unique(keys[~known[np.stack(ends)].all(axis=0)]))

    def guarded_pairs(self, threshold: float) -> int:
        """Count the pairs of terms that only a guard keeps apart."""
        return int(((self._crossing.apart > 0) & (self._crossing.probability >= threshold)).sum())

    def _find_broader(self) -> NDArray[np.int64]:
        graph, broader = self._crossing, np.full(len(self), -1, dtype=np.int64)
        edges = np.flatnonzero(graph.narrower)
        for edge in edges[np.lexsort((edges, -np.abs(graph.narrower[edges])))].tolist():
            ends = self.cluster_of_node[[graph.one[edge], graph.other[edge]]].tolist()
            below, above = ends if graph.narrower[edge] > 0 else ends[::-1]
            if broader[below] >= 0:
                continue
            at = above
            while at != below and broader[at] >= 0:
                at = self._ends(broader[at], at)[0]
            if at != below:
                broader[below] = edge
        return broader

    def _find_near(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        graph = self._crossing
        near = np.flatnonzero(graph.probability >= _MIN_PROBABILITY)
        near = near[np.argsort(-graph.probability[near], kind="stable")]
        ends = self.cluster_of_node[graph.one[near]], self.cluster_of_node[graph.other[near]]
        starts, edges = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
        for start in range(0, len(self), _PART):
            # each edge in both directions; the best edge of each pair of clusters
            part = [np.flatnonzero((end >= start) & (end < start + _PART)) for end in ends]
            order = np.argsort(np.concatenate(part), kind="stable")
            at = np.concatenate(part)[order]
            own, neighbour = (
                np.concatenate([one[part[0]], other[part[1]]])[order] for one, other in (ends, ends[::-1])
            )
            first = np.sort(np.unique(own * len(self) + neighbour, return_index=True)[1])
            best = first[np.argsort(own[first], kind="stable")]
            begins = np.searchsorted(own[best], own[best])
            best = best[np.arange(len(best)) - begins < _MAX_NEIGHBOURS]
            stops = np.arange(start, min(start + _PART, len(self))) + 1
            starts.append(np.searchsorted(own[best], stops) + starts[-1][-1])
            edges.append(near[at[best]])
        return np.concatenate(starts), np.concatenate(edges)

    def _find_tree(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # for each node the node that it joined, -1 for none, and the edge between them: a maximum spanning tree of each
        # cluster from its representative. Nodes without an edge have the same known concept.
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

        graph, count = self._inside, len(self.forms)
        cells = (2 - graph.probability, (graph.one, graph.other))
        tree = minimum_spanning_tree(csr_array(cells, shape=(count, count))).tocoo()
        heads = self.forms.node[self._rows[self.starts[:-1]]]
        ends = np.append(tree.row, np.full(len(heads), count)), np.append(tree.col, heads)
        rooted = csr_array((np.ones(len(ends[0])), ends), shape=(count + 1, count + 1))
        before = breadth_first_order(rooted, count, directed=False)[1][:count].astype(np.int64)
        before[(before < 0) | (before == count)] = -1
        nodes = np.arange(count)
        keys = np.minimum(before, nodes) * count + np.maximum(before, nodes)
        return before, np.searchsorted(graph.one * count + graph.other, keys)

    def _ends(self, edge: int, index: int) -> tuple[int, int, int]:
        # the other cluster, and the nodes of this and of the other cluster
        near, far = int(self._crossing.one[edge]), int(self._crossing.other[edge])
        if self.cluster_of_node[near] != index:
            near, far = far, near
        return int(self.cluster_of_node[far]), near, far

    def _neighbour(self, edge: int, index: int, probability: float) -> Neighbour:
        cluster, near, far = self._ends(edge, index)
        texts = [self.terms.texts[int(self.forms.row[node])] for node in (far, near)]
        apart = KINDS[self._crossing.apart[edge]]
        if self.verdicts and None not in (self.verdicts[index].concept_id, self.verdicts[cluster].concept_id):
            apart = clusters.TWO_CONCEPTS  # the terminology distinguishes them
        return Neighbour(texts[0], cluster + 1, round(probability, 4), apart, texts[1])

    def _record(self, index: int) -> Cluster:
        rows = self._rows[self.starts[index] : self.starts[index + 1]].tolist()
        above, (starts, edges) = int(self.broader[index]), self._near
        near = edges[starts[index] : starts[index + 1]].tolist()
        return replace(
            self.verdicts[index] if self.verdicts else Cluster(),
            number=index + 1, representative=self.terms.texts[rows[0]], members=tuple(self._members(rows)),
            broader=self._neighbour(above, index, abs(float(self._crossing.narrower[above]))) if above >= 0 else None,
            neighbours=tuple(self._neighbour(at, index, float(self._crossing.probability[at])) for at in near),
        )  # fmt: skip

    def _members(self, rows: list[int]) -> Iterator[Member]:
        terms, texts, nodes = self.terms, self.terms.texts, self.forms.node[rows].tolist()
        node_row = dict(zip(reversed(nodes), reversed(rows), strict=True))  # the first of each node
        head = self._vectors[nodes[0]].astype(np.float32)
        for row, node in zip(rows, nodes, strict=True):
            similarity = 1.0 if node == nodes[0] else round(float(self._vectors[node] @ head), 4)
            to, by, probability, near = "", "", None, int(self._joined_to[node])
            if node_row[node] != row:
                to, by, probability = texts[node_row[node]], clusters.SAME_FORM, 1.0
            elif near >= 0:
                edge = self._joined_by[node]
                to, by = (
                    texts[node_row[near]],
                    clusters.ABBREVIATION if self._inside.short[edge] else clusters.EMBEDDING,
                )
                probability = round(float(self._inside.probability[edge]), 4)
            elif row != rows[0]:
                to, by = texts[rows[0]], clusters.SAME_CONCEPT
            yield Member(
                texts[row], int(terms.frequency[row]), terms.languages[terms.language[row]],
                terms.ids[row] if terms.ids else "", similarity, to, by, probability,
                None if np.isnan(self._scores[node]) else float(self._scores[node]),
            )  # fmt: skip
