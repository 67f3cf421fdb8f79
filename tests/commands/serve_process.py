"""`stackchan serve` as a process of its own, its lines as they come. As a script: the same with fake engines.

    python -m tests.commands.serve_process serve --port 0
    SERVE_FAKE=fails: the voice does not start; quotes: errors quote what was said (quoting_engines.py);
    thinks: the language model takes a minute, and tells at the end how often it was cancelled;
    a number: the voice takes so many seconds

Everything else (settings, storage, HTTP, signals) is the real thing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType

from tests.fakes.forked import ForkedProcess, run_forked

ROOT = Path(__file__).resolve().parent.parent.parent
READY = "Ready in"


class ServeProcess:
    """A running server. `fake`: with fake engines, and forked; else, or `fresh`: in a Python of its own.

    Ended with the block, by force when it does not end by itself.
    """

    def __init__(
        self,
        data_dir: Path,
        *arguments: str,
        fake: bool = True,
        fresh: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        module = "tests.commands.serve_process" if fake else "server.cli"
        environment = {**os.environ, "STACKCHAN_DATA_DIR": str(data_dir), "HF_HUB_OFFLINE": "1", **(env or {})}
        self.data_dir = data_dir
        self.lines: list[str] = []
        self._changed = threading.Condition()
        shown, written = os.pipe()
        self._shown = open(shown, encoding="utf-8")  # noqa: SIM115  # closed with the block
        self._bare = fresh or not fake
        command = ["serve", *(arguments or ("--port", "0"))]
        try:
            self.process: ForkedProcess | subprocess.Popen[bytes]
            if self._bare:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", module, *command],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                )
            else:
                self.process = ForkedProcess(f"{module}:main", command, env=environment, cwd=ROOT, output=written)
        finally:
            os.close(written)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        self._shown.close()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, timeout_seconds: float = 60.0) -> str:
        """The first line with `text`."""
        end = time.monotonic() + timeout_seconds
        with self._changed:
            while True:
                found = next((line for line in self.lines if text in line), None)
                if found is not None:
                    return found
                over = not self._reader.is_alive() or time.monotonic() > end
                assert not over, f"no {text!r} in:\n{self.output}"
                self._changed.wait(0.5)

    def ends(self, timeout_seconds: float = 30.0) -> int:
        """Its exit code, with every line read."""
        code = self.process.wait(timeout_seconds)
        self._reader.join(10)
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ends()

    def talk(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`stackchan talk`, finding this server by its data folder; forked where the server is."""
        environment = {**os.environ, "STACKCHAN_DATA_DIR": str(self.data_dir)}
        if not self._bare:
            return run_forked("server.cli:main", ["talk", *arguments], env=environment, cwd=ROOT, timeout_seconds=300)
        return subprocess.run(
            [sys.executable, "-m", "server.cli", "talk", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
        )

    def _read(self) -> None:
        for line in self._shown:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()


def main() -> None:
    from server import cli
    from server.engines import registry
    from server.engines.base import SpeechRequest
    from server.errors import TtsError
    from server.events import AudioChunk
    from tests.commands.quoting_engines import quoting_engines
    from tests.fakes.engines import FakeLlm, FakeTts, fake_engines

    class SlowVoice(FakeTts):
        async def synthesize(self, request: SpeechRequest) -> AsyncIterator[AudioChunk]:
            await asyncio.sleep(float(behaviour))
            async for chunk in super().synthesize(request):
                yield chunk

    class SlowThinker(FakeLlm):
        async def close(self) -> None:
            print(f"cancelled: {self.cancelled}", flush=True)  # noqa: T201  # the test reads it
            await super().close()

    behaviour = os.environ.get("SERVE_FAKE", "")
    voice = SlowVoice() if behaviour.isdigit() else FakeTts()
    if behaviour == "fails":
        voice.start_error = TtsError("The voice is hoarse.", hint="Give it tea.")
    engines = quoting_engines() if behaviour == "quotes" else fake_engines(tts=voice)
    if behaviour == "thinks":
        engines = fake_engines(llm=SlowThinker(scripts=[[60.0]]))
    registry.build_engines = lambda settings, persona: engines
    cli.main()


if __name__ == "__main__":
    main()
