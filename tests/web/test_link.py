"""The page as a device of the native protocol, against a server that plays a script."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.devices.native import decode_device
from server.devices.wire import AudioFormat, AudioFrame, DeviceHello, Ignored
from tests.web.browser import (
    audio_clock,
    doing,
    escape,
    find,
    heard,
    key,
    mouse,
    problem_text,
    say,
    wait_for,
    watch,
    words,
)

pytestmark = [pytest.mark.integration, pytest.mark.browser]

VECTORS = Path(__file__).parents[2] / "firmware" / "vectors"
VOICE_MS = 60


def tone(ms: int, hertz: float = 300.0) -> bytes:
    time_s = np.arange(24 * ms) / 24000
    return (np.sin(2 * np.pi * hertz * time_s) * 12000).astype("<i2").tobytes()


def connected(server: Any, place: int = 0) -> Any:
    return wait_for(lambda: len(server.live) > place and server.live[place])


def got(live: Any, kind: str) -> list[dict[str, Any]]:
    return [message for message in live.got if message["type"] == kind]


def unlocked(page: Any) -> Any:
    """Somebody has clicked on the page: it may make sound."""
    find(page, "h1").click()
    return page


def speak(live: Any, turn_id: int, ms: int, *sentences: str) -> None:
    """The beginning of an answer: sentences in equal parts of its sound, all at once."""
    live.say(type="state", value="thinking")
    live.say(type="state", value="speaking")
    live.say(type="speech", state="start", turn_id=turn_id)
    share = ms // len(sentences) // VOICE_MS
    for place, sentence in enumerate(sentences):
        live.say(type="speech", state="sentence", turn_id=turn_id, text=sentence)
        levels = [0.9 if place % 2 else 0.3] * (share * VOICE_MS // 40)
        start_ms = place * share * VOICE_MS
        live.say(type="levels", turn_id=turn_id, start_ms=start_ms // 40 * 40, step_ms=40, values=levels)
        for _ in range(share):
            live.sound(tone(VOICE_MS))


def test_it_says_who_it_is_as_the_server_reads_it(open_page: Any, server: Any) -> None:
    open_page()
    hello = connected(server).got[0]
    ignored = Ignored()
    message = decode_device(json.dumps(hello), ignored)
    assert isinstance(message, DeviceHello)
    assert (ignored.types, ignored.fields) == (0, 0)
    assert message.audio == AudioFormat("pcm16", 16000, 20)
    assert message.voice == AudioFormat("pcm16", 24000, VOICE_MS)
    assert message.capabilities.commands == ("volume", "mute")
    assert message.capabilities.echo_cancel
    assert message.capabilities.levels
    assert re.fullmatch(r"web-[0-9a-f]{16}", message.device_id)


def test_it_reads_and_passes_over_what_every_device_must(open_page: Any) -> None:
    page = open_page()
    texts = [case["text"] for case in json.loads((VECTORS / "server_messages.json").read_text(encoding="utf-8"))]
    read = """
        const [texts, done] = arguments;
        import("/protocol.js").then(({ read }) => done(texts.map((text) => read(text)?.type ?? null)));"""
    expected = [json.loads(text)["type"] for text in texts]
    # It asks for PCM and would not know what to do with anything else.
    opus = [json.loads(text).get("audio", {}).get("format") == "opus" for text in texts]
    found = page.execute_async_script(read, texts)
    assert found == [None if is_opus else kind for kind, is_opus in zip(expected, opus, strict=True)]
    bad = ["", "{", "[]", "null", '{"type":"tomorrow"}', '{"type":"__proto__"}', '{"type":"state","value":"dancing"}']
    assert page.execute_async_script(read, bad) == [None] * len(bad)


def test_held_sound_comes_as_frames_of_20_ms_until_the_button_is_let_go(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    button = find(page, "#record")
    mouse(page, "mousePressed", button)
    wait_for(lambda: got(live, "listen"))
    assert got(live, "listen") == [{"type": "listen", "state": "start", "mode": "manual"}]
    assert button.get_attribute("aria-pressed") == "true"
    before, began = live.frames, time.monotonic()
    wait_for(lambda: live.frames >= before + 75)
    assert time.monotonic() - began == pytest.approx(1.5, abs=1.0)
    mouse(page, "mouseReleased", button)
    wait_for(lambda: len(got(live, "listen")) == 2)
    assert got(live, "listen")[1] == {"type": "listen", "state": "stop"}
    assert button.get_attribute("aria-pressed") == "false"
    after = live.frames
    time.sleep(0.3)
    assert live.frames == after


def test_the_microphone_is_brought_to_16_khz_without_loss(open_page: Any) -> None:
    page = open_page()
    for rate_hz in (44100, 48000, 16000, 8000):
        made = page.execute_async_script(
            """
            const [rateHz, done] = arguments;
            import("/resampler.js").then(({ Resampler }) => {
                const resampler = new Resampler(rateHz, 16000);
                const made = (hertz) => {
                    const out = [];
                    for (let start = 0; start < rateHz; start += 128) {
                        const at = (index) => Math.sin((2 * Math.PI * hertz * (start + index)) / rateHz);
                        out.push(...resampler.push(Float32Array.from({ length: 128 }, (_, index) => at(index))));
                    }
                    return out;
                };
                done([made(440), made(11000)]);
            });""",
            rate_hz,
        )
        low, high = (np.array(samples) for samples in made)
        assert len(low) == pytest.approx(16000, abs=130)
        middle = low[2000:14000]
        clean = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
        assert np.argmax(clean) * 16000 / len(middle) == pytest.approx(440, abs=2)
        assert np.sqrt(2 * np.mean(middle**2)) == pytest.approx(1.0, rel=0.01)
        if rate_hz > 22000:  # what 16 kHz cannot hold must not come back as something else
            assert np.abs(high[2000:14000]).max() < 0.01


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotFoundError'); }", "no mic"),
        ("mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotAllowedError'); }", "Allow"),
        ("mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotReadableError'); }", "Another prog"),
        ("mediaDevices.x = 0; Object.defineProperty(window, 'isSecureContext', { value: false })", "--tls"),
    ],
)
def test_why_there_is_no_microphone_is_told(open_page: Any, server: Any, broken: str, told: str) -> None:
    page = open_page()
    live = connected(server)
    page.execute_script(f"navigator.{broken}")
    for css in ("#record", "#open"):
        mouse(page, "mousePressed", find(page, css))
        mouse(page, "mouseReleased", find(page, css))
        assert told in problem_text(page)
        wait_for(lambda css=css: find(page, css).get_attribute("aria-pressed") == "false")
        page.execute_script("document.querySelector('#problem').hidden = true")
    assert got(live, "listen") == []


def test_space_holds_to_talk_anywhere_but_in_a_field(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    find(page, "#line").send_keys("a b")
    assert find(page, "#line").get_property("value") == "a b"
    page.execute_script("document.activeElement.blur()")
    key(page, "rawKeyDown")
    wait_for(lambda: got(live, "listen"))
    time.sleep(0.5)
    key(page, "keyUp")
    wait_for(lambda: len(got(live, "listen")) == 2)
    # Pressed shortly it begins, and pressed once more it ends: not everybody can hold a key.
    for count in (3, 4):
        key(page, "rawKeyDown")
        key(page, "keyUp")
        wait_for(lambda count=count: len(got(live, "listen")) == count)
        time.sleep(0.5)
        assert len(got(live, "listen")) == count
    assert [message["state"] for message in got(live, "listen")] == ["start", "stop"] * 2


def test_escape_takes_back_what_is_being_said(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    key(page, "rawKeyDown")
    wait_for(lambda: live.frames > 5)
    escape(page)
    wait_for(lambda: got(live, "abort"))
    assert [message["state"] for message in got(live, "listen")] == ["start"]
    assert find(page, "#record").get_attribute("aria-pressed") == "false"


def test_a_voice_is_played_whole_with_captions_mouth_and_acknowledgements(
    open_page: Any, server: Any, turn: Any
) -> None:
    page = unlocked(open_page())
    live = connected(server)
    seen = watch(page)
    live.say(type="transcript", text="元気？", final=True)
    live.say(type="face", emotion="surprised")
    live.say(type="action", id="tilt")
    speak(live, 7, 2400, "うん、", "元気だよ。")
    played = wait_for(lambda: [m for m in got(live, "played") if m["ms"] == 2400] and got(live, "played"))
    assert [message["ms"] for message in played] == sorted({message["ms"] for message in played})
    assert {message["turn_id"] for message in played} == {7}
    assert any(0 < message["ms"] < 2400 for message in played)
    live.say(type="speech", state="stop", turn_id=7)
    live.say(type="turn", **turn(turn_id=7, reply="うん、元気だよ。", emotion="surprised", action="tilt"))
    live.say(type="state", value="idle")
    wait_for(lambda: words(page, ".robot .tag") == ["surprised", "tilts its head"])
    assert words(page, ".mine .words") == ["元気？"]
    assert words(page, ".robot .words") == ["うん、元気だよ。"]
    wait_for(lambda: doing(page) == "")
    assert [caption for caption in seen()["captions"] if caption] == ["うん、", "元気だよ。"]
    assert seen()["doing"] == ["thinking", "speaking", ""]
    assert [state for state in seen()["states"] if state] == ["Thinking …", "Speaking …"]
    assert len(set(seen()["mouths"])) >= 3  # shut, a little open, wide open
    face = find(page, "#face")
    assert (face.get_attribute("data-emotion"), face.get_attribute("data-action")) == ("surprised", "tilt")
    _, rate_hz, sound = heard(page)
    loud = np.flatnonzero(np.abs(sound) > 600)
    assert (loud[-1] - loud[0]) / rate_hz == pytest.approx(2.4, abs=0.1)


@pytest.mark.parametrize("how", ["escape", "click", "button"])
def test_it_is_silent_at_once_and_says_how_much_was_heard(open_page: Any, server: Any, turn: Any, how: str) -> None:
    page = unlocked(open_page())
    live = connected(server)
    speak(live, 8, 6000, "一つ目の文。", "二つ目の文。")
    wait_for(lambda: any(message["ms"] > 400 for message in got(live, "played")))
    if how == "escape":
        escape(page)
    else:
        find(page, "#face" if how == "click" else "#stop").click()
    at = audio_clock(page)
    wait_for(lambda: got(live, "abort"))
    kinds = [message["type"] for message in live.got]
    assert kinds.index("abort") == len(kinds) - 1 - kinds[::-1].index("played") + 1  # what was heard, then the end
    for _ in range(5):
        live.sound(tone(VOICE_MS))  # was on its way
    live.say(type="speech", state="stop", turn_id=8)
    live.say(type="turn", **turn(turn_id=8, reply="一つ目の", outcome="interrupted"))
    live.say(type="state", value="idle")
    wait_for(lambda: "interrupted" in words(page, ".robot .tag"))
    began, rate_hz, sound = heard(page, 0.5)
    loud_end = began + np.flatnonzero(np.abs(sound) > 600)[-1] / rate_hz
    assert loud_end <= at + 0.2
    assert got(live, "played")[-1]["ms"] < 5000
    assert words(page, ".robot .words") == ["一つ目の"]


def test_the_servers_stop_is_silence_too(open_page: Any, server: Any) -> None:
    page = unlocked(open_page())
    live = connected(server)
    speak(live, 8, 6000, "長い話。")
    wait_for(lambda: any(message["ms"] > 400 for message in got(live, "played")))
    live.say(type="speech", state="stop", turn_id=8)
    live.say(type="state", value="listening")
    wait_for(lambda: find(page, "#stop").get_attribute("aria-disabled") == "true")
    at = audio_clock(page)
    began, rate_hz, sound = heard(page, 0.5)
    assert began + np.flatnonzero(np.abs(sound) > 600)[-1] / rate_hz <= at + 0.2


def test_typed_words_end_what_the_robot_says(open_page: Any, server: Any, problem: Any) -> None:
    page = unlocked(open_page())
    live = connected(server)
    speak(live, 9, 6000, "長い話。")
    wait_for(lambda: got(live, "played"))
    # The turn needs a moment to end, and until then the device is busy.
    server.answers += [(409, problem("device_busy", "Still in a turn."))] * 2
    say(page, "やあ")
    wait_for(lambda: words(page, ".robot .tag"))
    assert got(live, "abort") == [{"type": "abort", "reason": "text"}]
    assert not find(page, "#problem").is_displayed()


def test_before_a_click_the_voice_is_shown_and_why_it_is_not_heard(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    speak(live, 10, 600, "ピピピ、時間だよ。")
    assert "no sound yet" in problem_text(page)
    wait_for(lambda: words(page, ".robot .words") == ["ピピピ、時間だよ。"])
    find(page, "h1").click()
    wait_for(lambda: not find(page, "#problem").is_displayed())


def test_the_server_turns_volume_and_microphone(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    live.say(type="command", id=1, name="volume", args={"percent": 40})
    live.say(type="command", id=2, name="mute", args={"on": True})
    live.say(type="command", id=3, name="fly")
    live.say(type="command", id=4, name="volume", args={"percent": "loud"})
    live.say(type="command", id=5, name="volume", args={"change": -30})
    live.say(type="command", id=6, name="volume", args={"change": -30})
    live.say(type="command", id=7, name="volume", args={})
    wait_for(lambda: len(got(live, "result")) == 7)
    assert [(m["id"], m["ok"], m.get("value")) for m in got(live, "result")] == [
        (1, True, {"percent": 40}), (2, True, None), (3, False, "unknown_command"), (4, False, "arguments_invalid"),
        (5, True, {"percent": 10}), (6, True, {"percent": 0}), (7, False, "arguments_invalid"),
    ]  # fmt: skip
    assert find(page, "#volume").get_property("value") == "0"
    assert find(page, "#mute-microphone").get_attribute("aria-pressed") == "true"


def test_an_open_microphone_listens_again_after_each_cut_and_is_shut_by_its_button(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    find(page, "#open").click()
    wait_for(lambda: live.frames > 10)
    assert got(live, "listen") == [{"type": "listen", "state": "start", "mode": "realtime"}]
    live.say(type="state", value="listening")
    wait_for(lambda: find(page, "#state").text == "Listening …")
    live.cut()
    again = connected(server, 1)
    assert again.got[0]["session_id"] == "01KB7Q3V9G2M4N6P8R0S2T4V6X"
    wait_for(lambda: again.frames > 10)
    assert got(again, "listen") == [{"type": "listen", "state": "start", "mode": "realtime"}]
    find(page, "#open").click()
    wait_for(lambda: len(got(again, "listen")) == 2)
    after = again.frames
    time.sleep(0.3)
    assert again.frames == after


def test_who_is_replaced_does_not_come_back_by_itself(open_page: Any, server: Any) -> None:
    page = open_page()
    connected(server).hang_up(4000)
    wait_for(lambda: "another tab" in find(page, "#server").text)
    assert doing(page) == "lost"
    time.sleep(2.5)
    assert len(server.live) == 1
    assert find(page, "#again").text == "Use it here"
    find(page, "#again").click()
    connected(server, 1)
    wait_for(lambda: find(page, "#server").text == "Ready")
    assert doing(page) == ""


def test_it_waits_longer_each_time_and_tries_at_once_when_asked(open_page: Any, server: Any) -> None:
    page = open_page()
    server.refusal = ("overloaded", 1013)
    seen = watch(page)
    connected(server).cut()
    lost = "The link is lost. Next try in {} s."
    wait_for(lambda: find(page, "#server").text == lost.format(4))
    assert [link for link in seen()["links"] if "lost" in link] == [lost.format(seconds) for seconds in (1, 2, 4)]
    assert doing(page) == "lost"
    server.refusal = None
    find(page, "#again").click()
    wait_for(lambda: find(page, "#server").text == "Ready")


def test_sound_that_was_held_up_ends_no_link_for_good(open_page: Any, server: Any) -> None:
    open_page()
    (live := connected(server)).say(type="error", code="audio_too_fast", message="Too fast.", retryable=False)
    live.hang_up(1008)
    assert connected(server, 1)


def test_what_a_turn_failed_by_is_not_why_a_later_link_is_lost(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    live.say(type="error", code="overloaded", message="Too many turns.", retryable=True)
    wait_for(lambda: problem_text(page))
    (live.say(type="state", value="listening"), live.cut())
    wait_for(lambda: doing(page) == "lost")
    assert "many people" not in find(page, "#server").text
    assert connected(server, 1)


def test_a_broken_rule_is_told_and_not_broken_again(open_page: Any, server: Any) -> None:
    server.refusal = ("protocol_unsupported", 1008)
    page = open_page()
    assert "Load the page again" in problem_text(page)
    time.sleep(1.5)
    assert len(server.live) == 1


def test_frames_are_sound_to_the_server(open_page: Any) -> None:
    page = open_page()
    frame = page.execute_async_script("""
        const done = arguments[0];
        import("/protocol.js").then(({ FRAME_MS, WIRE_RATE_HZ }) => done((FRAME_MS * WIRE_RATE_HZ * 2) / 1000));""")
    assert isinstance(decode_device(bytes(frame), Ignored()), AudioFrame)
    assert frame == 640
