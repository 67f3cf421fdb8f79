"""Two thousand hostile frames; `scripts/soak frames` sends twenty thousand. And: what is wrong would be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.devices.wire import BadMessage, Ping
from tests.soaks import frames
from tests.soaks.promises import Promise

pytestmark = pytest.mark.unit


def broken(promises: list[Promise]) -> set[str]:
    return {promise.name for promise in promises if not promise.kept}


def test_hostile_frames_break_nothing(tmp_path: Path) -> None:
    report = frames.run(2_000, 3, tmp_path)
    kept = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.txt")}
    assert kept == {}
    assert broken(frames.promises(report)) == set()
    assert report.frames == 2_000
    assert set(report.outcomes) >= frames.CODES
    assert {"understood", "passed over"} <= set(report.outcomes)
    assert set(report.closed) == {"message_too_large", "too_many_bad_messages", "audio_too_fast"}


def test_the_same_seed_sends_the_same(tmp_path: Path) -> None:
    first, second = (frames.run(200, 7, tmp_path) for _ in range(2))
    assert (first.outcomes, first.closed) == (second.outcomes, second.closed)
    assert first.outcomes != frames.run(200, 8, tmp_path).outcomes


def raises(frame, ignored):
    raise KeyError("state")


def unknown_code(frame, ignored):
    raise BadMessage("It is wrong.", code="wrong")


def hoards(frame, ignored, hoard=[]):  # noqa: B006
    hoard.append(bytearray(100_000))
    raise BadMessage("Kept.")


def swells(frame, ignored):
    bytearray(2_000_000)
    raise BadMessage("Gone.")


@pytest.mark.parametrize(
    ("decode", "found"),
    [(raises, "no_other_error"), (unknown_code, "codes"), (hoards, "memory"), (swells, "memory")],
)
def test_a_codec_that_breaks_a_promise_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, decode: object, found: str
) -> None:
    monkeypatch.setattr(frames, "decode_device", decode)
    assert found in broken(frames.soak(40, 1, tmp_path))


def test_a_codec_that_says_something_else_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frames, "encode_device", lambda message: '{"type":"ping"}')
    assert broken(frames.soak(60, 1, tmp_path)) == {"meaning"}
    assert list(tmp_path.glob("*-meaning.frame"))


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_BAD_MESSAGES", 11), ("AUDIO_RATE", 20.0), ("MAX_FRAME_BYTES", 20_000)]
)
def test_a_rule_that_is_not_kept_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: float
) -> None:
    monkeypatch.setattr(f"server.devices.intake_limits.{name}", value)
    assert "rules" in broken(frames.soak(600, 1, tmp_path))


def test_a_type_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frames, "decode_device", lambda frame, ignored: None if isinstance(frame, str) else Ping())
    assert "rules" in broken(frames.soak(40, 1, tmp_path))
