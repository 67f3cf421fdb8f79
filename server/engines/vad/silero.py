"""Silero voice activity detection over onnxruntime, one thread.

All streams share one session, and windows that wait at the same moment one call of it. Each window is given the 64
samples before it: without them the model hears no speech at all. Where speech starts and ends is decided in
`server.audio`, not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from server.engines.vad.batching import BatchedStream, VadBatcher
from server.engines.worker import ModelThread
from server.errors import ModelError, VadError
from server.events import ASR_SAMPLE_RATE_HZ, Samples

_CONTEXT_SAMPLES = 64
_MEMORY_SHAPE = (2, 128)
_WINDOW_SAMPLES = 512


def _no_memory() -> Samples:
    return np.zeros(_MEMORY_SHAPE, np.float32)


def _no_context() -> Samples:
    return np.zeros(_CONTEXT_SAMPLES, np.float32)


@dataclass(eq=False, slots=True)
class SileroState:
    """What one stream leaves behind: the model's memory and the end of the last window."""

    memory: Samples = field(default_factory=_no_memory)
    context: Samples = field(default_factory=_no_context)


class SileroModel:
    """Implements `WindowModel`: one onnxruntime session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._rate = np.array(ASR_SAMPLE_RATE_HZ, np.int64)

    def fresh_state(self) -> SileroState:
        return SileroState()

    def probabilities(self, states: Sequence[SileroState], windows: Samples) -> list[float]:
        """One window of each stream, shape (n, 512)."""
        sound = np.concatenate([np.stack([state.context for state in states]), windows], axis=1)
        memory = np.stack([state.memory for state in states], axis=1)
        output, memory = self._session.run(None, {"input": sound, "state": memory, "sr": self._rate})
        for row, state in enumerate(states):
            state.memory = memory[:, row].copy()  # a view would keep the memory of every stream in the round
            state.context = windows[row, -_CONTEXT_SAMPLES:].copy()
        return [float(probability) for probability in output[:, 0]]


class SileroVad:
    """Implements `VadEngine`. `model_path`: silero_vad.onnx, version 5 or 6 (inputs input, state, sr)."""

    name = "silero"
    window_samples = _WINDOW_SAMPLES

    def __init__(self, model_path: Path) -> None:
        self._model_path = model_path
        self._thread = ModelThread(self.name, VadError)
        self._batcher: VadBatcher[SileroState] | None = None

    async def start(self) -> None:
        if not self._model_path.is_file():
            raise ModelError(f"{self._model_path} is missing.", hint="Run: stackchan models pull.")
        model = await self._thread.start(self.load_model)
        self._batcher = VadBatcher(self._thread, model, self.window_samples)

    async def close(self) -> None:
        self._batcher = None
        await self._thread.close()

    def open_stream(self) -> BatchedStream[SileroState]:
        """A fresh stream."""
        if self._batcher is None:
            raise VadError("The engine silero is not running.", code="engine_unavailable", hint="Start it before use.")
        return self._batcher.open_stream()

    async def probabilities(self, samples: Samples) -> list[float]:
        """One speech probability for each 32 ms window of a whole recording; the last one is padded with zeros."""
        return await self.open_stream().push(np.pad(samples, (0, -len(samples) % self.window_samples)))

    def load_model(self) -> SileroModel:
        """Read and warm the model; blocking. `start()` does it on the engine's thread."""
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
        model = SileroModel(session)
        model.probabilities([model.fresh_state()], np.zeros((1, self.window_samples), np.float32))
        return model
