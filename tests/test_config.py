"""Settings: where they come from, which wins, and what a mistake is answered with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, SecretStr

from server.config import Settings, describe_settings, load_settings
from server.errors import ConfigError

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parent.parent / "docs" / "configuration.md"


def load(data_dir: Path, toml: str = "", env: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    if toml:
        (data_dir / "stackchan.toml").write_text(toml, encoding="utf-8")
    return load_settings({"STACKCHAN_DATA_DIR": str(data_dir), **(env or {})}, **overrides)


def failure(data_dir: Path, toml: str = "", env: Mapping[str, str] | None = None, **overrides: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(data_dir, toml, env, **overrides)
    return caught.value


def test_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.profile, settings.host, settings.port, settings.world) == ("embedded", "127.0.0.1", 8000, "home")
    assert settings.data_dir == tmp_path
    assert settings.token is None
    assert settings.persona_path is None
    assert settings.model_dir == Path.home() / ".cache" / "stackchan"
    assert settings.asr.model is None
    assert settings.limits.upload_bytes == 4 * 1024 * 1024


def test_data_dir_defaults_to_the_home_folder() -> None:
    assert Settings().data_dir == Path.home() / ".local" / "share" / "stackchan"


def test_constructor_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKCHAN_PORT", "9999")
    assert Settings().port == 8000


def test_env_none_reads_the_process_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STACKCHAN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("STACKCHAN_PORT", "9999")
    assert load_settings().port == 9999


def test_file_then_environment_then_overrides(tmp_path: Path) -> None:
    toml = "port = 1\n[vad]\nthreshold = 0.1\n[llm]\nseed = 11\n"
    assert load(tmp_path, toml).port == 1
    env = {"STACKCHAN_PORT": "2", "STACKCHAN_VAD__THRESHOLD": "0.2"}
    settings = load(tmp_path, toml, env)
    assert (settings.port, settings.vad.threshold, settings.llm.seed) == (2, 0.2, 11)
    settings = load(tmp_path, toml, env, port=3, vad__threshold=0.3)
    assert (settings.port, settings.vad.threshold, settings.llm.seed) == (3, 0.3, 11)


def test_override_by_section_keeps_its_other_values(tmp_path: Path) -> None:
    settings = load(tmp_path, "[vad]\nengine = 'other'\n", vad={"threshold": 0.7})
    assert (settings.vad.engine, settings.vad.threshold) == ("other", 0.7)


def test_override_none_is_not_given(tmp_path: Path) -> None:
    assert load(tmp_path, "port = 7\n", port=None).port == 7


def test_empty_environment_value_is_unset(tmp_path: Path) -> None:
    assert load(tmp_path, "port = 7\n", {"STACKCHAN_PORT": "", "STACKCHAN_TOKEN": " "}).port == 7


def test_other_environment_names_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, env={"PORT": "1", "MY_STACKCHAN_PORT": "x"}).port == 8000


def test_file_with_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "stackchan.toml").write_bytes(b"\xef\xbb\xbfport = 9\r\n[vad]\r\nthreshold = 2\r\n")
    assert f"{tmp_path}/stackchan.toml:3: vad.threshold" in failure(tmp_path).message


def test_relative_persona_path_in_file_is_beside_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, "persona_path = 'own.yaml'\n").persona_path == tmp_path / "own.yaml"


def test_relative_persona_path_in_environment_is_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"STACKCHAN_DATA_DIR": "data", "STACKCHAN_PERSONA_PATH": "own.yaml"})
    assert settings.persona_path == tmp_path / "own.yaml"
    assert settings.data_dir == tmp_path / "data"


def test_home_folder_is_expanded(tmp_path: Path) -> None:
    assert load(tmp_path, "model_dir = '~/m'\n").model_dir == Path.home() / "m"


def test_token_is_secret(tmp_path: Path) -> None:
    settings = load(tmp_path, env={"STACKCHAN_TOKEN": "correct-horse"})
    assert isinstance(settings.token, SecretStr)
    assert settings.token.get_secret_value() == "correct-horse"
    assert "correct-horse" not in repr(settings)


@pytest.mark.parametrize("token", ["short", "八文字以上ある合言葉です", "with a space in it"])
def test_bad_token_is_refused_without_repeating_it(tmp_path: Path, token: str) -> None:
    error = failure(tmp_path, env={"STACKCHAN_TOKEN": token})
    assert error.code == "config_invalid"
    assert error.message.startswith("STACKCHAN_TOKEN: token:")
    assert token not in str(error)


@pytest.mark.parametrize(
    ("toml", "place", "name", "suggestion"),
    [
        ("prot = 1\n", ":1:", "prot", "port"),
        ("# 日本語のコメント\n\n[vad]\ntreshold = 0.5\n", ":4:", "vad.treshold", "vad.threshold"),
        ("[lisening]\nend_silence_ms = 1\n", ":1:", "lisening", "listening"),
        ("[llm]\nmax_answer_token = 1\n", ":2:", "llm.max_answer_token", "llm.max_answer_tokens"),
        ("vad.treshold = 0.5\n", ":1:", "vad.treshold", "vad.threshold"),
        ("vad = {engine = 'silero', treshold = 0.5}\n", ":1:", "vad.treshold", "vad.threshold"),
        ("[vad]\nport = 1\n", ":2:", "vad.port", "port at the top of the file"),
        ('text = """\n[vad]\n"""\n', ":1:", "text", ""),
    ],
)
def test_unknown_key_names_line_and_nearest(tmp_path: Path, toml: str, place: str, name: str, suggestion: str) -> None:
    error = failure(tmp_path, toml)
    assert error.code == "config_unknown_key"
    assert error.message.startswith(f"{tmp_path}/stackchan.toml{place} {name}:")
    assert f"Did you mean {suggestion}" in error.message if suggestion else "Did you mean" not in error.message


def test_all_unknown_keys_are_named_at_once(tmp_path: Path) -> None:
    assert len(failure(tmp_path, "a_one = 1\nb_two = 2\n").message.splitlines()) == 2


@pytest.mark.parametrize(
    ("variable", "suggestion"),
    [
        ("STACKCHAN_PROT", "STACKCHAN_PORT"),
        ("STACKCHAN_VAD_THRESHOLD", "STACKCHAN_VAD__THRESHOLD"),
        ("STACKCHAN_VAD__TRESHOLD", "STACKCHAN_VAD__THRESHOLD"),
        ("STACKCHAN_VAD", "STACKCHAN_VAD__..."),
        ("STACKCHAN_DATADIR", "STACKCHAN_DATA_DIR"),
    ],
)
def test_unknown_variable_names_nearest(tmp_path: Path, variable: str, suggestion: str) -> None:
    error = failure(tmp_path, env={variable: "1"})
    assert error.code == "config_unknown_key"
    assert error.message == f"{variable}: there is no such setting. Did you mean {suggestion}?"


def test_unknown_override_names_nearest(tmp_path: Path) -> None:
    assert "Did you mean port?" in failure(tmp_path, prot=1).message


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("port = 70000\n", ":1: port: found 70000; allowed: whole number, 0 to 65535."),
        ("port = 'eighty'\n", ":1: port: found 'eighty'; allowed: whole number, 0 to 65535."),
        ("port = true\n", ":1: port: found True; allowed: whole number, 0 to 65535"),
        ("\n[vad]\nthreshold = nan\n", ":3: vad.threshold: found nan; allowed: number, 0.05 to 0.95."),
        ("[llm]\nseed = [\n 1,\n 2,\n]\n", ":2: llm.seed: found [1, 2]; allowed: whole number, 0 to 2147483647."),
        ("profile = 'quen'\n", ":1: profile: found 'quen'; allowed: choice, embedded or qwen."),
        ("world = '../home'\n", ":1: world: found '../home'; allowed: text, lower-case letters"),
        ("[asr]\nengine = 'Whisper Base'\n", ":2: asr.engine: found 'Whisper Base'; allowed: text, lower-case"),
        ("vad = 3\n", ":1: vad: found 3; allowed: a section, written [vad]."),
        ("data_dir = '/x'\n", ":1: data_dir: cannot be set in the file"),
    ],
)
def test_wrong_value_in_file(tmp_path: Path, toml: str, message: str) -> None:
    error = failure(tmp_path, toml)
    assert error.code == "config_invalid"
    assert f"{tmp_path}/stackchan.toml{message}" in error.message


def test_wrong_value_in_environment_names_the_variable(tmp_path: Path) -> None:
    error = failure(tmp_path, "[llm]\ntemperature = 0.5\n", {"STACKCHAN_LLM__TEMPERATURE": "hot"})
    assert error.message == "STACKCHAN_LLM__TEMPERATURE: llm.temperature: found 'hot'; allowed: number, 0 to 2."


def test_all_wrong_values_are_named_at_once(tmp_path: Path) -> None:
    message = failure(tmp_path, "port = -1\n[vad]\nthreshold = 2\n").message
    assert "vad.threshold" in message
    assert "port: found -1" in message


def test_prompt_that_cannot_fit_the_window(tmp_path: Path) -> None:
    message = failure(tmp_path, "[llm]\ncontext_tokens = 1024\n").message
    assert "session.context_tokens (1200)" in message
    assert "llm.context_tokens (1024)" in message


@pytest.mark.parametrize(
    ("toml", "place"),
    [("port = \n", ":1:8:"), ("port = 1\n[vad\n", ":2:5:"), ("a = [1,\n", ":2:1:"), ("a = 1\na = 2\n", ":2:6:")],
)
def test_broken_toml_names_line_and_column(tmp_path: Path, toml: str, place: str) -> None:
    error = failure(tmp_path, toml)
    assert error.code == "config_invalid"
    assert error.message.startswith(f"{tmp_path}/stackchan.toml{place} is not valid TOML: ")


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "stackchan.toml").write_bytes("port = 1\nworld = '家'\n".encode("shift_jis"))
    assert f"{tmp_path}/stackchan.toml:2: is not UTF-8." in failure(tmp_path).message


def test_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "stackchan.toml").mkdir()
    assert "cannot be read" in failure(tmp_path).message


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from leaves(getattr(value, name))
    else:
        yield value


def test_settings_are_frozen_all_the_way_down(tmp_path: Path) -> None:
    settings = load(tmp_path)
    with pytest.raises(pydantic.ValidationError):
        settings.port = 1  # type: ignore[misc]
    with pytest.raises(pydantic.ValidationError):
        settings.vad.threshold = 0.1  # type: ignore[misc]
    values = list(leaves(settings))
    assert len(values) == len(describe_settings())
    for value in values:
        hash(value)


def table_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def expected_rows() -> list[str]:
    return [
        table_row(
            (
                f"`{row.name}`",
                f"`{row.env}`",
                ", ".join(filter(None, (row.type, row.allowed))),
                f"`{row.default}`" if row.default else "",
                row.doc,
            )
        )
        for row in describe_settings()
    ]


def test_memory_is_on_and_lies_in_the_data_folder(tmp_path: Path) -> None:
    memory = load(tmp_path).memory
    assert (memory.enabled, memory.ingest, memory.backlog_rounds, memory.search_timeout_seconds) == (True, True, 6, 2.0)
    assert (memory.index_kind, memory.index_url, memory.index_api_key) == ("local", None, None)


def test_an_index_server_needs_its_address_and_its_key_is_never_shown(tmp_path: Path) -> None:
    error = failure(tmp_path, "[memory]\nindex_kind = 'server'\n")
    assert error.code == "config_invalid"
    assert "memory.index_url" in error.message
    given = {"STACKCHAN_MEMORY__INDEX_URL": "http://127.0.0.1:6333", "STACKCHAN_MEMORY__INDEX_API_KEY": "key-of-it"}
    memory = load(tmp_path, env=given).memory
    assert memory.index_url == "http://127.0.0.1:6333"
    assert memory.index_api_key is not None
    assert memory.index_api_key.get_secret_value() == "key-of-it"
    assert "key-of-it" not in repr(memory)


def test_every_setting_has_a_description_and_its_unit() -> None:
    for row in describe_settings():
        assert row.doc.endswith("."), row.name


def test_documentation_lists_exactly_the_settings_there_are() -> None:
    documented = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if "| `STACKCHAN_" in line]
    expected = expected_rows()
    assert documented == expected, "The table in docs/configuration.md should be:\n" + "\n".join(expected)


@pytest.mark.parametrize("text", ["port = " + "9" * 5000, "a = " + "[" * 50_000])
def test_a_file_that_overwhelms_the_parser_is_an_error_not_a_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "stackchan.toml").write_text(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)})


def test_a_settings_file_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stackchan.toml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="is not a file"):
        load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)})
    (tmp_path / "stackchan.toml").unlink()
    (tmp_path / "stackchan.toml").write_text("#" * 300_000)
    with pytest.raises(ConfigError, match="is larger than"):
        load_settings({"STACKCHAN_DATA_DIR": str(tmp_path)})
