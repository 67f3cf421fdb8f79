"""The native codec: whatever comes becomes a message or a `BadMessage`; whatever is said is valid JSON."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from server.audio.frames import FrameCutter
from server.devices.message_fields import MAX_FRAME_BYTES
from server.devices.native import MAX_SENT_CHARACTERS, NativeCodec, decode_device, downlink_audio, encode_server
from server.devices.native_client import decode_server, encode_device
from server.devices.wire import (
    AudioFormat,
    AudioFrame,
    BadMessage,
    Capabilities,
    Command,
    CommandResult,
    DeviceCodec,
    DeviceError,
    DeviceEvent,
    DeviceHello,
    Ignored,
    Levels,
    Ping,
    Sentence,
    SpeechFrame,
    Transcript,
    TurnAnswer,
)
from server.errors import LlmError
from tests.firmware.vector_messages import FROM_DEVICE, FROM_SERVER

pytestmark = pytest.mark.unit

HELLO = DeviceHello("desk", AudioFormat("pcm16", 16_000, 20))


def refused(text: str) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        decode_device(text, Ignored())
    return caught.value


# --- both directions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, _, m in FROM_DEVICE])
def test_a_device_is_understood_as_it_meant(message):
    assert decode_device(encode_device(message), Ignored()) == message


@pytest.mark.parametrize("message", [pytest.param(m, id=name) for name, m in FROM_SERVER])
def test_the_server_is_understood_as_it_meant(message):
    assert decode_server(encode_server(message), Ignored()) == message


def test_sound_travels_as_it_is():
    data = bytes(range(256))
    assert decode_device(data, Ignored()) == AudioFrame(data)
    assert encode_server(SpeechFrame(data)) == data
    assert decode_server(data, Ignored()) == SpeechFrame(data)
    assert encode_device(AudioFrame(data)) == data
    assert decode_device(b"", Ignored()) == AudioFrame(b"")


def test_a_codec_counts_for_its_own_connection():
    first, second = NativeCodec(), NativeCodec()
    codec: DeviceCodec = first
    assert codec.decode('{"type":"sneeze"}') is None
    assert codec.decode('{"type":"ping","loud":true}') == Ping()
    with pytest.raises(BadMessage):
        codec.decode('{"type":"listen","state":"?","new":1}')
    assert (first.ignored, second.ignored) == (Ignored(1, 1), Ignored())
    assert codec.encode(Transcript("はい", True)) == ('{"type":"transcript","text":"はい","final":true}',)


# --- what is too large --------------------------------------------------------------------------------------------


def padded(size_bytes: int, filler: str = " ") -> str:
    text = '{"type":"ping","x":"' + filler * ((size_bytes - 22) // len(filler.encode())) + '"}'
    return text + " " * (size_bytes - len(text.encode()))


@pytest.mark.parametrize("filler", ["a", "あ", "🙂"])
def test_a_text_frame_is_measured_in_bytes(filler):
    assert len(padded(MAX_FRAME_BYTES, filler).encode()) == MAX_FRAME_BYTES
    assert decode_device(padded(MAX_FRAME_BYTES, filler), Ignored()) == Ping()
    assert refused(padded(MAX_FRAME_BYTES + 1, filler)).code == "message_too_large"
    assert refused(filler * 5_000_000).code == "message_too_large"


def test_a_binary_frame_has_the_same_limit():
    assert decode_device(bytes(MAX_FRAME_BYTES), Ignored()) == AudioFrame(bytes(MAX_FRAME_BYTES))
    for decode in (decode_device, decode_server):
        with pytest.raises(BadMessage) as caught:
            decode(bytes(MAX_FRAME_BYTES + 1), Ignored())
        assert caught.value.code == "message_too_large"


def test_small_values_are_kept_and_larger_ones_refused():
    def event(value: str) -> str:
        return '{"type":"event","kind":"touch","value":' + value + "}"

    deep, wide = "[" * 8 + "]" * 8, "[" + ",".join("1" * 255) + "]"
    assert decode_device(event(deep), Ignored()) == DeviceEvent("touch", json.loads(deep))
    assert decode_device(event(wide), Ignored()) == DeviceEvent("touch", [1] * 255)
    assert decode_device(event("1" + "0" * 300), Ignored()) == DeviceEvent("touch", 10**300)
    assert decode_device(event('"' + "x" * 16_000 + '"'), Ignored()) == DeviceEvent("touch", "x" * 16_000)
    for value in (f"[{deep}]", '{"a":' * 9 + "1" + "}" * 9, f"[{wide}]", "1" + "0" * 400, "[1e400]", '{"a":-1e999}'):
        assert refused(event(value)).field == "event.value"


MANY_OBJECTS = "{" + ",".join(f'"{n}":{{}}' for n in range(1_700)) + "}"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("[" + "[]," * 5_000 + "0]", id="lists"),
        pytest.param("[" * 8_000 + "]" * 8_000, id="deep"),
        pytest.param("[" + "0," * 8_000 + "0]", id="numbers"),
        pytest.param(MANY_OBJECTS, id="objects"),
        pytest.param('"' + "\\u0000" * 2_600 + '"', id="escapes"),
        pytest.param("1" * 16_000, id="digits"),
        pytest.param("1e" + "9" * 16_000, id="exponent"),
    ],
)
def test_no_frame_needs_much_memory_and_nothing_of_it_stays(value):
    text = '{"type":"event","kind":"touch","x":' + value + ',"value":' + '"kept"}'
    assert len(text) <= MAX_FRAME_BYTES
    ignored = Ignored()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            message = decode_device(text, ignored)
        except BadMessage:
            message = None
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message in (None, DeviceEvent("touch", "kept"))
    assert now - before < 8 * 1024
    assert peak - before < 64 * MAX_FRAME_BYTES


# --- strangers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\ud800", '{"type":"pi\udfffng"}', '{"type":"event","kind":"touch","value":"\ud83d"}']
)
def test_text_that_no_socket_brings_is_refused_too(text):
    assert refused(text).code == "json_invalid"


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"hello","protocol":1,"device_id":"s3cret s3cret","audio":{}}',
        '{"type":"hello","protocol":1,"device_id":"desk","session_id":"s3cret s3cret","audio":'
        '{"format":"pcm16","sample_rate":16000,"frame_ms":20}}',
        '{"type":"listen","state":"s3cret"}',
        '{"type":"abort","reason":"s3cret\\n"}',
        '{"type":"s3cret","type":"s3cret"}',
        '{"s3cret":1}',
        "s3cret",
    ],
)
def test_an_error_never_repeats_what_was_sent(text):
    error = refused(text)
    assert "s3cret" not in str(error)
    assert error.message


def test_a_token_is_not_shown():
    hello = replace(HELLO, token="s3cret")
    assert decode_device(encode_device(hello), Ignored()) == hello
    assert "s3cret" not in repr(hello)


@pytest.mark.parametrize("ids", ["[1]", '["Happy"]', '["a b"]', '[""]', '["9"]', '"happy"', "1", '{"happy":true}'])
def test_a_capability_that_is_no_list_of_ids_is_refused(ids):
    text = '{"type":"hello","protocol":1,"device_id":"d","audio":{"format":"pcm16","sample_rate":8000,"frame_ms":10},'
    assert refused(text + f'"capabilities":{{"actions":{ids}}}}}').field == "hello.capabilities.actions"


def test_as_many_capabilities_as_an_id_list_may_have():
    ids = tuple(f"face_{n}" for n in range(64))
    hello = replace(HELLO, capabilities=Capabilities(emotions=ids))
    assert decode_device(encode_device(hello), Ignored()) == hello
    more = encode_device(replace(HELLO, capabilities=Capabilities(emotions=(*ids, "face_64"))))
    assert isinstance(more, str)
    assert refused(more).field == "hello.capabilities.emotions"


@pytest.mark.parametrize("text", ["太郎", "O'Neil", "👨‍👩‍👧‍👦", " x ", "\u202e"])
def test_speakers_have_every_name(text):
    hello = replace(HELLO, speaker_id=text)
    assert decode_device(encode_device(hello), Ignored()) == hello


@pytest.mark.parametrize("character", ["\x00", "\n", "\r", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_no_name_breaks_a_line_of_the_log(character):
    frame = encode_device(replace(HELLO, speaker_id=f"a{character}b"))
    assert isinstance(frame, str)
    assert refused(frame).field == "hello.speaker"


# --- what the server says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [("cut \ud83d", "cut \ufffd"), ("\udc00\ud800", "\ufffd\ufffd"), ("\ud83d\ude00", "😀"), ("\0", "\0")],
)
def test_half_a_character_becomes_a_mark(text, shown):
    frame = encode_server(Sentence(1, text))
    assert isinstance(frame, str)
    frame.encode()
    assert json.loads(frame)["text"] == shown


def test_numbers_that_json_has_not_become_null():
    command = encode_server(Command(1, "volume", {"percent": float("inf"), "more": [1, float("nan"), (2.5,)]}))
    assert command == '{"type":"command","id":1,"name":"volume","args":{"percent":null,"more":[1,null,[2.5]]}}'
    levels = encode_server(Levels(1, 0, (float("nan"), float("inf"), -0.2, 1.7, 0.375, np.float32(0.1))))  # type: ignore[arg-type]
    assert json.loads(levels)["values"] == pytest.approx([0, 0, 0, 1, 0.38, 0.1])


def test_long_text_is_shortened_for_a_small_memory():
    long = "あ" * 10_000
    error = DeviceError("internal", long, False)
    for message, field in ((Transcript(long, True), "text"), (Sentence(1, long), "text"), (error, "message")):
        text = json.loads(encode_server(message))[field]
        assert (len(text), text[-2:]) == (MAX_SENT_CHARACTERS, "あ…")
    frame = encode_server(TurnAnswer({"turn_id": 1, "reply": long, "transcript": long, "error": None}))
    assert len(frame.encode()) < MAX_FRAME_BYTES  # type: ignore[union-attr]
    assert {len(json.loads(frame)[name]) for name in ("reply", "transcript")} == {MAX_SENT_CHARACTERS}
    exact = "x" * MAX_SENT_CHARACTERS
    assert json.loads(encode_server(Transcript(exact, True)))["text"] == exact


def test_an_answer_cannot_pose_as_another_message():
    assert json.loads(encode_server(TurnAnswer({"type": "command", "reply": None}))) == {"type": "turn", "reply": None}


def test_what_is_no_message_for_that_side_is_a_mistake_of_ours():
    with pytest.raises(TypeError, match="Ping"):
        encode_server(Ping())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Transcript"):
        encode_device(Transcript("", True))  # type: ignore[arg-type]


def test_an_error_is_told_with_what_to_do():
    error = DeviceError.of(LlmError("Too slow.", code="llm_timeout", retryable=True, hint="Ask again."))
    assert error == DeviceError("llm_timeout", "Too slow. Ask again.", True)


# --- sound downwards ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [8_000, 8_001, 11_025, 16_000, 22_050, 44_056, 44_100, 47_999, 48_000, 12_345])
def test_every_pcm_that_can_be_asked_for_is_answered_with_frames_that_can_be_made(rate_hz):
    for frame_ms in range(10, 121):
        answer = downlink_audio(AudioFormat("pcm16", rate_hz, frame_ms))
        samples = FrameCutter(answer.format, answer.sample_rate_hz, answer.frame_ms).frame_samples
        assert 2 * samples <= MAX_FRAME_BYTES
        assert abs(answer.sample_rate_hz - rate_hz) <= 500
        assert abs(answer.frame_ms - frame_ms) <= 30
        assert downlink_audio(answer) == answer


@pytest.mark.parametrize("rate_hz", [8_000, 12_000, 16_000, 24_000, 48_000])
def test_every_opus_that_can_be_asked_for_too(rate_hz):
    for frame_ms in range(10, 121):
        answer = downlink_audio(AudioFormat("opus", rate_hz, frame_ms))
        assert (answer.format, answer.sample_rate_hz) == ("opus", rate_hz)
        assert answer.frame_ms in (10, 20, 40, 60, 80, 100, 120)
        assert abs(answer.frame_ms - frame_ms) <= 10


def test_results_keep_what_they_say():
    text = '{"type":"result","id":2147483647,"ok":false,"value":["音量",0.5,null,true]}'
    assert decode_device(text, Ignored()) == CommandResult(2**31 - 1, False, ["音量", 0.5, None, True])
