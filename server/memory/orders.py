"""Whether a sentence tells the robot, or a device, to do something: 五分のタイマーをかけて; add milk to the list.

Pure, by the look of the words, Japanese and English, and whatever numbers and days are in it: those are the order's.
What is to be remembered, forgotten or told is asked elsewhere.
"""

from __future__ import annotations

import re

_DEVICES = (
    r"タイマー|アラーム|目覚まし|電話|メール|メッセージ|音楽|曲|歌|ラジオ|テレビ|動画|電気|電灯|ライト|照明|ランプ|エアコン|暖房|冷房|扇風機"
    r"|音量|ボリューム|マイク|カーテン|窓|ドア|鍵|リスト|リマインダー|洗濯機|掃除機|ストーブ"
)
_DONE_WITH = (
    r"(?:かけ(?:直し)?|掛け|セットし|設定し|止め|とめ|消し|つけ|付け|点け|切っ|流し|再生し|鳴らし|上げ|下げ|開け|あけ|閉め|しめ|入れ"
    r"|追加し|送っ|始め|キャンセルし|取り消し|オン(?:に)?し|オフ(?:に)?し|ミュートし|し)"
)
_POLITE = (
    r"(?:おい)?(?:て|で)?(?:よ|ね|な|くれ(?:る|ない|ます|ません)?|ください|下さい|ちょうだい|頂戴|もらえ(?:る|ない|ます|ません)"
    r"|もらって(?:も)?いい|ほしい(?:な|んだ(?:けど)?|です)?|欲しい(?:な|んだ(?:けど)?|です)?)*か?[。!?、\s]*$"
)
_JAPANESE = re.compile(
    rf"(?:{_DEVICES})(?!が).*{_DONE_WITH}(?:て|で|とい(?:て|で)){_POLITE}"
    rf"|(?:^|[、をにでと])(?:起こし|予約し|追加し|再生し|設定し|セットし|録画し|検索し|計算し|翻訳し|調べ|読み上げ|数え)て{_POLITE}"
    r"|(?:て|で)(?:ください|下さい|くださいませんか|くれ|ちょうだい|頂戴)(?:よ|ね)?[。!\s]*$"
    r"|^(?![^、]*[はが])[^、]*(?:て|で)(?:くれる|くれない|くれます|くれません|もらえる|もらえない|もらえます|もらえません)か?[。!\s]*$"
)
_BEFORE = r"^(?:(?:please|now|okay|ok|and|then|hey|hi|so|just|also|quickly|stack[\s-]?chan|robot),?\s+)*"
_THING = (
    r"(?:the|a|an|my|our|his|her|their|this|that|these|those|it|them|me|us|some|all|every|both|off|on|up|down|another"
    r"|\d+|one|two|three|four|five|ten)\b"
)
_ENGLISH = re.compile(
    rf"{_BEFORE}(?:"
    r"(?:add|cancel|dial|dim|mute|unmute|pause|resume|snooze|skip|rewind|translate|calculate|repeat|restart|remind)\s+\S"
    r"|call\s+(?!me\s+\S+[.!]*$|it\b|him\s+\w+$|her\s+\w+$)\S|switch\s+(?:off|on|the|to|it|that|my)\b|wake\s+(?:me|us)\b"
    rf"|(?:open|close|shut|book|order|start|lock|unlock|send|schedule|find|search|check|count|raise|lower|increase"
    rf"|decrease|reduce|bring|get|fetch|pick|choose|make|phone|ring|text|message|email|remove|delete|clear|run|record"
    rf"|dictate|spell|guess|charge|print|reserve|buy|pass|hand|help|clean|warm|heat|cool)\s+{_THING}"
    r"|put\s+(?:on|some|the\s+(?:lights?|lamp|tv|radio|kettle|music|heating))\b|put\s.*\bon\s+(?:my|the|our)\s.*\blist\b"
    r"|(?:phone|text|message|email|search|look)\s+(?:for\s+)?[a-z]+[.!]*$"
    r")",
)
_NOTED = re.compile(rf"{_BEFORE}make\s+(?:a|an|me\s+a)\s+note\b")


def is_order(plain: str) -> bool:
    """Whether a sentence, as `words.plain` makes it, is an order."""
    return bool(_JAPANESE.search(plain) or (_ENGLISH.search(plain) and not _NOTED.search(plain)))
