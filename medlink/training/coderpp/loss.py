"""Multi-similarity loss with the pair mining of CODER++ (Zeng et al. 2022, section 4.2, equations of N_i, P_i and L).

Wang et al. 2019, "Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning", has the general form.
Here a term may belong to several concepts, so positives share a concept instead of a label. The minimum over no pairs
is plus infinity, and the maximum is minus infinity, so a term without a positive or without a negative in the batch has
no informative pair.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def informative_pairs(similarities: Tensor, same: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Compute the masks ``(n, n)`` of the informative positive and negative pairs of each row: P_i and N_i.

    A negative counts if it is more similar than the least similar positive less ``epsilon``, a positive if it is less
    similar than the most similar negative plus ``epsilon``. ``similarities (n, n)`` are cosines; ``same (n, n)`` tells
    whether two terms share a concept.
    """
    itself = torch.eye(len(same), dtype=torch.bool, device=same.device)
    positive, negative = same & ~itself, ~same & ~itself
    if not len(same):
        return positive, negative
    least = similarities.masked_fill(~positive, torch.inf).amin(dim=1, keepdim=True)
    most = similarities.masked_fill(~negative, -torch.inf).amax(dim=1, keepdim=True)
    return positive & (similarities < most + epsilon), negative & (similarities > least - epsilon)


class MultiSimilarityLoss(torch.nn.Module):
    """The multi-similarity loss of a batch of terms, as a mean over the terms.

    Inputs are a column of n terms of any length above 0 (a zero vector has cosine 0 with all others), and as labels the
    relation ``(n, n)``, symmetric: whether two terms share a concept; its diagonal is ignored. Alpha 2, beta 50 and
    epsilon 0.1 are from the training code of CODER++ (``coderpp/train/model.py`` in GanjinZero/CODER), which leaves
    lambda at the 0.5 of pytorch-metric-learning; the code of Wang et al. has the same lambda and epsilon. SapBERT
    trains with alpha 1, beta 60, lambda 0.5 (``src/metric_learning.py`` in cambridgeltl/sapbert).

    Args:
        alpha, beta: sharpness of the positive and of the negative part, per unit of cosine.
        threshold: the lambda of the paper, a cosine.
        epsilon: margin of the mining, in cosine.

    >>> apart = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> same = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    >>> round(float(MultiSimilarityLoss().compute_loss_from_embeddings([apart], same)), 4)
    0.6044
    """

    def __init__(self, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5, epsilon: float = 0.1) -> None:
        super().__init__()
        self.alpha, self.beta, self.threshold, self.epsilon = alpha, beta, threshold, epsilon
        self._informative = torch.zeros((), dtype=torch.int64)
        self._pairs = self._terms = 0

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """Return the loss of the ``(n, d)`` embeddings of the only column, and count the informative pairs."""
        unit = functional.normalize(embeddings[0], dim=-1)
        similarities, n = unit @ unit.T, len(labels)
        positive, negative = informative_pairs(similarities.detach(), labels, self.epsilon)
        # compute only the informative pairs, which soon are few
        chosen = positive | negative
        self._informative = self._informative.to(chosen.device) + chosen.sum()
        self._pairs += n * (n - 1)
        self._terms += n
        if not n:
            return similarities.sum()
        is_negative = negative.masked_select(chosen)
        slope = torch.where(is_negative, self.beta, -self.alpha).to(similarities.dtype)
        exponents = slope * (similarities.masked_select(chosen) - self.threshold)
        row = chosen.nonzero()[:, 0] + n * is_negative
        # log(1 + sum exp(x)), minus the largest exponent for stability; 1 counts as exp(0)
        top = similarities.new_zeros(2 * n).scatter_reduce(0, row, exponents.detach(), "amax")
        sums = torch.exp(-top).index_add(0, row, torch.exp(exponents - top[row]))
        logs = torch.log(sums) + top
        return logs[:n].mean() / self.alpha + logs[n:].mean() / self.beta

    def take_counts(self) -> tuple[float, int]:
        """Return the share of informative pairs and the number of terms, over the batches since the last call."""
        share, terms = float(self._informative) / max(1, self._pairs), self._terms
        self._informative, self._pairs, self._terms = torch.zeros_like(self._informative), 0, 0
        return share, terms
