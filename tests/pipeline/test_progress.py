"""What is known of a turn before its end."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from server.events import ActionChosen, AudioChunk, FaceChosen, SentenceStarted, SpeechProduced
from server.pipeline.progress import Progress
from server.pipeline.request import TurnResult

pytestmark = pytest.mark.unit

STORED = TurnResult(384, "01J00000000000000000000000", "running", None, transcript="左を見て", language="ja")


def test_before_anything_happened_it_is_what_is_stored():
    assert Progress().over(STORED) == STORED


@pytest.mark.parametrize(
    ("pieces", "reply"),
    [
        (["今日はいい天気だから、", "散歩に行こうよ。"], "今日はいい天気だから、散歩に行こうよ。"),
        (["It is sunny today.", "Let us go out."], "It is sunny today. Let us go out."),
        (["PCは3万円。", "OK?"], "PCは3万円。OK?"),
    ],
)
def test_face_movement_and_the_words_spoken_so_far_are_shown(pieces, reply):
    progress = Progress()
    progress.take(FaceChosen(384, "happy"))
    progress.take(ActionChosen(384, "look_left"))
    for piece in pieces:
        progress.take(SentenceStarted(384, piece))
    seen = progress.over(STORED)
    assert (seen.emotion, seen.action, seen.reply, seen.transcript) == ("happy", "look_left", reply, "左を見て")
    assert (seen.status, seen.outcome) == ("running", None)


async def test_waiting_for_speech_ends_with_the_first_sound_or_the_turn():
    spoken, silent = Progress(), Progress()
    waits = [asyncio.create_task(progress.wait_for_speech(60)) for progress in (spoken, silent)]
    await asyncio.sleep(0)
    spoken.take(SpeechProduced(384, AudioChunk(np.zeros(10, np.int16), 24_000)))
    silent.end()
    await asyncio.wait_for(asyncio.gather(*waits), 1)
    assert (spoken.speaks, silent.speaks) == (True, False)
