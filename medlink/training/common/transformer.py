"""The transformer of a phase: opened to be trained, and written with its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from medlink.errors import EncoderError
from medlink.models.encoders import TransformerEncoder, fingerprint_of, load_encoder
from medlink.training.common import checkpoint
from medlink.training.common.card import write_card
from medlink.training.common.loop import Figures


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
    recipe: Mapping[str, Any],
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
        write_card(
            beside,
            command=command,
            dimension=int(model.get_embedding_dimension() or 0),
            fingerprint=fingerprint_of(model),
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
