"""The JSON a device sends and gets, with the documentation that the OpenAPI page shows. No behaviour."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from server.pipeline.request import TurnResult


class TextTurn(BaseModel):
    """Typed words instead of sound."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="What the user says.", examples=["左を見て"])
    speaker: str | None = Field(
        None, max_length=64, description="Who speaks; without it the device's owner.", examples=["speaker-1"]
    )


class SpeechInfo(BaseModel):
    """Where the spoken reply is."""

    url: str = Field(description="Fetch it from the same server with the same token.", examples=["/v1/turns/384/audio"])
    format: Literal["wav"] = Field("wav", description="What the URL gives without `?format=`.")
    sample_rate: int = Field(description="Hz", examples=[24000])
    duration_ms: int | None = Field(description="Null while it is still being made.", examples=[2950])


class MemoryInfo(BaseModel):
    """What long-term memory did in this turn."""

    searched: bool = False
    memory_ids: list[str] = []
    source_checked: bool = False


class ErrorInfo(BaseModel):
    """Why a turn failed, or what it had to do without."""

    code: str = Field(description="Stable, for machines.", examples=["llm_timeout"])
    message: str
    retryable: bool


class TurnAnswer(BaseModel):
    """One turn: what was heard, what the robot says, and what its face and body do."""

    turn_id: int = Field(examples=[384])
    session_id: str = Field(description="The server's id (a ULID) of this conversation.")
    status: Literal["queued", "running", "done", "failed"] = Field(
        description="`queued`: others are served first; `done` and `failed` are final."
    )
    outcome: Literal["ok", "no_speech", "failed", "interrupted"] | None = Field(
        description="`no_speech`: nobody spoke, the model was not asked. Null while the turn runs."
    )
    transcript: str = Field(description="The user's words.", examples=["前に買った富士通のPC、なんだっけ？"])
    language: str = Field(description="ISO 639-1 of the user's words.", examples=["ja"])
    reply: str = Field(
        description="While the turn runs: as far as it has been spoken.",
        examples=["中古で三万円だったデスクトップだよ。"],
    )
    emotion: str = Field(description="An emotion ID of persona.yaml; the robot maps it to a face.", examples=["happy"])
    action: str = Field(description="An action ID of persona.yaml; the robot maps it to its servos.", examples=["nod"])
    audio: SpeechInfo | None = Field(
        description="Null when there is nothing to hear, and until the first sound exists."
    )
    memory: MemoryInfo
    latency_ms: dict[str, int] = Field(
        description="How long the stages took (`silence`, `receive`, `queued`, `vad`, `asr`, `llm`, `tool`, `tts`) and "
        "when things first happened after the request was received (`first_token`, `filler`, `first_clause`, "
        "`first_audio`, `total`).",
        examples=[{"vad": 21, "asr": 940, "llm": 1620, "tts": 160, "first_audio": 1890, "total": 2750}],
    )
    error: ErrorInfo | None = None


class TraceAnswer(BaseModel):
    """Stage times and counts of a turn; holds no words."""

    turn_id: int
    trace: dict[str, Any] = Field(
        description="`spans`: each stage with `start_ms` and `end_ms` since the request was received; `marks`: when "
        "something first happened; `llm`: calls and tokens; empty while the turn runs.",
        examples=[
            {
                "spans": [{"name": "asr", "start_ms": 22.1, "end_ms": 958.4}],
                "marks": {"words_stored": 964.0, "first_token": 1180.2, "first_audio": 1890.7},
                "llm": {"calls": 1, "prompt_tokens": 3570, "cached_tokens": 3561, "completion_tokens": 31},
            }
        ],
    )


class ProblemBody(BaseModel):
    code: str
    message: str
    retryable: bool
    hint: str | None = None


class Problem(BaseModel):
    """Every answer that is not 2xx."""

    error: ProblemBody


def turn_answer(result: TurnResult, sample_rate_hz: int, *, speaks: bool = False) -> TurnAnswer:
    """A turn as JSON. `speaks`: it has not ended, but its voice can be heard already."""
    speech = None
    if speaks or result.speech_duration_ms is not None:
        speech = SpeechInfo(
            url=f"/v1/turns/{result.turn_id}/audio",
            format="wav",
            sample_rate=sample_rate_hz,
            duration_ms=result.speech_duration_ms,
        )
    error = result.error
    return TurnAnswer(
        turn_id=result.turn_id,
        session_id=result.session_id,
        status=result.status,
        outcome=result.outcome,
        transcript=result.transcript,
        language=result.language,
        reply=result.reply,
        emotion=result.emotion,
        action=result.action,
        audio=speech,
        memory=MemoryInfo.model_validate(dict(result.memory)),
        latency_ms=dict(result.latency_ms),
        error=ErrorInfo(code=error.code, message=error.message, retryable=error.retryable) if error else None,
    )
