"""Whether somebody asks to have something forgotten: without that nothing is, whatever a model was talked into.

Requests are known by their form, since what is forgotten is gone: 忘れて as a request and not 忘れてはいけない,
忘れずに or 物忘れ; "forget it" as one says it to somebody and not "don't forget". 消して and "delete" ask only for
what can be remembered: 電気を消して is for the lamp. What is told in one breath with a request is told apart from it
(`parted`). Pure; decides nothing else.
"""

from __future__ import annotations

import datetime as dt
import re

from server.memory.content import content_words
from server.memory.english_words import VERBS
from server.storage.words import hiragana, plain, straight

_ANY_DAY = dt.date(2000, 1, 3)
_END = r"(?:[。．.!?…~〜ー]|[よねなさ]*[。．.!?…~〜ー]*(?:\s|$))"
_PLEASE = (
    r"(?:く(?:れ(?!る?な(?:よ|[。.!]|$)|な(?:くて|かった)|た(?!ら))|ださ)|下さ|ほしい|欲しい|もら(?:え|いた(?!くな)|おう|って(?:も)?(?:いい|大丈夫))|いただ|頂|ちょうだい|ちょーだい|いい(?:よ|から|です|[。.!?]|$)|な$"
    # 忘れてよかった, 忘れてよく寝た tell.
    r"|[ねよ]+(?=[。．.!?…~〜ー、\s]|$|お願い|おねがい|頼|もう|さっき|その|この|あの|それ|今|いま|絶対|本当)"
    r"|(?:も(?:いい|よい|良い|ええ)|も?(?:大丈夫|だいじょうぶ|かまわない|構わない|結構))(?!よう|わけ|の(?:か|は|に)|かな|かも)"
    r"|、\s*(?:お願い|おねがい|頼|ね|もう|さっき|その|この|あの|それ|今|いま|昨日|前の|新しい|しばらく)|\s*お願い|お願い"
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
    "|can you|could you|would you|will you|let's|i said|i just said"
)
_TOLD = (
    rf"(?:^|[.!?;,]\s*|\b(?:i (?:just )?(?:said|told you)|listen|stackchan|one (?:more |last )?thing|ok(?:ay)?|please"
    rf"|sorry|hey):\s*|\b(?:{_ASKED}) |^(?:keep|remember) [^.!?]*\bbut )"
)
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

# What somebody else has said or says is no request: my wife said: forget it. "I said forget it" is one.
_SAID = "said|says|say|told|tells|tell|asked|asks|wrote|writes|texted|yelled|shouted|goes|went"
_QUOTED = re.compile(
    rf"(?<!\bi )(?<!\bi just )(?<!\bwe )\b(?:{_SAID})\b(?! you)[^.!?;:,\"“]{{0,40}}?(?:[:,]\s*)?[\"“'‘]?\s*"
    r"(?:(?:please|just|now|to|that|ok|okay|you can|you should) ,?)*\b"
    r"(?:forget|delete|erase|remove|don't remember)\b[^.!?]*"
    r"|\b(?:motto|song|sign|rule|advice|saying)\b[^.!?]{0,20}[:,] ?[\"“'‘]?"
    r"(?:please |just )?(?:forget|delete|erase)\b[^.!?]*"
)
_QUOTED_JAPANESE = re.compile(
    r"(?:^|(?<=[、。.!?]))(?!(?:さっき|もう|前に|今)?(?:私|僕|俺|わたし|ぼく|おれ|あたし))[^、。.!?]{1,12}?(?:が|は|に|から|も|って)[^、。.!?]{0,8}?"
    r"(?:言(?:う|った|ってた|っていた|うには|われた|われて|いました|ってました|って)|いわく|怒って|頼まれて?|伝言|聞いた)"
    r"(?:けど|んだけど|のが|よ|の|ね)?[、。.:「『\"]+\s*[^。.!?」』]*[」』]?"
)
_ASKING_FORM = (
    r"(?:忘|わす)れて(?:しまって|おいて)?(?:ください|下さい|くれ|ほしい|欲しい|も?いい|も?大丈夫)?(?:です)?[よねな]*"
)
_QUOTED_AFTER = re.compile(
    # …というのが彼女の最後の言葉, …って妻に言われた; not さっき…って言ったよね.
    rf"(?:^|(?<=[。.!?]))[^。.!?]*{_ASKING_FORM}[。!]?[」』]?[、,]?\s*(?:って|なんて|とか|という|との"
    r"|と(?=[^、。!?]{0,10}(?:言|いう|いっ|歌|書|頼|伝|叫|思)))"
    r"(?!(?:さっき|もう|何度も|前に)?(?:言っ(?:た|て)(?:る|の|ん|で|じゃ|よ|ね|はず|$)|頼んだ|お願い|ば))[^。.!?]*"
)
_MEMORABLE = (
    r"(?:こと|話|件|やつ|名前|番号|住所|誕生日|情報|記[憶録]|データ|メモ|内容|思い出|約束|パスワード|暗証\S{0,3}"
    r"|それ|これ|あれ)"
)
_MISHAP = re.compile(
    # What one left behind or did not think of, as one tells of it: 宿題を忘れてね, 財布を家に忘れてよ、困った.
    r"(?:^|(?<=[、。.!?]))(?:[^、。.!?]*を[^はを、。.!?]{0,12}(?:忘|わす)れて[ねよなさ]+、(?!お願い)[^、。.!?]*"
    r"(?:た|ない|だ|てる|ている)(?:よ|ね|んだ|の|わ|さ)*(?=[。.!?]|$)"
    r"|[^、。.!?]*(?:を(?!全部|もう)|[るつうくぐすぬぶむ]のを?)[^はを、。.!?]{0,12}"
    r"(?:忘|わす)れて[ねよなさ]+(?=[。.!?、\s]|$)(?![、\s]*お願い)"
    r"|[^、。.!?]*(?:忘|わす)れてね?さ(?=[。.!?、\s]|$)"
    r"|[^、。.!?]*(?:うっかり|つい|(?<!もう)すっかり)(?:忘|わす)れて[ねよなさ]+)"
)
_IS_MEMORABLE = re.compile(rf"{_MEMORABLE}を[^、]*[よねな]$")
"""彼の名前を忘れてね by itself asks; with what came of it, it tells."""
_TAKEN_BACK = re.compile(
    r"[?.!…,]\s*(?:no|nope|no way|please don't|don't"
    r"|(?:just |only )?(?:kidding|joking)|not really|wait,? no)\W*$"
    r"|[、。!?…\s](?:いや|いいえ|ううん)[。!]*$"
    r"|[、。!?…\s](?:やっぱり?(?:いい|なし|やめ)|(?:うそ|嘘|ウソ){2}|なんてね|なんちゃって)[^、。]{0,5}$"
)
_CLAUSE = re.compile(r"[^、,;。.!?]+[、,;。.!?]*")
_ASKING = re.compile(
    r"\?\s*$|(?:かな|っけ|ですか|ますか|かしら|だろう|でしょうか|教えて)[。!]*$|(?:何|いくら|いつ|どこ|誰|どう|なに)(?:だった|なの|だ)?[。!]*$"
    r"|^(?:and |but |so |then )*(?:what|who|where|when|why|how|which)\b"
)
_SOMETHING_ELSE = re.compile(
    r"^(?:and |but |so |then )*(?:let's|buy|tell me|show me|talk about|look at|go |do |just (?:buy|go|do|tell))\b"
    r"|\band talk about\b|(?:しよう|話そう|行こう|買おう|やろう)(?:よ|か|ね)?[。!]*$"
)
_TAG = re.compile(
    r"^(?:ok|okay|right|alright|please|"
    r"(?:can|could|will|would) you(?: please)?|いい|いいかな|いいですか|ね|お願い(?:できる)?|大丈夫)[?。.!、, ]*$"
)


_KEPT = (
    re.compile(
        r"(?<!n't )(?<!not )(?<!\bi )(?<!stop )\b(?:please )?(?:remember|keep)\b"
        r"[^.!?]*?(?:,\s*(?:and |but )?|\band |\bbut )"
        r"(?=(?:please |just )?(?:forget|delete|erase)\b)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?<=[a-z ])(?:, *(?:and |but )?| and | but )(?:please )?"
        r"(?:remember|keep|(?:don't|do not) (?:forget|delete))\b[^.!?]*",
        re.IGNORECASE,
    ),
    re.compile(
        r"[^、。!?]*(?:覚え(?:て(?:おいて|いて|て)?|といて)|残し(?:て(?:おいて)?|といて)|(?:と|取)って(?:おいて|て)"
        r"|そのまま(?:で|に)?(?:して)?|(?:忘れ|消さ)ないで|大事だ|大切だ|必要だ|大事|大切)"
        r"(?:ほしい|欲しい|いい)?(?:だ)?(?:けど|から|ので|ね|よ|が|し)*[、。!?\s]+(?=[^。]*(?:忘|わす|消し|削除))"
    ),
    re.compile(r"[^、。!?]*そのまま(?:で|に(?:して)?)(?=[^、。]*(?:忘|わす|消し|削除))"),
    re.compile(r"[、。][^、。]*(?:覚え(?:て(?:おいて|いて|て)|といて)|残して|(?:忘れ|消さ)ないで|そのまま)[^、。]*"),
)


def without_kept(words: str) -> str:
    """A request without what it says is to be kept: remember Luna and forget the laptop, ミケは覚えておいて."""
    for pattern in _KEPT:
        words = pattern.sub("", words)
    return words


def turns_to_something_else(words: str) -> bool:
    """Whether a request is followed by a question or a proposal, as one says it to change the subject: forget the
    laptop, how much was the phone? Whether anything is to be forgotten then is not certain.
    """
    asked = False
    for clause in (one.strip() for one in _CLAUSE.findall(" ".join(plain(words).split()))):
        if asks_to_forget(clause):
            asked = True
            if re.search(r"\band (?:talk|let's|tell|go|buy|do)\b", clause):
                return True
        elif asked and not _TAG.match(clause) and (_ASKING.search(clause) or _SOMETHING_ELSE.search(clause)):
            return True
    return False


def asks_to_forget(words: str) -> bool:
    """Whether words of a user are a request to forget something that they said."""
    text = " ".join(plain(words).split())
    if _TAKEN_BACK.search(text):
        return False
    text = _QUOTED_JAPANESE.sub("、", _QUOTED.sub(" ", text))
    text = _told_of_mishaps(_QUOTED_AFTER.sub("、", text))
    # What an ear wrote in katakana is the same request.
    for form in (text, hiragana(text)):
        if _JAPANESE.search(form) or (_ERASE.search(form) and _REMEMBERED.search(form)) or _ENGLISH.search(form):
            return True
    return False


def _told_of_mishaps(text: str) -> str:
    """The words without what tells that one left or forgot something, unless that can be nothing but remembered."""
    return _MISHAP.sub(lambda match: match[0] if _IS_MEMORABLE.search(match[0]) else "、", text)


_PARTS = re.compile(
    r"(?:[^、,;。.!?]|[.,](?=\d))+?(?:[、,;。.!?]+\s*|$"
    r"|\s+(?=(?:so|and|but)\s+(?:please |just |now |you can )*(?:forget|delete|erase)\b)"
    r"|\s+(?=(?:and|but|because)\s+(?:I|I'm|I've|I'll|I'd|we|we're|we've|my|our)\b))",
    re.IGNORECASE,
)
_NAMES_NOTHING = re.compile(
    r"(?:(?:もう|全部|ぜんぶ|すべて|みんな|やっぱり?|お願い|ねえ|だから|じゃあ|ごめん|まあ)[、\s]*)*"
    r"(?:忘|わす|ワス|覚え|消|削除|なかったこと|なしにして|記憶から)\S*"
    r"|(?:(?:so|and|but|please|just|now|ok|okay|then|you can|can you|could you)[,\s]+)*"
    r"(?:forget|delete|erase|(?:do not|don't) remember)(?: (?:all|everything))?",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"それ|その|そこ|そん|そっち|これ|この|ここ|あれ|あの|あそこ|さっき|先ほど|今の|いまの|今言った"
    r"|\b(?:that|this|it|its|it's|those|these|them|they|there|he|she|his|her|one|ones)\b|\bwhat (?:i|we)\b",
    re.IGNORECASE,
)
_JOINED_ON = re.compile(
    r"^(?:(?:and|but|so|because|since|now|also|for)\b[,\s]*(?=\S)|(?:あと|それと|それから|で|ちなみに|それで)、)+"
    r"|(?:\s+(?:and|but|so)|[、,;\s])+$",
    re.IGNORECASE,
)
_TELLING_ON = re.compile(
    r"(?P<told>.*?[うくぐすつぬぶむるたいだ]|.*?です|.*?ません)(?:ん?だ)?(?:から|ので|けど|けれど|が|し)$"
)
_IS_SAID = re.compile(
    r"(?:[うくぐすつぬぶむるたいだ]|です|ません)(?:んだ|の)?(?:から|ので|けど|けれど|よ|ね|わ|な)*[。!]*$"
)
_ONLY_NAMES = re.compile(r"(?:やつ|ヤツ|ほう|方|こと|話|件|もの)(?:だ|です|なん|ね|よ|の|から)*[。!]*$")
_SUBJECT = re.compile(r"^(?:(?:I|we)(?:'\w+)?\s+\w+|(?:my|our|the)\s+\w+|(?-i:[A-Z])\w+)", re.IGNORECASE)


def parted(words: str) -> tuple[str, str]:
    """A request to forget, and what is told in one breath with it: "Forget my old address, I now live in York".

    The second is empty unless it surely is a statement of its own, which has nothing to do with what is to be
    forgotten: beside a request that names what it is about, with a subject or an end of its own, and pointing at
    nothing; what is so now, or a sentence after the request, and no reason for it. Who tells a secret once more with
    the request must not have it remembered.
    """
    text = straight(" ".join(without_kept(words).split()))
    if not asks_to_forget(text):
        return words, ""
    parts = [match[0] for match in _PARTS.finditer(text)]
    places = [place for place, part in enumerate(parts) if asks_to_forget(part.rstrip("、, "))]
    if not places:
        return words, ""
    first, last = places[0], places[-1] + 1
    request = "".join(parts[first:last]).strip()
    ended = request.endswith(("。", ".", "!"))
    names_nothing = _NAMES_NOTHING.fullmatch(request.rstrip("、。,.!? "))
    if names_nothing and not ended:
        return words, ""
    before = "" if names_nothing or _POINTS.search(request) else _statement("".join(parts[:first]), goes_on=True)
    after = _statement("".join(parts[last:]), goes_on=False)
    told = [one for one in (before, after) if one]
    apart = (not before or _is_of_its_own(before, request, parted_by_end=False)) and (
        not after or _is_of_its_own(after, request, parted_by_end=ended)
    )
    if len(told) > 1 and told[0][-1].isalnum():
        told[0] += "." if told[0].isascii() else "。"
    # What is left of them belongs to the request.
    if before:
        parts = parts[first:]
        last -= first
    rest = "".join(parts[:last] if after else parts).strip()
    return (rest if told else words), " ".join(told) if apart else ""


def _is_of_its_own(told: str, request: str, *, parted_by_end: bool) -> bool:
    """Whether what is told beside a request is neither what is to be forgotten nor why: in doubt it is."""
    if _WHY.search(told):
        return False
    new = bool(_NEW.search(told)) and not _DENIED.search(told)
    shared = content_words(told, _ANY_DAY) & content_words(request, _ANY_DAY) - VERBS
    if shared and not (new and _OLD.search(request)):
        return False
    return new or (parted_by_end and not _BECAUSE.search(told))


_NEW = re.compile(
    r"(?:今|いま)(?:は|の)|今度|これから|新しい|新しく|に(?:引っ越し[たて]|変わっ|変え|移っ)"
    r"|\b(?:now|new|these days|nowadays|moved to|switched to|changed to)\b",
    re.IGNORECASE,
)
_OLD = re.compile(r"(?:前|昔|以前)の|古い|\b(?:old|former|previous|last|earlier)\b", re.IGNORECASE)
_DENIED = re.compile(r"ない|ません|なく|なかっ|\b(?:not|no|never|\w+n't)\b", re.IGNORECASE)
_BECAUSE = re.compile(r"(?:から|ので|ため)[ねさなよ]*[。!]*$|^(?:because|since|cause|as)\b|\bso\b", re.IGNORECASE)
_WHY = re.compile(
    r"しばらく|知られ|知った|ばれ|バレ|困|恥|はずかし|内緒|ないしょ|秘密|ひみつ|怒|まずい|嫌|いやだ|心配|怖|冗談|嘘|うそ|間違|勘違"
    r"|後悔|[見聞読]られ|聞かれ|読まれ|たくない|欲しくない|ほしくない|別れ|関係ない|必要ない|いらない"
    r"|\b(?:want(?:s|ed)?|wish|hope|know[ns]?|knew|find(?:s|ing)? out|found out|asham\w+|embarrass\w*|secrets?|private"
    r"|angry|mad|upset|regret|sorry|afraid|scared|worr\w+|jok\w+|lie[ds]?|lying|kidding|made up|matters?|need(?:s|ed)?"
    r"|because|for a while|wrong|mistake\w*)\b",
    re.IGNORECASE,
)


def _statement(text: str, *, goes_on: bool) -> str:
    """What is told, without what joins it to a request; empty where it is none. `goes_on`: the request follows."""
    told = _JOINED_ON.sub("", text.strip()).strip()
    ended = told.endswith(("。", "!", "！", "."))
    if not told or _POINTS.search(told) or _ONLY_NAMES.search(told) or _TAG.match(plain(told)):
        return ""
    if told.isascii():
        verbs = any(word in VERBS or word.endswith("ed") for word in re.findall(r"[a-z']+", told.casefold()))
        subject = _SUBJECT.match(told)
        return told if subject and (verbs or re.match(r"(?:I|we)\b", told, re.IGNORECASE)) else ""
    if joined := _TELLING_ON.fullmatch(told):
        return joined["told"] if goes_on or ended else told
    # 昨日話した、パソコンのこと: only what ends, or is joined by a word, is a statement of its own before a request.
    return told if _IS_SAID.search(told) and (ended or not goes_on) else ""
