"""The words that a turn's ears should expect, where the ears take any; none when they are not at hand at once.

Asks a function for them; knows no memory and no engine but its capabilities.
"""

from __future__ import annotations

import logging

from server.engines.base import AsrEngine
from server.pipeline.bounded import bounded
from server.pipeline.parts import HotWords
from server.pipeline.request import OpenTurn

_log = logging.getLogger(__name__)

HOT_WORDS_SECONDS = 0.05
"""Nobody waits for words that only may help."""


async def expected_words(hot_words: HotWords | None, asr: AsrEngine, turn: OpenTurn) -> tuple[str, ...]:
    """Names, places and things that may be spoken of in `turn`. Never raises but for a cancelled turn."""
    if hot_words is None or not asr.capabilities.hot_words:
        return ()
    try:
        return await bounded(_strings(hot_words, turn), HOT_WORDS_SECONDS)
    except TimeoutError:
        _log.warning("the words to expect came too late")
    except Exception as error:  # an extra must not cost the turn
        _log.error("the words to expect could not be found", exc_info=error)
    return ()


async def _strings(hot_words: HotWords, turn: OpenTurn) -> tuple[str, ...]:
    return tuple(word for word in await hot_words(turn) if isinstance(word, str) and word.strip())
