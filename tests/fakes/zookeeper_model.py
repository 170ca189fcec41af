"""ZooKeeper as a pure, deterministic value-like object: no clock of its own, no sockets, no randomness.

Theory of operation. The tree is a dict of immutable znodes by path. Every multi takes one zxid, whether it is applied
or not, and its operations are applied one after another on the tree; the first that fails undoes the others. Watches
are kept per session as the server keeps them: data watches (of GetData and Exists alike) and child watches, one-shot,
fired when a multi has been applied, in the order in which the server sends them. `take_fired` takes what has fired.

Access lists, quotas and observers are not modelled; the times of znodes come from the clock that it is given. That the
answers are those of the real server is what tests/contract shows. Two models with the same history are equal in
`digest()`, whatever PYTHONHASHSEED is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Children,
    Create,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    Operation,
    Present,
    Read,
    ReadFailed,
    ReadOutcome,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZkError,
)
from lethe.protocol.zookeeper.paths import parent_of, path_problem


class Znode(NamedTuple):
    """One node of the tree."""

    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    creations: int = 0
    """Children ever created: where sequence numbers come from."""
    owner: int = 0
    created_at_ms: int = 0
    modified_at_ms: int = 0


class Fired(NamedTuple):
    """A watch of one session went off."""

    session: int
    watch: WatchFired


class ArmedWatches(NamedTuple):
    """What one session watches, sorted."""

    data: tuple[str, ...]
    children: tuple[str, ...]


class DeadSession(Exception):
    """The session is closed or expired, or never was."""


class _Refused(Exception):
    def __init__(self, error: ZkError) -> None:
        super().__init__(error)
        self.error = error


_Undo = tuple[str, Znode | None]
_Trigger = tuple[WatchKind, str]


class ZooKeeperModel:
    """A ZooKeeper ensemble that always answers. Not thread-safe; copy it to look at what might happen."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: 0) -> None:
        self.clock_ms = clock_ms
        """The server's own clock, for the times of znodes."""
        self._nodes: dict[str, Znode] = {"/": Znode(None, 0, 0, 0)}
        self._children: dict[str, dict[str, None]] = {"/": {}}
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._data_watches: dict[str, dict[int, None]] = {}
        self._child_watches: dict[str, dict[int, None]] = {}
        self._fired: list[Fired] = []
        self._last_session = 0
        self.zxid = 0
        """Of the last write, applied or not."""

    # --- sessions -------------------------------------------------------------------------------------------------

    def open_session(self) -> int:
        """A new session: 1, 2, 3, ..."""
        self.zxid += 1
        self._last_session += 1
        self._ephemerals[self._last_session] = {}
        return self._last_session

    def close_session(self, session: int) -> None:
        """The end of a session, by its own wish or by expiry: its watches and its ephemeral znodes go."""
        if session not in self._ephemerals:
            return
        self.forget_watches(session)
        self.zxid += 1
        triggers: list[_Trigger] = []
        for path in sorted(self._ephemerals[session]):
            self._remove(path, triggers, [])
        del self._ephemerals[session]
        self._fire(triggers)

    def is_alive(self, session: int) -> bool:
        """False once the session is closed or expired."""
        return session in self._ephemerals

    @property
    def sessions(self) -> tuple[int, ...]:
        """The living sessions."""
        return tuple(self._ephemerals)

    # --- requests -------------------------------------------------------------------------------------------------

    def multi(self, session: int, operations: Sequence[Operation]) -> MultiOutcome:
        """All operations, or none and the first that failed. Raises DeadSession."""
        self._demand_alive(session)
        self.zxid += 1
        undo: list[_Undo] = []
        triggers: list[_Trigger] = []
        stats: list[Stat | None] = []
        paths: list[str] = []
        for index, operation in enumerate(operations):
            try:
                stat, path = self._apply(session, operation, triggers, undo)
            except _Refused as refused:
                self._roll_back(undo)
                return MultiFailed(index, refused.error)
            stats.append(stat)
            paths.append(path)
        self._fire(triggers)
        return MultiDone(tuple(stats), tuple(paths), self.zxid)

    def read(self, session: int, read: Read) -> ReadOutcome:
        """The answer; arms the watch where one is asked for. Raises DeadSession."""
        self._demand_alive(session)
        node = self._nodes.get(read.path)
        if read.watch and (node is not None or isinstance(read, Exists)):
            table = self._child_watches if isinstance(read, GetChildren) else self._data_watches
            table.setdefault(read.path, {})[session] = None
        if node is None:
            return ReadFailed(ZkError.NO_NODE)
        match read:
            case GetData():
                return Data(node.data, self._stat(read.path))
            case GetChildren():
                return Children(tuple(sorted(self._children[read.path])))
            case Exists():
                return Present(self._stat(read.path), node.created_at_ms, node.modified_at_ms)

    # --- watches --------------------------------------------------------------------------------------------------

    def take_fired(self) -> list[Fired]:
        """The watches that went off since the last call, in order."""
        fired, self._fired = self._fired, []
        return fired

    def armed(self, session: int) -> ArmedWatches:
        """What the session watches."""
        return ArmedWatches(
            tuple(sorted(path for path, watchers in self._data_watches.items() if session in watchers)),
            tuple(sorted(path for path, watchers in self._child_watches.items() if session in watchers)),
        )

    def forget_watches(self, session: int) -> None:
        """The session's connection is gone: nothing fires for it until it sets its watches again."""
        for table in (self._data_watches, self._child_watches):
            for path in [path for path, watchers in table.items() if session in watchers]:
                _drop(table, path, session)

    def set_watches(
        self,
        session: int,
        relative_zxid: int,
        data: Iterable[str] = (),
        exist: Iterable[str] = (),
        children: Iterable[str] = (),
    ) -> None:
        """What a client sends after a reconnect: watches whose znode has changed since `relative_zxid` fire at once,
        the others are armed. `exist` are those that were set on a missing znode. Raises DeadSession."""
        self._demand_alive(session)
        for path in data:
            node = self._nodes.get(path)
            if node is None:
                self._tell(session, WatchKind.DELETED, path)
            elif node.mzxid > relative_zxid:
                self._tell(session, WatchKind.DATA_CHANGED, path)
            else:
                self._data_watches.setdefault(path, {})[session] = None
        for path in exist:
            if path in self._nodes:
                self._tell(session, WatchKind.CREATED, path)
            else:
                self._data_watches.setdefault(path, {})[session] = None
        for path in children:
            node = self._nodes.get(path)
            if node is None:
                self._tell(session, WatchKind.DELETED, path)
            elif node.pzxid > relative_zxid:
                self._tell(session, WatchKind.CHILDREN_CHANGED, path)
            else:
                self._child_watches.setdefault(path, {})[session] = None

    # --- the model as a value -------------------------------------------------------------------------------------

    def copy(self) -> ZooKeeperModel:
        """An independent model in the same state."""
        other = ZooKeeperModel(self.clock_ms)
        other._nodes = dict(self._nodes)
        other._children = {path: dict(names) for path, names in self._children.items()}
        other._ephemerals = {session: dict(paths) for session, paths in self._ephemerals.items()}
        other._data_watches = {path: dict(sessions) for path, sessions in self._data_watches.items()}
        other._child_watches = {path: dict(sessions) for path, sessions in self._child_watches.items()}
        other._fired = list(self._fired)
        other._last_session = self._last_session
        other.zxid = self.zxid
        return other

    def digest(self) -> str:
        """The same text for the same state: tree, sessions, watches, and what has fired but was not taken."""
        state = (
            self.zxid,
            self._last_session,
            list(self._ephemerals),
            sorted((path, tuple(node)) for path, node in self._nodes.items()),
            sorted((path, sorted(sessions)) for path, sessions in self._data_watches.items()),
            sorted((path, sorted(sessions)) for path, sessions in self._child_watches.items()),
            [(fired.session, fired.watch.kind.value, fired.watch.path) for fired in self._fired],
        )
        return hashlib.sha256(repr(state).encode("utf-8", "surrogatepass")).hexdigest()

    def node(self, path: str) -> Znode | None:
        """The znode as it is, without a session; None where there is none."""
        return self._nodes.get(path)

    def children(self, path: str) -> tuple[str, ...]:
        """The names under a path, sorted; none where there is no znode."""
        return tuple(sorted(self._children.get(path, ())))

    def paths(self) -> tuple[str, ...]:
        """Every path of the tree, sorted."""
        return tuple(sorted(self._nodes))

    # --- the tree -------------------------------------------------------------------------------------------------

    def _apply(
        self, session: int, operation: Operation, triggers: list[_Trigger], undo: list[_Undo]
    ) -> tuple[Stat | None, str]:
        match operation:
            case Create():
                path = self._create(session, operation, triggers, undo)
                return self._stat(path), path
            case SetData(path, data, version):
                node = self._demand(path, version)
                undo.append((path, node))
                self._nodes[path] = node._replace(
                    data=data, version=node.version + 1, mzxid=self.zxid, modified_at_ms=self.clock_ms()
                )
                triggers.append((WatchKind.DATA_CHANGED, path))
                return self._stat(path), path
            case Delete(path, version):
                if path == "/":
                    raise _Refused(ZkError.BAD_ARGUMENTS)
                self._demand(path, version)
                if self._children[path]:
                    raise _Refused(ZkError.NOT_EMPTY)
                self._remove(path, triggers, undo)
                return None, path
            case Check(path, version):
                self._demand(path, version)
                return None, path

    def _create(self, session: int, operation: Create, triggers: list[_Trigger], undo: list[_Undo]) -> str:
        parent = parent_of(operation.path) if operation.path.startswith("/") else ""
        above = self._nodes.get(parent)
        if not parent:
            raise _Refused(ZkError.BAD_ARGUMENTS)
        if above is None:
            raise _Refused(ZkError.NO_NODE)
        path = f"{operation.path}{above.creations:010d}" if operation.sequential else operation.path
        if path_problem(path):
            raise _Refused(ZkError.BAD_ARGUMENTS)
        if path in self._nodes:
            raise _Refused(ZkError.NODE_EXISTS)
        if above.owner:
            raise _Refused(ZkError.NO_CHILDREN_FOR_EPHEMERALS)
        undo += [(parent, above), (path, None)]
        self._nodes[parent] = above._replace(creations=above.creations + 1, pzxid=self.zxid)
        owner = session if operation.ephemeral else 0
        now_ms = self.clock_ms()
        self._put(path, Znode(operation.data, self.zxid, self.zxid, self.zxid, 0, 0, owner, now_ms, now_ms))
        triggers += [(WatchKind.CREATED, path), (WatchKind.CHILDREN_CHANGED, parent)]
        return path

    def _remove(self, path: str, triggers: list[_Trigger], undo: list[_Undo]) -> None:
        parent = parent_of(path)
        undo += [(parent, self._nodes[parent]), (path, self._nodes[path])]
        self._nodes[parent] = self._nodes[parent]._replace(pzxid=self.zxid)
        self._take(path)
        triggers += [(WatchKind.DELETED, path), (WatchKind.CHILDREN_CHANGED, parent)]

    def _put(self, path: str, node: Znode) -> None:
        self._nodes[path] = node
        self._children.setdefault(path, {})
        self._children[parent_of(path)][path.rsplit("/", 1)[1]] = None
        if node.owner:
            self._ephemerals[node.owner][path] = None

    def _take(self, path: str) -> None:
        node = self._nodes.pop(path)
        del self._children[path]
        del self._children[parent_of(path)][path.rsplit("/", 1)[1]]
        if node.owner:
            del self._ephemerals[node.owner][path]

    def _roll_back(self, undo: list[_Undo]) -> None:
        for path, before in reversed(undo):
            if before is None:
                self._take(path)
            elif path in self._nodes:
                self._nodes[path] = before
            else:
                self._put(path, before)

    def _demand(self, path: str, version: int) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise _Refused(ZkError.NO_NODE)
        if version not in (ANY_VERSION, node.version):
            raise _Refused(ZkError.BAD_VERSION)
        return node

    def _demand_alive(self, session: int) -> None:
        if session not in self._ephemerals:
            raise DeadSession(f"session {session} is not alive")

    def _stat(self, path: str) -> Stat:
        node = self._nodes[path]
        return Stat(node.czxid, node.mzxid, node.version, node.owner, len(self._children[path]))

    def _fire(self, triggers: Iterable[_Trigger]) -> None:
        for kind, path in triggers:
            told: dict[int, None] = {}
            if kind is not WatchKind.CHILDREN_CHANGED:
                told = self._data_watches.pop(path, {})
            if kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
                told = told | self._child_watches.pop(path, {})
            for session in told:
                self._tell(session, kind, path)

    def _tell(self, session: int, kind: WatchKind, path: str) -> None:
        self._fired.append(Fired(session, WatchFired(kind, path)))


def _drop(table: dict[str, dict[int, None]], path: str, session: int) -> None:
    del table[path][session]
    if not table[path]:
        del table[path]
