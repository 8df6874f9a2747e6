"""``RankerTrainer``: a cross-encoder learns which of the linker's candidates is right; its scores are calibrated."""

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
from medlink.files.folders import whole_folder
from medlink.files.json import write_json
from medlink.linking.fit import Group, Weighing, weigh
from medlink.linking.rankers.cross_encoder import HOLDS, MODEL, logits, open_model
from medlink.models.encoders import check_folder, parted
from medlink.models.transformer import HUB
from medlink.training.recipes import RankerRecipe

_HELD = 20  # mentions with a right candidate that are needed to fit a score on
_LINES = 20  # lines of progress of a run


class RankerTrainer:
    """Fine-tune a cross-encoder on mentions with their candidates; a run keeps no checkpoints.

    Each right candidate is set against wrong ones of the same mention, with a softmax over the model's scores and
    cross-entropy as the loss. Some mentions are held back. The weights of the rank score and of the model, and the
    curves of the score, are fitted on them. The text of a mention decides whether it is held back, so that no text is
    on both sides.

    Args:
        groups: of :func:`medlink.linking.fit.gather_groups`, perhaps of several bundles.
        start: a transformer: a folder, or ``hf:NAME``.
        recipe: how to train.

    Raises:
        ConfigError: there are no groups to train on, or fewer than 20 with a right candidate are held back.
    """

    def __init__(self, groups: Sequence[Group], start: str | Path, recipe: RankerRecipe | None = None) -> None:
        self.recipe, self.start = recipe or RankerRecipe(), start
        ordered = sorted(groups, key=lambda one: (one.text, one.language, one.texts))
        places = [self._place(one) for one in ordered]
        self.held = [one for one, place in zip(ordered, places, strict=True) if place < self.recipe.held_share]
        # without a wrong candidate, or a right text, there is nothing to learn
        self.trained = [
            one
            for one, place in zip(ordered, places, strict=True)
            if place >= self.recipe.held_share and not one.right.all() and (one.right.any() or one.missing)
        ]
        if not self.trained or sum(bool(one.right.any()) for one in self.held) < _HELD:
            found = f"{len(self.trained)} mentions to train on and {len(self.held)} held back"
            raise ConfigError(
                f"too few mentions: {found}", remedy="give more mentions whose concepts are in the bundle"
            )
        told = [[one.text, one.language, one.texts, one.right.tolist(), one.missing] for one in ordered]
        self.digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def _place(self, group: Group) -> float:
        digest = hashlib.sha256(f"{self.recipe.seed} {group.text.casefold()}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest()[:8]) / 2**64

    def train(self, out: str | Path, *, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Run the recipe and write the folder of the ranker, which appears whole; returns its figures.

        The same mentions, recipe and number of threads give the same weights on a CPU.

        Raises:
            ConfigError: the folder cannot be written, or holds something else.
            EncoderError: there is no transformer to start from, or the loss is NaN or infinite.
        """
        out, log = Path(out), progress or (lambda _: None)
        check_folder(out, HOLDS, "ranker")
        torch.manual_seed(self.recipe.seed)
        model = self._model()
        loss = self._fit(model, log)
        log(f"{len(self.held):,} mentions that were held back are read")
        found = [logits(model, one.text, one.texts) for one in self.held]
        weighing = weigh(self.held, found)
        figures = {"loss": loss, **self._measured(found, weighing)}
        said = {
            "candidates": self.recipe.candidates,
            "context": self.recipe.context,
            "definitions": self.recipe.definitions,
            "weights": {"first": weighing.first, "read": weighing.read},
            "calibration": asdict(weighing.calibration),
            "record": {"data": self.digest, "recipe": self.recipe.to_dict(), "figures": figures},
        }
        with whole_folder(out, "the ranker") as draft:
            model.save_pretrained(str(draft / MODEL), create_model_card=False, safe_serialization=True)
            write_json(draft / HOLDS, said)
        return figures

    def _model(self) -> CrossEncoder:
        _, start = parted(self.start)
        local = not start.startswith(HUB)
        if local and not (Path(start) / "config.json").is_file():
            remedy = f"name the folder of a transformer, or {HUB}ORG/NAME for one of the Hugging Face hub"
            raise EncoderError("no transformer to start from: no config.json in it", path=start, remedy=remedy)
        model = open_model(start.removeprefix(HUB), local=local, num_labels=1, device="cpu")
        longest = getattr(model.config, "max_position_embeddings", self.recipe.max_tokens)
        model.max_seq_length = min(self.recipe.max_tokens, longest)
        return model

    def _fit(self, model: CrossEncoder, log: Callable[[str], None]) -> float:
        recipe = self.recipe
        rng = np.random.default_rng(recipe.seed)
        steps = recipe.epochs * -(-len(self.trained) // recipe.batch_size)
        optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        warm = max(1, round(recipe.warmup * steps))
        rate = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
        )
        step, mean = 0, 0.0
        for epoch in range(recipe.epochs):
            order = rng.permutation(len(self.trained)).tolist()
            model.train()
            losses = []
            for start in range(0, len(order), recipe.batch_size):
                drawn = [self._drawn(self.trained[at], rng) for at in order[start : start + recipe.batch_size]]
                loss = mean_loss(model, drawn)
                if not torch.isfinite(loss):
                    raise EncoderError(f"the loss is {loss.item()} at step {step + 1}", remedy="lower learning_rate")
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                rate.step()
                losses.append(loss.item())
                step += 1
                if step % max(1, steps // _LINES) == 0:
                    log(f"epoch {epoch + 1}/{recipe.epochs} step {step}/{steps} loss {np.mean(losses[-20:]):.4f}")
            mean = float(np.mean(losses))
        model.eval()
        return round(mean, 4)

    def _drawn(self, group: Group, rng: np.random.Generator) -> tuple[str, list[str]]:
        right, wrong = np.flatnonzero(group.right), np.flatnonzero(~group.right)
        first = group.texts[int(rng.choice(right))] if len(right) else group.missing
        others = rng.choice(wrong, min(self.recipe.negatives, len(wrong)), replace=False).tolist()
        return group.text, [first, *(group.texts[at] for at in others)]

    def _measured(self, read: Sequence[Any], weighing: Weighing) -> dict[str, Any]:
        before = [bool(one.right[0]) for one in self.held]
        after = [
            bool(one.right[int(np.argmax(weighing.first * one.ranks + weighing.read * found))])
            for one, found in zip(self.held, read, strict=True)
        ]
        return {
            "trained": len(self.trained),
            "held": len(self.held),
            "right before": round(float(np.mean(before)), 4),
            "right after": round(float(np.mean(after)), 4),
        }


def mean_loss(model: CrossEncoder, drawn: Sequence[tuple[str, list[str]]]) -> torch.Tensor:
    """Mean cross-entropy of the first text of each mention against its others."""
    pairs = [(text, other) for text, others in drawn for other in others]
    features = model.preprocess(pairs)
    scores = model(features)["scores"]
    parts = torch.split(scores.reshape(-1), [len(others) for _, others in drawn])
    padded = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-1e9)
    return functional.cross_entropy(padded, torch.zeros(len(parts), dtype=torch.long, device=padded.device))
