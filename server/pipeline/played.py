"""What of a reply was heard: how far into its words so much played sound reaches.

Fed with the sentences and the samples of a turn in the order they were sent. Pure; knows no device and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

_BREAKS = frozenset(" \u3000、。，．,.!?！？…・")


@dataclass(slots=True)
class _Sentence:
    text: str
    samples: int = 0


class SpokenWords:
    """The words of one turn beside their sound."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._before = 0
        self._sentences: list[_Sentence] = []

    @property
    def duration_ms(self) -> int:
        """How long all that was sent is, in milliseconds."""
        samples = self._before + sum(sentence.samples for sentence in self._sentences)
        return round(samples * 1000 / self._sample_rate_hz)

    def sentence(self, text: str) -> None:
        """The samples that follow say `text`."""
        self._sentences.append(_Sentence(text))

    def samples(self, count: int) -> None:
        """So many more samples were sent; those before the first sentence say no words of the reply."""
        if self._sentences:
            self._sentences[-1].samples += count
        else:
            self._before += count

    def until(self, played_ms: float) -> str:
        """The words that `played_ms` milliseconds of the sound have said; of a sentence that was cut, whole words.

        Speech is taken to run evenly through a sentence: nothing tells where its words are.
        """
        left = played_ms * self._sample_rate_hz / 1000 - self._before
        said = ""
        for sentence in self._sentences:
            if left <= 0:
                break
            if not sentence.samples:
                continue
            # Half a frame may be missing from a device's count.
            whole = left >= sentence.samples - self._sample_rate_hz // 50
            text = sentence.text if whole else _begun(sentence.text, left / sentence.samples)
            if not text:
                break
            said += (" " if said[-1:].isascii() and said and text[:1].isascii() else "") + text
            if not whole:
                break
            left -= sentence.samples
        return said


def _begun(text: str, share: float) -> str:
    """About the first `share` of `text`, without a word that was only begun."""
    end = int(len(text) * share)
    if end >= len(text):
        return text
    if text[end - 1 : end].isascii() and text[end].isascii() and text[end - 1 : end].isalnum() and text[end].isalnum():
        end = max((place + 1 for place in range(end) if text[place] in _BREAKS), default=0)
    return text[:end].rstrip()
