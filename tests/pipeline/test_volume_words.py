"""Louder, quieter, the microphone off: asked for by the form of the words; talk about sounds asks for nothing."""

from __future__ import annotations

import pytest

from server.pipeline.volume_words import VolumeRequest, mute_request, volume_request

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("音を小さくして", -20),
        ("音量を下げて", -20),
        ("もう少し声を小さくして", -10),
        ("ちょっと静かに話して", -10),
        ("ボリュームもっと下げてください", -20),
        ("小さな声で話して", -20),
        ("もう少し小さい声で", -10),
        ("小さな声でお願いね", -20),
        ("もっと小さくして", -20),
        ("音量ダウン", -20),
        ("声を大きくして", 20),
        ("もっと大きな声で", 20),
        ("大きい声でお願い", 20),
        ("もうちょっとおおきい声でね。", 10),
        ("もっと大きく", 20),
        ("ボリュームをアップして", 20),
        ("もう少し大きな声で言って", 10),
        ("音量を上げて", 20),
        ("ボリュームをかなり上げてくれる？", 30),
        ("be quieter", -20),
        ("Can you speak a little softer, please?", -10),
        ("turn the volume down", -20),
        ("Please turn down the volume a bit.", -10),
        ("lower your voice", -20),
        ("turn it down", -20),
        ("volume down", -20),
        ("louder please", 20),
        ("Could you talk a lot louder?", 30),
        ("speak up", 20),
        ("Turn up the volume!", 20),
        ("Hey, turn it up a bit please", 10),
    ],
)
def test_louder_and_quieter(words: str, change: int) -> None:
    assert volume_request(words) == VolumeRequest(change=change)


@pytest.mark.parametrize(
    ("words", "percent"),
    [
        ("音量を50にして", 50),
        ("音量３０パーセントにして", 30),
        ("音量を三十に下げて", 30),
        ("ボリュームを半分にして", 50),
        ("音量を最大にして", 100),
        ("音量をゼロにして", 0),
        ("音を消して", 0),
        ("set the volume to 40 percent", 40),
        ("Volume 70%", 70),
        ("turn your volume up to eighty", 80),
        ("put the volume at half", 50),
        ("set the volume to maximum", 100),
        ("mute yourself", 0),
        ("turn off the sound", 0),
    ],
)
def test_so_loud(words: str, percent: int) -> None:
    assert volume_request(words) == VolumeRequest(percent=percent)


@pytest.mark.parametrize(
    "words",
    [
        "テレビの音を小さくして",
        "音楽の音量を下げて",
        "音を小さくした",
        "母が音量を下げてくれた",
        "音を大きくしないで",
        "大きな音がした",
        "声が小さくなった",
        "いい声だね",
        "静かな部屋が好き",
        "値段を下げて",
        "気分を上げて",
        "大きくなったね",
        "背が低くて困る",
        "音量を150にして",
        "声を聞かせて",
        "テレビを消して",
        "turn down the TV",
        "turn the music up",
        "I turned the volume down",
        "he turned down the offer",
        "don't be louder",
        "turn it down for what",
        "my phone volume is low",
        "she speaks quietly",
        "what a loud voice",
        "turn up at seven",
        "the volume of a sphere",
        "set the volume to 300",
        "",
        "…",
    ],
)
def test_talk_about_sounds_asks_for_nothing(words: str) -> None:
    assert volume_request(words) is None


@pytest.mark.parametrize(
    ("words", "muted"),
    [
        ("マイクを切って", True),
        ("マイクをオフにして", True),
        ("マイクをミュートして", True),
        ("mute the microphone", True),
        ("Please turn your mic off.", True),
        ("stop listening", True),
        ("マイクをオンにして", False),
        ("マイクのミュートを解除して", False),
        ("unmute", False),
        ("turn on the microphone", False),
        ("マイクを買った", None),
        ("マイクを切らないで", None),
        ("マイクを切ってくれた", None),
        ("Mike stopped listening", None),
        ("I muted the microphone", None),
        ("don't stop listening", None),
        ("音を小さくして", None),
        ("", None),
    ],
)
def test_the_microphone(words: str, muted: bool | None) -> None:
    assert mute_request(words) is muted


@pytest.mark.parametrize("words", ["音を" * 10_000, "turn the volume " * 5_000, "マイク" * 10_000])
def test_endless_words_take_no_time(words: str) -> None:
    assert volume_request(words) is None
    assert mute_request(words) is None
