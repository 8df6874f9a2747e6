"""Adam on the rows of a batch makes the steps of torch's ``SparseAdam``."""

from __future__ import annotations

import torch

from medlink.training.static.trainer import RowAdam


def test_the_steps_are_those_of_sparse_adam() -> None:
    torch.manual_seed(1)
    start = torch.randn(50, 8)
    mine, theirs = start.clone(), start.clone()
    rows, reference = RowAdam(mine), torch.optim.SparseAdam([theirs])
    for step in range(20):
        index = torch.randperm(50)[: 1 + step % 7]
        gradient = torch.randn(len(index), 8)
        leaf = rows.rows(index)
        assert leaf.requires_grad
        assert torch.equal(leaf, mine[index])
        reference.param_groups[0]["lr"] = rate = 0.01 * (step + 1)
        theirs.grad = torch.sparse_coo_tensor(index[None], gradient, theirs.shape, check_invariants=False).coalesce()
        rows.step(gradient, rate)
        reference.step()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    assert not torch.equal(mine, start)
