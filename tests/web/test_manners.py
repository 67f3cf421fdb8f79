"""The page says what is so: a muted microphone, a link that is not there, a wait, an answer that nobody heard."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.web.browser import doing, find, key, mouse, problem_text, say, wait_for, words
from tests.web.test_link import connected, got, speak, unlocked

pytestmark = [pytest.mark.integration, pytest.mark.browser]

TOKEN = "a-token-for-tests"


def click(page: Any, css: str) -> None:
    mouse(page, "mousePressed", find(page, css))
    mouse(page, "mouseReleased", find(page, css))


@pytest.mark.parametrize(
    ("language", "shown", "told", "button"),
    [("en", "muted", "microphone is muted", "is muted"), ("ja", "ミュート中", "解除してから", "ミュート中")],
)
def test_who_is_muted_is_told_so_and_never_that_it_listens(
    open_page: Any, server: Any, language: str, shown: str, told: str, button: str
) -> None:
    page = open_page(language=language)
    live = connected(server)
    click(page, "#open")
    wait_for(lambda: live.frames > 5)
    live.say(type="state", value="listening")
    wait_for(lambda: doing(page) == "listening")
    click(page, "#mute-microphone")
    wait_for(lambda: doing(page) == "muted")
    assert shown in find(page, "#state").text
    assert button in find(page, "#mute-microphone").text
    click(page, "#open")
    wait_for(lambda: doing(page) == "")
    # Held now, nothing would be heard.
    key(page, "rawKeyDown")
    assert told in problem_text(page)
    key(page, "keyUp")
    assert [message["mode"] for message in got(live, "listen") if "mode" in message] == ["realtime"]
    # Muted while one speaks: no words, and why.
    click(page, "#mute-microphone")
    assert not find(page, "#problem").is_displayed()
    key(page, "rawKeyDown")
    wait_for(lambda: len(got(live, "listen")) == 3)
    live.say(type="command", id=1, name="mute", args={"on": True})
    wait_for(lambda: got(live, "result"))
    time.sleep(0.5)
    key(page, "keyUp")
    wait_for(lambda: len(got(live, "listen")) == 4)
    live.say(type="state", value="idle")
    assert told in problem_text(page)


def test_a_silent_loudspeaker_says_so_on_its_button(open_page: Any) -> None:
    page = open_page()
    for shown in ("Muted", "Mute"):
        click(page, "#mute")
        assert find(page, "#mute").text == shown
    find(page, "#language").click()
    click(page, "#mute")
    assert find(page, "#mute").text == "消音中"


def test_the_right_token_takes_back_what_the_wrong_one_caused(open_page: Any, server: Any) -> None:
    server.token = TOKEN
    page = open_page(language="ja")
    for given in ("wrong", TOKEN):
        wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
        assert "今表示されている" in find(page, "#token-where").text
        find(page, "#token").send_keys(given + "\n")
        wait_for(lambda given=given: given == TOKEN or "登録されていません" in find(page, "#token-why").text)
    wait_for(lambda: find(page, "#server").text == "準備完了")
    wait_for(lambda: not find(page, "#problem").is_displayed())


def test_a_token_that_is_given_for_words_is_good_for_the_voice_too(open_page: Any, server: Any) -> None:
    server.token = TOKEN
    page = open_page()
    wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
    find(page, "#token-dialog [value=cancel]").click()
    say(page, "hello")
    wait_for(lambda: find(page, "#token-dialog").get_attribute("open"))
    find(page, "#token").send_keys(TOKEN + "\n")
    wait_for(lambda: words(page, ".robot"))
    wait_for(lambda: find(page, "#server").text == "Ready")
    assert not find(page, "#again").is_displayed()


@pytest.mark.parametrize("css", ["#open", "#mute", "#stop", "#new", "#language", "#recent summary", "#volume"])
def test_space_talks_after_a_click_on_anything_but_the_field(open_page: Any, server: Any, css: str) -> None:
    page = open_page()
    live = connected(server)
    click(page, css)
    if css == "#open":
        wait_for(lambda: got(live, "listen"))
        click(page, css)
        wait_for(lambda: len(got(live, "listen")) == 2)
    live = connected(server, 1) if css == "#new" else live
    before = len(got(live, "listen"))
    wait_for(lambda: find(page, "#server").text in ("Ready", "準備完了"))
    key(page, "rawKeyDown")
    wait_for(lambda: len(got(live, "listen")) > before)
    assert got(live, "listen")[-1] == {"type": "listen", "state": "start", "mode": "manual"}
    time.sleep(0.5)
    key(page, "keyUp")
    wait_for(lambda: got(live, "listen")[-1]["state"] == "stop")


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_answer_of_which_nothing_was_heard_claims_no_words(
    open_page: Any, server: Any, turn: Any, has_begun: bool
) -> None:
    page = unlocked(open_page())
    live = connected(server)
    if has_begun:
        speak(live, 8, 6000, "一つ目の文。", "二つ目の文。")
        wait_for(lambda: words(page, ".robot .words") == ["一つ目の文。"])
    else:
        live.say(type="state", value="thinking")
    live.say(type="turn", **turn(turn_id=8, reply="", emotion="neutral", action="none", outcome="interrupted"))
    live.say(type="state", value="idle")
    wait_for(lambda: words(page, ".robot .tag") == ["interrupted"])
    assert words(page, ".robot .words") == ["(stopped before a word was heard)"]
    assert words(page, ".robot .replay") == []
    find(page, "#language").click()
    assert words(page, ".robot .words") == ["（話し始める前に止まりました）"]


def test_a_replaced_page_opens_no_microphone_and_keeps_none_open(open_page: Any, server: Any) -> None:
    page = open_page()
    live = connected(server)
    click(page, "#open")
    wait_for(lambda: live.frames > 5)
    live.hang_up(4000)
    wait_for(lambda: "another tab" in find(page, "#server").text)
    assert find(page, "#open").get_attribute("aria-pressed") == "false"
    for press in ("#open", "#record"):
        click(page, press)
        assert "Use it here" in problem_text(page)
        assert find(page, press).get_attribute("aria-pressed") == "false"
        page.execute_script("document.querySelector('#problem').hidden = true")


@pytest.mark.parametrize(("calm", "least", "language"), [(False, 4, "en"), (True, 5, "ja")])
def test_a_long_wait_counts_its_seconds(open_page: Any, server: Any, calm: bool, least: int, language: str) -> None:
    page = open_page(calm=calm, language=language)
    live = connected(server)
    wait_for(lambda: got(live, "hello"))
    # Seconds of waiting in no time.
    page.execute_script(
        "window.past = 0; const now = performance.now.bind(performance); performance.now = () => now() + past"
    )
    live.say(type="state", value="thinking")
    wait_for(lambda: doing(page) == "thinking")
    time.sleep(0.6)
    assert find(page, "#elapsed").text == ""
    page.execute_script(f"past = {least * 1000}")
    unit = "s" if language == "en" else "秒"
    assert wait_for(lambda: find(page, "#elapsed").text) == f"{least} {unit}"
    assert find(page, "#elapsed").get_attribute("aria-hidden") == "true"
    live.say(type="state", value="idle")
    wait_for(lambda: find(page, "#elapsed").text == "")


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("size", [(320, 568), (360, 640), (640, 360)])
def test_nothing_falls_off_a_phone_with_the_longest_words_and_the_most_buttons(
    open_page: Any, server: Any, turn: Any, language: str, size: tuple[int, int]
) -> None:
    page = open_page(language=language, size=size)
    live = connected(server)
    server.answers.append((200, turn(reply="あ" * 300 + "w" * 300)))
    say(page, "w" * 200)
    wait_for(lambda: words(page, ".robot"))
    assert find(page, "header").rect["height"] < 60  # one row
    page.execute_script("document.querySelector('#mute').click()")
    live.say(type="command", id=1, name="mute", args={"on": True})
    wait_for(lambda: find(page, "#mute-microphone").is_displayed())
    page.execute_async_script("""
        const done = arguments[0];
        import("/page.js").then(({ Problem, showProblem }) => (showProblem(new Problem("mic_insecure")), done()));""")
    outside = """
        const out = [...document.querySelectorAll("button, input, #problem, #face, #log")].filter((node) => {
          const box = node.getBoundingClientRect();
          return box.width && !node.closest("#log *, dialog") && (box.right > innerWidth || box.bottom > innerHeight);
        });
        const { scrollWidth, scrollHeight } = document.documentElement;
        return [out.map((node) => node.id), scrollWidth - innerWidth, scrollHeight - innerHeight];"""
    assert page.execute_script(outside) == [[], 0, 0]
    assert find(page, "#problem").rect["height"] >= 40
    assert find(page, "#log").rect["height"] >= 40
