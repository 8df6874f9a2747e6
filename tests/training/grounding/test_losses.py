"""The losses against loops over triplets and concepts, and the labels that tell a batch's rows apart."""

from __future__ import annotations

import torch

from medlink.training.grounding.network import ANCHOR, NEGATIVE, POSITIVE, GroundingLoss, prototype_loss, synonym_loss


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return 1 - float(a @ b) / float(a.norm() * b.norm())


def test_synonym_loss_is_a_hinge_for_each_triplet() -> None:
    torch.manual_seed(0)
    a, p, n = torch.randn(3, 20, 4)
    one_by_one = [max(distance(x, y) - distance(x, z) + 0.1, 0) for x, y, z in zip(a, p, n, strict=True)]
    assert abs(float(synonym_loss(a, p, n, 0.1)) - sum(one_by_one) / 20) < 1e-5
    # the hinge of the means would be another number
    assert (
        abs(
            sum(one_by_one)
            - max(sum(distance(x, y) - distance(x, z) + 0.1 for x, y, z in zip(a, p, n, strict=True)), 0)
        )
        > 1
    )


def test_prototype_loss_of_a_loop() -> None:
    torch.manual_seed(1)
    members, targets = torch.randn(9, 4), torch.randn(3, 4)
    owner = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2, 2])
    by_hand = [distance(members[owner == i].mean(dim=0), targets[i]) for i in range(3)]
    assert abs(float(prototype_loss(members, owner, targets)) - sum(by_hand) / 3) < 1e-6


def test_a_batch_is_taken_apart_by_its_labels() -> None:
    torch.manual_seed(2)
    rows, targets = torch.randn(11, 4, requires_grad=True), torch.randn(5, 4)
    labels = torch.tensor([ANCHOR, ANCHOR, POSITIVE, POSITIVE, NEGATIVE, NEGATIVE, 3, 3, 1, 1, 1])
    loss = GroundingLoss(targets, 0.1).compute_loss_from_embeddings([rows], labels)
    expected = synonym_loss(rows[:2], rows[2:4], rows[4:6], 0.1)
    expected = expected + prototype_loss(rows[6:], torch.tensor([1, 1, 0, 0, 0]), targets[[1, 3]])
    assert torch.equal(loss, expected)
    loss.backward()
    assert rows.grad is not None
    assert bool(rows.grad[6:].abs().sum(dim=1).all())
