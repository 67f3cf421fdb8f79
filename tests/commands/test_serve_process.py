"""The whole thing as its owner uses it: `stackchan serve` with the real models, `stackchan talk`, and the stop."""

from __future__ import annotations

import json
import re
import signal
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from server.commands.models import model_state, needed_model_ids
from server.config import load_settings
from server.engines.catalogue import load_catalogue
from server.engines.downloads import status
from tests.commands.serve_process import READY, ServeProcess
from tests.language_model import THREADS

pytestmark = pytest.mark.models

START_SECONDS = 300.0
"""Enough on two cores that other tests use too."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """One server for the module; its stop is tested by the last test."""
    settings = load_settings()
    missing = [
        model
        for model in needed_model_ids(settings, load_catalogue())
        if model_state(status(settings.model_dir, [model])) in ("missing", "wrong")
    ]
    if missing:
        pytest.skip(f"models are missing: {', '.join(missing)}; run `stackchan models pull`")
    env = {"STACKCHAN_LLM__THREADS": str(THREADS or 0)}
    with ServeProcess(tmp_path_factory.mktemp("data"), fake=False, env=env) as running:
        running.wait_for(READY, START_SECONDS)
        yield running


def test_the_start_tells_every_engine_and_how_to_go_on(server: ServeProcess) -> None:
    server.wait_for("控えておいて")
    for step in ("finding speech", "hearing", "thinking", "speaking", "meaning", "learning the persona"):
        assert re.search(rf"^  {step} .*\d\.\d s$", server.output, re.MULTILINE), step
    assert "stackchan talk --data-dir " in server.output
    assert str(server.data_dir) in server.output


def test_words_get_a_spoken_answer(server: ServeProcess, tmp_path: Path) -> None:
    out = tmp_path / "answer.wav"
    done = server.talk("こんにちは、元気？", "--json", "--out", str(out))

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["outcome"] == "ok"
    assert answer["transcript"] == "こんにちは、元気？"
    assert answer["reply"]
    with wave.open(str(out)) as file:
        rate_hz, count = file.getframerate(), file.getnframes()
        samples = np.frombuffer(file.readframes(count), dtype="<i2")
    assert rate_hz == answer["audio"]["sample_rate"]
    assert count / rate_hz * 1000 == pytest.approx(answer["audio"]["duration_ms"], abs=2)
    assert np.abs(samples.astype(np.int32)).max() > 1_000


def test_the_spoken_answer_is_heard_when_it_is_said_back(server: ServeProcess, tmp_path: Path) -> None:
    out = tmp_path / "answer.wav"
    server.talk("今日はいい天気だね", "--no-play", "--out", str(out))
    done = server.talk(str(out), "--no-play", "--session", "echo")

    assert done.returncode == 0, done.stderr
    assert re.search(r"^You +\S+", done.stdout, re.MULTILINE)
    assert re.search(r"^asr \(hear\) .*\d ms$", done.stdout, re.MULTILINE)


def test_a_second_server_is_told_where_this_one_is(server: ServeProcess) -> None:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.wait_for("Page"))
    assert found
    for arguments in (("--port", "0"), ("--port", found[1])):
        with ServeProcess(server.data_dir, *arguments, fake=False) as second:
            assert second.ends(120) == 1
        assert f"process {server.process.pid}" in second.output
        assert "Traceback" not in second.output


def test_a_port_in_use_is_told_before_models_load(server: ServeProcess, tmp_path: Path) -> None:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.wait_for("Page"))
    assert found
    with ServeProcess(tmp_path, "--port", found[1], fake=False) as other:
        assert other.ends(120) == 1
    assert f"Port {found[1]} is already in use" in other.output
    assert "hearing" not in other.output


def test_it_stops_cleanly_when_told(server: ServeProcess) -> None:
    assert server.stop(signal.SIGTERM) == 0
    assert not (server.data_dir / "run.json").exists()
    assert server.lines[-1].startswith("Stopped.")
    assert "Traceback" not in server.output
