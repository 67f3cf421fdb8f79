"""What closes subtitles and videos in a speech model's training data, and how subtitles write sounds.

Patterns for a text's letters and digits alone, in lower case. Words that people say to a robot (thank you, bye, good
night) are not in them. Data only: when they count is the matter of `hearing_guards`.
"""

from __future__ import annotations

import re

# Longer texts are not one of these.
_MAX_CHARACTERS = 160

_JAPANESE = (
    r"(?:皆さん|みなさん)?(?:本日|今日|今回)?[はも]?(?:最後まで)?(?:.{0,14}動画を?)?"
    r"(?:(?:ご視聴|ご覧|ご清聴|ご閲覧)(?:いただき|いただいて|くださり|下さり|頂き|頂いて|下さい|ください)?|[見観]て(?:いただき|頂き))"
    r"(?:まして)?(?:まことに|誠に|本当に|どうも)?ありがとう(?:ございました|ございます)?",
    r"(?:この動画[がを]?気に入(?:ったら|っていただけたら|りましたら)|よろしければ|よかったら)?(?:ぜひ)?"
    r"(?:チャンネル|高評価|グッドボタン).{0,14}(?:お願い|よろしく|してね|してください|お待ちして).{0,10}",
    r"(?:それでは|では)?(?:また)?(?:次回?|来週)(?:の(?:動画|ビデオ|放送))?[でにをも]?(?:また)?"
    r"(?:お会いしましょう|会いましょう|お楽しみに)",
    r"(?:それでは|では)また(?:次回|来週)?(?:お会いしましょう|会いましょう)?",
    r"字幕(?:視聴|制作|作成|翻訳|協力)?(?:ありがとうございました|by.{0,30}|.{0,16}(?:会社|協会|チーム|コミュニティ))",
    r"提供は?|終わり|おわり|つづく|続く|エンディング|オープニング|音楽|拍手|bgm|また見てね",
)
_ENGLISH = (
    r"(?:thankyou|thanks)(?:all|guys|everyone)?(?:somuch|verymuch)?for(?:watching|viewing|listening|yourattention)"
    r"(?:tothisvideo|thisvideo|thevideo|myvideo)?",
    r"(?:and|please|dontforgetto|makesureto|besureto|ifyou(?:enjoyed|liked?)th(?:is|e)video){0,3}"
    r"(?:like|share|comment|hitthe(?:like|bell)(?:button)?|and){0,6}"
    r"(?:subscribe|likethisvideo)(?:to(?:my|our|the|this)channel|formore(?:videos)?)?",
    r"(?:and|so|well)?(?:ill|iwill)?see(?:you|ya)(?:guys|all)?(?:in(?:the|my))?next(?:video|one|episode|time)(?:bye){0,3}",
    r"(?:eso)?(?:subtitles?|captions?|transcri(?:bed|ption|pt)|translat(?:ed|ion))(?:providedby|by).{0,40}",
    r"(?:www)?(?:mooji|amara|beadaholique|opensubtitles)(?:org|com).{0,20}",
    r"copyright.{1,30}|bfwatchtv[0-9]{0,4}|castingwords|eso|music|applause|you|theend|tobecontinued",
)
_OTHER_LANGUAGES = (
    r"untertitel.{0,80}|soustitr(?:es|age).{0,80}|sottotitoli.{0,80}|subt[ií]tulos.{0,80}|legendas(?:pela|por).{0,80}",
    r"ondertitel.{0,80}|napisy(?:stworzone|przez).{0,80}|[請请]不吝.{0,60}|.{0,12}(?:訂閱|订阅).{0,40}",
    r"字幕(?:志愿者|志願者|由).{0,30}|mbc뉴스.{0,20}",
)
_STOCK = re.compile(f"(?:{'|'.join((*_JAPANESE, *_ENGLISH))}){{1,4}}")
_FOREIGN = re.compile("|".join(_OTHER_LANGUAGES))

# (拍手), [Music]. Between two ♪ stands what somebody sang; other words in brackets were said.
_NOTE = re.compile(r"[(（\[【＜<〈*]\s*(?P<inside>[^()（）\[\]【】＜＞<>〈〉*]{0,60}?)\s*[)）\]】＞>〉*]")
_SOUND = re.compile(
    r"\b(?:music|applause|laugh\w*|sighs?|sighing|cough\w*|clap\w*|silence|noises?|inaudible|blank|sounds?|cheer\w*|"
    r"breath\w*|sneez\w*|snor\w*|gasps?|chuckl\w*|sob\w*|crying|whistl\w*|beep\w*|ringing|static|typing|footsteps|foreign|"
    r"speaking|singing|humming|indistinct|unintelligible|audio|musik|applaus|musique|música|aplausos|risas)\b"
    r"|音楽|拍手|歓声|無音|沈黙|雑音|ノイズ|効果音|足音|笑い?声?$|咳|ため息|鳴き声|泣き声|チャイム|bgm|聞き取れ|聴取不能|不明"
    r"|音$|音乐|掌声|笑声|음악|박수|музыка|аплодисменты",
    re.IGNORECASE,
)


def without_sound_notes(text: str) -> str:
    """`text` without what a subtitle writes for a sound; other words in brackets stay."""
    return _NOTE.sub(lambda note: " " if _SOUND.search(note["inside"]) else note.group(), text)


def is_stock_phrase(core: str) -> bool:
    """Whether a text is nothing but such phrases, in Japanese or English; somebody may have said it all the same."""
    return len(core) <= _MAX_CHARACTERS and _STOCK.fullmatch(core) is not None


def is_foreign_stock_phrase(core: str) -> bool:
    """Whether a text is one that nobody says in Japanese or English."""
    return len(core) <= _MAX_CHARACTERS and _FOREIGN.fullmatch(core) is not None
