"""ZooKeeper's operations and their outcomes as values.

The controller's core produces operations; the runtime performs them through an adapter, tests perform them on a model.
Versions are ZooKeeper data versions; ANY_VERSION skips the comparison.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

ANY_VERSION: Final = -1


class Acl(enum.Enum):
    """ACL of a created znode if `zookeeper.set.acl` is on."""

    DEFAULT = "default"
    """Creator: all; world: read. World: all if `zookeeper.set.acl` is off."""
    SECRET = "secret"
    """Creator: all; world: nothing."""
    OPEN = "open"
    """World: all, whatever the setting."""


class ZkError(enum.IntEnum):
    """ZooKeeper's error codes that our requests can return."""

    RUNTIME_INCONSISTENCY = -2
    """In a multi: an operation after the one that failed."""
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    OTHER = -999
    """A code that is not in this table."""


FORBIDDEN: Final = (ZkError.NO_AUTH, ZkError.INVALID_ACL)
"""Errors of writes that stay until somebody changes an access list, the server, or who we are."""


def error_words(error: ZkError) -> str:
    """Return the error's name, with a remedy for those that come from access lists."""
    match error:
        case ZkError.NO_AUTH:
            return (
                "NO_AUTH, since its access list does not admit this client: log in to ZooKeeper as the user that it "
                "belongs to, mostly the brokers', or change the list"
            )
        case ZkError.INVALID_ACL:
            return (
                "INVALID_ACL, since this server cannot make znodes belong to this client: give it the authProvider for "
                "the login, or turn zookeeper.set.acl off"
            )
        case _:
            return error.name


class ZnodeError(NamedTuple):
    """An error, and the path of the znode that it is about, where that is known."""

    error: ZkError
    path: str | None = None

    @property
    def words(self) -> str:
        """The path and `error_words`."""
        words = error_words(self.error)
        return words if self.path is None else f"{self.path}: {words}"


class Stat(NamedTuple):
    """The parts of ZooKeeper's Stat that Kafka's protocol uses."""

    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    num_children: int = 0


# --- writes -------------------------------------------------------------------------------------------------------


class Create(NamedTuple):
    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False
    acl: Acl = Acl.DEFAULT


class SetData(NamedTuple):
    path: str
    data: bytes | None
    version: int


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    path: str
    version: int


Operation = Create | SetData | Delete | Check


def absence_check(path: str) -> tuple[Operation, Operation]:
    """Return operations that fail with NODE_EXISTS if the znode exists, and change nothing if it does not.

    ZooKeeper checks a znode's version, but not its absence. So a multi creates the znode and deletes it again.
    Otherwise it could remove what belongs to a topic that was created since the last read.
    """
    return Create(path, None), Delete(path)


class MultiDone(NamedTuple):
    """Every operation was applied.

    `stats[i]` is the new Stat after a SetData, None for a Check or Delete; after a Create, the Stat if the server sends
    one (create2). `paths[i]` is the path of the created znode, sequence number included, else the operation's path.
    """

    stats: tuple[Stat | None, ...]
    paths: tuple[str, ...]
    zxid: int = -1


class MultiFailed(NamedTuple):
    """Nothing was applied, because operation `index` failed with `error`."""

    index: int  # type: ignore[assignment]  # the name is worth more than tuple.index
    error: ZkError


class MultiUnknown(NamedTuple):
    """The reply was lost: either everything was applied, or nothing."""

    reason: str


MultiOutcome = MultiDone | MultiFailed | MultiUnknown


# --- reads --------------------------------------------------------------------------------------------------------


class GetData(NamedTuple):
    path: str
    watch: bool = False


class GetChildren(NamedTuple):
    path: str
    watch: bool = False


class Exists(NamedTuple):
    path: str
    watch: bool = False
    """Unlike the other two, Exists also sets a watch on a missing znode."""


Read = GetData | GetChildren | Exists


class Data(NamedTuple):
    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    names: tuple[str, ...]
    """Sorted, because ZooKeeper guarantees no order."""


class Present(NamedTuple):
    """Answer to Exists for an existing znode.

    The times are the server's, in milliseconds since 1970: creation and last write of the data; 0 if not available.
    """

    stat: Stat
    created_at_ms: int = 0
    modified_at_ms: int = 0


class ReadFailed(NamedTuple):
    error: ZkError


ReadOutcome = Data | Children | Present | ReadFailed


def is_absent(outcome: ReadOutcome) -> bool:
    """Return whether the read found no znode. Any other failure says nothing about its existence."""
    return isinstance(outcome, ReadFailed) and outcome.error is ZkError.NO_NODE


def failure_words(outcome: ReadOutcome) -> str:
    """Return why this outcome is not the one that the read asks for, in the words of `error_words`."""
    return error_words(outcome.error) if isinstance(outcome, ReadFailed) else f"an unexpected {type(outcome).__name__}"


def read_error(outcome: ReadOutcome) -> ZkError | None:
    """Return the error of a read that left unseen what the znode has, and whether it exists; None if it was seen."""
    return outcome.error if isinstance(outcome, ReadFailed) and not is_absent(outcome) else None


# --- watches ------------------------------------------------------------------------------------------------------


class WatchKind(enum.Enum):
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchFired(NamedTuple):
    """A one-shot watch fired; the path is without the chroot."""

    kind: WatchKind
    path: str


# --- sessions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Credentials:
    """Content of `addAuth`: scheme `digest` and `user:password`."""

    scheme: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Credentials(scheme={self.scheme!r}, secret=…)"
