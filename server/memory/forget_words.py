"""Whether somebody asks to have something forgotten: without that nothing is, whatever a model was talked into.

Requests are known by their form, since what is forgotten is gone: 忘れて as a request and not 忘れてはいけない,
忘れずに or 物忘れ; "forget it" as one says it to somebody and not "don't forget". 消して and "delete" ask only for
what can be remembered: 電気を消して is for the lamp. Pure; decides nothing else.
"""

from __future__ import annotations

import re

from server.storage.words import hiragana, plain

_END = r"(?:[。．.!?…~〜ー]|[よねなさ]*[。．.!?…~〜ー]*(?:\s|$))"
_PLEASE = (
    r"(?:く(?:れ|ださ)|下さ|ほしい|欲しい|もら(?:え|いた|おう|って(?:も)?(?:いい|大丈夫))|いただ|頂|ちょうだい|ちょーだい|いい(?:よ|から|です|[。.!?]|$)|ね|よ|な$"
    r"|(?:も(?:いい|よい|良い|ええ)|も?(?:大丈夫|だいじょうぶ|かまわない|構わない|結構))(?!よう|わけ|の(?:か|は|に)|かな|かも)"
    r"|、\s*(?:お願い|おねがい|頼|ね|もう|さっき|その|この|あの|それ|今|いま|昨日|前の)|\s*お願い|お願い"
)
_REQUEST = f"{_PLEASE}|{_END})"
# Leaving something behind, and lapses: 置き忘れ, 言い忘れ, 度忘れ, 物忘れ.
_FORGET = r"(?:(?<![きしいみりめけえ度物ど])|(?<=やはり)|(?<=っぱり))(?:忘|わす)れ"
_JAPANESE = re.compile(
    rf"{_FORGET}て(?:しまって|おいて|やって|あげて)?{_REQUEST}"
    rf"|{_FORGET}(?:といて|ちゃって|ちまって){_REQUEST}"
    rf"|{_FORGET}(?:ろ(?!と言)|とけ|なさい|よう(?!と|がな|もな|かな)|ましょう|るように(?!な)|ることにし(?:て(?!る|い|た|き)|よう)|てしまえ(?!ば|る)|ちゃおう)"
    r"|(?:覚え(?:て?い?|てお?か?|とか)|(?:記憶|記録|保存)し(?:てお?か?|とか)?)なくて(?:も)?(?:いい|よい|良い|大丈夫|結構|かまわ)(?!の[かは]|かな)"
    r"|覚え(?:ておかなくて|ないで(?!い))|(?:記憶|記録)しないで(?!い)"
    r"|(?:な|無)かったことにし(?:て|よう)"
    r"|なしにして|記憶から(?:消|削|なく|無く)"
)
_REMEMBERED = re.compile(
    r"記憶|記録|メモ|めも|話|こと|事は|情報|データ|でーた|履歴|内容|それ|これ|あれ|番号|住所|思い出|覚え|やつ|件"
)
_ERASE = re.compile(
    rf"(?:消し|消去し|削除し|抹消し)(?:て|といて)(?:しまって|おいて)?{_REQUEST}|(?:消|削除し|消去し)せ?{_END}"
    # メモを消しちゃって is how one tells of a mishap.
    rf"|は(?:もう|全部)?(?:消し|消去し|削除し)ちゃって{_REQUEST}|(?:消し|消去し|削除し)ちゃって(?:く(?:れ|ださ)|いい)"
)
# How an order begins; "I'll forget" and "don't forget" are none.
_ASKED = (
    "please|just|now|then|and|so|ok|okay|hey|stackchan|you can|you may|you should|want you to|need you to|like you to"
    "|can you|could you|would you|will you|let's"
)
_TOLD = rf"(?:^|[.!?;:,]\s*|\b(?:{_ASKED}) )"
_THINGS = "it|that|this|them|those|everything|all|what|my|the (?:memory|record|note|number|address|part)"
_ENGLISH = re.compile(
    rf"{_TOLD}forget\b(?! me not|-me|ful| to | how )"
    rf"|{_TOLD}(?:delete|erase) (?:{_THINGS})\b"
    rf"|{_TOLD}(?:remove|wipe|clear|get rid of)\b.*\b(?:memory|memories|what i (?:said|told))"
    rf"|{_TOLD}(?:do not|don't|stop) remember(?:ing)?\b"
    rf"|{_TOLD}pretend (?:that )?(?:i|you) (?:never|didn't|did not) (?:said|say|told|tell|heard|hear|mention)"
    r"|\b(?:would|do) you mind forgetting\b|\byou (?:don't|do not|needn't) (?:need to |have to )?remember (?!when|how)"
    rf"|{_TOLD}(?:there's |there is )?no need to remember\b"
    rf"|{_TOLD}(?:do not|don't) (?:store|save|record|keep) (?:that|this|what i|any of (?:that|this|it))\b"
    rf"|{_TOLD}get (?:that|this|it) out of your (?:memory|head|mind)|{_TOLD}clear what you (?:know|remember|have)"
)


def asks_to_forget(words: str) -> bool:
    """Whether words of a user are a request to forget something that they said."""
    text = " ".join(plain(words).split())
    # What an ear wrote in katakana is the same request.
    for form in (text, hiragana(text)):
        if _JAPANESE.search(form) or (_ERASE.search(form) and _REMEMBERED.search(form)) or _ENGLISH.search(form):
            return True
    return False
