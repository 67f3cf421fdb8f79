"""Where utterances of a live stream begin, pause and end: arithmetic on probabilities."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.endpointing import (
    Endpointer,
    EndpointEvent,
    EndpointSettings,
    SilenceNoticed,
    SpeechResumed,
    SpeechStarted,
    UtteranceEnded,
)
from server.audio.segmenter import SegmenterSettings

pytestmark = pytest.mark.unit

WINDOW = 0.032


def pushed(endpointer: Endpointer, probabilities: list[float], seconds: float = WINDOW) -> list[EndpointEvent]:
    return [event for probability in probabilities for event in endpointer.push(seconds, probability)]


def heard(probabilities: list[float], **changes: float) -> list[EndpointEvent]:
    return pushed(Endpointer(with_settings(**changes)), probabilities)


def with_settings(**changes: float) -> EndpointSettings:
    own = {name: changes.pop(name) for name in ("notice_silence_seconds", "longest_seconds") if name in changes}
    return EndpointSettings(SegmenterSettings(**changes), **own)  # type: ignore[arg-type]


def kinds(events: list[EndpointEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_one_utterance_from_start_to_end() -> None:
    # windows 20..39 are speech: 0.64 s to 1.28 s; 1 silent window is noticed, 16 end it
    started, silence, ended = heard([0.0] * 20 + [0.9] * 20 + [0.0] * 40)
    assert started == SpeechStarted(pytest.approx(0.34), pytest.approx(23 * WINDOW))
    assert silence == SilenceNoticed(pytest.approx(41 * WINDOW), pytest.approx(1.28))
    assert ended == UtteranceEnded(
        pytest.approx(0.34), pytest.approx(1.58), False, pytest.approx(1.28), pytest.approx(56 * WINDOW)
    )


def test_speech_that_goes_on_takes_the_silence_back() -> None:
    events = heard([0.9] * 10 + [0.0] * 12 + [0.9] * 10 + [0.0] * 20)
    assert kinds(events) == ["SpeechStarted", "SilenceNoticed", "SpeechResumed", "SilenceNoticed", "UtteranceEnded"]
    assert events[2] == SpeechResumed(pytest.approx(23 * WINDOW))
    assert events[-1].speech_end_seconds == pytest.approx(32 * WINDOW)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ([0.48, 0.1, 0.0], ["SilenceNoticed"]),  # steep: at once
        ([0.48, 0.4, 0.1], ["SilenceNoticed", "SpeechResumed", "SilenceNoticed"]),  # it was no end, and then one
        ([0.48, 0.9, 0.9], ["SilenceNoticed", "SpeechResumed"]),
        ([0.55, 0.9, 0.9], []),  # as certain as speech that begins
        ([0.7, 0.45, 0.45], []),  # fades
    ],
)
def test_a_steep_fall_is_a_silence_before_it_is_one(after: list[float], told: list[str]) -> None:
    assert kinds(heard([0.9] * 10 + after)) == ["SpeechStarted", *told]
    waits_longer = kinds(heard([0.9] * 10 + after[:2], notice_silence_seconds=0.06))
    assert waits_longer == ["SpeechStarted"]


def test_one_silent_window_is_a_silence_unless_more_is_asked_for() -> None:
    windows = [0.9] * 10 + [0.0] + [0.9] * 10
    assert kinds(heard(windows)) == ["SpeechStarted", "SilenceNoticed", "SpeechResumed"]
    assert kinds(heard(windows, notice_silence_seconds=0.06)) == ["SpeechStarted"]


@pytest.mark.parametrize("speech_windows", [3, 9])
def test_short_word_is_an_utterance(speech_windows: int) -> None:
    """はい is about 300 ms: nine windows; three are enough."""
    events = heard([0.0] * 30 + [0.8] * speech_windows + [0.0] * 30)
    assert kinds(events) == ["SpeechStarted", "SilenceNoticed", "UtteranceEnded"]


@pytest.mark.parametrize(
    "probabilities",
    [[], [0.0] * 50, [0.49] * 50, [0.0, 0.9, 0.9, 0.0] * 20, [0.9, 0.3] * 30, [0.4] * 50],
    ids=["nothing", "silence", "nearly", "clicks", "flutter", "mumbling"],
)
def test_noise_is_nobody(probabilities: list[float]) -> None:
    endpointer = Endpointer()
    assert pushed(endpointer, probabilities) == []
    assert endpointer.finish() == ()


@pytest.mark.parametrize(("pause_windows", "utterances"), [(10, 1), (15, 1), (16, 2), (30, 2)])
def test_a_pause_ends_an_utterance_only_when_it_is_long_enough(pause_windows: int, utterances: int) -> None:
    events = heard([0.9] * 10 + [0.0] * pause_windows + [0.9] * 10 + [0.0] * 20)
    assert kinds(events).count("UtteranceEnded") == utterances


@pytest.mark.parametrize("windows", range(4, 30))
def test_a_silence_of_whole_windows_is_counted_exactly(windows: int) -> None:
    """Sums of 0.032 miss 0.032 * n by a hair, on either side."""
    for before in range(1, 60):
        events = heard([0.0] * before + [0.9] * 5 + [0.0] * 40, end_silence_seconds=windows * WINDOW)
        assert events[-1].at_seconds == pytest.approx((before + 5 + windows) * WINDOW)


def test_soft_speech_goes_on_but_does_not_begin() -> None:
    soft = [0.4] * 10 + [0.9] * 3 + [0.4] * 30
    assert kinds(heard(soft)) == ["SpeechStarted", "SilenceNoticed", "SpeechResumed"]
    assert kinds(heard(soft, notice_silence_seconds=0.06)) == ["SpeechStarted"]


def test_after_an_end_it_begins_anew_and_pre_roll_stays_out_of_what_was() -> None:
    # 0.512 s of silence end the first; 0.3 of them are its own, the next begins where that ends
    first, second = [e for e in heard(([0.9] * 10 + [0.0] * 16) * 2) if isinstance(e, UtteranceEnded)]
    assert first.end_seconds == pytest.approx(10 * WINDOW + 0.3)
    assert second.start_seconds == pytest.approx(first.end_seconds)


def test_a_silence_shorter_than_the_hangover_gives_no_more_than_has_passed() -> None:
    ended = heard([0.9] * 10 + [0.0] * 10, end_silence_seconds=0.2)[-1]
    assert isinstance(ended, UtteranceEnded)
    assert ended.end_seconds == ended.at_seconds == pytest.approx(17 * WINDOW)


def test_too_long_an_utterance_is_cut_and_its_speaker_goes_on() -> None:
    events = heard([0.9] * 140 + [0.0] * 20, longest_seconds=2.0)
    ends = [event for event in events if isinstance(event, UtteranceEnded)]
    assert [end.too_long for end in ends] == [True, True, False]
    assert kinds(events)[:3] == ["SpeechStarted", "UtteranceEnded", "SpeechStarted"]
    assert ends[0].end_seconds == pytest.approx(2.0)
    for before, after in pairwise(ends):
        assert after.start_seconds == pytest.approx(before.end_seconds), "not a word falls between"


def test_speech_is_counted_without_its_pauses() -> None:
    endpointer = Endpointer()
    pushed(endpointer, [0.0] * 5 + [0.9] * 10 + [0.0] * 5 + [0.9] * 4)
    assert endpointer.speech_seconds == pytest.approx(14 * WINDOW)
    assert endpointer.start_seconds == 0.0
    pushed(endpointer, [0.0] * 16)
    assert (endpointer.speech_seconds, endpointer.start_seconds) == (0.0, None)


def test_when_nothing_more_comes_what_goes_on_ends() -> None:
    endpointer = Endpointer()
    pushed(endpointer, [0.9] * 10)
    (ended,) = endpointer.finish()
    assert ended == UtteranceEnded(0.0, pytest.approx(0.32), False, pytest.approx(0.32), pytest.approx(0.32))
    assert endpointer.finish() == ()
    assert kinds(pushed(endpointer, [0.9] * 3)) == ["SpeechStarted"]


@pytest.mark.parametrize("probability", [math.nan, math.inf])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        Endpointer().push(WINDOW, probability)


@pytest.mark.parametrize(
    "changes",
    [{"notice_silence_seconds": 0.0}, {"notice_silence_seconds": 0.6}, {"longest_seconds": 0.8}],
)
def test_settings_that_contradict_each_other_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="_seconds"):
        with_settings(**changes)


# --- whatever comes -----------------------------------------------------------------------------------------------

SPEECHLIKE = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.34, 0.35, 0.45, 0.5, 0.9]) | st.floats(0, 1), st.integers(1, 25)),
    max_size=40,
).map(lambda runs: [probability for probability, count in runs for _ in range(count)])
SETTINGS = st.builds(
    lambda end, notice, pre, hangover, starts, longest: with_settings(
        end_silence_seconds=end,
        notice_silence_seconds=notice * end,
        pre_roll_seconds=pre,
        hangover_seconds=hangover,
        start_windows=starts,
        longest_seconds=pre + end + longest,
    ),
    st.floats(0.05, 1.0),
    st.floats(0.05, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.6),
    st.integers(1, 6),
    st.floats(0.1, 3.0),
)


@settings(max_examples=300, deadline=None)
@given(probabilities=SPEECHLIKE, chosen=SETTINGS)
def test_events_are_well_ordered_whatever_comes(probabilities: list[float], chosen: EndpointSettings) -> None:
    endpointer = Endpointer(chosen)
    state, last_at, last_end, start, passed = "nobody", 0.0, 0.0, 0.0, 0.0
    needed_from = 0.0
    for probability in probabilities:
        passed += WINDOW
        for event in endpointer.push(WINDOW, probability):
            assert last_at <= event.at_seconds == endpointer.now_seconds == pytest.approx(passed)
            last_at = event.at_seconds
            match event:
                case SpeechStarted():
                    assert state == "nobody"
                    state, start = "speech", event.start_seconds
                    assert last_end <= start < event.at_seconds
                    assert start >= needed_from, "samples that were said to be needless are asked for"
                case SilenceNoticed():
                    assert state == "speech"
                    state = "silence"
                    assert start < event.speech_end_seconds < event.at_seconds
                case SpeechResumed():
                    assert state == "silence"
                    state = "speech"
                case UtteranceEnded():
                    assert state == "silence" or (event.too_long and state == "speech")
                    state = "nobody"
                    assert event.start_seconds == start < event.speech_end_seconds <= event.end_seconds
                    assert event.end_seconds <= event.at_seconds
                    assert event.end_seconds - start <= chosen.longest_seconds + 1e-9
                    whole = event.at_seconds - start
                    assert whole < chosen.longest_seconds + WINDOW
                    assert not event.too_long or whole >= chosen.longest_seconds - 1e-6
                    last_end = event.end_seconds
        assert (endpointer.start_seconds is None) == (state == "nobody")
        assert needed_from <= endpointer.needed_from_seconds + 1e-9
        needed_from = endpointer.needed_from_seconds
        assert last_end <= needed_from + 1e-9 <= passed + 1e-6
    assert len(endpointer.finish()) == (state != "nobody")
    assert endpointer.finish() == ()
