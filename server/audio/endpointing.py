"""Where utterances begin, pause and end while sound still arrives, decided from speech probabilities alone.

Pure arithmetic over `SpeechSegmenter`: no clock, no model, no samples. Times are seconds since the stream began, so
whoever has the samples can cut them out. What is done with an event is the conversation's matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from server.audio.segmenter import SegmenterSettings, SpeechSegmenter

_TOLERANCE_SECONDS = 1e-6
"""Sums of window lengths are a hair off; no decision hangs on that."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """When an utterance begins, when hearing may start, and when it is over."""

    segmenter: SegmenterSettings = field(default_factory=SegmenterSettings)
    notice_silence_seconds: float = 0.032
    """So much without speech is a silence worth telling: what was said may be heard already. One window of the model:
    of human speech in phrases, twice as much is told 32 ms later, and spares 3 of 100 hearings."""
    notice_fall: float = 0.3
    """So much less certain than the window before, and less than one that may begin speech: where one window is silence
    enough, this is, too. Human speech is noticed 8 ms sooner by it, for 1 of 100 hearings."""
    longest_seconds: float = 30.0
    """No utterance lasts longer, its pre-roll included."""

    def __post_init__(self) -> None:
        segmenter = self.segmenter
        if not 0 < self.notice_silence_seconds <= segmenter.end_silence_seconds:
            raise ValueError("A silence is noticed before it ends an utterance: set notice_silence_seconds below that.")
        if self.longest_seconds <= segmenter.pre_roll_seconds + segmenter.end_silence_seconds:
            raise ValueError("longest_seconds leaves no room for speech between pre-roll and silence.")


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Somebody speaks. `start_seconds`: where the utterance begins, pre-roll included."""

    start_seconds: float
    at_seconds: float


@dataclass(frozen=True, slots=True)
class SilenceNoticed:
    """The speech of this utterance may be over; `speech_end_seconds`: the end of its last speech window."""

    at_seconds: float
    speech_end_seconds: float


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """It was not over."""

    at_seconds: float


@dataclass(frozen=True, slots=True)
class UtteranceEnded:
    """The utterance lies from `start_seconds` to `end_seconds`; `too_long`: it was cut, and its speaker goes on."""

    start_seconds: float
    end_seconds: float
    too_long: bool
    speech_end_seconds: float
    at_seconds: float


EndpointEvent = SpeechStarted | SilenceNoticed | SpeechResumed | UtteranceEnded


class Endpointer:
    """Follows one stream of windows.

    Of each utterance it tells `SpeechStarted`, then any number of `SilenceNoticed` and `SpeechResumed` in turn, then
    `UtteranceEnded` once; before an end by silence the silence was told. No utterance reaches into the one before it.
    """

    def __init__(self, settings: EndpointSettings | None = None) -> None:
        self._settings = settings or EndpointSettings()
        self._segmenter = SpeechSegmenter(self._settings.segmenter)
        self._segmenter_origin_seconds = 0.0
        self._now_seconds = 0.0
        self._free_from_seconds = 0.0
        """No pre-roll reaches before this."""
        self._start_seconds: float | None = None
        self._noticed = False
        self._before = 0.0
        """The probability of the window before."""
        self._speech_seconds = 0.0

    @property
    def now_seconds(self) -> float:
        """How much of the stream has been seen."""
        return self._now_seconds

    @property
    def start_seconds(self) -> float | None:
        """Where the utterance that goes on begins; None: nobody speaks."""
        return self._start_seconds

    @property
    def needed_from_seconds(self) -> float:
        """Whatever comes, no utterance reaches before this: older samples may be thrown away."""
        if self._start_seconds is not None:
            return self._start_seconds
        first = self._segmenter_origin_seconds + self._segmenter.undecided_from_seconds
        return max(self._free_from_seconds, first - self._settings.segmenter.pre_roll_seconds)

    @property
    def speech_seconds(self) -> float:
        """How much of the utterance that goes on was speech, pauses not counted; 0.0: nobody speaks."""
        return self._speech_seconds

    def push(self, seconds: float, probability: float) -> tuple[EndpointEvent, ...]:
        """Take the next window, `seconds` long; what became known by it, in order.

        Raises `ValueError` for a probability that is no number: it would pass for silence.
        """
        if not math.isfinite(probability) or not seconds > 0:
            raise ValueError(f"A window of {seconds} seconds with the speech probability {probability} is none.")
        self._segmenter.push(seconds, probability)
        self._now_seconds += seconds
        falls, self._before = self._falls(seconds, probability), probability
        events = self._started() if self._start_seconds is None else self._followed(self._start_seconds, seconds, falls)
        if self._start_seconds is not None and self._too_long(self._start_seconds):
            events += (self._ended(self._start_seconds, too_long=True),)
        return events

    def finish(self) -> tuple[EndpointEvent, ...]:
        """Nothing more comes for now: an utterance that goes on ends here. Its silence need not have been told."""
        return () if self._start_seconds is None else (self._ended(self._start_seconds, too_long=False),)

    def _started(self) -> tuple[EndpointEvent, ...]:
        segmenter = self._segmenter
        if not segmenter.speaking or segmenter.first_speech_seconds is None:
            return ()
        first = self._segmenter_origin_seconds + segmenter.first_speech_seconds
        self._start_seconds = max(self._free_from_seconds, first - self._settings.segmenter.pre_roll_seconds)
        self._speech_seconds = self._now_seconds - first
        return (SpeechStarted(self._start_seconds, self._now_seconds),)

    def _falls(self, seconds: float, probability: float) -> bool:
        """Whether this window may be the first of a silence though it still counts as speech."""
        settings = self._settings
        return (
            settings.notice_silence_seconds <= seconds + _TOLERANCE_SECONDS
            and probability < settings.segmenter.start_probability
            and self._before - probability >= settings.notice_fall
        )

    def _followed(self, start_seconds: float, seconds: float, falls: bool) -> tuple[EndpointEvent, ...]:
        segmenter, settings = self._segmenter, self._settings
        silence = segmenter.silence_seconds + _TOLERANCE_SECONDS
        if segmenter.silence_seconds == 0.0:
            self._speech_seconds += seconds
            was_noticed, self._noticed = self._noticed, falls
            resumed = (SpeechResumed(self._now_seconds),) if was_noticed else ()
            # The speech is taken to have ended before this window.
            return (*resumed, SilenceNoticed(self._now_seconds, self._now_seconds - seconds)) if falls else resumed
        events: tuple[EndpointEvent, ...] = ()
        if not self._noticed and silence >= settings.notice_silence_seconds:
            self._noticed = True
            events = (SilenceNoticed(self._now_seconds, self._speech_end_seconds),)
        if silence >= settings.segmenter.end_silence_seconds:
            events += (self._ended(start_seconds, too_long=False),)
        return events

    def _ended(self, start_seconds: float, *, too_long: bool) -> UtteranceEnded:
        """The end of the utterance: now when it was cut, otherwise a little after the speech."""
        settings, now, speech_end = self._settings, self._now_seconds, self._speech_end_seconds
        end = now if too_long else min(now, speech_end + settings.segmenter.hangover_seconds)
        end = min(end, start_seconds + settings.longest_seconds)
        self._begin_anew(end)
        return UtteranceEnded(start_seconds, end, too_long, min(speech_end, end), now)

    def _begin_anew(self, free_from_seconds: float) -> None:
        self._segmenter = SpeechSegmenter(self._settings.segmenter)
        self._segmenter_origin_seconds = self._now_seconds
        self._free_from_seconds = free_from_seconds
        self._start_seconds = None
        self._noticed = False
        self._speech_seconds = 0.0

    def _too_long(self, start_seconds: float) -> bool:
        return self._now_seconds - start_seconds >= self._settings.longest_seconds - _TOLERANCE_SECONDS

    @property
    def _speech_end_seconds(self) -> float:
        return self._segmenter_origin_seconds + (self._segmenter.last_speech_seconds or 0.0)
