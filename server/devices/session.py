"""A device that is connected live: its messages become a conversation, the conversation's events become messages.

It outlives its connection for a while, so that a turn under way can go on after a cut; the registry keeps one of each
device. Knows messages (`wire.py`), not how they are written; who the device is was checked before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from server.audio.stream_intake import StreamIntake
from server.devices.commands import Commands
from server.devices.connection import Connection
from server.devices.voice import LiveVoice, TurnVoice, VoiceSettings
from server.devices.wire import (
    Abort,
    Action,
    AudioFormat,
    AudioFrame,
    CloseCode,
    CommandResult,
    DeviceError,
    DeviceEvent,
    DeviceHello,
    Face,
    FromDevice,
    ListenStart,
    ListenStop,
    Ping,
    Played,
    Pong,
    ServerHello,
    State,
    Transcript,
    TurnAnswer,
)
from server.errors import OverloadError, StackChanError
from server.events import (
    ActionChosen,
    FaceChosen,
    SentenceStarted,
    SpeechProduced,
    TranscriptReady,
    TurnEvent,
    TurnState,
)
from server.pipeline.announcing import Announcing
from server.pipeline.conversation import Conversation, ConversationOut
from server.pipeline.progress import stopping
from server.pipeline.request import TurnRequest, TurnResult

INTERRUPTING = frozenset(("touch", "button", "wake", "wake_word"))
"""Events of a robot that mean: be silent, I want to say something."""

MakeConversation = Callable[[TurnRequest, ConversationOut, bool], Conversation]
"""A conversation of a device; whether it hears itself not."""
AnswerOf = Callable[[TurnResult], dict[str, Any]]
"""A turn as `GET /v1/turns/{id}` gives it."""


@dataclass(frozen=True, slots=True)
class Robot:
    """What a device is told about who speaks."""

    name: str
    language: str


class LiveDevice:
    """One device. Implements `ConversationOut`."""

    def __init__(
        self,
        hello: DeviceHello,
        audio: AudioFormat,
        robot: Robot,
        make_conversation: MakeConversation,
        answer_of: AnswerOf,
        voice: VoiceSettings,
        monotonic: Callable[[], float],
    ) -> None:
        self.device_id = hello.device_id
        self.session_id = ""
        self._hello = hello
        self._audio = audio
        self._robot = robot
        self._answer_of = answer_of
        self._connection: Connection | None = None
        self._speaking: asyncio.Task[None] | None = None
        self.missed: TurnAnswer | None = None
        """The end of a turn that came while the device was away."""
        self._untold: TurnAnswer | None = None
        """One that was sent, and may not have come: nothing came of the device since."""
        self._shown: list[Transcript | Face | Action] = []
        self._voice = LiveVoice(audio, voice, monotonic, levels=hello.capabilities.levels)
        device = TurnRequest(hello.device_id, session_label=hello.session_label, speaker_id=hello.speaker_id)
        self.conversation = make_conversation(device, self, hello.capabilities.echo_cancel)
        self._intake = StreamIntake(hello.audio.format, hello.audio.sample_rate_hz)
        self._commands = Commands(self._post)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def may_resume(self, hello: DeviceHello) -> bool:
        """Whether this is the same device in the same conversation, with a turn that it has not heard the end of."""
        same = hello.session_label is not None and hello.session_label == self.session_id
        sounds = (hello.audio, hello.voice) == (self._hello.audio, self._hello.voice)
        is_left = self.conversation.in_turn or self.missed is not None
        return same and sounds and is_left and self.may_return_seconds > 0

    @property
    def may_return_seconds(self) -> float:
        """How long a device that is away may still come back to its turn."""
        return self._voice.waits_seconds

    async def begin(self) -> None:
        """Find or open the conversation. Raises `AuthError`, `StorageError`."""
        self.session_id = await self.conversation.begin()

    def attach(self, connection: Connection) -> None:
        """The device is there: greet it, and say what is left to say."""
        self._connection = connection
        connection.post(ServerHello(self.session_id, self._audio, self._robot.name, self._robot.language))
        connection.post(State(self.conversation.state))
        for message in (*self._shown, *filter(None, (self.missed,))):
            connection.post(message)
        self._untold, self.missed = self.missed, None
        self._voice.away(False)
        self._speaking = asyncio.create_task(self._voice.run(connection.send), name=f"voice-{self.device_id}")

    async def detach(self, connection: Connection) -> None:
        """The device is gone. A turn that runs goes on, and waits for it a while."""
        if self._connection is not connection:
            return
        self._connection = None
        self.missed, self._untold = self._untold, None
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
        self._voice.away(True)
        self._commands.gone()
        await self.conversation.close()

    async def replace(self, code: CloseCode) -> None:
        """Somebody else takes the device's place, or the server stops."""
        connection = self._connection
        if connection is not None:
            await self.detach(connection)
            await connection.close(code)

    async def end(self, reason: str) -> None:
        """Nobody comes back to this conversation: the turn that runs ends with what was played of it, soon."""
        await self.conversation.end(reason)

    @property
    def frame_seconds(self) -> float:
        """How much sound a frame of its microphone is."""
        return self._hello.audio.frame_ms / 1000

    @property
    def may_be_silent(self) -> bool:
        """Whether it is listened to and may send nothing for silence (Opus with DTX)."""
        return self._hello.audio.format == "opus" and self.conversation.listens

    async def miss(self, seconds: float) -> None:
        """Nothing came for so long: that was silence. Raises `VadError`."""
        await self.conversation.hear(self._intake.gap(seconds * 1000))

    def is_there(self) -> None:
        """Something has come of the device: what was sent to it before has arrived."""
        self._untold = None
        self._voice.is_there()

    async def take(self, message: FromDevice) -> None:
        """A message of the device. Raises `AudioError` for sound that is none, `VadError`, `StorageError`."""
        conversation = self.conversation
        self.is_there()
        if isinstance(message, AudioFrame):
            await conversation.hear(self._intake.push(message.data))
        elif isinstance(message, ListenStart):
            await conversation.listen(message.mode)
        elif isinstance(message, ListenStop):
            await conversation.stop_listening()
        elif isinstance(message, Abort):
            await conversation.abort(message.reason or "abort")
        elif isinstance(message, Played):
            self._voice.acknowledge(message.turn_id, message.ms)
        elif isinstance(message, DeviceEvent):
            if message.kind in INTERRUPTING:
                conversation.interrupt(message.kind)
        elif isinstance(message, Ping):
            self._post(Pong())
        elif isinstance(message, CommandResult):
            self._commands.answered(message)

    # --- as `Controls` ---

    def obeys(self, command: str) -> bool:
        """Whether it is there and knows this command."""
        return self.is_connected and self._hello.capabilities.obeys(command)

    async def command(self, name: str, args: Mapping[str, Any]) -> Any:
        """Have it do something: the value of its result. Raises as `Commands.give`."""
        return await self._commands.give(name, args)

    # --- as `ConversationOut` ---

    async def emit(self, event: TurnEvent) -> None:
        if isinstance(event, SpeechProduced):
            self._voice.sound(event.turn_id, event.chunk)
        elif isinstance(event, SentenceStarted):
            self._voice.sentence(event.turn_id, event.text)
        elif isinstance(event, FaceChosen):
            if _can(self._hello.capabilities.emotions, event.emotion):
                self._show(Face(event.emotion))
        elif isinstance(event, ActionChosen):
            if _can(self._hello.capabilities.actions, event.action):
                self._show(Action(event.action))
        elif isinstance(event, TranscriptReady):
            self._show(Transcript(event.text, final=True))

    async def show(self, state: TurnState) -> None:
        self._post(State(state))

    def show_words(self, text: str) -> None:
        self._post(Transcript(text, final=False))

    async def tell(self, result: TurnResult) -> None:
        answer = TurnAnswer(self._answer_of(result))
        self._shown = []
        if self.is_connected:
            self._untold = answer
            self._post(answer)
        else:
            self.missed = answer

    async def complain(self, error: StackChanError) -> None:
        self._post(DeviceError.of(error))

    async def admit(self) -> None:
        if self._connection is not None:
            await self._connection.still_admitted()

    def playback(self) -> TurnVoice:
        return self._voice.begin()

    def hush(self) -> None:
        self._voice.hush()

    def _show(self, message: Transcript | Face | Action) -> None:
        """Of a turn that runs; a device that comes back in its middle sees it again."""
        self._shown = [*(one for one in self._shown if type(one) is not type(message)), message]
        self._post(message)

    def _post(self, message: Any) -> None:
        if self._connection is not None:
            self._connection.post(message)


def _can(offered: tuple[str, ...] | None, wanted: str) -> bool:
    return offered is None or wanted in offered


class LiveDevices:
    """The devices that are connected, or were until a moment ago; one of each name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._devices: dict[str, LiveDevice] = {}
        self._entering: dict[str, int] = {}
        """How many connections of a device are being greeted, or wait for it."""
        self._doors: dict[str, asyncio.Lock] = {}
        self._awaited: dict[str, asyncio.Task[None]] = {}
        """Of devices that are away: waits for them to come back."""
        self._closed = False
        self.on_connected: Callable[[str], None] = lambda device_id: None
        """Told of every device that has come, by its name."""

    def connected_device(self, device_id: str) -> LiveDevice | None:
        """A device that is there now."""
        device = self._devices.get(device_id)
        return device if device is not None and device.is_connected else None

    def announcing_of(self, device_id: str) -> Announcing | None:
        """What a device says unasked; None: it is not connected."""
        device = self.connected_device(device_id)
        return None if device is None else device.conversation.announcing

    @property
    def connected(self) -> int:
        return sum(device.is_connected for device in self._devices.values())

    def is_full(self, device_id: str) -> bool:
        """Whether there is no place for one more device."""
        names = self._devices.keys() | self._entering.keys()
        return device_id not in names and len(names) >= self._most

    async def connect(self, hello: DeviceHello, connection: Connection, make: Callable[[], LiveDevice]) -> LiveDevice:
        """Greet a device: the one that was there, if its turn goes on, else a new one.

        Raises `OverloadError`, `AuthError`, `StorageError`, and that the server is `stopping`.
        """
        name = hello.device_id
        if self._closed:
            raise stopping()
        if self.is_full(name):
            raise OverloadError("There is no place for another device.", retry_after_seconds=30)
        self._entering[name] = self._entering.get(name, 0) + 1
        try:
            # One after another: of two that come at once, the second replaces the first.
            async with self._doors.setdefault(name, asyncio.Lock()):
                return await self._greet(hello, connection, make)
        finally:
            self._entering[name] -= 1
            if not self._entering[name]:
                del self._entering[name], self._doors[name]

    async def _greet(self, hello: DeviceHello, connection: Connection, make: Callable[[], LiveDevice]) -> LiveDevice:
        known = self._devices.get(hello.device_id)
        if known is not None:
            await known.replace(CloseCode.REPLACED)
            if known.may_resume(hello):
                return self._enter(known, connection)
            # Its place is given back before the new one asks for it.
            self._devices.pop(hello.device_id, None)
            await known.end("replaced")
        device = make()
        await device.begin()
        if self._closed:
            raise stopping()
        self._devices[hello.device_id] = device
        return self._enter(device, connection)

    def _enter(self, device: LiveDevice, connection: Connection) -> LiveDevice:
        self._stop_awaiting(device.device_id)
        device.attach(connection)
        self.on_connected(device.device_id)
        return device

    async def disconnect(self, device: LiveDevice, connection: Connection) -> None:
        """A connection has ended; the device is kept as long as its turn runs."""
        await device.detach(connection)
        if device.is_connected or self._devices.get(device.device_id) is not device:
            return
        if (device.conversation.in_turn or device.missed is not None) and not self._closed:
            self._stop_awaiting(device.device_id)
            task = asyncio.create_task(self._forget_later(device), name=f"away-{device.device_id}")
            self._awaited[device.device_id] = task
        else:
            del self._devices[device.device_id]

    async def _forget_later(self, device: LiveDevice) -> None:
        await device.conversation.settled()
        if device.missed is not None:
            await asyncio.sleep(device.may_return_seconds)
        if not device.is_connected and self._devices.get(device.device_id) is device:
            del self._devices[device.device_id]
        self._awaited.pop(device.device_id, None)

    def _stop_awaiting(self, device_id: str) -> None:
        if (task := self._awaited.pop(device_id, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Hang up on everybody; nobody comes in any more."""
        self._closed = True
        for device_id in tuple(self._awaited):
            self._stop_awaiting(device_id)
        await asyncio.gather(*(self._part(device) for device in list(self._devices.values())))

    async def _part(self, device: LiveDevice) -> None:
        await device.end("stopping")  # while it is there: it is told to be silent, and what became of its turn
        await device.replace(CloseCode.GOING_AWAY)
