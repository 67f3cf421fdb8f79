"""The Qwen3-ASR engine around the model, with random weights: who is served first, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts._random_qwen3_asr import AUDIO_TINY, TEXT_TINY, asr_checkpoint
from server.config import Settings
from server.engines import registry
from server.engines.asr.qwen3_asr import LONGEST_STREAM_SECONDS, MOST_STREAMS, Qwen3Asr, Qwen3Stream
from server.engines.asr.qwen3_loading import load
from server.engines.base import StreamingAsr
from server.errors import AsrError, ModelError
from server.events import Samples, Utterance
from server.persona import default_persona_path, load_persona
from server.pipeline.hearing import understand, words_of
from server.pipeline.listening import find_utterance
from server.pipeline.live_ear import open_ear
from server.pipeline.request import TurnRequest
from server.pipeline.trace import TurnTrace
from tests.fakes.engines import FakeVad, fake_engines, loud
from tests.models.test_qwen3_asr import RATE, in_pieces, sound
from tests.pipeline.turns import SETTINGS, TURN, take_turn

pytestmark = pytest.mark.models
BOTH = ("ja", "en")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, hub_off: None) -> Path:
    return asr_checkpoint(tmp_path_factory.mktemp("asr") / "Qwen3-ASR-Tiny-hf", AUDIO_TINY, TEXT_TINY)


@asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[Qwen3Asr]:
    engine = Qwen3Asr(folder, device="cpu", **({"dtype": "float32"} | changes))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()
        left = {task.get_name() for task in asyncio.all_tasks()} & {"qwen3-asr"}
        assert not left


async def push_all(stream: Qwen3Stream, samples: Samples, *, rest_seconds: float = 0.001) -> None:
    for piece in in_pieces(samples, (1600,)):
        stream.push(piece)
        await asyncio.sleep(rest_seconds)


async def test_a_stream_and_a_whole_recording_are_heard_alike(folder: Path) -> None:
    samples = sound(9.3, loudness=(0.2, 1.0))
    async with running(folder) as engine:
        assert isinstance(engine, StreamingAsr)
        whole = await engine.transcribe(samples, languages=BOTH, hot_words=("富士通",))
        stream = engine.open_stream(languages=BOTH, hot_words=("富士通",))
        await push_all(stream, samples)
        heard = await stream.transcribe(len(samples))
        assert (heard.text, heard.language) == (whole.text, whole.language)
        assert heard.average_log_probability == pytest.approx(whole.average_log_probability, abs=1e-3)
        part = await stream.transcribe(2 * RATE)
        alone = await engine.transcribe(samples[: 2 * RATE], languages=BOTH, hot_words=("富士通",))
        assert part.text == alone.text
        stream.close()


async def test_many_at_once_are_all_heard_as_alone(folder: Path) -> None:
    sounds = [sound(0.6 + 0.4 * n, seed=n) for n in range(11)]
    async with running(folder) as engine:
        alone = [(await engine.transcribe(one, languages=BOTH)).text for one in sounds]
        together = await asyncio.gather(*(engine.transcribe(one, languages=BOTH) for one in sounds))
        assert [one.text for one in together] == alone


async def test_words_so_far_come_while_nobody_waits_and_end_with_the_stream(folder: Path) -> None:
    samples = sound(6.0)
    async with running(folder) as engine:
        stream = engine.open_stream(languages=BOTH)
        found: list[str] = []

        async def listen() -> None:
            async for words in stream.partials():
                found.append(words.text)

        listening = asyncio.create_task(listen())
        await push_all(stream, samples, rest_seconds=0.02)
        final = await stream.transcribe(len(samples))
        assert found
        assert final.text == (await engine.transcribe(samples, languages=BOTH)).text
        stream.close()
        await asyncio.wait_for(listening, 5)


async def test_words_so_far_can_be_turned_off(folder: Path) -> None:
    async with running(folder, partial_words=False) as engine:
        stream = engine.open_stream(languages=BOTH)
        telling = asyncio.create_task(anext(stream.partials(), None))  # type: ignore[arg-type]
        await push_all(stream, sound(4.0), rest_seconds=0.01)
        await stream.transcribe(RATE)
        assert not telling.done()
        stream.close()
        assert await asyncio.wait_for(telling, 5) is None


async def test_who_gives_up_stops_the_work_and_the_next_is_heard(folder: Path) -> None:
    async with running(folder) as engine:
        waiting = [asyncio.create_task(engine.transcribe(sound(20.0, seed=n), languages=BOTH)) for n in range(3)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        assert await asyncio.gather(*waiting, return_exceptions=True)
        assert all(task.cancelled() for task in waiting)
        assert (await engine.transcribe(sound(0.7), languages=("ja",))).language == "ja"


@pytest.mark.parametrize("moment", ["before", "while", "long before"])
async def test_a_stream_that_is_closed_leaves_nobody_waiting(moment: str, folder: Path) -> None:
    async with running(folder) as engine:
        stream = engine.open_stream(languages=BOTH)
        stream.push(sound(12.0))
        if moment == "long before":
            await asyncio.sleep(0.3)
        if moment == "while":
            words = asyncio.create_task(stream.transcribe(12 * RATE))
            await asyncio.sleep(0.01)
            stream.close()
            with pytest.raises(AsrError) as caught:
                await words
        else:
            stream.close()
            stream.push(sound(1.0))
            with pytest.raises(AsrError) as caught:
                await stream.transcribe(RATE)
        assert caught.value.code == "engine_unavailable"
        stream.close()


async def test_streams_are_bounded_in_number_and_length(folder: Path) -> None:
    async with running(folder) as engine:
        streams = [engine.open_stream(languages=BOTH) for _ in range(MOST_STREAMS)]
        with pytest.raises(AsrError, match=str(MOST_STREAMS)):
            engine.open_stream(languages=BOTH)
        streams[0].close()
        streams[0] = engine.open_stream(languages=BOTH)
        for wrong in (0, -1, 1):
            with pytest.raises(AsrError):
                await streams[0].transcribe(wrong)
        endless = streams[1]
        endless.push(np.zeros((LONGEST_STREAM_SECONDS + 10) * RATE, np.float32))
        assert endless.pushed == LONGEST_STREAM_SECONDS * RATE
        for stream in streams:
            stream.close()


async def test_closing_the_engine_ends_every_wait(folder: Path) -> None:
    engine = Qwen3Asr(folder, device="cpu", dtype="float32")
    with pytest.raises(AsrError):
        await engine.transcribe(sound(1.0), languages=BOTH)
    await engine.start()
    stream = engine.open_stream(languages=BOTH)
    stream.push(sound(3.0))
    waits = [
        asyncio.create_task(engine.transcribe(sound(15.0), languages=BOTH)),
        asyncio.create_task(stream.transcribe(3 * RATE)),
    ]
    await asyncio.sleep(0.02)
    await engine.close()
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert [getattr(one, "code", None) for one in results] == ["engine_unavailable"] * 2
    with pytest.raises(AsrError) as caught:
        engine.open_stream(languages=BOTH)
    assert caught.value.code == "engine_unavailable"
    await engine.close()


async def test_nothing_at_all_is_nothing_and_wrong_shapes_are_refused(folder: Path) -> None:
    async with running(folder) as engine:
        assert (await engine.transcribe(np.zeros(0, np.float32), languages=BOTH)).text == ""
        await engine.transcribe(np.zeros(3, np.float32), languages=BOTH)
        await engine.transcribe(np.zeros(RATE, np.float32), languages=BOTH)
        with pytest.raises(AsrError, match="shape"):
            await engine.transcribe(np.zeros((2, 8), np.float32), languages=BOTH)
        for languages in ((), ("xx",)):
            with pytest.raises(AsrError) as caught:
                await engine.transcribe(sound(0.5), languages=languages)
            assert caught.value.hint


async def test_a_failure_of_the_model_is_an_error_of_who_waits_and_the_next_is_heard(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(folder) as engine:
        assert engine._ears is not None
        decoder = engine._ears._decoder
        step = decoder.step

        def failing(*arguments: Any) -> Any:
            raise RuntimeError("out of memory")

        stream = engine.open_stream(languages=BOTH)
        monkeypatch.setattr(decoder, "step", failing)
        stream.push(sound(2.0))
        results = await asyncio.gather(
            engine.transcribe(sound(1.0), languages=BOTH), stream.transcribe(RATE), return_exceptions=True
        )
        assert [type(one) for one in results] == [AsrError, AsrError]
        monkeypatch.setattr(decoder, "step", step)
        await engine.transcribe(sound(1.0), languages=BOTH)


async def test_int8_is_chosen_on_the_processor_and_hears(folder: Path) -> None:
    async with running(folder, dtype="auto", threads=1) as engine:
        assert (await engine.transcribe(sound(1.0), languages=("en",))).language == "en"


async def test_the_registry_builds_it_from_a_path_or_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    persona = load_persona(default_persona_path())
    chosen = {"engine": "qwen3-asr", "model": str(folder), "dtype": "float32", "device": "cpu"}
    settings = Settings(profile="qwen", model_dir=tmp_path, asr=chosen)  # type: ignore[arg-type]
    engine = registry.find_engine(settings, "asr").build(settings, persona)
    await engine.start()
    await engine.transcribe(sound(0.6), languages=BOTH)
    await engine.close()
    missing = Settings(profile="qwen", model_dir=tmp_path, asr={"model": str(tmp_path / "none")})  # type: ignore[arg-type]
    with pytest.raises(ModelError) as caught:
        registry.find_engine(missing, "asr").build(missing, persona)
    assert caught.value.code == "model_missing"


async def test_a_live_ear_hears_with_it_what_the_turn_hears_whole(folder: Path) -> None:
    persona = load_persona(default_persona_path())
    samples = sound(3.2, seed=11)
    async with running(folder) as engine:
        ear = open_ear(engine, TURN, persona, ("富士通",))
        assert ear is not None
        for piece in in_pieces(samples, (512,)):
            ear.push(piece)
            await asyncio.sleep(0.001)
        engines, heard = fake_engines(asr=engine), []
        for stream in (ear.stream, None):
            trace = TurnTrace(asyncio.get_running_loop().time)
            heard.append(
                (await understand(Utterance(samples), engines, persona, SETTINGS, trace, ("富士通",), stream), trace)
            )
        ear.close()
        (early, one), (late, other) = heard
        assert early == late
        assert one.facts.get("asr_dropped") == other.facts.get("asr_dropped")


async def test_a_whole_turn_answers_the_words_that_it_hears(folder: Path) -> None:
    persona = load_persona(default_persona_path())
    vad = FakeVad()
    answered = 0
    async with running(folder) as engine:
        for seed in range(12):
            samples = np.concatenate([0.5 * np.ones(320, np.float32), sound(1.5, seed=seed), loud(0.1)])
            found = await find_utterance(vad, samples, SETTINGS.segmenter)
            assert found is not None
            words = await engine.transcribe(found.utterance.samples, languages=persona.languages)
            text, reason = words_of(words, found.utterance.duration_seconds, persona, ())
            played = await take_turn(TurnRequest("desk", samples=samples), vad=vad, asr=engine)
            assert played.result.transcript == ("" if reason else text)
            assert played.result.outcome == ("no_speech" if reason else "ok")
            answered += not reason
        assert answered


# --- loading ---


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ("{}", "model_unknown"),
        ('{"model_type": "qwen3_asr", "thinker_config": {}}', "model_unknown"),
        ("{", "model_missing"),
        (None, "model_missing"),
    ],
)
def test_a_folder_with_another_model_is_refused_with_the_right_name(
    config: str | None, code: str, tmp_path: Path
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError) as caught:
        load(tmp_path, device="cpu", numbers="auto", threads=None)
    assert caught.value.code == code
    assert caught.value.hint


def test_what_this_machine_does_not_have_is_refused(folder: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(AsrError, match="cuda") as caught:
            load(folder, device="cuda", numbers="auto", threads=None)
        assert "cpu" in (caught.value.hint or "")
