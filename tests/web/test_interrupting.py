"""Talking over the robot on its page: with echo cancellation a voice ends the answer, without it nothing is believed.

A real browser, whose fake microphone hears somebody speak, pause, and speak again while the robot answers; the
production server with the real voice activity.
"""

from __future__ import annotations

import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.audio.codec import decode_upload
from server.engines.vad.silero import SileroVad
from server.events import AudioChunk
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer, fake_engines
from tests.web.browser import chromium, complaints, find, visit, wait_for, words
from tests.web.served import TOKEN, Served
from tests.web.test_talking import ANSWER, REPLY, SPEECH, SPOKEN_UNTIL_SECONDS, WORDS, chirp, model

pytestmark = [pytest.mark.models, pytest.mark.browser]

SENTENCE = "今日はいい天気だね。"
SENTENCES = 4
LONG = answer('{"emotion":"surprised","action":"tilt","reply":"' + SENTENCE * SENTENCES + '"}')
WITHOUT_ECHO_CANCELLATION = """
const settings = MediaStreamTrack.prototype.getSettings;
MediaStreamTrack.prototype.getSettings = function () { return { ...settings.call(this), echoCancellation: false }; };
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    spoken = decode_upload(SPEECH.read_bytes(), "audio/flac", max_seconds=60)[
        8_000 : round(SPOKEN_UNTIL_SECONDS * 16_000)
    ]
    room = np.random.default_rng(1).normal(0, 0.0005, 40 * 16_000)
    samples = np.concatenate([spoken, room[: 3 * 16_000], spoken, room])
    path = tmp_path_factory.mktemp("microphone") / "person.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((samples * 32_767).astype("<i2").tobytes())
    profile = tmp_path_factory.mktemp("profile")
    with chromium(profile, f"use-file-for-fake-audio-capture={path}%noloop") as driver:
        yield driver


@pytest.fixture
def robot(browser: Any, tmp_path: Path) -> Iterator[Served]:
    """A server that answers at length and then shortly, its page open."""
    vad = SileroVad(model("silero-vad") / "silero_vad.onnx")
    tts = FakeTts(chunks=[AudioChunk(chirp(1.5, 300, 900), 24_000)])
    llm = FakeLlm(scripts=[LONG, ANSWER])
    # What is begun early may be begun twice, and the scripts would be mixed.
    env = {"STACKCHAN_LIVE__ANSWER_EARLY": "false"}
    server = Served(tmp_path / "data", fake_engines(vad=vad, asr=FakeAsr(text=WORDS), llm=llm, tts=tts), env)
    browser.get_log("browser")
    visit(browser, f"{server.url}#token={TOKEN}")
    wait_for(lambda: find(browser, "#server").text == "Ready", 60)
    yield server
    found = complaints(browser)
    browser.get("about:blank")
    server.close()
    assert found == []


def cancels_echo(server: Served) -> list[bool]:
    """What the page has said of itself, where it is connected."""
    devices = server.app.state.live.devices._devices.values()
    return [device._hello.capabilities.echo_cancel for device in list(devices)]


def test_with_echo_cancellation_a_voice_ends_the_answer_and_is_answered(browser: Any, robot: Served) -> None:
    find(browser, "#open").click()
    wait_for(lambda: words(browser, ".robot .words")[1:] == [REPLY], 30)
    assert cancels_echo(robot) == [True]
    assert words(browser, ".mine .words") == [WORDS, WORDS]
    assert "interrupted" in words(browser, ".robot .tag")
    said = words(browser, ".robot .words")[0]
    assert len(said) < len(SENTENCE) * SENTENCES
    assert (SENTENCE * SENTENCES).startswith(said)
    # What was said into the answer came whole.
    assert len(robot.engines.asr.heard[-1]) / 16_000 > 2.0
    find(browser, "#open").click()


def test_without_it_the_page_says_so_and_what_the_microphone_hears_meanwhile_is_not_believed(
    browser: Any, robot: Served
) -> None:
    browser.execute_script(WITHOUT_ECHO_CANCELLATION)
    assert cancels_echo(robot) == [True]
    find(browser, "#open").click()
    wait_for(lambda: cancels_echo(robot) == [False])
    wait_for(lambda: words(browser, ".robot .words") == [SENTENCE * SENTENCES] and words(browser, ".robot .tag"), 30)
    wait_for(lambda: find(browser, "#state").text == "Listening …")
    assert "interrupted" not in words(browser, ".robot .tag")
    assert words(browser, ".mine .words") == [WORDS]
    assert len(robot.engines.llm.requests) == 1
    find(browser, "#open").click()
