"""What somebody wants of the robot right now: to be told something, or to have something done.

That is no event of their life, and answering is what it asks for. Pure, by the look of the words, Japanese and English.
Whether an utterance tells something is the matter of `telling.py`, whether a sentence asks, that of `questions.py`.
"""

from __future__ import annotations

import re

from server.memory.questions import asks, sentences, without_its_question
from server.storage.words import plain

_TELL_ME = re.compile(
    r"(?:教えて|言ってみて)[^。、]{0,6}$|思い出せな"
    r"|^(?:please\s+|now\s+|okay,?\s+|and\s+|(?:can|could|will|would)\s+you\s+(?:please\s+)?)*"
    r"(?:tell\s+(?:me|us)\s+(?!a\b|an\b|some\b|something\b|another\b|more\b)"
    r"|remind\s+(?:me|us)\s+(?!to\b|in\b|at\b|that\b))"
    r"|\bi\s+(?:forgot|forget|can't\s+(?:remember|recall|think\s+of))\s+(?:what|when|where|who|whose|which|how|if)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"(?:[いきしちにみりえけせてねべめれげびぎじ]|[見出来寝着得])たい(?:な[あぁー]?|んだ?|のだ?|です|よ|けど|が)*[。!、\s]*$"
    r"|^(?:(?:so|and|well|now|oh|hey),?\s+)*i(?:\s+(?:really|just))?(?:\s+(?:want|need"
    r"|have(?=\s+to\s+(?:call|phone|ring|text|e?mail|message|write|contact|find|check|look|know|go|get)\b))|'d\s+(?:like|love)|\s+would\s+like)"
    r"\s+to\s",
    re.IGNORECASE,
)
_LEADS_UP = re.compile(r"たい(?:ん|の)(?:だ|です)?(?:けど|が)[、。!\s]*$")
"""It goes on with what the robot is to do about it, whether that is said or not."""
_OF_A_LIFE = re.compile(
    r"(?:離婚|結婚|再婚|婚約|転職|退職|引退|就職|独立|起業|留学|進学|入学|卒業|退学|移住|引っ越し?|引越し?|手術|出産|入院|退院|養子)(?:が|を)?(?:し|受け)?たい"
    r"|(?:辞め|やめ|別れ|死に|痩せ|やせ|産み|生み|治し|飼い|建て)たい"
)
"""A wish that nobody wants a robot for."""
_OF_THE_ROBOT = re.compile(
    r"(?:聞き|聴き|知り|きき)たい(?!こと)|教えてほし"
    r"|\bi(?:\s+(?:want|need)|'d\s+(?:like|love)|\s+would\s+like)\s+to\s+(?:know|hear|listen)\b"
    r"|\bi(?:\s+(?:want|need)|'d\s+(?:like|love)|\s+would\s+like)\s+you\s+to\b(?!\s+(?:know|understand|remember)\s+(?!how|what|when|where|who|why|if))",
    re.IGNORECASE,
)
_OF_THEIR_LIFE = re.compile(
    r"(?<![ァ-ヺー])ボク(?![ァ-ヺー])|ぼく|僕|わたし|私(?![立鉄服道])|俺|(?<!た)おれ(?=[はがのもに、])|(?<![そこ]の)うち[のは]|自分"
    r"|覚えて|前に(?:言|話)|(?:言|話)したよね"
    r"|\b(?:my|mine|our|ours|remember)\b|\b(?:did|do|am|was|were|have|had|must|can't)\s+(?:i|we)\b",
    re.IGNORECASE,
)
_OF_ANYBODY = re.compile(
    r"\b(?:how|why|how\s+(?:long|hot|high))\s+(?:do|must|can't)\s+(?:i|we)\b"
    r"|\bwhy\s+am\s+i\s+(?:so|always|still)\b|\b(?:how|what)\s+am\s+i\s+supposed\b"
    r"|\bwhat\s+(?:do|must)\s+(?:i|we)\s+(?:call|say|do\s+(?:if|when|with|about|against))\b"
    r"|\bwhere\s+do\s+(?:i|we)\s+(?:buy|get|find|put|report)\b"
    r"|(?<!when )(?<!time )(?<!where )\bdo\s+(?:i|we)\s+need\b|^(?:so\s+)?do\s+(?:i|we)\s+have\s+to\b",
    re.IGNORECASE,
)
"""What is asked of the world in the first person: how do I boil an egg. Not how did I, and not of what is mine."""


def is_of_their_life(question: str) -> bool:
    """Whether a question is about who asks it, or what they have said: nobody but memory can know."""
    return bool(_OF_THEIR_LIFE.search(_OF_ANYBODY.sub(" ", plain(question).strip())))


def wants_to_know(text: str) -> bool:
    """Whether something in `text` is asked, or is to be told: not a story, and no reminder."""
    return any(
        asks(one) or without_its_question(one) != one or _TELL_ME.search(plain(one).strip()) for one in sentences(text)
    )


def only_leads_up(sentence: str, rest: str) -> bool:
    """Whether a sentence is a request to be told something, or a wish that only says what the robot is wanted for.

    `rest`: what else is said in the same breath. "I want to call Sarah. What's her number?" tells nothing of the user's
    life; 「来年はパリに行きたいんだ」 alone does.
    """
    told = without_its_question(sentence)
    words = plain(told).strip()
    leads_up = _LEADS_UP.search(words) and not _OF_A_LIFE.search(words)
    if _OF_THE_ROBOT.search(words) or leads_up or _TELL_ME.search(words):
        return True
    return bool(_WISH.search(words)) and (told != sentence or wants_to_know(rest))
