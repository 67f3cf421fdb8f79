"""Words that name one thing: what was told of as デスクトップ is asked for as パソコン, the couch as the sofa.

Data only, by hand and few: vectors do not tell another word for a thing from another thing of its kind (the van from
the truck). What stands in no group is known by its own name alone.
"""

from __future__ import annotations

_GROUPS = (
    "パソコン デスクトップ ノートパソコン ラップトップ パーソナルコンピュータ コンピュータ コンピューター pc mac マック"
    " computer laptop desktop notebook",
    "車 自動車 クルマ マイカー 愛車 car automobile",
    "自転車 チャリ ちゃりんこ チャリンコ ママチャリ bicycle bike",
    "バイク オートバイ 単車 motorbike motorcycle",
    "携帯 ケータイ 携帯電話 スマホ スマートフォン phone smartphone mobile cellphone iphone",
    "テレビ tv television telly",
    "冷蔵庫 fridge refrigerator",
    "掃除機 クリーナー vacuum hoover",
    "ソファ ソファー sofa couch",
    "眼鏡 メガネ めがね glasses spectacles eyeglasses",
    "カメラ デジカメ 一眼レフ camera",
    "歯医者 歯科 歯科医院 dentist",
    "眼科 目医者",
    "病院 医院 クリニック hospital clinic",
    "医者 医師 ドクター doctor physician",
    "アパート マンション 部屋 apartment flat",
    "家賃 部屋代 rent",
    "会社 勤め先 勤務先 職場 company workplace",
    "給料 給与 月給 サラリー salary wage pay",
    "値段 価格 代金 price cost",
    "旅行 旅 trip journey",
    "休み 休暇 vacation holiday",
    "薬 お薬 medicine medication",
    "犬 わんこ ワンコ ワンちゃん 愛犬 dog puppy",
    "猫 ネコ ねこ にゃんこ 愛猫 cat kitten",
    "傘 かさ umbrella",
    "靴 スニーカー shoes sneakers trainers",
    "椅子 イス いす チェア chair",
    "机 デスク desk",
    "鞄 カバン かばん バッグ bag handbag",
    "時計 腕時計 watch wristwatch",
    "鍵 カギ かぎ キー key keys",
    "誕生日 生年月日 バースデー birthday",
    "結婚式 披露宴 wedding",
    "引っ越し 引越し 引越 move",
)
_GROUP_OF: dict[str, frozenset[str]] = {}
for _words in _GROUPS:
    _group = frozenset(_words.split())
    _GROUP_OF.update(dict.fromkeys(_group, _group))


def names_of(thing: str) -> frozenset[str]:
    """The words that may name `thing` (folded), itself too."""
    return _GROUP_OF.get(thing, frozenset((thing,))) | {thing}
