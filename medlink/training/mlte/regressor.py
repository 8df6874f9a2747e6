"""``MlteRegressor``: how alike two texts are, by a transformer and a prediction model on the states of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from medlink.errors import EncoderError
from medlink.files.json import read_json, write_json
from medlink.models import Encoder, TranslatedEncoder, load_encoder
from medlink.models.transformer import TransformerEncoder
from medlink.training.common.run import new_folder
from medlink.training.mlte import HOLDS, is_mlte
from medlink.training.mlte.extra import Extra, extra_columns
from medlink.training.mlte.head import Head
from medlink.training.mlte.kernels import Vectors, pair_features

_WEIGHTS, _ENCODER = "mlte.safetensors", "encoder"
_REMEDY = "train it again"


@dataclass(frozen=True, slots=True)
class MlteRegressor:
    """A regressor or classifier of pairs of texts (Feng 2023), as :class:`medlink.training.MlteTrainer` makes it.

    Args:
        encoder: the transformer whose blocks are read, or one behind a translator.
        head: the prediction model.
        kind: ``regressor``, whose scores are on the scale of the ratings, or ``classifier``, whose are probabilities.
        extras: what else it asks of a pair.
        record: how it was trained, and what came of it; plain data.
    """

    encoder: Encoder
    head: Head
    kind: str = "regressor"
    extras: tuple[Extra, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def score(self, ones: Sequence[str], others: Sequence[str], extra: Sequence[Sequence[str]] = ()) -> Vectors:
        """Scores ``(n,)`` of n pairs, higher is more alike.

        Args:
            ones, others: n texts each.
            extra: for each pair a cell for each of :attr:`extras`.

        Raises:
            ConfigError: there are not as many of one as of the other, or an extra feature is missing.
            EncoderError: a state of the encoder is NaN or infinite.
        """
        translate, model = reader_of(self.encoder)
        features = pair_features(model, translate(ones), translate(others))
        known = extra_columns(self.extras, extra, len(ones))
        if not len(features):
            return np.zeros(0)
        return scores_of(self.head, features, known, self.kind)

    def save(self, folder: str | Path) -> Path:
        """Write the folder, which appears whole: ``mlte.json``, ``mlte.safetensors``, ``encoder/``.

        Raises:
            ConfigError: a file is in its place.
            EncoderError: it cannot be written.
        """
        with new_folder(Path(folder), "the regressor") as draft:
            self.encoder.save(draft / _ENCODER)
            save_file({k: np.ascontiguousarray(v) for k, v in self.head.tensors().items()}, draft / _WEIGHTS)
            said = {
                "kind": self.kind,
                "extras": [asdict(one) for one in self.extras],
                "encoder": self.encoder.fingerprint,
                "record": dict(self.record),
            }
            write_json(draft / HOLDS, said)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> MlteRegressor:
        """Open a folder that :meth:`save` wrote.

        Raises:
            EncoderError: it is none, or is damaged.
        """
        folder = Path(folder)
        if not is_mlte(folder):
            raise EncoderError(f"is no regressor: no {HOLDS} in it", path=folder, remedy="name one of 'train mlte'")
        encoder = load_encoder(folder / _ENCODER, device=device)
        try:
            said = read_json(folder / HOLDS)
            extras = tuple(Extra(**{**one, "words": tuple(one["words"])}) for one in said["extras"])
            head = Head(**load_file(folder / _WEIGHTS))
            # weights that do not fit each other or hold NaN show themselves
            known = extra_columns(extras, (), 0).shape[1]
            if not np.isfinite(head(np.zeros((1, len(head.mean))), np.zeros((1, known)))).all():
                raise ValueError("weights that are NaN or infinite")
            regressor = cls(encoder, head, said["kind"], extras, said["record"])
            made_of = said["encoder"]
        except (OSError, ValueError, TypeError, LookupError, SafetensorError) as error:
            raise EncoderError(f"the regressor cannot be read: {error}", path=folder, remedy=_REMEDY) from error
        if made_of != encoder.fingerprint:
            message = "the encoder in it is not the one it was trained with"
            raise EncoderError(message, path=folder, remedy=_REMEDY)
        return regressor


def scores_of(head: Head, features: Vectors, extra: Vectors, kind: str) -> Vectors:
    """What a head says of features: ratings, or the probabilities of a classifier."""
    output = head(features, extra)
    return output if kind == "regressor" else 1 / (1 + np.exp(-np.clip(output, -500, 500)))


def reader_of(encoder: Encoder) -> tuple[Callable[[Sequence[str]], list[str]], Any]:
    """What texts go through first (Feng 2023, section III-B), and the sentence-transformers model that is read.

    Raises:
        EncoderError: it is a static encoder, which has no blocks.
    """
    translate: Callable[[Sequence[str]], list[str]] = list
    if isinstance(encoder, TranslatedEncoder):
        translate, encoder = encoder.translate, encoder.encoder
    if not isinstance(encoder, TransformerEncoder):
        remedy = "name the folder of a transformer, or hf:ORG/NAME for one of the Hugging Face hub"
        raise EncoderError("MLTE reads the blocks of a transformer, and a static encoder has none", remedy=remedy)
    return translate, encoder.model.float()
