"""Leaf to parent: a concept that is not in a terminology must be found near the more general one that is.

SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3): names of leaves are looked up among the names of all concepts that
are no leaves, and a parent is right. Here on any knowledge base with a hierarchy, and each parent by whatever name.
"""

from __future__ import annotations

from dataclasses import dataclass

from medlink.errors import InputError
from medlink.evaluation.retrieval import Dictionary, Query, sample_queries
from medlink.kb import KnowledgeBase
from medlink.kb.queries import HIERARCHY
from medlink.language.tags import wanted


@dataclass(frozen=True, slots=True)
class LeafTask:
    """What is looked up, and where.

    Attributes:
        dictionary: names of the concepts that have children.
        queries: a query for each name of a leaf, whose gold are its parents; ``source`` is the leaf.
        leaves: how many leaves the queries are of.
        nameless: leaves left out because they have no name.
    """

    dictionary: Dictionary
    queries: tuple[Query, ...]
    leaves: int
    nameless: int

    def sample(self, count: int, seed: int) -> LeafTask:
        """The same task with at most so many of its queries, drawn at random, in their order.

        The dictionary stays whole, so that the figures estimate those of the whole task.

        Args:
            count: how many queries.
            seed: seed of the draw.
        """
        queries = sample_queries(self.queries, count, seed)
        return LeafTask(self.dictionary, queries, len({query.source for query in queries}), self.nameless)


def leaf_task(store: KnowledgeBase, *, languages: frozenset[str] | None = None) -> LeafTask:
    """Leaves and their parents from the hierarchy of a knowledge base.

    BioLORD 2022, section 4.2 and appendix A.3. A leaf has a parent and no child; every name of it is a query, and the
    gold are its direct parents. The dictionary is all names of all concepts with a child. Fully specified names (type
    ``fsn``) are left out, as the index does.

    Args:
        store: the knowledge base.
        languages: names of these languages only, on both sides; a name without a language stays.

    Returns:
        The task.

    Raises:
        InputError: no relation leads from a leaf to a parent, or there is no name on one of the two sides.
    """
    parents: dict[str, set[str]] = {}
    for relation in store.iter_relations(types=HIERARCHY):
        parents.setdefault(relation.head, set()).add(relation.tail)
    inner = set().union(*parents.values()) if parents else set()
    leaves = parents.keys() - inner
    if not leaves:
        raise InputError(
            "there is no concept with a parent and without a child",
            path=store.path,
            remedy="build it from a source with is-a relations",
        )
    entries: list[tuple[tuple[str, ...], str]] = []
    queries: dict[tuple[str, str, str], Query] = {}
    for name in store.iter_names():
        if name.type == "fsn" or not wanted(name.language, languages):
            continue
        if name.concept_id in inner:
            entries.append(((name.concept_id,), name.text))
        elif name.concept_id in leaves:
            text = " ".join(name.text.split())
            gold = tuple(sorted(parents[name.concept_id]))
            query = Query((text,), gold, name.language, name.concept_id)
            queries.setdefault((name.concept_id, name.language, text), query)
    if not entries or not queries:
        of = "" if languages is None else f" of {', '.join(sorted(languages))}"
        side = "concepts with a child" if queries else "leaves"
        raise InputError(f"{side} have no name{of}", path=store.path, remedy="name other languages, or leave them out")
    named = {query.source for query in queries.values()}
    return LeafTask(Dictionary.of(entries), tuple(queries.values()), len(named), len(leaves - named))
