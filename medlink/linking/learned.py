"""The concept that somebody taught for a mention, as a candidate that ranks before all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medlink.index import Bundle
from medlink.index.names import Selections
from medlink.language.tags import base
from medlink.linking.calibration import WIDEST
from medlink.linking.candidates import LEARNED
from medlink.linking.measures import FEATURES
from medlink.linking.ranking import Ranked
from medlink.records import FSN


class LearnedConcepts:
    """Concepts of a bundle as candidates; what is remembered are numbers of the index.

    Args:
        bundle: where the concepts are from.
        selection: names that may be candidates.
    """

    def __init__(self, bundle: Bundle, selection: Selections | None) -> None:
        self._bundle, self._selection = bundle, selection
        self._known: dict[tuple[str, str | None], Ranked | None] = {}

    def first(self, ranked: Sequence[Ranked], concept_id: str, language: str | None) -> list[Ranked]:
        """The candidates of a mention with the concept before all others; as they are where it may be no candidate."""
        if (concept_id, language) not in self._known:
            self._known[concept_id, language] = self._candidate(concept_id, language)
        taught = self._known[concept_id, language]
        if taught is None:
            return list(ranked)
        if ranked:
            taught = taught._replace(rank=ranked[0].rank + WIDEST, measures=ranked[0].measures)
        return [taught, *(one for one in ranked if one.concept != taught.concept)]

    def _candidate(self, concept_id: str, language: str | None) -> Ranked | None:
        index, kb = self._bundle.index, self._bundle.kb
        names = [name for name in kb.names(concept_id) if name.type != FSN]
        own = base(language or "")
        for name in sorted(names, key=lambda name: (base(name.language) != own, not name.preferred)):
            found = [key for key, route in index.lookup(name.text, None, self._selection).items() if route == "exact"]
            entries = index.entries(np.array(found), self._selection)
            for at, one in enumerate(index.concept_ids(entries.concept)):
                if one == concept_id:
                    key = found[int(entries.position[at])]
                    columns = float(entries.concept[at]), 0.0, WIDEST, key, int(entries.address[at])
                    preferred = bool(entries.preferred[at])
                    return Ranked(*columns, preferred, LEARNED, adds=False, measures=(0.0,) * len(FEATURES))
        return None
