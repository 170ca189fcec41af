"""Growing ISRs: a leader proposes the followers that have caught up.

With Kafka a leader knows how far a follower is, because the follower fetches from it. An agent serves no fetches, so it
relies on the controller. A follower counts as caught up a delay after the agent became leader, received the follower,
or the follower's broker came back, if its broker is live in the metadata cache and the cache does not list it as
offline. A follower on a live broker may have failed to make its replica. Its KAFKA_STORAGE_ERROR then makes the replica
offline, and UpdateMetadata reports that well within the delay; if the proposal is faster, the controller shrinks the
ISR again.

All partitions whose time has come go into one proposal, one is in flight at a time, and each gets its own outcome:

    ACCEPTED     the committed ISR is taken over
    PUT_BACK     the controller refuses that member now: proposed again after the delay, while it is live
    UNANSWERED   the outcome is unknown: proposed anew from the state of then, after 50 ms, doubling up to 5 s
    GIVEN_UP     the leadership is outdated: no proposal before the next LeaderAndIsr

An outcome is ignored if the replica has received another LeaderAndIsr since. The controller alone removes members of
lost brokers: leaders never propose only a smaller ISR. They do leave out members that are not live, because a
controller refuses those (another leader may have written back a member that the controller had removed).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lethe.broker.core.effects import Effect, IsrChange, ProposeIsr, Record
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.vocabulary import Endpoint, TopicPartition

MAX_CHANGES_PER_PROPOSAL: Final = 10_000
UNANSWERED_BACK_OFF: Final = BackOff(50, 5_000)


def members_to_add(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> tuple[int, ...]:
    """Followers outside the ISR that count as caught up, in the order of the assignment."""
    row = state.cache.topics.get(topic_partition.topic, {}).get(topic_partition.partition)
    offline = () if row is None else row.offline_replicas
    return tuple(
        broker
        for broker in replica.assignment
        if broker not in replica.isr and broker in state.cache.brokers and broker not in offline
    )


def live_isr(state: AgentState, replica: Replica) -> tuple[int, ...]:
    """ISR members whose brokers are live in the metadata cache, and the leader."""
    me = state.settings.broker_id
    return tuple(broker for broker in replica.isr if broker == me or broker in state.cache.brokers)


def controller_endpoint(state: AgentState) -> Endpoint | None:
    """The inter-broker endpoint of the controller in the metadata cache; None if an agent cannot connect to it."""
    return state.cache.controller_endpoint(state.settings.controller_listener)


def propose(state: AgentState, now_ms: int) -> list[Effect]:
    """Propose the ISRs that are due, unless a proposal is in flight."""
    changes: list[IsrChange] = []
    while not state.proposed and not changes and (due := state.proposals.take(now_ms, MAX_CHANGES_PER_PROPOSAL)):
        for topic_partition in due:
            replica = state.replicas.get(topic_partition)
            if replica is None or replica.state is not ReplicaState.HOSTED or not replica.proposes:
                continue
            if added := members_to_add(state, topic_partition, replica):
                isr = (*live_isr(state, replica), *added)
                epochs = (replica.leader_epoch, replica.partition_epoch)
                changes.append(IsrChange(topic_partition, replica.topic_id, *epochs, isr))
    if not changes:
        return []
    state.proposed = tuple(changes)
    asks_controller = state.settings.inter_broker_protocol.has_alter_partition
    return [ProposeIsr(state.proposed, state.broker_epoch, controller_endpoint(state) if asks_controller else None)]


def on_isr_proposed(state: AgentState, outcomes: tuple[IsrOutcome, ...], now_ms: int) -> list[Effect]:
    """Apply the outcomes of the proposal in flight."""
    changes, state.proposed = state.proposed, ()
    unanswered = any(outcome.verdict is IsrVerdict.UNANSWERED for outcome in outcomes)
    state.proposals_unanswered = state.proposals_unanswered + 1 if unanswered else 0
    again_ms = now_ms + UNANSWERED_BACK_OFF.wait_ms(state.proposals_unanswered)
    for change, outcome in zip(changes, outcomes, strict=True):
        state.isr_outcomes[outcome.verdict] += 1
        topic_partition = change.topic_partition
        replica = state.replicas.get(topic_partition)
        if replica is None or not replica.proposes or replica.state is not ReplicaState.HOSTED:
            continue
        if (replica.leader_epoch, replica.partition_epoch) != (change.leader_epoch, change.partition_epoch):
            continue
        match outcome.verdict:
            case IsrVerdict.ACCEPTED:
                replica = replica._replace(isr=outcome.isr, partition_epoch=outcome.partition_epoch)
                state.replicas[topic_partition] = replica
                if replica.has_followers_outside_isr and members_to_add(state, topic_partition, replica):
                    state.proposals.enter(topic_partition)
            case IsrVerdict.PUT_BACK:
                state.proposals.enter(topic_partition)
            case IsrVerdict.UNANSWERED:
                state.proposals.add(topic_partition, again_ms)
            case IsrVerdict.GIVEN_UP:
                state.replicas[topic_partition] = replica._replace(proposes=False)
    return _record(state, changes, outcomes)


def _record(state: AgentState, changes: tuple[IsrChange, ...], outcomes: tuple[IsrOutcome, ...]) -> list[Effect]:
    """Record one event record for the proposal; of consecutive unanswered ones, only for the first."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    if state.proposals_unanswered > 1 and counts[IsrVerdict.UNANSWERED] == len(outcomes):
        return []
    reasons: dict[JsonValue, None] = dict.fromkeys(outcome.reason for outcome in outcomes if outcome.reason)
    data: dict[str, JsonValue] = {
        "happened": "proposed ISR members",
        "partitions": len(changes),
        "outcomes": {verdict.value: counts[verdict] for verdict in IsrVerdict if counts[verdict]},
        "reasons": list(reasons)[:10],
    }
    return [Record(EventRecord(EventRecordType.BROKER, f"broker/{state.settings.broker_id}", data))]
