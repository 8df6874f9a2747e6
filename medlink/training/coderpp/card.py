"""The model card that goes with an encoder trained by CODER++."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from medlink.models.encoders import Encoder
from medlink.training.coderpp.recipe import CoderPlusPlusRecipe
from medlink.training.coderpp.terms import Terms

CARD = "README.md"
_CARD = """\
# Encoder trained by CODER++

Embeds names of concepts in {dimension} dimensions; medlink scales them to length 1. Fingerprint `{fingerprint}`.
Trained from the encoder with fingerprint `{start}`.

Licence: to be filled in by whoever passes this encoder on; that of the terminology it was trained on has a say.

## Training data

{names:,} names of {concepts:,} concepts, {terms:,} distinct terms.
SHA-256 of the names with their concepts: `{digest}`.

## Recipe

`medlink train coderpp`: hard positives and hard negatives under the multi-similarity loss (Zeng et al. 2022,
section 4.2; Wang et al. 2019). Seed {seed}.

```json
{recipe}
```

## Figures

{steps:,} steps{last}.
"""
_LAST = "; over the last of them the loss was {loss:.4f} and {informative:.2%} of the pairs were informative"


def write_card(
    folder: Path,
    encoder: Encoder,
    *,
    terms: Terms,
    start: str,
    recipe: CoderPlusPlusRecipe,
    steps: int,
    figures: Mapping[str, float],
) -> None:
    """Write the card into the folder of an encoder.

    Args:
        folder: the encoder's.
        encoder: the encoder.
        terms: what it was trained on.
        start: fingerprint of the encoder that it started from.
        recipe: how it was trained.
        steps: how many it was trained for.
        figures: ``loss`` and ``informative`` (share of pairs) of the last line of progress; empty if there was none.
    """
    card = _CARD.format(
        dimension=encoder.dimension,
        fingerprint=encoder.fingerprint,
        start=start,
        names=terms.names,
        concepts=len(terms.concept_ids),
        terms=len(terms),
        digest=terms.digest,
        seed=recipe.seed,
        recipe=json.dumps(recipe.to_dict(), indent=2),
        steps=steps,
        last=_LAST.format(**figures) if figures else "",
    )
    (folder / CARD).write_text(card, encoding="utf-8")
