"""Reads Kafka's ACLs from ZooKeeper and follows their changes.

Theory of operation. As in Kafka, changes are not watched znode by znode: whoever changes ACLs creates a notification
afterwards. The reader first lists the notifications with a watch, then reads all ACLs; from then on each notification
that was not in the last list names the ACLs to read again.

    what is seen                                              what follows
    a notification is gone, no text, or of a kind unknown     all ACLs are read again
    the parent of the notifications was deleted               all ACLs are read again
    more than `notifications` at once                         all ACLs are read again
    an ACL znode cannot be read or understood                 requests about its resources are denied
    the names below a type cannot be listed                   requests about all resources of the type are denied
    the notifications cannot be listed, or a limit is passed  everything is denied

Denied does not concern super users. Each fault is logged once, and once more when it has ended; while there is one, all
is read again every half a minute. Before the first read everything is denied. Without a session the last ACLs are kept,
as in Kafka; the next session reads all of them again.

The reader writes nothing. Kafka's brokers remove notifications after 15 minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.counting import counted
from lethe.protocol.security.acls import (
    CHANGES,
    ROOTS,
    WILDCARD,
    AclEntry,
    PatternType,
    ResourcePattern,
    ResourceType,
    acl_path,
    decode_acls,
    decode_change,
    type_path,
)
from lethe.protocol.security.authorizer import NOT_LOADED, UNREADABLE, Acls
from lethe.protocol.zookeeper.json_fields import MalformedZnode
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Exists,
    GetChildren,
    GetData,
    Present,
    ReadOutcome,
    WatchFired,
    ZkError,
    is_absent,
    read_error,
)

logger = logging.getLogger(__name__)

RETRY_S: Final = 30.0
_CHUNK: Final = 200
"""ACL znodes in one read: each may have a megabyte."""
_LOGGED: Final = 20
"""Faults that are logged one by one."""
_SHOWN: Final = 300

_Loaded = dict[ResourcePattern, tuple[AclEntry, ...]]


@dataclass(frozen=True, slots=True)
class AclLimits:
    """More than this is not kept in memory; everything is denied then."""

    resources: int = 100_000
    entries: int = 500_000
    notifications: int = 1_000
    """More new ones than this are not read one by one."""


class _LimitPassed(Exception):
    """The message says which one, and what to do."""


class _Notifications(NamedTuple):
    """The notifications below one parent, as last listed."""

    created_zxid: int
    """Of the parent; -1 if there is none."""
    names: frozenset[str]


class AclReader:
    """The ACLs of one cluster. Hand `on_watch` each watch of the session that `follow` is given."""

    def __init__(
        self,
        limits: AclLimits = AclLimits(),
        *,
        changed: Callable[[], None] = lambda: None,
        retry_s: float = RETRY_S,
    ) -> None:
        """`changed` is called after each change of `acls`."""
        self.acls: Acls = NOT_LOADED
        """The ACLs as last read; replaced as a whole."""
        self.faults: Mapping[str, str] = {}
        """What is denied because it could not be read: the znode's path, and why."""
        self.loaded: Final = asyncio.Event()
        """Set once `acls` has been read for the first time, even with faults."""
        self._limits = limits
        self._changed = changed
        self._retry_s = retry_s
        self._unlisted = False
        """Whether the names below some type could not be listed."""
        self._fired = asyncio.Event()
        self._known: dict[PatternType, _Notifications] = {}

    def on_watch(self, fired: WatchFired) -> None:
        """Note that the notifications have changed. Other watches are ignored."""
        if fired.path in CHANGES.values():
            self._fired.set()

    async def follow(self, session: ZooKeeperSession) -> None:
        """Read the ACLs and follow their changes until the session is lost. Raises SessionLost."""
        self._known = {}
        while True:
            self._fired.clear()
            try:
                await self._look(session)
            except _LimitPassed as passed:
                self._deny_all({ROOTS[PatternType.LITERAL]: str(passed)})
            await self._wait(session)

    async def _wait(self, session: ZooKeeperSession) -> None:
        """Wait for a change, or until faults are to be looked at again. Raises SessionLost through the next read."""
        lost = asyncio.ensure_future(session.lost.wait())
        fired = asyncio.ensure_future(self._fired.wait())
        try:
            done, _ = await asyncio.wait(
                {lost, fired}, timeout=self._retry_s if self.faults else None, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            lost.cancel()
            fired.cancel()
        if not done:
            self._known = {}

    # --- reading --------------------------------------------------------------------------------------------------

    async def _look(self, session: ZooKeeperSession) -> None:
        """List the notifications; read what they name, or everything."""
        listed, faults = await self._list_notifications(session)
        if faults:
            self._deny_all(faults)
            return
        known, self._known = self._known, {}
        named = await self._named_by_new(session, known, listed)
        if named is None:
            acls, faults = await self._read_all(session)
            self._publish(Acls.of(acls), faults)
        elif named:
            await self._read_again(session, named)
        self._known = listed

    async def _list_notifications(
        self, session: ZooKeeperSession
    ) -> tuple[dict[PatternType, _Notifications], dict[str, str]]:
        parents = list(CHANGES.items())
        reads = [read for _, path in parents for read in (Exists(path, watch=True), GetChildren(path, watch=True))]
        outcomes = await session.read(reads)
        listed: dict[PatternType, _Notifications] = {}
        faults: dict[str, str] = {}
        for (pattern_type, path), there, children in zip(parents, outcomes[::2], outcomes[1::2], strict=True):
            if isinstance(there, Present) and isinstance(children, Children):
                listed[pattern_type] = _Notifications(there.stat.czxid, frozenset(children.names))
            elif (error := read_error(there) or read_error(children)) is not None:
                faults[path] = f"it cannot be listed ({error.name}), so changes of ACLs would be missed"
            else:
                listed[pattern_type] = _Notifications(-1, frozenset())
        return listed, faults

    async def _named_by_new(
        self,
        session: ZooKeeperSession,
        known: Mapping[PatternType, _Notifications],
        listed: Mapping[PatternType, _Notifications],
    ) -> tuple[ResourcePattern, ...] | None:
        """Return the resources whose ACLs have changed; None if that cannot be told."""
        if self._unlisted:
            return None
        new: list[str] = []
        for pattern_type, path in CHANGES.items():
            before, now = known.get(pattern_type), listed[pattern_type]
            if before is None or before.created_zxid != now.created_zxid:
                return None
            new += (f"{path}/{name}" for name in sorted(now.names - before.names))
        if len(new) > self._limits.notifications:
            return None
        named: dict[ResourcePattern, None] = {}
        for path, outcome in zip(new, await session.read([GetData(path) for path in new]), strict=True):
            if not isinstance(outcome, Data):
                return None
            try:
                resource = decode_change(path, outcome.data)
            except MalformedZnode as error:
                logger.warning("all ACLs are read again: %s", error)
                return None
            if resource is not None and _can_be_znode(resource.name):
                named[resource] = None
        return tuple(named)

    async def _read_again(self, session: ZooKeeperSession, resources: Sequence[ResourcePattern]) -> None:
        faults = dict(self.faults)
        loaded: _Loaded = {}
        for resource in resources:
            faults.pop(acl_path(resource), None)
        await self._read_znodes(session, resources, loaded, faults)
        acls = self.acls.replaced(loaded)
        self._check_limits(resources=acls.pattern_count, entries=acls.entry_count)
        self._publish(acls, faults)

    async def _read_all(self, session: ZooKeeperSession) -> tuple[_Loaded, dict[str, str]]:
        kinds = [(resource_type, pattern_type) for pattern_type in PatternType for resource_type in ResourceType]
        parents = [type_path(*kind) for kind in kinds]
        outcomes = await session.read([GetChildren(path) for path in parents])
        faults: dict[str, str] = {}
        unlisted: _Loaded = {}
        resources: list[ResourcePattern] = []
        for (resource_type, pattern_type), path, outcome in zip(kinds, parents, outcomes, strict=True):
            if isinstance(outcome, Children):
                resources += (ResourcePattern(resource_type, pattern_type, name) for name in outcome.names)
            elif (error := read_error(outcome)) is not None:
                faults[path] = f"its names cannot be listed ({error.name})"
                faults |= {known: reason for known, reason in self.faults.items() if known.startswith(f"{path}/")}
                unlisted[ResourcePattern(resource_type, PatternType.LITERAL, WILDCARD)] = UNREADABLE
        self._check_limits(resources=len(resources))
        loaded: _Loaded = {}
        await self._read_znodes(session, resources, loaded, faults)
        self._unlisted = bool(unlisted)
        await _name_unknown_types(session)
        return loaded | unlisted, faults

    async def _read_znodes(
        self, session: ZooKeeperSession, resources: Iterable[ResourcePattern], loaded: _Loaded, faults: dict[str, str]
    ) -> None:
        """Read the ACLs of these resources into `loaded`, and why some cannot be read into `faults`."""
        entries = 0
        for chunk in _chunks(resources):
            outcomes = await session.read([GetData(acl_path(resource)) for resource in chunk])
            for resource, outcome in zip(chunk, outcomes, strict=True):
                path = acl_path(resource)
                try:
                    loaded[resource] = _entries(path, outcome)
                except MalformedZnode as error:
                    loaded[resource] = UNREADABLE
                    faults[path] = error.reason
                entries += len(loaded[resource])
            self._check_limits(entries=entries)

    def _check_limits(self, *, resources: int = 0, entries: int = 0) -> None:
        """Raise _LimitPassed if there are more than are kept."""
        limits = self._limits
        if resources > limits.resources:
            found = f"ACLs for {counted(resources, 'resource')}"
        elif entries > limits.entries:
            found = counted(entries, "entry", "entries")
        else:
            return
        raise _LimitPassed(
            f"it has {found} or more, and at most {counted(limits.resources, 'resource')} with "
            f"{counted(limits.entries, 'entry', 'entries')} are kept; use prefixed ACLs to have fewer"
        )

    # --- telling --------------------------------------------------------------------------------------------------

    def _deny_all(self, faults: Mapping[str, str]) -> None:
        """Deny everything until all ACLs have been read again. Faults of before are out of sight, not over."""
        self._known = {}
        self._publish(NOT_LOADED, {**self.faults, **faults})

    def _publish(self, acls: Acls, faults: Mapping[str, str]) -> None:
        new = [(path, reason) for path, reason in faults.items() if self.faults.get(path) != reason]
        for path, reason in new[:_LOGGED]:
            logger.error(
                "ACLs cannot be used, so requests about their resources are denied: %s: %s", _shortened(path), reason
            )
        if len(new) > _LOGGED:
            logger.error("ACLs of %s more cannot be used either", counted(len(new) - _LOGGED, "znode"))
        over = [path for path in self.faults if path not in faults]
        for path in over[:_LOGGED]:
            logger.info("ACLs can be used again: %s", _shortened(path))
        if len(over) > _LOGGED:
            logger.info("ACLs of %s more can be used again", counted(len(over) - _LOGGED, "znode"))
        self.acls, self.faults = acls, dict(faults)
        self.loaded.set()
        self._changed()


def _shortened(path: str) -> str:
    """Return the path for a line of the log: a name may have a million letters."""
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}… ({counted(len(path), 'character')})"


def _chunks(resources: Iterable[ResourcePattern]) -> Iterator[list[ResourcePattern]]:
    rest = iter(resources)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _entries(path: str, outcome: ReadOutcome) -> tuple[AclEntry, ...]:
    """Return the ACLs that were read; none if the znode is gone. Raises MalformedZnode."""
    if isinstance(outcome, Data):
        return decode_acls(path, outcome.data)
    error = read_error(outcome)
    if is_absent(outcome) or error is ZkError.BAD_ARGUMENTS:
        return ()
    raise MalformedZnode(path, f"it cannot be read ({'unknown' if error is None else error.name})")


def _can_be_znode(name: str) -> bool:
    """Return whether a znode may have this name: a notification may have any."""
    return bool(name) and "/" not in name and "\0" not in name and name not in (".", "..")


async def _name_unknown_types(session: ZooKeeperSession) -> None:
    """Log the resource types that are in no table: no request here is about them, and Kafka ignores them as well."""
    known = {resource_type.value for resource_type in ResourceType}
    roots = list(ROOTS.values())
    for root, outcome in zip(roots, await session.read([GetChildren(root) for root in roots]), strict=True):
        names = outcome.names if isinstance(outcome, Children) else ()
        for name in [name for name in names if name not in known][:_LOGGED]:
            path = _shortened(f"{root}/{name}")
            logger.warning("ACLs of an unknown type of resource are ignored, as in Kafka: %s", path)
