"""What Faiss has for GPUs, on the CPU: it shows what is asked of GPUs, and proves nothing of
them (docs/reference/gpu.md)."""

from __future__ import annotations

from typing import Any

import faiss
import pytest


class _Any:
    """Options, or the resources of a GPU."""

    useFloat16 = False


def stand_in(monkeypatch: pytest.MonkeyPatch, gpus: int) -> list[tuple[int, Any]]:
    """Let Faiss see so many GPUs; returns the number of the GPU and the index of each share, as they are made."""
    shares: list[tuple[int, Any]] = []

    def to_gpu(_: _Any, gpu: int, index: Any, options: _Any) -> Any:
        assert options.useFloat16
        half = faiss.IndexScalarQuantizer(index.d, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        shares.append((gpu, half))
        return half

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: gpus, raising=False)
    monkeypatch.setattr(faiss, "GpuClonerOptions", _Any, raising=False)
    monkeypatch.setattr(faiss, "StandardGpuResources", _Any, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", to_gpu, raising=False)
    return shares
