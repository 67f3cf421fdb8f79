"""Spoken names for hearing with memory: sentences said by the embedded voices, a real memory that knows the names, the
turn's own hearing, and what was heard of them.

Asks no language model. Knows how a sentence is scored, not what the figures are compared with.
"""

from __future__ import annotations

import datetime as dt
import json
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, cast
from zoneinfo import ZoneInfo

import jiwer
import numpy as np

from server.audio.resample import resample
from server.audio.segmenter import SegmenterSettings
from server.engines.base import AsrEngine, EmbeddingEngine, Engines, SpeechRequest, TtsEngine, VadEngine
from server.engines.tts.hibari import HibariTts
from server.engines.tts.prosody import Prosody
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.events import ASR_SAMPLE_RATE_HZ, Samples
from server.memory.hot_words import HotWords
from server.memory.index.factory import open_index
from server.memory.indexer import index_point, memory_text
from server.memory.recall import Recall
from server.memory.recall_records import SearchQuery
from server.persona import Persona
from server.pipeline.hearing import hear
from server.pipeline.parts import TurnSettings
from server.pipeline.request import TurnRequest
from server.pipeline.trace import TurnTrace
from server.storage import memories
from server.storage.channels import ensure_channel
from server.storage.database import Databases
from server.storage.memory_records import NewMemory

ZONE = ZoneInfo("Asia/Tokyo")
ASKED_AT = dt.datetime(2026, 11, 30, 19, 0, tzinfo=ZONE)
PERSONA = "bench"
CHANNEL = "stackchan:bench"
TURN = TurnSettings(
    segmenter=SegmenterSettings(),
    asr_timeout_seconds=300,
    llm_timeout_seconds=1,
    tts_timeout_seconds=1,
    max_answer_tokens=1,
    temperature=0,
    seed=0,
    tool_rounds=0,
    speech_sample_rate_hz=24_000,
    context_tokens=1,
    context_turns=1,
)


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence. `reading`: of the name in katakana, where its characters do not tell; `before`: what the user said
    in the turn before, which is what the hot words are looked up by."""

    id: str
    language: str
    text: str
    before: str
    name: str | None = None
    reading: str | None = None

    @property
    def spoken(self) -> str:
        """What a voice is given: names by their reading."""
        return self.text.replace(self.name, self.reading) if self.name and self.reading else self.text


@dataclass(frozen=True, slots=True)
class HearingSet:
    """`tests/data/hearing_names.json`."""

    named: tuple[Said, ...]
    nameless: tuple[Said, ...]
    memories: tuple[Mapping[str, Any], ...]


def read_set(path: Path) -> HearingSet:
    data = json.loads(path.read_text(encoding="utf-8"))

    def said(one: Mapping[str, Any]) -> Said:
        return Said(one["id"], one["language"], one["text"], one["before"], one.get("name"), one.get("reading"))

    stories = [one["memory"] for one in data["sentences"]] + data["distractors"]
    named, nameless = map(said, data["sentences"]), map(said, data["without_names"])
    return HearingSet(tuple(named), tuple(nameless), tuple(stories))


# --- memory -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def remembered(
    stories: Sequence[Mapping[str, Any]], folder: Path, embedding: EmbeddingEngine
) -> AsyncIterator[HotWords]:
    """A world of its own that holds these memories, stored and indexed as the server does; `embedding` is started."""
    async with await Databases.open(folder / "data", "bench") as databases:
        ids = [f"mem_{number:026d}" for number in range(1, len(stories) + 1)]
        async with databases.world() as db:
            await ensure_channel(db, CHANNEL, kind="stackchan", now=ASKED_AT)
            for memory_id, story in zip(ids, stories, strict=True):
                await memories.add(db, _new_memory(memory_id, story), now=ASKED_AT)
            stored = await memories.get_many(db, ids)
        fingerprint = embedding.fingerprint
        index = open_index("local", folder / "index", fingerprint.dimensions, fingerprint)
        await index.open()
        try:
            vectors = await embedding.embed_documents([memory_text(memory) for memory in stored])
            points = [index_point(memory, vector) for memory, vector in zip(stored, vectors, strict=True)]
            await index.upsert(points)
            recall = Recall(lambda: databases.world(write=False), index, embedding, vectors_seconds=60)
            yield HotWords(lambda: databases.world(write=False), recall)
        finally:
            await index.close()


def _new_memory(memory_id: str, story: Mapping[str, Any]) -> NewMemory:
    return NewMemory(
        memory_id=memory_id,
        topic=story["topic"],
        summary=story["summary"],
        entities=tuple(story["entities"]),
        memory_type=story["memory_type"],
        occurred_at=dt.datetime.fromisoformat(story["occurred_at"]),
        zone=ZONE.key,
        language=story["language"],
        speakers=(),
        confidence="said",
        importance=3,
        persona_id=PERSONA,
        channel_id=CHANNEL,
        visibility="house",
        source_turn_ids=(),
    )


async def words_near(hot_words: HotWords, before: str) -> tuple[str, ...]:
    """What the server would expect after the user said `before`."""
    return await hot_words.near([before], SearchQuery("-", PERSONA, None, ASKED_AT, ZONE))


# --- voices -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VoiceKind:
    """A speaker. `rate`: played back so much slower after being spoken so much faster, which lowers pitch and formants
    as a larger speaker has them, at the same tempo. The embedded engines have one voice for a language."""

    name: str
    rate: float


VOICES = (VoiceKind("bundled", 1.0), VoiceKind("deeper", 0.86))


class Voices:
    """The embedded voices of both languages, each as every `VoiceKind`."""

    def __init__(self, kinds: Sequence[VoiceKind] = VOICES) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._engines: dict[tuple[str, str], TtsEngine] = {}
        for kind in kinds:
            prosody = {"neutral": Prosody(1 / kind.rate)}
            self._engines[kind.name, "ja"] = PyopenjtalkTts(prosody)
            self._engines[kind.name, "en"] = HibariTts(prosody=prosody)

    async def start(self) -> None:
        for engine in self._engines.values():
            await engine.start()

    async def close(self) -> None:
        for engine in self._engines.values():
            await engine.close()

    async def say(self, text: str, language: str, voice: str) -> Samples:
        """float32 mono, 16 kHz, a third of a second of silence around it."""
        engine, rate = self._engines[voice, language], self._kinds[voice].rate
        parts = []
        async for chunk in engine.synthesize(SpeechRequest(text, language, "neutral")):
            played_at = round(chunk.sample_rate_hz * rate / 10) * 10
            parts.append(resample(chunk.samples, played_at, ASR_SAMPLE_RATE_HZ))
        pause = np.zeros(ASR_SAMPLE_RATE_HZ // 3, np.float32)
        return np.concatenate([pause, *(part.astype(np.float32) / 32_768 for part in parts), pause])


# --- what is not speech -------------------------------------------------------------------------------------------


def noises(seconds: float, speech: Sequence[Samples], seed: int = 1) -> dict[str, Samples]:
    """Sounds without a word of anybody, float32 mono at 16 kHz. `speech`: of which a babble is made."""
    random = np.random.default_rng(seed)
    count = round(seconds * ASR_SAMPLE_RATE_HZ)
    times = np.arange(count) / ASR_SAMPLE_RATE_HZ
    white = random.normal(0, 1, count)
    spectrum = np.fft.rfft(random.normal(0, 1, count))
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), count)
    pink /= np.std(pink)
    hum = sum(np.sin(2 * np.pi * 50 * harmonic * times) / harmonic for harmonic in (1, 2, 3, 5))
    notes = 262 * 2 ** (np.floor(times * 4) % 8 / 12)
    taps = np.zeros(count)
    taps[random.integers(0, count, max(4, int(6 * seconds)))] = 1
    taps = np.convolve(taps, np.exp(-np.arange(400) / 60) * random.normal(0, 1, 400))[:count]
    many = np.sum([np.resize(np.roll(one, int(random.integers(len(one)))), count) for one in speech], axis=0)
    sounds = {
        "silence": np.zeros(count),
        "white, soft": 0.01 * white,
        "white, loud": 0.15 * white,
        "pink": 0.1 * pink,
        "hum": 0.15 * hum,
        "taps": 0.4 * taps,
        "melody": 0.3 * np.sin(2 * np.pi * np.cumsum(notes) / ASR_SAMPLE_RATE_HZ),
        "babble": 0.1 * many / max(float(np.std(many)), 1e-9),
        "babble, backwards": 0.1 * many[::-1] / max(float(np.std(many)), 1e-9),
    }
    return {name: np.clip(samples, -1, 1).astype(np.float32) for name, samples in sounds.items()}


# --- ears ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeardWords:
    """What a turn would go on with; `dropped`: why nothing, if a guard said so."""

    text: str
    language: str
    dropped: str | None = None
    asr_ms: float = 0.0


class Ears:
    """The hearing of a turn: VAD, ASR and guards."""

    def __init__(self, vad: VadEngine, asr: AsrEngine, persona: Persona) -> None:
        absent = cast(Any, None)
        self._engines = Engines(vad=vad, asr=asr, llm=absent, tts=absent, embedding=absent)
        self._persona = persona

    async def hear(self, samples: Samples, hot_words: Sequence[str]) -> HeardWords:
        trace = TurnTrace(monotonic)
        request = TurnRequest("bench", samples=samples)
        heard = await hear(request, self._engines, self._persona, TURN, trace, hot_words)
        spent = sum((span.end_ms or span.start_ms) - span.start_ms for span in trace.spans if span.name == "asr")
        dropped = trace.facts.get("asr_dropped", "no speech" if not any(s.name == "asr" for s in trace.spans) else None)
        return HeardWords(heard.text, heard.language, None, spent) if heard else HeardWords("", "", dropped, spent)


class Everything:
    """A VAD for which everything is speech: what the guards alone keep out when it errs."""

    name = "everything"
    frame_seconds = 0.032

    def __init__(self, vad: VadEngine) -> None:
        self._vad = vad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vad, name)

    async def probabilities(self, samples: Samples) -> Any:
        return np.ones_like(await self._vad.probabilities(samples))


# --- scoring ------------------------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """Letters and digits in one form and case, hiragana as katakana."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(_katakana(character) for character in plain if character.isalnum() or character == "ー")


def _katakana(character: str) -> str:
    return chr(ord(character) + 0x60) if "ぁ" <= character <= "ゖ" else character


def words_of(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return "".join(character if character.isalnum() else " " for character in plain).split()


def has_name(text: str, name: str) -> bool:
    """Whether a name stands in a text as it is written; in Latin letters as whole words."""
    if name.isascii():
        wanted, found = words_of(name), words_of(text)
        return any(found[at : at + len(wanted)] == wanted for at in range(len(found) - len(wanted) + 1))
    return folded(name) in folded(text)


def sounds_like(text: str, reading: str) -> bool:
    """Whether a Japanese text, read aloud, has the name's sound: written otherwise, but heard right."""
    import pyopenjtalk

    return bool(text) and pyopenjtalk.g2p(reading, kana=True) in pyopenjtalk.g2p(text, kana=True)


def other_errors(said: Said, heard: str) -> tuple[int, int]:
    """(errors, units) of what is not the name: characters of Japanese, words of English. What was written for the
    name, right or wrong, is no error here."""
    if said.language == "ja":
        reference, hypothesis = list(folded(said.text)), list(folded(heard))
        name = list(folded(said.name or ""))
    else:
        reference, hypothesis, name = words_of(said.text), words_of(heard), words_of(said.name or "")
    first = next((i for i in range(len(reference)) if name and reference[i : i + len(name)] == name), -1)
    inside = range(first, first + len(name)) if first >= 0 else range(0)
    # One private character a unit: the aligner then sees whole words as it sees characters.
    codes = {unit: chr(0x100000 + i) for i, unit in enumerate(dict.fromkeys(reference + hypothesis))}
    if not hypothesis:
        return len(reference) - len(inside), len(reference) - len(inside)
    aligned = jiwer.process_characters(
        "".join(codes[unit] for unit in reference), "".join(codes[unit] for unit in hypothesis)
    )
    errors = 0
    for chunk in aligned.alignments[0]:
        if chunk.type == "insert":
            beside = bool(inside) and inside.start <= chunk.ref_start_idx <= inside.stop
            errors += 0 if beside else chunk.hyp_end_idx - chunk.hyp_start_idx
        elif chunk.type in ("substitute", "delete"):
            errors += sum(place not in inside for place in range(chunk.ref_start_idx, chunk.ref_end_idx))
    return errors, len(reference) - len(inside)


def names_added(text: str, said: str, hot_words: Sequence[str]) -> list[str]:
    """Hot words that stand in what was heard and not in what was said."""
    return [word for word in hot_words if has_name(text, word) and not has_name(said, word)]
