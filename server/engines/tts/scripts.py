"""Which language speaks which part of a text, and what of it can be spoken at all.

Pure text. Japanese and English are told apart by their scripts: Latin words in a Japanese sentence become kana where
a reading is known, are spelled where they are abbreviations, and are left to an English voice where they are a phrase.
What is said instead of markup, links and emoji was decided before (`pipeline/speakable`): here only what would be read
as rubbish is left out. This module does not know any engine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from server.errors import TtsError

MAX_TEXT_CHARACTERS = 2_000
MAX_PIECE_CHARACTERS = 80

_LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
_JAPANESE = "\u3040-\u30ff\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_IS_LATIN = re.compile(f"[{_LATIN}]")
_IS_JAPANESE = re.compile(f"[{_JAPANESE}]")
_SPEAKABLE = re.compile(f"[{_LATIN}{_JAPANESE}0-9]")
_WORD = re.compile(f"[{_LATIN}]+(?:['’-][{_LATIN}]+)*")
_JAPANESE_STRETCH = re.compile(
    f"[0-9]*[{_JAPANESE}](?:[{_JAPANESE}0-9、。・ー]*[{_JAPANESE}])?(?:[、。]|[,.!?](?![^ ]))?"
)
_BETWEEN_ENGLISH = re.compile(r"[\s,.&'’0-9-]*")
_WORD_PARTS = re.compile(f"[A-Z]{{2,}}(?![a-z])|(?:(?![A-Z]{{2,}}(?![a-z]))[{_LATIN}’'])+")  # Chat, GPT
_UNPRONOUNCEABLE = re.compile("(?=.*[B-DF-HJ-NP-TV-XZ]{3})[A-Z]{4}")  # HDMI, ISBN
_PHRASE_WORDS = 3
"""English words in a row that stay English in a Japanese sentence; fewer are said in kana."""

_KEPT_SYMBOLS = frozenset("+-=%$¥€£&@#/<>~|°℃")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG_WORD = re.compile(f"([{_LATIN}]{{40}})[{_LATIN}]+")
_LONG_NUMBER = re.compile(r"[0-9]{16,}")
_SENTENCE = re.compile(r"[^。!?！？\n]*?(?:[。!?！？]+[」』）)\"”’]*|\.(?=\s|$)|\n|$)")

_UNITS = frozenset(
    {
        *("mm", "cm", "km", "m", "mg", "g", "kg", "t", "ml", "l", "kb", "mb", "gb", "tb"),
        *("hz", "khz", "mhz", "ghz", "w", "kw", "wh", "kwh", "v", "a", "ma", "px", "am", "pm"),
    }
)
_LETTER_NAMES = {
    "a": "エー", "b": "ビー", "c": "シー", "d": "ディー", "e": "イー", "f": "エフ", "g": "ジー", "h": "エイチ",
    "i": "アイ", "j": "ジェー", "k": "ケー", "l": "エル", "m": "エム", "n": "エヌ", "o": "オー", "p": "ピー",
    "q": "キュー", "r": "アール", "s": "エス", "t": "ティー", "u": "ユー", "v": "ブイ", "w": "ダブリュー",
    "x": "エックス", "y": "ワイ", "z": "ゼット",
}  # fmt: skip
_LEADING_MARKS = ' .,;:!?…、。・」』）)]"”’'
_ENGLISH_MARKS = str.maketrans("。、・", ".,,")


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a text that one language speaks."""

    text: str
    language: str
    """ISO 639-1: `ja` or `en`."""


def has_speech(text: str) -> bool:
    """Whether anything in `text` makes a sound: a letter of either language or a digit."""
    return _SPEAKABLE.search(text) is not None


def has_latin(text: str) -> bool:
    """Whether a Latin letter stands in `text`."""
    return _IS_LATIN.search(text) is not None


def sayable(text: str) -> str:
    """`text` without what no voice can say: emoji, control characters, other scripts, lone surrogates.

    Compatibility forms are folded (NFKC), words cut at 40 letters, numbers of 16 digits and more read digit by digit.
    """
    text = unicodedata.normalize("NFKC", _SURROGATE.sub(" ", text)).replace("°C", "℃")
    text = "".join(_kept(character) for character in text)
    text = _LONG_NUMBER.sub(lambda match: " ".join(match.group()), _LONG_WORD.sub(r"\1", text))
    return re.sub(r"[^\S\n]+", " ", text).strip()


def _kept(character: str) -> str:
    category = unicodedata.category(character)
    if character == "\n" or character in _KEPT_SYMBOLS:
        return character
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("Mn", "Me", "Cf"):  # marks that NFKC could not join, joiners, direction marks
        return ""
    if category[0] == "P" or _IS_LATIN.match(character) or _IS_JAPANESE.match(character):
        return character
    return " "


def pieces_to_speak(text: str) -> list[str]:
    """What of `text` can be spoken, in bounded pieces. Raises `TtsError` when it is too long to be one reply."""
    return sentences(sayable(checked_length(text)), MAX_PIECE_CHARACTERS)


def checked_length(text: str) -> str:
    """`text` itself. Raises `TtsError` when it is too long to be one reply."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TtsError(
            f"A text of {len(text)} characters is too long to speak at once (at most {MAX_TEXT_CHARACTERS}).",
            hint="Send it sentence by sentence.",
        )
    return text


def sentences(text: str, max_characters: int) -> list[str]:
    """Pieces of at most `max_characters` that can be spoken one after another: sentences, then clauses, then cuts."""
    pieces: list[str] = []
    for match in _SENTENCE.finditer(text):
        rest = match.group().strip()
        while len(rest) > max_characters:
            window = rest[:max_characters]
            cut = max(window.rfind(mark) for mark in "、,;: ") + 1 or max_characters
            pieces.append(rest[:cut].strip())
            rest = rest[cut:].strip()
        pieces.append(rest)
    return [piece for piece in pieces if has_speech(piece)]


def split_runs(
    text: str, language: str, readings: Mapping[str, str], kana_of: Callable[[str], str] | None = None
) -> list[Run]:
    """Cut speakable text into runs of one language, in order; empty when there is nothing to say.

    `language`: of the sentence as a whole, used where both scripts occur. `readings`: Latin words and their kana,
    matched as whole words, without regard to case, the longest first; used in Japanese sentences only. `kana_of`: the
    kana of any other word, "" for none; without it such words are English.
    """
    if not has_speech(text):
        return []
    if sentence_language(text, language) == "ja":
        runs = _runs_of_japanese_sentence(_with_readings(text, readings), kana_of)
    else:
        runs = _runs_of_english_sentence(text)
    return _merged(runs)


def sentence_language(text: str, expected: str) -> str:
    """`ja` or `en`: whose sentence this is. One Japanese character counts as two Latin letters."""
    japanese = 2 * len(_IS_JAPANESE.findall(text))
    latin = len(_IS_LATIN.findall(text))
    if japanese == 0 and latin == 0:
        return "en" if expected == "en" else "ja"
    if japanese == 0 or latin == 0:
        return "ja" if latin == 0 else "en"
    if expected == "en":
        return "en" if latin > japanese / 2 else "ja"
    # Brand names alone can outweigh a short Japanese sentence; three words in a row are English.
    longest = max(len(_WORD.findall(part)) for part in _IS_JAPANESE.split(text))
    return "en" if latin > 2 * japanese and longest >= _PHRASE_WORDS else "ja"


def _with_readings(text: str, readings: Mapping[str, str]) -> str:
    folded = {unicodedata.normalize("NFKC", word).casefold(): kana for word, kana in readings.items() if word.strip()}
    if not folded:
        return text
    words = "|".join(re.escape(word) for word in sorted(folded, key=len, reverse=True))
    pattern = re.compile(f"(?<![{_LATIN}0-9])(?:{words})(?![{_LATIN}0-9])", re.IGNORECASE)
    return pattern.sub(lambda match: folded[match.group().casefold()], text)


def _runs_of_japanese_sentence(text: str, kana_of: Callable[[str], str] | None) -> list[Run]:
    if kana_of is not None:
        text = _with_kana(text, kana_of)
    words = list(_WORD.finditer(text))
    english = [_is_english_word(text, word) for word in words]
    # An abbreviation beside an English word belongs to the phrase: "the USB cable".
    for order in (range(1, len(words)), range(len(words) - 2, -1, -1)):
        step = order.step
        for index in order:
            first, second = sorted((index, index - step))
            if english[index - step] and text[words[first].end() : words[second].start()].isspace():
                english[index] = True
    runs: list[Run] = []
    position = 0
    for word, is_english in zip(words, english, strict=True):
        between = text[position : word.start()]
        joins = is_english and bool(runs) and runs[-1].language == "en" and _BETWEEN_ENGLISH.fullmatch(between)
        runs.append(Run(between, "en" if joins else "ja"))
        if is_english:
            runs.append(Run(word.group(), "en"))
        elif _is_unit(text, word):
            runs.append(Run(word.group(), "ja"))
        else:
            runs.append(Run(_spelled(word.group()), "ja"))
        position = word.end()
    return [*runs, Run(text[position:], "ja")]


def _with_kana(text: str, kana_of: Callable[[str], str]) -> str:
    """English words that are not part of a phrase become kana, those next to each other as one word."""
    phrases: list[list[re.Match[str]]] = []
    for word in _WORD.finditer(text):
        if phrases and _BETWEEN_ENGLISH.fullmatch(text, phrases[-1][-1].end(), word.start()):
            phrases[-1].append(word)
        else:
            phrases.append([word])
    parts: list[str] = []
    position = 0
    for phrase in phrases:
        if len(phrase) >= _PHRASE_WORDS and any(_is_english_word(text, word) for word in phrase):
            continue
        for word in phrase:
            if not _is_english_word(text, word):
                continue
            between = text[position : word.start()]
            parts.append(between[:-1] if between == " " else between)
            parts.append(_kana_of_word(word.group(), kana_of))
            position = word.end()
    return "".join([*parts, text[position:]])


def _kana_of_word(word: str, kana_of: Callable[[str], str]) -> str:
    """The word itself when a part of it has no kana."""
    kana = [
        _spelled(part) if len(part) == 1 or (part.isupper() and (len(part) < 4 or part != word)) else kana_of(part)
        for part in _WORD_PARTS.findall(word)
    ]
    return "".join(kana) if all(kana) else word


def _is_english_word(text: str, word: re.Match[str]) -> bool:
    """A word to be pronounced, not a unit and not an abbreviation to be spelled (PC, USB, HTTP; but not NASA)."""
    letters = word.group()
    if len(letters) == 1 or _is_unit(text, word):
        return False
    has_vowel = re.search("[aeiouy\u00e0-\u024f]", letters, re.IGNORECASE) is not None
    is_spelled = letters.isupper() and (len(letters) < 4 or _UNPRONOUNCEABLE.fullmatch(letters) is not None)
    return has_vowel and not is_spelled


def _is_unit(text: str, word: re.Match[str]) -> bool:
    before = text[: word.start()].rstrip(" ")[-1:]
    return before.isdigit() and word.group().casefold() in _UNITS


def _spelled(letters: str) -> str:
    return "".join(_LETTER_NAMES.get(letter, "") for letter in letters.casefold())


def _runs_of_english_sentence(text: str) -> list[Run]:
    runs: list[Run] = []
    position = 0
    for stretch in _JAPANESE_STRETCH.finditer(text):
        runs += [Run(text[position : stretch.start()], "en"), Run(stretch.group(), "ja")]
        position = stretch.end()
    return [*runs, Run(text[position:], "en")]


def _merged(runs: list[Run]) -> list[Run]:
    """Neighbours of one language joined; what makes no sound goes to the run before it, so that pauses stay."""
    merged: list[Run] = []
    for run in runs:
        if merged and (run.language == merged[-1].language or not has_speech(run.text)):
            merged[-1] = Run(merged[-1].text + run.text, merged[-1].language)
        elif has_speech(run.text):
            merged.append(run)
    return [Run(_tidied(run), run.language) for run in merged]


def _tidied(run: Run) -> str:
    """Without the marks a cut left at its beginning, which an engine might read aloud."""
    text = run.text.lstrip(_LEADING_MARKS).rstrip()
    return text.translate(_ENGLISH_MARKS) if run.language == "en" else text
