"""Which pairs are made of a knowledge base. What is imported here needs no torch."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from medlink.errors import ConfigError
from medlink.settings import Settings

HAIR = 1e-9
"""By how much shares that make a whole may miss it."""


class PairRecipe(Settings):
    """Which pairs, and how many.

    Without ``pairs`` there are as many as when each definition comes ``definition_repeats`` times; without definitions,
    each relation or name comes once. The share of definitions and their repeats are those of Remy et al. 2022, section
    3.2. Pairs of two names, as other models have them, the paper leaves out on purpose (section 3). The remaining pairs
    have a description, which begins with "something", a semantic type, or the name of an ancestor; the paper (section
    3.1) names the three and no shares, hence a third each. A concept without a semantic type or an ancestor gets
    "something".

    Raises:
        ConfigError: a number is out of range.

    >>> PairRecipe().definition_share, PairRecipe().description_share
    (0.15, 0.85)
    """

    pairs: Annotated[Annotated[int, Field(ge=1)] | None, Field(description="Pairs in an epoch.")] = None
    definition_share: Annotated[float, Field(ge=0, le=1, description="Share of pairs with a definition.")] = 0.15
    name_share: Annotated[float, Field(ge=0, le=1, description="Share of pairs of two names.")] = 0.0
    definition_repeats: Annotated[
        int, Field(ge=1, description="How often a definition comes where --pairs is not given.")
    ] = 50
    open_share: Annotated[
        float, Field(ge=0, le=1, description="Share of descriptions that begin with 'something'.")
    ] = 1 / 3
    semantic_type_share: Annotated[
        float, Field(ge=0, le=1, description="Share of descriptions that begin with a semantic type.")
    ] = 1 / 3
    seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")] = 1

    @model_validator(mode="after")
    def _shares(self) -> Self:
        for one, other in (("definition_share", "name_share"), ("open_share", "semantic_type_share")):
            if getattr(self, one) + getattr(self, other) > 1 + HAIR:
                raise ConfigError(f"{one} and {other} together are more than 1", remedy="lower one of them")
        return self

    @property
    def description_share(self) -> float:
        """Share of pairs with a description: what the other two leave."""
        rest = 1 - self.definition_share - self.name_share
        # 1 - 0.7 - 0.3 is a hair above 0
        return rest if rest > HAIR else 0.0
