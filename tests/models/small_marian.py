"""A Marian of one layer with random weights, for the tests that translate."""

from __future__ import annotations

from pathlib import Path

import torch


def small_marian(folder: Path) -> Path:
    """Write the model into a folder; returns it. It reads and writes letters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

    vocabulary = {letter: i for i, letter in enumerate(["</s>", "<unk>", "<pad>", *map(chr, range(97, 123)), " "])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(folder)
    torch.manual_seed(3)
    config = MarianConfig(
        vocab_size=len(vocabulary), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32, init_std=1.0,
        eos_token_id=0, pad_token_id=2, decoder_start_token_id=2, forced_eos_token_id=0, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config.max_length = 12
    model.save_pretrained(folder)
    return folder
