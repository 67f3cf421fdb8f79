"""Writes `firmware/vectors/` and the worked example of `firmware/PROTOCOL.md`; `scripts/make_vectors` runs it.

Everything is made anew from the hand-written cases, but for the Opus packets: two versions of the encoder write two
different packets, both right, so that those that exist are kept. Knows no test.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from server.audio.frames import FrameCutter
from server.devices.native import encode_server
from server.devices.native_client import encode_device
from server.devices.wire import AudioFormat, FromDevice, ToDevice
from tests.firmware import vector_messages as cases
from tests.firmware.vector_turns import CONVERSATIONS, WHOLE, Sound, Step

FIRMWARE = Path(__file__).resolve().parents[2] / "firmware"
VECTORS = FIRMWARE / "vectors"
DOCUMENT = FIRMWARE / "PROTOCOL.md"
SOUNDS: Mapping[str, AudioFormat] = {
    "pcm16_16000_20ms.bin": AudioFormat("pcm16", 16_000, 20),
    "pcm16_24000_60ms.bin": AudioFormat("pcm16", 24_000, 60),
    "opus_16000_60ms.bin": AudioFormat("opus", 16_000, 60),
    "opus_24000_20ms.bin": AudioFormat("opus", 24_000, 20),
    "opus_24000_60ms.bin": AudioFormat("opus", 24_000, 60),
}
"""One frame of a tone of 440 Hz in each."""

_EXAMPLE = re.compile(r"(?<=<!-- example begins -->\n).*(?=<!-- example ends -->)", re.DOTALL)
_FIRST_BYTES = 16


def meaning(message: FromDevice | ToDevice | None) -> dict[str, Any] | None:
    """A message as JSON: its name in `server/devices/wire.py`, and its fields."""
    if message is None:
        return None
    fields: dict[str, Any] = json.loads(json.dumps(asdict(message)))
    return {"message": type(message).__name__, "fields": fields}


def documents(sounds: Mapping[str, bytes]) -> dict[str, Any]:
    """File name -> its content, before it is written as JSON."""
    return {
        "device_messages.json": [
            {"name": name, "text": text, "means": meaning(message)} for name, text, message in cases.FROM_DEVICE
        ],
        "server_messages.json": [
            {"name": name, "text": encode_server(message), "means": meaning(message)}
            for name, message in cases.FROM_SERVER
        ],
        "refused.json": [
            {"name": name, "text": text, "code": code, "field": field} for name, text, code, field in cases.REFUSED
        ],
        "ignored.json": [
            {"from": sender, "name": name, "text": text, "types": types, "fields": fields, "means": meaning(message)}
            for sender, rows in (("device", cases.IGNORED_OF_DEVICE), ("server", cases.IGNORED_OF_SERVER))
            for name, text, types, fields, message in rows
        ],
        "audio_answers.json": [
            {"asked": wire_audio(asked), "answer": wire_audio(answer)} for asked, answer in cases.AUDIO_ANSWERS
        ],
        "opus_lengths.json": [{"first_bytes": first, "ms": ms} for first, ms in cases.OPUS_LENGTHS],
        "sounds.json": [
            {"file": name, **wire_audio(audio), "bytes": len(sounds[name])} for name, audio in SOUNDS.items()
        ],
        "conversations.json": [
            {"name": name, "steps": [_step(step) for step in steps]} for name, steps in CONVERSATIONS.items()
        ],
    }


def wire_audio(audio: AudioFormat) -> dict[str, Any]:
    return {"format": audio.format, "sample_rate": audio.sample_rate_hz, "frame_ms": audio.frame_ms}


def sound(audio: AudioFormat) -> bytes:
    """The first frame of a tone."""
    samples = np.array(
        [round(8_000 * math.sin(2 * math.pi * 440 * n / audio.sample_rate_hz)) for n in range(audio.sample_rate_hz)],
        np.int16,
    )
    return FrameCutter(audio.format, audio.sample_rate_hz, audio.frame_ms).push(samples)[0]


def example(steps: list[Step], sounds: Mapping[str, bytes]) -> str:
    """A conversation as lines a person reads: milliseconds, direction, what is written."""
    lines = []
    for at_ms, message, sender in steps:
        arrow = "->" if sender == "device" else "<-"
        if isinstance(message, Sound):
            data = sounds[message.file]
            first = data[:_FIRST_BYTES].hex(" ")
            every = f", one each {message.apart_ms} ms" if message.apart_ms else ", at once"
            times = f"{message.frames} binary frames{every}; {message.file}, {len(data)} bytes: {first} …"
            lines.append(f"{at_ms:>5} {arrow} {times}")
        else:
            lines.append(f"{at_ms:>5} {arrow} {written(message, sender)}")
    return "```text\n" + "\n".join(lines) + "\n```\n"


def written(message: FromDevice | ToDevice, sender: str) -> str:
    frame = encode_device(message) if sender == "device" else encode_server(message)  # type: ignore[arg-type]
    assert isinstance(frame, str)
    return frame


def files() -> Iterator[tuple[Path, bytes]]:
    """Every file with what it should hold."""
    sounds = {}
    for name, audio in SOUNDS.items():
        path = VECTORS / name
        kept = audio.format == "opus" and path.exists()
        sounds[name] = path.read_bytes() if kept else sound(audio)
        yield path, sounds[name]
    for name, rows in documents(sounds).items():
        # One case a line: a difference shows which.
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        yield VECTORS / name, f"[\n{lines}\n]\n".encode()
    page = DOCUMENT.read_text(encoding="utf-8")
    yield DOCUMENT, _EXAMPLE.sub(lambda _: example(WHOLE, sounds), page).encode()


def _step(step: Step) -> dict[str, Any]:
    at_ms, message, sender = step
    if isinstance(message, Sound):
        return {"at_ms": at_ms, "from": sender, "file": message.file, "frames": message.frames}
    return {"at_ms": at_ms, "from": sender, "text": written(message, sender)}
