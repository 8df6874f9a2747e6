"""What a trainer is fed with: batches of texts, the same whenever an epoch is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step, over all processes.

    ``columns`` holds one list of n texts for each column of the loss; ``labels`` is what the loss takes as labels,
    ``(n,)`` or ``(n, d)`` floats or ``(n, n)`` bool, ``None`` for a loss that takes none.
    """

    columns: tuple[list[str], ...]
    labels: NDArray[Any] | None = None


class Batches(Protocol):
    """Batches by epoch; ``digest`` is a hash of data and settings that binds checkpoints to both."""

    digest: str

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, the same whenever it is asked for."""

    def batches_per_epoch(self) -> int:
        """How many batches each epoch has."""


@runtime_checkable
class SeekableBatches(Batches, Protocol):
    """Batches that need not be made to be passed over when a run is resumed."""

    def epoch_from(self, epoch: int, start: int) -> Iterator[Batch]:
        """The batches of an epoch from the one of a number, the first of which is 0."""
