"""Leaf to parent: a concept that is not in a terminology must be found near the more general one that is.

SCT-L2P of BioLORD 2022 (section 4.2, appendix A.3): names of leaves are looked up among the names of all concepts that
are no leaves, and a parent is right. Here on any knowledge base with a hierarchy, and each parent by whatever name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from medlink.errors import InputError
from medlink.evaluation.names import Dictionary, of_languages, plain, usable
from medlink.evaluation.ranking import RankBy
from medlink.evaluation.retrieval import Query, RankedTask
from medlink.evaluation.task import Report, Run
from medlink.kb import KnowledgeBase
from medlink.kb.queries import HIERARCHY
from medlink.language.tags import language_filter


@dataclass(frozen=True, slots=True)
class Leaves:
    """Names of the concepts that have children, and a query for each name of a leaf, whose gold are its parents.

    The ``source`` of a query is the leaf; ``nameless`` counts leaves left out because they have no name.
    """

    dictionary: Dictionary
    queries: tuple[Query, ...]
    nameless: int


def read_leaves(store: KnowledgeBase, *, languages: frozenset[str] | None = None) -> Leaves:
    """Leaves and their parents from the hierarchy of a knowledge base (BioLORD 2022, section 4.2 and appendix A.3).

    A leaf has a parent and no child; every name of it is a query, and the gold are its direct parents. The dictionary
    is all names of all concepts with a child. Fully specified names (type ``fsn``) are left out, as the index does.
    With ``languages`` both sides have only names of these, and those without a language.

    Raises:
        InputError: no relation leads from a leaf to a parent, or there is no name on one of the two sides.
    """
    parents: dict[str, set[str]] = {}
    for relation in store.iter_relations(types=HIERARCHY):
        parents.setdefault(relation.head, set()).add(relation.tail)
    inner = set().union(*parents.values()) if parents else set()
    leaves = parents.keys() - inner
    if not leaves:
        remedy = "build it from a source with is-a relations"
        raise InputError("there is no concept with a parent and without a child", path=store.path, remedy=remedy)
    entries: list[tuple[tuple[str, ...], str]] = []
    queries: dict[Query, None] = {}  # each once, in their order
    for name in usable(store.iter_names(), languages):
        if name.concept_id in inner:
            entries.append(((name.concept_id,), name.text))
        elif name.concept_id in leaves:
            query = Query((plain(name.text),), tuple(sorted(parents[name.concept_id])), name.language, name.concept_id)
            queries[query] = None
    if not entries or not queries:
        side = "concepts with a child" if queries else "leaves"
        remedy = "name other languages, or leave them out"
        raise InputError(f"{side} have no name{of_languages(languages)}", path=store.path, remedy=remedy)
    return Leaves(Dictionary.of(entries), tuple(queries), len(leaves - {query.source for query in queries}))


class LeafToParentTask(RankedTask):
    """Rank of the parents among all concepts that are no leaves, for the names of leaves (SCT-L2P, BioLORD 2022).

    KB is a knowledge base or a bundle, of whatever source that has a hierarchy.
    """

    inputs: ClassVar = ("kb",)

    rank_by: Annotated[RankBy, Field(description="What is ranked: a concept by its best name, or each name.")] = (
        "concepts"
    )
    languages: Annotated[str | None, Field(description="Names of these languages only, such as en or en,de.")] = None

    def measure(self, run: Run) -> Report:
        """Rank the concepts with children for each name of a leaf."""
        languages = language_filter(self.languages)
        with KnowledgeBase(run.paths[0]) as store:
            found = read_leaves(store, languages=languages)
        run.problems.skipped += Counter({"leaf without a name": found.nameless})
        queries, dictionary = self.drawn(found.queries), found.dictionary
        head = (
            f"{len(queries)} names of {len({query.source for query in queries})} leaves, "
            f"{len(dictionary)} names of {len(dictionary.concepts)} concepts with children"
        )
        return self.report(head, dictionary, queries, run)
