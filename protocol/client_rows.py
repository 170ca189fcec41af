"""Rows of clients' requests that change something in ZooKeeper: a row is refused alone, and fits into one write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lethe.protocol.counting import counted
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.zookeeper.operations import Operation
from lethe.protocol.zookeeper.packing import REQUEST_LIMIT_BYTES, operation_bytes

ROW_BYTES: Final = REQUEST_LIMIT_BYTES - 20_000
"""ZooKeeper takes a megabyte at once; the fence is part of it."""


class RowRefused(Exception):
    """One row of a client's request is refused with this error; the message is Kafka's, None where it has none."""

    def __init__(self, error: ErrorCode, message: str | None = None, *, why: str | None = None) -> None:
        super().__init__(why or message or error.name)
        self.error: Final = error
        self.message: Final = message


def check_size(writes: Iterable[Operation]) -> None:
    """Raise RowRefused if ZooKeeper does not take the writes of a row at once."""
    size = sum(map(operation_bytes, writes))
    if size > ROW_BYTES:
        words = f"This takes {counted(size, 'byte')} in ZooKeeper, and one write has room for {ROW_BYTES:,}."
        raise RowRefused(ErrorCode.INVALID_REQUEST, words)
