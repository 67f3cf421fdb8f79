"""Every error the server raises on purpose, as one tree.

    StackChanError                 code, message, retryable, hint
    ├── ConfigError                a setting or persona.yaml is wrong: names the file, line and field
    ├── ModelError                 a model file is missing, cut, wrong, or does not fit on the disk
    ├── EngineError                an engine cannot start or failed at its work
    │   ├── VadError
    │   ├── AsrError
    │   ├── LlmError
    │   ├── TtsError
    │   ├── EmbeddingError
    │   └── RerankError
    ├── AudioError                 uploaded audio cannot be used
    ├── StorageError               the database refused or is damaged
    ├── MemoryIndexError           the vectors cannot be searched; words still can
    │   ├── IndexLocked            another process has the folder; carries its `pid`
    │   ├── IndexMismatch          the vectors were made by another embedding model
    │   ├── IndexDamaged           what is stored cannot be read
    │   └── IndexUnavailable       an index server does not answer, or a disk is full
    ├── RequestError               a request is malformed
    ├── AuthError                  no token, a wrong token, or a token for something else
    ├── NotFoundError              the thing asked for does not exist
    ├── GoneError                  it existed, and was kept only for a time or forgotten on request
    ├── BusyError                  this device is already in a turn, or this work is already being done
    └── OverloadError              too much work at once; carries `retry_after_seconds`

Codes are `snake_case`, stable and part of the API. This module does not know HTTP: only `devices` and `api` turn a
code into a status (see `api/problems.py`).
"""

from __future__ import annotations

import re

from server.next_steps import next_step

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class StackChanError(Exception):
    """Base of all: `code` for machines, `message` for people, `hint` for what to do next, where more is known than
    of every error of this code.

    Codes without a kind of their own: `internal`, `starting`, `start_failed`, `stopping`; of the memory commands
    `memory_missing` (a data folder without one), `export_truncated`, `rebuild_failed`.
    """

    default_code = "internal"
    default_retryable = False

    def __init__(
        self, message: str, *, code: str | None = None, retryable: bool | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        # An engine from elsewhere may give anything; a code stands in logs, metrics and the database, and is no text.
        self.code = code if isinstance(code, str) and _CODE.fullmatch(code) else self.default_code
        self.message = message
        self.retryable = self.default_retryable if retryable is None else retryable
        self.hint = hint

    @property
    def next_step(self) -> str | None:
        """What to do: the hint, or what helps with every error of this code; None for a code that is not ours."""
        return self.hint or next_step(self.code)

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}" if self.next_step else self.message


class ConfigError(StackChanError):
    """A setting or the persona is wrong. Codes: `config_invalid`, `config_unknown_key`, `persona_invalid`."""

    default_code = "config_invalid"


class ModelError(StackChanError):
    """Model files. Codes: `model_missing`, `model_unknown`, `model_download_failed`, `model_hash_mismatch`,
    `model_disk_full`."""

    default_code = "model_missing"


class EngineError(StackChanError):
    """An engine. Codes: `engine_unknown`, `engine_unavailable`, `engine_failed`, and those of its kind.

    `retry_after_seconds`: how long an endpoint asks to be left alone; None when it does not say.
    """

    default_code = "engine_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool | None = None,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, code=code, retryable=retryable, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class VadError(EngineError):
    """Codes: `vad_failed`, `vad_timeout`."""

    default_code = "vad_failed"


class AsrError(EngineError):
    """Codes: `asr_failed`, `asr_timeout`; of an endpoint also `asr_unreachable`, `asr_rate_limited`, `asr_overloaded`,
    `asr_cut` (the answer ended early), `asr_unauthorized`, `asr_refused` (the request itself)."""

    default_code = "asr_failed"


class LlmError(EngineError):
    """Codes: `llm_failed`, `llm_timeout`, `llm_context_overflow`, `llm_no_reply`; of an endpoint also
    `llm_unreachable`, `llm_rate_limited`, `llm_overloaded`, `llm_cut` (the stream ended early), `llm_unauthorized`,
    `llm_refused` (the request itself)."""

    default_code = "llm_failed"


class TtsError(EngineError):
    """Codes: `tts_failed`, `tts_timeout`; of an endpoint also `tts_unreachable`, `tts_rate_limited`, `tts_overloaded`,
    `tts_cut` (the sound ended early), `tts_unauthorized`, `tts_refused` (the request itself)."""

    default_code = "tts_failed"


class EmbeddingError(EngineError):
    """Codes: `embedding_failed`."""

    default_code = "embedding_failed"


class RerankError(EngineError):
    """Codes: `rerank_failed`."""

    default_code = "rerank_failed"


class AudioError(StackChanError):
    """Uploaded audio. Codes: `audio_unsupported`, `audio_invalid`, `audio_empty`, `audio_too_long`,
    `audio_too_large`."""

    default_code = "audio_invalid"


class StorageError(StackChanError):
    """Codes: `storage_failed`, `storage_full`, `storage_newer` (written by a newer version), `data_in_use`; of a backup
    that is put back also `backup_foreign` (no backup of this server), `backup_of_another_house`,
    `backup_damaged`."""

    default_code = "storage_failed"


class MemoryIndexError(StackChanError):
    """The vector index. Codes: `index_failed`, `index_invalid` (a point, vector or filter cannot be used),
    `index_closed`, `index_busy`, `index_foreign` (the folder or collection is not ours), `index_unauthorized`, and
    `index_locked`, `index_mismatch`, `index_damaged`, `index_unavailable` of its kinds."""

    default_code = "index_failed"


class IndexLocked(MemoryIndexError):
    """`pid`: the process that has the index; None when it cannot be told."""

    default_code = "index_locked"

    def __init__(self, message: str, *, pid: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class IndexMismatch(MemoryIndexError):
    default_code = "index_mismatch"


class IndexDamaged(MemoryIndexError):
    default_code = "index_damaged"


class IndexUnavailable(MemoryIndexError):
    default_code = "index_unavailable"
    default_retryable = True


class RequestError(StackChanError):
    """Codes: `request_invalid` and one for each header or field that can be wrong; of memory `arguments_invalid` (what
    is asked for, also by a model's tool call), `after_unknown`; of an import, nothing of which is taken then,
    `import_format`, `import_version`, `import_line_invalid`, `import_line_too_long`, `import_too_large`,
    `import_truncated`, `import_duplicate`."""

    default_code = "request_invalid"


class AuthError(StackChanError):
    """Codes: `token_missing`, `token_invalid`, `device_forbidden`, `device_revoked`."""

    default_code = "token_invalid"


class NotFoundError(StackChanError):
    """Codes: `not_found`, `turn_not_found`, `audio_not_found`, `memory_not_found`, `memory_off` (turned off)."""

    default_code = "not_found"


class GoneError(StackChanError):
    """Codes: `gone`, `audio_expired`, `memory_forgotten`."""

    default_code = "gone"


class BusyError(StackChanError):
    """Codes: `device_busy`, `idempotency_in_progress`, `audio_pending`, `rebuild_running`."""

    default_code = "device_busy"
    default_retryable = True


class OverloadError(StackChanError):
    """Too much work at once; the caller may try again after `retry_after_seconds`."""

    default_code = "overloaded"
    default_retryable = True

    def __init__(self, message: str, *, retry_after_seconds: int = 1, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds
