"""An answer on its way out: what the model writes moves the face and the body, and becomes pieces for the voice.

Knows how an answer is written and where its parts go; not which model writes it, nor who speaks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from server.events import ActionChosen, FaceChosen
from server.persona import Persona
from server.pipeline.answer import ActionRead, Answer, AnswerPart, AnswerReader, EmotionRead, ReplyRead
from server.pipeline.device_link import DeviceLink
from server.pipeline.filler import Filler
from server.pipeline.sentences import SentenceCutter, whole_sentences
from server.pipeline.speaking import Pieces
from server.pipeline.trace import TurnTrace

# About four minutes of speech. A longer reply ends with the last sentence before.
MAX_REPLY_CHARACTERS = 2000
# With everything around the reply. What a model writes beyond it is not read.
_MAX_WRITTEN_CHARACTERS = 16_000


class AnswerOut:
    """One turn's answer. `shown` and `spoken` tell what is out; only words cannot be taken back."""

    def __init__(
        self,
        persona: Persona,
        tools: Sequence[str],
        turn_id: int,
        device: DeviceLink,
        trace: TurnTrace,
        pieces: Pieces,
        filler: Filler,
    ) -> None:
        self.shown = False
        """A face, a movement or words are out."""
        self.spoken = False
        """A piece was given to the voice."""
        self._cut = False
        self._emotions = frozenset(entry.id for entry in persona.emotions)
        self._actions = frozenset(entry.id for entry in persona.actions)
        self._tools = tuple(tools)
        self._turn_id = turn_id
        self._device = device
        self._trace = trace
        self._pieces = pieces
        self._filler = filler
        self._finished: Answer | None = None
        self.begin_again()

    @property
    def full(self) -> bool:
        """The answer is as long as it may be: what the model writes more is not read."""
        return self._cut or self._written >= _MAX_WRITTEN_CHARACTERS

    @property
    def whole(self) -> bool:
        """Words are there and the model has closed its answer: what may still come adds nothing."""
        return self._reader.whole

    @property
    def movement(self) -> Answer:
        """Face and movement as far as they are known, without words."""
        return Answer(reply="", emotion=self._emotion, action=self._action)

    def begin_again(self) -> None:
        """Forget what was read: the model writes from the start. Only while nothing is spoken."""
        self._reader = AnswerReader(self._emotions, self._actions, self._tools)
        self._cutter = SentenceCutter()
        self._emotion, self._action = "neutral", "none"
        self._written = 0
        self._said: list[str] = []

    async def feed(self, text: str) -> None:
        """Take what the model wrote next."""
        room = _MAX_WRITTEN_CHARACTERS - self._written
        self._written += len(text)
        if room > 0 and not self._cut and self._finished is None:
            await self._take(self._reader.feed(text[:room]))

    async def break_off(self) -> bool:
        """The model has failed for good: give the voice the clauses that are whole, and no fragment.

        Of plain words, which are read only at their end, the sentences that are whole. False: there is nothing to say.
        """
        for piece in self._cutter.end():
            await self._say(piece)
        if self.spoken or self.whole:
            return True
        answer, parts = self._reader.finish()
        sentences = "" if answer.was_json else whole_sentences(answer.reply)
        if sentences:
            await self._take([part for part in parts if not isinstance(part, ReplyRead)])
            for piece in (*self._cutter.feed(sentences), *self._cutter.finish()):
                await self._say(piece)
            self._finished = replace(answer, reply=_through(answer.reply, self._said))
        return bool(sentences)

    async def finish(self) -> Answer:
        """The answer, with its last piece on its way to the voice; nothing is on its way when `reply` is empty."""
        if self._finished is not None:
            return self._finished
        answer, parts = self._reader.finish()
        if not answer.reply:
            return answer
        await self._take(parts)
        for piece in self._cutter.finish():
            await self._say(piece)
        if self._cut:
            answer = replace(answer, reply=_through(answer.reply, self._said))
        self._finished = answer
        return answer

    async def _take(self, parts: Sequence[AnswerPart]) -> None:
        for part in parts:
            if isinstance(part, EmotionRead):
                self.shown = True
                self._emotion = part.emotion
                self._trace.mark("emotion")
                await self._filler.face_comes()
                await self._device.emit(FaceChosen(self._turn_id, part.emotion))
            elif isinstance(part, ActionRead):
                self.shown = True
                self._action = part.action
                await self._device.emit(ActionChosen(self._turn_id, part.action))
            else:
                assert isinstance(part, ReplyRead)
                for piece in self._cutter.feed(part.text):
                    await self._say(piece)

    async def _say(self, piece: str) -> None:
        # One more for the space between two pieces.
        if self._cut or sum(len(said) + 1 for said in self._said) + len(piece) > MAX_REPLY_CHARACTERS:
            self._cut = True
            return
        self._trace.mark("first_clause")
        self.shown = self.spoken = True
        self._said.append(piece)
        await self._filler.words_come()
        await self._pieces.put((piece, self._emotion))


def _through(reply: str, pieces: Sequence[str]) -> str:
    """`reply` up to the end of the last of `pieces`, which were cut from it in this order."""
    end = 0
    for piece in pieces:
        end = max(end, reply.find(piece, end) + len(piece))
    return reply[:end]
