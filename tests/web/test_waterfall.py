"""The page shows where the time of a turn went, when it is asked to."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = [pytest.mark.integration, pytest.mark.browser]

TRACE = {
    "spans": [
        {"name": "queued", "start_ms": 0, "end_ms": 500},
        {"name": "llm", "start_ms": 500, "end_ms": 1500},
        {"name": "tts", "start_ms": 1000, "end_ms": 1200},
        {"name": "tts", "start_ms": 1600, "end_ms": 2000},
    ],
    "marks": {"words_stored": 510, "first_audio": 1100, "done": 2000},
    "llm": {"calls": 1, "prompt_tokens": 3570, "cached_tokens": 3561, "completion_tokens": 31},
}


def opened(page: Any) -> Any:
    """Say something, open the details of the answer, and return them once they are drawn."""
    page.find_element(By.ID, "line").send_keys("hi")
    page.find_element(By.ID, "send").click()
    details = WebDriverWait(page, 10).until(lambda page: page.find_elements(By.CSS_SELECTOR, ".robot details"))[0]
    details.find_element(By.TAG_NAME, "summary").click()
    WebDriverWait(page, 10).until(lambda _: details.find_elements(By.CSS_SELECTOR, "ul, p"))
    return details


def traces_asked_for(server: Any) -> list[str]:
    return [path for path, _, _ in server.requests if path.endswith("/trace")]


def test_the_stages_of_a_turn_stand_on_one_time_line(open_page: Any, server: Any) -> None:
    server.trace = TRACE
    page = open_page()
    details = opened(page)

    def bars(row: str) -> list[tuple[float, float]]:
        track = details.find_element(By.CSS_SELECTOR, f"li.{row} .track").rect
        rects = [bar.rect for bar in details.find_elements(By.CSS_SELECTOR, f"li.{row} .track span")]
        return [((bar["x"] - track["x"]) / track["width"], bar["width"] / track["width"]) for bar in rects]

    assert bars("queued") == [pytest.approx((0, 0.25), abs=0.02)]
    assert bars("llm") == [pytest.approx((0.25, 0.5), abs=0.02)]
    assert bars("tts") == [pytest.approx((0.5, 0.1), abs=0.02), pytest.approx((0.8, 0.2), abs=0.02)]
    assert bars("first_audio")[0][0] == pytest.approx(0.55, abs=0.02)
    assert [row.text.split("\n")[-1] for row in details.find_elements(By.TAG_NAME, "li")] == [
        "0.50", "1.00", "0.60", "0.51", "1.10",
    ]  # fmt: skip
    assert "tokens read: 3570 (from the cache: 3561)" in details.text

    page.find_element(By.ID, "language").click()
    assert "時間の内訳" in details.text
    assert "順番待ち" in details.text


def test_it_is_asked_for_once_and_only_when_opened(open_page: Any, server: Any) -> None:
    server.trace = TRACE
    page = open_page()
    details = opened(page)
    summary = details.find_element(By.TAG_NAME, "summary")
    summary.click()
    summary.click()
    assert traces_asked_for(server) == ["/v1/turns/384/trace"]
    assert len(details.find_elements(By.TAG_NAME, "ul")) == 1


@pytest.mark.parametrize(
    "trace",
    [
        {},
        {"spans": "x", "marks": None, "llm": None},
        {
            "spans": [
                None,
                5,
                {"name": "llm", "start_ms": 9, "end_ms": 3},
                {"name": "tts", "start_ms": -1, "end_ms": 1e300},
            ]
        },
        {"spans": [{"name": "<b>x</b>", "start_ms": 0, "end_ms": 1}], "marks": {"first_token": "soon"}},
    ],
)
def test_a_trace_without_times_says_so(open_page: Any, server: Any, trace: Any) -> None:
    server.trace = trace
    assert "This turn has no times." in opened(open_page()).text


def test_a_phone_has_room_for_it(open_page: Any, server: Any) -> None:
    server.trace = TRACE
    page = open_page(size=(360, 640))
    opened(page)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360


def test_what_is_said_live_shows_the_wait_for_its_end_apart(open_page: Any, server: Any, turn: Any) -> None:
    spans = [("silence", 0, 692), ("asr", 60, 500), ("receive", 692, 720), ("llm", 700, 1600)]
    server.trace = {
        "spans": [{"name": name, "start_ms": start, "end_ms": end} for name, start, end in spans],
        "marks": {"endpoint": 692},
    }
    # Heard while one waited: of the hearing nothing was left to wait for.
    times = {"silence": 692, "receive": 28, "asr": 440, "first_clause": 1500, "first_audio": 1600, "total": 2000}
    server.answers.append((200, turn(latency_ms=times)))
    page = open_page()
    details = opened(page)
    rows = {row.get_attribute("class"): row.text for row in details.find_elements(By.TAG_NAME, "li")}
    assert rows["silence"] == "is it over?\n0.69"
    assert rows["receive"] == "taking in\n0.03"
    assert rows["endpoint"] == "speech is over\n0.69"
    grown = page.execute_script(
        "return [...document.querySelectorAll('.bar span')].map((s) => [s.className, +s.style.flexGrow])"
    )
    assert grown == [["wait", 692], ["think", 808], ["voice", 100], ["rest", 400]]
    page.find_element(By.ID, "language").click()
    assert "話の終わり待ち 0.7 秒" in page.find_element(By.CSS_SELECTOR, ".latency").text
