"""Text that others wrote, as it may stand in a prompt: it can neither pass for a chat template's marks nor hide.

An engine that writes prompts from a template reads `<|im_start|>` inside a memory as the mark itself. Harmless text
keeps its bytes. Knows no tool and no template by name.
"""

from __future__ import annotations

import re

# Whatever looks like a tag, for every template has its own; "<3" and "a < b" do not. And what opens a block of data.
_MARKS = re.compile(
    r"<(?=\ufffd*[/|\uff5c_A-Za-z])"
    r"|\[(?=\ufffd*/?\s*(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+|system|assistant|user|data from)\b)",
    re.IGNORECASE,
)
# What is not seen: breaks of lines, marks of direction, widths of zero, tags, and what an engine takes out, which
# would join what stands around it. Joiners stay: emoji and scripts are made with them.
_HIDDEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffd\U000e0000-\U000e007f]"
)
_LOOK_ALIKES = {"<": "\uff1c", "[": "\uff3b"}


def quoted_json(written: str) -> str:
    """JSON with the same meaning whose texts hold no marks and nothing hidden: those are escapes, as `\\u003c`."""
    return _HIDDEN.sub(_escaped, _MARKS.sub(_escaped, written))


def without_marks(written: str) -> str:
    """Text, or JSON, in which marks have become characters that only look like them."""
    return _MARKS.sub(lambda found: _LOOK_ALIKES[found.group()], written)


def _escaped(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
