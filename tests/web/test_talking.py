"""A real conversation in a real browser: a fake microphone hears a person, the production server answers.

The voice activity is the real one; what is understood, thought and said is scripted, but in the last test, where the
words are recognised, spoken, and the recorded answer is recognised again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest

from server.audio.codec import decode_upload
from server.audio.resample import resample
from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.engines.vad.silero import SileroVad
from server.events import AudioChunk
from tests.fakes.engines import FakeAsr, FakeLlm, FakeTts, answer, fake_engines
from tests.web.browser import (
    audio_clock,
    chromium,
    complaints,
    contact_sheet,
    doing,
    escape,
    find,
    heard,
    keep_face,
    key,
    say,
    visit,
    wait_for,
    watch,
    words,
)
from tests.web.served import TOKEN, Served

pytestmark = [pytest.mark.models, pytest.mark.browser]

SPEECH = Path(__file__).parents[1] / "data" / "speech" / "human_ja.flac"
SPOKEN_UNTIL_SECONDS = 3.6
"""The first words of the recording; then there is a pause."""
WORDS = "これはテスト文です"
REPLY = "今日はいい天気だから、散歩に行こうよ。"
ANSWER = answer('{"emotion":"happy","action":"nod","reply":"' + REPLY + '"}')
LONG = answer('{"emotion":"surprised","action":"tilt","reply":"' + "今日はいい天気だね。" * 8 + '"}')


def model(name: str) -> Path:
    folder = Path(os.environ.get("STACKCHAN_MODEL_DIR") or Path.home() / ".cache" / "stackchan")
    path = folder / name
    assert path.exists(), f"No model at {path}. Run `stackchan models pull`."
    return path


def chirp(seconds: float, low_hz: float, high_hz: float) -> np.ndarray:
    """A sound that fits only itself, 24 kHz."""
    time_s = np.arange(round(24_000 * seconds)) / 24_000
    phase = 2 * np.pi * (low_hz * time_s + (high_hz - low_hz) * time_s**2 / (2 * seconds))
    samples: np.ndarray = (np.sin(phase) * np.minimum(1, np.minimum(time_s, seconds - time_s) / 0.02) * 9000).astype(
        np.int16
    )
    return samples


def fit(sound: np.ndarray, sample: np.ndarray) -> tuple[int, float]:
    """Where `sample` lies in `sound`, and how alike they are there (1.0: the same)."""
    sound, sample = sound.astype(float), sample.astype(float)
    size = 1 << (len(sound) + len(sample)).bit_length()
    match = np.fft.irfft(np.fft.rfft(sound, size) * np.conj(np.fft.rfft(sample, size)), size)[: len(sound)]
    place = int(np.argmax(match))
    there = sound[place : place + len(sample)]
    norm = np.linalg.norm(there) * np.linalg.norm(sample[: len(there)])
    return place, float(match[place] / norm) if norm else 0.0


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake microphone hears from the moment it is opened: a person, then half a minute of a quiet room."""
    spoken = decode_upload(SPEECH.read_bytes(), "audio/flac", max_seconds=60)[
        8_000 : round(SPOKEN_UNTIL_SECONDS * 16_000)
    ]
    room = np.random.default_rng(1).normal(0, 0.0005, 30 * 16_000)
    samples = np.concatenate([spoken, room])
    path = tmp_path_factory.mktemp("microphone") / "person.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((samples * 32_767).astype("<i2").tobytes())
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, microphone: Path) -> Iterator[Any]:
    profile = tmp_path_factory.mktemp("profile")
    with chromium(profile, f"use-file-for-fake-audio-capture={microphone}%noloop") as driver:
        yield driver


OpenRobot = Callable[..., tuple[Any, Served]]


@pytest.fixture
def open_robot(browser: Any, tmp_path: Path) -> Iterator[OpenRobot]:
    """`open_robot(llm=…)`: the page of a server with these engines, ready to be talked to, and the server."""
    servers: list[Served] = []

    def open_it(*, calm: bool = False, **engines: Any) -> tuple[Any, Served]:
        engines.setdefault("asr", FakeAsr(text=WORDS))
        vad = SileroVad(model("silero-vad") / "silero_vad.onnx")
        server = Served(tmp_path / "data", fake_engines(vad=vad, **engines))
        servers.append(server)
        visit(browser, f"{server.url}#token={TOKEN}", calm=calm)
        wait_for(lambda: find(browser, "#server").text == "Ready", 60)
        return browser, server

    browser.get_log("browser")
    yield open_it
    found = complaints(browser)
    browser.get("about:blank")
    for server in servers:
        server.close()
    assert found == []


def hold(page: Any, seconds: float) -> None:
    key(page, "rawKeyDown")
    wait_for(lambda: find(page, "#state").text == "Listening …")
    time.sleep(seconds)
    key(page, "keyUp")


def test_press_speak_and_hear_the_answer(open_robot: OpenRobot) -> None:
    first, second = chirp(0.8, 300, 900), chirp(1.1, 1200, 500)

    class TwoChirps(FakeTts):
        async def synthesize(self, request: Any) -> Any:
            self.spoken.append(request)
            yield AudioChunk(first if "天気" in request.text else second, 24_000)

    page, server = open_robot(llm=FakeLlm(scripts=[ANSWER]), tts=TwoChirps())
    watch(page)
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: words(page, ".mine .words") == [WORDS])
    wait_for(lambda: find(page, "#face").get_attribute("data-emotion") == "happy")
    wait_for(lambda: words(page, ".robot .tag") == ["happy", "nods"])
    assert words(page, ".robot .words") == [REPLY]
    wait_for(lambda: doing(page) == "")
    seen = page.execute_script("return seen")
    assert seen["doing"] == ["listening", "thinking", "speaking", ""]
    assert [caption for caption in seen["captions"] if caption] == ["今日はいい天気だから、", "散歩に行こうよ。"]

    # What was said arrived whole: the person's words and nothing cut off at the start.
    (said,) = server.engines.asr.heard
    assert 2.0 < len(said) / 16_000 < SPOKEN_UNTIL_SECONDS
    # What the engine made was played: both sounds, in their order, none twice, nothing else.
    _, rate_hz, sound = heard(page, 0.5)
    places = []
    for made in (first, second):
        place, alike = fit(sound, resample(made, 24_000, rate_hz))
        assert alike > 0.9
        places.append(place / rate_hz)
    assert places[1] - places[0] == pytest.approx(0.8, abs=0.4)
    loud = np.flatnonzero(np.abs(sound) > 300)
    assert (loud[-1] - loud[0]) / rate_hz == pytest.approx(places[1] - places[0] + 1.1, abs=0.2)

    # Where the time went, for who wants to know.
    find(page, "#recent summary").click()
    wait_for(lambda: words(page, "#recent-turns .waterfall .stage"))
    assert any(WORDS in line for line in words(page, "#recent-turns .quiet"))


def test_an_open_microphone_finds_the_end_itself_and_listens_again(open_robot: OpenRobot) -> None:
    tts = FakeTts(chunks=[AudioChunk(chirp(1, 300, 900), 24_000)])
    page, _ = open_robot(llm=FakeLlm(scripts=[ANSWER]), tts=tts)
    find(page, "#open").click()
    wait_for(lambda: words(page, ".mine .words") == [WORDS])
    wait_for(lambda: words(page, ".robot .words") == [REPLY])
    wait_for(lambda: find(page, "#state").text == "Listening …")
    find(page, "#open").click()
    wait_for(lambda: doing(page) == "")


def test_an_answer_is_interrupted_and_only_what_was_heard_is_remembered(open_robot: OpenRobot) -> None:
    tts = FakeTts(chunks=[AudioChunk(chirp(1.5, 300, 900), 24_000)])
    page, server = open_robot(llm=FakeLlm(scripts=[LONG, ANSWER]), tts=tts)
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: words(page, ".robot .words") and len(words(page, ".robot .words")[0]) > 12)
    escape(page)
    at = audio_clock(page)
    wait_for(lambda: "interrupted" in words(page, ".robot .tag"))
    assert 10 <= len(words(page, ".robot .words")[0]) <= 40
    began, rate_hz, sound = heard(page, 0.5)
    assert began + np.flatnonzero(np.abs(sound) > 300)[-1] / rate_hz <= at + 0.2
    # And on with it, in the same conversation.
    say(page, "続けて")
    wait_for(lambda: len(words(page, ".robot .words")) == 2)
    asked = str(server.engines.llm.requests[-1].messages)
    assert "今日はいい天気だね。" in asked
    assert "今日はいい天気だね。" * 5 not in asked


def test_who_presses_while_it_speaks_is_heard_at_once(open_robot: OpenRobot) -> None:
    tts = FakeTts(chunks=[AudioChunk(chirp(1.5, 300, 900), 24_000)])
    page, _ = open_robot(llm=FakeLlm(scripts=[LONG, ANSWER]), tts=tts)
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: words(page, ".robot .words"))
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: words(page, ".mine .words") == [WORDS, WORDS])
    wait_for(lambda: words(page, ".robot .words")[-1:] == [REPLY])


def test_a_lost_link_comes_back_and_the_answer_with_it(open_robot: OpenRobot) -> None:
    tts = FakeTts(chunks=[AudioChunk(chirp(1.5, 300, 900), 24_000)])
    page, server = open_robot(llm=FakeLlm(scripts=[LONG, ANSWER]), tts=tts)
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: words(page, ".robot .words"))
    server.network.down = True
    server.network.cut()
    wait_for(lambda: "The link is lost" in find(page, "#server").text)
    server.network.down = False
    wait_for(lambda: find(page, "#server").text == "Ready")
    wait_for(lambda: "surprised" in words(page, ".robot .tag"), 40)
    assert words(page, ".robot .words") == ["今日はいい天気だね。" * 8]
    say(page, "まだいる？")
    wait_for(lambda: words(page, ".robot .words")[-1:] == [REPLY])
    # The conversation is the same one.
    assert WORDS in str(server.engines.llm.requests[-1].messages)


def test_pictures_of_each_face(open_robot: OpenRobot) -> None:
    shots = Path(__file__).parents[2] / "build" / "screenshots"
    shutil.rmtree(shots, ignore_errors=True)
    shots.mkdir(parents=True)
    emotions = ["neutral", "happy", "sad", "angry", "doubt", "sleepy", "surprised"]
    faces = [{"emotion": emotion, "action": "none", "reply": f"{emotion}の顔だよ。"} for emotion in emotions]
    scripts = [answer(json.dumps(face, ensure_ascii=False)) for face in faces]
    tts = FakeTts(chunks=[AudioChunk(chirp(0.2, 300, 900), 24_000)])
    page, _ = open_robot(calm=True, llm=FakeLlm(scripts=scripts), tts=tts)  # nothing moves: the faces themselves differ
    pictures = set()
    for count, emotion in enumerate(emotions, start=1):
        say(page, f"{emotion}の顔をして")
        wait_for(lambda count=count: len(words(page, ".robot .tag")) >= count and doing(page) == "")
        wait_for(lambda emotion=emotion: find(page, "#face").get_attribute("data-emotion") == emotion)
        picture = find(page, "#face").screenshot_as_png
        pictures.add(picture)
        keep_face(page)
        (shots / f"{emotion}.png").write_bytes(picture)
    assert len(pictures) == len(emotions)
    sheet = contact_sheet(page)  # docs/images/faces.png is one of these
    assert len(sheet) < 200_000
    (shots / "faces.png").write_bytes(sheet)
    page.save_screenshot(str(shots / "page.png"))


def test_the_recorded_answer_says_what_the_robot_meant(open_robot: OpenRobot) -> None:
    asr = FasterWhisperAsr(model("whisper-base-ct2"))
    page, _ = open_robot(llm=FakeLlm(scripts=[ANSWER]), asr=asr, tts=PyopenjtalkTts())
    hold(page, SPOKEN_UNTIL_SECONDS - 0.5)
    wait_for(lambda: "テスト" in "".join(words(page, ".mine .words")), 60)
    wait_for(lambda: words(page, ".robot .words") == [REPLY] and words(page, ".robot .tag"), 60)
    wait_for(lambda: doing(page) == "")
    _, rate_hz, sound = heard(page)

    async def understood() -> str:
        ears = FasterWhisperAsr(model("whisper-base-ct2"))
        await ears.start()
        samples = resample(sound, rate_hz, 16_000).astype(np.float32) / 32_768
        text = (await ears.transcribe(samples, languages=("ja",))).text
        await ears.close()
        return text

    text = asyncio.run(understood())
    letters = "".join(letter for letter in text if letter.isalnum())
    assert jiwer.cer("今日はいい天気だから散歩に行こうよ", letters) < 0.25, text
