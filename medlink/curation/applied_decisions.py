"""A clustering with a reader's decisions applied."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from medlink.clustering.clusters import CONCEPT_COLUMNS, DECIDED, Cluster, Clustering, LazyClusters, Member, Neighbour
from medlink.curation.decisions import NEW_ID, REJECT, Decisions, clean
from medlink.models import Encoder

_COUNTED = ("clusters", "single", "largest", "known", "ambiguous", "new", "doubtful")
_ENCODE_AT_ONCE = 1_000
"""Clusters whose terms are embedded together: enough to be quick, few enough to be small."""
_Piece = tuple[Cluster, tuple[Member, ...]]
"""A cluster and those of its members that stay together."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A clustering after :func:`apply`.

    ``decided`` terms of the list were found in the file, ``rejected`` of them are left out of the clusters, and
    ``absent`` terms of the file are not in the list.
    """

    clustering: Clustering
    decided: int
    rejected: int
    absent: int


def apply(clustering: Clustering, decisions: Decisions, encoder: Encoder) -> Applied:
    """Bring clusters in line with what a reader decided; clusters that no decision touches are not copied.

    Terms of one id are one cluster, whatever the clusterer says, and terms of two ids are in two. An accepted id is
    the concept of its cluster. Rejected terms are left out. A term without a decision stays with the term it was
    joined to; where that leads to no decided term, with the id that most terms of its cluster have. A cluster made of
    several has the lowest of their numbers that is free. The encoder gives the likeness of members to a representative
    that is new to them.

    >>> from medlink.clustering import Summary
    >>> from medlink.curation.decisions import Decision
    >>> from medlink.models import load_encoder
    >>> terms = Clustering((Cluster(1, "cyst", (Member("cyst"), Member("n/a"))),), Summary(terms=2, clusters=1))
    >>> rows = [Decision("", "n/a", "", False, "", REJECT, 2)]
    >>> result = apply(terms, Decisions("decisions.tsv", rows), load_encoder("builtin"))
    >>> result.rejected, [member.term for member in result.clustering.clusters[0].members]
    (1, ['cyst'])
    """
    # positions in the clustering, and the number of a made cluster as a negative
    order = array("q")
    touched: list[Cluster] = []
    counts: Counter[str] = Counter()
    for position, cluster in enumerate(clustering.clusters):
        if any(decisions.of(member.term, member.language) for member in cluster.members):
            touched.append(cluster)
            order.append(-cluster.number)
        else:
            order.append(position)
            _count(counts, cluster)
        counts["last"] = max(counts["last"], cluster.number)

    groups = _groups(sorted(touched, key=lambda one: one.number), decisions, counts["last"])
    moved: dict[tuple[int, str], int | None] = {(c.number, m.term): None for c in touched for m in c.members}
    changed: list[Cluster] = []
    for number, (concept_id, pieces) in groups.items():
        moved |= {(cluster.number, member.term): number for cluster, members in pieces for member in members}
        cluster = _decided(concept_id, pieces, decisions) if concept_id else _remaining(*pieces[0])
        changed.append(replace(cluster, number=number))
    made = {cluster.number: cluster for cluster in _measured(changed, encoder)}
    for cluster in made.values():
        _count(counts, cluster)

    order = array("q", (at for at in order if at >= 0 or -at in made))
    order.extend(sorted(-number for number in made.keys() - {-at for at in order if at < 0})[::-1])
    rows = [decisions.of(member.term, member.language) for cluster in touched for member in cluster.members]
    rejected = sum(row is not None and row.decision == REJECT for row in rows)
    before = clustering.summary
    if not (before.known or before.ambiguous or before.new):
        # without a terminology nobody asked whether a cluster is new
        counts["new"] = 0
    counted: dict[str, Any] = {name: counts[name] for name in _COUNTED}
    summary = replace(before, terms=before.terms - rejected, **counted)

    def at(index: int) -> Cluster:
        place = order[index]
        cluster = clustering.clusters[place] if place >= 0 else made[-place]
        neighbours, broader = tuple(_neighbours(cluster, moved)), _broader(cluster, moved)
        if neighbours == cluster.neighbours and broader == cluster.broader:
            return cluster
        return replace(cluster, neighbours=neighbours, broader=broader)

    here = {clean(member.term) for cluster in touched for member in cluster.members}
    return Applied(
        replace(
            clustering,
            clusters=LazyClusters(len(order), at),
            summary=summary,
            absent=clustering.absent - set(CONCEPT_COLUMNS),
        ),
        sum(row is not None for row in rows),
        rejected,
        len(decisions.terms - here),
    )


def _neighbours(cluster: Cluster, moved: Mapping[tuple[int, str], int | None]) -> Iterator[Neighbour]:
    seen = {member.term for member in cluster.members}
    for neighbour in sorted(cluster.neighbours, key=lambda one: -one.probability):
        number = moved.get((neighbour.cluster, neighbour.term), neighbour.cluster)
        if number is not None and neighbour.term not in seen:
            seen.add(neighbour.term)
            yield replace(neighbour, cluster=number)


def _broader(cluster: Cluster, moved: Mapping[tuple[int, str], int | None]) -> Neighbour | None:
    """What a cluster is narrower than, where it is now; ``None`` where it was rejected or is a member now."""
    broader = cluster.broader
    if broader is None:
        return None
    number = moved.get((broader.cluster, broader.term), broader.cluster)
    return None if number is None or number == cluster.number else replace(broader, cluster=number)


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
        for concept_id, members in _parted(cluster, decisions).items():
            if concept_id:
                pieces[concept_id].append((cluster, tuple(members)))
            else:
                groups[cluster.number] = ("", [(cluster, tuple(members))])
    for concept_id in sorted(pieces, key=lambda one: (pieces[one][0][0].number, one)):
        number = next((one.number for one, _ in pieces[concept_id] if one.number not in groups), last + 1)
        last = max(last, number)
        groups[number] = (concept_id, pieces[concept_id])
    return groups


def _parted(cluster: Cluster, decisions: Decisions) -> dict[str, list[Member]]:
    rows = [(member, decisions.of(member.term, member.language)) for member in cluster.members]
    ids = {member.term: row.concept_id for member, row in rows if row and row.decision != REJECT}
    joined = {member.term: member.joined_to for member in cluster.members}
    most = Counter(ids.values())
    majority = min(most, key=lambda one: (-most[one], one), default="")
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


def _remaining(cluster: Cluster, members: Sequence[Member]) -> Cluster:
    representative = _first(members, cluster.representative)
    return replace(cluster, representative=representative.term, members=_rejoined(members, representative))


def _decided(concept_id: str, pieces: Sequence[_Piece], decisions: Decisions) -> Cluster:
    members = [member for _, some in pieces for member in some]
    home = max(pieces, key=lambda piece: len(piece[1]))[0]
    name = decisions.names.get(concept_id, "")
    representative = next((m for m in members if clean(m.term) == name), None) or _first(members, home.representative)
    rows = [decisions.of(member.term, member.language) for member in members]
    # in this order the largest piece has the last word
    sources = sorted((one for one, _ in pieces), key=lambda one: one is home)
    names = {c.concept_id: c.preferred_name for one in sources for c in one.nearest}
    scores: dict[str, float | None] = {c.concept_id: c.score for one in sources for c in one.nearest}
    names |= {one.concept_id: one.concept_name for one in sources if one.concept_id}
    scores |= {one.concept_id: one.score for one in sources if one.concept_id}
    parents = {one.parent_id: one.parent_name for one in sources if one.parent_id}
    new, parent = concept_id.startswith(NEW_ID), decisions.parents.get(concept_id, "")
    is_concept = concept_id in decisions.accepted or not new
    return Cluster(
        number=home.number,
        representative=representative.term,
        members=_rejoined(members, representative),
        concept_id=concept_id if is_concept else None,
        concept_name="" if not is_concept else (name or representative.term) if new else names.get(concept_id, ""),
        score=scores.get(concept_id) if is_concept else home.nearest[0].score if home.nearest else None,
        nearest=home.nearest,
        parent_id=parent or None,
        parent_name={**names, **parents}.get(parent, ""),
        broader=home.broader,
        # a term that the file does not hold came in since a reader looked at the cluster
        doubtful=None in rows and any(one.doubtful for one in sources),
        neighbours=tuple(neighbour for one in sources for neighbour in one.neighbours),
        candidates=() if is_concept else home.candidates,
    )


def _first(members: Sequence[Member], wanted: str) -> Member:
    return min(members, key=lambda m: (m.term != wanted, -m.frequency, len(m.term), m.term, m.language))


def _rejoined(members: Sequence[Member], representative: Member) -> tuple[Member, ...]:
    ordered = [representative, *(member for member in members if member is not representative)]
    terms = {member.term for member in members}
    # a chain of joins is intact as long as all begins at one term
    begin = next((member for member in ordered if member.joined_to not in terms), representative)
    out = []
    for member in ordered:
        if member is begin:
            out.append(replace(member, joined_to="", joined_by="", joined_score=None))
        elif member.joined_to in terms:
            out.append(member)
        else:
            out.append(replace(member, joined_to=begin.term, joined_by=DECIDED, joined_score=None))
    return tuple(out)


def _measured(clusters: Sequence[Cluster], encoder: Encoder) -> Iterator[Cluster]:
    for start in range(0, len(clusters), _ENCODE_AT_ONCE):
        some = clusters[start : start + _ENCODE_AT_ONCE]
        vectors = encoder.encode([member.term for cluster in some for member in cluster.members])
        for cluster, stop in zip(some, accumulate(len(cluster.members) for cluster in some), strict=True):
            own = vectors[stop - len(cluster.members) : stop]
            # rounding lifts some cosines above 1
            cosines = np.clip(own @ own[0], -1, 1).tolist()
            measured = (replace(m, similarity=round(c, 4)) for m, c in zip(cluster.members, cosines, strict=True))
            yield replace(cluster, members=tuple(measured))
