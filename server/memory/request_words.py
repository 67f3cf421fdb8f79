"""Words of a request to forget itself, and words of every talk, which tell no two memories apart. Data only."""

from __future__ import annotations

_JAPANESE = (
    "今日 明日 昨日 今朝 今年 去年 来年 来月 先月 今月 来週 先週 今週 最近 毎日 一緒 自分 本当 全部 時間 話題 話"
    " 事 人 家 物 件 前 後 今 次 上 下 中 方 両方 記憶 記録 情報 内容 履歴 値段 価格 番号 名前 場所 予定 電話 写真"
    " 大丈夫 必要 友達 僕 私 俺 会話 データ メモ ヤツ コト 部分 最初 最後 二回 一回 一番 一人 二人 月曜 火曜 水曜"
    " 木曜 金曜 土曜 日曜"
)
LIGHT_JAPANESE = frozenset(_JAPANESE.split())

_ENGLISH = (
    "time times day days today tomorrow yesterday week weekend month year years morning evening night good great nice"
    " new old big small little first second last next other another one ones thing things stuff way part kind lot bit"
    " people person man woman price cost number name place trip visit story date home really very also still mr mrs ms"
    " dr user robot going went go got get getting bought buy used use like liked love want need made make take took had"
    " have monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december two three four five six seven eight nine ten hundred thousand dollars dollar"
    " euros pounds hours minutes much many said told talked think know remember"
)
LIGHT_ENGLISH = frozenset(_ENGLISH.split())

_REQUESTING = (
    "forget forgot forgotten forgetting delete erase remove wipe clear rid remember remembered remembering pretend"
    " never please stackchan everything anything all whole memory memories record records note what tell told know said"
    " say saying mention mentioned talked talk stop ever again ok okay hey now just you can could would want need like"
    " don't do not about that's thing things stuff part conversation"
)
OF_REQUESTS = frozenset(_REQUESTING.split())
"""English words of the request itself."""

_POINTING = "one ones first second last new old other next now time thing day"
POINTING = frozenset(_POINTING.split())
"""English words that name nothing by themselves."""

_KANA = (
    "うち わたし ぼく おれ あたし じぶん それ これ あれ そこ ここ ほう かた もう また すべて ぜんぶ みんな さっき だけ"
)
LIGHT_KANA = frozenset(_KANA.split())

_NAMED = "番号 名前 値段 電話 写真 予定 場所"
NAMED_LIGHT = frozenset(_NAMED.split())
"""Light beside another word; alone they are what is meant."""

_NAMED_ENGLISH = "number name price cost place trip visit story date home"
NAMED_LIGHT_ENGLISH = frozenset(_NAMED_ENGLISH.split())
"""Beside another word, too, they may be what is meant: my bank number."""

_NOBODY = "it that what there here let who he she where how when today everything"
NO_OWNER = frozenset(_NOBODY.split())

_ANIMALS = "dog cat rabbit hamster parrot puppy kitten baby"
PETS = frozenset(_ANIMALS.split())

_CHOOSING = (
    "one ones first second third last number no yes please ok okay other another both all two three the a an that this"
)
CHOOSING = frozenset(_CHOOSING.split())
"""English words that choose by place, or say nothing."""

_AROUND = "the a an that this my our one ones and with for from of on in about both part thing things it"
JOINING = frozenset(_AROUND.split())
"""English words around the words of a choice."""

_KINDS = (
    "old older oldest new newer newest late later latest early earlier earliest recent more most big bigger small"
    " first second third last number"
)
DESCRIBING = frozenset(_KINDS.split())
"""English words that tell one from another, though nothing that was offered has them."""
