"""Kafka's frames: four bytes of size, then that many bytes. Bytes in, payloads out; nobody's socket.

A decoder keeps what has arrived and no more: an announced size reserves nothing, so that a peer pays for the memory it
takes with bytes it really sends. An announced size beyond the limit is refused as soon as its four bytes are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from lethe.protocol.counting import counted

DEFAULT_MAX_FRAME_BYTES: Final = 104_857_600
"""Kafka's default for `socket.request.max.bytes`."""

_SIZE: Final = struct.Struct(">i")


class ProtocolError(Exception):
    """The peer broke Kafka's protocol. Nothing after this point of the connection can be trusted: close it."""


class FrameError(ProtocolError):
    """A frame that cannot be accepted: negative or too large a size, or an end in the middle."""


def frame_size(payload_bytes: int) -> bytes:
    """The four bytes in front of a payload of that many bytes. Raises ValueError beyond 2 GiB."""
    try:
        return _SIZE.pack(payload_bytes)
    except struct.error as error:
        raise ValueError(
            f"a frame of {counted(payload_bytes, 'byte')} cannot be sent: the largest has {2**31 - 1}"
        ) from error


class FrameDecoder:
    """Cuts a byte stream into payloads. `limit_name` is the property to raise where a frame is too large."""

    __slots__ = ("_buffer", "_limit_name", "_max_bytes")

    def __init__(self, max_bytes: int = DEFAULT_MAX_FRAME_BYTES, limit_name: str = "socket.request.max.bytes") -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes
        self._limit_name = limit_name

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what arrived; `frames` gives out what is complete."""
        self._buffer += data

    def _check(self, size: int) -> None:
        if size < 0:
            raise FrameError(f"frame size {size} is negative: the peer does not speak Kafka's protocol")
        if size > self._max_bytes:
            raise FrameError(
                f"frame of {counted(size, 'byte')} exceeds the limit of {counted(self._max_bytes, 'byte')}; "
                f"if the peer is a Kafka peer, raise {self._limit_name}"
            )

    def next_frame(self) -> bytes | None:
        """The next complete payload, or None until more is fed. Raises FrameError; the stream is unusable then."""
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
        """The next bytes of the stream, at most so many, which stay; a frame's size comes before its payload."""
        return bytes(self._buffer[:count])

    def check_size(self) -> None:
        """Raises FrameError where the next frame has announced a size that is not accepted."""
        if len(self._buffer) >= _SIZE.size:
            self._check(*_SIZE.unpack_from(self._buffer))

    def take(self, count: int) -> bytes:
        """The next bytes of the stream, at most so many, whatever frames they belong to: for who passes them on."""
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def frames(self) -> Iterator[bytes]:
        """Every payload that is complete by now."""
        while (payload := self.next_frame()) is not None:
            yield payload

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def end_of_stream(self) -> None:
        """The peer will send no more. Raises FrameError where it stopped inside a frame."""
        if self._buffer:
            raise FrameError(f"the stream ended inside a frame, after {len(self._buffer)} of its bytes")
