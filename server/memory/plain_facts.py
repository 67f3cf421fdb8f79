"""Whether a short English sentence tells what somebody is, has, does or likes: I'm vegetarian; I have asthma; we moved.

One word of it says it all, so counting words does not tell it from chatter. What passes within a day (I'm tired, I have
a question) is none. Pure, by the look of the words.
"""

from __future__ import annotations

import re

_PASSING = (
    "tired hungry thirsty fine ok okay good happy glad sad bored sleepy cold hot warm busy ready late early home"
    " back sorry sure here there done full awake lost bad great well right wrong excited scared afraid confused"
    " worried angry mad lonely ill sick stuffed exhausted starving freezing stuck serious alone curious nervous"
    " grateful proud thankful jealous shocked surprised impressed lucky upset annoyed stressed relieved"
    " disappointed pleased free available impatient drunk wet dirty dizzy hurt funny cute lovely silly crazy"
    " amazed embarrassed ashamed convinced certain aware able unable welcome next first last up off out in on"
    " under over that this it so such too very really just all quite pretty bit little fool idiot joke mess genius"
    " star angel fan yours him her them you me human person question idea minute moment second problem headache"
    " fun time point feeling hunch plan plans work no nothing something doubt doubts none one thought cold hurry"
    " way"
)
_WORDS = frozenset(_PASSING.split())
_LASTING_PARTICIPLES = frozenset(("retired", "married", "divorced", "engaged", "widowed", "adopted", "gifted", "blind"))
_HOW = r"(?:not|also|actually|now|still|always|only|both|a|an|the|really)"
_IS = re.compile(
    rf"^(?:(?:i'm|i am|we're|we are)\s+(?:{_HOW}\s+)*|(?:he's|he is|she's|she is)\s+(?:{_HOW}\s+)*an?\s+)"
    r"(?:(?:from|allergic\s+to)\s+)?(?P<word>[a-z][a-z'-]+)[.!]*$"
)
_HAS = re.compile(
    rf"^(?:i|we|he|she)(?:\s+(?:{_HOW}|don't))*(?:'ve\s+got|\s+have\s+got|'s\s+got|\s+has|\s+have)\s+"
    r"(?:(?:a|an|no|some|two)\s+)?"
    r"(?P<word>[a-z][a-z'-]+)[.!]*$"
)
_DOES = re.compile(
    r"^(?:i|we|he|she|they)(?:'ve)?(?:\s+(?:have|has|just|finally|got|recently|don't|doesn't|do|not|can|can't|never"
    r"|always|both))*\s+(?:moved|married|retired|graduated|divorced|died|quit|resigned|separated|engaged|promoted|fired|laid\s+off"
    r"|emigrated|broke\s+up|passed|failed|smokes?|drinks?|drives?|swim|cycles?|ski|knits?|paints?"
    r"|snores?|commutes?|jogs?|gardens?)[.!]*$"
)
_CALLED = re.compile(
    r"^(?:please\s+)?(?:just\s+)?call me (?!back\b|later\b|a\b|when\b|now\b|if\b|an\b|again\b)[a-z'-]+[.!]*$"
)
_LIKES = re.compile(
    r"\b(?:love|hate|can't\s+stand|favou?rite|prefer|dislike|(?<!'d )(?<!would )like|enjoy|can't\s+bear|not\s+a\s+fan"
    r"\s+of|fond\s+of)s?\s+(?:(?:the|a|an|my|to|most|all|any|eating|drinking)\s+)*(?P<word>[a-z][a-z'-]+)\b"
)
_LIKED = (
    "it that this them you him her me us one what when how to be talking so everything there here idea sound sounds"
)
_NOTHING_LIKED = frozenset(_LIKED.split())


def is_plain_fact(plain: str) -> bool:
    """Whether a sentence, as `words.plain` makes it, tells such a fact."""
    if _DOES.search(plain) or _CALLED.search(plain):
        return True
    if match := _IS.search(plain):
        word = match["word"]
        passes = word in _WORDS or (word.endswith("ing") or (word.endswith("ed") and "-" not in word))
        return not passes or word in _LASTING_PARTICIPLES
    if match := _HAS.search(plain):
        return match["word"] not in _WORDS
    liked = _LIKES.search(plain) if re.match(r"(?:i|we|he|she|they|my\s+\w+)\b", plain) else None
    return liked is not None and liked["word"] not in _NOTHING_LIKED
