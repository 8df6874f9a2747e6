"""The transformer of a phase: opened to be trained, and written with its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from medlink.errors import EncoderError
from medlink.models.encoders import TransformerEncoder, load_encoder
from medlink.training.common import checkpoint
from medlink.training.common.card import write_card
from medlink.training.common.loop import Figures
from medlink.training.common.recipes import Recipe

_PHASES = {
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
    "multilingual": (
        "cross-lingual distillation",
        "regression on a teacher's embeddings of English names (Remy et al. 2024, section Cross-lingual distillation)",
    ),
}


def trainable_transformer(name: str | Path) -> SentenceTransformer:
    """Open a transformer to be trained, its weights in 32 bits.

    Raises:
        EncoderError: there is none, or it is a static encoder.
    """
    encoder = load_encoder(name)
    if not isinstance(encoder, TransformerEncoder):
        raise EncoderError("a static encoder cannot be trained by this phase", path=name, remedy="name a transformer")
    return encoder.model.float()


def save_encoder(
    model: SentenceTransformer,
    folder: Path,
    command: str,
    *,
    start: str,
    data: Mapping[str, Any],
    recipe: Recipe,
    figures: Figures,
) -> None:
    """Write a trained transformer with its card to a folder that appears whole.

    Args:
        model: the transformer.
        folder: where.
        command: the phase as the command line calls it.
        start: fingerprint of the encoder that training began with.
        data, recipe: what goes into the card.
        figures: of the run.
    """
    with checkpoint.replacing(folder, "the encoder") as beside:
        model.save(str(beside), create_model_card=False, safe_serialization=True)
        title, summary = _PHASES[command]
        write_card(
            beside,
            load_encoder(beside),
            title=f"Encoder trained by BioLORD: {title}",
            summary=summary,
            command=f"medlink train biolord {command}",
            start=start,
            data=data,
            recipe=recipe,
            figures={
                "steps": figures.steps,
                "hours": f"{figures.seconds / 3600:.2f}",
                "loss over the last of them": None if figures.loss is None else f"{figures.loss:.3g}",
                "best development measure": figures.measure,
                "step of the best": figures.best_step,
            },
        )
