"""The native protocol, seen from the server: frames of a device to messages, messages to frames for it.

JSON text for control, binary for sound; `firmware/PROTOCOL.md` is its document, `firmware/vectors/` its examples.
Takes bytes from strangers: whatever they send becomes a message or a `BadMessage`. Knows no socket, no clock, no
conversation: which message may come when is the session's business. `native_client.py` is the other side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from server.audio.codec import OPUS_SAMPLE_RATES_HZ
from server.audio.frames import MAX_FRAME_MS, MIN_FRAME_MS, OPUS_FRAME_MS
from server.audio.stream_intake import WireFormat
from server.devices.auth import Caller, device_of, session_label_of
from server.devices.message_fields import MAX_FRAME_BYTES, Fields, read_message
from server.devices.wire import (
    Abort,
    Action,
    AudioFormat,
    AudioFrame,
    BadMessage,
    Capabilities,
    Command,
    CommandResult,
    DeviceError,
    DeviceEvent,
    DeviceHello,
    Face,
    Frame,
    FromDevice,
    Ignored,
    Levels,
    ListenMode,
    ListenStart,
    ListenStop,
    Ping,
    Played,
    Pong,
    Sentence,
    ServerHello,
    SpeechFrame,
    SpeechStart,
    SpeechStop,
    State,
    ToDevice,
    Transcript,
    TurnAnswer,
)
from server.persona import MAX_NAME_CHARACTERS

PROTOCOL_VERSION = 1
MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ = 8_000, 48_000
MAX_FIRMWARE_CHARACTERS = 64
MAX_SPEAKER_CHARACTERS = 64
MAX_TOKEN_CHARACTERS = 512
MAX_REASON_CHARACTERS = 64
MAX_KIND_CHARACTERS = 32
MAX_CAPABILITY_IDS = 64
MAX_ID = 2**53 - 1
"""The largest number that every JSON reader keeps exactly."""
MAX_MS = 2**31 - 1
MAX_COMMAND_ID = 2**31 - 1
MAX_SENT_CHARACTERS = 2_000
"""Longest text in a message to a device, which has little memory; the whole is at `GET /v1/turns/{id}`."""

_OTHER_AUDIO = (
    "Say so in `audio` of `hello`; `Sound` in firmware/PROTOCOL.md has what is taken. / "
    "`hello` の `audio` で指定してください（firmware/PROTOCOL.md の Sound）。"
)
_LISTEN_STATES = ("start", "stop")
_Message = TypeVar("_Message")


class NativeCodec:
    """The native protocol on one connection."""

    def __init__(self) -> None:
        self.ignored = Ignored()

    def decode(self, frame: Frame) -> FromDevice | None:
        """See `DeviceCodec.decode`."""
        return decode_device(frame, self.ignored)

    def encode(self, message: ToDevice) -> tuple[Frame, ...]:
        """Always one frame. See `DeviceCodec.encode`."""
        return (encode_server(message),)


def downlink_audio(asked: AudioFormat) -> AudioFormat:
    """How the server sends its voice to a device that asks for `asked`: the same, or the nearest that frames allow.

    An Opus packet has one of `OPUS_FRAME_MS`, a PCM16 frame a whole number of samples. Of two lengths that are as near
    the shorter one; a rate without any (44,056 Hz) becomes the nearest whole kilohertz.
    """
    rate_hz = asked.sample_rate_hz
    lengths = list(OPUS_FRAME_MS) if asked.format == "opus" else _whole_frames_ms(rate_hz)
    if not lengths:
        rate_hz = round(rate_hz / 1000) * 1000
        lengths = _whole_frames_ms(rate_hz)
    return AudioFormat(asked.format, rate_hz, min(lengths, key=lambda ms: (abs(ms - asked.frame_ms), ms)))


def _whole_frames_ms(rate_hz: int) -> list[int]:
    return [ms for ms in range(MIN_FRAME_MS, MAX_FRAME_MS + 1) if rate_hz * ms % 1000 == 0]


# --- from the device ----------------------------------------------------------------------------------------------


def decode_device(frame: Frame, ignored: Ignored) -> FromDevice | None:
    """A device's frame as a message; None: of a type that is not known, which `ignored` counts. Raises `BadMessage`."""
    if not isinstance(frame, str):
        return AudioFrame(sound_of(frame))
    return decode_message(frame, _READERS, ignored)


def sound_of(frame: bytes) -> bytes:
    """A binary frame that is not too long. Raises `BadMessage`."""
    if len(frame) > MAX_FRAME_BYTES:
        raise BadMessage(f"A frame has at most {MAX_FRAME_BYTES} bytes.", code="message_too_large")
    return bytes(frame)


def decode_message(text: str, readers: Mapping[str, Callable[[Fields], _Message]], ignored: Ignored) -> _Message | None:
    """A text frame by the reader of its type; None: a type without one. Raises `BadMessage`."""
    message = read_message(text)
    kind = message.get("type")
    if not isinstance(kind, str):
        raise Fields(message, ignored).bad("type", "the name of a message")
    reader = readers.get(kind)
    if reader is None:
        ignored.types += 1
        return None
    fields = Fields(message, ignored, place=f"{kind}.", known=1)
    read = reader(fields)
    fields.close()
    return read


def read_audio(fields: Fields) -> AudioFormat:
    """`{format, sample_rate, frame_ms}`. Raises `BadMessage`, `audio_unsupported` for what is not offered here."""
    try:
        wire_format: WireFormat = fields.choice("format", get_args(WireFormat))
        rate_hz = fields.whole("sample_rate", MIN_SAMPLE_RATE_HZ, MAX_SAMPLE_RATE_HZ)
        if wire_format == "opus" and rate_hz not in OPUS_SAMPLE_RATES_HZ:
            raise fields.bad(
                "sample_rate", f"for opus one of {', '.join(map(str, OPUS_SAMPLE_RATES_HZ))}", "audio_unsupported"
            )
        frame_ms = fields.whole("frame_ms", MIN_FRAME_MS, MAX_FRAME_MS)
    except BadMessage as error:
        if error.code == "field_missing":
            raise
        # The usual step of this code is for recordings.
        raise BadMessage(error.message, code="audio_unsupported", field=error.field, hint=_OTHER_AUDIO) from None
    fields.close()
    return AudioFormat(wire_format, rate_hz, frame_ms)


def _hello(fields: Fields) -> DeviceHello:
    # Before anything else: another version may mean something else by every other field.
    if fields.whole("protocol", 1, 2**31 - 1) != PROTOCOL_VERSION:
        raise fields.bad("protocol", f"{PROTOCOL_VERSION}, the only version here", "protocol_unsupported")
    device_id = fields.checked("device_id", lambda text: device_of(Caller(None), text))
    audio, voice = read_audio(fields.group("audio")), fields.optional_group("voice")
    capable = fields.optional_group("capabilities")
    return DeviceHello(
        device_id=device_id,
        audio=audio,
        voice=None if voice is None else read_audio(voice),
        firmware=fields.text("firmware", MAX_FIRMWARE_CHARACTERS, default=""),
        capabilities=Capabilities() if capable is None else _capabilities(capable),
        speaker_id=fields.optional_text("speaker", MAX_SPEAKER_CHARACTERS),
        session_label=fields.checked("session_id", lambda text: session_label_of(text or None), default=""),
        token=fields.optional_text("token", MAX_TOKEN_CHARACTERS),
    )


def _capabilities(fields: Fields) -> Capabilities:
    capabilities = Capabilities(
        echo_cancel=fields.flag("echo_cancel", False),
        levels=fields.flag("levels", False),
        emotions=fields.identifiers("emotions", MAX_NAME_CHARACTERS, most=MAX_CAPABILITY_IDS),
        actions=fields.identifiers("actions", MAX_NAME_CHARACTERS, most=MAX_CAPABILITY_IDS),
        commands=fields.identifiers("commands", MAX_NAME_CHARACTERS, most=MAX_CAPABILITY_IDS, default=False),
    )
    fields.close()
    return capabilities


def _listen(fields: Fields) -> ListenStart | ListenStop:
    starts = fields.choice("state", _LISTEN_STATES) == "start"
    mode: ListenMode = fields.choice("mode", get_args(ListenMode), "auto")
    return ListenStart(mode) if starts else ListenStop()


def _played(fields: Fields) -> Played:
    return Played(fields.whole("turn_id", 1, MAX_ID), fields.whole("ms", 0, MAX_MS))


def _event(fields: Fields) -> DeviceEvent:
    return DeviceEvent(fields.identifier("kind", MAX_KIND_CHARACTERS), fields.value("value"))


def _result(fields: Fields) -> CommandResult:
    return CommandResult(fields.whole("id", 1, MAX_COMMAND_ID), fields.flag("ok"), fields.value("value"))


_READERS: Mapping[str, Callable[[Fields], FromDevice]] = MappingProxyType(
    {
        "hello": _hello,
        "listen": _listen,
        "abort": lambda fields: Abort(fields.text("reason", MAX_REASON_CHARACTERS, default="")),
        "played": _played,
        "event": _event,
        "ping": lambda fields: Ping(),
        "result": _result,
    }
)

# --- to the device ------------------------------------------------------------------------------------------------


def encode_server(message: ToDevice) -> Frame:
    """The one frame that says `message`. Text that no UTF-8 can carry, and numbers that no JSON can, are replaced."""
    if isinstance(message, SpeechFrame):
        return message.data
    return as_text(_server_fields(message))


def _server_fields(message: ToDevice) -> dict[str, Any]:
    match message:
        case ServerHello(session_id, audio, persona_name, language):
            persona = {"name": persona_name, "language": language}
            return {"type": "hello", "session_id": session_id, "audio": audio_fields(audio), "persona": persona}
        case State(value):
            return {"type": "state", "value": value}
        case Transcript(text, final):
            return {"type": "transcript", "text": shortened(text), "final": final}
        case Face(emotion):
            return {"type": "face", "emotion": emotion}
        case Action(action_id):
            return {"type": "action", "id": action_id}
        case Levels(turn_id, start_ms, values, step_ms):
            shown = [round(min(max(float(value), 0.0), 1.0), 2) if math.isfinite(value) else 0.0 for value in values]
            return {"type": "levels", "turn_id": turn_id, "start_ms": start_ms, "step_ms": step_ms, "values": shown}
        case SpeechStart(turn_id):
            return {"type": "speech", "state": "start", "turn_id": turn_id}
        case Sentence(turn_id, text):
            return {"type": "speech", "state": "sentence", "turn_id": turn_id, "text": shortened(text)}
        case SpeechStop(turn_id):
            return {"type": "speech", "state": "stop", "turn_id": turn_id}
        case TurnAnswer(answer):
            return _turn_fields(answer)
        case DeviceError(code, text, retryable):
            return {"type": "error", "code": code, "message": shortened(text), "retryable": retryable}
        case Pong():
            return {"type": "pong"}
        case Command(command_id, name, args):
            return {"type": "command", "id": command_id, "name": name, "args": dict(args)}
    raise TypeError(f"no message for a device: {type(message).__name__}")


def _turn_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"type": "turn"} | {name: value for name, value in answer.items() if name != "type"}
    long = [name for name in ("transcript", "reply") if isinstance(fields.get(name), str)]
    return fields | {name: shortened(fields[name]) for name in long}


def audio_fields(audio: AudioFormat) -> dict[str, Any]:
    return {"format": audio.format, "sample_rate": audio.sample_rate_hz, "frame_ms": audio.frame_ms}


def shortened(text: str) -> str:
    """At most `MAX_SENT_CHARACTERS`; an ellipsis says that there was more."""
    return text if len(text) <= MAX_SENT_CHARACTERS else text[: MAX_SENT_CHARACTERS - 1] + "…"


def as_text(fields: Mapping[str, Any]) -> str:
    """JSON on one line, without needless spaces, always valid UTF-8."""
    try:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # A model wrote 1e999 as an argument, or an engine measured nothing.
        text = json.dumps(_finite(fields), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a character, from a text that was cut.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
