"""Log directories: load their inventory, choose one for a new replica, take a failed one offline.

Kafka takes a log directory offline for good (until a restart) at the first I/O error in it. Its replicas then answer
KAFKA_STORAGE_ERROR, `/log_dir_event_notification` notifies the controller, and a broker that has lost all of its
directories stops.
"""

from __future__ import annotations

from collections.abc import Mapping

from lethe.broker.core.duplicates import add_candidate, candidates, fail_candidates
from lethe.broker.core.effects import (
    DirectoryRef,
    Effect,
    Halt,
    NotifyLogDirFailure,
    QuarantineDirectory,
    Record,
    RenameForDeletion,
)
from lethe.broker.core.inputs import FoundLogDir, FoundReplica, InventoryLoaded
from lethe.broker.core.records import id_text
from lethe.broker.core.removal import PendingRemoval
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.state import AgentState, QuarantinedDirectory
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.vocabulary import TopicPartition

KEPT_FROM_BEFORE = "found set aside at start"
NOT_A_REPLICA = "its name is not that of a replica"


def on_inventory_loaded(state: AgentState, inventory: InventoryLoaded, now_ms: int) -> list[Effect]:
    """Load what is on disk. Nothing on disk changes, not even if a partition has several directories."""
    effects: list[Effect] = []
    for found in inventory.log_dirs:
        state.log_dirs[found.log_dir] = found.error
        if found.error is not None:
            effects.append(_record_failure(state, found.log_dir, found.error))
        for replica in found.replicas:
            add_candidate(state, replica.topic_partition, _loaded(found, replica))
        _take_directories(state, found, now_ms)
    effects.append(_record_inventory(state))
    return effects + _halt_if_none_left(state)


def choose_log_dir(replicas: Mapping[str, int]) -> str | None:
    """Return the live log directory with the fewest replicas; the first one of equals."""
    return min(replicas, key=lambda log_dir: replicas[log_dir], default=None)


def fail_log_dir(state: AgentState, log_dir: str, error: str) -> list[Effect]:
    """Take the directory offline, once, with its replicas and pending removals."""
    if log_dir not in state.log_dirs or state.log_dirs[log_dir] is not None:
        return []
    state.log_dirs[log_dir] = error
    for topic_partition in [tp for tp, replica in state.replicas.items() if replica.log_dir == log_dir]:
        replica = state.replicas[topic_partition]
        state.put_replica(topic_partition, replica._replace(state=ReplicaState.OFFLINE))
    fail_candidates(state, log_dir)
    state.removal.drop_log_dir(log_dir)
    return [_record_failure(state, log_dir, error), NotifyLogDirFailure(), *_halt_if_none_left(state)]


def keep_stray(state: AgentState, operation: QuarantineDirectory, replica: Replica, reason: str) -> Record:
    """Store a quarantined directory. Return the event record."""
    state.put_stray(
        DirectoryRef(operation.log_dir, operation.new_name), QuarantinedDirectory(replica.size_bytes, reason)
    )
    return Record(
        EventRecord(
            EventRecordType.SET_ASIDE,
            f"topic/{operation.topic_partition.topic}",
            {
                "topic_id": id_text(replica.topic_id),
                "broker": state.settings.broker_id,
                "log_dir": operation.log_dir,
                "partition": operation.topic_partition.partition,
                "directory": operation.new_name,
                "size_bytes": replica.size_bytes,
                "reason": reason,
            },
        )
    )


def owe_removal(state: AgentState, operation: RenameForDeletion, replica: Replica, now_ms: int) -> None:
    """Queue the renamed directory for its removal."""
    removal = PendingRemoval(replica.size_bytes, replica.files, topic_id=operation.topic_id)
    due_ms = now_ms + state.settings.delete_delay_ms
    state.removal.add(DirectoryRef(operation.log_dir, operation.new_name), removal, due_ms)


def _loaded(found: FoundLogDir, replica: FoundReplica) -> Replica:
    return Replica(
        ReplicaState.LOADED,
        found.log_dir,
        replica.topic_id,
        replica.id_readable,
        replica.size_bytes,
        replica.files,
        replica.segment_bytes,
        filled=replica.files > 0,
    )


def _take_directories(state: AgentState, found: FoundLogDir, now_ms: int) -> None:
    due_ms = now_ms + state.settings.delete_delay_ms
    for directory in found.deleted:
        removal = PendingRemoval(directory.size_bytes, directory.files, topic_id=directory.topic_id)
        state.removal.add(DirectoryRef(found.log_dir, directory.name), removal, due_ms)
    for directory in found.strays:
        ref = DirectoryRef(found.log_dir, directory.name)
        state.put_stray(ref, QuarantinedDirectory(directory.size_bytes, KEPT_FROM_BEFORE))
    for directory in found.unknown:
        ref = DirectoryRef(found.log_dir, directory.name)
        state.unknown[ref] = QuarantinedDirectory(directory.size_bytes, NOT_A_REPLICA)


def _record_inventory(state: AgentState) -> Record:
    return Record(
        EventRecord(
            EventRecordType.BROKER,
            f"broker/{state.settings.broker_id}",
            {
                "happened": "log directories loaded",
                "log_dirs": list(state.log_dirs),
                "replicas": len(state.replicas),
                "size_bytes": state.hosted_bytes,
                "awaiting_removal": len(state.removal.pending),
                "set_aside": len(state.strays),
                "unknown": [f"{ref.log_dir}/{ref.name}" for ref in list(state.unknown)[:20]],
                "duplicates": [
                    f"{each.log_dir}/{topic_partition}"
                    for topic_partition in list(state.duplicates)[:20]
                    for each in candidates(state, topic_partition)
                ],
            },
        )
    )


def _record_failure(state: AgentState, log_dir: str, error: str) -> Record:
    return Record(
        EventRecord(
            EventRecordType.BROKER,
            f"broker/{state.settings.broker_id}",
            {
                "happened": "log directory failed",
                "log_dir": log_dir,
                "error": error,
                "replicas": state.replicas_of_log_dir.get(log_dir, 0),
            },
        )
    )


def _halt_if_none_left(state: AgentState) -> list[Effect]:
    if state.live_log_dirs or state.halted:
        return []
    state.halted = True
    reasons = "; ".join(f"{log_dir}: {error}" for log_dir, error in state.log_dirs.items())
    return [Halt(f"every log directory has failed, as with Kafka the broker stops ({reasons})")]


def offline_replica(topic_partition: TopicPartition, state: AgentState) -> Replica:
    """Return the replica as OFFLINE, with the other values kept."""
    known = state.replicas.get(topic_partition)
    if known is None:
        return Replica(ReplicaState.OFFLINE, None)
    return known._replace(state=ReplicaState.OFFLINE)
