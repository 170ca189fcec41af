"""Takes repairs of `lethe doctor --fix` back, from the backup.

The tree has to be as the repairs left it: each znode that they wrote has the same zxid of its last write, or is still
absent. Otherwise nothing is written, and the changed znodes are named. What the repairs required to be absent (a topic
of that name) has to be absent still.

    /config/topics/gone    before the repair     after it    now         restored
                           retention.ms=1        absent      absent      created with retention.ms=1
                           retention.ms=1        absent      absent, and /brokers/topics/gone exists     refused
    /admin/reassign_…      2 entries             1 entry     1 entry     written with 2 entries

Ephemeral znodes belonged to a session that is over; they stay gone. Restored znodes get the ACLs of new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_backup import Backup, SavedZnode
from lethe.admin.doctor_fix import NO_FENCE
from lethe.admin.doctor_repairs import acl_notification
from lethe.admin.outcomes import Outcome
from lethe.admin.refusal import Refusal
from lethe.protocol.counting import listed
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_notification
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    GetData,
    Operation,
    SetData,
    absence_check,
    error_words,
)
from lethe.protocol.zookeeper.packing import (
    FenceFailed,
    Group,
    GroupDone,
    GroupFailed,
    GroupOutcome,
    GroupUnknown,
    MultiPlan,
)
from lethe.survey.znodes import data_of, read_data
from lethe.survey.zookeeper import read_cluster_id

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class SavedPath:
    """A znode over all repairs of a backup. `after` is the zxid of its last write after the last one; None: it is gone;
    `_UNKNOWN`: that repair was interrupted."""

    before: SavedZnode
    after: int | None
    repair: int


class RestorePlan(NamedTuple):
    """What would be written, one group for each repair, and what is left."""

    fence: Check
    groups: tuple[Group, ...]
    names: tuple[str, ...]
    """What each group restores."""
    changed: tuple[str, ...]
    """Znodes that have changed since, with what happened."""
    ephemeral: tuple[str, ...]
    """Znodes that cannot be restored."""

    @property
    def states(self) -> tuple[str, ...]:
        """Partition states among the writes, which an active controller does not read by itself."""
        writes = (each.path for group in self.groups for each in group)
        return tuple(path for path in writes if paths.state_of(path) is not None)


async def plan_restore(session: ZooKeeperSession, backup: Backup) -> RestorePlan:
    """Return what taking the repairs back takes. Raises Refusal for the backup of another cluster, and where there is
    nothing to fence the writes with, ZnodeUnreadable and SessionLost."""
    present = await read_cluster_id(session)
    if present != backup.cluster_id:
        raise Refusal(f"the backup is of cluster {backup.cluster_id}, and this is cluster {present}")
    epoch = await read_data(session, paths.CONTROLLER_EPOCH)
    if epoch is None:
        raise Refusal(NO_FENCE)
    saved = _folded(backup)
    absent = list(dict.fromkeys(path for repair in backup.repairs for path in repair.absent if path not in saved))
    trashed = [paths.trashed(name) for path in absent if (name := paths.topic_of(path)) is not None]
    wanted = [*saved, *absent, *trashed, paths.ACL_CHANGES]
    outcomes = await session.read(list(map(GetData, wanted)))
    now = {path: data_of(outcome, path) for path, outcome in zip(wanted, outcomes, strict=True)}
    changed = [text for path, each in saved.items() if (text := _change(path, each, now[path])) is not None]
    changed += [f"{path} exists by now" for path in (*absent, *trashed) if now[path] is not None]
    ephemeral = tuple(path for path, each in saved.items() if each.before.ephemeral)
    groups, names = [], []
    for number, repair in enumerate(backup.repairs):
        those = [each for each in saved.values() if each.repair == number and not each.before.ephemeral]
        writes = tuple(_writes(those, now))
        if writes:
            checks = [each for path in repair.absent if path in absent for each in absence_check(path)]
            tell = _notifications(writes, has_acls=now[paths.ACL_CHANGES] is not None)
            groups.append((*checks, *writes, *tell))
            names.append(f"{repair.kind}: {repair.what}")
    fence = Check(paths.CONTROLLER_EPOCH, epoch.stat.version)
    return RestorePlan(fence, tuple(groups), tuple(names), tuple(changed), ephemeral)


def _folded(backup: Backup) -> dict[str, SavedPath]:
    """Return each znode that the repairs changed, as it was before the first and after the last one. Where others wrote
    it in between, only the later repairs are taken back."""
    found: dict[str, SavedPath] = {}
    for number, repair in enumerate(backup.repairs):
        for znode in repair.before:
            after = _UNKNOWN if repair.after is None else repair.after.get(znode.path)
            if after == znode.mzxid:
                continue
            first = found.get(znode.path)
            if first is None or first.after != znode.mzxid:
                first = SavedPath(znode, after, number)
            found[znode.path] = replace(first, after=after)
    return found


def _is_as_before(before: SavedZnode, now: Data | None) -> bool:
    return now is None if not before.existed else now is not None and now.data == before.data


def _change(path: str, saved: SavedPath, now: Data | None) -> str | None:
    """Return what happened to the znode since the repair; None where it can be restored, or is as it was before."""
    if saved.before.ephemeral or _is_as_before(saved.before, now):
        return None
    if now is None:
        return None if saved.after in (None, _UNKNOWN) else f"{path} was removed"
    if saved.after == _UNKNOWN:
        return f"{path} has other data, and the repair of it was interrupted"
    return None if saved.after == now.stat.mzxid else f"{path} was {'created' if saved.after is None else 'changed'}"


def _writes(saved: Sequence[SavedPath], now: dict[str, Data | None]) -> Iterator[Operation]:
    """Yield the writes, parents first. A znode that did not exist is removed."""
    gone = []
    for each in sorted(saved, key=lambda each: each.before.path):
        path, present = each.before.path, now[each.before.path]
        if _is_as_before(each.before, present):
            continue
        if present is None:
            yield Create(path, each.before.data)
        elif each.before.existed:
            yield SetData(path, each.before.data, present.stat.version)
        else:
            gone.append(Delete(path, present.stat.version))
    yield from reversed(gone)


def _notifications(writes: Sequence[Operation], *, has_acls: bool) -> Iterator[Operation]:
    """Yield what brokers and authorizers are told by: they have dropped what is restored."""
    for each in writes:
        if paths.child_of(paths.config_topics(), each.path) is not None:
            yield config_notification(each.path)
        if has_acls and (topic := paths.child_of(paths.ACL_TOPICS, each.path)) is not None:
            yield acl_notification(topic)


async def restore(session: ZooKeeperSession, plan: RestorePlan) -> list[Outcome]:
    """Carry the plan out, fenced by the version of `/controller_epoch`; return an outcome for each group. Raises
    SessionLost, and Refusal where the tree has changed."""
    if plan.changed:
        raise Refusal(
            f"the tree has changed since the repair, and nothing was restored: {listed(plan.changed, 20, '; ')}"
        )
    if not plan.groups:
        return []
    outcomes = await session.write(MultiPlan(plan.groups, plan.fence))
    return [_outcome(name, group, each) for name, group, each in zip(plan.names, plan.groups, outcomes, strict=True)]


def _outcome(name: str, group: Group, outcome: GroupOutcome) -> Outcome:
    match outcome:
        case GroupDone():
            return Outcome(name)
        case GroupFailed(index_in_group=index, error=error):
            return Outcome(name, f"ZooKeeper refused to write {group[max(0, index)].path}: {error_words(error)}")
        case GroupUnknown(reason=reason):
            return Outcome(name, f"whether it was restored is unknown: {reason}", is_unknown=True)
        case FenceFailed():
            return Outcome(name, "control changed hands meanwhile: run the command again")
