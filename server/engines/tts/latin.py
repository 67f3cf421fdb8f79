"""Kana for the Latin words of a Japanese sentence: a table of customary readings, then kanalizer for the rest.

One voice then says the whole sentence: heard back by the recognizer, sentences with such words had about a third of the
errors that they had with an English voice in their middle. Which words ask for kana is decided in `scripts`.
kanalizer holds the interpreter while it reads a word (about 6 ms), so long words are not read and readings are kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from server.engines.tts.scripts import Run, split_runs
from server.engines.worker import ModelThread
from server.errors import TtsError

LONGEST_WORD = 20
"""Letters; a longer word is left to the English voice."""
_KEPT_READINGS = 2_000

CUSTOMARY: Mapping[str, str] = MappingProxyType(
    {
        "adobe": "アドビ", "ai": "エーアイ", "app": "アプリ", "arduino": "アルドゥイーノ",
        "beautiful": "ビューティフル",
        "birthday": "バースデー", "cafe": "カフェ", "cake": "ケーキ", "chocolate": "チョコレート",
        "christmas": "クリスマス",
        "client": "クライアント", "coffee": "コーヒー", "email": "イーメール", "english": "イングリッシュ",
        "friday": "フライデー",
        "great": "グレート", "hello": "ハロー", "im": "アイム", "iot": "アイオーティー", "is": "イズ",
        "japanese": "ジャパニーズ", "jpeg": "ジェイペグ", "json": "ジェイソン", "kubernetes": "クバネティス",
        "kyoto": "キョウト",
        "login": "ログイン", "macbook": "マックブック", "me": "ミー", "monday": "マンデー", "news": "ニュース",
        "nike": "ナイキ",
        "of": "オブ", "ok": "オーケー", "okay": "オーケー", "osaka": "オオサカ", "phone": "フォン",
        "pikachu": "ピカチュウ",
        "pizza": "ピザ", "pokemon": "ポケモン", "ramen": "ラーメン", "raspberry": "ラズベリー",
        "restaurant": "レストラン",
        "saturday": "サタデー", "soccer": "サッカー", "sorry": "ソーリー", "student": "スチューデント",
        "sunday": "サンデー",
        "tea": "ティー", "the": "ザ", "thursday": "サーズデー", "tiktok": "ティックトック", "to": "トゥー",
        "tokyo": "トウキョウ",
        "tuesday": "チューズデー", "twitter": "ツイッター", "uber": "ウーバー", "unesco": "ユネスコ",
        "url": "ユーアールエル",
        "usb": "ユーエスビー", "very": "ベリー", "voicevox": "ボイスボックス", "we": "ウィー",
        "wednesday": "ウェンズデー",
        "wifi": "ワイファイ", "xperia": "エクスペリア", "yes": "イエス",
    }
)  # fmt: skip
"""Words that the model reads otherwise than Japanese people do."""


class LatinReader:
    """Reads Latin words as kana. Has the life of an engine: start, use, close."""

    name = "kanalizer"

    def __init__(self) -> None:
        self._thread = ModelThread(self.name, TtsError)

    async def start(self) -> None:
        await self._thread.start(lambda: _kana_by_model("start"))

    async def close(self) -> None:
        await self._thread.close()

    async def runs(self, text: str, language: str, readings: Mapping[str, str]) -> list[Run]:
        """`scripts.split_runs` with kana, off the event loop. Raises `TtsError`."""
        return await self._thread.call(split_runs, text, language, readings, kana_of)


def kana_of(word: str) -> str:
    """The kana of one word of any case, "" when it has none. Imports kanalizer for a word that is not `CUSTOMARY`."""
    folded = unicodedata.normalize("NFKD", word.casefold())
    letters = re.sub("[^a-z]", "", folded)
    if not 0 < len(letters) <= LONGEST_WORD:
        return ""
    return CUSTOMARY.get(letters) or _kana_by_model(letters)


@lru_cache(_KEPT_READINGS)
def _kana_by_model(letters: str) -> str:
    import kanalizer

    return kanalizer.convert(letters, on_incomplete="ignore")
