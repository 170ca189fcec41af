"""Which watches of a session are armed: what has to be set again after a reconnect.

Theory of operation. The server forgets watches with the connection. What was armed is kept here by kind, as ZooKeeper
wants it back: data watches on znodes that were there, exist watches on znodes that were not, child watches. A watch
leaves the books when it goes off. One that goes off without being in the books is reported only where its read is still
under way: the event may overtake the answer; otherwise it is the second report of one deletion (a watch on the data and
one on the children of the same znode, set again together), which the server sends once in every other case.

Many data watches are set by one request (`Arming`) after their znodes were read. What changed in between goes off
before that request is answered, and is then not armed. Requests are answered in their order, so that an event belongs
to the first of them under way that names its path. The books may come to hold a watch that has gone off (the event of a
read that stands alone can overtake its answer); to set that one again costs at most an event too many. They never lack
one.
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
    """As much as goes into one request."""

    data: tuple[str, ...]
    exist: tuple[str, ...]
    children: tuple[str, ...]


class Arming:
    """Data watches that one request sets: paths without the chroot."""

    __slots__ = ("paths",)

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths: dict[str, bool] = dict.fromkeys(paths, True)
        """False for what has gone off meanwhile."""

    @property
    def waiting(self) -> list[str]:
        """What is still to be armed."""
        return [path for path, waits in self.paths.items() if waits]


class ArmedWatches:
    """The books. Paths are without the chroot; dicts keep the order in which the watches were set."""

    def __init__(self) -> None:
        self._data: dict[str, None] = {}
        self._exist: dict[str, None] = {}
        self._children: dict[str, None] = {}
        self._under_way: dict[str, int] = {}
        self._armings: list[Arming] = []

    def __len__(self) -> int:
        return len(self._data) + len(self._exist) + len(self._children)

    def read_sent(self, read: Read) -> None:
        """A read that arms a watch is under way."""
        self._under_way[read.path] = self._under_way.get(read.path, 0) + 1

    def read_over(self, read: Read) -> None:
        """It has been answered, or its connection is gone."""
        left = self._under_way.pop(read.path) - 1
        if left:
            self._under_way[read.path] = left

    def read_answered(self, read: Read, outcome: ReadOutcome) -> None:
        """Notes what the answer says is armed now."""
        match outcome:
            case ReadFailed(error):
                if isinstance(read, Exists) and error is ZkError.NO_NODE:
                    self._exist[read.path] = None
            case _ if isinstance(read, GetChildren):
                self._children[read.path] = None
            case _:
                self._data[read.path] = None

    def arming_sent(self, arming: Arming) -> None:
        """A request that sets these watches is under way."""
        self._armings.append(arming)

    def arming_over(self, arming: Arming, *, armed: bool) -> None:
        """It has been answered (`armed`: well), or its connection is gone. What is said twice counts once."""
        if arming in self._armings:
            self._armings.remove(arming)
            if armed:
                self._data.update(dict.fromkeys(arming.waiting))

    def went_off(self, fired: WatchFired) -> bool:
        """Strikes it out; False where nobody waits for it."""
        path = fired.path
        known = path in self._under_way
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
        """All armed watches under their full paths, in requests of a size that ZooKeeper takes."""
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
