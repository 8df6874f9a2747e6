"""The features of MLTE: mean states of every block of a transformer, and how alike those of two texts are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from medlink.errors import ConfigError, EncoderError
from medlink.training.common.losses import features_of
from medlink.training.data.batches import in_parts

Vectors = NDArray[np.float64]
KERNELS = ("cosine", "manhattan", "euclidean", "polynomial", "sigmoid")
"""What each block gives of a pair, in this order."""
_TEXTS, _PAIRS = 32, 512


def block_means(model: SentenceTransformer, texts: Sequence[str]) -> NDArray[np.float32]:
    """Mean over the tokens of what each block of a transformer puts out: ``(n, blocks, d)``.

    Feng 2023, equation 1: special tokens count, padding does not, and what goes into the first block is left out.

    Raises:
        EncoderError: the model is no transformer whose blocks can be read, or a state is NaN or infinite.
    """
    reader: Any = getattr(model[0], "auto_model", None)
    if reader is None:
        remedy = "name one whose first module is a transformer"
        raise EncoderError("the blocks of this encoder cannot be read", remedy=remedy)
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    found: list[NDArray[np.float32]] = []
    model.eval()
    with torch.no_grad():
        for rows in in_parts(order, _TEXTS):
            features = {k: v.to(model.device) for k, v in features_of(model, [texts[row] for row in rows]).items()}
            blocks = torch.stack(reader(**features, output_hidden_states=True).hidden_states[1:], dim=1)
            mask = features["attention_mask"][:, None, :, None].to(blocks.dtype)
            found.append(((blocks * mask).sum(dim=2) / mask.sum(dim=2).clamp(min=1)).float().cpu().numpy())
    means = np.concatenate(found)[np.argsort(order)]
    if not np.isfinite(means).all():
        raise EncoderError("states of the encoder are NaN or infinite", remedy="name another encoder")
    return means


def kernels(one: NDArray[Any], other: NDArray[Any]) -> Vectors:
    """How alike the vectors of each pair are, block by block: ``(n, blocks * 5)``, the five of a block side by side.

    Feng 2023, equation 2: cosine, Manhattan and Euclidean distance, polynomial and sigmoid kernel. The paper names no
    parameters; these are the defaults of scikit-learn: ``(x.y / d + 1) ** 3`` and ``tanh(x.y / d + 1)``, and a cosine
    of 0 with a vector of length 0.

    Args:
        one, other: ``(n, blocks, d)``.

    Raises:
        ConfigError: the shapes differ.

    >>> x = np.array([[[1.0, 0.0]]])
    >>> kernels(x, np.array([[[0.0, 1.0]]])).round(3).tolist()
    [[0.0, 2.0, 1.414, 1.0, 0.762]]
    """
    if one.shape != other.shape or one.ndim != 3:
        raise ConfigError(f"states of shape {one.shape} and {other.shape}, the same (n, blocks, d) expected")
    x, y = one.astype(np.float64), other.astype(np.float64)
    product = np.einsum("nbd,nbd->nb", x, y)
    lengths = np.linalg.norm(x, axis=2) * np.linalg.norm(y, axis=2)
    scaled = product / x.shape[2] + 1
    found = (
        np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0),
        np.abs(x - y).sum(axis=2),
        np.linalg.norm(x - y, axis=2),
        scaled**3,
        np.tanh(scaled),
    )
    return np.asarray(np.stack(found, axis=2).reshape(len(x), x.shape[1] * len(KERNELS)))


def pair_features(model: SentenceTransformer, ones: Sequence[str], others: Sequence[str]) -> Vectors:
    """:func:`kernels` of :func:`block_means` of n pairs of texts, some at a time; 0 pairs give ``(0, 0)``.

    Raises:
        ConfigError: there are not as many texts on one side as on the other.
        EncoderError: see :func:`block_means`.
    """
    if len(ones) != len(others):
        raise ConfigError(f"{len(ones)} texts beside {len(others)}, as many expected")
    found = [np.zeros((0, 0))]
    for pairs in in_parts(zip(ones, others, strict=True), _PAIRS):
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        at = {text: row for row, text in enumerate(texts)}
        means = block_means(model, texts)
        found.append(kernels(*(means[[at[text] for text in side]] for side in zip(*pairs, strict=True))))
    return np.concatenate(found[1:] or found)
