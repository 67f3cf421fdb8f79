"""What a chat endpoint's failures are: `http_errors`, and what only a language model has: windows, models, tools.

From transport errors, status codes and error objects. Knows no client library and decides no retry: the turn does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from server.engines import http_errors
from server.engines.http_errors import retry_after_seconds
from server.engines.llm.presets import Endpoint
from server.errors import LlmError

__all__ = [
    "model_missing",
    "names_missing_model",
    "refused_field",
    "retry_after_seconds",
    "status_error",
    "stream_error",
    "transport_error",
]

_CONTEXT = re.compile(
    r"context.{0,3}(?:length|size|window)|exceed_context_size|input length should be|maximum input length"
    r"|prompt is too long|too many tokens|reduce the length",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|model_not_exist|model.{0,80}(?:not found|not exist|not supported|not available|not loaded)"
    r"|invalid model|no such model|unknown model|try pulling it",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(r"tool.choice|tool-call-parser|support.{0,12}(?:tools|function)", re.IGNORECASE)
# Answers that say nothing about the request itself, whatever their words.
_NOT_ABOUT_THE_PROMPT = (401, 403, 408, 409, 425, 429)


def transport_error(error: BaseException, endpoint: Endpoint) -> LlmError:
    """What it means that a request or its answer did not get through. `error`: an httpx2 error or what wraps one."""
    return http_errors.transport_error(LlmError, error, endpoint)


def status_error(
    status: int, headers: Mapping[str, str], body: str, endpoint: Endpoint, *, private: Sequence[str] = ()
) -> LlmError:
    """What an answer with this status means. `private`: texts that the message must not repeat."""
    return _failure(status, headers, http_errors.provider_text(body), endpoint, private)


def _failure(
    status: int, headers: Mapping[str, str], text: str, endpoint: Endpoint, private: Sequence[str]
) -> LlmError:
    said = http_errors.not_said(text, private)
    if status >= 400 and status not in _NOT_ABOUT_THE_PROMPT and (_CONTEXT.search(said) or status == 413):
        where = endpoint.where
        return LlmError(
            f"The prompt is longer than the window of {where[0].lower()}{where[1:]}."
            f"{http_errors.quoted(text, endpoint, private)}",
            code="llm_context_overflow",
            hint="Set llm.context_tokens to what the model is served with.",
        )
    hint = None
    if status in (404, 405) and not _NO_MODEL.search(said):
        hint = http_errors.url_hint(endpoint)
    elif _NO_TOOLS.search(said):
        hint = 'Set llm.tools (STACKCHAN_LLM__TOOLS) to "written", or start the endpoint with tool calling.'
    return http_errors.status_error(LlmError, status, headers, text, endpoint, private=private, refusal_hint=hint)


def stream_error(error: object, endpoint: Endpoint, *, private: Sequence[str] = ()) -> LlmError:
    """What an `error` object in the middle of a stream means."""
    fields = error if isinstance(error, Mapping) else {"message": error}
    return _failure(http_errors.status_in(fields, private), {}, http_errors.words(fields), endpoint, private)


def model_missing(error: LlmError, model: str, offered: Sequence[str]) -> LlmError:
    """`error` of a model the endpoint does not have, with the names it has."""
    if not offered:
        hint = "Set llm.model (STACKCHAN_LLM__MODEL) to one it has."
    else:
        more = f" and {len(offered) - 8} more" if len(offered) > 8 else ""
        hint = f"Set llm.model (STACKCHAN_LLM__MODEL) to one it has: {', '.join(offered[:8])}{more}."
    return LlmError(error.message, code=error.code, retryable=False, hint=hint)


def names_missing_model(status: int, body: str) -> bool:
    """Whether the answer says that there is no such model."""
    return status in (400, 404, 422) and bool(_NO_MODEL.search(http_errors.provider_text(body)))


def refused_field(status: int, body: str, fields: Collection[str], *, private: Sequence[str] = ()) -> str | None:
    """Which of these fields of the request the answer says it does not want, if one; none when the prompt is too long.

    `private`: words that were said, in which a name means nothing.
    """
    if _CONTEXT.search(http_errors.not_said(http_errors.provider_text(body), private)):
        return None
    return http_errors.refused_field(status, body, fields, private=private)
