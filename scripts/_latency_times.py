"""What the stand-in engines of `bench_latency` do, the same for our server and for the peer. Standard library only.

Hearing takes 100 ms; the model's first token 150 ms, each further one 10 ms, 30 in all, with the first 、 at 200 ms and
the first 。 at 270 ms; the voice 100 ms a sentence.
"""

from __future__ import annotations

HEARD = "今日の天気を教えて。"
HEAR_SECONDS = 0.1
FIRST_TOKEN_SECONDS = 0.15
TOKEN_SECONDS = 0.01
SPEAK_SECONDS = 0.1
CHARACTER_SECONDS = 0.05
"""How long a character of the answer is, spoken."""
SPEECH_RATE_HZ = 24_000
FIRST_CLAUSE_SECONDS = 0.2

TOKENS = (
    *("今日", "はと", "ても", "よい", "天気", "、外"),
    *("へ出", "て庭", "を見", "よう", "かな", "と思", "う。"),
    *("花も", "たく", "さん", "咲い", "てい", "て、", "鳥の", "声も", "聞こ", "える"),
    *("から", "ゆっ", "くり", "歩い", "てみ", "よう", "ね。"),
)
REPLY = "".join(TOKENS)


def token_seconds(number: int) -> float:
    """When token `number` (from 0) is there, after the request."""
    return FIRST_TOKEN_SECONDS + number * TOKEN_SECONDS
