"""The static encoder as CODER++ trains it: n-grams hashed once, terms as bags without padding."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from medlink.models.static.encoder import StaticConfig, StaticEncoder, quantise
from medlink.models.static.module import StaticEmbedding
from medlink.models.static.net import compose
from medlink.training.coderpp.terms import Ids
from medlink.training.static.bags import Bags

_EMBEDDED_AT_ONCE = 4096


class TermBags(Bags):
    """:class:`Bags` as the tensors that :class:`BagEmbedding` reads."""

    def __call__(self, terms: Ids) -> dict[str, Tensor]:
        """``input_ids (total,)``, the table rows of the given terms one after the other, and ``lengths (n,)`` of each;
        ``marker_ids`` and ``marker_lengths`` alike."""
        found = self.take(terms)
        return {
            "input_ids": torch.from_numpy(found.rows),
            "lengths": torch.from_numpy(np.diff(found.indptr)),
            "marker_ids": torch.from_numpy(found.marker_rows),
            "marker_lengths": torch.from_numpy(np.diff(found.marker_indptr)),
        }


class BagEmbedding(StaticEmbedding):
    """:class:`StaticEmbedding` on bags: the same function of the same weights, several times as fast in training.

    Args:
        config: shape of the encoder.
        dropout: share of the n-grams, all probes of one together, left out of each term in training; half of it of the
            markers, of which a term has but one or two.
    """

    def __init__(self, config: StaticConfig, dropout: float = 0.0) -> None:
        super().__init__(config)
        self.dropout = dropout

    def forward(self, features: dict[str, Tensor], **_: object) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)`` to the features that :class:`TermBags` made."""
        lengths = features["lengths"]
        x = self._sums(features["input_ids"], lengths, self.dropout)
        m = self._sums(features["marker_ids"], features["marker_lengths"], self.dropout / 2)
        y = compose(x * self.shape.probes / lengths.clamp(min=1)[:, None], m, self, self.shape.marker_weight)
        features["sentence_embedding"] = y * (lengths > 0)[:, None]
        return features

    def _sums(self, ids: Tensor, lengths: Tensor, dropout: float) -> Tensor:
        """Sums ``(n, d)`` of table rows, in training without those that drop out."""
        table = self.table.weight
        weights = torch.ones(len(ids), dtype=table.dtype, device=ids.device)
        if self.training and dropout:
            kept = torch.rand(len(ids) // self.shape.probes, device=ids.device) >= dropout
            weights = kept.repeat_interleave(self.shape.probes).to(table.dtype) / (1 - dropout)
        offsets = (torch.cumsum(lengths, 0) - lengths).to(ids.dtype)
        return functional.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)

    def embed(self, bags: TermBags) -> NDArray[np.float32]:
        """Embeddings ``(n, d)`` of all terms, without dropout."""
        out = np.empty((len(bags), self.shape.dimension), dtype=np.float32)
        device, was_training = self.table.weight.device, self.training
        self.eval()
        with torch.no_grad():
            for start in range(0, len(bags), _EMBEDDED_AT_ONCE):
                some = np.arange(start, min(start + _EMBEDDED_AT_ONCE, len(bags)))
                moved = {key: value.to(device) for key, value in bags(some).items()}
                out[some] = self(moved)["sentence_embedding"].float().cpu().numpy()
        self.train(was_training)
        return out

    def encoder(self) -> StaticEncoder:
        """The encoder as it stands, its table in eight bits."""
        state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.state_dict().items()}
        codes, scale = quantise(state.pop("table.weight"))
        return StaticEncoder(self.shape, {"table": codes, "scale": scale, **state})

    @classmethod
    def of(cls, encoder: StaticEncoder, dropout: float) -> BagEmbedding:
        """A trainable copy of an encoder."""
        module = cls(encoder.config, dropout)
        table = encoder.tensors["table"].astype(np.float32) * encoder.tensors["scale"][:, None]
        state = {k: torch.from_numpy(np.array(v)) for k, v in encoder.tensors.items() if k not in ("table", "scale")}
        module.load_state_dict({"table.weight": torch.from_numpy(table), **state})
        return module
