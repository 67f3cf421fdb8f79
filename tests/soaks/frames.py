"""Hostile frames of the native protocol: whatever comes is understood, passed over or refused, and costs little.

No socket and no server: the codec and the flow rules alone, in connections that end when a rule is broken. Every frame
that does what it should not is kept as a file with its bytes.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from server.devices.intake_limits import IntakeLimits, audio_ms
from server.devices.message_fields import MAX_FRAME_BYTES
from server.devices.native import decode_device, encode_server
from server.devices.native_client import decode_server, encode_device
from server.devices.wire import AudioFormat, AudioFrame, BadMessage, Frame, Ignored
from tests.firmware.vector_messages import FROM_DEVICE, FROM_SERVER, REFUSED
from tests.soaks.malformed_text import random_value, wrong_documents
from tests.soaks.promises import Progress, Promise, no_progress

CODES = frozenset(
    (
        "json_invalid",
        "field_missing",
        "field_invalid",
        "message_too_large",
        "protocol_unsupported",
        "audio_unsupported",
        "device_id_invalid",
        "session_id_invalid",
    )
)
PEAK_BYTES = 64 * MAX_FRAME_BYTES
"""While one frame is read; an empty list is two bytes on the wire and 64 in memory."""
GROWN_BYTES = 512 * 1024
"""In the whole run: the connection that is open, the figures, and the bar of whoever watches."""
SECONDS = 1.0
"""A frame takes some microseconds; a machine with other work may be slow."""
FORMATS = (AudioFormat("pcm16", 16_000, 20), AudioFormat("opus", 16_000, 60), AudioFormat("pcm16", 48_000, 120))
LONGEST_CONNECTION = 120
"""Frames, then the device hangs up."""
MAX_KEPT = 50

VALUES: tuple[str, ...] = (
    *("null", "true", "false", "0", "-1", "1.5", "1e400", "-1e400", "1" + "0" * 400, "9" * 5_000, "NaN", "01", "1.0"),
    *('""', '"start"', '"auto"', '"\\ud800"', '"\\u0000"', '"a\\nb"', '"pcm16"', '"' + "x" * 65 + '"', '"🙂"', "384"),
    *("[]", "{}", '"' + "あ" * 5_000 + '"', "[" * 300, "[" * 40 + "]" * 40, "[0" + ",0" * 400 + "]", '{"a":1,"a":2}'),
    *('{"format":"opus","sample_rate":16000,"frame_ms":20}', '{"levels":true}', "[1e400]", "", "nul", '"', "\\"),
)


@dataclass(slots=True)
class Report:
    """What came of all frames."""

    frames: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    peak_bytes: int = 0
    grown_bytes: int = 0
    longest_seconds: float = 0.0
    defects: Counter[str] = field(default_factory=Counter)


# --- frames -------------------------------------------------------------------------------------------------------


def frames(chance: random.Random) -> Iterator[tuple[str, Frame]]:
    """Kind and frame, without end."""
    documents = wrong_texts()
    valid = [text for _, text, _ in FROM_DEVICE]
    valid += [text for text in (encode_server(message) for _, message in FROM_SERVER) if isinstance(text, str)]
    makers: dict[str, Callable[[], Frame]] = {
        "document": lambda: chance.choice(documents),
        "valid": lambda: chance.choice(valid),
        "refused": lambda: chance.choice(REFUSED)[1],
        "mutated": lambda: _mutated(chance, chance.choice(valid)),
        "fields": lambda: _fields(chance, json.loads(chance.choice(valid))),
        "random": lambda: json.dumps(random_value(chance), ensure_ascii=chance.random() < 0.5),
        "binary": lambda: _binary(chance),
    }
    for kind in cycle(("mutated", "fields", "binary", "valid", "fields", "mutated", "refused", "random", "document")):
        yield kind, makers[kind]()


@cache
def wrong_texts() -> tuple[str, ...]:
    """The wrong documents of HTTP, as the text that a socket would bring; of the longest their beginning."""
    texts = []
    for data in wrong_documents().values():
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
        texts.append(text[: 3 * MAX_FRAME_BYTES])
    return tuple(texts)


def _mutated(chance: random.Random, text: str) -> str:
    """A good message with some characters taken out, put in, doubled or moved."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 1, 1, 4, 30)))
        middle = chance.choice(("", text[start:end] * 2, text[start:end] * 400, chance.choice(VALUES), "\ud800", "\0"))
        text = text[:start] + middle + text[end:]
    return text


def _fields(chance: random.Random, message: dict[str, Any]) -> str:
    """A message of a known type with a value that is not its own in some of its fields."""
    parts = []
    for name, value in message.items():
        if name != "type" and chance.random() < 0.15:
            continue
        if isinstance(value, dict) and chance.random() < 0.6:
            written = _fields(chance, value)
        elif chance.random() < (0.05 if name == "type" else 0.4):
            written = chance.choice(VALUES)
        else:
            written = json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(name)}:{written}")
    if chance.random() < 0.2:
        parts.append(f'"{chance.choice(("new", "type", "x" * 9_000))}":{chance.choice(VALUES)}')
    chance.shuffle(parts)
    return "{" + ",".join(parts) + "}"


def _binary(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 2, 33, 640, 640, 1_276, 11_520, 16_384, 16_385, 16_385, 70_000))
    return chance.randbytes(size)


# --- what must hold -----------------------------------------------------------------------------------------------


class Connection:
    """One device's frames through codec and rules, beside a slow model of the rules."""

    def __init__(self, chance: random.Random) -> None:
        self.floods = chance.random() < 0.1
        """Nothing comes but sound, much too much of it."""
        self.audio = FORMATS[0] if self.floods else chance.choice(FORMATS)
        self.limits = IntakeLimits()
        self.ignored = Ignored()
        self.sound: list[tuple[float, float]] = []
        self.frames = 0
        self.bad = 0
        self.passed_over = 0

    def closes(self, now: float, frame: Frame, message: object, refused: str | None) -> tuple[str | None, str | None]:
        """Why the rules close it now, and what is wrong with that; each None: nothing."""
        size = len(frame) if isinstance(frame, bytes) else len(frame.encode("utf-8", "surrogatepass"))
        broken = self.limits.frame(size)
        if broken is None and refused is not None:
            self.bad += 1
            broken = self.limits.bad_message()
        if broken is None and isinstance(message, AudioFrame):
            length_ms = audio_ms(self.audio, message.data)
            self.sound.append((now, max(1.0, length_ms)))
            broken = self.limits.audio(now, length_ms)
        code = broken.error.code if broken else None
        return code, self._objection(now, size, code)

    def _objection(self, now: float, size: int, code: str | None) -> str | None:
        too_big = size > MAX_FRAME_BYTES
        if too_big or self.bad >= 10:
            expected = "message_too_large" if too_big else "too_many_bad_messages"
            return None if code == expected else f"{expected} expected, {code} found"
        surely = sum(ms for at, ms in self.sound if at > now - 4.9) > 10_120.1
        maybe = sum(ms for at, ms in self.sound if at >= now - 5.0) > 10_119.9
        if code == "audio_too_fast":
            return None if maybe else "closed for sound that was not too much"
        if code is not None:
            return f"closed without a reason: {code}"
        return "not closed for too much sound" if surely else None


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """`count` frames through both sides of the codec, and those of devices through the rules of the flow."""
    return promises(run(count, seed, folder, on_progress))


def run(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> Report:
    """All frames, one after the other. Frames that broke a promise lie in `folder`."""
    chance, report = random.Random(seed), Report()
    hostile = frames(random.Random(seed + 1))
    next(hostile)  # what it needs is made before memory is watched
    connection, now = Connection(chance), 0.0
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        while report.frames < count:
            kind, frame = ("flood", chance.randbytes(chance.randrange(16_000))) if connection.floods else next(hostile)
            now += chance.choice((0.0, 0.0, 0.001, 0.02, 0.02 if connection.floods else 0.3))
            connection.frames += 1
            report.frames += 1
            report.kinds[kind] += 1
            message, refused = _read(report, folder, connection.ignored, frame)
            code, objection = connection.closes(now, frame, message, refused)
            connection.passed_over += message is None and refused is None
            if objection is None and connection.ignored.types != connection.passed_over:
                objection = f"{connection.passed_over} passed over, {connection.ignored.types} counted"
            if objection is not None:
                _keep(report, folder, "rules", objection, frame)
            if code is not None or objection is not None or connection.frames == LONGEST_CONNECTION:
                report.closed[code or "hung up"] += 1
                report.connections += 1
                connection, now = Connection(chance), chance.random() * 1e6
            _read_as_device(report, folder, frame)
            on_progress(report.frames, count)
        report.grown_bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return report


def _read(report: Report, folder: Path, ignored: Ignored, frame: Frame) -> tuple[object, str | None]:
    """A device's frame: the message, or the code it is refused by; both None: passed over."""
    return _measured(report, folder, frame, lambda: decode_device(frame, ignored), _said_again_by_device)


def _read_as_device(report: Report, folder: Path, frame: Frame) -> None:
    _measured(report, folder, frame, lambda: decode_server(frame, Ignored()), _said_again_by_server)


def _said_again_by_device(message: Any) -> bool:
    return bool(decode_device(encode_device(message), Ignored()) == message)


def _said_again_by_server(message: Any) -> bool:
    # Levels are rounded when they are written: the second time nothing changes any more.
    once = decode_server(encode_server(message), Ignored())
    return once is not None and bool(decode_server(encode_server(once), Ignored()) == once)


def _measured(
    report: Report, folder: Path, frame: Frame, read: Callable[[], object], same: Callable[[object], bool]
) -> tuple[object, str | None]:
    tracemalloc.reset_peak()
    before, began = tracemalloc.get_traced_memory()[0], time.perf_counter()
    message, refused, outcome, defect = _outcome(read)
    report.longest_seconds = max(report.longest_seconds, time.perf_counter() - began)
    peak = tracemalloc.get_traced_memory()[1]
    report.outcomes[outcome] += 1
    report.peak_bytes = max(report.peak_bytes, peak - before)
    if defect is not None:
        _keep(report, folder, *defect, frame)
    if peak - before > PEAK_BYTES:
        _keep(report, folder, "memory", f"{peak - before} bytes at a time", frame)
    if message is not None and not same(message):
        _keep(report, folder, "meaning", "said again, it means something else", frame)
    return message, refused


def _outcome(read: Callable[[], object]) -> tuple[object, str | None, str, tuple[str, str] | None]:
    """Message, code of a refusal, a word for it, and what is wrong: a kind and a detail."""
    try:
        message = read()
    except BadMessage as error:
        known = error.code in CODES and len(str(error)) <= 300
        return None, error.code, error.code, None if known else ("codes", f"{error.code}: {str(error)[:300]}")
    except Exception as error:  # every kind of it is what this looks for
        return None, None, "raised", ("raised", repr(error)[:300])
    return message, None, "passed over" if message is None else "understood", None


def _keep(report: Report, folder: Path, what: str, detail: str, frame: Frame) -> None:
    number = report.defects.total()
    report.defects[what] += 1
    if number < MAX_KEPT:
        data = frame if isinstance(frame, bytes) else frame.encode("utf-8", "surrogatepass")
        (folder / f"{number:03d}-{what}.frame").write_bytes(data)
        (folder / f"{number:03d}-{what}.txt").write_text(detail + "\n", encoding="utf-8", errors="replace")


def promises(report: Report) -> list[Promise]:
    def none(what: str) -> bool:
        return report.defects[what] == 0

    outcomes = {"frames": report.frames, "by_kind": dict(report.kinds), "outcomes": dict(report.outcomes)}
    little = report.grown_bytes <= GROWN_BYTES
    memory = {"peak_kib": round(report.peak_bytes / 1024, 1), "grown_kib": round(report.grown_bytes / 1024, 1)}
    understood = "A frame is understood, passed over or refused; nothing else is raised."
    rules = "A connection is closed when a rule of the flow is broken, and only then."
    return [
        Promise("no_other_error", understood, none("raised"), outcomes),
        Promise("codes", "What is refused has a code of the document and a short message.", none("codes")),
        Promise("meaning", "What is understood means the same when it is said again.", none("meaning")),
        Promise("rules", rules, none("rules") and report.connections > 0, {"closed": dict(report.closed)}),
        Promise("memory", "A frame needs little memory and leaves nothing.", none("memory") and little, memory),
        Promise(
            "time",
            "No frame takes long.",
            report.longest_seconds < SECONDS,
            {"longest_ms": round(1000 * report.longest_seconds, 2)},
        ),
    ]
