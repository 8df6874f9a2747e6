"""What a re-ranker is: between the ranking of names by their evidence and the decision what is linked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from medlink.linking.calibration import Calibration
from medlink.linking.mention import Mention
from medlink.linking.ranking import Ranked


class Reranker(Protocol):
    """What orders the first concepts of a mention anew.

    Attributes:
        uses_context: whether the text around a mention changes the order: the linker then asks anew in each context.
        calibration: what turns the new rank scores into scores; ``None`` where the curves of the bundle hold.
        fingerprint: hash of all that decides the order.
        counts: what it met, without words of a note; those of other processes are added.
    """

    @property
    def uses_context(self) -> bool: ...
    @property
    def calibration(self) -> Calibration | None: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def counts(self) -> Counter[str]: ...

    def rerank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Sequence[Ranked]]:
        """The concepts of n mentions in their new order; what it has nothing to say of stays as it is.

        Args:
            mentions: ``text`` is what is linked. One that is ``taught`` is known already.
            contexts: n texts around them; ``None`` where there are none, or the re-ranker uses none.
            ranked: the concepts of each, best first, each by its best name.
        """

    def said(self) -> list[str]:
        """Sentences, by the counts, on what did not go as it should; none where all went well."""
