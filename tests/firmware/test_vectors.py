"""The golden vectors are what this server says and understands, and the document shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.audio.stream_intake import StreamIntake
from server.devices.intake_limits import audio_ms, opus_packet_ms
from server.devices.native import decode_device, downlink_audio, encode_server
from server.devices.native_client import decode_server
from server.devices.wire import AudioFormat, BadMessage, Ignored
from server.pipeline.state import TRANSITIONS
from tests.firmware.make_vectors import VECTORS, files, meaning

pytestmark = pytest.mark.unit


def read(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    assert rows
    return rows


def named(name: str) -> Any:
    rows = read(name)
    assert len({(row.get("from"), row["name"]) for row in rows}) == len(rows)
    return [pytest.param(row, id=row["name"]) for row in rows]


def audio_of(wire: dict[str, Any]) -> AudioFormat:
    return AudioFormat(wire["format"], wire["sample_rate"], wire["frame_ms"])


def test_every_file_is_up_to_date_and_no_other_lies_there():
    wanted = dict(files())
    assert [path.name for path, content in wanted.items() if path.read_bytes() != content] == []
    assert {path for path in VECTORS.iterdir() if path.is_file()} == {path for path in wanted if path.parent == VECTORS}
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < 128 * 1024


@pytest.mark.parametrize("vector", named("device_messages.json"))
def test_what_a_device_says_is_understood(vector):
    ignored = Ignored()
    assert meaning(decode_device(vector["text"], ignored)) == vector["means"]
    assert ignored == Ignored()


@pytest.mark.parametrize("vector", named("server_messages.json"))
def test_what_the_server_says_is_written_so(vector):
    ignored = Ignored()
    message = decode_server(vector["text"], ignored)
    assert message is not None
    assert meaning(message) == vector["means"]
    assert encode_server(message) == vector["text"]
    assert ignored == Ignored()


@pytest.mark.parametrize("vector", named("refused.json"))
def test_what_is_wrong_is_refused_by_code_and_place(vector):
    with pytest.raises(BadMessage) as caught:
        decode_device(vector["text"], Ignored())
    assert (caught.value.code, caught.value.field) == (vector["code"], vector["field"])
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("vector", named("ignored.json"))
def test_what_is_not_known_is_passed_over_and_counted(vector):
    ignored = Ignored()
    decode = decode_device if vector["from"] == "device" else decode_server
    assert meaning(decode(vector["text"], ignored)) == vector["means"]
    assert ignored == Ignored(vector["types"], vector["fields"])


def test_every_type_of_message_has_a_vector():
    def seen(name: str) -> set[str]:
        return {json.loads(row["text"])["type"] for row in read(name)}

    assert seen("device_messages.json") == {"hello", "listen", "abort", "played", "event", "ping", "result"}
    assert seen("server_messages.json") == {
        "hello", "state", "transcript", "face", "action", "levels", "speech", "turn", "error", "pong", "command",
    }  # fmt: skip


@pytest.mark.parametrize("vector", read("audio_answers.json"), ids=lambda vector: str(list(vector["asked"].values())))
def test_sound_is_answered_with_the_nearest(vector):
    assert downlink_audio(audio_of(vector["asked"])) == audio_of(vector["answer"])


@pytest.mark.parametrize("vector", read("opus_lengths.json"), ids=lambda vector: vector["first_bytes"] or "none")
def test_the_first_bytes_of_a_packet_tell_its_length(vector):
    assert opus_packet_ms(bytes.fromhex(vector["first_bytes"])) == vector["ms"]


@pytest.mark.parametrize("vector", read("sounds.json"), ids=lambda vector: vector["file"])
def test_a_sound_is_one_frame_of_the_length_it_says(vector):
    data = (VECTORS / vector["file"]).read_bytes()
    assert len(data) == vector["bytes"]
    assert audio_ms(audio_of(vector), data) == vector["frame_ms"]
    intake = StreamIntake(vector["format"], vector["sample_rate"])
    heard = [samples for _ in range(10) for samples in [intake.push(data)]]
    # A tone of 440 Hz, that a decoder of Opus has found by its second frame at the latest.
    crossings = sum(int(((part[:-1] < 0) & (part[1:] >= 0)).sum()) for part in heard[2:])
    seconds = sum(len(part) for part in heard[2:]) / 16_000
    assert crossings / seconds == pytest.approx(440, abs=60)


@pytest.mark.parametrize("vector", named("conversations.json"))
def test_a_conversation_keeps_the_rules(vector):
    steps = vector["steps"]
    ignored = Ignored()
    assert [step["at_ms"] for step in steps] == sorted(step["at_ms"] for step in steps)
    assert json.loads(steps[0]["text"])["type"] == "hello"
    assert steps[0]["from"] == "device"
    assert json.loads(steps[1]["text"])["type"] == "hello"
    state, speaking, open_microphone, asked = None, None, False, set()
    for step in steps:
        if "file" in step:
            assert (VECTORS / step["file"]).exists()
            assert (speaking is not None) if step["from"] == "server" else open_microphone
            continue
        message = json.loads(step["text"])
        decoded = (decode_device if step["from"] == "device" else decode_server)(step["text"], ignored)
        assert decoded is not None
        match message:
            case {"type": "state", "value": value}:
                assert state is None or value in TRANSITIONS[state]
                state = value
            case {"type": "listen", "state": value}:
                open_microphone = value == "start"
            case {"type": "speech", "state": "start", "turn_id": turn_id}:
                assert (state, speaking) == ("speaking", None)
                speaking = turn_id
            case {"type": "speech" | "levels" | "played", "turn_id": turn_id}:
                assert turn_id == speaking
                speaking = None if message.get("state") == "stop" else speaking
            case {"type": "command", "id": number}:
                assert number not in asked
                asked.add(number)
            case {"type": "result", "id": number}:
                asked.remove(number)
    assert (speaking, asked) == (None, set())
    assert ignored == Ignored()
