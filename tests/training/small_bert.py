"""A BERT of one layer or more with random weights, and a simulated kill, for the tests of trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class Killed(Exception):
    """A simulated kill."""


def kill_at(*starts: str) -> Callable[[str], None]:
    """A progress function that raises :class:`Killed` at a line with one of these beginnings."""

    def progress(line: str) -> None:
        if line.startswith(starts):
            raise Killed

    return progress


def small_bert(folder: Path, *, dropout: float = 0.1, seed: int = 0, width: int = 16, layers: int = 1) -> Path:
    """Write the model below a folder, and return its path. Its tokens are letters."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(c) for c in range(97, 123)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=width,
        max_position_embeddings=48,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    SentenceTransformer(modules=[Transformer(str(folder / "bert")), Pooling(width)]).save(str(folder / "model"))
    return folder / "model"
