"""The form of a reply is not read out: markup, links, emoji, faces, characters without a sound."""

from __future__ import annotations

import pytest

from server.pipeline.speakable import speakable

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("**太字**と*斜体*と__下線__と~~消した~~と`code`", "太字と斜体と下線と消したとcode"),
        ("***すごい***ね", "すごいね"),
        ("# 見出し", "見出し"),
        ("- りんご\n- みかん", "りんご\nみかん"),
        ("* りんご\n+ みかん\n・ぶどう", "りんご\nみかん\nぶどう"),
        ("1. りんご\n2) みかん", "1、りんご\n2、みかん"),
        ("- [ ] 買い物\n- [x] そうじ", "買い物\nそうじ"),
        ("> 引用だよ", "引用だよ"),
        ("上\n---\n下", "上\n下"),
        ("| 名前 | 数 |\n|---|:--|\n| りんご | 3 |", "名前、数\nりんご、3"),
        ("[説明](https://a.b/c)を見てね", "説明を見てね"),
        ('[説明](https://a.b/c_(d) "題")を見てね', "説明を見てね"),
        ("![猫の絵](cat.png)だよ", "猫の絵だよ"),
        ("そうだよ[^1]ね[1]。", "そうだよね。"),
        ("こうだよ。\n```python\nprint(1)\n```\nわかった？", "こうだよ。\nコード。\nわかった？"),
        ("```x = 1```だよ", "xイコール1だよ"),
        ("<b>太い</b>よ<br>次だよ", "太いよ\n次だよ"),
        ("<!-- 秘密 -->見えるよ", "見えるよ"),
        ("<a href='x'>ここ</a>", "ここ"),
        ("猫&nbsp;と&amp;犬", "猫とアンド犬"),
        ("&#12354;", "あ"),
        (":smile: やあ", "やあ"),
    ],
)
def test_markup_is_taken_off(written: str, spoken: str) -> None:
    assert speakable(written, "ja") == spoken


@pytest.mark.parametrize(
    ("written", "language", "spoken"),
    [
        ("詳しくはhttps://example.com/a?b=c,dを見てね。", "ja", "詳しくはリンクを見てね。"),
        ("（https://example.com/x）だよ", "ja", "リンク、だよ"),
        ("https://例え.jp/x?y=1 だよ", "ja", "リンクだよ"),
        ("<https://example.com/x>", "ja", "リンク"),
        ("www.example.comだよ", "ja", "exampleドットcomだよ"),
        ("example.comで見たよ", "ja", "exampleドットcomで見たよ"),
        ("taro.y@example.co.jpに送って", "ja", "taroドットyアットマークexampleドットcoドットjpに送って"),
        ("Go to https://example.com/x/y?z=1.", "en", "Go to the link."),
        ("Is it https://example.com/x? Yes.", "en", "Is it the link? Yes."),
        ("Visit example.com now.", "en", "Visit example dot com now."),
        ("Mail me_2@x-y.org, please.", "en", "Mail me underscore 2 at x dash y dot org, please."),
        ("See [the page](https://a.b/c).", "en", "See the page."),
        ("Use `ls`:\n```\nls -l\n```\nOK?", "en", "Use ls:\nsome code.\nOK?"),
    ],
)
def test_an_address_is_named_or_said(written: str, language: str, spoken: str) -> None:
    assert speakable(written, language) == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("楽しかったよ😊また遊ぼう", "楽しかったよ、また遊ぼう"),
        ("すごいね〜✨おめでとう", "すごいねー、おめでとう"),
        ("すごい😊✨！", "すごい！"),
        ("家族👨‍👩‍👧だよ", "家族、だよ"),
        ("今日は🍣を食べたよ", "今日はを食べたよ"),
        ("👍🏽いいね", "いいね"),
        ("🇯🇵日本", "日本"),
        ("1️⃣ りんご", "1、りんご"),
        ("①りんご②みかん", "1、りんご、2、みかん"),
        ("♪ラララ♪", "ラララ"),
        ("うれしい(^_^)", "うれしい"),
        ("わーい＼(^o^)／", "わーい"),
        ("かなしい（；ω；）ね", "かなしいね"),
        ("ありがとうm(_ _)m", "ありがとう"),
        ("えへへ(´・ω・`)", "えへへ"),
        ("だめだorz", "だめだ"),
        ("泣くT_T", "泣く"),
        ("やった:)", "やった"),
        ("そうだねｗｗｗ", "そうだね"),
        ("すごいww", "すごい"),
        ("いいね(笑)", "いいね"),
        ("それな笑。", "それな。"),
        ("微笑。", "微笑。"),
        ("(2026年)", "2026年"),
    ],
)
def test_emoji_and_faces_are_not_read(written: str, spoken: str) -> None:
    assert speakable(written, "ja") == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("LOL that is fun", "that is fun"),
        ("Nice :)", "Nice"),
        ("I love it <3", "I love it"),
        ("Great 😊 thanks", "Great, thanks"),
        ("**Bold** and _it_", "Bold and it"),
        ("- one\n- two", "one\ntwo"),
        ("## Title", "Title"),
        ("Roll a d20: 3*4", "Roll a d20: 3 times 4"),
        ("lollipop", "lollipop"),
    ],
)
def test_faces_and_marks_in_english(written: str, spoken: str) -> None:
    assert speakable(written, "en") == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("東京（日本の首都）は大きい。", "東京、日本の首都、は大きい。"),
        ("【お知らせ】明日は休み", "お知らせ、明日は休み"),
        ("〈本〉を読む。", "本、を読む。"),
        ("って、（それ）。", "って、それ。"),
        ("5人（男3人、女2人）", "5人、男3人、女2人"),
        ("彼は「うん」と言った", "彼は「うん」と言った"),
        ("［注］だよ", "注、だよ"),
        ("（（（深い）））", "深い"),
        ("（）", ""),
    ],
)
def test_brackets_become_pauses(written: str, spoken: str) -> None:
    assert speakable(written, "ja") == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("あ\0い", "あい"),
        ("あ\x1b[31mう", "あう"),
        ("\u202eabc\u200b\ufeff", "abc"),
        ("a\ud83db", "a b"),
        ("か\u3099っこう", "がっこう"),
        ("ﾊﾝｶｸ", "ハンカク"),
        ("e\u0301te\u0301", "été"),
        ("z\u0300\u0301\u0302\u0303", "z"),
        ("٣個", "3個"),
        ("あ\u2028い\r\nう", "あ\nい\nう"),
        ("安녕은", "安녕은"),
        ("㈱と㍻", "株、と平成"),
        ("Googleᵀᴹ™®", "GoogleTM"),
        ("𠮷野家", "𠮷野家"),
        ("", ""),
        ("   \n ", ""),
        ("😊", ""),
        ("。、…！？", ""),
        ("\ud83d", ""),
        ("** --- | ~~", ""),
    ],
)
def test_odd_characters(written: str, spoken: str) -> None:
    assert speakable(written, "ja") == spoken
