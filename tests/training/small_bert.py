"""A BERT of one layer or more with random weights, a simulated kill, and two processes, for the tests of trainers."""

from __future__ import annotations

import multiprocessing
import os
import socket
import warnings
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


def two_processes(work: Callable[[int], object], *, seconds: int = 60) -> list[int | None]:
    """Run both processes of a run of two, each with its rank; their exit codes, not 0 for one that was left waiting.

    The second is killed so many ``seconds`` after the first.
    """
    import faiss
    import torch
    from accelerate import PartialState

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(rank: int) -> None:
        # what the copy of the test's process knows of itself
        PartialState._shared_state.clear()
        torch.set_num_threads(1)
        faiss.omp_set_num_threads(1)
        warnings.simplefilter("ignore")
        given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
        os.environ.update({**{name: str(value) for name, value in given.items()}, "MASTER_ADDR": "127.0.0.1"})
        work(rank)

    both = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in (0, 1)]
    for process in both:
        process.start()
    for process, most in zip(both, (60, seconds), strict=True):
        process.join(most)
    for process in both:
        process.kill()
        process.join()
    return [process.exitcode for process in both]


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
