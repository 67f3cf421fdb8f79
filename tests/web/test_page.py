"""The page in a real browser, against a server that answers as the real one does."""

from __future__ import annotations

import io
import json
import re
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.devices.wire import DeviceError
from server.errors import StackChanError
from server.next_steps import NEXT_STEPS, next_step
from tests.web.browser import find, problem_text, say, wait_for, words

pytestmark = [pytest.mark.integration, pytest.mark.browser]

TOKEN = "a-token-for-tests"
JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")


def posts(server: Any) -> list[Any]:
    return [request for request in server.requests if request[0] == "/v1/turns"]


def sent_wav(server: Any) -> tuple[Any, np.ndarray]:
    (request,) = wait_for(lambda: posts(server))
    assert request[1]["Content-Type"] == "audio/wav"
    with wave.open(io.BytesIO(request[2])) as file:
        return file.getparams(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_typed_words_get_an_answer_with_face_movement_and_sound(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    server.answers.append((200, turn(transcript="やあ", reply="やあ、元気？", emotion="happy", action="nod")))
    page.execute_script(
        "window.mouths = new Set(); new MutationObserver(([m]) => mouths.add(m.target.getAttribute('d')))"
        ".observe(document.querySelector('.mouth'), {attributeFilter: ['d']});"
        # A nod is over before a busy browser can be asked for it.
        "window.moved = 0; const head = document.querySelector('.head'), animate = head.animate;"
        "head.animate = function (...how) { moved++; return animate.apply(this, how); }"
    )
    say(page, "やあ")
    wait_for(lambda: words(page, ".robot .words") == ["やあ、元気？"])
    assert words(page, ".mine .words") == ["やあ"]
    assert words(page, ".robot .tag") == ["happy", "nods"]
    assert find(page, "#face").get_attribute("aria-label") == "StackChan's face: happy"
    assert page.execute_script("return moved") == 1
    _, headers, body = posts(server)[0]
    assert json.loads(body) == {"text": "やあ"}
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", headers["Device-Id"])
    assert re.fullmatch(r"[!-~]{1,128}", headers["Session-Id"])
    assert "Authorization" not in headers
    wait_for(lambda: any(path == "/v1/turns/384/audio" for path, _, _ in server.requests))
    wait_for(lambda: page.execute_script("return mouths.size") > 5)  # the mouth follows the voice


def test_the_latency_bar_is_cut_at_the_moments_of_the_turn(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    times = {"vad": 40, "asr": 860, "llm": 9, "tts": 9, "first_clause": 1600, "first_audio": 1750, "total": 2300}
    server.answers.append((200, turn(latency_ms=times)))
    say(page, "hello")
    wait_for(lambda: words(page, ".latency"))
    grown = page.execute_script(
        "return [...document.querySelectorAll('.bar span')].map((s) => [s.className, +s.style.flexGrow])"
    )
    assert grown == [["hear", 900], ["think", 700], ["voice", 150], ["rest", 550]]
    assert "first sound 1.8 s · all 2.3 s" in words(page, ".latency")[0]


def test_the_token_is_asked_for_once_for_everything(open_page: Any, server: Any) -> None:
    server.token = TOKEN
    page = open_page()
    wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
    assert "asks for its owner's token" in find(page, "#token-why").text
    find(page, "#token").send_keys("wrong トークン\n")
    wait_for(lambda: "does not know this token" in find(page, "#token-why").text)
    find(page, "#token").send_keys(TOKEN + "\n")
    wait_for(lambda: find(page, "#server").text == "Ready")
    say(page, "hello")
    wait_for(lambda: words(page, ".robot"))
    assert posts(server)[0][1]["Authorization"] == f"Bearer {TOKEN}"
    assert server.live[-1].got[0]["token"] == TOKEN
    page.refresh()
    wait_for(lambda: find(page, "#server").text == "Ready")  # remembered in this tab


def test_words_are_not_lost_when_no_token_is_given(open_page: Any, server: Any) -> None:
    server.token = TOKEN
    page = open_page()
    cancel = "#token-dialog [value=cancel]"
    for _ in ("the link asks", "the words ask"):
        wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
        find(page, cancel).click()
        assert "asks for its owner's token" in problem_text(page)
        assert not posts(server)
        if not find(page, "#line").get_property("value"):
            say(page, "hello")
    wait_for(lambda: find(page, "#line").get_property("value") == "hello")
    find(page, "#again").click()
    wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
    find(page, "#token").send_keys(TOKEN + "\n")
    wait_for(lambda: find(page, "#server").text == "Ready")
    assert not find(page, "#again").is_displayed()


def test_a_token_in_the_link_is_used_and_leaves_the_address_bar(open_page: Any, server: Any) -> None:
    server.token = TOKEN
    page = open_page(f"#token={TOKEN}")
    assert page.current_url == server.url
    assert TOKEN not in page.execute_script("return JSON.stringify(localStorage) + document.body.outerHTML")
    say(page, "hello")
    wait_for(lambda: words(page, ".robot"))


def test_a_stereo_file_becomes_16_khz_mono(open_page: Any, server: Any, tmp_path: Path) -> None:
    left = np.sin(2 * np.pi * 440 * np.arange(44100) / 44100) * 12000
    path = tmp_path / "音.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(44100)
        out.writeframes(np.column_stack([left, np.zeros_like(left)]).astype("<i2").tobytes())
    page = open_page()
    find(page, "#line").click()  # browsers make sound only for somebody who touched the page
    find(page, "#file").send_keys(str(path))
    file, samples = sent_wav(server)
    assert (file.framerate, file.nchannels) == (16000, 1)
    assert abs(len(samples) - 16000) <= 16
    middle = samples[4000:12000].astype(float)
    assert np.abs(middle).max() == pytest.approx(6000, rel=0.02)  # the mean of both sides
    assert np.argmax(np.abs(np.fft.rfft(middle))) * 16000 / len(middle) == pytest.approx(440, abs=2)


def test_a_file_that_is_no_audio_is_refused_before_it_is_sent(open_page: Any, server: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.mp3").write_text("no sound in here")
    page = open_page()
    find(page, "#file").send_keys(str(tmp_path / "notes.mp3"))
    assert "cannot read this as audio" in problem_text(page)
    assert posts(server) == []


def test_silence_is_told_apart_from_a_failure(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    server.answers.append((200, turn(outcome="no_speech", transcript="", reply="", action="none", audio=None)))
    say(page, "hello")
    assert "heard no words" in problem_text(page)
    assert words(page, ".robot") == []


def test_a_failed_turn_shows_the_apology_and_why(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    error = {"code": "llm_timeout", "message": "Thinking took too long.", "retryable": True}
    reply = "ごめんね、うまく考えられなかったよ。"
    server.answers.append((200, turn(status="failed", outcome="failed", reply=reply, emotion="doubt", error=error)))
    say(page, "hello")
    assert problem_text(page) == "Thinking took too long. Say it again."
    find(page, "#language").click()
    assert problem_text(page) == "考えるのに時間がかかりすぎました。もう一度話しかけてください。（llm_timeout）"
    assert words(page, ".robot .words") == [reply]
    assert find(page, "#face").get_attribute("data-emotion") == "doubt"


def test_every_error_is_told_in_japanese_or_in_english_and_never_in_both(open_page: Any) -> None:
    page = open_page(language="ja-JP")
    wait_for(lambda: find(page, "#server").text == "準備完了")
    script = """
        const [problems, language, done] = arguments;
        import("/page.js").then(({ Problem, showLanguage, showProblem }) => {
          showLanguage(language);
          done(problems.map(([code, message, hint]) => {
            showProblem(new Problem(code, message, hint));
            return document.querySelector("#problem").textContent;
          }));
        });"""
    # As an answer of HTTP has it, as a turn has it, and as a live error has it.
    problems = []
    for code in NEXT_STEPS:
        problems += [(code, "It broke.", next_step(code)), (code, "It broke.", "")]
        problems += [(code, DeviceError.of(StackChanError("It broke.", code=code)).message, "")]
    for told in page.execute_async_script(script, problems, "ja"):
        assert JAPANESE.search(told), told
        assert "It broke." not in told
    for told in page.execute_async_script(script, problems, "en"):
        assert not JAPANESE.search(told), told


def test_words_that_run_from_right_to_left_turn_nothing_else_around(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    server.trace = {"spans": [], "marks": {}}
    server.answers.append((200, turn(transcript="שלום \u202eabc", reply="Hello \u2066there")))
    say(page, "hello")
    wait_for(lambda: words(page, ".robot .words"))
    find(page, "#recent summary").click()
    apart = "return [...document.querySelectorAll('#recent-turns .quiet bdi')].map((one) => one.textContent)"
    assert wait_for(lambda: page.execute_script(apart)) == ["שלום \u202eabc", "Hello \u2066there"]


@pytest.mark.parametrize(
    ("status", "code", "shown"),
    [
        (409, "device_busy", "still busy"),
        (429, "overloaded", "Too many people"),
        (422, "something_new", "Nobody knows this code. Turn it off and on."),
    ],
)
def test_a_refusal_is_explained_and_the_words_come_back(
    open_page: Any, server: Any, problem: Any, status: int, code: str, shown: str
) -> None:
    page = open_page()
    server.answers.append((status, problem(code, "Nobody knows this code.", "Turn it off and on.")))
    say(page, "hello")
    assert shown in problem_text(page)
    assert find(page, "#line").get_property("value") == "hello"
    find(page, "#send").click()
    wait_for(lambda: words(page, ".robot"))
    assert not find(page, "#problem").is_displayed()


def test_the_start_of_the_server_is_followed(open_page: Any, server: Any) -> None:
    server.ready = (503, {"status": "starting"})
    page = open_page()
    wait_for(lambda: "loads its models" in find(page, "#server").text)
    server.ready = (200, {"status": "ready"})
    wait_for(lambda: find(page, "#server").text == "Ready")


def test_a_failed_start_says_what_to_do(open_page: Any, server: Any) -> None:
    error = {"code": "model_missing", "message": "A model is missing.", "retryable": False, "hint": "Pull it."}
    server.ready = (503, {"status": "failed", "error": error})
    page = open_page()
    assert problem_text(page) == "A model is missing. Pull it."
    assert find(page, "#server").text == "The server could not start."


def test_a_server_that_went_away_is_noticed(open_page: Any, server: Any) -> None:
    page = open_page()
    wait_for(lambda: find(page, "#server").text == "Ready")
    server.close()
    say(page, "hello")
    assert "Is it still running?" in problem_text(page)
    wait_for(lambda: find(page, "#server").text == "The server does not answer.")
    assert page.execute_script("return document.querySelector('#face').dataset.doing") == "lost"


def test_words_of_the_server_are_never_markup(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page()
    markup = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    server.answers.append((200, turn(transcript=markup, reply=markup, emotion=markup, action="__proto__")))
    say(page, "hello")
    wait_for(lambda: words(page, ".robot .words") == [markup])
    assert words(page, ".mine .words") == [markup]
    assert page.execute_script("return document.querySelectorAll('#log img, #log script').length") == 0
    assert find(page, "#face").get_attribute("data-emotion") == "neutral"


def test_japanese_browsers_get_japanese_and_the_switch_is_remembered(open_page: Any) -> None:
    page = open_page(language="ja-JP")
    assert find(page, "html").get_attribute("lang") == "ja"
    assert find(page, "#send").text == "送る"
    say(page, "こんにちは")
    wait_for(lambda: words(page, ".robot .tag") == ["うれしい", "うなずく"])
    find(page, "#language").click()
    assert find(page, "#send").text == "Send"
    assert words(page, ".robot .tag") == ["happy", "nods"]
    page.refresh()
    assert find(page, "#send").text == "Send"


def test_each_emotion_has_a_picture_of_its_own_and_the_mouth_opens(open_page: Any) -> None:
    page = open_page()
    pictures = page.execute_async_script("""
        const done = arguments[0];
        import("/face.js").then(({ Face }) => {
            const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
            const face = new Face(svg);
            const picture = () => [...svg.querySelectorAll("path")].map((p) => p.getAttribute("d")).join();
            const shown = {};
            for (const id of ["neutral", "happy", "sad", "angry", "doubt", "sleepy", "surprised", "unknown"]) {
                face.setEmotion(id);
                shown[id] = picture();
                face.setMouth(0.7);
                shown[id + " speaking"] = picture();
            }
            done(shown);
        });""")
    assert pictures["unknown"] == pictures["neutral"]
    assert len(set(pictures.values())) == 14


def test_nothing_moves_when_the_person_asked_for_less_motion(open_page: Any, server: Any, turn: Any) -> None:
    page = open_page(calm=True)
    server.answers.append((200, turn(action="dance")))
    say(page, "hello")
    wait_for(lambda: words(page, ".robot .tag") == ["happy", "dances"])
    assert page.execute_script("return document.getAnimations().length") == 0


@pytest.mark.parametrize("language", ["en", "ja"])
def test_it_fits_a_phone(open_page: Any, server: Any, turn: Any, language: str) -> None:
    page = open_page(size=(360, 640), language=language)
    server.answers.append((200, turn(reply="あ" * 300 + "w" * 300)))
    say(page, "w" * 200)
    wait_for(lambda: words(page, ".robot"))
    assert page.execute_script("return document.documentElement.scrollWidth") == 360
    assert page.execute_script("return document.documentElement.scrollHeight") <= 640
    for css in ("#line", "#send", "#record", "#open", "#choose"):
        assert find(page, css).rect["height"] >= 44, css


def test_everything_that_can_be_pressed_has_a_name_and_is_reached_by_tab(open_page: Any, server: Any) -> None:
    page = open_page()
    say(page, "hello")
    wait_for(lambda: words(page, ".robot"))
    named = {
        node.get_attribute("id") or node.get_attribute("class"): node.accessible_name
        for node in page.find_elements("css selector", "button, input, [role]")
        if node.is_displayed() and node.aria_role not in ("status", "alert")
    }
    assert all(named.values()), named
    wanted = {
        "new",
        "language",
        "line",
        "send",
        "record",
        "open",
        "choose",
        "replay",
        "log",
        "face",
        "stop",
        "volume",
        "mute",
    }
    assert wanted <= set(named)
    tabbable = page.execute_script(
        "return [...document.querySelectorAll('button, input')].every((n) => n.tabIndex === 0)"
    )
    assert tabbable
