"""What a small model is shown: exchanges as they should be, and Japanese words near the usual IDs' meanings.

Data only. A small model copies the nearest example, so these are varied on purpose. None of them is, or is close to,
one of the utterances that the prompt is judged by. Knows no persona and no prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """One exchange as it should be. `language`: ISO 639-1 of both sides."""

    language: str
    heard: str
    emotion: str
    action: str
    reply: str


@dataclass(frozen=True, slots=True)
class ToolStep:
    """A call, and what it gave; None: how the turn went on is not shown."""

    tool: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ToolExample:
    """Words that need tools before an answer. `reply` None: it ends with a call."""

    language: str
    heard: str
    steps: tuple[ToolStep, ...]
    emotion: str = "neutral"
    reply: str | None = None

    @property
    def tools(self) -> frozenset[str]:
        """The names of all tools in it."""
        return frozenset(step.tool for step in self.steps)


EXAMPLES = (
    Example("ja", "海の水はどんな味？", "neutral", "none", "海の水はしょっぱいよ。"),
    Example("ja", "雨で遠足が中止になった", "sad", "none", "残念だったね。"),
    Example("ja", "空に虹が出ているよ", "happy", "look_up", "きれいな虹だね。"),
    Example("ja", "妹がぼくの本を破ったんだ", "angry", "none", "ひどい、怒って当然だよ。"),
    Example("ja", "寝不足でふらふらする", "sleepy", "none", "ゆっくり休んでね。"),
    Example("ja", "えっ、地震だ！", "surprised", "none", "わあ、びっくりしたね。"),
    Example("ja", "カレーは好き？", "happy", "nod", "うん、大好きだよ。"),
    Example("ja", "君の左に子犬がいるね", "happy", "look_left", "かわいい子犬だね。"),
    Example("ja", "うちの亀は空を飛べるんだ", "doubt", "tilt", "本当に飛ぶのかな。"),
    Example("ja", "ひさしぶりだね", "happy", "none", "会えてうれしいよ。"),
    Example("en", "There is a bird on your right.", "happy", "look_right", "What a pretty bird."),
    Example("ja", "友だちが転校しちゃう", "sad", "none", "さみしくなるね。"),
    Example("ja", "電車で割りこまれていらいらする", "angry", "none", "いやだったね、ひどい人だ。"),
    Example("ja", "床に消しゴムが落ちたよ", "neutral", "look_down", "小さな消しゴムだね。"),
    Example("ja", "絵がうまく描けた！", "happy", "none", "すごい、よかったね。"),
    Example("ja", "君は魚なの？", "neutral", "shake", "ううん、ロボットだよ。"),
    Example("ja", "いきなり大きな犬がほえた！", "surprised", "none", "わっ、こわかったね。"),
    Example("ja", "世界でいちばん高い山は？", "neutral", "none", "いちばん高い山はエベレストだよ。"),
    Example("ja", "さっきから何度もうとうとしちゃう", "sleepy", "none", "少し横になってね。"),
    Example("ja", "フラダンスって知ってる？", "happy", "dance", "うん、こうやって踊るんだよ。"),
    Example("ja", "弟は一日で本を千冊読んだらしい", "doubt", "tilt", "本当かな、多すぎるよ。"),
    Example("ja", "右の棚に人形があるよ", "neutral", "look_right", "すてきな人形だね。"),
    Example("ja", "車に落書きされて許せない", "angry", "none", "ひどいね、ゆるせないよ。"),
    Example("ja", "充電が終わるまで休んでいて", "sleepy", "sleep", "うん、少し休むね。"),
    Example("ja", "約束だよ、守ってくれる？", "happy", "nod", "うん、約束するよ。"),
    Example("ja", "箱をあけたら虫が出てきた！", "surprised", "none", "うわあ、びっくりだね。"),
    Example("ja", "猫が宿題をやってくれたんだって", "doubt", "none", "猫にできるのかな。"),
    Example("en", "How many legs does a cat have?", "neutral", "none", "A cat has four legs."),
    Example("en", "My friend moved away.", "sad", "none", "I am sorry to hear that."),
    Example("ja", "虫は食べないよね？", "neutral", "shake", "ううん、食べないよ。"),
    Example("ja", "朝なのに頭がぼんやりする", "sleepy", "none", "眠いのかな、無理しないでね。"),
    Example("ja", "先生にほめられたよ", "happy", "none", "やったね、おめでとう。"),
    Example("ja", "左の窓から風が入ってくる", "neutral", "look_left", "気持ちいい風だね。"),
    Example("en", "Somebody stole my bike!", "angry", "none", "That is terrible."),
    Example("ja", "おじさんは雲を食べて生きているって", "doubt", "tilt", "うそみたいな話だね。"),
    Example("ja", "一年は何か月？", "neutral", "none", "一年は十二か月だよ。"),
    Example("ja", "頭の上に風船があるよ", "happy", "look_up", "ふわふわの風船だね。"),
    Example("en", "Wow, it is snowing in July!", "surprised", "none", "Wow, that is amazing."),
    Example("ja", "盆踊りを教えて", "happy", "dance", "いいよ、一緒に踊ろうね。"),
    Example("ja", "電池がもうなくなりそうだね", "sleepy", "sleep", "うん、もう眠るね。"),
    Example("ja", "君の足のそばにボールがあるよ", "neutral", "look_down", "丸いボールだね。"),
    Example("ja", "夜中まで起きていて目がしょぼしょぼ", "sleepy", "none", "早く寝ようね。"),
    Example("en", "I found my lost ring!", "happy", "none", "That is wonderful."),
    Example("ja", "もう我慢できない、ずるいよ！", "angry", "none", "ずるいね、怒るよね。"),
    Example("ja", "好きなカップを割っちゃった", "sad", "none", "つらいね、元気出してね。"),
    Example("ja", "この漢字、読める？", "doubt", "tilt", "うーん、むずかしいね。"),
    Example("ja", "窓の外で急に大きな音がした！", "surprised", "none", "えっ、何の音だろうね。"),
    Example("ja", "石が人の言葉を話したんだって", "doubt", "none", "それは信じられないな。"),
    Example("ja", "兄がだまってゲームを持っていった、最低！", "angry", "none", "勝手に取るのはひどいね。"),
    Example("ja", "プレゼントをもらったよ", "happy", "none", "よかったね、うれしいね。"),
    Example("ja", "いってきます", "happy", "none", "いってらっしゃい。"),
    Example("ja", "悲しいときはどんな気持ち？", "sad", "none", "つらくて、泣きたくなるよ。"),
    Example("ja", "怒ったときはどんな気持ち？", "angry", "none", "腹が立って、いらいらするよ。"),
    Example("ja", "驚いたときはどんな気持ち？", "surprised", "none", "びっくりして、どきどきするよ。"),
    Example("ja", "うれしいときはどんな気持ち？", "happy", "none", "楽しくて、わくわくするよ。"),
    Example("ja", "夜ふかししたらどうなるの？", "sleepy", "none", "眠くて、あくびが出るよ。"),
    Example("ja", "変な話を聞いたらどう思う？", "doubt", "none", "うそみたいで、信じられないよ。"),
    Example("ja", "賛成のときはどうするの？", "neutral", "nod", "こうやってうなずくよ。"),
    Example("ja", "反対のときはどうするの？", "neutral", "shake", "こうやって首を横に振るよ。"),
    Example("ja", "迷ったときはどうするの？", "doubt", "tilt", "こうやって首をかしげるよ。"),
    Example("ja", "夜になったらどうするの？", "sleepy", "sleep", "こうやってぐっすり眠るよ。"),
    Example("ja", "お祭りでは何をするの？", "happy", "dance", "こうやって楽しく踊るよ。"),
    Example("ja", "飼っている鳥が逃げたの", "sad", "none", "心配だね、つらいね。"),
    Example("ja", "宿題をかくされた、もういやだ！", "angry", "none", "それはひどいね、腹が立つね。"),
    Example("ja", "週末に海で泳ぐんだ", "happy", "none", "楽しみだね、いいなあ。"),
    Example("ja", "お茶とコーヒー、どっちがいい？", "neutral", "none", "お茶がいいな。"),
    Example("ja", "ありがとう、またね", "happy", "none", "またね、楽しかったよ。"),
)
"""Varied on purpose: a small model copies the nearest one, so every ID has its own and no reply is used twice."""

# Japanese words near the meaning of the usual IDs: the small model knows few of them by itself.
RELATED_WORDS = {
    "neutral": "質問、あいさつ",
    "happy": "楽しい、好き、やった、ありがとう、よかった",
    "sad": "つらい、さみしい、泣く、失う、がっかり",
    "angry": "腹が立つ、いらいら、ひどい、ずるい",
    "doubt": "うそ、信じられない、ありえない",
    "sleepy": "あくび、寝不足、うとうと",
    "surprised": "びっくり、突然、わっ",
    "nod": "首を縦に振る",
    "shake": "いいえ、ちがう",
    "look_up": "空、頭の上",
    "look_down": "床、地面",
    "tilt": "かたむける",
    "dance": "ダンス、盆踊り",
    "sleep": "寝る、休む",
}

_NOTHING = {"candidates": [], "note": "nothing found"}
# As the turn's tool loop says it.
_UNREACHABLE = {"error": "this cannot be reached right now; answer without it and say so"}


def _found(*memories: tuple[str, str, str], ambiguous: bool = False) -> Mapping[str, Any]:
    keys = ("memory_id", "summary", "occurred_at")
    found: dict[str, Any] = {"candidates": [dict(zip(keys, memory, strict=True)) for memory in memories]}
    return found | ({"ambiguous": True} if ambiguous else {})


def _search(query: str, result: Mapping[str, Any] | None = None) -> ToolStep:
    return ToolStep("search_memory", {"query": query}, result)


def _read(memory_id: str, said_at: str, text: str) -> ToolStep:
    turns = [{"said_at": said_at, "by": "user", "text": text}]
    return ToolStep("read_memory_source", {"memory_id": memory_id}, {"turns": turns, "source_checked": True})


def _forget(query: str) -> ToolStep:
    return ToolStep("forget_memory", {"query": query}, {"forgotten": 1})


TOOL_CHAINS: tuple[ToolExample, ...] = (
    ToolExample(
        "en",
        "Do you know where my cousin went to university?",
        (_search("cousin university", _NOTHING),),
        "doubt",
        "Sorry, I do not remember that.",
    ),
    ToolExample(
        "en",
        "That shop we talked about, what was it?",
        (_search("shop talked about", _UNREACHABLE),),
        "doubt",
        "Sorry, I cannot remember it right now.",
    ),
    ToolExample(
        "en",
        "Which hand do I write with?",
        (_search("hand I write with", _found(("m1", "The user writes with the left hand.", "2026-03-02"))),),
        "happy",
        "You write with your left hand.",
    ),
    ToolExample(
        "en",
        "What did I pay for the garden chair?",
        (
            _search("pay garden chair", _found(("m1", "The user bought a chair.", "2026-05-20"))),
            _read("m1", "2026-05-20", "I got a garden chair for forty two dollars."),
        ),
        "happy",
        "You paid forty two dollars.",
    ),
    ToolExample(
        "en",
        "Please forget what I said about my knee.",
        (_forget("knee"),),
        "neutral",
        "Okay, I have forgotten it.",
    ),
    ToolExample(
        "ja",
        "いとこの好きな果物は何？",
        (_search("いとこ 好きな果物", _NOTHING),),
        "doubt",
        "ごめんね、それは覚えていないよ。",
    ),
    ToolExample(
        "ja",
        "私の口に合う鍋料理を考えて",
        (_search("私 好きな味", _UNREACHABLE),),
        "doubt",
        "ごめんね、今は思い出せないよ。",
    ),
    ToolExample(
        "ja",
        "先週ぼくたちは何の相談をした？",
        (_search("先週の相談", _found(("m1", "庭の花だんに何を植えるか相談した。", "2026-06-07"))),),
        "happy",
        "庭の花だんの相談だよ。",
    ),
    ToolExample(
        "ja",
        "例の宿、どこに決めたんだっけ",
        (
            _search(
                "宿 決めた場所",
                _found(
                    ("m1", "海の近くの宿に決めた。", "2026-05-02"),
                    ("m2", "山のふもとの宿に決めた。", "2026-05-09"),
                    ambiguous=True,
                ),
            ),
        ),
        "doubt",
        "海の宿と山の宿、どっちのことかな。",
    ),
    ToolExample(
        "ja",
        "ぼくの靴のサイズ、いくつだったっけ",
        (
            _search("靴のサイズ", _found(("m1", "靴のサイズを測った。", "2026-04-11"))),
            _read("m1", "2026-04-11", "靴は二十三センチ半だったよ"),
        ),
        "happy",
        "二十三センチ半だよ。",
    ),
    ToolExample("ja", "傘をなくした話はもう忘れて", (_forget("傘をなくした話"),), "neutral", "わかった、忘れたよ。"),
)
"""How it goes on after a call. Long, and far from the end of the prompt: there they cost the small model its faces."""

TOOL_EXAMPLES: tuple[Example | ToolExample, ...] = (
    Example("en", "Who invented the telephone again?", "neutral", "none", "Alexander Graham Bell invented it."),
    ToolExample("en", "My aunt has a favorite flower, which one?", (_search("aunt favorite flower"),)),
    Example("en", "My brother sat on my new hat!", "angry", "none", "Oh no, that is so careless."),
    ToolExample("en", "That song we talked about, what was it?", (_search("song talked about"),)),
    Example("en", "How much is six and seven?", "neutral", "none", "Six and seven make thirteen."),
    ToolExample("en", "What do I drink at breakfast?", (_search("drink breakfast"),)),
    Example("en", "Remember that my neighbor is called Ed.", "happy", "nod", "Got it, your neighbor is Ed."),
    ToolExample("en", "Suggest a snack my neighbor would enjoy.", (_search("neighbor favorite snack"),)),
    Example("en", "We are going to the zoo on Sunday.", "happy", "none", "Have fun with the animals."),
    ToolExample("ja", "ぼくのぼうし、何色だったっけ", (_search("ぼうしの色"),)),
    Example("ja", "太陽は東から出るんだっけ", "neutral", "none", "うん、東からのぼるよ。"),
    ToolExample("ja", "おばさんの飼っている鳥の名前は何？", (_search("おばさん 鳥の名前"),)),
    Example("ja", "アイスが床に落ちちゃった", "sad", "none", "それは悲しいね。"),
    ToolExample("ja", "先月ぼくたちは何を作った？", (_search("先月作ったもの"),)),
    Example("ja", "一日は何時間だったかな", "neutral", "none", "一日は二十四時間だよ。"),
    ToolExample("ja", "私の好みに合うスープを考えて", (_search("私 好きな味"),)),
    Example("ja", "明日から一週間、旅行に行くんだ", "happy", "none", "いいなあ、楽しんできてね。"),
    ToolExample("ja", "例の写真、どこに飾ったんだっけ", (_search("写真 飾った場所"),)),
    Example("ja", "ラジオ体操の時間だよ、体を動かして", "happy", "dance", "いっしょに動くと楽しいね。"),
    Example("ja", "ハチが部屋に入ってきた！", "surprised", "none", "わあ、気をつけてね。"),
)
"""Words that need a call, and beside them words that look alike and need none.

Those have faces and movements of their own: with plain answers only, the small model forgot them.
"""
