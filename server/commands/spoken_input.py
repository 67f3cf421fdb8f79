"""What the user means by the words after `stackchan talk`: a recording, text, standard input, or a live conversation.

Looks at file names and first bytes only. Knows no server and no microphone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from server.commands.failures import UsageFailure

_TYPE_BY_SUFFIX = {
    ".wav": "audio/wav",
    ".wave": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".mp3": "audio/mpeg",
}
_OTHER_AUDIO = (".m4a", ".aac", ".aiff", ".aif", ".wma", ".webm", ".mp4", ".amr", ".caf")
MAX_FILE_BYTES = 256 * 1024 * 1024
"""No server takes more (`limits.upload_bytes`); larger files are not even read."""
_FORMATS = "WAV, FLAC, Ogg (Opus or Vorbis) and MP3"


@dataclass(frozen=True, slots=True)
class FileInput:
    """A recording to send as it is."""

    path: Path
    content_type: str

    def read(self) -> bytes:
        """Its bytes. Raises `UsageFailure` when it cannot be read."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise UsageFailure(f"{self.path}: cannot be read ({error.strerror}).") from error


@dataclass(frozen=True, slots=True)
class TextInput:
    text: str


@dataclass(frozen=True, slots=True)
class StdinInput:
    """Text that comes through a pipe."""


@dataclass(frozen=True, slots=True)
class LiveInput:
    """A conversation at this terminal: the microphone, or typed lines."""


SpokenInput = FileInput | TextInput | StdinInput | LiveInput


def decide_input(
    words: Sequence[str], *, as_text: bool = False, as_file: bool = False, stdin_is_terminal: bool
) -> SpokenInput:
    """What to send. Raises `UsageFailure` when nothing sensible was asked for."""
    if as_text and as_file:
        raise UsageFailure("--text and --file contradict each other.", hint="Give one of them, or none.")
    if list(words) == ["-"] and not as_file:
        return StdinInput()
    if not words:
        if as_file:
            raise UsageFailure("--file needs the name of a recording.")
        if stdin_is_terminal:
            return LiveInput()
        return StdinInput()
    if as_file:
        if len(words) > 1:
            raise UsageFailure("--file takes one recording.", hint="Put the name in quotes if it has spaces.")
        return recording(Path(os.path.expanduser(words[0])))
    text = " ".join(words).strip()
    if not as_text and len(words) == 1:
        name = os.path.expanduser(words[0])
        looks_like_audio = Path(name).suffix.lower() in (*_TYPE_BY_SUFFIX, *_OTHER_AUDIO)
        # A mistyped file name must not be spoken to the robot; a sentence that ends like one may.
        if looks_like_audio and (os.path.exists(name) or not any(map(str.isspace, name))):
            return recording(Path(name))
    if not text:
        raise UsageFailure("There is nothing to say.", hint='For example: stackchan talk "こんにちは"')
    return TextInput(text)


def recording(path: Path) -> FileInput:
    """The recording at `path`. Raises `UsageFailure` for everything else, having read no more than its beginning."""
    if path.exists() and not path.is_file():
        raise UsageFailure(f"{path} is not a recording but a device, a pipe or a folder.")
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
            size_bytes = stream.seek(0, 2)
    except FileNotFoundError:
        raise UsageFailure(
            f"There is no file {path}.", hint="To say its name as words, put --text before it."
        ) from None
    except OSError as error:
        raise UsageFailure(f"{path}: cannot be read ({error.strerror}).") from error
    if size_bytes > MAX_FILE_BYTES:
        raise UsageFailure(f"{path} is larger than any server takes.", hint="Send at most a minute of speech.")
    if not head:
        raise UsageFailure(f"{path} is empty.")
    content_type = _type_of(head) or _TYPE_BY_SUFFIX.get(path.suffix.lower())
    if content_type is None:
        raise UsageFailure(
            f"{path} is not audio the server hears ({_FORMATS}).",
            hint=f"Convert it first, for example: ffmpeg -i {path.name} speech.wav",
        )
    return FileInput(path, content_type)


def _type_of(head: bytes) -> str | None:
    """The type by first bytes; what a file is counts more than what it is called."""
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[:4] == b"fLaC":
        return "audio/flac"
    if head[:4] == b"OggS":
        return "audio/ogg"
    if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4)):
        return "audio/mpeg"
    return None
