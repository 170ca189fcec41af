"""Several directories for one partition: which one lives, and what becomes of the others.

A log directory fails, the name of its replica is used again in another one, and the failed one is repaired; or somebody
restores a backup. Kafka refuses to start then. An agent starts, and touches none of them: neither their order nor their
content says which one lives. Until that is known they are *candidates*: one of them stands in `AgentState.replicas`,
the others in `AgentState.duplicates`.

The LeaderAndIsr that would open the replica decides, by the topic id that it names:

    candidates                                      what becomes of them
    one has that id                                 it is opened; the others are set aside
    several have it                                 KAFKA_STORAGE_ERROR; without a leader one is opened, the other left
    none has it, and one is in a failed log dir     KAFKA_STORAGE_ERROR
    none has it, and nobody counts on their bytes   all are set aside, one is made anew
    all but one are blank                           that one is judged as if it were alone, the blank ones are set aside
    all that hold something have other ids          INCONSISTENT_TOPIC_ID, as for one alone
    otherwise, also where no id is named            KAFKA_STORAGE_ERROR; without a leader INCONSISTENT_TOPIC_ID

With an error nothing is touched. KAFKA_STORAGE_ERROR makes the controller take the replica for one in a failed log
directory: others lead, and a person is needed. A topic that is to be deleted is announced without a leader, and its
deletion is not to wait for that: it neither serves nor fetches, and what is not known to be its own is only set aside.

Blank is a directory without an id that holds nothing. How one candidate is judged alone, and when the cluster counts
on bytes, is in `broker.core.identity`. What is hosted already stays hosted; a directory that could not be set aside
then is tried again with the next LeaderAndIsr that is taken up.

A StopReplica with delete judges each candidate by itself: those of the deleted incarnation are renamed for deletion,
the others are set aside. So is one without an id, even in a cluster without ids: nobody can say which was the topic's.
"""

from __future__ import annotations

from lethe.broker.core.identity import StopVerdict
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.vocabulary import TopicId, TopicPartition, topic_id_to_text


def candidates(state: AgentState, topic_partition: TopicPartition) -> tuple[Replica, ...]:
    """Every directory that the partition has here, the one in `replicas` first."""
    replica = state.replicas.get(topic_partition)
    return () if replica is None else (replica, *state.duplicates.get(topic_partition, ()))


def add_candidate(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> None:
    """A directory was found; the first one of a partition stands for all of them."""
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
    """Put the candidate into `replicas` that a LeaderAndIsr means; or say why nobody can tell which one that is."""
    if topic_partition not in state.duplicates:
        return None
    every = candidates(state, topic_partition)
    if every[0].state is ReplicaState.HOSTED:
        wanted = every[0].topic_id if requested is None else requested
        in_doubt = has_leader or wanted != every[0].topic_id
        rivals = [each for each in every[1:] if wanted is not None and _has_id(each, wanted)]
        return _undecided(topic_partition, every) if rivals and in_doubt else None
    same = [each for each in every if requested is not None and _has_id(each, requested)]
    if len(same) > 1 and has_leader:
        return _undecided(topic_partition, same)
    if same:
        _bring_forward(state, topic_partition, next((each for each in same if _is_live(each)), same[0]))
        return None
    failed = next((each for each in every if not _is_live(each)), None)
    held = [each for each in every if not _is_blank(each)]
    if failed is not None:
        _bring_forward(state, topic_partition, failed)
    elif requested is not None and not counts_on_bytes:
        _bring_forward(state, topic_partition, next((each for each in every if _is_blank(each)), every[0]))
    elif len(held) > 1 and not all(is_anothers(each, requested) for each in held):
        return _undecided(topic_partition, held)
    elif held:
        _bring_forward(state, topic_partition, held[0])
    return None


def to_set_aside(state: AgentState, topic_partition: TopicPartition, requested: TopicId | None) -> tuple[Replica, ...]:
    """What is set aside when a LeaderAndIsr opens the replica: all others but those of the same incarnation."""
    if topic_partition not in state.duplicates:
        return ()
    wanted = state.replicas[topic_partition].topic_id if requested is None else requested
    others = state.duplicates[topic_partition]
    return tuple(each for each in others if _is_live(each) and (wanted is None or not _has_id(each, wanted)))


def prefer(state: AgentState, topic_partition: TopicPartition, remembered: TopicId | None) -> None:
    """Let the candidate of the remembered incarnation stand for the others, unless one of them is hosted."""
    every = candidates(state, topic_partition)
    if len(every) > 1 and remembered is not None and every[0].state is not ReplicaState.HOSTED:
        same = [each for each in every if _has_id(each, remembered)]
        if same:
            _bring_forward(state, topic_partition, same[0])


def is_anothers(replica: Replica, remembered: TopicId | None) -> bool:
    """True where the directory is known to be of another incarnation than the remembered one."""
    is_known = replica.id_readable and replica.topic_id is not None and remembered is not None
    return is_known and replica.topic_id != remembered


def temper(state: AgentState, topic_partition: TopicPartition, replica: Replica, verdict: StopVerdict) -> StopVerdict:
    """Of several candidates none is deleted by name alone, unless there is nothing in it or it was opened."""
    by_name = replica.topic_id is None and replica.files > 0 and replica.state is not ReplicaState.HOSTED
    if verdict is StopVerdict.DELETE and by_name and topic_partition in state.duplicates:
        return StopVerdict.SET_ASIDE
    return verdict


def forget(state: AgentState, topic_partition: TopicPartition, log_dir: str) -> Replica | None:
    """Forget the partition's directory in this log directory, which was renamed; returns what was known of it.

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
    """A log directory has failed: so have the duplicates in it."""
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


def _undecided(topic_partition: TopicPartition, rivals: list[Replica] | tuple[Replica, ...]) -> str:
    named = ", ".join(f"{each.log_dir}/{topic_partition} ({_whose(each)})" for each in rivals)
    return (
        f"several directories may be this partition's, and none was touched: {named}; move all but one away, best "
        f"those in the log directory that failed last, and restart the broker"
    )


def _whose(replica: Replica) -> str:
    if not replica.id_readable:
        return "its partition.metadata cannot be read"
    return "no topic id" if replica.topic_id is None else f"topic id {topic_id_to_text(replica.topic_id)}"
