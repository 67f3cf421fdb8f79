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
GOVERNS = re.compile(
    r"[「」『』“”\"]|(?:^|\s)[‘'](?=\w)|もし(?!もし)|仮に|たとえ|(?:っ|だ|か)たら|なら(?!な|び|べ)|れば"
    r"|と(?:か)?(?:言|いう|いっ|聞|きい|思|考え|信じ|疑)|って(?:言|いう|いっ|聞|きい|思|おも|話)|らしい|(?:る|た|だ|い)そう(?:だ|で)"
    r"|みたい|だろう|でしょう|かも|はず|つもり|嘘|うそ|冗談|なんて[ねな]|なんちゃって|わけ(?:じゃ|では)|とは限ら|ふりを|夢[のにで]"
    r"|(?:ドラマ|映画|小説|漫画|マンガ|アニメ|ゲーム|芝居|劇|物語|本)(?:の(?:話|中|設定)|では|だと)|作り話"
    r"|\b(?:says?|said|saying|tells?|told|asks?|asked|thinks?|thought|believes?|believed|heard|hears?|reads? that"
    r"|claims?|claimed|suppos(?:e|ed|ing)|supposedly|imagin(?:e|ed|ing)|pretend(?:s|ed|ing)?|dream(?:s|ed|t)?"
    r"|wish(?:es|ed)?|hop(?:e|es|ed|ing)|doubts?|doubted|den(?:y|ies|ied)|if|unless|whether|would|could|might"
    r"|maybe|perhaps|probably|apparently|according to|seems?|guess|not true|isn't true|untrue|false|lie|lying"
    r"|neither|nor|kidding|joking|afraid|worr(?:y|ied)|learned that|promised?"
    r"|in (?:the|a|my) (?:film|movie|book|story|game|novel|show|play|series|dream))\b",
    re.IGNORECASE,
)
"""Reports, supposes, doubts or denies what stands beside it, or quotes: cut off from it, that says something else."""
FICTION = re.compile(
    r"(?:^|[。、!])(?:全部|ぜんぶ|これは|今のは)?(?:嘘|うそ|冗談)(?:(?:だった|です|なんだ|だ)(?:けど|が|ね|よ)*)?(?:[、。!]|$)"
    r"|なんて(?:ね[えー]?|な)[。!]*$|なんちゃって"
    r"|(?:ドラマ|映画|小説|漫画|マンガ|アニメ|ゲーム|芝居|劇|物語|夢)の(?:話|中|設定)(?:だけど|なんだけど|で(?:は|すが)?|だと|、)|作り話だけど"
    r"|もし(?:も)?、?(?:私|わたし|あたし|僕|ぼく|俺|おれ|自分)が[^。]*(?:なら|だったら|だとしたら)"
    r"|^(?:(?:so|and|now|just|okay|well),?\s+)*(?:imagine|suppose|pretend|let's (?:say|pretend|imagine|suppose))\b"
    r"|\bif (?:i|we) (?:were|was|had been)\b|\b(?:just|only) (?:kidding|joking)\b|\b(?:i'm|i was) (?:kidding|joking)\b"
    r"|^in (?:the|a|my|this) (?:film|movie|book|story|game|novel|show|play|series|dream)\b",
    re.IGNORECASE,
)
"""It is a game, a story or a joke, and nothing of it is so."""
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
