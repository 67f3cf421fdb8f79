"""Words by which what is said is no fact: supposed, wished, believed once, heard from others, in jest, or denied.

Data only; `content.py` reads it. Too many of them only keep a correction from being carried out.
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
    r"|^(?:へ[えぇー]+|ほ[うおー]+|わ[あー]+|ふ[うー]*ん)(?=[、。,!\s])|なんちゃって|冗談|うそ|嘘|たとえ"
    r"|\bif\b|\bwish(?:ed|es)?\b|\bwould(?:n't)?\b|\bcould(?:n't)?\b|\bmight\b|\bthought\b"
    r"|(?<!\bi )\b(?:said|told)\b|\bsays?\b|\bclaim(?:s|ed)?\b|\bsuppos(?:e|ed|ing)\b|\bimagine\b|\bexpect(?:s|ed)?\b"
    r"|\bhop(?:e|ed|ing)\b|\bmaybe\b|\bperhaps\b|\bguess(?:ed)?\b|\bheard\b|\bapparently\b|\byeah,? (?:right|sure)\b"
    r"|\bas if\b|\bkidding\b|\bjok(?:e|ing)\b|\bwow\b|\bisn't it\b|\bright\s*$",
    re.IGNORECASE,
)
"""Supposed, wished, believed once, heard from others, or said in jest."""
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
