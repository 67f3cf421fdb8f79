"""`/metrics`: what the server counts and times, as Prometheus reads it.

One registry for each application, none of the library's global one. Turns are told by the controller, HTTP answers
counted on their way out, the rest read when asked. Every label has a bounded set of values, and none holds words,
names or paths of anybody. What a turn is made of is read by `pipeline/trace_facts.py`.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.security import HTTPBearer
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import errors
from server.errors import StackChanError
from server.memory.asked import SearchOutcome
from server.memory.service import MemoryFigures
from server.pipeline.hearing_guards import Reason
from server.pipeline.request import TurnRequest, TurnResult
from server.pipeline.speech_ahead import Fate
from server.pipeline.tool_results import is_error
from server.pipeline.trace_facts import read_trace
from server.storage.recall_tables import MemoryStatus, SegmentResult

_log = logging.getLogger(__name__)

OTHER = "other"
OUTCOMES = ("ok", "no_speech", "failed", "interrupted")
FATES = get_args(Fate)
STAGES = ("silence", "receive", "queued", "vad", "asr", "llm", "tool", "filler", "tts")
DROP_REASONS = get_args(Reason)
APOLOGIES = ("clip", "live", "none")
FILLERS = ("clip", "face")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BUCKETS_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 60)
SEARCH_OUTCOMES = get_args(SearchOutcome)
SEARCH_BUCKETS_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2)
MEMORY_STATUSES = get_args(MemoryStatus)
SEGMENT_RESULTS = get_args(SegmentResult)
# Codes that are no kind's default; `tests/api/test_metrics.py` holds them against the docstrings of `errors.py`.
_FURTHER_CODES = (
    "asr_cut",
    "asr_overloaded",
    "asr_rate_limited",
    "asr_refused",
    "asr_timeout",
    "asr_unauthorized",
    "asr_unreachable",
    "engine_unavailable",
    "llm_context_overflow",
    "llm_cut",
    "llm_no_reply",
    "llm_overloaded",
    "llm_rate_limited",
    "llm_refused",
    "llm_timeout",
    "llm_unauthorized",
    "llm_unreachable",
    "stopping",
    "storage_full",
    "tts_cut",
    "tts_overloaded",
    "tts_rate_limited",
    "tts_refused",
    "tts_timeout",
    "tts_unauthorized",
    "tts_unreachable",
    "vad_timeout",
)


def error_codes() -> frozenset[str]:
    """Codes that a turn may end with."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    defaults = {kind.default_code for kind in kinds if issubclass(kind, errors.StackChanError)}
    return frozenset((*defaults, *_FURTHER_CODES))


class Metrics:
    """The figures of one application. `tools`: names of the tools a model may call."""

    def __init__(self, version: str, *, tools: Collection[str] = ()) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._tools = frozenset(tools)
        self._codes = error_codes()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Info("stackchan_build", "Version of the server and of Python.", registry=self.registry)
        build.info({"version": version, "python": platform.python_version()})

        self._ready = self._gauge("ready", "1 when a turn can be taken, else 0.")
        self._running = self._gauge("turns_running", "Turns that use the models now.")
        self._queued = self._gauge("turns_queued", "Turns that wait for the models now.")

        self._turns = self._counter("turns", "Turns that ended.", "outcome", "input")
        self._turn_seconds = self._histogram("turn_seconds", "From receiving a turn to its end.")
        self._stage_seconds = self._histogram(
            "stage_seconds", "Work of one stage in one turn, its parts added.", "stage"
        )
        self._first_token = self._histogram("first_token_seconds", "From receiving a turn to the model's first token.")
        self._first_clause = self._histogram("first_clause_seconds", "From receiving a turn to its first clause.")
        self._first_audio = self._histogram("time_to_first_audio_seconds", "From receiving a turn to its first sound.")
        self._speech_seconds = self._histogram("speech_seconds", "Length of a spoken reply.")
        self._llm_calls = self._counter("llm_calls", "Calls of the language model in turns.")
        self._early_calls = self._counter(
            "llm_early_calls",
            "Calls of the model begun before it was certain that somebody had stopped speaking.",
            "fate",
        )
        self._llm_tokens = self._counter("llm_tokens", "Tokens: read, of them cached, and written.", "kind")
        self._llm_retries = self._counter("llm_retries", "Calls of the language model tried again.")
        self._tool_calls = self._counter("tool_calls", "Tools called by the model.", "tool", "result")
        self._turn_errors = self._counter("turn_errors", "Errors of turns, also of those that went on.", "code")
        self._not_json = self._counter("answers_not_json", "Answers of the model in another form than asked for.")
        self._unknown_ids = self._counter("unknown_ids", "Ids that the persona does not have.", "kind")
        self._asr_dropped = self._counter("asr_dropped", "Transcripts not taken for speech.", "reason")
        self._apologies = self._counter("apologies", "Apologies for a failed turn: how they were spoken.", "how")
        self._fillers = self._counter("fillers", "Waits for an answer that were filled: how.", "how")
        self._tool_refusals = self._counter("tool_refusals", "Tool calls that the rules did not let through.")
        self._unknown_from_devices = self._counter(
            "device_unknown", "What devices sent that the server does not know, and passed over.", "kind"
        )
        self._searches = self._counter("memory_searches", "Searches of memory by the model.", "outcome")
        self._search_seconds = Histogram(
            "stackchan_memory_search_seconds",
            "One search of memory.",
            buckets=SEARCH_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._jobs = self._gauge("memory_jobs", "Work of long-term memory: it waits or runs, or was given up.", "state")
        self._memories = self._gauge("memories", "Memories there are.", "status")
        self._segments = self._gauge("memory_segments", "Parts of conversations looked through for memories.", "result")
        self._corrected = self._gauge("memories_corrected", "Memories that were told and then corrected.")
        self._index_problem = self._gauge("memory_index_problem", "1 when memories are found by words only, else 0.")
        self._read_memory: Callable[[], Awaitable[MemoryFigures | None]] | None = None
        self._answers = self._counter("http_answers", "HTTP requests answered.", "route", "method", "status")
        self._show_zeros()

    def watch(self, *, ready: Callable[[], bool], running: Callable[[], int], queued: Callable[[], int]) -> None:
        """What to ask when the figures are read."""
        self._ready.set_function(ready)
        self._running.set_function(running)
        self._queued.set_function(queued)

    def watch_memory(self, read: Callable[[], Awaitable[MemoryFigures | None]]) -> None:
        """What to ask for the memory's figures; None: there is no memory now."""
        self._read_memory = read

    async def refresh(self) -> None:
        """Read the figures that have to be waited for; those that cannot be read stay as they were."""
        if self._read_memory is None:
            return
        try:
            figures = await self._read_memory()
        except StackChanError as error:
            _log.warning("the figures of memory could not be read: %s", error.code)
            return
        if figures is not None:
            self._show_memory(figures)

    def _show_memory(self, figures: MemoryFigures) -> None:
        self._jobs.labels("pending").set(figures.pending)
        self._jobs.labels("parked").set(figures.parked)
        for status in MEMORY_STATUSES:
            self._memories.labels(status).set(figures.memories.get(status, 0))
        for result in SEGMENT_RESULTS:
            self._segments.labels(result).set(figures.segments.get(result, 0))
        self._corrected.set(figures.corrected)
        self._index_problem.set(not figures.index_usable)

    def observe_search(self, outcome: SearchOutcome, seconds: float) -> None:
        """An `OnSearch`."""
        self._searches.labels(_known(outcome, SEARCH_OUTCOMES)).inc()
        self._search_seconds.observe(seconds)

    def observe_early_call(self, fate: Fate) -> None:
        """An `OnEarlyCall`; also of utterances that became no turn."""
        self._early_calls.labels(_known(fate, FATES)).inc()

    def observe_ignored(self, types: int, fields: int) -> None:
        """Of one device's connection: messages of unknown types, and unknown fields."""
        self._unknown_from_devices.labels("type").inc(types)
        self._unknown_from_devices.labels("field").inc(fields)

    def observe_turn(self, request: TurnRequest, result: TurnResult, trace: Mapping[str, Any]) -> None:
        """A `TurnObserver`."""
        facts = read_trace(trace)
        self._turns.labels(_known(result.outcome, OUTCOMES), "text" if request.text is not None else "audio").inc()
        if "total" in result.latency_ms:
            self._turn_seconds.observe(result.latency_ms["total"] / 1000)
        for stage, seconds in facts.stage_seconds.items():
            self._stage_seconds.labels(_known(stage, STAGES)).observe(seconds)
        for moment, histogram in (
            ("first_token", self._first_token),
            ("first_clause", self._first_clause),
            ("first_audio", self._first_audio),
        ):
            if moment in facts.moment_seconds:
                histogram.observe(facts.moment_seconds[moment])
        if result.speech_duration_ms is not None:
            self._speech_seconds.observe(result.speech_duration_ms / 1000)
        self._llm_calls.inc(facts.llm_calls)
        self._llm_tokens.labels("prompt").inc(facts.prompt_tokens)
        self._llm_tokens.labels("cached").inc(facts.cached_tokens)
        self._llm_tokens.labels("completion").inc(facts.completion_tokens)
        self._llm_retries.inc(facts.llm_retries)
        for call in result.tool_calls:
            outcome = "error" if is_error(call.get("result")) else "ok"
            self._tool_calls.labels(_known(call.get("name"), self._tools), outcome).inc()
        for code in {result.error.code if result.error else None, facts.llm_error} - {None}:
            self._turn_errors.labels(_known(code, self._codes)).inc()
        if facts.answer_was_json is False:
            self._not_json.inc()
        for kind, count in facts.unknown_ids.items():
            self._unknown_ids.labels(_known(kind, ("emotion", "action"))).inc(count)
        if facts.asr_dropped is not None:
            self._asr_dropped.labels(_known(facts.asr_dropped, DROP_REASONS)).inc()
        if facts.apology is not None:
            self._apologies.labels(_known(facts.apology, APOLOGIES)).inc()
        if facts.filler is not None:
            self._fillers.labels(_known(facts.filler, FILLERS)).inc()
        self._tool_refusals.inc(facts.tool_refusals)

    def count_answer(self, route: str, method: str, status: int) -> None:
        """`route`: its template, never the path that was asked for."""
        self._answers.labels(route, _known(method, METHODS), str(status)).inc()

    def _show_zeros(self) -> None:
        """A series that appears with its first event hides that event from `rate()`."""
        for outcome in OUTCOMES:
            for kind in ("audio", "text"):
                self._turns.labels(outcome, kind)
        for stage in STAGES:
            self._stage_seconds.labels(stage)
        for kind in ("prompt", "cached", "completion"):
            self._llm_tokens.labels(kind)
        for fate in FATES:
            self._early_calls.labels(fate)
        for kind in ("type", "field"):
            self._unknown_from_devices.labels(kind)
        for tool in self._tools:
            for result in ("ok", "error"):
                self._tool_calls.labels(tool, result)
        for kind in ("emotion", "action"):
            self._unknown_ids.labels(kind)
        for reason in DROP_REASONS:
            self._asr_dropped.labels(reason)
        for how in APOLOGIES:
            self._apologies.labels(how)
        for how in FILLERS:
            self._fillers.labels(how)
        for outcome in SEARCH_OUTCOMES:
            self._searches.labels(outcome)
        self._show_memory(MemoryFigures({}, {}, pending=0, parked=0, corrected=0, index_usable=True))

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"stackchan_{name}", what, labels, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"stackchan_{name}", what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(f"stackchan_{name}", what, labels, buckets=BUCKETS_SECONDS, registry=self.registry)


class CountAnswers:
    """ASGI middleware: counts every HTTP answer by its route. One that breaks off counts as 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | None = None

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        except Exception:
            status = 500 if status is None else status
            raise
        finally:
            if status is not None:
                self._metrics.count_answer(_route(scope), scope["method"], status)


def metrics_router(metrics: Metrics, authorize: Callable[[str | None], Awaitable[None]]) -> APIRouter:
    """The endpoint. `authorize` takes the `Authorization` header and raises a `StackChanError`."""
    router = APIRouter(tags=["health"], dependencies=[Depends(HTTPBearer(auto_error=False))])

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics",
        summary="Figures for Prometheus",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}},
            401: {"description": "`token_missing`, `token_invalid`"},
            403: {"description": "`device_forbidden`: a device's token does not open this"},
            503: {"description": "`starting`: this token cannot be checked yet"},
        },
    )
    async def read_metrics(request: Request, accept: Annotated[str | None, Header()] = None) -> Response:
        """Counters and histograms of turns, stages, tokens, memory, errors, HTTP answers. Needs the owner's token."""
        await authorize(request.headers.get("authorization"))
        await metrics.refresh()
        encode, content_type = choose_encoder(accept or "")
        return Response(encode(metrics.registry), headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    return router


def _route(scope: Scope) -> str:
    route = scope.get("route")
    path = getattr(route, "path", None)
    # What no endpoint takes goes to the page's files, whatever its path.
    return path if isinstance(path, str) and path else "page"


def _known(value: object, known: Collection[str]) -> str:
    return value if isinstance(value, str) and value in known else OTHER
