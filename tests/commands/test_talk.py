"""`stackchan talk` against a real HTTP server that keeps to the contract."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import pytest

from server.commands.sound import SoundDevices
from server.next_steps import next_step
from tests.commands.conftest import Cli, NoDevices
from tests.commands.turn_server import ANSWER, SOUND, TOKEN, Reply, TurnServer, refusal, starting, wav

pytestmark = pytest.mark.integration


def test_words_are_sent_as_text_and_the_answer_is_shown(cli: Cli, data_dir: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        done = cli("talk", "左を", "見て")

    assert done.code == 0
    assert server.turns[0].json == {"text": "左を 見て"}
    assert server.turns[0].headers["Device-Id"] == "cli"
    assert server.turns[0].headers["Authorization"] == f"Bearer {TOKEN}"
    for shown in ("左を見て", "はい、左だね。", "happy", "look_left", "900 ms", "2,700 ms"):
        assert shown in done.out
    assert f"turn 384 · session {ANSWER['session_id']}" in done.out
    assert "\x1b" not in done.out + done.err


def test_a_recording_is_sent_as_it_is(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    recording = tmp_path / "question one.wav"
    recording.write_bytes(SOUND)
    with TurnServer() as server:
        server.announce(data_dir)
        done = cli("talk", str(recording), "--session", "evening", "--device-id", "desk")

    assert done.code == 0
    (turn,) = server.turns
    assert turn.body == SOUND
    assert turn.headers["Content-Type"] == "audio/wav"
    assert (turn.headers["Session-Id"], turn.headers["Device-Id"]) == ("evening", "desk")


def test_text_comes_from_a_pipe(cli: Cli, data_dir: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        assert cli("talk", "-", stdin="hello\nrobot 🤖\n").code == 0
        assert cli("talk", stdin="こんにちは").code == 0

    assert [turn.json["text"] for turn in server.turns] == ["hello\nrobot 🤖", "こんにちは"]


def test_nothing_to_say_is_wrong_use_and_sends_nothing(cli: Cli, data_dir: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        outcomes = [cli("talk"), cli("talk", "-", stdin=" \n"), cli("talk", " "), cli("talk", "--text", "--file", "a")]

    assert [done.code for done in outcomes] == [2, 2, 2, 2]
    assert server.turns == []


def test_json_prints_only_the_object(cli: Cli, data_dir: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        done = cli("talk", "hi", "--json")

    assert json.loads(done.out) == ANSWER
    assert server.sound_formats == []


def test_json_prints_the_refusal_as_it_came(cli: Cli, data_dir: Path) -> None:
    reply = refusal(409, "device_busy", "This device is in a turn.")
    with TurnServer(reply) as server:
        server.announce(data_dir)
        done = cli("talk", "hi", "--json")

    assert done.code == 4
    assert json.loads(done.out) == reply.body


def test_without_a_server_it_says_how_to_start_one(cli: Cli) -> None:
    done = cli("talk", "hi")

    assert done.code == 3
    assert "scripts/start" in done.err
    assert "Traceback" not in done.err


def test_a_server_elsewhere_that_does_not_answer(cli: Cli) -> None:
    with TurnServer() as server:
        url = server.url
    done = cli("talk", "hi", "--url", url, "--token", TOKEN)

    assert done.code == 3
    assert url in done.err


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (refusal(401, "token_invalid", "This token is not known."), "--token"),
        (refusal(401, "token_invalid", "Not known.", hint=next_step("token_invalid")), "--token"),
        (refusal(401, "token_missing", "Not known."), "stackchan token reset"),
        (refusal(403, "device_forbidden", "This token is for another device."), "another device"),
        (refusal(409, "device_busy", "This device is in a turn."), "device_busy"),
        (refusal(413, "audio_too_long", "At most 60 s.", hint="Send less."), "Send less."),
        (refusal(415, "audio_unsupported", "Not a format I know."), "Not a format I know."),
        (refusal(422, "audio_invalid", "The file is cut."), "The file is cut."),
        (refusal(429, "overloaded", "Too much at once.", Retry_After="7"), "Try again in 7 s."),
        (refusal(429, "overloaded", "Too much.", hint=next_step("overloaded"), Retry_After="7"), "Try again in 7 s."),
        (refusal(500, "internal", "Something went wrong."), "Something went wrong."),
        (Reply(500, b"Internal Server Error"), "broke the request off"),
        (Reply(502, b"<html>Bad Gateway</html>"), "not as a StackChan server does"),
        (Reply(200, {"hello": 1}), "not as a StackChan server does"),
        (Reply(200, []), "not as a StackChan server does"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Reply) else "",
)
def test_a_refusal_is_told_in_the_servers_words(cli: Cli, data_dir: Path, reply: Reply, told: str) -> None:
    with TurnServer(reply) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 4
    assert told in done.err
    assert done.out == ""
    assert len(server.turns) == 1


def test_a_wrong_token_for_another_server(cli: Cli) -> None:
    with TurnServer() as server:
        done = cli("talk", "hi", "--url", server.url, "--token", "something-else")

    assert done.code == 4
    assert "token_invalid" in done.err
    assert server.turns == []


def test_the_token_comes_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKCHAN_TOKEN", TOKEN)
    with TurnServer() as server:
        assert cli("talk", "hi", "--url", server.url).code == 0


def test_another_server_without_a_token_is_wrong_use(cli: Cli) -> None:
    done = cli("talk", "hi", "--url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "STACKCHAN_TOKEN" in done.err


def test_it_waits_for_a_server_that_starts(cli: Cli, data_dir: Path) -> None:
    with TurnServer(starting(), starting(), Reply(), ready={"status": "starting"}) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 0
    assert len(server.turns) == 3
    assert "loading its models" in done.err


@pytest.mark.parametrize("refused", [starting(), refusal(503, "start_failed", "The server could not start.")])
def test_a_server_that_could_not_start_says_why(cli: Cli, data_dir: Path, refused: Reply) -> None:
    failed = {"status": "failed", "error": {"code": "model_missing", "message": "The voice is missing."}}
    with TurnServer(refused, ready=failed) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 1
    assert "The voice is missing." in done.err
    assert "model_missing" in done.err


@pytest.mark.parametrize(("name", "audio_format"), [("a.wav", "wav"), ("b.OGG", "opus"), ("c.pcm", "pcm")])
def test_the_sound_is_saved_where_asked(cli: Cli, data_dir: Path, tmp_path: Path, name: str, audio_format: str) -> None:
    out = tmp_path / name
    with TurnServer() as server:
        server.announce(data_dir)
        done = cli("talk", "hi", "--out", str(out), "--no-play")

    assert done.code == 0
    assert out.read_bytes() == SOUND
    assert server.sound_formats == [audio_format]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "data"])


def test_where_it_cannot_be_saved_nothing_is_said(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        outcomes = [
            cli("talk", "hi", "--out", str(tmp_path / "no" / "a.wav")),
            cli("talk", "hi", "--out", str(tmp_path / "a.mp3")),
            cli("talk", "hi", "--out", str(tmp_path)),
        ]

    assert [done.code for done in outcomes] == [2, 2, 2]
    assert server.turns == []


def test_without_a_loudspeaker_the_sound_goes_to_a_file(
    cli: Cli, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TurnServer() as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    (saved,) = tmp_path.glob("stackchan-*/answer-384.wav")
    assert saved.read_bytes() == SOUND
    assert str(saved) in done.err
    assert done.code == 0


def test_a_loudspeaker_plays_the_answer(cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.commands.fake_portaudio import FakePortAudio

    portaudio = FakePortAudio(loudspeaker="Speaker")
    monkeypatch.setattr("server.commands.sound.load_portaudio", lambda: portaudio)
    monkeypatch.setattr(NoDevices, "result", lambda self: SoundDevices(loudspeaker="Speaker"))
    with TurnServer(sound=wav(duration_ms=320)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 0
    assert portaudio.played_seconds == pytest.approx(0.32)
    assert portaudio.output_rate_hz == 24_000


def test_sound_that_has_expired_is_told_after_the_answer(cli: Cli, data_dir: Path) -> None:
    with TurnServer(sound=None) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert "はい、左だね。" in done.out
    assert "audio_expired" in done.err
    assert done.code == 4


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/steal", "//127.0.0.1:9/steal", "steal"])
def test_the_token_does_not_follow_a_sound_to_another_machine(cli: Cli, data_dir: Path, url: str) -> None:
    answer = {**ANSWER, "audio": {**ANSWER["audio"], "url": url}}
    with TurnServer(Reply(200, answer)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 1
    assert "answer_invalid" in done.err


def test_a_turn_that_failed_is_shown_and_counts_as_failed(cli: Cli, data_dir: Path) -> None:
    error = {"code": "llm_timeout", "message": "The model took too long.", "retryable": True}
    answer = {**ANSWER, "outcome": "failed", "status": "failed", "audio": None, "error": error}
    with TurnServer(Reply(200, answer)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 1
    assert "The model took too long." in done.out
    assert f"→ {next_step('llm_timeout')}" in done.out


def test_silence_is_said_and_is_no_failure(cli: Cli, data_dir: Path) -> None:
    answer = {**ANSWER, "outcome": "no_speech", "transcript": "", "reply": "", "audio": None, "latency_ms": {"vad": 9}}
    with TurnServer(Reply(200, answer)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert done.code == 0
    assert "no speech" in done.out


def test_words_of_the_model_cannot_steer_the_terminal(cli: Cli, data_dir: Path) -> None:
    answer: dict[str, Any] = {
        **ANSWER,
        "reply": "red \x1b[31m [bold]x[/bold] \x07",
        "emotion": "\x1b]0;t\x07",
        "audio": None,
    }
    with TurnServer(Reply(200, answer)) as server:
        server.announce(data_dir)
        done = cli("talk", "hi")

    assert "\x1b" not in done.out
    assert "\x07" not in done.out
    assert "[bold]x[/bold]" in done.out


def test_the_saved_sound_is_a_wav_file(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    with TurnServer() as server:
        server.announce(data_dir)
        cli("talk", "hi", "--out", str(tmp_path / "a.wav"))

    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 2_400)


def test_a_broken_settings_file_is_told_with_its_line(cli: Cli, data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "stackchan.toml").write_text("port = 8000\nprot = 1\n", encoding="utf-8")

    done = cli("talk", "hi")

    assert done.code == 1
    assert "stackchan.toml:2" in done.err
