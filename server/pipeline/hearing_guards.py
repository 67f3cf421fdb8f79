"""Which transcriptions are not what anybody said.

Speech models write words for noise and silence: loops, the hot words they were given, the stock phrases of subtitles.
These guards catch them, and let pass what people really say (はいはい, "no no no", ありがとうございました). When in
doubt they let pass: a wrong answer is better than a robot that does not listen. Pure; knows no engine and no turn.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.pipeline.sentences import spoken_weight

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
    """(longest unit in characters, repeats from which it is a loop). People stay below: a child's やだやだやだやだ is
    four, a laugh is a dozen; a model that loops goes on to its token limit."""
    repeated_share: float = 0.85
    """How much of the text the loop has to be."""
    max_weight_per_second: float = 20.0
    """Twice as fast as the fastest speakers."""
    min_fast_weight: float = 16.0
    """Shorter texts are not judged by speed: an utterance's ends are cut by the VAD."""
    stock_weight_per_second: float = 9.0
    """A stock phrase said faster than this was not said."""
    unsure_no_speech_probability: float = 0.4
    unsure_log_probability: float = -0.7
    """A stock phrase beyond either is the model's own, not the speaker's."""


RECIPE = GuardRecipe()

# What closes subtitles and videos in training data. Compared without spaces, marks and case, as a whole. Words that
# people say to a robot (thank you, bye, good night) are not in it.
_STOCK_PHRASES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(最後まで)?(ご視聴|ご覧|ご清聴)(いただき|いただいて|くださり|頂き)?(まして)?(誠に|本当に)?ありがとうございま(した|す)",
        r"(この動画が気に入ったら|よろしければ)?(ぜひ)?(チャンネル|高評価).{0,12}(登録|高評価).{0,12}(お願い|よろしく).{0,8}",
        r"(チャンネル登録|高評価)(をお願いします|お願いします|よろしくお願いします|してね|してください)",
        r"(それでは)?(また)?次(回)?の動画で(また)?(お会いしましょう|会いましょう)",
        r"字幕(視聴|制作|作成|翻訳|協力)?(ありがとうございました|by.{0,30}|.{0,16}(会社|協会|チーム|コミュニティ))",
        r"(thankyou|thanks)(somuch|verymuch)?for(watching|viewing|listening)(tothisvideo|thisvideo|thevideo)?",
        r"(please|dontforgetto|pleasedontforgetto)?(likeand|likeshareand)?subscribe(to(my|our|the)channel)?",
        r"(seeyou|illseeyou)(guys)?inthenext(video|one|episode)",
        r"(subtitles?|captions?|transcri(bed|ption)|translat(ed|ion))(by|providedby).{0,40}",
        r"subtitlesbytheamaraorgcommunity",
        r"(wwwmooji|amara)org.{0,20}",
    )
)
# What a subtitle writes for a sound: (拍手), [Music]. Between two ♪ stands what somebody sang.
_SOUND_NOTE = re.compile(r"[(（\[【＜<〈*].{0,40}?[)）\]】＞>〉*]")
# No utterance has more; longer texts are not even looked at.
_MAX_CHARACTERS = 4000


def why_not_believed(hearing: Hearing, hot_words: Sequence[str] = (), recipe: GuardRecipe = RECIPE) -> Reason | None:
    """Why this text was not said; None when it may have been. `hot_words`: what the model was told to expect."""
    if len(hearing.text) > _MAX_CHARACTERS:
        return "too_fast"
    core = _core(_SOUND_NOTE.sub("", hearing.text))
    if not core:
        return "empty"
    if _is_loop(core, recipe):
        return "repetition"
    if _is_only(core, hot_words):
        return "hot_words"
    weight = spoken_weight(hearing.text)
    pace = weight / max(hearing.seconds, 0.1)
    if weight >= recipe.min_fast_weight and pace > recipe.max_weight_per_second:
        return "too_fast"
    unsure = (
        hearing.no_speech_probability > recipe.unsure_no_speech_probability
        or hearing.average_log_probability < recipe.unsure_log_probability
        or pace > recipe.stock_weight_per_second
    )
    if unsure and any(phrase.fullmatch(core) for phrase in _STOCK_PHRASES):
        return "stock_phrase"
    return None


def _core(text: str) -> str:
    """Letters and digits alone, in one form and case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def _is_loop(core: str, recipe: GuardRecipe) -> bool:
    """Whether one unit, said over and over, is almost all of the text."""
    first = 1
    for longest, needed in recipe.repeats:
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
