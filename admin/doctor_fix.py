"""Carries out the repairs of `lethe doctor --fix`, one by one: read again, save, write.

Each write is one multi that begins with a check of the version of `/controller_epoch`, as read right before: if control
changes hands in between, nothing is written, and the repair is planned anew. Repairs that need control are carried out
together, since a controller that takes over makes them all (`doctor_control`).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_backup import BackupFile, SavedRepair, saved
from lethe.admin.doctor_ills import Ill, IllKind, RepairWay
from lethe.admin.doctor_repairs import Impossible, RepairPlan, Unneeded, ZnodeRepair, paths_of, repair_of
from lethe.admin.outcomes import CONFLICTS, MAX_ATTEMPTS
from lethe.admin.refusal import Refusal
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Data,
    Delete,
    GetData,
    MultiDone,
    MultiFailed,
    MultiUnknown,
    Operation,
    SetData,
    Stat,
    ZkError,
    error_words,
)
from lethe.protocol.zookeeper.znodes import MalformedZnode
from lethe.survey.znodes import ZnodeUnreadable, data_of

NO_FENCE: Final = f"there is no {paths.CONTROLLER_EPOCH}, so the write cannot be tied to a controller's term"


class RepairOutcome(enum.Enum):
    """What became of one ill."""

    REPAIRED = "repaired"
    GONE = "gone before it was repaired"
    DECLINED = "not wanted"
    REFUSED = "not repaired"
    UNKNOWN = "not known"
    """The answer was lost, or the second look has not seen it. The backup has what was before."""


class RepairResult(NamedTuple):
    """One ill that `--fix` was to repair."""

    ill: Ill
    outcome: RepairOutcome
    why: str = ""


Agree = Callable[[str], Awaitable[bool]]
"""Shows a question; returns True if the user agrees."""
TakeControl = Callable[[Sequence[Ill], BackupFile], Awaitable[Sequence[RepairResult]]]
"""Repairs these ills in control of the cluster. Raises Refusal where control cannot be taken."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which ills are repaired."""

    only: Collection[IllKind] = ()
    """Empty: all kinds."""
    asks: bool = True
    """False with `--yes`: then what may be wanted is repaired only where `only` names it."""

    def of(self, ills: Sequence[Ill]) -> list[Ill]:
        """Return the ills to repair: writes first, then those that need control, then an election."""
        order = [*RepairWay]
        wanted = [ill for ill in ills if ill.way is not RepairWay.PERSON and self._includes(ill.kind)]
        return sorted(wanted, key=lambda ill: (ill.kind is IllKind.CONTROLLER_NOT_REGISTERED, order.index(ill.way)))

    def _includes(self, kind: IllKind) -> bool:
        return kind in self.only if self.only else self.asks or not kind.may_be_wanted


async def fix(
    session: ZooKeeperSession, ills: Sequence[Ill], backup: BackupFile, agree: Agree, take_control: TakeControl
) -> list[RepairResult]:
    """Repair these ills, of `Choice.of`, where the user agrees. Raises BackupUnusable and SessionLost; what is done by
    then is in the backup."""
    writes = [ill for ill in ills if ill.way is RepairWay.ZNODES and ill.kind is not IllKind.CONTROLLER_NOT_REGISTERED]
    done = [await _agreed(session, ill, backup, agree) for ill in writes]
    controlled = [ill for ill in ills if ill.way is RepairWay.CONTROL]
    if controlled:
        done += await _in_control(controlled, backup, agree, take_control)
    was_taken = any(each.ill.way is RepairWay.CONTROL and each.outcome is RepairOutcome.REPAIRED for each in done)
    for ill in ills:
        if ill.kind is IllKind.CONTROLLER_NOT_REGISTERED:
            taken = RepairResult(ill, RepairOutcome.REPAIRED, "control was taken from it")
            done.append(taken if was_taken else await _agreed(session, ill, backup, agree))
    return done


async def _in_control(
    ills: Sequence[Ill], backup: BackupFile, agree: Agree, take_control: TakeControl
) -> Sequence[RepairResult]:
    named = "; ".join(f"{ill.what}: {ill.kind.sentence}" for ill in ills)
    if not await agree(f"Take control as lethe rescue does, repair this, and hand control back? {named}"):
        return [RepairResult(ill, RepairOutcome.DECLINED) for ill in ills]
    try:
        return await take_control(ills, backup)
    except (Refusal, MalformedZnode, ZnodeUnreadable) as refusal:
        return [RepairResult(ill, RepairOutcome.REFUSED, str(refusal)) for ill in ills]


async def _agreed(session: ZooKeeperSession, ill: Ill, backup: BackupFile, agree: Agree) -> RepairResult:
    planned = await _planned(session, ill)
    if isinstance(planned, RepairResult):
        return planned
    writes = "; ".join(_texts(planned.repair.operations, planned.repair.required_absent))
    if not await agree(f"{ill.what}: {ill.kind.sentence}. Repair it: {writes}?"):
        return RepairResult(ill, RepairOutcome.DECLINED)
    return await repair_znodes(session, ill, backup)


def _texts(operations: Sequence[Operation], absent: Collection[str]) -> Iterator[str]:
    for each in operations:
        if each.path in absent:
            continue
        match each:
            case Delete():
                yield f"delete {each.path}"
            case SetData():
                yield f"write {each.path}"
            case Create():
                yield f"create {each.path}"
            case Check():
                pass


class _Planned(NamedTuple):
    repair: ZnodeRepair
    read: dict[str, Data | None]
    fence: Check


async def _planned(session: ZooKeeperSession, ill: Ill) -> _Planned | RepairResult:
    wanted = [paths.CONTROLLER_EPOCH, *paths_of(ill)]
    try:
        outcomes = await session.read(list(map(GetData, wanted)))
        read = {path: data_of(outcome, path) for path, outcome in zip(wanted, outcomes, strict=True)}
    except ZnodeUnreadable as unread:
        return RepairResult(ill, RepairOutcome.REFUSED, str(unread))
    epoch = read.pop(paths.CONTROLLER_EPOCH)
    if epoch is None:
        return RepairResult(ill, RepairOutcome.REFUSED, NO_FENCE)
    plan: RepairPlan = repair_of(ill, read)
    match plan:
        case Unneeded():
            return RepairResult(ill, RepairOutcome.GONE)
        case Impossible(why=why):
            return RepairResult(ill, RepairOutcome.REFUSED, why)
        case ZnodeRepair():
            return _Planned(plan, read, Check(paths.CONTROLLER_EPOCH, epoch.stat.version))


async def repair_znodes(session: ZooKeeperSession, ill: Ill, backup: BackupFile) -> RepairResult:
    """Repair one ill by a fenced write. Raises BackupUnusable and SessionLost."""
    for _ in range(MAX_ATTEMPTS):
        planned = await _planned(session, ill)
        if isinstance(planned, RepairResult):
            return planned
        repair, read, fence = planned
        number = backup.begin(
            SavedRepair(ill.kind.code, ill.what, ill.topic, saved(read, repair.written), repair.absent)
        )
        outcome = await session.multi([fence, *repair.operations])
        match outcome:
            case MultiDone(stats=stats):
                now = dict(zip((each.path for each in repair.operations), stats[1:], strict=True))
                backup.end(number, {path: _mzxid(now[path]) for path in repair.written})
                return RepairResult(ill, RepairOutcome.REPAIRED)
            case MultiUnknown(reason=reason):
                return RepairResult(ill, RepairOutcome.UNKNOWN, reason)
            case MultiFailed(index=index, error=error):
                unchanged = {path: read[path] for path in repair.written}
                backup.end(number, {path: _mzxid(data and data.stat) for path, data in unchanged.items()})
                if (why := _lasting(repair, repair.operations[index - 1] if index > 0 else None, error)) is not None:
                    return RepairResult(ill, RepairOutcome.REFUSED, why)
    return RepairResult(ill, RepairOutcome.REFUSED, "its znodes or the controller changed again and again")


def _mzxid(stat: Stat | None) -> int | None:
    return None if stat is None else stat.mzxid


def _lasting(repair: ZnodeRepair, failed: Operation | None, error: ZkError) -> str | None:
    """Return why another attempt makes no sense; None where it does. `failed` is None for the fence."""
    if failed is not None and failed.path in repair.required_absent and error is ZkError.NODE_EXISTS:
        return f"{failed.path} exists by now"
    where = paths.CONTROLLER_EPOCH if failed is None else failed.path
    return None if error in CONFLICTS else f"ZooKeeper refuses to write {where}: {error_words(error)}"
