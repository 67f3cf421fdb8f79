"""What the rest of the server may expect of a model: one Protocol a kind of engine.

Above this room local and cloud engines look the same. Each backend lives in its own file, imports its library only
inside `start()`, raises only the `EngineError` of its kind, and never blocks the event loop: blocking work runs in an
executor of its own with a fixed number of threads. Nothing here knows turns, prompts or storage.

Life of an engine: constructed (cheap, imports nothing) -> `start()` (loads and warms) -> used -> `close()`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol, runtime_checkable

from server.events import AudioChunk, Samples

# --- common -----------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """Any model: `name` is what settings call it."""

    name: str

    async def start(self) -> None:
        """Load and warm. Raises `ModelError` when its files are missing, `EngineError` when it cannot run here."""

    async def close(self) -> None:
        """Free everything. Safe to call twice and before `start()`."""


# --- voice activity -----------------------------------------------------------------------------------------------


class VadStream(Protocol):
    """The voice-activity state of one audio stream."""

    async def push(self, samples: Samples) -> list[float]:
        """Speech probabilities in [0, 1] of the windows that became whole; float32, shape (n,), 16 kHz, any n.

        What is left over waits for the next call; calls are answered in the order they were made. Windows of streams
        that wait at the same moment are looked at together, off the loop. A closed stream gives what was looked at
        before. Raises `VadError`; the stream begins afresh then.
        """

    def close(self) -> None:
        """Drop what waits. Safe to call twice."""


class VadEngine(Engine, Protocol):
    window_samples: int

    def open_stream(self) -> VadStream:
        """A fresh stream; all streams share one model. Raises `VadError` when the engine is not running."""

    async def probabilities(self, samples: Samples) -> list[float]:
        """One speech probability for each window of a whole recording (the last one zero-padded), off the loop."""


# --- hearing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AsrCapabilities:
    hot_words: bool
    """Takes words it should expect."""
    languages: tuple[str, ...] | None = None
    """ISO 639-1 codes it can hear; None: unknown or many."""


@dataclass(frozen=True, slots=True)
class Transcription:
    text: str
    """The words, stripped; empty when nothing was said."""
    language: str
    """ISO 639-1; `und` where the engine cannot tell."""
    language_probability: float = 1.0
    no_speech_probability: float = 0.0
    """The model's own belief that this was not speech."""
    average_log_probability: float = 0.0


class AsrEngine(Engine, Protocol):
    capabilities: AsrCapabilities

    async def transcribe(
        self, samples: Samples, *, languages: Sequence[str], hot_words: Sequence[str] = ()
    ) -> Transcription:
        """Hear one utterance: float32 mono at 16 kHz, shape (n,).

        `languages`: the ISO 639-1 codes it may be in, detected among them; one code forces it. Raises `AsrError`.
        """


class AsrStream(Protocol):
    """One utterance that is heard while it is spoken. Whoever opens it closes it."""

    def push(self, samples: Samples) -> None:
        """Take the next samples: float32 mono at 16 kHz, shape (n,), any n. Returns at once; work is done beside."""

    async def transcribe(self, sample_count: int) -> Transcription:
        """The words of the first `sample_count` samples that were pushed; afterwards more may be pushed and asked for.

        As `AsrEngine.transcribe` would hear them. Raises `AsrError`, also when so many were not pushed or kept.
        """

    def partials(self) -> AsyncGenerator[Transcription, None]:
        """The words so far, each time they are known anew, until the stream is closed; perhaps never.

        They may still change, and are found only while nobody waits for `transcribe`. Raises nothing.
        """

    def close(self) -> None:
        """Let go of everything; whoever waits for words gets an `AsrError`. Safe to call twice."""


@runtime_checkable
class StreamingAsr(Protocol):
    """A hearing engine that can work while the person speaks."""

    def open_stream(self, *, languages: Sequence[str], hot_words: Sequence[str] = ()) -> AsrStream:
        """Begin to hear an utterance; the arguments are those of `AsrEngine.transcribe`.

        Raises `AsrError` when the engine is not running, cannot hear these languages or hears as many as it can.
        """


# --- thinking -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LlmMessage:
    """One message of a conversation. Engines write tool calls and their results in the form their model was taught."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[LlmToolCall, ...] = ()
    """Of an assistant's message: what it called; `content` is empty then."""
    call_id: str = ""
    """Of a tool's message: the call whose result `content` is."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters`: a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]
    prior: float = 0.0
    """Added to the log-odds of a call, by an engine that decides in a grammar, while this tool is offered.

    Infinite: a tool is called, which one and with what is the model's choice."""
    on_request: bool = False
    """Offered only in turns whose words ask for it, and then alone: such a turn's prompt tells of it beside the words,
    and not the part that never changes."""


@dataclass(frozen=True, slots=True)
class LlmRequest:
    messages: tuple[LlmMessage, ...]
    """Stable prefix first (system), so that a prompt cache works."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema of the final answer; its property order is the order written. None: free text."""
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 200
    temperature: float = 0.0
    seed: int = 7
    answered: int = 0
    """Earlier answers of this conversation among the messages; a small model does as it did there."""


@dataclass(frozen=True, slots=True)
class LlmText:
    """The next piece of the answer (raw JSON text when `answer_schema` was given)."""

    text: str


@dataclass(frozen=True, slots=True)
class LlmToolCall:
    """One whole tool call. Native calls and calls written by a decision grammar look the same."""

    name: str
    arguments: dict[str, Any]
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class LlmDone:
    """Always the last delta. `cached_tokens`: prompt tokens that the prompt cache saved."""

    finish_reason: Literal["stop", "length", "tool_calls"]
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


LlmDelta = LlmText | LlmToolCall | LlmDone


@dataclass(frozen=True, slots=True)
class LlmCapabilities:
    native_tools: bool
    """False: the engine turns tools and answer into one decision grammar, and the prompt has to describe the tools."""
    max_tools: int
    streams: bool
    context_tokens: int
    wants_examples: bool = True
    """The prompt should show many examples: a small model copies them, a capable one only reads them slowly."""
    on_this_machine: bool = False
    """It is a capable one in this process; of one that wants examples that is known."""

    @property
    def one_at_a_time(self) -> bool:
        """It does one thing at a time and reads slowly: what can wait lets turns go first, and what comes before
        somebody's words is read while they speak."""
        return self.wants_examples or self.on_this_machine


class LlmEngine(Engine, Protocol):
    capabilities: LlmCapabilities

    def generate(self, request: LlmRequest) -> AsyncGenerator[LlmDelta, None]:
        """Stream one completion. Closing the iterator early (`aclose`) cancels the work. Raises `LlmError`."""

    async def count_tokens(self, text: str) -> int:
        """Tokens in `text`; an estimate where the engine cannot tell."""

    async def warm_prefix(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read a stable prompt prefix into the prompt cache, so that the first turn does not pay for it.

        `tools`: those that most turns are offered; of use where they are part of the prompt.
        """

    async def read_ahead(self, messages: Sequence[LlmMessage], tools: Sequence[ToolSpec] = ()) -> None:
        """Read the beginning of the next prompt while its end is not known yet; nothing where that is of no use.

        Raises `LlmError`.
        """


# --- speaking -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TtsCapabilities:
    languages: tuple[str, ...]
    streams: bool = False
    """Yields audio while it still synthesises one text."""


class Need(IntEnum):
    """Who is served first by a voice that makes one thing at a time."""

    NOW = 0
    """Nothing is heard until it comes."""
    NEXT = 1
    """Something is heard, or may have to be said soon."""
    KEPT = 2
    """Made beforehand."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    text: str
    language: str
    """ISO 639-1 of the sentence as a whole; mixed text is the engine's matter."""
    emotion: str = "neutral"
    need: Need = field(default=Need.NOW, compare=False)
    """How urgent it is; the same words sound the same."""


class TtsEngine(Engine, Protocol):
    capabilities: TtsCapabilities

    def synthesize(self, request: SpeechRequest) -> AsyncGenerator[AudioChunk, None]:
        """Speak one clause or sentence: one or more chunks of int16 mono at the engine's own rate.

        Nothing speakable in the text yields no chunk. Raises `TtsError`.
        """


# --- meaning ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EmbeddingFingerprint:
    """What makes vectors comparable; stored with the index."""

    model: str
    dimensions: int
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class CosineCalibration:
    """What cosines of a model mean: how near a question is to texts that have nothing to do with it."""

    unrelated: float
    """Mean."""
    deviation: float
    """Standard deviation."""
    origin: str
    """Where the figures come from."""


@runtime_checkable
class Calibrated(Protocol):
    """An embedding engine whose model's cosines were measured. Of any other they are, when it has started."""

    calibration: CosineCalibration


class EmbeddingEngine(Engine, Protocol):
    fingerprint: EmbeddingFingerprint

    async def embed_queries(self, texts: Sequence[str]) -> Samples:
        """Unit vectors, float32, shape (len(texts), dimensions). Raises `EmbeddingError`."""

    async def embed_documents(self, texts: Sequence[str]) -> Samples:
        """Unit vectors, float32, shape (len(texts), dimensions). Raises `EmbeddingError`."""


class RerankEngine(Engine, Protocol):
    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """How well each document answers, from 0 to 1, in the order given. Raises `RerankError`.

        A caller that is cancelled stops it soon.
        """


@dataclass(frozen=True, slots=True)
class Engines:
    """The models of one server, as `app.py` receives them. `rerank` None: there is none."""

    vad: VadEngine
    asr: AsrEngine
    llm: LlmEngine
    tts: TtsEngine
    embedding: EmbeddingEngine
    rerank: RerankEngine | None = None

    def by_kind(self) -> dict[str, Engine]:
        """Kind -> engine, of those there are."""
        kinds: dict[str, Engine | None] = {
            "vad": self.vad,
            "asr": self.asr,
            "llm": self.llm,
            "tts": self.tts,
            "embedding": self.embedding,
            "rerank": self.rerank,
        }
        return {kind: engine for kind, engine in kinds.items() if engine is not None}

    def all(self) -> tuple[Engine, ...]:
        return tuple(self.by_kind().values())
