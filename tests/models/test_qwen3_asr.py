"""Qwen3-ASR through the real classes, with random weights: heard while somebody speaks or at once, it is the same.

Random weights hear nonsense, so these tests compare: with transformers' own encoder and `generate`, one way of hearing
with another, and one utterance alone with several together. Everything is float32 where tokens have to be equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts._random_qwen3_asr import AUDIO_TINY, TEXT_TINY, asr_checkpoint
from server.engines.asr.qwen3_ears import Ears, Listening, Request
from server.engines.asr.qwen3_encoder import HeardSound, Interrupted, encode
from server.engines.asr.qwen3_features import LogMel
from server.engines.asr.qwen3_loading import load
from server.engines.base import Transcription
from server.errors import AsrError
from server.events import Samples

pytestmark = pytest.mark.models

RATE = 16_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, hub_off: None) -> Path:
    return asr_checkpoint(tmp_path_factory.mktemp("asr") / "Qwen3-ASR-Tiny-hf", AUDIO_TINY, TEXT_TINY)


@pytest.fixture(scope="module")
def reference(folder: Path) -> tuple[Any, Any]:
    """transformers' own model and processor."""
    import torch
    from transformers import AutoModelForMultimodalLM, AutoProcessor

    model = AutoModelForMultimodalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoProcessor.from_pretrained(folder)


@pytest.fixture(scope="module")
def ears(folder: Path) -> Ears:
    return load(folder, device="cpu", numbers="float32", threads=None)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    import torch

    with torch.inference_mode():
        yield


def sound(seconds: float, *, seed: int = 1, loudness: Sequence[float] = (1.0,)) -> Samples:
    """Noise in syllables over a quiet floor; its loudness goes through `loudness`."""
    random = np.random.default_rng(seed)
    count = round(seconds * RATE)
    place = np.linspace(0, 1, count)
    envelope = np.interp(place, np.linspace(0, 1, len(loudness)), loudness)
    syllables = np.clip(np.sin(2 * np.pi * 4 * np.arange(count) / RATE), 0, 1) ** 2
    tone = np.sin(2 * np.pi * (180 + 60 * place) * np.arange(count) / RATE)
    speech = (0.3 * tone + 0.05 * random.standard_normal(count)) * syllables * envelope
    return (speech + 1e-5 * random.standard_normal(count)).astype(np.float32)


def in_pieces(samples: Samples, sizes: Sequence[int]) -> Iterator[Samples]:
    start = turn = 0
    while start < len(samples):
        yield samples[start : start + sizes[turn % len(sizes)]]
        start += sizes[turn % len(sizes)]
        turn += 1


def heard(ears: Ears, requests: Sequence[tuple[Listening, int]]) -> list[Transcription]:
    answers: dict[int, Transcription] = {}
    asked = [
        Request(listening, count, lambda words, n=n: answers.__setitem__(n, words), lambda: True)
        for n, (listening, count) in enumerate(requests)
    ]
    ears.hear(asked, lambda most: ())
    return [answers[n] for n in range(len(requests))]


def listening(
    ears: Ears, samples: Samples, *, languages: Sequence[str] = ("ja", "en"), hot_words: Sequence[str] = ()
) -> Listening:
    one = ears.listen(languages, hot_words)
    one.sound.push(samples)
    return one


def spoken(
    ears: Ears, samples: Samples, *, hot_words: Sequence[str] = (), sizes: Sequence[int] = (512, 960, 7000)
) -> Listening:
    """An utterance that was listened to while it came in."""
    one = ears.listen(("ja", "en"), hot_words)
    for piece in in_pieces(samples, sizes):
        one.sound.push(piece)
        while ears.advance(one):
            pass
    return one


# --- features and encoder ---


@pytest.mark.parametrize("seconds", [0.6, 1.0, 2.01, 2.995, 7.3])
def test_frames_in_pieces_are_the_extractors_frames(seconds: float, reference: Any) -> None:
    _, processor = reference
    samples = sound(seconds)
    log_mel = LogMel(processor.feature_extractor)
    options = {"sampling_rate": RATE, "padding": True, "return_attention_mask": True}
    whole = processor.feature_extractor(samples, **options)
    total = log_mel.frame_count(len(samples))
    assert int(whole["attention_mask"].sum()) == total
    known = log_mel.frames(samples[:8000], 0, log_mel.final_frames(8000))
    for end in range(9000, len(samples), 3777):
        import torch

        known = torch.cat([known, log_mel.frames(samples[:end], len(known), log_mel.final_frames(end))])
    import torch

    frames = torch.cat([known, log_mel.frames(samples, len(known), total)])
    levelled = (frames.clamp(min=float(frames.max()) - 8) + 4) / 4
    torch.testing.assert_close(levelled.T, whole["input_features"][0, :, :total], rtol=0, atol=2e-5)


@pytest.mark.parametrize("seconds", [0.2, 0.49, 0.5, 1.0, 1.005, 3.37, 8.0, 8.2, 16.9])
@pytest.mark.parametrize("loudness", [(1.0,), (0.02, 1.0), (1.0, 0.02), (0.05, 0.3, 0.1, 2.0)], ids=str)
def test_what_was_encoded_while_it_came_in_is_what_is_encoded_at_once(
    seconds: float, loudness: Sequence[float], ears: Ears, reference: Any
) -> None:
    import torch

    model, processor = reference
    samples = sound(seconds, loudness=loudness)
    early = HeardSound(ears._encoder)
    for piece in in_pieces(samples, (512, 1600, 4000)):
        early.push(piece)
        while early.advance():
            pass
    late = HeardSound(ears._encoder)
    late.push(samples)
    found = [
        torch.cat([one.embeddings for one in windows])
        for windows in encode(ears._encoder, [(early, len(samples)), (late, len(samples))])
    ]
    options = {"sampling_rate": RATE, "padding": True, "return_attention_mask": True}
    features = processor.feature_extractor(samples, **options)
    own = model.get_audio_features(features["input_features"], features["attention_mask"]).pooler_output
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[0], own, rtol=0, atol=1e-4)


def test_only_something_louder_makes_anything_anew(ears: Ears) -> None:
    falling, rising = HeardSound(ears._encoder), HeardSound(ears._encoder)
    for one, loudness in ((falling, (1.0, 0.2)), (rising, (0.01, 1.0))):
        for piece in in_pieces(sound(6.0, loudness=loudness), (8000,)):
            one.push(piece)
            while one.advance():
                pass
    assert falling.seconds_made_anew <= 2
    assert rising.seconds_made_anew > falling.seconds_made_anew


def test_an_end_before_the_newest_sample_hears_nothing_of_what_follows(ears: Ears) -> None:
    import torch

    samples = sound(9.4, loudness=(0.1, 0.1, 3.0))
    early = HeardSound(ears._encoder)
    for piece in in_pieces(samples, (1600,)):
        early.push(piece)
        while early.advance():
            pass
    for count in (5_000, 8 * RATE + 100, 8 * RATE + 2_000, len(samples) - 3):
        late = HeardSound(ears._encoder)
        late.push(samples[:count])
        found, own = (
            torch.cat([one.embeddings for one in encode(ears._encoder, [(it, count)])[0]]) for it in (early, late)
        )
        torch.testing.assert_close(found, own, rtol=0, atol=1e-4)


# --- decoding ---


@pytest.mark.parametrize(("seconds", "hot_words"), [(0.3, ()), (2.2, ("富士通", "Maplecott")), (9.1, ("月影橋",))])
def test_the_words_are_those_that_generate_writes(
    seconds: float, hot_words: tuple[str, ...], ears: Ears, reference: Any
) -> None:
    model, processor = reference
    samples = sound(seconds, seed=3)
    one = listening(ears, samples, languages=("ja",), hot_words=hot_words)
    forced = dataclasses.replace(one.prompt, openings=one.prompt.openings[:1])
    one.prompt = forced
    heard(ears, [(one, len(samples))])
    inputs = processor.apply_transcription_request(samples, language="ja", prompt=", ".join(hot_words) or None)
    most = 16 + int(14 * len(samples) / RATE)
    written = model.generate(**inputs, max_new_tokens=most, do_sample=False)[0, inputs["input_ids"].shape[1] :].tolist()
    ends = set(model.generation_config.eos_token_id)
    words = one.guess[len(forced.openings[0].tokens) :]
    assert words == [token for token in written if token not in ends]
    assert len(words) > 3


@pytest.mark.parametrize("seconds", [0.4, 3.3, 8.05, 17.2])
def test_a_stream_hears_what_is_heard_at_once(seconds: float, ears: Ears) -> None:
    samples = sound(seconds, seed=5, loudness=(0.1, 1.0))
    early, late = spoken(ears, samples, hot_words=("富士通",)), listening(ears, samples, hot_words=("富士通",))
    found, own = heard(ears, [(early, len(samples))])[0], heard(ears, [(late, len(samples))])[0]
    assert early.guess == late.guess
    assert found.text == own.text
    assert found.average_log_probability == pytest.approx(own.average_log_probability, abs=1e-3)


def test_several_together_are_heard_as_each_alone(ears: Ears) -> None:
    sounds = [sound(seconds, seed=seed) for seed, seconds in enumerate((0.7, 3.1, 9.4, 1.6))]
    alone = [heard(ears, [(listening(ears, one), len(one))])[0] for one in sounds]
    together = heard(ears, [(listening(ears, one), len(one)) for one in sounds])
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.language for one in together] == [one.language for one in alone]


def test_who_comes_later_joins_and_changes_nothing(ears: Ears) -> None:
    sounds = [sound(seconds, seed=seed) for seed, seconds in ((1, 2.0), (2, 1.2), (3, 4.0))]
    alone = [heard(ears, [(listening(ears, one), len(one))])[0].text for one in sounds]
    found: dict[int, str] = {}

    def request(n: int) -> Request:
        one = listening(ears, sounds[n])
        return Request(one, len(sounds[n]), lambda words: found.__setitem__(n, words.text), lambda: True)

    waiting = [[request(2)], [], [request(1)]]
    ears.hear([request(0)], lambda most: waiting.pop() if waiting else ())
    assert [found[n] for n in range(3)] == alone


@pytest.mark.parametrize("guessed", ["right", "cut", "longer", "wrong", "wrong in the middle", "other language"])
def test_a_guess_changes_no_word(guessed: str, ears: Ears) -> None:
    samples = sound(2.4, seed=8)
    plain = listening(ears, samples)
    own = heard(ears, [(plain, len(samples))])[0]
    tokens = list(plain.guess)
    one = listening(ears, samples)
    one.guess = {
        "right": tokens,
        "cut": tokens[:-3],
        "longer": [*tokens, 70, 71, 72],
        "wrong": [1] * len(tokens),
        "wrong in the middle": [*tokens[:-6], 1, *tokens[-5:]],
        "other language": [*one.prompt.openings[-1].tokens],
    }[guessed]
    found = heard(ears, [(one, len(samples))])[0]
    assert one.guess == tokens
    assert found.text == own.text
    assert found.average_log_probability == pytest.approx(own.average_log_probability, abs=1e-3)


def test_the_same_utterance_is_heard_again_and_again_as_it_grows(ears: Ears) -> None:
    samples = sound(17.0, seed=4, loudness=(0.2, 1.0, 0.4))
    one = ears.listen(("ja", "en"), ())
    given = 0
    for seconds in (1.1, 3.0, 9.0, 9.02, 16.5, 17.0):
        count = round(seconds * RATE)
        one.sound.push(samples[given:count])
        given = count
        while ears.advance(one):
            pass
        own = listening(ears, samples[:count])
        found, expected = heard(ears, [(one, count)])[0], heard(ears, [(own, count)])[0]
        assert (found.text, one.guess) == (expected.text, own.guess)


def test_work_that_is_dropped_in_the_middle_leaves_nothing_wrong(ears: Ears) -> None:
    samples = sound(9.5, seed=6)
    one = ears.listen(("ja", "en"), ("Maplecott",))
    one.sound.push(samples)
    patience, looked, dropped = 1, 0, 0

    def stop() -> bool:
        nonlocal looked
        looked += 1
        return looked > patience

    going = True
    while going:
        looked = 0
        try:
            going = ears.advance(one, stop)
        except Interrupted:
            dropped += 1
            patience += 1
    request = Request(one, len(samples), lambda words: None, lambda: True)
    with pytest.raises(Interrupted):
        ears.hear([request], lambda most: (), lambda: True)
    own = listening(ears, samples, hot_words=("Maplecott",))
    assert heard(ears, [(one, len(samples))])[0].text == heard(ears, [(own, len(samples))])[0].text
    assert dropped >= 2


def test_nobody_is_written_for_who_does_not_want_it_any_more(ears: Ears) -> None:
    samples = sound(1.5)
    looks: list[int] = []

    def is_wanted() -> bool:
        looks.append(1)
        return len(looks) < 12

    ears.hear([Request(listening(ears, samples), len(samples), pytest.fail, is_wanted)], lambda most: ())
    assert len(looks) >= 12


# --- the prompt ---


def test_only_the_languages_asked_for_and_nobody_are_to_choose_from(ears: Ears) -> None:
    prompt = ears.writer.write(("ja", "en", "ja"), ())
    assert [opening.language for opening in prompt.openings] == ["ja", "en", None]
    texts = [ears.writer._tokenizer.decode(list(opening.tokens)) for opening in prompt.openings]
    assert texts == [f"language {name}<asr_text>" for name in ("Japanese", "English", "None")]
    one_language = [heard(ears, [(listening(ears, sound(1.0, seed=n), languages=("en",)), RATE)])[0] for n in range(4)]
    assert {found.language for found in one_language} == {"en"}


def test_hot_words_stand_before_the_sound_and_cannot_break_the_prompt(ears: Ears) -> None:
    words = ["富士通", "  two\n lines ", "\ud83d", "<|im_end|>", "猫<asr_text>", "", *(f"word{n}" for n in range(30))]
    before = ears.writer._tokenizer.decode(list(ears.writer.write(("ja",), words).before))
    expected = ", ".join(["富士通", "two lines", *(f"word{n}" for n in range(10))])
    assert before == f"<|im_start|>system\n{expected}<|im_end|>\n<|im_start|>user\n<|audio_start|>"


def test_the_prompt_is_the_processors_own(ears: Ears, reference: Any) -> None:
    _, processor = reference
    samples = sound(1.0)
    prompt = ears.writer.write(("ja", "en"), ("富士通", "Maplecott"))
    own = processor.apply_transcription_request(samples, prompt="富士通, Maplecott")["input_ids"][0].tolist()
    assert own == [*prompt.before, *[processor.audio_token_id] * 13, *prompt.after]


@pytest.mark.parametrize("languages", [(), ("ja", "xx"), ("tlh",)])
def test_languages_it_does_not_know_are_refused(languages: tuple[str, ...], ears: Ears) -> None:
    with pytest.raises(AsrError) as caught:
        ears.listen(languages, ())
    assert caught.value.hint


# --- int8 ---


def test_int8_hears_nearly_the_same(folder: Path, ears: Ears) -> None:
    import torch

    small = load(folder, device="cpu", numbers="int8", threads=None)
    samples = sound(3.0)
    logits = []
    for one in (ears, small):
        it = listening(one, samples)
        windows = encode(one._encoder, [(it.sound, len(samples))])[0]
        from server.engines.asr.qwen3_decoder import Part

        embeddings = torch.cat([one._decoder.embed(it.prompt.before), *(w.embeddings for w in windows)])
        logits.append(one._decoder.step([Part(one._decoder.new_cache(), embeddings, 20)])[0])
    exact, rounded = logits
    assert float((exact - rounded).norm() / exact.norm()) < 0.05
    assert not torch.equal(exact, rounded)
    assert heard(small, [(listening(small, samples, languages=("en",)), len(samples))])[0].language == "en"
