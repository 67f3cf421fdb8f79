"""A causal language model of transformers on the thread it lives on: reads prompts, writes answers token by token.

What it has read stays, and the next prompt is read from where it differs. Between two tokens, and between two pieces of
a prompt, it looks whether anybody still wants it. Its text goes out in the chunks that chat endpoints send, so that one
reader serves both. Knows no event loop and not what a prompt or an answer means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from server.engines import torch_int8
from server.engines.base import LlmMessage, LlmRequest, ToolSpec
from server.engines.llm.chat_template import ChatTemplate
from server.engines.llm.kept_prompts import KeptPrompts
from server.engines.llm.token_text import TokenText
from server.engines.llm.torch_state import CacheState
from server.errors import LlmError, ModelError

log = logging.getLogger(__name__)

Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["auto", "float32", "bfloat16", "int8"]
Tell = Callable[[dict[str, Any]], None]

# A piece of a prompt is read in one go: small enough that giving it up is soon noticed, large enough to be fast.
_PIECE_TOKENS = {"cpu": 64}
_PIECE_TOKENS_ELSEWHERE = 512
_KEPT_BYTES = 1024**3
# Of Qwen's own generation settings, where a model does not say.
_TOP_K, _TOP_P = 20, 0.8


@dataclass(frozen=True, slots=True)
class LocalModelOptions:
    """`folder`: of a whole model. `threads`: None for torch's own choice. `kept_bytes`: memory for what was read."""

    folder: Path
    context_tokens: int
    device: Device = "auto"
    dtype: Dtype = "auto"
    threads: int | None = None
    native_tools: bool = True
    kept_bytes: int = _KEPT_BYTES


class LocalModel:
    """Everything runs on the thread that makes it. Raises `ModelError`, `LlmError`."""

    def __init__(self, options: LocalModelOptions) -> None:
        import torch

        self._torch = torch
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        self.device = _device(options.device)
        self.dtype = _dtype(options.dtype, self.device)
        self.tokenizer, self._model = _loaded(options.folder)
        self._prepare()
        self._template = ChatTemplate(self.tokenizer, native_tools=options.native_tools)
        config = self._model.config.get_text_config(decoder=True)
        self.context_tokens = min(options.context_tokens, config.max_position_embeddings)
        self._piece_tokens = _PIECE_TOKENS.get(self.device, _PIECE_TOKENS_ELSEWHERE)
        self._ends = _end_tokens(self._model, self.tokenizer)
        self._kept = KeptPrompts(lambda: CacheState(self._model.config), most_bytes=options.kept_bytes)
        self._template.prompt((LlmMessage("user", "…"),))  # whatever is wrong with it shows at start

    def _prepare(self) -> None:
        """Bring the weights to where and into the form in which they are multiplied fastest."""
        torch, model = self._torch, self._model
        with torch.inference_mode():
            if self.dtype == "int8":
                torch_int8.quantize_linears(model)
                # What is left is small, but for the table of words: that is looked up, not multiplied, and as it was
                # stored it takes half of the memory.
                table = model.get_input_embeddings()
                for part in model.modules():
                    if part is not table:
                        for weight in part.parameters(recurse=False):
                            weight.data = weight.data.float()
                table.register_forward_hook(lambda module, args, output: output.float())
            else:
                model.to(getattr(torch, self.dtype))
            model.to(self.device).eval()

    # --- reading ---

    def read(self, tokens: Sequence[int], stop: threading.Event, *, stable: bool = False) -> None:
        """Read the beginning of coming prompts. `stable`: it is the beginning of most of them."""
        if not tokens:
            return
        with self._torch.inference_mode(), self._enough_memory():
            state = self._kept.take([*tokens, -1])
            whole = len(state.tokens) == len(tokens) or self._read_on(state, tokens, stop) is not None
        self._kept.put(state, stable=stable and whole)

    def beginning(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec]) -> list[int]:
        """The tokens with which every prompt begins that goes on from here."""
        return self._template.beginning(messages, tools)

    def _read_on(self, state: CacheState, prompt: Sequence[int], stop: threading.Event) -> Any:
        """The logits after `prompt`; None when nobody wants them any more."""
        logits = None
        for start in range(len(state.tokens), len(prompt), self._piece_tokens):
            if stop.is_set():
                return None
            logits = self._forward(state, prompt[start : start + self._piece_tokens])
        return logits

    def _forward(self, state: CacheState, tokens: Sequence[int]) -> Any:
        """Read some more tokens; the logits after the last of them, shape (vocabulary,)."""
        ids = self._torch.tensor([tokens], device=self.device)
        out = self._model(input_ids=ids, cache=state.cache, use_cache=True, logits_to_keep=1)
        state.tokens.extend(tokens)
        return out.logits[0, -1]

    # --- writing ---

    def write(self, request: LlmRequest, tell: Tell, stop: threading.Event) -> None:
        """Answer a request, telling each piece of it as a chunk of a chat completion.

        Raises `LlmError`: `llm_context_overflow` when prompt and answer do not fit, else `llm_failed`.
        """
        prompt = self._template.prompt(request.messages, request.tools)
        if len(prompt) + request.max_tokens > self.context_tokens:
            raise LlmError(
                f"The prompt has {len(prompt)} tokens and the answer may have {request.max_tokens}; "
                f"the model's window has {self.context_tokens}.",
                code="llm_context_overflow",
                hint="Send less history, or raise `llm.context_tokens`.",
            )
        # A state that a failure has left half read is not put back.
        with self._torch.inference_mode(), self._enough_memory():
            state = self._kept.take(prompt)
            usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": len(state.tokens)}}
            wanted = state.croppable or self._keep_beginning(state, request, prompt, stop)
            logits = self._read_on(state, prompt, stop) if wanted else None
            if logits is not None:
                self._write_on(state, logits, request, usage, tell, stop)
        self._kept.put(state)

    def _write_on(
        self,
        state: CacheState,
        logits: Any,
        request: LlmRequest,
        usage: dict[str, Any],
        tell: Tell,
        stop: threading.Event,
    ) -> None:
        choose = self._chooser(request)
        text = TokenText(self._decoded)
        for count in range(1, request.max_tokens + 1):
            token = choose(logits)
            ended = token in self._ends
            piece = text.finish() if ended else text.feed(token)
            reason = "stop" if ended else "length" if count == request.max_tokens else None
            if reason == "length":
                piece += text.finish()
            if piece or reason:
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": reason}
                tell({"choices": [choice], "usage": usage | {"completion_tokens": count}})
            if reason or stop.is_set():
                return
            logits = self._forward(state, [token])

    def _chooser(self, request: LlmRequest) -> Callable[[Any], int]:
        """How the next token is chosen from its logits."""
        torch, settings = self._torch, self._model.generation_config
        if request.temperature <= 0:
            return lambda logits: int(logits.argmax())
        top_k, top_p = settings.top_k or _TOP_K, settings.top_p or _TOP_P
        dice = torch.Generator().manual_seed(request.seed)

        def choose(logits: Any) -> int:
            scores, tokens = (logits.float().cpu() / request.temperature).topk(min(top_k, len(logits)))
            likely = torch.softmax(scores, -1)
            likely[likely.cumsum(-1) - likely >= top_p] = 0.0
            return int(tokens[torch.multinomial(likely, 1, generator=dice)])

        return choose

    def _keep_beginning(
        self, state: CacheState, request: LlmRequest, prompt: Sequence[int], stop: threading.Event
    ) -> bool:
        """Read what comes before the newest words and keep it as it is then: it cannot be cropped to that later.

        False when nobody wants it any more.
        """
        spoken = [place for place, message in enumerate(request.messages) if message.role == "user"]
        before = request.messages[: spoken[-1]] if spoken else request.messages
        beginning = self._template.beginning(before, request.tools)
        if len(beginning) <= len(state.tokens) or prompt[: len(beginning)] != beginning:
            return True
        whole = self._read_on(state, beginning, stop) is not None
        self._kept.put(state.copy(len(state.tokens)))
        return whole

    def _decoded(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    @contextmanager
    def _enough_memory(self) -> Iterator[None]:
        """Makes of a full memory an error that says what to do, and gives back what can be read again."""
        try:
            yield
        except (self._torch.OutOfMemoryError, MemoryError) as error:
            self._kept.clear()
            raise LlmError(
                "There is not enough memory for the language model's work.",
                retryable=True,
                hint="Choose a smaller model in llm.model, or a smaller llm.context_tokens.",
            ) from error


def _loaded(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, nothing from the network. Raises `ModelError`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as library_log

    library_log.disable_progress_bar()  # type: ignore[no-untyped-call,unused-ignore]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        if any(folder.glob("*.gguf")):
            raise ModelError(
                f"{folder} holds a model in GGUF form.", hint='Set llm.engine to "xllama"; transformers reads others.'
            ) from error
        raise ModelError(f"The language model in {folder} cannot be loaded: {error}", hint="Fetch it again.") from error
    if not tokenizer.chat_template:
        raise ModelError(
            f"The language model in {folder} has no chat template: it is none to talk with.",
            hint="Choose an Instruct model of Qwen in llm.model.",
        )
    return tokenizer, model


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer."""
    told = model.generation_config.eos_token_id
    ends = {tokenizer.eos_token_id, *(told if isinstance(told, list | tuple) else [told])}
    return frozenset(end for end in ends if end is not None)


def _device(wanted: Device) -> str:
    """Raises `LlmError` for a device that this machine does not have."""
    import torch

    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, found in here.items() if found)
    if not here[wanted]:
        raise LlmError(
            f"This machine has no {wanted} that torch can use.",
            code="engine_unavailable",
            hint="Set llm.device to auto, or install the build of torch for that device.",
        )
    return wanted


def _dtype(wanted: Dtype, device: str) -> str:
    """Raises `LlmError` for what a device cannot do."""
    import torch

    if wanted == "auto":
        if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return "float16"
        if device != "cpu":
            return "bfloat16"
        return "int8" if torch_int8.is_fast() else "float32"
    if wanted == "int8" and device != "cpu":
        raise LlmError(
            f"int8 is for the processor, not for {device}.",
            code="engine_unavailable",
            hint="Set llm.dtype to auto or bfloat16.",
        )
    return wanted
