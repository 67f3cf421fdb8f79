"""`stackchan simulate` against a server with scripted engines: what it shows, what it counts, how it fails."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from server.audio.codec import encode_wav
from server.commands.failures import ExitCode, NoServerError, UsageFailure
from server.commands.simulate import SimulateOptions, make_sound, read_sound, robots_table, simulate
from server.commands.simulated_talk import RobotFigures, percentile, summary, without_silence
from server.commands.terminal import Terminal
from server.errors import AsrError
from tests.devices.conftest import TOKEN
from tests.devices.live_robots import live_server, tone
from tests.fakes.engines import FakeAsr, silence

pytestmark = pytest.mark.integration


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    """0.6 s of something said, with silence around it."""
    sound = np.concatenate([silence(0.5), tone(0.6), silence(1.0)])
    path = tmp_path / "question.wav"
    path.write_bytes(encode_wav((sound * 32767).astype(np.int16), 16_000))
    return path


def terminal(*, drawn: bool = False) -> Terminal:
    return Terminal(*(Console(file=io.StringIO(), force_terminal=drawn and each == 1, width=120) for each in (0, 1)))


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def run(options: SimulateOptions, to: Terminal) -> ExitCode:
    return await asyncio.to_thread(simulate, options, to)


@pytest.mark.parametrize("opus", [False, True])
async def test_robots_talk_and_their_waits_are_told(tmp_path: Path, wav: Path, opus: bool) -> None:
    shown = terminal()
    async with live_server(tmp_path) as live:
        options = SimulateOptions(wav, 2, 2, opus, live.url, TOKEN, tmp_path / "mine", as_json=True)
        code = await run(options, shown)
        heard = live.engines.asr.heard  # type: ignore[attr-defined]
    total = json.loads(written(shown.out))
    assert code == ExitCode.OK
    assert (total["robots"], total["turns"], total["answered"], total["failures"]) == (2, 4, 4, {})
    assert 400 <= total["ttfa_ms"]["p50"] <= total["ttfa_ms"]["p95"] <= total["ttfa_ms"]["p99"] < 10_000
    assert len(heard) >= 4
    assert "2 robots say 0.6 s of speech 2 times" in written(shown.err)
    assert "2 台のロボット" in written(shown.err)


async def test_a_person_sees_tables(tmp_path: Path, wav: Path) -> None:
    shown = terminal(drawn=True)
    async with live_server(tmp_path) as live:
        await run(SimulateOptions(wav, 1, 1, url=live.url, token=TOKEN, data_dir=tmp_path / "mine"), shown)
    assert "simulated-1" in written(shown.err)
    assert all(word in written(shown.out) for word in ("p50", "p95", "p99", "failures", "underruns", "1 turns"))


async def test_turns_that_fail_are_counted_and_make_the_status_1(tmp_path: Path, wav: Path) -> None:
    shown = terminal()
    async with live_server(tmp_path, asr=FakeAsr(error=AsrError("deaf"))) as live:
        options = SimulateOptions(wav, 1, 1, url=live.url, token=TOKEN, data_dir=tmp_path / "mine", as_json=True)
        assert await run(options, shown) == ExitCode.FAILED
    assert json.loads(written(shown.out))["failures"] == {"failed": 1}


async def test_a_robot_that_may_not_come_in_says_why(tmp_path: Path, wav: Path) -> None:
    shown = terminal()
    async with live_server(tmp_path) as live:
        options = SimulateOptions(wav, 1, 1, url=live.url, token="wrong", data_dir=tmp_path / "mine", as_json=True)
        assert await run(options, shown) == ExitCode.FAILED
    assert json.loads(written(shown.out))["failures"] == {"token_invalid": 1}


def test_without_a_server(tmp_path: Path, wav: Path) -> None:
    with pytest.raises(NoServerError):
        simulate(SimulateOptions(wav, data_dir=tmp_path / "mine"), terminal())
    with pytest.raises(NoServerError):
        simulate(SimulateOptions(wav, url="http://127.0.0.1:9", token="t", data_dir=tmp_path / "mine"), terminal())


def test_a_file_that_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("これは音ではない")
    (tmp_path / "text").write_text("root:x:0")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "folder").mkdir()
    here = [str(tmp_path / name) for name in ("text.wav", "text", "empty.wav", "nothing.wav", "folder")]
    for name in (*here, "/dev/null", "/dev/zero"):
        with pytest.raises(UsageFailure, match=name) as refused:
            read_sound(Path(name))
        # Nobody here uploads anything, or says a type.
        assert not re.search(r"None|upload|body|pcm;", f"{refused.value.message} {refused.value.next_step}")


def test_without_a_recording_open_jtalk_speaks() -> None:
    sound = make_sound()
    assert sound.dtype == np.float32
    assert 1.0 < len(sound) / 16_000 < 6.0
    assert 0.05 < float(np.abs(sound).max()) <= 1.0


def test_without_a_recording_and_a_voice_it_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageFailure, match="no recording") as refused:
        make_sound()
    assert "stackchan simulate --wav question.wav" in str(refused.value)


def test_silence_at_the_ends_is_not_spoken() -> None:
    sound = np.concatenate([silence(0.5), tone(0.6), silence(0.3), tone(0.2), silence(1.0)])
    assert len(without_silence(sound)) / 16_000 == pytest.approx(1.1, abs=0.02)
    assert len(without_silence(silence(1.0))) == 16_000
    assert len(without_silence(silence(0.001))) == 16


def test_figures() -> None:
    assert percentile([], 0.5) is None
    assert [percentile([3.0, 1.0, 2.0, 4.0], share) for share in (0.5, 0.95, 0.25)] == [2.0, 4.0, 1.0]
    robots = [RobotFigures(f"simulated-{number}", 2, [float(number)], underruns=1) for number in range(40)]
    robots[3].failures["overloaded"] += 2
    total = summary(robots)
    assert (total["turns"], total["underruns"], total["failures"]) == (80, 40, {"overloaded": 2})
    assert total["ttfa_ms"] == {"p50": 19.0, "p95": 37.0, "p99": 39.0}
    assert robots_table(robots).row_count == 33
