"""The words between the server and its embedding process: a length, JSON, a length, numbers.

Nothing in them is code: JSON and plain float32, never a pickle. What a frame means is `separate.py`'s and `child.py`'s.
"""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, NamedTuple

import numpy as np

from server.events import Samples

_LENGTHS = struct.Struct("<II")
MOST_BYTES = 256 * 1024**2
"""More in one frame is no frame of ours."""


class Frame(NamedTuple):
    head: dict[str, Any]
    vectors: Samples | None
    """float32, shape `head["shape"]`."""


def packed(head: dict[str, Any], vectors: Samples | None = None) -> bytes:
    """A frame as bytes. Texts may hold anything, lone surrogates too."""
    body = b"" if vectors is None else np.ascontiguousarray(vectors, "<f4").tobytes()
    if vectors is not None:
        head = head | {"shape": list(vectors.shape)}
    text = json.dumps(head).encode("ascii")
    return _LENGTHS.pack(len(text), len(body)) + text + body


async def read_frame(stream: asyncio.StreamReader) -> Frame | None:
    """The next frame; None at the end, also one that is cut. Raises `ValueError` for what is no frame."""
    try:
        text_bytes, body_bytes = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
        if text_bytes + body_bytes > MOST_BYTES:
            raise ValueError(f"a frame of {text_bytes + body_bytes} bytes")
        head = json.loads(await stream.readexactly(text_bytes))
        body = await stream.readexactly(body_bytes)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if not isinstance(head, dict):
        raise ValueError("a frame that begins with no object")
    vectors = np.frombuffer(body, "<f4").reshape(head["shape"]).astype(np.float32) if "shape" in head else None
    return Frame(head, vectors)
