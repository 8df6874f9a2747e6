"""The model card that goes with an encoder trained by a phase of BioLORD."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD = "README.md"
_CARD = """\
# Encoder trained by BioLORD: {phase}

Embeds names and sentences in {dimension} dimensions, {length}. Fingerprint `{fingerprint}`.
Trained from the encoder with fingerprint `{start}`.

Licence: to be filled in by whoever passes this encoder on; that of the terminology it was trained on has a say.

## Training data

{data}

## Recipe

`medlink train biolord {command}`: {what}. Seed {seed}.

```json
{recipe}
```

## Figures

{figures}
"""
# by whether the last module scales the embeddings, which medlink does in any case
_LENGTH = {
    True: "as unit vectors",
    False: "as unit vectors where `medlink.load_encoder` opens it; `SentenceTransformer.encode` gives other lengths "
    "unless it is called with `normalize_embeddings=True`",
}
PHASES: dict[str, tuple[str, str]] = {
    "sts": ("STS adaptation", "rated sentence pairs (Remy et al. 2024, section Contrastive phase; 2022, appendix A.4)"),
    "contrastive": (
        "contrastive phase",
        "InfoNCE on names and what is said of their concepts (Remy et al. 2022, section 3; 2024, section Contrastive "
        "phase)",
    ),
    "distill": (
        "self-distillation",
        "regression on concept targets (Remy et al. 2024, section Self-distillation phase)",
    ),
    "soup": ("weight averaging", "mean of the weights (Remy et al. 2024, section Weight-averaging phase)"),
    "multilingual": (
        "cross-lingual distillation",
        "regression on a teacher's embeddings of English names (Remy et al. 2024, section Cross-lingual distillation)",
    ),
}


def write_card(
    folder: Path,
    *,
    command: str,
    dimension: int,
    fingerprint: str,
    start: str,
    data: Mapping[str, Any],
    recipe: Mapping[str, Any],
    figures: Mapping[str, Any],
) -> None:
    """Write the card into the folder of an encoder.

    Args:
        folder: the encoder's, with all that sentence-transformers writes.
        command: the phase as the command line calls it.
        dimension: width of the embeddings.
        fingerprint: the encoder's.
        start: fingerprint of the encoder that it started from.
        data: what it was trained on: facts by name, hashes among them.
        recipe: how it was trained, with its ``seed``.
        figures: what came of it, by name.
    """
    phase, what = PHASES[command]
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    card = _CARD.format(
        phase=phase,
        dimension=dimension,
        length=_LENGTH[modules[-1]["type"].endswith(".Normalize")],
        fingerprint=fingerprint,
        start=start,
        data=_list(data),
        command=command,
        what=what,
        seed=recipe["seed"],
        recipe=json.dumps(dict(recipe), indent=2),
        figures=_list(figures),
    )
    (folder / CARD).write_text(card, encoding="utf-8")


def _list(facts: Mapping[str, Any]) -> str:
    """Facts as a list; those without a value are left out."""
    return "\n".join(
        f"- {name}: {value:,}" if isinstance(value, int) else f"- {name}: {value}"
        for name, value in facts.items()
        if value is not None
    )
