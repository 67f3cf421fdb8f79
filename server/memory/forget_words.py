"""Whether somebody asks to have something forgotten: without that nothing is, whatever a model was talked into.

On the side of yes; words that only speak of forgetting are no request. Pure; decides nothing else.
"""

from __future__ import annotations

import re
import unicodedata

_FORGET_WORDS = re.compile(
    "忘れ|わすれ|忘却|消し|消す|消去|削除|取り消|抹消|覚え(ない|なく|ておか)|(な|無)かったことに|記憶から"
    "|forget|delete|erase|remove|wipe|get rid of|not remember|n['’]t remember|stop remembering"
)
# Having forgotten, not remembering, and wanting something kept.
_ONLY_TALK = re.compile(
    r"(?:忘|わす)れ(?:た|て(?:た|る|い[たるま]|しま[いうっ])|ちゃ(?!って(?:いい|[ねよ]|くれ|ください|下さい|ほし|もら))"
    r"|な[いかく]|ん|物|もの|そう|やす|っぽ|がた|られ|ま(?:し[たて]|せ|す)|る(?!よう))"
    r"|消し(?:ゴム|た|まし|忘れ|ちゃった)|削除し(?:た|まし|ちゃった)|覚えなく(?:ちゃ|っちゃ|ては)"
    r"|(?:\b(?:not|never|cannot)|n't) (?:ever )?forget|\b(?:i|we|he|she|they) (?:\w+ )?forget\b|\b(?:did|do) you forget"
    r"|forg(?:ot|ets|etful)\w*"
    r"|\b(?:i|we|he|she|they|you) (?:\w+ )?(?:(?:do|did|could|can) ?not|(?:do|did|could|ca)n't) remember"
    r"|(?:do|did)n't you remember"
)


def asks_to_forget(words: str) -> bool:
    """Whether words of a user can be a request to forget."""
    text = unicodedata.normalize("NFKC", words).casefold().replace("’", "'")
    return _FORGET_WORDS.search(_ONLY_TALK.sub(" ", text)) is not None
