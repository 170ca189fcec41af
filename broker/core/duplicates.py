"""Several directories for one partition: which one is the replica, and what happens to the others.

Two causes: a failed log directory is repaired after its replica was made again in another one, or an operator restores
a backup. Kafka refuses to start then. An agent starts and touches none of them, because neither their order nor their
content identifies the replica. Until a request does, they are *candidates*: one of them is in `AgentState.replicas`,
the others are in `AgentState.duplicates`.

The LeaderAndIsr that would open the replica decides, by the topic id that it names:

    candidates                                      what becomes of them
    one has that id                                 it is opened; the others are quarantined, but a debt's compare
                                                    leaves those of other topics
    several have it                                 KAFKA_STORAGE_ERROR; without a leader one is opened, the other left
    none has it, and one is in a failed log dir     KAFKA_STORAGE_ERROR
    none has it, and no bytes are counted on         all are quarantined, one is made anew
    all but one are blank                           that one is judged as if it were alone, the blank ones quarantined
    all that hold something have other ids          INCONSISTENT_TOPIC_ID, as for one alone
    otherwise, also if the request has no id        KAFKA_STORAGE_ERROR; without a leader INCONSISTENT_TOPIC_ID

With an error nothing is touched. KAFKA_STORAGE_ERROR makes the controller treat the replica as one in a failed log
directory: other replicas lead until an operator acts. A topic in deletion is announced without a leader, and its
deletion does not wait: it neither serves nor fetches, and directories that are not proven to be its own are
quarantined.

Blank is a directory without an id that holds nothing. How one candidate is judged alone, and when the cluster counts
on bytes, is in `broker.core.identity`. A hosted replica stays hosted; a failed quarantine of another directory is
repeated with the next accepted LeaderAndIsr.

A StopReplica with delete judges each candidate by itself: those of the deleted incarnation are renamed for deletion,
the others are quarantined. So is one without an id, even in a cluster without ids: nothing identifies its topic.

Debts are paid by a *compare*, a LeaderAndIsr without a leader that names this broker as the only replica and in sync,
and then a StopReplica without a leader epoch. Both are about an earlier topic of the name, and the present topic may
have a replica here. So both leave every candidate that is proven to be of another topic than the opened one:

    directories of t-0 here       A, deleted while this broker was away; B, which is in service
    compare with the id of A      A is opened, B is left
    StopReplica, epoch -1         A is renamed for deletion, B is left
    LeaderAndIsr with the id of B B is opened, with every record
"""

from __future__ import annotations

from lethe.broker.core.identity import StopVerdict
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.vocabulary import TopicId, TopicPartition, topic_id_to_text


def candidates(state: AgentState, topic_partition: TopicPartition) -> tuple[Replica, ...]:
    """Every directory of the partition on this broker, the one in `replicas` first."""
    replica = state.replicas.get(topic_partition)
    return () if replica is None else (replica, *state.duplicates.get(topic_partition, ()))


def add_candidate(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> None:
    """Add a directory that was found. The first one of a partition goes into `replicas`."""
    if topic_partition in state.replicas:
        state.duplicates[topic_partition] = (*state.duplicates.get(topic_partition, ()), replica)
    else:
        state.put_replica(topic_partition, replica)


def decide(
    state: AgentState,
    topic_partition: TopicPartition,
    requested: TopicId | None,
    *,
    counts_on_bytes: bool,
    has_leader: bool,
) -> str | None:
    """Put the candidate that a LeaderAndIsr names into `replicas`. Return the reason if it is ambiguous, else None."""
    if topic_partition not in state.duplicates:
        return None
    every = candidates(state, topic_partition)
    if every[0].state is ReplicaState.HOSTED:
        wanted = every[0].topic_id if requested is None else requested
        in_doubt = has_leader or wanted != every[0].topic_id
        rivals = [each for each in every[1:] if wanted is not None and _has_id(each, wanted)]
        return _ambiguity(topic_partition, every) if rivals and in_doubt else None
    same = [each for each in every if requested is not None and _has_id(each, requested)]
    if len(same) > 1 and has_leader:
        return _ambiguity(topic_partition, same)
    if same:
        _bring_forward(state, topic_partition, next((each for each in same if _is_live(each)), same[0]))
        return None
    failed = next((each for each in every if not _is_live(each)), None)
    held = [each for each in every if not _is_blank(each)]
    if failed is not None:
        _bring_forward(state, topic_partition, failed)
    elif requested is not None and not counts_on_bytes:
        _bring_forward(state, topic_partition, next((each for each in every if _is_blank(each)), every[0]))
    elif len(held) > 1 and not all(is_other_incarnation(each, requested) for each in held):
        return _ambiguity(topic_partition, held)
    elif held:
        _bring_forward(state, topic_partition, held[0])
    return None


def to_quarantine(
    state: AgentState, topic_partition: TopicPartition, requested: TopicId | None, *, is_compare: bool
) -> tuple[Replica, ...]:
    """The candidates to quarantine when a LeaderAndIsr opens the replica: all of other incarnations."""
    if topic_partition not in state.duplicates:
        return ()
    wanted = state.replicas[topic_partition].topic_id if requested is None else requested
    others = state.duplicates[topic_partition]
    unwanted = tuple(each for each in others if _is_live(each) and (wanted is None or not _has_id(each, wanted)))
    return tuple(each for each in unwanted if not is_other_incarnation(each, wanted)) if is_compare else unwanted


def prefer_meant(state: AgentState, topic_partition: TopicPartition, meant: TopicId | None) -> None:
    """Put the candidate of the incarnation to stop into `replicas`, unless one of them is hosted."""
    every = candidates(state, topic_partition)
    if len(every) > 1 and meant is not None and every[0].state is not ReplicaState.HOSTED:
        same = [each for each in every if _has_id(each, meant)]
        if same:
            _bring_forward(state, topic_partition, same[0])


def is_other_incarnation(replica: Replica, topic_id: TopicId | None) -> bool:
    """Whether the directory is proven to be of another incarnation than that with this id."""
    is_known = replica.id_readable and replica.topic_id is not None and topic_id is not None
    return is_known and replica.topic_id != topic_id


def require_proof(
    state: AgentState, topic_partition: TopicPartition, replica: Replica, verdict: StopVerdict
) -> StopVerdict:
    """Replace DELETE by quarantine for a candidate that only its name identifies, unless it is empty or was opened."""
    by_name = replica.topic_id is None and replica.files > 0 and replica.state is not ReplicaState.HOSTED
    if verdict is StopVerdict.DELETE and by_name and topic_partition in state.duplicates:
        return StopVerdict.QUARANTINE
    return verdict


def forget(state: AgentState, topic_partition: TopicPartition, log_dir: str) -> Replica | None:
    """Drop the renamed directory of the partition in this log directory. Return what was known of it.

    Another candidate takes its place. Those in failed log directories do not: after a restart they are found again.
    """
    every = candidates(state, topic_partition)
    if not every:
        return None
    gone = next((each for each in every if each.log_dir == log_dir), None)
    left = tuple(each for each in every if each is not gone)
    if gone is every[0]:
        state.drop_replica(topic_partition)
        left = tuple(each for each in left if _is_live(each))
        if left:
            state.put_replica(topic_partition, left[0])
    _keep_others(state, topic_partition, left[1:])
    return gone


def fail_candidates(state: AgentState, log_dir: str) -> None:
    """Drop the duplicates in a failed log directory."""
    for topic_partition, others in list(state.duplicates.items()):
        if any(each.log_dir == log_dir for each in others):
            state.duplicates[topic_partition] = tuple(
                each._replace(state=ReplicaState.OFFLINE) if each.log_dir == log_dir else each for each in others
            )


def _bring_forward(state: AgentState, topic_partition: TopicPartition, chosen: Replica) -> None:
    every = candidates(state, topic_partition)
    if chosen is not every[0]:
        state.put_replica(topic_partition, chosen)
        _keep_others(state, topic_partition, tuple(each for each in every if each is not chosen))


def _keep_others(state: AgentState, topic_partition: TopicPartition, others: tuple[Replica, ...]) -> None:
    if others:
        state.duplicates[topic_partition] = others
    else:
        state.duplicates.pop(topic_partition, None)


def _has_id(replica: Replica, topic_id: TopicId) -> bool:
    return replica.id_readable and replica.topic_id == topic_id


def _is_blank(replica: Replica) -> bool:
    return replica.id_readable and replica.topic_id is None and replica.files == 0


def _is_live(replica: Replica) -> bool:
    return replica.state is not ReplicaState.OFFLINE


def _ambiguity(topic_partition: TopicPartition, rivals: list[Replica] | tuple[Replica, ...]) -> str:
    named = ", ".join(f"{each.log_dir}/{topic_partition} ({_whose(each)})" for each in rivals)
    return (
        f"several directories may be this partition's, and none was touched: {named}; move all but one away, best "
        f"those in the log directory that failed last, and restart the broker"
    )


def _whose(replica: Replica) -> str:
    if not replica.id_readable:
        return "its partition.metadata cannot be read"
    return "no topic id" if replica.topic_id is None else f"topic id {topic_id_to_text(replica.topic_id)}"
