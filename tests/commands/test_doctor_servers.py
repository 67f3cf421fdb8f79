"""`stackchan doctor` when the voice or the hearing is another server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.commands.doctor_checks import Finding
from server.commands.doctor_servers import check_hearing_server, check_voice_server
from server.commands.models import needed_model_ids
from server.config import Settings
from server.engines.catalogue import load_catalogue
from server.errors import ConfigError
from tests.commands.conftest import Cli
from tests.fakes.engine_servers import HearingServer, IrodoriServer, SpeechServer, VoicevoxServer
from tests.fakes.http_replies import fail
from tests.fakes.http_server import running

pytestmark = pytest.mark.integration

KEY = "sk-very-secret"
JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
NOBODY = "http://127.0.0.1:1/v1"


@pytest.fixture
def irodori() -> Iterator[IrodoriServer]:
    with running(IrodoriServer()) as server:
        yield server


@pytest.fixture
def hearing() -> Iterator[HearingServer]:
    with running(HearingServer()) as server:
        yield server


def voice(url: str, engine: str = "irodori", **tts: Any) -> Finding:
    return check_voice_server(Settings(tts={"engine": engine, "base_url": url, "api_key": KEY} | tts))


def ears(url: str, **asr: Any) -> Finding:
    return check_hearing_server(Settings(asr={"base_url": url, "api_key": KEY} | asr))


def test_a_voice_that_is_ready_is_named(irodori: IrodoriServer) -> None:
    irodori.key = KEY
    finding = voice(irodori.url, voice="sample")
    assert (finding.state, finding.detail) == ("ok", f"irodori at {irodori.url}, voice sample")
    assert voice(irodori.url).detail.endswith("voice none")


def test_a_voice_it_does_not_have_is_told_with_those_it_has(irodori: IrodoriServer) -> None:
    finding = voice(irodori.url, voice="mei")
    assert finding.state == "fail"
    assert "mei" in finding.detail
    assert "none, sample" in (finding.todo or "")
    assert JAPANESE.search(finding.todo or "")


def test_a_model_it_does_not_have_is_told(irodori: IrodoriServer) -> None:
    finding = voice(irodori.url, model="other")
    assert (finding.state, "irodori-tts" in (finding.todo or "")) == ("warn", True)


@pytest.mark.parametrize(
    ("engine", "start"),
    [
        ("irodori", "irodori_openai_tts"),
        ("voicevox", "VOICEVOX"),
        ("aivisspeech", "AivisSpeech"),
        ("openai-speech", ""),
    ],
)
def test_a_server_that_does_not_answer_says_how_to_start_it(engine: str, start: str) -> None:
    finding = voice(NOBODY, engine)
    assert finding.state == "fail"
    assert start in (finding.todo or "")
    assert JAPANESE.search(finding.todo or "")


def test_a_refused_key_is_told_and_not_repeated(irodori: IrodoriServer, hearing: HearingServer) -> None:
    irodori.key = hearing.key = "another"
    for finding, name in (
        (voice(irodori.url), "STACKCHAN_TTS__API_KEY"),
        (ears(hearing.url), "STACKCHAN_ASR__API_KEY"),
    ):
        assert finding.state == "fail"
        assert name in (finding.todo or "")
        assert KEY not in repr(finding)


def test_a_server_without_lists_is_ready_as_far_as_can_be_told(hearing: HearingServer) -> None:
    with running(SpeechServer(voices=None, models=None)) as server:
        finding = voice(server.url, "openai-speech", voice="alloy", model="kokoro")
        assert (finding.state, "lists no voices" in finding.detail) == ("ok", True)
    hearing.models = None
    assert (ears(hearing.url).state, ears(hearing.url, model="m").detail.endswith("model m")) == ("ok", True)


def test_a_server_whose_voices_are_known_wants_one_to_be_chosen() -> None:
    with running(SpeechServer()) as server:
        finding = voice(server.url, "openai-speech")
        assert (finding.state, "alloy, nova" in (finding.todo or "")) == ("warn", True)
        assert voice(server.url, "openai-speech", voice="nova").state == "ok"


def test_a_speaker_is_looked_up_with_its_style() -> None:
    with running(VoicevoxServer()) as server:
        assert voice(server.url, "voicevox", voice="白上虎太郎").detail.endswith("白上虎太郎/ふつう")
        finding = voice(server.url, "voicevox", voice="ずんだもん")
        assert (finding.state, "四国めたん, 白上虎太郎" in (finding.todo or "")) == ("fail", True)
        server.speakers = {"detail": "Not Found"}
        assert voice(server.url, "voicevox").state == "fail"


def test_the_hearing_is_named_with_the_model_it_will_take(hearing: HearingServer) -> None:
    assert ears(hearing.url).detail == f"openai-asr at {hearing.url}, model Qwen/Qwen3-ASR-0.6B"
    finding = ears(hearing.url, model="whisper")
    assert (finding.state, "Qwen/Qwen3-ASR-0.6B" in (finding.todo or "")) == ("warn", True)
    assert ears(NOBODY).state == "fail"


def test_a_server_that_fails_is_not_ready() -> None:
    with running(IrodoriServer()) as server:
        server.usual = fail(500, "out of memory")  # type: ignore[method-assign]
        assert voice(server.url).state == "fail"


def test_an_engine_without_an_address_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="STACKCHAN_TTS__BASE_URL"):
        check_voice_server(Settings(tts={"engine": "openai-speech"}))
    with pytest.raises(ConfigError, match="STACKCHAN_ASR__BASE_URL"):
        check_hearing_server(Settings(asr={"engine": "openai-asr"}))


def test_with_a_hearing_server_no_model_for_hearing_is_pulled() -> None:
    settings = Settings(asr={"base_url": NOBODY}, llm={"preset": "ollama"})
    assert needed_model_ids(settings, load_catalogue()) == ["silero-vad"]


def test_the_checks_belong_to_the_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STACKCHAN_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("STACKCHAN_TTS__BASE_URL", NOBODY)
    monkeypatch.setenv("STACKCHAN_ASR__BASE_URL", NOBODY)
    found = {finding["check"]: finding for finding in json.loads(cli("doctor", "--json").out)["checks"]}
    assert (found["Voice"]["state"], found["Hearing"]["state"]) == ("fail", "fail")
    assert "Language model" not in found
