"""The model card of a trained encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medlink.files.json import read_json
from medlink.models.encoders import Encoder
from medlink.settings import Settings

CARD = "README.md"
_CARD = """\
# {title}

Embeds names of concepts and sentences in {dimension} dimensions, as unit vectors{length}. Fingerprint `{id}`.{start}

Licence: to be filled in by whoever passes this encoder on; that of the terminology it was trained on has a say.

## Training data

{data}

## Recipe

`{command}`: {summary}.{recipe}
"""
# of an encoder whose last module does not normalise the embeddings; medlink always does
_OTHER_LENGTHS = (
    " where `medlink.load_encoder` opens it; `SentenceTransformer.encode` gives other lengths unless it is called with "
    "`normalize_embeddings=True`"
)


def write_card(
    folder: Path,
    encoder: Encoder,
    *,
    title: str,
    summary: str,
    command: str,
    data: Mapping[str, Any],
    start: str = "",
    recipe: Settings | None = None,
    figures: Mapping[str, Any] | None = None,
) -> None:
    """Write the card into the folder of an encoder.

    ``summary`` is the method and its source, without a full stop. ``data`` and ``figures`` are facts about training
    data and results by name; ``None`` leaves a fact out. ``start`` is the fingerprint of the first encoder, or empty.
    """
    last = str(read_json(folder / "modules.json")[-1]["type"])
    card = _CARD.format(
        title=title,
        dimension=encoder.dimension,
        length="" if last.endswith((".Normalize", ".StaticEmbedding")) else _OTHER_LENGTHS,
        id=encoder.fingerprint,
        start=f"\nTrained from the encoder with fingerprint `{start}`." if start else "",
        data=_list(data),
        command=command,
        summary=summary,
        recipe="" if recipe is None else f"\n\n```json\n{json.dumps(recipe.to_dict(), indent=2)}\n```",
    )
    if figures:
        card += f"\n## Figures\n\n{_list(figures)}\n"
    (folder / CARD).write_text(card, encoding="utf-8")


def _list(facts: Mapping[str, Any]) -> str:
    return "\n".join(
        f"- {name}: {value:,}" if isinstance(value, int) else f"- {name}: {value}"
        for name, value in facts.items()
        if value is not None
    )
