"""`stackchan serve` as a process, with fake engines: what its owner sees, and how it starts and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from tests.commands.serve_process import READY, ServeProcess

pytestmark = pytest.mark.integration


def url_of(server: ServeProcess) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", server.wait_for("Page"))
    assert found
    return found[0]


def wait_for_a_running_turn(data_dir: Path, timeout_seconds: float = 20.0) -> None:
    """Return once a turn is stored as running."""
    end = time.monotonic() + timeout_seconds
    while True:
        with closing(sqlite3.connect(data_dir / "worlds" / "home" / "session.sqlite")) as db:
            if db.execute("SELECT count(*) FROM turns WHERE status = 'running'").fetchone()[0]:
                return
        assert time.monotonic() < end, "no turn began"
        time.sleep(0.05)


def test_start_talk_and_stop(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for(READY)
        url = url_of(server)
        assert httpx2.get(f"{url}/readyz", trust_env=False).json() == {"status": "ready"}
        done = server.talk("こんにちは", "--json")
        code = server.stop()

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "nod"
    assert code == 0
    assert not (tmp_path / "run.json").exists()
    for told in (
        str(tmp_path),
        f'stackchan talk --data-dir {tmp_path} "こんにちは"',
        "Ctrl-C",
        "speaking (fake)",
        "hearing (fake)",
    ):
        assert told in server.output
    assert "\x1b" not in server.output
    assert "Traceback" not in server.output


def test_the_token_is_shown_once_and_works(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for(READY)
        shown = server.wait_for("Token").split()[-1]
        url = url_of(server)
        server.wait_for("控えておいて")
        headers = {"Authorization": f"Bearer {shown}", "Device-Id": "desk"}
        answer = httpx2.post(f"{url}/v1/turns", json={"text": "hi"}, headers=headers, trust_env=False)
        server.stop()
    with ServeProcess(tmp_path) as server:
        server.wait_for(READY)
        server.wait_for("Ctrl-C")
        server.stop()

    assert answer.status_code == 200
    assert "Token" not in server.output
    assert shown not in server.output


def test_the_run_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "new") as server:
        server.wait_for(READY)
        mode = stat.S_IMODE((tmp_path / "new" / "run.json").stat().st_mode)
        server.stop()
    assert mode == 0o600


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for(READY)
        code = server.stop(signal.SIGINT)
    assert code == 0
    assert server.lines[-1].startswith("Stopped.")
    assert "Traceback" not in server.output


def test_a_turn_in_progress_ends_before_the_server_does(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "2"}) as server, ThreadPoolExecutor(1) as pool:
        server.wait_for(READY)
        talking = pool.submit(server.talk, "hello", "--json")
        wait_for_a_running_turn(tmp_path)
        code = server.stop()
        done = talking.result()
    assert code == 0
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "ok"


def test_a_turn_that_does_not_end_cannot_keep_the_server(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "600"}) as server, ThreadPoolExecutor(1) as pool:
        server.wait_for(READY)
        talking = pool.submit(server.talk, "hello", "--json")
        wait_for_a_running_turn(tmp_path)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("Stopping")
        server.process.send_signal(signal.SIGTERM)
        code = server.ends(15)
        done = talking.result()
    assert code == 0
    assert done.returncode in (1, 4)
    assert "Traceback" not in done.stderr
    assert "Traceback" not in server.output


def test_ctrl_c_cancels_the_model_in_the_middle_of_a_reply(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "thinks"}) as server, ThreadPoolExecutor(1) as pool:
        server.wait_for(READY)
        talking = pool.submit(server.talk, "hello", "--json")
        wait_for_a_running_turn(tmp_path)
        server.process.send_signal(signal.SIGINT)
        server.wait_for("Stopping")
        began = time.monotonic()
        server.wait_for("Stopped.")
        seconds = time.monotonic() - began
        code = server.ends()
        done = talking.result()
    assert code == 0
    assert "cancelled: 1" in server.lines
    # Half a second for the turn, and what the rest takes on a busy machine; the model would have taken a minute.
    assert seconds < 4
    assert json.loads(done.stdout)["error"]["code"] == "stopping"
    assert "返事は途中でも止めます" in server.output
    assert "Traceback" not in server.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_during_the_start_is_clean_too(tmp_path: Path, number: signal.Signals) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for("starting")
        code = server.stop(number)
    assert code == 0
    assert "Traceback" not in server.output


def test_an_engine_that_does_not_start_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, env={"SERVE_FAKE": "fails"}) as server:
        code = server.ends()
    assert code == 1
    assert server.output.count("The voice is hoarse.") == 1
    assert "Give it tea." in server.output
    assert READY not in server.output
    assert "Traceback" not in server.output
    assert not (tmp_path / "run.json").exists()


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with ServeProcess(tmp_path, "--port", str(port)) as server:
            code = server.ends()
    assert code == 1
    assert f"Port {port} is already in use" in server.output
    assert "--port" in server.output
    assert "Traceback" not in server.output


def test_a_second_server_on_the_same_data_is_told_where_the_first_one_is(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as first:
        first.wait_for(READY)
        url = url_of(first)
        with ServeProcess(tmp_path) as second:
            assert second.ends() == 1
        with ServeProcess(tmp_path, "--port", url.rpartition(":")[2]) as third:
            assert third.ends() == 1
        assert first.talk("still there?").returncode == 0
        assert first.stop() == 0
    for refused in (second, third):
        assert str(first.process.pid) in refused.output
        assert url in refused.output
        assert "data_in_use" in refused.output
        assert "Traceback" not in refused.output


def test_a_broken_settings_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "stackchan.toml").write_text("\nport = 'http'\n", encoding="utf-8")
    with ServeProcess(tmp_path, "--host", "127.0.0.1") as server:
        code = server.ends()
    assert code == 1
    assert "stackchan.toml:2" in server.output


def test_a_broken_persona_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "persona.yaml").write_text("persona_id: Not Snake\n", encoding="utf-8")
    with ServeProcess(tmp_path) as server:
        code = server.ends()
    assert code == 1
    assert "persona.yaml" in server.output
    assert "persona_invalid" in server.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with ServeProcess(tmp_path / "data") as server:
        code = server.ends()
    assert code == 1
    assert "Traceback" not in server.output


def test_lan_opens_it_and_says_so(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--lan", "--port", "0") as server:
        server.wait_for("公衆の Wi-Fi")
        answered = server.talk("hello").returncode
        server.stop()
    assert answered == 0
    assert "only the token protects it" in server.output


def test_loopback_is_the_default_and_warns_of_nothing(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as server:
        server.wait_for("Ctrl-C")
        server.stop()
    assert "Robot" not in server.output
    assert "network" not in server.output


def test_an_address_that_is_not_here_is_told(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--host", "192.0.2.1", "--port", "0") as server:
        code = server.ends()
    assert code == 1
    assert "192.0.2.1" in server.output
    assert "--lan" in server.output
