"""Which pairs are made of a knowledge base. What is imported here needs little."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from medlink.settings import Settings

HAIR = 1e-9
"""By how much shares that make a whole may miss it."""
_Share = Annotated[float, Field(ge=0, le=1)]


class PairRecipe(Settings):
    """Which pairs, and how many: the defaults are those of Remy et al. 2022, sections 3.1 and 3.2.

    Without a number of pairs an epoch has as many as there are when each definition comes ``definition_repeats`` times;
    without definitions, each relation or name once. The paper has no pairs of two names of a concept, as other models
    have them, on purpose (section 3). The pairs that are neither have a description, which begins with the name of an
    ancestor, a semantic type or "something"; the paper names the three and no shares, hence a third each. A concept
    without a semantic type or an ancestor gets "something".

    Raises:
        ConfigError: a value is of another type or out of its range, or two shares are more than 1 together.

    >>> PairRecipe().definition_share, PairRecipe().description_share
    (0.15, 0.85)
    """

    pairs: Annotated[Annotated[int, Field(ge=1)] | None, Field(description="Pairs in an epoch.")] = None
    definition_share: Annotated[_Share, Field(description="Share of pairs with a definition.")] = 0.15
    name_share: Annotated[_Share, Field(description="Share of pairs of two names of a concept.")] = 0.0
    definition_repeats: Annotated[
        int, Field(ge=1, description="How often a definition comes in an epoch where --pairs does not say it.")
    ] = 50
    open_share: Annotated[_Share, Field(description="Share of descriptions that begin with 'something'.")] = 1 / 3
    semantic_type_share: Annotated[
        _Share, Field(description="Share of descriptions that begin with a semantic type.")
    ] = 1 / 3
    seed: Annotated[int, Field(ge=0, lt=2**32, description="Seed of all that is random.")] = 1

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        for one, other in (("definition_share", "name_share"), ("open_share", "semantic_type_share")):
            if getattr(self, one) + getattr(self, other) > 1 + HAIR:
                raise ValueError(f"{one} and {other} together are more than 1")
        return self

    @property
    def description_share(self) -> float:
        """Share of pairs with a description: what the other two leave."""
        rest = 1 - self.definition_share - self.name_share
        # 1 - 0.7 - 0.3 is a hair above 0
        return rest if rest > HAIR else 0.0
