"""Inputs of models for texts by number: those that the model makes of the texts themselves, kept in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import BoW, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from medlink.errors import EncoderError
from medlink.models import StaticEncoder
from medlink.models.static.module import StaticEmbedding
from medlink.training.common import inputs as inputs_module
from medlink.training.common.inputs import Inputs, open_inputs, write_inputs
from medlink.training.common.losses import embed
from medlink.training.data.batches import TextList

TEXTS = ["kidney stone", "", "Nierenstein, li.", "a", " which is due to", " renal colic", "fever " * 30]
WHOLE = ["kidney stone which is due to renal colic", "a which is due to renal colic", "fever " * 30]
PARTS = np.array([[0, 4, 5], [3, 4, 5], [6, -1, -1]])


def read(model: SentenceTransformer, folder: Path, texts: list[str] = TEXTS, digest: str = "") -> Inputs:
    write_inputs(model, TextList(texts, digest), folder / "inputs", print)
    return open_inputs(model, folder / "inputs")


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A small tokenizer of a kind, which merges the letters of the texts above."""
    special: dict[str, Any] = {"special_tokens": ["<pad>", "<unk>", "<s>", "</s>"]}
    if kind == "byte-level":
        made, trainer = Tokenizer(models.BPE(unk_token="<unk>")), trainers.BpeTrainer(vocab_size=120, **special)
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif kind == "unigram":
        made, trainer = (
            Tokenizer(models.Unigram()),
            trainers.UnigramTrainer(vocab_size=60, unk_token="<unk>", **special),
        )
        made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    else:
        made, trainer = (
            Tokenizer(models.WordPiece(unk_token="<unk>")),
            trainers.WordPieceTrainer(vocab_size=80, **special),
        )
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator([*TEXTS, *WHOLE], trainer)
    pair = [(token, made.token_to_id(token)) for token in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=pair)
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def transformer(folder: Path, kind: str) -> SentenceTransformer:
    config = BertConfig(
        vocab_size=200, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer(kind).save_pretrained(folder / "bert")
    return SentenceTransformer(modules=[Transformer(str(folder / "bert")), Pooling(8)], device="cpu")


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["byte-level", "unigram", "wordpiece"])
def test_tokens_are_those_of_the_model(kind: str, side: str, tmp_path: Path) -> None:
    model = transformer(tmp_path, kind)
    model.tokenizer.padding_side, model.max_seq_length = side, 25
    made = read(model, tmp_path)
    assert len(made) == len(TEXTS)
    for rows, texts in ((np.arange(6), TEXTS[:6]), (np.array([6, 3]), [TEXTS[6], "a"]), (PARTS, WHOLE)):
        parts = made.take(rows)
        [found], expected = parts.parts, model.preprocess(texts)
        assert parts.positions is not None
        for name in ("input_ids", "attention_mask"):
            torch.testing.assert_close(found[name][parts.positions], expected[name])


def test_parts_of_similar_length(tmp_path: Path) -> None:
    model = transformer(tmp_path, "wordpiece")
    made, rows = read(model, tmp_path), np.array([6, 0, 3, 1, 5, 2, 3])
    parts = made.take(rows, 40)
    shapes = [tuple(part["input_ids"].shape) for part in parts.parts]
    assert sum(count for count, _ in shapes) == len(rows)
    assert sorted(width for _, width in shapes) == [width for _, width in shapes]
    assert all(count * width <= 40 for count, width in shapes[:-1])
    assert shapes[-1][0] == 1, "a text that is longer than a part"
    with torch.no_grad():
        expected = model(model.preprocess([TEXTS[row] for row in rows]))["sentence_embedding"]
        torch.testing.assert_close(embed(model, parts), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(embed(model, made.take(rows)), expected, rtol=1e-5, atol=1e-6)


def test_a_static_encoder(static_encoder: Path, tmp_path: Path) -> None:
    encoder = StaticEncoder.load(static_encoder)
    model = SentenceTransformer(modules=[StaticEmbedding.of(encoder)], device="cpu").eval()
    made = read(model, tmp_path)
    with torch.no_grad():
        np.testing.assert_allclose(embed(model, made.take(np.arange(6))), encoder.encode(TEXTS[:6]), atol=1e-6)
        np.testing.assert_allclose(embed(model, made.take(PARTS[:1])), encoder.encode(WHOLE[:1]), atol=1e-6)


def test_texts_are_read_once(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, reads = SentenceTransformer(str(bert), device="cpu"), list[str]()
    real: Callable[..., Any] = inputs_module._tokenise

    def counted(parts: Iterator[Any]) -> Iterator[Any]:
        reads.append("")
        yield from parts

    monkeypatch.setattr(inputs_module, "_tokenise", lambda *given: counted(real(*given)))
    first = read(model, tmp_path).take(np.arange(6)).parts[0]["input_ids"]
    assert torch.equal(read(model, tmp_path).take(np.arange(6)).parts[0]["input_ids"], first)
    assert len(reads) == 1
    # other texts, and another tokenizer
    read(model, tmp_path, digest="other")
    model.max_seq_length = 9
    assert read(model, tmp_path, digest="other").take(np.array([0])).parts[0]["input_ids"].shape == (1, 9)
    assert len(reads) == 3
    (tmp_path / "inputs" / "0.values").write_bytes(b"")
    with pytest.raises(EncoderError, match="inputs: the checkpoint cannot be read: a file is shorter than it was"):
        read(model, tmp_path, digest="other")


def test_long_readings_are_reported(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs_module, "_FIRST_LINE", -1.0)
    monkeypatch.setattr(inputs_module, "_NEXT_LINE", -1.0)
    lines: list[str] = []
    texts = TextList(["a"] * 9000, "")
    write_inputs(SentenceTransformer(str(bert)), texts, tmp_path / "inputs", lines.append)
    assert lines == ["0 texts read", "4,096 texts read", "8,192 texts read"]


def test_a_model_without_tokens(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"the encoder reads no tokens\. Remedy: start from a transformer or a"):
        read(SentenceTransformer(modules=[BoW(["a"])], device="cpu"), tmp_path)
