"""Linking of mentions: accuracy and calibration of the linker of a bundle."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from medlink.evaluation.measures import calibration_error, measure_ranks
from medlink.evaluation.retrieval import Query, QueryOptions, query_row, with_known_gold
from medlink.evaluation.task import Report, Row, Run, by_language
from medlink.index import Bundle
from medlink.linking import LinkOptions
from medlink.records import LINKED, Link
from medlink.settings import option


class LinkingTask(LinkOptions, QueryOptions):
    """Acc@1, Acc@5 and MRR of the linker on mentions, precision at its threshold, and calibration of its scores.

    Mentions are linked to BUNDLE. GOLD are mentions with ids: the layouts of 'medlink evaluate retrieval', tables
    also with a column context, or annotated notes. Mentions whose ids the bundle does not have count as wrong.
    """

    inputs: ClassVar = ("bundle", "gold...")
    needs_encoder: ClassVar[bool] = False

    k: int = option(10, "Candidates for each mention; further down is not found.", ge=1, le=10_000)

    def measure(self, run: Run) -> Report:
        """Link the mentions, in context if all have one.

        A candidate is right if it, or its concept in another source, is one of the ids. The rank of a composite mention
        is the worst of its parts. BioSyn does the same (Sung et al. 2020, ``check_label`` and ``evaluate_topk_acc`` of
        its ``utils.py``): it splits mentions and ids at ``|`` and ``+``, and any id is right for any part.
        """
        from medlink.linking.candidates import Mention
        from medlink.linking.linker import Linker

        linker = Linker(Bundle(Path(run.paths[0])), **{name: getattr(self, name) for name in LinkOptions.model_fields})
        queries = with_known_gold(self.select_queries(run.paths[1:], run, self.language or ""), linker.kb, run)
        mentions = [Mention(part, query.language or None) for query in queries for part in query.parts]
        contexts = [query.context for query in queries for _ in query.parts]
        links = iter(linker.link(mentions, contexts if all(contexts) else None))
        items = [_item(query, [next(links) for _ in query.parts], linker.kb) for query in queries]
        own = by_language([query.language for query in queries])
        table = [_row(tag, [items[row] for row in rows]) for tag, rows in own.items()]
        around = ", linked in their contexts" * all(contexts)
        head = f"{len(queries)} mentions, {len(linker.kb)} concepts of {linker.bundle.folder.name}{around}"
        return Report(head, table, items, run.problems)


def _item(query: Query, links: Sequence[Link], known: Container[str]) -> Row:
    gold, ranks = set(query.gold), []
    for link in links:
        right = (not gold.isdisjoint((candidate.concept_id, *candidate.same_as)) for candidate in link.candidates)
        ranks.append(next((rank for rank, hit in enumerate(right, 1) if hit), 0))
    return {
        **query_row(query, any(concept_id in known for concept_id in query.gold), max(ranks) if all(ranks) else 0),
        "first": " ".join(link.candidates[0].concept_id if link.candidates else "-" for link in links),
        "score": min(link.candidates[0].score if link.candidates else 0.0 for link in links),
        "linked": int(all(link.status == LINKED for link in links)),
    }


def _row(tag: str, items: Sequence[Row]) -> Row:
    rank, score, linked = (
        np.array([row[name] or 0 for row in items], dtype=float) for name in ("rank", "score", "linked")
    )
    measures, right, taken = measure_ranks(rank.astype(np.int64)), rank == 1, linked > 0
    return {
        "language": tag or "-", "mentions": len(items),
        "in dictionary": sum(int(row["in_dictionary"] or 0) for row in items),
        "Acc@1": measures.acc1, "Acc@5": measures.acc5, "MRR": measures.mrr, "linked": float(taken.mean()),
        "precision": float(right[taken].mean()) if taken.any() else None,
        "calibration": calibration_error(score, right),
    }  # fmt: skip
