"""The native protocol, seen from a device: messages to frames for the server, frames of the server to messages.

For the simulated robot and for tests; a real robot has its own. As strict as the server's side: what the server may not
send is refused. Knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from server.devices.message_fields import Fields
from server.devices.native import (
    MAX_COMMAND_ID,
    MAX_ID,
    MAX_MS,
    MAX_SENT_CHARACTERS,
    PROTOCOL_VERSION,
    as_text,
    audio_fields,
    decode_message,
    read_audio,
    sound_of,
)
from server.devices.wire import (
    Abort,
    Action,
    AudioFrame,
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
from server.events import TurnState
from server.persona import MAX_NAME_CHARACTERS

MAX_LEVELS = 1_000
"""Values in one `levels` message: 40 s of speech."""
MAX_STEP_MS = 1_000
MAX_SESSION_CHARACTERS = 128
MAX_CODE_CHARACTERS = 64

_SPEECH_STATES = ("start", "sentence", "stop")


def encode_device(message: FromDevice) -> Frame:
    """The one frame that says `message`; fields with their usual value are left out."""
    if isinstance(message, AudioFrame):
        return message.data
    return as_text(_device_fields(message))


def decode_server(frame: Frame, ignored: Ignored) -> ToDevice | None:
    """A server's frame as a message; None: of a type that is not known, which `ignored` counts. Raises `BadMessage`."""
    if not isinstance(frame, str):
        return SpeechFrame(sound_of(frame))
    return decode_message(frame, _READERS, ignored)


def _device_fields(message: FromDevice) -> dict[str, Any]:
    match message:
        case DeviceHello():
            return _hello_fields(message)
        case ListenStart(mode):
            return {"type": "listen", "state": "start", "mode": mode}
        case ListenStop():
            return {"type": "listen", "state": "stop"}
        case Abort(reason):
            return {"type": "abort"} | ({"reason": reason} if reason else {})
        case Played(turn_id, ms):
            return {"type": "played", "turn_id": turn_id, "ms": ms}
        case DeviceEvent(kind, value):
            return {"type": "event", "kind": kind} | ({} if value is None else {"value": value})
        case Ping():
            return {"type": "ping"}
        case CommandResult(command_id, ok, value):
            return {"type": "result", "id": command_id, "ok": ok} | ({} if value is None else {"value": value})
    raise TypeError(f"no message for a server: {type(message).__name__}")


def _hello_fields(hello: DeviceHello) -> dict[str, Any]:
    able = hello.capabilities
    capabilities: dict[str, Any] = {"echo_cancel": able.echo_cancel, "levels": able.levels}
    for name, ids in (("emotions", able.emotions), ("actions", able.actions)):
        if ids is not None:
            capabilities[name] = list(ids)
    if able.commands != ():
        capabilities["commands"] = True if able.commands is None else list(able.commands)
    fields = {
        "type": "hello",
        "protocol": PROTOCOL_VERSION,
        "device_id": hello.device_id,
        "firmware": hello.firmware or None,
        "audio": audio_fields(hello.audio),
        "voice": None if hello.voice is None else audio_fields(hello.voice),
        "capabilities": capabilities,
        "speaker": hello.speaker_id,
        "session_id": hello.session_label,
        "token": hello.token,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _hello(fields: Fields) -> ServerHello:
    persona = fields.group("persona")
    hello = ServerHello(
        session_id=fields.text("session_id", MAX_SESSION_CHARACTERS, least=1),
        audio=read_audio(fields.group("audio")),
        persona_name=persona.text("name", MAX_NAME_CHARACTERS, least=1),
        language=persona.text("language", 8, least=2),
    )
    persona.close()
    return hello


def _speech(fields: Fields) -> SpeechStart | Sentence | SpeechStop:
    state = fields.choice("state", _SPEECH_STATES)
    turn_id = fields.whole("turn_id", 1, MAX_ID)
    if state == "sentence":
        return Sentence(turn_id, fields.long_text("text", MAX_SENT_CHARACTERS))
    return SpeechStart(turn_id) if state == "start" else SpeechStop(turn_id)


def _levels(fields: Fields) -> Levels:
    return Levels(
        turn_id=fields.whole("turn_id", 1, MAX_ID),
        start_ms=fields.whole("start_ms", 0, MAX_MS),
        values=fields.fractions("values", MAX_LEVELS),
        step_ms=fields.whole("step_ms", 1, MAX_STEP_MS),
    )


def _error(fields: Fields) -> DeviceError:
    return DeviceError(
        code=fields.identifier("code", MAX_CODE_CHARACTERS),
        message=fields.long_text("message", MAX_SENT_CHARACTERS),
        retryable=fields.flag("retryable"),
    )


def _state(fields: Fields) -> State:
    value: TurnState = fields.choice("value", get_args(TurnState))
    return State(value)


def _command(fields: Fields) -> Command:
    return Command(
        id=fields.whole("id", 1, MAX_COMMAND_ID),
        name=fields.identifier("name", MAX_NAME_CHARACTERS),
        args=fields.mapping("args"),
    )


_READERS: Mapping[str, Callable[[Fields], ToDevice]] = MappingProxyType(
    {
        "hello": _hello,
        "state": _state,
        "transcript": lambda fields: Transcript(fields.long_text("text", MAX_SENT_CHARACTERS), fields.flag("final")),
        "face": lambda fields: Face(fields.identifier("emotion", MAX_NAME_CHARACTERS)),
        "action": lambda fields: Action(fields.identifier("id", MAX_NAME_CHARACTERS)),
        "levels": _levels,
        "speech": _speech,
        "turn": lambda fields: TurnAnswer(fields.rest()),
        "error": _error,
        "pong": lambda fields: Pong(),
        "command": _command,
    }
)
