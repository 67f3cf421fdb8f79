"""Written text to speakable text: what a person would say when reading the reply aloud.

Pure text. Knows no engine; which voice speaks which script is the engine's matter.
"""

from __future__ import annotations

from server.engines.tts import scripts


def speakable(text: str, language: str) -> str:
    """`text` as it should be spoken, in a sentence of `language` (ISO 639-1); empty when nothing can be said."""
    return scripts.speakable(text)
