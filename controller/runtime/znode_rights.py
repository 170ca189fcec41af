"""Rights in ZooKeeper: checked when a session begins, before the controller stands for election.

A controller that may write `/controller` and not `/controller_epoch` would take control from its holder, and could not
begin its term at the end of the grace period: the cluster would have no controller. So one multi tries everything that
each controller writes, and is never applied, since its last operation expects a version that no znode has. The znodes
with children are read before, since a controller that may not read `/admin/delete_topics` could not begin either:

    read /admin                                 allowed
    …

    create and delete a child of /               allowed
    create and delete a child of /brokers/topics NO_AUTH: the access list of /brokers/topics does not admit this client
    …
    set /controller_epoch, version -2            BAD_VERSION: everything is allowed

ZooKeeper checks access lists before versions (PrepRequestProcessor.pRequest2Txn), and drops all changes of a multi with
one operation that fails. Missing znodes are left out; the access list of the parent says who may create them. A znode
that may not be read exists, also for a server that does not tell its existence. The access lists of single topics are
not checked.
"""

from __future__ import annotations

from typing import Final

from lethe.adapters.registration import MAX_ATTEMPTS, RegistrationFailed
from lethe.adapters.zookeeper.interface import WriteRefused, ZooKeeperSession
from lethe.protocol.counting import listed
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    GetData,
    MultiFailed,
    Operation,
    SetData,
    ZkError,
    absence_check,
    error_words,
    is_absent,
    read_error,
)

PARENTS: Final = (
    "/",
    "/admin",
    paths.DELETE_TOPICS,
    paths.BROKER_TOPICS,
    paths.config_topics(),
    paths.ISR_CHANGE_NOTIFICATION,
    paths.LOG_DIR_EVENT_NOTIFICATION,
    paths.LETHE,
    paths.INSTANCES,
    paths.DEBTS,
    paths.TRASH,
    paths.REQUESTS,
    paths.FORGET,
)
"""Znodes whose children the controller creates or deletes."""
CHILD: Final = "~lethe-may-it-write"
"""Name of the child that is tried. No topic can have this name."""
_NO_VERSION: Final = -2
"""A version that no znode has; -1 would be any."""
_LAST: Final = SetData(paths.CONTROLLER_EPOCH, b"", _NO_VERSION)


async def demand_rights(session: ZooKeeperSession) -> None:
    """Raise WriteRefused with all znodes that may not be written. Changes nothing. Raises RegistrationFailed where some
    may not be read, or where it cannot be found out, and SessionLost."""
    parents, unreadable = await _readable(session)
    forbidden: list[str] = []
    unanswered = 0
    while unanswered < MAX_ATTEMPTS:
        pairs: list[Operation] = [operation for parent in parents for operation in absence_check(_child(parent))]
        outcome = await session.multi([*pairs, _LAST])
        if not isinstance(outcome, MultiFailed):
            unanswered += 1
            continue
        if outcome.index < 0:
            what = f"ZooKeeper does not say what may be written: {error_words(outcome.error)}"
            raise RegistrationFailed(what, outcome.error)
        place, is_last = outcome.index // 2, outcome.index == len(pairs)
        path = paths.CONTROLLER_EPOCH if is_last else parents[place]
        if outcome.error is ZkError.NO_AUTH:
            forbidden.append(path)
        elif outcome.error not in (ZkError.NO_NODE, ZkError.NODE_EXISTS, ZkError.BAD_VERSION):
            raise WriteRefused(path, outcome.error)
        if is_last:
            break
        # This one is decided, or was removed meanwhile. The operations behind it were not tried.
        del parents[place]
    else:
        raise RegistrationFailed("ZooKeeper did not answer whether this controller may write its znodes")
    if unreadable:
        also = f", and to write {listed(forbidden)}" if forbidden else ""
        what = f"ZooKeeper refuses to read {listed(unreadable)}{also}: {error_words(ZkError.NO_AUTH)}"
        raise RegistrationFailed(what, ZkError.NO_AUTH)
    if forbidden:
        raise WriteRefused(listed(forbidden), ZkError.NO_AUTH)


async def _readable(session: ZooKeeperSession) -> tuple[list[str], list[str]]:
    """Return the existing ones of PARENTS that may be read, and those that may not."""
    readable: list[str] = []
    unreadable: list[str] = []
    for path, found in zip(PARENTS, await session.read([GetData(path) for path in PARENTS]), strict=True):
        error = read_error(found)
        if error is ZkError.NO_AUTH:
            unreadable.append(path)
        elif error is not None:
            raise RegistrationFailed(f"ZooKeeper does not give the data of {path}: {error_words(error)}", error)
        elif not is_absent(found):
            readable.append(path)
    return readable, unreadable


def _child(parent: str) -> str:
    return f"{parent.removesuffix('/')}/{CHILD}"
