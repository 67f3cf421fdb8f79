"""Qwen3-ASR checkpoints with random weights, as the model hub would have them: the real classes load them.

Random weights are as heavy and as slow as real ones, and what they hear means nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

AUDIO_06B: dict[str, Any] = {
    "d_model": 896,
    "encoder_layers": 18,
    "encoder_attention_heads": 14,
    "encoder_ffn_dim": 3584,
    "output_dim": 1024,
}
TEXT_06B: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 65_536,
    "tie_word_embeddings": True,
}
AUDIO_TINY: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "output_dim": 48,
    "downsample_hidden_size": 8,
    "initializer_range": 0.2,
}
TEXT_TINY: dict[str, Any] = TEXT_06B | {
    "vocab_size": 400,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}
_AUDIO_TOKENS = {
    "audio_token": "<|audio_pad|>",
    "audio_bos_token": "<|audio_start|>",
    "audio_eos_token": "<|audio_end|>",
}
_WHOLE_WORDS = ("language", "ĠJapanese", "ĠEnglish", "ĠNone")
"""As a byte-level tokenizer writes them."""
_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *_AUDIO_TOKENS.values())
_TEMPLATE = """\
<|im_start|>system
{% for message in messages if message.role == "system" %}{{ message.content[0].text }}{% endfor %}<|im_end|>
<|im_start|>user
{% for message in messages if message.role == "user" %}<|audio_start|><|audio_pad|><|audio_end|>{% endfor %}<|im_end|>
{% for message in messages if message.role == "assistant" %}<|im_start|>assistant
{{ message.content[0].text }}<|im_end|>
{% endfor %}"""


def asr_checkpoint(folder: Path, audio: dict[str, Any], text: dict[str, Any], *, seed: int = 7) -> Path:
    """A model as the `-hf` repositories store it, bfloat16, with a processor whose tokens are bytes.

    Only the names of languages are one token, as they are to the real one.
    """
    import torch
    from transformers import (
        GenerationConfig,
        Qwen3ASRConfig,
        Qwen3ASRFeatureExtractor,
        Qwen3ASRForConditionalGeneration,
        Qwen3ASRProcessor,
    )

    tokenizer = _byte_tokenizer()
    ends = [tokenizer.convert_tokens_to_ids(name) for name in ("<|endoftext|>", "<|im_end|>")]
    config = Qwen3ASRConfig(
        audio_config=audio,
        text_config=text,
        audio_token_id=tokenizer.convert_tokens_to_ids("<|audio_pad|>"),
        eos_token_id=ends,
        pad_token_id=ends[1],
        initializer_range=text.get("initializer_range", 0.02),
    )
    torch.manual_seed(seed)
    model = Qwen3ASRForConditionalGeneration(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(eos_token_id=ends, pad_token_id=ends[1], do_sample=False)
    model.save_pretrained(folder)
    Qwen3ASRProcessor(
        feature_extractor=Qwen3ASRFeatureExtractor(), tokenizer=tokenizer, chat_template=_TEMPLATE
    ).save_pretrained(folder)
    return folder


def _byte_tokenizer() -> Any:
    from tokenizers import AddedToken, pre_tokenizers
    from transformers import Qwen2Tokenizer

    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: list[tuple[str, str]] = []
    for word in _WHOLE_WORDS:
        for length in range(2, len(word) + 1):
            piece = word[: length - 1], word[length - 1]
            if "".join(piece) not in vocabulary:
                merges.append(piece)
                vocabulary["".join(piece)] = len(vocabulary)
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=merges, extra_special_tokens=_AUDIO_TOKENS)
    tokenizer.add_tokens([AddedToken(name, special=True, normalized=False) for name in _CONTROL])
    tokenizer.add_tokens([AddedToken("<asr_text>", special=False, normalized=False)])
    return tokenizer
