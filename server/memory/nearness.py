"""How near is near: the limits of an embedding model's cosines, from what they are between texts that share nothing.

Models differ: between a question and a text that has nothing to do with it one gives 0.76, another 0.2. So every limit
is so many deviations above that, by one rule, chosen with E5; an engine states its figures (`Calibrated`), and for one
that does not they are measured with the texts here. Knows no engine by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from server.engines.base import Calibrated, CosineCalibration, EmbeddingEngine

_MEANT_DEVIATIONS = 1.72
_WIDTH_DEVIATIONS = 1.28
_LEAST_DEVIATION = 0.002
"""Cosines that lie nearer together tell nothing."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """Limits of a model. `meant`: what is as near may be spoken of in other words. `width`: from far to near."""

    meant: float
    width: float

    @property
    def found(self) -> float:
        """What is less near was not found."""
        return self.meant + 0.1 * self.width

    @property
    def perhaps(self) -> float:
        """What is less near, and shares no word, is not even worth asking about."""
        return self.meant - 0.06 * self.width


def nearness(calibration: CosineCalibration) -> Nearness | None:
    """The limits; None where cosines tell nothing apart."""
    if calibration.deviation < _LEAST_DEVIATION:
        return None
    return Nearness(
        calibration.unrelated + _MEANT_DEVIATIONS * calibration.deviation,
        _WIDTH_DEVIATIONS * calibration.deviation,
    )


def stated(engine: EmbeddingEngine) -> Nearness | None:
    """The limits of an engine that states its figures; None: they have to be measured."""
    return nearness(engine.calibration) if isinstance(engine, Calibrated) else None


async def measured(engine: EmbeddingEngine) -> CosineCalibration:
    """The figures of an engine, from questions and texts that have nothing to do with each other.

    Raises `EmbeddingError`. Takes as long as 32 texts do.
    """
    cosines: list[float] = []
    for questions, texts in ((_QUESTIONS_JA, _TEXTS_JA), (_QUESTIONS_EN, _TEXTS_EN)):
        asked, kept = await engine.embed_queries(questions), await engine.embed_documents(texts)
        cosines += [float(np.dot(one, other)) for one, other in product(asked, kept)]
    return CosineCalibration(float(np.mean(cosines)), float(np.std(cosines)), "measured at start")


_QUESTIONS_JA = (
    "自転車の鍵はどこに置いた？",
    "先週の会議は何時に終わったっけ",
    "おばあちゃんの好きな花は何？",
    "新しい冷蔵庫はいくらだった？",
    "次の歯医者はいつだったかな",
    "隣の犬は何ていう名前だっけ",
    "去年の夏はどこへ旅行したの",
    "ぼくの靴のサイズを覚えてる？",
)
_TEXTS_JA = (
    "大学ではロシア語を勉強していた。",
    "昨日の夜は星がよく見えた。",
    "カレーにりんごを入れるとおいしい。",
    "図書館で推理小説を三冊借りた。",
    "息子はサッカーの試合で点を取った。",
    "庭のトマトが赤くなった。",
    "将棋で父に初めて勝った。",
    "ピアノの発表会は中止になった。",
)
_QUESTIONS_EN = (
    "Where did I put the bicycle key?",
    "When did last week's meeting end?",
    "Which flowers does my grandmother like?",
    "How much was the new fridge?",
    "When do I see the dentist next?",
    "What is the name of the dog next door?",
    "Where did we travel last summer?",
    "Do you remember my shoe size?",
)
_TEXTS_EN = (
    "I studied Russian at university.",
    "The stars were very clear last night.",
    "An apple makes a curry taste better.",
    "I borrowed three detective novels from the library.",
    "My son scored in the football match.",
    "The tomatoes in the garden are ripe.",
    "I beat my father at chess for the first time.",
    "The piano recital was called off.",
)
