"""Every fault of the failure table caused for real, over and over, in a server that is watched from outside.

The server is a process of its own with real storage, the real endpoint engine against a fake endpoint, and ears and a
voice that fail on request (`fault_engines.py`). Each turn is checked against its row (`fault_table.py`).
"""

from __future__ import annotations

import io
import socket
import threading
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np

from server.pipeline.apology import apology
from tests.fakes.chat_server import ChatServer, Connection, running_chat_server, say
from tests.soaks.fault_engines import ENGINES, HEARD, LLM_SECONDS
from tests.soaks.fault_table import CASES, FaultCase
from tests.soaks.promises import Progress, Promise, no_progress
from tests.soaks.server import Figures, ForkedServer, SoakServer

_AT_ONCE = 4
_STAGE_SECONDS = "0.5"
# How many connections the endpoint engine keeps for the next call depends on how many turns met a good endpoint last.
_SPARE_FILES = 2
_SPARE_THREADS = 2


@dataclass(slots=True)
class FaultReport:
    """What came of `count` turns. `before`: after every fault had been met once."""

    count: int
    before: Figures | None = None
    after: Figures | None = None
    wrong: list[str] = field(default_factory=list)
    """Turns that did not end as their row says."""
    lost: list[str] = field(default_factory=list)
    """Turns whose words are not stored."""
    apologies: int = 0
    defects_logged: int = 0
    seconds: float = 0.0


class FaultRig:
    """A server that can be made to fail, and its endpoint. Use within `fault_rig`."""

    def __init__(self, server: SoakServer, chat: ChatServer) -> None:
        self.server = server
        self._lock = threading.Lock()
        self._turns = 0
        self._behaviours: dict[str, tuple[FaultCase, int]] = {}
        chat.play(self._answer)

    def play(self, case: FaultCase, device_id: str) -> tuple[list[str], list[str]]:
        """Take one turn of a device; what went wrong, and which words were lost."""
        with self._lock:
            self._turns += 1
            number = self._turns
            words = HEARD if case.loudness is not None else f"散歩に行こう、{number}回目"
            if case.loudness is None:
                self._behaviours[words] = (case, 0)
        headers = {
            "Authorization": f"Bearer {self.server.token}",
            "Device-Id": device_id,
            "Idempotency-Key": f"turn-{number}",
            "Session-Id": f"session-{number}",
        }
        with httpx2.Client(base_url=self.server.url, headers=headers, timeout=30) as client:
            turn = self._vanish_then_ask(client, case, words) if case.vanishes else self._ask(client, case, words)
            if turn.status_code != 200:
                return [f"{case.name}: {turn.status_code} {turn.text[:200]}"], [case.name]
            return self._judge(client, case, words, turn.json())

    def _ask(self, client: httpx2.Client, case: FaultCase, words: str) -> httpx2.Response:
        content, kind = upload(case, words)
        return client.post("/v1/turns", content=content, headers={"Content-Type": kind})

    def _vanish_then_ask(self, client: httpx2.Client, case: FaultCase, words: str) -> httpx2.Response:
        """Send the request and go away; then come back for the same turn."""
        address = urlsplit(self.server.url)
        content, kind = upload(case, words)
        head = [f"POST /v1/turns HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(content)}"]
        head += [f"{name}: {value}" for name, value in {**client.headers, "content-type": kind}.items()]
        head = [line for line in head if not line.startswith(("host:", "accept-encoding:", "connection:"))]
        with socket.create_connection((address.hostname, address.port), timeout=10) as gone:  # type: ignore[arg-type]
            gone.sendall("\r\n".join([*head, "", ""]).encode() + content)
            time.sleep(0.1)
        end = time.monotonic() + 20
        while True:
            turn = self._ask(client, case, words)
            unfinished = turn.status_code == 409 or (turn.status_code == 200 and turn.json()["status"] == "running")
            if not unfinished or time.monotonic() > end:
                return turn
            time.sleep(0.05)

    def _judge(
        self, client: httpx2.Client, case: FaultCase, words: str, turn: dict[str, Any]
    ) -> tuple[list[str], list[str]]:
        trace = client.get(f"/v1/turns/{turn['turn_id']}/trace").json()["trace"]
        stored = client.get(f"/v1/turns/{turn['turn_id']}").json()
        sorry = apology(case.sorry, "ja") if case.sorry else None
        heard = case.error is None or not case.error.startswith(("asr_", "vad_"))
        said = words if heard and case.outcome != "no_speech" else ""
        sound = 0
        if turn["audio"] is not None:
            sound = len(client.get(turn["audio"]["url"], params={"format": "pcm"}).content)
        expected = {
            "outcome": (case.outcome, turn["outcome"]),
            "error": (case.error, (turn["error"] or {}).get("code")),
            "reply": (sorry or case.reply, turn["reply"]),
            "emotion": (case.emotion, turn["emotion"]),
            "sound": (case.sound, sound > 0),
            "calls": (case.calls, trace["llm"]["calls"]),
            "calls that arrived": (case.calls if case.loudness is None else 0, self._arrived(words)),
            "retries": (case.retries, trace.get("llm_retries", 0)),
            "apology": ("clip" if sorry else None, trace.get("apology")),
            "tools": (case.tools, sum(span["name"] == "tool" for span in trace["spans"])),
            "done": (True, "done" in trace["marks"]),
        }
        wrong = [
            f"{case.name}: {what} is {found!r}, not {wanted!r}"
            for what, (wanted, found) in expected.items()
            if wanted != found
        ]
        lost = [] if said == turn["transcript"] == stored["transcript"] else [case.name]
        return wrong, lost

    def _arrived(self, words: str) -> int:
        """Requests that the endpoint had about typed words."""
        with self._lock:
            return self._behaviours[words][1] if words in self._behaviours else 0

    async def _answer(self, connection: Connection) -> None:
        """The endpoint: behaves as the case says whose words it is asked about."""
        asked = [message["content"] for message in connection.request.json["messages"] if message["role"] == "user"]
        with self._lock:
            words = next((words for words in self._behaviours if asked and words in asked[-1]), None)
            # Words that were spoken, and the start: the endpoint does its work.
            case, calls = self._behaviours[words] if words is not None else (CASES[0], 0)
            if words is not None:
                self._behaviours[words] = (case, calls + 1)
        replies = case.replies
        await replies[min(calls, len(replies) - 1)](connection)


@contextmanager
def fault_rig(folder: Path) -> Iterator[FaultRig]:
    """A server with engines that fail on request; nothing of it is left afterwards."""
    with running_chat_server() as chat:
        chat.play(say(CASES[0].reply or ""))
        env = {
            "FAULTS_CHAT_URL": chat.url,
            "STACKCHAN_ASR__TIMEOUT_SECONDS": _STAGE_SECONDS,
            "STACKCHAN_TTS__TIMEOUT_SECONDS": _STAGE_SECONDS,
            "STACKCHAN_LLM__TIMEOUT_SECONDS": str(LLM_SECONDS),
            "STACKCHAN_ASR__KEEP_FAILED_AUDIO": "true",
            "STACKCHAN_LIMITS__RUNNING_TURNS": str(_AT_ONCE),
        }
        with ForkedServer(folder, engines=ENGINES, env=env) as server:
            yield FaultRig(server, chat)


def cause_faults(count: int, folder: Path, on_progress: Progress = no_progress) -> FaultReport:
    """Every fault once, and then `count` turns with faults in turn, a few devices at a time."""
    report = FaultReport(count)
    began = time.perf_counter()
    with fault_rig(folder) as rig, ThreadPoolExecutor(_AT_ONCE) as pool:

        def take(number: int) -> None:
            wrong, lost = rig.play(CASES[number % len(CASES)], f"device-{number % _AT_ONCE}")
            report.wrong += wrong
            report.lost += lost

        def take_all(numbers: range, told: int) -> None:
            # A device speaks one turn after another.
            lines = [numbers[start::_AT_ONCE] for start in range(_AT_ONCE)]

            def line(own: range) -> None:
                for number in own:
                    take(number)
                    on_progress(min(told + (number - numbers.start), count), count)

            list(pool.map(line, lines))

        take_all(range(len(CASES)), 0)
        report.before = rig.server.settled()
        numbers = range(len(CASES), len(CASES) + count)
        take_all(numbers, 0)
        report.apologies = sum(CASES[number % len(CASES)].sorry is not None for number in numbers)
        report.after = rig.server.settled(report.before)
        report.defects_logged = rig.server.log.count("the turn failed on a defect")
    report.seconds = time.perf_counter() - began
    return report


def soak(count: int, seed: int, folder: Path, on_progress: Progress = no_progress) -> list[Promise]:
    """Cause `count` faults and judge them. The order is fixed: `seed` changes nothing."""
    report = cause_faults(count, folder / "server", on_progress)
    before, after = report.before, report.after
    assert before is not None
    assert after is not None
    held = {"before": before.as_dict(), "after": after.as_dict()}
    return [
        Promise(
            "rows",
            "Every fault ends as the failure table says: retried, apologised for as a clip, or sent as text.",
            not report.wrong,
            {"turns": count, "faults": len(CASES), "apologies": report.apologies, "wrong": report.wrong[:20]},
        ),
        Promise("words", "The user's words are stored, whatever fails.", not report.lost, {"lost": report.lost[:20]}),
        Promise(
            "defects",
            "No fault of an engine is a defect of the turn.",
            report.defects_logged == 0,
            {"logged": report.defects_logged},
        ),
        Promise("tasks", "No task is left behind.", after.tasks <= before.tasks, held),
        Promise("threads", "No thread is left behind.", after.threads <= before.threads + _SPARE_THREADS, held),
        Promise("files", "No file or connection is left open.", after.files <= before.files + _SPARE_FILES, held),
    ]


def upload(case: FaultCase, words: str) -> tuple[bytes, str]:
    """The body of a request, and its content type."""
    if case.loudness is None:
        return httpx2.Request("POST", "http://x", json={"text": words}).content, "application/json"
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(np.full(16_000, case.loudness * 3277, np.int16).tobytes())
    return sound.getvalue(), "audio/wav"
