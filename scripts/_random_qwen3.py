"""Qwen3 checkpoints with random weights, as the model hub would have them: the real classes load them.

The tokenizer is a byte-level one of Qwen's own class, made of the texts that are given; it ends texts as that of
Qwen3-Embedding does. Random weights are as heavy and as slow as real ones, and mean nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SIZE_06B: dict[str, Any] = {
    "vocab_size": 151_669,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "tie_word_embeddings": True,
}
"""Qwen3-Embedding-0.6B and Qwen3-Reranker-0.6B."""
TINY: dict[str, Any] = SIZE_06B | {
    "vocab_size": 600,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "initializer_range": 0.2,
}
END = "<|endoftext|>"
_CONTROL = (END, "<|im_start|>", "<|im_end|>", "<think>", "</think>")
_WHOLE_WORDS = ("yes", "no")


def embedding_checkpoint(folder: Path, size: dict[str, Any], texts: Iterable[str] = ()) -> Path:
    """A model as Qwen3-Embedding is stored: the decoder alone, bfloat16."""
    import torch
    from transformers import Qwen3Config, Qwen3Model

    torch.manual_seed(7)
    Qwen3Model(Qwen3Config(**size)).to(torch.bfloat16).save_pretrained(folder)
    write_tokenizer(folder, texts, most=size["vocab_size"], ends=True)
    return folder


def reranker_checkpoint(folder: Path, size: dict[str, Any], texts: Iterable[str] = ()) -> Path:
    """A model as Qwen3-Reranker is stored: a whole language model, bfloat16."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(7)
    Qwen3ForCausalLM(Qwen3Config(**size)).to(torch.bfloat16).save_pretrained(folder)
    write_tokenizer(folder, texts, most=size["vocab_size"], ends=False)
    return folder


def write_tokenizer(folder: Path, texts: Iterable[str], *, most: int, ends: bool) -> None:
    """`most`: tokens, no more. `ends`: an end token after every text, by the tokenizer's own rule, as Qwen3-Embedding
    has it.
    """
    from tokenizers import AddedToken, processors
    from transformers import Qwen2Tokenizer

    vocabulary, merges = _vocabulary(texts, min(most, 16_000) - len(_CONTROL))
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=merges)
    tokenizer.add_tokens([AddedToken(name, special=name != "<think>", normalized=False) for name in _CONTROL])
    tokenizer.save_pretrained(folder)
    if ends:
        path = folder / "tokenizer.json"
        stored = json.loads(path.read_text(encoding="utf-8"))
        rule = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.convert_tokens_to_ids(END))]
        )
        stored["post_processor"] = json.loads(rule.__getstate__())
        path.write_text(json.dumps(stored, ensure_ascii=False), encoding="utf-8")


def _vocabulary(texts: Iterable[str], most: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """All bytes, `yes` and `no`, and the frequent pieces of `texts`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.NFC()
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=most, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator([*texts, *(word for word in _WHOLE_WORDS for _ in range(9))], trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [(str(one), str(other)) for one, other in (_pair(merge) for merge in model["merges"])]
    return dict(model["vocab"]), merges


def _pair(merge: str | Sequence[str]) -> Sequence[str]:
    return merge.split(" ") if isinstance(merge, str) else merge
