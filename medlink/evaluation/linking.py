"""Linking of mentions: does the linker of a bundle put a right concept first, and is its score worth what it says?"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from medlink.evaluation.measures import calibration_error, measure_ranks
from medlink.evaluation.retrieval import Query, QueryOptions, known_gold, query_row
from medlink.evaluation.task import Report, Row, Run, by_language
from medlink.index import Bundle
from medlink.linking import LinkOptions
from medlink.records import LINKED, Link


class LinkingTask(LinkOptions, QueryOptions):
    """Acc@1, Acc@5 and MRR of the linker on mentions, what its threshold links, and whether its scores are true.

    BUNDLE is what they are linked to. GOLD are mentions with ids: the layouts of 'medlink evaluate retrieval', tables
    also with a column context, or annotated notes. Mentions whose ids the bundle does not have count as wrong.
    """

    inputs: ClassVar = ("bundle", "gold...")
    encodes: ClassVar[bool] = False

    k: Annotated[int, Field(ge=1, le=10_000, description="Candidates for each mention; further down is not found.")] = (
        10
    )

    def measure(self, run: Run) -> Report:
        """Link the mentions, each in its context where all have one.

        A candidate is right when it, or what other sources know it as, is any of the ids; a composite mention that was
        taken apart is right when each of its parts has such a candidate, with the worst of their ranks. So does the
        program of BioSyn (Sung et al. 2020; ``check_label`` and ``evaluate_topk_acc`` of its ``utils.py``): it parts
        mentions and ids at ``|`` and ``+`` alike, and any id is right for any part.
        """
        from medlink.linking.candidates import Mention
        from medlink.linking.linker import Linker

        linker = Linker(Bundle(Path(run.paths[0])), **{name: getattr(self, name) for name in LinkOptions.model_fields})
        queries = known_gold(self.asked(run.paths[1:], run, self.language or ""), linker.kb, run)
        asked = [(Mention(part, one.language or None), one.context) for one in queries for part in one.parts]
        with_context = all(context for _, context in asked)
        links = iter(linker.link([one for one, _ in asked], [text for _, text in asked] if with_context else None))
        items = [_item(query, [next(links) for _ in query.parts], linker.kb) for query in queries]
        languages = [query.language for query in queries]
        own = by_language(languages)
        table = [_row(tag, [items[row] for row in rows]) for tag, rows in own.items()]
        around = ", linked in their contexts" * with_context
        head = f"{len(queries)} mentions, {len(linker.kb)} concepts of {linker.bundle.folder.name}{around}"
        return Report(head, table, items, run.problems)


def _item(query: Query, links: Sequence[Link], known: Container[str]) -> Row:
    gold, ranks = set(query.gold), []
    for link in links:
        right = (not gold.isdisjoint((one.concept_id, *one.same_as)) for one in link.candidates)
        ranks.append(next((rank for rank, hit in enumerate(right, 1) if hit), 0))
    return {
        **query_row(query, any(one in known for one in query.gold), max(ranks) if all(ranks) else 0),
        "first": " ".join(link.candidates[0].concept_id if link.candidates else "-" for link in links),
        "score": min(link.candidates[0].score if link.candidates else 0.0 for link in links),
        "linked": int(all(link.status == LINKED for link in links)),
    }


def _row(tag: str, items: Sequence[Row]) -> Row:
    """The measures of the mentions of one language."""
    rank, score, linked = (
        np.array([row[name] or 0 for row in items], dtype=float) for name in ("rank", "score", "linked")
    )
    found, right, taken = measure_ranks(rank.astype(np.int64)), rank == 1, linked > 0
    return {
        "language": tag or "-",
        "mentions": len(items),
        "in dictionary": sum(int(row["in_dictionary"] or 0) for row in items),
        "Acc@1": found.acc1,
        "Acc@5": found.acc5,
        "MRR": found.mrr,
        "linked": float(taken.mean()),
        "precision": float(right[taken].mean()) if taken.any() else None,
        "calibration": calibration_error(score, right),
    }
