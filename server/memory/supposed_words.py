"""Words by which what is said is no fact: supposed, wished, believed once, heard from others, in jest, or denied.

And by which it was once, or is only aimed at. Data only; `content.py` reads it. Too many of them only keep a correction
from being carried out.
"""

from __future__ import annotations

import re

SUPPOSED = re.compile(
    r"もし(?!もし)|(?:だっ|かっ|[しいえれっ])たら(?!い)|なら(?!ない|なかっ|な[いけく]|び|べ|ん|っ)|ければ|(?:だっ|あ)れば"
    r"|のに(?=[。!、ねなさ]|$)|(?:よかっ|良かっ)た|いいな|いいの[にな]|ほしい|欲しい"
    r"|と(?:ばかり)?思[わいうえっ]\w{0,4}|(?:かと|と)(?:ばかり)?おもっ\w{0,3}|思い込\w{1,4}"
    r"|はず|(?<!何)かも|だろ|でしょ|わけ(?:が|は)?ない|まさか"
    r"|(?:だ|た)?って(?:言|いう|いっ|聞|きい|さ(?=[。!]|$))\w{0,6}|(?:だ|た)って(?=[。!さ]|$)"
    r"|と(?:言|いう|いっ|聞|きい)\w{0,6}|だそう|とのこと|らしい|みたい|な[あぁー]+(?=[。!]|$)|気がする|つもり|よね(?=[。!]|$)"
    r"|^(?:へ[えぇー]+|ほ[うおー]+|わ[あー]+|ふ[うー]*ん)(?=[、。,!\s])|なんちゃって|なんて(?:ね[えー]?|な)(?=[。!]|$)|冗談|うそ|嘘|たとえ"
    r"|\bif\b|\bwish(?:ed|es)?\b|\bwould(?:n't)?\b|\bcould(?:n't)?\b|\bmight\b|\bthought\b"
    r"|(?<!\bi )\b(?:said|told)\b|\bsays?\b|\bclaim(?:s|ed)?\b|\bsuppos(?:e|ed|ing)\b|\bimagine\b|\bexpect(?:s|ed)?\b"
    r"|\bhop(?:e|ed|ing)\b|\bmaybe\b|\bperhaps\b|\bguess(?:ed)?\b|\bheard\b|\bapparently\b|\byeah,? (?:right|sure)\b"
    r"|\bas if\b|\bkidding\b|\bjok(?:e|ing)\b|\bwow\b|\bisn't it\b|\bright\s*$",
    re.IGNORECASE,
)
"""Supposed, wished, believed once, heard from others, or said in jest."""
AIMED_AT = re.compile(
    r"(?<![冷眠重固硬])たい(?!へん|てい|せつ|おん|りょく)|が(?:いい|良い|よい)|でいい|目標|理想|希望|予算"
    r"|\b(?:wants?|wanted|wanna|would like|'d like|aim(?:s|ing)?|goal|target|ideal(?:ly)?|budget|dream(?:s|ed)?)\b",
    re.IGNORECASE,
)
"""A wish in words that also answer a question: 五時がいい."""
LOOKS_FOR_ASSENT = re.compile(r"(?:ん|の)?(?:だ|です)?よね[え]?[。!]*$|,?\s*right[.!]*$", re.IGNORECASE)
"""Of something that is so, for all that anybody knows."""
PAST = re.compile(
    r"(?:前|以前|昔|かつて|当時|元々?|もと|もともと|最初|はじめ|初め|頃|ころ)[はのも](?!う)|以前|昔|かつて|当時|時代|(?:の|い)(?:頃|ころ)"
    r"|(?:年|か月|ヶ月|ヵ月|カ月|週間)(?:ほど|くらい|ぐらい)?前|去年|昨年|一昨年|おととし|先月|先週まで|今まで|これまで|結婚する前"
    r"|\bused to\b|\bback then\b|\bat (?:the|that) time\b|\bin those days\b|\b(?:formerly|previously|originally|once)\b"
    r"|\b(?:years?|months?|weeks?) ago\b|\blast (?:year|month)\b|\bwhen (?:i|we|he|she|they) (?:was|were|had|lived)\b"
    r"|\bas a (?:child|kid|student)\b|\bbefore (?:i|we|that|then)\b|\bdays gone\b|\bin the past\b|\bin the \d\ds\b",
    re.IGNORECASE,
)
"""What it says was so then; what is so now is another matter."""
NOT_THAT = re.compile(
    r"(?:そう|それ)(?:じゃ|では)な(?:い(?:よ|って|んだ|です)?|くて)|\bthat's not (?:right|it|true)\b"
    r"|\bnot (?:quite|really|at all)\b"
)
"""Denies what was said before, not what it gives itself."""
DENIES = re.compile(
    r"(?:じゃ|では|で)(?:は)?(?:ない|なかった|なくて|ねえ|ありません)"
    r"|(?:は|って|も)?(?:違う|ちがう|(?<!間)違い|(?<!の)間違い)(?:よ|って|ます|だ|です)*[。!]*$"
    r"|\b(?:not|never|isn't|wasn't|aren't|weren't|don't|didn't)\b"
)
