"""Where speech begins and ends, decided from speech probabilities alone.

Pure arithmetic on `(seconds, probability)` windows: no clock, no model, no samples. Uploads use `trim()`; sound that is
still arriving goes through the same `SpeechSegmenter` in `server.audio.endpointing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmenterSettings:
    """When a stretch of windows counts as speech, and how much is kept around it."""

    start_probability: float = 0.5
    """A window at or above this may begin speech."""
    stay_probability: float = 0.35
    """After such a window, one at or above this still is speech. Of うん, はい, ええ and the like, spoken by Open JTalk
    at eight alignments of the windows, 7 of 100 are missed so, and 10 where each window must reach `start_probability`;
    on steady noises, typing, knocks and squeaks neither begins speech, in music and babble both as often."""
    start_windows: int = 3
    """So many in a row begin speech: a click does not, はい does."""
    end_silence_seconds: float = 0.5
    """So much without speech ends a stretch."""
    pre_roll_seconds: float = 0.3
    """Kept before the first speech window: soft onsets score low."""
    hangover_seconds: float = 0.3
    """Kept after the last speech window: so do devoiced endings like です."""


class SpeechSegmenter:
    """Follows one stream of windows. Times are seconds since its first window."""

    def __init__(self, settings: SegmenterSettings | None = None) -> None:
        self._settings = settings or SegmenterSettings()
        self._now_seconds = 0.0
        self._run_windows = 0
        self._run_start_seconds = 0.0
        self.speaking = False
        """A stretch of speech has begun and has not ended."""
        self.first_speech_seconds: float | None = None
        """Where the first stretch begins, without pre-roll; None: no speech yet."""
        self.last_speech_seconds: float | None = None
        """Where the latest speech window ends, without hangover."""

    def push(self, seconds: float, probability: float) -> None:
        """Take the next window, `seconds` long."""
        settings = self._settings
        start_seconds, self._now_seconds = self._now_seconds, self._now_seconds + seconds
        if self.speaking:
            if probability >= settings.stay_probability:
                self.last_speech_seconds = self._now_seconds
            elif self.silence_seconds >= settings.end_silence_seconds:
                self.speaking = False
                self._run_windows = 0
            return
        if probability < (settings.stay_probability if self._run_windows else settings.start_probability):
            self._run_windows = 0
            return
        if self._run_windows == 0:
            self._run_start_seconds = start_seconds
        self._run_windows += 1
        if self._run_windows >= settings.start_windows:
            self.speaking = True
            self.last_speech_seconds = self._now_seconds
            if self.first_speech_seconds is None:
                self.first_speech_seconds = self._run_start_seconds

    @property
    def undecided_from_seconds(self) -> float:
        """While nobody speaks: where a stretch would begin if speech went on; now, when the last window was none."""
        return self._run_start_seconds if self._run_windows else self._now_seconds

    @property
    def silence_seconds(self) -> float:
        """How long it has been since speech was last heard; since the first window when it never was."""
        return self._now_seconds - (self.last_speech_seconds or 0.0)


def trim(
    probabilities: Iterable[float],
    window_seconds: float,
    total_seconds: float,
    settings: SegmenterSettings | None = None,
) -> tuple[float, float] | None:
    """The part of a whole recording worth hearing, `(start_seconds, end_seconds)`; None when nobody speaks in it.

    One upload is one utterance: pauses inside it stay. The result lies within [0, `total_seconds`].
    """
    settings = settings or SegmenterSettings()
    segmenter = SpeechSegmenter(settings)
    for probability in probabilities:
        segmenter.push(window_seconds, probability)
    first, last = segmenter.first_speech_seconds, segmenter.last_speech_seconds
    if first is None or last is None:
        return None
    return max(0.0, first - settings.pre_roll_seconds), min(total_seconds, last + settings.hangover_seconds)
