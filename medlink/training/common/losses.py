"""Losses that more than one trainer uses, as functions of embeddings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def info_nce(
    anchors: Tensor, positives: Tensor, same: Tensor, temperature: float, *, both_ways: bool = False
) -> Tensor:
    """InfoNCE with in-batch negatives, and a mask for what must not be one.

    van den Oord et al. 2018, equation 4, as BioLORD 2022, section 3.2, and BioLORD 2023, section "Contrastive phase",
    use it; neither writes the loss out. With s the cosines over the temperature it is the mean over i of
    ``-log(exp(s_ii) / sum_j exp(s_ij))``, j over the positives that row i is not masked from. No paper names a mask.

    Args:
        anchors, positives: ``(n, d)`` unit vectors; row i of the positives is that of anchor i.
        same: ``(n, n)`` bool, whether positive j is no negative of anchor i; the diagonal does not count.
        temperature: what cosines are divided by, above 0.
        both_ways: the mean of this and the same with anchors and positives exchanged.

    Raises:
        ValueError: ``same`` is not ``(n, n)``, or there are no rows.

    >>> apart, none = torch.eye(2), torch.zeros(2, 2).bool()
    >>> round(float(info_nce(apart, apart, none, 1.0)), 4)  # log(1 + exp(-1))
    0.3133
    >>> round(float(info_nce(apart, apart, ~none, 1.0)), 4)  # no negative is left
    0.0
    """
    n = len(anchors)
    if same.shape != (n, n) or not n:
        raise ValueError(f"a mask of shape {tuple(same.shape)} for {n} rows")
    itself = torch.eye(n, dtype=torch.bool, device=same.device)
    scores = (anchors @ positives.T / temperature).masked_fill(same & ~itself, -torch.inf)
    own = torch.arange(n, device=scores.device)
    loss = functional.cross_entropy(scores, own)
    return (loss + functional.cross_entropy(scores.T, own)) / 2 if both_ways else loss
