"""Takes the form off a written text and leaves its words: markup, links, emoji, faces, characters without a sound.

Every rule looks only at what stands beside a mark, never for its distant partner, so that a reply cut into pieces
loses the same marks as the reply as a whole. Knows no numbers (that is `speakable_ja` and `speakable_en`), no engines.
What should be heard as a short pause becomes `PAUSE`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass

PAUSE = "、"

JAPANESE = "\u3040-\u30ff\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
"""Kana and kanji, for a character class."""


@dataclass(frozen=True, slots=True)
class Words:
    """What is said instead of a thing that is not read out, in one language."""

    link: str
    code: str
    dot: str
    at: str
    hyphen: str
    underscore: str


WORDS = {
    "ja": Words("リンク", "コード。", "ドット", "アットマーク", "ハイフン", "アンダーバー"),
    "en": Words("the link", "some code.", " dot ", " at ", " dash ", " underscore "),
}

# The start of a line, or of what may be a piece: list and heading marks stand here.
_START = r"(?:^|(?<=[\n、。！？…])|(?<=[,.!?;:] ))"

_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_LINE_END = re.compile("\r\n?|[\u0085\u2028\u2029\x0b\x0c]")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n(?: ?\n)* ?")
_CONTROL = re.compile("[\x00-\x09\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U000e0000-\U000e0fff™©®℠]"
)
_SMALL_NUMBERS = re.compile("(?<=[0-9０-９])(?=[¼½¾⅐-⅞])")
_ACCOUNTED_MINUS = re.compile("[△▲](?=[0-9０-９])")
_CIRCLED = re.compile("[①-⑳❶-❿]")
_KEYCAP = re.compile("([0-9])\ufe0f?\u20e3")
_BEFORE_FOLDING = str.maketrans(
    {
        "²": "^2", "³": "^3", "㎡": "m^2", "㎢": "km^2", "㎠": "cm^2", "㎥": "m^3", "㎤": "cm^3",
        "№": "No.", "‥": "…", "⋯": "…", "︙": "…", "～": "〜", "〒": "郵便番号", "‼": "！！", "⁉": "！？", "⁈": "？！",
        "○": "まる", "◯": "まる", "•": "・", "◦": "・", "▪": "・", "●": "・", "■": "・", "◆": "・",
    }
)  # fmt: skip
_WIDE_MARK = re.compile("(?<![0-9０-９])[，：；]|[，：；](?![0-9０-９])")
_WIDE_MARKS = {"，": "、", "：": ": ", "；": "; "}
_AFTER_MARKUP = str.maketrans("!?（）", "！？()")
_NOT_FOLDED = re.compile("[^…！？（）]+")  # NFKC would turn these into marks of another width

_FENCE = re.compile(r"```(.*?)(?:```|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--[^<>]*-->")
_RUBY_READING = re.compile(r"<r[tp]>[^<>\n]{0,100}</r[tp]>", re.IGNORECASE)
_BREAK = re.compile(r"<(?:br|/p|/li|/div|/h[1-6]|hr)\s?/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]{0,30}(?:\s[^<>\n]{0,300})?/?>")
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#[0-9]{1,6}|#[xX][0-9A-Fa-f]{1,5});")

_TARGET = r"\([^()\s]{0,500}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?(?:\s\"[^\"\n]{0,200}\")?\)"
LINK = re.compile(rf"!?\[([^\[\]\n]{{0,300}})\](?:{_TARGET}|\[[^\[\]\n]{{0,100}}\])")
_DEFINITION = re.compile(r"^\s{0,3}\[[^\[\]\n]{1,60}\]:\s*(?=https?://)", re.MULTILINE)
_FOOTNOTE = re.compile(r"\[\^[^\[\]\n]{1,40}\]:?|(?<=\S)\[[0-9]{1,3}\](?!\()")
URL = re.compile(
    r"(?:https?://|www\.)(?:(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}|[A-Za-z0-9.-]{1,200})"
    r"(?::[0-9]{1,5})?(?:[/?#][!#-;=?-_a-z{|}~]*)?",
    re.IGNORECASE,
)
_URL_END = ".,;:!?)'*_~|]"
_DOMAINS = "com|net|org|jp|io|dev|edu|gov|info|app|ai"
HOST = re.compile(
    rf"(?<![A-Za-z0-9@/_-])(?<![A-Za-z0-9]\.)(?:[A-Za-z0-9-]{{1,63}}\.){{1,4}}(?:{_DOMAINS})(?![A-Za-z0-9-]|\.[A-Za-z])(?:/[!#-;=?-_a-z|~]*)?"
)
EMAIL = re.compile(
    r"(?<![A-Za-z0-9_+-])(?<![A-Za-z0-9]\.)[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}"
)
_HOST_OF_URL = re.compile(r"(?:https?://)?(?:www\.)?([^/?#:]+)(?::[0-9]+)?/?$", re.IGNORECASE)

_RULE = re.compile(r"^[ \t]*(?:(?:[-=_*][ \t]*){3,}|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)+)$", re.MULTILINE)
_LINE_MARK = re.compile(rf"{_START}[ \t]*(?:#{{1,6}}[ \t]+|>+[ \t]?|[-*+][ \t]+|・[ \t]*)(?:\[[ xX]\][ \t]+)?", re.M)
_NUMBERED = re.compile(rf"{_START}([ \t]*[0-9]{{1,2}})[.)][ \t]+", re.MULTILINE)
_TABLE_EDGE = re.compile(r"^[ \t]*\||\|[ \t]*$", re.MULTILINE)
_EMPHASIS = re.compile(r"\*{2,}|_{2,}|~~+|`+|(?<![0-9])(?<![0-9] )\*|\*(?! ?[0-9])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_SHORTCODE = re.compile(r"(?<![A-Za-z0-9]):[a-z][a-z0-9_+-]{1,30}:(?![A-Za-z0-9])")

_FACE_CORE = "^_<>´`ω▽∀Дд≧≦￣∇ﾟ；;ﾉヮ"
_FACE = re.compile(
    rf"[ヽ＼\\٩ヾd]?[(（](?=[^()（）]{{0,16}}[{_FACE_CORE}])"
    rf"[{re.escape(_FACE_CORE)}:：'\"・дεзωoOTtxXvVuUwQqmPp〜~=*＊+＋.,。°＾ー－\-"
    r"皿艸ノつっ/／\\|∩☆★♪♡♥❤✧ 　｡•◕ᴗ‿◡˘]{2,16}"
    r"[)）][ノﾉ／/ゞシb۶و]{0,2}(?![A-Za-z0-9])"
)
_BOWING = re.compile(
    r"(?<![A-Za-z0-9])(?:m\(_\s?_\)m|orz|OTL|o\(\^[^()\n]{0,6}\)o|\^[_.o-]?\^[;；]{0,2}|[TQ]_[TQ]|>_<)(?![A-Za-z0-9])"
)
_WESTERN_FACE = re.compile(
    rf"(?:(?<=\s)|(?<=[{JAPANESE}、。！？.,])|^)(?:[:;=][-'^]?[()DPpOo3|/\\]+|[xX]D+|<3+)(?![A-Za-z0-9/])", re.M
)
_LAUGH = re.compile(
    r"[(（](?:笑|爆笑|苦笑|泣|涙|汗|怒|照|驚|爆|喜|謎|嘘|w{1,5}|ｗ{1,5})[)）]"
    rf"|(?:^|(?<=[{JAPANESE}！？!?。、…．.：:,」』\n])|(?<=[,.:;] ))[wｗ]+(?![A-Za-z0-9ａ-ｚ.])"
    r"|(?:^|(?<=[ぁ-んー！？!?。…]))笑+(?=[。、！？!?\s」)）]|$)"
    r"|(?<![A-Za-z0-9])(?:lol|lmao|rofl)+(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_NO_SOUND = "\x00"
_EMOJI_PLACE = re.compile(r"([^\s\x00]?)[ \t]*\x00[\x00 \t]*([^\s\x00]?)")
_LONG = ("〜", "~")
_PARTICLES = "をがはにでとのへもや"


def without_marks(text: str, language: str) -> str:
    """The words of `text`, folded to NFKC (but not `…！？`): brackets and symbols of meaning are still there."""
    words = WORDS.get(language, WORDS["en"])
    text = _visible(text)
    if any(mark in text for mark in "()（）^<:>TQO") or "orz" in text:
        text = _WESTERN_FACE.sub(" ", _BOWING.sub(" ", _FACE.sub(" ", text)))
    text = _LAUGH.sub("", text)
    text = _CIRCLED.sub(
        lambda match: f"{PAUSE}{_number_in_circle(match.group())}{PAUSE}", _SMALL_NUMBERS.sub(" ", text)
    )
    text = _ACCOUNTED_MINUS.sub("-", text)
    text = _WIDE_MARK.sub(lambda match: _WIDE_MARKS[match.group()], text)
    text = _NOT_FOLDED.sub(
        lambda match: unicodedata.normalize("NFKC", match.group()), text.translate(_BEFORE_FOLDING)
    ).replace("\u2044", "/")
    text = _without_markup(text, words).translate(_AFTER_MARKUP)
    return _EMOJI_PLACE.sub(_in_place_of_emoji, single_spaced("".join(map(_kept, text))))


def _visible(text: str) -> str:
    text = _ANSI.sub("", _LINE_END.sub("\n", text))
    text = _INVISIBLE.sub("", _CONTROL.sub(" ", _KEYCAP.sub(rf"\1{PAUSE}", text)))
    return single_spaced(text)


def single_spaced(text: str) -> str:
    """Without runs of space and empty lines, so that no rule after this can search one again and again."""
    return _LINE_ENDS.sub("\n", _SPACES.sub(" ", text))


def _number_in_circle(character: str) -> str:
    return str(int(unicodedata.numeric(character)))


def _without_markup(text: str, words: Words) -> str:
    if "```" in text:
        text = _FENCE.sub(lambda match: f"\n{words.code}\n" if "\n" in match.group(1) else match.group(1), text)
    if "<" in text:
        text = re.sub(r"<(https?://[^\s<>]{1,500}|[^\s<>@]{1,64}@[^\s<>@]{1,200})>", r" \1 ", text)
        text = _BREAK.sub("\n", _RUBY_READING.sub("", _COMMENT.sub("", text)))
        text = _TAG.sub("", text)
    if "&" in text:
        text = _ENTITY.sub(lambda match: _entity(match.group()), text)
    if "[" in text:
        text = _FOOTNOTE.sub("", _DEFINITION.sub("", LINK.sub(r"\1", text)))
    if "@" in text:
        text = EMAIL.sub(lambda match: _spelled_address(match.group(), words), text)
    if "." in text or "://" in text:
        text = HOST.sub(lambda match: _link(match, words), URL.sub(lambda match: _link(match, words), text))
    text = single_spaced(text)
    if "|" in text:
        text = _TABLE_EDGE.sub("", _RULE.sub("", text)).replace("|", PAUSE)
    text = _LINE_MARK.sub("", _RULE.sub("", text))
    text = _NUMBERED.sub(rf"\1{PAUSE}", text)
    return _SHORTCODE.sub(" ", _EMPHASIS.sub("", text)).replace("_", " ")


def _entity(entity: str) -> str:
    character = unicodedata.normalize("NFKC", html.unescape(entity))
    return " " if character == entity or not character.isprintable() else character


def _link(match: re.Match[str], words: Words) -> str:
    """A bare host as people say it; an address with a path as "the link"."""
    address = match.group()
    kept = address.rstrip(_URL_END)
    after = address[len(kept) :]
    host = _HOST_OF_URL.fullmatch(kept)
    if host is None or "." not in host.group(1):
        return words.link + after
    return host.group(1).replace(".", words.dot) + after


def _spelled_address(address: str, words: Words) -> str:
    spelled = address.replace("@", words.at).replace(".", words.dot)
    return spelled.replace("-", words.hyphen).replace("_", words.underscore)


def _kept(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("So", "Sk", "Cn", "Co", "Me"):
        return _NO_SOUND if character != "°" else character
    return "" if category in ("Mn", "Cf") else character


def _in_place_of_emoji(match: re.Match[str]) -> str:
    """Between words an emoji is heard as a pause, before a particle as nothing: 「🍣を食べた」."""
    before, after = match.groups()
    pause = (before.isalnum() or before in _LONG) and after.isalnum() and after not in _PARTICLES
    return f"{before}{PAUSE if pause else ' '}{after}"
