"""Looking for devices in a process of its own, so that a broken sound system takes nobody with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.commands import sound

pytestmark = pytest.mark.integration


def test_the_probe_answers_whatever_this_computer_has() -> None:
    assert isinstance(sound.DeviceProbe().result(), sound.SoundDevices)


def test_a_sound_system_that_aborts_takes_nobody_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text("import os\nos.abort()\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert sound.DeviceProbe().result().problem is not None


def test_a_sound_system_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sound, "_PROBE_TIMEOUT_SECONDS", 0.5)
    assert sound.DeviceProbe().result().problem is not None


def test_a_probe_nobody_waits_for_ends() -> None:
    probe = sound.DeviceProbe()
    probe.close()
    assert probe.result().problem is not None
