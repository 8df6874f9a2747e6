"""A phase of BioLORD from an encoder to an encoder: the loop, the folder, the card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from medlink.models.encoders import Encoder, check_folder, fingerprint_of, load_encoder
from medlink.training.common import checkpoint
from medlink.training.common.loop import Batches, train_phase
from medlink.training.common.recipes import PhaseRecipe
from medlink.training.common.trainer import processes_here
from medlink.training.common.transformer import save_encoder, trainable_transformer

Measure = Callable[[SentenceTransformer], float]


@dataclass(frozen=True, slots=True)
class Run:
    """Options of a run that do not change its weights, and what it is measured by.

    Args:
        resume: go on from the newest checkpoint.
        checkpoint_steps: steps between two checkpoints.
        workers: processes that turn batches into tensors while the model is busy.
        log: called with one line now and then.
        evaluate: development measure of the model, higher is better.
    """

    resume: bool
    checkpoint_steps: int
    workers: int
    log: Callable[[str], None]
    evaluate: Measure | None


def train_encoder(
    out: str | Path,
    start: str | Path,
    command: str,
    make: Callable[[SentenceTransformer], tuple[Batches, torch.nn.Module]],
    recipe: PhaseRecipe,
    run: Run,
    data: Mapping[str, Any],
) -> Encoder:
    """Train an encoder by a phase and write its folder.

    Args:
        out: folder of the encoder.
        start: the encoder to start from.
        command: the phase as the command line calls it.
        make: batches and loss for the model.
        recipe: how to train.
        run: how it is run.
        data: facts about the data, for the card.

    Returns:
        The trained encoder, opened from ``out``.

    Raises:
        ConfigError: a folder is in use, or :func:`~medlink.training.common.loop.train_phase` says so.
        EncoderError: the start is no transformer, or :func:`~medlink.training.common.loop.train_phase` says so.
    """
    out = Path(out).resolve()
    check_folder(out)
    model = trainable_transformer(start)
    before = fingerprint_of(model)
    batches, loss = make(model)
    work = out.with_name(f"{out.name}.checkpoints")
    figures = train_phase(
        model,
        batches,
        loss,
        recipe,
        work=work,
        resume=run.resume,
        log=run.log,
        evaluate=run.evaluate,
        checkpoint_steps=run.checkpoint_steps,
        workers=run.workers,
    )
    if processes_here().is_main_process:
        facts = {**data, "SHA-256 of the data and their settings": f"`{batches.digest}`"}
        save_encoder(model, out, command, start=before, data=facts, recipe=recipe, figures=figures)
        checkpoint.remove(work)
    processes_here().wait_for_everyone()
    return load_encoder(out)
