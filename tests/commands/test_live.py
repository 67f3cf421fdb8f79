"""A conversation at the terminal: typed lines and recordings between presses of Enter."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from server.commands.client import ServerClient, Target
from server.commands.failures import ExitCode
from server.commands.talk import Conversation, TalkOptions
from server.commands.terminal import Terminal
from tests.commands.fake_portaudio import FakePortAudio
from tests.commands.turn_server import ANSWER, TOKEN, Reply, TurnServer, refusal

pytestmark = pytest.mark.integration

ONE_SECOND = b"\x00\x40" * 16_000


class FakeKeyboard:
    """`presses`: how often `enter_pressed` says no before it says yes, for each recording."""

    def __init__(self, *lines: str, presses: int = 3) -> None:
        self._lines = list(lines)
        self._presses = presses
        self._asked = 0

    def read_line(self, prompt: str) -> str | None:
        self._asked = 0
        return self._lines.pop(0) if self._lines else None

    def enter_pressed(self) -> bool:
        self._asked += 1
        return self._asked > self._presses


def terminal() -> Terminal:
    return Terminal(out=Console(file=io.StringIO(), width=100), err=Console(file=io.StringIO(), width=100))


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def converse(
    server: TurnServer, keyboard: FakeKeyboard, portaudio: FakePortAudio | None, data_dir: Path
) -> tuple[ExitCode, Terminal]:
    screen = terminal()
    with ServerClient(Target(server.url, TOKEN)) as client:
        options = TalkOptions(play=False, data_dir=data_dir)
        conversation = Conversation(client, options, screen, portaudio or FakePortAudio())
        return conversation.live(keyboard), screen


def test_enter_records_and_enter_sends(tmp_path: Path) -> None:
    with TurnServer() as server:
        code, screen = converse(
            server, FakeKeyboard("", "hello"), FakePortAudio(microphone="Mic", heard=ONE_SECOND), tmp_path
        )

    assert code == ExitCode.OK
    spoken, typed = server.turns
    assert spoken.headers["Content-Type"] == "audio/wav"
    assert len(spoken.body) == 44 + 3 * 800 * 2
    assert typed.json == {"text": "hello"}
    assert text(screen.out).count("はい、左だね。") == 2


def test_without_a_microphone_lines_are_typed_and_empty_ones_are_nothing(tmp_path: Path) -> None:
    with TurnServer() as server:
        _, screen = converse(server, FakeKeyboard("", "  ", "左を見て"), None, tmp_path)

    assert [turn.json for turn in server.turns] == [{"text": "左を見て"}]
    assert "No microphone" in text(screen.err)


@pytest.mark.parametrize("microphone", [None, FakePortAudio(microphone="Mic", heard=ONE_SECOND)])
def test_a_conversation_is_ended_and_begun_anew(tmp_path: Path, microphone: FakePortAudio | None) -> None:
    with TurnServer() as server:
        code, screen = converse(server, FakeKeyboard("one", " /new ", "two", "/new"), microphone, tmp_path)

    assert code == ExitCode.OK
    assert [turn.json["text"] for turn in server.turns] == ["one", "two"], "it is not said to the robot"
    assert server.ended == [ANSWER["session_id"]] * 2
    assert "/new ends this conversation" in text(screen.err)
    assert f"Ended session {ANSWER['session_id']}" in text(screen.err)
    assert "会話を終えました" in text(screen.err)


@pytest.mark.parametrize("quit_word", ["/quit", "/exit"])
def test_commands_are_not_said_to_the_robot(tmp_path: Path, quit_word: str) -> None:
    lines = ("/help", "/stop", "/ 半分", quit_word, "never")
    with TurnServer() as server:
        code, screen = converse(server, FakeKeyboard(*lines), None, tmp_path)

    assert code == ExitCode.OK
    assert [turn.json["text"] for turn in server.turns] == ["/ 半分"]
    assert text(screen.err).count("/quit (or Ctrl-D) ends") == 3, "at the beginning, asked for, and after a wrong one"
    assert "/stop というコマンドはありません" in text(screen.err)


def test_begun_anew_before_the_first_word_it_is_not_the_conversation_of_before(tmp_path: Path) -> None:
    with TurnServer() as server:
        _, screen = converse(server, FakeKeyboard("/new", "one", "two"), None, tmp_path)

    first, second = (turn.headers.get("Session-Id") for turn in server.turns)
    assert first is not None
    assert first.startswith("talk-")
    assert first == second, "it goes on"
    assert server.ended == []
    assert "次の言葉から新しい会話です" in text(screen.err)


def test_an_end_that_is_refused_does_not_end_the_conversation(tmp_path: Path) -> None:
    answer = {**ANSWER, "session_id": "01GONE\x1b[2J/../x"}
    with TurnServer(Reply(200, answer)) as server:
        _, screen = converse(server, FakeKeyboard("one", "/new", "two"), None, tmp_path)

    assert len(server.turns) == 2
    assert "not_found" in text(screen.err)
    assert "\x1b[2J" not in text(screen.out) + text(screen.err)


def test_a_refused_turn_does_not_end_the_conversation(tmp_path: Path) -> None:
    with TurnServer(refusal(409, "device_busy", "Busy."), Reply()) as server:
        code, screen = converse(server, FakeKeyboard("one", "two"), None, tmp_path)

    assert len(server.turns) == 2
    assert "device_busy" in text(screen.err)
    assert code == ExitCode.OK


def test_a_microphone_that_breaks_does_not_end_the_conversation(tmp_path: Path) -> None:
    broken = FakePortAudio(microphone="Mic", refused_rates_hz=(16_000, 48_000))
    with TurnServer() as server:
        code, screen = converse(server, FakeKeyboard("", "typed then"), broken, tmp_path)

    assert [turn.json for turn in server.turns] == [{"text": "typed then"}]
    assert "Invalid sample rate" in text(screen.err)
    assert code == ExitCode.OK
