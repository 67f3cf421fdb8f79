"""The sections of the settings: names, defaults, ranges and what each is for.

Plain frozen values. This module does not know files or the environment (see `config.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, SecretStr, StringConstraints, ValidationInfo, field_validator

from server.config_errors import Wording

Seconds = Annotated[float, Ge(0.01), Le(3600)]
Threads = Annotated[int, Ge(0), Le(256)]
Identifier = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\z"),
    Wording("lower-case letters, digits, - and _, at most 64"),
]
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+\z"), Wording("http:// or https://")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=1024), Wording("1 to 1024 characters")]


def refuse_booleans(value: object) -> object:
    """pydantic reads true as the number 1; where no yes or no is asked for, it is a slip."""
    if isinstance(value, bool):
        raise ValueError("true and false are not allowed here")
    return value


class Section(BaseModel):
    """Common to all sections: frozen, no unknown names, documented by the docstring under each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _booleans_where_asked(cls, value: object, info: ValidationInfo) -> object:
        asked = info.field_name is not None and cls.model_fields[info.field_name].annotation is bool
        return value if asked else refuse_booleans(value)


class VadSettings(Section):
    """Voice activity: is somebody speaking?"""

    engine: Identifier = "silero"
    """The voice-activity engine."""
    threshold: Annotated[float, Ge(0.05), Le(0.95)] = 0.5
    """Speech probability from which a window counts as speech. Raise it in a noisy room."""


class ListeningSettings(Section):
    """Where an utterance begins and ends."""

    start_speech_windows: Annotated[int, Ge(1), Le(30)] = 3
    """Speech windows of 32 ms needed before an utterance starts."""
    pre_roll_ms: Annotated[int, Ge(0), Le(2000)] = 300
    """Audio kept from before the start, in milliseconds, so that the first sound is not cut."""
    end_silence_ms: Annotated[int, Ge(100), Le(5000)] = 500
    """Silence that ends an utterance, in milliseconds."""


class LiveSettings(Section):
    """Devices that are connected all the time: `GET /v1/device`."""

    notice_silence_ms: Annotated[int, Ge(32), Le(1000)] = 32
    """Silence after which the words are heard already, in milliseconds, before it is long enough to be the end."""
    longest_utterance_seconds: Annotated[float, Ge(3), Le(120)] = 30.0
    """What somebody says without a pause is answered after so many seconds."""
    answer_early: bool = True
    """Begin the answer while the end of an utterance is waited for, where nobody else needs the language model."""
    guard_ms: Annotated[int, Ge(0), Le(5000)] = 500
    """After the robot's voice, a microphone without echo cancellation is not listened to for so many milliseconds."""
    interrupting_speech_ms: Annotated[int, Ge(100), Le(5000)] = 500
    """Speech that interrupts the robot, in milliseconds, on a device that does not hear itself."""
    lead_frames: Annotated[int, Ge(1), Le(40)] = 5
    """Frames of the robot's voice that a device is given ahead of its playing."""
    resume_seconds: Annotated[float, Ge(0), Le(600)] = 120.0
    """A turn waits so many seconds for a device that was cut off, to say the rest."""
    most_devices: Annotated[int, Ge(1), Le(256)] = 64
    """Devices that may be connected at the same time."""


class AsrSettings(Section):
    """Hearing: speech to text."""

    engine: Identifier | None = None
    """The speech recogniser; empty: the profile's."""
    model: ModelName | None = None
    """Catalogue id of its model, id on the model hub (owner/name), or a path; empty: the engine's own."""
    beam_size: Annotated[int, Ge(1), Le(10)] = 5
    """Hypotheses kept while decoding; 1 is fastest."""
    threads: Threads = 0
    """Processor threads; 0: automatic."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where Qwen3-ASR runs; `auto`: a graphics processor where there is one, else the processor."""
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """Numbers Qwen3-ASR calculates with; `auto`: int8 on the processor, elsewhere the faster one, measured at start."""
    partial_words: bool = True
    """Show the words heard so far while somebody speaks, when Qwen3-ASR has nothing else to do."""
    base_url: HttpUrl | None = None
    """URL of a server with `/audio/transcriptions`, with its `/v1`; it hears then, unless an engine is named."""
    api_key: Annotated[SecretStr, Wording("the server's key")] | None = None
    """Key of that server. Better in the environment than in a file; it is never logged or shown."""
    connect_timeout_seconds: Seconds = 5.0
    """Longest time to connect to that server, in seconds."""
    timeout_seconds: Seconds = 30.0
    """Longest time for one utterance, in seconds, before the robot says it did not catch that."""
    keep_failed_audio: bool = False
    """Keep a recording that could not be understood for 24 hours, in `<data_dir>/failed-audio`, to find out why."""


class LlmSettings(Section):
    """Thinking: the language model."""

    engine: Identifier | None = None
    """The language-model engine; empty: `openai` when a preset or base URL is set, else the profile's."""
    preset: Literal["modelscope", "dashscope", "ollama", "vllm", "llama-server", "lmstudio"] | None = None
    """Which OpenAI-compatible endpoint: sets its usual URL, default model and the way to turn thinking off."""
    base_url: HttpUrl | None = None
    """URL of an OpenAI-compatible endpoint, with its `/v1`; empty: the preset's."""
    api_key: Annotated[SecretStr, Wording("the endpoint's key")] | None = None
    """Key of that endpoint. Better in the environment than in a file; it is never logged or shown."""
    model: ModelName | None = None
    """Id on the model hub (owner/name, of a GGUF also owner/name:Q4_K_M), catalogue id or path; or the endpoint's name
    of it; empty: the engine's own."""
    size: Literal["auto", "small", "large"] = "auto"
    """How a GGUF model is asked: `small` is shown many examples, `large` is told; `auto`: large from 1.9 GB on."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where `transformers` runs it; `auto`: a graphics processor where there is one, else the processor."""
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """Numbers `transformers` calculates with; `auto`: int8 on the processor, else bfloat16."""
    context_tokens: Annotated[int, Ge(1024), Le(1_000_000)] = 8192
    """Size of the model's window, in tokens; the persona and its examples take about 5,700 of the embedded model's."""
    threads: Threads = 0
    """Processor threads; 0: automatic."""
    conversations: Annotated[int, Ge(0), Le(16)] = 0
    """Conversations (devices that take turns) whose prompts a GGUF model in this process keeps read; each more takes
    memory, 96 MiB of the embedded model. 0: automatic, 2 of a small model and 1 of a large one."""
    temperature: Annotated[float, Ge(0), Le(2)] = 0.0
    """Randomness of the choice of words; 0 always takes the likeliest."""
    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 7
    """Start of its random numbers."""
    max_answer_tokens: Annotated[int, Ge(16), Le(4096)] = 160
    """Longest answer, in tokens."""
    timeout_seconds: Seconds = 60.0
    """Longest time to think in one turn, with its tools and a second try, in seconds, before the robot apologises."""
    connect_timeout_seconds: Seconds = 5.0
    """Longest time to connect to an endpoint, in seconds."""
    tools: Literal["native", "written"] = "native"
    """How a model behind an endpoint, or one of `transformers`, calls tools: natively, or `written` as JSON."""
    tool_rounds: Annotated[int, Ge(0), Le(16)] = 4
    """Rounds of tool calls allowed in a turn."""


class TtsSettings(Section):
    """Speaking: text to speech."""

    engine: Identifier | None = None
    """The speech synthesiser; empty: `openai-speech` when a base URL is set, unless the profile's asks a server too."""
    base_url: HttpUrl | None = None
    """URL of the voice's server: `irodori` and `openai-speech` with `/v1`; empty: where that server usually is."""
    api_key: Annotated[SecretStr, Wording("the server's key")] | None = None
    """Key of that server. Better in the environment than in a file; it is never logged or shown."""
    model: ModelName | None = None
    """The server's name of its model; empty: the usual one."""
    voice: Annotated[str, StringConstraints(min_length=1, max_length=200), Wording("1 to 200 characters")] | None = None
    """The server's name of the voice; of `voicevox` and `aivisspeech`: speaker, speaker/style or a style's number."""
    format: Literal["wav", "pcm"] = "wav"
    """What `openai-speech` is asked for; `pcm` is raw 16-bit sound."""
    pcm_sample_rate_hz: Annotated[int, Ge(8000), Le(48000)] = 24_000
    """Sample rate of that server's `pcm`, in hertz, which does not tell it."""
    english_engine: Literal["auto", "hibari", "same"] = "auto"
    """Who says English where the voice is Japanese: `auto`: hibari where it is installed, else the `same` voice."""
    connect_timeout_seconds: Seconds = 5.0
    """Longest time to connect to the voice's server, in seconds."""
    seed: Annotated[int, Ge(0), Le(2**31 - 1)] = 7
    """Start of its random numbers, so that a sentence sounds the same twice."""
    timeout_seconds: Seconds = 20.0
    """Longest time for one sentence, in seconds; after it the answer is sent without sound."""
    speech_sample_rate_hz: Annotated[int, Ge(8000), Le(48000)] = 24_000
    """Sample rate of the robot's voice, in hertz."""


class EmbeddingSettings(Section):
    """Meaning: text to vectors, for memory."""

    engine: Identifier | None = None
    """The embedding engine; empty: the profile's."""
    model: ModelName | None = None
    """Model of `qwen3-embedding`, its id on the model hub (owner/name) or a folder; empty: the engine's own."""
    dimensions: Annotated[int, Ge(32), Le(8192)] | None = None
    """Length of the vectors of `qwen3-embedding`; empty: all that the model has."""
    process: Literal["inline", "separate"] = "inline"
    """Where it runs: in the server, or in a process of its own beside it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Where `qwen3-embedding` runs; `auto`: a graphics processor where there is one, which the voice usually fills."""
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """Numbers `qwen3-embedding` calculates with; `auto`: int8 on the processor, elsewhere bfloat16."""
    threads: Threads = 0
    """Processor threads; 0: automatic."""


class RerankSettings(Section):
    """Order: a second, slower look at the best of what a search of memory found."""

    engine: Literal["qwen3-reranker"] | None = None
    """The reranker; empty: none, the order of words and vectors stays."""
    model: ModelName | None = None
    """Id of its model on the model hub (owner/name), or a folder; empty: the engine's own."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Where it runs; `auto`: a graphics processor where there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """Numbers it calculates with; `auto`: int8 on the processor, elsewhere bfloat16."""
    threads: Threads = 0
    """Processor threads; 0: automatic."""
    candidates: Annotated[int, Ge(2), Le(50)] = 4
    """The best so many are looked at. On two processor cores 8 took 1.2 seconds or more."""
    timeout_seconds: Annotated[float, Ge(0.05), Le(5)] = 1.0
    """Longest time for that, in seconds, within `memory.search_timeout_seconds`; after it the order stays."""


LOCAL_MEMORIES = 5_000
"""Above it the log, the status and the doctor recommend another index kind than `local`, which reads every vector into
memory at each start and rebuild, and takes no filter; it is not slow."""


class MemorySettings(Section):
    """What is remembered from one conversation to the next."""

    enabled: bool = True
    """Remember, and let the model search it. Off: every word is still stored, and nothing is made of it."""
    ingest: bool = True
    """Make memories of what is said. Off: what waits is kept, and is found by its words only."""
    backlog_rounds: Annotated[int, Ge(1), Le(12)] = 6
    """Exchanges on one topic after which a memory is made of them without waiting for the conversation's end."""
    search_timeout_seconds: Annotated[float, Ge(0.05), Le(5)] = 2.0
    """Longest time for all searches of one turn, in seconds; after it the robot answers without."""
    index_kind: Literal["local", "edge", "server"] = "local"
    """Where vectors lie: `local` up to some thousand memories, `edge` for more, `server`: a Qdrant server."""
    index_url: HttpUrl | None = None
    """Address of the Qdrant server, for `server`."""
    index_api_key: Annotated[SecretStr, Wording("the server's key")] | None = None
    """Key of that server. Better in the environment than in a file; it is never logged or shown."""


class SessionSettings(Section):
    """One conversation in progress."""

    idle_close_minutes: Annotated[float, Ge(0.01), Le(1440)] = 10.0
    """Minutes without a word after which a conversation is over."""
    context_tokens: Annotated[int, Ge(0), Le(100_000)] = 1200
    """Tokens of earlier turns that the model sees."""
    context_turns: Annotated[int, Ge(0), Le(200)] = 12
    """Earlier turns that the model sees, at most."""


class LimitSettings(Section):
    """What one request or device may ask for."""

    upload_bytes: Annotated[int, Ge(1024), Le(256 * 1024**2)] = 4 * 1024**2
    """Largest upload, in bytes (413 above it)."""
    upload_seconds: Annotated[float, Ge(1), Le(600)] = 60.0
    """Longest uploaded recording, in seconds (413 above it)."""
    text_characters: Annotated[int, Ge(1), Le(100_000)] = 1000
    """Longest typed text, in characters (413 above it)."""
    running_turns: Annotated[int, Ge(1), Le(1000)] = 2
    """Turns that use the models at the same time; their stages overlap."""
    queued_turns: Annotated[int, Ge(0), Le(1000)] = 8
    """Further turns that may wait for them; one more is answered 429."""


class SpeechSettings(Section):
    """The robot's recorded answers."""

    keep_minutes: Annotated[float, Ge(0), Le(10_080)] = 60.0
    """Minutes an answer's audio can be fetched; afterwards 410."""
