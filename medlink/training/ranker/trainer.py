"""``RankerTrainer``: train a cross-encoder to re-rank the candidates of a linker, and calibrate its scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from torch.nn import functional

from medlink.errors import ConfigError, EncoderError
from medlink.files.folders import atomic_folder
from medlink.files.json import write_json
from medlink.linking.fit import Group, weigh
from medlink.linking.rankers.cross_encoder import HOLDS, MODEL, load_cross_encoder, logits
from medlink.models.encoders import check_folder, split_pooling
from medlink.models.transformer import HUB
from medlink.training.recipes import RankerRecipe

_MIN_HELD_OUT = 20  # mentions with a right candidate, to fit a score on
_LOG_LINES = 20


class RankerTrainer:
    """Fine-tune a cross-encoder on mentions with their candidates; a run has no checkpoints.

    The loss is the cross-entropy of a right candidate against wrong ones of the same mention, by a softmax over the
    scores of the model. The weights of rank score and model score, and the calibration, are fitted on held-out
    mentions. A hash of its text determines whether a mention is held out, so no text is on both sides.

    ``groups`` are from :func:`medlink.linking.fit.collect_groups`, possibly of several bundles. ``start`` is a
    transformer: a folder, or ``hf:NAME``. Raises ConfigError if there are no groups to train on, or fewer than 20
    held-out groups have a right candidate.
    """

    def __init__(self, groups: Sequence[Group], start: str | Path, recipe: RankerRecipe | None = None) -> None:
        self.recipe, self.start = recipe or RankerRecipe(), start
        ordered = sorted(groups, key=lambda group: (group.text, group.language, group.texts))
        self.training, self.held_out = list[Group](), list[Group]()
        for group in ordered:
            digest = hashlib.sha256(f"{self.recipe.seed} {group.text.casefold()}".encode("utf-8", "surrogatepass"))
            if int.from_bytes(digest.digest()[:8]) / 2**64 < self.recipe.held_share:
                self.held_out.append(group)
            # a group without a wrong candidate or without a right text teaches nothing
            elif not group.right.all() and (group.right.any() or group.missing):
                self.training.append(group)
        if not self.training or sum(bool(group.right.any()) for group in self.held_out) < _MIN_HELD_OUT:
            counts = f"{len(self.training)} mentions to train on and {len(self.held_out)} held back"
            remedy = "give more mentions whose concepts are in the bundle"
            raise ConfigError(f"too few mentions: {counts}", remedy=remedy)
        data = [[group.text, group.language, group.texts, group.right.tolist(), group.missing] for group in ordered]
        self.digest = hashlib.sha256(json.dumps(data).encode()).hexdigest()

    def train(self, out: str | Path, *, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Run the recipe, write the folder of the ranker atomically, and return its figures.

        The same mentions, recipe and number of threads give the same weights on a CPU. Raises ConfigError if the folder
        cannot be written or holds something else, and EncoderError if there is no transformer to start from or the loss
        is NaN or infinite.
        """
        out, log = Path(out), progress or (lambda _: None)
        check_folder(out, HOLDS, "ranker")
        torch.manual_seed(self.recipe.seed)
        model = self._model()
        loss = self._fit(model, log)
        log(f"scoring {len(self.held_out):,} held-out mentions")
        scores = [logits(model, group.text, group.texts) for group in self.held_out]
        weighing = weigh(self.held_out, scores)
        after = [
            bool(group.right[int(np.argmax(weighing.first * group.ranks + weighing.read * score))])
            for group, score in zip(self.held_out, scores, strict=True)
        ]
        figures = {
            "loss": loss,
            "trained": len(self.training),
            "held": len(self.held_out),
            "right before": round(float(np.mean([bool(group.right[0]) for group in self.held_out])), 4),
            "right after": round(float(np.mean(after)), 4),
        }
        config = {
            "candidates": self.recipe.candidates,
            "context": self.recipe.context,
            "definitions": self.recipe.definitions,
            "weights": {"first": weighing.first, "read": weighing.read},
            "calibration": asdict(weighing.calibration),
            "record": {"data": self.digest, "recipe": self.recipe.to_dict(), "figures": figures},
        }
        with atomic_folder(out, "the ranker") as draft:
            model.save_pretrained(str(draft / MODEL), create_model_card=False, safe_serialization=True)
            write_json(draft / HOLDS, config)
        return figures

    def _model(self) -> CrossEncoder:
        _, start = split_pooling(self.start)
        local = not start.startswith(HUB)
        if local and not (Path(start) / "config.json").is_file():
            remedy = f"name the folder of a transformer, or {HUB}ORG/NAME for one of the Hugging Face hub"
            raise EncoderError("no transformer to start from: no config.json in it", path=start, remedy=remedy)
        model = load_cross_encoder(start.removeprefix(HUB), local=local, num_labels=1, device="cpu")
        limit = getattr(model.config, "max_position_embeddings", self.recipe.max_tokens)
        model.max_seq_length = min(self.recipe.max_tokens, limit)
        return model

    def _fit(self, model: CrossEncoder, log: Callable[[str], None]) -> float:
        recipe = self.recipe
        rng = np.random.default_rng(recipe.seed)
        steps = recipe.epochs * -(-len(self.training) // recipe.batch_size)
        optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        warmup = max(1, round(recipe.warmup * steps))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))
        )
        step, mean = 0, 0.0
        for epoch in range(recipe.epochs):
            order = rng.permutation(len(self.training)).tolist()
            model.train()
            losses = []
            for start in range(0, len(order), recipe.batch_size):
                batch = [self._draw(self.training[i], rng) for i in order[start : start + recipe.batch_size]]
                loss = mean_loss(model, batch)
                if not torch.isfinite(loss):
                    raise EncoderError(f"the loss is {loss.item()} at step {step + 1}", remedy="lower learning_rate")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                losses.append(loss.item())
                step += 1
                if step % max(1, steps // _LOG_LINES) == 0:
                    log(f"epoch {epoch + 1}/{recipe.epochs} step {step}/{steps} loss {np.mean(losses[-20:]):.4f}")
            mean = float(np.mean(losses))
        model.eval()
        return round(mean, 4)

    def _draw(self, group: Group, rng: np.random.Generator) -> tuple[str, list[str]]:
        # a right candidate before wrong ones
        right, wrong = np.flatnonzero(group.right), np.flatnonzero(~group.right)
        positive = group.texts[int(rng.choice(right))] if len(right) else group.missing
        negatives = rng.choice(wrong, min(self.recipe.negatives, len(wrong)), replace=False).tolist()
        return group.text, [positive, *(group.texts[i] for i in negatives)]


def mean_loss(model: CrossEncoder, batch: Sequence[tuple[str, list[str]]]) -> torch.Tensor:
    """Compute the mean cross-entropy of the first candidate of each mention against the others."""
    pairs = [(text, candidate) for text, candidates in batch for candidate in candidates]
    scores = model(model.preprocess(pairs))["scores"]
    parts = torch.split(scores.reshape(-1), [len(candidates) for _, candidates in batch])
    padded = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-1e9)
    return functional.cross_entropy(padded, torch.zeros(len(parts), dtype=torch.long, device=padded.device))
