"""Clusters as arrays, which make their records when they are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import (
    ABBREVIATION,
    CONCEPT,
    EMBEDDING,
    LINKED,
    MAYBE,
    SAME_FORM,
    Cluster,
    LazyClusters,
    Member,
    Neighbour,
)
from medlink.clustering.concepts import ASKED, Answer, Parents, believed, judge
from medlink.clustering.forms import Forms
from medlink.clustering.graph import Graph
from medlink.clustering.guards import KINDS
from medlink.clustering.terms import Terms
from medlink.language.guard_words import GuardReader
from medlink.language.tags import base
from medlink.language.text import is_short
from medlink.records import Link

_SHOWN = 0.05  # probability of a neighbour that is kept for a reader
_NEIGHBOURS = 5  # of each cluster


class MadeClusters(LazyClusters):
    """The clusters of n nodes of a term list, numbered by summed frequency, then size.

    Args:
        terms, forms: the list and its nodes.
        group: ``(n,)`` of each node.
        vectors: ``(n, d)`` embeddings.
        graph: all edges between nodes.
        language: base of the language that representatives are in where there is one, or ``""``.

    Attributes:
        starts: ``(clusters + 1,)`` where the rows of each cluster begin.
        broader: ``(clusters,)`` the edge by which each cluster is narrower than another one, -1 for none.
        verdicts: what :meth:`judge` found, in the order of the clusters.
    """

    def __init__(
        self, terms: Terms, forms: Forms, group: NDArray[np.int64], vectors: NDArray[np.float32], graph: Graph,
        language: str = "",
    ) -> None:  # fmt: skip
        self.terms, self.forms, self._vectors = terms, forms, vectors
        row_group = group[forms.node]
        count = int(group.max(initial=-1)) + 1
        # an abbreviation never stands for a cluster that has a longer name
        short = np.fromiter((is_short(text) for text in terms.texts), dtype=bool, count=len(terms))
        spoken = np.array([not language or base(tag) in ("", language) for tag in terms.languages], dtype=bool)
        order = np.lexsort((forms.rank, ~spoken[terms.language], short, row_group))
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
        one, other = self.cluster_of_node[graph.one], self.cluster_of_node[graph.other]
        self._inside = graph.of((one == other) & (graph.apart == 0))
        self._crossing = graph.of(one != other)
        of_edge = self.cluster_of_node[self._inside.one]
        self._edges = np.argsort(of_edge, kind="stable")
        self._edge_starts = np.searchsorted(of_edge[self._edges], np.arange(count + 1))
        self.broader = self._find_broader()
        self._near = self._find_near()
        self.verdicts: list[Cluster] = []
        self._scores: NDArray[np.float64] | None = None

    def judge(
        self, links: Sequence[Link], answers: Sequence[Answer], concepts: Sequence[str], known_at: float,
        parents: Parents | None, reader: GuardReader | None = None,
    ) -> None:  # fmt: skip
        """Decide what each cluster is by the links of up to :data:`ASKED` forms of it, the representative first.

        ``concepts`` are those of the groups, and ``links`` and ``answers`` of the nodes.
        """
        scores = self._scores = np.full(len(links), np.nan)
        for node, link in enumerate(links):
            concept = concepts[self._group_of[self.cluster_of_node[node]]]
            fits = [one.score for one in believed(link) if concept in ("", one.concept_id)]
            if fits:
                scores[node] = fits[0]
        for index in range(len(self)):
            rows = self._rows[self.starts[index] : self.starts[index + 1]].tolist()
            nodes = list(dict.fromkeys(int(self.forms.node[row]) for row in rows))
            concept = concepts[self._group_of[index]]
            if concept:  # the surest member is asked in any case
                nodes = [nodes[0], *sorted(nodes[1:], key=lambda node: (-scores[node], node))]
            asked = nodes[:ASKED]
            language = self.terms.languages[self.terms.language[rows[0]]]
            some, equal = [links[node] for node in asked], answers[asked[0]].equal
            self.verdicts.append(judge(some, equal, concept, known_at, parents, language, reader))
        known = np.array([verdict.concept_id is not None for verdict in self.verdicts], dtype=bool)
        self.broader[known] = -1  # the terminology says what is above a known concept
        for index, verdict in enumerate(self.verdicts):
            above = self.verdicts[self._ends(self.broader[index], index)[0]] if self.broader[index] >= 0 else None
            if above is not None and above.concept_id and verdict.concept_id is None and not verdict.candidates:
                told = replace(verdict, parent_id=above.concept_id, parent_name=above.concept_name)
                self.verdicts[index] = told

    @property
    def maybe(self) -> int:
        """How many pairs of clusters may be one."""
        graph = self._crossing
        kept = np.flatnonzero((graph.apart == 0) & (graph.probability >= MAYBE))
        ends = self.cluster_of_node[graph.one[kept]], self.cluster_of_node[graph.other[kept]]
        known = np.array([one.concept_id is not None for one in self.verdicts] or [False] * len(self), dtype=bool)
        keys = np.minimum(*ends) * len(self) + np.maximum(*ends)
        return len(np.unique(keys[~(known[ends[0]] & known[ends[1]])]))

    def guarded(self, threshold: float) -> int:
        """How many pairs of terms a guard kept apart which would else be likely to be one concept."""
        return int(((self._crossing.apart > 0) & (self._crossing.probability >= threshold)).sum())

    def _find_broader(self) -> NDArray[np.int64]:
        graph, found = self._crossing, np.full(len(self), -1, dtype=np.int64)
        edges = np.flatnonzero(graph.narrower)
        for edge in edges[np.lexsort((edges, -np.abs(graph.narrower[edges])))].tolist():
            ends = self.cluster_of_node[[graph.one[edge], graph.other[edge]]].tolist()
            below, above = ends if graph.narrower[edge] > 0 else ends[::-1]
            if found[below] >= 0:
                continue
            at = above
            while at != below and found[at] >= 0:
                at = self._ends(found[at], at)[0]
            if at != below:
                found[below] = edge
        return found

    def _find_near(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        graph = self._crossing
        kept = np.flatnonzero(graph.probability >= _SHOWN)
        ends = self.cluster_of_node[graph.one[kept]], self.cluster_of_node[graph.other[kept]]
        own, other = np.concatenate(ends), np.concatenate(ends[::-1])
        edges = np.concatenate([kept, kept])
        order = np.lexsort((edges, -graph.probability[edges], other, own))
        key = own[order] * len(self) + other[order]
        order = order[np.r_[True, np.diff(key) > 0]] if len(order) else order
        order = order[np.lexsort((edges[order], -graph.probability[edges[order]], own[order]))]
        begins = np.searchsorted(own[order], own[order])
        order = order[np.arange(len(order)) - begins < _NEIGHBOURS]
        return np.searchsorted(own[order], np.arange(len(self) + 1)), edges[order]

    def _ends(self, edge: int, index: int) -> tuple[int, int, int]:
        one, other = int(self._crossing.one[edge]), int(self._crossing.other[edge])
        if self.cluster_of_node[one] != index:
            one, other = other, one
        return int(self.cluster_of_node[other]), one, other

    def _neighbour(self, edge: int, index: int, probability: float) -> Neighbour:
        cluster, near, far = self._ends(edge, index)
        texts = [self.terms.texts[int(self.forms.row[node])] for node in (far, near)]
        apart = KINDS[self._crossing.apart[edge]]
        if self.verdicts and None not in (self.verdicts[index].concept_id, self.verdicts[cluster].concept_id):
            apart = CONCEPT  # what a terminology has apart is no guess
        return Neighbour(texts[0], cluster + 1, round(probability, 4), apart, texts[1])

    def _record(self, index: int) -> Cluster:
        rows = self._rows[self.starts[index] : self.starts[index + 1]].tolist()
        edge = int(self.broader[index])
        above = None
        if edge >= 0:
            above = self._neighbour(edge, index, abs(float(self._crossing.narrower[edge])))
        starts, edges = self._near
        near = edges[starts[index] : starts[index + 1]].tolist()
        return replace(
            self.verdicts[index] if self.verdicts else Cluster(),
            number=index + 1,
            representative=self.terms.texts[rows[0]],
            members=self._members(index, rows),
            broader=above,
            neighbours=tuple(self._neighbour(at, index, float(self._crossing.probability[at])) for at in near),
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
            to, by, probability = "", "", None
            if node_row[node] != row:
                to, by, probability = texts[node_row[node]], SAME_FORM, 1.0
            elif node in joined:
                other, by, probability = joined[node]
                to = texts[node_row[other]]
            elif row != rows[0]:
                to, by = texts[rows[0]], LINKED
            language = self.terms.languages[self.terms.language[row]]
            identifier = self.terms.ids[row] if len(self.terms.ids) else ""
            score = None if self._scores is None or np.isnan(self._scores[node]) else float(self._scores[node])
            frequency = int(self.terms.frequency[row])
            members.append(Member(texts[row], frequency, language, identifier, similarity, to, by, probability, score))
        return tuple(members)

    def _tree(self, index: int, nodes: list[int]) -> dict[int, tuple[int, str, float]]:
        """To which node each was joined, and why: the strongest tree of edges from the first node on.

        A node that no path of edges reaches is left out: it is there because it is the same known concept.
        """
        if len(nodes) == 1:
            return {}
        graph = self._inside
        by_end: defaultdict[int, list[tuple[float, int, int, str]]] = defaultdict(list)
        for edge in self._edges[self._edge_starts[index] : self._edge_starts[index + 1]].tolist():
            one, other = int(graph.one[edge]), int(graph.other[edge])
            why, weight = ABBREVIATION if graph.short[edge] else EMBEDDING, -float(graph.probability[edge])
            by_end[one].append((weight, one, other, why))
            by_end[other].append((weight, other, one, why))
        joined: dict[int, tuple[int, str, float]] = {}
        reached = {nodes[0]}
        heap = list(by_end[nodes[0]])
        heapify(heap)
        while heap:
            weight, near, far, why = heappop(heap)
            if far in reached:
                continue
            reached.add(far)
            joined[far] = (near, why, round(-weight, 4))
            for link in by_end[far]:
                heappush(heap, link)
        return joined
