"""One process of `bench_models`: some models of a server loaded together, each used alone, then all at the same time.

Reads a plan (JSON) from standard input, writes its figures to standard output. Knows engines by their Protocols; not
which ones there are, nor what is decided by the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import psutil  # noqa: E402

from server.config import Settings, load_settings  # noqa: E402
from server.engines import registry  # noqa: E402
from server.engines.base import LlmMessage, LlmRequest, LlmText, SpeechRequest  # noqa: E402
from server.persona import Persona, find_persona, load_persona  # noqa: E402
from tests.audio.spoken import human_speech  # noqa: E402

SPEECH_SECONDS = 5.0
ANSWER_TOKENS = 20
QUESTION = "この前買ったパソコンはいくらだった？"
SENTENCE = "今日は公園を散歩して、とても楽しかったね。"
DOCUMENTS = tuple(f"{number} 回目に買ったパソコンの値段は {number} 万円で、家族で使っている。" for number in range(32))


@dataclass
class Plan:
    """`kinds`: of the models to load. `settings`: of the server, as overrides. `random`: kinds whose weights are."""

    kinds: list[str]
    rounds: int
    settings: dict[str, Any]
    random: list[str] = field(default_factory=list)
    together: bool = False


def rss_mib() -> float:
    """Of this process and what it started."""
    own = psutil.Process()
    sizes = []
    for process in (own, *own.children(recursive=True)):
        try:
            sizes.append(process.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return float(sum(sizes)) / 1024**2


class Work:
    """What a live turn asks of each kind of model."""

    def __init__(self, engines: Mapping[str, Any], persona: Persona, random: list[str]) -> None:
        self._engines = engines
        self._persona = persona
        self._samples = human_speech("human_ja.flac")[: round(SPEECH_SECONDS * 16_000)]
        if "asr" in random:
            # Random weights do not know when to stop: as many tokens as five seconds of speech have.
            from server.engines.asr.qwen3_ears import AnswerLimits

            ears = engines["asr"]._ears
            ears.ends, ears.limits = frozenset(), AnswerLimits(ANSWER_TOKENS, 0.0)

    def live(self, kind: str) -> Callable[[], Awaitable[None]]:
        return {"asr": self._hear, "embedding": self._ask, "llm": self._think, "tts": self._speak, "vad": self._look}[
            kind
        ]

    async def _hear(self) -> None:
        await self._engines["asr"].transcribe(self._samples, languages=self._persona.languages)

    async def _ask(self) -> None:
        await self._engines["embedding"].embed_queries([QUESTION])

    async def _think(self) -> None:
        """Up to the first words."""
        request = LlmRequest((LlmMessage("user", f"{QUESTION} {time.perf_counter()}"),), max_tokens=ANSWER_TOKENS)
        async with aclosing(self._engines["llm"].generate(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, LlmText):
                    return

    async def _speak(self) -> None:
        async with aclosing(self._engines["tts"].synthesize(SpeechRequest(SENTENCE, "ja"))) as chunks:
            async for _ in chunks:
                return

    async def _look(self) -> None:
        await self._engines["vad"].probabilities(self._samples)

    async def remember(self) -> None:
        """What is embedded beside live turns."""
        await self._engines["embedding"].embed_documents(DOCUMENTS)


async def times_ms(work: Callable[[], Awaitable[None]], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        found.append((time.perf_counter() - began) * 1000)
    return found


async def without_end(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()


async def beside(work: Work, kinds: list[str], kind: str, rounds: int) -> list[float]:
    """One kind of model at work while all others are, and memories are made."""
    others = [work.live(other) for other in kinds if other != kind]
    if "embedding" in kinds:
        others.append(work.remember)
    tasks = [asyncio.create_task(without_end(other)) for other in others]
    try:
        return await times_ms(work.live(kind), rounds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(plan: Plan) -> dict[str, Any]:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    settings: Settings = load_settings(**plan.settings)
    persona = load_persona(find_persona(settings.data_dir, settings.persona_path))
    bare = rss_mib()
    engines = {kind: registry.find_engine(settings, kind).build(settings, persona) for kind in plan.kinds}
    began = time.perf_counter()
    try:
        for engine in engines.values():
            await engine.start()
        loaded_seconds = time.perf_counter() - began
        work = Work(engines, persona, plan.random)
        figures: dict[str, Any] = {"alone_ms": {}, "beside_ms": {}, "load_seconds": loaded_seconds}
        for kind in plan.kinds:
            await work.live(kind)()  # what is done once is done
            if not plan.together:
                figures["alone_ms"][kind] = await times_ms(work.live(kind), plan.rounds)
        if plan.together:
            for kind in plan.kinds:
                note(f"  {kind} beside the others")
                figures["beside_ms"][kind] = await beside(work, plan.kinds, kind, plan.rounds)
        return figures | {"mib": rss_mib() - bare}
    finally:
        for engine in engines.values():
            await engine.close()


def note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    out = sys.stdout
    sys.stdout = sys.stderr  # libraries may talk
    json.dump(asyncio.run(measure(Plan(**json.loads(sys.stdin.read())))), out)
