"""Which transcriptions are not what anybody said.

Speech models write words for noise and silence: loops, the hot words they were given, the stock phrases of subtitles.
These guards catch them, and let pass what people really say (やだやだやだ, "no no no", ありがとうございました): whether
somebody can have said it in that time counts, and how sure the model is. When in doubt they let pass: a wrong answer is
better than a robot that does not listen. Pure; knows no engine and no turn.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.pipeline.sentences import spoken_weight
from server.pipeline.stock_phrases import is_foreign_stock_phrase, is_stock_phrase, without_sound_notes
from server.pipeline.visible import without_blanks

Reason = Literal["empty", "repetition", "hot_words", "too_fast", "stock_phrase"]


@dataclass(frozen=True, slots=True)
class Hearing:
    """A transcription with its evidence. `seconds`: length of the utterance. Probabilities are 0 when unknown."""

    text: str
    seconds: float
    no_speech_probability: float = 0.0
    average_log_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class GuardRecipe:
    """The numbers of the guards. Weights are in Japanese characters, see `spoken_weight`."""

    repeats: tuple[tuple[int, int], ...] = ((1, 16), (4, 10), (9, 7), (60, 4))
    """(longest unit in characters, repeats from which it may be a loop). A child says やだ a dozen times, too: it is
    one when nobody speaks that fast, or the model is unsure."""
    certain_times: int = 5
    """So many times more repeats are a loop in any case: such a model goes on to its token limit."""
    repeated_share: float = 0.85
    """How much of the text the loop has to be."""
    max_weight_per_second: float = 20.0
    """Twice as fast as the fastest speakers."""
    min_fast_weight: float = 16.0
    """Shorter texts are not judged by speed: an utterance's ends are cut by the VAD."""
    plausible_weight_per_second: float = 9.0
    """A stock phrase or a loop faster than this was not said."""
    unsure_no_speech_probability: float = 0.4
    unsure_log_probability: float = -0.7
    """A stock phrase or a loop beyond either is the model's own, not the speaker's."""


RECIPE = GuardRecipe()

_LATIN = r"a-zà-öø-ÿ"
_JAPANESE = r"\u3040-\u30ff\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff"
# The letters a text in this language has. Others are unknown, and then every script is one of them.
_SCRIPTS = {"ja": _JAPANESE + _LATIN, "en": _LATIN}
# No utterance has more; longer texts are not even looked at.
_MAX_CHARACTERS = 4000


def why_not_believed(
    hearing: Hearing,
    hot_words: Sequence[str] = (),
    recipe: GuardRecipe = RECIPE,
    *,
    languages: Sequence[str] = ("ja", "en"),
) -> Reason | None:
    """Why this text was not said; None when it may have been. `hot_words`: what the model was told to expect;
    `languages`: ISO 639-1, what may be spoken."""
    if len(hearing.text) > _MAX_CHARACTERS:
        return "too_fast"
    core = _core(without_sound_notes(hearing.text))
    if not core:
        return "empty"
    weight = spoken_weight(core)
    pace = weight / max(hearing.seconds, 0.1)
    if weight >= recipe.min_fast_weight and pace > recipe.max_weight_per_second:
        return "repetition" if _is_loop(core, recipe) else "too_fast"
    doubtful = (
        hearing.no_speech_probability > recipe.unsure_no_speech_probability
        or hearing.average_log_probability < recipe.unsure_log_probability
        or pace > recipe.plausible_weight_per_second
    )
    if _is_loop(core, recipe, 1 if doubtful else recipe.certain_times):
        return "repetition"
    if _is_only(core, hot_words):
        return "hot_words"
    if (doubtful and is_stock_phrase(core)) or is_foreign_stock_phrase(core) or _is_in_other_scripts(core, languages):
        return "stock_phrase"
    return None


def _is_in_other_scripts(core: str, languages: Sequence[str]) -> bool:
    """Whether no letter is of a script that these languages have: nobody asked for subtitles in Russian."""
    if not all(language in _SCRIPTS for language in languages):
        return False
    own = "".join(_SCRIPTS[language] for language in languages)
    return any(map(str.isalpha, core)) and re.search(f"[{own}0-9]", core) is None


def _core(text: str) -> str:
    """Letters and digits alone, in one form and case."""
    folded = unicodedata.normalize("NFKC", without_blanks(text)).casefold()
    return "".join(character for character in folded if character.isalnum())


def _is_loop(core: str, recipe: GuardRecipe, times: int = 1) -> bool:
    """Whether one unit, said over and over, is almost all of the text. `times`: more often than usual."""
    first = 1
    for longest, repeats in recipe.repeats:
        needed = repeats * times
        for unit in range(first, min(longest, len(core) // needed) + 1):
            run = _longest_run(core, unit)
            if run >= unit * needed and run >= recipe.repeated_share * len(core):
                return True
        first = longest + 1
    return False


def _longest_run(core: str, unit: int) -> int:
    """Characters of the longest stretch in which every character is the one `unit` before."""
    best = current = 0
    for index in range(unit, len(core)):
        current = current + 1 if core[index] == core[index - unit] else 0
        best = max(best, current)
    return best + unit if best else 0


def _is_only(core: str, hot_words: Sequence[str]) -> bool:
    """Whether nothing is left when the hot words are taken out."""
    words = sorted({_core(word) for word in hot_words} - {""}, key=len, reverse=True)
    if not words:
        return False
    return re.fullmatch(f"(?:{'|'.join(map(re.escape, words))})+", core) is not None
