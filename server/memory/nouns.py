"""Names and things in what somebody said, found without a model: what a memory in the user's own words is about.

Pure. By the look of the words: kanji and katakana runs, words in 「」, names before さん, capitals in the middle of an
English sentence, what follows my or a. Numbers and days are none. Misses what is written in hiragana alone.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterator

from server.memory.dates import named_days
from server.memory.english_words import HEADS, MEASURED, NO_THING, STARTERS, VERBS
from server.storage.words import entity_key

_KANJI = "一-龯々ヶ"
_KATAKANA = "ァ-ヺー"
_ONE_KANJI = (
    "猫犬鳥魚馬牛花木山川海庭家店駅町村車鍵薬本服靴傘机妹姉兄弟父母娘息夫妻孫歯目耳足手腰膝肩頭胃肉米酒茶塩絵歌曲夢虫"
)
_BEFORE_PARTICLE = r"(?=[がをはにのでもとやかへっだなよねじまさすせしらばぐ、。,.!?「」・\sA-Za-z0-9]|$)"
"""Kanji before other kana are the stem of a verb or the first half of a word: 話変わる, 植え替え."""
_JAPANESE_WORD = re.compile(
    rf"「(?P<quoted>[^「」]{{1,30}})」"
    rf"|(?P<family>お[ぁ-ん父母兄姉]{{1,2}}(?:さん|ちゃん))"
    rf"|(?P<name>(?<![ぁ-ん{_KANJI}{_KATAKANA}])[ぁ-ん]{{2,6}}(?=ちゃん(?!と)|くん)"
    rf"|[{_KANJI}{_KATAKANA}]+(?=さん|ちゃん(?!と)|くん|君))"
    rf"|(?P<run>[{_KANJI}{_KATAKANA}]{{2,}}+(?:(?<=[{_KATAKANA}])|{_BEFORE_PARTICLE}))"
    rf"|(?P<one>(?<![{_KANJI}])[{_ONE_KANJI}](?=[がをはにのでもと、。]|って|だけ|から))"
    rf"|(?P<latin>[A-Za-z][A-Za-z0-9][A-Za-z0-9+.-]*)"
)
_NUMERAL = re.compile(
    r"(?:[\d〇一二三四五六七八九十百千万億]+(?:[.,・][\d〇一二三四五六七八九]+)*)"
    r"(?:円|ドル|ユーロ|人|日|月|年|時|分|秒|個|枚|匹|頭|羽|台|冊|本|回|歳|才|階|度|杯|番|週|泊|袋|箱|名|曲|足|着|軒|錠|反|畳"
    r"|対|か月|ヶ月|カ月|メートル|センチ|ミリ|キロ|グラム|リットル|パーセント|割|号|点|位|倍|つ)[目間半]?"
)
_JAPANESE_NO_NAMES = (
    "今日 明日 昨日 今朝 今夜 今晩 今回 今度 今年 去年 来年 来月 先月 今月 来週 先週 今週 毎日 毎週 毎朝 毎晩 毎月"
    " 最近 本当 時間 自分 全部 普通 一緒 大丈夫 気分 感じ 場合 午前 午後 予定 結構 多分 絶対 一番 時々 大変 上手 大好"
    " 残念 無理 元気 有名 必要 突然 先日 昼間 夕方 朝晩 週末 平日 一回 一度 一日 二人 一人 何回 何時 何色 何人 何個"
    " 何年 大体 以外 以上 以下 以前 苦手 応援 緊張 賛成 反対 降参 正解 最高 最悪 失敗 成功 楽勝 彼女 名前 完成 結果"
    " ロボット ダメ ホント マジ スゴイ オッケー アレ コレ ソレ ヤツ 月曜 火曜 水曜 木曜 金曜 土曜 日曜 月曜日 火曜日"
    " 水曜日 木曜日 金曜日 土曜日 日曜日"
)
_JAPANESE_STOP = frozenset(_JAPANESE_NO_NAMES.split())
_DETERMINED = re.compile(
    r"\b(?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir|[Aa]n?|[Tt]he)(?=\s+(?P<words>[a-z][a-z'-]*(?:\s+[a-z][a-z'-]*){0,3}))"
)
_MOST_WORDS = 3
_CAPITALS = re.compile(r"(?:(?:Mr|Mrs|Ms|Dr)\.?\s+)?\b[A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*")
_ENGLISH_NO_NAMES = (
    "i i'm i've i'll i'd it lot bit day today time thing things way one ones first last next week month year morning"
    " evening night afternoon idea moment while half hour minute rest mr mrs ms dr monday tuesday wednesday thursday"
    " friday saturday sunday january february march april may june july august september october november december"
    " robot man guy good hi hello oh well phew okay ok yes no guess what by anyway so and but the my our she he they"
    " we you that this it's that's"
)
_ENGLISH_STOP = frozenset(_ENGLISH_NO_NAMES.split())
_ONLY_DIGITS = re.compile(r"[〇一二三四五六七八九十百千万億何ー]+$")
_MOST = 8


def nouns(text: str, said_on: dt.date) -> tuple[str, ...]:
    """Names and things in `text`, in the order they were said, each once. At most 8."""
    text = unicodedata.normalize("NFKC", text)
    for words in sorted({one.said for one in named_days(text, said_on)}, key=len, reverse=True):
        text = text.replace(words, " 、")
    japanese = bool(re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", text))
    found: dict[str, str] = {}
    for word in _japanese(_NUMERAL.sub("、", text)) if japanese else _english(text):
        found.setdefault(entity_key(word), word)
    return tuple(found.values())[:_MOST]


def _japanese(text: str) -> Iterator[str]:
    for match in _JAPANESE_WORD.finditer(text):
        word = match["quoted"] or match[0].strip("・")
        if (len(word) > 1 or match.lastgroup == "one") and word not in _JAPANESE_STOP and not _ONLY_DIGITS.match(word):
            yield word


def _english(text: str) -> Iterator[str]:
    text = MEASURED.sub("、", text)
    found: list[tuple[int, str]] = []
    for match in _CAPITALS.finditer(text):
        begins = match.start() == 0 or bool(re.search(r"[.!?:、]\s*$", text[: match.start()]))
        words = [re.sub(r"'s?$", "", word) for word in match[0].split()]
        while words and (words[0].lower() in _ENGLISH_STOP or (begins and words[0].lower() in STARTERS)):
            words, begins = words[1:], False
        while words and words[-1].lower() in _ENGLISH_STOP:
            words.pop()
        # A sentence begins with a capital whatever its first word is.
        if words and (not begins or len(words) > 1 or is_said_of(text[match.start() :])):
            found.append((match.start(), " ".join(words)))
    for match in _DETERMINED.finditer(text):
        if thing := _thing(match["words"].split(), text[match.end("words") :]):
            found.append((match.start("words"), thing))
    for _, word in sorted(found):
        if len(word) > 1:
            yield word


def is_said_of(sentence: str) -> bool:
    """Whether an English sentence begins with a name: Anna is 12, Lucy and Paul live here."""
    match = re.match(r"([A-Z][\w-]*)(?:'s\b|\s+([a-z][a-z']*)(?:\s+([A-Z]))?)", sentence)
    if match is None or match[1].lower() in STARTERS | _ENGLISH_STOP or match[1].endswith("ing"):
        return False
    verb = match[2]
    return verb is None or (verb == "and" and match[3] is not None) or _is_verb(verb)


def _is_verb(word: str) -> bool:
    return word in VERBS or bool(re.fullmatch(r"(?!.*(?:need|feed|seed|speed|bed|shed)$)[a-z]{2,}ed", word))


def _thing(words: list[str], after: str) -> str:
    """The thing after "my" or "the": up to what is said of it, or up to whom it is said of."""
    kept: list[str] = []
    for word in words:
        if word in ("one", "ones"):
            return ""
        if word in NO_THING or (kept and _is_verb(word)):
            break
        kept.append(word)
        if word in HEADS:
            break
    else:
        # The words go on, and nothing tells where the thing ends.
        if len(kept) > _MOST_WORDS or re.match(r"\s+[a-z]", after):
            return ""
    if not kept or kept[-1] in _ENGLISH_STOP or len(kept) > _MOST_WORDS:
        return ""
    return " ".join(word for word in kept if word not in _ENGLISH_STOP)
