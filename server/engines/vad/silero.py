"""Silero voice activity detection over onnxruntime, one thread.

All streams share one session and keep their own state. Each window is given the 64 samples before it: without them
the model hears no speech at all. Where speech starts and ends is decided in `server.audio.segmenter`, not here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from server.engines.worker import ModelThread
from server.errors import ModelError, VadError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (2, 1, 128)


class SileroStream:
    """The state of one audio stream: the model's memory and the end of the last window."""

    def __init__(self, session: Any, window_samples: int) -> None:
        self._session = session
        self._window_samples = window_samples
        self._state = np.zeros(_STATE_SHAPE, np.float32)
        self._input = np.zeros((1, _CONTEXT_SAMPLES + window_samples), np.float32)
        self._rate = np.array(ASR_SAMPLE_RATE_HZ, np.int64)

    def probability(self, window: Samples) -> float:
        """Speech probability in [0, 1] of the next window; float32, shape (window_samples,), 16 kHz."""
        if window.shape != (self._window_samples,):
            raise VadError(f"A window has {self._window_samples} samples, this one has the shape {window.shape}.")
        self._input[0, :_CONTEXT_SAMPLES] = self._input[0, -_CONTEXT_SAMPLES:]
        self._input[0, _CONTEXT_SAMPLES:] = window
        output, self._state = self._session.run(None, {"input": self._input, "state": self._state, "sr": self._rate})
        return float(output[0, 0])


class SileroVad:
    """Implements `VadEngine`. `model_path`: silero_vad.onnx, version 5 or 6 (inputs input, state, sr)."""

    name = "silero"
    window_samples = 512

    def __init__(self, model_path: Path) -> None:
        self._model_path = model_path
        self._thread = ModelThread(self.name, VadError)
        self._session: Any = None

    async def start(self) -> None:
        if not self._model_path.is_file():
            raise ModelError(f"{self._model_path} is missing.", hint="Run: stackchan models pull.")
        self._session = await self._thread.start(self._load)

    async def close(self) -> None:
        await self._thread.close()
        self._session = None

    def open_stream(self) -> SileroStream:
        """A fresh stream. Its calls take about 0.2 ms and may be made on the event loop."""
        if self._session is None:
            raise VadError("The engine silero is not running.", code="engine_unavailable", hint="Start it before use.")
        return SileroStream(self._session, self.window_samples)

    async def probabilities(self, samples: Samples) -> list[float]:
        """One speech probability for each 32 ms window of a whole recording; the last one is padded with zeros."""
        return await self._thread.call(self._probabilities, samples)

    def _load(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(self._model_path), options, providers=["CPUExecutionProvider"])
        inputs = {entry.name for entry in session.get_inputs()}
        if inputs != {"input", "state", "sr"}:
            raise VadError(
                f"{self._model_path} is not a Silero model of version 5 or 6: its inputs are {sorted(inputs)}.",
                hint="Run: stackchan models pull.",
            )
        SileroStream(session, self.window_samples).probability(np.zeros(self.window_samples, np.float32))
        return session

    def _probabilities(self, samples: Samples) -> list[float]:
        stream = self.open_stream()
        missing = -len(samples) % self.window_samples
        windows = np.pad(samples, (0, missing)).reshape(-1, self.window_samples)
        return [stream.probability(window) for window in windows]
