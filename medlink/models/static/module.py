"""The static encoder in torch: a module of sentence-transformers, and what every trainer of such an encoder trains.

``modules.json`` of a static encoder names :class:`StaticEmbedding` by its class path, so ``SentenceTransformer(folder,
trust_remote_code=True)`` loads it wherever medlink is installed. The flag is what sentence-transformers asks for any
class that is not its own, in local folders as well; no code is fetched. The NumPy class
:class:`medlink.models.static.encoder.StaticEncoder` computes the same function; a test holds the two together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Module
from torch import Tensor
from torch.nn import functional

from medlink.language.lexicon.forms import Forms
from medlink.models.static.encoder import CONFIG_FILE, Features, StaticConfig, StaticEncoder, features, quantise
from medlink.models.static.meanings import MeaningReader


def as_tensors(found: Features) -> dict[str, Tensor]:
    """What :class:`StaticEmbedding` reads of n texts: ``input_ids (total,)``, the table rows of the n-grams of all
    texts one after the other, and ``lengths (n,)`` of each; those of markers and families alike."""
    return {
        "input_ids": torch.from_numpy(found.rows),
        "lengths": torch.from_numpy(np.diff(found.indptr)),
        "marker_ids": torch.from_numpy(found.marker_rows),
        "marker_lengths": torch.from_numpy(np.diff(found.marker_indptr)),
        "family_ids": torch.from_numpy(found.family_rows),
        "family_lengths": torch.from_numpy(np.diff(found.family_indptr)),
    }


class StaticEmbedding(Module):
    """Mean of hashed n-gram vectors, that of word families added, a residual feed-forward net, markers, unit length.

    ``dropout`` is the share of the n-grams, all probes of one together, left out of each text in training; half of it
    of the markers, of which a text has but one or two.
    """

    config_file_name = CONFIG_FILE

    def __init__(self, config: StaticConfig, dropout: float = 0.0, forms: Forms | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's Module is untyped
        self.shape, self.dropout, self.forms = config, dropout, forms
        d, h = config.dimension, config.hidden
        self.table = torch.nn.Embedding(config.rows, d)
        self.norm = torch.nn.LayerNorm(d)
        self.up = torch.nn.Linear(d, h)
        self.down = torch.nn.Linear(h, d)

    @property
    def max_seq_length(self) -> int:
        """Characters that count, which is what bounds an input here."""
        return self.shape.max_chars

    def get_embedding_dimension(self) -> int:
        """Width of the embeddings."""
        return self.shape.dimension

    def get_config_dict(self) -> dict[str, Any]:
        """What a fingerprint knows it by where other modules lie above."""
        return {"fingerprint": self.encoder().fingerprint}

    def preprocess(self, inputs: list[Any], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Texts to table rows, see :func:`as_tensors`."""
        reader = None if self.forms is None else MeaningReader(self.forms)
        return as_tensors(features([(prompt or "") + str(text) for text in inputs], self.shape, reader))

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)`` to the features."""
        dropout = self.dropout if self.training else 0.0
        kept = self._kept(len(features["input_ids"]), dropout)
        markers = self._kept(len(features["marker_ids"]), dropout / 2)
        families = self._kept(len(features["family_ids"]), dropout)
        features["sentence_embedding"] = self.compose(self.table.weight, features, kept, markers, families)
        return features

    def _kept(self, count: int, dropout: float) -> Tensor:
        """Weight of each of so many rows, 0 for those that drop out."""
        table, probes = self.table.weight, self.shape.probes
        if not dropout:
            return torch.ones(count, dtype=table.dtype, device=table.device)
        kept = torch.rand(count // probes, device=table.device) >= dropout
        return kept.repeat_interleave(probes).to(table.dtype) / (1 - dropout)

    def compose(
        self,
        table: Tensor,
        features: dict[str, Tensor],
        weights: Tensor,
        marker_weights: Tensor,
        family_weights: Tensor,
    ) -> Tensor:
        """The formula of :mod:`medlink.models.static.encoder`, for every trainer and for inference.

        ``table`` ``(rows, d)`` is the whole table or those of its rows that the ids of the features number; ``weights``
        ``(total,)`` are what each row of an n-gram counts, ``marker_weights`` and ``family_weights`` those of the
        others. Gives ``(n, d)`` unit vectors, the zero vector for a text without n-grams.
        """
        lengths = features["lengths"]
        x = _sums(table, features["input_ids"], lengths, weights)
        m = _sums(table, features["marker_ids"], features["marker_lengths"], marker_weights)
        x = x * self.shape.probes / lengths.clamp(min=1)[:, None]
        if self.shape.families:
            families = features["family_lengths"]
            added = _sums(table, features["family_ids"], families, family_weights)
            x = x + added * self.shape.probes / families.clamp(min=1)[:, None]
        change = self.down(functional.gelu(self.up(self.norm(x)), approximate="tanh"))
        y = functional.normalize(x + change, dim=-1)
        y = functional.normalize(y + self.shape.marker_weight * functional.normalize(m, dim=-1), dim=-1)
        return y * (lengths > 0)[:, None]

    def encoder(self) -> StaticEncoder:
        """The encoder as it stands, its table in eight bits."""
        state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}
        codes, scale = quantise(state.pop("table.weight"))
        return StaticEncoder(self.shape, {"table": codes, "scale": scale, **state}, forms=self.forms)

    @classmethod
    def of(cls, encoder: StaticEncoder, dropout: float = 0.0) -> Self:
        """A trainable copy of an encoder."""
        module = cls(encoder.config, dropout, encoder.forms)
        table = encoder.tensors["table"].astype(np.float32) * encoder.tensors["scale"][:, None]
        state = {k: torch.from_numpy(np.array(v)) for k, v in encoder.tensors.items() if k not in ("table", "scale")}
        module.load_state_dict({"table.weight": torch.from_numpy(table), **state})
        return module

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the two files of a static encoder, the table in eight bits."""
        self.encoder().save_weights(Path(output_path))

    @classmethod
    def load(  # type: ignore[override]  # a static encoder needs none of the hub's options
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> Self:
        """Read the folder of a static encoder."""
        return cls.of(StaticEncoder.load(Path(model_name_or_path) / subfolder))


def _sums(table: Tensor, ids: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums ``(n, d)`` of the table rows of n texts."""
    offsets = (torch.cumsum(lengths, 0) - lengths).to(ids.dtype)
    return functional.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)
