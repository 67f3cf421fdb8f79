"""A Qwen of a few thousand random weights with a tokenizer and a chat template, saved as a real checkpoint is.

Every byte is a token, so a Japanese character comes in three. The template has the shape of Qwen's: marks around
messages, tools in the system message, calls and results in tags, an empty thought where thinking is off; and it refuses
a system message that is not the first, as the newer ones do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 4096
MERGES = [("i", "n"), ("e", "r"), ("t", "h"), ("th", "e"), ("Ċ", "Ċ"), ("ã", "ģ"), ("ã", "Ĥ")]
TAGS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>")
TEMPLATE = (
    "{%- set head = messages[0].content if messages[0].role == 'system' else '' -%}"
    "{%- if head or tools -%}"
    "{{- '<|im_start|>system\\n' + head -}}"
    "{%- if tools -%}"
    "{{- '\\n\\nTools:\\n' -}}"
    "{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}"
    '{{- \'Call one so: <tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call>\' -}}'
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'system' -%}"
    "{%- if not loop.first -%}{{- raise_exception('The system message comes first.') -}}{%- endif -%}"
    "{%- elif message.role == 'tool' -%}"
    "{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' -}}"
    "{%- else -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content -}}"
    "{%- for call in message.tool_calls or [] -%}"
    '{{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' -}}'
    "{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is defined and not enable_thinking -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{%- endif -%}"
)
SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": CONTEXT_TOKENS,
    "tie_word_embeddings": True,
}


def tokenizer() -> Any:
    """One that writes bytes, with Qwen's marks and tags."""
    from tokenizers import AddedToken
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer

    vocabulary = {character: place for place, character in enumerate(sorted(ByteLevel.alphabet()))}
    for first, second in MERGES:
        vocabulary[first + second] = len(vocabulary)
    made = Qwen2Tokenizer(vocab=vocabulary, merges=MERGES, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    made.chat_template = TEMPLATE
    return made


def save(folder: Path, config: Any | None = None, *, seed: int = 3, scale: float = 4.0, dtype: str = "float32") -> Path:
    """Write a checkpoint with random weights; `config`: of another kind of model. Returns the folder.

    `scale`: as weights are drawn, hardly any token is likelier than another.
    """
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    words = tokenizer()
    torch.manual_seed(seed)
    ends = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    model = AutoModelForCausalLM.from_config(config or Qwen3Config(vocab_size=len(words), **SHAPE, **ends))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
