"""Japanese: numbers, dates, times, units and signs as they are said. Counters stay with the voice (3本, 8月20日).

Digits stay digits wherever a voice reads them well; what is not read as a quantity (telephone numbers) becomes kana.
Pure text; where a sign has two meanings, the words of the same clause decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters

_KANA_DIGITS = str.maketrans(
    dict(
        zip(
            "0123456789",
            ("ゼロ", "イチ", "ニー", "サン", "ヨン", "ゴー", "ロク", "ナナ", "ハチ", "キュー"),
            strict=True,
        )
    )
)
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_FREE = r"(?<![0-9.])"
_BIG = "[万億兆千百]{0,2}"
_DAYS_MAX = 31
_HOURS_MAX = 29  # 25時 is said for one at night

_UNITS = {
    "mm": "ミリメートル", "cm": "センチメートル", "m": "メートル", "km": "キロメートル", "nm": "ナノメートル",
    "mg": "ミリグラム", "g": "グラム", "kg": "キログラム", "t": "トン", "lb": "ポンド",
    "ml": "ミリリットル", "mL": "ミリリットル", "dl": "デシリットル", "dL": "デシリットル", "l": "リットル",
    "L": "リットル", "cc": "シーシー", "ha": "ヘクタール", "ft": "フィート", "inch": "インチ", "mile": "マイル",
    "KB": "キロバイト", "kB": "キロバイト", "MB": "メガバイト", "GB": "ギガバイト", "TB": "テラバイト",
    "bit": "ビット", "Mbps": "メガビーピーエス", "Gbps": "ギガビーピーエス", "fps": "エフピーエス",
    "Hz": "ヘルツ", "kHz": "キロヘルツ", "MHz": "メガヘルツ", "GHz": "ギガヘルツ", "dB": "デシベル",
    "W": "ワット", "kW": "キロワット", "kWh": "キロワットアワー", "Wh": "ワットアワー", "V": "ボルト",
    "mA": "ミリアンペア",
    "mAh": "ミリアンペアアワー", "cal": "カロリー", "kcal": "キロカロリー", "hPa": "ヘクトパスカル", "px": "ピクセル",
    "ppm": "ピーピーエム", "bpm": "ビーピーエム", "rpm": "回転", "ms": "ミリ秒", "sec": "秒", "s": "秒",
    "min": "分", "h": "時間",
}  # fmt: skip
_POWERS = {"2": "平方", "3": "立方"}
_PER = {"h": "時速", "s": "秒速", "min": "分速"}
_LENGTHS = {"mm": "ミリメートル", "cm": "センチメートル", "m": "メートル", "km": "キロメートル"}
_CURRENCIES = {"$": "ドル", "¥": "円", "€": "ユーロ", "£": "ポンド", "₩": "ウォン", "₹": "ルピー"}
_TITLES = {"Dr": "ドクター", "Mr": "ミスター", "Mrs": "ミセス", "Ms": "ミズ"}
_WEEKDAYS = "月火水木金土日"
_COUNTED = "個人日分秒時本枚回歳才年月週匹杯冊台度円点名件階番キメセミグリパつヶかカ"
_SCORED = re.compile(r"勝|負|敗|引き分|試合|リード|スコア|得点|同点|逆転")
_CLOCK_BEFORE = re.compile(r"(?:午前|午後|朝|夜|夕方|昼|深夜)\s?$")
_CLOCK_AFTER = re.compile(r"\s?(?:に|から|まで|ごろ|頃|ちょうど|発|着)")
_NOT_READINGS = frozenset(
    {"たぶん", "うそ", "かな", "など", "もちろん", "まだ", "もう", "ほか", "おそらく", "ただし", "すでに", "とても",
     "やや", "いま", "だよ", "ね", "よ", "はず", "いや", "うん", "ええ"}
)  # fmt: skip
"""What stands in brackets behind kanji without being their reading."""
_KANJI = "々ヶ一-鿿㐀-䶿"
_RUBY = re.compile(rf"([{_KANJI}][{_KANJI}ぁ-ん]{{0,9}})\s?\(([ぁ-んー]{{1,16}})\)")
_KANJI_STRETCH = re.compile(rf"([{_KANJI}]+)")


def _digits(text: str) -> str:
    return text.translate(_KANA_DIGITS)


def _phone(match: re.Match[str]) -> str:
    return "、".join(_digits(group) for group in re.findall("[0-9]+", match.group()))


def _is_date(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= _DAYS_MAX


def _full_date(match: re.Match[str]) -> str:
    year, month, day = (int(group) for group in match.groups())
    return f"{year}年{month}月{day}日" if _is_date(month, day) else match.group()


def _year_and_month(match: re.Match[str]) -> str:
    year, month = (int(group) for group in match.groups())
    return f"{year}年{month}月" if 1 <= month <= 12 and year >= 1800 else match.group()


def _slashed(match: re.Match[str]) -> str:
    """1/2 is a half, 11/30 a day: small ascending numbers are fractions, unless a day of the week follows."""
    whole, first, second, weekday = match.group(1), int(match.group(2)), int(match.group(3)), match.group(4)
    fraction = 0 < first < second and (second <= 10 or second > _DAYS_MAX or first > 12) and not weekday
    if fraction:
        return f"{whole.strip()}と{second}分の{first}" if whole else f"{second}分の{first}"
    if _is_date(first, second):
        return f"{whole or ''}{first}月{second}日{weekday or ''}"
    said = f"{second}分の{first}" if second else f"{first}、{second}"
    return f"{whole or ''}{said}{weekday or ''}"


def _clock(match: re.Match[str]) -> str:
    first, second, third, half = int(match.group(1)), int(match.group(2)), match.group(3), match.group(4)
    before, after = match.string[max(0, match.start() - 4) : match.start()], match.string[match.end() :][:5]
    said_time = half is not None or _CLOCK_BEFORE.search(before) is not None
    prefix = {"a": "午前", "p": "午後"}[half.casefold()] if half else ""
    if third is not None:
        names = "時分秒" if said_time or _CLOCK_AFTER.match(after) else ("時間", "分", "秒")
        return f"{prefix}{first}{names[0]}{second}{names[1]}{int(third)}{names[2]}"
    if first > _HOURS_MAX:
        return f"{first}分{second}秒"
    return f"{prefix}{first}時{f'{second}分' if second else ''}"


def _money(match: re.Match[str]) -> str:
    return f"{match.group(2)}{_CURRENCIES[match.group(1)]}"


def _per_time(match: re.Match[str]) -> str:
    number, length, time = match.groups()
    return f"{_PER[time]}{number}{_LENGTHS[length]}"


def _hyphened(match: re.Match[str]) -> str:
    """3-5個 is a range, 2-1 a score, 1-2-3 an address."""
    numbers = match.group().split("-")
    if len(numbers) > 2:
        return "の".join(numbers)
    first, second = (int(number) for number in numbers)
    after = match.string[match.end() : match.end() + 1]
    if _SCORED.search(match.string) or first >= second:
        word = "から" if after and after in _COUNTED and first < second and not _SCORED.search(match.string) else "タイ"
    else:
        word = "から"
    return f"{numbers[0]}{word}{numbers[1]}"


def _without_ruby(match: re.Match[str]) -> str:
    """漢字(かんじ) loses its reading when the reading fits the characters before it."""
    base, reading = match.groups()
    if reading in _NOT_READINGS:
        return match.group()
    for start in range(len(base)):
        if base[start] < "\u3100" and base[start] not in "々":
            continue
        parts = _KANJI_STRETCH.split(base[start:])
        pattern = "".join(
            f"[ぁ-んー]{{{len(part)},{4 * len(part)}}}" if index % 2 else part for index, part in enumerate(parts)
        )
        if re.fullmatch(pattern, reading):
            return base
    return match.group()


_Rule = tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]]
_UNIT_NAMES = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_RULES: tuple[_Rule, ...] = (
    ("(", _RUBY, _without_ruby),
    ("ー−–", re.compile(r"(?<=[0-9])[ー−–](?=[0-9])"), "-"),
    (",", re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:,[0-9]{3}){1,6})(?![0-9])"), lambda m: m.group().replace(",", "")),
    (
        "-(",
        re.compile(
            r"(?<![0-9A-Za-z-])(?:(?:\+[0-9]{1,3}-[0-9]{1,4}|0[0-9]{1,4})[-(][0-9]{1,4}[-)][0-9]{3,4}"
            r"|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![0-9-])"
        ),
        _phone,
    ),
    ("-", re.compile(r"(?<![0-9A-Za-z-])[0-9]{3}-[0-9]{4}(?![0-9-])"), _phone),
    ("-/.", re.compile(r"(?<![0-9.])([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})(?![0-9])"), _full_date),
    ("/", re.compile(r"(?<![0-9/])([0-9]{4})/([0-9]{1,2})(?![0-9/])"), _year_and_month),
    (
        "/",
        re.compile(
            rf"(?<![0-9/.])([0-9]{{1,3}} )?([0-9]{{1,4}})/([0-9]{{1,4}})(?![0-9/])(\s?\([{_WEEKDAYS}][^()]{{0,3}}\))?"
        ),
        _slashed,
    ),
    (
        "(",
        re.compile(rf"日\s?\(([{_WEEKDAYS}])(?:曜日?)?(?:[・/]?(祝)日?)?\)(?=([^\Wぁ-ん])?)"),
        lambda m: f"日、{m.group(1)}曜日{'、祝日' if m.group(2) else ''}{'、' if m.group(3) else ''}",
    ),
    (
        "aApP",
        re.compile(r"(?<![A-Za-z])([ap])\.?m\.?\s?(?=[0-9]{1,2}(?::[0-9]{2}|時))", re.I),
        lambda m: "午前" if m.group(1).casefold() == "a" else "午後",
    ),
    (
        ":",
        re.compile(
            r"(?<![0-9:.])([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?(?![0-9:])(?:\s?([ap])\.?m\.?(?![a-z]))?", re.I
        ),
        _clock,
    ),
    (
        "aApP",
        re.compile(r"(?<![0-9.:])([0-9]{1,2})\s?([ap])\.?m\.?(?![A-Za-z0-9])", re.I),
        lambda m: f"{'午前' if m.group(2).casefold() == 'a' else '午後'}{m.group(1)}時",
    ),
    (":", re.compile(r"(?<![0-9:.])([0-9]{1,4}):([0-9]{1,4})(?![0-9:])"), r"\1タイ\2"),
    ("$¥€£₩₹", re.compile(rf"(?:US)?([$¥€£₩₹])\s?({_NUMBER}{_BIG})"), _money),
    ("$", re.compile(rf"{_FREE}({_NUMBER}{_BIG})\s?\$"), r"\1ドル"),
    ("/", re.compile(rf"(?:時速|秒速|分速)?\s?{_FREE}({_NUMBER})\s?(km|cm|mm|m)/(h|s|min)(?![A-Za-z])"), _per_time),
    (
        "m",
        re.compile(r"(?<=[0-9])\s?(km|cm|mm|m)\^?([23])(?![0-9A-Za-z^])"),
        lambda m: f"{_POWERS[m.group(2)]}{_LENGTHS[m.group(1)]}",
    ),
    ("°", re.compile(rf"({_NUMBER})\s?°\s?F(?![A-Za-z])"), r"華氏\1度"),
    ("°", re.compile(r"\s?°\s?(?:C(?![A-Za-z]))?"), "度"),
    ("%", re.compile(r"(?<=[0-9])\s?%"), "パーセント"),
    ("‰", re.compile(r"(?<=[0-9])\s?‰"), "パーミル"),
    (ascii_letters, re.compile(rf"(?<=[0-9])\s?({_UNIT_NAMES})(?![A-Za-z0-9])"), lambda m: _UNITS[m.group(1)]),
    (
        ".",
        re.compile(r"(?<![A-Za-z0-9.])[vV](?:er\.?|ersion)?\s?([0-9]{1,4}(?:\.[0-9]{1,6}){0,4})(?![A-Za-z0-9])"),
        lambda m: f"バージョン{m.group(1)}",
    ),
    (".", re.compile(r"(?<![0-9.])[0-9]{1,6}(?:\.[0-9]{1,6}){2,5}(?![0-9])"), lambda m: m.group().replace(".", "テン")),
    ("F", re.compile(r"(?<![A-Za-z0-9])B([0-9])F(?![A-Za-z0-9])"), r"地下\1階"),
    ("F", re.compile(r"(?<![A-Za-z0-9.])([0-9]{1,3})F(?![A-Za-z0-9])"), r"\1階"),
    (".", re.compile(r"(?<![A-Za-z])[nN]o\.\s?(?=[0-9])"), "ナンバー"),
    (".", re.compile(r"(?<![A-Za-z])(Dr|Mrs?|Ms)\.\s?(?=[A-Z])"), lambda m: _TITLES[m.group(1)]),
    (".", re.compile(r"(?<![A-Za-z])[vV]ol\.\s?(?=[0-9])"), "ボリューム"),
    (".", re.compile(r"(?<![A-Za-z])[pP]{1,2}\.\s?([0-9]{1,5})"), r"\1ページ"),
    (".", re.compile(r"(?<![A-Za-z])etc\.?(?![A-Za-z])", re.I), "など"),
    ("v", re.compile(r"(?<![A-Za-z])vs\.?(?![A-Za-z])", re.I), "バーサス"),
    ("-", re.compile(rf"{_FREE}({_NUMBER})\s?-\s?({_NUMBER})(?=\s?=)|{_FREE}({_NUMBER}) - ({_NUMBER})"),
     lambda m: f"{m.group(1) or m.group(3)}引く{m.group(2) or m.group(4)}"),
    ("-", re.compile(r"(?<![0-9A-Za-z.-])[0-9]{1,5}(?:-[0-9]{1,5}){1,4}(?![0-9A-Za-z-])"), _hyphened),
    (
        "〜~-",
        re.compile(rf"(?<![一-鿿0-9])([{_WEEKDAYS}])[〜~-]([{_WEEKDAYS}])(?![一-鿿])"),
        r"\1曜から\2曜",
    ),
    ("〜~", re.compile(r"(?<=[ぁ-んァ-ヶー])[〜~]+(?![0-9一-鿿])"), "ー"),
    ("〜~", re.compile(r"(?<=[0-9A-Za-z一-鿿ァ-ヶ])\s?[〜~]\s?(?=\S)(?![。、！？…」)])"), "から"),
    ("〜~", re.compile(r"(?<=[0-9分時日月年])\s?[〜~](?=\s|$|[。、！？」)])"), "から"),
    ("^", re.compile(r"(?<=[A-Za-z0-9)])\^([0-9]{1,4})"), r"の\1乗"),
    ("×✕*x", re.compile(r"(?<=[0-9)])\s?[×✕*x]\s?(?=[0-9(])"), "かける"),
    ("×✕", re.compile(r"(?<=[A-Za-z一-鿿ァ-ヶー])\s?[×✕]\s?(?=[A-Za-z一-鿿ァ-ヶ0-9])"), "かける"),
    ("×✕", re.compile(r"[×✕]"), "ばつ"),
    ("÷", re.compile(r"\s?÷\s?"), "割る"),
    ("+", re.compile(r"(?<=[0-9)])\s?\+\s?(?=[0-9(])"), "たす"),
    ("+", re.compile(r"(?<=[A-Za-z0-9ぁ-んァ-ヶ一-鿿])\s?\+\s?(?=[0-9A-Za-zぁ-んァ-ヶ一-鿿])(?<!\+)"), "プラス"),
    ("+", re.compile(r"(?<![A-Za-z0-9+])\+(?=[0-9])"), "プラス"),
    ("±", re.compile(r"±"), "プラスマイナス"),
    ("-−", re.compile(r"(?<![0-9A-Za-z)\-ー])[-−](?=[0-9])"), "マイナス"),
    ("≒≈", re.compile(r"\s?[≒≈]\s?"), "はおよそ"),
    ("≠", re.compile(r"\s?≠\s?"), "ノットイコール"),
    ("≧≥", re.compile(rf"(?<=[^\s、。(])\s?[≧≥]\s?({_NUMBER}[一-鿿ァ-ヶ%°]{{0,6}}|[A-Za-z])"), r"は\1以上"),
    ("≧≥", re.compile(rf"[≧≥]\s?({_NUMBER}[一-鿿ァ-ヶ]{{0,6}})"), r"\1以上"),
    ("≦≤", re.compile(rf"(?<=[^\s、。(])\s?[≦≤]\s?({_NUMBER}[一-鿿ァ-ヶ%°]{{0,6}}|[A-Za-z])"), r"は\1以下"),
    ("≦≤", re.compile(rf"[≦≤]\s?({_NUMBER}[一-鿿ァ-ヶ]{{0,6}})"), r"\1以下"),
    (">", re.compile(rf"(?<=[0-9A-Za-zぁ-んァ-ヶ一-鿿])\s?>\s?({_NUMBER})"), r"は\1より大きい"),
    ("<", re.compile(rf"(?<=[0-9A-Za-zぁ-んァ-ヶ一-鿿])\s?<\s?({_NUMBER})"), r"は\1より小さい"),
    ("=", re.compile(r"(?<=[0-9])\s?=\s?(?=[0-9-]|マイナス|ルート|[？?])"), "は"),
    ("=", re.compile(r"(?<=[0-9A-Za-zぁ-んァ-ヶ一-鿿ー乗)])\s?=\s?(?=[0-9A-Za-zぁ-んァ-ヶ一-鿿(])"), "イコール"),
    ("√", re.compile(r"√"), "ルート"),
    ("∞", re.compile(r"∞"), "無限大"),
    ("π", re.compile(r"π"), "パイ"),
    ("#", re.compile(r"(?<![0-9A-Za-z])#(?=[0-9])"), "ナンバー"),
    ("#", re.compile(r"(?<![A-Za-z])([CF])#"), lambda m: {"C": "シー", "F": "エフ"}[m.group(1)] + "シャープ"),
    ("#", re.compile(r"#(?=[0-9A-Za-zぁ-んァ-ヶ一-鿿])"), "ハッシュタグ"),
    ("&", re.compile(r"(?<=\w) ?& ?(?=[^\W0-9A-Za-z_])|(?<=[^\W0-9A-Za-z_]) ?& ?(?=\w)|(?<=\w) & (?=\w)"), "アンド"),
    ("@", re.compile(r"@(?=[0-9A-Za-zぁ-んァ-ヶ一-鿿])"), "アット"),
    ("→", re.compile(r" ?[→⇒] ?"), "、"),
    ("1234567890", re.compile(r"(?<![0-9.])[0-9]{12,}(?![0-9.])"), lambda m: _digits(m.group())),
)  # fmt: skip


def in_words(text: str) -> str:
    """A Japanese clause with its numbers and signs as they are said."""
    present = set(text)
    for marks, pattern, replacement in _RULES:
        if not present.isdisjoint(marks):
            text = pattern.sub(replacement, text)
    return text
