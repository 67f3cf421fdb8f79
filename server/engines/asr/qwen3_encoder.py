"""The audio encoder of Qwen3-ASR, in steps that can be done while the person still speaks.

Its convolutions see one second at a time and its attention 8 s windows, so a second that is over is convolved and a
window that is over is encoded, once. What has been done so is right as long as the loudest frame of the utterance does
not change what the model sees of it (`qwen3_features.py`): a new loudest one makes only those seconds anew that have
something below the new floor. (Of 36 cuts of human speech, 3 to 10 s long, two seconds each were made anew while they
came in, and only one cut had any to make anew at its end.) `encode` gives what encoding at once gives, whatever was
done before; of several utterances, in one batch. Knows no words and no threads: everything here runs on the engine's
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from server.engines.asr.qwen3_features import DYNAMIC_RANGE, LogMel, levelled
from server.events import ASR_SAMPLE_RATE_HZ, Samples

_CHUNKS_AT_ONCE = 8
"""More in one batch take more memory (6 MB each, float32) and no less time."""
_AHEAD_AT_ONCE = 2
"""While somebody speaks: work is done in pieces that nobody has to wait for long."""


class Interrupted(Exception):
    """Somebody waits for something more urgent; what was begun is dropped."""


Stop = Callable[[], bool]
"""Whether to drop the work under way."""


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stretch of encoded sound, shape (n, output_dim). `version`: the same number means the same values."""

    version: int
    embeddings: Any
    is_whole_window: bool


@dataclass(slots=True)
class _Chunk:
    """One second as convolved, shape (positions, d_model), with the floor it was levelled to."""

    floor: float
    version: int
    hidden: Any


class AudioEncoder:
    """The audio tower and projector of a `Qwen3ASRForConditionalGeneration`, without memory of any utterance."""

    def __init__(self, model: Any, log_mel: LogMel) -> None:
        self.log_mel = log_mel
        self._tower = model.model.audio_tower
        self._projector = model.model.multi_modal_projector
        self.chunk_frames = 2 * int(self._tower.n_window)
        self.window_chunks = int(self._tower.n_window_infer) // self.chunk_frames
        self._versions = count(1)

    def new_version(self) -> int:
        return next(self._versions)

    @property
    def window_positions(self) -> int:
        """Of a whole window."""
        return self.window_chunks * self.positions(self.chunk_frames)

    @staticmethod
    def positions(frames: int) -> int:
        """What is left of so many frames of one chunk after three convolutions that halve them."""
        for _ in range(3):
            frames = (frames - 1) // 2 + 1 if frames > 0 else 0
        return frames

    def convolve(self, chunks: Sequence[Any]) -> list[Any]:
        """Levelled chunks of shape (frames, mel), up to `chunk_frames` each; of each its (positions, d_model)."""
        import torch
        from torch.nn import functional

        tower = self._tower
        weight = tower.conv2d1.weight
        found: list[Any] = []
        for start in range(0, len(chunks), _CHUNKS_AT_ONCE):
            batch = chunks[start : start + _CHUNKS_AT_ONCE]
            padded = torch.zeros((len(batch), 1, batch[0].shape[1], self.chunk_frames))
            for place, chunk in zip(padded, batch, strict=True):
                place[0, :, : len(chunk)] = chunk.T
            hidden = padded.to(weight.device, weight.dtype)
            for convolution in (tower.conv2d1, tower.conv2d2, tower.conv2d3):
                hidden = functional.gelu(convolution(hidden))
            hidden = tower.conv_out(hidden.permute(0, 3, 1, 2).flatten(2))
            hidden = hidden + tower.positional_embedding.positional_embedding[: hidden.shape[1]].to(hidden.dtype)
            found += [one[: self.positions(len(chunk))] for one, chunk in zip(hidden, batch, strict=True)]
        return found

    def attend(self, windows: Sequence[Any], stop: Stop = never) -> list[Any]:
        """Windows of shape (n, d_model); of each its (n, output_dim). Raises `Interrupted`."""
        import torch

        if not windows:
            return []
        lengths = [len(window) for window in windows]
        hidden = torch.cat(list(windows))
        # The tower's own layers take the ends of the windows, and never look over one.
        ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
        for layer in self._tower.layers:
            if stop():
                raise Interrupted
            hidden = layer(hidden, ends)[0]
        return list(self._projector(self._tower.ln_post(hidden)).split(lengths))


class HeardSound:
    """The sound of one utterance so far, and what of it has been encoded already."""

    def __init__(self, encoder: AudioEncoder) -> None:
        import torch

        self._encoder = encoder
        self._log_mel = encoder.log_mel
        self._samples: Samples = np.zeros(8 * ASR_SAMPLE_RATE_HZ, np.float32)
        self.sample_count = 0
        self._frames = torch.zeros((0, encoder.log_mel.mel_bins))
        self._chunks: list[_Chunk] = []
        self._windows: list[tuple[tuple[int, ...], Encoded]] = []
        self.seconds_made_anew = 0
        """Seconds that had to be convolved again because something louder came."""

    def push(self, samples: Samples) -> None:
        """Take the next samples; nothing is worked out yet."""
        end = self.sample_count + len(samples)
        if end > len(self._samples):
            grown: Samples = np.zeros(max(end, 2 * len(self._samples)), np.float32)
            grown[: self.sample_count] = self._samples[: self.sample_count]
            self._samples = grown
        self._samples[self.sample_count : end] = samples
        self.sample_count = end

    def advance(self, stop: Stop = never) -> bool:
        """Do one piece of what can be done already; False: there is none. Raises `Interrupted`."""
        self._learn()
        size = self._encoder.chunk_frames
        whole = len(self._frames) // size
        if not whole:
            return False
        floor = self._floor(self._frames)
        wanted = [c for c in range(whole) if not self._is_right(c, self._frames[c * size : (c + 1) * size], floor)]
        if wanted:
            wanted = wanted[:_AHEAD_AT_ONCE]
            self._keep(wanted, self._encoder.convolve([self._levelled(c, floor) for c in wanted]), floor)
            return True
        for window in range(whole // self._encoder.window_chunks):
            chunks = self._chunks_of(window)
            versions = tuple(chunk.version for chunk in chunks)
            if window >= len(self._windows) or self._windows[window][0] != versions:
                import torch

                encoded = self._encoder.attend([torch.cat([chunk.hidden for chunk in chunks])], stop)[0]
                self._remember(window, versions, encoded)
                return True
        return False

    def finished_windows(self) -> list[Encoded]:
        """The windows that are encoded already, as far as what is known now goes."""
        windows = []
        for window, (versions, encoded) in enumerate(self._windows):
            if versions != tuple(chunk.version for chunk in self._chunks_of(window)):
                break
            windows.append(encoded)
        return windows

    # --- for `encode` ---

    def plan(self, sample_count: int) -> _Plan:
        """What is there and what is missing of the first `sample_count` samples."""
        import torch

        self._learn()
        encoder, log_mel = self._encoder, self._log_mel
        samples = self._samples[:sample_count]
        if sample_count < log_mel.least_samples:
            samples = np.pad(samples, (0, log_mel.least_samples - sample_count))
        total = log_mel.frame_count(len(samples))
        final = 0 if sample_count < log_mel.least_samples else min(total, log_mel.final_frames(sample_count))
        final = min(final, len(self._frames))
        frames = torch.cat([self._frames[:final], log_mel.frames(samples, final, total)])
        floor = self._floor(frames)
        size = encoder.chunk_frames
        pieces = [frames[start : start + size] for start in range(0, total, size)]
        kept = [
            self._chunks[c]
            if (c + 1) * size <= final and c < len(self._chunks) and self._is_right(c, piece, floor)
            else None
            for c, piece in enumerate(pieces)
        ]
        missing = [c for c, chunk in enumerate(kept) if chunk is None]
        settled = sum((c + 1) * size <= final for c in range(len(pieces)))
        return _Plan(self, kept, missing, [levelled(pieces[c], floor) for c in missing], floor, settled)

    def _keep(self, chunks: Sequence[int], hidden: Sequence[Any], floor: float) -> None:
        for c, one in zip(chunks, hidden, strict=True):
            chunk = _Chunk(floor, self._encoder.new_version(), one)
            if c < len(self._chunks):
                self._chunks[c] = chunk
                self.seconds_made_anew += 1
            else:
                self._chunks.append(chunk)

    def _remember(self, window: int, versions: tuple[int, ...], embeddings: Any) -> Encoded:
        encoded = Encoded(self._encoder.new_version(), embeddings, is_whole_window=True)
        self._windows[window:] = [(versions, encoded)]
        return encoded

    def _known_window(self, window: int, versions: tuple[int, ...]) -> Encoded | None:
        if window < len(self._windows) and self._windows[window][0] == versions:
            return self._windows[window][1]
        return None

    def _learn(self) -> None:
        """The frames that have become final."""
        import torch

        known, final = len(self._frames), self._log_mel.final_frames(self.sample_count)
        if final > known:
            new = self._log_mel.frames(self._samples[: self.sample_count], known, final)
            self._frames = torch.cat([self._frames, new])

    @staticmethod
    def _floor(frames: Any) -> float:
        return float(frames.max()) - DYNAMIC_RANGE

    def _is_right(self, c: int, frames: Any, floor: float) -> bool:
        """Whether a second is convolved, and would not look different levelled to `floor`."""
        if c >= len(self._chunks):
            return False
        was = self._chunks[c].floor
        return was == floor or float(frames.min()) >= max(was, floor)

    def _levelled(self, c: int, floor: float) -> Any:
        size = self._encoder.chunk_frames
        return levelled(self._frames[c * size : (c + 1) * size], floor)

    def _chunks_of(self, window: int) -> list[_Chunk]:
        size = self._encoder.window_chunks
        return self._chunks[window * size : (window + 1) * size]


@dataclass(slots=True)
class _Plan:
    """Of one utterance: its seconds, those of them that are not convolved yet, and how many are settled for good."""

    sound: HeardSound
    chunks: list[_Chunk | None]
    missing: list[int]
    levelled: list[Any]
    floor: float
    settled: int


def encode(
    encoder: AudioEncoder, utterances: Sequence[tuple[HeardSound, int]], stop: Stop = never
) -> list[list[Encoded]]:
    """The first so many samples of each utterance, encoded: its whole windows in order, then what is over.

    Only what was not done before is done, for all of them together. Raises `Interrupted`.
    """
    import torch

    plans = [sound.plan(sample_count) for sound, sample_count in utterances]
    convolved = iter(encoder.convolve([chunk for plan in plans for chunk in plan.levelled]))
    for plan in plans:
        fresh = {c: next(convolved) for c in plan.missing}
        # A second that is over is over for what comes later, too.
        lasting = [c for c in plan.missing if c < plan.settled]
        plan.sound._keep(lasting, [fresh[c] for c in lasting], plan.floor)
        for c, hidden in fresh.items():
            lasts = c < plan.settled
            plan.chunks[c] = plan.sound._chunks[c] if lasts else _Chunk(plan.floor, encoder.new_version(), hidden)
    found: list[list[Encoded | None]] = []
    wanted: list[tuple[int, int, tuple[int, ...], Any]] = []
    for number, plan in enumerate(plans):
        row: list[Encoded | None] = []
        for window, start in enumerate(range(0, len(plan.chunks), encoder.window_chunks)):
            chunks = [chunk for chunk in plan.chunks[start : start + encoder.window_chunks] if chunk is not None]
            versions = tuple(chunk.version for chunk in chunks)
            known = plan.sound._known_window(window, versions)
            row.append(known)
            if known is None:
                wanted.append((number, window, versions, torch.cat([chunk.hidden for chunk in chunks])))
        found.append(row)
    attended = encoder.attend([hidden for *_, hidden in wanted], stop)
    for (number, window, versions, _), embeddings in zip(wanted, attended, strict=True):
        plan = plans[number]
        is_settled = (window + 1) * encoder.window_chunks <= plan.settled
        is_whole = len(embeddings) == encoder.window_positions
        lasts = is_settled and window <= len(plan.sound._windows)
        found[number][window] = (
            plan.sound._remember(window, versions, embeddings)
            if lasts
            else Encoded(encoder.new_version(), embeddings, is_whole)
        )
    return [[encoded for encoded in row if encoded is not None] for row in found]
