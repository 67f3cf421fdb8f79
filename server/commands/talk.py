"""`stackchan talk`: say something to the running server, see and hear its answer.

A recording, words, or a conversation at this terminal (microphone or typed lines). What is sent and how it looks is
decided here; HTTP is `client.py`, drawing `answer_view.py`, devices `sound.py`.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.commands import sound
from server.commands.answer_view import answer_view
from server.commands.client import ServerClient, Target, find_target
from server.commands.failures import ExitCode, RefusedError, SoundError, UsageFailure
from server.commands.spoken_input import FileInput, LiveInput, StdinInput, TextInput, decide_input
from server.commands.terminal import Terminal, printable, show_error, speaks_unicode
from server.commands.turn_notes import one_line
from server.errors import StackChanError

if TYPE_CHECKING:
    from server.commands.live import Keyboard

_MAX_STDIN_CHARACTERS = 1_000_000
"""No server takes as much text; standard input may be endless."""
_NEW = "/new"
_HELP = "/help"
_QUIT = ("/quit", "/exit")
_COMMAND = re.compile(r"/[a-z]+")
"""Typed instead of words: a line that is nothing else. What is no command is not said either."""
_HELP_LINES = (
    f"{_NEW} ends this conversation and begins another, {_QUIT[0]} (or Ctrl-D) ends; everything else is said.",
    f"{_NEW} で新しい会話、{_QUIT[0]}（か Ctrl-D）で終わり。それ以外はロボットへの言葉になります。",
)
_FORMAT_BY_SUFFIX = {".wav": "wav", ".pcm": "pcm", ".raw": "pcm", ".ogg": "opus", ".opus": "opus"}


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """What was given on the command line."""

    words: tuple[str, ...] = ()
    as_text: bool = False
    as_file: bool = False
    url: str | None = None
    token: str | None = None
    data_dir: Path | None = None
    device_id: str = "cli"
    session: str | None = None
    out: Path | None = None
    play: bool = True
    as_json: bool = False


def talk(options: TalkOptions, terminal: Terminal, *, portaudio: Any | None = None) -> ExitCode:
    """Say what was asked for. Raises `StackChanError`; `FAILED` when a turn itself failed."""
    said = decide_input(
        options.words, as_text=options.as_text, as_file=options.as_file, stdin_is_terminal=sys.stdin.isatty()
    )
    if options.out is not None:
        _check_out(options.out)
    text = _read_stdin() if isinstance(said, StdinInput) else None
    client = ServerClient(
        _target(options),
        device_id=options.device_id,
        session=options.session,
        on_wait=_wait_printer(terminal),
    )
    with client, closing(Conversation(client, options, terminal, portaudio)) as conversation:
        if isinstance(said, LiveInput):
            return conversation.live()
        if isinstance(said, FileInput):
            return conversation.turn_from_audio(said.read(), said.content_type)
        return conversation.turn_from_text(said.text if isinstance(said, TextInput) else text or "")


class Conversation:
    """Turns with one server, shown and played one after the other."""

    def __init__(self, client: ServerClient, options: TalkOptions, terminal: Terminal, portaudio: Any | None) -> None:
        self._client = client
        self._options = options
        self._terminal = terminal
        self._portaudio = portaudio
        self._probe = None if portaudio is not None else self._start_probe()
        self._found: sound.SoundDevices | None = None
        self._session_id: str | None = None
        """Of the conversation that goes on; None before its first answer."""

    def close(self) -> None:
        """Let go of what looked for devices."""
        if self._probe is not None:
            self._probe.close()

    def turn_from_text(self, text: str) -> ExitCode:
        with self._terminal.waiting("The robot thinks…"):
            answer = self._refusals_as_json(lambda: self._client.say_text(text))
        return self._present(answer)

    def turn_from_audio(self, recording: bytes, content_type: str) -> ExitCode:
        with self._terminal.waiting("The robot listens and thinks…"):
            answer = self._refusals_as_json(lambda: self._client.say_audio(recording, content_type))
        return self._present(answer)

    def live(self, keyboard: Keyboard | None = None) -> ExitCode:
        """Turns until the end of input or Ctrl-C; a refused turn does not end the conversation."""
        from server.commands.live import Recorder

        devices = sound.SoundDevices() if self._options.as_text else self._devices()
        can_record = devices.microphone is not None
        if self._options.as_text:
            self._terminal.note("Type what you want to say. End with Ctrl-D. / 文字を入力してください。")
        elif can_record:
            self._terminal.note(f"Microphone: {devices.microphone}. Enter starts and stops a recording (30 s at most);")
            self._terminal.note("words can be typed too. Ctrl-D ends. / Enter で録音の開始と終了、文字でも話せます。")
        else:
            reason = f" ({devices.problem})" if devices.problem else ""
            self._terminal.note(f"No microphone{reason}: type what you want to say. End with Ctrl-D.")
            self._terminal.note("マイクがないので、文字を入力してください。終わりは Ctrl-D です。")
        self._help()
        code = ExitCode.OK
        recorder = Recorder(self._terminal, self._portaudio, keyboard)
        for line in recorder.lines("you> " if not can_record else "you (Enter: speak)> "):
            try:
                words = line.strip()
                if words in _QUIT:
                    break
                if words == _NEW:
                    self._begin_anew()
                elif _COMMAND.fullmatch(words):
                    if words != _HELP:
                        self._terminal.note(f"There is no {words} here. / {words} というコマンドはありません。")
                    self._help()
                elif words:
                    code = self.turn_from_text(words)
                elif can_record:
                    code = self.turn_from_audio(recorder.record(), "audio/wav")
            except (RefusedError, SoundError) as error:
                show_error(self._terminal, error)
                code = ExitCode.REFUSED if isinstance(error, RefusedError) else ExitCode.FAILED
        return code

    def _help(self) -> None:
        for line in _HELP_LINES:
            self._terminal.note(line)

    def _begin_anew(self) -> None:
        """End the conversation so far: what was said in it is taken in for memory now."""
        ended, self._session_id = self._session_id, None
        if ended is not None:
            self._client.end_session(ended)
            told = f"Ended session {ended}; your next words begin another. / 会話を終えました。次から新しい会話です。"
        else:
            # An earlier `talk` may have left one open, whose id is not known here.
            self._client.begin_session(f"talk-{secrets.token_hex(8)}")
            told = "Your next words begin a new conversation. / 次の言葉から新しい会話です。"
        self._terminal.note(told)

    def _refusals_as_json(self, turn: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return turn()
        except RefusedError as error:
            if self._options.as_json and error.body is not None:
                self._terminal.say_json(error.body)
            raise

    def _present(self, answer: dict[str, Any]) -> ExitCode:
        self._session_id = one_line(answer.get("session_id")) or None
        failed = answer.get("outcome") == "failed" or answer.get("status") == "failed"
        if self._options.as_json:
            self._terminal.say_json(answer)
        else:
            unicode = speaks_unicode(self._terminal.out)
            trace = self._client.trace(answer["turn_id"])
            columns = self._terminal.out.width
            self._terminal.out.print(answer_view(answer, trace, columns=columns, unicode=unicode))
        audio = answer.get("audio")
        if isinstance(audio, dict) and isinstance(audio.get("url"), str):
            self._deliver(audio["url"], str(answer["turn_id"]))
        return ExitCode.FAILED if failed else ExitCode.OK

    def _deliver(self, path: str, turn_id: str) -> None:
        """Save and play the sound as asked; where nothing can play it, it is saved and the place is told."""
        options = self._options
        if options.out is not None:
            self._save(path, options.out)
        if options.as_json or not options.play:
            return
        wav = self._client.sound(path)
        try:
            devices = self._devices()
            if devices.loudspeaker is None:
                raise SoundError(devices.problem or "This computer has no loudspeaker.")
            with self._terminal.waiting("The robot speaks…"):
                sound.play(wav, portaudio=self._portaudio)
        except SoundError as error:
            if options.out is not None:
                self._terminal.note(error.message, style="dim")
                return
            target = Path(tempfile.mkdtemp(prefix="stackchan-")) / f"answer-{_file_name(turn_id)}.wav"
            target.write_bytes(wav)
            self._terminal.note(f"{error.message.rstrip('.')}: the answer's sound is in {target}", style="dim")
            self._terminal.note("(--out FILE chooses the place, --no-play leaves it out)", style="dim")

    def _save(self, path: str, target: Path) -> None:
        content = self._client.sound(path, audio_format=_FORMAT_BY_SUFFIX[target.suffix.lower()])
        partial = target.with_name(f".{target.name}.partial")
        try:
            partial.write_bytes(content)
            partial.replace(target)
        except OSError as error:
            raise StackChanError(f"{target}: cannot be written ({error.strerror}).", code="out_unwritable") from error
        finally:
            partial.unlink(missing_ok=True)
        self._terminal.note(f"Saved the answer's sound: {target}", style="dim")

    def _start_probe(self) -> sound.DeviceProbe | None:
        """Begin looking for devices while the robot thinks, where one may be wanted."""
        silent = self._options.as_json or not self._options.play
        return None if silent and (self._options.words or self._options.as_text) else sound.DeviceProbe()

    def _devices(self) -> sound.SoundDevices:
        if self._found is None:
            self._found = self._probe.result() if self._probe is not None else sound.find_devices(self._portaudio)
        return self._found


def _target(options: TalkOptions) -> Target:
    from server.config import load_settings

    settings = load_settings(data_dir=options.data_dir)
    token = options.token
    if token is None and options.url is not None and settings.token is not None:
        token = settings.token.get_secret_value()
    return find_target(settings.data_dir, options.url, token)


def _read_stdin() -> str:
    try:
        text = sys.stdin.read(_MAX_STDIN_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise UsageFailure("Standard input is not text in UTF-8.", hint="For a recording, give its name.") from error
    if len(text) > _MAX_STDIN_CHARACTERS:
        raise UsageFailure(
            f"Standard input holds more than {_MAX_STDIN_CHARACTERS:,} characters.", hint="Send a sentence or two."
        )
    text = text.strip()
    if not text:
        raise UsageFailure(
            "There is nothing to say: no words, and nothing on standard input.",
            hint='For example: stackchan talk "こんにちは", or stackchan talk question.wav',
        )
    return text


def _check_out(out: Path) -> None:
    """Refuse before the turn what could not be saved after it."""
    if out.suffix.lower() not in _FORMAT_BY_SUFFIX:
        raise UsageFailure(
            f"--out {out}: the ending says the format, and this one is none.",
            hint=f"Use one of: {', '.join(_FORMAT_BY_SUFFIX)}",
        )
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise UsageFailure(f"--out {out}: cannot be written there.", hint="Choose a file in a folder that exists.")


def _file_name(turn_id: str) -> str:
    return "".join(character for character in turn_id if character.isalnum()) or "0"


def _wait_printer(terminal: Terminal) -> Callable[[str], None]:
    """Says why the client waits: at once, and then at most every few seconds."""
    from server.commands.progress import Throttle

    throttle = Throttle(5.0)

    def printed(reason: str) -> None:
        if throttle.is_due():
            terminal.note(printable(reason), style="yellow")

    return printed
