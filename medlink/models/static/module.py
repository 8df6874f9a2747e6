"""The static encoder in torch, for training: a module of sentence-transformers that computes what StaticEncoder does.

``modules.json`` of a static encoder names :class:`StaticEmbedding`: ``SentenceTransformer(folder,
trust_remote_code=True)`` loads it if medlink is installed. sentence-transformers requires the flag for any class that
is not its own, even in a local folder; no code is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.modules import Module
from torch import Tensor
from torch.nn import functional

from medlink.language.lexicon.forms import LexiconForms
from medlink.models.static.encoder import CONFIG_FILE, Features, StaticConfig, StaticEncoder, features, quantise
from medlink.models.static.feature_sums import MeaningHasher

_KINDS = ("input", "marker", "family")  # the first must be the name that sentence-transformers has for its inputs


def as_tensors(features: Features) -> dict[str, Tensor]:
    """Make the input of :class:`StaticEmbedding` for n texts.

    ``input_ids (total,)`` are the table rows of the n-grams of all texts, and ``input_lengths (n,)`` is the number of
    rows of each text. Markers and word families have the same two keys.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for kind, bags in zip(_KINDS, features, strict=True):
        arrays |= {f"{kind}_ids": bags.values, f"{kind}_lengths": np.diff(bags.offsets)}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class StaticEmbedding(Module):
    """A static encoder to train; ``dropout`` is the share of n-grams and word families to drop from each text."""

    config_file_name = CONFIG_FILE

    def __init__(self, config: StaticConfig, dropout: float = 0.0, forms: LexiconForms | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's Module is untyped
        self.shape, self.dropout, self.forms = config, dropout, forms
        d, h = config.dimension, config.hidden
        self.table = torch.nn.Embedding(config.rows, d)
        self.norm = torch.nn.LayerNorm(d)
        self.up = torch.nn.Linear(d, h)
        self.down = torch.nn.Linear(h, d)

    @property
    def max_seq_length(self) -> int:
        """Number of characters of a text that count; the rest is cut."""
        return self.shape.max_chars

    def get_embedding_dimension(self) -> int:
        return self.shape.dimension

    def get_config_dict(self) -> dict[str, Any]:
        """Return the fingerprint; the fingerprint of a model with further modules includes it."""
        return {"fingerprint": self.encoder().fingerprint}

    def preprocess(self, inputs: list[Any], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Convert texts to table rows, see :func:`as_tensors`."""
        hasher = None if self.forms is None else MeaningHasher(self.forms)
        return as_tensors(features([(prompt or "") + str(text) for text in inputs], self.shape, hasher))

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)`` to the features."""
        table = self.table.weight
        dropout = self.dropout if self.training else 0.0
        weights = self.dropout_weights(features, dropout, lambda count: torch.rand(count, device=table.device))
        features["sentence_embedding"] = self.compose(table, features, weights)
        return features

    def dropout_weights(
        self, features: dict[str, Tensor], dropout: float, draw: Callable[[int], Tensor]
    ) -> list[Tensor]:
        """Return the ``weights`` of :meth:`compose`, 0 for dropped rows; ``draw`` returns n random numbers.

        All rows of an n-gram drop out together. Markers drop out half as often, because a name has only one or two.
        """
        weights, table, probes = list[Tensor](), self.table.weight, self.shape.probes
        for kind, share in zip(_KINDS, (dropout, dropout / 2, dropout), strict=True):
            count = len(features[f"{kind}_ids"]) // probes
            remains = draw(count) >= share if share else torch.ones(count, device=table.device)
            weights.append(remains.repeat_interleave(probes).to(table.dtype) / (1 - share))
        return weights

    def compose(self, table: Tensor, features: dict[str, Tensor], weights: Sequence[Tensor]) -> Tensor:
        """Compute the formula of :mod:`medlink.models.static.encoder`: ``(n, d)``, zeros for a text without n-grams.

        The ids of the ``features`` (see :func:`as_tensors`) refer to the ``table`` ``(rows, d)``. ``weights`` are those
        of the rows of n-grams, of markers, and of families.
        """
        ids, lengths = ([features[f"{kind}_{part}"] for kind in _KINDS] for part in ("ids", "lengths"))
        x, m, f = (_sums(table, *parts) for parts in zip(ids, lengths, weights, strict=True))
        x = x * self.shape.probes / lengths[0].clamp(min=1)[:, None]
        if self.shape.families:
            x = x + f * self.shape.probes / lengths[2].clamp(min=1)[:, None]
        change = self.down(functional.gelu(self.up(self.norm(x)), approximate="tanh"))
        y = functional.normalize(x + change, dim=-1)
        y = functional.normalize(y + self.shape.marker_weight * functional.normalize(m, dim=-1), dim=-1)
        return y * (lengths[0] > 0)[:, None]

    def encoder(self) -> StaticEncoder:
        """Return the current encoder, with its table in eight bits."""
        state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}
        codes, scale = quantise(state.pop("table.weight"))
        return StaticEncoder(self.shape, {"table": codes, "scale": scale, **state}, forms=self.forms)

    @classmethod
    def of(cls, encoder: StaticEncoder, dropout: float = 0.0) -> Self:
        """Make a trainable copy of an encoder."""
        module = cls(encoder.config, dropout, encoder.forms)
        table = encoder.tensors["table"].astype(np.float32) * encoder.tensors["scale"][:, None]
        state = {k: torch.from_numpy(np.array(v)) for k, v in encoder.tensors.items() if k not in ("table", "scale")}
        module.load_state_dict({"table.weight": torch.from_numpy(table), **state})
        return module

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the files of a static encoder, with its table in eight bits."""
        self.encoder().save_weights(Path(output_path))

    @classmethod
    def load(  # type: ignore[override]  # a static encoder needs none of the hub's options
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> Self:
        return cls.of(StaticEncoder.load(Path(model_name_or_path) / subfolder))


def _sums(table: Tensor, ids: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    offsets = (torch.cumsum(lengths, 0) - lengths).to(ids.dtype)
    return functional.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)
