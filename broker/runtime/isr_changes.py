"""Perform ISR changes: with AlterPartition to the controller, or in ZooKeeper as brokers before 2.7 do.

Each proposal is attempted once; a state znode that changed in between is read again. The core decides on later
attempts. The connection to the controller is kept until it fails or the controller changes. A written state counts as
accepted only when the notification that names the partition is written too: otherwise the controller would not learn of
the change.

A controller that refuses the agent's certificate, login or right is logged, seldom (`AuditLog`): no ISR grows until
somebody has changed a setting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, cast

from lethe.adapters.kafka.client import AccessFailed, ClientError, ProtocolError
from lethe.adapters.kafka.missing_rights import GRANT_COMMANDS, REFUSALS, answer_words
from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.security.audit import AuditLog
from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperSession
from lethe.broker.core.effects import IsrChange, ProposeIsr
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.broker.core.isr_update_paths import (
    accepted_partitions,
    alter_partition_request,
    alter_partition_version,
    judge_answer,
    judge_write,
    plan_write,
    unanswered,
)
from lethe.broker.runtime.controller_connection import ControllerConnection
from lethe.protocol.kafka.connection import highest_common_version
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.to_controller import AlterPartitionResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, Endpoint, TopicPartition
from lethe.protocol.zookeeper.operations import Create, GetData, MultiDone, MultiFailed, SetData, ZkError, error_words
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, MultiPlan
from lethe.protocol.zookeeper.paths import (
    isr_change_notification,
    isr_change_notifications,
    partition_state,
    topic,
)
from lethe.protocol.zookeeper.znodes import encode_isr_change

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS: Final = 5_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_ATTEMPTS: Final = 5
"""Attempts for a state znode that changes between read and write."""
PARTITIONS_PER_NOTIFICATION: Final = 2_000


class IsrChanges:
    """Performs ProposeIsr, one at a time. `close` at the end."""

    def __init__(self, broker_id: BrokerId, reach: BrokerReach, session: Callable[[], ZooKeeperSession | None]) -> None:
        self._broker_id = broker_id
        self._session = session
        self._refusals: Final = AuditLog(logger)
        self._connection = ControllerConnection(
            broker_id, reach, connect_timeout_ms=CONNECT_TIMEOUT_MS, request_timeout_ms=REQUEST_TIMEOUT_MS
        )

    async def propose(self, proposal: ProposeIsr) -> tuple[IsrOutcome, ...]:
        """One outcome for each change."""
        if proposal.controller is not None:
            return await self._ask(proposal.controller, proposal.changes, proposal.broker_epoch)
        session = self._session()
        if session is None:
            return unanswered(proposal.changes, "there is no ZooKeeper session")
        try:
            return await self._write(session, proposal.changes)
        except SessionLost as lost:
            return unanswered(proposal.changes, str(lost))

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    # --- through the controller -----------------------------------------------------------------------------------

    async def _ask(
        self, controller: Endpoint, changes: Sequence[IsrChange], broker_epoch: BrokerEpoch
    ) -> tuple[IsrOutcome, ...]:
        request = alter_partition_request(changes, self._broker_id, broker_epoch)
        try:
            connection = await self._connection.to(controller)
            common = highest_common_version(ApiKey.ALTER_PARTITION, await connection.offered_versions())
            version = alter_partition_version(changes, common)
            answer = cast(AlterPartitionResponse, await connection.request(request, version))
        except (ClientError, ProtocolError) as error:
            if isinstance(error, AccessFailed):
                self._note_refused(str(error))
            await self.close()
            return unanswered(changes, str(error))
        if answer.error in REFUSALS:
            self._note_refused(f"{connection.peer}: {answer_words(answer.error, connection.principal, GRANT_COMMANDS)}")
        outcomes = judge_answer(changes, self._broker_id, answer)
        if all(outcome.verdict is IsrVerdict.UNANSWERED for outcome in outcomes):
            # A former controller closes its connections; one that answers NOT_CONTROLLER is looked up again too.
            await self.close()
        return outcomes

    def _note_refused(self, problem: str) -> None:
        self._refusals.note(problem, f"the controller takes no ISR changes of this agent: {problem}")

    # --- through ZooKeeper ----------------------------------------------------------------------------------------

    async def _write(self, session: ZooKeeperSession, changes: Sequence[IsrChange]) -> tuple[IsrOutcome, ...]:
        outcomes: list[IsrOutcome | None] = [None] * len(changes)
        for _ in range(MAX_ATTEMPTS):
            if (open_ones := [index for index, outcome in enumerate(outcomes) if outcome is None]) == []:
                break
            done = await self._read_and_write(session, [changes[index] for index in open_ones])
            for index, outcome in zip(open_ones, done, strict=True):
                outcomes[index] = outcome
        problem = await _notify(session, accepted_partitions(changes, outcomes))
        contended = IsrOutcome(IsrVerdict.UNANSWERED, reason="other processes kept writing the state")
        found = [contended if outcome is None else outcome for outcome in outcomes]
        if problem is None:
            return tuple(found)
        silent = IsrOutcome(IsrVerdict.UNANSWERED, reason=problem)
        return tuple(silent if outcome.verdict is IsrVerdict.ACCEPTED else outcome for outcome in found)

    async def _read_and_write(self, session: ZooKeeperSession, changes: Sequence[IsrChange]) -> list[IsrOutcome | None]:
        """Return None for a znode that changed in between."""
        topics = list(dict.fromkeys(change.topic_partition.topic for change in changes))
        paths = [topic(name) for name in topics] + [partition_state(*change.topic_partition) for change in changes]
        found = await session.read([GetData(path) for path in paths])
        by_topic = dict(zip(topics, found[: len(topics)], strict=True))
        outcomes: list[IsrOutcome | None] = [None] * len(changes)
        writes: list[tuple[int, SetData, tuple[int, ...]]] = []
        for index, (change, state) in enumerate(zip(changes, found[len(topics) :], strict=True)):
            planned = plan_write(change, self._broker_id, by_topic[change.topic_partition.topic], state)
            if isinstance(planned, IsrOutcome):
                outcomes[index] = planned
            else:
                writes.append((index, *planned))
        plan = MultiPlan([(operation,) for _, operation, _ in writes], None)
        for (index, _, isr), outcome in zip(writes, await session.write(plan), strict=True):
            match outcome:
                case GroupDone(stats=(stat, *_)) if stat is not None:
                    outcomes[index] = IsrOutcome(IsrVerdict.ACCEPTED, isr, stat.version)
                case GroupFailed(error=error):
                    outcomes[index] = judge_write(error)
                case _:
                    outcomes[index] = IsrOutcome(IsrVerdict.UNANSWERED, reason="ZooKeeper's answer was lost")
        return outcomes


async def _notify(session: ZooKeeperSession, partitions: Sequence[TopicPartition]) -> str | None:
    """Notify the controller of changed ISRs. Return why that failed, or None. A lost reply is followed by a second
    notification, which is harmless. Raises SessionLost."""
    for start in range(0, len(partitions), PARTITIONS_PER_NOTIFICATION):
        data = encode_isr_change(partitions[start : start + PARTITIONS_PER_NOTIFICATION])
        operation = Create(isr_change_notification(), data, sequential=True)
        for _ in range(MAX_ATTEMPTS):
            outcome = await session.multi([operation])
            if isinstance(outcome, MultiDone):
                break
            if isinstance(outcome, MultiFailed):
                if outcome.error is not ZkError.NO_NODE:
                    return f"{operation.path} cannot be written: {error_words(outcome.error)}"
                try:
                    await session.ensure_path(isr_change_notifications())
                except WriteRefused as refused:
                    return str(refused)
        else:
            return f"{operation.path} could not be written in {MAX_ATTEMPTS} attempts"
    return None
