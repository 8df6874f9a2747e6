"""The static encoder as a module that sentence-transformers loads by its class path.

``modules.json`` of a static encoder names this class, so ``SentenceTransformer(folder)`` works wherever medlink is
installed, without remote code. The NumPy class :class:`medlink.models.static.encoder.StaticEncoder` computes the same
function; a test holds the two together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers.sentence_transformer.modules import Module
from torch import Tensor
from torch.nn import functional

from medlink.models.static.encoder import CONFIG_FILE, StaticConfig, StaticEncoder, features, quantise
from medlink.models.static.net import compose


def _padded(indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Rows of n texts as ``(n, longest)``, zeros behind the shorter ones, and the mask of the rows in use."""
    lengths = np.diff(indptr)
    ids = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    ids[mask] = rows
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


class StaticEmbedding(Module):
    """Mean of hashed n-gram vectors, a residual feed-forward net, markers, unit length.

    Args:
        config: shape of the encoder.
    """

    config_file_name = CONFIG_FILE

    def __init__(self, config: StaticConfig) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's Module is untyped
        self.shape = config
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

    def preprocess(self, inputs: list[Any], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Texts to padded table rows ``(n, longest)`` with the mask of the rows in use, and the same of markers."""
        found = features([(prompt or "") + str(text) for text in inputs], self.shape)
        ids, mask = _padded(found.indptr, found.rows)
        marker_ids, marker_mask = _padded(found.marker_indptr, found.marker_rows)
        return {"input_ids": ids, "attention_mask": mask, "marker_ids": marker_ids, "marker_mask": marker_mask}

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        """Add ``sentence_embedding (n, d)`` to the features."""
        counts = features["attention_mask"].sum(dim=1, keepdim=True)
        x = self._masked(features["input_ids"], features["attention_mask"])
        m = self._masked(features["marker_ids"], features["marker_mask"])
        y = compose(x * self.shape.probes / counts.clamp(min=1), m, self, self.shape.marker_weight)
        features["sentence_embedding"] = y * (counts > 0)
        return features

    def _masked(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Sums ``(n, d)`` of table rows."""
        weights = mask.to(self.table.weight.dtype)
        return functional.embedding_bag(ids, self.table.weight, mode="sum", per_sample_weights=weights)

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the two files of a static encoder, the table in eight bits."""
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        codes, scale = quantise(state.pop("table.weight"))
        StaticEncoder(self.shape, {"table": codes, "scale": scale, **state}).save_weights(Path(output_path))

    @classmethod
    def load(  # type: ignore[override]  # a static encoder needs none of the hub's options
        cls, model_name_or_path: str, subfolder: str = "", **_: Any
    ) -> StaticEmbedding:
        """Read the folder of a static encoder."""
        encoder = StaticEncoder.load(Path(model_name_or_path) / subfolder)
        module = cls(encoder.config)
        table = encoder.tensors["table"].astype(np.float32) * encoder.tensors["scale"][:, None]
        state = {k: torch.from_numpy(np.array(v)) for k, v in encoder.tensors.items() if k not in ("table", "scale")}
        module.load_state_dict({"table.weight": torch.from_numpy(table), **state})
        return module
