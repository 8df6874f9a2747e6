"""The batches of an epoch as inputs of a loss, on the device of the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from medlink.training.common.checkpoints import process_state
from medlink.training.common.inputs import InputParts, Inputs
from medlink.training.data.batches import Batches

# Padded tokens of a part. On two cores, with batches of 64 pairs of a name and a text: 52 pairs a second in parts of
# 512, 49 in parts of 256, 46 in parts of 1024, 27 without parts. A GPU needs more to be busy.
_MOST_TOKENS = {"cpu": 512, "cuda": 16_384}


class EpochLoader:
    """Iterates over the batches of ``epoch`` from number ``start`` on: inputs of all columns, and the label.

    If the processes share each batch (``is_shared``), each gets some of its rows and all labels. The inputs are one
    part if a batch ``is_whole``, otherwise parts with texts of similar length.
    """

    def __init__(self, batches: Batches, inputs: Inputs, *, is_whole: bool, is_shared: bool) -> None:
        state = process_state()
        self._batches, self._inputs, self._device = batches, inputs, state.device
        self._process: int = state.process_index if is_shared else 0
        self._processes: int = state.num_processes if is_shared else 1
        self._most = None if is_whole else _MOST_TOKENS.get(self._device.type)
        self._count = batches.batches_per_epoch()
        self.epoch = self.start = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        count = self.start
        for batch in islice(self._batches.epoch(self.epoch, self.start), self._count - self.start):
            n = len(batch.columns[0])
            size = -(-n // self._processes)
            # each process needs the same number of rows: the loss cuts off those that wrap around
            own = np.arange(self._process * size, (self._process + 1) * size) % n
            labels = self._send(torch.from_numpy(np.ascontiguousarray(batch.labels)))
            columns = [column[own].reshape(len(own), -1) for column in batch.columns]
            texts = np.full((len(columns), len(own), max(column.shape[1] for column in columns)), -1)
            for rows, column in zip(texts, columns, strict=True):
                rows[:, : column.shape[1]] = column
            inputs = self.take(texts.reshape(-1, texts.shape[2]))
            yield {"texts": (inputs, len(columns)), "label": labels}
            count += 1
        if count < self._count:
            raise ValueError(f"epoch {self.epoch} had {count} batches, {self._count} announced")

    def take(self, texts: NDArray[Any]) -> InputParts:
        """Return the inputs for texts by number, on the device."""
        inputs = self._inputs.take(texts, self._most)
        return inputs.map(self._send) if self._device.type == "cuda" else inputs

    def first(self, count: int) -> InputParts:
        return self.take(np.arange(min(count, len(self._inputs))))

    def _send(self, tensor: Tensor) -> Tensor:
        # a pinned copy does not wait for what the GPU has still to do
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else tensor
