"""Server-sent events, from bytes to the data of each. Asks nothing, and does not know what the data means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

DONE = "[DONE]"
"""How OpenAI's interface ends a stream."""


async def event_data(
    pieces: AsyncIterator[bytes], most_bytes: int, without_end: Callable[[], Exception]
) -> AsyncGenerator[str, None]:
    """The data of each event, its lines joined. Raises what `without_end` makes for an event of more than `most_bytes`.

    Lines end with any of the three line ends. A chunk whose blank line is missing ends where the next one begins.
    """
    buffer = b""
    after_return = False
    event = _Event()
    async for piece in pieces:
        # The other half of a line end that was split.
        piece = piece[1:] if after_return and piece.startswith(b"\n") else piece
        if not piece:
            continue
        after_return = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *more = piece.split(b"\n")
        *lines, buffer = buffer + first, *more
        for line in lines:
            if data := event.line(line):
                yield data
        if len(buffer) + event.size > most_bytes:
            raise without_end()
    for line in (buffer, b""):
        if data := event.line(line):
            yield data


class _Event:
    """The event that is being read."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self.size = 0
        """Bytes of its lines so far."""

    def line(self, raw: bytes) -> str:
        """Take the next line; the data of the event that it ends, if it ends one."""
        line = raw.decode("utf-8", "replace").removeprefix("\ufeff")
        if not line:
            return self._end()
        if not line.startswith("data:"):
            return ""
        text = line[5:].removeprefix(" ")
        # No JSON goes on like this, so it is the next chunk.
        next_one = self._data and self._data[-1].endswith("}") and (text.startswith("{") or text.strip() == DONE)
        ended = self._end() if next_one else ""
        self._data.append(text)
        self.size += len(raw) + 1
        return ended

    def _end(self) -> str:
        data, self._data, self.size = "\n".join(self._data), [], 0
        return data
