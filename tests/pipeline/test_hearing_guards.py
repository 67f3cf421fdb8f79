"""What a speech model invents is dropped; what people really say passes. Both ways, in both languages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.pipeline.hearing_guards import Hearing, why_not_believed

pytestmark = pytest.mark.unit

SURE = {"no_speech_probability": 0.05, "average_log_probability": -0.3}
UNSURE = {"no_speech_probability": 0.7, "average_log_probability": -0.4}
WEAK = {"no_speech_probability": 0.1, "average_log_probability": -0.9}

# (text, seconds of speech)
SAID = [
    ("はいはい", 0.8),
    ("はいはいはいはいはい", 1.6),
    ("ねえねえ", 0.8),
    ("もしもし", 0.9),
    ("ばいばいばい", 1.2),
    ("ははははは", 1.2),
    ("あああああああああ！", 2.0),
    ("やだやだやだやだやだ", 2.0),
    ("お母さん、お母さん、お母さん", 2.5),
    ("スタックチャン起きて、スタックチャン起きて、スタックチャン起きて", 5.0),
    ("ありがとうありがとうありがとう", 2.2),
    ("ありがとうございました", 1.2),
    ("ありがとう", 0.6),
    ("おやすみなさい", 0.9),
    ("バイバイ", 0.6),
    ("はい", 0.35),
    ("え？", 0.3),
    ("富士通のパソコン", 1.4),
    ("ご視聴ありがとうございましたって何？", 2.6),
    ("チャンネル登録ってどうやるの？", 2.0),
    ("字幕をつけて", 1.2),
    ("（笑）って何て読むの？", 1.8),
    ("♪ きらきらひかる ♪", 3.0),
    ("3.14159265358979", 6.0),
    ("no no no no no no", 2.0),
    ("hahaha", 0.9),
    ("bye bye bye", 1.0),
    ("Thank you.", 0.6),
    ("Thank you very much.", 1.0),
    ("Good night.", 0.7),
    ("Yes.", 0.3),
    ("How do I subscribe to a channel?", 2.0),
    ("Thanks for watching my cat.", 1.6),
    ("Can you hear me? Can you hear me? Can you hear me?", 3.6),
    ("Supercalifragilisticexpialidocious", 2.0),
    ("What does (sic) mean?", 1.5),
]

INVENTED = [
    ("", 1.0, "empty"),
    ("   \n", 1.0, "empty"),
    ("。。。", 1.0, "empty"),
    ("…", 1.0, "empty"),
    ("♪", 2.0, "empty"),
    ("🎵🎵", 2.0, "empty"),
    ("（拍手）", 1.5, "empty"),
    ("[音楽]", 1.5, "empty"),
    ("[Music]", 1.5, "empty"),
    ("(applause) (laughs)", 2.0, "empty"),
    ("*sighs*", 1.0, "empty"),
    ("はい" * 40, 5.0, "repetition"),
    ("あ" * 120, 8.0, "repetition"),
    ("ん" + "、ん" * 60, 8.0, "repetition"),
    ("お願いします。" * 12, 9.0, "repetition"),
    ("それでは、" + "いただきます。" * 20, 12.0, "repetition"),
    ("今日はいい天気なので散歩に行きます。" * 6, 20.0, "repetition"),
    ("the " * 60, 10.0, "repetition"),
    ("I don't know. " * 10, 12.0, "repetition"),
    ("No, no, no, " * 12, 12.0, "repetition"),
    ("今日はいい天気ですね。明日も晴れるといいですね。", 0.8, "too_fast"),
    ("I was thinking that we could go to the park after lunch and then see a film.", 0.9, "too_fast"),
    ("長い話" * 100_000, 5.0, "too_fast"),
    ("あ" * 1_000_000, 60.0, "too_fast"),
]


@pytest.mark.parametrize(("text", "seconds"), SAID)
@pytest.mark.parametrize("evidence", [SURE, UNSURE, WEAK, {}], ids=["sure", "unsure", "weak", "unknown"])
def test_what_people_say_passes_however_unsure_the_model(text, seconds, evidence):
    assert why_not_believed(Hearing(text, seconds, **evidence)) is None


@pytest.mark.parametrize(("text", "seconds", "reason"), INVENTED, ids=[t[:12] or "nothing" for t, _, _ in INVENTED])
@pytest.mark.parametrize("evidence", [SURE, UNSURE, {}], ids=["sure", "unsure", "unknown"])
def test_what_nobody_said_is_dropped_however_sure_the_model(text, seconds, reason, evidence):
    assert why_not_believed(Hearing(text, seconds, **evidence)) == reason


STOCK = [
    ("ご視聴ありがとうございました", 2.4),
    ("ご視聴ありがとうございました。", 2.4),
    ("最後までご視聴いただき、ありがとうございます！", 3.6),
    ("チャンネル登録お願いします", 2.2),
    ("チャンネル登録をよろしくお願いします", 2.8),
    ("高評価とチャンネル登録をよろしくお願いします", 3.6),
    ("次の動画でお会いしましょう", 2.4),
    ("字幕視聴ありがとうございました", 2.6),
    ("Thanks for watching!", 1.6),
    ("Thank you for watching.", 1.6),
    ("Please subscribe to my channel.", 2.0),
    ("Don't forget to like and subscribe!", 2.4),
    ("See you in the next video.", 1.8),
    ("Subtitles by the Amara.org community", 3.0),
    ("Transcription by CastingWords", 2.4),
]


@pytest.mark.parametrize(("text", "seconds"), STOCK)
def test_a_stock_phrase_is_dropped_when_the_model_is_unsure_or_the_sound_too_short_for_it(text, seconds):
    assert why_not_believed(Hearing(text, seconds, **UNSURE)) == "stock_phrase"
    assert why_not_believed(Hearing(text, seconds, **WEAK)) == "stock_phrase"
    assert why_not_believed(Hearing(text, 0.5)) in ("stock_phrase", "too_fast")


@pytest.mark.parametrize(("text", "seconds"), STOCK)
def test_somebody_who_says_it_clearly_is_heard(text, seconds):
    assert why_not_believed(Hearing(text, seconds, **SURE)) is None


@pytest.mark.parametrize(
    ("text", "hot_words", "reason"),
    [
        ("富士通", ("富士通", "ポチ"), "hot_words"),
        ("ポチ 富士通", ("富士通", "ポチ"), "hot_words"),
        ("ポチ、ポチ。", ("ポチ",), "hot_words"),
        ("FUJITSU", ("Fujitsu",), "hot_words"),
        ("ﾎﾟﾁ", ("ポチ",), "hot_words"),
        ("Momo, Fujitsu.", ("Fujitsu", "Momo"), "hot_words"),
        ("富士通のPC", ("富士通", "PC"), None),
        ("ポチはどこ？", ("ポチ",), None),
        ("Where is Momo?", ("Momo",), None),
        ("富士通", (), None),
        ("富士通", ("", "。"), None),
    ],
)
def test_only_the_hot_words_it_was_given_is_an_echo(text, hot_words, reason):
    assert why_not_believed(Hearing(text, 1.2), hot_words) == reason


@given(st.text(max_size=300), st.floats(0, 60), st.lists(st.text(max_size=10), max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_text_is_judged(text, seconds, hot_words):
    reason = why_not_believed(Hearing(text, seconds), hot_words)
    assert reason in (None, "empty", "repetition", "hot_words", "too_fast", "stock_phrase")


def test_the_longest_text_is_judged_quickly():
    began = time.perf_counter()
    assert why_not_believed(Hearing("今日は、いい天気。" * 444, 400.0)) == "repetition"
    assert why_not_believed(Hearing("".join(chr(0x4E00 + n) for n in range(4000)), 400.0)) is None
    assert time.perf_counter() - began < 1
