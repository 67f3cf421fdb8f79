"""What was heard of spoken names with and without hot words, counted: shares with their intervals, paired differences.

Pure; the intervals of differences are bootstrapped over sentences, whose voices belong together.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from _bench import wilson_interval
from _hearing import HeardWords, Said, has_name, names_added, other_errors, sounds_like

_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Heard:
    """One sentence in one voice, heard without (`plain`) and with (`helped`) hot words."""

    said: Said
    voice: str
    hot_words: tuple[str, ...]
    plain: HeardWords
    helped: HeardWords

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound without words. `fooled`: heard as if the VAD had taken all of it for speech."""

    name: str
    fooled: bool
    hot_words: tuple[str, ...]
    plain: HeardWords
    helped: HeardWords

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(heard: Sequence[Heard], sounds: Sequence[Sound]) -> dict[str, Any]:
    """Every figure that is shown: names by language and voice, names added, time."""
    named = [one for one in heard if one.said.name is not None]
    groups: dict[str, list[Heard]] = {}
    for language in dict.fromkeys(one.said.language for one in named):
        for voice in dict.fromkeys(one.voice for one in named):
            groups[f"{language}, {voice}"] = [
                one for one in named if (one.said.language, one.voice) == (language, voice)
            ]
        groups[language] = [one for one in named if one.said.language == language]
    if named:
        groups["all"] = named
    nameless = [one for one in heard if one.said.name is None]
    return {
        "names": {of: _names(some) for of, some in groups.items()},
        "additions": {
            "sentences without a name": _additions(
                [(one.said.text, one.hot_words, one.plain, one.helped) for one in nameless]
            ),
            "noises": _additions([_of(one) for one in sounds if not one.fooled]),
            "noises taken for speech": _additions([_of(one) for one in sounds if one.fooled]),
        },
        "rest_of_nameless": _rest(nameless),
        "asr_ms": {
            "without": statistics.median([one.plain.asr_ms for one in heard] or [0]),
            "with": statistics.median([one.helped.asr_ms for one in heard] or [0]),
        },
    }


def _of(sound: Sound) -> tuple[str, tuple[str, ...], HeardWords, HeardWords]:
    return "", sound.hot_words, sound.plain, sound.helped


def _names(heard: Sequence[Heard]) -> dict[str, Any]:
    plain = [has_name(one.plain.text, one.said.name or "") for one in heard]
    helped = [has_name(one.helped.text, one.said.name or "") for one in heard]
    ids = [one.said.id for one in heard]
    gain = _paired(ids, [int(h) - int(p) for p, h in zip(plain, helped, strict=True)], [1] * len(heard))
    japanese = [one for one in heard if one.said.reading]
    return {
        "n": len(heard),
        "sentences_wrong_without": len({i for i, right in zip(ids, plain, strict=True) if not right}),
        "offered": share(sum(one.said.name in one.hot_words for one in heard), len(heard)),
        "wrong_without": share(plain.count(False), len(heard)),
        "wrong_with": share(helped.count(False), len(heard)),
        "gain_points": gain,
        "fixed": sum(h and not p for p, h in zip(plain, helped, strict=True)),
        "broken": sum(p and not h for p, h in zip(plain, helped, strict=True)),
        "sound_wrong_without": sum(not sounds_like(one.plain.text, one.said.reading or "") for one in japanese),
        "sound_wrong_with": sum(not sounds_like(one.helped.text, one.said.reading or "") for one in japanese),
        "other_names_without": sum(bool(_others(one, one.plain.text)) for one in heard),
        "other_names_with": sum(bool(_others(one, one.helped.text)) for one in heard),
        "nothing_without": sum(not one.plain.text for one in heard),
        "nothing_with": sum(not one.helped.text for one in heard),
        **_rest(heard),
    }


def _others(one: Heard, text: str) -> list[str]:
    return names_added(text, one.said.text, one.hot_words)


def _rest(heard: Sequence[Heard]) -> dict[str, Any]:
    """Errors outside the name, in percent of its units: characters of Japanese, words of English."""
    plain = [other_errors(one.said, one.plain.text) for one in heard]
    helped = [other_errors(one.said, one.helped.text) for one in heard]
    units = [of for _, of in plain]
    change = [h[0] - p[0] for p, h in zip(plain, helped, strict=True)]
    total = max(sum(units), 1)
    return {
        "rest_units": sum(units),
        "rest_without": 100 * sum(errors for errors, _ in plain) / total,
        "rest_with": 100 * sum(errors for errors, _ in helped) / total,
        "rest_change_points": _paired([one.said.id for one in heard], change, units),
    }


def _additions(heard: Sequence[tuple[str, Sequence[str], HeardWords, HeardWords]]) -> dict[str, Any]:
    added = [names_added(helped.text, said, words) for said, words, _, helped in heard]
    return {
        "n": len(heard),
        "heard": sum(bool(helped.text) for *_, helped in heard),
        "heard_without": sum(bool(plain.text) for *_, plain, _ in heard),
        "added": sum(map(bool, added)),
        "names": sorted({name for names in added for name in names}),
        "dropped": sum(helped.dropped not in (None, "no speech", "empty") for *_, helped in heard),
    }


def share(hits: int, of: int) -> dict[str, Any]:
    """A share in percent with its 95 % Wilson interval."""
    low, high = wilson_interval(hits, of)
    return {"hits": hits, "of": of, "percent": 100 * hits / max(of, 1), "interval": (100 * low, 100 * high)}


def _paired(ids: Sequence[str], change: Sequence[int], units: Sequence[int]) -> tuple[float, float, float]:
    """(points, low, high): 100 * sum(change) / sum(units), its 95 % interval by resampling sentences."""
    clusters: dict[str, list[int]] = {}
    for one, more, of in zip(ids, change, units, strict=True):
        total = clusters.setdefault(one, [0, 0])
        total[0] += more
        total[1] += of
    if not clusters:
        return 0.0, 0.0, 0.0
    sums = np.array(list(clusters.values()), np.float64)
    chosen = np.random.default_rng(0).integers(len(sums), size=(_RESAMPLES, len(sums)))
    drawn = sums[chosen].sum(axis=1)
    points = 100 * drawn[:, 0] / np.maximum(drawn[:, 1], 1)
    low, high = np.percentile(points, [2.5, 97.5])
    return 100 * float(sums[:, 0].sum() / max(sums[:, 1].sum(), 1)), float(low), float(high)
