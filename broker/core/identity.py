"""Whose bytes are these? The rules by which a replica found on disk is opened, deleted or set aside.

StopReplica carries no topic id, names are used again, and a broker can be away while a topic is deleted and made anew.
A directory is therefore never judged by its name alone:

* The id is written into a directory before the replica is accepted, so what was accepted is identified ever after.
* The incarnation that a StopReplica means is the one *remembered* for that topic: from the last LeaderAndIsr or
  UpdateMetadata of this run that named an id (a tombstone does not make us forget), else from ZooKeeper, asked once.
* A replica that a LeaderAndIsr of this run has *opened* was identified by the controller. Kafka's controller, and ours,
  send LeaderAndIsr to every broker incarnation before StopReplica with delete, so legitimate deletions take that path.

When StopReplica asks for deletion:

    directory's id   opened in this run   incarnation remembered      verdict
    X                any                  X                           delete
    X                any                  Y                           set aside
    X                yes                  none                        delete   (the cluster stopped using ids)
    none             yes                  any                         delete   (nothing to compare: opened by name)
    none, empty      no                   any                         delete   (nothing was ever stored there)
    none             no                   Y                           set aside
    unreadable       -                    Y                           set aside
    other            no                   none                        ask ZooKeeper, then:
        X                the topic has X     delete
        any              the topic has Y     set aside
        none             the topic has no id delete   (a cluster from before topic ids)
        X                the topic has no id set aside
        any              no such topic       set aside
        any              cannot be asked     an error is answered, nothing happens

Set aside means: renamed to `-stray`, kept, shown. It answers NONE, because no replica of the deleted incarnation is
here; the deletion finishes and not a byte is lost.

When LeaderAndIsr names a replica, the cluster *counts on its bytes* where this broker is in the ISR and the partition
is not new:

    directory's id   id in the request   counts on the bytes   otherwise
    X                X                   open                  open
    X                Y                   INCONSISTENT_TOPIC_ID set aside, create anew
    unreadable       any                 INCONSISTENT_TOPIC_ID set aside, create anew
    none             Y                   write Y, open         set aside, create anew   (*)
    any              none                open                  open; a new partition: set aside, create anew   (*)

(*) unless the directory holds nothing, or was opened in this run: then it is opened, with the id written first.

Where a log directory has failed the replica may lie there, whatever is found elsewhere: one without an id that holds
nothing, or that belongs to a partition without a leader (which may be deleted next), is KAFKA_STORAGE_ERROR. So is a
partition that is not new and for which the last column would create anew: what was set aside may be a stranger's copy.

The middle column keeps Kafka's answer where emptying the replica could lose data: an old binary that rewrote the
topic's znode dropped the id, the next controller invented another, and the topic is alive.
"""

from __future__ import annotations

import enum

from lethe.broker.core.inputs import TopicAbsence, TopicIdAnswer, TopicIdUnavailable
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.protocol.vocabulary import TopicId


class StopVerdict(enum.Enum):
    DELETE = "delete"
    SET_ASIDE = "set aside"
    ASK = "ask ZooKeeper"
    FAIL = "fail"


class OpenVerdict(enum.Enum):
    OPEN = "open"
    ASSIGN_ID = "write the id, open"
    REPLACE = "set aside, create anew"
    INCONSISTENT = "inconsistent topic id"


def judge_deletion(replica: Replica, remembered: TopicId | None) -> StopVerdict:
    """What a StopReplica with delete does to this directory, by the table above."""
    opened = replica.state is ReplicaState.HOSTED
    if replica.id_readable and replica.topic_id is None and replica.files == 0:
        return StopVerdict.DELETE
    if remembered is None:
        return StopVerdict.DELETE if opened else StopVerdict.ASK
    if not replica.id_readable:
        return StopVerdict.SET_ASIDE
    if replica.topic_id is None:
        return StopVerdict.DELETE if opened else StopVerdict.SET_ASIDE
    return StopVerdict.DELETE if replica.topic_id == remembered else StopVerdict.SET_ASIDE


def judge_deletion_by_answer(replica: Replica, answer: TopicIdAnswer) -> StopVerdict:
    """The same for a directory about which ZooKeeper was asked."""
    match answer:
        case TopicIdUnavailable():
            return StopVerdict.FAIL
        case TopicAbsence.NO_TOPIC:
            return StopVerdict.SET_ASIDE
        case TopicAbsence.NO_ID:
            unidentified = replica.topic_id is None and replica.id_readable
            return StopVerdict.DELETE if unidentified else StopVerdict.SET_ASIDE
        case topic_id:
            return judge_deletion(replica, topic_id)


def judge_opening(replica: Replica, requested: TopicId | None, *, counts_on_bytes: bool, is_new: bool) -> OpenVerdict:
    """What a LeaderAndIsr does with this directory, by the table above."""
    untouched = replica.files == 0 or replica.state is ReplicaState.HOSTED
    if not replica.id_readable or (
        replica.topic_id is not None and requested is not None and replica.topic_id != requested
    ):
        return OpenVerdict.INCONSISTENT if counts_on_bytes else OpenVerdict.REPLACE
    if requested is None:
        return OpenVerdict.REPLACE if is_new and not untouched else OpenVerdict.OPEN
    if replica.topic_id == requested:
        return OpenVerdict.OPEN
    return OpenVerdict.ASSIGN_ID if untouched or counts_on_bytes else OpenVerdict.REPLACE
