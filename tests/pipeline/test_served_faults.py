"""Faults as a device meets them: a whole server on a real socket, whose engines break after the start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from server.engines.base import Transcription
from server.errors import AsrError, LlmError, TtsError
from server.pipeline.apology import APOLOGIES
from tests.devices.conftest import eventually
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts
from tests.soaks.fault_table import FaultCase
from tests.soaks.faults import upload

pytestmark = pytest.mark.integration


async def speak(live, loudness=5):
    content, kind = upload(FaultCase("spoken", loudness=loudness), "")
    response = await live.client.post("/v1/turns", content=content, headers={"Content-Type": kind})
    assert response.status_code == 200
    return response.json()


async def sound_of(live, turn):
    response = await live.client.get(turn["audio"]["url"], params={"format": "pcm"})
    assert response.status_code == 200
    return np.frombuffer(response.content, "<i2")


async def test_the_apology_is_heard_although_ears_and_voice_are_gone(serve):
    asr, tts = FakeAsr(), FakeTts()
    async with serve(asr=asr, tts=tts) as live:
        assert {(request.language, request.emotion) for request in tts.spoken} == {("ja", "doubt"), ("en", "doubt")}
        asr.error, tts.error = AsrError("deaf"), TtsError("mute")
        before = len(tts.spoken)
        turn = await speak(live)
        sound = await sound_of(live, turn)
        trace = (await live.client.get(f"/v1/turns/{turn['turn_id']}/trace")).json()["trace"]
    sentence = APOLOGIES["not_heard"]["ja"]
    assert (turn["outcome"], turn["reply"], turn["emotion"], turn["error"]["code"]) == (
        *("failed", sentence, "doubt", "asr_failed"),
    )
    assert turn["transcript"] == ""
    assert len(tts.spoken) == before, "the clip needs no voice"
    assert len(sound) / 24 == turn["audio"]["duration_ms"] > 10 * len(sentence) - 50
    assert np.all(sound[100:-100] > 900)
    assert trace["apology"] == "clip"


async def test_a_server_whose_voice_never_worked_starts_and_answers_in_text(serve):
    async with serve(tts=FakeTts(error=TtsError("mute")), llm=FakeLlm(scripts=[[LlmError("x")]])) as live:
        turn = (await live.client.post("/v1/turns", json={"text": "散歩に行こう"})).json()
    assert (turn["outcome"], turn["transcript"], turn["audio"]) == ("failed", "散歩に行こう", None)
    assert turn["reply"] == APOLOGIES["out_of_order"]["ja"]


async def test_a_recording_that_was_not_understood_is_kept_where_asked_for(serve, tmp_path):
    async with serve(asr=FakeAsr(error=AsrError("x")), env={"STACKCHAN_ASR__KEEP_FAILED_AUDIO": "true"}) as live:
        turn = await speak(live)
        path: Path = tmp_path / "data" / "failed-audio" / f"{turn['turn_id']}.wav"
        await eventually(path.exists)
    kept = os.stat(path)
    assert (stat.S_IMODE(kept.st_mode), kept.st_size) == (0o600, 44 + 2 * 16_000)


async def test_by_default_no_recording_is_kept(serve, tmp_path):
    async with serve(asr=FakeAsr(error=AsrError("x"))) as live:
        await speak(live)
    assert not (tmp_path / "data" / "failed-audio").exists()


async def test_what_the_ears_invent_is_no_turn_of_the_conversation(serve):
    llm = FakeLlm()
    async with serve(asr=FakeAsr(result=Transcription("はい" * 60, "ja")), llm=llm) as live:
        turn = await speak(live)
        stored = (await live.client.get(f"/v1/turns/{turn['turn_id']}")).json()
    assert (turn["outcome"], turn["transcript"], turn["reply"], turn["audio"]) == ("no_speech", "", "", None)
    assert (stored["status"], stored["transcript"]) == ("done", "")
    assert llm.requests == []
