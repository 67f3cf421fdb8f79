"""What a device and its session say to each other, before any wire format: one frozen value for each message.

Codecs (`native.py`, and others) turn frames into these values and back; the session knows only them. Knows no JSON, no
socket and no time. Every field says its unit; text is as long as the codec's limits allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol

from server.audio.stream_intake import WireFormat
from server.errors import RequestError, StackChanError
from server.events import TurnState

Frame = str | bytes
"""One WebSocket message: text, or binary."""

ListenMode = Literal["auto", "manual", "realtime"]


class CloseCode(IntEnum):
    """Why a connection is closed (RFC 6455; from 4000 on our own)."""

    GOING_AWAY = 1001
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL = 1011
    TRY_AGAIN_LATER = 1013
    REPLACED = 4000
    """The same device connected again; it must not come back by itself."""


class BadMessage(RequestError):
    """A frame that cannot be understood; the connection lives on. `field`: where (`hello.audio.format`), or None.

    Codes: `json_invalid`, `field_missing`, `field_invalid`, `message_too_large`, `protocol_unsupported`,
    `audio_unsupported`, `device_id_invalid`, `session_id_invalid`, `hello_repeated`.
    """

    default_code = "field_invalid"

    def __init__(
        self, message: str, *, code: str | None = None, field: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.field = field


@dataclass(slots=True)
class Ignored:
    """What a codec passed over on one connection: only numbers, so that a stranger cannot make it grow."""

    types: int = 0
    """Messages of a type that is not known."""
    fields: int = 0
    """Fields that are not known, in messages that are."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How one direction's sound travels: mono, one piece of it a binary frame."""

    format: WireFormat
    sample_rate_hz: int
    frame_ms: int
    """Usual length of a frame; one may be shorter."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device can do."""

    echo_cancel: bool = False
    """Its microphone does not hear its own speaker: it can be interrupted by voice."""
    levels: bool = False
    """It wants mouth levels."""
    emotions: tuple[str, ...] | None = None
    """Emotion IDs it can show; None: all."""
    actions: tuple[str, ...] | None = None
    """Action IDs it can do; None: all."""
    commands: tuple[str, ...] | None = ()
    """Names of the commands it obeys; None: all."""

    def obeys(self, command: str) -> bool:
        return self.commands is None or command in self.commands


# --- from the device ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceHello:
    """The first message: who it is, and how its sound comes."""

    device_id: str
    audio: AudioFormat
    firmware: str = ""
    capabilities: Capabilities = Capabilities()
    speaker_id: str | None = None
    """Who speaks; None: the device's owner."""
    session_label: str | None = None
    """The session id it was given before, to go on with it; or its own name for a conversation."""
    token: str | None = field(default=None, repr=False)
    """For browsers, which cannot set a header."""
    voice: AudioFormat | None = None
    """How the robot's voice shall come; None: as its own sound does."""


@dataclass(frozen=True, slots=True)
class ListenStart:
    """The microphone is open: what follows is for the server to hear."""

    mode: ListenMode = "auto"


@dataclass(frozen=True, slots=True)
class ListenStop:
    """The microphone is shut; in `manual`: the utterance is complete."""


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """A piece of microphone sound: PCM16 little-endian, or one Opus packet. Not checked yet."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Abort:
    """The robot shall be silent now."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """So much of a turn's voice has been heard."""

    turn_id: int
    ms: int


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """Something happened to the robot: `kind` is `touch`, `button`, `shake`, …; `value`: any small JSON value."""

    kind: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Ping:
    """Is somebody there?"""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What became of the command `id`. `value`: any small JSON value; when not `ok`, what went wrong."""

    id: int
    ok: bool
    value: Any = None


FromDevice = DeviceHello | ListenStart | ListenStop | AudioFrame | Abort | Played | DeviceEvent | Ping | CommandResult

# --- to the device ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerHello:
    """The answer to `DeviceHello`. `audio`: how the robot's voice comes. `language`: ISO 639-1."""

    session_id: str
    audio: AudioFormat
    persona_name: str
    language: str


@dataclass(frozen=True, slots=True)
class State:
    value: TurnState


@dataclass(frozen=True, slots=True)
class Transcript:
    """The user's words; not `final`: they may still change."""

    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class Face:
    emotion: str


@dataclass(frozen=True, slots=True)
class Action:
    id: str


@dataclass(frozen=True, slots=True)
class Levels:
    """How far the mouth is open, each value (0 to 1) for `step_ms` of the turn's voice from `start_ms` on."""

    turn_id: int
    start_ms: int
    values: tuple[float, ...]
    step_ms: int = 40


@dataclass(frozen=True, slots=True)
class SpeechStart:
    """The robot's voice follows; sound outside start and stop belongs to nothing."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """The frames that follow say `text`."""

    turn_id: int
    text: str


@dataclass(frozen=True, slots=True)
class SpeechStop:
    """No frame of this turn follows."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class SpeechFrame:
    """A piece of the robot's voice in the format of `ServerHello.audio`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """The whole answer, as `GET /v1/turns/{id}` gives it; JSON values only."""

    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceError:
    """Something went wrong; `code` is for machines and stable."""

    code: str
    message: str
    retryable: bool = False

    @classmethod
    def of(cls, error: StackChanError) -> DeviceError:
        """An error as a device is told of it, with what to do next."""
        return cls(error.code, str(error), error.retryable)


@dataclass(frozen=True, slots=True)
class Pong:
    """Somebody is."""


@dataclass(frozen=True, slots=True)
class Command:
    """The device shall do `name`; it answers with the `CommandResult` of this `id`, a number new on this connection."""

    id: int
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


ToDevice = (
    ServerHello
    | State
    | Transcript
    | Face
    | Action
    | Levels
    | SpeechStart
    | Sentence
    | SpeechStop
    | SpeechFrame
    | TurnAnswer
    | DeviceError
    | Pong
    | Command
)


class DeviceCodec(Protocol):
    """One connection's way between frames and messages. No I/O, no time."""

    ignored: Ignored

    def decode(self, frame: Frame) -> FromDevice | None:
        """A frame of the device; None: a type that is passed over. Raises `BadMessage`, never anything else."""
        ...

    def encode(self, message: ToDevice) -> tuple[Frame, ...]:
        """The frames that say `message`, in order; none where the device has no word for it."""
        ...
