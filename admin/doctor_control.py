"""Repairs of `lethe doctor --fix` that need control: taken as in a rescue, and handed back in every case.

A controller that takes over finishes half-deleted marked topics, takes foreign brokers out of ISRs, has ghosts dropped,
tells every broker of every topic, and raises an epoch that most brokers refuse. Reassignments that add a replica on an
absent broker are cancelled. It also takes away what any controller would: requests of Kafka's tools and notifications.
All of these znodes are in the backup before control is taken, and as they are at its end. Debts stay owed, and requests
for Lethe's controller unread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_backup import BackupFile, SavedRepair, saved
from lethe.admin.doctor_fix import RepairOutcome, RepairResult
from lethe.admin.doctor_ills import Ill, IllKind
from lethe.admin.doctor_look import BrokerQuestions
from lethe.admin.doctor_rules import in_tree
from lethe.admin.doctor_znodes import read_pending
from lethe.admin.partition_requests import request_reassignment
from lethe.admin.refusal import Refusal
from lethe.admin.rescue_control import RescueController, RescueInterrupted, in_control
from lethe.admin.rescue_ghosts import are_caches_compared, comparison_progress
from lethe.admin.rescue_limits import refuse_forbidden_rescue
from lethe.admin.rescue_plan import outlook
from lethe.admin.rescue_run import RescueOptions, Say, means_for
from lethe.admin.rescue_snapshot import epoch_now, look
from lethe.admin.topic_znodes import list_topics
from lethe.controller.core.scope import Scope
from lethe.protocol.counting import counted, listed
from lethe.protocol.vocabulary import ControllerEpoch, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetChildren, GetData
from lethe.survey.brokers import ask_all
from lethe.survey.znodes import children_of, data_of, topic_of
from lethe.survey.zookeeper import read_tree

POLL_S: Final = 0.25
_CACHES: Final = (IllKind.CACHED_WITHOUT_TOPIC, IllKind.CACHED_OTHER_INCARNATION, IllKind.IN_NO_CACHE)
_TAKEN_AWAY: Final = (
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
    paths.ISR_CHANGE_NOTIFICATION,
    paths.LOG_DIR_EVENT_NOTIFICATION,
)
"""What every controller that takes over takes away; the notifications are the children."""


@dataclass(frozen=True, slots=True)
class ControlRepairs:
    """Repairs in control of the cluster."""

    session: ZooKeeperSession
    ask: BrokerQuestions
    options: RescueOptions
    """Its timeouts, and how control is taken."""
    found: tuple[Ill, ...]
    """All ills, also those that are not to be repaired."""
    say: Say

    async def repair(self, ills: Sequence[Ill], backup: BackupFile) -> list[RepairResult]:
        """Take control, wait for the repairs, hand control back. Raises Refusal where control cannot be taken, or is
        lost, BackupUnusable and SessionLost."""
        incomplete = [ill.what for ill in self.found if ill.kind is IllKind.INCOMPLETE_TOPIC]
        if incomplete:
            raise Refusal(
                f"a controller that takes over would make states anew below {listed(incomplete)}, as for a new topic: "
                "see first what became of them"
            )
        # Only these topics are deleted, also if none of them is among the ills.
        topics = topics_of(ills)
        seen = await look(self.session, self.options.reach, topics, self.options.broker_timeout_ms)
        outlooks = [outlook(each, even_if_disabled=False) for each in seen.found]
        refuse_forbidden_rescue(seen, self.options, outlooks, {})
        means = means_for(self.options, seen)
        # It takes foreign brokers out of all ISRs, whether that was chosen or not.
        touched = [*ills, *(ill for ill in self.found if ill.kind is IllKind.STATE_OUTSIDE_ASSIGNMENT)]
        before = await self._read(touched)
        left, after = [*ills], dict[str, Data | None]()

        async def work(guest: RescueController) -> None:
            try:
                left[:] = await self._work(guest, ills)
                after.update(await self._read(touched, before))
            except RescueInterrupted:
                self.say("Interrupted: handing control back.")

        what = counted(len(ills), "repair")
        number = backup.begin(SavedRepair("control", what, None, saved(before, before)))
        self.say("Taking control.")
        try:
            await in_control(means, _scope(topics), work)
        finally:
            # The next controller writes, too: only without the result of the work is its tree read.
            after = after or await self._read(touched, before)
            backup.end(number, {path: None if data is None else data.stat.mzxid for path, data in after.items()})
        self.say("Control is handed back.")
        return [
            RepairResult(ill, RepairOutcome.REFUSED, "it is not repaired yet; lethe doctor says what remains")
            if ill in left
            else RepairResult(ill, RepairOutcome.REPAIRED)
            for ill in ills
        ]

    async def _work(self, guest: RescueController, ills: Sequence[Ill]) -> list[Ill]:
        """Return the ills that are left when all are repaired, or nothing has changed for the patience."""
        await guest.elected()
        await self._cancel([ill for ill in ills if ill.kind is IllKind.REASSIGNMENT_STUCK])
        deadline_s = time.monotonic() + self.options.timeout_ms / 1000
        seen, since_s = None, time.monotonic()
        while True:
            guest.check()
            left = await self._left(guest, ills)
            state = (len(left), comparison_progress(await guest.context()))
            now_s = time.monotonic()
            if state != seen:
                seen, since_s = state, now_s
            if not left or now_s > deadline_s or now_s - since_s > self.options.patience_ms / 1000:
                return left
            await asyncio.sleep(POLL_S)

    async def _cancel(self, ills: Iterable[Ill]) -> None:
        """Request that these reassignments go back to where they began."""
        targets: dict[TopicPartition, tuple[int, ...]] = {}
        for ill in ills:
            assert ill.topic is not None
            (found,) = await self.session.read([GetData(paths.topic(ill.topic))])
            znode = topic_of(found, ill.topic)
            for number in ill.partitions:
                assignment = None if znode is None else znode.assignments.get(number)
                if assignment is not None and assignment.is_being_reassigned:
                    targets[TopicPartition(ill.topic, number)] = assignment.origin
        if targets:
            await request_reassignment(self.session, targets, may_merge=True)

    async def _left(self, guest: RescueController, ills: Sequence[Ill]) -> list[Ill]:
        """Return the ills that are not repaired yet."""
        there = await list_topics(self.session)
        topics = frozenset(ill.topic for ill in ills if ill.topic is not None)
        tree, _ = await read_tree(self.session, topics)
        sick = {ill.key for ill in in_tree(tree, tree)}
        unread = {each.path for each in await read_pending(self.session)}
        are_compared = are_caches_compared(await guest.context())
        refusing = await self._refusing(guest) if any(ill.kind is IllKind.EPOCH_TOO_LOW for ill in ills) else False
        left = []
        for ill in ills:
            match ill.kind:
                case IllKind.HALF_DELETED_TOPIC:
                    is_left = ill.topic in there.names or ill.topic in there.marked
                case IllKind.EPOCH_TOO_LOW:
                    is_left = refusing
                case IllKind.NOTIFICATIONS_UNREAD:
                    is_left = not unread.isdisjoint(f"{ill.what}/{name}" for name in ill.names)
                case kind if kind in _CACHES:
                    is_left = not are_compared
                case _:
                    is_left = ill.key in sick
            if is_left:
                left.append(ill)
        return left

    async def _refusing(self, guest: RescueController) -> bool:
        """Return True if a registered broker refuses the present epoch, or does not say."""
        epoch, context = await epoch_now(self.session), await guest.context()
        if not epoch or not context.is_leading:
            return True
        brokers = tuple(context.cluster.brokers.values())
        own = context.config.controller_id
        answers = await ask_all(brokers, lambda broker: self.ask.epoch(broker, own, ControllerEpoch(epoch)))
        return any(answer.refuses or not answer.is_known for answer in answers)

    async def _read(self, ills: Sequence[Ill], known: Iterable[str] = ()) -> dict[str, Data | None]:
        """Return what control may change, as it is now: `known` znodes too, which may be gone. Raises
        ZnodeUnreadable."""
        roots = dict.fromkeys(known)
        for ill in ills:
            roots |= dict.fromkeys(_roots(ill))
        found: dict[str, Data | None] = {}
        level = [*roots, *_TAKEN_AWAY]
        while level:
            outcomes = await self.session.read([*map(GetData, level), *map(GetChildren, level)])
            below = []
            for path, data, children in zip(level, outcomes, outcomes[len(level) :], strict=False):
                if path not in found:
                    found[path] = data_of(data, path)
                    below += [f"{path}/{name}" for name in children_of(children, path) or ()]
            level = below
        return _without_unchangeable(found)


def topics_of(ills: Iterable[Ill]) -> tuple[str, ...]:
    """Return the topics whose deletion is to be finished."""
    return tuple(ill.topic for ill in ills if ill.kind is IllKind.HALF_DELETED_TOPIC and ill.topic is not None)


def _scope(topics: Iterable[str]) -> Scope:
    """Return what the controller does: the repairs, and nothing below `/lethe`, which is not in the backup."""
    return Scope(frozenset(topics), debtors=frozenset(), forgettable=frozenset(), answers_requests=False)


def _roots(ill: Ill) -> tuple[str, ...]:
    """Return the znodes whose whole trees the repair may change."""
    if ill.topic is None or ill.kind in _CACHES:
        return ()  # notifications are among `_TAKEN_AWAY`
    if ill.kind is IllKind.STATE_OUTSIDE_ASSIGNMENT:
        return (ill.what,)
    return paths.topic(ill.topic), paths.config_topic(ill.topic), paths.delete_topic(ill.topic)


def _without_unchangeable(found: Mapping[str, Data | None]) -> dict[str, Data | None]:
    """Leave the parents of notifications out: they stay."""
    parents = (paths.ISR_CHANGE_NOTIFICATION, paths.LOG_DIR_EVENT_NOTIFICATION)
    return {path: data for path, data in found.items() if path not in parents}
