"""Growing ISRs: a leader proposes the followers that have caught up.

With Kafka a leader knows how far a follower is, because the follower fetches from it. An agent serves no fetches, so it
goes by what the controller says, and takes for caught up, a delay after it was made leader, was given the follower, or
the follower's broker came back: each replica of the assignment outside the ISR whose broker is among the live ones of
the metadata cache and that the cache does not list as offline. What it cannot know is that a follower on a live broker
could not make its replica. The controller does: the follower's KAFKA_STORAGE_ERROR makes the replica offline, of which
UpdateMetadata tells well within the delay; should the proposal be faster, the controller shrinks the ISR again.

All partitions whose time has come go into one proposal, one is in flight at a time, and each gets its own outcome:

    ACCEPTED     the committed ISR is taken over
    PUT_BACK     the controller does not want that member now: asked again after the delay, as long as it is live
    UNANSWERED   nobody knows: asked anew (with what holds by then) after 50 ms, doubling up to 5 s
    GIVEN_UP     somebody knows better: nothing more is asked before the next LeaderAndIsr

An outcome for a replica that has meanwhile been told something else is not looked at. That a broker is gone is the
controller's to say: leaders never ask for a smaller ISR by itself. But they ask for nobody who is not there, since a
controller refuses that (another leader may have written a member back that the controller had taken out).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lethe.broker.core.effects import Effect, IsrChange, ProposeIsr, Record
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.broker.core.replica import Replica, ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.back_off import BackOff
from lethe.protocol.journal import Fact, FactType, JsonValue
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


def staying(state: AgentState, replica: Replica) -> tuple[int, ...]:
    """Members of the ISR whose brokers are among the live ones of the metadata cache, the leader in any case."""
    me = state.settings.broker_id
    return tuple(broker for broker in replica.isr if broker == me or broker in state.cache.brokers)


def controller_endpoint(state: AgentState) -> Endpoint | None:
    """Where the controller that the metadata cache names listens for brokers, as far as an agent can connect to it."""
    return state.cache.controller_endpoint(state.settings.inter_broker_listener)


def propose(state: AgentState, now_ms: int) -> list[Effect]:
    """Ask for all whose time has come, unless a proposal is in flight."""
    changes: list[IsrChange] = []
    while not state.proposed and not changes and (due := state.proposals.take(now_ms, MAX_CHANGES_PER_PROPOSAL)):
        for topic_partition in due:
            replica = state.replicas.get(topic_partition)
            if replica is None or replica.state is not ReplicaState.HOSTED or not replica.proposes:
                continue
            if added := members_to_add(state, topic_partition, replica):
                isr = (*staying(state, replica), *added)
                epochs = (replica.leader_epoch, replica.partition_epoch)
                changes.append(IsrChange(topic_partition, replica.topic_id, *epochs, isr))
    if not changes:
        return []
    state.proposed = tuple(changes)
    asks_controller = state.settings.inter_broker_protocol.has_alter_partition
    return [ProposeIsr(state.proposed, state.broker_epoch, controller_endpoint(state) if asks_controller else None)]


def take_outcomes(state: AgentState, outcomes: tuple[IsrOutcome, ...], now_ms: int) -> list[Effect]:
    """Book the proposal that was in flight."""
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
    """One fact for a proposal; of proposals that go unanswered in a row, only for the first."""
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
    return [Record(Fact(FactType.BROKER, f"broker/{state.settings.broker_id}", data))]
