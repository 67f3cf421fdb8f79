"""The persona file: what the robot ships with, and what each mistake is answered with."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

import server.persona
from server.errors import ConfigError
from server.persona import (
    VOICE_EMOJI,
    Persona,
    PersonaId,
    default_persona_path,
    find_persona,
    load_persona,
    own_persona,
)

pytestmark = pytest.mark.unit

GOOD = """\
persona_id: tester
name: テスター
languages: [ja, en]
first_person: {ja: わたし, en: I}
speaking_style: {ja: 短く話す。, en: Speak briefly.}
emotions:
  neutral: {ja: ふつう, en: calm}
  happy: {ja: うれしい, en: happy}
actions:
  none: {ja: 動かない, en: do not move}
readings:
  PC: ピーシー
"""


def load(tmp_path: Path, text: str | bytes) -> Persona:
    path = tmp_path / "persona.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return load_persona(path)


def failure(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.code == "persona_invalid"
    place = str(tmp_path / "persona.yaml")
    assert caught.value.message.startswith(place)
    return caught.value.message.removeprefix(place)


def test_default_persona_has_the_sets_every_device_knows() -> None:
    persona = load_persona(default_persona_path())
    assert [item.id for item in persona.emotions] == [
        "neutral",
        "happy",
        "sad",
        "angry",
        "doubt",
        "sleepy",
        "surprised",
    ]
    assert [item.id for item in persona.actions] == (
        ["none", "nod", "shake", "look_left", "look_right", "look_up", "look_down", "tilt", "dance", "sleep"]
    )
    assert persona.languages == ("ja", "en")
    assert persona.zone == "Asia/Tokyo"
    assert persona.answer_length == "one_sentence"
    for item in (*persona.emotions, *persona.actions):
        assert set(item.meaning) == {"ja", "en"}
    assert next(item for item in persona.actions if item.id == "look_left").meaning["ja"] == "左を見る"


def test_every_field_is_read(tmp_path: Path) -> None:
    persona = load(tmp_path, GOOD + "answer_length: two_sentences\nzone: Europe/Paris\n")
    assert persona.persona_id == "tester"
    assert persona.name == "テスター"
    assert persona.first_person == {"ja": "わたし", "en": "I"}
    assert persona.speaking_style == {"ja": "短く話す。", "en": "Speak briefly."}
    assert persona.answer_length == "two_sentences"
    assert persona.zone == "Europe/Paris"
    assert persona.emotions == (
        PersonaId("neutral", {"ja": "ふつう", "en": "calm"}),
        PersonaId("happy", {"ja": "うれしい", "en": "happy"}),
    )
    assert persona.readings == {"PC": "ピーシー"}


def test_optional_fields_may_be_left_out_or_empty(tmp_path: Path) -> None:
    text = GOOD.replace("readings:\n  PC: ピーシー\n", "readings:\n  # PC: ピーシー\nanswer_length:\nzone: null\n")
    persona = load(tmp_path, text)
    assert persona.readings == {}
    assert persona.zone == "Asia/Tokyo"
    assert persona.answer_length == "one_sentence"


def test_one_language_needs_only_its_own_texts(tmp_path: Path) -> None:
    text = GOOD.replace("[ja, en]", "[en]").replace("{ja: ふつう, en: calm}", "{en: calm}")
    assert load(tmp_path, text).languages == ("en",)


def test_byte_order_mark_and_crlf_are_read_over(tmp_path: Path) -> None:
    persona = load(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert persona.name == "テスター"


def test_decomposed_kana_is_composed(tmp_path: Path) -> None:
    decomposed = "カ\N{COMBINING KATAKANA-HIRAGANA VOICED SOUND MARK}"
    persona = load(tmp_path, GOOD.replace("ピーシー", decomposed))
    assert persona.readings["PC"] == "ガ"


def test_full_width_latin_is_the_same_word(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD.replace("  PC:", "  ＰＣ:")).readings == {"PC": "ピーシー"}


@pytest.mark.parametrize("word", ["no", "off", "yes", "NO", "y", "none"])
def test_words_that_old_yaml_took_for_booleans_are_words(tmp_path: Path, word: str) -> None:
    assert load(tmp_path, GOOD.replace("テスター", word)).name == word


def test_style_may_have_lines(tmp_path: Path) -> None:
    text = GOOD.replace(
        "speaking_style: {ja: 短く話す。, en: Speak briefly.}",
        "speaking_style:\n  ja: |\n    短く話す。\n    元気に。\n  en: x",
    )
    assert load(tmp_path, text).speaking_style["ja"] == "短く話す。\n元気に。"


def test_nothing_in_it_can_be_changed(tmp_path: Path) -> None:
    persona = load(tmp_path, GOOD)
    with pytest.raises(AttributeError):
        persona.name = "x"  # type: ignore[misc]
    for mapping in (
        persona.first_person,
        persona.speaking_style,
        persona.readings,
        persona.voice_emoji,
        persona.voice_styles,
        persona.emotions[0].meaning,
    ):
        with pytest.raises(TypeError):
            mapping["ja"] = "x"  # type: ignore[index]


def test_hash_changes_with_content_and_not_with_comments(tmp_path: Path) -> None:
    first = load(tmp_path, GOOD).content_hash
    assert load(tmp_path, "# a comment / 注釈\n" + GOOD).content_hash == first
    assert load(tmp_path, GOOD.replace("わたし", "おれ")).content_hash != first
    assert load(tmp_path, GOOD.replace("[ja, en]", "[en, ja]")).content_hash != first
    assert load(tmp_path, GOOD + "voice_emoji: {happy: 😆}").content_hash != first
    assert load(tmp_path, GOOD + "voice_styles: {happy: あまあま}").content_hash != first
    assert len(first) == 16


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # unknown, missing, twice
        ("name: テスター", "nmae: テスター", ":2: nmae: is not known here. Did you mean name?"),
        ("readings:", "qqqqqqq:", ":11: qqqqqqq: is not known here. Allowed: persona_id, name,"),
        ("en: I}", "de: Ich}", ":4: first_person.de: is not known here. Allowed: ja, en."),
        ("name: テスター\n", "", ":1: name: is missing."),
        (", en: I}", "}", ":4: first_person.en: is missing, and languages has en."),
        ("{ja: うれしい, en: happy}", "{ja: うれしい}", ":8: emotions.happy.en: is missing"),
        ("  happy:", "  neutral:", ":8: emotions.neutral: is written twice; the first is in line 7."),
        ("readings:", "name: x\nreadings:", ":11: name: is written twice; the first is in line 2."),
        ("  neutral:", "  netural:", ":7: emotions: must have neutral."),
        ("  none:", "  nothing:", ":10: actions: must have none."),
        # wrong types
        ("テスター", "12", ":2: name: found a number (12); allowed: text. If it is meant as text"),
        ("テスター", "true", ":2: name: found true or false (true); allowed: text."),
        ("テスター", "2024-01-01", ":2: name: found a date (2024-01-01); allowed: text."),
        ("テスター", "", ":2: name: found nothing; allowed: text."),
        ("テスター", "~", ":2: name: found nothing (~); allowed: text."),
        ("テスター", "[a]", ":2: name: found a list; allowed: text."),
        ("テスター", "!!python/name:os.system x", ":2: name: found the tag "),
        ("  happy:", "  12:", ":8: emotions (a name in it): found a number (12); allowed: text."),
        ("{ja: わたし, en: I}", "わたし", ":4: first_person: found the tag"),
        ("[ja, en]", "ja", ":3: languages: found"),
        # wrong values
        ("tester", "My Robot", ":1: persona_id: found My Robot; allowed: snake_case"),
        ("  happy:", "  Happy:", ":8: emotions: found Happy; allowed: snake_case"),
        ("  happy:", "  look-left:", ":8: emotions: found look-left; allowed: snake_case"),
        ("[ja, en]", "[ja, fr]", ":3: languages: found fr; allowed: ja and en."),
        ("[ja, en]", "[ja, ja]", ":3: languages: ja is written twice."),
        ("[ja, en]", "[]", ":3: languages: is empty"),
        ("readings:", "answer_length: long\nreadings:", ":11: answer_length: found long; allowed: one_sentence,"),
        ("readings:", "zone: Asia/Tokio\nreadings:", ":11: zone: found Asia/Tokio; allowed: an IANA zone such as "),
        ("readings:", "zone: ../etc\nreadings:", ":11: zone: found ../etc"),
        ("readings:", "zone: Asia\nreadings:", ":11: zone: found Asia;"),
        ("ピーシー", "pc", ":12: readings.PC: found pc; allowed: full-width kana"),
        ("ピーシー", "ﾋﾟｰｼｰ", ":12: readings.PC: found ﾋﾟｰｼｰ; allowed: full-width kana"),
        ("  PC:", "  電脳:", ":12: readings.電脳: allowed: a word in Latin letters."),
        ("  PC: ピーシー", "  PC: ピーシー\n  pc: ピー", ":13: readings.pc: is the same word as PC."),
        ("テスター", "あ" * 41, ":2: name: has 41 characters; allowed: at most 40."),
        ("テスター", '"a\\x07b"', ":2: name: holds the control character U+0007."),
        ("テスター", '"a\\nb"', ":2: name: holds the control character U+000A."),
        ("テスター", '"\\ud800"', ":2: name: holds the control character U+D800."),
        ("テスター", '"  "', ":2: name: is empty."),
    ],
)
def test_mistake_names_line_and_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) >= 1
    assert failure(tmp_path, GOOD.replace(old, new, 1)).startswith(message)


def test_old_yaml_boolean_asked_for_by_directive_is_refused(tmp_path: Path) -> None:
    text = "%YAML 1.1\n---\n" + GOOD.replace("テスター", "off")
    assert failure(tmp_path, text).startswith(":4: name: found true or false (off); allowed: text.")


def test_misspelt_zone_names_the_nearest(tmp_path: Path) -> None:
    assert failure(tmp_path, GOOD + "zone: Asia/Tokio\n").endswith("Did you mean Asia/Tokyo?")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [a\nzone: b\n", ":2:5: is not valid YAML: "),
        ("a: b\n\tc: d\n", ":2:1: is not valid YAML: "),
        ('name: "a\n', ":2:1: is not valid YAML: "),
        ("name: a\nzone: *nowhere\n", ":2:7: is not valid YAML: "),
        ("a: b\n---\nc: d\n", ":2:1: is not valid YAML: "),
        ("あ: い\nname: a\x07b\n", ":2:8: is not valid YAML: a control character is not allowed."),
        ("name: " + "[" * 5000, ": is not valid YAML: nested too deeply."),
    ],
)
def test_broken_yaml_names_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    assert failure(tmp_path, text).startswith(message)


def test_alias_that_contains_itself(tmp_path: Path) -> None:
    assert "emotions.neutral" in failure(
        tmp_path, GOOD.replace("  neutral: {ja: ふつう, en: calm}", "  neutral: &a [*a]")
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", ": is empty."),
        (b"# only a comment\n", ": is empty."),
        ("name: a\nzone: 家\n".encode("shift_jis"), ":2: is not UTF-8."),
        ("name: a\n".encode("utf-16"), ":1: is not UTF-8."),
        (b"- a\n", ":1: the file: found a list"),
        (b"#" * 65_537, ": is larger than 64 KiB."),
    ],
)
def test_file_that_is_no_persona(tmp_path: Path, raw: bytes, message: str) -> None:
    assert failure(tmp_path, raw).startswith(message)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file") as caught:
        load_persona(tmp_path / "persona.yaml")
    assert caught.value.code == "persona_invalid"


def test_path_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_persona(tmp_path)


def test_search_order_is_setting_then_data_folder_then_default(tmp_path: Path) -> None:
    assert find_persona(tmp_path) == default_persona_path()
    assert own_persona(tmp_path) is None
    own = tmp_path / "persona.yaml"
    own.write_text(GOOD, encoding="utf-8")
    assert find_persona(tmp_path) == own_persona(tmp_path) == own
    assert find_persona(tmp_path, Path("/else/where.yaml")) == Path("/else/where.yaml")


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    link = tmp_path / "persona.yaml"
    link.symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_persona(find_persona(tmp_path))


def installed_at(monkeypatch: pytest.MonkeyPatch, site: Path, files: list[importlib.metadata.PackagePath]) -> None:
    monkeypatch.setattr(server.persona, "__file__", str(site / "server" / "persona.py"))
    monkeypatch.setattr("sys.prefix", str(site / "nowhere"))
    monkeypatch.setattr(importlib.metadata, "files", lambda name: files)


def test_installed_persona_is_found_by_the_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python" / "site-packages"
    site.mkdir(parents=True)
    shared = tmp_path / "share" / "stackchan" / "persona.yaml"
    shared.parent.mkdir(parents=True)
    shared.write_text(GOOD, encoding="utf-8")
    (site / "stackchan_server-0.dist-info").mkdir()
    (site / "stackchan_server-0.dist-info" / "METADATA").write_text("Name: stackchan-server\nVersion: 0\n")
    (site / "stackchan_server-0.dist-info" / "RECORD").write_text("../../../share/stackchan/persona.yaml,,\n")
    distribution = importlib.metadata.Distribution.at(site / "stackchan_server-0.dist-info")
    installed_at(monkeypatch, site, distribution.files or [])
    assert default_persona_path() == shared


def test_persona_is_found_beside_a_moved_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "share" / "stackchan" / "persona.yaml"
    shared.parent.mkdir(parents=True)
    shared.write_text(GOOD, encoding="utf-8")
    installed_at(monkeypatch, tmp_path, [])
    assert default_persona_path() == shared


def test_installation_without_persona_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed_at(monkeypatch, tmp_path, [])
    with pytest.raises(ConfigError, match="Install the server again"):
        default_persona_path()


# --- how a feeling reaches the voice ---


def test_the_default_persona_has_an_emoji_for_every_feeling_but_the_calm_one() -> None:
    persona = load_persona(default_persona_path())
    assert persona.voice_emoji == VOICE_EMOJI
    assert {emotion.id for emotion in persona.emotions} - set(persona.voice_emoji) == {"neutral"}


@pytest.mark.parametrize(
    ("lines", "emoji"),
    [
        ("", {"happy": "😊"}),
        ("voice_emoji:", {"happy": "😊"}),
        ("voice_emoji: {}", {"happy": "😊"}),
        ("voice_emoji: {happy: 😆}", {"happy": "😆"}),
        ("voice_emoji: {happy: 😆💥, neutral: 🫶}", {"happy": "😆💥", "neutral": "🫶"}),
        ("voice_emoji: {happy: 😮‍💨, neutral: ⏸️}", {"happy": "😮‍💨", "neutral": "⏸️"}),
        ("voice_emoji: {happy: 👍🏽}", {"happy": "👍🏽"}),
        ("voice_emoji: {happy: }", {}),
    ],
)
def test_the_files_emoji_stand_in_place_of_the_usual_ones(tmp_path: Path, lines: str, emoji: dict[str, str]) -> None:
    assert load(tmp_path, GOOD + lines).voice_emoji == emoji


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("voice_emoji: {hapy: 😊}", "voice_emoji.hapy: is not known here. Did you mean happy?"),
        ("voice_emoji: {sad: 😭}", "voice_emoji.sad: is not known here."),
        ("voice_emoji: {happy: うれしい}", "voice_emoji.happy: found うれしい; allowed: emoji, such as 😊."),
        ("voice_emoji: {happy: '😊!'}", "voice_emoji.happy: found 😊!; allowed: emoji, such as 😊."),
        ("voice_emoji: {happy: '1'}", "voice_emoji.happy: found 1; allowed: emoji"),
        ('voice_emoji: {happy: "\\u200d"}', "voice_emoji.happy: found"),
        ("voice_emoji: {happy: ''}", "voice_emoji.happy: is empty."),
        ("voice_emoji: {happy: " + "😊" * 13 + "}", "voice_emoji.happy: has 13 characters; allowed: at most 12."),
        ("voice_emoji: [😊]", "voice_emoji: found a list"),
        ("voice_styles: {hapy: あまあま}", "voice_styles.hapy: is not known here. Did you mean happy?"),
        ("voice_styles: {happy: }", "voice_styles.happy: found nothing; allowed: text."),
        ("voice_styles: {happy: 3}", "voice_styles.happy: found a number (3); allowed: text."),
    ],
)
def test_a_mistake_in_them_names_the_place(tmp_path: Path, lines: str, message: str) -> None:
    told = failure(tmp_path, GOOD + lines)
    assert told.startswith(f":{GOOD.count(chr(10)) + 1}: ")
    assert message in told


def test_styles_of_the_voice_are_kept_as_written(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).voice_styles == {}
    assert load(tmp_path, GOOD + "voice_styles: {happy: あまあま, neutral: '3'}").voice_styles == {
        "happy": "あまあま",
        "neutral": "3",
    }
