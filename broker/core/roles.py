"""What a replica does between two control requests: a follower fetches, a leader proposes ISR members.

An accepted LeaderAndIsr restarts the role, a StopReplica ends it. Both roles wait the same delay for a follower to
catch up, and read the metadata cache after it. A leader or follower that is not live then restarts the delay when an
UpdateMetadata reports it live.
"""

from __future__ import annotations

from lethe.broker.core.isr import members_to_add
from lethe.broker.core.replica import Replica
from lethe.broker.core.state import AgentState
from lethe.protocol.kafka.control import UpdateMetadataRequest
from lethe.protocol.vocabulary import TopicPartition


def begin_role(state: AgentState, topic_partition: TopicPartition) -> None:
    """Start the role that an accepted LeaderAndIsr gives the replica. The earlier role ends."""
    state.fills.drop(topic_partition)
    state.proposals.drop(topic_partition)
    replica = state.replicas[topic_partition]
    leads = replica.leader == state.settings.broker_id
    fetches = replica.leader >= 0 and not leads
    state.replicas[topic_partition] = replica._replace(fetches=fetches, proposes=leads)
    if fetches and not replica.filled:
        state.fills.enter(topic_partition)
    if leads and replica.has_followers_outside_isr:
        state.proposals.enter(topic_partition)


def end_role(state: AgentState, topic_partition: TopicPartition) -> None:
    """End the role after an accepted StopReplica."""
    state.fills.drop(topic_partition)
    state.proposals.drop(topic_partition)
    replica = state.replicas.get(topic_partition)
    if replica is not None and (replica.fetches or replica.proposes):
        state.replicas[topic_partition] = replica._replace(fetches=False, proposes=False)


def on_metadata_updated(state: AgentState, request: UpdateMetadataRequest, live_before: frozenset[int]) -> None:
    """Restart delays of replicas whose peers are live now; `live_before` are the live brokers before the request."""
    if any(broker not in live_before for broker in state.cache.brokers):
        for topic_partition, replica in state.replicas.items():
            _look_again(state, topic_partition, replica)
        return
    for topic in request.topics:
        if topic.topic in state.replicas_of_topic:
            for row in topic.partitions:
                topic_partition = TopicPartition(topic.topic, row.partition)
                if (known := state.replicas.get(topic_partition)) is not None:
                    _look_again(state, topic_partition, known)


def _look_again(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> None:
    if replica.fetches and not replica.filled and replica.leader in state.cache.brokers:
        state.fills.enter(topic_partition)
    if replica.proposes and replica.has_followers_outside_isr and members_to_add(state, topic_partition, replica):
        state.proposals.enter(topic_partition)
