"""`stackchan simulate`: robots of software that talk to a server in real time, watched in a table.

Knows files, the terminal and where the server is; what the robots do is in `simulated_talk.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.live import Live
from rich.table import Table

from server.audio.codec import decode_upload
from server.audio.resample import resample
from server.commands.client import find_target
from server.commands.failures import ExitCode, NoServerError, UsageFailure
from server.commands.simulated_talk import RobotFigures, TalkPlan, percentile, summary, talk_together, without_silence
from server.commands.spoken_input import recording
from server.commands.terminal import Terminal
from server.config import load_settings
from server.devices.wire import AudioFormat
from server.engines.base import SpeechRequest
from server.engines.tts.pyopenjtalk import PyopenjtalkTts
from server.errors import AudioError
from server.events import ASR_SAMPLE_RATE_HZ, AudioChunk, Samples

_LONGEST_SECONDS = 25.0
"""One utterance: longer talk is answered in its middle."""
_WORDS = "こんにちは。今日の調子はどうですか。"
_DRAW_SECONDS = 0.25
_MOST_ROWS = 32


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What was typed. `wav` None: they say a sentence of Open JTalk's. `url` None: the server of the data folder."""

    wav: Path | None
    robots: int = 1
    turns: int = 3
    opus: bool = False
    url: str | None = None
    token: str | None = None
    data_dir: Path | None = None
    as_json: bool = False


def simulate(options: SimulateOptions, terminal: Terminal) -> ExitCode:
    """Let the robots talk and say what they met; FAILED when any turn failed.

    Raises `UsageFailure` for a recording that is none, `NoServerError` when nothing answers.
    """
    sound = read_sound(options.wav) if options.wav is not None else make_sound()
    settings = load_settings(data_dir=options.data_dir)
    token = options.token
    if token is None and options.url is not None and settings.token is not None:
        token = settings.token.get_secret_value()
    target = find_target(settings.data_dir, options.url, token)
    microphone = AudioFormat("opus" if options.opus else "pcm16", ASR_SAMPLE_RATE_HZ, 60)
    plan = TalkPlan(
        target.url, target.token or "", sound, options.turns, microphone=microphone, certificate=target.certificate
    )
    figures = [RobotFigures(f"simulated-{number + 1}") for number in range(options.robots)]
    terminal.note(
        f"{options.robots} robots say {len(sound) / ASR_SAMPLE_RATE_HZ:.1f} s of speech {options.turns} times. / "
        f"{options.robots} 台のロボットが {options.turns} 回ずつ話します。"
    )
    asyncio.run(_watched(plan, figures, terminal))
    total = summary(figures)
    if all(robot.doing == "gone" and not robot.turns for robot in figures):
        _explain(total["failures"], target.url)
    if options.as_json:
        terminal.say_json(total)
    else:
        terminal.out.print(total_table(total))
    return ExitCode.FAILED if total["failures"] else ExitCode.OK


def _explain(failures: Mapping[str, int], url: str) -> None:
    """Raise why no robot came in, where that is the address' fault."""
    if "ConnectionRefusedError" in failures:
        raise NoServerError(f"No server answers at {url}.", hint="Start one: stackchan serve")
    if "SSLCertVerificationError" in failures:
        raise NoServerError(
            f"{url} shows a certificate that is not trusted here.",
            hint="Set SSL_CERT_FILE to a copy of the file tls/certificate.pem in its data folder.",
        )


def read_sound(path: Path) -> Samples:
    """A recording as float32 mono at 16 kHz without silence at its ends. Raises `UsageFailure`."""
    try:
        file = recording(path)
        sound = decode_upload(file.read(), file.content_type, max_seconds=_LONGEST_SECONDS)
    except AudioError as error:
        raise UsageFailure(f"{path}: {error.message}", hint=error.hint) from error
    return without_silence(sound)


def make_sound() -> Samples:
    """`_WORDS` as Open JTalk says them, as `read_sound` gives a recording. Raises `UsageFailure` without it."""
    if importlib.util.find_spec("pyopenjtalk") is None:
        raise UsageFailure(
            "There is nothing for the robots to say: no recording, and no Open JTalk here to speak.",
            hint="Give a recording of one utterance: stackchan simulate --wav question.wav / "
            "録音を --wav で指定してください。",
        )
    chunks = asyncio.run(_spoken(_WORDS))
    rate_hz = chunks[0].sample_rate_hz
    sound = resample(np.concatenate([chunk.samples for chunk in chunks]), rate_hz, ASR_SAMPLE_RATE_HZ)
    return without_silence(sound.astype(np.float32) / np.float32(32_768))


async def _spoken(words: str) -> list[AudioChunk]:
    voice = PyopenjtalkTts()
    await voice.start()
    try:
        return [chunk async for chunk in voice.synthesize(SpeechRequest(words, "ja"))]
    finally:
        await voice.close()


async def _watched(plan: TalkPlan, figures: Sequence[RobotFigures], terminal: Terminal) -> None:
    if not terminal.can_draw:
        await talk_together(plan, figures)
        return
    with Live(console=terminal.err, transient=True, auto_refresh=False) as live:
        drawing = asyncio.create_task(_draw(live, figures))
        try:
            await talk_together(plan, figures)
        finally:
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing


async def _draw(live: Live, figures: Sequence[RobotFigures]) -> None:
    while True:
        live.update(robots_table(figures), refresh=True)
        await asyncio.sleep(_DRAW_SECONDS)


def robots_table(figures: Sequence[RobotFigures]) -> Table:
    """Each robot as it is now; of very many the first."""
    table = Table(box=None)
    for title in ("robot", "doing", "turns", "last wait", "failures", "underruns"):
        table.add_column(title, justify="left" if title in ("robot", "doing") else "right")
    for robot in figures[:_MOST_ROWS]:
        last = _ms(robot.waits_ms[-1] if robot.waits_ms else None)
        failed = sum(robot.failures.values())
        table.add_row(robot.device_id, robot.doing, str(robot.turns), last, str(failed), str(robot.underruns))
    if len(figures) > _MOST_ROWS:
        waits = [wait for robot in figures for wait in robot.waits_ms]
        table.add_row("all", "", str(sum(robot.turns for robot in figures)), _ms(percentile(waits, 0.5)), "", "")
    return table


def total_table(total: dict[str, Any]) -> Table:
    """The end: end of speech to first sound, and what went wrong."""
    table = Table(title=f"{total['robots']} robots, {total['turns']} turns", title_justify="left")
    for title in ("first sound after", "p50", "p95", "p99", "failures", "underruns"):
        table.add_column(title, justify="left" if title == "first sound after" else "right")
    failures = ", ".join(f"{code} x {count}" for code, count in total["failures"].items()) or "0"
    waits = [_ms(total["ttfa_ms"][name]) for name in ("p50", "p95", "p99")]
    table.add_row("the end of speech", *waits, failures, str(total["underruns"]))
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
