"""Any `/v1/audio/transcriptions` as the hearing: what is sent, and every form in which words come back."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from server.config import load_settings
from server.engines.asr.openai_transcription import MOST_HOT_WORDS, choose_hearing_model
from server.engines.asr.transcripts import language_code, read_marks
from server.engines.base import Transcription
from server.engines.registry import engine_names, find_engine
from server.errors import AsrError, ConfigError
from server.persona import default_persona_path, load_persona
from tests.fakes.engine_servers import HEARD, HearingServer, file_of, heard
from tests.fakes.http_replies import fail, raw_answer
from tests.fakes.http_server import running

pytestmark = pytest.mark.integration

SPEECH = (np.sin(np.arange(8000) * 0.1) * 0.5).astype(np.float32)


@pytest.fixture
def server() -> Iterator[HearingServer]:
    with running(HearingServer()) as started:
        yield started


@asynccontextmanager
async def ears(server: HearingServer, **asr: Any) -> AsyncIterator[Any]:
    settings = load_settings({}, asr={"base_url": server.url, "timeout_seconds": 10} | asr)
    made = find_engine(settings, "asr").build(settings, load_persona(default_persona_path()))
    await made.start()
    try:
        yield made
    finally:
        await made.close()
        await server.until_idle()


async def hear(made: Any, *languages: str, hot_words: tuple[str, ...] = ()) -> Transcription:
    found: Transcription = await made.transcribe(SPEECH, languages=languages or ("ja", "en"), hot_words=hot_words)
    return found


async def test_an_utterance_is_sent_as_a_wav_file_with_its_language_when_there_is_one(server: HearingServer) -> None:
    async with ears(server, model="qwen3-asr") as made:
        assert (await hear(made)).text == HEARD
        assert server.form() == {"model": "qwen3-asr", "response_format": "verbose_json"}
        await hear(made, "en")
        assert server.form()["language"] == "en"
    with wave.open(io.BytesIO(file_of(server.asked[0]))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert np.abs(samples / 32767 - SPEECH).max() < 1e-4


async def test_words_to_expect_go_along_as_the_prompt_the_most_relevant_last(server: HearingServer) -> None:
    async with ears(server) as made:
        await hear(made, hot_words=("富士通", "  ", "Maplecott\ud83d"))
        assert server.form()["prompt"] == "Maplecott、富士通。"
        await hear(made, "en", hot_words=("Anna", "Bob"))
        assert server.form()["prompt"] == "Bob, Anna."
        await hear(made, hot_words=tuple(f"名前{number}" for number in range(40)))
        assert server.form()["prompt"].count("名前") == MOST_HOT_WORDS
        await hear(made)
        assert "prompt" not in server.form()


async def test_a_server_without_long_answers_is_asked_for_short_ones_from_then_on(server: HearingServer) -> None:
    server.tells_more = False
    async with ears(server, model="q") as made:
        for _ in range(2):
            assert (await hear(made)).text == HEARD
    assert [b"verbose_json" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        fail(400, "response_format 'verbose_json' is not compatible with model 'gpt'. Use 'json'."),
        fail(400, "Currently do not support verbose_json for this model"),
        raw_answer(422, b'{"detail":[{"loc":["body","response_format"],"msg":"unexpected value"}]}'),
    ],
)
async def test_how_a_server_refuses_long_answers_is_understood(server: HearingServer, refusal: Any) -> None:
    server.play(refusal, heard())
    async with ears(server, model="q") as made:
        assert (await hear(made)).text == HEARD


async def test_any_other_refusal_is_the_servers_own(server: HearingServer) -> None:
    server.play(fail(400, "The audio is too short."))
    async with ears(server, model="q") as made:
        with pytest.raises(AsrError) as caught:
            await hear(made)
    assert caught.value.code == "asr_refused"
    assert "too short" in caught.value.message
    assert len(server.asked) == 1


async def test_how_sure_the_model_is_comes_along(server: HearingServer) -> None:
    segments = [
        {"text": "あああ", "no_speech_prob": 0.1, "avg_logprob": -0.2},
        {"text": "い", "no_speech_prob": 0.5, "avg_logprob": -1.0},
        {"text": "x", "no_speech_prob": None, "avg_logprob": "?"},
    ]
    server.play(heard("あああい", language="japanese", segments=segments))
    async with ears(server) as made:
        found = await hear(made)
    assert found.language == "ja"
    assert found.no_speech_probability == pytest.approx(0.2)
    assert found.average_log_probability == pytest.approx(-0.4)


@pytest.mark.parametrize(
    ("body", "kind", "text", "language"),
    [
        (b'{"text":" Hello.\\n"}', "application/json", "Hello.", "und"),
        (b'{"text":"Hello.","language":"en","segments":{}}', "application/json", "Hello.", "en"),
        ('{"text":"language Japanese<asr_text>やあ。"}'.encode(), "application/json", "やあ。", "ja"),
        (b'{"text":"language None<asr_text>"}', "application/json", "", "und"),
        (b'{"text":""}', "text/html", "", "und"),
        ("やあ。\n".encode(), "text/plain", "やあ。", "und"),
    ],
)
async def test_every_form_of_words_is_read(
    server: HearingServer, body: bytes, kind: str, text: str, language: str
) -> None:
    server.play(raw_answer(200, body, {"Content-Type": kind}))
    async with ears(server) as made:
        found = await hear(made)
    assert (found.text, found.language) == (text, language)
    async with ears(server) as made:
        assert (await hear(made, "en")).language == (language if language != "und" else "en")


@pytest.mark.parametrize(
    ("models", "chosen"),
    [
        (["qwen3-8b", "Qwen/Qwen3-ASR-0.6B", "whisper"], "Qwen/Qwen3-ASR-0.6B"),
        (["sensevoice-small"], "sensevoice-small"),
        (["only"], "only"),
        ([], "whisper-1"),
        (None, "whisper-1"),
    ],
)
async def test_without_a_model_the_servers_own_is_taken(
    server: HearingServer, models: list[str] | None, chosen: str
) -> None:
    server.models = models
    assert choose_hearing_model(models or ()) == chosen
    async with ears(server) as made:
        await hear(made)
        await hear(made)
    assert [server.form(index)["model"] for index in range(2)] == [chosen, chosen]
    assert len([request for request in server.requests if request.path.endswith("/models")]) == 1


async def test_a_server_that_is_away_at_the_start_is_asked_again(server: HearingServer, caplog: Any) -> None:
    server.key = "another"
    async with ears(server) as made:
        assert "not there yet" in caplog.text
        server.key = None
        await hear(made)
    assert server.form()["model"] == "Qwen/Qwen3-ASR-0.6B"


async def test_no_language_is_an_error(server: HearingServer) -> None:
    async with ears(server) as made:
        with pytest.raises(AsrError):
            await made.transcribe(SPEECH, languages=())


def test_an_address_chooses_it() -> None:
    assert engine_names(load_settings({}, asr={"base_url": "http://box:1/v1"}))["asr"] == "openai-asr"
    settings = load_settings({}, asr={"engine": "openai-asr"})
    with pytest.raises(ConfigError) as caught:
        find_engine(settings, "asr").build(settings, load_persona(default_persona_path()))
    assert "STACKCHAN_ASR__BASE_URL" in caught.value.message


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("language Japanese<asr_text>紅葉、きれい。", ("ja", "紅葉、きれい。")),
        ("language English<asr_text>Hi.<|im_end|>", ("en", "Hi.")),
        (" LANGUAGE  Chinese <asr_text> 你好", ("zh", "你好")),
        ("language Klingon<asr_text>Qapla'", (None, "Qapla'")),
        ("language None<asr_text>うん", (None, "")),
        ("I speak a language Japanese people know.", (None, "I speak a language Japanese people know.")),
        ("5 < 6", (None, "5 < 6")),
        ("", (None, "")),
    ],
)
def test_the_models_own_marks_are_no_words(raw: str, expected: tuple[str | None, str]) -> None:
    assert read_marks(raw) == expected


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Japanese", "ja"),
        ("ja", "ja"),
        ("JA-JP", "ja"),
        ("en_US", "en"),
        ("cantonese", "yue"),
        ("??", None),
        ("", None),
    ],
)
def test_languages_have_codes(name: str, code: str | None) -> None:
    assert language_code(name) == code
