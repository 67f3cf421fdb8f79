"""What the Japanese voice's dictionary and the kana model really read: needs their bundled data."""

from __future__ import annotations

import pytest

from server.engines.tts.latin import LatinReader, kana_of
from server.engines.tts.scripts import Run
from server.errors import TtsError
from server.pipeline.speakable import speakable

pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("1,234円", "センニヒャクサンジューヨエン"),
        ("12万3000人", "ジューニマンサンゼンニン"),
        ("3.14", "サンテンイチヨン"),
        ("1/2", "ニブンノイチ"),
        ("0120-444-444", "ゼロイチニーゼロ、ヨンヨンヨン、ヨンヨンヨン"),
        ("2-1", "ニタイイチ"),
        ("3〜5個", "サンカラゴコ"),
        ("10km", "ジュッキロメートル"),
        ("60km/h", "ジソクロクジュッキロメートル"),
        ("25℃", "ニジューゴド"),
        ("-5℃", "マイナスゴド"),
        ("30m²", "サンジューヘーホーメートル"),
        ("50%", "ゴジュッパーセント"),
        ("$5", "ゴドル"),
        ("¥1,000", "センエン"),
        ("2026/11/30", "ニセンニジューロクネンジューイチガツサンジューニチ"),
        ("11/30(月)", "ジューイチガツサンジューニチ、ゲツヨービ"),
        ("10:30", "ジュージサンジュップン"),
        ("午後3:05", "ゴゴサンジゴフン"),
        ("1:23:45", "イチジカンニジューサンプンヨンジューゴビョー"),
        ("8月20日に1人で3本", "ハチガツハツカニヒトリデサンボン"),
        ("v1.2.3", "バージョンイチテンニテンサン"),
        ("No.3", "ナンバーサン"),
        ("A4", "エーヨン"),
        ("第2回", "ダイニカイ"),
        ("3+4=7", "サンタスヨンワナナ"),
        ("x²", "ｘノニジョー"),
        ("110番", "ヒャクトーバン"),
    ],
)
@pytest.mark.filterwarnings("ignore:Dictionary.create:DeprecationWarning")  # inside the library
def test_a_written_sign_is_heard_as_a_person_says_it(written: str, heard: str) -> None:
    import pyopenjtalk

    assert pyopenjtalk.g2p(speakable(written, "ja"), kana=True) == heard


@pytest.mark.parametrize(
    ("word", "kana"),
    [
        ("Python", "パイソン"),
        ("YouTube", "ユーチューブ"),
        ("NASA", "ナサ"),
        ("robot", "ロボット"),
        ("Linux", "リナックス"),
    ],
)
def test_a_word_without_a_customary_reading_is_read_by_the_model(word: str, kana: str) -> None:
    assert kana_of(word) == kana


async def test_a_sentence_with_latin_words_is_one_voice() -> None:
    reader = LatinReader()
    await reader.start()
    runs = await reader.runs("USBとBluetoothのStackChanだよ。", "ja", {"StackChan": "スタックチャン"})
    assert runs == [Run("ユーエスビーとブルートゥースのスタックチャンだよ。", "ja")]
    await reader.close()
    with pytest.raises(TtsError, match="not running"):
        await reader.runs("abc", "ja", {})
