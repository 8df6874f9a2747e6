"""The recipe of the training pairs of BioLORD. Importing needs no torch."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from medlink.settings import Settings, option
from medlink.training.recipes import Seed

_TOLERANCE = 1e-9  # of shares that add up to 1


class PairRecipe(Settings):
    """Kinds and number of training pairs; the defaults are those of Remy et al. 2022, sections 3.1 and 3.2.

    Without ``pairs``, an epoch has each definition ``definition_repeats`` times; without definitions, it has each
    relation or name once. The paper does not pair two names of a concept (section 3). All other pairs have a
    description, which begins with the name of an ancestor, a semantic type or "something"; a concept without ancestor
    or semantic type gets "something". The paper does not state the shares of these three; the default is a third each.
    """

    pairs: Annotated[int, Field(ge=1)] | None = option(None, "Pairs in an epoch.")
    definition_share: float = option(0.15, "Share of pairs with a definition.", ge=0, le=1)
    name_share: float = option(0.0, "Share of pairs of two names of a concept.", ge=0, le=1)
    definition_repeats: int = option(50, "Occurrences of a definition in an epoch without --pairs.", ge=1)
    open_share: float = option(1 / 3, "Share of descriptions that begin with 'something'.", ge=0, le=1)
    semantic_type_share: float = option(1 / 3, "Share of descriptions that begin with a semantic type.", ge=0, le=1)
    seed: Seed = 1

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        for first, second in (("definition_share", "name_share"), ("open_share", "semantic_type_share")):
            if getattr(self, first) + getattr(self, second) > 1 + _TOLERANCE:
                raise ValueError(f"{first} and {second} together are more than 1")
        return self

    @property
    def description_share(self) -> float:
        """Share of pairs with a description: the rest."""
        rest = 1 - self.definition_share - self.name_share
        # 1 - 0.7 - 0.3 is slightly above 0
        return rest if rest > _TOLERANCE else 0.0
