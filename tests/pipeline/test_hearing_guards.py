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
    ("はい" * 60, 20.0, "repetition"),
    ("I don't know. " * 40, 60.0, "repetition"),
    ("お願いします。" * 12, 3.0, "repetition"),
    ("the " * 60, 5.0, "repetition"),
    ("(upbeat music)", 2.0, "empty"),
    ("【拍手】", 2.0, "empty"),
    ("\u3164\u2800", 1.0, "empty"),
    ("Untertitel von uns allen", 3.0, "stock_phrase"),
    ("Untertitelung im Auftrag des ZDF, 2020", 3.0, "stock_phrase"),
    ("Sous-titres réalisés par la communauté d'Amara.org", 3.0, "stock_phrase"),
    ("Sottotitoli creati dalla comunità Amara.org", 3.0, "stock_phrase"),
    ("Subtítulos realizados por la comunidad de Amara.org", 3.0, "stock_phrase"),
    ("Продолжение следует...", 2.0, "stock_phrase"),
    ("Субтитры и перевод", 2.0, "stock_phrase"),
    ("MBC 뉴스입니다.", 2.0, "stock_phrase"),
    ("시청해 주셔서 감사합니다", 2.0, "stock_phrase"),
    ("請不吝點贊 訂閱 轉發 打賞支持明鏡與點點欄目", 4.0, "stock_phrase"),
    ("ขอบคุณครับ", 2.0, "stock_phrase"),
    ("今日はいい天気ですね。明日も晴れるといいですね。", 0.8, "too_fast"),
    ("I was thinking that we could go to the park after lunch and then see a film.", 0.9, "too_fast"),
    ("長い話" * 100_000, 5.0, "too_fast"),
    ("あ" * 1_000_000, 60.0, "too_fast"),
]


# What a model that is unsure would be thought to have invented: said at a speed that people reach, it was said.
SAID_CLEARLY = [
    ("やだ" * 12, 3.0),
    ("がんばれ" * 10, 5.0),
    ("は" * 20, 2.6),
    ("あはははははははははははははははははは", 2.4),
    ("あ" * 21, 3.0),
    ("あ" + "ー" * 21, 3.0),
    ("いちに" * 10, 4.0),
    ("どんどん" * 5, 2.8),
    ("すごい" * 10, 4.0),
    ("早く" * 10, 3.0),
    ("ダメ" * 11, 3.0),
    ("ごめんなさい" * 9, 7.0),
    ("起きて" * 10, 4.0),
    ("なむあみだぶつ" * 7, 7.0),
    ("お願いします。" * 12, 9.0),
    ("ん、" * 30, 8.0),
    ("1000000000000000000000", 1.5),
    ("000000000000000000", 1.5),
    ("no " * 36, 12.0),
    ("Are we there yet? " * 4, 4.0),
    ("go " * 11, 2.0),
    ("la " * 14, 2.5),
    ("Mommy " * 8, 3.0),
    ("Wake up " * 8, 4.0),
    ("Why? " * 7, 2.5),
    ("I don't know. " * 10, 12.0),
    ("Baby shark doo doo doo doo doo doo, " * 3, 9.0),
    ("Happy birthday to you. " * 4, 8.0),
    ("チャンネル登録お願いします", 2.0),
    ("チャンネル登録してね", 1.6),
    ("おわり", 0.7),
    ("つづく", 0.7),
    ("音楽", 0.7),
    ("拍手", 0.6),
    ("Subscribe", 0.8),
    ("Translated by whom?", 1.2),
    ("Translation by hand", 1.2),
    ("Transcribed by me", 1.2),
    ("Captions by default, please", 1.8),
    ("See you next time.", 1.0),
    ("you", 0.4),
]
BRACKETED = ["（はい）", "(はい)", "【はい】", "[yes]", "(うん、いいよ。)", "（おかあさん）", "*うん*", "「うん」"]


@pytest.mark.parametrize(("text", "seconds"), SAID_CLEARLY, ids=[text[:16] for text, _ in SAID_CLEARLY])
def test_what_is_said_clearly_at_a_human_speed_passes(text, seconds):
    assert why_not_believed(Hearing(text, seconds, **SURE)) is None
    assert why_not_believed(Hearing(text, seconds)) is None


@pytest.mark.parametrize("text", BRACKETED)
@pytest.mark.parametrize("evidence", [SURE, UNSURE, WEAK], ids=["sure", "unsure", "weak"])
def test_words_in_brackets_are_words(text, evidence):
    assert why_not_believed(Hearing(text, 1.0, **evidence)) is None


LOOPS = [
    ("ん" + "、ん" * 60, 8.0),
    ("やだ" * 12, 3.0),
    ("お願いします。" * 12, 9.0),
    ("それでは、" + "いただきます。" * 20, 20.0),
    ("今日はいい天気なので散歩に行きます。" * 6, 20.0),
    ("the " * 60, 12.0),
    ("I don't know. " * 10, 12.0),
    ("No, no, no, " * 12, 12.0),
]


@pytest.mark.parametrize(("text", "seconds"), LOOPS, ids=[text[:12] for text, _ in LOOPS])
def test_a_loop_is_dropped_when_the_model_is_unsure_or_nobody_speaks_that_fast(text, seconds):
    assert why_not_believed(Hearing(text, seconds, **UNSURE)) == "repetition"
    assert why_not_believed(Hearing(text, seconds, **WEAK)) == "repetition"
    assert why_not_believed(Hearing(text, seconds / 4, **SURE)) == "repetition"


@pytest.mark.parametrize(
    ("text", "languages", "reason"),
    [
        ("Спасибо", ("ja", "en"), "stock_phrase"),
        ("Спасибо", ("ja", "ru"), None),
        ("こんにちは", ("en",), "stock_phrase"),
        ("hello", ("ja",), None),
        ("café", ("en",), None),
        ("123", ("en",), None),
        ("안녕", ("ja", "en"), "stock_phrase"),
    ],
)
def test_a_text_in_no_script_of_the_languages_was_not_said(text, languages, reason):
    assert why_not_believed(Hearing(text, 1.0, **SURE), languages=languages) == reason


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
    ("ご視聴ありがとうございました!また次の動画でお会いしましょう", 5.0),
    ("最後までご視聴いただきありがとうございました。次回もお楽しみに", 5.0),
    ("本日はご覧いただきありがとうございます。", 3.0),
    ("ご視聴ありがとう", 1.4),
    ("ご視聴頂きありがとうございました", 2.6),
    ("ご視聴くださいましてありがとうございます", 3.0),
    ("ご視聴いただき、誠にありがとうございました", 3.4),
    ("チャンネル登録お願いいたします", 2.4),
    ("この動画を気に入っていただけたら、高評価とチャンネル登録をよろしくお願いします", 6.0),
    ("それではまた次回お会いしましょう", 2.6),
    ("おわり", 0.8),
    ("つづく。", 0.8),
    ("字幕by索兰娅", 2.0),
    ("Thank you for watching. Please subscribe to my channel.", 3.4),
    ("Thank you for watching and don't forget to like and subscribe.", 3.6),
    ("Please like, share and subscribe.", 2.2),
    ("I'll see you in the next video. Bye!", 2.4),
    ("you", 0.5),
    ("www.mooji.org", 1.6),
    ("© BF-WATCH TV 2021", 2.4),
    ("ESO. Translation by —", 2.0),
]


@pytest.mark.parametrize(("text", "seconds"), STOCK)
def test_a_stock_phrase_is_dropped_when_the_model_is_unsure_or_the_sound_too_short_for_it(text, seconds):
    assert why_not_believed(Hearing(text, seconds, **UNSURE)) == "stock_phrase"
    assert why_not_believed(Hearing(text, seconds, **WEAK)) == "stock_phrase"
    assert why_not_believed(Hearing(text, 0.1)) in ("stock_phrase", "too_fast")


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
