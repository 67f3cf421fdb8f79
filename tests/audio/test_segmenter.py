"""Where speech begins and ends: arithmetic on probabilities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.audio.segmenter import SegmenterSettings, SpeechSegmenter, trim

pytestmark = pytest.mark.unit

WINDOW_SECONDS = 0.032


def trimmed(probabilities: list[float], settings: SegmenterSettings | None = None) -> tuple[float, float] | None:
    return trim(probabilities, WINDOW_SECONDS, len(probabilities) * WINDOW_SECONDS, settings)


def test_speech_keeps_pre_roll_and_hangover() -> None:
    # windows 20..39 are speech: 0.64 s to 1.28 s
    assert trimmed([0.0] * 20 + [0.9] * 20 + [0.0] * 40) == pytest.approx((0.34, 1.58))


def test_ends_stay_inside_the_recording() -> None:
    assert trimmed([0.9] * 10) == pytest.approx((0.0, 0.32))


@pytest.mark.parametrize("speech_windows", [3, 9])
def test_short_word_survives(speech_windows: int) -> None:
    """はい is about 300 ms: nine windows; three are enough."""
    assert trimmed([0.0] * 30 + [0.8] * speech_windows + [0.0] * 30) is not None


@pytest.mark.parametrize(
    ("probabilities", "begins"),
    [([0.6, 0.4, 0.4], True), ([0.4, 0.6, 0.4], False), ([0.4, 0.6, 0.4, 0.36], True), ([0.6, 0.3, 0.6], False)],
)
def test_a_short_word_need_be_certain_only_in_its_first_window(probabilities: list[float], begins: bool) -> None:
    segmenter = SpeechSegmenter()
    for probability in probabilities:
        segmenter.push(0.032, probability)
    assert segmenter.speaking is begins


@pytest.mark.parametrize(
    "probabilities",
    [[], [0.0] * 50, [0.49] * 50, [0.0, 0.9, 0.9, 0.0] * 20, [0.9, 0.3] * 30, [0.4] * 50],
    ids=["nothing", "silence", "nearly", "clicks", "flutter", "mumbling"],
)
def test_noise_is_nobody(probabilities: list[float]) -> None:
    assert trimmed(probabilities) is None


def test_pauses_inside_an_utterance_stay() -> None:
    span = trimmed([0.0] * 10 + [0.9] * 10 + [0.0] * 60 + [0.9] * 10 + [0.0] * 20)
    assert span == pytest.approx((10 * WINDOW_SECONDS - 0.3, 90 * WINDOW_SECONDS + 0.3))


def test_soft_windows_continue_speech_but_do_not_begin_it() -> None:
    assert trimmed([0.4] * 10 + [0.9] * 3 + [0.4] * 10 + [0.0] * 20) == pytest.approx(
        (10 * WINDOW_SECONDS - 0.3, 23 * WINDOW_SECONDS + 0.3)
    )


def test_a_click_after_the_end_does_not_lengthen_it() -> None:
    with_click = trimmed([0.9] * 10 + [0.0] * 30 + [0.9] * 2 + [0.0] * 30)
    assert with_click == pytest.approx((0.0, 10 * WINDOW_SECONDS + 0.3))


def test_a_stretch_ends_after_half_a_second_of_silence() -> None:
    segmenter = SpeechSegmenter()
    for probability in [0.9] * 5 + [0.0] * 15:
        segmenter.push(WINDOW_SECONDS, probability)
    assert segmenter.speaking
    assert segmenter.silence_seconds == pytest.approx(0.48)
    segmenter.push(WINDOW_SECONDS, 0.0)
    assert not segmenter.speaking


def test_settings_are_followed() -> None:
    settings = SegmenterSettings(start_windows=1, pre_roll_seconds=0.0, hangover_seconds=0.0, start_probability=0.2)
    assert trimmed([0.0] * 4 + [0.3] + [0.0] * 4, settings) == pytest.approx((4 * WINDOW_SECONDS, 5 * WINDOW_SECONDS))


@given(st.lists(st.floats(0, 1), max_size=200))
def test_a_span_is_always_inside_and_not_empty(probabilities: list[float]) -> None:
    span = trimmed(probabilities)
    if span is not None:
        assert 0.0 <= span[0] < span[1] <= len(probabilities) * WINDOW_SECONDS
