"""Who the robot is: the frozen `Persona`, read from `persona.yaml`, which is data only.

Checks everything once, so that no later room has to. This module does not know prompts, faces or servos: emotions and
actions are IDs with a meaning in words.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
import unicodedata
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast, get_args

from server.config_errors import nearest
from server.errors import ConfigError
from server.persona_yaml import Node, YamlFile, is_null, read_yaml

AnswerLength = Literal["one_sentence", "two_sentences", "short_paragraph"]

PERSONA_NAME = "persona.yaml"
LANGUAGES = ("ja", "en")
"""What the server can speak, ISO 639-1."""
NEUTRAL_EMOTION = "neutral"
NO_ACTION = "none"

MAX_NAME_CHARACTERS = 40
MAX_FIRST_PERSON_CHARACTERS = 20
MAX_STYLE_CHARACTERS = 400
MAX_MEANING_CHARACTERS = 40
MAX_READING_CHARACTERS = 80
MAX_IDS = 32
MAX_READINGS = 300
MAX_EMOJI_CHARACTERS = 12
MAX_VOICE_STYLE_CHARACTERS = 80

VOICE_EMOJI: Mapping[str, str] = MappingProxyType(
    {"happy": "😊", "sad": "😭", "angry": "😠", "doubt": "🤔", "sleepy": "😪", "surprised": "😲"}
)
"""What Irodori-TTS reads before the words to speak with a feeling; a calm voice needs none."""

_DISTRIBUTION = "stackchan-server"
_REQUIRED = ("persona_id", "name", "languages", "first_person", "speaking_style", "emotions", "actions")
_OPTIONAL = ("answer_length", "zone", "readings", "voice_emoji", "voice_styles")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_KANA = re.compile(r"[ぁ-ゖァ-ヺー]+")


@dataclass(frozen=True, slots=True)
class PersonaId:
    """An emotion or action: the ID that travels, and what it means in each language."""

    id: str
    meaning: Mapping[str, str]


@dataclass(frozen=True)
class Persona:
    """One character. Mappings are read-only."""

    persona_id: str
    name: str
    first_person: Mapping[str, str]
    """Language -> how it says "I"."""
    speaking_style: Mapping[str, str]
    """Language -> how it speaks."""
    answer_length: AnswerLength
    languages: tuple[str, ...]
    """ISO 639-1 codes; the default comes first."""
    zone: str
    """IANA time zone of the house."""
    emotions: tuple[PersonaId, ...]
    actions: tuple[PersonaId, ...]
    readings: Mapping[str, str]
    """Latin word -> kana; no two words differ only in case."""
    voice_emoji: Mapping[str, str] = field(default_factory=lambda: VOICE_EMOJI)
    """Emotion -> the emoji that a voice which understands them is given before the words; others have none."""
    voice_styles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Emotion -> style of the speaker, where a voice has styles; others are chosen by their names."""

    @cached_property
    def content_hash(self) -> str:
        """16 hexadecimal digits that change with anything in the persona; comments do not count."""
        content = {
            "persona_id": self.persona_id,
            "name": self.name,
            "first_person": dict(self.first_person),
            "speaking_style": dict(self.speaking_style),
            "answer_length": self.answer_length,
            "languages": self.languages,
            "zone": self.zone,
            # Lists of pairs: the order of IDs reaches the prompt, so it counts.
            "emotions": [(item.id, dict(item.meaning)) for item in self.emotions],
            "actions": [(item.id, dict(item.meaning)) for item in self.actions],
            "readings": dict(self.readings),
            "voice_emoji": dict(self.voice_emoji),
            "voice_styles": dict(self.voice_styles),
        }
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_persona(data_dir: Path, persona_path: Path | None = None) -> Path:
    """The persona file to use: the one set, else the owner's in `data_dir`, else the one that comes with the server."""
    return own_persona(data_dir, persona_path) or default_persona_path()


def own_persona(data_dir: Path, persona_path: Path | None = None) -> Path | None:
    """The file that `find_persona` finds, unless it is the one that comes with the server."""
    if persona_path is not None:
        return persona_path
    own = data_dir / PERSONA_NAME
    # A link that leads nowhere is a mistake to be told, not a persona to be passed over.
    return own if own.exists() or own.is_symlink() else None


def default_persona_path() -> Path:
    """The `persona.yaml` that comes with the server: beside the package in a checkout, in `share/` when installed.

    Raises `ConfigError` when the installation lost it.
    """
    package_parent = Path(__file__).resolve().parent.parent
    candidates = [package_parent / PERSONA_NAME] if (package_parent / "pyproject.toml").exists() else []
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    candidates += [Path(str(file.locate())) for file in files if file.name == PERSONA_NAME]
    # `pip install --target` moves the files without telling their record.
    candidates += [root / "share" / "stackchan" / PERSONA_NAME for root in (package_parent, Path(sys.prefix))]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise ConfigError(
        "The persona.yaml that comes with the server is missing.",
        code="persona_invalid",
        hint="Install the server again, or put a persona.yaml into the data folder.",
    )


def load_persona(path: Path) -> Persona:
    """Read and check a persona file. Raises `ConfigError` (`persona_invalid`) naming file, line and field."""
    file = read_yaml(path)
    fields = file.mapping(file.root, "", known=(*_REQUIRED, *_OPTIONAL))
    values = {name: value for name, (_, value) in fields.items() if not (name in _OPTIONAL and is_null(value))}
    for name in _REQUIRED:
        if name not in values:
            raise file.fail(file.root, name, "is missing.")

    languages = _languages(file, values["languages"])
    emotions = _ids(file, values["emotions"], "emotions", languages, must_have=NEUTRAL_EMOTION)
    emotion_ids = tuple(emotion.id for emotion in emotions)
    return Persona(
        persona_id=_snake_case(file, values["persona_id"], "persona_id"),
        name=file.text(values["name"], "name", max_characters=MAX_NAME_CHARACTERS),
        first_person=_by_language(
            file, values["first_person"], "first_person", languages, max_characters=MAX_FIRST_PERSON_CHARACTERS
        ),
        speaking_style=_by_language(
            file,
            values["speaking_style"],
            "speaking_style",
            languages,
            max_characters=MAX_STYLE_CHARACTERS,
            multiline=True,
        ),
        answer_length=_answer_length(file, values.get("answer_length")),
        languages=languages,
        zone=_zone(file, values.get("zone")),
        emotions=emotions,
        actions=_ids(file, values["actions"], "actions", languages, must_have=NO_ACTION),
        readings=_readings(file, values.get("readings")),
        voice_emoji=_voice_emoji(file, values.get("voice_emoji"), emotion_ids),
        voice_styles=_voice_styles(file, values.get("voice_styles"), emotion_ids),
    )


def _languages(file: YamlFile, node: Node) -> tuple[str, ...]:
    found: list[str] = []
    for item in file.sequence(node, "languages"):
        code = file.text(item, "languages", max_characters=20)
        if code not in LANGUAGES:
            raise file.fail(item, "languages", f"found {code}; allowed: {' and '.join(LANGUAGES)}.")
        if code in found:
            raise file.fail(item, "languages", f"{code} is written twice.")
        found.append(code)
    if not found:
        raise file.fail(node, "languages", f"is empty; allowed: {' and '.join(LANGUAGES)}.")
    return tuple(found)


def _by_language(
    file: YamlFile, node: Node, field: str, languages: tuple[str, ...], *, max_characters: int, multiline: bool = False
) -> Mapping[str, str]:
    entries = file.mapping(node, field, known=LANGUAGES)
    for code in languages:
        if code not in entries:
            raise file.fail(node, f"{field}.{code}", f"is missing, and languages has {code}.")
    return MappingProxyType(
        {
            code: file.text(value, f"{field}.{code}", max_characters=max_characters, multiline=multiline)
            for code, (_, value) in entries.items()
        }
    )


def _ids(
    file: YamlFile, node: Node, field: str, languages: tuple[str, ...], *, must_have: str
) -> tuple[PersonaId, ...]:
    entries = file.mapping(node, field)
    if must_have not in entries:
        raise file.fail(node, field, f"must have {must_have}.")
    if len(entries) > MAX_IDS:
        raise file.fail(node, field, f"has {len(entries)} entries; allowed: at most {MAX_IDS}.")
    return tuple(
        PersonaId(
            id=_snake_case(file, key, field),
            meaning=_by_language(file, value, f"{field}.{name}", languages, max_characters=MAX_MEANING_CHARACTERS),
        )
        for name, (key, value) in entries.items()
    )


def _readings(file: YamlFile, node: Node | None) -> Mapping[str, str]:
    if node is None:
        return MappingProxyType({})
    entries = file.mapping(node, "readings")
    if len(entries) > MAX_READINGS:
        raise file.fail(node, "readings", f"has {len(entries)} entries; allowed: at most {MAX_READINGS}.")
    readings: dict[str, str] = {}
    seen: dict[str, str] = {}
    for name, (key, value) in entries.items():
        word = unicodedata.normalize("NFKC", name)
        if not _is_latin(word):
            raise file.fail(key, f"readings.{name}", "allowed: a word in Latin letters.")
        earlier = seen.setdefault(word.casefold(), name)
        if earlier != name:
            raise file.fail(key, f"readings.{name}", f"is the same word as {earlier}.")
        readings[word] = _kana(file, value, f"readings.{name}")
    return MappingProxyType(readings)


def _voice_emoji(file: YamlFile, node: Node | None, emotions: tuple[str, ...]) -> Mapping[str, str]:
    """The usual ones, changed by the file's; an empty value takes one away."""
    chosen = dict(VOICE_EMOJI)
    entries = file.mapping(node, "voice_emoji", known=emotions) if node is not None else {}
    for emotion, (_, value) in entries.items():
        chosen[emotion] = "" if is_null(value) else _emoji(file, value, f"voice_emoji.{emotion}")
    return MappingProxyType({emotion: emoji for emotion, emoji in chosen.items() if emoji and emotion in emotions})


def _emoji(file: YamlFile, node: Node, field: str) -> str:
    text = file.text(node, field, max_characters=MAX_EMOJI_CHARACTERS)
    # Symbols, their colours, and what joins them: anything else would be read aloud.
    if not any(unicodedata.category(character) == "So" for character in text) or any(
        unicodedata.category(character) not in ("So", "Sk", "Mn", "Me", "Cf") for character in text
    ):
        raise file.fail(node, field, f"found {text}; allowed: emoji, such as 😊.")
    return text


def _voice_styles(file: YamlFile, node: Node | None, emotions: tuple[str, ...]) -> Mapping[str, str]:
    entries = file.mapping(node, "voice_styles", known=emotions) if node is not None else {}
    return MappingProxyType(
        {
            emotion: file.text(value, f"voice_styles.{emotion}", max_characters=MAX_VOICE_STYLE_CHARACTERS)
            for emotion, (_, value) in entries.items()
        }
    )


def _is_latin(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    return bool(letters) and all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)


def _kana(file: YamlFile, node: Node, field: str) -> str:
    text = file.text(node, field, max_characters=MAX_READING_CHARACTERS)
    if not _KANA.fullmatch(text):
        raise file.fail(node, field, f"found {text}; allowed: full-width kana (ひらがな or カタカナ) and ー.")
    return text


def _snake_case(file: YamlFile, node: Node, field: str) -> str:
    text = file.text(node, field, max_characters=MAX_NAME_CHARACTERS)
    if not _SNAKE_CASE.fullmatch(text):
        raise file.fail(node, field, f"found {text}; allowed: snake_case, such as look_left.")
    return text


def _answer_length(file: YamlFile, node: Node | None) -> AnswerLength:
    if node is None:
        return "one_sentence"
    allowed = get_args(AnswerLength)
    text = file.text(node, "answer_length", max_characters=MAX_NAME_CHARACTERS)
    if text not in allowed:
        raise file.fail(node, "answer_length", f"found {text}; allowed: {', '.join(allowed)}.")
    return cast(AnswerLength, text)


def _zone(file: YamlFile, node: Node | None) -> str:
    if node is None:
        return "Asia/Tokyo"
    name = file.text(node, "zone", max_characters=64)
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        best = nearest(name, sorted(zoneinfo.available_timezones()))
        hint = f" Did you mean {best}?" if best else ""
        raise file.fail(node, "zone", f"found {name}; allowed: an IANA zone such as Asia/Tokyo.{hint}") from None
    return name
