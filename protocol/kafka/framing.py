"""Kafka's frames: four bytes of size, then the payload. No I/O.

A decoder stores only bytes that have arrived. It reserves no memory for an announced size, and refuses a size above the
limit as soon as its four bytes are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.frame_text import text_of_size

DEFAULT_MAX_FRAME_BYTES: Final = 104_857_600
"""Kafka's default for `socket.request.max.bytes`."""

_SIZE: Final = struct.Struct(">i")


class ProtocolError(Exception):
    """The peer violated Kafka's protocol. Nothing after this point of the connection can be trusted: close it."""


class FrameError(ProtocolError):
    """A frame was refused: its size is negative or too large, or the stream ended inside it."""


def frame_size(payload_bytes: int) -> bytes:
    """Return the size prefix of a payload. Raises ValueError beyond 2 GiB."""
    try:
        return _SIZE.pack(payload_bytes)
    except struct.error as error:
        raise ValueError(
            f"a frame of {counted(payload_bytes, 'byte')} cannot be sent: the largest has {2**31 - 1}"
        ) from error


class FrameDecoder:
    """Splits a byte stream into payloads. `limit_name` is the property to raise if a frame is too large."""

    __slots__ = ("_buffer", "_limit_name", "_max_bytes")

    def __init__(self, max_bytes: int = DEFAULT_MAX_FRAME_BYTES, limit_name: str = "socket.request.max.bytes") -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes
        self._limit_name = limit_name

    def limit(self, max_bytes: int, limit_name: str) -> None:
        """Set the limit of payloads from now on, and its property."""
        self._max_bytes, self._limit_name = max_bytes, limit_name

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add received bytes; `frames` yields complete payloads."""
        self._buffer += data

    def _check(self, size: int) -> None:
        if size < 0:
            raise FrameError(f"frame size {size} is negative: the peer does not speak Kafka's protocol")
        if size > self._max_bytes:
            if (text := text_of_size(size)) is not None:
                raise FrameError(f"the text {text!r} is no frame: the peer does not speak Kafka's protocol")
            raise FrameError(
                f"frame of {counted(size, 'byte')} exceeds the limit of {counted(self._max_bytes, 'byte')}; "
                f"if the peer is a Kafka peer, raise {self._limit_name}"
            )

    def next_frame(self) -> bytes | None:
        """Return the next complete payload, or None. Raises FrameError; the stream is unusable then."""
        buffer = self._buffer
        if len(buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(buffer)
        self._check(size)
        end = _SIZE.size + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            payload = bytes(view[_SIZE.size : end])
        del buffer[:end]
        return payload

    def peek(self, count: int) -> bytes:
        """Return up to `count` bytes of the stream, size prefixes included, without consuming them."""
        return bytes(self._buffer[:count])

    def check_size(self) -> None:
        """Raise FrameError if the announced size of the next frame is not acceptable."""
        if len(self._buffer) >= _SIZE.size:
            self._check(*_SIZE.unpack_from(self._buffer))

    def take(self, count: int) -> bytes:
        """Return up to `count` bytes of the stream and consume them, regardless of frames: for forwarding."""
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def frames(self) -> Iterator[bytes]:
        """Yield every complete payload."""
        while (payload := self.next_frame()) is not None:
            yield payload

    @property
    def pending_bytes(self) -> int:
        """Number of received bytes that are not returned yet."""
        return len(self._buffer)

    def end_of_stream(self) -> None:
        """Handle the peer's end of stream. Raises FrameError inside a frame."""
        if self._buffer:
            raise FrameError(f"the stream ended inside a frame, after {len(self._buffer)} of its bytes")
