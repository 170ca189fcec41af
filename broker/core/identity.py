"""Identify a directory: the rules by which a replica found on disk is opened, deleted or quarantined.

StopReplica carries no topic id, names are used again, and a broker can be away while a topic is deleted and made anew.
A directory is therefore never judged by its name alone:

* The id is written into a directory before the replica is accepted, so every accepted replica is identified.
* The incarnation that a StopReplica *means* is, if it deletes a topic (leader epoch -2), the one of the topic's current
  tombstone; if it pays a debt (-1), the one that the debt's compare named for the partition; where neither has an id,
  and for all others, the one *remembered* for the topic. That is from the last UpdateMetadata of this run that named
  the topic with an id (a tombstone does not clear it), or LeaderAndIsr that is no compare, or from ZooKeeper, asked
  once. A LeaderAndIsr without an id clears what was remembered. A tombstone is current if it is of this registration
  and from no earlier controller than the request: else the topic may have been made anew without the broker's
  knowledge, and ZooKeeper is asked instead of deleting. Each controller sends its own tombstone before it requests the
  deletion. A compare is a LeaderAndIsr without a leader that names this broker as the only replica, in sync; that of a
  topic with one replica looks alike, and UpdateMetadata names its topic.
* A replica that a LeaderAndIsr of this run has *opened* was identified by the controller. Kafka's controller, and ours,
  send LeaderAndIsr to every broker incarnation before StopReplica with delete, so legitimate deletions take that path.

When StopReplica asks for deletion:

    directory's id   opened in this run   incarnation meant           verdict
    X                any                  X                           delete
    X                any                  Y                           quarantine
    X                yes                  none                        delete   (the cluster stopped using ids)
    none             yes                  any                         delete   (nothing to compare: opened by name)
    none, empty      no                   any                         delete   (nothing was ever stored there)
    none             no                   Y                           quarantine
    unreadable       -                    Y                           quarantine
    other            no                   none                        ask ZooKeeper, then:
        X                the topic has X     delete
        any              the topic has Y     quarantined
        none             the topic has no id delete   (a cluster from before topic ids)
        X                the topic has no id quarantined
        any              no such topic       quarantined
        any              cannot be asked     an error is answered, nothing happens

A quarantined directory is renamed to `-stray`, kept and shown. The answer is NONE, because no replica of the deleted
incarnation is here: the deletion finishes and no byte is lost.

When LeaderAndIsr names a replica, the cluster *counts on its bytes* where this broker is in the ISR and the partition
is not new:

    directory's id   id in the request   counts on the bytes   otherwise
    X                X                   open                  open
    X                Y                   INCONSISTENT_TOPIC_ID quarantine, create anew
    unreadable       any                 INCONSISTENT_TOPIC_ID quarantine, create anew
    none             Y                   write Y, open         quarantine, create anew   (*)
    any              none                open                  open; a new partition: quarantine, create anew   (*)

(*) unless the directory holds nothing, or was opened in this run: then it is opened, with the id written first.

If a log directory has failed, the replica may lie in it. Three cases then answer KAFKA_STORAGE_ERROR: a directory
without an id that is empty; one without an id of a partition without a leader, which may be deleted next; and a
partition that is not new and for which the last column would create anew, because the quarantined directory may be a
foreign copy.

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
    QUARANTINE = "quarantine"
    ASK = "ask ZooKeeper"
    FAIL = "fail"


class OpenVerdict(enum.Enum):
    OPEN = "open"
    ASSIGN_ID = "write the id, open"
    REPLACE = "quarantine, create anew"
    INCONSISTENT = "inconsistent topic id"


def judge_deletion(replica: Replica, meant: TopicId | None) -> StopVerdict:
    """The verdict of the first table: what a StopReplica with delete does to this directory."""
    opened = replica.state is ReplicaState.HOSTED
    if replica.id_readable and replica.topic_id is None and replica.files == 0:
        return StopVerdict.DELETE
    if meant is None:
        return StopVerdict.DELETE if opened else StopVerdict.ASK
    if not replica.id_readable:
        return StopVerdict.QUARANTINE
    if replica.topic_id is None:
        return StopVerdict.DELETE if opened else StopVerdict.QUARANTINE
    return StopVerdict.DELETE if replica.topic_id == meant else StopVerdict.QUARANTINE


def judge_deletion_by_answer(replica: Replica, answer: TopicIdAnswer) -> StopVerdict:
    """The same for a directory whose topic ZooKeeper was asked for."""
    match answer:
        case TopicIdUnavailable():
            return StopVerdict.FAIL
        case TopicAbsence.NO_TOPIC:
            return StopVerdict.QUARANTINE
        case TopicAbsence.NO_ID:
            unidentified = replica.topic_id is None and replica.id_readable
            return StopVerdict.DELETE if unidentified else StopVerdict.QUARANTINE
        case topic_id:
            return judge_deletion(replica, topic_id)


def judge_opening(replica: Replica, requested: TopicId | None, *, counts_on_bytes: bool, is_new: bool) -> OpenVerdict:
    """The verdict of the second table: what a LeaderAndIsr does with this directory."""
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
