"""Registry of a session's armed watches, which have to be set again after a reconnect.

Theory of operation. The server drops watches with the connection. The registry holds them by kind, as ZooKeeper's
request needs them: data watches on existing znodes, exist watches on missing ones, child watches. A watch leaves the
registry when it fires.

An event whose watch is not registered is reported only while its read is in flight, because the event may arrive before
the answer. Otherwise it is the second report of one deletion: if a data watch and a child watch on the same znode were
set again together, the server reports its deletion twice.

Many data watches are set by one request (`WatchRequest`) after their znodes were read. A znode that changed in between
fires before that request is answered, and its watch is not armed then. Requests are answered in order, so an event
belongs to the first one in flight that names its path.

The registry may contain a watch that has fired, because the event of a single read can arrive before its answer.
Setting it again costs at most one additional event. The registry never lacks an armed watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lethe.adapters.zookeeper.wire import full_path
from lethe.protocol.zookeeper.operations import (
    Exists,
    GetChildren,
    Read,
    ReadFailed,
    ReadOutcome,
    WatchFired,
    WatchKind,
    ZkError,
)

_CHUNK_BYTES = 128 * 1024


class WatchChunk(NamedTuple):
    """Watches that fit into one request."""

    data: tuple[str, ...]
    exist: tuple[str, ...]
    children: tuple[str, ...]


class WatchRequest:
    """Data watches that one request sets: paths without the chroot."""

    __slots__ = ("paths",)

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths: dict[str, bool] = dict.fromkeys(paths, True)
        """By path: False if it has fired meanwhile."""

    @property
    def waiting(self) -> list[str]:
        """Paths that are still to be armed."""
        return [path for path, waits in self.paths.items() if waits]


class ArmedWatches:
    """Registry of armed watches. Paths are without the chroot; dicts keep the order in which watches were set."""

    def __init__(self) -> None:
        self._data: dict[str, None] = {}
        self._exist: dict[str, None] = {}
        self._children: dict[str, None] = {}
        self._reads_in_flight: dict[str, int] = {}
        self._armings: list[WatchRequest] = []

    def __len__(self) -> int:
        return len(self._data) + len(self._exist) + len(self._children)

    def read_sent(self, read: Read) -> None:
        """Note that a read with a watch is in flight."""
        self._reads_in_flight[read.path] = self._reads_in_flight.get(read.path, 0) + 1

    def read_over(self, read: Read) -> None:
        """Note that the read was answered, or that its connection is gone."""
        left = self._reads_in_flight.pop(read.path) - 1
        if left:
            self._reads_in_flight[read.path] = left

    def read_answered(self, read: Read, outcome: ReadOutcome) -> None:
        """Register the watch that the answer has armed."""
        match outcome:
            case ReadFailed(error):
                if isinstance(read, Exists) and error is ZkError.NO_NODE:
                    self._exist[read.path] = None
            case _ if isinstance(read, GetChildren):
                self._children[read.path] = None
            case _:
                self._data[read.path] = None

    def arming_sent(self, arming: WatchRequest) -> None:
        """Note that a request that sets these watches is in flight."""
        self._armings.append(arming)

    def arming_over(self, arming: WatchRequest, *, armed: bool) -> None:
        """Note its answer (`armed`: without error) or the loss of its connection. Only the first call counts."""
        if arming in self._armings:
            self._armings.remove(arming)
            if armed:
                self._data.update(dict.fromkeys(arming.waiting))

    def went_off(self, fired: WatchFired) -> bool:
        """Remove the fired watch; return False if the event is not to be reported."""
        path = fired.path
        known = path in self._reads_in_flight
        if fired.kind is not WatchKind.CHILDREN_CHANGED:
            for arming in self._armings:
                if path in arming.paths:
                    known |= arming.paths[path]
                    arming.paths[path] = False
                    break
        for table in self._tables_of(fired.kind):
            if path in table:
                del table[path]
                known = True
        return known

    def _tables_of(self, kind: WatchKind) -> tuple[dict[str, None], ...]:
        match kind:
            case WatchKind.CHILDREN_CHANGED:
                return (self._children,)
            case WatchKind.DELETED:
                return (self._data, self._exist, self._children)
            case WatchKind.CREATED | WatchKind.DATA_CHANGED:
                return (self._data, self._exist)

    def chunks(self, chroot: str) -> Iterator[WatchChunk]:
        """Yield all armed watches under their full paths, in requests of a size that ZooKeeper accepts."""
        lists: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        for found, table in zip(lists, (self._data, self._exist, self._children), strict=True):
            for path in table:
                full = full_path(chroot, path)
                size += 4 + len(full.encode())
                if size > _CHUNK_BYTES and any(lists):
                    yield WatchChunk(tuple(lists[0]), tuple(lists[1]), tuple(lists[2]))
                    for each in lists:
                        each.clear()
                    size = 4 + len(full.encode())
                found.append(full)
        if any(lists):
            yield WatchChunk(tuple(lists[0]), tuple(lists[1]), tuple(lists[2]))
