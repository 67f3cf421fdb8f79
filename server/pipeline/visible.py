"""Whether a text shows anything at all. Knows Unicode, nothing else."""

from __future__ import annotations

import re
import unicodedata

# Letters, marks and symbols by their category, blank to the eye: fillers, variation selectors, empty Braille.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U0001d159\U000e0000-\U000e0fff]+"
)


def without_blanks(text: str) -> str:
    """`text` without the characters that look like nothing but are no white space or control characters."""
    return _BLANK.sub("", text)


def is_visible(text: str) -> bool:
    """Whether any character of `text` can be seen: spaces, controls, zero-width characters and fillers cannot."""
    return any(unicodedata.category(character)[0] not in "CZ" for character in without_blanks(text))
