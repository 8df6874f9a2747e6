"""Apply a reviewer's decisions to a clustering."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from medlink.clustering.clusters import CONCEPT_COLUMNS, DECISION, Cluster, Clustering, LazyClusters, Member, Neighbour
from medlink.curation.decisions import NEW_ID, Decisions
from medlink.kb.decision_table import REJECT, collapse_whitespace
from medlink.models import Encoder

_COUNTS = ("clusters", "single", "largest", "known", "ambiguous", "new", "doubtful")
_BATCH = 1_000  # clusters whose terms are embedded together
_Piece = tuple[Cluster, tuple[Member, ...]]  # a cluster, and those of its members that stay together
_Moves = Mapping[tuple[int, str], int | None]  # new cluster numbers by old number and term; None for a rejected term


@dataclass(frozen=True, slots=True)
class AppliedDecisions:
    """A clustering after :func:`apply_decisions`, with the numbers of terms of the list that have a decision, of these
    that are rejected, and of terms of the file that the list lacks."""

    clustering: Clustering
    decided: int
    rejected: int
    absent: int


def apply_decisions(clustering: Clustering, decisions: Decisions, encoder: Encoder) -> AppliedDecisions:
    """Apply the decisions of a reviewer to clusters; clusters without decisions are not copied.

    All terms with the same id form one cluster, and no term with another id joins it. An accepted id is the concept of
    its cluster. Rejected terms are left out. A term without a decision follows the chain of terms to which it was
    joined, up to a decided term; without one, it gets the most frequent id in its cluster. A merged cluster takes the
    lowest free number of its parts. For a new representative, the encoder computes the similarities again.
    """
    # positions in the old clustering, and the numbers of changed clusters as negatives
    order = array("q")
    touched: list[Cluster] = []
    counts: Counter[str] = Counter()
    for position, cluster in enumerate(clustering.clusters):
        if any(decisions.find(member.term, member.language) for member in cluster.members):
            touched.append(cluster)
            order.append(-cluster.number)
        else:
            order.append(position)
            _count(counts, cluster)
        counts["last"] = max(counts["last"], cluster.number)

    groups = _groups(sorted(touched, key=lambda cluster: cluster.number), decisions, counts["last"])
    moved: dict[tuple[int, str], int | None] = {(c.number, m.term): None for c in touched for m in c.members}
    changed: list[Cluster] = []
    for number, (concept_id, pieces) in groups.items():
        moved |= {(cluster.number, member.term): number for cluster, members in pieces for member in members}
        if concept_id:
            cluster = _decided(concept_id, pieces, decisions)
        else:
            cluster, members = pieces[0]
            first = _first(members, cluster.representative)
            cluster = replace(cluster, representative=first.term, members=_rejoined(members, first))
        changed.append(replace(cluster, number=number))
    new = {cluster.number: cluster for cluster in _with_similarities(changed, encoder)}
    for cluster in new.values():
        _count(counts, cluster)

    order = array("q", (at for at in order if at >= 0 or -at in new))
    order.extend(sorted(-number for number in new.keys() - {-at for at in order if at < 0})[::-1])
    rows = [decisions.find(member.term, member.language) for cluster in touched for member in cluster.members]
    rejected = sum(row is not None and row.decision == REJECT for row in rows)
    before = clustering.summary
    if not (before.known or before.ambiguous or before.new):
        # without a terminology no cluster is new
        counts["new"] = 0
    recounted: dict[str, Any] = {name: counts[name] for name in _COUNTS}
    summary = replace(before, terms=before.terms - rejected, **recounted)

    def build(index: int) -> Cluster:
        at = order[index]
        cluster = clustering.clusters[at] if at >= 0 else new[-at]
        neighbours, broader = tuple(_neighbours(cluster, moved)), cluster.broader
        if broader is not None:
            number = moved.get((broader.cluster, broader.term), broader.cluster)
            # it was rejected, or is a member now
            broader = None if number in (None, cluster.number) else replace(broader, cluster=number)
        if neighbours == cluster.neighbours and broader == cluster.broader:
            return cluster
        return replace(cluster, neighbours=neighbours, broader=broader)

    here = {collapse_whitespace(member.term) for cluster in touched for member in cluster.members}
    clusters, empty = LazyClusters(len(order), build), clustering.empty_columns - set(CONCEPT_COLUMNS)
    applied = replace(clustering, clusters=clusters, summary=summary, empty_columns=empty)
    return AppliedDecisions(applied, len(rows) - rows.count(None), rejected, len(decisions.terms - here))


def _neighbours(cluster: Cluster, moved: _Moves) -> Iterator[Neighbour]:
    seen = {member.term for member in cluster.members}
    for neighbour in sorted(cluster.neighbours, key=lambda near: -near.probability):
        number = moved.get((neighbour.cluster, neighbour.term), neighbour.cluster)
        if number is not None and neighbour.term not in seen:
            seen.add(neighbour.term)
            yield replace(neighbour, cluster=number)


def _count(counts: Counter[str], cluster: Cluster) -> None:
    counts["clusters"] += 1
    counts["single"] += len(cluster.members) == 1
    counts["largest"] = max(counts["largest"], len(cluster.members))
    counts[cluster.status] += 1
    counts["doubtful"] += cluster.doubtful


def _groups(touched: Iterable[Cluster], decisions: Decisions, last: int) -> dict[int, tuple[str, list[_Piece]]]:
    pieces: defaultdict[str, list[_Piece]] = defaultdict(list)
    groups: dict[int, tuple[str, list[_Piece]]] = {}
    for cluster in touched:
        for concept_id, members in _split(cluster, decisions).items():
            if concept_id:
                pieces[concept_id].append((cluster, tuple(members)))
            else:
                groups[cluster.number] = ("", [(cluster, tuple(members))])
    for concept_id in sorted(pieces, key=lambda concept_id: (pieces[concept_id][0][0].number, concept_id)):
        number = next((cluster.number for cluster, _ in pieces[concept_id] if cluster.number not in groups), last + 1)
        last = max(last, number)
        groups[number] = (concept_id, pieces[concept_id])
    return groups


def _split(cluster: Cluster, decisions: Decisions) -> dict[str, list[Member]]:
    rows = [(member, decisions.find(member.term, member.language)) for member in cluster.members]
    ids = {member.term: row.concept_id for member, row in rows if row and row.decision != REJECT}
    joined = {member.term: member.joined_to for member in cluster.members}
    most = Counter(ids.values())
    majority = min(most, key=lambda concept_id: (-most[concept_id], concept_id), default="")
    parts: defaultdict[str, list[Member]] = defaultdict(list)
    for member, row in rows:
        if row is None:
            at, seen = member.term, {""}
            while at not in seen and at not in ids:
                seen.add(at)
                at = joined.get(at, "")
            parts[ids.get(at, majority)].append(member)
        elif row.decision != REJECT:
            parts[row.concept_id].append(member)
    return parts


def _decided(concept_id: str, pieces: Sequence[_Piece], decisions: Decisions) -> Cluster:
    members = [member for _, some in pieces for member in some]
    home = max(pieces, key=lambda piece: len(piece[1]))[0]
    name = decisions.names.get(concept_id, "")
    representative = next((m for m in members if collapse_whitespace(m.term) == name), None) or _first(
        members, home.representative
    )
    # values of the largest piece override those of the others
    sources = sorted((source for source, _ in pieces), key=lambda source: source is home)
    known: dict[str, tuple[str, float | None]] = {
        near.concept_id: (near.preferred_name, near.score) for source in sources for near in source.nearest
    }
    known |= {source.concept_id: (source.concept_name, source.score) for source in sources if source.concept_id}
    parents = {source.parent_id: source.parent_name for source in sources if source.parent_id}
    new, parent = concept_id.startswith(NEW_ID), decisions.parents.get(concept_id, "")
    named, score = known.get(concept_id, ("", None))
    is_concept, candidates = concept_id in decisions.accepted or not new, home.candidates
    if is_concept:
        named, candidates = (name or representative.term) if new else named, ()
    else:
        named, score = "", home.nearest[0].score if home.nearest else None
    # a term without a decision joined after the review
    is_open = any(decisions.find(member.term, member.language) is None for member in members)
    return Cluster(
        home.number, representative.term, _rejoined(members, representative), concept_id if is_concept else None,
        named, score, home.nearest, parent or None, parents.get(parent, known.get(parent, ("", None))[0]), home.broader,
        is_open and any(source.doubtful for source in sources),
        tuple(neighbour for source in sources for neighbour in source.neighbours), candidates,
    )  # fmt: skip


def _first(members: Sequence[Member], wanted: str) -> Member:
    return min(members, key=lambda m: (m.term != wanted, -m.frequency, len(m.term), m.term, m.language))


def _rejoined(members: Sequence[Member], representative: Member) -> tuple[Member, ...]:
    ordered = [representative, *(member for member in members if member is not representative)]
    terms = {member.term for member in members}
    # the chain of joins begins at one term
    begin = next((member for member in ordered if member.joined_to not in terms), representative)
    out = []
    for member in ordered:
        if member is begin:
            out.append(replace(member, joined_to="", joined_by="", joined_score=None))
        elif member.joined_to in terms:
            out.append(member)
        else:
            out.append(replace(member, joined_to=begin.term, joined_by=DECISION, joined_score=None))
    return tuple(out)


def _with_similarities(clusters: Sequence[Cluster], encoder: Encoder) -> Iterator[Cluster]:
    for start in range(0, len(clusters), _BATCH):
        some = clusters[start : start + _BATCH]
        vectors = encoder.encode([member.term for cluster in some for member in cluster.members])
        for cluster, stop in zip(some, accumulate(len(cluster.members) for cluster in some), strict=True):
            own = vectors[stop - len(cluster.members) : stop]
            # rounding lifts some cosines above 1
            cosines = np.clip(own @ own[0], -1, 1).tolist()
            members = (replace(m, similarity=round(c, 4)) for m, c in zip(cluster.members, cosines, strict=True))
            yield replace(cluster, members=tuple(members))
