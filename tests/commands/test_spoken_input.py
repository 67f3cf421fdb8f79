"""What the words after `stackchan talk` mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.commands.failures import UsageFailure
from server.commands.spoken_input import FileInput, LiveInput, SpokenInput, StdinInput, TextInput, decide_input

pytestmark = pytest.mark.unit

WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "


def decide(*words: str, as_text: bool = False, as_file: bool = False, terminal: bool = True) -> SpokenInput:
    return decide_input(words, as_text=as_text, as_file=as_file, stdin_is_terminal=terminal)


@pytest.mark.parametrize(
    ("name", "head", "content_type"),
    [
        ("a.wav", WAV, "audio/wav"),
        ("A.WAV", WAV, "audio/wav"),
        ("a.flac", b"fLaC\x00\x00\x00\x22", "audio/flac"),
        ("a.ogg", b"OggS\x00\x02", "audio/ogg"),
        ("a.opus", b"OggS\x00\x02", "audio/ogg"),
        ("a.mp3", b"ID3\x04\x00", "audio/mpeg"),
        ("a.mp3", b"\xff\xfb\x90\x64", "audio/mpeg"),
        ("録音 1.wav", WAV, "audio/wav"),
        # What a file is counts more than what it is called.
        ("a.wav", b"fLaC\x00\x00\x00\x22", "audio/flac"),
        ("a.m4a", WAV, "audio/wav"),
        # Unknown bytes: the server judges them.
        ("a.wav", b"something else", "audio/wav"),
    ],
)
def test_a_recording_is_known_by_its_first_bytes_then_its_name(
    tmp_path: Path, name: str, head: bytes, content_type: str
) -> None:
    path = tmp_path / name
    path.write_bytes(head)
    assert decide(str(path)) == FileInput(path, content_type)


@pytest.mark.parametrize(
    "words",
    [
        ("こんにちは",),
        ("left.",),
        ("Play", "a.wav", "please"),
        ("play the file a.wav",),
        ("--verbose?",),
        ("notes.txt",),
    ],
)
def test_other_words_are_text(words: tuple[str, ...]) -> None:
    assert decide(*words) == TextInput(" ".join(words))


def test_a_mistyped_file_name_is_not_spoken_to_the_robot(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match=r"There is no file .*quesiton\.wav"):
        decide(str(tmp_path / "quesiton.wav"))


def test_text_forces_words_even_for_a_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(WAV)
    assert decide(str(path), as_text=True) == TextInput(str(path))


def test_file_forces_a_recording_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(b"OggS\x00\x02")
    assert decide(str(path)) == TextInput(str(path))
    assert decide(str(path), as_file=True) == FileInput(path, "audio/ogg")


@pytest.mark.parametrize("content", [b"plain text", b"\xff\xfe\x00\x00", b"\xff\xf1\x50\x80", b"%PDF-1.7"])
def test_file_refuses_what_is_not_audio(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recording.txt"
    path.write_bytes(content)
    with pytest.raises(UsageFailure, match="not audio"):
        decide(str(path), as_file=True)


def test_audio_of_another_kind_says_how_to_convert_it(tmp_path: Path) -> None:
    path = tmp_path / "memo.m4a"
    path.write_bytes(b"\x00\x00\x00\x20ftypM4A ")
    with pytest.raises(UsageFailure) as refused:
        decide(str(path))
    assert "ffmpeg -i memo.m4a" in (refused.value.hint or "")


def test_an_empty_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(UsageFailure, match="is empty"):
        decide(str(tmp_path / "empty.wav"))
    with pytest.raises(UsageFailure, match="is not a recording"):
        decide(str(tmp_path / "folder.wav"))


def test_nothing_means_a_conversation_at_a_terminal_and_a_pipe_elsewhere() -> None:
    assert decide(terminal=True) == LiveInput()
    assert decide(terminal=True, as_text=True) == LiveInput()
    assert decide(terminal=False) == StdinInput()
    assert decide("-", terminal=True) == StdinInput()


@pytest.mark.parametrize(
    ("words", "as_text", "as_file"),
    [(("a",), True, True), ((), False, True), (("a", "b"), False, True), ((" ",), False, False)],
)
def test_wrong_use_is_refused(words: tuple[str, ...], as_text: bool, as_file: bool) -> None:
    with pytest.raises(UsageFailure):
        decide(*words, as_text=as_text, as_file=as_file)
