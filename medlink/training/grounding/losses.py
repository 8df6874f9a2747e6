"""The losses of conceptual grounding as functions of embeddings, and their sum as a loss of sentence-transformers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

ANCHOR, POSITIVE, NEGATIVE = -1, -2, -3
"""What a row of a batch is, if not a name that a prototype is the mean of: such a row has the number of its concept."""


def synonym_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Mean hinge ``max(d(n, n_pos) - d(n, n_neg) + margin, 0)`` of ``(b, d)`` rows, d the cosine distance.

    Fivez et al. 2021, equation 3, for each triplet. (The authors' code has the hinge of the mean distances of a batch.)

    >>> a, p, n = torch.tensor([[1.0, 0]]), torch.tensor([[3.0, 4]]), torch.tensor([[4.0, 3]])
    >>> round(float(synonym_loss(a, p, n, 0.1)), 4)  # 0.4 - 0.2 + 0.1
    0.3
    """
    return (cosine_similarity(anchors, negatives) - cosine_similarity(anchors, positives) + margin).clamp(min=0).mean()


def prototype_loss(members: Tensor, owner: Tensor, targets: Tensor) -> Tensor:
    """Mean cosine distance of prototypes, each the mean of encoded names, to their concepts (equation 4).

    Args:
        members, owner: ``(m, d)`` encoded names, ``(m,)`` the row of the prototype of each, none left out.
        targets: ``(b, d)`` CCA(u_p) of the concept of each prototype.

    >>> members = torch.tensor([[2.0, 0], [0, 2], [0, 5]])
    >>> targets = torch.tensor([[1.0, 1], [5, 0]])
    >>> round(float(prototype_loss(members, torch.tensor([0, 0, 1]), targets)), 4)  # distances 0 and 1
    0.5
    """
    # a sum points where the mean does
    sums = torch.zeros_like(targets).index_add(0, owner, members)
    return (1 - cosine_similarity(sums, targets)).mean()


class GroundingLoss(torch.nn.Module):
    """Plain sum of :func:`synonym_loss` and :func:`prototype_loss` (equation 5).

    Inputs: a column of n names; labels ``(n,)``, what each row is. ``targets`` are ``(concepts, d)``. Each concept of a
    batch has one prototype. (In the authors' code each anchor has one of its own.)
    """

    targets: Tensor

    def __init__(self, targets: Tensor, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.register_buffer("targets", targets, persistent=False)  # made anew when a run is resumed

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of the ``(n, d)`` embeddings of the one column."""
        (rows,) = embeddings
        anchors, positives, negatives = (rows[labels == one] for one in (ANCHOR, POSITIVE, NEGATIVE))
        concepts, owner = torch.unique(labels[labels >= 0], return_inverse=True)
        grounded = prototype_loss(rows[labels >= 0], owner, self.targets.to(rows)[concepts])
        return synonym_loss(anchors, positives, negatives, self.margin) + grounded
