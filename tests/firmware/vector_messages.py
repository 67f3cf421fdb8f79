"""The golden messages of the native protocol: what is written, and what it means. Written by hand, one case a line.

`make_vectors.py` writes them to `firmware/vectors/`, where tests in three languages read them. Knows nothing of files.
"""

from __future__ import annotations

from server.devices.wire import (
    Abort,
    Action,
    AudioFormat,
    Capabilities,
    Command,
    CommandResult,
    DeviceError,
    DeviceEvent,
    DeviceHello,
    Face,
    FromDevice,
    Levels,
    ListenStart,
    ListenStop,
    Ping,
    Played,
    Pong,
    Sentence,
    ServerHello,
    SpeechStart,
    SpeechStop,
    State,
    ToDevice,
    Transcript,
    TurnAnswer,
)

SESSION_ID = "01KB7Q3V9G2M4N6P8R0S2T4V6X"
PCM_UP = AudioFormat("pcm16", 16_000, 20)
OPUS_UP = AudioFormat("opus", 16_000, 60)
OPUS_DOWN = AudioFormat("opus", 24_000, 60)
LEAST_HELLO = (
    '{"type":"hello","protocol":1,"device_id":"desk","audio":{"format":"pcm16","sample_rate":16000,"frame_ms":20}'
)

FROM_DEVICE: tuple[tuple[str, str, FromDevice], ...] = (
    ("hello, the least", LEAST_HELLO + "}", DeviceHello("desk", PCM_UP)),
    (
        "hello, everything",
        '{"type":"hello","protocol":1,"device_id":"24:6f:28:aa:bb:cc","firmware":"cores3-0.1.0",'
        '"audio":{"format":"opus","sample_rate":16000,"frame_ms":60},'
        '"capabilities":{"echo_cancel":true,"levels":true,"emotions":["neutral","happy"],"actions":["none","nod"]},'
        f'"speaker":"speaker-1","session_id":"{SESSION_ID}","token":"a secret"}}',
        DeviceHello(
            "24:6f:28:aa:bb:cc",
            OPUS_UP,
            "cores3-0.1.0",
            Capabilities(True, True, ("neutral", "happy"), ("none", "nod")),
            "speaker-1",
            SESSION_ID,
            "a secret",
        ),
    ),
    (
        "hello, everything that came later, too",
        '{"type":"hello","protocol":1,"device_id":"24:6f:28:aa:bb:cc","firmware":"cores3-0.2.0",'
        '"audio":{"format":"opus","sample_rate":16000,"frame_ms":60},'
        '"voice":{"format":"opus","sample_rate":24000,"frame_ms":60},'
        '"capabilities":{"echo_cancel":true,"levels":true,"emotions":["neutral","happy"],"actions":["none","nod"],'
        '"commands":["volume","mute"]},'
        f'"speaker":"speaker-1","session_id":"{SESSION_ID}","token":"a secret"}}',
        DeviceHello(
            "24:6f:28:aa:bb:cc",
            OPUS_UP,
            "cores3-0.2.0",
            Capabilities(True, True, ("neutral", "happy"), ("none", "nod"), ("volume", "mute")),
            "speaker-1",
            SESSION_ID,
            "a secret",
            OPUS_DOWN,
        ),
    ),
    (
        "hello, every command",
        LEAST_HELLO + ',"capabilities":{"commands":true}}',
        DeviceHello("desk", PCM_UP, capabilities=Capabilities(commands=None)),
    ),
    (
        "hello, every emotion and no action",
        LEAST_HELLO + ',"capabilities":{"emotions":true,"actions":false}}',
        DeviceHello("desk", PCM_UP, capabilities=Capabilities(actions=())),
    ),
    (
        "hello, null is not there",
        LEAST_HELLO + ',"firmware":null,"capabilities":null,"speaker":null,"session_id":null,"token":null}',
        DeviceHello("desk", PCM_UP),
    ),
    (
        "hello, numbers with a point, in another order, with spaces",
        '{ "audio": { "frame_ms": 20.0, "sample_rate": 1.6e4, "format": "pcm16" }, "device_id": "desk", '
        '"protocol": 1.0, "type": "hello" }',
        DeviceHello("desk", PCM_UP),
    ),
    ("listen, the server finds the end", '{"type":"listen","state":"start","mode":"auto"}', ListenStart("auto")),
    ("listen, push to talk", '{"type":"listen","state":"start","mode":"manual"}', ListenStart("manual")),
    ("listen, open microphone", '{"type":"listen","state":"start","mode":"realtime"}', ListenStart("realtime")),
    ("listen, no mode", '{"type":"listen","state":"start"}', ListenStart("auto")),
    ("listen, over", '{"type":"listen","state":"stop"}', ListenStop()),
    ("abort", '{"type":"abort","reason":"touch"}', Abort("touch")),
    ("abort, no reason", '{"type":"abort"}', Abort()),
    ("played", '{"type":"played","turn_id":384,"ms":1260}', Played(384, 1260)),
    ("played, nothing", '{"type":"played","turn_id":9007199254740991,"ms":0}', Played(2**53 - 1, 0)),
    ("event, no value", '{"type":"event","kind":"shake"}', DeviceEvent("shake")),
    ("event, text", '{"type":"event","kind":"touch","value":"頭"}', DeviceEvent("touch", "頭")),
    ("event, number", '{"type":"event","kind":"battery","value":0.5}', DeviceEvent("battery", 0.5)),
    (
        "event, object",
        '{"type":"event","kind":"touch","value":{"x":12,"y":-3,"long":false}}',
        DeviceEvent("touch", {"x": 12, "y": -3, "long": False}),
    ),
    ("ping", '{"type":"ping"}', Ping()),
    ("result, done", '{"type":"result","id":1,"ok":true}', CommandResult(1, True)),
    (
        "result, with a value",
        '{"type":"result","id":2,"ok":true,"value":{"percent":40}}',
        CommandResult(2, True, {"percent": 40}),
    ),
    (
        "result, cannot",
        '{"type":"result","id":3,"ok":false,"value":"unknown_command"}',
        CommandResult(3, False, "unknown_command"),
    ),
)

ANSWER = {
    "turn_id": 384,
    "session_id": SESSION_ID,
    "status": "done",
    "outcome": "ok",
    "transcript": "前に買った富士通のPC、なんだっけ？",
    "language": "ja",
    "reply": "中古で三万円だったデスクトップだよ。",
    "emotion": "happy",
    "action": "nod",
    "audio": {"url": "/v1/turns/384/audio", "format": "wav", "sample_rate": 24000, "duration_ms": 180},
    "memory": {"searched": True, "memory_ids": ["mem_01KB7Q3V9G2M4N6P8R0S2T4V6Z"], "source_checked": False},
    "latency_ms": {"asr": 94, "first_audio": 412},
    "error": None,
}
FROM_SERVER: tuple[tuple[str, ToDevice], ...] = (
    ("hello", ServerHello(SESSION_ID, OPUS_DOWN, "スタックチャン", "ja")),
    ("state, idle", State("idle")),
    ("state, listening", State("listening")),
    ("state, thinking", State("thinking")),
    ("state, speaking", State("speaking")),
    ("state, error", State("error")),
    ("transcript, may change", Transcript("前に買った", False)),
    ("transcript, final", Transcript("前に買った富士通のPC、なんだっけ？", True)),
    ("transcript, quotes and an emoji", Transcript('"C:\\" 🤖\n', True)),
    ("face", Face("happy")),
    ("action", Action("look_left")),
    ("levels", Levels(384, 0, (0.0, 0.37, 1.0))),
    ("speech, start", SpeechStart(384)),
    ("speech, sentence", Sentence(384, "中古で三万円だった")),
    ("speech, stop", SpeechStop(384)),
    ("turn", TurnAnswer(ANSWER)),
    ("error", DeviceError("llm_timeout", "The model took too long.", True)),
    ("pong", Pong()),
    ("command", Command(7, "volume", {"percent": 40})),
    ("command, no arguments", Command(8, "cancel_timers")),
    ("command, quieter", Command(9, "volume", {"change": -20})),
    ("command, microphone", Command(10, "mute", {"on": True})),
)

# Name, text, code, field.
REFUSED: tuple[tuple[str, str, str, str | None], ...] = (
    ("nothing", "", "json_invalid", None),
    ("half", '{"type":"pi', "json_invalid", None),
    ("two", '{"type":"ping"}{"type":"ping"}', "json_invalid", None),
    ("a list", '["ping"]', "json_invalid", None),
    ("a name twice", '{"type":"ping","type":"abort"}', "json_invalid", None),
    ("a name twice, written differently", '{"type":"ping","\\u0074ype":"ping"}', "json_invalid", None),
    ("a name twice, deep inside", '{"type":"event","kind":"touch","value":{"x":1,"x":2}}', "json_invalid", None),
    ("not a number", '{"type":"played","turn_id":NaN,"ms":0}', "json_invalid", None),
    ("half a character", '{"type":"abort","reason":"\\ud800"}', "json_invalid", None),
    ("too deep to read", '{"type":"event","kind":"touch","value":' + "[" * 300 + "]" * 300 + "}", "json_invalid", None),
    ("no type", '{"state":"start"}', "field_missing", "type"),
    ("type null", '{"type":null}', "field_missing", "type"),
    ("type a number", '{"type":1}', "field_invalid", "type"),
    ("another protocol", LEAST_HELLO.replace(":1,", ":2,", 1) + "}", "protocol_unsupported", "hello.protocol"),
    ("protocol true", LEAST_HELLO.replace(":1,", ":true,", 1) + "}", "field_invalid", "hello.protocol"),
    ("no device", LEAST_HELLO.replace('"device_id":"desk",', "") + "}", "field_missing", "hello.device_id"),
    ("device with a space", LEAST_HELLO.replace("desk", "my desk") + "}", "device_id_invalid", "hello.device_id"),
    ("device of 65", LEAST_HELLO.replace("desk", "d" * 65) + "}", "device_id_invalid", "hello.device_id"),
    ("device in kana", LEAST_HELLO.replace("desk", "つくえ") + "}", "device_id_invalid", "hello.device_id"),
    ("session with a space", LEAST_HELLO + ',"session_id":"a b"}', "session_id_invalid", "hello.session_id"),
    ("no audio", '{"type":"hello","protocol":1,"device_id":"desk"}', "field_missing", "hello.audio"),
    ("audio a list", '{"type":"hello","protocol":1,"device_id":"desk","audio":[]}', "field_invalid", "hello.audio"),
    ("mp3", LEAST_HELLO.replace("pcm16", "mp3") + "}", "audio_unsupported", "hello.audio.format"),
    ("7,999 Hz", LEAST_HELLO.replace("16000", "7999") + "}", "audio_unsupported", "hello.audio.sample_rate"),
    ("48,001 Hz", LEAST_HELLO.replace("16000", "48001") + "}", "audio_unsupported", "hello.audio.sample_rate"),
    ("rate true", LEAST_HELLO.replace("16000", "true") + "}", "audio_unsupported", "hello.audio.sample_rate"),
    (
        "rate 10^400",
        LEAST_HELLO.replace("16000", "1" + "0" * 400) + "}",
        "audio_unsupported",
        "hello.audio.sample_rate",
    ),
    ("rate 1e400", LEAST_HELLO.replace("16000", "1e400") + "}", "audio_unsupported", "hello.audio.sample_rate"),
    ("rate as text", LEAST_HELLO.replace("16000", '"16000"') + "}", "audio_unsupported", "hello.audio.sample_rate"),
    ("frames of 9 ms", LEAST_HELLO.replace(":20", ":9") + "}", "audio_unsupported", "hello.audio.frame_ms"),
    ("frames of 121 ms", LEAST_HELLO.replace(":20", ":121") + "}", "audio_unsupported", "hello.audio.frame_ms"),
    ("frames of 20.5 ms", LEAST_HELLO.replace(":20", ":20.5") + "}", "audio_unsupported", "hello.audio.frame_ms"),
    (
        "opus of 44.1 kHz",
        LEAST_HELLO.replace("pcm16", "opus").replace("16000", "44100") + "}",
        "audio_unsupported",
        "hello.audio.sample_rate",
    ),
    (
        "echo_cancel 1",
        LEAST_HELLO + ',"capabilities":{"echo_cancel":1}}',
        "field_invalid",
        "hello.capabilities.echo_cancel",
    ),
    (
        "an emotion with a space",
        LEAST_HELLO + ',"capabilities":{"emotions":["so so"]}}',
        "field_invalid",
        "hello.capabilities.emotions",
    ),
    (
        "voice as mp3",
        LEAST_HELLO + ',"voice":{"format":"mp3","sample_rate":24000,"frame_ms":60}}',
        "audio_unsupported",
        "hello.voice.format",
    ),
    (
        "a command in capitals",
        LEAST_HELLO + ',"capabilities":{"commands":["Volume"]}}',
        "field_invalid",
        "hello.capabilities.commands",
    ),
    ("firmware with a line end", LEAST_HELLO + ',"firmware":"1\\n2"}', "field_invalid", "hello.firmware"),
    ("firmware of 65", LEAST_HELLO + ',"firmware":"' + "f" * 65 + '"}', "field_invalid", "hello.firmware"),
    ("speaker of 65", LEAST_HELLO + ',"speaker":"' + "話" * 65 + '"}', "field_invalid", "hello.speaker"),
    ("token of 513", LEAST_HELLO + ',"token":"' + "t" * 513 + '"}', "field_invalid", "hello.token"),
    ("listen without state", '{"type":"listen","mode":"auto"}', "field_missing", "listen.state"),
    ("listen to another state", '{"type":"listen","state":"detect"}', "field_invalid", "listen.state"),
    ("listen in another mode", '{"type":"listen","state":"start","mode":"loud"}', "field_invalid", "listen.mode"),
    ("a reason of 65", '{"type":"abort","reason":"' + "r" * 65 + '"}', "field_invalid", "abort.reason"),
    ("played, no turn", '{"type":"played","ms":0}', "field_missing", "played.turn_id"),
    ("played, turn 0", '{"type":"played","turn_id":0,"ms":0}', "field_invalid", "played.turn_id"),
    ("played, turn 2^53", '{"type":"played","turn_id":9007199254740992,"ms":0}', "field_invalid", "played.turn_id"),
    ("played, less than nothing", '{"type":"played","turn_id":1,"ms":-1}', "field_invalid", "played.ms"),
    ("event in capitals", '{"type":"event","kind":"Touch"}', "field_invalid", "event.kind"),
    (
        "event, 9 deep",
        '{"type":"event","kind":"touch","value":' + "[" * 9 + "]" * 9 + "}",
        "field_invalid",
        "event.value",
    ),
    ("event, infinite", '{"type":"event","kind":"touch","value":[-1e400]}', "field_invalid", "event.value"),
    (
        "event, 257 values",
        '{"type":"event","kind":"touch","value":[' + ",".join("0" * 256) + "]}",
        "field_invalid",
        "event.value",
    ),
    ("result 0", '{"type":"result","id":0,"ok":true}', "field_invalid", "result.id"),
    ("result, ok as text", '{"type":"result","id":1,"ok":"true"}', "field_invalid", "result.ok"),
)

# Name, text, types passed over, fields passed over, what is understood.
IGNORED_OF_DEVICE: tuple[tuple[str, str, int, int, FromDevice | None], ...] = (
    ("a type of tomorrow", '{"type":"smell","value":"coffee"}', 1, 0, None),
    ("a type without a name", '{"type":""}', 1, 0, None),
    ("a type in capitals", '{"type":"PING"}', 1, 0, None),
    ("fields of tomorrow", '{"type":"ping","at":[1,{"b":null}],"c":1e400}', 0, 2, Ping()),
    (
        "fields of tomorrow within fields",
        LEAST_HELLO[:-1] + ',"channels":1},"capabilities":{"camera":true},"mood":"good"}',
        0,
        3,
        DeviceHello("desk", PCM_UP),
    ),
    ("a mode where none is needed", '{"type":"listen","state":"stop","mode":"auto"}', 0, 0, ListenStop()),
)
IGNORED_OF_SERVER: tuple[tuple[str, str, int, int, ToDevice | None], ...] = (
    ("a type of tomorrow", '{"type":"weather","text":"rain"}', 1, 0, None),
    ("fields of tomorrow", '{"type":"face","emotion":"happy","blend":0.5}', 0, 1, Face("happy")),
)

# What a device sends, and how it is answered.
AUDIO_ANSWERS: tuple[tuple[AudioFormat, AudioFormat], ...] = (
    (AudioFormat("pcm16", 16_000, 20), AudioFormat("pcm16", 16_000, 20)),
    (AudioFormat("pcm16", 8_000, 10), AudioFormat("pcm16", 8_000, 10)),
    (AudioFormat("pcm16", 48_000, 120), AudioFormat("pcm16", 48_000, 120)),
    (AudioFormat("pcm16", 44_100, 33), AudioFormat("pcm16", 44_100, 30)),
    (AudioFormat("pcm16", 22_050, 30), AudioFormat("pcm16", 22_050, 20)),
    (AudioFormat("pcm16", 11_025, 20), AudioFormat("pcm16", 11_025, 40)),
    (AudioFormat("pcm16", 44_056, 33), AudioFormat("pcm16", 44_000, 33)),
    (AudioFormat("opus", 16_000, 60), AudioFormat("opus", 16_000, 60)),
    (AudioFormat("opus", 48_000, 10), AudioFormat("opus", 48_000, 10)),
    (AudioFormat("opus", 24_000, 30), AudioFormat("opus", 24_000, 20)),
    (AudioFormat("opus", 24_000, 51), AudioFormat("opus", 24_000, 60)),
    (AudioFormat("opus", 8_000, 119), AudioFormat("opus", 8_000, 120)),
)

# First bytes of a packet in hexadecimal, and its length (RFC 6716, 3.1); 0: no packet.
OPUS_LENGTHS: tuple[tuple[str, float], ...] = (
    ("", 0),
    ("00", 10),
    ("08", 20),
    ("58", 60),
    ("59", 120),
    ("5a", 120),
    ("5b02", 120),
    ("5b03", 0),
    ("60", 10),
    ("78", 20),
    ("80", 2.5),
    ("e0", 2.5),
    ("f8fffe", 20),
    ("fb03", 60),
    ("fb86", 120),
    ("fb07", 0),
    ("fb00", 0),
    ("fb", 0),
)
