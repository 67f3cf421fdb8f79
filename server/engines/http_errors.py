"""What the failures of a server that is an engine are: classified once, here, into the engine's own error.

From transport errors, status codes and error bodies, for every kind of engine alike. A provider's own words are shown
as far as they hold neither a secret nor anything that was said. Knows no client library and decides no retry.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2

from server.engines.http_endpoint import HttpEndpoint
from server.errors import EngineError

Kind = TypeVar("Kind", bound=EngineError)

_SHOWN_CHARACTERS = 200
# Where validators begin to repeat what they were sent.
_ECHO = re.compile(r"""['"]?input(?:_value)?['"]?\s*[:=].*|\[type=.*""", re.DOTALL)
_NO_CREDIT = re.compile(r"insufficient_quota|arrearage|overdue|balance|billing", re.IGNORECASE)
# How endpoints say that they do not want a field, before and behind its name.
_UNWANTED = re.compile(
    r"(?:(?:un(?:supported|known|expected|recogni[sz]ed)|invalid|extra|additional|disallowed)\s+(?:\w+\s+){0,2}?"
    r"(?:parameters?|arguments?|fields?|keys?|propert(?:y|ies)|options?|values?|inputs?)(?:\s+supplied)?\s*:?\s*"
    r"|(?:does not|doesn't|do not) (?:support|accept|allow)\s+(?:the\s+)?(?:(?:parameter|argument|field)\s+)?)"
    r"[\[('\"`]*(?:\w+\.)*$",
    re.IGNORECASE,
)
_IS_UNWANTED = re.compile(
    r"['\"`)\]]*\s*:?\s*(?:(?:parameter|argument|field|option)s?\s+)?(?:(?:is|are|was|were)\s+)?"
    r"(?:not (?:yet |currently )?(?:support|permit|allow|accept|recogni[sz]|available|compatible)"
    r"|un(?:supported|known|expected|recogni[sz]ed)"
    r"|extra (?:fields|inputs)|does not support|only supports?|restricted|must be set to (?:true|false))",
    re.IGNORECASE,
)
# A shorter text may be a word of the provider's own.
_SAID_CHARACTERS = 8
_LONGEST_TEXT = 2000
_BUSY = ("overloaded", "queue is full", "queue_full", "queue_timeout", "still loading")
_UNKNOWN_HOST = ("name or service not known", "getaddrinfo", "nodename nor servname", "name resolution", "no address")


def transport_error(kind: type[Kind], error: BaseException, endpoint: HttpEndpoint) -> Kind:
    """What it means that a request or its answer did not get through. `error`: an httpx2 error or what wraps one."""
    cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__ or error
    where, section = endpoint.where, endpoint.service.section
    text = f"{cause} {cause.__cause__ or ''}".casefold()
    unreachable = f"{section}_unreachable"
    if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return kind(
            f"{where} took too long to accept a connection.", code=unreachable, retryable=True, hint=endpoint.to_start
        )
    if isinstance(cause, httpx2.TimeoutException):
        return kind(f"{where} took too long to answer.", code=f"{section}_timeout", retryable=True)
    if isinstance(cause, httpx2.ConnectError):
        if _from_tls(cause) or "ssl" in text or "certificate" in text:
            return kind(
                f"No safe connection to {where[0].lower()}{where[1:]} could be made.",
                code=unreachable,
                retryable=False,
                hint=f"Check http or https in {section}.base_url, its certificate and this machine's clock.",
            )
        if any(mark in text for mark in _UNKNOWN_HOST):
            hint = f"Check the name in {section}.base_url, and the network."
            return kind(f"{where} has an unknown name.", code=unreachable, retryable=True, hint=hint)
        return kind(f"{where} does not answer.", code=unreachable, retryable=True, hint=endpoint.to_start)
    if isinstance(cause, httpx2.ProxyError):
        hint = "Check HTTPS_PROXY and NO_PROXY."
        return kind(f"{where} is behind a proxy that refuses.", code=unreachable, retryable=True, hint=hint)
    if isinstance(cause, httpx2.TransportError):
        return kind(f"{where} broke the connection off.", code=f"{section}_cut", retryable=True)
    return kind(f"{where} could not be asked: {type(cause).__name__}.")


def status_error(
    kind: type[Kind],
    status: int,
    headers: Mapping[str, str],
    text: str,
    endpoint: HttpEndpoint,
    *,
    private: Sequence[str] = (),
    refusal_hint: str | None = None,
) -> Kind:
    """What an answer with this status means. `text`: the provider's words, of which the message repeats nothing that is
    `private`; `refusal_hint`: what to do about a request that is refused, where that is known."""
    where, section = endpoint.where, endpoint.service.section
    says = quoted(text, endpoint, private)
    wait = retry_after_seconds(headers)
    if status in (401, 403):
        return kind(
            f"{where} refuses the key ({status}).{says}",
            code=f"{section}_unauthorized",
            hint=f"Set a valid key in {endpoint.service.setting('api_key')}, of the same provider and region.",
        )
    if status == 429:
        spent = bool(_NO_CREDIT.search(not_said(text, private)))
        return kind(
            f"{where} has had too many requests.{says}",
            code=f"{section}_rate_limited",
            retryable=not spent,
            hint="Check the account's credit and quota." if spent else None,
            retry_after_seconds=wait,
        )
    if status == 408:
        return kind(f"{where} took too long ({status}).{says}", code=f"{section}_timeout", retryable=True)
    if status in (409, 425):
        return kind(f"{where} cannot answer now ({status}).{says}", retryable=True, retry_after_seconds=wait)
    if 300 <= status < 400:
        hint = f"Set {section}.base_url to the address it redirects to."
        return kind(f"{where} redirects ({status}).", code=f"{section}_refused", hint=hint)
    if status < 500:
        return kind(f"{where} refuses the request ({status}).{says}", code=f"{section}_refused", hint=refusal_hint)
    if status in (502, 503, 504, 529):
        return kind(
            f"{where} is overloaded or still loading ({status}).{says}",
            code=f"{section}_overloaded",
            retryable=True,
            retry_after_seconds=wait,
        )
    return kind(f"{where} failed ({status}).{says}", retryable=True, retry_after_seconds=wait)


def url_hint(endpoint: HttpEndpoint) -> str:
    """What to do when something else answers at the address."""
    return f"Check {endpoint.service.setting('base_url')}; {endpoint.service.url_hint}."


def web_page(kind: type[Kind], endpoint: HttpEndpoint, role: str) -> Kind:
    """The error of an address where a page for people is. `role`: as what it should answer."""
    return kind(
        f"The address {endpoint.base_url} answers with a web page, not as {role}.",
        code=f"{endpoint.service.section}_refused",
        hint=url_hint(endpoint),
    )


def refused_field(status: int, body: str, fields: Collection[str], *, private: Sequence[str] = ()) -> str | None:
    """Which of these fields of the request the answer says it does not want, if one.

    By the field of its error that is for this, or by the name in a phrase such as "unknown parameter: seed". A name
    that stands anywhere else in its words, or in words that were said (`private`), is none.
    """
    if status not in (400, 422):
        return None
    text = not_said(provider_text(body), private)
    named = _named_fields(body)
    for field in fields:
        if field in named:
            return field
        for found in re.finditer(rf"(?<!\w){re.escape(field)}(?!\w)", text):
            before = text[max(0, found.start() - 120) : found.start()]
            if _UNWANTED.search(before) or _IS_UNWANTED.match(text, found.end()):
                return field
    return None


def status_in(fields: Mapping[str, Any], private: Sequence[str] = ()) -> int:
    """The status that an error object stands for which came where an answer should be: its own, or what it tells of."""
    for key in ("code", "status", "status_code", "http_code"):
        status = _status_number(fields.get(key))
        if status is not None:
            return status
    kind = not_said(words(fields), private).casefold()
    if "rate" in kind and "limit" in kind:
        return 429
    return 503 if any(mark in kind for mark in _BUSY) else 500


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """How long the endpoint asks to be left alone, from `Retry-After` (seconds or a date); None when it does not."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(value)
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            seconds = (when - (now or datetime.now(UTC))).total_seconds()
        except (ValueError, TypeError, ArithmeticError, LookupError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def provider_text(body: str) -> str:
    """The words of an error body: its codes and message. Of a page or anything unknown nothing is taken."""
    try:
        value: Any = json.loads(body)
    except RecursionError:
        return ""
    except ValueError:
        return "" if "<" in body else body[:_LONGEST_TEXT]
    return words(value)


def words(value: Any) -> str:
    """What an error object, or the body around one, says."""
    value, error = _error_in(value)
    if isinstance(error, str):
        return error[:_LONGEST_TEXT]
    if not isinstance(error, Mapping):
        return ""
    message = next(filter(None, map(_shown, (error.get("message"), error.get("detail"), value.get("message")))), "")
    if not message:  # a validator's list
        message = "; ".join(f"{_place(entry)}: {_shown(entry.get('msg'))}" for entry in _details(error))
    kinds = dict.fromkeys(filter(None, (_shown(error.get(key)) for key in ("code", "type", "param"))))
    text = " ".join([message, *(f"[{kind}]" for kind in kinds if kind not in message)])
    return text[:_LONGEST_TEXT].strip()


def _named_fields(body: str) -> set[str]:
    """The fields of the request that an error is about, where it says so in a field of its own."""
    try:
        _, error = _error_in(json.loads(body))
    except (ValueError, RecursionError):
        return set()
    if not isinstance(error, Mapping):
        return set()
    places = [_shown(error.get("param")), *map(_place, _details(error))]
    return {re.split(r"[./]", place)[-1] for place in places}


def _error_in(value: Any) -> tuple[Mapping[str, Any], Any]:
    """The object that a body is, or the first in its list; and the error in it, or itself."""
    while isinstance(value, list) and value:
        value = value[0]
    return (value, value.get("error", value)) if isinstance(value, Mapping) else ({}, None)


def _details(error: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = error.get("detail")
    return [entry for entry in entries[:8] if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _place(entry: Mapping[str, Any]) -> str:
    place = entry.get("loc")
    return _shown(place[-1]) if isinstance(place, list) and place else ""


def _shown(value: object) -> str:
    """A text or a number of an error object; nothing of what is nested."""
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    return str(value) if isinstance(value, int) and abs(value) < 10**9 and not isinstance(value, bool) else ""


def not_said(text: str, private: Sequence[str]) -> str:
    """`text` without what was said, for looking into it."""
    for form in (form for words in private if len(words) >= _SAID_CHARACTERS for form in _forms(words)):
        text = text.replace(form, "…")
    return text


def _forms(words: str) -> tuple[str, ...]:
    return (words, json.dumps(words)[1:-1], json.dumps(words, ensure_ascii=False)[1:-1], repr(words)[1:-1])


def quoted(text: str, endpoint: HttpEndpoint, private: Sequence[str]) -> str:
    """The provider's words for a message: one short line, nothing secret, nothing that was said."""
    line = _ECHO.sub("", endpoint.hide(text).strip().partition("\n")[0]).strip()
    for words in private:
        for form in _forms(words):
            line = line.replace(form, "…") if form.strip() else line
    if len(line) > _SHOWN_CHARACTERS:
        line = f"{line[:_SHOWN_CHARACTERS]}…"
    return f" It says: {line}" if line else ""


def _status_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if 400 <= number < 600 else None


def _from_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
