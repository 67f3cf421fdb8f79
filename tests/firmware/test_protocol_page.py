"""firmware/PROTOCOL.md says what the server does: each field's limits are tried, not only compared."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI

from server.commands.web_server import web_config
from server.devices.gaps import MOST_DTX_BYTES, STALL_SECONDS
from server.devices.intake_limits import AUDIO_RATE, AUDIO_WINDOW_SECONDS, MAX_BAD_MESSAGES
from server.devices.message_fields import MAX_FRAME_BYTES
from server.devices.native import decode_device
from server.devices.native_client import decode_server
from server.devices.session import INTERRUPTING
from server.devices.wire import BadMessage, CloseCode, DeviceError, Ignored
from tests.firmware.make_vectors import DOCUMENT, VECTORS
from tests.soaks.frames import CODES

pytestmark = pytest.mark.unit

PAGE = DOCUMENT.read_text(encoding="utf-8")
SIDES = {"device": "From the device", "server": "From the server"}
# The vectors in which every field of their type stands.
FULL = {
    "device": (
        *("hello, everything that came later, too", "listen, push to talk", "abort", "played", "event, text", "ping"),
        "result, with a value",
    ),
    "server": (
        *("hello", "state, idle", "transcript, final", "face", "action", "levels", "speech, sentence", "turn"),
        *("error", "pong", "command"),
    ),
}
OPEN = {"event.value", "result.value", "command.args"}
"""Fields with any content of their own."""


@dataclass(frozen=True)
class Row:
    side: str
    field: str
    type: str
    needed: str
    limit: str


def section(title: str) -> str:
    return PAGE.partition(f"# {title}\n")[2].partition("\n#")[0]


def rows(side: str) -> list[Row]:
    cells = [line.split("|") for line in section(SIDES[side]).splitlines() if line.startswith("| `")]
    cells = [cell for cell in cells if len(cell) == 8]  # the commands have a table of their own
    assert {cell[5].strip() for cell in cells} == {"1"}
    return [Row(side, cell[1].strip(" `"), *(text.strip() for text in cell[2:5])) for cell in cells]


def full(side: str) -> dict[str, dict[str, Any]]:
    """A complete message of each type."""
    vectors = json.loads((VECTORS / f"{side}_messages.json").read_text(encoding="utf-8"))
    messages = [json.loads(vector["text"]) for vector in vectors if vector["name"] in FULL[side]]
    return {message["type"]: message for message in messages}


def decode(side: str, message: object) -> object:
    text = json.dumps(message, ensure_ascii=False)
    return (decode_device if side == "device" else decode_server)(text, Ignored())


def changed(row: Row, **change: Any) -> dict[str, Any]:
    """The complete message with the row's field set to `to`, or without it."""
    kind, *path, name = row.field.split(".")
    message = copy.deepcopy(full(row.side)[kind])
    inner = message
    for part in path:
        inner = inner[part]
    assert name in inner, row.field
    del inner[name]
    if change:
        inner[name] = change["to"]
    return message


FIELDS = [row for side in SIDES for row in rows(side) if "." in row.field]
each_field = pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.side} {row.field}") for row in FIELDS])


def numbers(limit: str) -> tuple[int, int]:
    lowest, highest = limit.split(" to ")
    return int(lowest), int(highest)


def samples(row: Row) -> tuple[list[Any], list[Any]]:
    """Values that the row allows, and values that it does not."""
    match row.type:
        case "number":
            low, high = numbers(row.limit)
            return [low, high, float(low)], [low - 1, high + 1, low + 0.5, True, str(low), [], {}]
        case "text":
            low, high = numbers(row.limit)
            good = ["x" * max(low, 1), "x" * high]
            return good + [""] * (low == 0), ["x" * (high + 1), "a\nb", 5, True, []] + [""] * (low > 0)
        case "any text":
            return ["", "a\nb", "あ" * numbers(row.limit)[1]], ["x" * (numbers(row.limit)[1] + 1), 5, []]
        case "choice":
            return re.findall("`(.+?)`", row.limit), ["", "x", 1, True, []]
        case "flag":
            return [True, False], [0, 1, "true", []]
        case "identifier":
            return ["a", "a_9", "a" * numbers(row.limit)[1]], [
                "",
                "A",
                "9",
                "a b",
                "a" * (numbers(row.limit)[1] + 1),
                1,
            ]
        case "identifiers":
            most, length = map(int, row.limit.split(" of "))
            good = [[], True, False, ["a" * length] * most]
            return good, [["a"] * (most + 1), ["a" * (length + 1)], [1], [""], 1, "a", {}]
        case "fractions":
            return [[], [0, 1, 0.5], [0] * int(row.limit)], [
                [0] * (int(row.limit) + 1),
                [1.1],
                [-0.1],
                [True],
                ["0"],
                1,
            ]
        case "any":
            return [None, 1, "x", [1, {"a": None}], [0] * 255], [[0] * 256, json.loads("[" * 9 + "]" * 9)]
        case "object":
            return [{}] if row.field in OPEN else [], [[], 1, "x", True]
    raise AssertionError(f"{row.type}: a type without samples")


@each_field
def test_a_field_takes_what_its_row_says(row):
    good, bad = samples(row)
    for value in good:
        assert decode(row.side, changed(row, to=value)) is not None
    for value in bad:
        with pytest.raises(BadMessage) as caught:
            decode(row.side, changed(row, to=value))
        assert caught.value.field == row.field, value
        assert caught.value.code in CODES


@each_field
def test_a_field_is_needed_as_its_row_says(row):
    for message in (changed(row), changed(row, to=None)):
        if row.needed == "no":
            assert decode(row.side, message) is not None
            continue
        assert row.needed in ("yes", "sentence")
        with pytest.raises(BadMessage) as caught:
            decode(row.side, message)
        assert (caught.value.code, caught.value.field) == ("field_missing", row.field)


@pytest.mark.parametrize("side", SIDES)
def test_every_field_has_a_row_and_nothing_else(side):
    def fields(message: dict[str, Any], place: str) -> Iterator[str]:
        for name, value in message.items():
            if name != "type":
                yield f"{place}.{name}"
            if isinstance(value, dict) and f"{place}.{name}" not in OPEN:
                yield from fields(value, f"{place}.{name}")

    named = [row.field for row in rows(side)]
    assert len(named) == len(set(named))
    bare = {"ping", "pong", "turn"} & set(full(side))
    found = {field for kind, message in full(side).items() if kind not in bare for field in fields(message, kind)}
    assert set(named) == found | bare
    ignored = Ignored()
    for message in full(side).values():
        (decode_device if side == "device" else decode_server)(json.dumps(message), ignored)
    assert ignored == Ignored()


def codes_of(table: str) -> set[str]:
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return set(re.findall("`([a-z_]+)`", " ".join(first_cells)))


def test_every_code_of_a_refusal_is_on_the_page():
    told = codes_of(section("What goes wrong"))
    assert told >= CODES | {"audio_too_fast", "too_many_bad_messages", "hello_repeated", "audio_empty", "audio_invalid"}
    ending, _, other = section("What goes wrong").partition("These do not")
    assert not codes_of(ending) & codes_of(other) - {"json_invalid", "field_missing", "field_invalid"}
    # Only `hello` has these fields.
    assert {"device_id_invalid", "session_id_invalid", "audio_unsupported"} <= codes_of(ending)


def test_what_is_larger_than_any_frame_and_what_interrupts_is_on_the_page():
    assert f"over {web_config(FastAPI()).ws_max_size:,} is not even read" in section("What goes wrong")
    assert all(f"`{kind}`" in section("Interruption") for kind in INTERRUPTING)
    assert f"up to {STALL_SECONDS:g} s" in section("Sound")
    assert f"1 or {MOST_DTX_BYTES} bytes" in section("Sound")


def test_what_a_live_device_is_told_of_its_sound_is_about_live_sound():
    hello = {"type": "hello", "protocol": 1, "device_id": "desk"}
    for audio in ({"format": "mp3"}, {"format": "opus", "sample_rate": 44_100}, {"format": "pcm16", "sample_rate": 1}):
        with pytest.raises(BadMessage) as caught:
            decode("device", {**hello, "audio": {"frame_ms": 20, **audio}})
        assert caught.value.code == "audio_unsupported"
        told = DeviceError.of(caught.value).message
        assert "WAV" not in told
        assert "hello` の `audio` で" in told


def test_every_close_code_is_on_the_page():
    table = section("What goes wrong")
    assert {int(code) for code in re.findall(r"^\| (\d{4}) \|", table, re.MULTILINE)} == set(CloseCode)
    assert {int(code) for code in re.findall(r"\| (\d{4}) \| [a-z]", table)} <= set(CloseCode)


def test_the_limits_of_the_flow_are_on_the_page():
    assert f"{MAX_FRAME_BYTES:,} bytes" in section("Sound")
    seconds = f"more than {AUDIO_RATE * AUDIO_WINDOW_SECONDS:g} s of sound within {AUDIO_WINDOW_SECONDS:g} s"
    assert seconds in section("What goes wrong")
    assert MAX_BAD_MESSAGES == 10
    assert "the tenth message" in section("What goes wrong")


def test_the_messages_of_the_ten_lines_are_understood():
    lines = section("A device in ten lines").strip().splitlines()
    assert [line.split(".")[0] for line in lines] == [str(number) for number in range(1, 11)]
    messages = [text.replace("…", "1") for text in re.findall(r"`(\{.+?\})`", "\n".join(lines))]
    ignored = Ignored()
    kinds = [type(decode_device(message, ignored)).__name__ for message in messages]
    assert kinds == ["DeviceHello", "ListenStart", "Played", "Abort"]
    assert ignored == Ignored()


def test_the_bytes_of_a_text_message_are_those_of_rfc_6455():
    block = re.search(r"^81 [0-9a-f ]+\n81 [0-9a-f ]+$", PAGE, re.MULTILINE)
    assert block is not None
    ping, pong = (bytes.fromhex(line) for line in block[0].splitlines())
    mask, masked = ping[2:6], ping[6:]
    assert ping[:2] == bytes([0x81, 0x80 | len(masked)])
    assert bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked)) == b'{"type":"ping"}'
    assert pong == bytes([0x81, 15]) + b'{"type":"pong"}'


def test_every_vector_file_is_on_the_page():
    named = set(re.findall(r"^\| `([a-z_]+\.json)` \|", section("Golden vectors"), re.MULTILINE))
    assert named == {path.name for path in VECTORS.glob("*.json")}
