"""`stackchan doctor` in houses where something is wrong."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from server import __version__
from server.commands import doctor as doctor_module
from server.commands import doctor_checks as checks
from server.commands.doctor import next_steps, run_checks
from server.commands.doctor_checks import Finding
from server.commands.machine import ArithmeticSpeed, measure_arithmetic, memory_bytes, processor_count
from server.commands.speed import LARGER_MODEL, SMALL_MODEL, better_model, judge_speed
from server.config import Settings
from server.config_sections import MemorySettings
from server.engines.hub_gguf import hub_gguf
from server.errors import EmbeddingError, StackChanError
from server.events import Samples
from server.run_file import RunFile, write_run_file
from tests.commands.conftest import Cli
from tests.commands.turn_server import TurnServer
from tests.fakes.engines import FakeEmbedding

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def model_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No models: so nothing heavy is measured either."""
    folder = tmp_path / "models"
    monkeypatch.setenv("STACKCHAN_MODEL_DIR", str(folder))
    return folder


def findings(cli: Cli, *arguments: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any], int]:
    done = cli("doctor", "--json", *arguments)
    diagnosis = json.loads(done.out)
    return {finding["check"]: finding for finding in diagnosis["checks"]}, diagnosis, done.code


def test_missing_models_must_be_pulled_first(cli: Cli) -> None:
    found, diagnosis, code = findings(cli)

    assert code == 1
    assert diagnosis["ok"] is False
    assert found["Models"]["state"] == "fail"
    assert diagnosis["next"][0] == "stackchan models pull"
    assert {name for name, finding in found.items() if finding["state"] == "fail"} == {"Models"}
    assert found["Sound"]["state"] == "info"
    assert diagnosis["speed"]["gflops"] > 0
    assert diagnosis["speed"]["measured"] is False


def test_everything_wrong_at_once_is_told_at_once(cli: Cli, data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "stackchan.toml").write_text("profile = 'embedded'\n\nport = 99999\n", encoding="utf-8")
    (data_dir / "persona.yaml").write_text("name: ''\n", encoding="utf-8")

    found, diagnosis, code = findings(cli)

    assert code == 1
    assert "stackchan.toml:3" in found["Settings"]["detail"]
    assert "persona.yaml" in found["Persona"]["detail"]
    assert [finding["state"] for finding in (found["Settings"], found["Persona"], found["Models"])] == ["fail"] * 3
    assert "stackchan.toml:3" in diagnosis["next"][0]
    assert diagnosis["next"][-1] == "stackchan models pull"


def test_it_is_readable_for_people_too(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 1
    assert "次にすること" in done.out
    assert "1. stackchan models pull" in done.out
    assert "GFLOPS" in done.out
    assert "Traceback" not in done.out + done.err
    assert "\x1b" not in done.out


def test_the_real_set_ups_engines_are_named_or_the_packages_they_lack(cli: Cli) -> None:
    found, _, code = findings(cli, "--profile", "qwen")
    assert code == 1
    engines = found["Engines"]
    lacking = "torch" in engines["detail"] and "stackchan-server[qwen]" in engines["todo"]
    assert lacking or engines["detail"] == "silero, qwen3-asr, openai, irodori, qwen3-embedding"
    assert "irodori_openai_tts" in found["Voice"]["todo"], "nobody speaks here: how to begin"


def test_a_check_that_breaks_hides_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> Finding:
        raise RuntimeError("boom")

    monkeypatch.setattr(checks, "check_machine", broken)
    monkeypatch.setattr(checks, "check_hub", lambda: Finding("Model hub", "info", ""))
    found = run_checks(Settings(data_dir=tmp_path, model_dir=tmp_path), None)
    assert len(found) == 13
    machine = next(finding for finding in found if finding.check == "Machine")
    assert machine.state == "warn"
    assert "boom" in machine.detail


def test_a_model_that_crashes_is_a_finding(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    def crash(*arguments: Any, **options: Any) -> None:
        raise OSError("illegal instruction")

    monkeypatch.setattr(checks, "check_models", lambda settings: Finding("Models", "ok", ""))
    monkeypatch.setattr(doctor_module, "_measure", crash)
    found, _, code = findings(cli)
    assert code == 1
    assert "illegal instruction" in found["Speed"]["detail"]


# One check each


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        finding = checks.check_data_dir(Settings(data_dir=folder))
        assert finding.state == "fail"
        assert str(tmp_path / "file") in finding.detail


def test_a_data_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    finding = checks.check_data_dir(Settings(data_dir=tmp_path / "a" / "b"))
    assert finding.state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_port_taken_by_another_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        finding = checks.check_server(Settings(data_dir=tmp_path, port=port))
    assert finding.state == "fail"
    assert str(port) in finding.detail


def test_a_free_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    assert checks.check_server(Settings(data_dir=tmp_path, port=port)).state == "info"


@pytest.mark.parametrize(
    ("ready", "state"),
    [
        ({"status": "ready"}, "ok"),
        ({"status": "starting"}, "ok"),
        ({"status": "failed", "error": {"code": "tts_failed", "message": "hoarse"}}, "fail"),
    ],
)
def test_a_running_server_is_asked(tmp_path: Path, ready: dict[str, Any], state: str) -> None:
    with TurnServer(ready=ready) as server:
        server.announce(tmp_path)
        finding = checks.check_server(Settings(data_dir=tmp_path))
    assert finding.state == state
    assert __version__ in finding.detail
    assert ready.get("error", {}).get("message", "") in finding.detail


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    write_run_file(tmp_path, RunFile(os.getpid(), f"http://127.0.0.1:{port}", "t", "b"))
    finding = checks.check_server(Settings(data_dir=tmp_path))
    assert finding.state == "fail"
    assert f"kill {os.getpid()}" in (finding.todo or "")


@pytest.mark.parametrize(
    ("total", "free", "state"),
    [(16e9, 8e9, "ok"), (16e9, 1e9, "warn"), (1e9, 0.9e9, "warn")],
)
def test_memory(monkeypatch: pytest.MonkeyPatch, total: float, free: float, state: str) -> None:
    monkeypatch.setattr("server.commands.machine.memory_bytes", lambda: (int(total), int(free)))
    assert checks.check_machine().state == state


def test_memory_that_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.commands.machine.memory_bytes", lambda: None)
    assert checks.check_machine().state == "info"


def test_a_disk_too_full_for_the_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("server.engines.model_files.free_bytes", lambda folder: 500_000_000)
    settings = Settings(data_dir=tmp_path, model_dir=tmp_path)
    assert checks.check_disk(settings).state == "fail"


@pytest.mark.parametrize(
    ("zone", "state", "told"),
    [("Asia/Tokyo", "ok", "06:40 in Asia/Tokyo"), ("UTC", "info", "this computer's is 21:40 (UTC)")],
)
def test_a_clock_of_another_zone_than_the_robots_is_told(tmp_path: Path, zone: str, state: str, told: str) -> None:
    settings = Settings(data_dir=tmp_path)
    here = datetime(2026, 11, 30, 21, 40, tzinfo=UTC).astimezone(ZoneInfo(zone))
    found = checks.check_clock(settings, here)
    assert found.state == state
    assert told in found.detail
    assert (found.todo is None) is (state == "ok")


def test_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_python().state == "ok"
    monkeypatch.setattr("sys.version_info", (3, 14, 0))
    assert checks.check_python().state == "fail"


# What comes next


def test_failures_come_before_warnings_and_nothing_is_said_twice() -> None:
    found = [
        Finding("A", "warn", "", "later"),
        Finding("B", "fail", "", "first"),
        Finding("C", "fail", "", "first"),
        Finding("D", "fail", ""),
    ]
    assert next_steps(found, None) == ["first", "See what is said above under D.", "later"]


def test_when_all_is_well_it_says_how_to_begin() -> None:
    stopped, running = Finding("Server", "info", ""), Finding("Server", "ok", "")
    assert next_steps([stopped], None) == ["stackchan serve", 'stackchan talk "こんにちは"']
    assert next_steps([running], None) == ['stackchan talk "こんにちは"']


def test_with_a_hub_in_reach_a_better_model_is_named_with_the_line_that_selects_it() -> None:
    steps = next_steps([Finding("Server", "ok", ""), Finding("Model hub", "ok", "")], None)
    assert f'model = "{SMALL_MODEL.name}"' in steps[-2]
    assert "stackchan models pull" in steps[-1]
    for model in (SMALL_MODEL, LARGER_MODEL):
        assert str(hub_gguf(model.name)) == model.name


# How fast


def test_a_faster_machine_answers_sooner_and_bears_the_larger_model() -> None:
    slow = judge_speed(ArithmeticSpeed(gflops=20, gigabytes_per_second=5), [])
    fast = judge_speed(ArithmeticSpeed(gflops=800, gigabytes_per_second=60), [])
    assert fast.first_sound_seconds < slow.first_sound_seconds
    assert (better_model(slow), better_model(fast), better_model(None)) == (SMALL_MODEL, LARGER_MODEL, SMALL_MODEL)
    assert "good conversation" in fast.meaning
    assert "estimated" in fast.meaning


def test_measured_stages_count_more_than_arithmetic() -> None:
    from server.commands.bench import Measure

    measures = [
        Measure("speak", "", 0.3, 1.0, 4.0),
        Measure("hear", "", 1.5, 1.0, 3.0),
        Measure("read a prompt", "", 0.5, 1.0, 50),
        Measure("write", "", 1.0, 0.0, 20),
    ]
    speed = judge_speed(ArithmeticSpeed(gflops=1, gigabytes_per_second=1), measures)
    assert speed.measured
    assert speed.hear_seconds == 1.5
    assert speed.think_seconds == pytest.approx(45 * 0.01 + 22 * 0.05)
    assert speed.speak_seconds == pytest.approx(0.1)
    assert speed.looked_up_seconds == pytest.approx(speed.first_sound_seconds + 24 * 0.05 + 0.03 + 90 * 0.01)
    with_search = judge_speed(
        ArithmeticSpeed(gflops=1, gigabytes_per_second=1), [*measures, Measure("remember", "", 2.03, 0.0, 1)]
    )
    assert with_search.looked_up_seconds == pytest.approx(speed.looked_up_seconds + 2.0)


def test_a_good_conversation_is_one_that_also_answers_out_of_memory() -> None:
    from server.commands.bench import Measure

    stages = {"speak": 0.3, "hear": 0.5, "read a prompt": 0.5, "write": 0.4}
    units = {"read a prompt": 50, "write": 20}
    machine = ArithmeticSpeed(gflops=1, gigabytes_per_second=1)
    measures = [Measure(stage, "", seconds, 0.0, units.get(stage, 3.0)) for stage, seconds in stages.items()]
    good = judge_speed(machine, measures)
    assert "good conversation" in good.meaning
    slow = judge_speed(machine, [*measures, Measure("remember", "", 6.0, 0.0, 1)])
    assert slow.first_sound_seconds == good.first_sound_seconds
    assert "good conversation" not in slow.meaning
    assert f"{slow.looked_up_seconds:.1f} s when it looks into its memory" in slow.meaning


@pytest.mark.parametrize("language", ["ja", "en"])
async def test_a_model_that_does_not_find_what_is_asked_for_is_no_good(language: str) -> None:
    from server.commands.bench import ASKED, REMEMBERED, _remember

    class Finds(FakeEmbedding):
        best = 0

        async def embed_documents(self, texts: Sequence[str]) -> Samples:
            assert tuple(texts) == REMEMBERED[language]
            return np.eye(4, dtype=np.float32)[: len(texts)]

        async def embed_queries(self, texts: Sequence[str]) -> Samples:
            assert list(texts) == [ASKED[language]]
            return np.eye(4, dtype=np.float32)[self.best : self.best + 1]

    class FindsAnother(Finds):
        best = 1

    engine = Finds()
    assert (await _remember(engine, language)).stage == "remember"
    assert (engine.started, engine.closed) == (1, 1)
    with pytest.raises(EmbeddingError, match="does not find a memory by its meaning"):
        await _remember(FindsAnother(), language)


def test_the_machine_is_measured_in_bounded_time() -> None:
    measured = measure_arithmetic(seconds=0.05)
    assert measured.gflops > 0.1
    assert measured.gigabytes_per_second > 0.1


@pytest.mark.parametrize(("load", "told"), [(3.5, True), (0.4, False)])
def test_a_busy_machine_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch, load: float, told: bool) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("server.commands.machine.processor_count", lambda: 2)
    found, _, _ = findings(cli)
    assert ("load 3.5" in found["Speed"]["detail"]) is told


def test_facts_about_this_machine_make_sense() -> None:
    assert 1 <= processor_count() <= (os.cpu_count() or 1)
    memory = memory_bytes()
    assert memory is not None
    assert 0 < memory[1] <= memory[0]


def test_a_problem_of_the_settings_keeps_the_folders(cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKCHAN_PORT", "http")
    found, _, _ = findings(cli)
    assert str(data_dir) in found["Data folder"]["detail"]
    assert "STACKCHAN_PORT" in found["Settings"]["detail"]


def test_a_broken_setting_is_an_error_with_a_place() -> None:
    problem = StackChanError("a.toml:3: port: found 'x'\nb", hint="Look.")
    finding = checks.check_settings(Settings(), problem)
    assert finding.todo == "Correct a.toml:3: port: found 'x' Look."


def memory_finding(data_dir: Path, memories: int | None, **memory: Any) -> Finding:
    if memories is not None:
        folder = data_dir / "worlds" / "home"
        folder.mkdir(parents=True)
        with closing(sqlite3.connect(folder / "session.sqlite")) as db, db:
            db.execute("CREATE TABLE recall_items (status TEXT)")
            db.executemany("INSERT INTO recall_items VALUES (?)", [("active",)] * memories + [("forgotten",)])
    return checks.check_memory(Settings(data_dir=data_dir, memory=MemorySettings(**memory)))


@pytest.mark.parametrize(
    ("memories", "settings", "state", "word"),
    [
        (None, {}, "info", "nothing remembered"),
        (2, {}, "ok", "2 memories"),
        (5_000, {}, "ok", "5,000"),
        (5_001, {}, "warn", "into memory at each start"),
        (5_001, {"index_kind": "edge"}, "ok", "edge"),
        (2, {"enabled": False}, "info", "turned off"),
    ],
)
def test_many_memories_deserve_another_index(
    tmp_path: Path, memories: int | None, settings: dict[str, Any], state: str, word: str
) -> None:
    finding = memory_finding(tmp_path, memories, **settings)
    assert finding.state == state
    assert word in finding.detail
    assert ("memory rebuild" in (finding.todo or "")) == (state == "warn")


def test_a_damaged_memory_hinders_no_doctor(tmp_path: Path) -> None:
    folder = tmp_path / "worlds" / "home"
    folder.mkdir(parents=True)
    (folder / "session.sqlite").write_bytes(b"no database")
    assert checks.check_memory(Settings(data_dir=tmp_path)).state == "info"
